"""Interfaces of the networks of task ``suggest``: an encoder of sessions and a decoder, not inherited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from torch import Tensor, nn

from ensue.tasks.suggest.batch import Batch


class Written(Protocol):
    """Decoder state of some rows."""

    def select(self, index: Tensor) -> Self:
        """Rows picked, repeated or put in order."""
        ...


Memory = TypeVar("Memory")
Read = TypeVar("Read", contravariant=True)
State = TypeVar("State", bound=Written)


class Likelihood(Protocol[Read]):
    """Scorer of complete queries."""

    def likelihood(self, memory: Read, read: Tensor, targets: Tensor) -> Tensor:
        """(rows, length) log-probability of each token of ``targets`` after those of ``read``; 0 at padding."""
        ...


class Stepwise(Protocol[Read, State]):
    """Decoder as the beam search uses it, token by token."""

    def start(self, memory: Read) -> State:
        """The state before the first token."""
        ...

    def step(self, memory: Read, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read (rows,) tokens: (rows, ids) log-probabilities of the next, and the state after it."""
        ...


class Decoder(Likelihood[Read], Stepwise[Read, State], Protocol[Read, State]):
    """The part of a network that writes a query."""


class Model(Protocol[Memory, State]):
    """An ``nn.Module`` that is made of ``(settings, num_ids)``."""

    @property
    def writer(self) -> Decoder[Memory, State]:
        """The decoder."""
        ...

    def encode(self, batch: Batch) -> Memory:
        """Return the memory that the decoder attends to after the last query of each row."""
        ...

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy a token over every query that followed another, in nats."""
        ...

    def attributions(self, batch: Batch, candidates: Tensor) -> Tensor:
        """Return the attributions of each token of a suggestion to each earlier token, as the network defines them.

        Args:
            batch: the sessions.
            candidates: (rows, width) ids of a suggestion for each.

        Returns:
            (rows, longest, turns, source width); sums to 1 over both last axes, or to 0 after a suggestion's end.
        """
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """See :class:`torch.nn.Module`."""
        ...


AnyModel: TypeAlias = Model[Any, Any]
"""Which memory a network makes, and how its writer goes on, is its own business."""
