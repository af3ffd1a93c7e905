"""Length of histories and delay of the next event, counted independently of the model.

- **Stop**: of the histories that reached n events, how many ended there; n in classes (:func:`sizes`). It stands beside
  the choices and is never one of them.
- **Delay**: the gaps before an event, by the gap before that (an hour of silence is seldom followed by a second's), in
  classes half an octave wide; median and the middle 80 %.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Histories, Index
from ensue.metrics import Floats
from ensue.nn.validation import require_counts, require_table

Counts = npt.NDArray[np.float32]
SHARES = (0.1, 0.5, 0.9)
"""Quantiles of the delay: the middle 80 % and the median."""
SIZES = 64
GAPS = 80
OCTAVE = 2.0
"""Classes of a history's size, of a gap, and how many of those double it."""
PRIOR = 5.0
"""Histories that a class is thought to have seen beside its own, which ended as often as all do."""


def sizes(events: Index) -> Index:
    """The class of a number of events: itself up to 16, then eight to a doubling."""
    many = 16 + np.floor(8 * np.log2(np.maximum(events, 16) / 16)).astype(np.int64)
    found: Index = np.minimum(np.where(events < 16, events, many), SIZES - 1)
    return found


def gap_classes(seconds: Floats) -> Index:
    """The class of a gap: 0 below a second, then two to a doubling, up to some 20,000 years."""
    found: Index = np.minimum(np.floor(OCTAVE * np.log2(np.maximum(seconds, 2**-0.5))) + 1, GAPS - 1).astype(np.int64)
    return np.maximum(found, 0)


class StopDelayEstimate(NamedTuple):
    """Estimates per history: (histories,) probability of stopping, (histories, 3) seconds at ``SHARES``."""

    stop: Floats
    after: Floats


@dataclass(eq=False)
class LengthDelayModel:
    """Counts of how long histories get, and how long the next event takes. Counting more later simply adds.

    Attributes:
        reached: (sizes,) number of histories that reached each size class.
        ended: (sizes,) number of them that ended there.
        gaps: (gap classes + 1, gap classes) number of gaps, by the class of the gap before; the last row has none.
    """

    reached: Counts = field(default_factory=lambda: np.zeros(SIZES, np.float32))
    ended: Counts = field(default_factory=lambda: np.zeros(SIZES, np.float32))
    gaps: Counts = field(default_factory=lambda: np.zeros((GAPS + 1, GAPS), np.float32))

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: they have other shapes, or more histories ended at a size than reached it.
        """
        for name, shape in (("reached", (SIZES,)), ("ended", (SIZES,)), ("gaps", (GAPS + 1, GAPS))):
            require_table(name, getattr(self, name), np.float32, shape)
            require_counts(name, getattr(self, name))
        if (self.ended > self.reached).any():
            raise ValueError("ended counts more ends than histories")

    def count(self, histories: Histories) -> None:
        """Add whole histories; one that holds nothing says nothing."""
        owner = histories.sequence_index()
        lengths = histories.lengths
        reached = sizes(np.arange(len(histories.ids)) - histories.offsets[owner] + 1)
        self.reached += np.bincount(reached, minlength=SIZES)
        self.ended += np.bincount(sizes(lengths[lengths > 0]), minlength=SIZES)
        if histories.timed and len(owner) > 1:
            same = owner[1:] == owner[:-1]
            before, gap = self._before(np.diff(histories.times), same)
            cells = np.bincount(before * GAPS + gap, minlength=self.gaps.size)
            self.gaps += cells.reshape(self.gaps.shape)

    def forget(self, histories: Histories) -> None:
        """Take back whole histories that were counted."""
        forgotten = LengthDelayModel()
        forgotten.count(histories)
        for name in ("reached", "ended", "gaps"):
            setattr(self, name, np.maximum(getattr(self, name) - getattr(forgotten, name), 0))

    @staticmethod
    def _before(apart: Floats, same: np.ndarray) -> tuple[Index, Index]:
        """The class of the gap before each gap (``GAPS``: there is none), and its own."""
        classes = gap_classes(apart)
        earlier = np.where(np.append(False, same[:-1]), np.append(0, classes[:-1]), GAPS)
        return earlier[same], classes[same]

    def estimate(self, histories: Histories) -> StopDelayEstimate:
        """Estimate whether and when each history continues."""
        latest = np.full(len(histories), GAPS)
        if histories.timed:
            two = histories.lengths > 1
            ends = histories.offsets[1:][two]
            latest[two] = gap_classes(histories.times[ends - 1] - histories.times[ends - 2])
        return StopDelayEstimate(self.stop_chances(histories.lengths), self._quantiles(latest))

    def stop_chances(self, events: Index) -> Floats:
        """The chance that nothing follows so many events."""
        reached, ended = self.reached.astype(np.float64), self.ended.astype(np.float64)
        overall = ended.sum() / max(1.0, reached.sum())
        at = sizes(events)
        chances: Floats = (ended[at] + PRIOR * overall) / (reached[at] + PRIOR)
        return chances

    def _quantiles(self, latest: Index) -> Floats:
        """Seconds at ``SHARES`` after each class of gap; a class hardly seen leans on all."""
        table = self.gaps.astype(np.float64)
        whole = table.sum(0)
        rows = table[latest] + PRIOR * whole / max(1.0, whole.sum())
        sums = np.cumsum(rows, axis=1)
        bounds = np.concatenate([[0.0], 2 ** (np.arange(GAPS) / OCTAVE)])  # class 0 is [0, 1), class 1 [1, sqrt 2) ...
        found = np.empty((len(latest), len(SHARES)))
        for column, share in enumerate(SHARES):
            wanted = share * sums[:, -1]
            at = (sums < wanted[:, None]).sum(1).clip(max=GAPS - 1)
            row = np.arange(len(latest))
            inside = (wanted - sums[row, at] + rows[row, at]) / np.maximum(rows[row, at], np.finfo(rows.dtype).tiny)
            found[:, column] = bounds[at] + inside.clip(0, 1) * (bounds[at + 1] - bounds[at])
        return found
