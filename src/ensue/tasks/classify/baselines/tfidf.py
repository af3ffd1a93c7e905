"""Word n-grams under logistic regression.

``Tfidf`` is scikit-learn's ``TfidfVectorizer(ngram_range=(1, 2))`` over this library's words, under its
``LogisticRegression``; ids of n-grams are made of ids of words, so that a text never becomes a list of texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.tasks.classify.dataset import Sides
from ensue.text import linear
from ensue.text.linear import Linear, centred
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.text.weights import smooth_idf
from ensue.vocabulary import UNKNOWN


class _Grams(NamedTuple):
    """The n-grams of some texts whose words are all known, in no order that matters."""

    keys: Index
    """Which n-gram: side, first word (0 for a single one) and last word as one number."""
    texts: Index
    """Whose."""
    places: Index
    """Where its last word stands, counted through all words of all sides."""
    pairs: npt.NDArray[np.bool_]
    """Whether it has two words."""


def _grams(sides: Sides) -> _Grams:
    parts, base = [], 0
    for side, tokens in enumerate(sides):
        owner = np.repeat(np.arange(len(tokens)), tokens.lengths)
        ids, places = tokens.ids.astype(np.int64), np.arange(len(tokens.ids)) + base
        known = ids != UNKNOWN
        beside = known[1:] & known[:-1] & (owner[1:] == owner[:-1])
        keys = np.concatenate([ids[known], ((ids[:-1] << 31) + ids[1:])[beside]]) + (side << 62)
        owners, ends = (np.concatenate([column[known], column[1:][beside]]) for column in (owner, places))
        parts.append(_Grams(keys, owners, ends, np.arange(len(keys)) >= known.sum()))
        base += len(ids)
    return _Grams(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class _Rows(NamedTuple):
    matrix: SparseRows
    """(texts, features) rows of length 1, or 0."""
    norms: Floats
    """(texts,) what each was divided by."""
    columns: Index
    """Of the n-grams that are known."""
    known: npt.NDArray[np.bool_]
    """Which of the n-grams those are."""


class Tfidf:
    """Word 1- and 2-grams, weighed by how few texts hold them, under logistic regression.

    Args:
        num_labels: number of labels.
        strength: how much the data counts beside the penalty, scikit-learn's ``C``.
    """

    def __init__(self, num_labels: int, strength: float = 1.0) -> None:
        self.num_labels, self.strength, self.num_texts = num_labels, strength, 0
        self.keys, self.held = np.empty(0, np.int64), np.empty(0, np.int64)
        self.linear = linear.zeros(0, num_labels)

    def count(self, sides: Sides, targets: Index) -> None:
        """Learn texts; what was learned before stays the ground from which the weights move.

        Args:
            sides: the texts, or first and second texts.
            targets: (texts,) codes of the labels.
        """
        grams = _grams(sides)
        fresh, codes = np.unique(grams.keys, return_inverse=True)
        held = np.bincount(np.unique(grams.texts * max(len(fresh), 1) + codes) % max(len(fresh), 1), None, len(fresh))
        keys = np.union1d(self.keys, fresh)
        weight, counts = torch.zeros(len(keys), self.linear.weight.shape[1]).double(), np.zeros(len(keys), np.int64)
        old, new = np.searchsorted(keys, self.keys), np.searchsorted(keys, fresh)
        weight[torch.from_numpy(old)], counts[old] = self.linear.weight, self.held
        counts[new] += held
        seen, start, wanted = self.num_texts, Linear(weight, self.linear.bias), torch.from_numpy(targets)
        self.keys, self.held, self.num_texts = keys, counts, seen + len(targets)
        rows = self._rows(grams, len(targets)).matrix
        self.linear = linear.fit(rows, wanted, self.num_labels, strength=self.strength, start=start, seen=seen)

    def scores(self, sides: Sides) -> Tensor:
        """(texts, labels) scores before normalising, in float64."""
        return self.linear.scores(self._rows(_grams(sides), len(sides[0])).matrix)

    def attributions(self, sides: Sides, labels: Index) -> Floats:
        """(words of all sides,) how much each word moves the score of its text's label (texts,), up or down.

        Two words share what their 2-gram does.
        """
        grams, size = _grams(sides), sum(len(tokens.ids) for tokens in sides)
        rows, weights = self._rows(grams, len(sides[0])), centred(self.linear.weight)
        texts, places, pairs = (column[rows.known] for column in (grams.texts, grams.places, grams.pairs))
        moved = self._idf()[rows.columns] * weights[rows.columns, labels[texts]] / rows.norms[texts]
        moved /= np.where(pairs, 2, 1)
        sums = np.bincount(places, moved, size) + np.bincount(places[pairs] - 1, moved[pairs], size)
        return sums.astype(np.float64)

    def grow(self, num_words: int) -> None:
        """New words need no room: n-grams get theirs when they are counted."""

    def tensors(self) -> dict[str, Tensor]:
        """All that was learned."""
        counts = {"keys": torch.from_numpy(self.keys), "held": torch.from_numpy(self.held)}
        return counts | {"num_texts": torch.tensor(self.num_texts), **self.linear._asdict()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`tensors` gave."""
        self.keys, self.held, self.num_texts = (
            tensors["keys"].numpy(),
            tensors["held"].numpy(),
            int(tensors["num_texts"]),
        )
        self.linear = Linear(tensors["weight"], tensors["bias"])
        if not len(self.keys) == len(self.held) == len(self.linear.weight):
            raise ValueError("the n-grams are not as many as their weights")

    def _idf(self) -> Floats:
        return smooth_idf(self.held, self.num_texts)

    def _rows(self, grams: _Grams, num_texts: int) -> _Rows:
        columns = np.searchsorted(self.keys, grams.keys)
        known = columns < len(self.keys)
        known[known] = self.keys[columns[known]] == grams.keys[known]
        columns, width = columns[known], max(len(self.keys), 1)
        cells, counts = np.unique(grams.texts[known] * width + columns, return_counts=True)
        where = np.stack([cells // width, cells % width])
        values = counts * self._idf()[where[1]]
        norms = np.sqrt(np.bincount(where[0], values**2, num_texts))
        matrix = sparse_rows(where[0], where[1], values / norms[where[0]], (num_texts, len(self.keys)))
        return _Rows(matrix, norms, columns, known)
