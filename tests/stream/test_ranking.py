"""Ranks of fresh events: as if each was asked alone, before anything of its batch was known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ensue.data.histories import Histories, Index
from ensue.metrics import MISS, Floats
from ensue.stream.ranking import FixedModel, LiveModel, RecentPopularity
from ensue.stream.sessions import SessionColumns
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import FIRST, UNKNOWN, Vocabulary
from tests.stream.conftest import NUM_VALUES

OLD = NUM_VALUES + FIRST


def batch(seed: int, new: int = 0, num: int = 12) -> tuple[Histories, Index]:
    """Sessions with context, some of their values newer than the model."""
    draw, asked = np.random.default_rng(seed), SessionColumns()
    for _ in range(num):
        length = int(draw.integers(2, 9))
        ids = draw.integers(FIRST, OLD + new, length).tolist()
        asked.add(ids, sorted(draw.random(length).tolist()), int(draw.integers(0, length)))
    return asked.histories(Vocabulary(f"v{value}" for value in range(NUM_VALUES + new)))


def one_by_one(predictor: NextPredictor, histories: Histories, known: Index) -> Floats:
    """The literal loop: the scores after each prefix, all higher or equal ones counted."""
    found = []
    for index in range(len(histories)):
        ids = histories.ids[histories.offsets[index] : histories.offsets[index + 1]].tolist()
        for at in range(max(1, int(known[index])), len(ids)):
            context = [value for value in ids[:at] if value < OLD]
            if ids[at] >= OLD:
                found.append(MISS)
                continue
            if context:
                row = Histories(np.array([*context, FIRST], np.int32), np.array([0, len(context) + 1]), Vocabulary())
                held = np.array([len(context)])
                ranked = {}
                for value in range(FIRST, OLD):
                    row.ids[-1] = value
                    ranked[value] = predictor.ranks(row, context=held, hide=not predictor.metadata.repeats)[0][0]
                found.append(float(ranked[ids[at]]))
            else:
                totals = predictor.counting["popularity"].totals.tolist()
                found.append(float(sum(total >= totals[ids[at]] for total in totals[FIRST:])))
    return np.array(found)


@pytest.fixture(scope="module")
def predictor(fitted: Path) -> NextPredictor:
    return NextPredictor.load(fitted, device="cpu")


@pytest.mark.parametrize("new", [0, 15])
def test_ranks_are_those_of_each_event_alone(predictor: NextPredictor, new: int) -> None:
    histories, known = batch(1, new)
    found = LiveModel(predictor).ranks(histories, known, OLD)
    expected = one_by_one(predictor, histories, known)
    assert np.array_equal(found, expected)
    assert (new > 0) == bool(np.isinf(found).any())


def test_a_still_model_ranks_in_its_own_ids(predictor: NextPredictor, fitted: Path) -> None:
    """The same model under a stream whose vocabulary is shuffled and longer."""
    histories, known = batch(2, new=15)
    order = np.random.default_rng(0).permutation(NUM_VALUES + 15)
    recoded = Histories((order + FIRST).astype(np.int32)[histories.ids - FIRST], histories.offsets, Vocabulary())
    values = [""] * len(order)
    for old, place in enumerate(order.tolist()):
        values[place] = predictor.vocabulary.value(old + FIRST) if old < NUM_VALUES else f"new {old}"
    still = FixedModel(NextPredictor.load(fitted, device="cpu"), Vocabulary(values))
    timed = Histories(recoded.ids, recoded.offsets, recoded.vocabulary, histories.times)
    assert np.array_equal(still.ranks(timed, known, OLD + 15), one_by_one(predictor, histories, known))


def test_what_comes_later_changes_no_rank(predictor: NextPredictor) -> None:
    asked, changed = SessionColumns(), SessionColumns()
    asked.add([2, 3, 4, 5], [0.0, 1.0, 2.0, 3.0], 2)
    changed.add([2, 3, 4, 9], [0.0, 1.0, 2.0, 3.5], 2)
    changed.add([OLD, OLD + 1, 6], [0.0, 1.0, 2.0], 0)  # values nobody knew, in the same batch
    recent = RecentPopularity(900)
    recent.see(np.array([4, 4, 5], np.int32), np.array([0.0, 1.0, 2.0]), 2.0)
    live = LiveModel(predictor)

    def popular(histories: Histories, known: Index) -> Floats:
        return recent.ranks(histories, known, OLD, hide=True)

    def model(histories: Histories, known: Index) -> Floats:
        return live.ranks(histories, known, OLD)

    for one in (model, popular):
        before, after = (one(*part.histories(predictor.vocabulary)) for part in (asked, changed))
        assert before[0] == after[0] < MISS
        assert after[2] == MISS


@pytest.mark.parametrize("hide", [False, True])
def test_recent_popularity_is_a_count_of_the_window(hide: bool) -> None:
    draw = np.random.default_rng(5)
    recent = RecentPopularity(50.0)
    log: list[tuple[int, float]] = []
    for step in range(6):
        histories, known = batch(step, new=5)
        found = recent.ranks(histories, known, OLD, hide=hide)
        counts = [sum(value == id and time >= 20.0 * step - 50 for value, time in log) for id in range(OLD)]
        expected = []
        for index in range(len(histories)):
            ids = histories.ids[histories.offsets[index] : histories.offsets[index + 1]].tolist()
            for at in range(max(1, int(known[index])), len(ids)):
                seen = set(ids[:at]) if hide else set()
                others = [id for id in range(FIRST, OLD) if id not in seen]
                missed = ids[at] >= OLD or ids[at] in seen
                expected.append(MISS if missed else sum(counts[id] >= counts[ids[at]] for id in others))
        assert np.array_equal(found, np.array(expected, np.float64))
        ids, times = draw.integers(FIRST, OLD, 40).astype(np.int32), 20.0 * step + draw.random(40) * 20
        recent.see(ids, times, 20.0 * (step + 1))
        log += list(zip(ids.tolist(), times.tolist(), strict=True))


def test_a_window_survives_a_restart_and_is_named() -> None:
    one, other = RecentPopularity(900), RecentPopularity(900)
    one.see(np.array([2, 3], np.int32), np.array([1.0, 2.0]), 2.0)
    other.restore(one.tensors())
    histories, known = batch(0)
    assert np.array_equal(one.ranks(histories, known, OLD, hide=False), other.ranks(histories, known, OLD, hide=False))
    assert (one.name, RecentPopularity(21600).name) == ("popular 15 min", "popular 6 h")


def test_unknown_is_no_value() -> None:
    assert UNKNOWN < FIRST
