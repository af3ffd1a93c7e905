"""The court before anything is believed: whether a model answers a record alone as it does beside others.

Some records are asked alone, then beside the rows that stand next to them (of a history its own longer prefixes, which
hold the answer), then among strangers. What follows from the record alone is the same each time but for rounding. Of
rankings some steps are also ranked with nothing after them: a model that reads later events ranks them otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl

from ensue import metrics
from ensue.answers import Answer, LinkAnswer, TextAnswer
from ensue.data.histories import Histories, Index, scrambled
from ensue.data.leaks import before_the_last
from ensue.metrics import Floats
from ensue.predictor import AnyPredictor
from ensue.records import History
from ensue.vocabulary import UNKNOWN, Vocabulary

ASKED = 8
"""Records that are asked alone."""
ALLOWED = 1
"""Of them so many may be answered otherwise: a search over equal scores may fall one way or the other."""
TOLERANCE = 1e-3
"""Relative difference of a score that rounding explains: sums in another order. Ranks, of near ties, ten times that."""
_FIRST, _PREFIXES, _K = 2_000, 4, 10
_BATCH, _AT, _SHOWN = 100, 20, 100
_ABOVE = 1e9
_CHOSEN = (Answer, TextAnswer, LinkAnswer)


class Recorded(Protocol):
    """Data as records."""

    def records(self) -> Iterator[object]:
        """All of them, one at a time."""
        ...


@runtime_checkable
class Ranks(Protocol):
    """A predictor that ranks every event of a history after its first."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Its values."""
        ...

    def ranks(self, data: Histories, /) -> tuple[Floats, Index, Index]:
        """The rank of every event, the index of its history, and its own."""
        ...


def reads_others(predictor: AnyPredictor, data: Recorded) -> str:
    """What a predictor's answers change with, in words; empty where each rests on its record alone.

    Args:
        predictor: fitted.
        data: what is scored.
    """
    if isinstance(data, Histories):
        data = data.keep(data.ids != UNKNOWN)  # an id that stands for no value cannot be asked about
    asked, beside, strangers = _sampled(data)
    alone = [predictor.predict([record], _K, evidence=False)[0] for record in asked]
    near = [predictor.predict([record, *own], _K, evidence=False)[0] for record, own in zip(asked, beside, strict=True)]
    mixed = predictor.predict([*strangers, *asked], _K, evidence=False)[len(strangers) :]
    for what, found in (("next to other records", near), ("among others", mixed)):
        changed = sum(_differs(one, other) for one, other in zip(alone, found, strict=True))
        if changed > ALLOWED:
            return f"{changed} of {len(asked)} records are answered differently {what} than alone"
    if isinstance(predictor, Ranks) and isinstance(data, Histories):
        changed, steps = _changed_ranks(predictor, data)
        if changed > ALLOWED:
            return f"{changed} of {steps} steps are ranked differently when later events or other rows are in the batch"
    return ""


def refusal(name: str, how: str) -> str:
    """Why a model is not compared."""
    return (
        f"{name}: its scores depend on other rows: {how}; other rows of a batch contain answers, so score every row "
        "independently"
    )


