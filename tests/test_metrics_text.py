"""Measures of suggested texts: by hand, beside a literal loop, and beside sacrebleu."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import polars as pl
import pytest
import sacrebleu

from ensue import metrics
from ensue.metrics import MISS, STOP_WORDS, bleu, ngram_counts, ngram_precision, text_ranks


def column(*texts: str) -> pl.Series:
    return pl.Series(texts, dtype=pl.String)


def some_pairs(seed: int, count: int, words: str = "abcd", longest: int = 7) -> tuple[list[str], list[str]]:
    random.seed(seed)
    texts = [" ".join(random.choices(words, k=random.randint(0, longest))) for _ in range(2 * count)]
    return texts[:count], texts[count:]


def test_by_hand() -> None:
    # the the cat | the cat sat: "the" matches once of twice, "cat" once: 2 of 3 words; "the cat" 1 of 2 pairs; no
    # triple of 1. The second pair has nothing in common, the third all, the fourth no words to match.
    counts = ngram_counts(column("the the cat", "a", "x y z w", ""), column("the cat sat", "b", "x y z w", "q"))
    assert counts.tolist() == [
        [2, 1, 0, 0, 3, 2, 1, 0, 3, 3],
        [0, 0, 0, 0, 1, 0, 0, 0, 1, 1],
        [4, 3, 2, 1, 4, 3, 2, 1, 4, 4],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    ]
    total = counts.sum(0)
    assert ngram_precision(total).tolist() == [6 / 8, 4 / 5, 2 / 3, 1 / 1]
    # Eight words were suggested, nine typed: exp(1 - 9 / 8) of the fourth root of 6/8 x 4/5 x 2/3 = 0.4.
    assert bleu(total) == pytest.approx(math.exp(-1 / 8) * 0.4**0.25, abs=1e-12)
    assert bleu(counts).tolist() == pytest.approx([0, 0, 1, 0], abs=1e-12)
    assert ngram_precision(counts[1]).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("seed", range(5))
def test_counts_equal_a_literal_loop(seed: int) -> None:
    candidates, references = some_pairs(seed, 40)
    expected = [literal_counts(one.split(), other.split()) for one, other in zip(candidates, references, strict=True)]
    assert ngram_counts(column(*candidates), column(*references)).tolist() == expected


def literal_counts(candidate: list[str], reference: list[str]) -> list[int]:
    matches, totals = [], []
    for n in range(1, 5):
        own, other = (
            Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in (candidate, reference)
        )
        matches.append(sum(min(count, other[gram]) for gram, count in own.items()))
        totals.append(sum(own.values()))
    return [*matches, *totals, len(candidate), len(reference)]


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_few_and_short_texts(size: int) -> None:
    candidates, references = some_pairs(size, size, longest=size)
    expected = [literal_counts(one.split(), other.split()) for one, other in zip(candidates, references, strict=True)]
    found = ngram_counts(column(*candidates), column(*references))
    assert found.tolist() == expected and found.shape == (size, 10)


@pytest.mark.parametrize(("seed", "longest"), [(1, 7), (2, 12), (3, 5)])
def test_bleu_equals_sacrebleu(seed: int, longest: int) -> None:
    candidates, references = some_pairs(seed, 60, longest=longest)
    oracle = sacrebleu.corpus_bleu(candidates, [references], smooth_method="none", tokenize="none", force=True)
    total = ngram_counts(column(*candidates), column(*references)).sum(0)
    assert 100 * bleu(total) == pytest.approx(oracle.score, abs=1e-6)
    assert 100 * ngram_precision(total) == pytest.approx(np.array(oracle.precisions), abs=1e-6)


def test_longer_candidates_are_not_punished_and_shorter_ones_are() -> None:
    reference = column("a b c d e")
    longer, shorter = (ngram_counts(column(text), reference)[0] for text in ("a b c d e f", "a b c d"))
    # 5/6 x 4/5 x 3/4 x 2/3 = 1/3.
    assert bleu(longer) == pytest.approx((1 / 3) ** 0.25)
    assert bleu(shorter) == pytest.approx(math.exp(1 - 5 / 4))


def test_counts_add_up_over_resamples() -> None:
    candidates, references = some_pairs(4, 30)
    counts = ngram_counts(column(*candidates), column(*references))
    weights = np.random.default_rng(0).integers(0, 3, (6, 30)).astype(np.float64)
    found = bleu(weights @ counts)
    for weight, value in zip(weights.astype(int), found, strict=True):
        drawn = np.repeat(np.arange(30), weight)
        both = [[texts[row] for row in drawn] for texts in (candidates, references)]
        assert value == pytest.approx(float(bleu(ngram_counts(*(column(*texts) for texts in both)).sum(0))))


def test_without_stop_words() -> None:
    candidate, reference = column("what is the price of gold"), column("what is the colour of gold")
    # Of six words five match; of "price gold" and "colour gold" one of two, and no pair of words.
    assert ngram_precision(ngram_counts(candidate, reference)[0])[0] == 5 / 6
    counts = ngram_counts(candidate, reference, without=STOP_WORDS)[0]
    assert counts.tolist() == [1, 0, 0, 0, 2, 1, 0, 0, 2, 2]
    only = ngram_counts(column("what is it"), column("what is it"), without=STOP_WORDS)[0]
    assert not only.any()
    assert {"what", "is", "the", "of", "what's"} < STOP_WORDS and "price" not in STOP_WORDS


def test_ranks_of_texts() -> None:
    suggested = column("a", "b", "c", "x", "a", "a")
    offsets = np.array([0, 3, 3, 4, 6])
    rank = text_ranks(suggested, offsets, column("b", "b", "y", "a"))
    assert rank.tolist() == [2, MISS, MISS, 1]  # said twice, the first counts
    assert metrics.reciprocal_rank(rank, 10).mean() == (1 / 2 + 1) / 4
    assert metrics.hit(rank, 10).mean() == 2 / 4 and metrics.hit(rank, 1).mean() == 1 / 4
    assert text_ranks(column(), np.zeros(1, np.int64), column()).tolist() == []
