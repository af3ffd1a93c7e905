"""The bootstrap: test data is drawn anew, the same for all models, and of each model its seeds are drawn anew too.

What is drawn together is a unit: a sequence, a session, a group of texts, an article with its posts. The orders of
drawing differ in how the same random numbers are shared out; figures that were printed under one stay with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.significance import resampled_p_value

RESAMPLES = 1000
Order = Literal["in turn", "units first"]
"""``in turn``: a resample's units, then its seeds, then the next one. ``units first``: all units, then all seeds."""


@dataclass(frozen=True, eq=False)
class BootstrapResult:
    """The measures ``names`` of one model.

    Args:
        names: the measures.
        by_seed: (seeds, measures).
        draws: (resamples, measures); draw number r is of the same test data for all models.
        num_units: number of units that are resampled, where it is known.
    """

    names: tuple[str, ...]
    by_seed: Floats
    draws: Floats
    num_units: int | None = None

    @property
    def figures(self) -> Floats:
        """(measures,) means over the seeds."""
        means: Floats = self.by_seed.mean(0)
        return means

    def by_name(self) -> dict[str, float]:
        """The means, by measure."""
        return dict(zip(self.names, self.figures.tolist(), strict=True))

    def interval(self) -> dict[str, tuple[float, float]]:
        """The middle 95 % of each measure."""
        low, high = np.percentile(self.draws, [2.5, 97.5], axis=0)
        return dict(zip(self.names, zip(low.tolist(), high.tolist(), strict=True), strict=True))

    def centred(self, most: float | Sequence[float] = 1.0) -> BootstrapResult:
        """The draws moved so that their mean lies on the figures, and kept within 0 and ``most``."""
        return replace(self, draws=np.clip(self.draws - self.draws.mean(0) + self.figures, 0.0, most))

    def ahead(self, other: BootstrapResult, measure: str) -> Floats:
        """(resamples,) how far it is ahead of another on the same draws."""
        column = self.names.index(measure)
        return self.draws[:, column] - other.draws[:, column]

    def p_value(self, other: BootstrapResult, measure: str) -> float:
        """Return the two-sided p-value of the difference to another model on the same draws."""
        return resampled_p_value(self.ahead(other, measure), self.num_units)

    def against(self, other: BootstrapResult, measure: str) -> dict[str, float]:
        """How far it is ahead on the same draws: difference, its 95 %, the ratio, and the two-sided p."""
        column, ahead = self.names.index(measure), self.ahead(other, measure)
        low, high = np.percentile(ahead, [2.5, 97.5])
        own, its = self.figures[column], other.figures[column]
        ratio = own / its if its else float("inf")
        found = {"difference": own - its, "low": low, "high": high, "ratio": ratio}
        found["p_value"] = self.p_value(other, measure)
        return {name: float(value) for name, value in found.items()}


def resample(
    seeds: Sequence[int],
    units: int,
    figures: Callable[[Floats], Iterable[Floats]],
    *,
    order: Order,
    resamples: int = RESAMPLES,
) -> list[Floats]:
    """(resamples, measures) of each model, on the same draws for all of them; means over the seeds that are drawn.

    Args:
        seeds: how many each model has.
        units: how many the test data has.
        figures: of each model (seeds, draws, measures), from (draws, units) how often each unit is drawn.
        order: of drawing; ``in turn`` asks for the figures of one draw at a time and holds no more.
        resamples: how often.
    """
    parts: list[list[Floats]] = [[] for _ in seeds]
    for times, chosen in _drawn(units, seeds, order, resamples):
        for part, draws, own in zip(parts, figures(times), chosen, strict=True):
            part.append(over_seeds(draws, own))
    return [np.concatenate(part) for part in parts]


def _drawn(units: int, seeds: Sequence[int], order: Order, resamples: int) -> Iterator[tuple[Floats, list[Index]]]:
    """(draws, units) how often each unit is drawn, and of each model which (draws, seeds); in one part or many."""
    random = np.random.default_rng(0)
    for _ in range(resamples if order == "in turn" else 1):
        num = 1 if order == "in turn" else resamples
        drawn = [np.bincount(random.integers(units, size=units), minlength=units) for _ in range(num)]
        yield np.stack(drawn).astype(np.float64), [random.integers(many, size=(num, many)) for many in seeds]


def drawn_apart(units: int, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """(resamples, units) how often each unit is drawn, for models that are resampled one by one."""
    times = np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), resamples)
    return times.astype(np.float64)


def seeds_apart(draws: Floats) -> Floats:
    """(resamples, measures) from the (seeds, resamples, measures) of one model: seeds drawn by themselves."""
    return over_seeds(draws, np.random.default_rng(1).integers(len(draws), size=draws.shape[:2]).T)


def over_seeds(draws: Floats, chosen: Index) -> Floats:
    """(draws, measures) means over the (draws, seeds) that are chosen of (seeds, draws, measures)."""
    means: Floats = draws[chosen.T, np.arange(len(chosen))].mean(0)
    return means
