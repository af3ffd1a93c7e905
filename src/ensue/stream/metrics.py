"""Metrics of a stream: HR@20 and MRR@20 of the model and of recent popularity, by hour of the events' own time.

Each fresh event is ranked before it is trained on, among all items in the vocabulary. Ties count against the target. A
model trains on a chunk of events at a time: it misses an item that came first in the chunk. Recent popularity counts
event by event: it misses only the first event of an item. Where a model has no known context it answers with plain
popularity, as it does everywhere.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field
from typing_extensions import TypedDict

from ensue import metrics
from ensue.data.clock import MILLISECONDS, SINCE_1970, format_time
from ensue.data.histories import Histories, Ids, Index, Times
from ensue.learning.state import Count
from ensue.metrics import MISS, Floats
from ensue.nn.validation import require_ids
from ensue.stream.sessions import require_times, targets
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import FIRST, UNKNOWN

AT = 20
HOUR = 3600.0
ROWS = 20_000
"""Hours that are kept: more than two years; beyond that the earliest are dropped."""
Sums: TypeAlias = tuple[Count, Count, Annotated[float, Field(ge=0, le=2**62)]]
"""Targets answered, hits, and the sum of reciprocal ranks."""


class HourFigures(TypedDict):
    """An hour as it is shown; it begins ``begins`` seconds after 1970."""

    begins: float
    events: int
    targets: int
    figures: dict[str, dict[str, float]]


@dataclass
class Hour:
    """One hour as a commit holds it: what came, and by name the sums behind the figures."""

    hour: Annotated[int, Field(ge=-int(MILLISECONDS / HOUR), le=int(MILLISECONDS / HOUR))]
    events: Count = 0
    targets: Count = 0
    sums: dict[str, Sums] = field(default_factory=dict)

    @property
    def begins(self) -> str:
        """Time at which the hour begins, as text."""
        seconds = self.hour * HOUR
        return format_time(seconds, "h", absolute=seconds > SINCE_1970)

    def figures(self) -> dict[str, dict[str, float]]:
        """HR@20 and MRR@20 of everyone who answered."""
        return {
            name: {"hr@20": hits / answered, "mrr@20": reciprocals / answered}
            for name, (answered, hits, reciprocals) in self.sums.items()
            if answered
        }

    def add(self, name: str, sums: Sums) -> None:
        """Add to somebody's sums."""
        (answered, hits, reciprocals) = sums
        old = self.sums.get(name, (0, 0, 0.0))
        self.sums[name] = old[0] + answered, old[1] + hits, old[2] + reciprocals

    def to_dict(self) -> HourFigures:
        """Return the hour as it is shown."""
        begins = self.hour * HOUR
        return HourFigures(begins=begins, events=self.events, targets=self.targets, figures=self.figures())


class Board:
    """Hourly metrics.

    Args:
        rows: hours of an earlier board.
    """

    def __init__(self, rows: Iterable[Hour] = ()) -> None:
        self.hours = {row.hour: row for row in rows}

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
        total = Hour(0)
        for row in self.rows():
            total.events += row.events
            total.targets += row.targets
            for name, sums in row.sums.items():
                total.add(name, sums)
        return total

    def _row(self, hour: int) -> Hour:
        if hour not in self.hours:
            self.hours[hour] = Hour(hour)
            if len(self.hours) > ROWS:
                del self.hours[min(self.hours)]
        return self.hours[hour]


def _tally(times: Times, weights: Floats | None) -> list[tuple[int, float]]:
    """(hour, sum) of some weights, or of how many there are: times 10 3599 3600 give (0, 2) and (1, 1)."""
    # rows[i] is the position of event i's hour in hours, so bincount sums per hour.
    hours, rows = np.unique(np.floor(times / HOUR).astype(np.int64), return_inverse=True)
    return list(zip(hours.tolist(), np.bincount(rows, weights, len(hours)).tolist(), strict=True))


WINDOWS = (900, 3600, 21600)
"""Seconds of recent popularity; it is counted over each, since which is best differs from stream to stream."""
LIMIT = 1_000_000
"""Latest events a window holds at most."""


def model_ranks(predictor: NextPredictor, histories: Histories, context: Index, num_ids: int) -> Floats:
    """Return the (targets,) ranks of the fresh events that follow something, in order.

    Args:
        predictor: the model that learns from the stream.
        histories: sessions in the ids of the stream.
        context: (sessions,) number of leading events that are old.
        num_ids: number of ids before the batch; newer ones are ``UNKNOWN`` to the model.
    """
    times = histories.times if histories.timed and predictor.metadata.timed else np.empty(0)
    # Items that came first in this chunk are unknown to the model that predicts it.
    ids = np.where(histories.ids < num_ids, histories.ids, UNKNOWN).astype(np.int32)
    in_vocabulary = Histories(ids, histories.offsets, predictor.vocabulary, times)
    exclusion = predictor.metadata.ruled_out
    target_ranks, _, events = predictor.ranks(in_vocabulary, exclusion=exclusion, context=context, approximate=True)
    # An event that the model did not rank is a miss.
    ranks = np.full(len(ids), MISS)
    ranks[events] = target_ranks
    return ranks[targets(histories, context)]


