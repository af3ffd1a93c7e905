"""VS-kNN: vector multiplication session-based nearest neighbours (Ludewig & Jannach, UMUAI 2018, section 3.2).

Given the clicks of a session so far, rank the next one by what past sessions like it hold. Nothing is learned.

==============  =====================================================================================================
sample          ``VSKNN._meetings``: of the past sessions that share a click, the ``sample`` most recent ones
similarity      ``VSKNN._neighbours``: dot product of the session, its latest click 1 and earlier ones less by
                ``decay``, with a past session of zeros and ones; the ``neighbours`` highest stay
scores          ``VSKNN._score_rows``: sum over the neighbours that hold an item of similarity x the weight of the
                latest click they share x (1 + ``idf`` x ln(sessions / sessions with the item))
==============  =====================================================================================================

The weights by position are the 2018 paper's; those of the latest shared click and the inverse frequency came with the
authors' comparison with neural models (Ludewig, Mauro, Latifi & Jannach, RecSys 2019). A sample of 1,000 and 100
neighbours are the paper's; decay and inverse frequency were chosen on the last tenth of Diginetica's training sessions.

**Departures.** A weight depends on the distance from the latest click alone, not on the session's length, so that the
latest ``window`` clicks suffice. Of neighbours that are as similar the more recent ones stay. A little popularity is
added, so that every item has a place. A past session is the more recent the later it stands in the data.

An item is looked up in its ``sample`` latest sessions alone, which is exact: an older one has ``sample`` newer ones
beside it. A session that no item looks up is forgotten, so memory is bounded by items x ``sample``, not by the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ensue import kernels
from ensue.data.histories import Histories, Ids, Index, entries_of, ranges, scrambled
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.item_head import Output
from ensue.nn.validation import require_counts, require_ids, require_offsets
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.settings import VSKNNSettings
from ensue.vocabulary import FIRST

LOOKUPS = 2**20
"""Look-ups held at once (about 50 MB), whatever the batch."""
WIDEST = 256
"""Clicks of a session that the kernel compares at most."""
EVENTS = 2**18
"""So many events are counted at once."""


def decayed(decay: str, window: int) -> Tensor:
    """(window,) what a click weighs at each distance from the latest, which weighs 1."""
    away = torch.arange(window)
    if decay == "linear":
        return (1 - away / 10).clamp(min=0)
    return (1 + away) ** (-2.0 if decay == "quadratic" else -1.0)


class Clicks(NamedTuple):
    """The latest clicks of every target step, each item once, at its latest place; nearest first within a row."""

    row: Tensor
    event: Tensor
    item: Tensor
    away: Tensor


class Meetings(NamedTuple):
    """Every time a click is found in a sampled session, and which pair of row and session that belongs to."""

    click: Tensor
    pair: Tensor
    row: Tensor
    """(pairs,) in order, the most recent session of a row first."""
    session: Tensor
    """(pairs,)."""


class VSKNN(nn.Module):
    """CascadeStore sessions, and the search among them; see the module's table.

    Args:
        settings: sizes and weights.
        num_ids: size of the catalogue, padding and unknown included.
    """

    lengths_vary: ClassVar[tuple[str, ...]] = ("starts", "items")

    def __init__(self, settings: VSKNNSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("totals", torch.zeros(num_ids))
        self.register_buffer("holders", torch.zeros(num_ids))
        self.register_buffer("sessions", torch.zeros(1))
        self.register_buffer("starts", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("items", torch.zeros(0, dtype=torch.int32))
        self.totals: Tensor
        self.holders: Tensor
        self.sessions: Tensor
        self.starts: Tensor
        self.items: Tensor
        self.postings: tuple[Index, Index] | None = None
        self.decay = decayed(settings.decay, min(settings.window, WIDEST)).float()

    def validate(self, name: str) -> None:
        """See :class:`ensue.nn.validation.Validated`: the items of each session are ids, rising."""
        for key in ("totals", "holders", "sessions"):
            require_counts(f"{name}.{key}", getattr(self, key))
        require_offsets(f"{name}.starts", self.starts, len(self.items))
        require_ids(f"{name}.items", self.items, len(self.totals), FIRST)
        rising = torch.cat([torch.ones(1, dtype=torch.bool), self.items[1:] > self.items[:-1]])
        rising[self.starts[self.starts < len(self.items)]] = True  # the first item of a session
        if not bool(rising.all()):
            raise ValueError(f"{name}.items does not rise within a session")

    @property
    def reach(self) -> int | None:
        """Receptive field: the number of earlier events that can change a step's scores."""
        return self.settings.window - 1

    def count(self, histories: Histories) -> None:
        """Add encoded histories as the most recent sessions."""
        num_ids = len(self.totals)
        self.totals += torch.from_numpy(np.bincount(histories.ids, minlength=num_ids).astype(np.float32))
        owner, items = _distinct(histories, num_ids)
        self.holders += torch.from_numpy(np.bincount(items, minlength=num_ids).astype(np.float32))
        self.sessions += int(np.count_nonzero(np.diff(owner, prepend=-1)))
        old = len(self.starts) - 1
        self._keep(
            np.concatenate([np.repeat(np.arange(old), np.diff(self.starts.numpy())), owner + old]),
            np.concatenate([self.items.numpy(), items]),
        )

    def forget(self, histories: Histories) -> None:
        """Take back encoded sessions that were counted: each removes one session of the same items, the latest."""
        owner, items = _distinct(histories, len(self.totals))
        self.totals -= torch.from_numpy(np.bincount(histories.ids, minlength=len(self.totals)).astype(np.float32))
        self.holders -= torch.from_numpy(np.bincount(items, minlength=len(self.totals)).astype(np.float32))
        self.sessions -= len(np.unique(owner))
        for counts in (self.totals, self.holders, self.sessions):
            counts.clamp_(min=0)
        mine = Counter(_sums_of_hashes(items, np.flatnonzero(np.diff(owner, prepend=-1))).tolist())
        stays = np.ones(len(self.starts) - 1, np.bool_)
        theirs = _sums_of_hashes(self.items.numpy(), self.starts[:-1].numpy())
        for session in np.flatnonzero(np.isin(theirs, np.array([*mine], np.uint64)))[::-1].tolist():
            if mine[int(theirs[session])]:
                mine[int(theirs[session])] -= 1
                stays[session] = False
        self._keep_items(np.repeat(stays, np.diff(self.starts.numpy())))

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts and of all sessions."""
        places = torch.from_numpy(ids).long()
        self.totals[places] = self.holders[places] = 0
        self._keep_items(~np.isin(self.items.numpy(), ids))

    def _keep_items(self, stays: npt.NDArray[np.bool_]) -> None:
        """Keep some of the (session, item) pairs; a session without any goes."""
        owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts.numpy()))[stays]
        lengths = np.bincount(owner, minlength=1)
        self.items = torch.from_numpy(self.items.numpy()[stays])
        self.starts = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths[lengths > 0])]).astype(np.int64))
        self.postings = None

    def _keep(self, owner: Index, items: Index) -> None:
        """Keep the sessions that some item looks up, given all (session, item) pairs in order of sessions."""
        counts = np.bincount(items, minlength=len(self.totals))
        frequent = counts > self.settings.sample
        (some,) = np.nonzero(frequent[items])  # of all others every session is looked up
        codes = (np.cumsum(frequent) - 1)[items[some]]
        order = some[np.argsort(codes.astype(np.uint16) if frequent.sum() < 2**16 else codes, kind="stable")]
        stops = np.cumsum(counts * frequent)
        looked_up = ~frequent[items]
        looked_up[order] = stops[items[order]] - np.arange(len(order)) <= self.settings.sample
        used = np.zeros(int(owner.max(initial=-1)) + 1, np.bool_)
        used[owner[looked_up]] = True
        kept = used[owner]
        self.items = torch.from_numpy(items[kept].astype(np.int32))
        lengths = np.bincount(owner[kept], minlength=len(used))[used]
        self.starts = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
        self.postings = None

    def grow(self, num_ids: int) -> VSKNN:
        """Return these sessions resized for more ids; known ids keep theirs, new ones start at 0."""
        grown = VSKNN(self.settings, num_ids)
        grown.totals[: len(self.totals)] = self.totals
        grown.holders[: len(self.holders)] = self.holders
        grown.sessions, grown.starts, grown.items = self.sessions.clone(), self.starts, self.items
        return grown

    def shares(self) -> Tensor:
        """(ids,) each value's share of all events."""
        return self.totals / self.totals.sum().clamp(min=1)

    def beside(self, vectors: Tensor) -> Tensor:
        """(ids, dim) the mean vector of what past sessions held beside each item; 0 where they held nothing else."""
        items, lengths = self.items.long(), self.starts.diff()
        owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        sessions = torch.zeros(len(lengths), vectors.shape[1]).index_add_(0, owner, vectors[items])
        sums = torch.zeros_like(vectors).index_add_(0, items, sessions[owner] - vectors[items])
        return sums / torch.zeros(len(vectors)).index_add_(0, items, lengths[owner] - 1.0).clamp(min=1)[:, None]

    def rarity(self) -> Tensor:
        """(ids,) the factor that inverse frequency gives an item."""
        return 1 + self.settings.idf * (self.sessions / self.holders.clamp(min=1)).clamp(min=1).log()

    def forward(self, batch: Batch) -> Output:
        """Scores (targets, ids), and each event's part of the neighbours' similarity, (batch, time, time)."""
        cell, shares, weights = self.score(batch)
        rows = int(batch.target_mask.sum())
        return Output(log_mixture(self.totals, self.settings.popularity, rows, cell, shares), (weights,))

    def score(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Score the items of the neighbours.

        Returns:
            row x ids + item of every time a neighbour of a target step holds an item, what that adds to the item's
            share (a row's sum to 1), and each event's part of the neighbours' similarity, (batch, time, time).
        """
        if kernels.is_loaded() and self.settings.window <= WIDEST and batch.ids.is_cpu:
            return self._score_compiled(batch)
        clicks = self._clicks(batch)
        mass = torch.zeros(len(clicks.row))
        scored = [self._score_rows(Clicks(*(c[part] for c in clicks)), mass[part]) for part in self._parts(clicks)]
        row, step = batch.target_mask.nonzero(as_tuple=True)
        weights = torch.zeros(batch.mask.shape + batch.mask.shape[1:])
        weights[row[clicks.row], step[clicks.row], clicks.event] = mass
        cells, shares = ([part[side] for part in scored] for side in (0, 1))
        none = torch.zeros(0)
        return (
            torch.cat([none.long(), *cells]),
            torch.cat([none, *shares]),
            weights / weights.sum(-1, keepdim=True).clamp(min=1e-30),
        )

    def _score_compiled(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        settings, (postings, stops) = self.settings, self._looked_up()
        rows, steps = batch.target_mask.nonzero(as_tuple=True)
        weights = torch.empty(*batch.ids.shape, batch.ids.shape[1])
        prepared = kernels.prepare(
            "neighbours", ids=batch.ids.contiguous(), rows=rows, steps=steps, decay=self.decay, postings=postings,
            stops=stops, starts=self.starts, items=self.items, holders=self.holders, sessions=float(self.sessions),
            idf=settings.idf, window=settings.window, sample=settings.sample, neighbours=settings.neighbours,
            num_ids=len(self.totals), num_sessions=len(self.starts) - 1, weights=weights,
        )  # fmt: skip
        count, room = 16 * len(rows) * min(settings.neighbours, settings.sample), -1
        while count > room:  # the kernel returns how much room it needs
            room = count
            cells, shares = torch.empty(room, dtype=torch.int64), torch.empty(room)
            count = kernels.call("neighbours", prepared, cells=cells, shares=shares)
        return cells[:count], shares[:count], weights

    def _score_rows(self, clicks: Clicks, mass: Tensor) -> tuple[Tensor, Tensor]:
        """Score the items of some rows' neighbours and add each click's contribution to ``mass``."""
        decay = decayed(self.settings.decay, int(clicks.away.max()) + 1)
        meetings = self._meetings(clicks)
        met = clicks.away[meetings.click]
        similar = torch.zeros(len(meetings.row)).index_add_(0, meetings.pair, decay[met])
        latest = torch.full((len(meetings.row),), len(decay) - 1).scatter_reduce(0, meetings.pair, met, "amin")
        similarity = decay[latest] * self._neighbours(meetings, similar)
        mass.index_add_(0, meetings.click, decay[met] * similarity[meetings.pair])
        similarity *= similar

        pairs = similarity.nonzero()[:, 0]
        owner, place = map(torch.from_numpy, entries_of(self.starts.numpy(), meetings.session[pairs].numpy()))
        entry, pair = self.items[place].long(), pairs[owner]
        row, shares = meetings.row[pair], similarity[pair] * self.rarity()[entry]
        shares /= torch.zeros(int(clicks.row[-1]) + 1).index_add_(0, row, shares)[row]
        return row * len(self.totals) + entry, shares

    def _parts(self, clicks: Clicks) -> Iterator[slice]:
        """Split rows into chunks whose look-ups find at most about ``LOOKUPS`` sessions."""
        ends = np.cumsum(self._lengths(clicks.item.numpy()))
        (firsts,) = np.nonzero(np.diff(clicks.row.numpy(), prepend=-1))
        cuts = firsts[np.flatnonzero(np.diff(ends[firsts] // LOOKUPS, prepend=-1))].tolist()
        return (slice(low, high) for low, high in pairwise([*cuts, len(ends)]))

    def _looked_up(self) -> tuple[Index, Index]:
        """The sessions of every item, rising, and where those of each id begin; the last number is where all end."""
        if self.postings is None:
            order = np.argsort(self.items.numpy(), kind="stable")
            owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts.numpy()))
            counts = np.bincount(self.items.numpy(), minlength=len(self.totals))
            self.postings = owner[order], np.concatenate([[0], np.cumsum(counts)])
        return self.postings

    def _lengths(self, ids: Index) -> Index:
        """Return the number of sessions that each item looks up."""
        _, stops = self._looked_up()
        lengths: Index = np.minimum(stops[ids + 1] - stops[ids], self.settings.sample)
        return lengths

    def _clicks(self, batch: Batch) -> Clicks:
        """The latest ``window`` clicks of every target step, an item that comes again at its latest place alone."""
        # After clicks a b a the places looked at are 2 1 0, hence a b a; the last of these is a again and is left out.
        row, step = batch.target_mask.nonzero(as_tuple=True)
        away = torch.arange(min(self.settings.window, batch.ids.shape[1]))
        where = step[:, None] - away
        ids = batch.ids[row[:, None], where.clamp(min=0)]
        again = ((ids[:, :, None] == ids[:, None, :]) & (away[:, None] > away)).any(2)
        number, place = ((where >= 0) & ~again).nonzero(as_tuple=True)
        return Clicks(number, where[number, place], ids[number, place], place)

    def _meetings(self, clicks: Clicks) -> Meetings:
        """The sampled sessions of every row, and which clicks each holds."""
        ids = clicks.item.numpy()
        lengths = self._lengths(ids)
        assert self.postings is not None
        sessions, stops = self.postings
        click = torch.from_numpy(np.repeat(np.arange(len(ids)), lengths))
        session = torch.from_numpy(sessions[ranges(stops[ids + 1] - lengths, lengths)])
        num = max(1, len(self.starts) - 1)
        keys, order = torch.sort(clicks.row[click] * num + (num - 1 - session), stable=True)
        distinct, pair = torch.unique_consecutive(keys, return_inverse=True)
        row = distinct // num
        taken = _places(row) < self.settings.sample
        number = taken.cumsum(0) - 1
        inside = taken[pair]
        return Meetings(click[order[inside]], number[pair[inside]], row[taken], (num - 1 - distinct % num)[taken])

    def _neighbours(self, meetings: Meetings, similar: Tensor) -> Tensor:
        """(pairs,) True for the ``neighbours`` most similar sessions of each row, the more recent of equals."""
        order = similar.argsort(descending=True, stable=True)
        order = order[meetings.row[order].argsort(stable=True)]
        return torch.zeros(len(order), dtype=torch.bool).index_put_(
            (order[_places(meetings.row[order]) < self.settings.neighbours],), torch.tensor(True)
        )


def _distinct(histories: Histories, num_ids: int) -> tuple[Index, Ids]:
    """(pairs,) session and item of every item that a session holds, in order; some sessions at a time."""
    cuts = np.flatnonzero(np.diff(histories.offsets // EVENTS)) + 1
    keys = [np.zeros(0, np.int64)]
    for low, high in pairwise([0, *cuts[cuts < len(histories)].tolist(), len(histories)]):
        lengths = histories.lengths[low:high]
        held = histories.ids[histories.offsets[low] : histories.offsets[high]]
        keys.append(np.unique(np.repeat(np.arange(low, high), lengths) * num_ids + held))
    pairs = np.concatenate(keys)
    return pairs // num_ids, (pairs % num_ids).astype(np.int32)


def _sums_of_hashes(items: Ids, starts: Index) -> npt.NDArray[np.uint64]:
    """(sessions,) a 64-bit number for the items of each session, whatever their order."""
    if not len(starts):
        return np.empty(0, np.uint64)
    return np.add.reduceat(scrambled(items.astype(np.uint64)), starts)


def _places(rows: Tensor) -> Tensor:
    """(n,) the place of each entry within its row, 0 first; ``rows`` are in order: of [3 3 7 7 7] it is [0 1 0 1 2]."""
    return torch.arange(len(rows)) - torch.searchsorted(rows, rows)


def _compiled_log_mixture(totals: Tensor, popularity: float, rows: int, cells: Tensor, shares: Tensor) -> Tensor:
    out, factor = totals.new_empty(rows, len(totals)), popularity / max(1.0, float(totals.sum()))
    kernels.call(
        "log_mixture", totals=totals, factor=factor, cells=cells.contiguous(), added=shares.contiguous(), out=out
    )
    return out


def _suits_log_mixture(totals: Tensor, popularity: float, rows: int, cells: Tensor, shares: Tensor) -> bool:
    return is_float32_on_cpu(totals) and cells.is_cpu and totals.numel() > 0 and not totals.requires_grad


@kernels.compiled(_compiled_log_mixture, when=_suits_log_mixture)
def log_mixture(totals: Tensor, popularity: float, rows: int, cells: Tensor, shares: Tensor) -> Tensor:
    """Return the logarithms of the neighbours' shares plus those of all events, (rows, ids).

    Args:
        totals: (ids,) occurrences.
        popularity: weight of an item's share of all occurrences.
        rows: of the result.
        cells: (shares,) positions row x ids + id.
        shares: (shares,) addends.
    """
    scores = (popularity * (totals / totals.sum().clamp(min=1))).repeat(rows, 1)
    scores.view(-1).index_add_(0, cells, shares)
    return scores.log_()
