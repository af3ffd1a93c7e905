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
from ensue.learning.ensemble import minimise
from ensue.metrics import Floats
from ensue.text.sparse import SparseRows

STRENGTH = 10.0
"""Inverse of the L2 penalty, as scikit-learn's ``C``."""
_MIN_CURVATURE = 1e-9


class ReviewReranker:
    """Posts that are re-ranked as labels come.

    Args:
        start: (posts,) log-odds before any label; or (posts, scores), the first of them that.
        rows: (posts, features) of length 1 each, or 0.
    """

    def __init__(self, start: Floats, rows: SparseRows) -> None:
        scores = np.column_stack([start])
        self.start, self.rows = scores[:, 0], rows
        spread = scores.std(0)
        standard = (scores - scores.mean(0)) / np.where(spread > 0, spread, 1.0)
        self.dense = np.concatenate([standard, np.ones((len(start), 1))], axis=1)
        self._clear()

    def _clear(self) -> None:
        self.read: Index = np.empty(0, np.int64)
        """The labelled posts, in the order they came."""
        self.kernel: Floats = np.empty((0, 0))
        """Their inner products."""
        self.weights: Floats = np.empty(0)
        """Their weights in the sum of rows."""

    def odds(self, read: Index, labels: npt.NDArray[np.bool_]) -> Floats:
        """Return the log-odds of all posts, given all labels so far, (posts,).

        Args:
            read: numbers of the labelled posts.
            labels: whether each is relevant.
        """
        if not len(read):
            return self.start
        if not np.isin(self.read, read).all():  # a label was taken back: from the beginning
            self._clear()
        self._add(np.setdiff1d(read, self.read))
        ordered_labels = labels[np.argsort(read)][np.searchsorted(np.sort(read), self.read)]
        self.weights = solve(self.kernel, self.start[self.read], ordered_labels, STRENGTH, self.weights)
        gains = self.rows @ (self.rows[self.read].T @ self.weights)
        return self.start + gains + self.dense @ (self.dense[self.read].T @ self.weights)

    def _add(self, new: Index) -> None:
        """Add posts to the labelled ones, with their inner products."""
        num_old = len(self.read)
        self.read = np.concatenate([self.read, new])
        products = self.rows[self.read].gram(self.rows[new]) + self.dense[self.read] @ self.dense[new].T
        kernel = np.empty((len(self.read), len(self.read)))
        kernel[:num_old, :num_old] = self.kernel
        kernel[:, num_old:] = products
        kernel[num_old:] = products.T
        self.kernel = kernel
        self.weights = np.append(self.weights, np.zeros(len(new)))


def solve(
    kernel: Floats, start: Floats, labels: npt.NDArray[np.bool_], strength: float, guess: Floats | None = None
) -> Floats:
    """Return the weights a of the rows, w = sum of a_i x_i, under which the labels are likeliest, (labelled,).

    They minimise the summed log-loss plus |w|^2 / (2 strength).

    Args:
        kernel: (labelled, labelled) inner products of the rows.
        start: (labelled,) log-odds that the rows add to.
        labels: (labelled,).
        strength: how much the labels count.
        guess: where to begin.
    """
    targets = labels.astype(np.float64)

    def loss(weights: Floats) -> float:
        gains = kernel @ weights
        odds = start + gains
        return float((np.logaddexp(0, odds) - targets * odds).sum() + weights @ gains / (2 * strength))

    def newton_step(weights: Floats) -> Floats:
        gains = kernel @ weights
        probabilities = 1 / (1 + np.exp(-np.clip(start + gains, -500, 500)))
        curvature = np.maximum(probabilities * (1 - probabilities), _MIN_CURVATURE)
        # Iteratively reweighted least squares: ridge regression of these targets on the kernel.
        working_targets = gains + (targets - probabilities) / curvature
        system = kernel.copy()
        system.flat[:: len(targets) + 1] += 1 / (strength * curvature)
        return np.asarray(np.linalg.solve(system, working_targets)) - weights

    return minimise(np.zeros(len(targets)) if guess is None else guess, loss, newton_step)