class PopularTable(NamedTuple):
    """Events of a window of recent popularity as a commit holds them: (events,) ids and seconds, as they arrived."""

    ids: Ids
    times: Times


class RecentPopularity:
    """Counts of each item in the last seconds of the stream's clock, before the event that is ranked.

    Events are forgotten in the order in which they came; one that comes later than the window is long does not count.

    Args:
        window: seconds.
    """

    def __init__(self, window: float) -> None:
        self.window = window
        self._ids, self._times = array("i"), array("d")
        self._begin = 0  # the first event of the window in the two columns
        self._counts: dict[int, int] = {}
        self._at_least = [0]  # of each count from 1, how many values have it or more; the rank of a value with it

    @property
    def name(self) -> str:
        """For tables."""
        return f"popular {self.window / 60:g} min" if self.window < 3600 else f"popular {self.window / 3600:g} h"

    def ranks(
        self, ids: Ids, times: Times, clocks: Times, num_ids: int, targets: Index, excluded: Sequence[Ids]
    ) -> Floats:
        """Return the ranks of some events, each by the counts just before it, and count all of them.

        Args:
            ids: (events,) in order of arrival.
            times: (events,) their seconds.
            clocks: (events,) the stream's clock after each.
            num_ids: ids that were known before the first of them; the ids of new values follow in order.
            targets: (targets,) which events are ranked.
            excluded: (targets,) the ids that each target's ranking leaves out; a target among them is a miss.
        """
        rows = {event: row for row, event in enumerate(targets.tolist())}
        ranks = np.full(len(targets), MISS)
        columns = zip(ids.tolist(), times.tolist(), clocks.tolist(), strict=True)
        for event, (value, seconds, clock) in enumerate(columns):
            row = rows.get(event)
            if row is not None and value < num_ids:
                ranks[row] = self._rank(value, num_ids, set(excluded[row].tolist()))
            # A new value gets the next id, and can be ranked from its second event on.
            num_ids = max(num_ids, value + 1)
            self._count(value, seconds, clock)
        return ranks

    def see(self, ids: Ids, times: Times, clocks: Times) -> None:
        """Count events without ranking them; see :meth:`ranks`."""
        self.ranks(ids, times, clocks, 0, np.empty(0, np.int64), ())

    def _rank(self, value: int, num_ids: int, excluded: set[int]) -> float:
        if value in excluded:
            return MISS
        count = self._counts.get(value, 0)
        # Ties count against the target: its rank is the number of values with its count or more.
        rank = self._at_least[count] if count else num_ids - FIRST
        return float(rank - sum(self._counts.get(other, 0) >= count for other in excluded))

    def _count(self, value: int, seconds: float, clock: float) -> None:
        """Add an event, and forget what is older than the window."""
        if seconds >= clock - self.window:
            self._ids.append(value)
            self._times.append(seconds)
            count = self._counts[value] = self._counts.get(value, 0) + 1
            if count == len(self._at_least):
                self._at_least.append(0)
            # One more value has this count; it still has all smaller ones.
            self._at_least[count] += 1
        size = len(self._ids)
        while self._begin < size and (self._times[self._begin] < clock - self.window or size - self._begin > LIMIT):
            self._forget(self._ids[self._begin])
            self._begin += 1
        if self._begin > LIMIT:  # the columns are cut rarely: it moves all that is left
            del self._ids[: self._begin], self._times[: self._begin]
            self._begin = 0

    def _forget(self, value: int) -> None:
        count = self._counts[value]
        self._at_least[count] -= 1
        if count > 1:
            self._counts[value] = count - 1
        else:
            del self._counts[value]

    def table(self) -> PopularTable:
        """Return the events of the window."""
        return PopularTable(np.array(self._ids[self._begin :], np.int32), np.array(self._times[self._begin :]))

    def restore(self, table: PopularTable, num_ids: int) -> None:
        """Continue from what :meth:`table` returned.

        Raises:
            ValueError: the columns do not fit together, or hold an id that is in no vocabulary.
        """
        require_ids(f"{self.name}: ids", table.ids, num_ids, FIRST)
        require_times(f"{self.name}: times", table.times, len(table.ids))
        self._ids, self._times = array("i"), array("d")
        self._begin = 0
        self._counts = {}
        self._at_least = [0]
        for value, seconds in zip(table.ids.tolist(), table.times.tolist(), strict=True):
            self._count(value, seconds, -np.inf)
