"""Rows of a study's tables: picked, and written as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol, TypeVar

Rows = list[dict[str, Any]]


class Named(Protocol):
    """A data set of a study."""

    @property
    def name(self) -> str:
        """Its name in the tables."""
        ...


S = TypeVar("S", bound=Named)


def planned(found: Sequence[S], names: Collection[str]) -> tuple[list[S], list[str]]:
    """The data sets that a plan names, or all where none of them is there; and the names of those left out."""
    sets = [data for data in found if data.name in names] or list(found)
    kept = {data.name for data in sets}
    return sets, [data.name for data in found if data.name not in kept]


def of_data(rows: Iterable[dict[str, Any]], data: str) -> Rows:
    """The rows of one data set."""
    return [row for row in rows if row["data"] == data]


def distinct(rows: Iterable[dict[str, Any]], name: str) -> list[str]:
    """What stands in a column, each once, as it comes."""
    return list(dict.fromkeys(row[name] for row in rows))


def plain(rows: Rows) -> list[str]:
    """A Markdown table of all columns that any row has; what a row lacks stays blank."""
    head = list(dict.fromkeys(name for row in rows for name in row))
    titles = [name.replace("|", "\\|") if "|" in name else name.replace("_", " ") for name in head]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(head) + "|"]
    return [*lines, *(f"| {' | '.join(str(row.get(name, '')) for name in head)} |" for row in rows)]
