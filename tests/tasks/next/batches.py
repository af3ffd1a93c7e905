"""Batches and weights that tests of the networks of task ``next`` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ensue.nn.item_head import Output
from ensue.tasks.next.batch import Batch, PaddedBatch
from ensue.tasks.next.model import Baseline
from ensue.vocabulary import FIRST

HOUR = 3600.0
NUM_IDS = 11
Cascade = tuple[list[int], list[float]]


def sine_ramp(module: nn.Module, size: float = 0.3) -> None:
    """Weights that no random number generator can change."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            ramp = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((size * torch.sin(0.37 * ramp + number)).view(parameter.shape))


def ragged(seed: int, lengths: Sequence[int] = (9, 2, 5, 1, 7)) -> list[Cascade]:
    """Random cascades; gaps of minutes up to days, ties and exact multiples of the interval among them."""
    random = np.random.default_rng(seed)
    cascades = []
    for length in lengths:
        gaps = random.choice([0, 60, 3 * HOUR, 3 * HOUR + 1, 7.5 * HOUR, 50 * HOUR], length)
        gaps[0] = 0
        cascades.append((random.integers(FIRST, NUM_IDS, length).tolist(), gaps.cumsum().tolist()))
    return cascades


def pad(cascades: Sequence[Cascade], *, extra: int = 0) -> Batch:
    """A batch that asks every step with a successor; ``times`` in float64."""
    time = max(len(ids) for ids, _ in cascades) + extra
    ids, times = torch.zeros(len(cascades), time, dtype=torch.int64), torch.zeros(len(cascades), time).double()
    mask, asked = ids.bool(), ids.bool()
    targets: list[int] = []
    for row, (own, clock) in enumerate(cascades):
        ids[row, : len(own)], mask[row, : len(own)] = torch.tensor(own), True
        times[row, : len(own)] = torch.tensor(clock, dtype=torch.float64)
        asked[row, : len(own) - 1] = True
        targets += own[1:]
    return Batch(ids, mask, times, asked, torch.tensor(targets, dtype=torch.int64))


def scored(model: Baseline, batch: PaddedBatch) -> Output:
    """The scores of a baseline, as tensors."""
    scores, weights = model(batch)
    return Output(torch.from_numpy(scores), tuple(map(torch.from_numpy, weights)))


def everywhere(batch: Batch) -> Batch:
    """The same batch, asked at every event."""
    return batch._replace(target_mask=batch.mask)


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the size of the largest tensor any operation made."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        sizes = (leaf.numel() for leaf in tree_leaves(made) if isinstance(leaf, Tensor))
        self.numel = max(self.numel, *sizes, 0)
        return made
