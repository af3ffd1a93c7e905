"""The stream's clock: which events are far from all others, and what becomes of them."""

from __future__ import annotations

import time

import pytest

from ensue.stream.clock import DAY, Event, StreamClock

NOW = time.time()


def events(*times: float) -> list[Event]:
    return [Event(number, "v", seconds, "") for number, seconds in enumerate(times)]


def judged(times: list[float]) -> tuple[list[float], list[str]]:
    """Times that were accepted, and reasons of those that were not, to the end of the stream."""
    clock, accepted, reasons = StreamClock(), list[float](), list[str]()
    for event in [*events(*times), None]:
        good, bad = clock.settle() if event is None else clock.judge(event)
        for one in good:
            clock.advance(one.time)
        accepted += [one.time for one in good]
        reasons += [reason for _, reason in bad]
    return accepted, reasons


def steady(begin: float, num: int = 20) -> list[float]:
    return [begin + 60.0 * number for number in range(num)]


@pytest.mark.parametrize("begin", [0.0, 1.5e9, NOW - 5000, 3.9e9], ids=["zero", "2017", "now", "2093"])
@pytest.mark.parametrize("offset", [-1000 * DAY, 1000 * DAY, 40_000 * DAY])
@pytest.mark.parametrize("place", [0, 1, 5, 20])
def test_a_time_far_from_all_others_is_rejected(begin: float, offset: float, place: int) -> None:
    """Old logs, those of today, and those that count from 1900 or from their own beginning."""
    times = steady(begin)
    times.insert(place, begin + offset)
    accepted, reasons = judged(times)
    future = begin + offset > NOW + DAY and begin < NOW
    if place > 1 or (future and place == 0):
        assert accepted == steady(begin)
        assert len(reasons) == 1
    else:
        assert set(steady(begin)) <= set(accepted), "where nothing tells which is wrong, nothing is lost"


def test_a_log_that_goes_on_years_later_loses_nothing() -> None:
    times = steady(1.3e9) + steady(1.5e9) + steady(1.2e9)
    assert judged(times) == (times, [])


def test_a_slow_stream_loses_nothing() -> None:
    times = [1.4e9 + 20 * DAY * number for number in range(60)]
    assert judged(times) == (times, [])


def test_a_stream_of_few_events_loses_nothing() -> None:
    times = [1.4e9, 1.5e9, 1.5e9 + 60]
    assert judged(times) == (times, [])


def test_many_times_of_the_future_are_rejected_at_once() -> None:
    times = steady(NOW - 5000)
    accepted, reasons = judged(times + steady(NOW + 2 * DAY))
    assert accepted == times
    assert len(reasons) == 20 and all("is in the future; this machine's clock says" in reason for reason in reasons)
