"""Unknown values of a history: candidates where that is asked for, in ranks as in answers, and nowhere else."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ensue import History, metrics
from ensue.data.histories import Histories
from ensue.evaluation.next_event import SessionTargets
from ensue.tasks.next.attributions import encode_records
from ensue.tasks.next.baselines.repeats import RepeatShares
from ensue.tasks.next.infer import catalogue_scores
from ensue.tasks.next.own_unknown import MAX_DISTANCE, MAX_SHARE, CandidateEntries, of_records, of_targets
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.training_data import Exclusion
from ensue.vocabulary import Vocabulary
from tests.tasks.next.contract import score_drops_are_removals

HOUR = 3600.0


def again(num: int, seed: int) -> list[History]:
    """Walks of 4 over 12 values; then, of two in three, the one two before, else any."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(num):
        values = [f"a{value}" for value in random.integers(0, 12, 4)]
        values.append(values[2] if random.random() < 0.67 else f"a{random.integers(0, 12)}")
        found.append(History(tuple(values), tuple(HOUR * step for step in range(5))))
    return found


def fitted(records: list[History], model: str = "rules", **settings: object) -> NextPredictor:
    made = NextPredictor(model, settings=settings, device="cpu")
    for _ in made.fit(Histories.of(records)):
        pass
    return made


@pytest.fixture(scope="module", params=["rules", "interpolated", "core"])
def predictor(request: pytest.FixtureRequest) -> NextPredictor:
    quick = {"dim": 8, "epochs": 1, "batch_size": 16} if request.param == "core" else {}
    return fitted(again(60, 0), request.param, **quick)


def repeats_of(predictor: NextPredictor) -> RepeatShares:
    shares = predictor.repeat_shares()
    assert shares is not None
    return shares


def share(predictor: NextPredictor, away: int) -> float:
    return repeats_of(predictor).shares(np.array([away]), lone=True).item()


def test_unknown_values_get_ids_of_their_own() -> None:
    data = Histories.of([History(("x", "a", "y", "x")), History(("y", "b"))])
    coded = data.encode(Vocabulary("ab"), drop_unknown=True, number_unknown=True)
    assert coded.ids.tolist() == [4, 2, 5, 4, 5, 3] and len(coded.vocabulary) == 4
    assert data.encode(Vocabulary("ab"), drop_unknown=True).ids.tolist() == [2, 3]


def test_candidates_of_targets_by_hand() -> None:
    repeats = RepeatShares()
    repeats.lone_again[1:3] = torch.tensor([50.0, 20.0])
    repeats.lone_offered[1:3] = 100.0
    data = Histories.of([History(("x", "a", "x", "y")), History(("y", "b"))]).encode(
        Vocabulary("ab"), number_unknown=True
    )
    found = of_targets(data, repeats)
    # x (4) stands before a at 1, before the second x at 2, before y at 1; y (5) before b at 1; the last y before none.
    assert list(zip(found.target.tolist(), found.value.tolist(), strict=True)) == [(1, 4), (2, 4), (3, 4), (5, 5)]
    near, far = 50 / 105, 20 / 105
    assert found.odds.tolist() == pytest.approx([math.log(one / (1 - one)) for one in (near, far, near, near)])


def test_many_candidates_leave_something_to_the_model() -> None:
    repeats = RepeatShares()
    repeats.again += 90.0
    repeats.offered += 100.0
    places = np.arange(4)
    found = CandidateEntries.of(np.zeros(4, np.int64), places, places + 1, np.zeros(4, bool), repeats)
    assert np.exp(found.odds).sum() == pytest.approx(MAX_SHARE / (1 - MAX_SHARE))
    own = of_records([History(("x",) + ("a",) * MAX_DISTANCE)], np.arange(1 + MAX_DISTANCE) == 0, repeats)
    assert own.odds.shape == (1, 0)  # too far back


