"""The columns of a file as they stand in it, to be written out again with others beside them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import polars as pl

from ensue.data.table import JSON


def nothing() -> pl.DataFrame:
    """No columns: records that were not read from a file have no originals."""
    return pl.DataFrame()


def extended(originals: pl.DataFrame, added: pl.DataFrame) -> pl.DataFrame:
    """The columns of a file, and others beside them.

    Args:
        originals: (rows) all columns; of JSON one column ``json`` of objects.
        added: (rows) columns; one whose name is taken gets ``ensue_`` before it.

    Returns:
        Both. Of JSON one column ``json``, the added fields within its objects.
    """
    if originals.columns != [JSON]:
        names = _free(added.columns, set(originals.columns))
        return originals.hstack(added.rename(dict(zip(added.columns, names, strict=True))))
    objects = [json.loads(line) for line in originals[JSON]]
    names = _free(added.columns, {name for fields in objects for name in fields})
    merged = (fields | dict(zip(names, row, strict=True)) for fields, row in zip(objects, added.rows(), strict=True))
    return pl.DataFrame({JSON: [json.dumps(fields, ensure_ascii=False) for fields in merged]})


def _free(names: Sequence[str], taken: Collection[str]) -> list[str]:
    return [f"ensue_{name}" if name in taken else name for name in names]
