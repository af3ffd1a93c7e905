"""Lines above the header of a CSV file, as reports and exporting programs write them: titles, comments, empty lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from itertools import islice

_SEPARATORS = (",", ";", "\t", "|")
_MAX_LINES = 50
"""Lines above a header, at most."""
_ROWS = 50
"""Rows below a header that must fit it."""
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?")


def num_preamble_lines(head: Sequence[str]) -> int:
    """Return how many lines stand above the header; 0 unless what follows them is surely a table.

    As in a sheet, a line above the header fills one cell at most, whatever the separator; a comment begins with ``#``.
    The header is the first other line: its names differ, and all rows below it have as many fields.

    Args:
        head: the first lines; the last one must be whole.
    """
    start = next((row for row, line in enumerate(head[: _MAX_LINES + 1]) if not _is_above(line, head)), 0)
    titles = sum(bool(line.strip()) and not line.startswith("#") for line in head[:start])
    # A list of texts may end in two that have a comma each: titles are fewer than the rows of their table.
    below = sum(bool(line.strip()) for line in head[start + 1 :])
    surely = start > 0 and titles <= below
    return start if surely and any(is_table(csv.reader(head[start:], delimiter=mark)) for mark in _SEPARATORS) else 0


def _is_above(line: str, head: Sequence[str]) -> bool:
    """Whether a line fills one cell at most, or is a comment; a header may begin with ``#`` too."""
    if line.lstrip("\ufeff").startswith("#"):
        return not any(_is_commented_header(line, head, separator) for separator in _SEPARATORS)
    return all(sum(bool(cell.strip()) for cell in _cells(line, separator)) < 2 for separator in _SEPARATORS)


def _is_commented_header(line: str, head: Sequence[str], separator: str) -> bool:
    """Whether a line that begins with ``#`` has names for all fields of the first line that does not."""
    cells = _cells(line, separator)
    below = next((row for row in head if row.strip() and not row.lstrip("\ufeff").startswith("#")), "")
    return is_header(cells) and len(cells) == len(_cells(below, separator))


def is_table(rows: Iterable[Sequence[str]]) -> bool:
    """Whether rows are a header and rows of the same width, as far as they are looked at."""
    filled = [row for row in islice(rows, _ROWS) if any(row)]
    return len(filled) > 1 and is_header(filled[0]) and all(len(row) == len(filled[0]) for row in filled)


def _cells(line: str, separator: str) -> list[str]:
    return next(csv.reader([line.lstrip("\ufeff")], delimiter=separator), [])


def is_header(cells: Sequence[str]) -> bool:
    """Whether cells look like names of columns: two or more, all different, no numbers, no ends of sentences.

    Words after a comma begin with a space, which names do not.
    """
    return (
        len(cells) > 1
        and len(set(cells)) == len(cells)
        and all(
            cell == cell.strip() and cell and cell[-1] not in ".!?" and not _NUMBER.fullmatch(cell) for cell in cells
        )
    )
