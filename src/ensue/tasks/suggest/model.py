"""Base class of the networks of task ``suggest``: an encoder of sessions and a decoder that writes the next query."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ensue.tasks.suggest.batch import PADDING, QueryBatch, next_queries, spell


class Decoder(Protocol):
    """The part of a network that scores and writes queries; memories and states are its own types."""

    def loss(self, memory: Any, read: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy of all tokens of ``targets`` that are not padding, in nats."""

    def likelihood(self, memory: Any, read: Tensor, targets: Tensor) -> Tensor:
        """(rows, length) log-probability of each token of ``targets`` after those of ``read``; 0 at padding."""

    def start(self, memory: Any) -> Any:
        """Return the state before the first token.

        Its ``select`` picks, repeats or orders rows, its ``of_sources`` picks sources with all their rows.
        """

    def step(self, memory: Any, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        """Read (rows,) tokens: (rows, ids) log-probabilities of the next, and the state after it."""

    def attention(self, memory: Any, read: Tensor) -> Tensor:
        """(rows, length, source) attention to the memory at each token, where ``places`` say what it is of."""


class QueryNetwork(nn.Module):
    """A network that is made of ``(settings, num_ids)``.

    Attributes:
        writer: the decoder.
    """

    writer: Decoder

    def remember(self, batch: QueryBatch, ends: Tensor) -> Any:
        """Return the memory that the decoder reads after each of the queries at (batch, turns) ``ends``, in order."""
        raise NotImplementedError

    def encode(self, batch: QueryBatch) -> Any:
        """Return the memory that the decoder reads after the last query of each row."""
        return self.remember(batch, batch.last)

    def loss(self, batch: QueryBatch) -> Tensor:
        """Mean cross-entropy a token over every query that followed another, in nats."""
        return self.writer.loss(self.remember(batch, batch.followed), *next_queries(batch))

    @torch.no_grad()
    def attributions(self, batch: QueryBatch, candidates: Tensor) -> Tensor:
        """Return the attributions of each token of a suggestion to each earlier token: the attention of the decoder.

        Args:
            batch: the sessions.
            candidates: (rows, width) ids of a suggestion for each.

        Returns:
            (rows, longest, turns, source width); sums to 1 over both last axes, or to 0 after a suggestion's end.
        """
        return self.attend(self.encode(batch), batch, candidates)

    def attend(self, memory: Any, batch: QueryBatch, candidates: Tensor) -> Tensor:
        """Return :meth:`attributions` by the attention to one memory."""
        read, _ = spell(candidates, (candidates != PADDING).sum(1))
        # The last position predicts the end, which is no word: its attention is left out.
        shares = self.writer.attention(memory, read)[:, :-1] * (read[:, 1:, None] != PADDING)
        return put_in_place(shares, memory.positions, (batch.words.shape[1], batch.words.shape[2]))


def score(writer: Decoder, memory: object, candidates: Tensor) -> Tensor:
    """Log-probability of each candidate as the next query, its end included.

    Args:
        writer: of a network.
        memory: one row a session.
        candidates: (rows, choices, width) token ids, 0 at padding.

    Returns:
        (rows, choices) in nats; -inf for a candidate without tokens.
    """
    rows, choices, width = candidates.shape
    # (sessions, choices, width) to one row per candidate, adjacent for each session.
    lengths = (candidates != PADDING).sum(2).flatten()
    totals = writer.likelihood(memory, *spell(candidates.reshape(rows * choices, width), lengths)).sum(1)
    return totals.masked_fill(lengths == 0, -torch.inf).view(rows, choices)


def put_in_place(shares: Tensor, positions: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return attention over a memory as attention over the queries that it encodes.

    Args:
        shares: (rows, width, source).
        positions: (rows, source) the position of each in turns x width; -1 = none, whose weight goes to the others.
        shape: turns and width of the batch.

    Returns:
        (rows, width, turns, source width); each (turns x source width) sums to 1, or to 0 where there was nothing.
    """
    # Positions [4 5 -1] in 3 turns x 4 words are words 0 and 1 of turn 1; what the end token got goes to these two.
    rows, width, _ = shares.shape
    shares = shares * (positions >= 0)[:, None]
    shares = shares / shares.sum(2, keepdim=True).clamp(min=torch.finfo(shares.dtype).tiny)
    # Positions without a word have weight 0 by now, so adding them at 0 changes nothing.
    targets = positions.clamp(min=0)[:, None].expand_as(shares)
    return shares.new_zeros(rows, width, shape[0] * shape[1]).scatter_add(2, targets, shares).view(rows, width, *shape)
