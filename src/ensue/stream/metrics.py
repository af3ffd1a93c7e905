"""Metrics of a stream: HR@20 and MRR@20 of the model and of its baselines, by hour of the events' own time.

Each fresh event is ranked before it is trained on, among all items in the vocabulary. Ties count against the target. A
model trains on a chunk of events at a time: it misses an item that came first in the chunk. Baselines (recent
popularity and latest followers) count event by event: they miss only the first event of an item. Where a model has no
known context it answers with plain popularity, as it does everywhere.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field
from typing_extensions import TypedDict

from ensue import metrics
from ensue.data.clock import MILLISECONDS, SINCE_1970, format_time
from ensue.data.histories import Histories, Ids, Index, Times, offsets_of
from ensue.learning.state import Count
from ensue.metrics import MISS, Floats
from ensue.nn.validation import require_ids, require_offsets
from ensue.stream.sessions import Seen, require_times, targets
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
NUM_FOLLOWERS = 300
"""Latest followers of an item that are counted."""


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

    Attributes:
        counts: id to its number of events in the window; ids without events are missing.
    """

    def __init__(self, window: float) -> None:
        self.window = window
        self._ids, self._times = array("i"), array("d")
        self._begin = 0  # the first event of the window in the two columns
        self.counts: dict[int, int] = {}
        self._at_least = [0]  # of each count from 1, how many values have it or more; the rank of a value with it

    @property
    def name(self) -> str:
        """For tables."""
        return f"popular {self.window / 60:g} min" if self.window < 3600 else f"popular {self.window / 3600:g} h"

    def rank(self, value: int, num_ids: int, excluded: set[int]) -> float:
        """Return the rank of a value among ``num_ids`` ids but the excluded ones; an excluded value is a miss."""
        if value in excluded:
            return MISS
        count = self.counts.get(value, 0)
        # Ties count against the target: its rank is the number of values with its count or more.
        rank = self._at_least[count] if count else num_ids - FIRST
        return float(rank - sum(self.counts.get(other, 0) >= count for other in excluded))

    def add(self, value: int, seconds: float, clock: float) -> None:
        """Count an event, and forget what is older than the window."""
        if seconds >= clock - self.window:
            self._ids.append(value)
            self._times.append(seconds)
            count = self.counts[value] = self.counts.get(value, 0) + 1
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
        count = self.counts[value]
        self._at_least[count] -= 1
        if count > 1:
            self.counts[value] = count - 1
        else:
            del self.counts[value]

    def table(self) -> PopularTable:
        """Return the events of the window."""
        return PopularTable(np.array(self._ids[self._begin :], np.int32), np.array(self._times[self._begin :]))

    def restore(self, table: PopularTable, num_ids: int) -> None:
        """Continue a new window from what :meth:`table` returned.

        Raises:
            ValueError: the columns do not fit together, or hold an id that is in no vocabulary.
        """
        require_ids(f"{self.name}: ids", table.ids, num_ids, FIRST)
        require_times(f"{self.name}: times", table.times, len(table.ids))
        for value, seconds in zip(table.ids.tolist(), table.times.tolist(), strict=True):
            self.add(value, seconds, -np.inf)


class FollowerTable(NamedTuple):
    """Latest followers as a commit holds them: item i has ``ids[offsets[i]:offsets[i + 1]]``, the latest one last."""

    items: Ids
    offsets: Index
    ids: Ids


