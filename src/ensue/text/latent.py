"""Latent semantic analysis (Deerwester et al. 1990): texts by what their words stand beside, not by the words alone.

With A the weighted counts of documents at length 1 and A = U S V' to the ``SIZE`` largest values of S, a text is the
sum over its terms of what they weigh times their rows of V, at length 1: texts that share a topic are close, whatever
their words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.nn.validation import require_table
from ensue.text.lexical import chosen_terms, places_of, require_rising
from ensue.text.sparse import SparseRows, unit_rows
from ensue.text.terms import Keys, Terms, smooth_idf

SIZE = 50
"""Numbers of a text. Beside the scores that count words, 25 and 100 rank the posts outside the tests of PolitiFact and
Clickbait22 worse, taken together, and 200 worse still."""
READ = 4096
"""Documents at most that are analysed; of more, so many evenly spaced ones."""
_OVERSAMPLING, _ITERATIONS = 10, 5
_MAX_CELLS = 1 << 16
"""Terms of texts whose rows are held at once."""
_MIN_LENGTH = 1e-6


@dataclass(eq=False)
class Latent:
    """Vectors of terms in a latent space; a text is their sum.

    Attributes:
        terms: (terms,) rising.
        table: (terms, at most ``SIZE``) the rows of V, times how rare the term is.
    """

    terms: Keys
    table: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        """Check that the tables belong together.

        Raises:
            ValueError: the terms do not rise, or the rows are not as many as they.
        """
        require_rising("terms", self.terms)
        require_table("table", self.table, np.float32, [len(self.terms), None])

    @classmethod
    def of(cls, terms: Terms, num: int) -> Latent:
        """Analyse some documents.

        Args:
            terms: of the documents.
            num: how many they are.
        """
        # An even sample of the documents, all of them where they are few.
        documents = np.linspace(0, max(num - 1, 0), min(READ, num)).astype(np.int64)
        owners, keys, counts = chosen_terms(terms, documents)
        distinct, columns = np.unique(keys, return_inverse=True)
        idf = smooth_idf(np.bincount(columns, minlength=len(distinct)), len(documents))
        rows = unit_rows(owners, columns, counts, idf, len(documents))
        return cls(distinct, (_right(rows) * idf[:, None]).astype(np.float32))

    def vectors(self, terms: Terms, num: int) -> Floats:
        """(num, width) of length 1, or 0 where no term is known."""
        owners, keys, counts = terms
        positions, is_known = places_of(self.terms, keys)
        owners = owners[is_known]
        positions = positions[is_known]
        weights = 1 + np.log(counts[is_known])
        vectors = np.zeros((num, self.table.shape[1]))
        # Owners do not decrease, so each text of a block is one run; a text may go on in the next block.
        for low in range(0, len(owners), _MAX_CELLS):
            block = slice(low, low + _MAX_CELLS)
            texts, starts = np.unique(owners[block], return_index=True)
            vectors[texts] += np.add.reduceat(weights[block, None] * self.table[positions[block]], starts)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > _MIN_LENGTH, lengths, 1.0)


def _right(rows: SparseRows) -> Floats:
    """(columns, at most ``SIZE``) V of rows = U S V', the largest first, by subspace iteration (Halko et al. 2011)."""
    width = min(SIZE + _OVERSAMPLING, rows.shape[0])
    basis = np.random.default_rng(0).standard_normal((rows.shape[0], width))
    # Each step multiplies the basis by rows rows', which turns it towards the largest singular vectors.
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(rows @ (rows.T @ basis))[0]
    across = rows.T @ basis
    # The squared singular values and axes within the subspace; eigh returns the smallest first.
    powers, axes = np.linalg.eigh(across.T @ across)
    largest: Index = np.flatnonzero(powers > _MIN_LENGTH * max(powers[-1] if width else 0.0, _MIN_LENGTH))[::-1][:SIZE]
    return across @ (axes[:, largest] / np.sqrt(powers[largest]))
