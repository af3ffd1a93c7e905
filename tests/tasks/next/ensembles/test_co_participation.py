"""Co-participation: the sums over past cascades, as written, whatever the batch."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
import torch

from ensue import History
from ensue.data.histories import Histories, Index
from ensue.metrics import Floats
from ensue.tasks.next.batch import PaddedBatch
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.ensembles import co_participation
from ensue.tasks.next.ensembles.co_participation import BACKWARD_WEIGHT, DAY, DAYS, FAR, STEEP, co_participation_scores
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.vocabulary import Vocabulary

VALUES = "abcdefgh"
WINDOW = 4


def cascades(num: int, seed: int) -> list[History]:
    random = np.random.default_rng(seed)
    found = []
    for length in random.integers(2, 8, num).tolist():
        times = np.sort(1e9 + random.uniform(0, 40 * DAY, length))
        found.append(History(tuple(random.permutation(list(VALUES))[:length].tolist()), tuple(times.tolist())))
    return found


PAST, ASKED = cascades(12, 0), cascades(5, 1)


def memory() -> tuple[CascadeStore, Vocabulary]:
    vocabulary = Vocabulary(VALUES)
    past = CascadeStore(len(vocabulary))
    past.count(Histories.of(PAST[:7], vocabulary))
    past.count(Histories.of(PAST[7:], vocabulary))
    return past, vocabulary


def beside(past: History, user: str) -> list[tuple[str, float]]:
    """Whom a past cascade holds beside a user, and what that weighs."""
    place, found = past.values.index(user), []
    for at, value in enumerate(past.values):
        if 0 < abs(at - place) <= WINDOW:
            found.append((value, (1.0 if at > place else BACKWARD_WEIGHT) / abs(at - place) ** STEEP))
    return found


def said(history: History, step: int, *, close: bool) -> tuple[dict[str, float], list[float]]:
    """M after ``step``, and how much of it each event says, word by word from the module's formula."""
    found: defaultdict[str, float] = defaultdict(float)
    by_event = [0.0] * len(history.values)
    for event in range(max(0, step - WINDOW + 1), step + 1):
        user, when = history.values[event], history.times[event]
        holders = [past for past in PAST if user in past.values]
        total = sum(weight for past in holders for _, weight in beside(past, user))
        for past in holders:
            apart = abs(when - past.times[past.values.index(user)])
            near = FAR + math.exp(-apart / (DAY * DAYS)) if close else 1.0
            for value, weight in beside(past, user):
                part = near * weight / total**0.7 / (step - event + 1) ** STEEP
                found[value] += part
                by_event[event] += part
    return found, by_event


