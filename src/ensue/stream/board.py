"""The figures of a stream, by hour of the events' own time: HR@20 and MRR@20 of the model and of each rival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field
from typing_extensions import TypedDict

from ensue import metrics
from ensue.data.histories import Times
from ensue.data.time_summary import MILLISECONDS
from ensue.metrics import Floats
from ensue.tasks.metadata import Count

AT = 20
HOUR = 3600.0
ROWS = 20_000
"""Hours that are kept: more than two years; beyond that the earliest are dropped."""
Sums: TypeAlias = tuple[Count, Count, Annotated[float, Field(ge=0, le=2**62)]]
"""Targets answered, hits, and the sum of reciprocal ranks."""


class HourState(TypedDict):
    """An hour as a commit holds it."""

    hour: Annotated[int, Field(ge=-int(MILLISECONDS / HOUR), le=int(MILLISECONDS / HOUR))]
    events: Count
    targets: Count
    sums: dict[str, Sums]


class HourFigures(TypedDict):
    """An hour as it is shown; it begins ``begins`` seconds after 1970."""

    begins: float
    events: int
    targets: int
    figures: dict[str, dict[str, float]]


@dataclass
class Hour:
    """One hour: what came, and by name the sums behind the figures."""

    hour: int
    events: int = 0
    targets: int = 0
    sums: dict[str, Sums] = field(default_factory=dict)

    def figures(self) -> dict[str, dict[str, float]]:
        """HR@20 and MRR@20 of everyone who answered."""
        return {
            name: {"hr@20": hits / answered, "mrr@20": reciprocals / answered}
            for name, (answered, hits, reciprocals) in self.sums.items()
            if answered
        }

    def add(self, name: str, sums: Sums) -> None:
        """Add to somebody's sums."""
        (answered, hits, reciprocals), old = sums, self.sums.get(name, (0, 0, 0.0))
        self.sums[name] = old[0] + answered, old[1] + hits, old[2] + reciprocals

    def to_dict(self) -> HourFigures:
        """As shown."""
        begins = self.hour * HOUR
        return HourFigures(begins=begins, events=self.events, targets=self.targets, figures=self.figures())


class Board:
    """All hours."""

    def __init__(self) -> None:
        self.hours: dict[int, Hour] = {}

    def add(self, times: Times, targets: Times, ranks: Mapping[str, Floats]) -> None:
        """Count a batch.

        Args:
            times: (events,) seconds of all events.
            targets: (targets,) seconds of those that were predicted.
            ranks: name to (targets,) ranks.
        """
        for hour, events in _tally(times, None):
            self._row(hour).events += int(events)
        for hour, count in _tally(targets, None):
            self._row(hour).targets += int(count)
        for name, rank in ranks.items():
            measures = np.ones_like(rank), metrics.hit(rank, AT), metrics.reciprocal_rank(rank, AT)
            columns = [_tally(targets, measure) for measure in measures]
            for (hour, answered), (_, hits), (_, reciprocals) in zip(*columns, strict=True):
                self._row(hour).add(name, (int(answered), int(hits), reciprocals))

    def rows(self) -> list[Hour]:
        """The hours in order."""
        return [self.hours[hour] for hour in sorted(self.hours)]

    def total(self) -> Hour:
        """All hours as one."""
        whole = Hour(0)
        for row in self.rows():
            whole.events += row.events
            whole.targets += row.targets
            for name, sums in row.sums.items():
                whole.add(name, sums)
        return whole

    def state(self) -> list[HourState]:
        """All hours, for :meth:`restore`."""
        return [HourState(hour=row.hour, events=row.events, targets=row.targets, sums=row.sums) for row in self.rows()]

    def restore(self, state: list[HourState]) -> None:
        """Put back what :meth:`state` gave."""
        self.hours = {row["hour"]: Hour(**row) for row in state}

    def _row(self, hour: int) -> Hour:
        if hour not in self.hours:
            self.hours[hour] = Hour(hour)
            if len(self.hours) > ROWS:
                del self.hours[min(self.hours)]
        return self.hours[hour]


def _tally(times: Times, weights: Floats | None) -> list[tuple[int, float]]:
    """(hour, sum) of some weights, or of how many there are: times 10 3599 3600 give (0, 2) and (1, 1)."""
    hours, places = np.unique(np.floor(times / HOUR).astype(np.int64), return_inverse=True)
    return list(zip(hours.tolist(), np.bincount(places, weights, len(hours)).tolist(), strict=True))
