"""Open sessions: which context each event has, and which events are late, repeated, or the first of a new session.

Every decision is made an event at a time, in order of arrival, from state that is committed with the position: how the
stream happened to be cut into batches changes none of them.

* **Repeated**: its ``id`` is among the latest 200,000, or, without one, the session holds the same value at the same
  time. It is dropped.
* **Late**: before the latest event of its session. It takes its place in the context and is learned, but not scored,
  for the answer to it would know what came after. One from before all that is held of the session is only counted.
* **A new session** begins after a pause longer than ``gap``. A session ends then, or when the stream's clock, the
  median time of the latest events, has moved on by as much, or when too many are open: the one untouched for longest.

Sessions and ids are held by 64-bit digests, so that no names of people stand in a model folder.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate
from statistics import median_low

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Histories, Index, ranges
from ensue.stream.events import Events
from ensue.tasks.next import reservoir
from ensue.vocabulary import Vocabulary

LATEST = 50
"""Events a session that are held."""
MOST = 200_000
"""Open sessions."""
RECENT = 200_000
"""Event ids that are remembered."""
LONG = 64
"""Fresh events of a session that are asked about at once."""
PARTS = 10_000
"""A share of the sessions is drawn in so many parts."""
CLOCK = 15
"""Events whose median time is the stream's clock: a few wrong times do not move it."""


@dataclass
class SessionColumns:
    """Sessions with fresh events, in columns: history i is ``context[i]`` events of context, then the fresh ones.

    Of one session a b | c and one of d | e f (fresh after the bar):
    ``ids`` a b c d e f, ``lengths`` 3 3, ``context`` 2 1.
    """

    ids: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    names: list[int] = field(default_factory=list)

    def add(self, ids: Sequence[int], times: Sequence[float], context: int, name: int = 0) -> None:
        """One more session, and the digest of its name."""
        self.names.append(name)
        self.ids.extend(ids)
        self.times.extend(times)
        self.lengths.append(len(ids))
        self.context.append(context)

    def drawn(self, share: float) -> Index:
        """Which of them are in a share of all, drawn by their names: a session is in it for as long as it goes on."""
        return np.flatnonzero(np.array(self.names, np.int64) % PARTS < share * PARTS)

    def histories(self, vocabulary: Vocabulary) -> tuple[Histories, Index]:
        """The sessions in columns, and (sessions,) how many leading events of each are context."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths, dtype=np.int64)])
        ids, times = np.array(self.ids, np.int32), np.array(self.times, np.float64)
        return Histories(ids, offsets, vocabulary, times), np.array(self.context, np.int64)


@dataclass
class SortedEvents:
    """What became of a batch of events.

    Attributes:
        scored: to be scored, then learned.
        late: to be learned only: each ends with its late event, all before it is context.
        closed: sessions that ended.
        ids: (events,) of all that count, late ones included.
        times: (events,) their seconds.
        num_late: events that came late.
        num_repeated: events that were dropped.
        num_opened: sessions that began.
    """

    scored: SessionColumns = field(default_factory=SessionColumns)
    late: SessionColumns = field(default_factory=SessionColumns)
    closed: SessionColumns = field(default_factory=SessionColumns)
    ids: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    num_late: int = 0
    num_repeated: int = 0
    num_opened: int = 0


class _Session:
    """One open session: its latest events, and from which on they are fresh."""

    __slots__ = ("fresh", "ids", "name", "times")

    def __init__(self, name: int, ids: list[int], times: list[float]) -> None:
        self.name, self.ids, self.times, self.fresh = name, ids, times, len(ids)

    @property
    def held(self) -> int:
        """Where the latest events begin; those before are context of a batch that is not over."""
        return max(0, len(self.ids) - LATEST)


class OpenSessions:
    """All sessions that may go on; see the module.

    Args:
        gap: seconds of pause that end a session.
    """

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self._open: OrderedDict[int, _Session] = OrderedDict()
        self._recent: OrderedDict[int, None] = OrderedDict()
        self._latest: deque[float] = deque(maxlen=CLOCK)
        self.clock = -np.inf

    def __len__(self) -> int:
        """Number of open sessions."""
        return len(self._open)

    def take(self, events: Events, ids: Sequence[int]) -> SortedEvents:
        """Sort a batch of events into their sessions.

        Args:
            events: in order of arrival.
            ids: of their values.
        """
        taken = SortedEvents()
        touched: dict[_Session, None] = {}
        for text, value, time, mark in zip(events.sessions, ids, events.times, events.marks, strict=True):
            if mark and self._seen(mark):
                taken.num_repeated += 1
                continue
            name = _digest(text)
            session = self._open.get(name)
            if session is not None and time - session.times[-1] > self.gap:
                self._close(name, taken)
                session = None
            if session is not None and not mark and _holds(session, value, time):
                taken.num_repeated += 1
                continue
            taken.ids.append(value)
            taken.times.append(time)
            if session is None:
                session = self._open[name] = _Session(name, [], [])
                taken.num_opened += 1
            self._open.move_to_end(name)
            if session.times and time < session.times[-1]:
                taken.num_late += 1
                self._insert(session, value, time, taken)
            else:
                session.ids.append(value)
                session.times.append(time)
                touched[session] = None
                if len(session.ids) - session.fresh >= LONG:
                    _hand_over(session, taken)
            self._expire(time, taken)
        for session in touched:
            _hand_over(session, taken)
        return taken

    def _insert(self, session: _Session, value: int, time: float, taken: SortedEvents) -> None:
        _hand_over(session, taken)
        if session.times[0] - time > self.gap:
            return
        place = bisect_right(session.times, time)
        session.ids.insert(place, value)
        session.times.insert(place, time)
        session.fresh = len(session.ids)
        if place:
            taken.late.add(session.ids[: place + 1], session.times[: place + 1], place)
        _cut(session)

    def _expire(self, time: float, taken: SortedEvents) -> None:
        self._latest.append(time)
        self.clock = median_low(self._latest)
        while self._open:
            name, oldest = next(iter(self._open.items()))
            if len(self._open) <= MOST and oldest.times[-1] >= self.clock - self.gap:
                return
            self._close(name, taken)

    def _close(self, name: int, taken: SortedEvents) -> None:
        session = self._open.pop(name)
        _hand_over(session, taken)
        if len(session.ids) > 1:
            taken.closed.add(session.ids, session.times, 0)

    def _seen(self, mark: str) -> bool:
        """Whether an event of this id came lately; it is remembered."""
        key = _digest(mark)
        if key in self._recent:
            return True
        self._recent[key] = None
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)
        return False

    def tensors(self) -> dict[str, Tensor]:
        """All of it, between two batches."""
        lengths = [len(session.ids) for session in self._open.values()]
        ids = [value for session in self._open.values() for value in session.ids]
        times = [time for session in self._open.values() for time in session.times]
        return {
            "names": torch.tensor(list(self._open), dtype=torch.int64),
            "lengths": torch.tensor(lengths, dtype=torch.int64),
            "ids": torch.tensor(ids, dtype=torch.int32),
            "times": torch.tensor(times, dtype=torch.float64),
            "recent": torch.tensor(list(self._recent), dtype=torch.int64),
            "latest": torch.tensor(list(self._latest), dtype=torch.float64),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`tensors` gave."""
        names, lengths = tensors["names"].tolist(), tensors["lengths"].tolist()
        ids, times = (tensors[column].tolist() for column in ("ids", "times"))
        stops = accumulate(lengths)
        self._open = OrderedDict(
            (name, _Session(name, ids[stop - length : stop], times[stop - length : stop]))
            for name, length, stop in zip(names, lengths, stops, strict=True)
        )
        self._recent = OrderedDict.fromkeys(tensors["recent"].tolist())
        self._latest = deque(tensors["latest"].tolist(), CLOCK)
        self.clock = median_low(self._latest) if self._latest else -np.inf


