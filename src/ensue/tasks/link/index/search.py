"""Which rows are closest to a query: all of them, a block at a time, or, beyond a million, some lists of them.

Lists are those of an inverted file (Jégou, Douze & Schmid, PAMI 2011) by faiss (extra ``ann``), with whole rows in 32
bits: a row that is found has the score of the exact search.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from ensue.data.histories import Index
from ensue.nn.approximate import import_faiss

Vectors = npt.NDArray[np.floating]
Block = tuple[int, Vectors, npt.NDArray[np.bool_]]
"""(first row, (rows, dim) vectors, (rows,) which still stand)."""
LEAST = 39
"""Rows a list that its centroid is learned from; an index with fewer rows a list gets fewer lists."""
_ROUNDS = 10


class Clustering(Protocol):
    """How centroids are learned."""

    niter: int
    seed: int


class InvertedFile(Protocol):
    """An inverted file, as faiss has it."""

    cp: Clustering
    ntotal: int
    """Rows."""

    def train(self, rows: Vectors) -> None:
        """Learn the centroids."""
        ...

    def add(self, rows: Vectors) -> None:
        """Append rows."""
        ...

    def search(self, queries: Vectors, k: int, *, params: object) -> tuple[npt.NDArray[np.float32], Index]:
        """(queries, k) products and rows."""
        ...


def exact_search(queries: Vectors, blocks: Iterable[Block], k: int) -> tuple[npt.NDArray[np.float32], Index]:
    """The ``k`` rows of highest inner product with each query, ties in order of row.

    Args:
        queries: (queries, dim).
        blocks: the rows.
        k: how many.

    Returns:
        (queries, k) products, -inf where there are fewer rows, and (queries, k) rows, -1 there.
    """
    rows_of_queries = torch.from_numpy(np.ascontiguousarray(queries, np.float32))
    best = np.full((len(queries), k), -np.inf, np.float32)
    rows = np.full((len(queries), k), -1, np.int64)
    for first, vectors, standing in blocks:
        scores = (rows_of_queries @ torch.from_numpy(vectors).float().T).numpy()
        scores[:, ~standing] = -np.inf
        for place, own in enumerate(scores):
            chosen = np.flatnonzero((own > best[place, -1]) & (own > -np.inf))  # of equals the earlier rows stay
            if len(chosen) > k:
                chosen = chosen[own[chosen] >= np.partition(own[chosen], -k)[-k]]
            every = np.concatenate([best[place], own[chosen]])
            names = np.concatenate([rows[place], chosen + first])
            order = np.argsort(-every, kind="stable")[:k]
            best[place], rows[place] = every[order], names[order]
    return best, rows


def make_ivf(blocks: list[Block], num_rows: int, dim: int, nlist: int | None = None) -> InvertedFile:
    """An inverted file of all rows, those that were deleted included.

    Args:
        blocks: the rows.
        num_rows: how many there are.
        dim: numbers in a row.
        nlist: lists, about the square root of the number of rows by default.

    Raises:
        SettingError: the extra is missing.
    """
    faiss = import_faiss()
    nlist = max(1, min(nlist or round(num_rows**0.5), num_rows // LEAST))
    every = max(1, num_rows // (LEAST * nlist))
    index: InvertedFile = faiss.index_factory(dim, f"IVF{nlist},Flat", faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed = _ROUNDS, 0
    sample = [vectors[(-first) % every :: every] for first, vectors, _ in blocks]
    index.train(_floats(np.concatenate(sample)))
    for _, vectors, _ in blocks:
        index.add(_floats(vectors))
    return index


def save(index: InvertedFile, path: Path) -> None:
    """Write an inverted file.

    Raises:
        OSError: the disk is full or the place cannot be written.
    """
    try:
        import_faiss().write_index(index, str(path))
    except RuntimeError as error:
        raise OSError(str(error).splitlines()[-1]) from error


def load(path: Path, num_rows: int, dim: int) -> InvertedFile:
    """Read an inverted file of this many rows of ``dim`` numbers, mapped where faiss can.

    Raises:
        OSError: missing, damaged, or of other rows.
        SettingError: the extra is missing.
    """
    faiss = import_faiss()
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
    except RuntimeError as error:
        raise OSError(str(error).splitlines()[-1]) from error
    if not isinstance(index, faiss.IndexIVFFlat) or index.d != dim or index.quantizer.ntotal != index.nlist:
        raise OSError("is not what was written")
    if index.ntotal != num_rows:
        raise OSError(f"{index.ntotal:,} rows where {num_rows:,} were written")
    lists: InvertedFile = index
    return lists


def probe(
    index: InvertedFile, queries: Vectors, k: int, standing: npt.NDArray[np.bool_], nprobe: int
) -> tuple[npt.NDArray[np.float32], Index]:
    """As :func:`exact_search`, of the rows in the lists that are closest to each query.

    Args:
        index: an inverted file.
        queries: (queries, dim).
        k: rows a query.
        standing: (rows,) which rows may be found.
        nprobe: lists a query.
    """
    faiss = import_faiss()
    bits = np.packbits(standing[: index.ntotal], bitorder="little")
    chosen = faiss.SearchParametersIVF(nprobe=nprobe, sel=faiss.IDSelectorBitmap(index.ntotal, faiss.swig_ptr(bits)))
    scores, rows = index.search(_floats(queries), k, params=chosen)
    return np.where(rows >= 0, scores, -np.inf), rows


def _floats(vectors: Vectors) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(vectors, np.float32)