def test_what_is_new_to_all_is_no_part_of_what_the_model_knows() -> None:
    """Of (x a y), x and y unknown: a comes again with 0.3, x and y with 0.1 each; of the rest 0.8 is new."""
    repeats = RepeatShares()
    repeats.again[2], repeats.offered[2] = 3e6, 1e7
    for distance in (1, 3):
        repeats.again[distance], repeats.offered[distance] = 1e6, 1e7
        repeats.lone_again[distance], repeats.lone_offered[distance] = 1e6, 1e7
    repeats.held = np.array([1e7, 0.8e7], np.float32)
    data = Histories.of([History(("x", "a", "y", "b"))]).encode(Vocabulary("ab"), number_unknown=True)
    found = of_targets(data, repeats)
    odds = math.log(0.1 / (0.3 + 0.2 * 0.5))
    assert found.odds[found.target == 3].tolist() == pytest.approx([odds, odds], abs=1e-4)
    own = of_records([History(("x", "a", "y"))], np.array([True, False, True]), repeats)
    assert own.odds[0].tolist() == pytest.approx([odds, odds], abs=1e-4) and sorted(own.positions[0].tolist()) == [0, 2]


def test_novelty_is_counted_as_good_did() -> None:
    """Pairs of a history and a value: a b, a c, c d; b and d are held once."""
    repeats = RepeatShares()
    data = Histories.of([History(("a", "b", "a")), History(("a", "c")), History(("c", "d", "d"))])
    repeats.count(data, np.bincount(data.ids).astype(np.float32))
    assert repeats.held.tolist() == [6, 2]
    assert repeats.novelty() == pytest.approx(2 / (6 + 5))


def test_the_answer_holds_it_with_the_share_of_its_distance(predictor: NextPredictor) -> None:
    record = History(("a1", "new", "a3"), (0.0, HOUR, 2 * HOUR))
    plain = History(("a1", "a3"), (0.0, 2 * HOUR))
    (answer,), (without,) = (
        predictor.predict([one], 99, rank_unknown=True, exclude_seen=False) for one in (record, plain)
    )
    assert "new" not in {choice.value for choice in predictor.predict([record], 99)[0].choices}
    assert (answer.in_vocabulary, answer.events) == (2, 3)
    found = {choice.value: choice for choice in answer.choices}
    mass = share(predictor, 2)
    assert found["new"].score == pytest.approx(mass, abs=1e-5)
    assert sum(choice.score for choice in answer.choices) == pytest.approx(1, abs=1e-5)
    for choice in without.choices:
        assert found[choice.value].score == pytest.approx((1 - mass) * choice.score, abs=1e-5)
    (attribution,) = found["new"].attributions
    assert (attribution.value, attribution.position, attribution.weight) == (
        "new",
        1,
        1.0,
    ) and attribution.score_drop == pytest.approx(mass, abs=1e-5)
    # What it held before too drops but in part: the one at 0 would stand two before the next.
    (twice,) = predictor.predict([History(("new", "a1", "new"))], 99, rank_unknown=True, exclude_seen=False)
    (attribution,) = next(choice for choice in twice.choices if choice.value == "new").attributions
    assert attribution.position == 2
    assert attribution.score_drop == pytest.approx(share(predictor, 1) - share(predictor, 2), abs=1e-5)


@pytest.mark.parametrize("rank_unknown", [False, True])
def test_score_drops_are_removals(predictor: NextPredictor, *, rank_unknown: bool) -> None:
    records = [
        History(("a1", "new", "a3"), (0.0, HOUR, 2 * HOUR)),
        History(("new", "a1", "new", "newer", "a2", "newer")),
        History(("x", "a1", "a1", "a4")),
        History(("x", "y", "x")),
        History(("x", *("a1", "a2") * 50, "a3")),  # x comes into reach once one of them is gone
    ]
    assert score_drops_are_removals(predictor, records, rank_unknown=rank_unknown, exclude_seen=False) >= 12


def test_batches_and_evidence_change_no_answer(predictor: NextPredictor) -> None:
    records = [
        History(("x", "y", "z", "a1")),
        History(("a1", "a2")),
        History(("x", "x")),
        History(()),
        History(("a1", "y")),
    ]
    together = predictor.predict(records, 99, rank_unknown=True, exclude_seen=False)
    for record, answer in zip(records, together, strict=True):
        (alone,) = predictor.predict([record], 99, rank_unknown=True, exclude_seen=False)
        assert {one.value: one.score for one in alone.choices} == pytest.approx(
            {one.value: one.score for one in answer.choices}, abs=1e-6
        )
    brief = predictor.predict(records, 99, evidence=False, rank_unknown=True, exclude_seen=False)
    assert [[one.value for one in answer.choices] for answer in brief] == [
        [one.value for one in answer.choices] for answer in together
    ]
    assert not {"x", "y", "z"} & {choice.value for choice in together[1].choices}


