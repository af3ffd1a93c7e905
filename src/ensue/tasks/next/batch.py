"""Batches of padded histories: arrays for baselines, tensors for networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ensue.data.histories import Index, Mask, Times
from ensue.lazy import torch
from ensue.topk import Scores

if TYPE_CHECKING:
    from torch import Tensor


class ScoredBatch(NamedTuple):
    """Scores before normalising, (targets, ids), and the weights behind them, (batch, time, time) each."""

    scores: Scores
    weights: tuple[Scores, ...] = ()


class PaddedBatch(NamedTuple):
    """Padded histories and the steps whose next event is predicted.

    Attributes:
        ids: (batch, time) ids, padded with 0 at the end.
        mask: (batch, time) True where an event is.
        times: (batch, time) seconds as in the data; 0 where it has no clock.
        target_mask: (batch, time) True where the model predicts what follows this event.
        targets: (targets,) the ids that really followed, in row order; empty when they are not known.
        weights: (targets,) factors of their losses, whose mean over the training data is 1; ``None`` where all are 1.
        negatives: (targets, many) ids that each target was preferred to, filled up with padding; ``None`` without any.
    """

    ids: Index
    mask: Mask
    times: Times
    target_mask: Mask
    targets: Index
    weights: Scores | None = None
    negatives: Index | None = None

    @property
    def num_targets(self) -> int:
        """Number of target steps: the weight of this batch's mean loss."""
        return len(self.targets)

    @property
    def num_steps(self) -> int:
        """Number of target steps, whether their targets are known or not."""
        return int(np.count_nonzero(self.target_mask))

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch as tensors on a device; on the CPU they share its memory."""
        return Batch._make(None if array is None else torch.from_numpy(array) for array in self).to(device)

    def split(self, num_targets: int) -> Iterator[PaddedBatch]:
        """Yield the rows in parts of about ``num_targets`` target steps, one row at least, without their targets."""
        # Cut where the number of target steps passes a multiple of num_targets.
        chunk_numbers = self.target_mask.sum(1).cumsum() // num_targets
        sizes = np.unique(chunk_numbers, return_counts=True)[1]
        start = 0
        for size in sizes.tolist() or [0]:
            rows = slice(start, start + size)
            yield PaddedBatch(
                self.ids[rows], self.mask[rows], self.times[rows], self.target_mask[rows], self.targets[:0]
            )
            start += size


class Batch(NamedTuple):
    """The same as :class:`PaddedBatch` in tensors, for networks.

    Attributes:
        ids: (batch, time) ids, padded with 0 at the end.
        mask: (batch, time) True where an event is.
        times: (batch, time) float64 seconds as in the data; 0 where it has no clock. Float32 would blur the ages of
            histories that last longer than half a year.
        target_mask: (batch, time) True where the model predicts what follows this event.
        targets: (targets,) the ids that really followed, in row order; empty when they are not known.
        weights: (targets,) factors of their losses, whose mean over the training data is 1; ``None`` where all are 1.
        negatives: (targets, many) ids that each target was preferred to, filled up with padding; ``None`` without any.
    """

    ids: Tensor
    mask: Tensor
    times: Tensor
    target_mask: Tensor
    targets: Tensor
    weights: Tensor | None = None
    negatives: Tensor | None = None

    @property
    def num_targets(self) -> int:
        """Number of target steps: the weight of this batch's mean loss."""
        return int(self.targets.shape[0])

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on another device."""
        return Batch._make(None if tensor is None else tensor.to(device, non_blocking=True) for tensor in self)

    def arrays(self) -> PaddedBatch:
        """Return the batch as arrays, which share the memory of tensors on the CPU."""
        return PaddedBatch._make(None if tensor is None else tensor.cpu().numpy() for tensor in self)
