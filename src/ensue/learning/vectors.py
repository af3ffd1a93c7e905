"""Vectors of items and records as a table: one row each, with an id and an array of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ensue.records import Record
from ensue.version import __version__

if TYPE_CHECKING:
    from ensue.learning.state import AnyState


def vector_frame(state: AnyState, records: Sequence[Record] | None = None) -> pl.DataFrame:
    """Return a frame of the columns ``id`` and ``vector`` (an array of float32).

    Args:
        state: a trained model with vectors.
        records: what is encoded, one row each; one without a word or item that the model knows has no vector, and one
            without an id gets its number, from 1. [default: the items or articles of the model]

    Raises:
        SettingError: the model has no such vectors.
    """
    if records is None:
        ids, vectors = state.vectors_of_items()
        mask = np.ones(len(ids), np.bool_)
    else:
        ids = [record.id or str(number) for number, record in enumerate(records, 1)]
        vectors, mask = state.vectors_of(records)
    array = pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))
    frame = pl.DataFrame({"id": pl.Series(list(ids), dtype=pl.String), "vector": array, "has": mask})
    return frame.select("id", pl.when("has").then("vector").alias("vector"))


def description(state: AnyState, *, of_records: bool) -> Mapping[str, str]:
    """Return what a file of vectors says of its model, for the metadata of Parquet."""
    return {
        "ensue": __version__,
        "task": state.task,
        "model": state.model_name,
        "seed": str(state.seed),
        "version": str(state.metadata.version or 1),
        "rows": "records" if of_records else "items",
    }
