"""Arrays of histories: windows of bounded length, batches of similar length, masks of seen items."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Histories, Index, entries_of, ranges, scrambled
from ensue.tasks.next.batch import PaddedBatch
from ensue.tasks.next.training_data import Exclusion, fingerprints
from ensue.topk import Scores
from ensue.training.batches import epoch_batches, evaluation_batches
from ensue.vocabulary import FIRST

STEPS = 128
"""Target steps a window: a longer history is cut into overlapping windows, which changes no answer."""


class Windows:
    """The target steps of encoded histories, cut so that no tensor is longer than needed.

    A window is three places in ``histories.ids``: it reads from ``starts``, its targets are what follows each event
    from ``target_starts`` to before ``stops``. With a history at places 0 to 5, ``reach`` 1 and ``STEPS`` 2::

        places 0 1 2 3 4 5     windows  starts 0 1 3   target_starts 0 2 4   stops 2 4 5
                               reads    0 1 | 1 2 3 | 3 4     targets at 1 2 | 3 4 | 5

    Args:
        histories: encoded in the model's vocabulary, without unknown values.
        reach: how many earlier events can matter to a step; ``None`` for all, which keeps histories whole.
        last_only: only what follows the last event is a target (a question), not what followed each event.
        context: (histories,) how many leading events of each are old: only later ones are targets, those are context.
    """

    def __init__(
        self, histories: Histories, reach: int | None, *, last_only: bool = False, context: Index | None = None
    ) -> None:
        self.histories = histories
        self.has_targets = not last_only
        starts = histories.offsets[:-1]
        stops = histories.offsets[1:] - (0 if last_only else 1)
        first = starts if context is None else starts + np.maximum(context - 1, 0)
        num_targets = np.minimum(stops - starts, 1) if last_only else np.maximum(stops - first, 0)
        steps = STEPS if reach is not None else max(1, int(num_targets.max(initial=1)))
        self.weights = self._target_weights(last_only)
        # Ceiling division: the number of windows of each history.
        windows = -(-num_targets // steps)
        owner = np.repeat(np.arange(len(histories)), windows)
        number = ranges(np.zeros_like(windows), windows)
        # Window n of a history begins its targets n * steps events after the first one.
        self.target_starts = (stops[owner] - 1) if last_only else first[owner] + number * steps
        self.stops = np.minimum(self.target_starts + steps, stops[owner])
        self.starts = starts[owner] if reach is None else np.maximum(starts[owner], self.target_starts - reach)

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.starts)

    @property
    def targets(self) -> int:
        """Number of target steps in all windows."""
        return int((self.stops - self.target_starts).sum())

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        """Return a shuffled epoch: batches of ``size`` windows of similar length, deterministic for a seed."""
        return epoch_batches([self.stops - self.starts], size, seed)

    def groups(self, targets: int) -> Iterator[Index]:
        """Yield all windows once, shortest first, in groups of about ``targets`` target steps (at least one window)."""
        order = np.argsort(self.stops - self.starts, kind="stable")
        return evaluation_batches(order, self.stops - self.target_starts, targets)

    def positions(self, index: Index) -> Index:
        """Return the position in ``histories.ids`` of each target step of these windows, (targets,), in row order."""
        return ranges(self.target_starts[index], (self.stops - self.target_starts)[index])

    def batch(self, index: Index) -> PaddedBatch:
        """Return the windows ``index``, padded."""
        starts = self.starts[index]
        stops = self.stops[index]
        target_starts = self.target_starts[index]
        # (batch, time) places of the events; beyond the end of a window its last event stands in, and is masked.
        positions = starts[:, None] + np.arange(int((stops - starts).max()))
        mask = positions < stops[:, None]
        target_mask = mask & (positions >= target_starts[:, None])
        targets = np.empty(0, np.int64)
        weights = negatives = None
        if self.has_targets:
            target_positions = positions[target_mask] + 1
            targets = self.histories.ids[target_positions].astype(np.int64)
            weights = None if self.weights is None else self.weights[target_positions]
            negatives = self._negatives(target_positions)
        positions = np.minimum(positions, stops[:, None] - 1)
        ids = np.where(mask, self.histories.ids[positions], 0).astype(np.int64)
        times = self.histories.times[positions] if self.histories.timed else np.zeros(ids.shape)
        return PaddedBatch(ids, mask, times, target_mask, targets, weights, negatives)

    def _target_weights(self, last_only: bool) -> npt.NDArray[np.float32] | None:
        """Return (events,) weights over their mean over all targets; ``None`` where every weight is the same."""
        histories = self.histories
        if last_only or not len(histories.weights):
            return None
        is_target = np.ones(len(histories.ids), np.bool_)
        is_target[histories.offsets[:-1][histories.lengths > 0]] = False
        weights = histories.weights[is_target]
        if not len(weights) or (weights == weights[0]).all():
            return None
        return (histories.weights / weights.mean()).astype(np.float32)

    def _negatives(self, events: Index) -> Index | None:
        """Return the (events, many) negatives of some events, filled up with padding; ``None`` if there are none."""
        negatives = self.histories.negatives
        if negatives is None or not len(negatives.ids):
            return None
        rows, entries = entries_of(negatives.offsets, events)
        lengths = np.diff(negatives.offsets)[events]
        padded = np.zeros((len(events), int(lengths.max(initial=0))), np.int64)
        # Row i gets the negatives of event i in its first columns.
        padded[rows, ranges(np.zeros_like(lengths), lengths)] = negatives.ids[entries]
        return padded if padded.any() else None


def latest_windows(histories: Histories, reach: int | None) -> tuple[Index, Windows, list[int], list[int]]:
    """Return which histories hold events, their windows, and of each history its window (or -1) and its length."""
    filled = np.flatnonzero(histories.lengths)
    rows = np.full(len(histories), -1)
    lengths = np.zeros(len(histories), np.int64)
    windows = Windows(histories.select(filled), reach, last_only=True)
    rows[filled] = np.arange(len(filled))
    lengths[filled] = windows.stops - windows.starts
    return filled, windows, rows.tolist(), lengths.tolist()


def seen_ids(histories: Histories, positions: Index, exclusion: Exclusion = Exclusion.SEEN) -> Index:
    """Return (targets, many) the ids that each history rules out up to a target step, filled up with padding.

    Args:
        histories: the encoded histories.
        positions: (targets,) where in ``histories.ids`` each target step is.
        exclusion: which events of the history are ruled out.
    """
    if exclusion is Exclusion.NONE:
        return np.zeros((len(positions), 0), np.int64)
    starts = positions
    if exclusion is Exclusion.SEEN:
        # A history at places 5 to 8 with its target step at 7 rules out ids[5], ids[6] and ids[7].
        starts = histories.offsets[np.searchsorted(histories.offsets, positions, side="right") - 1]
    lengths = positions - starts + 1
    ids = np.zeros((len(positions), int(lengths.max(initial=0))), np.int64)
    # Row i gets the ids of its history in its first columns.
    rows = np.repeat(np.arange(len(ids)), lengths)
    ids[rows, ranges(np.zeros_like(lengths), lengths)] = histories.ids[ranges(starts, lengths)]
    return ids


def hide_seen(scores: Scores, histories: Histories, positions: Index, exclusion: Exclusion = Exclusion.SEEN) -> Scores:
    """Set the scores (targets, ids) of :func:`seen_ids` and of padding to -inf, in place, and return them."""
    np.put_along_axis(scores, seen_ids(histories, positions, exclusion), -np.inf, 1)
    return scores


def draw_negatives(targets: Index, positions: Index, num_ids: int, sampled: int) -> Index:
    """Draw uniform candidates for every target, never the target itself, the same for every model.

    They are a hash of the target's place in the data, so no order of scoring changes them.

    Args:
        targets: (targets,) ids.
        positions: (targets,) where in the data each target step is.
        num_ids: ids in use, padding and unknown included.
        sampled: candidates per target.

    Returns:
        (targets, sampled) ids.
    """
    # Of ids 2 to 5 (four values) and target 4, steps 0, 1 and 2 on from the next one are 5, 2 and 3: never 4 itself.
    keys = positions.astype(np.uint64)[:, None] * np.uint64(2**16) + np.arange(sampled).astype(np.uint64)
    num_values = num_ids - FIRST
    steps = (scrambled(keys) % np.uint64(max(1, num_values - 1))).astype(np.int64)
    return FIRST + (targets[:, None] - FIRST + 1 + steps) % num_values


def repeats(histories: Histories) -> bool:
    """Return whether any history contains an item twice."""
    pairs: npt.NDArray[np.int64] = histories.sequence_index() * len(histories.vocabulary) + histories.ids
    return len(np.unique(pairs)) < len(pairs)


def distinct(data: Histories) -> Iterator[str]:
    """Return the values that occur, in order of their ids, without unknown."""
    counts = np.bincount(data.ids, minlength=FIRST)
    counts[:FIRST] = 0
    return (data.vocabulary.value(i) for i in np.flatnonzero(counts).tolist())


def history_hashes(data: Histories) -> Index:
    """Return the fingerprints of the distinct histories, sorted."""
    return np.unique(fingerprints(data)).view(np.int64)
