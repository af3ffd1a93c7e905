"""How fast the random walk of a word graph mixes: |lambda_2|, Dobrushin's bound, and the steps of the power method.

Graphs are (batch, words, words) with columns of sum 1, as :mod:`ensue.nn.centrality` makes them; masks (batch, words)
are ``True`` at words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor

from ensue.nn.attention import masked_mean
from ensue.nn.blocks import Block
from ensue.nn.centrality import centrality
from ensue.nn.pooling import Pooled
from ensue.tasks.classify.neural import run
from ensue.tasks.classify.passages import PassageBatches
from ensue.tasks.classify.predictor import ClassifyPredictor

SAMPLE = 64
"""Number of texts whose word graphs are measured."""
_MAX_WORK = 2e7  # sum of cubed numbers of words over all graphs: the time that eigenvalues take


def _among_words(matrix: Tensor, mask: Tensor) -> Tensor:
    return matrix.masked_fill(~(mask[:, :, None] & mask[:, None, :]), 0.0)


@torch.no_grad()
def steps_to_converge(matrix: Tensor, mask: Tensor, tolerance: float = 1e-10, cap: int = 5000) -> Tensor:
    """Return (batch,) steps of the power method until p moves by at most ``tolerance`` in L1 (Fig. 4), or ``cap``."""
    matrix = _among_words(matrix, mask)
    share = masked_mean(mask, matrix.dtype)
    moving = mask.any(-1)
    num_steps = torch.zeros(len(mask), dtype=torch.int64, device=mask.device)
    while moving.any() and int(num_steps.max()) < cap:
        moved = (share[:, None] @ matrix.mT)[:, 0]
        num_steps += moving
        previous = share
        share = torch.where(moving[:, None], moved, share)
        moving = (share - previous).abs().sum(-1) > tolerance
    return num_steps


@torch.no_grad()
def second_eigenvalue(matrix: Tensor, mask: Tensor) -> Tensor:
    """Return (batch,) |lambda_2|, the rate at which the walk forgets its start.

    Near 0, the layer is plain self-attention. Computed in float64: A - p 1' has the eigenvalues of A, with 0 for 1.
    """
    matrix = _among_words(matrix, mask).double()
    deflated = matrix - centrality(matrix, mask)[..., None] * mask[:, None, :]
    return cast(Tensor, torch.linalg.eigvals(deflated)).abs().amax(-1)


@torch.no_grad()
def dobrushin(matrix: Tensor, mask: Tensor) -> Tensor:
    """Return (batch,) half the largest L1 distance of two columns, an upper bound of |lambda_2|."""
    # ``cdist`` compares rows, so the columns become rows.
    columns = _among_words(matrix, mask).mT.contiguous()
    distances = torch.cdist(columns, columns, p=1.0) * (mask[:, :, None] & mask[:, None, :])
    return distances.amax((1, 2)) / 2


def mixing_of(predictor: ClassifyPredictor, passages: PassageBatches) -> dict[str, float]:
    """Return mean |lambda_2| and Dobrushin's bound of the graphs of some texts; empty for poolings without a graph.

    Args:
        predictor: with a network, which may still be in training.
        passages: texts, of which an even sample is measured.
    """
    sample = np.linspace(0, len(passages) - 1, min(SAMPLE, len(passages))).astype(np.int64)
    batch = passages.batch(sample).to(predictor.device)
    output = run(predictor.network, batch, predictor.device)
    levels = {"": (batch.words, output.words), "sentences_": (batch.sentences, output.sentences)}
    return {
        f"{prefix}{name}": value
        for prefix, (blocks, pooled) in levels.items()
        for name, value in _means(blocks, pooled)
    }


def _means(blocks: Iterable[Block], pooled: Iterable[Pooled]) -> Iterator[tuple[str, float]]:
    values: list[tuple[float, float]] = []
    work = 0.0
    for block, pooling in zip(blocks, pooled, strict=True):
        if pooling.graph is None:
            continue
        max_rows = max(1, int((_MAX_WORK - work) / block.mask.shape[1] ** 3))  # longest first: they mix most slowly
        rows = (block.lengths >= 2).nonzero()[:max_rows, 0].to(block.mask.device)  # a single word has no |lambda_2|
        rows = rows[pooling.graph[rows].isfinite().flatten(1).all(1)]  # diverged weights leave NaN in a graph
        graph = pooling.graph[rows].float()
        mask = block.mask[rows]
        work += len(rows) * block.mask.shape[1] ** 3
        values += zip(second_eigenvalue(graph, mask).tolist(), dobrushin(graph, mask).tolist(), strict=True)
        if work >= _MAX_WORK:
            break
    if values:
        eigenvalue, bound = torch.tensor(values, dtype=torch.float64).mean(0).tolist()
        yield from (("second_eigenvalue", eigenvalue), ("dobrushin", bound))
