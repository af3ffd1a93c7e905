"""Models that papers compare with, on the same sessions: full ranking, the baselines and paired tests.

MovieLens 100k is split by time, a fifth of the users for testing. Of Diginetica the newest part of the training
sessions is used, and all test sessions. Each training holds out the newest tenth of its training sessions for early
stopping and is not repeated on all of them; other settings are the models' defaults. Trained models are kept in FOLDER:
the same command goes on where it was stopped, and models can be added.

    python benchmarks/comparison.py DATA FOLDER --models sasrec,esasrec [--seeds 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ensue.data.histories import Histories, hold_out
from ensue.data.sequences import read
from ensue.evaluation.comparison import compare
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.results import provenance, write_result

PART = 8
"""The newest 1 / PART of the training sessions of Diginetica are used."""
CUTOFFS = (10, 20)
METRICS = ("hit@10", "hit@20", "mrr", "ndcg@10")
OPTIONS: dict[tuple[str, str], dict[str, object]] = {("diginetica", "sr-gnn"): {"loss": "sampled"}}
"""Settings that are not a model's default; the softmax over all items takes SR-GNN four times as long."""


def movielens(data: Path) -> tuple[Histories, Histories]:
    """Return MovieLens 100k, split by time."""
    train, test, _ = hold_out(read(data / "sessions" / "ml-100k" / "ml-100k.inter.gz")[0], 0.2)
    return train, test


def diginetica(data: Path) -> tuple[Histories, Histories]:
    """Return the newest training sessions of Diginetica, and the test sessions."""
    train, test = (read(data / "sessions" / "diginetica" / f"{part}.txt.gz")[0] for part in ("train", "test"))
    return train.select(slice(len(train) - len(train) // PART, None)), test


SETS = {"ml-100k": movielens, "diginetica": diginetica}


def trained(folder: Path, train: Histories, name: str, model: str, seed: int) -> NextPredictor:
    """Return a model that was trained earlier, or train and save it."""
    path = folder / f"{name}-{model}-{seed}"
    if not path.is_dir():
        predictor = NextPredictor(
            model, settings={"refit": False, **OPTIONS.get((name, model), {})}, seed=seed, device="cpu"
        )
        for report in predictor.fit(train):
            if report.valid is not None:
                print(f"{path.name}: epoch {report.epoch}, MRR {report.valid:.4f}", file=sys.stderr, flush=True)
        predictor.save(path, "")
    return NextPredictor.load(path, device="cpu")


def compared(folder: Path, data: Path, name: str, models: Sequence[str], seeds: int) -> dict[str, Any]:
    """Return the rows of a data set, and the paired tests of its models and its best baseline."""
    train, test = SETS[name](data)
    entries = [[trained(folder, train, name, model, seed) for seed in range(seeds)] for model in models]
    result = compare(entries, test, cutoffs=CUTOFFS)
    epochs = {model: [run.metadata.epochs for run in runs] for model, runs in zip(models, entries, strict=True)}
    rows = []
    for row in result.rows:
        metrics = {metric: row.figures[metric] for metric in METRICS}
        intervals = {metric: list(row.interval[metric]) for metric in METRICS}
        rows.append({"model": row.model, **metrics, "interval": intervals, "epochs": epochs.get(row.model, [])})
    tested = {*models, result.best_baseline}
    pairs = [pair.to_dict() for metric in METRICS for pair in result.verdicts(metric)]
    return {
        "training_sessions": len(train),
        "test_sessions": len(test),
        "protocol": dict(result.card),
        "rows": rows,
        "paired_tests": [pair for pair in pairs if {pair["model"], pair["other"]} <= tested],
    }


def main() -> None:
    """Train what is missing, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path, help="of the trained models")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--models", default="sasrec,esasrec")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    sets = {
        name: compared(args.folder, args.data, name, args.models.split(","), args.seeds)
        for name in args.sets.split(",")
    }
    for name, found in sets.items():
        for row in found["rows"]:
            print(name, row["model"], *(f"{metric} {100 * row[metric]:.2f}" for metric in METRICS), row["epochs"])
        for pair in found["paired_tests"]:
            print(name, pair)
    if args.json:
        # Sets that were compared earlier stay.
        kept = json.loads(args.json.read_bytes())["sets"] if args.json.exists() else {}
        compared_now = {name: provenance() | {"seeds": args.seeds} | found for name, found in sets.items()}
        write_result(args.json, {"sets": kept | compared_now})


if __name__ == "__main__":
    main()
