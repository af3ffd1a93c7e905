"""Open sessions: which context each event has, and which events are late, repeated, or the first of a new session.

Every decision is made an event at a time, in order of arrival, from state that is committed with the position: how the
stream happened to be cut into blocks, stops and restarts changes none of them.

* **Repeated**: its ``id`` is among those of the latest 200,000 events; without one, its session, value and time are.
  It is dropped.
* **Far away**: its time lies far from the stream's clock (:mod:`ensue.stream.clock`). It waits or is rejected.
* **Late**: before the latest event of its session. It takes its place in the context and is learned, but not scored,
  for the answer to it would know what came after. One from before all that is held of the session is only counted.
* **A new session** begins after a pause longer than ``gap``. A session ends then, or when the stream's clock has moved
  on by as much, or when too many are open: the one untouched for longest.

Sessions and ids are held by 64-bit digests, so that no names of people stand in a model folder.

Each partition of a source has open sessions and a clock of its own: what becomes of an event does not depend on how far
another partition was read.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from ensue.data.clock import MILLISECONDS
from ensue.data.histories import Histories, Ids, Index, Times, concat_histories, offsets_of, ranges
from ensue.nn.validation import MAX_COUNT, require_ids, require_number, require_totals
from ensue.stream.clock import Event, Rejection, StreamClock
from ensue.tasks.next.reservoir import require_histories
from ensue.vocabulary import FIRST, UNKNOWN, Vocabulary

LATEST = 50
"""Events a session that are held."""
MAX_OPEN = 200_000
"""Open sessions."""
RECENT = 200_000
"""Latest events that a repeat is recognised by."""
LONG = 64
"""Fresh events of a session that are asked about at once."""
NUM_DRAW_PARTS = 10_000
"""A share of the sessions is drawn in so many parts."""
Seconds = Annotated[float, Field(ge=-MILLISECONDS, le=MILLISECONDS)]
"""A time that an event can have."""


@dataclass(eq=False)
class HistoryTable:
    """Histories as a commit holds them: each has an event, and each event a time.

    Attributes:
        ids: (events,) history after history.
        offsets: (histories + 1,) history ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.
        times: (events,) seconds.
    """

    ids: Ids
    offsets: Index
    times: Times

    def __post_init__(self) -> None:
        """Check that the columns fit together.

        Raises:
            ValueError: they do not.
        """
        require_histories("", self.ids, self.offsets, self.times)
        require_times("times", self.times, len(self.ids))
        require_ids("lengths", np.diff(self.offsets), MAX_COUNT, 1)

    @classmethod
    def of(cls, histories: Histories) -> HistoryTable:
        """Return the table of timed histories."""
        return cls(histories.ids, histories.offsets, histories.times)

    def histories(self, vocabulary: Vocabulary) -> Histories:
        """Return the histories.

        Raises:
            ValueError: an id is not in the vocabulary.
        """
        require_ids("ids", self.ids, len(vocabulary), FIRST)
        return Histories(self.ids, self.offsets, vocabulary, self.times)


@dataclass(eq=False)
class SessionTable:
    """The open sessions of one partition as a commit holds them, all but the events that wait in columns.

    Attributes:
        names: (sessions,) digests of their names, the one untouched for longest first.
        lengths: (sessions,) number of events of each.
        fresh: (sessions,) number of its latest events that are part of the chunk.
        ids: (events,) session after session.
        times: (events,) seconds.
        arrivals: (fresh events,) which events of the chunk these are.
        touched: names of the sessions with fresh events.
        recent: digests of the latest events.
        latest: times behind the clock.
        waiting: events that wait for others, because their times are far from the clock.
    """

    names: Index
    lengths: Index
    fresh: Index
    ids: Ids
    times: Times
    arrivals: Index
    touched: Index
    recent: Index
    latest: Times
    waiting: tuple[Event, ...] = ()

    def require_fit(self, chunk: Chunk) -> None:
        """Check that the columns fit together and the chunk, whoever wrote them.

        Raises:
            ValueError: they do not, or an id is in no vocabulary.
        """
        require_sessions("sessions", self.ids, self.times, self.lengths, self.fresh, self.arrivals, chunk)
        if len(self.names) != len(self.lengths):
            raise ValueError("sessions: names and lengths do not fit together")
        require_times("sessions: latest", self.latest)


@dataclass
class SessionColumns:
    """Sessions with fresh events, in columns: history i is ``context[i]`` events of context, then the fresh ones.

    Of one session a b | c and one of d | e f (fresh after the bar):
    ``ids`` a b c d e f, ``lengths`` 3 3, ``context`` 2 1. ``arrivals`` numbers c e f in their order of arrival.
    """

    ids: list[int] = field(default_factory=list)
    times: list[Seconds] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)

    def add(
        self, ids: Sequence[int], times: Sequence[float], context: int, name: int = 0, arrivals: Sequence[int] = ()
    ) -> None:
        """One more session, the digest of its name, and which events of the chunk its fresh ones are."""
        self.names.append(name)
        self.ids.extend(ids)
        self.times.extend(times)
        self.lengths.append(len(ids))
        self.context.append(context)
        self.arrivals.extend(arrivals)

    def sample(self, share: float) -> Index:
        """Which of them are in a share of all, drawn by their names: a session is in it for as long as it goes on."""
        # Names are digests, so that their remainders are uniform.
        return np.flatnonzero(np.array(self.names, np.int64) % NUM_DRAW_PARTS < share * NUM_DRAW_PARTS)

    def histories(self, vocabulary: Vocabulary) -> tuple[Histories, Index]:
        """The sessions in columns, and (sessions,) how many leading events of each are context."""
        offsets = offsets_of(self.lengths)
        ids, times = np.array(self.ids, np.int32), np.array(self.times, np.float64)
        return Histories(ids, offsets, vocabulary, times), np.array(self.context, np.int64)


class Seen(NamedTuple):
    """The events of a chunk as the baselines and the model count them.

    Attributes:
        ids: (events,) in order of arrival.
        times: (events,) their seconds.
        clocks: (events,) the stream's clock after each.
        previous_ids: (events,) the id before each in its session; ``UNKNOWN`` for the first one and for late events.
    """

    ids: Ids
    times: Times
    clocks: Times
    previous_ids: Ids

    def require_fit(self, name: str, num_ids: int) -> None:
        """Check that the columns fit together; ``name`` begins the message.

        Raises:
            ValueError: they do not, or hold an id that is not below ``num_ids``.
        """
        require_ids(f"{name}: ids", self.ids, num_ids, FIRST)
        require_ids(f"{name}: previous_ids", self.previous_ids, num_ids, UNKNOWN)
        for column, times in (("times", self.times), ("clocks", self.clocks)):
            require_times(f"{name}: {column}", times, len(self.ids))
        if len(self.previous_ids) != len(self.ids):
            raise ValueError(f"{name}: ids and previous_ids do not fit together")


@dataclass
class Chunk:
    """Events that are scored by one model and then learned together, in order of arrival; a commit holds it as it is.

    Attributes:
        vocabulary: the ids of the values from before the chunk; no field of a commit.
        new_values: ids of values that came in it for the first time.
        scored: to be scored, then learned.
        late: to be learned only: each ends with its late event, all before it is context.
        closed: sessions that ended.
        ids: (events,) of all that count, late ones included.
        times: (events,) their seconds.
        clocks: (events,) the stream's clock after each.
        previous_ids: (events,) the id before each in its session; see :class:`Seen`.
        rejections: events whose times are far from all others.
        num_late: events that came late.
        num_repeated: events that were dropped.
        num_opened: sessions that began.
    """

    vocabulary: Vocabulary = field(init=False)
    new_values: dict[str, int] = field(default_factory=dict)
    scored: SessionColumns = field(default_factory=SessionColumns)
    late: SessionColumns = field(default_factory=SessionColumns)
    closed: SessionColumns = field(default_factory=SessionColumns)
    ids: list[int] = field(default_factory=list)
    times: list[Seconds] = field(default_factory=list)
    clocks: list[Seconds] = field(default_factory=list)
    previous_ids: list[int] = field(default_factory=list)
    rejections: list[Rejection] = field(init=False, default_factory=list)
    num_late: int = field(init=False, default=0)
    num_repeated: int = field(init=False, default=0)
    num_opened: int = field(init=False, default=0)

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Chunk:
        """Return a chunk without events."""
        return cls().resume(vocabulary)

    def resume(self, vocabulary: Vocabulary) -> Chunk:
        """Return the same chunk with the vocabulary from before it, where a commit was read.

        Raises:
            ValueError: the columns do not fit together, or hold an id that is in no vocabulary.
        """
        self.vocabulary = vocabulary
        if list(self.new_values.values()) != list(range(len(vocabulary), self.num_ids)):
            raise ValueError("chunk: new values do not have the next ids")
        self.seen().require_fit("chunk", self.num_ids)
        for name, columns in (("scored", self.scored), ("late", self.late), ("closed", self.closed)):
            lengths = np.array(columns.lengths, np.int64)
            context = np.array(columns.context, np.int64)
            require_totals(f"{name}: context", context, len(lengths))
            if len(columns.names) != len(lengths):
                raise ValueError(f"{name}: names and lengths do not fit together")
            # only what is to be scored says which events of the chunk its fresh ones are
            fresh = lengths - context
            num_arrivals = fresh if columns is self.scored else 0 * fresh
            session_ids = np.array(columns.ids, np.int64)
            times = np.array(columns.times, np.float64)
            arrivals = np.array(columns.arrivals, np.int64)
            require_ids(f"{name}: context", fresh, MAX_COUNT)
            require_sessions(name, session_ids, times, lengths, num_arrivals, arrivals, self)
        return self

    @property
    def num_ids(self) -> int:
        """Ids of the vocabulary and of the new values."""
        return len(self.vocabulary) + len(self.new_values)

    def __len__(self) -> int:
        """Number of events that count."""
        return len(self.ids)

    def seen(self) -> Seen:
        """Return the events that count, in columns."""
        ids, previous_ids = np.array(self.ids, np.int32), np.array(self.previous_ids, np.int32)
        return Seen(ids, np.array(self.times), np.array(self.clocks), previous_ids)

    def id(self, value: str) -> int:
        """Return the id of a value; a new one gets the next."""
        if value in self.vocabulary:
            return self.vocabulary.id(value)
        return self.new_values.setdefault(value, self.num_ids)


class _Session:
    """One open session: its latest events, from which on they are fresh, and which of the chunk's events those are."""

    __slots__ = ("arrivals", "fresh", "ids", "name", "times")

    def __init__(self, name: int, ids: list[int], times: list[float], arrivals: list[int]) -> None:
        self.name = name
        self.ids = ids
        self.times = times
        self.arrivals = arrivals
        self.fresh = len(ids) - len(arrivals)


