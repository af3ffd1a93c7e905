"""Seconds a training step of a flat BiLSTM classifier under each pooling, as ratios to self-attention in one run.

The sizes are the paper's (Gong et al. 2020, Table 2): vectors 300 wide, 300 + 300 hidden units, 50 inside the scores,
batches of 64; the classifier has a hidden layer of 300. Lengths are made up like those of SST (mean 19, largest 52),
and then 200 each. The paper reports 5 times the time of attentive pooling on Yelp-14.

The second table times the eigenvector alone, forward and backward, on random graphs of these lengths: one solve beside
the paper's 200 steps and 20 taped ones, and Theorem 2's series after the same 200.

    python benchmarks/pooling.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.centrality import centrality, connections
from ensue.nn.pooling import POOLINGS, Pooling
from ensue.studies.provenance import provenance

BATCH, DIM, CLASSES = 64, 300, 5
REPEATS = {"sst": 15, "200": 4}


class Classifier(nn.Module):
    """BiLSTM, pooling, dense layer, scores of the classes."""

    def __init__(self, pooling: Callable[..., Pooling]) -> None:
        super().__init__()
        self.lstm = nn.LSTM(DIM, DIM, batch_first=True, bidirectional=True)
        self.pooling = pooling(2 * DIM)
        self.dense, self.output = nn.Linear(self.pooling.width, DIM), nn.Linear(DIM, CLASSES)

    def loss(self, words: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(words, mask.sum(1), batch_first=True, enforce_sorted=False)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return functional.cross_entropy(self.output(self.dense(self.pooling(hidden, mask).vector).tanh()), labels)


def made_up(kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """(batch, words, dim) vectors, mask and labels: gamma lengths of mean 19 and deviation 9 up to 52, or 200 each."""
    torch.manual_seed(0)
    shape = torch.distributions.Gamma(torch.tensor((19 / 9) ** 2), torch.tensor(19 / 9**2))
    lengths = shape.sample((BATCH,)).round().clamp(2, 52).long() if kind == "sst" else torch.full((BATCH,), 200)
    lengths[0] = 52 if kind == "sst" else 200
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    return torch.randn(*mask.shape, DIM) * mask[..., None], mask, torch.randint(CLASSES, (BATCH,))


def train(model: Classifier, batch: tuple[Tensor, Tensor, Tensor]) -> None:
    model.zero_grad()
    model.loss(*batch).backward()  # type: ignore[no-untyped-call]


def find(scores: Tensor, mask: Tensor, keywords: dict[str, Any]) -> None:
    matrix = connections(scores, mask).requires_grad_()
    centrality(matrix, mask, **keywords).square().sum().backward()  # type: ignore[no-untyped-call]


def seconds(runs: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each run; they take turns, so that a busy moment meets them all."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            found[name].append(time.perf_counter() - begun)
    return {name: times[1:] for name, times in found.items()}


def rows(kind: str, runs: dict[str, Callable[[], None]], peer: str) -> list[dict[str, Any]]:
    """One row a run, printed: the median, the spread, and the median of the ratios to ``peer`` in the same turn."""
    found = []
    times = seconds(runs, REPEATS[kind])
    for name, own in times.items():
        ratio = statistics.median(mine / theirs for mine, theirs in zip(own, times[peer], strict=True))
        spread = [round(1e3 * min(own), 1), round(1e3 * max(own), 1)]
        row = {"lengths": kind, "what": name, "ms": round(1e3 * statistics.median(own), 1), "spread": spread}
        found.append({**row, f"over_{peer}": round(ratio, 2)})
        print(found[-1])
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    tables: dict[str, list[dict[str, Any]]] = {"training": [], "eigenvector": []}
    paper = {"tolerance": 0.0, "cap": 200, "steps": 20}
    methods = {name: {"method": name, **paper} for name in ("solve", "power", "series")}
    for kind in REPEATS:
        batch = made_up(kind)
        models = {name: Classifier(pooling) for name, pooling in POOLINGS.items()}
        tables["training"] += rows(
            kind, {name: partial(train, model, batch) for name, model in models.items()}, "self-attention"
        )
        scores = torch.randn(BATCH, batch[1].shape[1], batch[1].shape[1])
        tables["eigenvector"] += rows(
            kind, {name: partial(find, scores, batch[1], how) for name, how in methods.items()}, "solve"
        )
    if args.json:
        found = {**provenance(), "threads": torch.get_num_threads(), "tables": tables}
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
