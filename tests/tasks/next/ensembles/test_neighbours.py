"""Neighbours: the sum over all past cascades, as written, whatever the batch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.ensembles.cascade_features import POWER, cascade_neighbours
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.vocabulary import Vocabulary

VALUES = "abcdefgh"
WINDOW = 3
PAST = [History(tuple(text)) for text in ("abc", "bd", "cabh", "fedg", "ga")]
ASKED = [History(tuple(text)) for text in ("acde", "hb", "gfab")]


def memory() -> tuple[CascadeStore, Vocabulary]:
    vocabulary = Vocabulary(VALUES)
    past = CascadeStore(len(vocabulary))
    past.count(Histories.of(PAST[:2], vocabulary))
    past.count(Histories.of(PAST[2:], vocabulary))
    return past, vocabulary


def said(latest: tuple[str, ...]) -> dict[str, float]:
    """M word by word from the module's formula; the latest user stands first."""
    found = dict.fromkeys(VALUES, 0.0)
    for cascade in PAST:
        alike = 0.0
        for away, user in enumerate(latest[:WINDOW]):
            if user in cascade.values:
                holders = sum(user in other.values for other in PAST)
                alike += math.log(len(PAST) / holders) / (away + 1) ** 0.5 / len(cascade.values) ** 0.5
        for user in cascade.values:
            found[user] += alike**POWER
    return found


def test_is_the_sum_over_past_cascades() -> None:
    model, vocabulary = memory()
    batch = Windows(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    heard = cascade_neighbours(model, batch, WINDOW).toarray()
    for number, (row, step) in enumerate(np.argwhere(batch.target_mask).tolist()):
        expected = said(ASKED[row].values[step::-1])
        found = {name: float(heard[number, vocabulary.id(name)]) for name in VALUES}
        assert found == pytest.approx(expected, rel=1e-5)


def test_one_record_is_heard_as_among_others() -> None:
    model, vocabulary = memory()
    whole = Windows(Histories.of(ASKED, vocabulary), 6, last_only=True)
    every = cascade_neighbours(model, whole.batch(np.arange(len(ASKED))), WINDOW).toarray()
    for row in range(len(ASKED)):
        np.testing.assert_allclose(
            cascade_neighbours(model, whole.batch(np.array([row])), WINDOW).toarray()[0], every[row], rtol=1e-5
        )


def test_nothing_past_says_nothing() -> None:
    _, vocabulary = memory()
    batch = Windows(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    heard = cascade_neighbours(CascadeStore(len(vocabulary)), batch, WINDOW)
    assert heard.shape == (batch.num_targets, len(vocabulary)) and not heard.toarray().any()
