"""Metrics of lists beyond accuracy, and rows of re-ranked lists; benchmarks/rules.py compares with RecTools."""

from __future__ import annotations

from itertools import combinations
from math import log2
from typing import Any

import numpy as np
import polars as pl
import pytest

from ensue import NextEvent
from ensue.errors import DataError
from ensue.evaluation.beyond_accuracy import is_popular, list_metrics
from ensue.tasks.next.item_filter import Rules
from ensue.vocabulary import FIRST
from tests.kernels.paths import needs_kernels, using

TRAIN = [["a", "b", "c"], ["a", "b"], ["a", "d"], ["a", "c", "e"], ["f"]]
LISTS = [["a", "b", "c"], ["f", "d", "a"], ["b"]]
TARGETS = ["c", "f", "d"]


def test_list_metrics_are_those_of_the_formulas() -> None:
    predictor = NextEvent("cooccurrence").fit(TRAIN).predictor_
    counts = {"a": 4, "b": 2, "c": 2, "d": 1, "e": 1, "f": 1}
    lists = np.zeros((3, 3), np.int64)
    for row, items in enumerate(LISTS):
        lists[row, : len(items)] = predictor.vocabulary.ids(items)
    found = list_metrics(lists, predictor.vocabulary.ids(TARGETS).astype(np.int64), predictor)
    assert found["coverage@3"] == pytest.approx(5 / 6)
    listed = sorted(sum(item in items for items in LISTS) for item in counts)
    pairs = sum(abs(one - other) for one in listed for other in listed)
    assert found["gini@3"] == pytest.approx(pairs / (2 * len(listed) * sum(listed)))
    novelty = [np.mean([-log2(counts[item] / len(TRAIN)) for item in items]) for items in LISTS]
    assert found["novelty@3"] == pytest.approx(np.mean(novelty))
    # c is third by popularity with b, which is a rank of 2; f shares rank 3. Both are relevant.
    assert found["serendipity@3"] == pytest.approx(np.mean([0, ((6 - 0) / 6 - (6 - 2) / 6) / 3, 0]))
    assert found["popularity@3"] == pytest.approx(np.mean([8 / 3, 2, 2]))
    similarity = predictor.item_similarity()

    def distance(first: str, second: str) -> float:
        ids = predictor.vocabulary.ids([first, second]).astype(np.int64)
        return float(1 - similarity.of_pairs(ids[:1], ids[1:])[0])

    diversity = [np.mean([distance(*pair) for pair in combinations(items, 2)] or [0.0]) for items in LISTS]
    assert found["diversity@3"] == pytest.approx(np.mean(diversity))
    assert is_popular(predictor.vocabulary.ids(list("abcdef")), predictor).tolist() == [True, True, *[False] * 4]


def test_evaluations_have_metrics_of_lists_and_of_popular_and_rare_targets() -> None:
    model = NextEvent("markov").fit(TRAIN * 3)
    result = model.evaluate([["a", "b"], ["a", "e", "new"], ["f"]], cutoffs=[2])
    notes = result.rows[0].notes
    assert [*notes["beyond_accuracy"]] == [
        f"{name}@2" for name in ("coverage", "gini", "novelty", "serendipity", "diversity", "popularity")
    ]
    assert (notes["by_popularity"]["popular"]["targets"], notes["by_popularity"]["rare"]["targets"]) == (1, 2)
    assert result.card["lists"] == "the 2 best items at each of 2 targets; diversity is 1 - similarity by co-occurrence"
    # No training session repeats an item, so after a popularity recommends b and c.
    popularity = {row.model: row for row in result.rows}["popularity"].notes["beyond_accuracy"]
    assert popularity["coverage@2"] == pytest.approx(2 / 6) and popularity["popularity@2"] == pytest.approx(6)


@pytest.fixture(scope="module")
def shop() -> NextEvent:
    items = pl.DataFrame({"item": [f"i{at}" for at in range(12)], "brand": ["x", "y", "z"] * 4})
    random = np.random.default_rng(0)
    sessions = [[f"i{at}" for at in random.integers(0, 12, 4)] for _ in range(80)]
    return NextEvent("core", dim=4, epochs=1, min_steps=1, refit=False).fit(sessions, items=items)


def test_re_ranked_lists_are_a_row_with_its_price(shop: NextEvent) -> None:
    """The row ranks as ``predict`` answers: the chosen items first, then all others in their order."""
    test = [["i1", "i2", "i5"], ["i3", "i3", "i0"]]
    plain = shop.evaluate(test, cutoffs=[3])
    result = shop.evaluate(test, cutoffs=[3], max_per={"brand": 1}, diversify="mmr=0.4")
    name = "core, mmr=0.4, 1 per brand"
    assert [row.model for row in result.rows[:3]] == ["core", name, "popularity"]
    assert result.rows[0].figures == plain.rows[0].figures and result.model == "core"
    assert result.examples is not None
    ranks = result.examples.to_frame().filter(model=name)["rank"].to_list()
    prefixes = [session[:end] for session in test for end in (1, 2)]
    targets = [session[end] for session in test for end in (1, 2)]
    for prefix, target, rank in zip(prefixes, targets, ranks, strict=True):
        (best,) = shop.predict([prefix], k=3, exclude_seen=False, max_per={"brand": 1}, diversify="mmr=0.4").values
        (others,) = shop.predict([prefix], k=12, exclude_seen=False).values
        assert rank == [*best, *(item for item in others if item not in best)].index(target) + 1
    change = 100 * (result.rows[1].figures["hit@3"] - result.rows[0].figures["hit@3"])
    assert f"{name}: HR@3 {change:+.2f} points (95 % CI " in result.verdict
    assert result.rows[1].notes["beyond_accuracy"]["coverage@3"] > 0
    with pytest.raises(DataError, match="max_per: the item table has no column 'colour'; it has brand"):
        shop.evaluate(test, max_per={"colour": 1})


