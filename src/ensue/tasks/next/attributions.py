"""From scores to answers: probabilities, the events they attended to, and how far a score drops without each.

The score drop of an event is the difference between two answers: to the history, and to the same history without the
event, by the same rules. So an item that was ruled out only because the event held it is a candidate again, and unknown
events, where they are ranked, are counted afresh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.answers import Answer, Attribution, Choice
from ensue.data.histories import Histories, Index
from ensue.errors import SettingError
from ensue.records import History
from ensue.tasks.next.baselines.repeats import RepeatShares
from ensue.tasks.next.own_unknown import Mask, OwnUnknown, of_records, share_without, without_event
from ensue.tasks.next.permitted import Permitted, best_of_all
from ensue.vocabulary import UNKNOWN, Vocabulary

TESTED = 3
"""Number of most attended events that are deleted, one at a time."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Scores after each history.

    Attributes:
        totals: (histories,) the logarithm of the sum of exp(scores): what normalises them.
        weights: (rows, time, time) each: between a history's latest events, where a model has those; those of the
            answer.
        rows: a history's row in ``weights``; -1 for one without events.
        lengths: how many of a history's latest events have weights, as far back as the model reaches.
    """

    totals: Tensor
    weights: tuple[Tensor, ...]
    rows: Sequence[int]
    lengths: Sequence[int]

    def score(self, columns: Tensor) -> Tensor:
        """(histories, k) scores of some ids of each history."""
        raise NotImplementedError

    def best(self, k: int, lists: Lists, records: Sequence[History], own: OwnUnknown | None) -> tuple[Tensor, Tensor]:
        """The ``k`` highest permitted scores of each history and their columns; what is ruled out is at -inf.

        Args:
            k: how many.
            lists: of each history.
            records: the questions.
            own: the values of their own behind the ids, if there are any.
        """
        raise NotImplementedError

    def with_own(self, own: OwnUnknown) -> Self:
        """Return the scores with extra columns for the histories' out-of-vocabulary items."""
        raise NotImplementedError

    def shares(self, columns: Tensor) -> Tensor:
        """(histories, k) probabilities of some ids of each history; 0 where everything is ruled out."""
        return self.shares_of(self.score(columns))

    def shares_of(self, scores: Tensor) -> Tensor:
        """(histories, k) probabilities of some scores of each history."""
        # A score and its total are rounded apart: no probability is above 1.
        return (scores - self.totals[:, None]).clamp_(max=0).exp_().nan_to_num_()

    def influence(self, history: int) -> Tensor:
        """A history's weights over its latest events."""
        row, length = self.rows[history], self.lengths[history]
        return self.weights[-1][row, length - 1, :length] if length else torch.zeros(0)

    def dependency(self, history: int) -> Tensor:
        """A history's (events, events) weights between its latest events; empty where the model has none."""
        row, length = self.rows[history], self.lengths[history]
        return self.weights[0][row, :length, :length] if length and len(self.weights) > 1 else torch.zeros(0, 0)


@dataclass(frozen=True, kw_only=True)
class ScoredBatch(Scored):
    """Scores of the whole catalogue: ``scores`` (histories, ids) before normalising."""

    scores: Tensor

    def score(self, columns: Tensor) -> Tensor:
        """Return the scores unchanged."""
        return self.scores.gather(1, columns)

    def best(self, k: int, lists: Lists, records: Sequence[History], own: OwnUnknown | None) -> tuple[Tensor, Tensor]:
        """Return the best of all items."""
        return best_of_all(self.scores, k, lists, records, own)

    def with_own(self, own: OwnUnknown) -> Self:
        """More columns."""
        scores = torch.cat([self.scores, self.totals[:, None] + own.odds], dim=1)
        return replace(self, scores=scores, totals=self.totals + own.odds.exp().sum(1).log1p())


Lists = Sequence[Permitted | None]
"""Allowed answers of each history; ``None`` for all items."""
ScoreFunction = Callable[[Histories, Lists | None], Scored]
"""Scores what comes after histories; lists say what answers may be, ``None`` if only scores of ids are asked for."""


class EncodedRecords(NamedTuple):
    """Records in ids, without the values the model never saw."""

    histories: Histories
    positions: list[Index]
    """For each record, where in its values the known ones stand."""
    unknown: Mask
    """(events,) of all values of the records whether it never saw them."""


def encode_records(records: Sequence[History], vocabulary: Vocabulary) -> EncodedRecords:
    """Records in the ids of a vocabulary; unknown values are left out. Beside timed ones, untimed get time 0."""
    timed = any(record.times for record in records)
    whole = [record if record.times or not timed else _at_zero(record) for record in records]
    raw = Histories.of(whole, vocabulary)
    keep = raw.ids != UNKNOWN
    histories = raw.keep(keep)
    places = np.flatnonzero(keep) - np.repeat(raw.offsets[:-1], histories.lengths)
    return EncodedRecords(histories, np.split(places, histories.offsets[1:-1]), ~keep)


def _at_zero(record: History) -> History:
    return History(record.values, (0.0,) * len(record.values), id=record.id)


