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
class Table:
    """Counts a given thing.

    Attributes:
        rows: (given + 1,) the queries of the given thing ``g`` are ``others[rows[g]:rows[g + 1]]``, in order of place.
        others: (pairs,) places of queries.
        weights: (pairs,) how often each came, in float32; less than 1 for what stood farther away.
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
        """Check what the table is about.

        Args:
            name: what the message calls it.
            number: of things that can be given.
            queries: that can come.

        Raises:
            ValueError: it is about other things or queries.
        """
        require_offsets(f"{name}.rows", self.rows, len(self.others), number)
        require_ids(f"{name}.others", self.others, queries)

    @classmethod
    def of(cls, parts: Sequence[tuple[Index, Index, Index, float]], number: int, min_users: int = 1) -> Table:
        """Add up pairs.

        Args:
            parts: (pairs,) what was given, (pairs,) the query, (pairs,) the person, and what each pair counts.
            number: of things that can be given.
            min_users: a pair that fewer people typed is left out, and of each person the pair counts once, at its
                highest; with 1 every pair counts each time.
        """
        frames = [
            pl.DataFrame({"given": given, "query": query, "person": person}).with_columns(weight=pl.lit(weight))
            for given, query, person, weight in parts
        ]
        if min_users == 1 or not frames:
            return cls._of([frame.drop("person") for frame in frames], number)
        once = pl.concat(frames).group_by("given", "query", "person").agg(pl.col("weight").max())
        shared = once.filter(pl.len().over("given", "query") >= min_users)
        return cls._of([shared.drop("person")], number)

    @classmethod
    def _of(cls, frames: list[pl.DataFrame], number: int) -> Table:
        empty = pl.DataFrame(schema={"given": pl.Int64, "query": pl.Int64, "weight": pl.Float64})
        every = pl.concat([empty, *frames]).group_by("given", "query").agg(pl.col("weight").sum())
        every = every.sort("given", "query")
        rows = np.searchsorted(every["given"].to_numpy(), np.arange(number + 1)).astype(np.int64)
        weights = np.round(every["weight"].to_numpy(), 6).astype(np.float32)  # the same whatever the order of adding
        return cls(rows, every["query"].to_numpy().astype(np.int32), weights)

    def owners(self) -> Index:
        """(pairs,) the given thing of each."""
        return np.repeat(np.arange(len(self.rows) - 1), np.diff(self.rows))

    def with_(self, new: Table, old_places: tuple[Index, Index], new_places: tuple[Index, Index], number: int) -> Table:
        """The tables of two logs together.

        Args:
            new: of the other log.
            old_places: where each given thing of this table stands among all, and each query.
            new_places: the same of the other.
            number: of all things that can be given.
        """
        frames = [
            pl.DataFrame(
                {
                    "given": given[table.owners()],
                    "query": queries[table.others],
                    "weight": table.weights.astype(np.float64),
                }
            )
            for table, (given, queries) in ((self, old_places), (new, new_places))
        ]
        return self._of(frames, number)