def targets(histories: Histories, context: Index) -> Index:
    """(targets,) where in ``histories.ids`` the fresh events stand that follow something.

    Sessions a b | c and | d e (fresh after the bar) have offsets 0 3 5 and context 2 0:
    the places are 2 (c) and 4 (e); d is fresh too, but follows nothing.
    """
    first = np.maximum(context, 1)
    return ranges(histories.offsets[:-1] + first, np.maximum(histories.lengths - first, 0))


def joined(parts: Sequence[tuple[Histories, Index]]) -> tuple[Histories, Index]:
    """Histories of one vocabulary, one after the other, and (histories,) how many events of each are context."""
    return reduce(reservoir.joined, (histories for histories, _ in parts)), np.concatenate(
        [context for _, context in parts]
    )


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _holds(session: _Session, value: int, time: float) -> bool:
    """Whether the session has the same value at the same time."""
    if time > session.times[-1]:
        return False
    place = bisect_right(session.times, time, session.held) - 1
    while place >= session.held and session.times[place] == time:
        if session.ids[place] == value:
            return True
        place -= 1
    return False


def _hand_over(session: _Session, taken: SortedEvents) -> None:
    """Hand over the fresh events; from here on they are context."""
    if session.fresh < len(session.ids) > 1:
        taken.scored.add(session.ids, session.times, session.fresh, session.name)
    _cut(session)


def _cut(session: _Session) -> None:
    if len(session.ids) > LATEST:
        del session.ids[:-LATEST], session.times[:-LATEST]
    session.fresh = len(session.ids)
