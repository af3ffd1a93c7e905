"""Re-ranking by labels: logistic regression over sparse rows that starts from what a model said of each post.

The log-odds of post i are start_i + x_i . w, where x_i is the post's TF-IDF row, its start, what else was said of it
before any label, and a one (the label's own share of all posts). w has a normal prior around 0, so that without labels
the order is the model's. By the representer theorem w is a weighted sum of the labelled rows, and Newton's method
solves for their weights alone (iteratively reweighted least squares; Hastie, Tibshirani & Friedman 2009, sections 4.4.1
and 12.3.3): its cost grows with the labels, not with the words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.text.sparse import SparseRows

STRENGTH = 10.0
"""Inverse of the L2 penalty, as scikit-learn's ``C``."""
_ROUNDS, _LEAST = 30, 1e-9


class Reranker:
    """Posts that are ranked anew as labels come.

    Args:
        start: (posts,) log-odds before any label; or (posts, ways), the first of them that.
        rows: (posts, features) of length 1 each, or 0.
    """

    def __init__(self, start: Floats, rows: SparseRows) -> None:
        ways = np.column_stack([start])
        self.start, self.rows, spread = ways[:, 0], rows, ways.std(0)
        standard = (ways - ways.mean(0)) / np.where(spread > 0, spread, 1.0)
        self.dense = np.concatenate([standard, np.ones((len(start), 1))], axis=1)
        self.read: Index = np.empty(0, np.int64)
        """The labelled posts, in the order they came."""
        self.kernel: Floats = np.empty((0, 0))
        """Their inner products."""
        self.shares: Floats = np.empty(0)

    def odds(self, read: Index, labels: npt.NDArray[np.bool_]) -> Floats:
        """(posts,) log-odds of all posts, given all labels so far.

        Args:
            read: numbers of the labelled posts.
            labels: whether each is relevant.
        """
        if not len(read):
            return self.start
        if not np.isin(self.read, read).all():  # a label was taken back: from the beginning
            self.read, self.kernel, self.shares = np.empty(0, np.int64), np.empty((0, 0)), np.empty(0)
        self._take(np.setdiff1d(read, self.read))
        own_labels = labels[np.argsort(read)][np.searchsorted(np.sort(read), self.read)]
        self.shares = solve(self.kernel, self.start[self.read], own_labels, STRENGTH, self.shares)
        moved = self.rows @ (self.rows[self.read].T @ self.shares)
        odds: Floats = self.start + moved + self.dense @ (self.dense[self.read].T @ self.shares)
        return odds

    def _take(self, new: Index) -> None:
        """Add posts to the labelled ones, with their inner products."""
        first, every = len(self.read), np.concatenate([self.read, new])
        beside = (self.rows[every] @ self.rows[new].T).toarray() + self.dense[every] @ self.dense[new].T
        kernel = np.empty((len(every), len(every)))
        kernel[:first, :first], kernel[:, first:], kernel[first:] = self.kernel, beside, beside.T
        self.read, self.kernel, self.shares = every, kernel, np.append(self.shares, np.zeros(len(new)))


def solve(
    kernel: Floats, start: Floats, labels: npt.NDArray[np.bool_], strength: float, guess: Floats | None = None
) -> Floats:
    """(labelled,) the weights a of the rows, w = sum of a_i x_i, under which the labels are likeliest.

    Minimises the summed log-loss plus |w|^2 / (2 strength), by Newton's method with halved steps.

    Args:
        kernel: (labelled, labelled) inner products of the rows.
        start: (labelled,) log-odds that the rows add to.
        labels: (labelled,).
        strength: how much the labels count.
        guess: where to begin.
    """
    true = labels.astype(np.float64)
    shares = np.zeros(len(true)) if guess is None else guess

    def objective(shares: Floats) -> float:
        odds = start + kernel @ shares
        return float((np.logaddexp(0, odds) - true * odds).sum() + shares @ kernel @ shares / (2 * strength))

    value = objective(shares)
    for _ in range(_ROUNDS):
        moved = kernel @ shares
        chance = 1 / (1 + np.exp(-np.clip(start + moved, -500, 500)))
        curve = np.maximum(chance * (1 - chance), _LEAST)
        target = moved + (true - chance) / curve
        system = kernel.copy()
        system.flat[:: len(true) + 1] += 1 / (strength * curve)
        step = np.linalg.solve(system, target) - shares
        size = 1.0
        while (new := objective(shares + size * step)) > value and size > _LEAST:
            size /= 2
        if value - new <= _LEAST * max(abs(value), 1.0):
            break
        shares, value = shares + size * step, new
    return shares
