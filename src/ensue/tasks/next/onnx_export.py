"""Networks of task ``next`` as ONNX graphs: ids and times of histories in, scores of all ids out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from ensue.learning.onnx_trace import Traceable, Wrapped, pad_ends
from ensue.learning.state import Exports, module_of
from ensue.nn.item_head import Output
from ensue.nn.validation import Array
from ensue.store.graph import GRAPH
from ensue.tasks.next import item_index
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.ensembles.blend import Blend
from ensue.tasks.next.ensembles.cascade_blend import CascadeBlend
from ensue.tasks.next.ensembles.cascade_features import ArrayMixture
from ensue.tasks.next.model import TimesNext
from ensue.tasks.next.onnx_network import RATES, SCORES, WEIGHTS
from ensue.tasks.next.point_process import HOUR
from ensue.tasks.next.state import NextState
from ensue.vocabulary import FIRST, PADDING


def latest_scores(run: Callable[[Batch], Output], network: nn.Module, ids: Tensor, times: Tensor) -> tuple[Tensor, ...]:
    """Return scores (rows, ids), the rates of :class:`TimesNext` (rows, 2), and weights (rows, time, time).

    Args:
        run: the network, or the part of a blend that needs it.
        network: of task ``next``.
        ids: (rows, time), padded with 0 at the end.
        times: (rows, time) seconds.
    """
    mask = ids != PADDING
    # The target is the last event: its step is the length less 1.
    target_mask = torch.arange(ids.shape[1]) == mask.sum(1, keepdim=True) - 1
    batch = Batch(ids, mask, times, target_mask, ids.new_zeros(0))
    output = run(batch)
    rates = (network.rates(batch),) if isinstance(network, TimesNext) else ()
    return output.scores, *rates, *output.weights


def exports(state: NextState) -> Exports:
    """Return the graph of the network, and the weights of an ensemble around it."""
    network = module_of(state.network)
    arrays: dict[str, Array] = {}
    inner = network
    run: Callable[[Batch], Output] = network
    if isinstance(network, Blend):
        run = network.network_part
        arrays = {"part_weights": network.part_weights[1:].cpu().numpy()}
    elif isinstance(network, CascadeBlend):
        inner = run = network.network
        mixture = {field.name: getattr(network.mixture, field.name).cpu().numpy() for field in fields(ArrayMixture)}
        arrays = {**mixture, "mixed": network.mixed.cpu().numpy()}
    num_ids = len(state.vocabulary)
    random = np.random.default_rng(0)

    def examples(rows: int, length: int) -> tuple[Tensor, Tensor]:
        ids = pad_ends(random.integers(FIRST, num_ids, (rows, length)), random)
        times = np.where(ids != PADDING, random.exponential(HOUR, ids.shape).cumsum(1), 0.0)
        return torch.from_numpy(ids), torch.from_numpy(times)

    reach = state.network.reach
    module = Wrapped(inner, partial(latest_scores, run))
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
