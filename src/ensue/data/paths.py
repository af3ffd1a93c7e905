"""People who follow known paths through known items: what they do next is random, and its chances are known.

Somebody with an interest goes along its path, now and then jumps to another item of it, and sometimes to any item at
all. Paths share items, so where somebody goes from one depends on what came before it: a rule that looks at the latest
item alone is not enough. Nobody takes an item twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ensue.data.histories import Times

AHEAD, OWN = 0.72, 0.2
"""The chance to go on along the path, and that of any item left on it; what is left over goes to all items."""


@dataclass(frozen=True)
class Paths:
    """Interests, the path of each, and how common they are.

    Attributes:
        paths: interest -> its items in order.
        shares: interest -> the share of sessions that have it; they sum to 1.
    """

    paths: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, float]

    @property
    def items(self) -> tuple[str, ...]:
        """All items, each once, in order of first appearance."""
        return tuple(dict.fromkeys(item for path in self.paths.values() for item in path))

    def step(self, interest: str, done: Sequence[str], allowed: Collection[str]) -> Times:
        """(items,) the chances of the next item for somebody with this interest.

        Args:
            interest: one of ``paths``.
            done: items taken so far, oldest first.
            allowed: items that are there yet; one of them at least is not done.
        """
        items, path = self.items, self.paths[interest]
        open_: Times = np.array([item in allowed and item not in done for item in items], np.float64)
        onwards: Times = open_ * np.array([item in path for item in items], float)
        even: Times = open_ / open_.sum()
        if not onwards.any():
            return even
        chances: Times = even * (1 - AHEAD - OWN)
        chances += onwards / onwards.sum() * OWN
        chances[items.index(self._ahead(path, done, allowed))] += AHEAD
        return chances

    def chances(self, done: Sequence[str], allowed: Collection[str]) -> Times:
        """(items,) the chances of the next item for somebody whose interest must be guessed from what was done.

        This is the best anyone can know: by Bayes' rule, the interests weighed by how well they fit.
        """
        weights = {
            interest: share * self._likelihood(interest, done, allowed) for interest, share in self.shares.items()
        }
        whole = sum(weights.values())
        mean: Times = np.sum([w / whole * self.step(name, done, allowed) for name, w in weights.items()], axis=0)
        return mean

    def walk(
        self, interest: str, steps: int, allowed: Collection[str], generator: np.random.Generator
    ) -> tuple[str, ...]:
        """``steps`` items, or as many as there are."""
        done: list[str] = []
        while len(done) < min(steps, len(allowed)):
            done.append(self.items[generator.choice(len(self.items), p=self.step(interest, done, allowed))])
        return tuple(done)

    def _likelihood(self, interest: str, done: Sequence[str], allowed: Collection[str]) -> float:
        places = [self.items.index(item) for item in done]
        steps = (self.step(interest, done[:at], allowed)[place] for at, place in enumerate(places))
        return float(np.prod(list(steps)))

    @staticmethod
    def _ahead(path: Sequence[str], done: Sequence[str], allowed: Collection[str]) -> str:
        """The first item that is open after the latest of the path that was done, else the first of all."""
        latest = max(
            (path.index(item) for item in done if item in path), default=-1, key=lambda at: done.index(path[at])
        )
        left = [item for item in path if item in allowed and item not in done]
        return next((item for item in left if path.index(item) > latest), left[0])
