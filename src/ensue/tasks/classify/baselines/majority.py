"""The most frequent label."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_ids, require_table
from ensue.tasks.classify.dataset import Sides


class Majority:
    """The shares of the labels, whatever the text.

    Args:
        num_labels: number of labels.
    """

    def __init__(self, num_labels: int) -> None:
        self.counts = torch.zeros(num_labels, dtype=torch.int64)

    def count(self, sides: Sides, targets: Index) -> None:
        """Count labels."""
        self.counts = self.counts + torch.from_numpy(targets).bincount(minlength=len(self.counts))

    def shares(self) -> Tensor:
        """(labels,) in float64."""
        return self.counts.double() / self.counts.sum()

    def scores(self, sides: Sides) -> Tensor:
        """(texts, labels) logarithms of the shares."""
        return self.shares().log().repeat(len(sides[0]), 1)

    def attributions(self, sides: Sides, labels: Index) -> Floats:
        """No word matters."""
        return np.zeros(sum(len(tokens.ids) for tokens in sides))

    def grow(self, num_words: int) -> None:
        """No word matters."""

    def tensors(self) -> dict[str, Tensor]:
        """All that was learned."""
        return {"counts": self.counts}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`tensors` gave.

        Raises:
            ValueError: it is not of these labels.
        """
        counts = tensors["counts"]
        require_table("majority.counts", counts, torch.int64, [len(self.counts)])
        require_ids("majority.counts", counts, MAX_COUNT)
        if not bool(counts.any()):
            raise ValueError("majority.counts counts no text")
        self.counts = counts
