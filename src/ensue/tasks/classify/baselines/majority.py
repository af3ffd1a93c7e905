"""The most frequent label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_ids, require_table
from ensue.tasks.classify.dataset import Sides


@dataclass(eq=False)
class Majority:
    """The shares of the labels, whatever the text.

    Attributes:
        counts: (labels,) texts of each.
    """

    counts: Annotated[Tensor, torch.int64]

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: one is none.
        """
        require_table("counts", self.counts, torch.int64, [None])
        require_ids("counts", self.counts, MAX_COUNT)

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
