"""Networks of task ``next`` as ONNX graphs: ids and times of histories in, scores of all ids out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from ensue.learning.onnx_trace import Traceable
from ensue.learning.state import Exports, module_of
from ensue.nn.item_head import Output
from ensue.nn.validation import Array
from ensue.store.graph import GRAPH
from ensue.tasks.next import item_index
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.ensembles.blend import Blend
from ensue.tasks.next.ensembles.cascade_blend import CascadeBlend
from ensue.tasks.next.ensembles.cascade_features import ArrayMixture
from ensue.tasks.next.model import Network, TimesNext
from ensue.tasks.next.onnx_network import RATES, SCORES, WEIGHTS
from ensue.tasks.next.point_process import HOUR
from ensue.tasks.next.state import NextState
from ensue.vocabulary import FIRST, PADDING


class LatestScores(nn.Module):
    """Scores of what follows the last event of each row.

    Args:
        network: of task ``next``.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: Tensor, times: Tensor) -> tuple[Tensor, ...]:
        """Return scores (rows, ids), the rates of :class:`TimesNext` (rows, 2), and weights (rows, time, time).

        Args:
            ids: (rows, time), padded with 0 at the end.
            times: (rows, time) seconds.
        """
        mask = ids != PADDING
        # The target is the last event: its step is the length less 1.
        target_mask = torch.arange(ids.shape[1]) == mask.sum(1, keepdim=True) - 1
        batch = Batch(ids, mask, times, target_mask, ids.new_zeros(0))
        output = cast(Network, self.network)(batch)
        rates = (self.network.rates(batch),) if isinstance(self.network, TimesNext) else ()
        return output.scores, *rates, *output.weights


class _BlendNetwork(nn.Module):
    """The part of a blend that needs its network: scores and weights, times the weight of the network.

    Args:
        blend: the blend.
    """

    def __init__(self, blend: Blend) -> None:
        super().__init__()
        self.blend = blend

    def forward(self, batch: Batch) -> Output:
        """Return the output of the network, times its weight in the blend."""
        return self.blend.network_part(batch)


def exports(state: NextState) -> Exports:
    """Return the graph of the network, and the weights of an ensemble around it."""
    network = module_of(state.network)
    arrays: dict[str, Array] = {}
    inner = network
    if isinstance(network, Blend):
        inner = _BlendNetwork(network)
        names = ("weight", "step", "mix", "repeat")
        arrays = {name: getattr(network, name).cpu().numpy() for name in names}
    elif isinstance(network, CascadeBlend):
        inner = network.network
        mixture = {field.name: getattr(network.mixture, field.name).cpu().numpy() for field in fields(ArrayMixture)}
        arrays = {**mixture, "mixed": network.mixed.cpu().numpy()}
    num_ids = len(state.vocabulary)
    random = np.random.default_rng(0)

    def examples(rows: int, length: int) -> tuple[Tensor, Tensor]:
        ids = random.integers(FIRST, num_ids, (rows, length))
        lengths = random.integers(1, length + 1, rows)
        lengths[0] = length
        ids[np.arange(length) >= lengths[:, None]] = PADDING
        times = np.where(ids != PADDING, random.exponential(HOUR, ids.shape).cumsum(1), 0.0)
        return torch.from_numpy(ids), torch.from_numpy(times)

    reach = state.network.reach
    # All of it: the exporter restores the mode of the outermost module.
    module = LatestScores(inner).eval()
    with torch.no_grad():
        num_outputs = len(module(*examples(1, 1)))
    compared = [SCORES, *([RATES] * isinstance(inner, TimesNext))]
    axes: Mapping[int, str] = {0: "rows", 1: "time"}
    traceable = Traceable(
        module,
        {"ids": axes, "times": axes},
        [*compared, *(f"{WEIGHTS}{number}" for number in range(num_outputs - len(compared)))],
        examples,
        None if reach is None else reach + 1,
        num_compared=len(compared),
    )
    # An index answers by products of torch's vectors; the graph scores all items.
    state.metadata.index = None
    # Padding and unknown have no value; values of forgotten items are empty.
    vocabulary = [*FIRST * [""], *state.vocabulary.values]
    return Exports({GRAPH: traceable}, arrays, reach, dropped=(item_index.FILE,), vocabulary=vocabulary)
