"""Which queries stand near each other in sessions, and how often: nearness fades with the queries in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Ids, Index
from ensue.metrics import Floats

Arrays = dict[str, npt.NDArray[Any]]
"""Columns by name, as a folder holds them: whole numbers or figures."""

FADE, REACH = 0.8, 8
"""A pair counts ``FADE`` to the number of queries between them; of more than ``REACH`` places apart not at all."""


@dataclass(frozen=True, eq=False)
class CoOccurrence:
    """A symmetric table.

    Attributes:
        rows: (queries + 1,) those near query ``q`` are ``others[rows[q]:rows[q + 1]]``, in order of place.
        others: (pairs,) places of queries, never ``q`` itself.
        weights: (pairs,) how near and how often, in float32.
    """

    rows: Index
    others: Ids
    weights: npt.NDArray[np.float32]

    @classmethod
    def fit(cls, places: Index, owners: Index, number: int) -> CoOccurrence:
        """Count the sessions of a log.

        Args:
            places: (events,) which query was typed; below 0 for one that is not kept.
            owners: (events,) its session; sessions stand one after the other.
            number: of queries.
        """
        parts = []
        for apart in range(1, min(REACH + 1, len(places))):
            one, other = places[:-apart], places[apart:]
            near = (owners[:-apart] == owners[apart:]) & (one >= 0) & (other >= 0) & (one != other)
            parts.append((one[near], other[near], FADE ** (apart - 1)))
        frames = [
            pl.DataFrame({"one": first, "other": second}).with_columns(weight=pl.lit(weight))
            for one, other, weight in parts
            for first, second in ((one, other), (other, one))
        ]
        return cls._of(frames, number)

    @classmethod
    def _of(cls, frames: list[pl.DataFrame], number: int) -> CoOccurrence:
        empty = pl.DataFrame(schema={"one": pl.Int64, "other": pl.Int64, "weight": pl.Float64})
        every = pl.concat([empty, *frames]).group_by("one", "other").agg(pl.col("weight").sum()).sort("one", "other")
        rows = np.searchsorted(every["one"].to_numpy(), np.arange(number + 1)).astype(np.int64)
        weights = np.round(every["weight"].to_numpy(), 6).astype(np.float32)  # the same whatever the order of adding
        return cls(rows, every["other"].to_numpy().astype(np.int32), weights)

    def with_(self, new: CoOccurrence, old_places: Index, new_places: Index, number: int) -> CoOccurrence:
        """The tables of two logs together.

        Args:
            new: of the other log.
            old_places: (own queries,) where each stands among all.
            new_places: (its queries,) the same.
            number: of all queries.
        """
        frames = [
            pl.DataFrame(
                {
                    "one": places[np.repeat(np.arange(len(places)), np.diff(table.rows))],
                    "other": places[table.others],
                    "weight": table.weights.astype(np.float64),
                }
            )
            for table, places in ((self, old_places), (new, new_places))
        ]
        return self._of(frames, number)

    def shares(self, totals: Index) -> Floats:
        """(pairs,) weight over the root of all weights of ``q``, and over the fourth root of how often the other is.

        Without those roots the queries that stand beside everything would lead everywhere.
        """
        lengths = np.diff(self.rows)
        sums = np.add.reduceat(np.append(self.weights, 0).astype(np.float64), self.rows[:-1]) * (lengths > 0)
        scaled: Floats = self.weights / np.sqrt(np.repeat(sums, lengths)) / totals[self.others] ** 0.25
        return scaled

    def arrays(self) -> Arrays:
        """All of it, read back by :meth:`restore`."""
        return {"beside_rows": self.rows, "beside_others": self.others, "beside_weights": self.weights}

    @classmethod
    def restore(cls, arrays: Arrays, number: int) -> CoOccurrence:
        """Put back what :meth:`arrays` gave.

        Raises:
            ValueError: the arrays do not fit together.
        """
        rows, others, weights = (arrays[f"beside_{name}"] for name in ("rows", "others", "weights"))
        ordered = len(rows) == number + 1 and not rows[0] and rows[-1] == len(others) == len(weights)
        if not ordered or (np.diff(rows) < 0).any() or (len(others) and not 0 <= others.min() <= others.max() < number):
            raise ValueError("what stands beside each query does not fit the queries")
        return cls(rows, others, weights)
