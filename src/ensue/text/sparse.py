"""Sparse matrices and their products, whose sums are taken in the order of the cells.

Products are compiled. Without compiled kernels they are SciPy's where it is installed, as it is where nothing is
compiled (macOS and Windows), and else NumPy's: all three have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple, cast, overload

import numpy as np
import numpy.typing as npt

from ensue import kernels
from ensue.data.histories import Index, entries_of, offsets_of, ranges
from ensue.kernels import address
from ensue.metrics import Floats

Values = npt.NDArray[np.floating]
_MAX_PRODUCTS = 1 << 18
"""Products of cells that are held at once with NumPy, or all of one row."""


class SparseRows:
    """A sparse matrix, (rows, columns), stored row after row.

    Args:
        indptr: (rows + 1,) offset of the first cell of each row, and the number of cells.
        indices: (cells,) the column of each cell.
        data: (cells,) the value of each cell.
        width: number of columns, below 2 ** 31.

    Raises:
        ValueError: columns and values are of different lengths.
    """

    def __init__(
        self,
        indptr: npt.NDArray[np.integer],
        indices: npt.NDArray[np.integer],
        data: npt.NDArray[np.number],
        width: int,
    ) -> None:
        self.indptr: Index = np.ascontiguousarray(indptr, np.int64)
        self.indices = np.ascontiguousarray(indices, np.int32)
        self.data: Floats = np.ascontiguousarray(data, np.float32 if data.dtype == np.float32 else np.float64)
        self.shape = len(indptr) - 1, width
        if len(indices) != len(data):
            raise ValueError(f"{len(indices)} columns belong to {len(data)} values")

    @property
    def T(self) -> SparseColumns:  # noqa: N802
        """The transpose, for products with dense matrices."""
        return SparseColumns(self)

    def owners(self) -> Index:
        """Return (cells,) the row of each cell."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    def astype(self, dtype: npt.DTypeLike) -> SparseRows:
        """Return the same matrix in another precision."""
        if self.data.dtype == dtype:
            return self
        return SparseRows(self.indptr, self.indices, self.data.astype(dtype), self.shape[1])

    def toarray(self) -> Floats:
        """Return the dense matrix; values of one cell are added up."""
        dense: Floats = np.zeros(self.shape, self.data.dtype)
        np.add.at(dense.reshape(-1), self.keys(), self.data)
        return dense

    def at(self, rows: Index, columns: npt.NDArray[np.integer]) -> Floats:
        """Return the values of the cells at ``rows`` and ``columns``, which are broadcast; 0 where none is stored."""
        keys, values = self._sorted
        cell_keys = rows * self.shape[1] + columns
        if not len(keys):
            return np.zeros(cell_keys.shape)
        index = np.searchsorted(keys, cell_keys).clip(max=len(keys) - 1)
        return np.where(keys[index] == cell_keys, values[index], 0)

    @cached_property
    def _sorted(self) -> tuple[Index, Floats]:
        """The cells in rising order: their keys and values."""
        keys = self.keys()
        order = keys.argsort(kind="stable")
        return keys[order], self.data[order]

    @cached_property
    def _in_scipy(self) -> Any:
        """The same matrix for SciPy."""
        return cast(Any, _csr_array())((self.data, self.indices, self.indptr), shape=self.shape)

    def keys(self) -> Index:
        """Return (cells,) the position of each cell in the dense matrix, read row after row."""
        return self.owners() * self.shape[1] + self.indices

    def __getitem__(self, rows: Index) -> SparseRows:
        """Return some of the rows."""
        cells = entries_of(self.indptr, rows)[1]
        offsets = offsets_of(self.indptr[rows + 1] - self.indptr[rows])
        return SparseRows(offsets, self.indices[cells], self.data[cells], self.shape[1])

    @overload
    def __matmul__(self, other: SparseRows) -> SparseRows: ...
    @overload
    def __matmul__(self, other: Floats) -> Floats: ...
    @overload
    def __matmul__(self, other: Values) -> Values: ...
    def __matmul__(self, other: Values | SparseRows) -> Values | SparseRows:
        """Return the product with a matrix or with a vector.

        The columns of a sparse product are not sorted.

        Raises:
            IndexError: a column lies outside.
            ValueError: the shapes do not fit.
        """
        if not isinstance(other, SparseRows):
            return self._times_dense(other)
        _require_shapes(self.shape, other.shape)
        dtype = _common_dtype(self.data, other.data)
        return self.astype(dtype)._times_sparse(other.astype(dtype))

    def gram(self, other: SparseRows) -> Floats:
        """Return the inner products of rows with the rows of another matrix, (rows, other rows)."""
        return (self @ other.transposed()).toarray()

    def transposed(self) -> SparseRows:
        """Return the transpose as a matrix of its own, with columns rising within a row."""
        # Column and number of a cell as one key: to sort keys is faster than to sort the numbers by column.
        order = np.sort((self.indices.astype(np.int64) << 32) + np.arange(len(self.data))) & (1 << 32) - 1
        offsets = offsets_of(np.bincount(self.indices, minlength=self.shape[1]))
        return SparseRows(offsets, self.owners()[order], self.data[order], self.shape[0])

    def _times_dense(self, other: Values, *, transposed: bool = False) -> Values:
        """Return the product of this matrix, or of its transpose, with a dense one."""
        size, width = self.shape[::-1] if transposed else self.shape
        _require_shapes((size, width), other.shape)
        dtype = _common_dtype(self.data, other)
        values = self.data.astype(dtype, copy=False)
        dense = np.ascontiguousarray(other, dtype)
        if kernels.is_loaded():
            out: Values = np.empty((size, *dense.shape[1:]), dtype)
            kernels.call_unchecked(
                "sparse_dense", rows=self.shape[0], width=self.shape[1], cells=len(values),
                vectors=dense.shape[1] if dense.ndim == 2 else 1, transposed=transposed,
                stops=address(self.indptr), columns=address(self.indices), values=address(values),
                dense=address(dense), out=address(out), wide=dtype == np.float64,
            )  # fmt: skip
            return out
        if _csr_array():
            matrix = self.astype(dtype)._in_scipy
            product: Values = (matrix.T if transposed else matrix) @ dense
            return product
        targets, sources = (self.indices, self.owners()) if transposed else (self.owners(), self.indices)
        # One column after the other, since NumPy adds up single numbers far faster than rows.
        sums: Values = np.zeros((*dense.shape[1:], size), dtype)
        by_column = np.atleast_2d(dense.T)
        if len(values) > width:  # each number is read more than once
            by_column = np.ascontiguousarray(by_column)
        for column_sums, column in zip(np.atleast_2d(sums), by_column, strict=True):
            np.add.at(column_sums, targets, values * column[sources])
        return np.ascontiguousarray(sums.T)

    def _times_sparse(self, other: SparseRows) -> SparseRows:
        """Return the product with a sparse matrix of the same precision."""
        size, width = self.shape[0], other.shape[1]
        starts = other.indptr[self.indices]
        lengths = other.indptr[self.indices + 1] - starts
        num_products = int(lengths.sum())
        if kernels.is_loaded():
            room = min(num_products, size * width)
            stops = np.empty(size + 1, np.int64)
            out_columns = np.empty(room, np.int32)
            sums = np.empty_like(self.data, shape=room)
            count = kernels.call_unchecked(
                "sparse_product", rows=size, inner=self.shape[1], width=width, cells=len(self.data),
                other_cells=len(other.data), room=room, stops=address(self.indptr), columns=address(self.indices),
                values=address(self.data), other_stops=address(other.indptr), other_columns=address(other.indices),
                other_values=address(other.data), out_stops=address(stops), out_columns=address(out_columns),
                out_values=address(sums), wide=sums.dtype == np.float64,
            )  # fmt: skip
            return SparseRows(stops, out_columns[:count].copy(), sums[:count].copy(), width)
        if _csr_array():
            product = self._in_scipy @ other._in_scipy
            return SparseRows(product.indptr, product.indices, product.data, width)
        if num_products > _MAX_PRODUCTS and size > 1:
            return stacked([self[half]._times_sparse(other) for half in np.array_split(np.arange(size), 2)])
        cells = ranges(starts, lengths)
        keys = np.repeat(self.owners() * width, lengths) + other.indices[cells]
        distinct, first, codes = np.unique(keys, return_index=True, return_inverse=True)
        sums = np.zeros_like(self.data, shape=len(distinct))
        np.add.at(sums, codes, np.repeat(self.data, lengths) * other.data[cells])
        rows, columns = np.divmod(distinct, max(width, 1))
        # The order of the kernel: within a row, what was met last comes first.
        order = np.lexsort((-first, rows))
        order = order[sums[order] != 0]
        return sparse_rows(rows[order], columns[order], sums[order], (size, width))


