"""The best items of large catalogues, found without a block of all scores: the answers are those of all scores."""

from __future__ import annotations

import numpy as np
import pytest

from ensue import kernels
from ensue.answers import Answer
from ensue.data.histories import Histories
from ensue.nn.item_head import MIN_LONG_IDS
from ensue.records import History
from ensue.tasks.next import infer
from ensue.tasks.next.item_filter import Rules
from ensue.tasks.next.predictor import NextPredictor
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = needs_kernels
LEVELS = [level for level in HERE if level in kernels.LEVELS[1:]]
SMALL = {"core": {"dim": 8, "heads": 1, "negatives": 16}, "sansr": {"dim": 8, "heads": 1, "negatives": 16}}


@pytest.fixture(scope="module", params=SMALL)
def predictor(request: pytest.FixtureRequest) -> NextPredictor:
    """A network of one step over more items than a whole block of scores suits."""
    ids = [f"i{number}" for number in range(MIN_LONG_IDS + 10)]
    sessions = [History(tuple(ids[low : low + 50])) for low in range(0, len(ids), 50)]
    predictor = NextPredictor(
        request.param, settings={**SMALL[request.param], "epochs": 1, "max_steps": 1}, device="cpu"
    )
    for _ in predictor.fit(Histories.of(sessions), Histories.of(sessions[:2])):
        pass
    return predictor


def records() -> list[History]:
    """Sessions of different lengths, one of them unknown and one empty."""
    known = [History(tuple(f"i{(7 * at + 31 * number) % 999}" for at in range(number % 9 + 1))) for number in range(40)]
    return [*known[:20], History(()), History(("nobody", "i3", "i3")), History(("nobody",)), *known[20:]]


def scores(answers: list[Answer]) -> list[float]:
    """All probabilities."""
    return [choice.score for answer in answers for choice in answer.choices]


def numbers(answers: list[Answer]) -> list[float]:
    """All probabilities, weights and score drops."""
    attributions = [each for answer in answers for choice in answer.choices for each in choice.attributions]
    return [
        *scores(answers),
        *(each.weight for each in attributions),
        *(each.score_drop or 0.0 for each in attributions),
    ]


def bare(answers: list[Answer]) -> list[object]:
    """All else."""
    choices = [
        [(choice.value, [each.value for each in choice.attributions]) for choice in answer.choices]
        for answer in answers
    ]
    return [choices, [(answer.in_vocabulary, answer.events, answer.id) for answer in answers]]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("evidence", [False, True])
@pytest.mark.parametrize("exclude_seen", [False, True])
def test_answers_are_those_of_all_scores(
    predictor: NextPredictor, level: str, evidence: bool, exclude_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(asked: list[History]) -> list[Answer]:
        return predictor.predict(asked, 12, evidence=evidence, exclude_seen=exclude_seen)

    with using("off"):
        plain = answers(records())
    with using(level):
        with monkeypatch.context() as all_scores:
            all_scores.setattr(infer, "MAX_BEST", 0)
            expected = answers(records())
        monkeypatch.setattr(infer, "MAX_RANKED", 7)  # several chunks
        best = answers(records())
        if not evidence:
            # No block of all scores is made where nothing else is asked for.
            monkeypatch.setattr(infer, "catalogue_scores", None)
            assert answers(records()) == best
    assert bare(best) == bare(expected)
    # Vectors of sessions differ in their last digit by how many are computed together, and are rounded to 16 bits.
    np.testing.assert_allclose(numbers(best), numbers(expected), rtol=2e-4, atol=1e-6)
    # Without kernels, equal scores may come in another order.
    np.testing.assert_allclose(scores(best), scores(plain), rtol=1e-3)


@pytest.mark.parametrize("level", LEVELS)
def test_permitted_items_are_those_of_the_ranking_of_all_without_a_block_of_scores(
    predictor: NextPredictor, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record has rules of its own, or none; so have records without events."""
    num_ids = MIN_LONG_IDS + 10
    rules = [
        Rules(),
        Rules.of(exclude=[f"i{number}" for number in range(0, num_ids, 2)]),
        Rules.of(allow=[f"i{number}" for number in range(5, num_ids, 1000)]),
        Rules.of(allow=[f"i{number}" for number in range(4)]),
        Rules.of(allow=["nobody"]),
    ]
    asked = records()
    each = [rules[at % len(rules)] for at in range(len(asked))]
    with using(level):
        with monkeypatch.context() as all_scores:
            all_scores.setattr(infer, "MAX_BEST", 0)
            ranking = predictor.predict(asked, num_ids, evidence=False)
        monkeypatch.setattr(infer, "MAX_RANKED", 7)  # several chunks
        monkeypatch.setattr(infer, "catalogue_scores", None)
        best = infer.predict_each(predictor, asked, predictor.filters_of(each), 12, evidence=False)
    for answer, ranked, of_record in zip(best, ranking, each, strict=True):
        (item_filter,) = predictor.filters_of([of_record])
        ids = predictor.vocabulary.ids([choice.value for choice in ranked.choices])
        is_permitted = [item_filter is None or bool(item_filter.mask[id]) for id in ids.tolist()]
        expected = [choice for choice, is_open in zip(ranked.choices, is_permitted, strict=True) if is_open][:12]
        # Lower scores of the full ranking are rounded to 16 bits, so items with nearly the same score may swap places.
        np.testing.assert_allclose(
            [choice.score for choice in answer.choices], [choice.score for choice in expected], rtol=1e-3
        )
        of_value = {choice.value: choice.score for choice in ranked.choices}
        assert all(
            choice.score == pytest.approx(of_value[choice.value], rel=1e-3)
            and (item_filter is None or item_filter.mask[predictor.vocabulary.ids([choice.value])[0]])
            for choice in answer.choices
        )
