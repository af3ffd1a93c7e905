"""Interfaces of the models of task ``next``: required methods and optional hooks.

Hooks are found by their names (``isinstance`` with a protocol). A model of anybody inherits from torch alone;
:class:`ItemNetwork` is what the networks here share beside their equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import torch
from torch import Tensor, nn

from ensue.data.histories import Histories, Ids
from ensue.nn.item_head import ItemHead, ItemLayer, Output, Product, with_rows_of

Counts: TypeAlias = Annotated[Tensor, torch.float32]
"""Counts of events, some of them weighted."""


class Batch(NamedTuple):
    """Padded histories and the steps whose next event is predicted.

    Attributes:
        ids: (batch, time) ids, padded with 0 at the end.
        mask: (batch, time) True where an event is.
        times: (batch, time) float64 seconds as in the data; 0 where it has no clock. Float32 would blur the ages of
            histories that last longer than half a year.
        target_mask: (batch, time) True where the model predicts what follows this event.
        targets: (targets,) the ids that really followed, in row order; empty when they are not known.
    """

    ids: Tensor
    mask: Tensor
    times: Tensor
    target_mask: Tensor
    targets: Tensor

    @property
    def num_targets(self) -> int:
        """Number of target steps: the weight of this batch's mean loss."""
        return int(self.targets.shape[0])

    def to(self, device: torch.device) -> Batch:
        """Return the batch on another device."""
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))

    def split(self, num_targets: int) -> Iterator[Batch]:
        """Yield the rows in parts of about ``num_targets`` target steps, one row at least, without their targets."""
        parts = self.target_mask.sum(1).cumsum(0) // num_targets
        start = 0
        for size in torch.unique_consecutive(parts, return_counts=True)[1].tolist() or [0]:
            rows = slice(start, start + size)
            yield Batch(self.ids[rows], self.mask[rows], self.times[rows], self.target_mask[rows], self.targets[:0])
            start += size


def following_ids(batch: Batch) -> Tensor:
    """Return (batch, time) the id that follows each target step, padding elsewhere."""
    following = torch.zeros_like(batch.ids)
    following[batch.target_mask] = batch.targets.to(following.dtype)
    return following


def session_ids(batch: Batch) -> Tensor:
    """Return (targets, 2 x time) the ids of each target's session as far as the batch holds it, targets included."""
    row, _ = batch.target_mask.nonzero(as_tuple=True)
    return torch.cat([batch.ids, following_ids(batch)], dim=1)[row]


class Model(Protocol):
    """An ``nn.Module`` that is made of ``(settings, num_ids)`` and scores what follows."""

    @property
    def reach(self) -> int | None:
        """Receptive field: the number of earlier events that can change a step's scores; ``None`` for all."""
        ...

    def __call__(self, batch: Batch) -> Output:
        """Scores (targets, ids) before normalising, and the weights behind them, (batch, time, time) each.

        The columns of padding and unknown are ignored: they are set to -inf wherever scores are taken.
        """
        ...

    def grow(self, num_ids: int) -> Model:
        """Return this model resized for more ids; known ids keep their rows."""
        ...


@runtime_checkable
class Network(Model, Protocol):
    """A model that is trained."""

    def loss(self, batch: Batch) -> Tensor:
        """The mean over the batch's targets, in nats."""
        ...


