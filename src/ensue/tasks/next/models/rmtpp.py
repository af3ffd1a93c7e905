"""RMTPP: recurrent marked temporal point process (Du, Dai, Trivedi, Upadhyay, Gomez-Rodriguez & Song, KDD 2016).

Given who passed a story on so far, and when, rank who passes it on next and estimate how long that takes: a recurrent
network reads users and gaps, and its state sets both the softmax over users and the rate of a point process.

==========================  =====================================================================================
recurrence                  ``RMTPP.states``: h_j reads the user and the gap since the user before
marker                      ``RMTPP.forward``: softmax over users of V h_j + b
conditional intensity       ``log_density``: exp(v . h_j + w d + b), d hours after user j
density of the next time    ``log_density``: intensity times exp(-``total_hazard``), in closed form
likelihood                  ``RMTPP.loss``: -log of marker and time
the next time               ``point_process.delay``: a quantile of the density, in closed form
==========================  =====================================================================================

With a = v . h + b the integral of the intensity over d hours is H(d) = e^a (e^{wd} - 1) / w. Where w is negative, H has
the bound e^a / |w|: with probability exp(-e^a / |w|) nothing ever follows, and ``delay`` speaks of the other case.

Defaults are those of HiDAN's paper for its rivals: 64 units, a user table 32 wide, keep probability 0.8. Its Table 3
counts 8.8k parameters, which is its RNN and 41 x 64 more: the gap enters as HiDAN's ages do, one of 40 intervals of
3 hours or none, gaps past 120 hours in the last. Time counts in hours.

**Departures.** The state is a tanh of its inputs, as in the RNN beside it; Du's is cut at 0 from below and can grow
without bound over hundreds of users. Du's other features of the clock (hour, weekday) are left out, for many cascades
are told in hours since their own start. v, w and b stand in the output layer and are not counted in Table 3: 66 more. A
gap of less than a second counts as a second, so that no density is without bound; of a gap beyond ``max_hours`` only
that is learned, that nothing came until then. The time of what follows a cascade's last known user is not at hand in a
batch of training data, so the last gap of a cascade is not learned. Du's prediction of the time is a mean, integrated
numerically and without end where w is negative; here it is the median. The one bias of the cell, dropout, schedule and
the start of the weights are as in ``ensue.tasks.next.models.recurrent``. w starts at 0: a Poisson process.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.dropout import Dropout
from ensue.nn.item_head import ItemLayer, ItemTable
from ensue.nn.recurrent import RNNLayer
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.models.recurrent import initialise, with_one
from ensue.tasks.next.network import ItemNetwork, latest_only
from ensue.tasks.next.point_process import HOUR, SMALL
from ensue.tasks.next.settings import SHORTEST, RMTPPSettings


def total_hazard(log_rate: Tensor, trend: Tensor, hours: Tensor) -> Tensor:
    """H(d) = e^a (e^{wd} - 1) / w, the integral of the intensity exp(a + w d); a e^a d where w is 0.

    Args:
        log_rate: (…) a, the logarithm of the events an hour right after an event.
        trend: w, by which that logarithm grows an hour; shape (1,) or that of ``log_rate``.
        hours: (…) d.
    """
    grown = trend * hours
    small = grown.abs() < SMALL
    # Taylor series of (e^x - 1) / x, because the closed form divides by 0 at x = 0.
    series = 1 + grown / 2 * (1 + grown / 3 * (1 + grown / 4 * (1 + grown / 5)))
    exact = torch.expm1(grown) / grown.masked_fill(small, 1.0)
    return log_rate.exp() * hours * torch.where(small, series, exact)


def log_density(log_rate: Tensor, trend: Tensor, hours: Tensor) -> Tensor:
    """The density of the next event d hours after an event: log f(d) = a + w d - H(d); see :func:`total_hazard`."""
    return log_rate + trend * hours - total_hazard(log_rate, trend, hours)


class RMTPP(ItemNetwork[RMTPPSettings]):
    """The network over ids and gaps; see the module's table.

    Args:
        settings: sizes, intervals, the weight of the time.
        num_ids: rows of the user table, padding and unknown included.
    """

    def __init__(self, settings: RMTPPSettings, num_ids: int) -> None:
        super().__init__(settings)
        dim = settings.dim
        self.users = ItemTable(num_ids, settings.table_dim, sparse=settings.drawn is not None)
        self.cell = RNNLayer(settings.table_dim + settings.intervals + 2, dim, bias=False, batch_first=True)
        self.output = ItemLayer(dim, num_ids, settings.drawn)
        self.output_rate = nn.Linear(dim, 1)
        self.output_trend = nn.Parameter(torch.zeros(1))
        self.dropout = Dropout(settings.dropout)
        initialise(self)
        with torch.no_grad():
            self.cell.get_parameter("weight_ih_l0")[:, -1].zero_()

    def ages(self, times: Tensor) -> Tensor:
        """Return the interval of each gap since the event before, (batch, time) in [0, intervals]; 0 only for no gap.

        Args:
            times: (batch, time) seconds since the cascade began.
        """
        # Ceiling: interval 0 is a gap of 0, the last one holds all longer gaps.
        width = self.settings.max_hours * HOUR / self.settings.intervals
        gaps = (times - torch.cat([times[:, :1], times[:, :-1]], dim=1)).clamp(min=0)
        return torch.ceil(gaps / width).clamp(max=self.settings.intervals).long()

    def states(self, batch: Batch) -> Tensor:
        """h_j: (batch, time, dim) after each user."""
        users = self.dropout(self.users(batch.ids))
        gaps = functional.one_hot(self.ages(batch.times), self.settings.intervals + 1).to(users.dtype)
        return self.dropout(self.cell(with_one(torch.cat([users, gaps], dim=2)))[0])

    def log_rates(self, states: Tensor) -> Tensor:
        """The logarithm of the rate right after an event: a = v . h + b, (…) float64 from (…, dim) states."""
        return self.output_rate(states)[..., 0].double()

    def rates(self, batch: Batch) -> Tensor:
        """(targets, 2) the logarithm of the rate right after each target step, per hour, and its growth an hour."""
        log_rates = self.output_rate(self.states(batch)[batch.target_mask])
        return torch.cat([log_rates, self.output_trend.expand_as(log_rates)], dim=1)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the state after each target step, (targets, dim), and weights (batch, time, time), 1 on that step."""
        states = self.states(batch)[batch.target_mask]
        return states, latest_only(batch.mask, states.dtype)

    def loss(self, batch: Batch) -> Tensor:
        """-log of marker and time, a mean over the targets in nats; padding and unknown are no candidates.

        Weights and shown items concern the marker alone.
        """
        states = self.states(batch)
        queries = states[batch.target_mask]
        marker = self.output.loss(queries, batch.targets, weights=batch.weights, shown=batch.negatives)
        if not self.settings.time_weight:
            return marker
        return marker + (self.settings.time_weight * self.time_loss(states, batch)).to(marker.dtype)

    def time_loss(self, states: Tensor, batch: Batch) -> Tensor:
        """-log density of the gaps after the target steps, where the next event is in the batch: sum / targets."""
        followed = batch.target_mask[:, :-1] & batch.mask[:, 1:]
        log_rate = self.log_rates(states[:, :-1][followed])
        hours = torch.diff(batch.times, dim=1)[followed].double() / HOUR
        trend = self.output_trend.double()
        is_observed = hours <= self.settings.max_hours
        # Gaps beyond max_hours are censored: only the survival up to it counts.
        hours = hours.clamp(SHORTEST, self.settings.max_hours)
        came_then = -log_density(log_rate, trend, hours)
        not_yet = total_hazard(log_rate, trend, hours)
        return torch.where(is_observed, came_then, not_yet).sum() / max(1, batch.num_targets)
