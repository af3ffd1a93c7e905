"""From scores to answers: probabilities, the events they attended to, and how far a score drops without each.

The score drop of an event is the difference between two answers: to the history, and to the same history without the
event, by the same rules. So an item that was ruled out only because the event held it is a candidate again, and unknown
events, where they are ranked, are counted afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.answers import Answer, Attribution, choices_of
from ensue.data.histories import Histories, Index, Mask
from ensue.errors import SettingError
from ensue.records import History
from ensue.tasks.next.baselines.repeats import RepeatShares
from ensue.tasks.next.item_filter import ItemFilter
from ensue.tasks.next.own_unknown import OwnUnknown, of_records, share_without, without_event
from ensue.tasks.next.reranking import rerank
from ensue.topk import Scores, topk
from ensue.vocabulary import FIRST, PADDING, UNKNOWN, Vocabulary

TESTED = 3
"""Number of most attended events that are deleted, one at a time."""


@dataclass(frozen=True, kw_only=True)
class HistoryScores:
    """Scores after each history.

    Attributes:
        totals: (histories,) the logarithm of the sum of exp(scores): what normalises them.
        best_ids: (histories, k) the best permitted ids of each history; none where no choices are asked for.
        best_scores: (histories, k) their scores, -inf where fewer are permitted.
        score_items: from (histories, any number) ids to their scores.
        weights: (rows, time, time) each: between a history's latest events, where a model has those; those of the
            answer.
        rows: a history's row in ``weights``; -1 for one without events.
        lengths: how many of a history's latest events have weights, as far back as the model reaches.
        num_ids: size of the vocabulary.
        unknown: items of the histories that the vocabulary lacks; their ids begin at ``num_ids``.
        item_totals: (histories,) the totals without those.
    """

    totals: Scores
    best_ids: Index
    best_scores: Scores
    score_items: Callable[[Index], Scores]
    weights: tuple[Scores, ...]
    rows: Sequence[int]
    lengths: Sequence[int]
    num_ids: int
    unknown: OwnUnknown | None = None
    item_totals: Scores | None = None

    def with_unknown(self, unknown: OwnUnknown, permitted: Mask, k: int) -> HistoryScores:
        """Return the scores with the histories' own unknown items as candidates.

        Args:
            unknown: these items.
            permitted: (histories, items) which of them may be answers.
            k: choices.
        """
        scores = self.totals[:, None] + unknown.odds
        ids = np.broadcast_to(np.arange(scores.shape[1]) + self.num_ids, scores.shape)
        # The columns of the unknown items follow those of the best items, and the highest of both are the best.
        scores = np.concatenate([self.best_scores, np.where(permitted, scores, -np.inf)], axis=1, dtype=np.float32)
        best_scores, columns = topk(scores, k)
        return replace(
            self,
            # log(exp(total) + sum of exp(total + odds)) = total + log1p(sum of exp(odds)).
            totals=self.totals + np.log1p(np.exp(unknown.odds).sum(1)),
            best_ids=np.take_along_axis(np.concatenate([self.best_ids, ids], axis=1), columns, 1),
            best_scores=best_scores,
            unknown=unknown,
            item_totals=self.totals,
        )

    def probabilities(self, ids: Index) -> Scores:
        """Return the probabilities of some ids of each history, (histories, k); 0 where everything is ruled out."""
        # Ids from num_ids on have no row in the catalogue; padding stands in for them.
        scores = self.score_items(np.where(ids >= self.num_ids, PADDING, ids))
        if self.unknown is not None and self.item_totals is not None and self.unknown.odds.shape[1]:
            columns = np.maximum(ids - self.num_ids, 0)
            own_scores = self.item_totals[:, None] + np.take_along_axis(self.unknown.odds, columns, 1)
            scores = np.where(ids < self.num_ids, scores, own_scores)
        return self.normalised(scores)

    def normalised(self, scores: Scores) -> Scores:
        """Return the probabilities of some scores of each history, (histories, k)."""
        with np.errstate(invalid="ignore"):  # -inf - -inf where everything is ruled out
            differences = scores - self.totals[:, None]
        # A score and its total are rounded apart: no probability is above 1.
        return np.nan_to_num(np.exp(np.minimum(differences, 0)))

    def influence(self, history: int) -> Scores:
        """Return a history's weights over its latest events."""
        row = self.rows[history]
        length = self.lengths[history]
        # Row length - 1 is the latest event, whose weights belong to the answer.
        return self.weights[-1][row, length - 1, :length] if length else np.zeros(0, np.float32)

    def dependency(self, history: int) -> Scores:
        """Return a history's (events, events) weights between its latest events; empty where the model has none."""
        row = self.rows[history]
        length = self.lengths[history]
        has_weights = length and len(self.weights) > 1
        return self.weights[0][row, :length, :length] if has_weights else np.zeros((0, 0), np.float32)


