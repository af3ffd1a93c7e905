"""Base class and helpers of the networks of task ``next``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, Self, TypeVar

import torch
from torch import Tensor, nn

from ensue.nn.autograd import is_traced
from ensue.nn.item_head import Best, ItemHead, ItemLayer, Output, Product, with_rows_of
from ensue.tasks.next.batch import Batch
from ensue.topk import Permitted
from ensue.vocabulary import PADDING

SettingsT = TypeVar("SettingsT")
MIN_WIDTH = 8
"""Smallest number of events to which prefixes are padded."""


def latest_only(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """(batch, time, time) weights that put 1 on the step itself, where ``mask`` (batch, time) is True."""
    return torch.eye(mask.shape[1], dtype=dtype, device=mask.device) * mask[:, None, :]


def following_ids(batch: Batch) -> Tensor:
    """Return (batch, time) the id that follows each target step, padding elsewhere."""
    following = torch.zeros_like(batch.ids)
    # Targets are in row order, as a boolean mask selects them.
    following[batch.target_mask] = batch.targets.to(following.dtype)
    return following


def session_ids(batch: Batch) -> Tensor:
    """Return (targets, 2 x time) the ids of each target's session as far as the batch holds it, targets included."""
    row, _ = batch.target_mask.nonzero(as_tuple=True)
    return torch.cat([batch.ids, following_ids(batch)], dim=1)[row]


class Prefixes(NamedTuple):
    """Target steps as rows of their own: the latest events up to each, the latest at the end.

    Attributes:
        targets: (prefixes,) the index of each target step.
        ids: (prefixes, events), padded at the beginning.
        mask: (prefixes, events) True where an event is.
        cells: where the weights of the events belong in (batch, time, time); padding is at step 0.
    """

    targets: Tensor
    ids: Tensor
    mask: Tensor
    cells: tuple[Tensor, Tensor, Tensor]


def prefixes_of(batch: Batch, max_length: int) -> Iterator[Prefixes]:
    """Yield all target steps with their latest ``max_length`` events.

    Prefixes of similar length share a tensor (up to 8 events, 16, 32, …), so that few of its cells are padding.
    """
    row, step = batch.target_mask.nonzero(as_tuple=True)
    is_open = torch.ones_like(step, dtype=torch.bool)
    longest = min(max_length, batch.ids.shape[1])
    width = MIN_WIDTH
    if is_traced():  # an exported graph has one group, of any length
        longest = width = batch.ids.shape[1]
    while is_open.any():
        fits = is_open & (step < width) if width < longest else is_open
        is_open = is_open & ~fits
        targets = fits.nonzero()[:, 0]
        if len(targets):
            distances = torch.arange(min(width, longest) - 1, -1, -1, device=step.device)
            # (prefixes, events) steps of the events; those before the first event are negative.
            event_steps = step[targets, None] - distances
            rows, events = row[targets, None], event_steps.clamp(min=0)
            mask = (event_steps >= 0) & batch.mask[rows, events]
            ids = batch.ids[rows, events].masked_fill(~mask, PADDING)
            yield Prefixes(targets, ids, mask, (rows, step[targets, None], events))
        width = 2 * width


def with_shares(weights: Tensor, cells: tuple[Tensor, Tensor, Tensor], shares: Tensor) -> Tensor:
    """Add the shares of prefixes, (prefixes, events), to the (batch, time, time) weights.

    Args:
        weights: in training and prediction they are changed.
        cells: of :class:`Prefixes`.
        shares: 0 at padding, which adds 0 to the weight of event 0: plain += would keep one of both.
    """
    if not is_traced():
        return weights.index_put_(cells, shares, accumulate=True)
    # In ONNX a cell that occurs twice would keep one of both; here each row has one target.
    _, step, events = cells
    of_rows = weights[:, 0].scatter_add(1, events, shares)
    return of_rows[:, None] * (torch.arange(weights.shape[1]) == step)[..., None]


def num_targets_of(batch: Batch) -> int:
    """Return the number of target steps; of an exported graph it is that of the rows."""
    return batch.ids.shape[0] if is_traced() else int(batch.target_mask.sum())


class ItemNetwork(nn.Module, Generic[SettingsT]):
    """A network whose equations are :meth:`encode`; its item head or its output layer scores.

    A subclass is made of ``(settings, num_ids)``, and has one submodule that is an
    :class:`~ensue.nn.item_head.ItemHead` or an :class:`~ensue.nn.item_head.ItemLayer`.

    Args:
        settings: of the network.
        reach: receptive field, see :class:`ensue.tasks.next.model.NextModel`; ``None`` of a recurrent state, which
            remembers the whole history.
    """

    weighs_targets: bool = True
    """True of a network whose loss multiplies that of each target by its weight, ``Batch.weights``."""

    def __init__(self, settings: SettingsT, reach: int | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.reach = reach

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

    @property
    def ranks(self) -> bool:
        """See :class:`ensue.tasks.next.model.Ranks`; a network whose scores are others' ranks all of them."""
        scores_alike = type(self).forward is ItemNetwork.forward and type(self).product is ItemNetwork.product
        return scores_alike and self.head.ranks

    def best(self, batch: Batch, permitted: Permitted, k: int) -> tuple[Best, tuple[Tensor, ...]] | None:
        """See :class:`ensue.tasks.next.model.Ranks`."""
        product = self.product(batch)
        best = self.head.best(product, permitted, k)
        return None if best is None else (best, product.weights)

    def product(self, batch: Batch) -> Product:
        """Return the scores as a product."""
        return self.head.product(*self.encode(batch))

    def loss(self, batch: Batch) -> Tensor:
        """Return the cross-entropy, a mean over the targets in nats; padding and unknown are no candidates."""
        queries = self.encode(batch)[0]
        return self.head.loss(queries, batch.targets, weights=batch.weights, shown=batch.negatives)
