"""The most frequent label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_ids, require_table
from ensue.tasks.classify.dataset import Sides


@dataclass(eq=False)
class Majority:
    """Frequencies of the labels, whatever the text.

    Attributes:
        counts: (labels,) number of texts of each.
    """

    counts: Index
    num_texts: Annotated[int, Field(ge=0, lt=MAX_COUNT)] = 0
    sets: bool = False
    """True if a text may have several labels, or none."""

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: one is no count.
        """
        require_table("counts", self.counts, np.int64, [None])
        require_ids("counts", self.counts, MAX_COUNT)

    def count(self, sides: Sides, targets: Index) -> None:
        """Count labels."""
        counts = targets.sum(0) if self.sets else np.bincount(targets, minlength=len(self.counts))
        self.counts = self.counts + counts
        self.num_texts += len(targets)

    def probabilities(self) -> Floats:
        """Return the relative frequency of each label, (labels,)."""
        return self.counts / (self.num_texts if self.sets else self.counts.sum())

    def scores(self, sides: Sides) -> Floats:
        """Return logarithms of the relative frequencies, (texts, labels)."""
        with np.errstate(divide="ignore"):  # a label of another part of the data may have no text here
            logs = np.log(self.probabilities())
        if self.sets:
            # The odds of each label, by the rule of succession so that those of none and of all are finite.
            logs = np.log((self.counts + 1) / (self.num_texts - self.counts + 1))
        return np.tile(logs, (len(sides[0]), 1))

    def attributions(self, sides: Sides, labels: Index) -> Floats:
        """Return zeros: no word matters."""
        return np.zeros(sum(len(tokens.ids) for tokens in sides))

    def grow(self, num_words: int) -> None:
        """Do nothing: no word matters."""
