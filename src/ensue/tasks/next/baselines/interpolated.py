"""Interpolated counts: what followed the latest events, the history's own values, and popularity ever and lately.

Probabilities of one kind are backed off to another, as language models of counts do (Jelinek & Mercer 1980; MacKay &
Peto 1995 for the prior of ``prior`` observations; Kuhn & De Mori 1990 for the cache of own values). With n(e, x) the
pairs of e and a later x, at most ``GAP`` apart, 1 / gap each, and ``backward`` times those the other way round:

    w(e)     = n(e)^-``power`` x ``lag``^(events since e) x exp(-``rate`` x seconds since e) of ``PAST`` latest events
    P(x)     = left x (sum of w(e) n(e, x) + ``prior`` back(x)) / (sum of w(e) n(e) + ``prior``) + ``repeat`` x r(x)
    back(x)  = (1 - ``lately``) x share of all events + ``lately`` x share lately
    left     = 1 - ``repeat`` x sum of r over the history's own values

with r by the distance of x, of :class:`RepeatShares`, 0 for what the history does not hold. The seven numbers, and the
half-life of what came lately, are chosen on the latest tenth of what is counted first, by likelihood and by MRR; then
all of that is counted. They do not change when more is counted later. ``GAP`` and ``PAST`` were chosen on the latest
tenths of the training parts of Yoochoose, Diginetica, Globo, MovieLens and Twitter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Histories, Ids, Index
from ensue.metrics import Floats
from ensue.nn.attention import band
from ensue.nn.item_head import Output
from ensue.nn.validation import require_number, require_table
from ensue.tasks.next.baselines.counting import Cooccurrence, Popularity, log_mixture
from ensue.tasks.next.baselines.recent import Recent, latest_tenth, latest_windows
from ensue.tasks.next.baselines.repeats import RepeatShares, own_values
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.model import Batch

if TYPE_CHECKING:  # to predict imports it only where these counts are asked
    from scipy.sparse import csr_array

GAP, PAST = 10, 20
"""Maximum distance of the events of a pair, and number of latest events whose pairs are scored from."""
MAX_TARGETS = 5000
"""Held-out targets, the latest, by which the numbers are chosen."""
STEPS = 60
"""Steps of the search for the numbers."""
LEAST, LEFT = 1e-9, 0.02
"""No probability is taken for less than the first, and so much is left to what the history does not hold."""
PULL, FURTHEST = 1e-4, 12.0
"""Both keep a number finite of which the data says nothing."""


class Numbers(NamedTuple):
    """The learned numbers; see the module."""

    lag: Tensor
    power: Tensor
    repeat: Tensor
    lately: Tensor
    prior: Tensor
    backward: Tensor
    rate: Tensor


START = (0.5, 0.5, 0.7, 0.3, 2.0, 0.3, 0.1)
"""Start of the search, with ``rate`` in median gaps; used as it is if nothing can be held out."""
LATELY, PRIOR, BACKWARD = 3, 4, 5
"""Their places."""
SHARES = 4
"""The first of them are between 0 and 1, the others above 0."""


class Observed(NamedTuple):
    """Statistics of held-out targets before they came, each (targets, events) or (targets,)."""

    followed: Tensor
    """Number of times the target came after each event, and before it (``preceded``); totals of both."""
    preceded: Tensor
    after: Tensor
    before: Tensor
    since: Tensor
    """Number of events, and of seconds, between each event and the latest."""
    seconds: Tensor
    own: Tensor
    """The share of the target's distance where the history holds it, and the sum over all that it holds."""
    every: Tensor
    ever: Tensor
    lately: Tensor
    """Shares of the target among all events."""

    def likelihood(self, numbers: Numbers) -> Tensor:
        """The mean logarithm of the targets' probabilities."""
        sums = self.after + numbers.backward * self.before
        weights = numbers.lag**self.since * (-numbers.rate * self.seconds).exp()
        weights = weights * sums.clamp(min=LEAST) ** -numbers.power
        counted = (weights * (self.followed + numbers.backward * self.preceded)).sum(1)
        back = (1 - numbers.lately) * self.ever + numbers.lately * self.lately
        left = (1 - numbers.repeat * self.every).clamp(min=LEFT)
        shares = left * (counted + numbers.prior * back) / ((weights * sums).sum(1) + numbers.prior)
        return (shares + numbers.repeat * self.own).clamp(min=LEAST).log().mean()

    def likeliest(self) -> Tensor:
        """(7,) the numbers under which the targets are likeliest (L-BFGS-B)."""
        from scipy.optimize import minimize

        def lost(point: Floats) -> tuple[float, Floats]:
            free = torch.from_numpy(point.copy()).requires_grad_()
            with torch.enable_grad():
                loss = PULL * (free**2).mean() - self.likelihood(_numbers(free))
                (slope,) = torch.autograd.grad(loss, free)
            return float(loss.detach()), slope.numpy()

        shares, positive = (np.array(part) for part in (START[:SHARES], START[SHARES:]))
        begin = np.concatenate([np.log(shares / (1 - shares)), np.log(positive)])
        bounds = [(-FURTHEST, FURTHEST)] * len(begin)
        found = minimize(lost, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
        return torch.stack(_numbers(torch.from_numpy(found.x)))


def _numbers(free: Tensor) -> Numbers:
    return Numbers(*free[:SHARES].sigmoid(), *free[SHARES:].exp())


@dataclass(eq=False)
class Interpolated(Cooccurrence):
    """Interpolated counts; see the module.

    Attributes:
        recent: popularity lately.
        repeats: how often values come again.
        numbers: (7,) the learned numbers in the order of :class:`Numbers`; zeros until they are chosen.
    """

    recent: Recent = None  # type: ignore[assignment]  # nothing is counted unless given
    repeats: RepeatShares = field(default_factory=RepeatShares)
    numbers: Annotated[Tensor, torch.float64] = field(default_factory=lambda: torch.zeros(len(START)).double())
    _both: tuple[Any, Tensor] | None = field(init=False, default=None)
    _back: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Check the parts; once anything is counted, the numbers are chosen.

        Raises:
            ValueError: the parts are of different catalogues, or a number is outside what the search looks at.
        """
        super().__post_init__()
        self.recent = self.recent or Recent(self.settings, self.num_ids)
        if self.recent.num_ids != self.num_ids:
            raise ValueError("recent counts other ids")
        require_table("numbers", self.numbers, torch.float64, [len(START)])
        if bool(self.totals.any()):
            largest = 2 * math.exp(FURTHEST)  # of the search, with room for rounding
            require_number("numbers", self.numbers[:SHARES], 1.0)
            require_number("numbers", self.numbers[PRIOR], largest, 1 / largest)
            require_number("numbers", self.numbers[BACKWARD], largest)

    @property
    def gap(self) -> int:
        """The largest distance at which a pair counts."""
        return min(GAP, self.settings.window)

    @property
    def latest(self) -> int:
        """Number of latest events whose pairs are scored from."""
        return min(PAST, self.settings.window)

    @property
    def reach(self) -> int | None:
        """Receptive field: the number of earlier events that can change a step's scores."""
        return self.settings.window - 1

    def count(self, histories: Histories) -> None:
        """Add encoded histories; the first time the numbers are chosen."""
        if not bool(self.numbers.any()):
            self.numbers = torch.tensor(START).double()
            parts = latest_tenth(histories)
            self.recent.choose(parts)
            if parts is not None:
                early = type(self)(self.settings, self.num_ids, numbers=self.numbers)
                early.recent.half_life = self.recent.half_life
                early.count(parts[0])
                self.numbers = early.likeliest(parts[1])
        super().count(histories)
        self.recent.count(histories)
        self.repeats.count(histories, self.totals)

    def _set_pairs(self, pairs: Index, counts: Floats) -> None:
        super()._set_pairs(pairs, counts)
        self._both = self._back = None

    def forget(self, histories: Histories) -> None:
        """Take back encoded histories; how often values come again, and the numbers, stay."""
        super().forget(histories)
        self.recent.forget(histories)

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts and pairs."""
        super().forget_ids(ids)
        self.recent.forget_ids(ids)

    def grow(self, num_ids: int) -> Self:
        """Return these counts resized for more ids."""
        grown = super().grow(num_ids)
        grown.recent = self.recent.grow(num_ids)
        grown._both = grown._back = None
        return grown

    @torch.no_grad()
    def likeliest(self, held_out: Histories) -> Tensor:
        """Return the numbers under which the latest held-out targets are likeliest, (7,)."""
        windows = Windows(held_out, self.reach)
        index = latest_windows(windows, MAX_TARGETS)
        positions = windows.positions(index)
        targets = held_out.ids[positions + 1].astype(np.int64)
        # (targets, events) the latest events before each target, the latest first; 0 beyond the start of its history.
        begins = held_out.offsets[:-1][held_out.sequence_index()[positions]]
        since = np.arange(self.latest)
        event = positions[:, None] - since
        values = np.where(event >= begins[:, None], held_out.ids[np.maximum(event, 0)], 0).astype(np.int64)
        unit, seconds = 1.0, np.zeros(values.shape)
        if held_out.timed:
            elapsed = held_out.times[positions][:, None] - held_out.times[np.maximum(event, 0)]
            seconds = np.where(values > 0, elapsed, 0)
            gaps = seconds[:, 1:2]
            unit = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
        in_counts = (self.totals[targets] > 0).numpy()
        if not in_counts.any():
            return self.numbers
        pairs = self._table()
        columns = (
            _pair_counts(pairs, values, targets[:, None]),
            _pair_counts(pairs, targets[:, None], values),
            pairs.sum(1)[values],
            pairs.sum(0)[values],
            since + np.zeros_like(values),
            seconds / unit,
            *self._repeat_shares(windows, index),
            Popularity.shares(self)[targets],
            self.recent.shares()[targets],
        )
        numbers = Observed(*(torch.as_tensor(column).double()[in_counts] for column in columns)).likeliest()
        numbers[-1] *= held_out.timed / unit
        return numbers

    def _repeat_shares(self, windows: Windows, index: Index) -> tuple[Tensor, Tensor]:
        """Return the weight of each target's distance to its last occurrence (0 if there is none), and the total."""
        target_shares, totals = [torch.zeros(0)], [torch.zeros(0)]
        for start in range(0, len(index), 64):
            batch = windows.batch(index[start : start + 64])
            cell, share = self.repeats.score(batch, self.num_ids, self.settings.window)
            row, zeros = cell // self.num_ids, torch.zeros(batch.num_targets)
            of_target = share * (cell % self.num_ids == batch.targets[row])
            target_shares.append(zeros.index_add(0, row, of_target))
            totals.append(zeros.index_add(0, row, share))
        return torch.cat(target_shares), torch.cat(totals)

    def _table(self) -> csr_array:
        """Return the counts as a SciPy matrix."""
        from scipy.sparse import csr_array

        shape = (self.num_ids, self.num_ids)
        return csr_array((self.counts.double().numpy(), self.columns, self.rows), shape=shape)

    def both_ways(self) -> tuple[csr_array, Tensor]:
        """Return the counts plus ``backward`` times those the other way round, and (ids,) their sums by first value."""
        if self._both is None:
            forward = self._table()
            both = (forward + float(self.numbers[BACKWARD]) * forward.T).tocsr()
            self._both = both, torch.from_numpy(both.sum(1)).float()
        return self._both

    def event_weights(self, batch: Batch) -> Tensor:
        """Return w of every event for every step, (batch, step, event); 0 of events that are not scored from."""
        time, numbers = batch.mask.shape[1], Numbers(*self.numbers.float())
        since = (torch.arange(time)[:, None] - torch.arange(time)).clamp(min=0)
        visible = band(time, reach=self.latest, own=True) & batch.mask[:, None, :]
        weights = visible * numbers.lag**since
        if self.numbers[-1] and batch.times.any():
            seconds = (batch.times[:, :, None] - batch.times[:, None, :]).clamp(min=0)
            weights = weights * (-self.numbers[-1] * seconds).exp().float()
        sums = self.both_ways()[1][batch.ids]
        return weights * torch.where(sums > 0, sums, torch.inf).pow(-numbers.power)[:, None, :]

    def _followers(self, batch: Batch, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what followed the latest events of each target step.

        Args:
            batch: on the CPU.
            weights: (targets, events) of the events.

        Returns:
            (followers,) row x ids + value and the share of each follower, and (targets,) the sum of pairs and prior.
        """
        from scipy.sparse import csr_array

        both, sums = self.both_ways()
        values = batch.ids[batch.target_mask.nonzero()[:, 0]]
        row, event = weights.nonzero(as_tuple=True)
        total = (weights * sums[values]).sum(1) + float(self.numbers[PRIOR])
        shares = (weights / total[:, None])[row, event].double().numpy()
        shape = (len(weights), self.num_ids)
        # A sparse (targets, ids) matrix of event weights times the (ids, ids) pairs gives the followers of each target.
        followers = (csr_array((shares, (row.numpy(), values[row, event].numpy())), shape=shape) @ both).tocoo()
        cell = torch.from_numpy(followers.row.astype(np.int64) * shape[1] + followers.col)
        return cell, torch.from_numpy(followers.data).float(), total

    def back(self) -> Tensor:
        """Return popularity, ever and lately, (ids,)."""
        if self._back is None:
            lately = float(self.numbers.float()[LATELY])
            self._back = (1 - lately) * Popularity.shares(self) + lately * self.recent.shares()
        return self._back

    def parts(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the nonzero terms of P beside popularity.

        Returns:
            (targets,) the factor of :meth:`back`; row x ids + value of what followed and of own values, some twice, and
            what each adds; and each event's part in it all, (batch, time, time).
        """
        weights, numbers = self.event_weights(batch), Numbers(*self.numbers.float())
        cell, followed, total = self._followers(batch, weights[batch.target_mask])
        own_cell, distance = own_values(batch, self.num_ids, self.settings.window)
        own, owner = numbers.repeat * self.repeats.shares(distance), own_cell // self.num_ids
        left = (1 - torch.zeros(len(total)).index_add_(0, owner, own)).clamp(min=LEFT)
        row, step = batch.target_mask.nonzero(as_tuple=True)
        weights *= self.both_ways()[1][batch.ids][:, None, :] * batch.target_mask[:, :, None]
        weights[row, step] *= (left / total)[:, None]
        weights[row[owner], step[owner], step[owner] + 1 - distance] += own
        added = torch.cat([left[cell // self.num_ids] * followed, own])
        return left * numbers.prior / total, torch.cat([cell, own_cell]), added, weights

    def __call__(self, batch: Batch) -> Output:
        """Return the scores, (targets, ids), and the weight of each event in them, (batch, time, time)."""
        factor, cell, added, weights = self.parts(batch)
        # log(factor x back + added) = log(factor) + log(back + added / factor), whose second part is one mixture.
        scores = log_mixture(self.back(), 1.0, len(factor), cell, added / factor[cell // self.num_ids])
        return Output(scores.add_(factor.log()[:, None]), (weights,))


def _pair_counts(pairs: csr_array, first: Index, second: Index) -> Floats:
    """Return the count of each pair, 0 where it never occurs."""
    num = pairs.shape[0]
    keys = np.repeat(np.arange(num), np.diff(pairs.indptr)) * num + pairs.indices
    wanted = first * num + second
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, pairs.data[index], 0.0) if len(keys) else np.zeros(wanted.shape)
