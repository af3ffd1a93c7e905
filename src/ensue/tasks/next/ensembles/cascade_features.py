"""Features of a cascade blend, in NumPy: what past cascades say of the candidates, and the mixture that scores them.

:mod:`ensue.tasks.next.ensembles.cascade_blend` lists the features. HiDAN runs in torch or, exported, in onnxruntime;
everything here is the same for both.

Shortlists of candidate users for catalogues that are too large to score in full.

Neighbours: past cascades in which the same users took part, weighted by similarity.

    alike(c) = sum over the latest events j whose user c holds
               of ln(cascades / cascades with u_j) / (i - j + 1) ** 0.5 / |c| ** 0.5
    M(v)     = sum over the past cascades c that hold v of alike(c) ** ``POWER``

VS-kNN (``ensue.tasks.next.baselines.session_knn``) cuts the list of neighbours; here every cascade counts, and the
power concentrates the weight on few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index, Mask, ranges
from ensue.metrics import Floats
from ensue.tasks.next.baselines.counting import Cooccurrence, Markov
from ensue.tasks.next.baselines.interpolated import Interpolated
from ensue.tasks.next.batch import PaddedBatch
from ensue.tasks.next.ensembles.co_participation import co_participation_scores
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.tasks.next.ensembles.temporal_preference import CLOCKS, temporal_preference
from ensue.tasks.next.settings import CountingSettings
from ensue.text.linear import log_softmax
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.topk import Scores, topk
from ensue.vocabulary import FIRST

POWER = 3
"""Exponent of the similarity; chosen, like the roots, on validation cascades of FOREST's Twitter and Memetracker."""


def cascade_neighbours(past: CascadeStore, batch: PaddedBatch, window: int) -> SparseRows:
    """Return M after each target step, (targets, ids).

    Args:
        past: the cascades.
        batch: the cascades that are compared with them.
        window: how many of the latest events are compared.
    """
    user_weights, memberships = past.cached("neighbours", lambda: _matrices(past))
    time = batch.ids.shape[1]
    row, step = batch.target_mask.nonzero()
    lengths = np.minimum(step + 1, window)
    ends = row * time + step
    # Events are numbered in the (batch, time) table read row after row.
    event = ranges(ends + 1 - lengths, lengths)
    target = np.repeat(np.arange(len(row)), lengths)
    weights = ((ends[target] + 1.0 - event) ** -0.5).astype(np.float32)
    similarity = sparse_rows(target, batch.ids.reshape(-1)[event], weights, (len(row), past.num_ids)) @ user_weights
    # The power concentrates the weight on the most similar cascades.
    similarity.data **= POWER
    return similarity @ memberships


def _matrices(past: CascadeStore) -> tuple[SparseRows, SparseRows]:
    """Return similarity weights of users, (ids, cascades), and memberships, (cascades, ids)."""
    cascades = len(past.offsets) - 1
    num_ids = past.num_ids
    # A user who takes part twice in a cascade counts once.
    keys = np.unique(past.owner() * num_ids + past.ids)
    owner = keys // num_ids
    value = keys % num_ids
    memberships = sparse_rows(owner, value, np.ones(len(keys), np.float32), (cascades, num_ids))
    # Inverse document frequency, with cascades as documents.
    rare = np.log(cascades / np.bincount(value, minlength=num_ids)[value])
    weights = (rare / np.sqrt(np.bincount(owner, minlength=cascades)[owner])).astype(np.float32)
    # Entries are sorted by cascade; the transposed matrix needs them by user.
    by_value = np.argsort(value, kind="stable")
    return sparse_rows(value[by_value], owner[by_value], weights[by_value], (num_ids, cascades)), memberships


LONGEST = 500
"""Users at most that each of the network and the memories puts on a target's list."""
FREQUENT = 200
"""The users who took part most often are on every list."""


