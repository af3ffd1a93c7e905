"""Ranks of targets: at which rank a model puts each event of a data set, given the events before it.

A target is an event after the first of its history. There are three kinds:

- a known target after known events is ranked by the model, or by a count-based baseline;
- a known target after no known event is ranked by popularity, which is what ``predict`` answers there;
- a target that the training data lacks is not ranked, unless ``rank_unknown`` is set and its own history holds it
  already: then its score is the one of :mod:`ensue.tasks.next.own_unknown`.

A target that is ruled out or has a probability of 0 is never an answer: its rank is ``metrics.MISS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ensue import metrics
from ensue.data.histories import Histories, Index, offsets_of, ranges
from ensue.lazy import lazy
from ensue.metrics import Floats
from ensue.tasks.next.baselines.counting import logarithm
from ensue.tasks.next.dataset import Windows, draw_negatives, hide_seen
from ensue.tasks.next.infer import CELLS, MIN_SCORED, NUMBERS_PER_CANDIDATE, catalogue_scores, scores
from ensue.tasks.next.model import NextModel
from ensue.tasks.next.own_unknown import CandidateEntries, of_targets
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import Exclusion
from ensue.topk import Scores, log_totals, topk
from ensue.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from ensue.tasks.next import nearest
    from ensue.tasks.next.item_index import ItemIndex
else:
    nearest = lazy("ensue.tasks.next.nearest")

Chunk = tuple[Index, Floats]
"""(targets,) which events of the data some targets are, and their ranks."""


class ListCollector(Protocol):
    """What takes the scores of targets while they are ranked."""

    def fill(self, events: Index, scores: Scores) -> None:
        """Take the (events, ids) scores of some events, -inf where an id is ruled out."""


class BestItems(NamedTuple):
    """The best items at each target, which are filled in while targets are ranked.

    Attributes:
        ids: (events, k) best first; 0 where nothing is ranked, or fewer items are permitted.
        scores: (events, k) falling; -inf there.
    """

    ids: Index
    scores: Scores

    @classmethod
    def empty(cls, num_events: int, k: int) -> BestItems:
        """Return arrays to fill in."""
        return cls(np.zeros((num_events, k), np.int64), np.full((num_events, k), -np.inf, np.float32))

    def fill(self, events: Index, scores: Scores) -> None:
        """Take over the best items of some events from (events, ids) scores."""
        values, ids = topk(scores, self.ids.shape[1])
        self.scores[events, : values.shape[1]] = values
        self.ids[events, : values.shape[1]] = ids * (values > -np.inf)


def target_ranks(
    state: NextState,
    data: Histories,
    *,
    exclusion: Exclusion = Exclusion.NONE,
    sampled: int = 0,
    counting: str | None = None,
    context: Index | None = None,
    approximate: bool = False,
    rank_unknown: bool = False,
    best: ListCollector | None = None,
) -> tuple[Floats, Index, Index]:
    """Return the rank of each target that can be ranked, the index of its history, and its own in the data.

    A target is an event after the first of its history. Targets of the vocabulary are all ranked: after known events by
    the model, after none by popularity, as predictions are. Ties count against the target, and a target that is ruled
    out has rank ``metrics.MISS``.

    Args:
        state: of the predictor, whose method ``ranks`` this is.
        data: in the ids of the vocabulary. UNKNOWN, and ids from ``len(vocabulary)`` on
            (``Histories.encode(number_unknown=True)``), are events that the training data lacks.
        exclusion: which events of a history are ruled out.
        sampled: rank against this many sampled candidates instead of all; the same ones for every model.
        counting: one of ``COUNTING`` instead of the model.
        context: (histories,) how many leading events of each are no targets.
        approximate: rank a large catalogue by the model's index: exact among its candidates, estimated beyond.
        rank_unknown: rank unknown events (those with ids) that their history holds already as candidates and targets,
            by the rule of :mod:`ensue.tasks.next.own_unknown`, which is the same for every model.
        best: takes the best items at each target, by exact ranks.
    """
    module: NextModel = state.counting[counting] if counting else state.network
    in_vocabulary = (data.ids != UNKNOWN) & (data.ids < len(state.vocabulary))
    repeats = state.repeat_shares(exclusion) if rank_unknown and not in_vocabulary.all() else None
    ranker = _Ranker(
        state=state,
        module=module,
        data=data,
        known_histories=data.keep(in_vocabulary),
        events=np.flatnonzero(in_vocabulary),
        num_known_before=offsets_of(in_vocabulary),
        first_scored=data.offsets[:-1] + (1 if context is None else np.maximum(context, 1)),
        own_unknown=None if repeats is None else of_targets(data, repeats),
        exclusion=exclusion,
        sampled=sampled,
        best=best,
        index=state.index if approximate and not (counting or sampled) else None,
    )
    chunks = [*ranker.after_known(), *ranker.after_unknown(), *ranker.unknown()]
    events = np.concatenate([np.empty(0, np.int64), *(events for events, _ in chunks)])
    ranks = np.concatenate([np.empty(0), *(ranks for _, ranks in chunks)])
    return ranks, data.sequence_index()[events], events


@dataclass(frozen=True, eq=False, kw_only=True)
class _Ranker:
    """One data set and one model.

    Attributes:
        state: of the predictor.
        module: its model, or one of its baselines.
        data: in the ids of the vocabulary; UNKNOWN and ids from ``len(vocabulary)`` on are unknown events.
        known_histories: the same histories without their unknown events.
        events: (known events,) the index of each in ``data``.
        num_known_before: (events + 1,) how many known events come before each event of ``data``.
        first_scored: (histories,) the first event of each that may be a target.
        own_unknown: unknown events of the histories that are candidates, ``None`` where none are.
        exclusion: which events of the history are ruled out.
        sampled: how many candidates are drawn; 0 for all.
        best: takes the best items at each target, if they are asked for.
        index: of a large catalogue, ``None`` for exact ranks.
    """

    state: NextState
    module: NextModel
    data: Histories
    known_histories: Histories
    events: Index
    num_known_before: Index
    first_scored: Index
    own_unknown: CandidateEntries | None
    exclusion: Exclusion
    sampled: int
    best: ListCollector | None
    index: ItemIndex | None

    def after_known(self) -> Iterator[Chunk]:
        """Rank known targets that follow a known event."""
        # Positions among all events become positions among known events.
        start = self.num_known_before[self.data.offsets[:-1]]
        context = self.num_known_before[np.minimum(self.first_scored, self.data.offsets[1:])] - start
        windows = Windows(self.known_histories, self.module.reach, context=context)
        size = len(self.state.vocabulary) if self.index is None else NUMBERS_PER_CANDIDATE * self.index.facts.candidates
        for group in windows.groups(max(1, CELLS // max(size, MIN_SCORED))):
            positions = windows.positions(group)
            # A target is the event after its position among the known events.
            events = self.events[positions + 1]
            if self.index is not None:
                ranks, totals, target_scores = nearest.approximate_ranks(
                    self.state, self.index, windows, group, self.exclusion
                )
                yield events, ranks + self._num_own_ahead(events, totals, target_scores)
                continue
            output, targets = scores(self.state, windows, group, self.module)
            masked_scores = hide_seen(output.scores, self.known_histories, positions, self.exclusion)
            yield events, self._exact(masked_scores, targets, events, positions)

    def after_unknown(self) -> Iterator[Chunk]:
        """Rank known targets that follow no known event, by popularity as ``predict`` does."""
        owner = self.data.sequence_index()[self.events]
        # A known event is the first of its history if no known event of the history is before it.
        first_known = self.num_known_before[self.data.offsets[:-1]][owner] == np.arange(len(self.events))
        (positions,) = np.nonzero(first_known & (self.events >= self.first_scored[owner]))
        popular = logarithm(self.state.counting["popularity"].shares())
        size = max(1, CELLS // max(len(popular), MIN_SCORED))
        for low in range(0, len(positions), size):
            chunk = positions[low : low + size]
            events = self.events[chunk]
            targets = self.data.ids[events].astype(np.int64)
            popularity_scores = np.broadcast_to(popular, (len(chunk), len(popular)))
            yield events, self._exact(popularity_scores, targets, events, chunk - 1)

    def unknown(self) -> Iterator[Chunk]:
        """Rank targets that the vocabulary lacks and their own history holds already."""
        if self.own_unknown is None:
            return
        is_target = self.data.ids[self.own_unknown.target] == self.own_unknown.value
        is_target &= self.own_unknown.target >= self.first_scored[self.data.sequence_index()[self.own_unknown.target]]
        events = self.own_unknown.target[is_target]
        odds = self.own_unknown.odds[is_target]
        size = max(1, CELLS // max(len(self.state.vocabulary), MIN_SCORED))
        for low in range(0, len(events), size):
            chunk = slice(low, low + size)
            past = self._known_before(events[chunk])
            item_scores = catalogue_scores(self.state, self.exclusion, past, self.module)[0]
            totals = log_totals(item_scores)
            own_scores = totals + odds[chunk]
            # The target's own score is the last column.
            all_scores = np.concatenate([item_scores, own_scores[:, None]], axis=1, dtype=np.float32)
            column = np.full(len(past), item_scores.shape[1])
            if self.sampled:
                negatives = draw_negatives(column, events[chunk], len(self.state.vocabulary), self.sampled)
                ranks = metrics.sampled_ranks(all_scores, column, negatives)
            else:
                # The target is one of these candidates and is not ahead of itself.
                num_ahead = self.own_unknown.ahead(events[chunk], totals, own_scores) - 1
                ranks = metrics.ranks(all_scores, column) + num_ahead
            yield events[chunk], np.where(own_scores == -np.inf, metrics.MISS, ranks)

    def _exact(self, masked_scores: Scores, targets: Index, events: Index, positions: Index) -> Floats:
        """Return ranks by scores of the whole catalogue, (targets,).

        Args:
            masked_scores: (targets, ids) scores, -inf where an id is ruled out.
            targets: (targets,) ids.
            events: (targets,) where they are in the data.
            positions: (targets,) where the events before them are in the known events; sampled candidates depend on it.
        """
        target_scores = np.take_along_axis(masked_scores, targets[:, None], 1)[:, 0]
        if self.best is not None:
            self.best.fill(events, masked_scores)
        if self.sampled:
            negatives = draw_negatives(targets, positions, len(self.state.vocabulary), self.sampled)
            ranks = metrics.sampled_ranks(masked_scores, targets, negatives)
        else:
            ranks = metrics.ranks(masked_scores, targets)
            if self.own_unknown is not None:
                # Log totals are computed only where unknown candidates need them.
                totals = np.zeros(len(targets), np.float32)
                (rows,) = np.nonzero(np.isin(events, self.own_unknown.target))
                if len(rows):
                    totals[rows] = log_totals(masked_scores[rows])
                ranks += self._num_own_ahead(events, totals, target_scores)
        return np.where(target_scores == -np.inf, metrics.MISS, ranks)

    def _num_own_ahead(self, events: Index, totals: Scores, target_scores: Scores) -> Index:
        """Return how many unknown events of each target's own history score at least as much as it does, (targets,)."""
        num_ahead = np.zeros(len(target_scores), np.int64)
        if self.own_unknown is not None:
            (rows,) = np.nonzero(np.isin(events, self.own_unknown.target))
            num_ahead[rows] = self.own_unknown.ahead(events[rows], totals[rows], target_scores[rows])
        return num_ahead

    def _known_before(self, events: Index) -> Histories:
        """Return the known events before each of some events, as far back as the model reads."""
        history = self.data.sequence_index()[events]
        stops = self.num_known_before[events]
        starts = self.known_histories.offsets[history]
        if self.module.reach is not None:
            starts = np.maximum(starts, stops - self.module.reach - 1)
        index = ranges(starts, stops - starts)
        times = self.known_histories.times[index] if self.known_histories.timed else self.known_histories.times
        return Histories(
            self.known_histories.ids[index], offsets_of(stops - starts), self.known_histories.vocabulary, times
        )
