"""Length of histories and delay of the next event, counted independently of the model.

- **Stop**: of the histories that reached n events, how many ended there; n in classes (:func:`sizes`). It is reported
  next to the choices and is never one of them.
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
"""Pseudo-count: each class is smoothed by this number of histories that ended as often as all do."""


def sizes(events: Index) -> Index:
    """Return the class of a number of events: itself up to 16, then eight classes per doubling."""
    octave_classes = 16 + np.floor(8 * np.log2(np.maximum(events, 16) / 16)).astype(np.int64)
    return np.minimum(np.where(events < 16, events, octave_classes), SIZES - 1)


def gap_classes(seconds: Floats) -> Index:
    """Return the class of a gap: 0 below a second, then two classes per doubling, up to about 20,000 years."""
    classes: Index = np.minimum(np.floor(OCTAVE * np.log2(np.maximum(seconds, 2**-0.5))) + 1, GAPS - 1).astype(np.int64)
    return np.maximum(classes, 0)


class StopDelayEstimate(NamedTuple):
    """Estimates per history: (histories,) probability of stopping, (histories, 3) seconds at ``SHARES``."""

    stop: Floats
    delay: Floats


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
        """Add complete histories; empty ones are skipped."""
        owner = histories.sequence_index()
        lengths = histories.lengths
        # Event n of a history, counted from 1, is a history that reached n events.
        reached = sizes(np.arange(len(histories.ids)) - histories.offsets[owner] + 1)
        self.reached += np.bincount(reached, minlength=SIZES)
        self.ended += np.bincount(sizes(lengths[lengths > 0]), minlength=SIZES)
        if histories.timed and len(owner) > 1:
            # Differences across the border of two histories are no gaps.
            same = owner[1:] == owner[:-1]
            previous, gap = self._before(np.diff(histories.times), same)
            # A (previous, gap) pair is one cell of the table read row after row.
            cells = np.bincount(previous * GAPS + gap, minlength=self.gaps.size)
            self.gaps += cells.reshape(self.gaps.shape)

    def forget(self, histories: Histories) -> None:
        """Take back whole histories that were counted."""
        forgotten = LengthDelayModel()
        forgotten.count(histories)
        for name in ("reached", "ended", "gaps"):
            setattr(self, name, np.maximum(getattr(self, name) - getattr(forgotten, name), 0))

    @staticmethod
    def _before(apart: Floats, same: np.ndarray) -> tuple[Index, Index]:
        """Return the class of the gap before each gap (``GAPS`` if there is none), and the class of the gap itself."""
        classes = gap_classes(apart)
        # The first gap of a history has none before it, which is class GAPS.
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
        """Return the probability that a history of this many events ends there."""
        reached, ended = self.reached.astype(np.float64), self.ended.astype(np.float64)
        # Additive smoothing towards the overall stopping rate.
        overall = ended.sum() / max(1.0, reached.sum())
        at = sizes(events)
        return (ended[at] + PRIOR * overall) / (reached[at] + PRIOR)

    def _quantiles(self, latest: Index) -> Floats:
        """Return the seconds at ``SHARES`` after each class of gap; rare classes are smoothed by all gaps."""
        table = self.gaps.astype(np.float64)
        overall = table.sum(0)
        rows = table[latest] + PRIOR * overall / max(1.0, overall.sum())
        sums = np.cumsum(rows, axis=1)
        bounds = np.concatenate([[0.0], 2 ** (np.arange(GAPS) / OCTAVE)])  # class 0 is [0, 1), class 1 [1, sqrt 2) ...
        quantiles = np.empty((len(latest), len(SHARES)))
        for column, share in enumerate(SHARES):
            target_mass = share * sums[:, -1]
            # The first class whose cumulative count reaches the quantile.
            gap_class = (sums < target_mass[:, None]).sum(1).clip(max=GAPS - 1)
            row = np.arange(len(latest))
            # Linear interpolation within the class.
            inside = (target_mass - sums[row, gap_class] + rows[row, gap_class]) / np.maximum(
                rows[row, gap_class], np.finfo(rows.dtype).tiny
            )
            quantiles[:, column] = bounds[gap_class] + inside.clip(0, 1) * (bounds[gap_class + 1] - bounds[gap_class])
        return quantiles
