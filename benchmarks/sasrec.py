"""SASRec here and in RecTools: the same data, sizes, loss, steps and rule of early stopping.

MovieLens 100k, split by time: the newest fifth of the users are test data, the newest tenth of the others validation
data. Training histories are cut into runs of 51 events, which both programs read as 50 inputs and 50 targets. Every
event of a test user but the first is a target; items that the user has rated already are no candidates, and targets
that the training data lacks are not scored. RecTools runs in an environment of its own:

    python -m venv peers && peers/bin/pip install rectools pytorch-lightning==2.5.5
    python benchmarks/sasrec.py ml-100k.inter.gz --peers peers/bin/python [--seeds 3] [--json FILE]

Seeds that FILE has already are not trained again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ensue import metrics
from ensue.data.histories import Histories, hold_out
from ensue.data.sequences import read
from ensue.metrics import Floats
from ensue.records import History
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.training_data import Exclusion
from ensue_studies.results import provenance

LENGTH = 50
EPOCHS, CHECK_EVERY, PATIENCE = 200, 10, 3
"""Epochs at most, epochs between two checks on the validation users, and checks without a better one."""
SHARED = {"dropout": 0.2, "dim": 64, "heads": 1, "num_layers": 2, "batch_size": 128, "learning_rate": 1e-3}
PEER = {
    "dropout": "dropout_rate",
    "dim": "n_factors",
    "heads": "n_heads",
    "num_layers": "n_blocks",
    "learning_rate": "lr",
}
"""Their names in RecTools."""
LOSSES = {"bce": {"loss": "BCE", "n_negatives": 1}, "ce": {"loss": "softmax"}}
CUTOFFS = (10, 20)
METRICS = ("hit@10", "ndcg@10", "mrr@20")


def pieces(histories: Histories) -> Histories:
    """Return histories cut into runs of 51 events, each of which begins with the last event of the one before."""
    records = []
    for record in histories.records():
        starts = range(0, max(1, len(record.values) - 1), LENGTH)
        spans = [slice(start, start + LENGTH + 1) for start in starts]
        records += [History(record.values[span], record.times[span]) for span in spans]
    return Histories.of(records)


def our_ranks(train: Histories, valid: Histories, test: Histories, loss: str, seed: int) -> Floats:
    """Return the rank of every target that is in the training data."""
    settings = {
        **SHARED, "loss": loss, "max_length": LENGTH, "epochs": EPOCHS, "check_every": CHECK_EVERY,
        "patience": PATIENCE, "min_steps": 0, "beta2": 0.98, "refit": False,
    }  # fmt: skip
    predictor = NextPredictor("sasrec", settings=settings, seed=seed, device="cpu")
    for report in predictor.fit(train, valid):
        if report.valid is not None:
            print(f"seed {seed}, epoch {report.epoch}: {report.valid:.4f}", file=sys.stderr, flush=True)
    ranks, _, events = predictor.ranks(test.encode(predictor.vocabulary), exclusion=Exclusion.SEEN)
    return ranks[np.argsort(events)]


def main() -> None:
    """Train both programs and print their metrics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--peers", default=sys.executable, help="Python of the environment of RecTools")
    parser.add_argument("--losses", default=",".join(LOSSES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    train, test, _ = hold_out(read(args.data)[0], 0.2)
    train, valid, _ = hold_out(train)
    train = pieces(train)
    earlier = json.loads(args.json.read_text())["rows"] if args.json and args.json.exists() else []
    rows: list[dict[str, Any]] = []
    for loss in args.losses.split(","):
        done = {row["model"]: row for row in earlier if row["loss"] == loss}
        num_done = min((len(row[METRICS[0]]) for row in done.values()), default=0)
        seeds = range(num_done, args.seeds)
        ours = [our_ranks(train, valid, test, loss, seed) for seed in seeds]
        version, theirs = peer_ranks(args.peers, loss, seeds, train, valid, test)
        for model, runs in (("ensue sasrec", ours), (f"RecTools {version} SASRec", theirs)):
            means = [metrics.rank_metrics(ranks, CUTOFFS) for ranks in runs]
            columns = {name: [round(100 * float(run[name].mean()), 2) for run in means] for name in METRICS}
            kept = done.get(model) or {"targets": len(runs[0])} | {name: [] for name in METRICS}
            columns = {name: kept[name][:num_done] + values for name, values in columns.items()}
            rows.append({"loss": loss, "model": model, "targets": kept["targets"], **columns})
            print(rows[-1])
    if args.json:
        args.json.write_text(json.dumps({**provenance(), "seeds": args.seeds, "rows": rows}, indent=1) + "\n")


def peer_ranks(
    python: str, loss: str, seeds: range, train: Histories, valid: Histories, test: Histories
) -> tuple[str, list[Floats]]:
    """Return the version of RecTools, and by seed the rank of every target that is in the training data."""
    settings = {PEER.get(name, name): value for name, value in SHARED.items()} | LOSSES[loss]
    parts = {"training": train, "validation": valid, "test": test}
    task = {
        **{name: [list(record.values) for record in part.records()] for name, part in parts.items()},
        "settings": {**settings, "session_max_len": LENGTH, "pos_encoding_kwargs": {"use_scale_factor": True}},
        "epochs": EPOCHS,
        "check_every": CHECK_EVERY,
        "patience": PATIENCE,
        "seeds": list(seeds),
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task.json"
        file.write_text(json.dumps(task), "utf-8")
        command = [python, str(Path(__file__).with_name("peer_sasrec.py")), str(file)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    return result["version"], [np.array([rank for rank in ranks if rank], float) for ranks in result["ranks"]]


if __name__ == "__main__":
    main()
