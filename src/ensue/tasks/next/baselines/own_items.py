"""Own items: the values a history already holds, the latest first, beside what the rules say of its last event.

A candidate's score is ``weight`` times its share among the history's own values, each as likely as values that far back
are to come again (:class:`RepeatShares`), plus 1 - ``weight`` times its share among sequential rules. The weight is the
likeliest on the latest tenth of what is counted first; then all of that is counted. Where no history repeats a value it
is 0, and the rules remain.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Histories
from ensue.nn.item_head import Output
from ensue.nn.validation import require_number
from ensue.tasks.next.baselines.counting import SequentialRules
from ensue.tasks.next.baselines.recent import latest_tenth
from ensue.tasks.next.baselines.repeats import RepeatShares, own_values
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.settings import CountingSettings

TRIED = 2000
"""Held-out targets, the latest, by which numbers are chosen."""
LEAST = 1e-12
"""A share is taken for at least this."""
WEIGHTS = np.linspace(0, 0.95, 20)
"""Candidates for the weight of a session's own items."""


class OwnItems(SequentialRules):
    """Own values beside sequential rules; see the module."""

    def __init__(self, settings: CountingSettings, num_ids: int) -> None:
        super().__init__(settings, num_ids)
        self.repeats = RepeatShares()
        self.register_buffer("weight", torch.full((1,), -1.0))
        self.weight: Tensor

    def validate(self, name: str) -> None:
        """See :class:`ensue.nn.validation.Validated`; once anything is counted, the weight is chosen."""
        super().validate(name)
        require_number(f"{name}.weight", self.weight, 1.0)

    @property
    def reach(self) -> int | None:  # type: ignore[override]
        """Receptive field: the number of earlier events that can change a step's scores."""
        return self.settings.window - 1

    def count(self, histories: Histories) -> None:
        """Add encoded histories; the first time the weight is chosen."""
        if float(self.weight) < 0:
            self.weight.fill_(0)
            parts = latest_tenth(histories)
            if parts is not None:
                trial = type(self)(self.settings, len(self.totals))
                trial.weight.fill_(0)
                trial.count(parts[0])
                self.weight.fill_(trial.likeliest(parts[1]))
        super().count(histories)
        self.repeats.count(histories, self.totals)

    @torch.no_grad()
    def likeliest(self, held_out: Histories) -> float:
        """The weight under which the latest held-out targets are likeliest."""
        windows = Windows(held_out, self.reach)
        late = np.flatnonzero(np.cumsum((windows.stops - windows.target_starts)[::-1])[::-1] <= TRIED)
        rules, own = [torch.zeros(0)], [torch.zeros(0)]
        for start in range(0, len(late), 64):
            batch = windows.batch(late[start : start + 64])
            targets = batch.targets[:, None]
            rules.append(super().forward(batch).scores.softmax(1).gather(1, targets)[:, 0])
            cell, share, _ = self.own_shares(batch)
            table = torch.zeros(len(targets), len(self.totals))
            table.view(-1).index_add_(0, cell, share)
            own.append(table.gather(1, targets)[:, 0])
        shares = np.stack([torch.cat(rules).double().numpy(), torch.cat(own).double().numpy()])
        found = [np.log(np.maximum((1 - weight) * shares[0] + weight * shares[1], LEAST)).sum() for weight in WEIGHTS]
        return float(WEIGHTS[int(np.argmax(found))])

    def own_shares(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Row x ids + value of a history's own values, each one's share among them, and its distance."""
        cell, distance = own_values(batch, len(self.totals), self.settings.window)
        share, row = self.repeats.shares(distance), cell // len(self.totals)
        sums = torch.zeros(int(batch.target_mask.sum())).index_add_(0, row, share)
        return cell, share / sums.clamp(min=LEAST)[row], distance

    def grow(self, num_ids: int) -> OwnItems:
        """Return these counts resized for more ids."""
        grown = cast(OwnItems, super().grow(num_ids))
        grown.repeats, grown.weight = self.repeats, self.weight
        return grown

    def forward(self, batch: Batch) -> Output:
        """Scores (targets, ids) and what each event has in them, (batch, time, time)."""
        ruled, weight = super().forward(batch), float(self.weight)
        if not weight:
            return ruled
        cell, share, distance = self.own_shares(batch)
        scores = ruled.scores.softmax(1).mul_(1 - weight)
        scores.view(-1).index_add_(0, cell, weight * share)
        row, step = (places[cell // len(self.totals)] for places in batch.target_mask.nonzero(as_tuple=True))
        weights = (1 - weight) * ruled.weights[0]
        weights[row, step, step + 1 - distance] += weight * share
        return Output(scores.log_(), (weights,))
