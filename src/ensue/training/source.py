"""What the loop asks of a model and of the data that it learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Index = npt.NDArray[np.int64]


class TrainingBatch(Protocol):
    """A batch: tensors that can be moved, and the number of terms in its mean loss."""

    @property
    def num_targets(self) -> int:
        """Number of targets."""
        ...

    def to(self, device: torch.device) -> TrainingBatch:
        """The same batch on another device."""
        ...


class Learner(Protocol):
    """What a module is to the loop."""

    def loss(self, batch: TrainingBatch) -> Tensor:
        """The mean over the batch's targets."""
        ...


class Source(Protocol):
    """Training data: a shuffled plan an epoch, and batches on demand."""

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        """The batches of an epoch, as index arrays; the same for the same seed."""
        ...

    def groups(self, targets: int) -> Iterator[Index]:
        """All the data once, in groups of about this many targets."""
        ...

    def batch(self, index: Index) -> TrainingBatch:
        """One batch on the CPU."""
        ...
