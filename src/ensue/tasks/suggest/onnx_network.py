"""Exported networks of task ``suggest``: memories, searches, scores and attributions, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index, Mask
from ensue.errors import ModelFolderError
from ensue.metrics import Floats
from ensue.nn.validation import Array
from ensue.store.graph import Graph
from ensue.tasks.suggest.batch import BEGIN, END, PADDING, PaddedQueries
from ensue.tasks.suggest.decoding import Extended, Results, barriers, beam_search
from ensue.tasks.suggest.prefix import Typed
from ensue.tasks.suggest.settings import Search
from ensue.topk import topk

ENCODER, DECODER, ATTRIBUTIONS = "encoder.onnx", "decoder.onnx", "attributions.onnx"
ROWS = 64
"""Queries that the decoder reads at once: each needs a copy of the keys of its session."""


class OnnxMemory(NamedTuple):
    """Memory of sessions, one row each: the outputs of the encoder."""

    keys: Floats
    mask: Mask
    source: Index


class OnnxGenerator:
    """A network whose decoder is a Transformer; :mod:`ensue.tasks.suggest.torch_generator` has the same methods.

    Args:
        encoder: from ``words`` and ``lengths`` to ``keys``, ``mask`` and ``source``.
        decoder: from these, ``read`` and ``targets`` to ``totals`` and ``latest``.
        weights: from ``words``, ``lengths`` and ``candidates`` to ``attributions``.
        num_ids: size of the vocabulary, special tokens included.
    """

    def __init__(self, encoder: Graph, decoder: Graph, weights: Graph, num_ids: int) -> None:
        self.encoder = encoder
        self.decoder = decoder
        self.weights = weights
        self.num_ids = num_ids

    @classmethod
    def read(cls, folder: Path, num_ids: int) -> OnnxGenerator:
        """Return the network of an exported folder.

        Raises:
            ModelFolderError: a graph is missing or damaged.
        """
        encoder, decoder, weights = (Graph.read(folder, name) for name in (ENCODER, DECODER, ATTRIBUTIONS))
        return cls(encoder, decoder, weights, num_ids)

    def encode(self, queries: PaddedQueries) -> OnnxMemory:
        """Return the memory of sessions."""
        return OnnxMemory(*self.encoder(queries._asdict()))

    def search(
        self, memory: object, queries: PaddedQueries, search: Search, banned: Mask | None, typed: Typed | None
    ) -> Results:
        """Return the likeliest next queries."""
        assert isinstance(memory, OnnxMemory)
        return beam_search(_Steps(self, memory, banned, typed), queries, search, typed)

    def score(self, memory: object, candidates: Index) -> Floats:
        """Return the log-probability of each candidate."""
        assert isinstance(memory, OnnxMemory)
        rows, choices, width = candidates.shape
        # (sessions, choices, width) to one row per candidate, and a column for its end.
        targets = np.zeros((rows * choices, width + 1), np.int64)
        targets[:, :width] = candidates.reshape(-1, width)
        lengths = (targets != PADDING).sum(1)
        targets[np.arange(len(targets)), lengths] = END
        read = np.concatenate([np.full((len(targets), 1), BEGIN), targets[:, :-1]], axis=1) * (targets != PADDING)
        totals = np.concatenate([np.empty(0, np.float32), *self._decode("totals", memory, read, targets)])
        return np.where(lengths, totals, -np.inf).reshape(rows, choices)

    def attributions(self, queries: PaddedQueries, candidates: Index) -> Floats:
        """Return the weights behind each token of the candidates."""
        (weights,) = self.weights({**queries._asdict(), "candidates": candidates})
        return weights.astype(np.float64)

    def latest(self, memory: OnnxMemory, read: Index) -> npt.NDArray[np.float32]:
        """Return (rows x beams, ids) log-probabilities of what follows (rows, beams, length) begin and tokens."""
        flat = read.reshape(-1, read.shape[2])
        latest = np.concatenate([*self._decode("latest", memory, flat, np.zeros_like(flat))])
        if latest.shape != (len(flat), self.num_ids):
            raise ModelFolderError(
                f"{self.decoder.name}: its scores are not of the {self.num_ids} tokens of the folder"
            )
        return latest

    def _decode(self, output: str, memory: OnnxMemory, read: Index, targets: Index) -> Iterator[Array]:
        """Yield an output for a few queries at a time, as many for each session."""
        owners = np.arange(len(read)) // max(1, len(read) // max(1, len(memory.keys)))
        for low in range(0, len(read), ROWS):
            rows = slice(low, low + ROWS)
            of_session = {name: array[owners[rows]] for name, array in memory._asdict().items()}
            yield from self.decoder({**of_session, "read": read[rows], "targets": targets[rows]}, [output])


class _Steps:
    """Open beams that are read from their beginning at each step, see :class:`ensue.tasks.suggest.decoding.Steps`.

    Args:
        network: the network.
        memory: of the sessions.
        banned: (ids,) True for tokens that must not be written.
        typed: what each suggestion must begin with.
    """

    def __init__(self, network: OnnxGenerator, memory: OnnxMemory, banned: Mask | None, typed: Typed | None) -> None:
        self.network = network
        self.memory = memory
        self.typed = typed
        self.num_ids = network.num_ids
        self.wall = barriers(self.num_ids, banned)
        self.written = np.zeros((len(memory.keys), 1, 0), np.int64)

    def extend(self, last: Index, sums: Floats, beam: int, allowed: tuple[Index, Index] | None) -> Extended:
        """Read the latest tokens, and return the best continuations."""
        self.written = np.concatenate([self.written, last[..., None]], axis=2)
        # Closed beams hold no token that follows; padding would be no last token.
        read = np.where(self.written == PADDING, BEGIN, self.written)
        totals = self.network.latest(self.memory, read).reshape(*last.shape, -1)
        totals += self.wall
        totals += sums[..., None].astype(np.float32)
        if self.typed is not None and allowed is not None:
            totals[~self.typed.allowed[allowed]] = -np.inf
        ends = totals[..., END].astype(np.float64)
        totals[..., END] = -np.inf
        best, cells = topk(totals.reshape(len(last), -1), beam)
        return Extended(ends, best.astype(np.float64), cells)

    def select(self, parents: Index) -> None:
        """Continue with some beams."""
        self.written = np.take_along_axis(self.written, parents[..., None], axis=1)

    def keep(self, rows: Index) -> None:
        """Continue with some rows."""
        self.memory = OnnxMemory._make(array[rows] for array in self.memory)
        self.written = self.written[rows]
