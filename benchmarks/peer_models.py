"""The peers of ``benchmarks/peers.py``, run by the interpreter of their environment: this file does not import ensue.

    PYTHON benchmarks/peer_models.py NAME TASK.json

Prints one line of JSON: what the peer was measured at, or that its package is not installed.
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PASSES, SINGLE, K = 5, 200, 20
Answers = list[list[str]]
Answer = Callable[[Sequence[Any]], Answers]


def measured(fit: Callable[[], Answer], queries: Sequence[Any], targets: Sequence[str]) -> dict[str, float]:
    """Return CPU seconds of the fit, answers per CPU second in one batch, milliseconds of one answer, and hits in %.

    Args:
        fit: trains the model, and returns a function from queries to the ranked answers of each.
        queries: raw queries.
        targets: (queries,) the true answer of each.
    """
    start_time = time.process_time()
    answer = fit()
    fitted = time.process_time() - start_time
    answer(queries[:20])
    seconds = []
    milliseconds = []
    for _ in range(PASSES):
        start_time = time.process_time()
        answers = answer(queries)
        seconds.append(time.process_time() - start_time)
    for query in queries[:SINGLE]:
        start_time = time.process_time()
        answer([query])
        milliseconds.append(1000 * (time.process_time() - start_time))
    hits = statistics.fmean(target in ranked for target, ranked in zip(targets, answers, strict=True))
    return {
        "fit_cpu_seconds": round(fitted, 2),
        "per_cpu_second": round(len(queries) / statistics.median(seconds)),
        "one_cpu_ms": round(statistics.median(milliseconds), 3),
        "hits": round(100 * hits, 2),
    }


def fit_implicit(training: Sequence[Sequence[str]]) -> Answer:
    """Return the nearest items by cosine, of implicit."""
    import numpy as np
    from implicit.nearest_neighbours import CosineRecommender
    from scipy.sparse import csr_matrix

    ids = {item: number for number, item in enumerate(dict.fromkeys(item for session in training for item in session))}
    names = list(ids)

    def matrix(sessions: Sequence[Sequence[str]]) -> csr_matrix:
        rows = [[ids[item] for item in session if item in ids] for session in sessions]
        columns = np.concatenate([np.array(row, np.int32) for row in rows])
        ends = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        return csr_matrix((np.ones(len(columns), np.float32), columns, ends), shape=(len(rows), len(ids)))

    model = CosineRecommender(K=100, num_threads=1)
    model.fit(matrix(training), show_progress=False)

    def answer(sessions: Sequence[Sequence[str]]) -> Answers:
        best, _ = model.recommend(
            np.arange(len(sessions)), matrix(sessions), N=K, filter_already_liked_items=False, recalculate_user=False
        )
        return [[names[item] for item in row if item >= 0] for row in best.tolist()]

    return answer


def fit_fasttext(training: Sequence[Sequence[str]]) -> Answer:
    """Return fastText's classifier of words and pairs of words."""
    import fasttext

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        path.write_text("".join(f"__label__{label} {text}\n" for text, label in training), encoding="utf-8")
        model = fasttext.train_supervised(str(path), thread=1, wordNgrams=2, epoch=10, verbose=0)

    def answer(texts: Sequence[str]) -> Answers:
        labels, _ = model.predict(list(texts))
        return [[row[0].removeprefix("__label__")] for row in labels]

    return answer


def fit_svc(training: Sequence[Sequence[str]]) -> Answer:
    """Return scikit-learn's linear support vector machine over tf-idf of words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LinearSVC())
    model.fit([text for text, _ in training], [label for _, label in training])
    return lambda texts: [[label] for label in model.predict(texts).tolist()]


def fit_bm25s(training: Sequence[Sequence[str]]) -> Answer:
    """Return BM25 of bm25s over articles, each an id and a text."""
    import bm25s

    tokens = bm25s.tokenize([text for _, text in training], stopwords="en", show_progress=False)
    names = [name for name, _ in training]
    model = bm25s.BM25()
    model.index(tokens, show_progress=False)

    def answer(texts: Sequence[str]) -> Answers:
        words = bm25s.tokenize(list(texts), stopwords="en", show_progress=False)
        rows, _ = model.retrieve(words, k=10, show_progress=False)
        return [[names[article] for article in row] for row in rows.tolist()]

    return answer


PEERS: dict[str, tuple[str, str, Callable[[Any], Answer]]] = {
    "implicit": ("next", "implicit", fit_implicit),
    "fastText": ("classify", "fasttext-community", fit_fasttext),
    "LinearSVC": ("classify", "scikit-learn", fit_svc),
    "bm25s": ("link", "bm25s", fit_bm25s),
}
"""Task, package and model of each peer."""


def main() -> None:
    """Measure one peer."""
    name, path = sys.argv[1:]
    _, package, fit = PEERS[name]
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        print(json.dumps({"missing": package}))
        return
    task = json.loads(Path(path).read_text("utf-8"))
    row = measured(lambda: fit(task["training"]), task["queries"], task["targets"])
    print(json.dumps({"version": version, **row}))


if __name__ == "__main__":
    main()
