"""The test whether a model answers a record alone as it does next to others.

Some records are predicted alone, then next to the rows that are adjacent in the file (of a history its own longer
prefixes, which contain the answer), then among unrelated records. What depends on the record alone is the same each
time but for rounding. Of rankings some steps are also ranked with nothing after them: a model that reads later events
ranks them differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np

from ensue.answers import Answer, LinkAnswer, TextAnswer
from ensue.data.histories import Histories, Index
from ensue.metrics import Floats
from ensue.predictor import AnyPredictor
from ensue.records import History
from ensue.vocabulary import UNKNOWN, Vocabulary

NUM_RECORDS = 8
"""Records that are predicted alone."""
MAX_CHANGED = 1
"""Maximum number of changed answers: a search over equal scores may go either way."""
TOLERANCE = 1e-3
"""Relative difference of a score that rounding explains: sums in another order. For ranks (near ties) ten times it."""
_FIRST = 2_000
_PREFIXES = 4
_K = 10


class Recorded(Protocol):
    """Data as records."""

    def records(self) -> Iterator[object]:
        """Yield all records."""


@runtime_checkable
class Ranks(Protocol):
    """A predictor that ranks every event of a history after its first."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Its values."""

    def ranks(self, data: Histories, /) -> tuple[Floats, Index, Index]:
        """Return the rank of every event, the index of its history, and its own."""


def reads_others(predictor: AnyPredictor, data: Recorded) -> str:
    """Return what the answers of a predictor change with, in words; empty where each depends on its record alone.

    Args:
        predictor: fitted.
        data: to score.
    """
    if isinstance(data, Histories):
        data = data.keep(data.ids != UNKNOWN)  # an id that stands for no value cannot be predicted
    records, adjacent, unrelated = _sampled(data)
    # The same records alone, next to the rows beside them, and among unrelated ones.
    single = [predictor.predict([record], _K, evidence=False)[0] for record in records]
    joined = [
        predictor.predict([record, *rows], _K, evidence=False)[0]
        for record, rows in zip(records, adjacent, strict=True)
    ]
    mixed = predictor.predict([*unrelated, *records], _K, evidence=False)[len(unrelated) :]
    for company, answers in (("next to other records", joined), ("among others", mixed)):
        changed = sum(_differs(answer, other) for answer, other in zip(single, answers, strict=True))
        if changed > MAX_CHANGED:
            return f"{changed} of {len(records)} records are answered differently {company} than alone"
    if isinstance(predictor, Ranks) and isinstance(data, Histories):
        changed, steps = _changed_ranks(predictor, data)
        if changed > MAX_CHANGED:
            return f"{changed} of {steps} steps are ranked differently when later events or other rows are in the batch"
    return ""


def refusal(name: str, dependence: str) -> str:
    """Return why a model is not compared.

    Args:
        name: of the model.
        dependence: of :func:`reads_others`.
    """
    return (
        f"{name}: its scores depend on other rows: {dependence}; other rows of a batch contain answers, so score every "
        "row independently"
    )


def _sampled(data: Recorded) -> tuple[list[object], list[list[object]], list[object]]:
    """Return records, the rows that are adjacent to each, and unrelated records."""
    rows = [*islice(data.records(), _FIRST)]
    rows = [row for row in rows if not isinstance(row, History) or len(row.values) > 1] or rows
    num_records = min(NUM_RECORDS, len(rows))
    # Spread the sample evenly over the rows.
    numbers = np.unique(np.linspace(0, len(rows) - 1, num_records).astype(int)).tolist() if rows else []
    records = list[object]()
    adjacent = list[list[object]]()
    for number in numbers:
        row = rows[number]
        if isinstance(row, History):
            # Longer prefixes of the same session contain its answer: a model that reads them gives itself away.
            half = max(len(row.values) // 2, 1)
            records.append(_prefix(row, half))
            longer = range(half + 1, min(half + _PREFIXES, len(row.values)) + 1)
            adjacent.append([_prefix(row, end) for end in longer])
        else:
            records.append(row)
            adjacent.append(rows[number + 1 : number + 1 + _PREFIXES])
    unrelated = [row for number, row in enumerate(rows[: 4 * NUM_RECORDS]) if number not in numbers]
    return records, adjacent, unrelated[:NUM_RECORDS]


def _prefix(row: History, end: int) -> History:
    return History(row.values[:end], row.times[:end], row.id)


def _differs(first: object, second: object) -> bool:
    """Return whether two answers to one record differ by more than rounding; near ties may change the end of a list."""
    if not isinstance(first, Answer | TextAnswer | LinkAnswer) or not isinstance(second, type(first)):
        return first != second
    first_scores, second_scores = (
        {choice.value: choice.score for choice in answer.choices} for answer in (first, second)
    )
    if not first_scores or not second_scores:
        return bool(first_scores) != bool(second_scores)
    # Compare both ways, as either list may hold values that the other lacks.
    for scores, reference in ((first_scores, second_scores), (second_scores, first_scores)):
        # A value missing from a top-k list scores at most its lowest entry; if it scored more, the answers differ.
        lowest = min(reference.values())
        for value, score in scores.items():
            if not np.isclose(reference.get(value, lowest), score, rtol=TOLERANCE, atol=1e-6):
                return True
    return False


def _changed_ranks(predictor: Ranks, data: Histories) -> tuple[int, int]:
    """Return how many steps are ranked differently with nothing after them and no other row, and how many there are."""
    first = data.select(slice(0, _FIRST)).encode(predictor.vocabulary, drop_unknown=True)
    long = np.flatnonzero(first.lengths > 2)
    numbers = np.unique(np.linspace(0, len(long) - 1, min(NUM_RECORDS, len(long))).astype(int))
    histories = first.select(long[numbers])
    if not len(histories):
        return 0, 0
    ranks, owners, events = predictor.ranks(histories)
    # Ranks by session and event, from one call with whole sessions.
    table = {(int(owner), int(event)): float(rank) for rank, owner, event in zip(ranks, owners, events, strict=True)}
    changed = 0
    for row in range(len(histories)):
        start = int(histories.offsets[row])
        length = int(histories.lengths[row])
        end = max(length // 2, 1) + 1  # one event more than half: the last of them is the target
        mask = np.zeros(len(histories.ids), np.bool_)
        # Cut the session after the target, and leave all other rows out.
        mask[start : start + end] = True
        single = histories.keep(mask).select(np.array([row]))
        rank = float(predictor.ranks(single)[0][-1])
        expected = table[row, start + end - 1]
        changed += abs(rank - expected) > max(2.0, 10 * TOLERANCE * max(rank, expected))
    return changed, len(histories)
