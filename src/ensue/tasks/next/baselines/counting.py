"""Counting predictors: what a model must beat to be worth its training. One pass over the data, nothing learned.

Each is a module like the trained ones: ``forward`` gives scores (here logarithms of non-negative weights, so that a
softmax returns their shares), and ``count`` takes the place of training. Counting more data later simply adds.

``cooccurrence`` is directed: every pair of events at most ``window`` apart adds 1 / gap to (earlier, later). The score
of a candidate is the sum over the latest events of count / (row total ** ``power``) / gap, plus ``popularity`` times
the candidate's share of all events.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ensue.data.histories import Histories, Ids, Index, entries_of, ranges
from ensue.metrics import Floats
from ensue.nn.attention import band
from ensue.nn.item_head import Output
from ensue.nn.validation import require_counts, require_ids, require_offsets, require_table
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.settings import CountingSettings
from ensue.vocabulary import FIRST

DENSE = 4096
"""Catalogues up to this size are counted in a full table while scoring."""
PAIRS = 2**20
"""So many pairs are counted at once: some 50 MB, so that a log of any size is counted near the processor's cache."""


class Popularity(nn.Module):
    """Frequency of each item, independent of the history."""

    reach: int | None = 0
    lengths_vary: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: CountingSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("totals", torch.zeros(num_ids))
        self.totals: Tensor

    def validate(self, name: str) -> None:
        """See :class:`ensue.nn.validation.Validated`: all that is counted is 0 or more, and 0 for the placeholders."""
        for key, table in self.named_buffers(recurse=False):
            if table.is_floating_point():
                require_counts(f"{name}.{key}", table)
        if bool(self.totals[:FIRST].any()):
            raise ValueError(f"{name}.totals counts padding or unknown values")

    def count(self, histories: Histories) -> None:
        """Add the events of encoded histories."""
        self.totals += torch.from_numpy(np.bincount(histories.ids, minlength=len(self.totals)).astype(np.float32))

    def forget(self, histories: Histories) -> None:
        """Take back the events of encoded histories that were counted."""
        self.totals -= torch.from_numpy(np.bincount(histories.ids, minlength=len(self.totals)).astype(np.float32))
        self.totals.clamp_(min=0)

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts."""
        self.totals[torch.from_numpy(ids).long()] = 0

    def grow(self, num_ids: int) -> Popularity:
        """Return these counts resized for more ids; known ids keep theirs, new ones start at 0."""
        grown = type(self)(self.settings, num_ids)
        grown.totals[: len(self.totals)] = self.totals
        return grown

    def shares(self) -> Tensor:
        """(ids,) each value's share of all events."""
        return self.totals / self.totals.sum().clamp(min=1)

    def forward(self, batch: Batch) -> Output:
        """Return the same scores for every target step; events get no weights."""
        scores = self.shares().log().expand(int(batch.target_mask.sum()), -1)
        return Output(scores.clone(), (torch.zeros(batch.mask.shape + batch.mask.shape[-1:]),))


