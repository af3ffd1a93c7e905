"""Short texts labelled per second on one thread, raw strings in, and one at a time, beside scikit-learn; accuracy too.

Every classifier learns the same training sentences and labels the same test sentences in one run. Ours are ``tfidf``
and centrality attention in two sizes; scikit-learn's are ``LinearSVC`` on words and pairs of words, and on those and
character n-grams. Rates are medians over passes that alternate, in CPU seconds. ``predict`` is timed twice: bare, and
with its evidence (the words leaned on, and the deletion test, which costs some ten passes). One text at a time is timed
by the wall and by the processor's clock.

    python benchmarks/texts.py --data SST2 --vectors VECTORS [--json FILE]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import sklearn
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import LinearSVC

from ensue.data.texts import Texts, read_texts
from ensue.records import Text
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue_studies.results import provenance

WORDS = {"ngram_range": (1, 2), "sublinear_tf": True}
CHARACTERS = {"analyzer": "char_wb", "ngram_range": (3, 5), "sublinear_tf": True}
PASSES, ALONE = 7, 200


def learned(model: str, train: Texts, valid: Texts, **settings: object) -> ClassifyPredictor:
    """Return a trained predictor."""
    predictor = ClassifyPredictor(model, settings=settings)
    for _ in predictor.fit(train, valid):
        pass
    return predictor


def alone(run: Callable[[Sequence[Text]], list[str]], records: Sequence[Text]) -> dict[str, float]:
    """Return the median milliseconds of one text."""
    took = []
    for record in records[: ALONE + 20]:
        start_time = time.perf_counter()
        worked = time.process_time()
        run([record])
        took.append((1000 * (time.perf_counter() - start_time), 1000 * (time.process_time() - worked)))
    wall, processor = (round(statistics.median(clock), 2) for clock in zip(*took[20:], strict=True))
    return {"one_text_ms": wall, "one_text_cpu_ms": processor}


def main() -> None:
    """Learn, label and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    train, valid, test = (read_texts(next(args.data.glob(f"{part}*")))[0] for part in ("train", "dev", "test"))
    records = list(test.records())
    labels = [record.label for record in test.records()]
    torch.set_num_threads(1)
    network: dict[str, Any] = {"vectors": str(args.vectors), "epochs": args.epochs}
    predictors = {
        "tfidf": learned("tfidf", train, valid),
        "centrality": learned("centrality", train, valid, **network),
        "centrality, hidden=64": learned("centrality", train, valid, **network, hidden=64),
    }
    label: dict[str, Callable[[Sequence[Text]], list[str]]] = {}
    for name, predictor in predictors.items():
        for evidence in (False, True):
            label[f"{name}{', with evidence' if evidence else ''}"] = (
                lambda records, predictor=predictor, evidence=evidence: [  # type: ignore[misc]
                    answer.choices[0].value for answer in predictor.predict(records, 1, evidence=evidence)
                ]
            )
    vectorizers = {
        "words": TfidfVectorizer(**WORDS),
        "words and characters": make_union(TfidfVectorizer(**WORDS), TfidfVectorizer(**CHARACTERS)),
    }
    for name, vectorizer in vectorizers.items():
        pipeline = make_pipeline(vectorizer, LinearSVC())
        pipeline.fit([record.texts[0] for record in train.records()], [record.label for record in train.records()])
        label[f"scikit-learn, LinearSVC of {name}"] = lambda records, pipeline=pipeline: pipeline.predict(  # type: ignore[misc]
            [record.texts[0] for record in records]
        ).tolist()
    gc.collect()
    gc.freeze()  # as the service does once its models are read
    seconds: dict[str, list[float]] = {name: [] for name in label}
    answered: dict[str, list[str]] = {}
    for _ in range(PASSES):
        for name, run in label.items():
            start_time = time.process_time()
            answered[name] = run(records)
            seconds[name].append(time.process_time() - start_time)
    rows: list[dict[str, Any]] = []
    for name in label:
        right = statistics.fmean(a == b for a, b in zip(answered[name], labels, strict=True))
        rate = len(records) / statistics.median(seconds[name])
        row = {"model": name, "texts_per_cpu_second": round(rate), "accuracy": round(right, 4)}
        rows.append({**row, **alone(label[name], records)})
        print(rows[-1], flush=True)
    if args.json:
        about = {"texts": len(records), "epochs": args.epochs, "threads": torch.get_num_threads()}
        results = {**provenance(), **about, "scikit-learn": sklearn.__version__, "rows": rows}
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
