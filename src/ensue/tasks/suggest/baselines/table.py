"""Sparse table of query counts given a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Ids, Index
from ensue.nn.validation import LARGEST_COUNT, require_ids, require_number, require_offsets

SMALLEST = 1e-6
"""Smallest count of a pair; counts are rounded to that many digits."""


@dataclass(frozen=True, eq=False)
class Crowd:
    """The people behind some sessions.

    Attributes:
        people: (sessions,) a number for the person who typed each.
        min_users: how many people must have typed what is counted.
    """

    people: Index
    min_users: int


@dataclass(frozen=True, eq=False)
class QueryTable:
    """Counts of queries per value of a condition.

    Attributes:
        rows: (values + 1,) the queries of value ``v`` are ``others[rows[v]:rows[v + 1]]``, in rising order.
        others: (pairs,) ids of queries.
        weights: (pairs,) how often each came, in float32; a more distant query counts less than 1.
    """

    rows: Index
    others: Ids
    weights: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        """Check that the columns belong together.

        Raises:
            ValueError: they do not.
        """
        require_offsets("rows", self.rows, len(self.others))
        if self.weights.shape != self.others.shape:
            raise ValueError(f"{self.weights.size} weights for {self.others.size} pairs")
        require_number("weights", self.weights, LARGEST_COUNT, SMALLEST)

    def require_size(self, name: str, number: int, queries: int) -> None:
        """Check the number of values and queries.

        Args:
            name: of the table in the message.
            number: of values.
            queries: number of queries.

        Raises:
            ValueError: the table has other values or queries.
        """
        require_offsets(f"{name}.rows", self.rows, len(self.others), number)
        require_ids(f"{name}.others", self.others, queries)

    @classmethod
    def of(cls, pairs: Sequence[tuple[Index, Index, Index, float]], number: int, min_users: int = 1) -> QueryTable:
        """Add up pairs.

        Args:
            pairs: (pairs,) values, (pairs,) queries, (pairs,) people, and the count of each of these pairs.
            number: of values.
            min_users: a pair that fewer people typed is left out, and of each person the pair counts once, at its
                highest; with 1 every pair counts each time.
        """
        frames = [
            pl.DataFrame({"value": values, "query": queries, "person": people}).with_columns(weight=pl.lit(weight))
            for values, queries, people, weight in pairs
        ]
        if min_users > 1 and frames:
            once = pl.concat(frames).group_by("value", "query", "person").agg(pl.col("weight").max())
            frames = [once.filter(pl.len().over("value", "query") >= min_users)]
        return cls._of([frame.drop("person") for frame in frames], number)

    @classmethod
    def _of(cls, frames: list[pl.DataFrame], number: int) -> QueryTable:
        empty = pl.DataFrame(schema={"value": pl.Int64, "query": pl.Int64, "weight": pl.Float64})
        sums = pl.concat([empty, *frames]).group_by("value", "query").agg(pl.col("weight").sum()).sort("value", "query")
        rows = np.searchsorted(sums["value"].to_numpy(), np.arange(number + 1)).astype(np.int64)
        # Rounded, so that sums do not depend on the order of adding.
        weights = np.round(sums["weight"].to_numpy(), 6).astype(np.float32)
        return cls(rows, sums["query"].to_numpy().astype(np.int32), weights)

    def owners(self) -> Index:
        """(pairs,) the value of each."""
        return np.repeat(np.arange(len(self.rows) - 1), np.diff(self.rows))

    def with_(
        self, new: QueryTable, old_ids: tuple[Index, Index], new_ids: tuple[Index, Index], number: int
    ) -> QueryTable:
        """Return the table of two logs together.

        Args:
            new: of the other log.
            old_ids: of this table, the number among all of each value and of each query.
            new_ids: the same of the other table.
            number: of all values.
        """
        frames = [
            pl.DataFrame(
                {
                    "value": values[table.owners()],
                    "query": queries[table.others],
                    "weight": table.weights.astype(np.float64),
                }
            )
            for table, (values, queries) in ((self, old_ids), (new, new_ids))
        ]
        return self._of(frames, number)
