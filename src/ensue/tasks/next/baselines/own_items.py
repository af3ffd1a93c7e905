"""Own items: repeats of the values of a history, the latest first, mixed with sequential rules of its last event.

A candidate's score is ``weight`` times its share among the history's own values, each as likely as values that far back
are to come again (:class:`RepeatShares`), plus 1 - ``weight`` times its share among sequential rules. The weight is the
likeliest on the latest tenth of what is counted first; then all of that is counted. Where no history repeats a value it
is 0, and the rules remain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from ensue.data.histories import Histories, Index
from ensue.tasks.next.baselines.counting import SequentialRules, log_mixture, logarithm
from ensue.tasks.next.baselines.recent import latest_tenth, latest_windows
from ensue.tasks.next.baselines.repeats import RepeatShares, own_values
from ensue.tasks.next.batch import PaddedBatch, ScoredBatch
from ensue.tasks.next.dataset import Windows
from ensue.topk import Scores, log_totals

MAX_TARGETS = 2000
"""Held-out targets, the latest, by which the weight is chosen."""
MIN_SHARE = 1e-12
"""Lower bound of a share, for logarithms and divisions."""
WEIGHTS = np.linspace(0, 0.95, 20)
"""Candidates for the weight of a session's own items."""


@dataclass(eq=False)
class OwnItems(SequentialRules):
    """Own values mixed with sequential rules; see the module.

    Attributes:
        repeats: how often values come again.
        weight: of the own values; ``None`` until it is chosen.
    """

    weighs_events = False

    repeats: RepeatShares = field(default_factory=RepeatShares)
    weight: Annotated[float, Field(ge=0, le=1)] | None = None

    @property
    def reach(self) -> int | None:
        """Receptive field: the number of earlier events that can change a step's scores."""
        return self.settings.window - 1

    def count(self, histories: Histories) -> None:
        """Add encoded histories; the first time the weight is chosen."""
        if self.weight is None:
            self.weight = 0.0
            if (split := latest_tenth(histories)) is not None:
                # The weight is fitted on the latest tenth, with counts of the events before it.
                early = type(self)(self.settings, self.num_ids, weight=0.0)
                early.count(split[0])
                self.weight = early.likeliest(split[1])
        super().count(histories)
        self.repeats.count(histories, self.totals)

    def likeliest(self, held_out: Histories) -> float:
        """Return the weight under which the latest held-out targets are likeliest."""
        windows = Windows(held_out, self.reach)
        index = latest_windows(windows, MAX_TARGETS)
        rule_shares = [np.zeros(0, np.float32)]
        own_shares = [np.zeros(0, np.float32)]
        for start in range(0, len(index), 64):
            batch = windows.batch(index[start : start + 64])
            scores = super().__call__(batch).scores
            # (targets,) position of each target in (targets, ids) read row after row.
            target_cells = np.arange(len(scores)) * self.num_ids + batch.targets
            rule_shares.append(np.exp(scores.reshape(-1)[target_cells] - log_totals(scores)))
            cells, shares, _ = self.own_shares(batch)
            # Each row has one target; cells // num_ids is the row of a cell.
            is_target = cells == target_cells[cells // self.num_ids]
            own_shares.append(_sums(cells[is_target] // self.num_ids, shares[is_target], len(scores)))
        rules, repeats = (np.concatenate(chunks).astype(np.float64) for chunks in (rule_shares, own_shares))
        # The likelihood has one parameter, so a grid is enough.
        likelihoods = [np.log(np.maximum((1 - w) * rules + w * repeats, MIN_SHARE)).sum() for w in WEIGHTS]
        return float(WEIGHTS[int(np.argmax(likelihoods))])

    def own_shares(self, batch: PaddedBatch) -> tuple[Index, Scores, Index]:
        """Return row x ids + value of a history's own values, each one's share among them, and its distance."""
        cells, distance = own_values(batch, self.num_ids, self.settings.window)
        shares = self.repeats.shares(distance)
        row = cells // self.num_ids
        sums = _sums(row, shares, batch.num_steps)
        shares /= np.maximum(sums, MIN_SHARE)[row]
        return cells, shares, distance

    def __call__(self, batch: PaddedBatch) -> ScoredBatch:
        """Return the scores, (targets, ids), and the weight of each event in them, (batch, time, time)."""
        weight = self.weight or 0.0
        if not weight:
            return super().__call__(batch)
        cells, added, weights = self.followers(batch)
        own_cells, shares, distance = self.own_shares(batch)
        row, step = batch.target_mask.nonzero()
        # Shares of the rules sum to 1 - weight if own items add weight / (1 - weight) times the total of the rules.
        rule_totals = self.settings.popularity * self.shares().sum()
        rule_totals = rule_totals + _sums(cells // self.num_ids, added, len(row))
        owner = own_cells // self.num_ids
        own_added = weight / (1 - weight) * rule_totals[owner] * shares
        scores = log_mixture(
            self.totals,
            self.settings.popularity,
            len(row),
            np.concatenate([cells, own_cells]),
            np.concatenate([added, own_added]),
        )
        scores += logarithm((1 - weight) / rule_totals)[:, None]
        weights *= 1 - weight
        # A value at distance 1 is the step's own event.
        weights[row[owner], step[owner], step[owner] + 1 - distance] += weight * shares
        return ScoredBatch(scores, (weights,))


def _sums(rows: Index, addends: Scores, num_rows: int) -> Scores:
    """Return the sum of the addends of each row, (rows,)."""
    return np.bincount(rows, addends, num_rows).astype(np.float32)
