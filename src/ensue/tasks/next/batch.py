"""Batch: what every model of task ``next`` reads."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


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
        """Return the batch on another device."""
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))