class Followers:
    """Latest followers of each item, before the event that is ranked.

    A target is ranked by how often it is among the latest ``NUM_FOLLOWERS`` that followed the event before it in a
    session, then by recent popularity.

    Args:
        popularity: recent popularity, counted elsewhere.
    """

    name = "followers"

    def __init__(self, popularity: RecentPopularity) -> None:
        self._popularity = popularity
        self._followers: dict[int, array[int]] = {}

    def rank(self, previous: int, value: int, num_ids: int, excluded: set[int]) -> float:
        """Return the rank of a value after another one; see :meth:`RecentPopularity.rank`."""
        if value in excluded:
            return MISS
        counts = Counter(self._followers.get(previous, ()))
        for other in excluded:
            counts.pop(other, None)
        if value not in counts:
            # All followers rank higher, and other values by recent popularity.
            return len(counts) + self._popularity.rank(value, num_ids, excluded.union(counts))
        recent_counts = self._popularity.counts
        least = counts[value], recent_counts.get(value, 0)
        # Ties count against the target, which is one of them itself.
        return float(sum((count, recent_counts.get(other, 0)) >= least for other, count in counts.items()))

    def add(self, previous: int, value: int) -> None:
        """Count a value that followed another one."""
        followers = self._followers.setdefault(previous, array("i"))
        followers.append(value)
        if len(followers) > NUM_FOLLOWERS:
            del followers[0]

    def forget(self, sessions: Iterable[Sequence[int]]) -> int:
        """Remove one follower for each pair of consecutive ids of some sessions; return how many were counted."""
        num_removed = 0
        for ids in sessions:
            for previous, value in pairwise(ids):
                with suppress(KeyError, ValueError):
                    self._followers[previous].remove(value)
                    num_removed += 1
        return num_removed

    def table(self) -> FollowerTable:
        """Return all followers."""
        followers = {item: ids for item, ids in self._followers.items() if ids}
        columns = [np.array(ids, np.int32) for ids in followers.values()]
        ids = np.concatenate([np.empty(0, np.int32), *columns])
        return FollowerTable(np.array([*followers], np.int32), offsets_of([*map(len, columns)]), ids)

    def restore(self, table: FollowerTable, num_ids: int) -> None:
        """Continue from what :meth:`table` returned.

        Raises:
            ValueError: the columns do not fit together, or hold an id that is in no vocabulary.
        """
        require_ids("followers: items", table.items, num_ids, FIRST)
        require_ids("followers: ids", table.ids, num_ids, FIRST)
        require_offsets("followers: offsets", table.offsets, len(table.ids), len(table.items))
        require_ids("followers: lengths", np.diff(table.offsets), NUM_FOLLOWERS + 1, 1)
        bounds = zip(table.items.tolist(), pairwise(table.offsets.tolist()), strict=True)
        self._followers = {item: array("i", table.ids[low:high].tobytes()) for item, (low, high) in bounds}
        if len(self._followers) < len(table.items):
            raise ValueError("followers: an item occurs twice")


class BaselineTable(NamedTuple):
    """Baselines as a commit holds them: windows of recent popularity by name, and latest followers."""

    popular: dict[str, PopularTable]
    followers: FollowerTable


class StreamBaselines:
    """Baselines that are reported next to the model: recent popularity over each window, and latest followers."""

    def __init__(self) -> None:
        self.windows = [RecentPopularity(window) for window in WINDOWS]
        self.followers = Followers(self.windows[0])

    def ranks(self, events: Seen, num_ids: int, targets: Index, excluded: Sequence[Ids]) -> dict[str, Floats]:
        """Return the ranks of some events by each baseline, each by what came just before it, and count all events.

        Args:
            events: in order of arrival.
            num_ids: ids that were known before the first of them; the ids of new values follow in order.
            targets: (targets,) which events are ranked.
            excluded: (targets,) the ids that each target's ranking leaves out; a target among them is a miss.

        Returns:
            Name to (targets,) ranks.
        """
        rows = {event: row for row, event in enumerate(targets.tolist())}
        names = [*(window.name for window in self.windows), self.followers.name]
        ranks = np.full((len(names), len(targets)), MISS)
        columns = zip(*(column.tolist() for column in events), strict=True)
        for event, (value, seconds, clock, previous) in enumerate(columns):
            row = rows.get(event)
            if row is not None and value < num_ids:
                hidden = set(excluded[row].tolist())
                ranks[:-1, row] = [window.rank(value, num_ids, hidden) for window in self.windows]
                ranks[-1, row] = self.followers.rank(previous, value, num_ids, hidden)
            # A new value gets the next id, and can be ranked from its second event on.
            num_ids = max(num_ids, value + 1)
            for window in self.windows:
                window.add(value, seconds, clock)
            if previous != UNKNOWN:
                self.followers.add(previous, value)
        return dict(zip(names, ranks, strict=True))

    def see(self, events: Seen) -> None:
        """Count events without ranking them."""
        self.ranks(events, 0, np.empty(0, np.int64), ())

    def table(self) -> BaselineTable:
        """Return all that is counted."""
        return BaselineTable({window.name: window.table() for window in self.windows}, self.followers.table())

    def restore(self, table: BaselineTable | None, num_ids: int) -> None:
        """Continue from what :meth:`table` returned.

        Raises:
            ValueError: counts are missing, columns do not fit together, or hold an id that is in no vocabulary.
        """
        if table is None:
            raise ValueError("baselines are missing")
        for window in self.windows:
            if window.name not in table.popular:
                raise ValueError(f"{window.name} is missing")
            window.restore(table.popular[window.name], num_ids)
        self.followers.restore(table.followers, num_ids)