class OpenSessions:
    """Sessions that may continue; see the module.

    Args:
        gap: seconds of pause that end a session.
    """

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self._open: OrderedDict[int, _Session] = OrderedDict()
        self._recent: OrderedDict[int, None] = OrderedDict()
        self._touched: dict[int, None] = {}
        self.times = StreamClock()

    def __len__(self) -> int:
        """Number of open sessions."""
        return len(self._open)

    @property
    def clock(self) -> float:
        """The median time of the latest events."""
        return self.times.time

    def add(self, session: str, value: str, time: float, mark: str, location: str, chunk: Chunk) -> None:
        """Sort an event into its session.

        Args:
            session: its session's name.
            value: what was seen.
            time: its seconds.
            mark: an id that a repeat of it carries too, or nothing.
            location: where it stands, for people.
            chunk: takes what becomes of it, and of those that waited for it.
        """
        # Without an id of its own an event is told by what it says.
        if self._is_repeat(mark or f"{session}\n{value}\n{time!r}"):
            chunk.num_repeated += 1
            return
        self._take(*self.times.judge(Event(_digest(session), value, time, location)), chunk)

    def settle(self, chunk: Chunk) -> None:
        """Decide about the events that wait for others, where no more will come."""
        self._take(*self.times.settle(), chunk)

    def remove(self, sessions: Iterable[str]) -> list[list[int]]:
        """Remove open sessions by their names, and return the ids of each."""
        removed = [self._open.pop(name).ids for name in map(_digest, sessions) if name in self._open]
        self._touched = {name: None for name in self._touched if name in self._open}
        return removed

    def hand_over(self, chunk: Chunk) -> None:
        """Hand over all fresh events, where a chunk is complete; from here on they are context."""
        for name in self._touched:
            _hand_over(self._open[name], chunk)
        self._touched.clear()

    def _take(self, accepted: Sequence[Event], rejected: Sequence[Rejection], chunk: Chunk) -> None:
        chunk.rejections.extend(rejected)
        for event in accepted:
            self._accept(event, chunk)

    def _accept(self, event: Event, chunk: Chunk) -> None:
        name = event.session
        time = event.time
        value = chunk.id(event.value)
        session = self._open.get(name)
        if session is not None and time - session.times[-1] > self.gap:
            self._close(name, chunk)
            session = None
        chunk.ids.append(value)
        chunk.times.append(time)
        if session is None:
            session = self._open[name] = _Session(name, [], [], [])
            chunk.num_opened += 1
        self._open.move_to_end(name)
        is_late = bool(session.times) and time < session.times[-1]
        chunk.previous_ids.append(session.ids[-1] if session.ids and not is_late else UNKNOWN)
        if is_late:
            chunk.num_late += 1
            self._insert(session, value, time, chunk)
        else:
            session.ids.append(value)
            session.times.append(time)
            # Number of this event in the chunk, for the ranks of the baselines.
            session.arrivals.append(len(chunk.ids) - 1)
            self._touched[name] = None
            # Very long sessions are handed over in pieces: one row of a batch would be as long as they are.
            if len(session.arrivals) >= LONG:
                _hand_over(session, chunk)
        self.times.advance(time)
        chunk.clocks.append(self.clock)
        self._expire(chunk)

    def _insert(self, session: _Session, value: int, time: float, chunk: Chunk) -> None:
        _hand_over(session, chunk)
        # Before all that is held of the session: it would be a session of its own, and is only counted.
        if session.times[0] - time > self.gap:
            return
        # After the events of the same time, which came first.
        position = bisect_right(session.times, time)
        session.ids.insert(position, value)
        session.times.insert(position, time)
        # Nothing is fresh: the earlier events were handed over, and the late one is learned apart.
        session.fresh = len(session.ids)
        if position:
            chunk.late.add(session.ids[: position + 1], session.times[: position + 1], position)
        _cut(session)

    def _expire(self, chunk: Chunk) -> None:
        while self._open:
            name, oldest = next(iter(self._open.items()))
            # The order is that of the latest touch: where the first one may go on, so may all others.
            if len(self._open) <= MAX_OPEN and oldest.times[-1] >= self.clock - self.gap:
                return
            self._close(name, chunk)

    def _close(self, name: int, chunk: Chunk) -> None:
        session = self._open.pop(name)
        self._touched.pop(name, None)
        _hand_over(session, chunk)
        if len(session.ids) > 1:
            chunk.closed.add(session.ids, session.times, 0)

    def _is_repeat(self, text: str) -> bool:
        """Return whether the same came lately; it is remembered."""
        key = _digest(text)
        if key in self._recent:
            return True
        self._recent[key] = None
        if len(self._recent) > RECENT:
            # The oldest goes.
            self._recent.popitem(last=False)
        return False

    def table(self) -> SessionTable:
        """Return all state, between two events."""
        sessions = list(self._open.values())
        return SessionTable(
            names=np.array([*self._open], np.int64),
            lengths=np.array([len(session.ids) for session in sessions], np.int64),
            fresh=np.array([len(session.arrivals) for session in sessions], np.int64),
            ids=np.array([value for session in sessions for value in session.ids], np.int32),
            times=np.array([time for session in sessions for time in session.times], np.float64),
            arrivals=np.array([arrival for session in sessions for arrival in session.arrivals], np.int64),
            touched=np.array([*self._touched], np.int64),
            recent=np.array([*self._recent], np.int64),
            latest=np.array(self.times.latest, np.float64),
            waiting=tuple(self.times.waiting),
        )

    def restore(self, table: SessionTable, chunk: Chunk) -> None:
        """Continue from what :meth:`table` returned; the fresh events are those of the chunk.

        Raises:
            ValueError: the columns do not fit together, or hold an id that is in no vocabulary.
        """
        table.require_fit(chunk)
        names = table.names.tolist()
        lengths = table.lengths.tolist()
        fresh = table.fresh.tolist()
        ids = table.ids.tolist()
        times = table.times.tolist()
        arrivals = table.arrivals.tolist()
        # session i is ids[stop - length : stop], and its arrivals are likewise counted from its last one
        stops = zip(lengths, accumulate(lengths), fresh, accumulate(fresh), strict=True)
        self._open = OrderedDict(
            (name, _Session(name, ids[stop - length : stop], times[stop - length : stop], arrivals[end - num : end]))
            for name, (length, stop, num, end) in zip(names, stops, strict=True)
        )
        self._touched = dict.fromkeys(table.touched.tolist())
        fresh_names = {name for name, session in self._open.items() if session.arrivals}
        if len(self._open) < len(names) or not fresh_names <= self._touched.keys() <= self._open.keys():
            raise ValueError("sessions: names and touched do not fit together")
        self._recent = OrderedDict.fromkeys(table.recent.tolist())
        self.times.restore(table.latest.tolist(), table.waiting)


