"""Weights of terms: TF-IDF smoothed as in scikit-learn, BM25 (Robertson & Zaragoza 2009) with Lucene's idf."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index
from ensue.metrics import Floats

Numbers = npt.NDArray[np.integer] | npt.NDArray[np.float64]
SATURATION, LENGTH = 1.2, 0.75
"""BM25's k1 and b."""


def smooth_idf(frequencies: Index, num_documents: int) -> Floats:
    """(terms,) ln((1 + N) / (1 + n)) + 1 of terms that n of N documents hold."""
    return np.log((1 + num_documents) / (1 + frequencies)) + 1


def bm25_idf(frequencies: Index, num_documents: int) -> Floats:
    """(terms,) ln(1 + (N - n + 1/2) / (n + 1/2)) of terms that n of N documents hold."""
    return np.log1p((num_documents - frequencies + 0.5) / (frequencies + 0.5))


def bm25_saturation(counts: Numbers, lengths: Numbers, mean_length: float) -> Floats:
    """(entries,) tf (k1 + 1) / (tf + k1 (1 - b + b l / mean l)) of terms that stand tf times in a document of l terms.

    Args:
        counts: (entries,) tf.
        lengths: (entries,) l of the documents they stand in.
        mean_length: of all documents.
    """
    shares = lengths / max(mean_length, 1.0)
    return counts * (SATURATION + 1) / (counts + SATURATION * (1 - LENGTH + LENGTH * shares))
