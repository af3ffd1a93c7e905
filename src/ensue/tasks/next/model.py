"""Interfaces of the models of task ``next``: required methods and optional hooks.

Hooks are found by their names (``isinstance`` with a protocol). A model of anybody inherits from torch alone;
:class:`ensue.tasks.next.network.ItemNetwork` is what the networks here share beside their equations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Histories, Ids
from ensue.tasks.next.batch import Batch, PaddedBatch, ScoredBatch
from ensue.topk import Permitted

if TYPE_CHECKING:
    from torch import Tensor

    from ensue.nn.item_head import Best, Output, Product


class NextModel(Protocol):
    """A model that is made of ``(settings, num_ids)`` and scores what follows: a network or a baseline."""

    @property
    def reach(self) -> int | None:
        """Receptive field: the number of earlier events that can change a step's scores; ``None`` for all."""

    def grow(self, num_ids: int) -> NextModel:
        """Return this model resized for more ids; known ids keep their rows."""


@runtime_checkable
class Network(NextModel, Protocol):
    """An ``nn.Module`` that is trained."""

    def __call__(self, batch: Batch) -> Output:
        """Scores (targets, ids) before normalising, and the weights behind them, (batch, time, time) each.

        The columns of padding and unknown are ignored: they are set to -inf wherever scores are taken.
        """

    def loss(self, batch: Batch) -> Tensor:
        """The mean over the batch's targets, in nats."""


@runtime_checkable
class Baseline(NextModel, Protocol):
    """A model that is counted."""

    totals: npt.NDArray[np.float32]
    """(ids,) how often each value occurs."""

    def __call__(self, batch: PaddedBatch) -> ScoredBatch:
        """Scores (targets, ids) before normalising, and the weights behind them, (batch, time, time) each.

        The columns of padding and unknown are ignored: they are set to -inf wherever scores are taken.
        """

    def count(self, histories: Histories) -> None:
        """Add encoded histories."""

    def grow(self, num_ids: int) -> Baseline:
        """Return these counts resized for more ids, which start at 0."""

    def shares(self) -> npt.NDArray[np.float32]:
        """(ids,) each value's share of all events."""


@runtime_checkable
class Finishes(Protocol):
    """A model of which a part is fitted after the network is trained."""

    @property
    def members(self) -> dict[str, float]:
        """The weight of each member of the ensemble, by name."""

    def finish(self, learned: Histories, valid: Histories | None, earlier: NextModel | None) -> None:
        """Fit the rest.

        Args:
            learned: the training data.
            valid: what nothing has learned; ``None`` to take over what ``earlier`` chose.
            earlier: the same model, trained on a part of the data.
        """


@runtime_checkable
class CountsToo(Finishes, Protocol):
    """Such a model that can do without its network."""

    idle: bool
    """True if ``finish`` left the network out because it does not improve on held-out data."""


class HistoryMemory(Protocol):
    """Counts of past histories inside an ensemble."""

    def count(self, histories: Histories) -> None:
        """Add encoded histories."""

    def grow(self, num_ids: int) -> HistoryMemory:
        """Return these counts resized for more ids, which start at 0."""


@runtime_checkable
class Remembers(Protocol):
    """A model that counts past histories alongside its network."""

    memory: HistoryMemory
    """The counts, which stay on the CPU and are no part of the network's state."""

    def remember(self, histories: Histories) -> None:
        """Count encoded histories."""


@runtime_checkable
class Forgets(Protocol):
    """A model that can take back what it counted."""

    def forget(self, histories: Histories) -> None:
        """Take back encoded histories that were counted."""

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of all that was counted."""


@runtime_checkable
class Observes(Protocol):
    """A model that weighs what came lately in a stream."""

    def observe(self, ids: Tensor, times: Tensor) -> None:
        """Count events, (events,) ids and seconds, once they are learned."""


@runtime_checkable
class Credits(Protocol):
    """A model whose score is a sum over earlier events."""

    def credit(self, batch: Batch) -> Tensor:
        """(batch, time, earlier) what each earlier event adds to the score that an event had before it came."""


@runtime_checkable
class Multiplies(Protocol):
    """A model whose scores are products of a vector of the history and one of each value."""

    def product(self, batch: Batch) -> Product:
        """The two sides, and all else that the scores are made of."""


@runtime_checkable
class Ranks(Protocol):
    """A network that finds the best items of a large catalogue without the scores of all."""

    @property
    def ranks(self) -> bool:
        """True if it does so now, and faster."""
        ...

    def best(self, batch: Batch, permitted: Permitted, k: int) -> tuple[Best, tuple[Tensor, ...]] | None:
        """Return the best items of each target step, and the weights of its events as :class:`Network` does.

        Args:
            batch: as for scores.
            permitted: the candidates of each target.
            k: how many items.
        """
        ...


@runtime_checkable
class Places(Protocol):
    """A model that chooses where new ids start."""

    def place(self, first: int) -> None:
        """Move the new rows, those from id ``first`` on."""


@runtime_checkable
class TimesNext(Protocol):
    """A model that knows when the next event comes."""

    def rates(self, batch: Batch) -> Tensor:
        """Return the rate of the next event, :func:`ensue.tasks.next.point_process.delay` of which is the time to it.

        Returns:
            (targets, 2) its logarithm right after each target step, per hour, and by what that grows an hour.
        """