def require_times(name: str, times: Times, length: int | None = None) -> None:
    """Check seconds: one per event, and none that no event can have.

    Raises:
        ValueError: they are something else.
    """
    if length is not None and len(times) != length:
        raise ValueError(f"{name}: {len(times)} times of {length} events")
    require_number(name, times, MILLISECONDS, -MILLISECONDS)


def require_sessions(
    name: str, ids: Index | Ids, times: Times, lengths: Index, fresh: Index, arrivals: Index, chunk: Chunk
) -> None:
    """Check the columns of sessions: the latest ``fresh`` events of each are those of the chunk at ``arrivals``.

    Raises:
        ValueError: they do not fit together, or an id is in no vocabulary.
    """
    for column, counts in (("lengths", lengths), ("fresh", fresh)):
        require_totals(f"{name}: {column}", counts, len(lengths))
    HistoryTable(ids.astype(np.int32), np.concatenate([[0], np.cumsum(lengths)]), times)
    require_ids(f"{name}: ids", ids, chunk.num_ids, FIRST)
    # No session has more fresh events than events.
    require_ids(f"{name}: fresh", lengths - fresh, MAX_COUNT)
    if len(arrivals) != fresh.sum():
        raise ValueError(f"{name}: {len(arrivals)} arrivals of {fresh.sum()} fresh events")
    require_ids(f"{name}: arrivals", arrivals, len(chunk))