def shortlists(network: Scores, memories: tuple[SparseRows, ...], totals: Floats) -> tuple[Index, Mask]:
    """Return the users on any target's list, and a mask of each list; a list does not depend on the other targets.

    Args:
        network: (targets, ids) scores.
        memories: (targets, ids) scores of each memory, sparse.
        totals: (ids,) how often each took part.

    Returns:
        (users,) ids, rising, and (targets, users) True where a user is on a target's list.
    """
    # argpartition finds the highest ones without sorting the rest; their order does not matter.
    frequent = np.argpartition(totals, -min(FREQUENT, len(totals)))[-FREQUENT:]
    best = topk(network, LONGEST)[1]
    lists = [
        np.concatenate([frequent, target_users, *(_highest(memory, target) for memory in memories)])
        for target, target_users in enumerate(best)
    ]
    users = np.unique(np.concatenate(lists))
    users = users[users >= FIRST]
    listed = np.zeros((len(lists), len(users)), np.bool_)
    for target, target_users in enumerate(lists):
        # users is sorted, so that searchsorted returns each listed user's column.
        listed[target, np.searchsorted(users, target_users[target_users >= FIRST])] = True
    return users, listed


def _highest(memory: SparseRows, target: int) -> Index:
    """Return the ids of the highest scores of a memory, at most ``LONGEST``."""
    row = slice(memory.indptr[target], memory.indptr[target + 1])
    ids = memory.indices[row].astype(np.int64)
    scores = memory.data[row]
    return ids if len(ids) <= LONGEST else ids[np.argpartition(scores, -LONGEST)[-LONGEST:]]


HIGH_SHARES = ("near high", "far high", "alike high")
CASCADE_FEATURES = ("network", "near", "far", "alike", *HIGH_SHARES, "frequent", "length", *CLOCKS)
BASELINES = dict[str, type[Cooccurrence]](cooccurrence=Cooccurrence, markov=Markov, interpolated=Interpolated)
FEATURES = (*CASCADE_FEATURES, *BASELINES)
"""Features of the mixture, in the order of its weights."""
MIN_LOG_SHARE = -20.0
"""Lower bound of the logarithm of a share."""
FLOOR = 1e-4
HIGH = 1e-2
"""Scales of the shares from counts: smaller shares hardly change the feature."""
MAX_DENSE_USERS = 50_000
"""The largest catalogue of which the mixture scores all users."""
TABLES_PER_ID = 4
"""Tables of (targets, ids) where users are listed: the scores of the network and of a baseline for all users."""
BYTES = 2**24
"""Approximate memory of the features of one chunk of target steps."""
ScoreCandidates = Callable[[Scores], Scores]
"""Function of (parts, targets, candidates) features that returns (targets, candidates) scores."""


class CandidateFeatures(NamedTuple):
    """Features of the candidates.

    Attributes:
        features: (parts, targets, ids), or (parts, targets, users) of those listed; 0 for padding and unknown.
        shares: (batch, time, time) each event's part in ``near``.
        users: (users,) who is listed; ``None`` for all ids.
        listed: (targets, users) who is on whose list.
    """

    features: Scores
    shares: Scores
    users: Index | None
    listed: Mask


