"""The counts of a blend, which a model folder holds beside the network."""

from __future__ import annotations

from dataclasses import dataclass

from ensue.data.histories import Histories, Ids
from ensue.tasks.next.baselines.counting import Markov
from ensue.tasks.next.baselines.interpolated import Interpolated
from ensue.tasks.next.baselines.session_knn import VSKNN
from ensue.tasks.next.settings import BlendSettings, CountingSettings


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