@pytest.mark.parametrize("rank_unknown", [False, True])
def test_ranks_are_those_of_the_answers(predictor: NextPredictor, *, rank_unknown: bool) -> None:
    """Every target of histories with and without unknown values, against the answer to what came before it."""
    values = ("x", "a1", "x", "a2", "y", "a2", "x", "y", "a1", "a9")
    records = [History(values), History(("x", "x", "a3", "x")), History(("a1", "a2", "a2"))]
    data = Histories.of(records)
    coded = data.encode(predictor.vocabulary, number_unknown=True)
    rank, sequence, event = predictor.ranks(coded, rank_unknown=rank_unknown)
    expected, seen = {}, set()
    for number, record in enumerate(records):
        for place in range(1, len(record.values)):
            past, target = record.values[:place], record.values[place]
            (answer,) = predictor.predict(
                [History(past)], 99, evidence=False, rank_unknown=rank_unknown, exclude_seen=False
            )
            scores = {choice.value: choice.score for choice in answer.choices}
            if target in scores:
                expected[number, place] = sum(score >= scores[target] * (1 - 1e-6) for score in scores.values())
                seen.add(target)
    found = dict(zip(zip(sequence.tolist(), (event - data.offsets[sequence]).tolist(), strict=True), rank, strict=True))
    assert seen >= {"a1", "a3"} and ({"x", "y"} <= seen) == rank_unknown and found == expected


def test_an_evaluation_finds_what_comes_again_where_that_is_asked_for(predictor: NextPredictor) -> None:
    test = Histories.of([History((f"n{number}", "a1", f"n{number}"), (0.0, 1.0, 2.0)) for number in range(20)])
    scored = SessionTargets([[predictor]], test, unknown="rank").score(predictor)
    assert len(scored.rank) == 40 and (scored.rank[1::2] <= 3).all()  # n comes again
    assert (scored.rank[::2] == scored.rank[0]).all() and scored.rank[0] <= 13  # a1 follows nothing known
    sampled = SessionTargets([[predictor]], test, protocol="sampled", unknown="rank").score(predictor)
    assert np.isfinite(sampled.rank).all() and sampled.rank.min() >= 1
    for counting in (None, "popularity"):
        assert np.isinf(SessionTargets([[predictor]], test).score(predictor, counting).rank[1::2]).all()
        assert len(SessionTargets([[predictor]], test, unknown="drop").score(predictor, counting).rank) == 20


def test_nothing_is_added_where_nothing_repeats() -> None:
    walks = [History(tuple(f"a{(start + step) % 9}" for step in range(4))) for start in range(40)]
    predictor = fitted(walks)
    assert predictor.repeat_shares() is None
    (answer,) = predictor.predict([History(("new", "a1"))], 99, rank_unknown=True, exclude_seen=False)
    assert "new" not in {choice.value for choice in answer.choices}
    test = Histories.of([History(("new", "a1", "new"))])
    scored = SessionTargets([[predictor]], test, protocol="macro", unknown="rank").score(predictor)
    assert np.isfinite(scored.rank).tolist() == [True, False]


def test_a_folder_of_before_answers_as_before() -> None:
    predictor = fitted(again(60, 0))
    del predictor.counting["own-items"]
    (answer,) = predictor.predict([History(("a1", "new"))], 99, rank_unknown=True, exclude_seen=False)
    assert "new" not in {choice.value for choice in answer.choices}


def test_scores_of_known_values_are_not_touched() -> None:
    predictor = fitted(again(60, 0))
    data = Histories.of(again(20, 1), predictor.vocabulary)
    coded = data.encode(predictor.vocabulary, drop_unknown=True, number_unknown=True)
    rank, *_ = predictor.ranks(coded, rank_unknown=True)
    assert np.array_equal(rank, predictor.ranks(data)[0]) and metrics.reciprocal_rank(rank).mean() > 0.2
    encoded = encode_records([History(("a1", "new"))], predictor.vocabulary)
    item_scores, *_ = catalogue_scores(predictor, Exclusion.NONE, encoded.histories)
    assert item_scores.shape[1] == len(predictor.vocabulary)
