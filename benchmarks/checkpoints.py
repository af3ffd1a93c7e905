"""Peak memory of a training with checkpoints, against the same one without: a model that is one large table.

Each side is a process of its own: three epochs, a check after each of which the second is the best; on one side with a
checkpoint after every step, and a second training that goes on from the last one. Weights and moments are three times
the table.

    python benchmarks/checkpoints.py [--rows 1000000] [--dim 128] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ensue.data.histories import Index
from ensue.schedule import Schedule
from ensue.training.checkpoint import Checkpoint
from ensue.training.loop import train
from ensue.training.optimizer import make_optimizer
from ensue_studies.results import provenance


class Batch:
    """One target; nothing to move."""

    num_targets = 1

    def to(self, _: torch.device) -> Batch:
        return self


class Source:
    """One batch an epoch."""

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        return [np.zeros(1, np.int64)]

    def groups(self, targets: int) -> Iterator[Index]:
        yield np.zeros(1, np.int64)

    def batch(self, index: Index) -> Batch:
        return Batch()


class Table(nn.Module):
    """A table of which a batch touches few rows."""

    def __init__(self, rows: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, dim, sparse=True)

    def loss(self, _: Batch) -> Tensor:
        return self.table(torch.arange(10)).square().mean()


def child(rows: int, dim: int, checkpoint: Path | None) -> None:
    """Train, with checkpoints or without; prints the peak of this process."""
    model = Table(rows, dim)
    schedule = Schedule(epochs=3, weight_decay=0.0)
    start_time = time.perf_counter()
    for resume in (False, True) if checkpoint else (False,):
        figures = iter([3.0, 2.0, 5.0])
        valid = (lambda left=figures: next(left)) if checkpoint else None
        optimizer = make_optimizer(model, schedule)
        for _ in train(
            model, Source(), valid, schedule,
            optimizer=optimizer, seed=0, checkpoint=Checkpoint(checkpoint, resume), every_seconds=-1.0,
        ):  # fmt: skip
            pass
        del optimizer
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"peak_mb": round(peak), "seconds": round(time.perf_counter() - start_time, 1)}))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", type=Path, nargs="?", const=Path(), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        child(args.rows, args.dim, args.child if args.child.name else None)
        return
    command = [sys.executable, __file__, f"--rows={args.rows}", f"--dim={args.dim}", "--child"]
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, more in (("without", []), ("with", [f"{folder}/checkpoint"])):
            done = subprocess.run([*command, *more], check=True, stdout=subprocess.PIPE, text=True)
            results[name] = json.loads(done.stdout)
    result: dict[str, Any] = {
        **provenance(),
        "table_mb": round(args.rows * args.dim * 4 / 2**20),
        "without_checkpoints": results["without"],
        "with_checkpoints": results["with"],
        "peak_over_peak": round(results["with"]["peak_mb"] / results["without"]["peak_mb"], 2),
    }
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
