"""Sparse rows are scipy's ``csr_array``; its import costs 0.1 s, which only those pay who make one.

No other module imports scipy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, overload

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index
from ensue.metrics import Floats


class SparseRows(Protocol):
    """The part of a float64 ``csr_array`` (rows, features) that is used."""

    data: Floats
    indices: npt.NDArray[np.integer]
    indptr: npt.NDArray[np.integer]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""

    @property
    def T(self) -> SparseRows:  # noqa: N802
        """The transpose."""

    @overload
    def __matmul__(self, other: Floats) -> Floats: ...
    @overload
    def __matmul__(self, other: SparseRows) -> SparseRows: ...
    @overload
    def __matmul__(self, other: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]: ...
    def __matmul__(self, other: npt.NDArray[np.floating] | SparseRows) -> npt.NDArray[np.floating] | SparseRows:
        """(rows, features) times (features, columns), or times (features,)."""

    @overload
    def __getitem__(self, rows: Index | tuple[slice, Index]) -> SparseRows: ...
    @overload
    def __getitem__(self, rows: tuple[Index, Index]) -> npt.NDArray[np.floating]: ...
    def __getitem__(self, rows: Index | tuple[slice | Index, Index]) -> SparseRows | npt.NDArray[np.floating]:
        """Some of the rows, of all rows some columns, or some cells by their rows and columns."""

    def multiply(self, other: SparseRows) -> SparseRows:
        """Return the products cell by cell."""

    def sum(self, axis: int) -> Floats:
        """Return the sums of the rows (1) or columns (0)."""

    def astype(self, dtype: type[np.floating]) -> SparseRows:
        """Return the same rows in another precision."""

    def toarray(self, *, out: npt.NDArray[np.floating] | None = None) -> Floats:
        """Return the dense array; it is written to ``out`` if given."""


def sparse_rows(
    rows: Index, columns: npt.NDArray[np.integer], values: npt.NDArray[np.floating], shape: tuple[int, int]
) -> SparseRows:
    """Sparse rows of their cells.

    Args:
        rows: (cells,) not decreasing.
        columns: (cells,).
        values: (cells,).
        shape: of the matrix.
    """
    return sparse_between(np.searchsorted(rows, np.arange(shape[0] + 1)), columns, values, shape[1])


def sparse_between(
    stops: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], values: npt.NDArray[np.floating], width: int
) -> SparseRows:
    """Sparse rows of their cells, row after row.

    Args:
        stops: (rows + 1,) where each row's cells begin, and the end of all.
        columns: (cells,).
        values: (cells,).
        width: number of columns.
    """
    from scipy.sparse import csr_array

    matrix: SparseRows = csr_array((values, columns, stops), shape=(len(stops) - 1, width))
    return matrix


def sparse_cells(
    rows: npt.NDArray[np.integer],
    columns: npt.NDArray[np.integer],
    values: npt.NDArray[np.floating],
    shape: tuple[int, int],
) -> SparseRows:
    """Sparse rows of cells in any order, columns rising within a row; a cell that comes twice is their sum.

    Args:
        rows: (cells,).
        columns: (cells,).
        values: (cells,).
        shape: of the matrix.
    """
    from scipy.sparse import csr_array

    matrix: SparseRows = csr_array((values, (rows, columns)), shape=shape)
    return matrix


def both_ways(rows: SparseRows, weight: float = 1.0) -> SparseRows:
    """Return a square matrix plus ``weight`` times its transpose, both with columns rising within a row."""
    from scipy.sparse import csr_array

    forward = csr_array(rows)
    matrix: SparseRows = (forward + weight * forward.T).tocsr()
    return matrix


def unit_rows(owners: Index, terms: Index, counts: Index, weights: npt.NDArray[np.floating], num: int) -> SparseRows:
    """(num, terms) weighted logarithms of the counts of each document, at length 1.

    Args:
        owners: (cells,) the document, not decreasing.
        terms: (cells,) what it holds, rising within it.
        counts: (cells,) how often.
        weights: (terms,).
        num: documents.
    """
    # Sublinear counts, and rows of unit length, so that products of rows are cosines.
    values = (1 + np.log(counts)) * weights[terms]
    values /= np.sqrt(np.bincount(owners, values**2, num))[owners]
    return sparse_rows(owners, terms, values, (num, len(weights)))


def stacked(parts: Sequence[SparseRows]) -> SparseRows:
    """The rows of several matrices of one width, one below the other."""
    from scipy.sparse import vstack

    matrix: SparseRows = vstack(parts, format="csr")
    return matrix