def _sampled(data: Recorded) -> tuple[list[object], list[list[object]], list[object]]:
    """Records to be asked, those that stand beside each, and strangers."""
    rows = [*islice(data.records(), _FIRST)]
    rows = [row for row in rows if not isinstance(row, History) or len(row.values) > 1] or rows
    places = np.unique(np.linspace(0, len(rows) - 1, min(ASKED, len(rows))).astype(int)).tolist() if rows else []
    asked, beside = list[object](), list[list[object]]()
    for place in places:
        row = rows[place]
        if isinstance(row, History):
            cut = max(len(row.values) // 2, 1)
            asked.append(_prefix(row, cut))
            longer = range(cut + 1, min(cut + _PREFIXES, len(row.values)) + 1)
            beside.append([_prefix(row, end) for end in longer])
        else:
            asked.append(row)
            beside.append(rows[place + 1 : place + 1 + _PREFIXES])
    others = [row for place, row in enumerate(rows[: 4 * ASKED]) if place not in places]
    return asked, beside, others[:ASKED]


def _prefix(row: History, end: int) -> History:
    return History(row.values[:end], row.times[:end], row.id)


def _differs(one: object, other: object) -> bool:
    """Whether two answers to one record are more apart than rounding; at the end of a list near ties may change."""
    if not (isinstance(one, _CHOSEN) and isinstance(other, _CHOSEN)):
        return one != other
    mine, theirs = ({choice.value: choice.score for choice in found.choices} for found in (one, other))
    if not mine or not theirs:
        return bool(mine) != bool(theirs)
    for own, found in ((mine, theirs), (theirs, mine)):
        last = min(found.values())
        for value, score in own.items():
            if not np.isclose(found.get(value, last), score, rtol=TOLERANCE, atol=1e-6):
                return True
    return False


def _changed_ranks(predictor: Ranks, data: Histories) -> tuple[int, int]:
    """How many of some steps are ranked otherwise with nothing after them and no row beside them, and of how many."""
    first = data.select(slice(0, _FIRST)).encode(predictor.vocabulary, drop_unknown=True)
    long = np.flatnonzero(first.lengths > 2)
    chosen = first.select(long[np.unique(np.linspace(0, len(long) - 1, min(ASKED, len(long))).astype(int))])
    if not len(chosen):
        return 0, 0
    ranks, owners, places = predictor.ranks(chosen)
    table = {(int(owner), int(place)): float(rank) for rank, owner, place in zip(ranks, owners, places, strict=True)}
    changed = 0
    for row in range(len(chosen)):
        low, length = int(chosen.offsets[row]), int(chosen.lengths[row])
        end = max(length // 2, 1) + 1  # one event more than the half is known: the last of it is the target
        kept = np.zeros(len(chosen.ids), np.bool_)
        kept[low : low + end] = True
        alone = chosen.keep(kept).select(np.array([row]))
        rank = float(predictor.ranks(alone)[0][-1])
        before = table[row, low + end - 1]
        changed += abs(rank - before) > max(2.0, 10 * TOLERANCE * max(rank, before))
    return changed, len(chosen)


@dataclass(frozen=True, slots=True)
class LeakRow:
    """What an untrained rule scores with a leak and without it, as fractions."""

    leak: str
    rule: str
    targets: int
    share: float
    """Of the targets, or sequences, that the leak touches."""
    with_leak: Mapping[str, float]
    without: Mapping[str, float]

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return asdict(self)


def untrained_with_leaks(train: Histories, test: Histories, batch: int = _BATCH) -> list[LeakRow]:
    """What rules that learn nothing score on every event after the first, with a leak and without it.

    The rule is what followed the latest event: in training; before that, with the leak, in the rows of the same batch
    of prefixes in the order of the file, or after an equal prefix in training.

    Args:
        train: what may be counted.
        test: what is asked; its values that training lacks can be found beside it alone.
        batch: prefixes that stand together.

    Returns:
        A row for neighbouring prefixes; and where there are any, one for copies and one for later training data.
    """
    coded = test.encode(_joined(train, test))
    known, asked = _pairs(train.encode(coded.vocabulary)), _pairs(coded)
    followed = _followers(known)
    asked = asked.with_columns(batch=pl.int_range(pl.len()) // batch)
    plain = _ranks(asked, followed, None)
    near = _ranks(asked, followed, _beside(asked, coded, batch))
    share = 1 - asked["sequence"].n_unique() / max(len(asked), 1)
    rule = "first-order Markov chain"
    rows = [
        LeakRow("adjacent prefixes in one batch", rule, len(asked), share, _figures(near), _figures(plain)),
    ]
    copies = _print_ranks(asked, followed, known)
    own = asked["print_after"].is_in(known["print_after"].unique().implode())
    whole = asked.with_columns(copied=own).select(pl.col("copied").last().over("sequence")).to_series().to_numpy()
    if whole.any():
        rows.append(
            LeakRow(
                *("copies of training sessions", "what followed an equal prefix, else the latest event", len(asked)),
                *(float(whole.mean()), _figures(copies), _figures(copies[~whole])),
            )
        )
    if late := before_the_last(train, test):
        earlier = train.select(train.times[train.offsets[:-1]] < test.times[test.offsets[:-1]].min())
        then = _ranks(asked, _followers(_pairs(earlier.encode(coded.vocabulary))), None)
        rows.append(
            LeakRow("later training data", rule, len(asked), late / len(test), _figures(plain), _figures(then)),
        )
    return rows


def _joined(train: Histories, test: Histories) -> Vocabulary:
    return Vocabulary(dict.fromkeys([*train.vocabulary.values, *test.vocabulary.values]))


def _pairs(data: Histories) -> pl.DataFrame:
    """Every event after the first with the one before it, its sequence, and prints of the events up to either."""
    owners = data.sequence_index()
    places = np.arange(len(data.ids)) - data.offsets[owners]
    mixed = scrambled((places << 32 | data.ids).astype(np.uint64))
    ends = np.cumsum(mixed, dtype=np.uint64)
    starts = np.concatenate([np.zeros(1, np.uint64), ends])[data.offsets[:-1]]
    prints = (ends - starts[owners]).view(np.int64)
    later = np.flatnonzero(places > 0)
    return pl.DataFrame(
        {
            "sequence": owners[later],
            "last": data.ids[later - 1],
            "then": data.ids[later],
            "print": prints[later - 1],
            "print_after": prints[later],
        }
    )


def _followers(pairs: pl.DataFrame) -> pl.DataFrame:
    """The values that followed each most often, with their counts."""
    counts = (
        pairs.group_by("last", "then").len("count").sort(["last", "count", "then"], descending=[False, True, False])
    )
    return counts.group_by("last", maintain_order=True).head(_SHOWN)


def _beside(asked: pl.DataFrame, data: Histories, batch: int) -> pl.DataFrame:
    """How often a value follows another in the prefixes of a batch: the last pair of each stands in the next prefix."""
    # The prefix whose target is the third event holds the first pair; so a pair at place p of its sequence stands in
    # the prefixes of the targets p + 1, p + 2, …, which may reach into a later batch.
    held = asked.with_columns(place=pl.int_range(pl.len()).over("sequence"), row=pl.int_range(pl.len()))
    last = held.group_by("sequence").agg(end=pl.col("row").max())
    spans = held.join(last, on="sequence").filter(pl.col("row") < pl.col("end"))
    first = pl.col("row") + 1
    spans = spans.with_columns(batch=pl.int_ranges(first // batch, pl.col("end") // batch + 1)).explode("batch")
    return spans.group_by("batch", "last", "then").len("beside")


def _ranks(asked: pl.DataFrame, followed: pl.DataFrame, beside: pl.DataFrame | None) -> Floats:
    """(targets,) ranks by what followed the latest event, in the batch first if it is looked at."""
    keys = asked.select("batch", "last").unique()
    scored = keys.join(followed, on="last").with_columns(score=pl.col("count").cast(pl.Float64))
    parts = [scored.select("batch", "last", "then", "score")]
    if beside is not None:
        near = beside.join(keys, on=["batch", "last"], how="semi")
        parts.append(near.select("batch", "last", "then", score=pl.col("beside") * _ABOVE))
    table = pl.concat(parts).group_by("batch", "last", "then").agg(pl.col("score").sum())
    table = table.with_columns(rank=pl.col("score").rank("max", descending=True).over("batch", "last"))
    return _looked_up(asked, table, ["batch", "last", "then"])


def _print_ranks(asked: pl.DataFrame, followed: pl.DataFrame, known: pl.DataFrame) -> Floats:
    """(targets,) ranks by what followed an equal prefix, and behind that the latest event."""
    same = known.group_by("print", "last", "then").len("count").with_columns(score=pl.col("count") * _ABOVE)
    keys = asked.select("print", "last").unique()
    parts = [
        same.join(keys, on=["print", "last"], how="semi").select("print", "last", "then", "score"),
        keys.join(followed, on="last").select("print", "last", "then", score=pl.col("count").cast(pl.Float64)),
    ]
    table = pl.concat(parts).group_by("print", "last", "then").agg(pl.col("score").sum())
    table = table.with_columns(rank=pl.col("score").rank("max", descending=True).over("print", "last"))
    return _looked_up(asked, table, ["print", "last", "then"])


def _looked_up(asked: pl.DataFrame, table: pl.DataFrame, keys: Iterable[str]) -> Floats:
    found = asked.join(table, on=[*keys], how="left", maintain_order="left")["rank"]
    return found.cast(pl.Float64).fill_null(metrics.MISS).to_numpy()


def _figures(ranks: Floats) -> dict[str, float]:
    if not len(ranks):
        return {f"hit@{_AT}": 0.0, "mrr": 0.0}
    return {f"hit@{_AT}": float(metrics.hit(ranks, _AT).mean()), "mrr": float(metrics.reciprocal_rank(ranks).mean())}
