"""True influence: pairs (from, to) of a network of people, to be compared with a model's weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import polars as pl

from ensue.arguments import require_path
from ensue.data.file_bytes import Opening
from ensue.data.files import Content, answering, open_file
from ensue.data.ids import whole_numbers
from ensue.errors import DataError
from ensue.lines import plural

Edges = frozenset[tuple[str, str]]
HEADERS = (("from", "to"), ("source", "target"), ("src", "dst"), ("followed", "follower"), ("followee", "follower"))
"""Columns of a header: what is passed on goes from the first to the second."""
_EXPECTED = "expected 'from to' on each line, or a table with the columns from and to"


def read_edges(path: str | Path, **opening: Unpack[Opening]) -> Edges:
    """The pairs (from, to) of a file: two values a line by spaces, tabs or commas, or a table with columns ``HEADERS``.

    Whatever stands behind the first two of a line, such as a weight, is passed over.

    Raises:
        DataError: naming the file, the line and what to do.
    """
    path = require_path(path)
    with answering(path):
        content = open_file(path, **opening)
        if content.parquet or content.json:
            raise DataError(f"{path}: is not a list of edges; {_EXPECTED}")
        edges = list[tuple[str, str]]()
        indices = (0, 1)
        for at, (number, row) in enumerate(_rows(content)):
            if at == 0 and (header := _header(row)):
                indices = header
                continue
            pair = [row[index].strip() if index < len(row) else "" for index in indices]
            if not all(pair):
                raise DataError(f"{path}, line {number}: {plural(len(row), 'field')}; {_EXPECTED}")
            edges.append((pair[0], pair[1]))
    if not edges:
        raise DataError(f"{path}: holds no edge; {_EXPECTED}")
    # Ids are written as other readers write them: 7.0 is 7 where the whole column is of whole numbers.
    sources, targets = (whole_numbers(pl.Series(side)) for side in zip(*edges, strict=True))
    return frozenset(zip(sources, targets, strict=True))


def _rows(content: Content) -> Iterator[tuple[int, Sequence[str]]]:
    """The fields of each line that holds any, with its number."""
    # Spaces separate only where nothing else does: names may hold spaces.
    first = content.head(1)[0]
    if any(separator in first for separator in "\t,;"):
        return ((number, row) for number, row in content.rows(content.separator) if any(row))
    return ((number, line.split()) for number, line in content.filled())


def _header(row: Sequence[str]) -> tuple[int, int] | None:
    """Return the columns of from and to, if this is a header."""
    names = [name.strip().casefold() for name in row]
    return next(((names.index(a), names.index(b)) for a, b in HEADERS if a in names and b in names), None)
