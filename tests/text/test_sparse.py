"""Sparse matrices against SciPy's, bit for bit: the same cells, in the same order, and sums in the same order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, vstack

from ensue import kernels
from ensue.data.histories import offsets_of
from ensue.text import sparse
from ensue.text.sparse import SparseRows, both_ways, sparse_cells, sparse_rows, stacked
from tests.kernels.paths import COMPILED, using


@pytest.fixture(autouse=True, params=["compiled", "scipy", "numpy"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test runs with the compiled kernels, where there are any, with SciPy, and with NumPy alone."""
    if request.param == "compiled" and COMPILED == "off":
        pytest.skip("no compiled kernels: python native/compile_kernels.py")
    if request.param == "numpy":
        monkeypatch.setattr(sparse, "_csr_array", lambda: None)
    with using(COMPILED if request.param == "compiled" else "off"):
        yield


DTYPES = (np.float64, np.float32)
Pair = tuple[SparseRows, csr_array]
# The fixture only chooses the path, which is the same for all examples of a test.
tried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def drawn(
    seed: int, rows: int, width: int, dtype: npt.DTypeLike = np.float64, *, index: npt.DTypeLike = np.int64
) -> Pair:
    """A matrix of columns in any order, some twice, with values of both signs, some 0; every third row is empty."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 9, rows) * (np.arange(rows) % 3 > 0) * (width > 0)
    stops = offsets_of(lengths).astype(index)
    columns = random.integers(0, max(width, 1), stops[-1]).astype(index)
    values = (random.normal(size=stops[-1]) * random.integers(0, 4, stops[-1])).astype(dtype)
    return SparseRows(stops, columns, values, width), csr_array((values, columns, stops), shape=(rows, width))


def distinct(seed: int, rows: int, width: int, dtype: npt.DTypeLike = np.float64) -> Pair:
    """A matrix whose cells are distinct and in order."""
    matrix = drawn(seed, rows, width, dtype)[1]
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return SparseRows(matrix.indptr, matrix.indices, matrix.data, width), matrix


def same(ours: npt.NDArray[np.floating], theirs: npt.NDArray[np.floating]) -> None:
    """Both arrays have the same shape, type and bits, but for the sign of 0."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    assert np.array_equal(ours, theirs)


def same_cells(ours: SparseRows, theirs: csr_array) -> None:
    """Both matrices hold the same cells in the same order."""
    assert ours.shape == theirs.shape
    for mine, its in ((ours.indptr, theirs.indptr), (ours.indices, theirs.indices)):
        assert np.array_equal(mine, its)
    same(ours.data, theirs.data)


shapes = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))


