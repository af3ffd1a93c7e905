"""Who spreads it: the counts against loops, the intervals, and what a model leaned on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from ensue import History, SettingError
from ensue.data.histories import Histories
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.spreaders import MAX_EXPLAINED, drawn_cascade, leaned_on, spreaders

CASCADES = [("a", "b", "c"), ("b", "a"), ("a", "b", "a", "d"), ("d",), ("c", "a", "b", "d", "e")]


def histories(cascades: Sequence[tuple[str, ...]] = CASCADES) -> Histories:
    return Histories.of([History(one, tuple(60.0 * at for at in range(len(one)))) for one in cascades])


def counted(cascades: Sequence[tuple[str, ...]]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    taken, first, followed = Counter[str](), Counter[str](), Counter[str]()
    for cascade in cascades:
        people = list(dict.fromkeys(cascade))
        first[cascade[0]] += 1
        for place, person in enumerate(people):
            taken[person] += 1
            followed[person] += len(people) - 1 - place
    return taken, first, followed


def test_counts_are_those_of_a_loop_and_a_person_counts_once_a_cascade() -> None:
    random = np.random.default_rng(0)
    drawn = [tuple(f"u{i}" for i in random.integers(0, 9, random.integers(1, 12))) for _ in range(200)]
    for cascades in (CASCADES, drawn):
        taken, first, followed = counted(cascades)
        found = {one.value: one for one in spreaders(histories(cascades), top=50)}
        assert set(found) == set(taken)
        for value, one in found.items():
            assert (one.cascades, one.first.total, one.followed.total) == (taken[value], first[value], followed[value])
            assert (one.credit, one.times_even) == (None, None)
            assert one.followed.low <= one.followed.total <= one.followed.high


def test_the_first_one_leads_and_ties_go_to_who_takes_part_more() -> None:
    assert [one.value for one in spreaders(histories(), by="first", top=2)] == ["a", "b"]
    assert [one.value for one in spreaders(histories(), by="followed", top=2)] == ["a", "b"]
    totals = [one.followed.total for one in spreaders(histories(), top=5)]
    assert totals == sorted(totals, reverse=True)


def test_the_interval_is_that_of_cascades_drawn_anew() -> None:
    # Someone who begins 100 of many cascades: the number of them drawn anew is Poisson, 100 +- 1.96 * 10.
    many = histories([("a", "b")] * 100 + [("b", "c")] * 900)
    (found,) = (one for one in spreaders(many, top=9) if one.value == "a")
    assert [found.first.low, found.first.high] == pytest.approx([80.4, 119.6], abs=3)


def test_who_is_in_very_many_cascades_gets_the_limit_of_the_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    many = histories([("a", "b", "c")] * 300)
    (drawn, *_) = spreaders(many)
    monkeypatch.setattr("ensue.tasks.next.spreaders.MAX_RESAMPLED", 10)
    (limit, *_) = spreaders(many)
    assert limit.followed.low == pytest.approx(drawn.followed.low, rel=0.03)
    assert limit.followed.high == pytest.approx(drawn.followed.high, rel=0.03)


def test_even_weights_are_one_time_an_even_share() -> None:
    data = histories()
    lengths = data.lengths
    even = [sum(1 / step for step in range(place + 1, size)) for size in lengths for place in range(size)]
    found = spreaders(data, np.array(even), by="credit", top=5)
    assert [one.times_even for one in found] == [*[pytest.approx(1.0)] * 4, None]  # nobody comes after e


def test_credit_without_a_model_is_refused() -> None:
    with pytest.raises(SettingError, match="credit needs the attention of a model: give one with --folder"):
        spreaders(histories(), by="credit")
    with pytest.raises(SettingError, match="k is 0"):
        spreaders(histories(), top=0)


@pytest.fixture(scope="module", params=["hidan", "sansr", "narm", "markov"])
def predictor(request: pytest.FixtureRequest) -> NextPredictor:
    options = {"hidan": {"dim": 8, "table_dim": 4}, "sansr": {"dim": 8}, "narm": {"dim": 8}, "markov": {}}
    settings = {**options[request.param], **({} if request.param == "markov" else {"epochs": 1})}
    found = NextPredictor(request.param, settings=settings, seed=0)
    list(found.fit(histories(CASCADES * 12)))
    return found


def test_each_event_but_the_first_shares_out_one_at_most(predictor: NextPredictor) -> None:
    random = np.random.default_rng(1)
    some = [tuple(random.choice(list("abcde"), size)) for size in (1, 2, 5, 70, 33)]
    data = histories([*some, ()]).encode(predictor.vocabulary)
    found = leaned_on(predictor, data)
    assert found.shape == data.ids.shape
    assert (found >= 0).all()
    assert (found[data.offsets[1:6] - 1] == 0).all()  # nobody comes after the last
    total = np.array([found[low:high].sum() for low, high in zip(data.offsets, data.offsets[1:], strict=False)])
    assert (total <= np.maximum(data.lengths - 1, 0) + 1e-4).all()
    if predictor.model_name in ("sansr", "narm"):  # elsewhere an event may have leaned on nothing
        assert total == pytest.approx(np.maximum(data.lengths - 1, 0), abs=1e-4)


def test_what_is_leaned_on_is_the_same_beside_other_cascades(predictor: NextPredictor) -> None:
    both = histories([("a", "b", "c", "d"), ("e", "d", "a")]).encode(predictor.vocabulary)
    apart = np.concatenate([leaned_on(predictor, both.select(np.array([row]))) for row in (0, 1)])
    assert leaned_on(predictor, both) == pytest.approx(apart, abs=1e-5)


def test_the_cascade_that_is_drawn_is_the_longest_that_fits(predictor: NextPredictor) -> None:
    long = tuple("abcde"[at % 5] for at in range(MAX_EXPLAINED + 1))
    data = histories([("a", "b"), ("c", "a", "d"), long]).encode(predictor.vocabulary)
    found = drawn_cascade(predictor, data)
    assert found is not None
    assert found.values == ("c", "a", "d")
    leaned = leaned_on(predictor, data.select(np.array([1])))
    assert np.array(found.dependency).sum(0) == pytest.approx(leaned, abs=1e-5)
    assert drawn_cascade(predictor, histories([("a",)]).encode(predictor.vocabulary)) is None


def test_a_model_of_sums_credits_what_raised_the_score() -> None:
    model = NextPredictor("hidan", settings={"dim": 8, "table_dim": 4, "epochs": 1}, seed=0)
    list(model.fit(histories(CASCADES * 12)))
    data = histories([("a", "b", "c", "d")]).encode(model.vocabulary)
    found = drawn_cascade(model, data)
    assert found is not None
    rows = np.array(found.dependency)
    assert np.triu(rows).sum() == 0
    assert ((rows.sum(1) < 1e-6) | (abs(rows.sum(1) - 1) < 1e-5)).all()