class CascadeFeatures:
    """Computes the features from past cascades.

    Args:
        past: the cascades.
        window: number of latest events that are compared, and of neighbours.
        reach: receptive field of the network.
    """

    def __init__(self, past: CascadeStore, window: int, reach: int | None) -> None:
        self.past = past
        self.window = window or 30
        self.reach = reach

    def mix(
        self, batch: PaddedBatch, network: Scores, influence: Scores, mixture: ScoreCandidates
    ) -> tuple[Scores, Scores]:
        """Return the scores of the mixture, (targets, ids), and the influence, (batch, time, time).

        Args:
            batch: histories and their target steps.
            network: (targets, ids) scores of the network; they are overwritten.
            influence: (batch, time, time) its weights.
            mixture: scores candidates by their features.
        """
        memory_weights = np.zeros_like(influence)
        for targets, rows, chunk in self.chunks(batch):
            candidates = self.features(chunk, network[targets])
            chunk_scores = mixture(candidates.features)
            if candidates.users is not None:
                chunk_scores = _above_all_others(chunk_scores, network[targets], candidates.users, candidates.listed)
            if not self.past.repeats():
                # Where no past cascade repeats a user, users of the history are practically ruled out.
                chunk_scores += np.float32(MIN_LOG_SHARE) * history_mask(chunk, self.reach, chunk_scores.shape[1])
            network[targets] = chunk_scores
            memory_weights[rows] += candidates.shares
        network[:, :FIRST] = -np.inf
        # Average the influence of the network with that of the memory, where the memory has any.
        sums = (1 + memory_weights.sum(-1, keepdims=True)).clip(min=np.float32(1e-30))
        return network, (influence + memory_weights) / sums

    def chunks(self, batch: PaddedBatch) -> Iterator[tuple[slice, slice, PaddedBatch]]:
        """Yield a few target steps at a time: which they are, the rows of their histories, and these histories."""
        past = self.past
        window = self.window
        row, step = batch.target_mask.nonzero()
        # Past cascades that hold any of the latest events of a step: a sum up to the step, less one up to the window.
        sums = (past.totals()[batch.ids] * batch.mask).cumsum(1)
        num_compared = sums[row, step] - np.where(step < window, 0.0, sums[row, np.maximum(step - window, 0)])
        num_compared = np.minimum(num_compared, len(past.offsets) - 1)  # each past cascade is compared once
        # Cumulative bytes cut the target steps into chunks of about BYTES: float32 tables, and one float64 per
        # cascade.
        num_tables = len(FEATURES) if past.num_ids <= MAX_DENSE_USERS else TABLES_PER_ID
        group = (4 * num_tables * past.num_ids + 8 * num_compared).cumsum() // BYTES
        start = 0
        for size in np.unique(group, return_counts=True)[1].tolist():
            targets = slice(start, start + size)
            # Target steps are in the order of rows, so a chunk covers neighbouring histories.
            rows = slice(int(row[targets][0]), int(row[targets][-1]) + 1)
            target_mask = np.zeros_like(batch.target_mask)
            target_mask[row[targets], step[targets]] = True
            chunk = PaddedBatch(
                batch.ids[rows], batch.mask[rows], batch.times[rows], target_mask[rows], batch.targets[:0]
            )
            yield targets, rows, chunk
            start += size

    def features(self, batch: PaddedBatch, network: Scores) -> CandidateFeatures:
        """Compute ``FEATURES`` of all users, or of the listed ones on large catalogues.

        Args:
            batch: histories and their target steps.
            network: (targets, ids) scores of the network.
        """
        past = self.past
        window = self.window
        participation = co_participation_scores(past, batch, window)
        neighbours = cascade_neighbours(past, batch, window)
        users = None
        listed = np.empty(0, np.bool_)
        columns: Index | slice = slice(None)
        if past.num_ids > MAX_DENSE_USERS:
            users, listed = shortlists(network, (participation.near, neighbours), past.totals())
            columns = users
            column_of_id = np.full(past.num_ids, -1)
            column_of_id[users] = np.arange(len(users))
        table = np.zeros((len(FEATURES), *network[:, columns].shape), np.float32)
        # Each feature is a view of one row of the table and is written in place.
        features = dict(zip(FEATURES, table, strict=True))
        features["network"][:] = network[:, columns]
        timed, untimed, _ = participation
        for name, memory_scores in (("near", timed), ("far", untimed), ("alike", neighbours)):
            # Stored entries of a sparse row lie next to each other: each is divided by the sum of its row.
            row_sums = np.maximum(memory_scores @ np.ones(memory_scores.shape[1]), 1e-30)
            owners = memory_scores.owners()
            shares = memory_scores.data / row_sums[owners]
            cells = memory_scores.keys()
            if users is not None:
                listed_column = column_of_id[memory_scores.indices]
                is_listed = listed_column >= 0
                cells = (owners * len(users) + listed_column)[is_listed]
                shares = shares[is_listed]
            for feature, floor in ((name, FLOOR), (f"{name} high", HIGH)):
                features[feature].put(cells, np.log1p(shares / floor, dtype=np.float32))
        # Frequency enters with a minus sign, so that its usual weight is positive.
        features["frequent"][:] = -np.log1p(past.totals()[columns])
        num_events = batch.target_mask.nonzero()[1] + 1
        if self.reach is not None:
            # The network sees no further back than its receptive field.
            num_events = np.minimum(num_events, self.reach + 1)
        features["length"][:] = np.log1p(num_events.astype(np.float32))[:, None]
        for name, (gains, reading) in zip(CLOCKS, temporal_preference(past, batch, window), strict=True):
            # Gains are computed once per clock reading and gathered for each target step.
            np.take(gains[:, columns], reading, axis=0, out=features[name])
        for name in BASELINES:
            # log_softmax makes the baselines comparable; unseen users are clamped to a finite value.
            log_shares = log_softmax(self._baseline(name)(batch).scores)[:, columns]
            np.maximum(log_shares, np.float32(MIN_LOG_SHARE), out=features[name])
        if users is None:
            table[..., :FIRST] = 0.0
        return CandidateFeatures(table, participation.shares, users, listed)

    def _baseline(self, name: str) -> Cooccurrence:
        """Return a baseline that is counted from the past cascades."""

        def count() -> Cooccurrence:
            baseline = BASELINES[name](CountingSettings(window=self.window), self.past.num_ids)
            baseline.count(self.past.histories())
            return baseline

        return self.past.cached(f"{name} {self.window}", count)


