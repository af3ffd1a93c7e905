"""Compiled sums over postings against the sums in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ensue.data.histories import Index, offsets_of
from ensue.metrics import Floats
from ensue.text.postings import Postings
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = needs_kernels


def drawn(seed: int, documents: int, terms: int, texts: int) -> tuple[Postings, Index, Index, Floats]:
    """Postings and the cells of texts; some terms have no document, and some texts no term."""
    random = np.random.default_rng(seed)
    lists = [np.flatnonzero(random.random(documents) < random.random() ** 3) for _ in range(terms)]
    lengths = np.array([len(own) for own in lists], np.int64)
    holders = np.concatenate([*lists, np.empty(0, np.int64)]).astype(np.int32)
    postings = Postings(offsets_of(lengths), holders, random.random(len(holders)).astype(np.float32), documents)
    cells = random.random((texts, terms)) < 0.3 * (random.random((texts, 1)) < 0.8)
    owners, columns = np.nonzero(cells)
    return postings, owners, columns, random.normal(size=len(owners))


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 40, 5), (300, 90, 60), (5, 0, 3), (4, 3, 0)])
@pytest.mark.parametrize("weighed", [True, False])
def test_says_what_the_reference_says(shape: tuple[int, int, int], weighed: bool) -> None:
    postings, owners, columns, weights = drawn(sum(shape), *shape)
    given = weights if weighed else None
    with using("off"):
        expected = postings.scores(owners, columns, given, shape[2])
    with using(HERE[-1]):
        found = postings.scores(owners, columns, given, shape[2])
    assert found.shape == (shape[2], shape[0])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_arrays_in_any_order_of_memory_and_type_are_read_as_they_are() -> None:
    postings, owners, columns, weights = drawn(3, 20, 30, 10)
    strided = np.stack([weights, weights], axis=1)[:, 0]
    with using("off"):
        expected = postings.scores(owners, columns, weights, 10)
    with using(HERE[-1]):
        found = postings.scores(owners.astype(np.int32), columns.astype(np.int32), strided, 10)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