class ItemNetwork(nn.Module):
    """A network whose equations are :meth:`encode`; its item head or its output layer scores.

    A subclass is made of ``(settings, num_ids)``, keeps its ``settings``, and has one submodule that is an
    :class:`~ensue.nn.item_head.ItemHead` or an :class:`~ensue.nn.item_head.ItemLayer`.
    """

    @property
    def head(self) -> ItemHead | ItemLayer:
        """The submodule that scores items."""
        return next(module for module in self.children() if isinstance(module, ItemHead | ItemLayer))

    def encode(self, batch: Batch) -> tuple[Tensor, *tuple[Tensor, ...]]:
        """Return the query of each target step, (targets, dim), and the attention weights, each (batch, time, time)."""
        raise NotImplementedError

    def grow(self, num_ids: int) -> Self:
        """Return this network resized for more ids. New ids start at random, with the lowest bias of the known ones."""
        return with_rows_of(self, type(self)(self.settings, num_ids))

    def forward(self, batch: Batch) -> Output:
        """Return the scores of all ids, (targets, ids), and the attention weights of :meth:`encode`."""
        product = self.product(batch)
        return Output(self.head.scores(product), product.weights)

    def product(self, batch: Batch) -> Product:
        """Return the scores as a product."""
        return self.head.product(*self.encode(batch))

    def loss(self, batch: Batch) -> Tensor:
        """Return the cross-entropy, a mean over the targets in nats; padding and unknown are no candidates."""
        return self.head.loss(self.encode(batch)[0], batch.targets)


@runtime_checkable
class Baseline(Model, Protocol):
    """A model that is counted."""

    totals: Tensor
    """(ids,) how often each value occurs."""

    def count(self, histories: Histories) -> None:
        """Add encoded histories."""
        ...

    def grow(self, num_ids: int) -> Baseline:
        """Return these counts resized for more ids, which start at 0."""
        ...

    def shares(self) -> Tensor:
        """(ids,) each value's share of all events."""
        ...


@runtime_checkable
class Finishes(Protocol):
    """A model of which a part is fitted after the network is trained."""

    @property
    def members(self) -> dict[str, float]:
        """The weight of each member of the ensemble, by name."""
        ...

    def finish(self, learned: Histories, valid: Histories | None, earlier: Model | None) -> None:
        """Fit the rest.

        Args:
            learned: the training data.
            valid: what nothing has learned; ``None`` to take over what ``earlier`` chose.
            earlier: the same model, trained on a part of the data.
        """
        ...


@runtime_checkable
class CountsToo(Finishes, Protocol):
    """Such a model that can do without its network."""

    idle: bool
    """Whether ``finish`` left the network out because it does not improve on held-out data."""


class Memory(Protocol):
    """Counts of past histories inside an ensemble."""

    def count(self, histories: Histories) -> None:
        """Add encoded histories."""
        ...

    def grow(self, num_ids: int) -> Memory:
        """Return these counts resized for more ids, which start at 0."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A model that counts past histories alongside its network."""

    memory: Memory
    """The counts, which stay on the CPU and are no part of the network's state."""

    def remember(self, histories: Histories) -> None:
        """Count encoded histories."""
        ...


@runtime_checkable
class Forgets(Protocol):
    """A model that can take back what it counted."""

    def forget(self, histories: Histories) -> None:
        """Take back encoded histories that were counted."""
        ...

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of all that was counted."""
        ...


@runtime_checkable
class Observes(Protocol):
    """A model that weighs what came lately in a stream."""

    def observe(self, ids: Tensor, times: Tensor) -> None:
        """Count events, (events,) ids and seconds, once they are learned."""
        ...


@runtime_checkable
class Credits(Protocol):
    """A model whose score is a sum over earlier events."""

    def credit(self, batch: Batch) -> Tensor:
        """(batch, time, earlier) what each earlier event adds to the score that an event had before it came."""
        ...


@runtime_checkable
class Multiplies(Protocol):
    """A model whose scores are products of a vector of the history and one of each value."""

    def product(self, batch: Batch) -> Product:
        """The two sides, and all else that the scores are made of."""
        ...


@runtime_checkable
class Places(Protocol):
    """A model that chooses where new ids start."""

    def place(self, first: int) -> None:
        """Move the new rows, those from id ``first`` on."""
        ...


@runtime_checkable
class TimesNext(Protocol):
    """A model that knows when the next event comes."""

    def states(self, batch: Batch) -> Tensor:
        """(batch, time, dim) after each event."""
        ...

    def next_time(self, states: Tensor, share: float = 0.5) -> Tensor:
        """(…) seconds within which the next event comes in this share of the cases, of (…, dim) states."""
        ...