def _above_all_others(listed_scores: Scores, network: Scores, users: Index, listed: Mask) -> Scores:
    """(targets, ids) scores: those of a target's list, (targets, users), and below them the network's order."""
    lowest = np.where(listed, listed_scores, np.float32(np.inf)).min(1, keepdims=True)
    scores: Scores = network - network.max(1, keepdims=True) + lowest  # the network's highest is on every list
    scores[:, users] = np.where(listed, listed_scores, scores[:, users])
    return scores


def history_mask(batch: PaddedBatch, reach: int | None, num_ids: int) -> Scores:
    """Return 1 for the ids of each history up to the target step, as far back as ``reach``; else 0: (targets, ids)."""
    row, step = batch.target_mask.nonzero()
    distance = np.arange(batch.ids.shape[1] if reach is None else min(reach + 1, batch.ids.shape[1]))
    # Steps before the start of a history repeat its first event, which changes nothing.
    ids = batch.ids[row[:, None], np.maximum(step[:, None] - distance, 0)]
    mask = np.zeros((len(row), num_ids), np.float32)
    np.put_along_axis(mask, ids, np.float32(1), 1)
    return mask


@dataclass(frozen=True, eq=False)
class ArrayMixture:
    """A fitted mixture in NumPy; see :class:`ensue.tasks.next.ensembles.cascade_blend.Mixture`.

    Attributes:
        weights: (parts,) w.
        mean: (parts,) of the features.
        spread: (parts,) standard deviations of the features.
        inner: (hidden, parts) A.
        bias: (hidden,) b.
        outer: (hidden,) u.
    """

    weights: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32]
    spread: npt.NDArray[np.float32]
    inner: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    outer: npt.NDArray[np.float32]

    def __call__(self, features: Scores) -> Scores:
        """Return (targets, candidates) scores of (parts, targets, candidates) features."""
        flat = features.reshape(len(features), -1)
        # Standardisation is folded into the layer: A((f - mean) / spread) + b.
        inner = self.inner / self.spread
        hidden = np.maximum(inner @ flat + (self.bias - inner @ self.mean)[:, None], 0)
        scores: Scores = self.outer @ hidden + self.weights @ flat
        return scores.reshape(features.shape[1:])
