"""The mean of a text's word vectors under logistic regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ensue.data.histories import Index, Mask
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_number, require_table
from ensue.tasks.classify.dataset import Sides
from ensue.text import linear
from ensue.text.linear import Linear, Strength, centred
from ensue.text.sparse import SparseRows
from ensue.text.tokens import Tokens

MAX_NUMBER = 1e15
"""Largest number of a vector: sums of a million of them, and products of two sums, are finite."""


@dataclass(eq=False)
class MeanVectors:
    """The mean of a text's word vectors under logistic regression; words without a vector do not count.

    The features of a pair are the two means, the absolute value of their difference and their product, as in Eq. 10.

    Attributes:
        num_labels: number of labels.
        strength: weight of the data relative to the penalty, scikit-learn's ``C``.
        matrix: (words, dim) the vectors by id; zeros where a word has none.
        num_sides: 2 for pairs.
        linear: the weights of the features.
        num_texts: number of training texts.
    """

    num_labels: Annotated[int, Field(ge=2)]
    strength: Strength
    matrix: npt.NDArray[np.float32]
    num_sides: Annotated[int, Field(ge=1, le=2)]
    linear: Linear = None  # type: ignore[assignment]  # zeros unless given
    num_texts: Annotated[int, Field(ge=0, lt=MAX_COUNT)] = 0
    sets: bool = False
    """True if a text may have several labels, or none."""
    _has_vector: tuple[npt.NDArray[np.float32], Mask] | None = field(init=False, default=None)
    """A matrix, and which of its words have a vector."""

    def __post_init__(self) -> None:
        """Check that the tables belong together.

        Raises:
            ValueError: they are of other vectors or labels.
        """
        require_table("matrix", self.matrix, np.float32, [None, None])
        require_number("matrix", self.matrix, MAX_NUMBER, -MAX_NUMBER)
        num_features = self.matrix.shape[1] * (4 if self.num_sides == 2 else 1)
        self.linear = self.linear or linear.zeros(num_features, self.num_labels, sets=self.sets)
        self.linear.require("linear", num_features, self.num_labels, sets=self.sets)

    def count(self, sides: Sides, targets: Index) -> None:
        """Train on texts; see :meth:`Tfidf.count`."""
        rows = self._rows(self._means(sides))
        self.linear, _ = linear.fit(
            rows, targets, self.num_labels, strength=self.strength, start=self.linear, num_seen=self.num_texts
        )
        self.num_texts += len(targets)

    def scores(self, sides: Sides) -> Floats:
        """Return scores before normalising, (texts, labels)."""
        return self.linear.scores(self._rows(self._means(sides)))

    def attributions(self, sides: Sides, labels: Index) -> Floats:
        """Return the change of the score of each text's label by each word, (words of all sides,).

        Of pairs it is the change to first order.
        """
        means = self._means(sides)
        slopes = [(self.linear.weight if self.sets else centred(self.linear.weight))[:, labels].T]
        if len(sides) == 2:
            # The chain rule through [a; b; |a - b|; a * b] gives each side a slope of its own.
            first, second, difference, product = np.split(slopes[0], 4, axis=1)
            difference = difference * np.sign(means[0] - means[1])
            slopes = [first + difference + product * means[1], second - difference + product * means[0]]
        return np.concatenate([self._moved(tokens, slope) for tokens, slope in zip(sides, slopes, strict=True)])

    def grow(self, num_words: int) -> None:
        """Add rows for new words, which have no vectors."""
        rows = np.zeros((num_words - len(self.matrix), self.matrix.shape[1]), np.float32)
        self.matrix = np.concatenate([self.matrix, rows])

    def _means(self, sides: Sides) -> list[Floats]:
        """Return the (texts, dim) means of each side."""
        return [self._sums(tokens) / self._counts(tokens)[:, None].clip(min=1) for tokens in sides]

    def _sums(self, tokens: Tokens) -> Floats:
        ones = np.ones(len(tokens.ids), np.float32)
        counts = SparseRows(tokens.sentences[tokens.texts], tokens.ids, ones, len(self.matrix))
        return (counts @ self.matrix).astype(np.float64)

    def _counts(self, tokens: Tokens) -> Index:
        """Return the number of words that have a vector, (texts,)."""
        if len(tokens.ids) << 8 < len(self.matrix):  # a few rows are looked at for one text
            has_vector = np.any(self.matrix[tokens.ids] != 0, axis=1)
        else:
            if self._has_vector is None or self._has_vector[0] is not self.matrix:
                self._has_vector = self.matrix, np.any(self.matrix != 0, axis=1)
            has_vector = self._has_vector[1][tokens.ids]
        # Sums over texts are differences of running sums at their ends.
        running = np.concatenate([[0], has_vector.cumsum()])
        return np.diff(running[tokens.sentences[tokens.texts]])

    def _rows(self, means: list[Floats]) -> Floats:
        if len(means) == 1:
            return means[0]
        first, second = means
        return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)

    def _moved(self, tokens: Tokens, slopes: Floats) -> Floats:
        owner = np.repeat(np.arange(len(tokens)), tokens.lengths)
        vectors = self.matrix[tokens.ids].astype(np.float64)
        return (vectors * slopes[owner]).sum(axis=1) / self._counts(tokens).clip(min=1)[owner]
