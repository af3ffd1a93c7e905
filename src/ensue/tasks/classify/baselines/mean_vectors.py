"""The mean of a text's word vectors under logistic regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_number, require_table
from ensue.tasks.classify.dataset import Sides
from ensue.text import linear
from ensue.text.linear import Linear, Strength, centred
from ensue.text.tokens import Tokens

MAX_NUMBER = 1e15
"""Numbers of a vector are no larger: sums of a million of them, and products of two sums, are finite."""


@dataclass(eq=False)
class MeanVectors:
    """The mean of a text's word vectors under logistic regression; words without a vector do not count.

    Of pairs, the two means, the size of their difference and their product are put side by side, as in Eq. 10.

    Attributes:
        num_labels: number of labels.
        strength: how much the data counts beside the penalty, scikit-learn's ``C``.
        matrix: (words, dim) the vectors by id; zeros where a word has none.
        num_sides: 2 for pairs.
        linear: the weights of the features.
        num_texts: that were counted.
    """

    num_labels: Annotated[int, Field(ge=2)]
    strength: Strength
    matrix: Annotated[Tensor, torch.float32]
    num_sides: Annotated[int, Field(ge=1, le=2)]
    linear: Linear = None  # type: ignore[assignment]  # zeros unless given
    num_texts: Annotated[int, Field(ge=0, lt=MAX_COUNT)] = 0
    _held: tuple[Tensor, npt.NDArray[np.bool_]] | None = field(init=False, default=None)
    """A matrix, and which of its words have a vector."""

    def __post_init__(self) -> None:
        """Check that the tables belong together.

        Raises:
            ValueError: they are of other vectors or labels.
        """
        require_table("matrix", self.matrix, torch.float32, [None, None])
        require_number("matrix", self.matrix, MAX_NUMBER, -MAX_NUMBER)
        num_features = self.matrix.shape[1] * (4 if self.num_sides == 2 else 1)
        self.linear = self.linear or linear.zeros(num_features, self.num_labels)
        self.linear.require("linear", num_features, self.num_labels)

    def count(self, sides: Sides, targets: Index) -> None:
        """Learn texts; see :meth:`Tfidf.count`."""
        rows, codes = self._rows(self._means(sides)), torch.from_numpy(targets)
        self.linear, _ = linear.fit(
            rows, codes, self.num_labels, strength=self.strength, start=self.linear, seen=self.num_texts
        )
        self.num_texts += len(targets)

    def scores(self, sides: Sides) -> Tensor:
        """(texts, labels) scores before normalising, in float64."""
        return self.linear.scores(self._rows(self._means(sides)))

    def attributions(self, sides: Sides, labels: Index) -> Floats:
        """(words of all sides,) how much each word moves the score of its text's label; in pairs, to first order."""
        means = self._means(sides)
        slopes = [torch.from_numpy(centred(self.linear.weight))[:, torch.from_numpy(labels)].T]
        if len(sides) == 2:
            first, second, apart, product = slopes[0].chunk(4, dim=1)
            apart = apart * (means[0] - means[1]).sign()
            slopes = [first + apart + product * means[1], second - apart + product * means[0]]
        return np.concatenate([self._moved(tokens, slope) for tokens, slope in zip(sides, slopes, strict=True)])

    def grow(self, num_words: int) -> None:
        """New words have no vectors."""
        self.matrix = torch.cat(
            [self.matrix, self.matrix.new_zeros(num_words - len(self.matrix), self.matrix.shape[1])]
        )

    def _means(self, sides: Sides) -> list[Tensor]:
        """Return the (texts, dim) float64 means of each side."""
        return [self._sums(tokens) / self._counts(tokens)[:, None].clamp(min=1) for tokens in sides]

    def _sums(self, tokens: Tokens) -> Tensor:
        ids, offsets = torch.from_numpy(tokens.ids.astype(np.int64)), torch.from_numpy(tokens.sentences[tokens.texts])
        sums: Tensor = functional.embedding_bag(ids, self.matrix, offsets, mode="sum", include_last_offset=True)
        return sums.double()

    def _counts(self, tokens: Tokens) -> Tensor:
        """(texts,) words that have a vector."""
        ids = tokens.ids.astype(np.int64)
        if len(ids) << 8 < len(self.matrix):  # of one text a few rows are looked at
            held = self.matrix[torch.from_numpy(ids)].any(1).numpy()
        else:
            if self._held is None or self._held[0] is not self.matrix:
                self._held = self.matrix, self.matrix.any(1).numpy()
            held = self._held[1][ids]
        covered = np.concatenate([[0], held.cumsum()])
        return torch.from_numpy(np.diff(covered[tokens.sentences[tokens.texts]]))

    def _rows(self, means: list[Tensor]) -> Tensor:
        if len(means) == 1:
            return means[0]
        first, second = means
        return torch.cat([first, second, (first - second).abs(), first * second], dim=1)

    def _moved(self, tokens: Tokens, slopes: Tensor) -> Floats:
        owner = torch.from_numpy(np.repeat(np.arange(len(tokens)), tokens.lengths))
        vectors = self.matrix[torch.from_numpy(tokens.ids.astype(np.int64))].double()
        moved: Floats = ((vectors * slopes[owner]).sum(1) / self._counts(tokens).clamp(min=1)[owner]).numpy()
        return moved
