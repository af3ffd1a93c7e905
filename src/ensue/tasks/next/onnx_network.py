"""Exported networks and ensembles of task ``next``: the scores of the trained ones, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import numpy as np

from ensue.data.histories import Index
from ensue.errors import ModelFolderError
from ensue.nn.validation import LARGEST_COUNT, Array, require_number, require_table
from ensue.store.graph import ENSEMBLE, Graph
from ensue.store.pack import read_arrays
from ensue.tasks.next.batch import PaddedBatch, ScoredBatch
from ensue.tasks.next.ensembles.blend_counts import REPEATS, contributions
from ensue.tasks.next.ensembles.cascade_features import FEATURES, ArrayMixture, CascadeFeatures
from ensue.tasks.next.ensembles.memory import BlendMemory, CascadeStore
from ensue.tasks.next.settings import BlendSettings, CascadeBlendSettings
from ensue.topk import Scores
from ensue.vocabulary import FIRST

SCORES, RATES, WEIGHTS = "scores", "rates", "weights_"
"""Outputs of a graph; the names of weights go on with a number."""
ROWS = 256
"""Target steps that a graph answers at once, where histories have several."""


class OnnxNetwork:
    """A network: scores of what follows the last event of each row.

    Args:
        graph: with inputs ``ids`` and, where the network reads them, ``times``, both (rows, time); outputs ``scores``,
            (rows, ids), and weights, (rows, time, time).
        reach: receptive field of the network.
        num_ids: size of the vocabulary, padding and unknown included.
    """

    def __init__(self, graph: Graph, reach: int | None, num_ids: int) -> None:
        self.graph = graph
        self.reach = reach
        self.num_ids = num_ids
        self.outputs = [SCORES, *(name for name in graph.outputs if name.startswith(WEIGHTS))]

    def __call__(self, batch: PaddedBatch) -> ScoredBatch:
        """Return the scores (targets, ids), and the weights where every history has one target, its last event."""
        row, step = batch.target_mask.nonzero()
        if len(row) == len(batch.ids) and (step + 1 == batch.mask.sum(1)).all():
            scores, *weights = self._run(batch.ids, batch.times)
            return ScoredBatch(scores, tuple(weights))
        scored = [np.empty((0, self.num_ids), np.float32)]
        # Each target becomes a row of its own that ends with it: a few at a time bound the memory.
        for low in range(0, len(row), ROWS):
            scored.append(self._run(*self._prefixes(batch, row[low : low + ROWS], step[low : low + ROWS]))[0])
        return ScoredBatch(np.concatenate(scored))

    def _prefixes(self, batch: PaddedBatch, row: Index, step: Index) -> tuple[Array, Array]:
        """Return ids and times of the events up to each target as far back as the network sees, padded at the end."""
        starts = np.zeros_like(step) if self.reach is None else np.maximum(step - self.reach, 0)
        positions = starts[:, None] + np.arange(int((step - starts).max()) + 1)
        index = row[:, None], np.minimum(positions, step[:, None])
        return np.where(positions <= step[:, None], batch.ids[index], 0), batch.times[index]

    def _run(self, ids: Array, times: Array) -> list[Array]:
        results = self.graph({"ids": ids, "times": times}, self.outputs)
        if results[0].shape != (len(ids), self.num_ids) or results[0].dtype != np.float32:
            raise ModelFolderError(f"{self.graph.name}: its scores are not of the {self.num_ids} ids of the folder")
        # Own memory: callers write into the scores.
        scores = results[0].copy()
        scores[:, :FIRST] = -np.inf
        return [scores, *results[1:]]


class TimedOnnxNetwork(OnnxNetwork):
    """A network that knows when the next event comes, see :class:`ensue.tasks.next.model.TimesNext`."""

    def latest_rates(self, batch: PaddedBatch) -> Scores:
        """Return (rows, 2) the rates after the last event of each row."""
        (rates,) = self.graph({"ids": batch.ids, "times": batch.times}, [RATES])
        require_table(RATES, rates, np.float32, [len(batch.ids), 2])
        return rates


class OnnxBlend(OnnxNetwork):
    """A blend: the graph is its network times its weight; counts are added to it.

    Args:
        graph: see :class:`OnnxNetwork`.
        reach: receptive field.
        memory: the counts.
        weights: (parts,) of the count-based parts, as :func:`contributions` takes them.
        max_length: number of the latest events whose repeats count.
    """

    def __init__(self, graph: Graph, reach: int | None, memory: BlendMemory, weights: Array, max_length: int) -> None:
        super().__init__(graph, reach, memory.num_ids)
        self.memory = memory
        self.max_length = max_length
        require_table("part_weights", weights, np.float32, [3 + len(REPEATS)])
        require_number("part_weights", weights, LARGEST_COUNT, -LARGEST_COUNT)
        self.weights = weights

    def __call__(self, batch: PaddedBatch) -> ScoredBatch:
        """Return the weighted sum of the parts; see :meth:`ensue.tasks.next.ensembles.blend.Blend.forward`."""
        scores, network_weights = super().__call__(batch)
        weights = network_weights[0] if network_weights else None
        flat = scores.reshape(-1)
        for contribution in contributions(self.memory, self.weights, batch, self.max_length):
            if contribution.bias is not None:
                scores += contribution.bias
            flat[contribution.cells] += contribution.added
            if weights is not None and contribution.event_weights is not None:
                weights = weights + contribution.event_weights
        if weights is None:
            return ScoredBatch(scores)
        shares = weights / weights.sum(-1, keepdims=True).clip(min=np.float32(1e-30))
        return ScoredBatch(scores, (shares,))


class OnnxCascadeBlend(OnnxNetwork):
    """A cascade blend: the graph is HiDAN, whose scores are features of a mixture.

    Args:
        graph: see :class:`OnnxNetwork`.
        reach: receptive field.
        memory: past cascades.
        arrays: tensors of the mixture by name, and ``mixed``: 0 where the network is used alone.
        window: of the settings.
    """

    def __init__(
        self, graph: Graph, reach: int | None, memory: CascadeStore, arrays: Mapping[str, Array], window: int
    ) -> None:
        super().__init__(graph, reach, memory.num_ids)
        self.memory = memory
        self.features = CascadeFeatures(memory, window, reach)
        self.is_mixed = bool(arrays["mixed"].any()) and len(memory.ids) > 0
        hidden = arrays["bias"].shape
        parts = (len(FEATURES),)
        shapes = {"weights": parts, "mean": parts, "spread": parts, "inner": hidden + parts}
        for name, shape in {**shapes, "bias": hidden, "outer": hidden}.items():
            require_table(name, arrays[name], np.float32, shape)
        self.mixture = ArrayMixture(**{field.name: arrays[field.name] for field in fields(ArrayMixture)})

    def __call__(self, batch: PaddedBatch) -> ScoredBatch:
        """Return the scores of the mixture, the dependency of the network, and the influence of both."""
        scored = super().__call__(batch)
        if not self.is_mixed:
            return scored
        dependency, influence = scored.weights or (None, np.zeros(batch.mask.shape + batch.mask.shape[1:], np.float32))
        scores, mixed = self.features.mix(batch, scored.scores, influence, self.mixture)
        return ScoredBatch(scores, () if dependency is None else (dependency, mixed))


def read_network(
    folder: Path, reach: int | None, num_ids: int, memory: BlendMemory | CascadeStore | None, settings: object
) -> OnnxNetwork:
    """Return the exported network or ensemble of a folder.

    Args:
        folder: an exported folder.
        reach: receptive field of the model.
        num_ids: size of the vocabulary.
        memory: of an ensemble.
        settings: of the model.

    Raises:
        ModelFolderError: a file is missing or damaged.
        ValueError: the files belong to another model.
    """
    graph = Graph.read(folder)
    if memory is None:
        return (TimedOnnxNetwork if RATES in graph.outputs else OnnxNetwork)(graph, reach, num_ids)
    arrays = read_arrays(folder, ENSEMBLE)
    if isinstance(memory, BlendMemory) and isinstance(settings, BlendSettings):
        return OnnxBlend(graph, reach, memory, arrays["part_weights"], settings.max_length)
    if isinstance(memory, CascadeStore) and isinstance(settings, CascadeBlendSettings):
        return OnnxCascadeBlend(graph, reach, memory, arrays, settings.window)
    raise ValueError("the memory of the ensemble belongs to another model")
