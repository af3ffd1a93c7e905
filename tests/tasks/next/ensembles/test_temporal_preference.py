"""Temporal preference: gains as written, at each reading of each clock."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.tasks.next.ensembles.temporal_preference import CLOCKS, DAY, PRIOR, temporal_preference
from ensue.vocabulary import Vocabulary

VALUES = "abcdefgh"
HOUR = 3600.0


def cascades(num: int, seed: int) -> list[History]:
    random = np.random.default_rng(seed)
    found = []
    for length in random.integers(2, 7, num).tolist():
        times = np.sort(1e9 + random.uniform(0, 3 * DAY, length))
        found.append(History(tuple(random.permutation(list(VALUES))[:length].tolist()), tuple(times.tolist())))
    return found


PAST, ASKED = cascades(30, 0), cascades(6, 1)


def memory() -> tuple[CascadeStore, Vocabulary]:
    vocabulary = Vocabulary(VALUES)
    past = CascadeStore(len(vocabulary))
    past.count(Histories.of(PAST, vocabulary))
    return past, vocabulary


def read(times: tuple[float, ...]) -> tuple[int, ...]:
    """What the clocks read at the last of some times."""
    octave = [int(math.log2(1 + seconds / 60)) for seconds in (times[-1] - times[0], times[-1] - times[-2:][0])]
    days = int(times[-1] // DAY)
    return int(times[-1] // HOUR % 24), days, days // 14, octave[0], octave[1] if len(times) > 1 else -1


def gains(clock: int, times: tuple[float, ...]) -> dict[str, float]:
    """Word by word from the module's formula."""
    seen = [(past.values[i], read(past.times[:i])[clock]) for past in PAST for i in range(1, len(past.values))]
    now = read(times)[clock]
    share = sum(reading == now for _, reading in seen) / len(seen)
    came = {user: sum(pair == (user, now) for pair in seen) for user in VALUES}
    return {user: math.log1p(number / (PRIOR * share)) if number else 0.0 for user, number in came.items()}


def test_gains_are_those_of_the_formula() -> None:
    model, vocabulary = memory()
    batch = Windows(Histories.of(ASKED, vocabulary), 60).batch(np.arange(len(ASKED)))
    heard = list(temporal_preference(model, batch, 30))
    assert len(heard) == len(CLOCKS)
    for clock, (gained, which) in enumerate(heard):
        table = gained[which]
        for number, (row, step) in enumerate(np.argwhere(batch.target_mask).tolist()):
            found = {user: float(table[number, vocabulary.id(user)]) for user in VALUES}
            assert found == pytest.approx(gains(clock, ASKED[row].times[: step + 1]), rel=1e-5)


def test_a_cut_of_a_long_cascade_changes_no_gain() -> None:
    random = np.random.default_rng(2)
    values = [f"u{number}" for number in range(300)]
    vocabulary = Vocabulary(values)
    times = np.sort(1e9 + random.uniform(0, 20 * DAY, len(values)))
    long = Histories.of([History(tuple(values), tuple(times.tolist()))], vocabulary)
    past = CascadeStore(len(vocabulary))
    past.count(long)
    found = []
    for reach in (58, None):
        windows, table = Windows(long, reach), torch.zeros(len(CLOCKS), len(values), len(vocabulary))
        for index in range(len(windows)):
            own = np.array([index])
            at = torch.from_numpy(windows.positions(own))
            for clock, (gained, which) in enumerate(temporal_preference(past, windows.batch(own), 30)):
                table[clock, at] = torch.from_numpy(gained[which])
        found.append(table)
    assert torch.equal(*found)
    assert bool((found[0].sum((1, 2)) > 0).all())


def test_nothing_past_says_nothing() -> None:
    _, vocabulary = memory()
    batch = Windows(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    for gained, which in temporal_preference(CascadeStore(len(vocabulary)), batch, 30):
        assert gained[which].shape == (batch.num_targets, len(vocabulary)) and not gained.any()