def targets(histories: Histories, context: Index) -> Index:
    """(targets,) where in ``histories.ids`` the fresh events stand that follow something.

    Sessions a b | c and | d e (fresh after the bar) have offsets 0 3 5 and context 2 0:
    the places are 2 (c) and 4 (e); d is fresh too, but follows nothing.
    """
    # The first event of a session follows nothing, even where it is fresh.
    first = np.maximum(context, 1)
    return ranges(histories.offsets[:-1] + first, np.maximum(histories.lengths - first, 0))


def joined(groups: Sequence[tuple[Histories, Index]]) -> tuple[Histories, Index]:
    """Histories of one vocabulary, one after the other, and (histories,) how many events of each are context."""
    return reduce(concat_histories, (histories for histories, _ in groups)), np.concatenate(
        [context for _, context in groups]
    )


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _hand_over(session: _Session, chunk: Chunk) -> None:
    """Hand over the fresh events; from here on they are context."""
    if session.fresh < len(session.ids) > 1:
        chunk.scored.add(session.ids, session.times, session.fresh, session.name, session.arrivals)
    _cut(session)


def _cut(session: _Session) -> None:
    if len(session.ids) > LATEST:
        # Bounds the memory, and the personal data in a model folder.
        del session.ids[:-LATEST], session.times[:-LATEST]
    session.fresh, session.arrivals = len(session.ids), []


