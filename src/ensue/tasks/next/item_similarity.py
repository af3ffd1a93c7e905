"""Similarity of items: the cosine of their features, or how often they occur together where items have no features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ensue import kernels
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
        self._totals: Floats | None = None
        """(ids,) occurrences, where the table holds those of pairs."""
        if known_items is None:
            self._totals = np.maximum(cooccurrence.totals.astype(np.float64), 1.0)
            directed = SparseRows(cooccurrence.rows, cooccurrence.columns, cooccurrence.counts, num_ids)
            # Similarity has no direction: pairs in both orders are added.
            self._table = both_ways(directed).astype(np.float64)
        else:
            tokens, weights = known_items.encoder.encode(known_items.items)
            ids = vocabulary.ids(known_items.items.ids.to_list())
            # Token 0 is the same for all items and says nothing.
            row, column = tokens.nonzero()
            shape = (num_ids, known_items.encoder.num_tokens)
            cells = sparse_cells(ids[row], tokens[row, column], weights[row, column], shape)
            # Rows of unit length, so that products are cosines.
            owners = cells.owners()
            lengths = np.sqrt(np.bincount(owners, cells.data**2, num_ids)).clip(min=1e-12)
            self._table = SparseRows(cells.indptr, cells.indices, cells.data * (1 / lengths)[owners], shape[1])
        self._prepared = kernels.prepare(
            "diversify", rows=num_ids, width=self._table.shape[1], stops=self._table.indptr,
            columns=self._table.indices, values=self._table.data, totals=self._totals,
        )  # fmt: skip

    def of_pairs(self, first: Index, second: Index) -> Floats:
        """Return (pairs,) the similarity of the ids of each pair."""
        if self._totals is None:
            # The second item's weight of every feature of the first one.
            rows = self._table[first]
            owners = rows.owners()
            products = rows.data * self._table[second].at(owners, rows.indices)
            return np.bincount(owners, products, len(first)).clip(0, 1)
        # The cosine of two items as sets of events.
        similarity: Floats = self._table.at(first, second) / np.sqrt(self._totals[first] * self._totals[second])
        return similarity.clip(0, 1)

    def of_all(self, first: Index, second: Index) -> Floats:
        """Return (first, second) the similarity of each id to each other one; 0 for ids that the vocabulary lacks."""
        first, second = (np.where(ids < self.num_ids, ids, PADDING) for ids in (first, second))
        if self._totals is None:
            return self._table[first].gram(self._table[second]).clip(0, 1)
        counts = self._table[first].toarray()[:, second]
        similarity: Floats = counts / np.sqrt(np.outer(self._totals[first], self._totals[second]))
        return similarity.clip(0, 1)

    def diversify(self, ids: Index, relevance: Floats, weight: float, k: int, kinds: Mapping[str, Index]) -> list[int]:
        """Return what :meth:`ensue.tasks.next.reranking.Reranker.positions` does for ``mmr``, by compiled code.

        Args:
            ids: (candidates,) ids, best first.
            relevance: (candidates,) times 1 - ``weight``.
            weight: of the similarity.
            k: number of items.
            kinds: limited values of the candidates, by fields of the kernel.
        """
        rows = np.where(ids < self.num_ids, ids, PADDING)
        positions = np.empty(k, np.int64)
        fields: dict[str, kernels.Value] = {"ids": rows, "relevance": relevance, "weight": weight, "chosen": positions}
        return positions[: kernels.call("diversify", self._prepared, **fields, **kinds)].tolist()
