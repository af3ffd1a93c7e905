"""Texts as arrays, for a folder holds tensors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import torch

from ensue.nn.validation import require_offsets, require_table
from ensue.tasks.suggest.baselines.table import Arrays


def pack_texts(texts: pl.Series) -> Arrays:
    """Texts as two arrays: their bytes in UTF-8 and where each begins."""
    data = "".join(texts).encode()
    ends = np.cumsum(texts.str.len_bytes().to_numpy(), dtype=np.int64)
    return {"bytes": np.frombuffer(data, np.uint8), "offsets": np.concatenate([np.zeros(1, np.int64), ends])}


def unpack_texts(arrays: Arrays) -> pl.Series:
    """The texts of :func:`pack_texts`.

    Raises:
        ValueError: the arrays do not fit together, are not UTF-8, or hold a text twice.
    """
    data, offsets = (torch.from_numpy(np.require(arrays[name], requirements="W")) for name in ("bytes", "offsets"))
    require_table("the bytes of texts", data, torch.uint8, [None])
    require_offsets("the offsets of texts", offsets, len(data))
    packed = arrays["bytes"].tobytes()
    texts = [packed[low:high].decode() for low, high in pairwise(arrays["offsets"].tolist())]
    if len(set(texts)) < len(texts):
        raise ValueError("a text appears twice")
    return pl.Series("query", texts, dtype=pl.String)
