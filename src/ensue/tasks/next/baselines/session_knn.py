"""VS-kNN: vector multiplication session-based nearest neighbours (Ludewig & Jannach, UMUAI 2018, section 3.2).

Given the clicks of a session so far, rank the next one by what past sessions like it hold. Nothing is learned.

==============  =====================================================================================================
sample          ``VSKNN._search``: of the past sessions that share a click, the ``sample`` most recent ones
similarity      the same: dot product of the session, its latest click 1 and earlier ones less by
                ``decay``, with a past session of zeros and ones; the ``neighbours`` highest stay
scores          ``VSKNN.score``: sum over the neighbours that hold an item of similarity x the weight of the
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
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ensue import kernels
from ensue.data.histories import Histories, Ids, Index, Mask, entries_of, offsets_of, scrambled
from ensue.nn.validation import MAX_COUNT, require_ids, require_offsets, require_table
from ensue.tasks.next.baselines.counting import Counts, ItemCounts, log_mixture, require_item_counts
from ensue.tasks.next.batch import PaddedBatch, ScoredBatch
from ensue.tasks.next.settings import VSKNNSettings
from ensue.topk import Scores
from ensue.vocabulary import FIRST

WIDEST = 256
"""Maximum number of clicks of a session that the kernel compares."""
AT_ONCE = 128
"""Approximate number of targets per chunk: each lists all items of hundreds of past sessions."""
EVENTS = 2**18
"""Number of events that are counted per chunk."""


def decayed(decay: str, window: int) -> Scores:
    """Return the weight of a click at each distance from the latest, which weighs 1: (window,)."""
    distance = np.arange(window, dtype=np.float32)
    if decay == "linear":
        return np.maximum(1 - distance / 10, 0)
    return (1 + distance) ** (-2.0 if decay == "quadratic" else -1.0)


@dataclass(eq=False)
class VSKNN(ItemCounts):
    """Past sessions, and the search among them; see the module's table.

    Attributes:
        holders: (ids,) number of sessions that hold each item.
        num_sessions: all that were counted.
        starts: (stored sessions + 1,) session ``s`` holds ``items[starts[s]:starts[s + 1]]``; the most recent is last.
        items: (entries,) ids, rising within a session.
    """

    weighs_events = False

    settings: VSKNNSettings
    holders: Counts = None  # type: ignore[assignment]  # zeros unless given
    num_sessions: Annotated[int, Field(ge=0, lt=MAX_COUNT)] = 0
    starts: Index = field(default_factory=lambda: np.zeros(1, np.int64))
    items: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    _postings: tuple[Index, Index] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Check that the items of each session are ids, rising.

        Raises:
            ValueError: they are not, or the tables are not of one catalogue.
        """
        super().__post_init__()
        if self.holders is None:
            self.holders = np.zeros(self.num_ids, np.float32)
        require_item_counts("holders", self.holders, self.num_ids)
        require_table("items", self.items, np.int32, [None])
        require_offsets("starts", self.starts, len(self.items))
        require_ids("items", self.items, self.num_ids, FIRST)
        # Items must rise within a session; the first item of each session may be smaller than the one before it.
        rising = np.diff(self.items, prepend=0) > 0
        rising[self.starts[self.starts < len(self.items)]] = True  # the first item of a session
        if not rising.all():
            raise ValueError("items does not rise within a session")
        self._decay = decayed(self.settings.decay, min(self.settings.window, WIDEST))

    @property
    def reach(self) -> int | None:
        """Receptive field: the number of earlier events that can change a step's scores."""
        return self.settings.window - 1

    def count(self, histories: Histories) -> None:
        """Add encoded histories as the most recent sessions."""
        super().count(histories)
        owner, items = _distinct(histories, self.num_ids)
        self.holders += self._occurrences(items)
        self.num_sessions += int(np.count_nonzero(np.diff(owner, prepend=-1)))
        num_stored = len(self.starts) - 1
        self._store_looked_up(
            np.concatenate([self.sessions_of_entries(), owner + num_stored]), np.concatenate([self.items, items])
        )

    def forget(self, histories: Histories) -> None:
        """Take back encoded sessions that were counted: each removes one session of the same items, the latest."""
        super().forget(histories)
        owner, items = _distinct(histories, self.num_ids)
        self.holders = np.maximum(self.holders - self._occurrences(items), 0)
        self.num_sessions = max(0, self.num_sessions - len(np.unique(owner)))
        # Sessions are recognised by a hash of their items; equal sessions are removed one for one, the latest first.
        to_forget = Counter(_sums_of_hashes(items, np.flatnonzero(np.diff(owner, prepend=-1))).tolist())
        hashes = _sums_of_hashes(self.items, self.starts[:-1])
        remaining = np.ones(len(hashes), np.bool_)
        for session in np.flatnonzero(np.isin(hashes, np.array([*to_forget], np.uint64)))[::-1].tolist():
            if to_forget[int(hashes[session])]:
                to_forget[int(hashes[session])] -= 1
                remaining[session] = False
        self._store(remaining[self.sessions_of_entries()])

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts and of all sessions."""
        super().forget_ids(ids)
        self.holders[ids] = 0
        self._store(~np.isin(self.items, ids))

    def _store(self, mask: Mask) -> None:
        """Store some of the entries alone; a session without any goes."""
        # Sessions without entries have length 0 and lose their place.
        lengths = np.bincount(self.sessions_of_entries()[mask])
        self.items = self.items[mask]
        self.starts = offsets_of(lengths[lengths > 0])
        self._postings = None

    def _store_looked_up(self, owner: Index, items: Ids) -> None:
        """Store the sessions that some item looks up, given the session and the item of all entries, in order."""
        counts = np.bincount(items, minlength=self.num_ids)
        is_frequent = counts > self.settings.sample
        (entries,) = np.nonzero(is_frequent[items])  # of all other items every session is looked up
        # Entries of frequent items, item after item; an item looks up its last ``sample`` entries.
        codes = (np.cumsum(is_frequent) - 1)[items[entries]]
        order = entries[np.argsort(codes.astype(np.uint16) if is_frequent.sum() < 2**16 else codes, kind="stable")]
        stops = np.cumsum(counts * is_frequent)
        is_looked_up = ~is_frequent[items]
        is_looked_up[order] = stops[items[order]] - np.arange(len(order)) <= self.settings.sample
        used = np.zeros(int(owner.max(initial=-1)) + 1, np.bool_)
        used[owner[is_looked_up]] = True
        mask = used[owner]
        self.items = items[mask].astype(np.int32)
        self._postings = None
        self.starts = offsets_of(np.bincount(owner[mask], minlength=len(used))[used])

    def grow(self, num_ids: int) -> Self:
        """Return these sessions resized for more ids; known ids keep theirs, new ones start at 0."""
        grown = super().grow(num_ids)
        grown.holders = np.pad(self.holders, (0, num_ids - self.num_ids))
        grown._postings = None
        return grown

    def sessions_of_entries(self) -> Index:
        """Return the session of each entry of ``items``, (entries,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def rarity(self) -> Scores:
        """Return the factor that inverse frequency gives each item, (ids,)."""
        quotients = self.num_sessions / np.maximum(self.holders, 1)
        return (1 + self.settings.idf * np.log(np.maximum(quotients, 1))).astype(np.float32, copy=False)

    def __call__(self, batch: PaddedBatch) -> ScoredBatch:
        """Return the scores, (targets, ids), and each event's part of the similarity, (batch, time, time)."""
        scores, weights = [], []
        for chunk in batch.split(AT_ONCE):
            cells, shares, similarity = self.score(chunk)
            num_targets = chunk.num_steps
            scores.append(log_mixture(self.totals, self.settings.popularity, num_targets, cells, shares))
            weights.append(similarity)
        # One part is not copied: its scores are the largest block of an answer.
        return ScoredBatch(scores[0] if len(scores) == 1 else np.concatenate(scores), (np.concatenate(weights),))

    def score(self, batch: PaddedBatch) -> tuple[Index, Scores, Scores]:
        """Score the items of the neighbours.

        Returns:
            row x ids + item of every time a neighbour of a target step holds an item, what that adds to the item's
            share (a row's sum to 1), and each event's part of the neighbours' similarity, (batch, time, time).
        """
        if kernels.is_loaded() and self.settings.window <= WIDEST:
            return self._score_compiled(batch)
        rows, steps = batch.target_mask.nonzero()
        ids = batch.ids
        weights = np.zeros((*ids.shape, ids.shape[1]), np.float32)
        cells, shares = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        decay = decayed(self.settings.decay, ids.shape[1])
        rarity = self.rarity()
        for target, (row, step) in enumerate(zip(rows.tolist(), steps.tolist(), strict=True)):
            latest_first = ids[row, max(0, step + 1 - self.settings.window) : step + 1][::-1]
            items, distances = np.unique(latest_first, return_index=True)  # an item counts at its latest click alone
            neighbours, similar, of_click = self._search(items, distances, decay)
            # Flatten the items of all neighbours; owner is the neighbour of each entry.
            owner, entries = entries_of(self.starts, neighbours)
            scores = similar[owner] * rarity[self.items[entries]]
            cells.append(target * self.num_ids + self.items[entries].astype(np.int64))
            shares.append(scores / max(scores.sum(), np.finfo(np.float32).tiny))
            # A click at distance d from the target step is the event d steps earlier.
            weights[row, step, step - distances] = of_click
        weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-30)
        return np.concatenate(cells), np.concatenate(shares), weights

    def _score_compiled(self, batch: PaddedBatch) -> tuple[Index, Scores, Scores]:
        settings = self.settings
        postings, stops = self._looked_up()
        rows, steps = map(np.ascontiguousarray, batch.target_mask.nonzero())
        weights = np.empty((*batch.ids.shape, batch.ids.shape[1]), np.float32)
        prepared = kernels.prepare(
            "neighbours", ids=np.ascontiguousarray(batch.ids), rows=rows, steps=steps, decay=self._decay,
            postings=postings, stops=stops, starts=self.starts, items=self.items, holders=self.holders,
            sessions=float(self.num_sessions), idf=settings.idf, window=settings.window, sample=settings.sample,
            neighbours=settings.neighbours, num_ids=self.num_ids, num_sessions=len(self.starts) - 1, weights=weights,
        )  # fmt: skip
        # A first guess of the number of entries; the buffers grow to the number that the kernel returns.
        num_entries = 16 * len(rows) * min(settings.neighbours, settings.sample)
        capacity = -1
        while num_entries > capacity:  # the kernel returns how many entries there are
            capacity = num_entries
            cells = np.empty(capacity, np.int64)
            shares = np.empty(capacity, np.float32)
            num_entries = kernels.call("neighbours", prepared, cells=cells, shares=shares)
        return cells[:num_entries], shares[:num_entries], weights

    def _search(self, items: Index, distances: Index, decay: Scores) -> tuple[Index, Scores, Scores]:
        """Search the neighbours of one session.

        Args:
            items: (clicks,) the distinct items of its latest clicks.
            distances: (clicks,) the distance of each from the latest click, which is at 0.
            decay: (distances,) the weight of a click at each distance.

        Returns:
            (neighbours,) past sessions, the weight of each, and (clicks,) the part of each click in these weights.
        """
        settings = self.settings
        postings, stops = self._looked_up()
        # The sample: the most recent sessions that hold any of the items, the most recent first.
        lists = [postings[max(stops[id], stops[id + 1] - settings.sample) : stops[id + 1]] for id in items.tolist()]
        sampled = np.unique(np.concatenate(lists))[::-1][: settings.sample]
        # (clicks, sampled) the decay of each shared click, the nearest first. Their sum is the similarity of a session.
        order = np.argsort(distances)
        shared = np.stack([np.isin(sampled, lists[click]) * decay[distances[click]] for click in order.tolist()])
        similar, nearest = shared.sum(0), shared.max(0)
        neighbours = np.argsort(-similar, kind="stable")[: settings.neighbours]  # of equals the more recent ones
        # A neighbour whose shared clicks all have weight 0 adds nothing.
        neighbours = neighbours[nearest[neighbours] > 0]
        of_click = np.empty(len(items), np.float32)
        of_click[order] = (shared * nearest)[:, neighbours].sum(1)
        return sampled[neighbours], (similar * nearest)[neighbours], of_click

    def _looked_up(self) -> tuple[Index, Index]:
        """Return the sessions of every item, rising, and where those of each id begin; the last number is the end."""
        if self._postings is None:
            # A stable sort by item keeps the sessions of each item in order of time.
            order = np.argsort(self.items, kind="stable")
            self._postings = (
                self.sessions_of_entries()[order],
                offsets_of(np.bincount(self.items, minlength=self.num_ids)),
            )
        return self._postings


def _distinct(histories: Histories, num_ids: int) -> tuple[Index, Ids]:
    """(pairs,) session and item of every item that a session holds, in order; some sessions at a time."""
    # Cut between histories, after about every EVENTS events.
    cuts = np.flatnonzero(np.diff(histories.offsets // EVENTS)) + 1
    keys = [np.zeros(0, np.int64)]
    for low, high in pairwise([0, *cuts[cuts < len(histories)].tolist(), len(histories)]):
        lengths = histories.lengths[low:high]
        ids = histories.ids[histories.offsets[low] : histories.offsets[high]]
        keys.append(np.unique(np.repeat(np.arange(low, high), lengths) * num_ids + ids))
    pairs = np.concatenate(keys)
    return pairs // num_ids, (pairs % num_ids).astype(np.int32)


def _sums_of_hashes(items: Ids, starts: Index) -> npt.NDArray[np.uint64]:
    """(sessions,) a 64-bit number for the items of each session, whatever their order."""
    if not len(starts):
        return np.empty(0, np.uint64)
    # A sum of hashes does not depend on the order of the items.
    return np.add.reduceat(scrambled(items.astype(np.uint64)), starts)
