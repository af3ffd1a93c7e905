"""Sparse table of query counts given a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from ensue.data.histories import Ids, Index
from ensue.nn.validation import LARGEST_COUNT, require_ids, require_number, require_offsets, require_table

SMALLEST = 1e-6
"""Smallest count of a pair; counts are rounded to that many digits."""
Arrays = dict[str, npt.NDArray[Any]]
"""Columns by name, as a folder holds them: whole numbers or figures."""


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
    def none(cls, number: int = 0) -> Table:
        """Nothing was counted."""
        return cls.of((), number)

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

    def arrays(self, name: str) -> Arrays:
        """All of it under names that begin so, read back by :meth:`restore`."""
        return {f"{name}_rows": self.rows, f"{name}_others": self.others, f"{name}_weights": self.weights}

    @classmethod
    def restore(cls, arrays: Arrays, name: str, what: str, number: int, queries: int) -> Table:
        """Put back what :meth:`arrays` gave.

        Args:
            arrays: of a folder.
            name: what their names begin with.
            what: the same for people.
            number: of things that can be given.
            queries: that can come.

        Raises:
            ValueError: the arrays do not fit together.
        """
        rows, others, weights = (torch.from_numpy(arrays[f"{name}_{part}"]) for part in ("rows", "others", "weights"))
        require_table(f"{what}: others", others, torch.int32, [None])
        require_table(f"{what}: weights", weights, torch.float32, [len(others)])
        require_offsets(f"{what}: rows", rows, len(others), number)
        require_ids(f"{what}: others", others, queries)
        require_number(f"{what}: weights", weights, LARGEST_COUNT, SMALLEST)
        return cls(rows.numpy(), others.numpy(), weights.numpy())
