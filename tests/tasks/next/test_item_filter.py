"""Lists of a request: what may be an answer, in Python; see also tests/serve and tests/cli."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl
import pytest

from ensue import Answer, DataError, History
from ensue.data.histories import Histories
from ensue.tasks.next import item_filter as filters
from ensue.tasks.next.item_filter import FilterCache, ItemFilter, Rules, StoredList
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import Vocabulary

CLICKS = [("a", "b", "c", "a"), ("b", "c", "b"), ("c", "a", "b"), ("d", "a", "d"), ("e", "b", "c", "f")] * 12
ASKED = [History(("a", "b")), History(()), History(("new", "b", "new")), History(("d",), (3.0,))]


@pytest.fixture(scope="module", params=["rules", "popularity", "sansr", "blend"])
def predictor(request: pytest.FixtureRequest) -> NextPredictor:
    settings = {"sansr": {"dim": 8, "epochs": 1}, "blend": {"epochs": 1}}.get(request.param, {})
    found = NextPredictor(request.param, settings=settings, seed=0)
    list(found.fit(Histories.of([History(one, tuple(60.0 * at for at in range(len(one)))) for one in CLICKS])))
    return found


def pairs(answer: Answer) -> list[tuple[str, float]]:
    """Values with their scores, equal scores by the alphabet."""
    scores = [choice.score for choice in answer.choices]
    assert scores == sorted(scores, reverse=True)
    return sorted(((choice.value, choice.score) for choice in answer.choices), key=lambda pair: (-pair[1], pair[0]))


def test_what_is_excluded_is_no_answer_and_all_else_is_as_before(predictor: NextPredictor) -> None:
    plain = predictor.predict(ASKED, 50, rank_unknown=True)
    for exclude in (["b"], ["b", "c", "new"], ["nobody knows this"], list("abcdef")):
        found = predictor.predict(ASKED, 50, exclude=exclude, rank_unknown=True)
        for one, other in zip(found, plain, strict=True):
            assert pairs(one) == [pair for pair in pairs(other) if pair[0] not in exclude]


def test_only_what_is_allowed_is_an_answer(predictor: NextPredictor) -> None:
    plain = predictor.predict(ASKED, 50, rank_unknown=True)
    for allow, exclude in ((["b", "f"], []), (["new", "a"], []), (list("abc"), ["b"]), ([], []), (["x"], [])):
        found = predictor.predict(ASKED, 50, allow=allow, exclude=exclude, rank_unknown=True)
        for one, other in zip(found, plain, strict=True):
            kept = [pair for pair in pairs(other) if pair[0] in set(allow) - set(exclude)]
            assert pairs(one) == kept


def test_as_many_as_are_asked_for_come_where_there_are_so_many(predictor: NextPredictor) -> None:
    (best, *_) = predictor.predict(ASKED[:1], 1)
    (next_best,) = predictor.predict(ASKED[:1], 3, exclude=[best.choices[0].value])
    assert len(next_best.choices) == 3


def test_no_forbidden_value_is_let_through() -> None:
    random = np.random.default_rng(0)
    values = [f"v{at}" for at in range(300)]
    clicks = [History(tuple(random.choice(values, random.integers(2, 9)).tolist())) for _ in range(400)]
    predictor = NextPredictor("cooccurrence")
    list(predictor.fit(Histories.of(clicks)))
    for _ in range(40):
        lists = [frozenset(random.choice([*values, "other"], random.integers(1, 290)).tolist()) for _ in range(2)]
        record = [History((*random.choice(values, 3).tolist(), "other"))] * 5
        for answer in predictor.predict(
            record, 20, exclude=lists[0], allow=lists[1], evidence=False, rank_unknown=True
        ):
            assert {choice.value for choice in answer.choices} <= lists[1] - lists[0]


def filter_of(
    cache: FilterCache, exclude: Collection[str], allow: Collection[str] | None, vocabulary: Vocabulary
) -> ItemFilter:
    (item_filter,) = cache.of_each([Rules.of(exclude, allow)], vocabulary)
    assert item_filter is not None
    return item_filter


def test_lists_that_come_again_are_found_and_no_other_is_taken_for_them() -> None:
    vocabulary, cache = Vocabulary(f"v{at}" for at in range(600)), FilterCache()
    shop = [f"v{at}" for at in range(300)]
    first = filter_of(cache, shop, None, vocabulary)
    assert filter_of(cache, [*shop], None, vocabulary) is first
    assert filter_of(cache, [], shop, vocabulary) is not first
    assert filter_of(cache, shop[:2], None, vocabulary) is not filter_of(cache, shop[:2], None, vocabulary)
    assert filter_of(cache, shop, None, Vocabulary(["v1"])) is not first
    # texts that are the same when they are put together, of as many values
    one, other = ["a\0b", "c", *shop], ["a", "b\0c", *shop]
    for values in (one, other, one, ["half a character: \ud800", *shop]):
        item_filter = filter_of(cache, values, None, vocabulary)
        assert not [value for value in values if value in item_filter] and "b" in item_filter
    assert filter_of(cache, shop, None, vocabulary) is first
    stored = StoredList(shop)
    assert filter_of(cache, stored, None, vocabulary) is filter_of(cache, stored, None, vocabulary)


def test_a_list_that_is_changed_after_a_request_is_another(predictor: NextPredictor) -> None:
    shop = [*"abc", *(f"other {at}" for at in range(300))]
    record = [History(("a", "b"))]
    before = predictor.predict(record, 9, allow=shop, exclude_seen=False)
    shop.remove("c")
    for allow, wanted in ((shop, "ab"), ([*"abc", *shop[2:]], "abc"), (shop, "ab")):
        (answer,) = predictor.predict(record, 9, allow=allow, exclude_seen=False)
        assert {choice.value for choice in answer.choices} == {*wanted}
    assert {choice.value for choice in before[0].choices} == {*"abc"}


def test_lists_of_many_requests_are_looked_up_as_those_of_one() -> None:
    random, vocabulary = np.random.default_rng(1), Vocabulary(f"v{at}" for at in range(600))
    values = [*vocabulary.values, *(f"new {at}" for at in range(50))]
    drawn = [random.choice(values, random.integers(0, 500)).tolist() for _ in range(12)]
    requests: list[tuple[list[str], list[str] | None]] = [([], None), *zip(drawn[:6], drawn[6:], strict=True)]
    requests += [(own, None) for own in drawn]
    requests += [([], own) for own in drawn]
    rules = [Rules.of(*request) for request in requests]
    together = FilterCache().of_each([*rules, *rules], vocabulary)
    assert together[: len(requests)] == together[len(requests) :] and together[0] is None
    for (exclude, allow), item_filter in zip(requests[1:], together[1:], strict=False):
        assert item_filter is not None
        permitted = [value for value in values if value not in exclude and (allow is None or value in allow)]
        assert [value for value in values if value in item_filter] == permitted
        assert [vocabulary.value(id) for id in item_filter.mask.nonzero()[0].tolist()] == [
            value for value in permitted if value in vocabulary
        ]
        assert item_filter.num_permitted == sum(value in vocabulary for value in permitted)


@pytest.mark.parametrize(("name", "limit"), [("MAX_CACHED", 2), ("MAX_CACHED_BYTES", 30)])
def test_the_latest_filters_are_cached(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, name, limit)
    vocabulary, cache = Vocabulary(["v1"]), FilterCache()
    lists = [[f"{letter}{at}" for at in range(300)] for letter in "abc"]
    made = [filter_of(cache, own, None, vocabulary) for own in lists]
    assert [filter_of(cache, own, None, vocabulary) is one for own, one in zip(lists[:0:-1], made[:0:-1], strict=True)]
    assert filter_of(cache, lists[2], None, vocabulary) is made[2]
    assert filter_of(cache, lists[0], None, vocabulary) is not made[0]


def test_rules_of_other_types_are_one_line() -> None:
    assert Rules.of(exclude=pl.Series(["a", "b"])).exclude == (("a", "b"),)
    assert Rules.of(exclude=np.array(["a", "b"])).exclude == (("a", "b"),)
    with pytest.raises(DataError, match=r"max_per is of type list; give a dictionary such as \{'brand': 2\}"):
        Rules.of(max_per=[("brand", 2)])  # type: ignore[arg-type]
    for now in (1_700_000_000_000.0, "2024-05-01", float("nan")):
        with pytest.raises(DataError, match="give seconds since 1970, not milliseconds"):
            Rules.of(now=now)  # type: ignore[arg-type]