class SparseColumns(NamedTuple):
    """The transpose of sparse rows."""

    rows: SparseRows

    @overload
    def __matmul__(self, other: Floats) -> Floats: ...
    @overload
    def __matmul__(self, other: Values) -> Values: ...
    def __matmul__(self, other: Values) -> Values:
        """Return the product with a dense matrix or a vector."""
        return self.rows._times_dense(other, transposed=True)


@cache
def _csr_array() -> type | None:
    """Return SciPy's class, whose products are several times as fast as those of NumPy; None without SciPy."""
    try:
        from scipy.sparse import csr_array
    except ImportError:
        return None
    return cast(type, csr_array)


def _common_dtype(first: npt.NDArray[np.number], second: npt.NDArray[np.number]) -> type[np.floating]:
    return np.float32 if first.dtype == second.dtype == np.float32 else np.float64


def _require_shapes(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    if first[1] != second[0]:
        raise ValueError(f"matrices of the shapes {first} and {second} cannot be multiplied")


def sparse_rows(
    rows: Index, columns: npt.NDArray[np.integer], values: npt.NDArray[np.number], shape: tuple[int, int]
) -> SparseRows:
    """Return a sparse matrix of cells that are in the order of their rows.

    Args:
        rows: (cells,) not decreasing.
        columns: (cells,).
        values: (cells,).
        shape: of the matrix.
    """
    return SparseRows(np.searchsorted(rows, np.arange(shape[0] + 1)), columns, values, shape[1])


def sparse_cells(
    rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], values: Values, shape: tuple[int, int]
) -> SparseRows:
    """Return a sparse matrix of cells in any order, columns rising within a row; values of one cell are added up.

    Args:
        rows: (cells,).
        columns: (cells,).
        values: (cells,).
        shape: of the matrix.
    """
    keys = rows.astype(np.int64) * shape[1] + columns
    order = keys.argsort(kind="stable")
    rising = keys[order]
    is_first = np.diff(rising, prepend=-1) > 0
    sums = np.zeros_like(values, shape=np.count_nonzero(is_first))
    np.add.at(sums, is_first.cumsum() - 1, values[order])
    return sparse_rows(*np.divmod(rising[is_first], max(shape[1], 1)), sums, shape)


def both_ways(matrix: SparseRows, weight: float = 1.0) -> SparseRows:
    """Return a square matrix plus ``weight`` times its transpose, columns rising within a row."""
    if not weight:
        return matrix
    transpose = matrix.transposed()
    rows = np.concatenate([matrix.owners(), transpose.owners()])
    columns = np.concatenate([matrix.indices, transpose.indices])
    return sparse_cells(rows, columns, np.concatenate([matrix.data, weight * transpose.data]), matrix.shape)


def unit_rows(owners: Index, terms: Index, counts: Index, weights: Values, num: int) -> SparseRows:
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


def stacked(matrices: Sequence[SparseRows]) -> SparseRows:
    """Return the rows of several matrices of one width, one below the other."""
    lengths = np.concatenate([np.diff(matrix.indptr) for matrix in matrices])
    indices, data = (np.concatenate([getattr(matrix, name) for matrix in matrices]) for name in ("indices", "data"))
    return SparseRows(offsets_of(lengths), indices, data, matrices[0].shape[1])
