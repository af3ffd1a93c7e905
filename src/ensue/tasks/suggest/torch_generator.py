"""The network of a suggester in torch, with arrays in and out.

:mod:`ensue.tasks.suggest.onnx_network` has the same methods.

Beam search and scores of candidates in one call each: a step of few rows is mostly overhead.

The search is :func:`ensue.tasks.suggest.decoding.beam_search`, the scores are those of
:func:`ensue.tasks.suggest.model.score`; both of a :class:`QueryWriter` on the CPU.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue import kernels
from ensue.data.histories import Index, Mask
from ensue.learning.state import evaluating
from ensue.metrics import Floats
from ensue.nn.autograd import parameters_of
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.topk import topk
from ensue.nn.transformer import sinusoids
from ensue.tasks.suggest.batch import END, PADDING, PaddedQueries, select
from ensue.tasks.suggest.decoding import Extended, Results, barriers, beam_search
from ensue.tasks.suggest.model import Decoder, QueryNetwork, score
from ensue.tasks.suggest.models.writer import QueryWriter, WriterMemory
from ensue.tasks.suggest.prefix import Typed
from ensue.tasks.suggest.settings import Search

MAX_TOKENS = 4096
"""Tokens of the candidates of a session: those of more are scored in torch."""


def _prepared(writer: Decoder, memory: object, longest: int) -> kernels.Structure | None:
    """Return the decoder and the memory of some sessions for kernels; ``None`` where these do not take them.

    Args:
        writer: of a network in evaluation mode.
        memory: of the sessions.
        longest: number of tokens that are read.
    """
    if not (kernels.is_loaded() and isinstance(writer, QueryWriter) and isinstance(memory, WriterMemory)):
        return None
    table = writer.inputs()
    if not len(memory.words) or not is_float32_on_cpu(table, memory.keys):
        return None
    decoder = writer.kept.get(parameters_of(writer.layers))
    layers = decoder.packed.with_memory(decoder.fold(memory.keys, memory.mask), decoder.heads)
    if layers is None:
        return None
    output = writer.words.output()
    return kernels.prepare(
        "search", layer=layers, heads=decoder.heads, layers=len(layers), wide=decoder.packed.hidden, longest=longest,
        scale=writer.dim**0.5, table=table, codes=sinusoids(longest + 1, writer.dim, table.dtype, table.device),
        weight=output[:-1], bias=output[-1], gate=writer.gate_vector(),
        memory=(memory.words * memory.mask).contiguous(), threads=kernels.num_threads(),
    )  # fmt: skip


def compiled_search(
    writer: Decoder, memory: object, queries: PaddedQueries, search: Search, banned: Mask | None, typed: Typed | None
) -> Results | None:
    """Return the likeliest next queries, or ``None`` where the kernel does not take such a decoder.

    Args:
        writer: of a network in evaluation mode.
        memory: of the sessions.
        queries: the sessions.
        search: widths and lengths.
        banned: (ids,) True for tokens that must not be written.
        typed: what each suggestion must begin with.
    """
    prepared = _prepared(writer, memory, search.longest)
    if prepared is None:
        return None
    shape = len(queries.words), search.keep
    results = Results(np.empty((*shape, search.longest), np.int64), np.empty(shape), np.empty(shape))
    prefixes = {} if typed is None else {"allowed": typed.allowed, "sizes": typed.sizes, "ends": typed.ends}
    divisors = np.arange(search.longest + 2, dtype=np.float64) ** search.exponent
    kernels.call(
        "search", prepared, beam=search.beam, wall=barriers(prepared.dimensions["ids"], banned), typed=queries.words,
        lengths=queries.lengths, divisors=divisors.astype(np.float32), repeats=int(search.repeats),
        exhaustive=int(search.exhaustive), tokens=results.tokens, scores=results.scores, sums=results.sums, **prefixes,
    )  # fmt: skip
    return results


def compiled_scores(writer: Decoder, memory: object, candidates: Index) -> Floats | None:
    """Return (sessions, choices) log-probabilities, or ``None`` where the kernel does not take such a decoder.

    Args:
        writer: of a network in evaluation mode.
        memory: of the sessions.
        candidates: (sessions, choices, width) tokens, 0 at padding.
    """
    sessions, choices, width = candidates.shape
    prepared = _prepared(writer, memory, width) if 0 < choices * width <= MAX_TOKENS else None
    if prepared is None:
        return None
    scores = np.empty((sessions, choices))
    lengths = (candidates != PADDING).sum(2)
    kernels.call("likelihoods", prepared, typed=candidates, lengths=lengths, scores=scores)
    return scores


class TorchGenerator:
    """Encodes sessions, writes queries, and scores them; memories have one row per session.

    Args:
        network: trained; it is set to evaluation mode.
        device: of the network.
    """

    def __init__(self, network: QueryNetwork, device: torch.device) -> None:
        self.network = evaluating(network)
        self.device = device

    @torch.no_grad()
    def encode(self, queries: PaddedQueries) -> object:
        """Return the memory of sessions."""
        return self.network.encode(queries.to(self.device))

    @torch.inference_mode()
    def search(
        self,
        memory: object,
        queries: PaddedQueries,
        search: Search,
        banned: Mask | None = None,
        typed: Typed | None = None,
    ) -> Results:
        """Return the likeliest next queries; see :func:`ensue.tasks.suggest.decoding.beam_search`.

        Args:
            memory: of the sessions.
            queries: the sessions.
            search: widths and lengths.
            banned: (ids,) True for tokens that must not be written; padding, unknown and begin never are.
            typed: what each suggestion must begin with.
        """
        writer = self.network.writer
        results = compiled_search(writer, memory, queries, search, banned, typed)
        return results or beam_search(TorchSteps(writer, memory, self.device, banned, typed), queries, search, typed)

    @torch.no_grad()
    def score(self, memory: object, candidates: Index) -> Floats:
        """Return (rows, choices) log-probabilities in nats of (rows, choices, width) candidates, the end included."""
        writer = self.network.writer
        scores = compiled_scores(writer, memory, candidates)
        if scores is None:
            tokens = torch.from_numpy(candidates).to(self.device)
            scores = cast(Floats, score(writer, memory, tokens).numpy(force=True))
        return scores

    def attributions(self, queries: PaddedQueries, candidates: Index) -> Floats:
        """Return (rows, tokens, turns, width) weights of earlier tokens in each token of (rows, width) candidates."""
        weights = self.network.attributions(queries.to(self.device), torch.from_numpy(candidates).to(self.device))
        return cast(Floats, weights.double().numpy(force=True))


class TorchSteps:
    """A decoder in torch that reads token by token, see :class:`ensue.tasks.suggest.decoding.Steps`.

    Args:
        writer: of a network in evaluation mode.
        memory: of the sessions.
        device: of the network.
        banned: (ids,) True for tokens that must not be written.
        typed: what each suggestion must begin with.
    """

    def __init__(
        self, writer: Decoder, memory: object, device: torch.device, banned: Mask | None, typed: Typed | None
    ) -> None:
        self.writer = writer
        self.memory = memory
        self.device = device
        self.banned = banned
        self.allowed = None if typed is None else self._tensor(typed.allowed)
        self.state = writer.start(memory)
        self.wall: Tensor | None = None
        self.num_ids = 0
        self.num_open = 1

    def extend(self, last: Index, sums: Floats, beam: int, allowed: tuple[Index, Index] | None) -> Extended:
        """Read the latest tokens, and return the best continuations."""
        log_shares, self.state = self.writer.step(self.memory, self.state, self._tensor(last.ravel()))
        if self.wall is None:
            self.num_ids = log_shares.shape[1]
            self.wall = self._tensor(barriers(self.num_ids, self.banned)).to(log_shares.dtype)
        sums_so_far = torch.from_numpy(sums).to(log_shares)
        totals = log_shares.add_(self.wall).view(*last.shape, -1).add_(sums_so_far[..., None])
        if self.allowed is not None and allowed is not None:
            rows, written = map(self._tensor, allowed)
            totals.masked_fill_(~self.allowed[rows, written], -torch.inf)
        # A copy: on the CPU the array shares memory with the tensor, which is changed next.
        ends = totals[..., END].numpy(force=True).copy()
        totals[..., END] = -torch.inf
        best, cells = topk(totals.view(len(last), -1), beam)
        return Extended(ends, best.numpy(force=True), cells.numpy(force=True))

    def select(self, parents: Index) -> None:
        """Continue with some beams."""
        # Beams are flat for the decoder: row x beams + the beam that each new one continues.
        flat = np.arange(len(parents))[:, None] * self.num_open + parents
        self.state = self.state.select(self._tensor(flat.ravel()))
        self.num_open = parents.shape[1]

    def keep(self, rows: Index) -> None:
        """Continue with some rows."""
        index = self._tensor(rows)
        self.memory = select(cast(Any, self.memory), index)
        self.state = self.state.of_sources(index, self.num_open)

    def _tensor(self, array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.device)
