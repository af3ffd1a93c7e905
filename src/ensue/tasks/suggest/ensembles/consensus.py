"""Which candidate stands first where one must be shown: the one whose words most of the others share.

The likeliest query as a whole is seldom the true one, and then its words are often wrong as well. Minimum Bayes risk
asks for the words instead: with BLEU made linear (Tromble, Kumar, Och & Macherey, EMNLP 2008) a candidate is worth

    sum over its distinct n-grams g, n = 1 to 4, of P(g) - cost x words,

P(g) being the share of all candidates that hold g, each weighed by its own. Without the cost the longest would win.
The cost is chosen on held-out sessions, by BLEU over all of them. What leads pushes all that was likelier one place
down: a cost that lowers the mean reciprocal rank there is not taken. Only the first place changes: the others stay in
order of their shares.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ensue import metrics
from ensue.data.histories import Index
from ensue.metrics import NGRAMS, Floats

COSTS = tuple(round(0.05 * step, 2) for step in range(17))
"""Grid of the cost per word; at 0.8 hardly more than one word is left."""


def worth(texts: Sequence[str], shares: Floats) -> tuple[Floats, Floats]:
    """Return the expected overlap of each candidate, and its number of words.

    Args:
        texts: (candidates,) distinct.
        shares: (candidates,) they sum to 1.
    """
    ngrams = [_grams(text) for text in texts]
    share: dict[tuple[str, ...], float] = {}
    for grams, candidate_share in zip(ngrams, shares.tolist(), strict=True):
        for gram in grams:
            share[gram] = share.get(gram, 0.0) + candidate_share
    sums = [sum(share[gram] for gram in grams) for grams in ngrams]
    return np.array(sums, np.float64), np.array([text.count(" ") + 1 for text in texts], np.float64)


def lead(texts: Sequence[str], shares: Floats, cost: float) -> int:
    """The place of the one that is worth most; of equals the likeliest.

    Args:
        texts: (candidates,) distinct, at least one.
        shares: (candidates,).
        cost: of a word.
    """
    sums, words = worth(texts, shares)
    return int(np.lexsort((-shares, -np.round(sums - cost * words, 12)))[0])


def order(texts: Sequence[str], shares: Floats, cost: float | None) -> Index:
    """(candidates,) places, best first: by share, with the one that is worth most in front; ``None``: by share."""
    positions = np.argsort(-shares, kind="stable").astype(np.int64)
    if cost is None or len(positions) < 2:
        return positions
    first = lead(texts, shares, cost)
    return np.concatenate([[first], positions[positions != first]])


def choose_cost(
    pools: Sequence[tuple[Sequence[str], Floats]], true: pl.Series
) -> tuple[float | None, dict[str, float]]:
    """The cost with the highest BLEU over some targets, ``None`` where the likeliest has it; and both figures.

    Args:
        pools: candidates and shares a target; those without any are left out of the figures.
        true: (targets,) what came.
    """
    rows = [place for place, (texts, _) in enumerate(pools) if len(texts)]
    pools_of, targets = [pools[place] for place in rows], true.gather(rows)
    likeliest = [int(shares.argmax()) for _, shares in pools_of]
    measured = [(texts, shares, *worth(texts, shares)) for texts, shares in pools_of]
    answers = [texts.index(text) if text in texts else -1 for (texts, _), text in zip(pools_of, targets, strict=True)]

    def figures(first: Sequence[int]) -> tuple[float, Floats]:
        ranks = [_rank(shares, *own) for (_, shares), *own in zip(pools_of, first, answers, strict=True)]
        return _bleu([texts[place] for (texts, _), place in zip(pools_of, first, strict=True)], targets), 1 / np.array(
            ranks
        )

    plain, before = figures(likeliest) if pools_of else (0.0, np.zeros(0))
    best, high = None, plain
    for cost in COSTS if pools_of else ():
        leads = [
            int(np.lexsort((-shares, -np.round(sums - cost * words, 12)))[0]) for _, shares, sums, words in measured
        ]
        bleu, ranks = figures(leads)
        if bleu > high and ranks.sum() >= before.sum():
            best, high = cost, bleu
    return best, {"likeliest": round(plain, 5), "consensus": round(high, 5)}


def _rank(shares: Floats, first: int, answer: int) -> float:
    """The rank of the answer where another candidate leads; infinite where there is none."""
    if answer < 0 or answer == first:
        return np.inf if answer < 0 else 1.0
    is_above = shares > shares[answer]
    return float(1 + is_above.sum() + (not is_above[first]))


def _bleu(first: Sequence[str], true: pl.Series) -> float:
    return float(metrics.bleu(metrics.ngram_counts(pl.Series("query", first, dtype=pl.String), true).sum(0)))


def _grams(text: str) -> set[tuple[str, ...]]:
    words = text.split(" ")
    return {tuple(words[low : low + n]) for n in range(1, NGRAMS + 1) for low in range(len(words) - n + 1)}
