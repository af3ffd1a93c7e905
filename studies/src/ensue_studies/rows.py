"""Rows of a study's tables: picked, and written as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Row = dict[str, Any]
"""Plain values by name, as JSON holds them."""
Values = Mapping[str, Any]
"""The same, to be read alone."""
Rows = list[Row]
Tables = dict[str, Rows]


def of_data(rows: Iterable[Row], data: str) -> Rows:
    """The rows of one data set."""
    return [row for row in rows if row["data"] == data]


def distinct(rows: Iterable[Row], name: str) -> list[str]:
    """What stands in a column, each once, as it comes."""
    return list(dict.fromkeys(row[name] for row in rows))


def plain(rows: Rows) -> list[str]:
    """A Markdown table of all columns that any row has; what a row lacks stays blank."""
    head = list(dict.fromkeys(name for row in rows for name in row))
    titles = [name.replace("|", "\\|") if "|" in name else name.replace("_", " ") for name in head]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(head) + "|"]
    return [*lines, *(f"| {' | '.join(str(row.get(name, '')) for name in head)} |" for row in rows)]
