"""Input of every ``suggest`` network: sessions of queries of tokens, padded along both axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import numpy as np

from ensue.data.histories import Ids, Index
from ensue.lazy import lazy, torch

if TYPE_CHECKING:
    from torch import Tensor

    from ensue.nn import autograd
else:
    autograd = lazy("ensue.nn.autograd")

PADDING = 0
UNKNOWN = 1
BEGIN = 2
END = 3
FIRST_TOKEN = 4
"""The first id of a real token."""

Tensors = TypeVar("Tensors", bound=NamedTuple)


class QueryBatch(NamedTuple):
    """Sessions of queries; a row is a session, or all the sessions of a user.

    Attributes:
        words: (batch, turns, width) ids of tokens, 0 at padding.
        lengths: (batch, turns) tokens of each query; 0 = no such query. Padding stands at the end of either axis.
        units: (batch, uppers, turns) for models of more than two levels: the number of the session of each query, then
            that of the unit that session belongs to, and so on, none falling; ``None``: a row is one session.
    """

    words: Tensor
    lengths: Tensor
    units: Tensor | None = None

    @property
    def mask(self) -> Tensor:
        """(batch, turns, width) True at tokens."""
        return torch.arange(self.words.shape[2], device=self.words.device) < self.lengths[..., None]

    @property
    def followed(self) -> Tensor:
        """(batch, turns) True at queries after which another came: each is asked for its next."""
        is_query = self.lengths > 0
        # A query has a target if its neighbour on the right is a query.
        return is_query & torch.cat([is_query[:, 1:], torch.zeros_like(is_query[:, :1])], dim=1)

    @property
    def last(self) -> Tensor:
        """(batch, turns) True at the last query of each row; a row without queries has its first one, all padding."""
        turns = torch.arange(self.lengths.shape[1], device=self.lengths.device)
        # Padding is at the end, so the last query is at the number of queries minus 1.
        return turns == ((self.lengths > 0).sum(1, keepdim=True) - 1).clamp(min=0)

    @property
    def num_targets(self) -> int:
        """Number of tokens to be predicted, the end of each query included: the weight of this batch's mean loss."""
        targets = self.lengths[:, 1:]
        return int((targets + (targets > 0)).sum())

    def to(self, device: torch.device) -> QueryBatch:
        """Return the batch on another device."""
        units = None if self.units is None else self.units.to(device, non_blocking=True)
        return QueryBatch(self.words.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True), units)


class PaddedQueries(NamedTuple):
    """Sessions of queries as arrays.

    Attributes:
        words: (sessions, turns, width) ids of tokens, 0 at padding.
        lengths: (sessions, turns) tokens of each query; 0 = no such query.
    """

    words: Index
    lengths: Index

    def to(self, device: torch.device | str) -> QueryBatch:
        """Return the batch as tensors on a device; on the CPU they share its memory."""
        return QueryBatch(torch.from_numpy(self.words), torch.from_numpy(self.lengths)).to(torch.device(device))


def padded(sessions: Sequence[Sequence[Sequence[int]]]) -> PaddedQueries:
    """Return sessions of queries of token ids as padded arrays."""
    turns = max(1, max(map(len, sessions), default=1))
    lengths = np.zeros((len(sessions), turns), np.int64)
    # A mask picks the cells of queries in row order, which is the order of the flat list.
    lengths[np.arange(turns) < np.array([*map(len, sessions)], np.int64)[:, None]] = [
        len(query) for session in sessions for query in session
    ]
    words = np.zeros((*lengths.shape, max(1, int(lengths.max(initial=0)))), np.int64)
    # The same one axis further: the cells of tokens, filled from all tokens in order.
    words[np.arange(words.shape[2]) < lengths[..., None]] = [*chain.from_iterable(chain.from_iterable(sessions))]
    return PaddedQueries(words, lengths)


def pad(sessions: Sequence[Sequence[Sequence[int]]]) -> QueryBatch:
    """Return sessions of queries of token ids as a batch on the CPU."""
    return padded(sessions).to("cpu")


def look_up(tokens: Ids, offsets: Index, queries: Index, most: int) -> QueryBatch:
    """A batch from the numbers of queries whose tokens are kept once.

    Args:
        tokens: the ids of all distinct queries, one after the other.
        offsets: (distinct + 1,) where each begins and ends.
        queries: (batch, turns) which query stands where; -1 at padding.
        most: tokens that are read of a query at most.

    Returns:
        The batch on the CPU; a query without tokens must not be asked for.
    """
    is_query = queries >= 0
    # Padding reads query 0, and its length of 0 masks what is read.
    numbers = np.maximum(queries, 0)
    lengths = np.where(is_query, np.minimum(np.diff(offsets)[numbers], most), 0)
    steps = np.arange(max(1, int(lengths.max(initial=1))))
    # (batch, turns, width) position of each token among the tokens of all queries.
    positions = offsets[:-1][numbers][..., None] + steps
    words = np.where(steps < lengths[..., None], tokens[np.minimum(positions, max(len(tokens) - 1, 0))], PADDING)
    return QueryBatch(torch.from_numpy(words.astype(np.int64)), torch.from_numpy(lengths.astype(np.int64)))


def spell(words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the input and the targets of a decoder.

    Args:
        words: (rows, width) ids, 0 at padding.
        lengths: (rows,).

    Returns:
        (rows, longest + 1) begin and the words; (rows, longest + 1) the words and end; both 0 at padding.
    """
    begin = words.new_full((words.shape[0], 1), BEGIN)
    if not autograd.is_traced():  # an exported graph takes candidates of any length
        words = words[:, : int(lengths.max()) if len(lengths) else 0]
    # One column more than the words have, so that the end fits behind the longest.
    targets = torch.cat([words, torch.zeros_like(begin)], dim=1).scatter(1, lengths[:, None], END)
    read = torch.cat([begin, words], dim=1)
    return read * (targets != PADDING), targets


def next_queries(batch: QueryBatch) -> tuple[Tensor, Tensor]:
    """:func:`spell` for what followed each of ``batch.followed``, in row order."""
    row, turn = batch.followed.nonzero(as_tuple=True)
    return spell(batch.words[row, turn + 1], batch.lengths[row, turn + 1])


def front_order(mask: Tensor) -> Tensor:
    """Return (rows, places) an order of the places of each row: those of a mask first, else as they stand."""
    places = torch.arange(mask.shape[1], device=mask.device)
    # No two keys are equal, so that any sort gives this order: exported graphs have none that is stable.
    return (mask.long() * mask.shape[1] - places).argsort(dim=1, descending=True)


def select(rows: Tensors, index: Tensor) -> Tensors:
    """Rows of a tuple of tensors, picked, repeated or put in order."""
    # ``_make`` takes the fields in order, whatever the type of the tuple.
    return type(rows)._make(tensor.index_select(0, index) for tensor in cast("Iterable[Tensor]", rows))