@pytest.mark.parametrize(
    "rules", [{"max_per": {"brand": 1}}, {"max_per": {"brand": 2}, "diversify": "mmr=0.4"}, {"diversify": "mmr=0.6"}]
)
def test_metrics_of_every_cutoff_are_those_of_lists_that_predict_answers(shop: NextEvent, rules: Any) -> None:
    test = [["i1", "i2", "i5", "i9"], ["i3", "i3", "i0", "i4"], ["i7", "i6", "i11", "i8"]]
    result = shop.evaluate(test, cutoffs=[2, 7], **rules)
    hits = []
    for session in test:
        for end in range(1, len(session)):
            # At most 3 or 6 items are on a list of 7 where rules limit the three brands.
            (best,) = shop.predict([session[:end]], k=7, exclude_seen=False, **rules).values
            hits.append((session[end] in best[:2], session[end] in best))
    for position, name in enumerate(("hit@2", "hit@7")):
        assert result.rows[1].figures[name] == pytest.approx(np.mean([pair[position] for pair in hits])), name


def test_re_ranked_items_are_those_of_the_definition(shop: NextEvent) -> None:
    """Maximal marginal relevance with limits, by loops over pairs, with features and with co-occurrence."""
    random = np.random.default_rng(1)
    for predictor in (shop.predictor_, NextEvent("cooccurrence").fit(TRAIN).predictor_):
        ids = np.arange(FIRST, len(predictor.vocabulary))
        similarity = predictor.item_similarity()
        table = similarity.of_all(ids, ids)
        caps = {"brand": 2} if predictor is shop.predictor_ else {}
        brands = [int(predictor.vocabulary.value(int(id))[1:]) % 3 for id in ids] if caps else [*ids]
        for weight in (0.0, 0.3, 1.0):
            scores = np.sort(random.random(len(ids)).astype(np.float32))[::-1]
            scaled = (1 - weight) * (scores - scores.min()) / (scores.max() - scores.min())
            expected: list[int] = []
            while len(expected) < 5:
                is_open = [
                    at not in expected and [brands[c] for c in expected].count(brands[at]) < 2 for at in range(len(ids))
                ]
                if not any(is_open):
                    break
                values = [
                    scaled[at] - weight * max([table[c, at] for c in expected] or [0.0]) for at in range(len(ids))
                ]
                expected.append(max(np.flatnonzero(is_open).tolist(), key=lambda at: values[at]))
            (item_filter,) = predictor.filters_of([Rules.of(max_per=caps, diversify=f"mmr={weight}")])
            assert item_filter is not None and item_filter.reranker is not None
            for k in (1, 2, 5):
                selected = item_filter.reranker.positions(ids, scores, ids[:0].astype(np.int32), k)
                assert selected == expected[:k]
            assert predictor.filters_of([Rules.of(max_per=caps, diversify=f"mmr={weight}")]) == [item_filter]


@needs_kernels
@pytest.mark.parametrize("source", ["features", "co-occurrence"])
def test_compiled_selection_is_that_of_the_loop_over_all_candidates(source: str) -> None:
    """Many equal items, values that are limited in two columns, cells of several values, and ids beyond the items."""
    random = np.random.default_rng(3)
    items = [f"i{number}" for number in range(300)]
    sessions = [[items[at] for at in (300 * random.random(4) ** 2).astype(int)] for _ in range(400)]
    rows = [
        {"item": item, "brand": f"b{random.integers(9)}", "category": f"c{random.integers(9)}|c{random.integers(9)}"}
        for item in items
    ]
    table = pl.DataFrame(rows) if source == "features" else None
    predictor = NextEvent("markov").fit([*sessions, items], items=table).predictor_
    assert predictor.item_similarity().source == source
    for number in range(60):
        ids = FIRST + random.permutation(300)[: [200, 40, 1, 0][number % 4]]
        ids[3:5] = len(predictor.vocabulary) + np.arange(len(ids[3:5]))
        # Few different scores, so that many items are equally good.
        scores = np.sort(random.integers(0, [5, 1000][number % 2], len(ids)).astype(np.float32))[::-1]
        limits: list[dict[str, int]] = [{}, {"brand": 3, "category": 10**30}, {"category": 2}]
        max_per = limits[number % 3] if table is not None else {}
        rules = Rules.of(max_per=max_per, diversify=f"mmr={[0.1, 0.5, 1.0][number // 3 % 3]}")
        (item_filter,) = predictor.filters_of([rules])
        assert item_filter is not None and item_filter.reranker is not None
        k = int(random.integers(1, 150))
        selected = item_filter.reranker.positions(ids, scores, ids[:0].astype(np.int32), k)
        with using("off"):
            expected = item_filter.reranker.positions(ids, scores, ids[:0].astype(np.int32), k)
        assert selected == expected, (number, rules)