class Cooccurrence(Popularity):
    """Directed co-occurrence of the latest ``window`` events; see the module for the formula."""

    lengths_vary = ("columns", "counts")

    def __init__(self, settings: CountingSettings, num_ids: int) -> None:
        super().__init__(settings, num_ids)
        self.register_buffer("rows", torch.zeros(num_ids + 1, dtype=torch.int64))
        self.register_buffer("columns", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("counts", torch.zeros(0))
        self.rows: Tensor
        self.columns: Tensor
        self.counts: Tensor
        self.table: Tensor | None = None

    @property
    def gap(self) -> int:
        """The largest distance at which a pair counts."""
        return self.settings.window

    @property
    def latest(self) -> int:
        """Number of latest events that are scored from."""
        return self.gap

    @property
    def reach(self) -> int | None:  # type: ignore[override]
        """Receptive field: the number of earlier events that can change a step's scores."""
        return self.latest - 1

    def validate(self, name: str) -> None:
        """See :class:`ensue.nn.validation.Validated`: ``rows`` cuts the pairs into one row per id."""
        super().validate(name)
        require_offsets(f"{name}.rows", self.rows, len(self.columns), len(self.totals))
        require_table(f"{name}.counts", self.counts, torch.float32, self.columns.shape)
        require_ids(f"{name}.columns", self.columns, len(self.totals), FIRST)

    def count(self, histories: Histories) -> None:
        """Add the events and pairs of encoded histories, the pairs of some ids at a time."""
        super().count(histories)
        ids, num_ids = histories.ids, len(self.totals)
        ends = histories.offsets[1:][histories.sequence_index()]
        followed = np.minimum(ends - np.arange(len(ids)) - 1, self.gap)
        work = np.bincount(ids, followed, num_ids) + np.diff(self.rows.numpy())
        part_of = (np.cumsum(work) // PAIRS).astype(np.int64)
        part_of = np.cumsum(np.diff(part_of, prepend=part_of[:1]) > 0)  # without gaps: a popular id may fill several
        bounds = [0, *(np.flatnonzero(np.diff(part_of)) + 1).tolist(), num_ids]
        own = part_of[ids].astype(np.uint16 if len(bounds) < 2**16 else np.int64)
        order = np.argsort(own, kind="stable")  # of 16 bits it is a radix sort: time grows with the events alone
        stops = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=len(bounds) - 1))])
        parts = []
        for number, (low, high) in enumerate(pairwise(bounds)):
            places = order[stops[number] : stops[number + 1]]
            parts.append(self._most_counted(*self._added(low, high, *_sums(ids, places, followed[places], num_ids))))
        pairs, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
        self.rows = torch.from_numpy(np.searchsorted(pairs, np.arange(num_ids + 1) * num_ids))
        self.columns = torch.from_numpy((pairs % num_ids).astype(np.int32))
        self.counts = torch.from_numpy(counts.astype(np.float32))
        self.table = None

    def forget(self, histories: Histories) -> None:
        """Take back the events and pairs of encoded histories that were counted; what is left of a pair stays."""
        super().forget(histories)
        trial, num_ids = type(self)(self.settings, len(self.totals)), len(self.totals)
        Cooccurrence.count(trial, histories)
        pairs, theirs = (model._earlier() * num_ids + model.columns.numpy() for model in (self, trial))
        place = np.searchsorted(pairs, theirs).clip(max=max(len(pairs) - 1, 0))
        there = pairs[place] == theirs if len(pairs) else np.zeros(len(theirs), np.bool_)
        counts = self.counts.double().numpy().copy()
        counts[place[there]] -= trial.counts.double().numpy()[there]
        self._keep_pairs(counts > 0.5 / self.gap, counts)  # a pair that is left counts at least 1 / gap

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts and pairs."""
        super().forget_ids(ids)
        stays = ~np.isin(self._earlier(), ids) & ~np.isin(self.columns.numpy(), ids)
        self._keep_pairs(stays, self.counts.double().numpy())

    def _keep_pairs(self, stays: npt.NDArray[np.bool_], counts: Floats) -> None:
        """Keep some of the pairs, with other counts."""
        earlier = self._earlier()[stays]
        self.rows = torch.from_numpy(np.searchsorted(earlier, np.arange(len(self.totals) + 1)))
        self.columns = torch.from_numpy(self.columns.numpy()[stays])
        self.counts = torch.from_numpy(counts[stays].astype(np.float32))
        self.table = None

    def _added(self, low: int, high: int, pairs: Index, sums: Floats) -> tuple[Index, Floats]:
        """Pairs of the ids from ``low`` to before ``high``, in order, and their counts: the new ones and those here."""
        begin, end = self.rows[[low, high]].tolist()
        if begin == end:
            return pairs, sums
        earlier = np.repeat(np.arange(low, high), np.diff(self.rows[low : high + 1].numpy()))
        old = earlier * len(self.totals) + self.columns[begin:end].numpy()
        every, codes = np.unique(np.concatenate([old, pairs]), return_inverse=True)
        both = np.bincount(codes, np.concatenate([self.counts[begin:end].double().numpy(), sums]), len(every))
        return every, both.astype(np.float64)

    def _most_counted(self, pairs: Index, counts: Floats) -> tuple[Index, Floats]:
        """Return the ``keep`` highest counts per earlier id; ties go to the smaller ids."""
        _, starts, lengths = np.unique(pairs // len(self.totals), return_index=True, return_counts=True)
        kept = np.ones(len(pairs), np.bool_)
        for start, length in zip(
            starts[lengths > self.settings.keep], lengths[lengths > self.settings.keep], strict=True
        ):
            falling = np.argsort(-counts[start : start + length].astype(np.float32), kind="stable")
            kept[start + falling[self.settings.keep :]] = False
        return pairs[kept], counts[kept]

    def grow(self, num_ids: int) -> Cooccurrence:
        """Return these counts resized for more ids."""
        grown = cast(Cooccurrence, super().grow(num_ids))
        grown.rows[: len(self.rows)] = self.rows
        grown.rows[len(self.rows) :] = self.rows[-1]
        grown.columns, grown.counts = self.columns, self.counts
        return grown

    def _earlier(self) -> Index:
        return np.repeat(np.arange(len(self.totals)), np.diff(self.rows.numpy()))

    def row_totals(self) -> Tensor:
        """(ids,) sum of each value's counts over its successors."""
        sums = torch.cat([torch.zeros(1, dtype=torch.float64), self.counts.double().cumsum(0)])
        return (sums[self.rows[1:]] - sums[self.rows[:-1]]).float()

    def recency(self, batch: Batch) -> Tensor:
        """(batch, step, event) weight 1 / gap of every event for every step, 0 outside the window."""
        time = batch.mask.shape[1]
        steps = torch.arange(time)
        gaps = (steps[:, None] - steps[None, :] + 1).clamp(min=1)
        visible = band(time, reach=self.latest, own=True) & batch.mask[:, None, :]
        return visible / gaps

    def forward(self, batch: Batch) -> Output:
        """Scores (targets, ids) and each event's part of the counted mass, (batch, time, time)."""
        num_ids, totals = len(self.totals), self.row_totals()
        weights = self.recency(batch) * totals.clamp(min=1e-9).pow(-self.settings.power)[batch.ids][:, None, :]
        rows = weights[batch.target_mask]  # (targets, time)
        values = batch.ids[batch.target_mask.nonzero()[:, 0]]
        target, event = rows.nonzero(as_tuple=True)
        value = values[target, event]
        weight = rows[target, event]
        scores = (self.settings.popularity * self.shares()).repeat(len(rows), 1)
        if num_ids <= DENSE:
            self._add_dense(scores, target, value, weight)
        else:
            self._add_sparse(scores, target, value, weight)
        mass = weights * totals[batch.ids][:, None, :]
        shares = mass / mass.sum(-1, keepdim=True).clamp(min=1e-30)
        return Output(scores.log(), (shares,))

    def _add_dense(self, scores: Tensor, target: Tensor, value: Tensor, weight: Tensor) -> None:
        """Add weighted rows of a full (ids, ids) table: the faster way while the table is small."""
        if self.table is None:
            self.table = torch.zeros(len(self.totals), len(self.totals))
            self.table[self._earlier(), self.columns] = self.counts
        weights = torch.zeros_like(scores).index_put_((target, value), weight, accumulate=True)
        scores.addmm_(weights, self.table)

    def _add_sparse(self, scores: Tensor, target: Tensor, value: Tensor, weight: Tensor) -> None:
        """Add the same sums over the kept entries alone."""
        pair, entry = map(torch.from_numpy, entries_of(self.rows.numpy(), value.numpy()))
        at = (target * len(self.totals))[pair] + self.columns[entry]
        scores.view(-1).index_add_(0, at, weight[pair] * self.counts[entry])


