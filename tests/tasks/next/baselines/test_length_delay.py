"""How long histories and pauses are, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.next.baselines.length_delay import PRIOR, LengthDelayModel, gap_classes, sizes


def test_classes_are_in_order() -> None:
    events = np.arange(1, 5000)
    found = sizes(events)
    assert found[:15].tolist() == list(range(1, 16)) and (np.diff(found) >= 0).all() and (np.diff(found) <= 1).all()
    assert sizes(np.array([10**9]))[0] == sizes(np.array([10**8]))[0] == 63
    gaps = gap_classes(np.array([0.0, 0.99, 1.0, 1.41, 1.42, 2.0, 1e18]))
    assert gaps.tolist() == [0, 0, 1, 1, 2, 3, 79]


def test_stops_and_delays_by_hand() -> None:
    counted = LengthDelayModel()
    data = Histories.of(
        [
            History(("a", "b"), (0.0, 10.0)),
            History(("a", "b", "c"), (0.0, 10.0, 1010.0)),
            History(("a",), (5.0,)),
            History(()),
            History(("a", "b", "c"), (0.0, 10.0, 1010.0)),
        ]
    )
    counted.count(data)
    overall = 4 / 9  # four histories end, at nine events in all
    asked = Histories.of(
        [History(("x",), (0.0,)), History(("x", "y"), (0.0, 11.0)), History(("x",) * 3, (0.0, 1.0, 2.0))]
    )
    stop, after = counted.estimate(asked)
    expected = [(ended + PRIOR * overall) / (reached + PRIOR) for ended, reached in ((1, 4), (1, 3), (2, 2))]
    assert stop.tolist() == pytest.approx(expected)
    assert (np.diff(after, axis=1) >= 0).all()
    twice = LengthDelayModel()
    for _ in range(200):
        twice.count(data)
    sure = twice.estimate(asked)
    assert sure.stop.tolist() == pytest.approx([1 / 4, 1 / 3, 1.0], abs=0.01)
    # The first gap is 10 s; after one of 11 s, of the same class, 1,000 s: each within its class, half an octave.
    assert 8 <= sure.delay[0, 1] <= 11.4 and 724 <= sure.delay[1, 1] <= 1024.1
    halves = LengthDelayModel()
    halves.count(data.select(slice(0, 2)))
    halves.count(data.select(slice(2, 5)))
    for name in ("reached", "ended", "gaps"):
        assert np.array_equal(getattr(halves, name), getattr(counted, name))