Filters = Sequence[ItemFilter | None]
"""Filter of each history; ``None`` where all items may be answers."""
ScoreFunction = Callable[[Histories, Filters | None], HistoryScores]
"""Scores what comes after histories; without filters only scores of ids are asked for, and no best items."""


class EncodedRecords(NamedTuple):
    """Records in ids, without the values the model never saw."""

    histories: Histories
    known: Index
    """(known events,) positions of the known values, each in its record."""
    unknown: Mask
    """(events,) of all values of the records whether it never saw them."""


def encode_records(records: Sequence[History], vocabulary: Vocabulary) -> EncodedRecords:
    """Encode records by a vocabulary, without unknown values; if any record has times, the others get time 0."""
    timed = any(record.times for record in records)
    timed_records = [record if record.times or not timed else at_zero(record) for record in records]
    raw = Histories.of(timed_records, vocabulary)
    keep = raw.ids != UNKNOWN
    histories = raw.keep(keep)
    # Positions count from the first event of each record, unknown events included.
    return EncodedRecords(histories, np.flatnonzero(keep) - np.repeat(raw.offsets[:-1], histories.lengths), ~keep)


def at_zero(record: History) -> History:
    """Return a record whose events all happen at time 0."""
    return History(record.values, (0.0,) * len(record.values), id=record.id)


def answers(
    records: Sequence[History],
    vocabulary: Vocabulary,
    score: ScoreFunction,
    k: int,
    repeats: RepeatShares | None,
    filters: Filters,
    titles: Mapping[str, str],
    *,
    evidence: bool,
) -> Iterator[Answer]:
    """Yield the ``k`` likeliest next items of each record; with ``evidence``, what each attended to and score drops.

    Items that only the record holds are among them where ``repeats`` says how often such come again; where a record has
    a filter, no others than those that it permits.
    """
    encoded = encode_records(records, vocabulary)
    histories, _, unknown = encoded
    scored = score(histories, filters)
    own_unknown = of_records(records, unknown, repeats) if repeats is not None and unknown.any() else None
    if own_unknown is not None:
        scored = scored.with_unknown(
            own_unknown, own_unknown.permitted(records, filters), max(k, scored.best_ids.shape[1])
        )
    rerankers = [None if item_filter is None else item_filter.reranker for item_filter in filters]
    if any(rerankers):
        sessions = [histories.ids[low:high] for low, high in pairwise(histories.offsets.tolist())]
        best_ids, best_scores = rerank(scored.best_ids, scored.best_scores, rerankers, sessions, k)
        scored = replace(scored, best_ids=best_ids, best_scores=best_scores)
    best_scores, best = scored.best_scores, scored.best_ids
    require_finite(best_scores, scored.totals)
    probabilities = scored.normalised(best_scores)
    # Scores fall, and what is ruled out is at -inf; a probability that only rounds to 0 keeps its rank.
    is_choice = best_scores > -np.inf
    owner, column = is_choice.nonzero()
    ids = best[is_choice]
    # Where a choice is in its record, if only the record holds it; -1 for items of the vocabulary.
    own_positions = np.full(len(ids), -1)
    if own_unknown is not None:
        is_own = ids >= len(vocabulary)
        own_positions[is_own] = own_unknown.positions[owner[is_own], ids[is_own] - len(vocabulary)]
        ids[is_own] = FIRST
    items = vocabulary.values
    values = [items[id] for id in (ids - FIRST).tolist()]
    own_choices = np.flatnonzero(own_positions >= 0).tolist()
    for at in own_choices:
        values[at] = records[owner[at]].values[own_positions[at]]
    attributions: Iterable[tuple[Attribution, ...]] = repeat(())
    if evidence:
        own_repeats = None if own_unknown is None else repeats
        deletions = _deletions(records, encoded, scored, probabilities, score, best, own_repeats)
        attributions = [
            tuple(deletion.of(records[row], rank) for deletion in deletions[row])
            for row, rank in zip(owner.tolist(), column.tolist(), strict=True)
        ]
        for at in own_choices:
            assert repeats is not None
            record, position = records[owner[at]], int(own_positions[at])
            drop = float(probabilities[owner[at], column[at]]) - share_without(record, position, vocabulary, repeats)
            attributions[at] = (Attribution(values[at], position, 1.0, drop),)
    value_titles: Iterable[str] = map(titles.get, values, repeat("")) if titles else repeat("")
    choices = choices_of(values, probabilities[is_choice].tolist(), attributions, value_titles)
    ends = is_choice.sum(1).cumsum().tolist()
    for record, length, (low, high) in zip(records, histories.lengths.tolist(), pairwise([0, *ends]), strict=True):
        yield Answer(tuple(choices[low:high]), length, len(record.values), id=record.id)