@tried
@given(st.integers(0, 10**6), shapes, st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_products_with_dense_matrices(
    seed: int, shape: tuple[int, int, int], dtype: type[np.floating], other_dtype: type[np.floating]
) -> None:
    rows, width, vectors = shape
    ours, theirs = drawn(seed, rows, width, dtype)
    random = np.random.default_rng(seed)
    right, left = (random.normal(size=(size, vectors)).astype(other_dtype) for size in (width, rows))
    same(ours @ right, theirs @ right)
    same(ours.T @ left, theirs.T @ left)
    same(ours @ np.asfortranarray(right), theirs @ right)
    same(ours @ right.sum(1), theirs @ right.sum(1))
    same(ours.T @ left.sum(1), theirs.T @ left.sum(1))


@tried
@given(st.integers(0, 10**6), shapes, st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_products_with_sparse_matrices(
    seed: int, shape: tuple[int, int, int], dtype: type[np.floating], other_dtype: type[np.floating]
) -> None:
    rows, inner, width = shape
    (left, its_left), (right, its_right) = drawn(seed, rows, inner, dtype), drawn(seed + 1, inner, width, other_dtype)
    same_cells(left @ right, its_left @ its_right)
    other, its_other = drawn(seed + 2, width, inner, other_dtype)
    same(left.gram(other), (its_left @ its_other.T).toarray())


@tried
@given(st.integers(0, 10**6), shapes, st.sampled_from(DTYPES))
def test_the_same_matrix_otherwise(seed: int, shape: tuple[int, int, int], dtype: type[np.floating]) -> None:
    rows, width, size = shape
    ours, theirs = drawn(seed, rows, width, dtype)
    assert np.array_equal(ours.owners(), theirs.tocoo().row)
    same(ours.toarray(), theirs.toarray())
    same_cells(ours.transposed(), theirs.T.tocsr())
    half = ours.astype(np.float32)
    assert half.indices is ours.indices and np.array_equal(half.data, ours.data.astype(np.float32))
    below = drawn(seed + 1, size, width, dtype)
    same_cells(stacked([ours, below[0], ours]), vstack([theirs, below[1], theirs], format="csr"))
    if rows:
        chosen = np.random.default_rng(seed).integers(0, rows, size)
        same_cells(ours[chosen], theirs[chosen])


@tried
@given(st.integers(0, 10**6), shapes, st.sampled_from(DTYPES))
def test_single_cells(seed: int, shape: tuple[int, int, int], dtype: type[np.floating]) -> None:
    rows, width, size = (side + 1 for side in shape)
    ours, theirs = distinct(seed, rows, width, dtype)
    random = np.random.default_rng(seed)
    chosen, columns = random.integers(0, rows, (size, 1)), random.integers(0, width, size)
    assert np.array_equal(ours.at(chosen, columns), theirs.toarray()[chosen, columns])
    unsorted = ours @ drawn(seed, width, width, dtype)[0]
    assert np.array_equal(unsorted.at(chosen, columns), unsorted.toarray()[chosen, columns])


@tried
@given(st.integers(0, 10**6), shapes, st.sampled_from(DTYPES), st.sampled_from([0.0, 0.3, 1.0]))
def test_matrices_of_cells(seed: int, shape: tuple[int, int, int], dtype: type[np.floating], weight: float) -> None:
    rows, width, _ = shape
    matrix = drawn(seed, rows, width, dtype)[0]
    same_cells(
        sparse_rows(matrix.owners(), matrix.indices, matrix.data, matrix.shape), drawn(seed, rows, width, dtype)[1]
    )
    order = np.random.default_rng(seed).permutation(len(matrix.data))
    cells = matrix.owners()[order], matrix.indices[order], matrix.data[order]
    sums = sparse_cells(*cells, matrix.shape)
    theirs = csr_array((cells[2], cells[:2]), shape=matrix.shape)
    assert np.array_equal(sums.indptr, theirs.indptr) and np.array_equal(sums.indices, theirs.indices)
    np.testing.assert_allclose(sums.data, theirs.data, rtol=1e-5, atol=1e-6)  # SciPy adds up in an order of its own
    ours, theirs = distinct(seed, rows, rows, dtype)
    ours = SparseRows(ours.indptr, ours.indices, np.abs(ours.data), rows)
    same_cells(both_ways(ours, weight), (abs(theirs) + weight * abs(theirs).T).tocsr())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vectors", [*range(1, 10), 33])
def test_large_products(dtype: type[np.floating], vectors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = drawn(0, 300, 200, dtype, index=np.int32)
    other, its_other = drawn(1, 200, 150, dtype, index=np.int32)
    random = np.random.default_rng(2)
    right, left = (random.normal(size=(size, vectors)).astype(dtype) for size in (200, 300))
    same(ours @ right, theirs @ right)
    same(ours.T @ left, theirs.T @ left)
    monkeypatch.setattr(sparse, "_MAX_PRODUCTS", 50 * vectors)
    same_cells(ours @ other, theirs @ its_other)


def test_infinite_values_stay() -> None:
    matrix = SparseRows(np.array([0, 2]), np.array([0, 1]), np.array([np.inf, -np.inf]), 2)
    ones = SparseRows(np.array([0, 1, 2]), np.array([0, 0]), np.ones(2), 1)
    with np.errstate(invalid="ignore"):
        assert np.isnan(matrix @ np.ones(2)).all() and np.isnan((matrix @ ones).data).all()


def test_shapes_and_columns_that_do_not_fit() -> None:
    matrix = drawn(0, 4, 5)[0]
    for other in (np.ones(4), np.ones((4, 2)), drawn(0, 4, 4)[0]):
        with pytest.raises(ValueError, match=r"matrices of the shapes \(4, 5\) and \(4,.*\) cannot be multiplied"):
            matrix @ other
    with pytest.raises(ValueError, match=r"matrices of the shapes \(5, 4\) and \(5,\) cannot be multiplied"):
        matrix.T @ np.ones(5)
    with pytest.raises(ValueError, match="2 columns belong to 3 values"):
        SparseRows(np.array([0, 2]), np.array([0, 1]), np.ones(3), 2)
    wide = SparseRows(np.array([0, 1]), np.array([5]), np.ones(1), 5)
    if not (kernels.level() == "off" and sparse._csr_array()):  # SciPy reads what lies behind
        for other in (np.ones(5), drawn(0, 5, 5)[0]):
            with pytest.raises(IndexError):
                wide @ other
