"""Compiled neighbours of a session against the search in torch and NumPy: lists, shares, ties and odd sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ensue.data.histories import Histories
from ensue.tasks.next.baselines.session_knn import VSKNN, WIDEST
from ensue.tasks.next.batch import PaddedBatch
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.settings import VSKNNSettings
from ensue.vocabulary import FIRST, Vocabulary
from tests.kernels.paths import HERE, needs_kernels, using
from tests.tasks.next.batches import scored

pytestmark = needs_kernels
SETTINGS = [
    VSKNNSettings(),
    VSKNNSettings(sample=3, neighbours=2),
    VSKNNSettings(window=1, neighbours=5, decay="quadratic"),
    VSKNNSettings(window=200, decay="linear", idf=0.0),
]


def drawn(seed: int, num: int, longest: int, values: int) -> Histories:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, longest, num)
    ids = (random.zipf(1.3, lengths.sum()) % values + FIRST).astype(np.int32)
    return Histories(ids, np.concatenate([[0], lengths.cumsum()]), Vocabulary(map(str, range(values))))


def batches(model: VSKNN, seed: int, values: int, longest: int) -> list[PaddedBatch]:
    asked = drawn(seed + 1, 30, longest, values)
    asked = asked.select(asked.lengths > 1)
    return [windows.batch(np.arange(len(windows))) for windows in (Windows(asked, model.reach), Windows(asked, None))]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_says_what_the_reference_says(settings: VSKNNSettings) -> None:
    for seed in range(6):
        values, longest = 5 + 40 * seed, 4 + 60 * (seed % 2)
        model = VSKNN(settings, values + FIRST)
        for part in range(seed % 3):  # none, or counted once or twice
            model.count(drawn(seed + 100 * part, 300, longest, values))
        for batch in batches(model, seed, values, longest):
            with using("off"):
                cell, shares, weights = map(torch.from_numpy, model.score(batch))
                expected = scored(model, batch).scores
            with using(HERE[-1]):
                found = [torch.from_numpy(part) for part in model.score(batch)]
                scores = scored(model, batch).scores
            size = int(batch.target_mask.sum()) * (values + FIRST)
            sums, own = (torch.zeros(size).index_add_(0, *pair) for pair in ((cell, shares), found[:2]))
            torch.testing.assert_close(own, sums, rtol=1e-4, atol=1e-6)  # a sum of thousands, in float32
            assert torch.equal(own > 0, sums > 0)
            torch.testing.assert_close(found[2], weights, rtol=1e-5, atol=1e-7)
            torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-5)
            best, first = (part.topk(min(10, values), dim=1) for part in (scores, expected))
            clear = first.values.diff(dim=1).abs().amin(1) > 1e-4  # no two scores as good as equal
            assert torch.equal(best.indices[clear], first.indices[clear])


def test_more_entries_than_was_thought_are_asked_for_again() -> None:
    ids = np.arange(FIRST, FIRST + 500, dtype=np.int32)
    past = Histories(np.tile(ids, 3), np.array([0, 500, 1000, 1500]), Vocabulary(map(str, range(500))))
    model = VSKNN(VSKNNSettings(neighbours=3), 502)
    model.count(past)
    windows = Windows(past.select(np.array([0])), model.reach, last_only=True)
    with using(HERE[-1]):
        cells, shares, _ = model.score(windows.batch(np.arange(1)))
    assert len(cells) == 1500 and float(shares.sum()) == pytest.approx(1, abs=1e-5)


def test_a_window_beyond_what_is_compiled_goes_the_other_way() -> None:
    model = VSKNN(VSKNNSettings(window=WIDEST + 1), 12)
    model.count(drawn(0, 20, 5, 10))
    (batch, _) = batches(model, 0, 10, 5)
    with using(HERE[-1]):
        found = model.score(batch)
    with using("off"):
        for ours, reference in zip(map(np.asarray, found), map(np.asarray, model.score(batch)), strict=True):
            assert np.array_equal(ours, reference)
