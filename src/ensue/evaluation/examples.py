"""What each model made of each thing that was scored, so that anybody can test a difference again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl

from ensue.data.histories import Index
from ensue.evaluation.entries import Entry
from ensue.metrics import Floats

RUN = TypeVar("RUN")
Columns = Mapping[str, pl.Series]


@dataclass(frozen=True, eq=False)
class Examples:
    """What was asked, and of each model and seed what it found; both are made when they are looked at.

    Args:
        asked: makes a row for each thing that was scored: ``id``; ``unit``, the number of what it is resampled with;
            and what was true.
        found: makes (model, seed, columns), the columns in the order of ``asked``.
    """

    asked: Callable[[], pl.DataFrame]
    found: Callable[[], Sequence[tuple[str, int, Columns]]]

    def to_frame(self) -> pl.DataFrame:
        """A row for each model, seed and thing that was scored."""
        asked = self.asked()
        parts = [
            asked.with_columns(pl.lit(model).alias("model"), pl.lit(seed).alias("seed"), **columns)
            for model, seed, columns in self.found()
        ]
        return pl.concat(parts).select("model", "seed", pl.exclude("model", "seed"))


def found_of(lines: Sequence[Entry[RUN]], columns: Callable[[RUN], Columns]) -> list[tuple[str, int, Columns]]:
    """(model, seed, columns) of every run."""
    return [(line.name, seed, columns(run)) for line in lines for run, seed in zip(line.runs, line.seeds, strict=True)]


def ranked(rank: Floats) -> pl.Series:
    """Ranks from 1; empty where there is none."""
    return pl.Series("rank", np.where(np.isfinite(rank), rank, 0), pl.Int64).replace(0, None)


def named(names: pl.Series, rows: Index, num: int) -> pl.Series:
    """(rows,) the name of each; its number from 1 where it has none.

    Args:
        names: (num,) names, or none at all.
        rows: places in them.
        num: how many there are.
    """
    numbers = pl.Series(np.arange(1, num + 1)).cast(pl.String)
    every = names.zip_with(names != "", numbers) if len(names) else numbers
    return every.gather(rows)
