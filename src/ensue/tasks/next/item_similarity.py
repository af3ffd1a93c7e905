"""Similarity of items: the cosine of their features, or how often they occur together where items have no features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.tasks.next.baselines.counting import Cooccurrence
from ensue.tasks.next.item_features import KnownItems
from ensue.text.sparse import SparseRows, both_ways, sparse_cells
from ensue.vocabulary import PADDING, Vocabulary


class ItemSimilarity:
    """Similarity of pairs of items, from 0 to 1.

    Args:
        vocabulary: the items.
        known_items: the item table with its encoder, if there is one.
        cooccurrence: counts, which are used without a table.
    """

    def __init__(self, vocabulary: Vocabulary, known_items: KnownItems | None, cooccurrence: Cooccurrence) -> None:
        self.source = "co-occurrence" if known_items is None else "features"
        """Name of the source of similarities, for messages."""
        self.num_ids = num_ids = len(vocabulary)
        self._features: SparseRows | None = None
        if known_items is None:
            self._totals = np.maximum(cooccurrence.totals.astype(np.float64), 1.0)
            directed = SparseRows(cooccurrence.rows, cooccurrence.columns, cooccurrence.counts, num_ids)
            # Similarity has no direction: pairs in both orders are added.
            self._counts = both_ways(directed)
            return
        tokens, weights = known_items.encoder.encode(known_items.items)
        ids = vocabulary.ids(known_items.items.ids.to_list())
        # Token 0 is the same for all items and says nothing.
        row, column = tokens.nonzero()
        shape = (num_ids, known_items.encoder.num_tokens)
        features = sparse_cells(ids[row], tokens[row, column], weights[row, column], shape)
        # Rows of unit length, so that products are cosines.
        owners = features.owners()
        lengths = np.sqrt(np.bincount(owners, features.data**2, num_ids)).clip(min=1e-12)
        self._features = SparseRows(features.indptr, features.indices, features.data * (1 / lengths)[owners], shape[1])

    def of_pairs(self, first: Index, second: Index) -> Floats:
        """Return (pairs,) the similarity of the ids of each pair."""
        if self._features is not None:
            # The second item's weight of every feature of the first one.
            rows = self._features[first]
            owners = rows.owners()
            products = rows.data * self._features[second].at(owners, rows.indices)
            return np.bincount(owners, products, len(first)).clip(0, 1)
        counts = self._counts.at(first, second)
        # The cosine of two items as sets of events.
        similarity: Floats = counts / np.sqrt(self._totals[first] * self._totals[second])
        return similarity.clip(0, 1)

    def of_all(self, first: Index, second: Index) -> Floats:
        """Return (first, second) the similarity of each id to each other one; 0 for ids that the vocabulary lacks."""
        first, second = (np.where(ids < self.num_ids, ids, PADDING) for ids in (first, second))
        if self._features is not None:
            return self._features[first].gram(self._features[second]).clip(0, 1)
        counts = self._counts[first].toarray()[:, second]
        similarity: Floats = counts / np.sqrt(np.outer(self._totals[first], self._totals[second]))
        return similarity.clip(0, 1)

    def among(self, ids: Index) -> Callable[[int], Floats]:
        """Return a function that takes a position in ``ids`` and returns its row of ``of_all(ids, ids)``.

        A greedy choice needs the rows of the few items that it chooses.
        """
        ids = np.where(ids < self.num_ids, ids, PADDING)
        if self._features is None:
            return lambda position: self.of_all(ids[position : position + 1], ids)[0]
        rows = self._features[ids]
        weights = np.zeros(rows.shape[1])

        def row(position: int) -> Floats:
            cells = slice(*rows.indptr[position : position + 2])
            weights[rows.indices[cells]] = rows.data[cells]
            similarity = rows @ weights
            weights[rows.indices[cells]] = 0
            return np.minimum(similarity, 1, out=similarity)

        return row
