"""The columns of a file as they stand in it, to be written out again with others beside them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.table import JSON
from ensue.errors import DataError
from ensue.ids import normal_id
from ensue.lines import quoted


def nothing() -> pl.DataFrame:
    """No columns: records that were not read from a file have no originals."""
    return pl.DataFrame()


AUTHORS = ("user", "user_id", "userid", "username", "screen_name", "author", "author_id", "author_name")
"""Fields that name who wrote a text, in the order in which they are looked for."""


def rows_of(originals: pl.DataFrame, users: Collection[str], column: str, path: Path) -> npt.NDArray[np.bool_]:
    """Return whether some users wrote each row of a file.

    Args:
        originals: (rows) all columns; of JSON one column ``json`` of objects.
        users: their ids.
        column: the column that names them, of JSON perhaps a path such as ``user.screen_name``; one of ``AUTHORS``
            where it is empty.
        path: the file.

    Raises:
        DataError: there is no such column.
    """
    if originals.columns == [JSON]:
        objects = [json.loads(line) for line in originals[JSON]]
        paths = [column.split(".")] if column else [[name] for name in AUTHORS]
        lists = [[_field(fields, parts) for fields in objects] for parts in paths]
        names = next((found for found in lists if any(isinstance(name, str | int) for name in found)), None)
    else:
        found = next((name for name in ([column] if column else AUTHORS) if name in originals.columns), None)
        names = None if found is None else originals[found].to_list()
    if names is None:
        named = f"column {quoted(column)} is not there" if column else "no column is recognised as the author's"
        raise DataError(f"{path}: {named}; name it with --user-column")
    wanted = {*users}
    return np.array([name is not None and normal_id(name) in wanted for name in names], np.bool_)


def _field(fields: object, parts: Sequence[str]) -> object:
    for part in parts:
        fields = fields.get(part) if isinstance(fields, dict) else None
    return fields if isinstance(fields, str | int) else None


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
