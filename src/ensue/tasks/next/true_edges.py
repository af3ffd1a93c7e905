"""Attributions of a model compared with known true edges."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import astuple, dataclass

from ensue.answers import Explanation
from ensue.lines import plural


@dataclass(frozen=True)
class Compared:
    """Number of events whose largest attribution is to an event with an edge to them.

    Counted are events with a true edge from some of those before them, and not from others: of them alone it can be
    told whether a weight found the edge. The two floors are of the same events.
    """

    steps: int = 0
    """Events."""
    strongest: int = 0
    """Number of these events whose largest attribution is a true edge."""
    chance: float = 0.0
    """Expected number under a random choice among earlier events."""
    latest: int = 0
    """Number under the choice of the previous event."""

    def __add__(self, other: Compared) -> Compared:
        """Return the sums of both."""
        return Compared(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def sentence(self, truth: str = "true edges") -> str:
        """Return the comparison as a sentence, which begins with what was compared."""
        if not self.steps:
            return f"{truth}: no event has earlier users both with and without an edge to it"
        shares = (100 * count / self.steps for count in (self.strongest, self.chance, self.latest))
        matched, chance, latest = (f"{share:.1f} %" for share in shares)
        return (
            f"{truth}: {self.strongest} of {plural(self.steps, 'event')} attended most to a true source ({matched}; "
            f"random earlier user {chance}, latest user {latest})"
        )


def true_pairs(explanation: Explanation, edges: Collection[tuple[str, str]]) -> list[tuple[int, int]]:
    """Return the positions (from, to) of the true edges between events of a history, the earlier event first."""
    values = explanation.values
    return [(low, high) for high in range(len(values)) for low in range(high) if (values[low], values[high]) in edges]


def compare(explanation: Explanation, edges: Collection[tuple[str, str]]) -> Compared:
    """Return the comparison for one history; it is empty if the model has no weights between events."""
    pairs = set(true_pairs(explanation, edges))
    total = Compared()
    for event, weights in enumerate(explanation.dependency):
        true = [(earlier, event) in pairs for earlier in range(event)]
        if any(true) and not all(true):
            strongest = max(range(event), key=weights.__getitem__)
            total += Compared(1, int(true[strongest]), sum(true) / event, int(true[-1]))
    return total
