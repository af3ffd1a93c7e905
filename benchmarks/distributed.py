"""Two processes of `torchrun` against one process, a thread each: seconds an epoch of SANSR over 100,000 items.

The same made-up sessions are learned by one process, and then by two ranks on this machine; each has one thread, so
that two cores are at work on one side and one on the other. A batch is of 256 sessions, or more of a large log, as any
log is learned (``Schedule.fitted``). An epoch holds its check on held-out sessions, as always. The sides take turns, so
that a busy moment meets both; what a rank computes, in CPU seconds, stands beside, for on a machine that has other work
two ranks wait for each other.

    python benchmarks/distributed.py [--items 100000] [--clicks 1000000] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ensue.data.histories import Histories
from ensue.tasks.next.predictor import NextPredictor
from ensue.training.distributed import ranks
from ensue.vocabulary import FIRST, Vocabulary
from ensue_studies.results import provenance

MEAN, NEAR = 4, 20
"""Clicks a session; an item is followed, half the time, by one so far from it at most."""


def made_up(clicks: int, items: int) -> Histories:
    """Sessions of items of which few are popular; the same for the same sizes."""
    random = np.random.default_rng(0)
    lengths = random.geometric(1 / MEAN, clicks // MEAN).clip(2)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    drawn = (items * random.random(offsets[-1]) ** 3).astype(np.int64)
    near = np.roll(drawn, 1) + random.integers(1, NEAR, len(drawn))
    ids = np.where(random.random(len(drawn)) < 0.5, near % items, drawn) + FIRST
    ids[random.permutation(len(ids))[:items]] = (
        np.arange(items) + FIRST
    )  # every item occurs, so that the table has all of them
    return Histories(ids.astype(np.int32), offsets, Vocabulary(map(str, range(items))))


def child(clicks: int, items: int) -> None:
    """Train for one epoch as one of the ranks there are; the first prints what it took."""
    torch.set_num_threads(1)
    data = made_up(clicks, items)
    with ranks() as (rank, world):
        predictor = NextPredictor("sansr", settings={"epochs": 1, "refit": False}, seed=0, device="cpu")
        start_time = 0.0
        steps = 0.0
        cpu = 0.0
        epoch = 0.0
        for report in predictor.fit(data):
            if report.step == 1:
                start_time = time.perf_counter()
                cpu = time.process_time()
            if report.valid is None:
                steps = time.perf_counter() - start_time
            if report.stopped:
                epoch, cpu = report.seconds, time.process_time() - cpu
        if rank == 0:
            rounded = {"epoch": epoch, "steps_after_the_first": steps, "cpu_after_the_first_step": cpu}
            print(json.dumps({"ranks": world, **{name: round(spent, 2) for name, spent in rounded.items()}}))


def run(world: int, clicks: int, items: int) -> dict[str, Any]:
    """An epoch by so many processes; the launcher's own time does not count."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"] if world > 1 else []
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *launcher, __file__, "--child", f"--clicks={clicks}", f"--items={items}"],
            check=True, stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--clicks", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.clicks, args.items)
        return
    results: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(args.rounds):
        for world, rows in results.items():
            rows.append(run(world, args.clicks, args.items))
            print(rows[-1], file=sys.stderr)
    entry, two = (statistics.median(row["epoch"] for row in rows) for rows in results.values())
    one_cpu, two_cpu = (statistics.median(row["cpu_after_the_first_step"] for row in rows) for rows in results.values())
    result = {
        **provenance(),
        "items": args.items,
        "clicks": args.clicks,
        "one_process_seconds": round(entry, 2),
        "two_ranks_seconds": round(two, 2),
        "two_over_one": round(two / entry, 3),
        "cpu_of_a_rank_over_one": round(two_cpu / one_cpu, 3),
        "runs": [row for rows in results.values() for row in rows],
    }
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
