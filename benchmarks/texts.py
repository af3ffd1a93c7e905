"""Short texts labelled a second, raw strings in: centrality attention in two sizes beside scikit-learn, accuracy too.

Every classifier learns the same training sentences and labels the same test sentences, all cores, in one run;
scikit-learn's is ``TfidfVectorizer`` (words and pairs of words) with ``LogisticRegression``. The rates are medians over
passes that alternate. What ``predict`` returns is timed twice: bare, and with its evidence (the words leaned on, and
the deletion test, which costs some ten passes of the network). One text at a time is timed on one thread, by the wall
and by the processor's clock.

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
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from ensue.data.texts import Texts, read_texts
from ensue.records import Text
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue_studies.results import provenance

SIZES: dict[str, dict[str, object]] = {
    "centrality": {},
    "centrality, hidden=64": {"hidden": 64},
}
PASSES, ALONE = 5, 200


def learned(train: Texts, valid: Texts, vectors: Path, options: dict[str, object], epochs: int) -> ClassifyPredictor:
    """A trained predictor of ``options``."""
    predictor = ClassifyPredictor("centrality", settings={"vectors": str(vectors), "epochs": epochs, **options})
    for _ in predictor.fit(train, valid):
        pass
    return predictor


def alone(run: Callable[[Sequence[Text]], list[str]], records: Sequence[Text]) -> dict[str, float]:
    """Median milliseconds of one text on one thread."""
    threads, took = torch.get_num_threads(), []
    torch.set_num_threads(1)
    for record in records[: ALONE + 20]:
        begun, worked = time.perf_counter(), time.process_time()
        run([record])
        took.append((1000 * (time.perf_counter() - begun), 1000 * (time.process_time() - worked)))
    torch.set_num_threads(threads)
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
    records, labels = list(test.records()), [record.label for record in test.records()]
    label: dict[str, Callable[[Sequence[Text]], list[str]]] = {}
    for name, options in SIZES.items():
        predictor = learned(train, valid, args.vectors, options, args.epochs)
        for evidence in (False, True) if "precision" not in options else (False,):
            label[f"{name}{', with evidence' if evidence else ''}"] = (
                lambda asked, predictor=predictor, evidence=evidence: [  # type: ignore[misc]
                    answer.choices[0].value for answer in predictor.predict(asked, 1, evidence=evidence)
                ]
            )
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(max_iter=1000))
    pipeline.fit([record.texts[0] for record in train.records()], [record.label for record in train.records()])
    label["scikit-learn, TF-IDF + linear"] = lambda asked: pipeline.predict(
        [record.texts[0] for record in asked]
    ).tolist()
    gc.collect()
    gc.freeze()  # as the service does once its models are read
    seconds: dict[str, list[float]] = {name: [] for name in label}
    answered: dict[str, list[str]] = {}
    for _ in range(PASSES):
        for name, run in label.items():
            begun = time.perf_counter()
            answered[name] = run(records)
            seconds[name].append(time.perf_counter() - begun)
    rows: list[dict[str, Any]] = []
    for name in label:
        right = statistics.fmean(a == b for a, b in zip(answered[name], labels, strict=True))
        rate = len(records) / statistics.median(seconds[name])
        row = {"model": name, "texts_a_second": round(rate), "accuracy": round(right, 4)}
        rows.append({**row, **alone(label[name], records)})
        print(rows[-1], flush=True)
    if args.json:
        about = {"texts": len(records), "epochs": args.epochs, "threads": torch.get_num_threads()}
        found = {**provenance(), **about, "scikit-learn": sklearn.__version__, "rows": rows}
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
