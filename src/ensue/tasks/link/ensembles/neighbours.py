"""Smoothing over neighbouring posts: posts of the same corpus that share rare words.

With k the cosine of two posts over their words, each weighted by its squared rarity, a post's share of an article
becomes

    P'(a | p) = (P(a | p) + w m_a / (d + 1)) / (1 + w d / (d + 1)),  m_a = sum of k(p, q) P(a | q),  d = sum of k(p, q)

over all other posts q: one step of label propagation (Zhu & Ghahramani 2002) from what each post says by itself. No
label is used. A cosine is a product, so the sums over posts are made once, term by term: a post costs what it costs
against one more index of articles, however many posts there are. Held-out posts choose w; at 0 nothing is told.
"""

from __future__ import annotations

import numpy as np

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.text.lexical import Lexical, places_of
from ensue.text.postings import Postings
from ensue.text.sparse import sparse_rows
from ensue.text.terms import Terms, smooth_idf

WEIGHTS = (0.0, 0.3, 1.0)
"""Grid of w, chosen on held-out posts."""
_MIN_PROBABILITY = 0.01
"""Shares below are left out: most of all articles have next to none."""


class PostNeighbours:
    """Posts by their words, and what each is about.

    Args:
        terms: of the posts, words.
        shares: (posts, articles) P(a | q).
        articles: counts of the articles' words, for how rare each is.
    """

    def __init__(self, terms: Terms, shares: Floats, articles: Lexical) -> None:
        # A post is the set of its words, however often it holds each.
        owners, keys, _ = terms
        all_keys = np.concatenate([articles.keys, keys])
        num = len(articles) + len(shares)
        # A word is rare if few articles and posts have it.
        distinct_keys, counts = np.unique(all_keys, return_counts=True)
        self.terms, term_rows = np.unique(keys, return_inverse=True)
        self.rarity = smooth_idf(counts[np.searchsorted(distinct_keys, self.terms)], num) ** 2
        self.unknown = float(smooth_idf(np.zeros(1, np.int64), num)[0]) ** 2
        rows, columns = np.nonzero(shares >= _MIN_PROBABILITY)
        self.shares = sparse_rows(rows, columns, shares[rows, columns], shares.shape)
        width = shares.shape[1] + 1  # in the last column every post counts 1, for d
        rows = np.append(rows, np.arange(len(shares)))
        columns = np.append(columns, np.full(len(shares), width - 1))
        order = np.argsort(rows, kind="stable")
        values = np.append(self.shares.data, np.ones(len(shares)))
        post_probabilities = sparse_rows(rows[order], columns[order], values[order], (len(shares), width))
        weights = self._weights(owners, self.rarity[term_rows], len(shares))
        order = np.argsort(term_rows, kind="stable")
        # (terms, articles + 1): what the posts that hold a term are about, weighted by its weight in them.
        sums = (
            sparse_rows(term_rows[order], owners[order], weights[order], (len(self.terms), len(shares)))
            @ post_probabilities
        )
        self.postings = Postings(sums.indptr, sums.indices, sums.data.astype(np.float32), width)

    def mixed(self, logs: Floats, terms: Terms, rows: Index, weight: float) -> Floats:
        """(posts, articles) ln P'(a | p).

        Args:
            logs: (posts, articles) ln P(a | p).
            terms: of these posts, words.
            rows: (posts,) the number of each among those that tell, -1 where it is none of them: none tells of itself.
            weight: w.
        """
        owners, keys, _ = terms
        columns, is_known = places_of(self.terms, keys)
        # A word that no other post holds counts in the length of this one.
        values = self._weights(owners, np.where(is_known, self.rarity[columns], self.unknown), len(logs))
        sums = self.postings.scores(owners[is_known], columns[is_known], values[is_known], len(logs))
        votes, totals = sums[:, :-1], sums[:, -1:]
        sampled = np.flatnonzero((rows >= 0) & (np.bincount(owners, minlength=len(logs)) > 0))
        # A post of the sample is its own nearest neighbour: take its vote away.
        votes[sampled] -= self.shares[rows[sampled]].toarray()
        totals[sampled] -= 1
        votes, totals = votes.clip(min=0), totals.clip(min=0)  # what is taken away was rounded otherwise
        with np.errstate(divide="ignore"):
            mixed: Floats = np.logaddexp(logs, np.log(weight * votes / (totals + 1)))
        mixed -= np.log1p(weight * totals / (totals + 1))
        return mixed

    @staticmethod
    def _weights(owners: Index, rarity: Floats, num: int) -> Floats:
        """(cells,) so that the weights of a post have the length 1."""
        return rarity / np.sqrt(np.bincount(owners, rarity**2, num))[owners]
