"""What a model does not know of what is asked: counted by the day, for a week, without what was asked."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from ensue import Answer, Choice
from ensue.serve.monitoring import Drift


def line(known: int, given: int, value: str = "a") -> str:
    return Answer((Choice(value, 0.5),), known, given, id="s1").to_json()


def test_ids_and_words_of_a_week_are_counted() -> None:
    day = date(2026, 1, 1)
    drift = Drift(lambda: day)
    assert drift.describe() is None
    assert drift.count([line(2, 4), line(3, 4)]) == (8, 3)  # given, and unknown
    assert drift.describe() == {"days": 7, "records": 2, "events": 8, "unknown": 0.375}  # 3 of 8
    day += timedelta(days=6)
    drift.count([line(4, 4)])
    assert drift.describe() == {"days": 7, "records": 3, "events": 12, "unknown": 0.25}
    day += timedelta(days=1)  # the first day is over a week ago
    assert drift.describe() == {"days": 7, "records": 1, "events": 4, "unknown": 0.0}


def test_processes_that_serve_together_add_up_and_one_goes_on_with_anothers_counts(tmp_path: Path) -> None:
    day = date(2026, 1, 1)

    def at(place: str) -> Drift:
        return Drift(lambda: day, tmp_path / "next.drift" / place)

    first, second = at("1a"), at("2a")
    assert first.describe() is None
    first.count([line(1, 4)])
    second.count([line(4, 4)])
    week = {"days": 7, "records": 2, "events": 8, "unknown": 0.375}  # 3 of 8
    assert first.describe() == second.describe() == at("1b").describe() == week
    after = at("1a")
    after.count([line(0, 4)])
    assert second.describe() == {"days": 7, "records": 3, "events": 12, "unknown": 0.5833}  # 7 of 12
    day += timedelta(days=7)
    assert second.describe() is None
    second.count([line(1, 1)])
    assert first.describe() == {"days": 7, "records": 1, "events": 1, "unknown": 0.0}


def test_a_value_that_looks_like_counts_is_none() -> None:
    drift = Drift()
    drift.count([line(1, 2, '"in_vocabulary": 0, "events": 9')])
    found = drift.describe()
    assert found is not None and (found["events"], found["unknown"]) == (2, 0.5)
    drift.count(['{"no": "counts"}'])
    assert drift.describe() == found
