"""A log of millions of clicks over a large catalogue: seconds of each part, clicks a second, and the peak of memory.

A made-up log of users, times and items is read in a fresh process, cut into sessions at pauses of 30 minutes, and
learned by SANSR (``sampled``) for one epoch. Reading and cutting are timed apart; the peak is of the whole process.

    python benchmarks/memory.py [--clicks 10000000] [--items 500000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import polars as pl

from ensue.data.sequences import read
from ensue.data.sequences.sessions import GAP, cut
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.results import provenance

MEAN, VISITS = 4, 3
"""Clicks a session; sessions a user."""
BEGIN, DAY = 1_700_000_000, 86_400
NEAR = 20
"""An item is followed, half the time, by one at most so far from it, so that there is something to learn."""


def write_clicks(path: Path, clicks: int, items: int) -> None:
    """Write ``user,item,time``, users together and each in order of time; few items are popular."""
    random = np.random.default_rng(0)
    lengths = random.geometric(1 / MEAN, clicks // (MEAN - 1) + 1)  # more than enough
    session = np.repeat(np.arange(len(lengths)), lengths)[:clicks]
    location = np.arange(len(session)) - np.searchsorted(session, session)
    drawn = (items * random.random(len(session)) ** 3).astype(np.int64)
    near = np.roll(drawn, 1) + random.integers(1, NEAR, len(session))
    item = np.where((location > 0) & (random.random(len(session)) < 0.5), near % items, drawn)
    begins = BEGIN + (session % VISITS) * DAY + random.integers(0, DAY // 4, len(lengths))[session]
    frame = {"user": session // VISITS, "item": item * 7 + 1000, "time": begins + 40 * location}
    pl.DataFrame(frame).write_csv(path)


def child(path: Path, model: str) -> dict[str, Any]:
    """Read, cut and learn, in this process."""
    start_time = time.perf_counter()
    users, _ = read(path, gap=0)
    seconds = {"read": time.perf_counter() - start_time}
    start_time = time.perf_counter()
    sessions = cut(users, GAP)
    seconds["cut"] = time.perf_counter() - start_time
    after_reading = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start_time = time.perf_counter()
    predictor = NextPredictor(model, settings={"epochs": 1, "refit": False}, seed=0, device="cpu")
    *_, last = predictor.fit(sessions)
    seconds["train"] = time.perf_counter() - start_time
    return {
        "clicks": len(sessions.ids),
        "items": len(sessions.vocabulary.values),
        "users": len(users),
        "sessions": len(sessions),
        "seconds": {part: round(spent, 1) for part, spent in seconds.items()},
        "epoch_seconds": round(predictor.seconds_an_epoch or 0.0, 1),
        "clicks_a_second": round(len(sessions.ids) / sum(seconds.values())),
        "validation_mrr": round(last.valid or 0.0, 4),
        "peak_mb_of_reading": after_reading // 1024,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clicks", type=int, default=10_000_000)
    parser.add_argument("--items", type=int, default=500_000)
    parser.add_argument("--model", default="sansr")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(args.child, args.model)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clicks.csv"
        write_clicks(path, args.clicks, args.items)
        megabytes = path.stat().st_size / 1e6
        command = [sys.executable, __file__, "--child", str(path), "--model", args.model]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    results = {**provenance(), "model": args.model, "file_mb": round(megabytes), **json.loads(done.stdout)}
    print(json.dumps(results, indent=1))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
