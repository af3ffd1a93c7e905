"""From scores to answers: probabilities, the events they attended to, and what is lost without them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.answers import Answer, Choice, Heed
from ensue.data.histories import Histories, Index
from ensue.records import History
from ensue.tasks.next.baselines.repeats import RepeatShares
from ensue.tasks.next.own_unknown import Mask, OwnUnknown, of_records, share_lost
from ensue.tasks.next.permitted import Permitted, best_of_all
from ensue.vocabulary import UNKNOWN, Vocabulary

TESTED = 3
"""How many of the events that were attended to most are taken out, one at a time, to see what the answer loses."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What a model says after each of some histories.

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
        """The same with the values that only these histories know in columns beside the catalogue."""
        raise NotImplementedError

    def shares(self, columns: Tensor) -> Tensor:
        """(histories, k) probabilities of some ids of each history; 0 where everything is ruled out."""
        return self.shares_of(self.score(columns))

    def shares_of(self, scores: Tensor) -> Tensor:
        """(histories, k) probabilities of some scores of each history."""
        return (scores - self.totals[:, None]).exp().nan_to_num_()

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
        """As they stand."""
        return self.scores.gather(1, columns)

    def best(self, k: int, lists: Lists, records: Sequence[History], own: OwnUnknown | None) -> tuple[Tensor, Tensor]:
        """Of all of them."""
        return best_of_all(self.scores, k, lists, records, own)

    def with_own(self, own: OwnUnknown) -> Self:
        """More columns."""
        scores = torch.cat([self.scores, self.totals[:, None] + own.odds], dim=1)
        return replace(self, scores=scores, totals=self.totals + own.odds.exp().sum(1).log1p())


Lists = Sequence[Permitted | None]
"""What each of some histories may be answered with, ``None`` for anything."""
ScoreFunction = Callable[[Histories, Histories, Lists | None], Scored]
"""What comes after the first histories, the values of the second ruled out where the data never repeats.

The third says what answers will be asked for; ``None`` if none are, but scores of some ids."""


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
    return History(record.values, (0.0,) * len(record.values), record.id)


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
    """The ``k`` likeliest next values of each record; with ``evidence``, what each attended to and a deletion test.

    Values that only the record knows are among them where ``repeats`` says how often such come again; where a record
    has a list, no others than those that it permits.
    """
    histories, positions, unknown = encode_records(records, vocabulary)
    own = of_records(records, unknown, repeats) if repeats is not None and unknown.any() else None
    lists = lists or [None] * len(records)
    scored = _with_own(score(histories, histories, lists), own)
    shown, best = scored.best(k, lists, records, own)
    shares = scored.shares_of(shown)
    tests = _deletions(histories, scored, score, best, own) if evidence else [[] for _ in records]
    for row, record in enumerate(records):
        choices = []
        row_choices = zip(best[row].tolist(), shown[row].tolist(), shares[row].tolist(), strict=True)
        for number, (id, raw_score, share) in enumerate(row_choices):
            if raw_score == -math.inf:  # ruled out; a probability that only rounds to 0 keeps its rank
                continue
            if own is not None and repeats is not None and id >= len(vocabulary):
                place = int(own.places[row, id - len(vocabulary)])
                heed = Heed(record.values[place], place, 1.0, share * share_lost(record, place, repeats))
                choices.append(Choice(record.values[place], share, (heed,) if evidence else ()))
                continue
            heeds = (_heed(record, positions[row], test, number) for test in tests[row])
            choices.append(Choice(vocabulary.value(id), share, tuple(heeds)))
        yield Answer(tuple(choices), len(positions[row]), len(record.values), record.id)


def _heed(record: History, places: Index, test: _Deletion, choice: int) -> Heed:
    place = int(places[test.event])
    return Heed(record.values[place], place, test.share, test.lost[choice])


def _with_own(scored: Scored, own: OwnUnknown | None) -> Scored:
    """The batch of some records with the values that only they know in columns beside the catalogue."""
    return scored if own is None else scored.with_own(own)


class _Deletion(NamedTuple):
    event: int  # among the known events
    share: float
    lost: list[float]  # by choice


def _deletions(
    histories: Histories, scored: Scored, score: ScoreFunction, choices: Tensor, own: OwnUnknown | None
) -> list[list[_Deletion]]:
    """Each history again without one of the events it attended to most: what every choice loses."""
    rows, events, shares = _most_attended(histories, scored)
    deletions: list[list[_Deletion]] = [[] for _ in range(len(histories))]
    if not len(rows):
        return deletions
    repeated = histories.select(rows)
    keep = np.ones(len(repeated.ids), np.bool_)
    keep[repeated.offsets[:-1] + events] = False
    without = _with_own(score(repeated.keep(keep), repeated, None), own and own.of_rows(rows)).shares(choices[rows])
    lost = scored.shares(choices)[rows] - without
    for row, event, share, losses in zip(rows.tolist(), events.tolist(), shares, lost.tolist(), strict=True):
        deletions[row].append(_Deletion(event, share, losses))
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