class PartitionSessions:
    """The open sessions of every partition.

    Args:
        gap: seconds of pause that end a session.
    """

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self._partitions: dict[str, OpenSessions] = {}

    def __len__(self) -> int:
        """Number of open sessions."""
        return sum(map(len, self._partitions.values()))

    def of(self, partition: str) -> OpenSessions:
        """Return the sessions of one partition."""
        return self._partitions.setdefault(partition, OpenSessions(self.gap))

    @property
    def clock(self) -> float:
        """The time of the latest partition."""
        return max((sessions.clock for sessions in self._partitions.values()), default=-np.inf)

    @property
    def settled(self) -> float:
        """The time that every partition has reached."""
        return min((sessions.clock for sessions in self._partitions.values()), default=-np.inf)

    def settle(self, chunk: Chunk) -> None:
        """Decide about the events that wait for others, where no more will come."""
        for _, sessions in sorted(self._partitions.items()):
            sessions.settle(chunk)

    def remove(self, sessions: Collection[str]) -> list[list[int]]:
        """Remove open sessions by their names, and return the ids of each."""
        return [ids for open_sessions in self._partitions.values() for ids in open_sessions.remove(sessions)]

    def hand_over(self, chunk: Chunk) -> None:
        """Hand over the fresh events of every partition, where a chunk is complete."""
        for _, opened in sorted(self._partitions.items()):
            opened.hand_over(chunk)

    @property
    def is_waiting(self) -> bool:
        """True where events wait for others, because their times are far from the clock."""
        return any(opened.times.waiting for opened in self._partitions.values())

    def tables(self) -> dict[str, SessionTable]:
        """Return all state, between two events, by partition."""
        return {partition: opened.table() for partition, opened in self._partitions.items()}

    def restore(self, tables: Mapping[str, SessionTable], chunk: Chunk) -> None:
        """Continue from what :meth:`tables` returned; see :meth:`OpenSessions.restore`."""
        for partition, table in tables.items():
            self.of(partition).restore(table, chunk)
