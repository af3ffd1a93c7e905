"""Past cascades, kept whole: what co-participation, neighbours and temporal preference are computed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ensue.data.histories import Histories, Ids, Index, keys_of
from ensue.metrics import Floats
from ensue.nn.device import memory_for
from ensue.nn.validation import require_ids, require_offsets, require_table
from ensue.vocabulary import FIRST, Vocabulary

T = TypeVar("T")


class CascadeStore(nn.Module):
    """Past cascades: users, cascades and times.

    Args:
        num_ids: size of the catalogue, padding and unknown included.
    """

    lengths_vary: ClassVar[tuple[str, ...]] = ("starts", "values", "times")

    def __init__(self, num_ids: int) -> None:
        super().__init__()
        self.num_ids = num_ids
        self.register_buffer("starts", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("values", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("times", torch.zeros(0, dtype=torch.float64))
        self.starts: Tensor
        self.values: Tensor
        self.times: Tensor
        self._derived: dict[str, object] = {}
        self._state: list[int] = []

    def validate(self, name: str) -> None:
        """See :class:`ensue.nn.validation.Validated`: every event has an id and a time."""
        require_offsets(f"{name}.starts", self.starts, len(self.values))
        require_ids(f"{name}.values", self.values, self.num_ids, FIRST)
        require_table(f"{name}.times", self.times, torch.float64, self.values.shape)

    def count(self, histories: Histories) -> None:
        """Add encoded cascades as the latest; where they have no clock all happens at 0.

        Columns of a file may be read-only, which torch does not know: those are copied.
        """
        times = histories.times if histories.timed else np.zeros(len(histories.ids))
        self.starts = torch.cat([self.starts, torch.from_numpy(histories.offsets[1:]) + self.starts[-1]])
        self.values = torch.cat([self.values, torch.from_numpy(histories.ids.astype(np.int32))])
        self.times = torch.cat([self.times, torch.from_numpy(np.require(times, requirements="W"))])

    def forget(self, histories: Histories) -> None:
        """Remove the cascades that are the same, value for value and at the same times."""
        mine = {*keys_of(histories)}
        stays = np.array([key not in mine for key in keys_of(self.histories())], np.bool_)
        self._keep(np.repeat(stays, np.diff(self.starts.numpy())))

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of all cascades."""
        self._keep(~np.isin(self.values.numpy(), ids))

    def _keep(self, events: npt.NDArray[np.bool_]) -> None:
        """Keep some of the events; a cascade without any goes."""
        lengths = np.bincount(self.owner()[events], minlength=1)
        self.values, self.times = self.values[torch.from_numpy(events)], self.times[torch.from_numpy(events)]
        self.starts = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths[lengths > 0])]).astype(np.int64))

    def grow(self, num_ids: int) -> CascadeStore:
        """Return these cascades resized for more ids."""
        grown = CascadeStore(num_ids)
        grown.starts, grown.values, grown.times = self.starts, self.values, self.times
        return grown

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Return what ``make`` computes from the cascades, kept until there are others.

        Raises:
            SettingError: it does not fit into memory.
        """
        state = [self.num_ids]
        for tensor in (self.starts, self.values, self.times):
            state += [tensor.data_ptr(), len(tensor), tensor._version]
        if state != self._state:
            self._derived, self._state = {}, state
        if name not in self._derived:
            with memory_for("what is computed from past cascades"):
                self._derived[name] = make()
        return cast(T, self._derived[name])

    def histories(self) -> Histories:
        """All cascades in columns; without times where there is no clock."""
        times = self.times.numpy() if bool(self.times.any()) else np.empty(0)
        return Histories(self.values.numpy(), self.starts.numpy(), Vocabulary(), times)

    def repeats(self) -> bool:
        """Return whether any cascade contains a user twice."""
        pairs = len(self.values)
        return self.cached("repeats", lambda: len(np.unique(self.owner() * self.num_ids + self.values.numpy())) < pairs)

    def totals(self) -> Floats:
        """(ids,) how often each took part."""
        return self.cached("totals", lambda: np.bincount(self.values.numpy(), minlength=self.num_ids).astype(float))

    def owner(self) -> Index:
        """(events,) which cascade each event is in."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts.numpy()))
