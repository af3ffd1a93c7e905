"""Orders of data."""

from __future__ import annotations

import numpy as np

from ensue.training.batches import POOL, epoch_batches, evaluation_batches


def test_an_epoch_has_every_row_once_beside_rows_of_like_size() -> None:
    sizes = np.random.default_rng(0).integers(1, 50, 5 * POOL)
    batches = epoch_batches([sizes], 5, 3)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    # One pool: sorted sizes cut into batches, whose sizes then differ by little.
    assert sorted(tuple(sorted(sizes[rows].tolist())) for rows in batches) == sorted(
        tuple(part.tolist()) for part in np.sort(sizes).reshape(-1, 5)
    )
    again, other = epoch_batches([sizes], 5, 3), epoch_batches([sizes], 5, 4)
    assert all(map(np.array_equal, batches, again)) and not all(map(np.array_equal, batches, other))


def test_groups_end_where_the_sum_passes_a_multiple() -> None:
    order, weights = np.array([4, 2, 7]), np.array([0, 0, 3, 0, 3, 0, 0, 5])
    assert [part.tolist() for part in evaluation_batches(order, weights, 5)] == [[4], [2], [7]]  # sums 3, 6, 11
    assert [part.tolist() for part in evaluation_batches(order, weights, 100)] == [[4, 2, 7]]
    assert list(evaluation_batches(order[:0], weights, 5)) == []
