"""Counts of the ensembles, which a model folder stores next to the network.

A blend counts sessions, transitions and repeats; a cascade blend stores past cascades in full, from which
co-participation, neighbours and temporal preference are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Annotated, Self, TypeVar, cast

import numpy as np
from pydantic import Field

from ensue.data.histories import Histories, Ids, Index, Times, concat_histories, keys_of
from ensue.metrics import Floats
from ensue.nn.device import memory_for
from ensue.nn.validation import require_ids
from ensue.tasks.next.baselines.counting import Markov
from ensue.tasks.next.baselines.interpolated import Interpolated
from ensue.tasks.next.baselines.session_knn import VSKNN
from ensue.tasks.next.reservoir import require_histories
from ensue.tasks.next.settings import BlendSettings, CountingSettings
from ensue.vocabulary import FIRST, Vocabulary

T = TypeVar("T")


@dataclass(eq=False)
class CascadeStore:
    """Past cascades: users and times.

    Attributes:
        num_ids: size of the catalogue, padding and unknown included.
        ids: (events,) users, cascade after cascade.
        offsets: (cascades + 1,) cascade ``c`` is ``ids[offsets[c]:offsets[c + 1]]``.
        times: (events,) seconds; 0 without a clock.
    """

    num_ids: Annotated[int, Field(ge=FIRST)]
    ids: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    offsets: Index = field(default_factory=lambda: np.zeros(1, np.int64))
    times: Times = field(default_factory=lambda: np.empty(0, np.float64))
    _derived: dict[str, object] = field(init=False, default_factory=dict)
    """Tables that are computed from the cascades, by name."""

    def __post_init__(self) -> None:
        """Check that every event has an id and a time.

        Raises:
            ValueError: one has not, or the columns do not fit together.
        """
        require_histories("", self.ids, self.offsets, self.times)
        require_ids("ids", self.ids, self.num_ids, FIRST)
        if len(self.times) != len(self.ids):
            raise ValueError("times are missing")

    def count(self, histories: Histories) -> None:
        """Add encoded cascades as the latest; without a clock all events are at 0."""
        # Without a clock all events are simultaneous, so that only the order counts.
        times = histories.times if histories.timed else np.zeros(len(histories.ids))
        added = Histories(histories.ids, histories.offsets, Vocabulary(), times)
        self._store(concat_histories(Histories(self.ids, self.offsets, Vocabulary(), self.times), added))

    def forget(self, histories: Histories) -> None:
        """Remove the cascades with the same users at the same times."""
        # A key identifies a cascade by its users and times.
        forgotten = {*keys_of(histories)}
        cascades = Histories(self.ids, self.offsets, Vocabulary(), self.times)
        self._store(cascades.select(np.array([key not in forgotten for key in keys_of(cascades)], np.bool_)))

    def forget_ids(self, ids: Ids) -> None:
        """Remove some ids from all cascades; a cascade without any other goes."""
        cascades = Histories(self.ids, self.offsets, Vocabulary(), self.times).keep(~np.isin(self.ids, ids))
        self._store(cascades.select(cascades.lengths > 0))

    def _store(self, cascades: Histories) -> None:
        self.ids = cascades.ids.astype(np.int32)
        self.offsets = cascades.offsets
        self.times = cascades.times
        self._derived = {}

    def grow(self, num_ids: int) -> Self:
        """Return these cascades resized for more ids."""
        grown = copy(self)
        grown.num_ids = num_ids
        grown._derived = {}
        return grown

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Return what ``make`` computes from the cascades, cached until there are others.

        Raises:
            SettingError: it does not fit into memory.
        """
        if name not in self._derived:
            with memory_for("what is computed from past cascades"):
                self._derived[name] = make()
        return cast(T, self._derived[name])

    def histories(self) -> Histories:
        """Return all cascades in columns; without times where there is no clock."""
        times = self.times if self.times.any() else np.empty(0)
        return Histories(self.ids, self.offsets, Vocabulary(), times)

    def repeats(self) -> bool:
        """Return whether any cascade contains a user twice."""
        # Fewer distinct pairs of cascade and user than events: some user occurs twice.
        num_pairs = len(self.ids)
        return self.cached("repeats", lambda: len(np.unique(self.owner() * self.num_ids + self.ids)) < num_pairs)

    def totals(self) -> Floats:
        """Return how often each user took part, (ids,)."""
        return self.cached("totals", lambda: np.bincount(self.ids, minlength=self.num_ids).astype(float))

    def owner(self) -> Index:
        """Return the cascade of each event, (events,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


@dataclass(eq=False)
class BlendMemory:
    """Counts of a blend: past sessions, transitions, and interpolated counts.

    Attributes:
        sessions: the past sessions that are searched.
        following: what followed each item at once.
        interpolated: transitions, repeats and popularity.
    """

    sessions: VSKNN
    following: Markov
    interpolated: Interpolated

    def __post_init__(self) -> None:
        """Check that all parts count the same items.

        Raises:
            ValueError: they do not.
        """
        if any(counts.num_ids != self.num_ids for counts in self._counts):
            raise ValueError("the parts count different items")

    @classmethod
    def empty(cls, settings: BlendSettings, num_ids: int) -> BlendMemory:
        """Return a memory of nothing.

        Args:
            settings: of the blend.
            num_ids: size of the catalogue, padding and unknown included.
        """
        # The counts look no further back than the network or the neighbours.
        window = min(CountingSettings().window, max(settings.max_length, settings.window))
        interpolated = Interpolated(CountingSettings(window=window), num_ids)
        return cls(VSKNN(settings.memory(), num_ids), Markov(CountingSettings(), num_ids), interpolated)

    @property
    def num_ids(self) -> int:
        """Size of the catalogue."""
        return self.sessions.num_ids

    @property
    def _counts(self) -> tuple[VSKNN | Markov | Interpolated, ...]:
        return self.sessions, self.following, self.interpolated

    def count(self, histories: Histories) -> None:
        """Add encoded histories."""
        for counts in self._counts:
            counts.count(histories)

    def forget(self, histories: Histories) -> None:
        """Take back encoded histories that were counted."""
        for counts in self._counts:
            counts.forget(histories)

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of all counts."""
        for counts in self._counts:
            counts.forget_ids(ids)

    def grow(self, num_ids: int) -> BlendMemory:
        """Return this memory resized for more ids."""
        return BlendMemory(self.sessions.grow(num_ids), self.following.grow(num_ids), self.interpolated.grow(num_ids))
