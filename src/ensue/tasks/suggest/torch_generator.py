"""The network of a suggester in torch, for :class:`ensue.tasks.suggest.generator.Generator`."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.learning.state import evaluating
from ensue.metrics import Floats
from ensue.nn.topk import topk
from ensue.tasks.suggest.batch import END, PADDING, PaddedQueries, select
from ensue.tasks.suggest.compiled_writer import compiled_scores, compiled_search
from ensue.tasks.suggest.decoding import Extended, Found, Ints, Mask, barriers, beam_search
from ensue.tasks.suggest.model import Decoder, QueryNetwork, score
from ensue.tasks.suggest.prefix import Typed
from ensue.tasks.suggest.settings import Search


class TorchGenerator:
    """A network, set to evaluation mode.

    Args:
        network: trained.
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
    ) -> Found:
        """Return the likeliest next queries."""
        writer = self.network.writer
        found = compiled_search(writer, memory, queries, search, banned, typed)
        return found or beam_search(TorchSteps(writer, memory, self.device, banned, typed), queries, search, typed)

    @torch.no_grad()
    def score(self, memory: object, candidates: Ints) -> Floats:
        """Return the log-probability of each candidate."""
        writer = self.network.writer
        scores = compiled_scores(writer, memory, candidates)
        if scores is None:
            tokens = torch.from_numpy(candidates).to(self.device)
            scores = cast(Floats, score(writer, memory, tokens).numpy(force=True))
        return scores

    def attributions(self, queries: PaddedQueries, candidates: Ints) -> Floats:
        """Return the weights behind each token of the candidates, in 64 bits."""
        weights = self.network.attributions(queries.to(self.device), torch.from_numpy(candidates).to(self.device))
        return cast(Floats, weights.double().numpy(force=True))

    def order(self, queries: PaddedQueries, candidates: Ints, exponent: float) -> Floats:
        """Return the log-probabilities over lengths to the power of the exponent."""
        scores = torch.from_numpy(self.score(self.encode(queries), candidates)).double()
        lengths = torch.from_numpy((candidates != PADDING).sum(2) + 1)
        return cast(Floats, (scores / lengths**exponent).numpy())

    def probabilities(self, scores: Floats) -> Floats:
        """Return the softmax of scores."""
        # The last bits of NumPy's differ.
        return cast(Floats, torch.from_numpy(scores).softmax(1).numpy())


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

    def extend(self, last: Ints, sums: Floats, beam: int, allowed: tuple[Ints, Ints] | None) -> Extended:
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

    def select(self, parents: Ints) -> None:
        """Continue with some beams."""
        # Beams are flat for the decoder: row x beams + the beam that each new one continues.
        flat = np.arange(len(parents))[:, None] * self.num_open + parents
        self.state = self.state.select(self._tensor(flat.ravel()))
        self.num_open = parents.shape[1]

    def keep(self, rows: Ints) -> None:
        """Continue with some rows."""
        index = self._tensor(rows)
        self.memory = select(cast(Any, self.memory), index)
        self.state = self.state.of_sources(index, self.num_open)

    def _tensor(self, array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.device)
