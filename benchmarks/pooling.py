"""Seconds of a training step of a flat text classifier under each pooling, as ratios to self-attention in one run.

The sizes are the paper's (Gong et al. 2020, Table 2): vectors 300 wide, 300 + 300 hidden units, 50 inside the scores,
batches of 64. Lengths are made up like those of SST (gamma of mean 19 and deviation 9, up to 52), and then 200 each.
The paper reports 5 times the time of attentive pooling on Yelp-14.

The second table times the eigenvector alone, forward and backward, on random graphs of these lengths: one solve beside
the paper's 200 steps and 20 taped ones.

    python benchmarks/pooling.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import torch
from torch import Tensor

from ensue.nn.centrality import centrality, connections
from ensue.nn.pooling import POOLINGS
from ensue_studies.centrality import LENGTHS, step_times
from ensue_studies.results import provenance

DIM, LONG, REPEATS = 300, 200, 15
METHODS = ("solve", "power")


def find(scores: Tensor, mask: Tensor, method: Any) -> None:
    """The eigenvector and its gradient; no early stop, as many steps as the paper's cap."""
    matrix = connections(scores, mask).requires_grad_()
    shares = centrality(matrix, mask, method=method, tolerance=0.0, cap=200, steps=20)
    shares.square().sum().backward()  # type: ignore[no-untyped-call]


def eigenvectors(kind: str, lengths: Tensor) -> list[dict[str, Any]]:
    """One row a method; they take turns, so that a busy moment meets them all."""
    torch.manual_seed(0)
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    scores = torch.randn(*mask.shape, mask.shape[1])
    results: dict[str, list[float]] = {method: [] for method in METHODS}
    for _ in range(REPEATS):
        for method in METHODS:
            start_time = time.perf_counter()
            find(scores, mask, method)
            results[method].append(time.perf_counter() - start_time)
    rows = []
    for method, own in results.items():
        ratio = statistics.median(mine / peer for mine, peer in zip(own, results["solve"], strict=True))
        middle = 1e3 * statistics.median(own)
        rows.append(
            {"lengths": kind, "method": method, "milliseconds": round(middle, 2), "over_solve": round(ratio, 2)}
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    lengths = {"like SST": LENGTHS["like SST"].astype(np.int64), f"{LONG} each": np.full(64, LONG)}
    tables = {
        "training": step_times(list(POOLINGS), {}, lengths, dim=DIM, repeats=REPEATS),
        "eigenvector": [row for kind, sizes in lengths.items() for row in eigenvectors(kind, torch.from_numpy(sizes))],
    }
    for rows in tables.values():
        print(*rows, sep="\n")
    if args.json:
        results = {**provenance(), "threads": torch.get_num_threads(), "tables": tables}
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
