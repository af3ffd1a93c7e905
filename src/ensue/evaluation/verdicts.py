"""Paired tests of all pairs of rows of a table, on the same resampled data, corrected for the number of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

import numpy as np

from ensue.evaluation.bootstrap import BootstrapResult
from ensue.metrics import Floats
from ensue.significance import is_significant, normal_p_value


@dataclass(frozen=True, slots=True)
class Verdict:
    """Two models by one measure, the one with the higher figure first."""

    measure: str
    model: str
    other: str
    difference: float
    low: float
    """The middle 95 % of the difference, not corrected."""
    high: float
    p_value: float
    """Two-sided, by the spread of the resampled differences."""
    corrected: float
    """The same after Holm (1979) over all pairs of the table."""

    @property
    def sure(self) -> bool:
        """Whether the difference is significant after the correction."""
        return is_significant(self.corrected)

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {**asdict(self), "sure": self.sure}


def verdicts(names: Sequence[str], found: Sequence[BootstrapResult], measure: str) -> tuple[Verdict, ...]:
    """Every pair of some models, the surest first.

    Args:
        names: the models.
        found: of each, on the same resampled data.
        measure: by which they are compared.
    """
    pairs = []
    for one, other in combinations(range(len(names)), 2):
        ahead = found[one].by_name()[measure] >= found[other].by_name()[measure]
        first, second = (one, other) if ahead else (other, one)
        own = found[first].against(found[second], measure)
        spread = float(found[first].ahead(found[second], measure).std())
        level = normal_p_value(own["difference"], spread, found[first].num_units)
        pairs.append((names[first], names[second], own, level))
    corrected = holm(np.array([level for *_, level in pairs]))
    made = [
        Verdict(measure, model, other, own["difference"], own["low"], own["high"], level, float(whole))
        for (model, other, own, level), whole in zip(pairs, corrected, strict=True)
    ]
    return tuple(sorted(made, key=lambda verdict: (verdict.p_value, -verdict.difference)))


def holm(levels: Floats) -> Floats:
    """(tests,) p-values corrected by Holm's step-down method (Scand. J. Statist. 6, 1979).

    Of the p-values .01 .04 .03 these are .03 .06 .06: the least is taken three times, the next twice, and none may
    fall below one before it.
    """
    order = np.argsort(levels, kind="stable")
    steps = np.maximum.accumulate(levels[order] * np.arange(len(levels), 0, -1))
    corrected = np.empty(len(levels))
    corrected[order] = np.minimum(steps, 1.0)
    return corrected
