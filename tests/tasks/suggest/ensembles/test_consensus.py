"""The one whose words most of the others share: by hand, against a literal loop, and how its cost is chosen."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from ensue.metrics import bleu, ngram_counts
from ensue.tasks.suggest.ensembles import consensus
from ensue.tasks.suggest.ensembles.consensus import COSTS, worth

POOL = ["red boat", "buy a red boat", "a kite"]
SHARES = np.array([0.3, 0.3, 0.4])
ALONE = np.zeros(3, np.int64)
Pairs = list[tuple[list[str], np.ndarray]]


def order(texts: list[str], shares: np.ndarray, cost: float | None) -> np.ndarray:
    """The places of one session, best first."""
    return consensus.order(texts, shares, np.zeros(len(texts), np.int64), cost)


def lead(texts: list[str], shares: np.ndarray, cost: float) -> int:
    return int(order(texts, shares, cost)[0])


def choose_cost(pools: Pairs, true: pl.Series) -> tuple[float | None, dict[str, float]]:
    owners = np.repeat(np.arange(len(pools)), [len(texts) for texts, _ in pools])
    texts = [text for pool, _ in pools for text in pool]
    return consensus.choose_cost(texts, np.concatenate([shares for _, shares in pools]), owners, true)


def test_worth_by_hand() -> None:
    sums, words = worth(POOL, SHARES, ALONE)
    # "red boat": red, boat and the pair of them are in two candidates of 0.3 each: 3 x 0.6.
    # "buy a red boat": buy 0.3, a 0.3 + 0.4, red and boat 0.6 each; buy a 0.3, a red 0.3, red boat 0.6; two triples
    # and one quadruple of 0.3. "a kite": a 0.7, kite 0.4, the pair 0.4.
    assert sums.tolist() == pytest.approx([1.8, 2.2 + 1.2 + 0.9, 1.5]) and words.tolist() == [2, 4, 2]


def test_the_cost_decides_how_long() -> None:
    # 1.8 - 2 c against 4.3 - 4 c: the longer one up to c = 1.25. "a kite" alone is likeliest.
    assert [lead(POOL, SHARES, cost) for cost in (0.0, 1.2, 1.3)] == [1, 1, 0]
    assert order(POOL, SHARES, None).tolist() == [2, 0, 1]
    assert order(POOL, SHARES, 1.3).tolist() == [0, 2, 1]  # the others stay in order of their shares
    assert order(["a"], np.array([1.0]), 0.5).tolist() == [0] and order([], np.array([]), 0.5).tolist() == []


def test_of_equals_the_likeliest_leads() -> None:
    assert lead(["a", "b"], np.array([0.5, 0.5]), 0.1) == 0
    # "d c": c 0.5, d 1 and the pair 0.3; "c d" has 0.1 less; "d" 1. At 0.7 a word that is 0.4, 0.3 and 0.3, at 0.8 0.2,
    # 0.1 and 0.2.
    pool, shares = ["c d", "d c", "d"], np.array([0.2, 0.3, 0.5])
    assert [lead(pool, shares, cost) for cost in (0.7, 0.8)] == [1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_worth_equals_a_literal_loop(seed: int) -> None:
    random = np.random.default_rng(seed)
    texts = list(dict.fromkeys(" ".join(random.choice(list("abc"), random.integers(1, 7))) for _ in range(12)))
    shares = random.dirichlet(np.ones(len(texts)))

    def grams(text: str) -> set[str]:
        own = text.split()
        return {
            " ".join(own[low:high]) for low in range(len(own)) for high in range(low + 1, min(low + 4, len(own)) + 1)
        }

    expected = [
        sum(share for gram in grams(text) for other, share in zip(texts, shares, strict=True) if gram in grams(other))
        for text in texts
    ]
    owners = np.zeros(len(texts), np.int64)
    assert worth(texts, shares, owners)[0] == pytest.approx(expected)
    # Of two sessions with the same texts, one alone has these shares.
    both = worth([*texts, *texts], np.concatenate([shares, shares / 2]), np.append(owners, owners + 1))[0]
    assert both == pytest.approx([*expected, *(value / 2 for value in expected)])


def test_the_cost_is_the_one_with_the_highest_bleu_that_loses_no_ranks() -> None:
    random = np.random.default_rng(0)
    vocabulary = list("abcd")

    def text() -> str:
        return " ".join(random.choice(vocabulary, random.integers(3, 8)))

    true = pl.Series([text() for _ in range(30)])
    pools = [
        ([*dict.fromkeys([*(text() for _ in range(6)), *([own] if at % 3 else [])])],) for at, own in enumerate(true)
    ]
    full = [(own, random.dirichlet(np.ones(len(own)))) for (own,) in pools]
    cost, found = choose_cost([*full, ([], np.array([]))], pl.concat([true, pl.Series(["nothing"])]))

    def figure(cost: float | None) -> tuple[float, np.ndarray]:
        ordered = [[texts[place] for place in order(texts, shares, cost)] for texts, shares in full]
        ranks = [own.index(text) + 1 if text in own else np.inf for own, text in zip(ordered, true, strict=True)]
        own = float(bleu(ngram_counts(pl.Series([texts[0] for texts in ordered]), true).sum(0)))
        return own, 1 / np.array(ranks)

    every = {own: figure(own) for own in (None, *COSTS)}
    lost = {own: every[None][1] - ranks for own, (_, ranks) in every.items()}
    taken = [own for own, fall in lost.items() if fall.sum() <= 0]
    assert None in taken and every[cost][0] == max(every[own][0] for own in taken)
    assert found["consensus"] == pytest.approx(every[cost][0], abs=1e-5)
    assert found["likeliest"] == pytest.approx(every[None][0], abs=1e-5)


def test_what_leads_does_not_push_the_truth_away() -> None:
    """By words alone "a b c d e" would lead each time; yet "v w x y" is likeliest and came in nine of ten."""
    pool = (["v w x y", "a b c d e", "a b c d f"], np.array([0.4, 0.3, 0.3]))
    assert choose_cost([pool] * 10, pl.Series([*["v w x y"] * 9, "a b c d e"]))[0] is None
    assert choose_cost([pool] * 10, pl.Series([*["v w x y"], *["a b c d e"] * 9]))[0] is not None


def test_where_the_likeliest_is_best_nothing_changes() -> None:
    pools = [(["a b c d", "x y z a b"], np.array([0.9, 0.1]))] * 3
    cost, found = choose_cost(pools, pl.Series(["a b c d"] * 3))
    assert cost is None and found == {"likeliest": 1.0, "consensus": 1.0}
    assert not math.isnan(found["consensus"])
