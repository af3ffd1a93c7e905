"""What every ``next`` model reads and returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ensue.nn.item_head import item_scores

EVERY = slice(None)
"""All ids."""


class Batch(NamedTuple):
    """Padded histories and the steps whose next event is predicted.

    Attributes:
        ids: (batch, time) ids, padded with 0 at the end.
        mask: (batch, time) True where an event is.
        times: (batch, time) float64 seconds as in the data; 0 where it has no clock. Float32 would blur the ages of
            histories that last longer than half a year.
        target_mask: (batch, time) True where the model predicts what follows this event.
        targets: (targets,) the ids that really followed, in row order; empty when they are not known.
    """

    ids: Tensor
    mask: Tensor
    times: Tensor
    target_mask: Tensor
    targets: Tensor

    @property
    def num_targets(self) -> int:
        """Number of target steps: the weight of this batch's mean loss."""
        return int(self.targets.shape[0])

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))


class Output(NamedTuple):
    """Scores before normalising, (targets, ids), and the attention weights behind them."""

    scores: Tensor
    weights: tuple[Tensor, ...] = ()


class Product(NamedTuple):
    """Scores that are products, before they are multiplied: of target t and id v ``queries[t] @ rows(v) + bias[v]``."""

    queries: Tensor
    """(targets, dim)."""
    rows: Callable[[Tensor | slice], Tensor]
    """From ids to the vectors that stand for them, (…, dim)."""
    bias: Tensor | None = None
    """(ids,)."""
    weights: tuple[Tensor, ...] = ()
    """As in :class:`Output`."""
    cells: tuple[Tensor, Tensor] | None = None
    """Target x ids + id of scores to which something is added, each once and rising, and what: float32."""
    lately: tuple[Tensor, float] | None = None
    """(ids,) logarithms of shares that are mixed with the chances, -inf for none, and of the share that those keep."""

    def output(self) -> Output:
        """All of them, where nothing is added: padding and unknown at -inf."""
        return Output(item_scores(self.queries, self.rows(EVERY), self.bias), self.weights)
