"""Open sessions: late, repeated and expired events by a literal oracle, whatever the batches."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field
from statistics import median_low

import numpy as np
import pytest

from ensue.store.pack import pack, unpack
from ensue.stream import sessions
from ensue.stream.sessions import Chunk, OpenSessions, SessionColumns, targets
from ensue.vocabulary import Vocabulary

GAP = 100.0
Event = tuple[str, int, float, str]
VALUES = Vocabulary(f"v{value}" for value in range(2, 1000))


def taken(rows: list[Event], size: int, held: OpenSessions | None = None) -> list[Chunk]:
    """The rows in chunks of so many."""
    opened = OpenSessions(GAP) if held is None else held
    chunks = []
    for low in range(0, len(rows), size):
        chunks.append(Chunk.of(VALUES))
        for name, value, time, mark in rows[low : low + size]:
            opened.add(name, f"v{value}", time, mark, "", chunks[-1])
        opened.hand_over(chunks[-1])
    return chunks


def asked_of(parts: list[SessionColumns]) -> list[tuple[tuple[int, ...], tuple[float, ...], int]]:
    """(ids, times, known) of each session asked about."""
    found = []
    for part in parts:
        stop = 0
        for length, known in zip(part.lengths, part.context, strict=True):
            stop += length
            found.append((tuple(part.ids[stop - length : stop]), tuple(part.times[stop - length : stop]), known))
    return found


def answered(parts: list[Chunk]) -> list[tuple[tuple[int, ...], float]]:
    """Each target with all it may be predicted from, however the batches cut the sessions: sorted."""
    rows = []
    for ids, times, known in asked_of([part.scored for part in parts]):
        rows += [((*ids[max(0, at - 50) : at], ids[at]), times[at]) for at in range(max(1, known), len(ids))]
    return sorted(rows)


@dataclass
class Oracle:
    """The rules as they are written, an event at a time, nothing bounded but what a session holds."""

    open: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    came: set[object] = field(default_factory=set)
    times: list[float] = field(default_factory=list)
    targets: list[tuple[tuple[int, ...], float]] = field(default_factory=list)
    late: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    closed: list[tuple[int, ...]] = field(default_factory=list)
    num_late: int = 0
    num_repeated: int = 0
    kept: list[tuple[int, float]] = field(default_factory=list)

    def take(self, name: str, value: int, time: float, mark: str) -> None:
        if (mark or (name, value, time)) in self.came:
            self.num_repeated += 1
            return
        self.came.add(mark or (name, value, time))
        if name in self.open and time - self.open[name][-1][0] > GAP:
            self.close(name)
        own = self.open.get(name, [])
        self.kept.append((value, time))
        if own and time < own[-1][0]:
            self.num_late += 1
            if own[0][0] - time <= GAP:
                place = bisect_right([when for when, _ in own], time)
                own.insert(place, (time, value))
                if place:
                    self.late.append((tuple(item for _, item in own[: place + 1]), place))
        else:
            if own:
                self.targets.append(((*(item for _, item in own), value), time))
            own.append((time, value))
        self.open.pop(name, None)
        self.open[name] = own[-50:]
        self.times.append(time)
        clock = median_low(self.times[-15:])
        while self.open and next(iter(self.open.values()))[-1][0] < clock - GAP:
            self.close(next(iter(self.open)))

    def close(self, name: str) -> None:
        own = self.open.pop(name)
        if len(own) > 1:
            self.closed.append(tuple(item for _, item in own))


def made_up(num: int, seed: int, names: int = 12) -> list[Event]:
    draw = np.random.default_rng(seed)
    rows: list[Event] = []
    for at in range(num):
        time = 4.0 * at - (draw.integers(250) if draw.random() < 0.15 else 0)
        name = "bot" if draw.random() < 0.3 else f"s{draw.integers(names)}"
        rows.append((name, int(draw.integers(2, 9)), float(time), f"e{at}" if draw.random() < 0.3 else ""))
        if draw.random() < 0.15:
            rows.append(rows[-1 - int(draw.integers(min(9, len(rows))))])
    return rows


@pytest.mark.parametrize("size", [1, 7, 512])
@pytest.mark.parametrize("seed", [0, 1])
def test_whatever_the_batches_the_rules_hold(size: int, seed: int) -> None:
    rows, oracle = made_up(1500, seed), Oracle()
    for row in rows:
        oracle.take(*row)
    held = OpenSessions(GAP)
    found = taken(rows, size, held)
    assert oracle.num_late > 50 < oracle.num_repeated and len(oracle.closed) > 50
    assert sum(part.num_late for part in found) == oracle.num_late
    assert sum(part.num_repeated for part in found) == oracle.num_repeated
    kept = [pair for part in found for pair in zip(part.ids, part.times, strict=True)]
    assert kept == oracle.kept
    assert answered(found) == sorted(oracle.targets)
    late = [(ids, known) for ids, _, known in asked_of([part.late for part in found])]
    assert late == oracle.late
    assert [ids for ids, _, _ in asked_of([part.closed for part in found])] == oracle.closed
    assert len(held) == len(oracle.open)


def test_a_late_event_takes_its_place_and_is_not_scored() -> None:
    rows: list[Event] = [("s", 2, 10.0, ""), ("s", 3, 30.0, ""), ("s", 4, 20.0, ""), ("s", 5, 40.0, "")]
    (found,) = taken(rows, 512)
    assert asked_of([found.scored]) == [
        ((2, 3), (10.0, 30.0), 0),  # 3 is predicted from 2 alone: 4 had not come yet
        ((2, 4, 3, 5), (10.0, 20.0, 30.0, 40.0), 3),
    ]
    assert asked_of([found.late]) == [((2, 4), (10.0, 20.0), 1)]
    assert (found.num_late, found.ids) == (1, [2, 3, 4, 5])


def test_an_event_from_before_the_session_is_counted_only() -> None:
    found = taken([("s", 2, 500.0, ""), ("s", 3, 399.0, ""), ("s", 4, 510.0, "")], 512)
    assert found[0].num_late == 1
    assert asked_of([found[0].scored]) == [((2, 4), (500.0, 510.0), 1)]


def test_a_session_holds_its_latest_fifty() -> None:
    rows: list[Event] = [("s", at + 2, float(at), "") for at in range(200)]
    found = taken(rows, 512)
    parts = asked_of([part.scored for part in found])
    assert [known for _, _, known in parts] == [0, 50, 50, 50]  # 64 fresh ones are asked about at once
    assert len(answered(found)) == 199
    repeated = taken([*rows, ("s", 3, 1.0, ""), ("s", 190, 188.0, ""), ("s", 191, 188.0, "")], 512)
    assert (sum(part.num_repeated for part in repeated), sum(part.num_late for part in repeated)) == (2, 1)


def test_a_wrong_time_does_not_end_all_sessions() -> None:
    rows: list[Event] = [(f"s{at % 3}", 2, float(at), "") for at in range(30)]
    held = OpenSessions(GAP)
    (found,) = taken([*rows, ("wrong", 3, 1e6, ""), ("s1", 4, 31.0, "")], 512, held)
    assert (len(held), held.clock) == (4, 24.0)
    assert found.rejections == []  # eleven days are no reason to reject it


def test_the_longest_untouched_session_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_OPEN", 2)
    held = OpenSessions(GAP)
    rows: list[Event] = [("a", 2, 0.0, ""), ("a", 3, 1.0, ""), ("b", 4, 2.0, ""), ("a", 5, 3.0, ""), ("c", 6, 4.0, "")]
    found = taken(rows, 512, held)
    assert (len(held), found[0].closed.lengths) == (2, [])  # b, of one event
    (found2,) = taken([("d", 7, 5.0, "")], 512, held)
    assert found2.closed.ids == [2, 3, 5]


def test_ids_are_forgotten_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "RECENT", 2)
    rows: list[Event] = [("s", 2, float(at), mark) for at, mark in enumerate(["a", "b", "a", "c", "a"])]
    (found,) = taken(rows, 512)
    assert found.num_repeated == 1


@pytest.mark.parametrize("stop", [0, 1, 333, 900])
def test_a_restart_between_two_batches_changes_nothing(stop: int) -> None:
    rows = made_up(900, seed=3)
    whole = OpenSessions(GAP)
    expected = taken(rows[:stop], 7, whole), taken(rows[stop:], 7, whole)
    first = OpenSessions(GAP)
    taken(rows[:stop], 7, first)
    second = OpenSessions(GAP)
    second.restore(first.table(), Chunk.of(VALUES))
    assert taken(rows[stop:], 7, second) == expected[1]
    one, other = vars(whole.table()), vars(second.table())
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_targets_are_the_fresh_events_that_follow_something() -> None:
    asked = SessionColumns()
    for ids, known in (([2, 3, 4], 0), ([5, 6], 1), ([7], 0), ([8, 9], 2)):
        asked.add(ids, [0.0] * len(ids), known)
    histories, known_array = asked.histories(Vocabulary())
    assert targets(histories, known_array).tolist() == [1, 2, 4]


def test_a_chunk_survives_a_restart_between_two_events() -> None:
    rows = made_up(300, seed=4)
    whole, chunk = OpenSessions(GAP), Chunk.of(VALUES)
    again, restored = OpenSessions(GAP), Chunk()
    for number, (name, value, time, mark) in enumerate(rows):
        text = f"v{value}" if value < 8 else f"new {value}"
        whole.add(name, text, time, mark, "", chunk)
        if number == 150:
            tree, arrays = pack(chunk)
            restored = unpack(Chunk, json.loads(json.dumps(tree)), arrays).resume(VALUES)
            again.restore(whole.table(), restored)
            restored.num_late, restored.num_repeated, restored.num_opened = (
                chunk.num_late,
                chunk.num_repeated,
                chunk.num_opened,
            )
        elif number > 150:
            again.add(name, text, time, mark, "", restored)
    whole.hand_over(chunk)
    again.hand_over(restored)
    assert chunk == restored
