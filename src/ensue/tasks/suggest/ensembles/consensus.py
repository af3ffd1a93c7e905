"""Which candidate stands first where one must be shown: the one whose words most of the others share.

The likeliest query as a whole is seldom the true one, and then its words are often wrong as well. Minimum Bayes risk
asks for the words instead: with BLEU made linear (Tromble, Kumar, Och & Macherey, EMNLP 2008) a candidate is worth

    sum over its distinct n-grams g, n = 1 to 4, of P(g) - cost x words,

P(g) being the share of all candidates that hold g, each weighed by its own. Without the cost the longest would win.
The cost is chosen on held-out sessions, by BLEU over all of them. What leads pushes all that was likelier one place
down: a cost that lowers the mean reciprocal rank there is not taken. Only the first place changes: the others stay in
order of their shares.

Candidates of several sessions are columns of one row each; ``owners`` are their sessions, which never fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue import metrics
from ensue.data.histories import Index
from ensue.metrics import NGRAMS, Floats
from ensue.tasks.suggest.candidates import first_of_each

COSTS = tuple(round(0.05 * step, 2) for step in range(17))
"""Grid of the cost per word; at 0.8 hardly more than one word is left."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Odd factor that makes the same n-gram another number in another session."""


def worth(texts: Sequence[str], shares: Floats, owners: Index) -> tuple[Floats, Floats]:
    """Return the expected overlap of each candidate, and its number of words.

    Args:
        texts: (candidates,) distinct in a session.
        shares: (candidates,) they sum to 1 in a session.
        owners: (candidates,).
    """
    ngrams = [_grams(text) for text in texts]
    # One entry per n-gram of a candidate: who holds it, and its hash.
    holders = np.repeat(np.arange(len(ngrams)), [len(grams) for grams in ngrams])
    flat = np.concatenate([np.empty(0, np.uint64), *ngrams])
    # The same n-gram in two sessions must count separately: a multiple of the session's number is added to its hash.
    _, codes = np.unique(flat + owners[holders].astype(np.uint64) * _GOLDEN, return_inverse=True)
    share = np.bincount(codes, shares[holders])
    # P(g) of all n-grams of a candidate, added up.
    sums: Floats = np.bincount(holders, share[codes], len(ngrams)).astype(np.float64)
    return sums, np.array([text.count(" ") + 1 for text in texts], np.float64)


def lead(sums: Floats, words: Floats, shares: Floats, owners: Index, cost: float) -> Index:
    """(sessions with candidates,) the candidate that is worth most; of equals the likeliest.

    Args:
        sums: (candidates,) of :func:`worth`.
        words: (candidates,) of :func:`worth`.
        shares: (candidates,).
        owners: (candidates,).
        cost: of a word.
    """
    # Rounded, so that candidates that tie on paper tie in floats too.
    best_first: Index = np.lexsort((-shares, -np.round(sums - cost * words, 12), owners))
    return best_first[first_of_each(owners)]


def order(texts: Sequence[str], shares: Floats, owners: Index, cost: float | None) -> Index:
    """(candidates,) session after session and best first: by share, with the one that is worth most in front.

    Args:
        texts: (candidates,) distinct in a session.
        shares: (candidates,).
        owners: (candidates,).
        cost: of a word; ``None``: by share alone.
    """
    is_behind = np.ones(len(owners), np.bool_)
    if cost is not None:
        is_behind[lead(*worth(texts, shares, owners), shares, owners, cost)] = False
    return np.lexsort((-shares, is_behind, owners))


def choose_cost(
    texts: Sequence[str], shares: Floats, owners: Index, true: pl.Series
) -> tuple[float | None, dict[str, float]]:
    """The cost with the highest BLEU over some targets, ``None`` where the likeliest has it; and both metrics.

    Args:
        texts: (candidates,).
        shares: (candidates,).
        owners: (candidates,) the target of each; those without any are left out of the metrics.
        true: (targets,) what came.
    """
    filled, rows = np.unique(owners, return_inverse=True)
    targets = true.gather(filled)
    is_true = np.array(texts, np.object_) == targets.to_numpy()[rows]
    answers = np.full(len(filled), -1)
    # At most one candidate per target equals the true query, for texts are distinct in a session.
    answers[rows[is_true]] = np.flatnonzero(is_true)
    has_answer = answers >= 0
    # A target without the true query among its candidates has none above it; its rank is not used.
    is_above = shares > np.where(has_answer, shares[answers], np.inf)[rows] if len(texts) else is_true
    num_above = np.bincount(rows, is_above, len(filled))

    def measure(first: Index) -> tuple[float, Floats]:
        # What leads pushes the answer one place down unless it stood before it already, or is the answer.
        ranks = np.where(first == answers, 1.0, 1 + num_above + ~is_above[first])
        leading = pl.Series("query", [texts[row] for row in first.tolist()], dtype=pl.String)
        bleu = float(metrics.bleu(metrics.ngram_counts(leading, targets).sum(0)))
        return bleu, np.where(has_answer, 1 / ranks, 0.0)

    if not len(filled):
        return None, {"likeliest": 0.0, "consensus": 0.0}
    likeliest: Index = np.lexsort((-shares, rows))[first_of_each(rows)]
    plain, ranks_before = measure(likeliest)
    best, high = None, plain
    sums, words = worth(texts, shares, rows)
    for cost in COSTS:
        bleu, ranks = measure(lead(sums, words, shares, rows, cost))
        # Of equal BLEU the lower cost wins, which changes the fewest answers.
        if bleu > high and ranks.sum() >= ranks_before.sum():
            best, high = cost, bleu
    return best, {"likeliest": round(plain, 5), "consensus": round(high, 5)}


@lru_cache(maxsize=2**16)
def _grams(text: str) -> npt.NDArray[np.uint64]:
    """Hashes of the distinct n-grams of a text, in order."""
    words = text.split(" ")
    # Python's hash of a text differs between processes, but n-grams are only compared within one call.
    grams = (" ".join(words[low : low + n]) for n in range(1, NGRAMS + 1) for low in range(len(words) - n + 1))
    return np.array([hash(gram) for gram in dict.fromkeys(grams)], np.int64).view(np.uint64)