def _sums(ids: Ids, places: Index, followed: Index, num_ids: int) -> tuple[Index, Floats]:
    """The pairs of some events with so many that follow each, in order, and the sum of 1 / gap of each pair."""
    # Ids 5 7 5, each with all that follow: followed [2 1 0], gaps [1 2 1], pairs 5-7, 5-5, 7-5 as first x ids + second.
    gap, far = ranges(np.ones_like(followed), followed), int(followed.max(initial=0)) + 1
    pairs = np.repeat(ids[places].astype(np.int64) * num_ids, followed) + ids[np.repeat(places, followed) + gap]
    keys = np.sort(pairs * far + gap)  # the gap goes with its pair, so that no order of sums depends on the log's
    pairs = keys // far
    (starts,) = np.nonzero(np.diff(pairs, prepend=-1))
    return pairs[starts], np.add.reduceat(1 / np.maximum(keys % far, 1), starts) if len(starts) else np.zeros(0)


class Markov(Cooccurrence):
    """First order: what followed the last event, popularity where nothing did."""

    @property
    def gap(self) -> int:
        """Only the next event counts."""
        return 1


class SequentialRules(Cooccurrence):
    """Items up to ten events after the last one, weighted by 1 / gap (Ludewig & Jannach 2018); else popularity."""

    @property
    def gap(self) -> int:
        """Pairs at most ten events apart count."""
        return min(10, self.settings.window)

    @property
    def latest(self) -> int:
        """The last event alone has a say."""
        return 1