def require_finite(*scores: Scores) -> None:
    """Check that scores are numbers, or -inf where something is ruled out.

    Raises:
        SettingError: one is not: the weights are so large that their products overflow.
    """
    if not all((array < np.inf).all() for array in scores):  # nothing is below NaN, and NaN below nothing
        raise SettingError("the model's scores are not finite numbers, so its weights cannot be right; fit it again")


class _Deletion(NamedTuple):
    position: int
    share: float
    score_drops: list[float]  # by choice

    def of(self, record: History, choice: int) -> Attribution:
        return Attribution(record.values[self.position], self.position, self.share, self.score_drops[choice])


def _deletions(
    records: Sequence[History],
    encoded: EncodedRecords,
    scored: HistoryScores,
    probabilities: Scores,
    score: ScoreFunction,
    choices: Index,
    repeats: RepeatShares | None,
) -> list[list[_Deletion]]:
    """Score again without each of the most attended events; return the score drops of each record's choices.

    Args:
        records: to answer.
        encoded: the same in ids.
        scored: their scores.
        probabilities: (records, k) of the choices.
        score: scores histories.
        choices: (records, k) columns of the choices.
        repeats: how often unknown events come again, where some of the records are candidates.
    """
    histories = encoded.histories
    rows, events, shares = _most_attended(histories, scored)
    deletions: list[list[_Deletion]] = [[] for _ in records]
    if not len(rows):
        return deletions
    repeated = histories.select(rows)
    keep = np.ones(len(repeated.ids), np.bool_)
    # One copy of the history per deleted event, each without that event.
    keep[repeated.offsets[:-1] + events] = False
    shorter = repeated.keep(keep)
    without = score(shorter, None)
    deleted = encoded.known[histories.offsets[rows] + events].tolist()
    if repeats is not None:
        # A record keeps all of its unknown events, in the same order by distance, so its columns stay in place.
        shorter_records = [
            without_event(records[row], position) for row, position in zip(rows.tolist(), deleted, strict=True)
        ]
        unknown = encode_records(shorter_records, histories.vocabulary).unknown
        # Columns beyond the vocabulary are the unknown items of the record.
        columns = int(choices.max()) + 1 - len(histories.vocabulary)
        rest_unknown = of_records(shorter_records, unknown, repeats, columns)
        without = without.with_unknown(rest_unknown, rest_unknown.positions >= 0, 0)
    drops = probabilities[rows] - without.probabilities(choices[rows])
    for row, position, share, row_drops in zip(rows.tolist(), deleted, shares, drops.tolist(), strict=True):
        deletions[row].append(_Deletion(position, share, row_drops))
    return deletions


def _heaviest(weights: Scores) -> list[int]:
    """Return the positions of the largest weights, largest first; of weights that differ by rounding, the latest."""
    # Rounding makes equal weights equal; a stable sort of the reversed row prefers the latest.
    latest_first = np.round(weights * 1e5)[::-1]
    order = np.argsort(-latest_first, kind="stable")[:TESTED]
    return (len(weights) - 1 - order).tolist()


def _most_attended(histories: Histories, scored: HistoryScores) -> tuple[Index, Index, list[float]]:
    top = [
        # Weights cover the latest events alone: shift their positions to those of the full history.
        (row, at + length - len(weights), float(weights[at]))
        for row, length in enumerate(histories.lengths.tolist())
        for weights in (scored.influence(row),)
        for at in _heaviest(weights)
        if weights[at] > 0
    ]
    columns: npt.NDArray[np.int64] = np.array([(row, event) for row, event, _ in top], np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1], [share for _, _, share in top]
