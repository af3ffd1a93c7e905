"""What papers print, as data: a TOML file a paper beside this one, and the one reader of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import TypeVar

T = TypeVar("T")
Row = dict[str, float]


class Paper:
    """What one paper prints. Tables are named by the keys that lead to them.

    Args:
        name: of the file, such as ``hidan``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._found: Mapping[str, object] = tomllib.loads((files(__package__) / f"{name}.toml").read_text("utf-8"))

    def number(self, name: str) -> float:
        """A single figure."""
        return _number(self._found[name])

    def text(self, name: str) -> str:
        """A sentence."""
        return _of(str, self._found[name])

    def texts(self, name: str) -> tuple[str, ...]:
        """Sentences."""
        return tuple(_of(str, text) for text in _of(list, self._found[name]))

    def lists(self, *keys: str) -> dict[str, tuple[str, ...]]:
        """Lists of short texts by name."""
        return {name: tuple(_of(str, text) for text in _of(list, own)) for name, own in self._table(keys).items()}

    def words(self, *keys: str) -> dict[str, str]:
        """Short texts by name."""
        return {name: _of(str, value) for name, value in self._table(keys).items()}

    def row(self, *keys: str) -> Row:
        """Figures by name."""
        return {name: _number(value) for name, value in self._table(keys).items()}

    def rows(self, *keys: str) -> dict[str, Row]:
        """Rows of figures by name; a list takes its names from the ``columns`` of the table, or of the one around it.

        Example: ``[seconds]``, ``columns = ["memes", "weibo"]``, ``rnn = [22, 145]`` are
        ``{"rnn": {"memes": 22, "weibo": 145}}``.
        """
        table = self._table(keys)
        columns = _of(list, table.get("columns", self._table(keys[:-1]).get("columns", [])))
        found = {}
        for name, value in table.items():
            if name != "columns":
                row = dict(zip(columns, value, strict=True)) if isinstance(value, list) else _of(dict, value)
                found[name] = {column: _number(figure) for column, figure in row.items()}
        return found

    def tables(self, *keys: str) -> dict[str, dict[str, Row]]:
        """:meth:`rows` of each table below some keys."""
        return {name: self.rows(*keys, name) for name in self._table(keys) if name != "columns"}

    def grid(self, *keys: str) -> tuple[tuple[float, ...], ...]:
        """Rows of figures without names."""
        *above, last = keys
        return tuple(tuple(map(_number, _of(list, row))) for row in _of(list, self._table(tuple(above))[last]))

    def _table(self, keys: tuple[str, ...]) -> Mapping[str, object]:
        found = self._found
        for key in keys:
            found = _of(dict, found[key])
        return found


def _of(kind: type[T], value: object) -> T:
    assert isinstance(value, kind), f"expected {kind.__name__}, not {value!r}"
    return value


def _number(value: object) -> float:
    assert isinstance(value, int | float), f"expected a number, not {value!r}"
    return value
