"""A model's figures in a study: the mean over its seeds, and the same on every resampled test set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ensue.evaluation.paired_test import p_value
from ensue.evaluation.rows import intervals
from ensue.metrics import Floats


@dataclass(frozen=True, eq=False)
class BootstrapResult:
    """The measures ``names`` of one model.

    Args:
        names: the measures.
        by_seed: (seeds, measures).
        draws: (resamples, measures); draw number r is of the same test data for all models.
    """

    names: tuple[str, ...]
    by_seed: Floats
    draws: Floats

    @property
    def figures(self) -> Floats:
        """(measures,) means over the seeds."""
        means: Floats = self.by_seed.mean(0)
        return means

    def interval(self) -> dict[str, tuple[float, float]]:
        """95 % of each measure."""
        return dict(zip(self.names, intervals(self.draws), strict=True))

    def against(self, other: BootstrapResult, measure: str) -> dict[str, float]:
        """How far it is ahead on the same draws: difference, its 95 %, the ratio, and the two-sided p."""
        column = self.names.index(measure)
        ahead = self.draws[:, column] - other.draws[:, column]
        low, high = np.percentile(ahead, [2.5, 97.5])
        own, its = self.figures[column], other.figures[column]
        ratio = own / its if its else float("inf")
        found = {"difference": own - its, "low": low, "high": high, "ratio": ratio, "p_value": p_value(ahead)}
        return {name: float(value) for name, value in found.items()}
