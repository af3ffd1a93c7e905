"""Checks of sequences: what a data set holds, and warnings about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ensue.data.duplicates import duplicates
from ensue.data.histories import Histories, Index, Times, distinct_numbers
from ensue.data.leaks import before_the_last, begun_beside, near_sequences, not_compared
from ensue.data.schema import FindingRow, SequencesReport
from ensue.data.sequences.columns import is_person
from ensue.data.sequences.rows import UNORDERED
from ensue.data.sequences.telling import hardly_known
from ensue.lines import part_of, quoted
from ensue.records import History
from ensue.tasks.next.training_data import (
    EXCLUSION_RULES,
    LeftOut,
    count_neighbours,
    default_exclusion,
    fingerprints,
    repeat_shares,
)

_FEW_VALUES = 50
_FAST_EVENTS = 200
_FAST_SECONDS = 600
"""Events within seconds that no person makes."""
_STEADY_EVENTS = 100
_STEADY_SPREAD = 0.1
_STEADY_SHARE = 0.9
_MAX_STEADY_SHARE = 0.1
"""Events of a program that asks steadily: how many pauses are how close to the median; share of sequences at most."""
_ROWS = 3
_EVENTS = 6
_percent_of = partial(part_of, percent=True)
_TEACHES = ("has one event and no target", "have one event and no target")


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Counts, a glance at the data, and warnings; goes into JSON by ``dataclasses.asdict``."""

    understood: SequencesReport
    sequences: int
    events: int
    distinct: int
    mean_length: float
    median_length: float
    longest: int
    single: int
    """Sequences of one event: nothing follows anything."""
    repeat_share: float
    """Share of the events, the first of each sequence left out, whose sequence holds their item already."""
    immediate_repeat_share: float
    """Share of the same events that repeat the item just before them."""
    rows: tuple[History, ...]
    """The first sequences, their first events."""
    warnings: tuple[str, ...] = field(default=())
    min_users: LeftOut | None = None
    """What a k-anonymity threshold leaves out, where one is assumed."""

    def table(self) -> list[FindingRow]:
        """Return the findings for people, one row each."""
        lengths = f"mean {self.mean_length:.1f}, median {self.median_length:g}, max {self.longest:,}"
        exclusion = default_exclusion(self.repeat_share, self.immediate_repeat_share)
        repeats = f"{100 * self.repeat_share:.1f} % of the events"
        if self.repeat_share:
            repeats += f", {100 * self.immediate_repeat_share:.1f} % the previous item"
        threshold = [] if self.min_users is None else [("threshold", "", self.min_users.sentence)]
        return [
            ("sessions", f"{self.sequences:,}", f"{self.single:,} of a single event" if self.single else ""),
            ("events", f"{self.events:,}", ""),
            ("items", f"{self.distinct:,}", ""),
            ("events per session", lengths, ""),
            ("repeats in a session", repeats, EXCLUSION_RULES[exclusion]),
            *threshold,
        ]


def check(
    histories: Histories,
    understood: SequencesReport,
    others: Mapping[str, Histories] | None = None,
    told: Iterable[str] = (),
    min_users: LeftOut | None = None,
) -> Findings:
    """Count, show and warn.

    Args:
        histories: what a model would be trained on; not empty.
        understood: what the reader said of it.
        others: the other splits by name, such as ``{"test": …}``.
        told: what else was found in the file, such as columns that tell the next value.
        min_users: what a k-anonymity threshold leaves out.
    """
    splits = dict(others or {})
    repeat_share, immediate_repeat_share = repeat_shares(histories)
    lengths = histories.lengths
    warnings = [
        *understood.warnings,
        *filter(None, [duplicates(histories)]),
        *_single(lengths),
        *_programs(histories, understood),
        *_crawlers(histories, understood),
        *_duplicates(histories),
        *_ties(histories),
        *_clock(histories, understood),
        *_order(histories, understood),
        *told,
        *_vocabulary(histories),
    ]
    for name, other in splits.items():
        warnings += [*leaks_between(histories, other, name, "here"), *_unseen(histories, other, name)]
    return Findings(
        understood=understood,
        sequences=len(histories),
        events=len(histories.ids),
        distinct=len(distinct_numbers(histories.ids)),
        mean_length=float(lengths.mean()),
        median_length=float(np.median(lengths)),
        longest=int(lengths.max()),
        single=int((lengths == 1).sum()),
        repeat_share=repeat_share,
        immediate_repeat_share=immediate_repeat_share,
        rows=tuple(_shorten(histories.record(index)) for index in range(min(_ROWS, len(histories)))),
        warnings=tuple(warnings),
        min_users=min_users,
    )


def _shorten(record: History) -> History:
    return History(record.values[:_EVENTS], record.times[:_EVENTS], record.id)


def _single(lengths: Index) -> Iterator[str]:
    if single := int((lengths == 1).sum()):
        yield f"{_percent_of(single, len(lengths), 'session', *_TEACHES)}"


def _programs(histories: Histories, understood: SequencesReport) -> Iterator[str]:
    """Warn of sequences of one person with more events within minutes than a person makes."""
    if not histories.timed or not is_person(understood.columns) or len(histories.ids) < _FAST_EVENTS:
        return
    owners = histories.sequence_index()
    last = _FAST_EVENTS - 1
    # Compare each event with the one _FAST_EVENTS - 1 later: the same session, and within the limit.
    fast = (histories.times[last:] - histories.times[:-last] <= _FAST_SECONDS) & (owners[last:] == owners[:-last])
    if (programs := distinct_numbers(owners[last:][fast])).size:
        longest = int(programs[np.argmax(histories.lengths[programs])])
        name = histories.record(longest).id
        example = f", {quoted(name)} {histories.lengths[longest]:,} in all" if name else ""
        yield (
            f"{_percent_of(len(programs), len(histories), 'session', 'has', 'have')} {_FAST_EVENTS} events and more "
            f"within {_FAST_SECONDS // 60} minutes{example}: probably bots; remove them"
        )


