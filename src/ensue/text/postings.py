"""Documents term by term, and scores of texts that add up the terms they share with each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ensue import kernels
from ensue.data.histories import Ids, Index, ranges
from ensue.metrics import Floats

_PRODUCTS = 1 << 22
"""Products of weights that are held at once."""


@dataclass(frozen=True, eq=False)
class Postings:
    """The columns of a sparse matrix, a row a document.

    Attributes:
        offsets: (terms + 1,) term ``t`` has the entries ``offsets[t]`` to ``offsets[t + 1]``.
        documents: (entries,) who holds the term.
        weights: (entries,) how much it weighs there.
        num_documents: rows of the matrix.
    """

    offsets: Index
    documents: Ids
    weights: npt.NDArray[np.float32]
    num_documents: int

    def scores(self, texts: Index, terms: Index, weights: Floats | None, num_texts: int) -> Floats:
        """(texts, documents) sums of products over the terms that a text and a document share.

        With two documents, term 0 in document 1 and term 1 in both (``offsets`` 0 1 3, ``documents`` 1 0 1), the cells
        of a text 0 with the terms 0 and 1 are 1, 0 and 1: the products of document 1 are added up.

        Args:
            texts: (cells,) whose, not decreasing.
            terms: (cells,) which term.
            weights: (cells,) how much it weighs in the text; 1 unless given.
            num_texts: rows of the result.

        Raises:
            IndexError: a text, a term or a document lies outside, or offsets fall.
            ValueError: arrays that belong together are of different lengths.
        """
        sums = np.zeros(num_texts * self.num_documents)
        if kernels.is_loaded():
            kernels.call(
                "postings", self._prepared, num_texts=num_texts, sums=sums,
                texts=np.ascontiguousarray(texts, np.int64), terms=np.ascontiguousarray(terms, np.int64),
                text_weights=None if weights is None else np.ascontiguousarray(weights, np.float64),
            )  # fmt: skip
            return sums.reshape(num_texts, self.num_documents)
        # Without the kernel: gather the entries of all cells, some millions at a time, and add them by document.
        lengths = self.offsets[terms + 1] - self.offsets[terms]
        ends = np.cumsum(lengths)
        low = 0
        while low < len(terms):
            done = ends[low - 1] if low else 0
            high = max(low + 1, int(np.searchsorted(ends, done + _PRODUCTS, side="right")))
            block = slice(low, high)
            entries = ranges(self.offsets[terms[block]], lengths[block])
            # Number of each product's place in the flat result.
            cells = np.repeat(texts[block] * self.num_documents, lengths[block]) + self.documents[entries]
            block_weights = self.weights[entries]
            products = block_weights if weights is None else np.repeat(weights[block], lengths[block]) * block_weights
            if high - low == len(terms):  # all at once: nothing is added to
                sums = np.bincount(cells, products, len(sums)).astype(np.float64, copy=False)
                break
            # Only the rows of this block's texts change.
            first = int(texts[low]) * self.num_documents
            last = (int(texts[high - 1]) + 1) * self.num_documents
            sums[first:last] += np.bincount(cells - first, products, last - first)
            low = high
        return sums.reshape(num_texts, self.num_documents)

    @cached_property
    def _prepared(self) -> kernels.Structure:
        """The parameters of the compiled function that stay the same for all texts."""
        return kernels.prepare(
            "postings", documents=self.num_documents,
            offsets=np.ascontiguousarray(self.offsets, np.int64), num_terms=len(self.offsets) - 1,
            holders=np.ascontiguousarray(self.documents, np.int32),
            weights=np.ascontiguousarray(self.weights, np.float32),
        )  # fmt: skip
