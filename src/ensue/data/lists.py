"""Lists that were written into the cells of a table."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import polars as pl

_QUOTED = r"""'[^']*'|"[^"]*\""""
_LIST = re.compile(rf"\[\s*(?:(?:{_QUOTED})(?:(?:\s*,\s*|\s+)(?:{_QUOTED}))*)?\s*,?\s*\]")
"""A list of texts as Python, or NumPy without commas, writes it."""


def lists_in(cells: pl.Series) -> dict[str, list[str]]:
    """Return the members of the list in each distinct cell; nothing where a cell holds no list."""
    lists = {cell: list_members(cell.strip()) for cell in cells.drop_nulls().unique()}
    return {} if None in lists.values() else {cell: members or [] for cell, members in lists.items()}


def list_members(cell: str) -> list[str] | None:
    """Return the members of a list in JSON, or as Python writes it; ``None`` of another text.

    Example:
        >>> from ensue.data.lists import list_members
        >>> list_members("['Drama', 'Comedy']"), list_members("[1, 2]"), list_members("[sic]")
        (['Drama', 'Comedy'], ['1', '2'], None)
    """
    with suppress(ValueError, RecursionError):
        members = json.loads(cell)
        if not isinstance(members, list) or any(isinstance(member, list | dict) for member in members):
            return None
        return [str(member) for member in members if member is not None]
    return [quoted[1:-1] for quoted in re.findall(_QUOTED, cell)] if _LIST.fullmatch(cell) else None
