"""Popularity lately: how often each value occurred, an event half as much for each half-life of events after it.

The order is that of the clock where times count from 1970, else the file's. The half-life is a power of two, chosen by
MRR on the latest tenth of what is counted first; then all of that is counted.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ensue import metrics
from ensue.data.histories import Histories, Ids
from ensue.data.splits import dated, hold_out
from ensue.metrics import Floats
from ensue.tasks.next.baselines.counting import Popularity
from ensue.tasks.next.settings import CountingSettings

SHORTEST = 64
"""The shortest half-life that is tried, in events."""
EVER = 1e-6
"""Weight of popularity ever: it orders what has not occurred for long."""


def chronological(histories: Histories) -> Ids:
    """(events,) ids, the oldest first."""
    return histories.ids[np.argsort(histories.times, kind="stable")] if dated(histories) else histories.ids


def latest_tenth(histories: Histories) -> tuple[Histories, Histories] | None:
    """The histories in two parts, the later one to choose numbers on; ``None`` where nothing follows anything there."""
    filled = histories.select(histories.lengths > 0)
    if len(filled) < 2:
        return None
    early, late, _ = hold_out(filled, by_time=dated(filled))
    return (early, late) if late.lengths.max() > 1 else None


def decayed_counts(ids: Ids, half_life: float, num_ids: int) -> Floats:
    """(ids,) sums of 1/2 for each ``half_life`` of events that came after."""
    age = np.arange(len(ids) - 1, -1, -1.0)
    return np.bincount(ids, 0.5 ** (age / half_life), num_ids).astype(np.float64)


class Recent(Popularity):
    """Recent frequency of each item; see the module."""

    def __init__(self, settings: CountingSettings, num_ids: int) -> None:
        super().__init__(settings, num_ids)
        self.register_buffer("lately", torch.zeros(num_ids, dtype=torch.float64))
        self.register_buffer("half_life", torch.zeros(1, dtype=torch.float64))
        self.lately: Tensor
        self.half_life: Tensor

    def count(self, histories: Histories) -> None:
        """Add the events of encoded histories as the latest ones; the first time the half-life is chosen."""
        if not float(self.half_life):
            self.choose(latest_tenth(histories))
        super().count(histories)
        ids = chronological(histories)
        self.lately *= 0.5 ** (len(ids) / float(self.half_life))
        self.lately += torch.from_numpy(decayed_counts(ids, float(self.half_life), len(self.totals)))

    def forget(self, histories: Histories) -> None:
        """Take back encoded histories; what they added lately fades, but for values that nobody else has."""
        super().forget(histories)
        self.lately[self.totals <= 0] = 0

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts."""
        super().forget_ids(ids)
        self.lately[torch.from_numpy(ids).long()] = 0

    def choose(self, parts: tuple[Histories, Histories] | None) -> None:
        """Take the half-life that ranks the later part best after the earlier one, the longest of equals."""
        ids = np.zeros(0, np.int32) if parts is None else chronological(parts[0])
        powers = np.arange(np.log2(SHORTEST), max(np.ceil(np.log2(max(len(ids), 1))), np.log2(SHORTEST)) + 4)
        tried = 2.0 ** powers[::-1]
        if parts is not None:
            targets = parts[1].ids[np.arange(len(parts[1].ids)) > parts[1].offsets[:-1][parts[1].sequence_index()]]
            found = [_mean_reciprocal_rank(decayed_counts(ids, half, len(self.totals)), targets) for half in tried]
            tried = tried[int(np.argmax(found)) :]
        self.half_life.fill_(float(tried[0]))

    def grow(self, num_ids: int) -> Recent:
        """Return these counts resized for more ids."""
        grown = Recent(self.settings, num_ids)
        grown.totals[: len(self.totals)] = self.totals
        grown.lately[: len(self.lately)] = self.lately
        grown.half_life.copy_(self.half_life)
        return grown

    def shares(self) -> Tensor:
        """(ids,) each value's share of what came lately."""
        lately = (self.lately / self.lately.sum().clamp(min=1e-30)).float()
        return (1 - EVER) * lately + EVER * super().shares()


def _mean_reciprocal_rank(counts: Floats, targets: Ids) -> float:
    """Return the MRR of targets among items ranked by counts; ties count against the target."""
    ranks = len(counts) - np.searchsorted(np.sort(counts), counts[targets])
    return float(metrics.reciprocal_rank(ranks.astype(np.float64)).mean())