def answers(
    records: Sequence[History],
    vocabulary: Vocabulary,
    score: ScoreFunction,
    k: int,
    repeats: RepeatShares | None = None,
    lists: Lists = (),
    *,
    evidence: bool,
) -> Iterator[Answer]:
    """Yield the ``k`` likeliest next values of each record; with ``evidence``, what each attended to and score drops.

    Values that only the record knows are among them where ``repeats`` says how often such come again; where a record
    has a list, no others than those that it permits.
    """
    encoded = encode_records(records, vocabulary)
    histories, positions, unknown = encoded
    own = of_records(records, unknown, repeats) if repeats is not None and unknown.any() else None
    lists = lists or [None] * len(records)
    scored = score(histories, lists)
    scored = scored if own is None else scored.with_own(own)
    shown, best = scored.best(k, lists, records, own)
    require_finite(shown, scored.totals)
    shares = scored.shares_of(shown)
    tests: list[list[_Deletion]] = [[] for _ in records]
    if evidence:
        tests = _deletions(records, encoded, scored, score, best, None if own is None else repeats)
    for row, record in enumerate(records):
        choices = []
        row_choices = zip(best[row].tolist(), shown[row].tolist(), shares[row].tolist(), strict=True)
        for number, (id, raw_score, share) in enumerate(row_choices):
            if raw_score == -math.inf:  # ruled out; a probability that only rounds to 0 keeps its rank
                continue
            if own is not None and repeats is not None and id >= len(vocabulary):
                place = int(own.places[row, id - len(vocabulary)])
                drop = share - share_without(record, place, vocabulary, repeats) if evidence else None
                attributions = [Attribution(record.values[place], place, 1.0, drop)]
                choices.append(Choice(record.values[place], share, tuple(attributions) if evidence else ()))
                continue
            attributions = [_attribution(record, positions[row], test, number) for test in tests[row]]
            choices.append(Choice(vocabulary.value(id), share, tuple(attributions)))
        yield Answer(tuple(choices), len(positions[row]), len(record.values), id=record.id)


def require_finite(*scores: Tensor) -> None:
    """Check that scores are numbers, or -inf where something is ruled out.

    Raises:
        SettingError: one is not: the weights are so large that their products overflow.
    """
    if not all(bool((part < torch.inf).all()) for part in scores):  # nothing is below NaN, and NaN below nothing
        raise SettingError("the model's scores are not finite numbers, so its weights cannot be right; fit it again")


def _attribution(record: History, places: Index, test: _Deletion, choice: int) -> Attribution:
    place = int(places[test.event])
    return Attribution(record.values[place], place, test.share, test.score_drops[choice])


class _Deletion(NamedTuple):
    event: int  # among the known events
    share: float
    score_drops: list[float]  # by choice


def _deletions(
    records: Sequence[History],
    encoded: EncodedRecords,
    scored: Scored,
    score: ScoreFunction,
    choices: Tensor,
    repeats: RepeatShares | None,
) -> list[list[_Deletion]]:
    """Ask again without each of the events that were attended to most: for each record the drops of its choices.

    Args:
        records: the questions.
        encoded: the same in ids.
        scored: what was scored of them.
        score: scores histories.
        choices: (records, k) columns of the choices.
        repeats: how often unknown events come again, where some of the records are candidates.
    """
    histories, positions, _ = encoded
    rows, events, shares = _most_attended(histories, scored)
    deletions: list[list[_Deletion]] = [[] for _ in records]
    if not len(rows):
        return deletions
    repeated = histories.select(rows)
    keep = np.ones(len(repeated.ids), np.bool_)
    keep[repeated.offsets[:-1] + events] = False
    shorter = repeated.keep(keep)
    without = score(shorter, None)
    if repeats is not None:
        # A record keeps all of its unknown events, in the same order by distance, so its columns stay in place.
        places = [int(positions[row][event]) for row, event in zip(rows, events, strict=True)]
        rest = [without_event(records[row], place) for row, place in zip(rows.tolist(), places, strict=True)]
        unknown = encode_records(rest, histories.vocabulary).unknown
        columns = int(choices.max()) + 1 - len(histories.vocabulary)
        without = without.with_own(of_records(rest, unknown, repeats, columns))
    drops = scored.shares(choices)[rows] - without.shares(choices[rows])
    for row, event, share, row_drops in zip(rows.tolist(), events.tolist(), shares, drops.tolist(), strict=True):
        deletions[row].append(_Deletion(event, share, row_drops))
    return deletions


def _heaviest(weights: Tensor) -> list[int]:
    """The places of the largest weights, largest first; of those that differ by rounding alone, the latest."""
    order = (weights * 1e5).round().flip(0).argsort(descending=True, stable=True)
    return (len(weights) - 1 - order[:TESTED]).tolist()


def _most_attended(histories: Histories, scored: Scored) -> tuple[Index, Index, list[float]]:
    top = [
        (row, at + length - len(weights), float(weights[at]))
        for row, length in enumerate(histories.lengths.tolist())
        for weights in (scored.influence(row),)
        for at in _heaviest(weights)
        if weights[at] > 0
    ]
    columns: npt.NDArray[np.int64] = np.array([(row, event) for row, event, _ in top], np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1], [share for _, _, share in top]
