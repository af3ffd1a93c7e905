"""A log of training: accuracy after each epoch, and whether the word graph still says more than self-attention."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable

import numpy as np
import torch

from ensue.nn.centrality import dobrushin, second_eigenvalue
from ensue.nn.pooling import Pooled
from ensue.store.folder import write_file
from ensue.tasks.classify import infer
from ensue.tasks.classify.batch import Block
from ensue.tasks.classify.dataset import Passages
from ensue.tasks.classify.state import ClassifyState
from ensue.training.checkpoint import Checkpoint
from ensue.training.distributed import rank_and_size
from ensue.training.report import Report, Trained

COLLAPSED = 0.05
"""Mean |lambda_2| below which one step of the walk forgets its start, so that centrality is self-attention."""
SAMPLE = 64
"""Texts that are looked at."""
_WORK = 2e7  # words cubed, in all graphs together: the time that eigenvalues take


class Log:
    """Log of each epoch, stored next to the checkpoint, so that a killed run loses nothing.

    Args:
        checkpoint: of the run.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.path, resume = checkpoint.sibling("-log")
        self.epochs: dict[int, dict[str, float]] = {}
        if resume and self.path is not None and self.path.exists():
            self.epochs = {int(epoch): row for epoch, row in json.loads(self.path.read_bytes()).items()}

    def follow(
        self, reports: Generator[Report, None, Trained], measure: Callable[[], dict[str, float]]
    ) -> Generator[Report, None, Trained]:
        """Pass reports on, and note what each epoch's check finds."""
        while True:
            try:
                report = next(reports)
            except StopIteration as end:
                trained: Trained = end.value
                return trained
            if report.valid is not None:
                self.epochs[report.epoch] = {"accuracy": report.valid, "loss": report.loss, **measure()}
                if self.path is not None and not rank_and_size()[0]:
                    write_file(self.path, json.dumps(self.epochs).encode())
            yield report

    def rows(self) -> list[dict[str, float]]:
        """A row an epoch, in order."""
        return [{"epoch": epoch, **self.epochs[epoch]} for epoch in sorted(self.epochs)]


def mixing(state: ClassifyState, passages: Passages) -> dict[str, float]:
    """Mean |lambda_2| and Dobrushin bound of the graphs of some texts; empty for poolings without a graph.

    Args:
        state: with a network.
        passages: texts; an even sample of them is looked at.
    """
    sample = np.linspace(0, len(passages) - 1, min(SAMPLE, len(passages))).astype(np.int64)
    batch = passages.batch(sample).to(state.device)
    output = infer.run(state, batch)
    levels = {"": (batch.words, output.words), "sentences_": (batch.sentences, output.sentences)}
    measures: dict[str, float] = {}
    for prefix, (blocks, pooled) in levels.items():
        for name, value in _mixing(blocks, pooled).items():
            measures[f"{prefix}{name}"] = value
    return measures


def _mixing(blocks: Iterable[Block], pooled: Iterable[Pooled]) -> dict[str, float]:
    values: list[tuple[float, float]] = []
    work = 0.0
    for block, part in zip(blocks, pooled, strict=True):
        if part.graph is None:
            continue
        most = max(1, int((_WORK - work) / block.mask.shape[1] ** 3))  # longest first: they mix most slowly
        chosen = (block.lengths >= 2).nonzero()[:most, 0].to(block.mask.device)  # one word alone has no |lambda_2|
        chosen = chosen[part.graph[chosen].isfinite().flatten(1).all(1)]  # training that went astray has none
        graph, mask = part.graph[chosen].float(), block.mask[chosen]
        work += len(chosen) * block.mask.shape[1] ** 3
        values += zip(second_eigenvalue(graph, mask).tolist(), dobrushin(graph, mask).tolist(), strict=True)
        if work >= _WORK:
            break
    if not values:
        return {}
    eigenvalue, bound = torch.tensor(values, dtype=torch.float64).mean(0).tolist()
    return {"second_eigenvalue": eigenvalue, "dobrushin": bound}
