"""What a network of task ``suggest`` is to the verbs: it reads a session into a memory, and a writer writes from that.

No network inherits from these: what has the names has the protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from torch import Tensor, nn

from ensue.tasks.suggest.batch import Batch


class Written(Protocol):
    """Where the writing of some rows stands."""

    def select(self, index: Tensor) -> Self:
        """Rows picked, repeated or put in order."""
        ...


Memory = TypeVar("Memory")
Read = TypeVar("Read", contravariant=True)
State = TypeVar("State", bound=Written)


class Likelihood(Protocol[Read]):
    """What scores whole queries."""

    def likelihood(self, memory: Read, read: Tensor, targets: Tensor) -> Tensor:
        """(rows, length) log-probability of each token of ``targets`` after those of ``read``; 0 at padding."""
        ...


class Stepwise(Protocol[Read, State]):
    """What a search asks token by token."""

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
        """What writes."""
        ...

    def encode(self, batch: Batch) -> Memory:
        """What is to be attended to after the last query of each row."""
        ...

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy a token over every query that followed another, in nats."""
        ...

    def attributions(self, batch: Batch, candidates: Tensor) -> Tensor:
        """How much each token of a suggestion attended to each token before, in the network's own sense.

        Args:
            batch: the sessions.
            candidates: (rows, width) ids of a suggestion for each.

        Returns:
            (rows, longest, turns, source width); sums to 1 over both last axes, or to 0 after a suggestion's end.
        """
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """As torch has it."""
        ...


AnyModel: TypeAlias = Model[Any, Any]
"""Which memory a network makes, and how its writer goes on, is its own business."""
