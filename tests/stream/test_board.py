"""The figures by hour, worked out by hand."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from ensue import figures
from ensue.stream import metrics as board
from ensue.stream.metrics import Board


def test_sums_by_hour() -> None:
    found = Board()
    times, asked = np.array([10.0, 3599.0, 3600.0, 7300.0]), np.array([3599.0, 3600.0, 7300.0])
    found.add(times, asked, {"model": np.array([1.0, 20.0, 21.0]), "popular": np.array([4.0, np.inf, 2.0])})
    found.add(np.array([20.0]), np.array([20.0]), {"model": np.array([np.inf]), "late comer": np.array([5.0])})
    rows = [row.to_dict() for row in found.rows()]
    assert [(row["begins"], row["events"], row["targets"]) for row in rows] == [
        (0.0, 3, 2),
        (3600.0, 1, 1),
        (7200.0, 1, 1),
    ]
    assert rows[0]["figures"]["model"] == {"hr@20": 0.5, "mrr@20": 0.5}  # ranks 1 and none
    assert rows[0]["figures"]["popular"] == {"hr@20": 1.0, "mrr@20": 0.25}  # asked once
    assert rows[1]["figures"]["model"] == {"hr@20": 1.0, "mrr@20": 0.05}
    assert rows[2]["figures"]["model"] == {"hr@20": 0.0, "mrr@20": 0.0}  # rank 21
    total = found.total()
    assert (total.events, total.targets) == (5, 4)
    assert total.figures()["model"] == pytest.approx({"hr@20": 0.5, "mrr@20": (1 + 1 / 20) / 4})
    assert total.figures()["late comer"] == {"hr@20": 1.0, "mrr@20": 0.2}


def test_a_restart_keeps_every_sum() -> None:
    one = Board()
    one.add(np.array([1.0, 4000.0]), np.array([4000.0]), {"model": np.array([3.0])})
    other = Board(deepcopy(one.rows()))
    for each in (one, other):
        each.add(np.array([4001.0]), np.array([4001.0]), {"model": np.array([7.0])})
    assert one.hours == other.hours


def test_hours_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "ROWS", 2)
    found = Board()
    found.add(np.array([0.0, 3600.0, 7200.0]), np.empty(0), {})
    assert sorted(found.hours) == [1, 2]


def test_a_stream_is_drawn_by_hour_and_name() -> None:
    board = Board()
    hour = 3600.0 * 480_000
    board.add(np.array([hour, hour + 3600]), np.array([hour, hour + 3600]), {"model": np.array([1.0, 30.0])})
    board.add(np.array([hour + 3600]), np.array([hour + 3600]), {"model": np.array([2.0]), "frozen": np.array([21.0])})
    model, frozen = figures.stream(board.rows()).data
    assert [time.isoformat() for time in model.x] == ["2024-10-04T00:00:00+00:00", "2024-10-04T01:00:00+00:00"]
    assert (model.name, model.y) == ("model", (1.0, 0.5))  # ranks 1; then 30 and 2
    assert (frozen.name, frozen.y) == ("frozen", (None, 0.0))
    assert [row[0] for row in model.customdata] == [1, 2]


def test_a_stream_without_dates_or_events_is_drawn_too() -> None:
    board = Board()
    assert len(figures.stream(board.rows()).data) == 0
    board.add(np.array([7200.0]), np.array([7200.0]), {"model": np.array([1.0])})
    assert figures.stream(board.rows()).data[0].x == (2.0,)