def test_are_the_sums_over_past_cascades() -> None:
    model, vocabulary = memory()
    batch = Windows(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    heard = co_participation_scores(model, batch, WINDOW)
    for number, (row, step) in enumerate(np.argwhere(batch.target_mask).tolist()):
        for close, sums in ((True, heard.near), (False, heard.far)):
            expected, by_event = said(ASKED[row], step, close=close)
            found = {vocabulary.value(id): value for id, value in enumerate(sums.toarray()[number].tolist()) if value}
            assert found == pytest.approx({name: value for name, value in expected.items() if value}, rel=1e-5)
            if close:
                whole = sum(by_event) or 1.0
                own = heard.shares[row, step].tolist()
                own = own[: len(by_event)] + [0.0] * (len(by_event) - len(own))
                assert own == pytest.approx([part / whole for part in by_event], abs=1e-6)


def test_one_record_is_heard_as_among_others() -> None:
    model, vocabulary = memory()
    whole = Windows(Histories.of(ASKED, vocabulary), 6, last_only=True)
    every = co_participation_scores(model, whole.batch(np.arange(len(ASKED))), WINDOW)
    for row in range(len(ASKED)):
        alone = co_participation_scores(model, whole.batch(np.array([row])), WINDOW)
        for among, own in ((every.near, alone.near), (every.far, alone.far)):
            np.testing.assert_allclose(among.toarray()[row], own.toarray()[0], rtol=1e-5)


@pytest.mark.parametrize("places", [1, 7, 40])
def test_little_is_held_at_once_and_the_sums_are_the_same(monkeypatch: pytest.MonkeyPatch, places: int) -> None:
    model, vocabulary = memory()
    batch = Windows(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    whole = co_participation_scores(model, batch, WINDOW)
    monkeypatch.setattr(co_participation, "MAX_LOOKUPS", places)
    monkeypatch.setattr(co_participation, "EVENTS", places)
    held = list[int]()

    def counted(rows: Index, columns: Index, values: Floats, shape: tuple[int, int]) -> SparseRows:
        if shape[1] == len(model.ids):
            held.append(len(values))
        return sparse_rows(rows, columns, values, shape)

    monkeypatch.setattr(co_participation, "sparse_rows", counted)
    few, vocabulary = memory()
    found = co_participation_scores(few, batch, WINDOW)
    assert len(held) > 1 and max(held) <= places + len(PAST)  # one event may have all of that
    for mine, theirs in ((found.near, whole.near), (found.far, whole.far)):
        np.testing.assert_allclose(mine.toarray(), theirs.toarray(), rtol=1e-5)
    torch.testing.assert_close(found.shares, whole.shares)


def test_what_is_far_away_in_time_is_not_looked_up_again() -> None:
    model, vocabulary = memory()
    gone = [History(record.values, tuple(time + 900 * DAY for time in record.times)) for record in ASKED]
    batch = Windows(Histories.of(gone, vocabulary), 6).batch(np.arange(len(gone)))
    heard = co_participation_scores(model, batch, WINDOW)
    np.testing.assert_allclose(heard.near.toarray(), FAR * heard.far.toarray(), rtol=1e-6)


def test_a_user_is_looked_up_in_the_latest_cascades_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    latest = next(past for past in reversed(PAST) if "a" in past.values)
    found = []
    for keep in (co_participation.KEEP, 1):
        monkeypatch.setattr(co_participation, "KEEP", keep)
        past, vocabulary = memory()
        question = Histories.of([History(("a",), (1e9,))], vocabulary)
        batch = Windows(question, 6, last_only=True).batch(np.arange(1))
        ids = co_participation_scores(past, batch, WINDOW).far.toarray()[0].nonzero()[0]
        found.append({vocabulary.value(int(id)) for id in ids})
    assert found[1] == {value for value, _ in beside(latest, "a")} and found[1] < found[0]


def test_grows_and_says_the_same() -> None:
    model, vocabulary = memory()
    batch = Windows(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    grown = model.grow(len(vocabulary) + 3)
    old, new = co_participation_scores(model, batch, WINDOW), co_participation_scores(grown, batch, WINDOW)
    assert np.array_equal(old.shares, new.shares)
    for mine, theirs in ((old.near, new.near), (old.far, new.far)):
        assert np.array_equal(mine.toarray(), theirs.toarray()[:, : len(vocabulary)])


def test_a_window_longer_than_any_cascade_takes_no_memory() -> None:
    model, vocabulary = memory()
    batch = Windows(Histories.of(cascades(3, 5), vocabulary), None).batch(np.arange(3))
    wide, longest = (co_participation_scores(model, batch, window) for window in (2**31 - 1, 99))
    assert np.array_equal(wide.near.toarray(), longest.near.toarray()) and np.array_equal(wide.shares, longest.shares)


def test_what_is_counted_later_is_heard() -> None:
    model, vocabulary = memory()
    batch = Windows(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    before = co_participation_scores(model, batch, WINDOW)
    model.count(Histories.of(PAST[:3], vocabulary))
    assert not np.array_equal(before.far.toarray(), co_participation_scores(model, batch, WINDOW).far.toarray())


def test_nobody_known_says_nothing() -> None:
    everywhere = np.ones((1, 2), np.bool_)
    batch = PaddedBatch(np.array([[2, 3]]), everywhere, np.zeros((1, 2)), everywhere, np.empty(0, np.int64))
    heard = co_participation_scores(CascadeStore(6), batch, WINDOW)
    assert heard.near.shape == (2, 6) and not heard.near.toarray().any() and float(heard.shares.sum()) == 0
