"""One TOML file per study: what the paper prints, the plan of the study, and the prose of its page."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

Row = dict[str, Any]


class Paper:
    """The file of one study. Tables are named by the keys that lead to them.

    Args:
        name: name of the study, such as ``hidan``.
    """

    def __init__(self, name: str) -> None:
        self.values: dict[str, Any] = tomllib.loads((files(__package__) / f"{name}.toml").read_text("utf-8"))

    def __getitem__(self, name: str) -> Any:
        """Return a value of the file."""
        return self.values[name]

    def rows(self, *keys: str) -> dict[str, Row]:
        """Return rows of numbers by name; lists are named by the ``columns`` of the table or of the table around it.

        Example: ``[seconds]``, ``columns = ["memes", "weibo"]``, ``rnn = [22, 145]`` is
        ``{"rnn": {"memes": 22, "weibo": 145}}``.
        """
        table: Row = self.values
        columns: list[str] = []
        for key in keys:
            table = table[key]
            columns = table.get("columns", columns)
        rows = {name: row for name, row in table.items() if name != "columns"}
        return {
            name: dict(zip(columns, row, strict=True)) if isinstance(row, list) else row for name, row in rows.items()
        }

    def tables(self, *keys: str) -> dict[str, dict[str, Row]]:
        """Return :meth:`rows` of each table below some keys."""
        table = self.values
        for key in keys:
            table = table[key]
        return {name: self.rows(*keys, name) for name in table if name != "columns"}
