"""A bounded memory of past histories: every one ever added has the same chance of still being there.

Each history draws a 64-bit key from the seed and its number, and the histories of the ``size`` smallest keys stay: a
uniform sample without replacement, whatever the calls of ``add`` that the histories came in.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ensue.data.histories import Histories, Ids, Index, Mask, Times, concat_histories, ranges, scrambled
from ensue.learning.state import Count
from ensue.nn.validation import Array, require_offsets, require_table
from ensue.vocabulary import Vocabulary

LATEST = 50
"""Events stored of a history, the latest: bounds the memory, and the personal data in a model folder."""


@dataclass(eq=False)
class Reservoir:
    """A uniform sample of past histories: ids and times, no names.

    Attributes:
        size: maximum number of histories; 0 stores none.
        seed: the same seed and histories give the same sample.
        num_seen: histories that were added, stored or not.
        keys: (histories,) the random key of each.
        ids: (events,) in ``vocabulary``, history after history.
        offsets: (histories + 1,) history ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.
        times: (events,) seconds; empty without a clock.
        vocabulary: that of the histories that were added.
    """

    size: Count
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    num_seen: Count = 0
    keys: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    ids: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    offsets: Index = field(default_factory=lambda: np.zeros(1, np.int64))
    times: Times = field(default_factory=lambda: np.empty(0, np.float64))
    vocabulary: Vocabulary = field(init=False, default_factory=Vocabulary)

    def __post_init__(self) -> None:
        """Check that the columns fit together.

        Raises:
            ValueError: they do not, or a history has no events.
        """
        require_histories("", self.ids, self.offsets, self.times)
        if len(self.keys) != len(self.offsets) - 1 or len(self.keys) > self.num_seen:
            raise ValueError(f"{len(self.keys)} keys do not fit {len(self.offsets) - 1} histories")
        if (np.diff(self.offsets) < 1).any():
            raise ValueError("a history has no events")

    def __len__(self) -> int:
        """Number of stored histories."""
        return len(self.keys)

    @property
    def histories(self) -> Histories:
        """The stored histories."""
        return Histories(self.ids, self.offsets, self.vocabulary, self.times)

    def add(self, histories: Histories) -> None:
        """Sample encoded histories too; those of one event have nothing to learn from and are skipped."""
        if not self.size:
            return
        self.vocabulary = histories.vocabulary
        candidates = np.flatnonzero(histories.lengths > 1)
        keys = np.concatenate([self.keys, self._new_keys(len(candidates))])
        self.num_seen += len(candidates)
        if len(keys) > self.size:
            # The smallest keys stay; sorted indices keep the order of arrival.
            selected = np.sort(np.argpartition(keys, self.size - 1)[: self.size])
        else:
            selected = np.arange(len(keys))
        num_old = len(self)
        entering = latest_events(histories.select(candidates[selected[selected >= num_old] - num_old]))
        self._store(concat_histories(self.histories.select(selected[selected < num_old]), entering), keys[selected])

    def keep(self, mask: Mask) -> None:
        """Store only the histories of a mask, (histories,)."""
        self._store(self.histories.select(mask), self.keys[mask])

    def keep_events(self, mask: Mask) -> None:
        """Store only the events of a mask, (events,), and only histories that still have two events."""
        histories = self.histories.keep(mask)
        long_enough = histories.lengths > 1
        self._store(histories.select(long_enough), self.keys[long_enough])

    def draw(self, num: int, seed: int) -> Histories:
        """Return ``num`` stored histories (all, if fewer), without replacement; the same for the same seed."""
        return self.histories.select(self._drawn(num, seed))

    def part(self, num: int, seed: int) -> tuple[Histories, Reservoir]:
        """Return a sample as :meth:`draw` does, and a reservoir of the others; this one is unchanged."""
        indices = self._drawn(num, seed)
        remaining = copy(self)
        mask = np.ones(len(self), np.bool_)
        mask[indices] = False
        remaining.keep(mask)
        return self.histories.select(indices), remaining

    def _store(self, histories: Histories, keys: npt.NDArray[np.uint64]) -> None:
        self.ids = histories.ids
        self.offsets = histories.offsets
        self.times = histories.times
        self.keys = keys

    def _new_keys(self, num: int) -> npt.NDArray[np.uint64]:
        # A counter-based generator: the key of a history depends on the seed and its number alone.
        stream = scrambled(np.array([self.seed], np.uint64))
        return scrambled(stream + np.arange(self.num_seen, self.num_seen + num).astype(np.uint64))

    def _drawn(self, num: int, seed: int) -> npt.NDArray[np.int64]:
        return np.sort(np.random.default_rng([self.seed, seed]).permutation(len(self))[:num])


def require_histories(name: str, ids: Array, offsets: Array, times: Array) -> None:
    """Check the columns of histories.

    Args:
        name: what messages begin with, such as the name of a file and a colon.
        ids: (events,) int32.
        offsets: (histories + 1,) int64.
        times: (events,) float64, or none.

    Raises:
        ValueError: the columns do not fit together, or times fall within a history.
    """
    require_table(f"{name}ids", ids, np.int32, (None,))
    require_offsets(f"{name}offsets", offsets, len(ids))
    require_table(f"{name}times", times, np.float64, (len(ids) if len(times) else 0,))
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    if len(times) and (np.diff(times)[np.diff(owner) == 0] < 0).any():
        raise ValueError(f"{name}times fall within a history")


def latest_events(histories: Histories) -> Histories:
    """Return the latest ``LATEST`` events of each history."""
    lengths = np.minimum(histories.lengths, LATEST)
    keep = np.zeros(len(histories.ids), np.bool_)
    keep[ranges(histories.offsets[1:] - lengths, lengths)] = True
    return histories.keep(keep)
