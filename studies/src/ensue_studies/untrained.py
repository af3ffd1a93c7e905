"""Metrics of rules that learn nothing, with a leak and without it: what each kind of leak is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from ensue import metrics
from ensue.data.histories import Histories, scrambled
from ensue.data.leaks import before_the_last
from ensue.metrics import Floats
from ensue.vocabulary import Vocabulary

BATCH = 100
"""Prefixes per batch."""
AT = 20
MAX_FOLLOWERS = 100
"""Maximum number of ranked followers per item."""
_ABOVE = 1e9
"""Weight of a count that ranks above all others."""


@dataclass(frozen=True, slots=True)
class LeakRow:
    """Metrics of an untrained rule with a leak and without it, as fractions.

    Attributes:
        leak: its name.
        rule: that ranks.
        targets: number of targets.
        share: fraction of the targets, or of the sequences, that the leak affects.
        with_leak: metrics by name.
        without: metrics by name.
    """

    leak: str
    rule: str
    targets: int
    share: float
    with_leak: Mapping[str, float]
    without: Mapping[str, float]

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form."""
        return asdict(self)


def untrained_with_leaks(train: Histories, test: Histories, batch: int = BATCH) -> list[LeakRow]:
    """Return metrics of untrained rules on every event after the first, with a leak and without it.

    The rule ranks what followed the latest event: in training; with the leak, first what followed it in the rows of the
    same batch of prefixes in the order of the file, or what followed an equal prefix in training.

    Args:
        train: training data.
        test: test data; values that training lacks can only be found in the batch.
        batch: number of prefixes per batch.

    Returns:
        A row for adjacent prefixes; and where there are any, one for copies and one for later training data.
    """
    vocabulary = Vocabulary(dict.fromkeys([*train.vocabulary.values, *test.vocabulary.values]))
    coded = test.encode(vocabulary)
    training_pairs = _pairs(train.encode(vocabulary))
    targets = _pairs(coded).with_columns(batch=pl.int_range(pl.len()) // batch)
    followers = _followers(training_pairs)
    plain = _batch_ranks(targets, followers, None)
    adjacent = _batch_ranks(targets, followers, _batch_pairs(targets, batch))
    share = 1 - targets["sequence"].n_unique() / max(len(targets), 1)
    rule = "first-order Markov chain"
    rows = [
        LeakRow("adjacent prefixes in one batch", rule, len(targets), share, _means(adjacent), _means(plain)),
    ]
    is_copied = targets["print_after"].is_in(training_pairs["print_after"].unique().implode())
    # A sequence is a copy where its last prefix is in the training data: the flag of all its targets.
    copied = targets.with_columns(copied=is_copied).select(pl.col("copied").last().over("sequence")).to_series()
    is_copy = copied.to_numpy()
    if is_copy.any():
        ranks = _prefix_ranks(targets, followers, training_pairs)
        prefix_rule = "what followed an equal prefix, else the latest event"
        fraction = float(is_copy.mean())
        rows.append(
            LeakRow(
                "copies of training sessions",
                prefix_rule,
                len(targets),
                fraction,
                _means(ranks),
                _means(ranks[~is_copy]),
            )
        )
    if late := before_the_last(train, test):
        earlier = train.select(train.times[train.offsets[:-1]] < test.times[test.offsets[:-1]].min())
        ranks = _batch_ranks(targets, _followers(_pairs(earlier.encode(vocabulary))), None)
        fraction = late / len(test)
        rows.append(LeakRow("later training data", rule, len(targets), fraction, _means(plain), _means(ranks)))
    return rows


def _pairs(data: Histories) -> pl.DataFrame:
    """Return every event after the first with the one before it, its sequence, and hashes of the prefixes to both."""
    owners = data.sequence_index()
    positions = np.arange(len(data.ids)) - data.offsets[owners]
    # The hash of a prefix is the sum of the hashes of its (position, value) pairs, from the start of its sequence.
    mixed = scrambled((positions << 32 | data.ids).astype(np.uint64))
    ends = np.cumsum(mixed, dtype=np.uint64)
    starts = np.concatenate([np.zeros(1, np.uint64), ends])[data.offsets[:-1]]
    hashes = (ends - starts[owners]).view(np.int64)
    later = np.flatnonzero(positions > 0)
    return pl.DataFrame(
        {
            "sequence": owners[later],
            "last": data.ids[later - 1],
            "then": data.ids[later],
            "print": hashes[later - 1],
            "print_after": hashes[later],
        }
    )


def _followers(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the values that followed each value most often, with their counts."""
    counts = pairs.group_by("last", "then").len("count")
    counts = counts.sort(["last", "count", "then"], descending=[False, True, False])
    return counts.group_by("last", maintain_order=True).head(MAX_FOLLOWERS)


def _batch_pairs(targets: pl.DataFrame, batch: int) -> pl.DataFrame:
    """Return how often a value follows another in the prefixes of each batch.

    The last pair of a prefix is in all longer prefixes of its sequence: a pair at position p is in the prefixes of the
    targets p + 1, p + 2, …, which may reach into a later batch.
    """
    rows = targets.with_columns(row=pl.int_range(pl.len()))
    last = rows.group_by("sequence").agg(end=pl.col("row").max())
    spans = rows.join(last, on="sequence").filter(pl.col("row") < pl.col("end"))
    first = pl.col("row") + 1
    spans = spans.with_columns(batch=pl.int_ranges(first // batch, pl.col("end") // batch + 1)).explode("batch")
    return spans.group_by("batch", "last", "then").len("count")


def _batch_ranks(targets: pl.DataFrame, followers: pl.DataFrame, batch_pairs: pl.DataFrame | None) -> Floats:
    """Return (targets,) ranks by what followed the latest event, in the batch first if its pairs are used."""
    keys = targets.select("batch", "last").unique()
    scores = [keys.join(followers, on="last").select("batch", "last", "then", score=pl.col("count").cast(pl.Float64))]
    if batch_pairs is not None:
        in_batch = batch_pairs.join(keys, on=["batch", "last"], how="semi")
        scores.append(in_batch.select("batch", "last", "then", score=pl.col("count") * _ABOVE))
    return _ranks(targets, scores, ["batch", "last"])


def _prefix_ranks(targets: pl.DataFrame, followers: pl.DataFrame, training_pairs: pl.DataFrame) -> Floats:
    """Return (targets,) ranks by what followed an equal prefix, and below that the latest event."""
    keys = targets.select("print", "last").unique()
    equal = training_pairs.group_by("print", "last", "then").len("count").with_columns(score=pl.col("count") * _ABOVE)
    scores = [
        equal.join(keys, on=["print", "last"], how="semi").select("print", "last", "then", "score"),
        keys.join(followers, on="last").select("print", "last", "then", score=pl.col("count").cast(pl.Float64)),
    ]
    return _ranks(targets, scores, ["print", "last"])


def _ranks(targets: pl.DataFrame, scores: Sequence[pl.DataFrame], keys: Sequence[str]) -> Floats:
    """Return the (targets,) rank of each target among the summed scores of its keys; ties count against it."""
    table = pl.concat(scores).group_by(*keys, "then").agg(pl.col("score").sum())
    table = table.with_columns(rank=pl.col("score").rank("max", descending=True).over(keys))
    rank = targets.join(table, on=[*keys, "then"], how="left", maintain_order="left")["rank"]
    return rank.cast(pl.Float64).fill_null(metrics.MISS).to_numpy()


def _means(ranks: Floats) -> dict[str, float]:
    """Return the hit rate at ``AT`` and MRR; 0 without targets."""
    columns = {f"hit@{AT}": metrics.hit(ranks, AT), "mrr": metrics.reciprocal_rank(ranks)}
    return {name: float(column.mean()) if len(ranks) else 0.0 for name, column in columns.items()}
