"""Recent popularity: how often each value occurred, an event half as much for each half-life of events after it.

The order is that of the clock where times count from 1970, else the file's. The half-life is a power of two, chosen by
MRR on the latest tenth of what is counted first; then all of that is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ensue import metrics
from ensue.data.histories import Histories, Ids, Index, dated, hold_out
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_number, require_table
from ensue.tasks.next.baselines.counting import Popularity
from ensue.tasks.next.dataset import Windows
from ensue.topk import Scores

SHORTEST = 64
"""The shortest half-life that is tried, in events."""
EVER = 1e-6
"""Weight of overall popularity: it orders items without recent events."""


def chronological(histories: Histories) -> Ids:
    """Return the ids of all events, (events,), the oldest first."""
    return histories.ids[np.argsort(histories.times, kind="stable")] if dated(histories) else histories.ids


def latest_tenth(histories: Histories) -> tuple[Histories, Histories] | None:
    """Split histories into an earlier part and a later one to choose numbers on; ``None`` without a target in it."""
    filled = histories.select(histories.lengths > 0)
    if len(filled) < 2:
        return None
    # Dated histories are split by time, others in the order of the file.
    early, late, _ = hold_out(filled, by_time=dated(filled))
    return (early, late) if late.lengths.max() > 1 else None


def latest_windows(windows: Windows, num_targets: int) -> Index:
    """Return the indices of the latest windows that have at most ``num_targets`` targets together."""
    # Sums from each window to the last one.
    targets_from_here = np.cumsum((windows.stops - windows.target_starts)[::-1])[::-1]
    return np.flatnonzero(targets_from_here <= num_targets)


def decayed_counts(ids: Ids, half_life: float, num_ids: int) -> Floats:
    """Return the sum over the events of each id of 1/2 for each ``half_life`` of events that came after, (ids,)."""
    age = np.arange(len(ids) - 1, -1, -1.0)
    return np.bincount(ids, 0.5 ** (age / half_life), num_ids).astype(np.float64)


@dataclass(eq=False)
class Recent(Popularity):
    """Recent frequency of each item; see the module.

    Attributes:
        lately: (ids,) decayed counts.
        half_life: in events; 0 until it is chosen.
    """

    weighs_events = False

    lately: npt.NDArray[np.float64] = None  # type: ignore[assignment]  # zeros unless given
    half_life: Annotated[float, Field(ge=0, le=MAX_COUNT)] = 0.0

    def __post_init__(self) -> None:
        """Check the decayed counts.

        Raises:
            ValueError: there is not one of each id, or one is negative.
        """
        super().__post_init__()
        if self.lately is None:
            self.lately = np.zeros(self.num_ids)
        require_table("lately", self.lately, np.float64, [self.num_ids])
        require_number("lately", self.lately, MAX_COUNT)

    def count(self, histories: Histories) -> None:
        """Add the events of encoded histories as the latest ones; the first time the half-life is chosen."""
        if not self.half_life:
            self.choose(latest_tenth(histories))
        super().count(histories)
        ids = chronological(histories)
        # All earlier counts age by the number of new events.
        self.lately *= 0.5 ** (len(ids) / self.half_life)
        self.lately += decayed_counts(ids, self.half_life, self.num_ids)

    def forget(self, histories: Histories) -> None:
        """Take back encoded histories; recent counts only fade, except those of items that no other history has."""
        super().forget(histories)
        self.lately[self.totals <= 0] = 0

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts."""
        super().forget_ids(ids)
        self.lately[ids] = 0

    def choose(self, split: tuple[Histories, Histories] | None) -> None:
        """Take the half-life that ranks the later part best after the earlier one, the longest of equals."""
        ids = np.zeros(0, np.int32) if split is None else chronological(split[0])
        # Powers of two from SHORTEST to eight times the number of events, the longest first.
        powers = np.arange(np.log2(SHORTEST), max(np.ceil(np.log2(max(len(ids), 1))), np.log2(SHORTEST)) + 4)
        half_lives = 2.0 ** powers[::-1]
        best = 0
        if split is not None:
            late = split[1]
            # Every event but the first of a history is a target.
            targets = late.ids[np.arange(len(late.ids)) > late.offsets[:-1][late.sequence_index()]]
            best = int(
                np.argmax([_mean_reciprocal_rank(decayed_counts(ids, h, self.num_ids), targets) for h in half_lives])
            )
        self.half_life = float(half_lives[best])

    def grow(self, num_ids: int) -> Self:
        """Return these counts resized for more ids."""
        grown = super().grow(num_ids)
        grown.lately = np.pad(self.lately, (0, num_ids - self.num_ids))
        return grown

    def shares(self) -> Scores:
        """Return each item's share of the recent events, (ids,)."""
        recent = (self.lately / np.maximum(self.lately.sum(), 1e-30)).astype(np.float32)
        return (1 - EVER) * recent + EVER * super().shares()


def _mean_reciprocal_rank(counts: Floats, targets: Ids) -> float:
    """Return the MRR of targets among items ranked by counts; ties count against the target."""
    # Rank: the number of items that have at least the target's count.
    ranks = len(counts) - np.searchsorted(np.sort(counts), counts[targets])
    return float(metrics.reciprocal_rank(ranks.astype(np.float64)).mean())
