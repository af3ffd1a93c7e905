"""Texts as arrays, for a folder holds tensors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl

from ensue.tasks.suggest.baselines.table import Arrays


def pack_texts(texts: pl.Series) -> Arrays:
    """Texts as two arrays: their bytes in UTF-8 and where each begins."""
    data = "".join(texts).encode()
    ends = np.cumsum(texts.str.len_bytes().to_numpy(), dtype=np.int64)
    return {"bytes": np.frombuffer(data, np.uint8), "offsets": np.concatenate([np.zeros(1, np.int64), ends])}


def unpack_texts(arrays: Arrays) -> pl.Series:
    """The texts of :func:`pack_texts`.

    Raises:
        ValueError: the arrays do not fit together, or are not UTF-8.
    """
    data, offsets = arrays["bytes"].tobytes(), arrays["offsets"].tolist()
    if not offsets or offsets[0] or offsets[-1] != len(data) or offsets != sorted(offsets):
        raise ValueError("the texts are not as long as their offsets say")
    texts = [data[low:high].decode() for low, high in pairwise(offsets)]
    return pl.Series("query", texts, dtype=pl.String)