def _crawlers(histories: Histories, understood: SequencesReport) -> Iterator[str]:
    """Warn of sequences of one person whose events come at the same interval, as a program asks for pages.

    Where most long sequences do, the times are those of a clock that ticks, such as row numbers, and nothing is said.
    """
    if not histories.timed or not understood.absolute or not is_person(understood.columns):
        return
    long = np.flatnonzero(histories.lengths >= _STEADY_EVENTS)
    starts = histories.offsets
    candidates = ((row, _interval(histories.times[starts[row] : starts[row + 1]])) for row in long.tolist())
    intervals = {row: interval for row, interval in candidates if interval}
    if intervals and len(intervals) <= len(histories) * _MAX_STEADY_SHARE:
        row, interval = next(iter(intervals.items()))
        name = histories.record(row).id
        example = f", {quoted(name)} every {interval:g} s" if name else ""
        yield (
            f"{_percent_of(len(intervals), len(histories), 'session', 'has', 'have')} {_STEADY_EVENTS} events and more "
            f"at steady intervals{example}: probably bots; remove them"
        )


def _interval(times: Times) -> float:
    """Return the seconds between most events, 0 where they differ or nobody could tell them from a person's."""
    pauses = np.diff(times)
    usual = float(np.median(pauses))
    # Pauses close to the median; a person's pauses spread over orders of magnitude.
    steady = np.abs(pauses - usual) <= _STEADY_SPREAD * usual
    return usual if 0 < usual <= _FAST_SECONDS and steady.mean() >= _STEADY_SHARE else 0.0


def _duplicates(histories: Histories) -> Iterator[str]:
    if double := len(histories) - len(distinct_numbers(fingerprints(histories))):
        yield f"{_percent_of(double, len(histories), 'session', 'repeats', 'repeat')} an earlier one exactly"


def leaks_between(
    histories: Histories, other: Histories, name: str, here: str = "in the training data"
) -> Iterator[str]:
    """Find leaks between the training data and another part: copies, and later times.

    Args:
        histories: what is trained on.
        other: the other part.
        name: what it is called.
        here: where the first part is.
    """
    shared = int(np.isin(fingerprints(other.encode(histories.vocabulary)), fingerprints(histories)).sum())
    if shared:
        yield f"{_percent_of(shared, len(other), 'session', 'is', 'are', of=name)} {here} too, as exact duplicates"
    num_near = near_sequences(histories, other)
    if num_near is None:
        yield not_compared(name, "events")
    # Exact duplicates are near duplicates too, and are already reported.
    elif num_near > shared:
        yield f"{_percent_of(num_near, len(other), 'session', 'nearly repeats', 'nearly repeat', of=name)} one {here}"
    if late := before_the_last(histories, other):
        fraction = _percent_of(late, len(other), "session", "begins", "begin", of=name)
        yield f"{fraction} before the last {here}: training data is later than test data"


def _order(histories: Histories, understood: SequencesReport) -> Iterator[str]:
    """Warn of expanded prefixes, and of times that were not in order."""
    if num_prefixes := begun_beside(histories):
        yield (
            f"{_percent_of(num_prefixes, len(histories), 'row', 'begins', 'begin')} the adjacent row: "
            "expanded prefixes contain each other's answers; give whole sessions"
        )
    sorted_note = next((note for note in understood.notes if note.endswith("sorted by time")), None)
    if sorted_note is not None and understood.layout not in UNORDERED:
        yield sorted_note


def _unseen(histories: Histories, other: Histories, name: str) -> Iterator[str]:
    seen = set(histories.vocabulary.values)
    # Padding and unknown come first and are no items.
    new = np.array([False, False, *(value not in seen for value in other.vocabulary.values)])
    if unseen := int(new[other.ids].sum()):
        hardly = hardly_known(other, histories.vocabulary, "this file")
        yield f"{_percent_of(unseen, len(other.ids), 'event', 'has', 'have', of=name)} an item unseen here"
        if hardly:
            yield f"{name}: {hardly}"


def _ties(histories: Histories) -> Iterator[str]:
    tied = count_neighbours(histories, histories.times[1:] == histories.times[:-1]) if histories.timed else 0
    if tied:
        yield (
            f"{_percent_of(tied, len(histories.ids), 'event', 'happens', 'happen')} at the time of the one before: "
            "their order is undefined"
        )


def _clock(histories: Histories, understood: SequencesReport) -> Iterator[str]:
    if not histories.timed:
        yield "no usable times: a split by time is impossible, and models cannot use time"
    elif not understood.absolute and len(distinct_numbers(histories.times[histories.offsets[:-1]])) == 1:
        yield f"every session starts at time {histories.times[0]:g}: a global split by time is impossible"


def _vocabulary(histories: Histories) -> Iterator[str]:
    if (distinct := len(distinct_numbers(histories.ids))) < _FEW_VALUES:
        yield f"only {distinct} distinct items; metrics at cutoffs 50 and 100 are meaningless"
