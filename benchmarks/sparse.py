"""Processor time of sparse products as ratios to SciPy's in one run, each from the arrays of its matrices.

The matrices are those of texts: every row holds about as many columns, the first of which are frequent. A call makes
its sparse matrix of its arrays and multiplies it, as an answer does; ``numpy`` is the code that is used where
neither kernels nor SciPy are there. Results are equal bit for bit, which is checked.

    python benchmarks/sparse.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from ensue import kernels
from ensue.text import sparse
from ensue.text.sparse import SparseRows
from ensue_studies.results import provenance

Matrix = SparseRows | csr_array
TURNS, SECONDS = 9, 0.02
SHAPES = {
    "a text, 6 labels": (1, 100_000, 100, 6),
    "texts, 6 labels": (5_000, 100_000, 100, 6),
    "texts, 1 label": (5_000, 100_000, 100, 1),
    "texts, 100 columns": (5_000, 100_000, 100, 100),
}
"""Rows, columns and cells a row of the sparse matrix, and columns of the dense one."""
PRODUCTS = {"a history": (1, 40_000, 20, 40_000, 30), "histories": (64, 40_000, 20, 40_000, 30)}
"""Rows, columns and cells a row of the first matrix, columns and cells a row of the second one."""


def drawn(rows: int, width: int, cells: int) -> tuple[SparseRows, csr_array]:
    """One matrix twice; column c comes about 1 / c as often as the first."""
    random = np.random.default_rng(rows)
    stops = np.concatenate([[0], np.cumsum(random.poisson(cells, rows))])
    columns = np.minimum(width ** random.random(stops[-1]) - 1, width - 1).astype(np.int64)
    values = random.random(stops[-1])
    return SparseRows(stops, columns, values, width), csr_array((values, columns, stops), shape=(rows, width))


def again(matrix: Matrix) -> Matrix:
    """The matrix made once more of its arrays."""
    if isinstance(matrix, SparseRows):
        return SparseRows(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1])
    return csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)


def measure(ours: Callable[[], object], scipy: Callable[[], object]) -> dict[str, float]:
    """Medians of the three, which take turns, and ratios."""
    calls = {"ours": (kernels.LEVELS[-1], ours), "numpy": ("off", ours), "scipy": ("off", scipy)}
    took: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS + 1):
        for name, (level, call) in calls.items():
            kernels.load(level)
            start, count = time.process_time(), 0
            while not count or time.process_time() - start < SECONDS:
                call()
                count += 1
            if turn:  # the first warms up
                took[name].append((time.process_time() - start) / count)

    def ratio(name: str) -> float:
        return round(statistics.median(a / b for a, b in zip(took[name], took["scipy"], strict=True)), 2)

    microseconds = {f"{name}_us": round(1e6 * statistics.median(times), 1) for name, times in took.items()}
    return {**microseconds, "over_scipy": ratio("ours"), "numpy_over_scipy": ratio("numpy")}


def product(left: Matrix, right: object, transposed: bool = False) -> object:
    """The product with a matrix that is made for it."""
    left = again(left)
    return (left.T if transposed else left) @ right


def rows() -> list[dict[str, object]]:
    """All rows of the table."""
    results: list[dict[str, object]] = []
    for name, (size, width, cells, columns) in SHAPES.items():
        pair = drawn(size, width, cells)
        for label, transposed in ((name, False), (f"{name}, transposed", True)):
            dense = np.random.default_rng(1).random((size if transposed else width, columns))
            calls = [partial(product, matrix, dense, transposed) for matrix in pair]
            assert np.array_equal(*(call() for call in calls))
            results.append({"product": label, "size": [size, width, columns], **measure(*calls)})
    for name, (size, inner, cells, width, other_cells) in PRODUCTS.items():
        pairs = zip(drawn(size, inner, cells), drawn(inner, width, other_cells), strict=True)
        calls = [partial(product, matrix, other) for matrix, other in pairs]
        found, wanted = (call() for call in calls)
        assert np.array_equal(found.indices, wanted.indices) and np.array_equal(found.data, wanted.data)
        label = f"{name}, by a sparse matrix"
        results.append({"product": label, "size": [size, inner, width], **measure(*calls)})
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sparse._csr_array = lambda: None  # our own code alone
    results = {**provenance(), "kernels": kernels.level(), "threads": 1, "clock": "processor", "rows": rows()}
    print(*results["rows"], sep="\n")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
