"""Sparse rows are scipy's ``csr_array``; its import costs 0.1 s, which only those pay who make one."""

from __future__ import annotations

from typing import Protocol, overload

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index
from ensue.metrics import Floats


class SparseRows(Protocol):
    """What is used of a ``csr_array`` (rows, features) of float64."""

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
    def __matmul__(self, other: Floats | SparseRows) -> Floats | SparseRows:
        """(rows, features) times (features, columns), or times (features,)."""

    def __getitem__(self, rows: Index) -> SparseRows:
        """Some of the rows."""

    def toarray(self) -> Floats:
        """The same with its zeros."""


def sparse_rows(rows: Index, columns: Index, values: Floats, shape: tuple[int, int]) -> SparseRows:
    """Sparse rows of their cells.

    Args:
        rows: (cells,) not decreasing.
        columns: (cells,).
        values: (cells,).
        shape: of the matrix.
    """
    from scipy.sparse import csr_array

    matrix: SparseRows = csr_array((values, columns, np.searchsorted(rows, np.arange(shape[0] + 1))), shape=shape)
    return matrix
