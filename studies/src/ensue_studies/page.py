"""Pages of studies: rows of plain values, selected and written as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ensue.significance import LEVEL

Row = dict[str, Any]
"""Plain values by name, as JSON stores them."""
Values = Mapping[str, Any]
"""A row that is only read."""
Rows = list[Row]
Tables = dict[str, Rows]


def select(rows: Iterable[Row], **values: object) -> Rows:
    """Return the rows that have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in values.items())]


def distinct(rows: Iterable[Row], name: str) -> list[str]:
    """Return the distinct values of a column, in order."""
    return list(dict.fromkeys(row[name] for row in rows))


def markdown(rows: Rows) -> list[str]:
    """Return the lines of a Markdown table with the columns of all rows; missing values are blank."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    titles = [name.replace("|", "\\|") if "|" in name else name.replace("_", " ") for name in columns]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(columns) + "|"]
    return [*lines, *(f"| {' | '.join(str(row.get(name, '')) for name in columns)} |" for row in rows)]


def percent(value: float, digits: int = 2) -> str:
    """Return a fraction in percent."""
    return f"{100 * value:.{digits}f}"


def estimate(row: Values, name: str, digits: int = 2) -> str:
    """Return a metric in percent, with half of its interval where the row has one."""
    if "interval" not in row:
        return percent(row[name], digits)
    low, high = row["interval"][name]
    return f"{percent(row[name], digits)} ± {50 * (high - low):.{digits}f}"


def listed(values: Iterable[object]) -> str:
    """Return values separated by commas."""
    return ", ".join(map(str, values))


def is_significant(test: Values) -> bool:
    """Return whether a paired test is significant."""
    return bool(test["p_value"] < LEVEL)


def by_significance(tests: Rows, words: tuple[str, str, str], describe: Callable[[Row], str]) -> str:
    """Return paired tests of one model in one sentence.

    Args:
        tests: rows with ``difference`` and ``p_value``.
        words: what precedes the models that it is significantly better than, worse than, and the others.
        describe: returns a compared model and the difference.
    """
    groups = (
        [row for row in tests if is_significant(row) and row["difference"] > 0],
        [row for row in tests if is_significant(row) and row["difference"] < 0],
        [row for row in tests if not is_significant(row)],
    )
    parts = [f"{word} {listed(map(describe, group))}" for word, group in zip(words, groups, strict=True) if group]
    return "; ".join(parts)


class Page:
    """A page of Markdown; every block is separated by one blank line.

    Args:
        introduction: the text above the first section, its title included.
    """

    def __init__(self, introduction: str) -> None:
        self.blocks = [introduction.strip("\n")]

    def section(self, title: str, *, level: int = 2) -> None:
        """Begin a section."""
        self.blocks.append(f"{'#' * level} {title}")

    def text(self, *paragraphs: str) -> None:
        """Add paragraphs; empty ones are left out."""
        self.blocks += filter(None, paragraphs)

    def bullets(self, items: Iterable[str]) -> None:
        """Add a list of items, if there are any."""
        self.text("\n".join(f"- {item}" for item in items))

    def data_sets(self, about: Mapping[str, str], absent: Collection[str], *more: str) -> None:
        """Add a list of data sets by name, each with a sentence, then the missing ones, then more items."""
        missing = [f"Not available: {listed(absent)}."] if absent else []
        self.bullets([*(f"**{name}**: {sentence}" for name, sentence in about.items()), *missing, *more])

    def table(self, rows: Rows, missing: str = "") -> None:
        """Add a table, or a sentence where there are no rows."""
        self.text("\n".join(markdown(rows)) if rows else missing)

    def __str__(self) -> str:
        """Return the page."""
        return "\n\n".join(self.blocks) + "\n"
