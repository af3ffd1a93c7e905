"""Columns of the item table by id, and the language of filters over them.

    category == "shoes" and price < 50
    brand in ["acme", "zeta"] or not (published within 7 d)

===========  =======================================================================================
expression   conjunction, ``or`` between several
conjunction  negation, ``and`` between several
negation     ``not`` negation, ``(`` expression ``)``, or a comparison
comparison   column ``==``, ``!=``, ``<``, ``<=``, ``>`` or ``>=`` constant; column ``in`` or
             ``not in [`` constants ``]``; column ``within`` number and ``min``, ``h``, ``d`` or ``w``
===========  =======================================================================================

A constant is a number, or a text or a time in quotes; a column whose name is no single word stands in backticks. Letter
case does not count, and a category that holds several values (``a|b``) equals each of them. A comparison of an empty
cell is neither true nor false, as in SQL, so its item passes neither a filter nor its negation: nothing is let through
because nothing is known of it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple, NoReturn

import numpy as np
import polars as pl

from ensue.data.clock import TimeOptions, parse_times
from ensue.data.histories import CATEGORY, NUMBER, TIME, Index, Items, Mask
from ensue.errors import DataError
from ensue.lines import listed, one_line, quoted
from ensue.metrics import Floats
from ensue.vocabulary import FIRST, Vocabulary

MAX_NESTED = 20
MAX_CHARACTERS = 10_000
"""Parentheses and negations inside each other, and characters of a filter, at most."""
MAX_LISTED = 8
"""Columns, and values of a column, that a message lists."""
UNITS = {"min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
"""Seconds of each unit of ``within``."""
_SIGNS: dict[str, Callable[[Floats, float], Mask]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
# A quoted text, a number, a sign, or the name of a column or a word such as "and".
_TOKEN = re.compile(
    r"""\s*(?:("[^"]*"|'[^']*')|([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|([=!<>]=|[<>()\[\],])|(`[^`]+`|[^\W\d][\w.:-]*))"""
)
_TEXT, _NUMBER, _SIGN, _WORD = range(1, 5)
"""Groups of a token."""


class Truth(NamedTuple):
    """The ids for which a condition is true and those for which it is false; it may be neither."""

    true: Mask
    false: Mask


class ItemColumns:
    """The columns of an item table by id of a vocabulary; each is prepared when it is first needed.

    Args:
        items: the table.
        vocabulary: its ids.
    """

    def __init__(self, items: Items, vocabulary: Vocabulary) -> None:
        self.items = items
        self.num_ids = len(vocabulary)
        ids = vocabulary.ids(items.ids.to_list())
        self._rows = np.flatnonzero(ids >= FIRST)
        self._ids = ids[self._rows].astype(np.int64)
        self.numbers = cache(self._numbers)
        self.ids_by_value = cache(self._ids_by_value)
        self.values_by_id = cache(self._values_by_id)

    def describe(self) -> str:
        """Return the columns and their types, for messages."""
        return ", ".join(f"{one_line(name, 60)} ({kind})" for name, kind in [*self.items.kinds.items()][:MAX_LISTED])

    def _numbers(self, name: str) -> Floats:
        """Return (ids,) the numbers, or seconds, of a column; NaN where it is empty."""
        numbers = np.full(self.num_ids, np.nan)
        cells = self.items.columns[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        numbers[self._ids] = cells[self._rows]
        return numbers

    def _ids_by_value(self, name: str) -> dict[str, Index]:
        """Return the ids of each value of a column of texts, by the value in lower case; frequent values first."""
        # One row per item and value, grouped by value.
        rows = pl.DataFrame({"id": self._ids, "value": self.values(name).gather(self._rows)}).explode("value")
        groups = rows.drop_nulls().group_by("value", maintain_order=True).agg("id", pl.len().alias("number"))
        groups = groups.sort("number", descending=True, maintain_order=True)
        return {value: ids.to_numpy() for value, ids in zip(groups["value"], groups["id"], strict=True)}

    def _values_by_id(self, name: str) -> dict[int, list[str]]:
        """Return the values of each id that has any in a column."""
        pairs = zip(self._ids.tolist(), self.values(name).gather(self._rows).to_list(), strict=True)
        return {id: values for id, values in pairs if values}

    def values(self, name: str) -> pl.Series:
        """Return the (items,) list of values of each cell, in lower case; categories are split at ``|`` and ``;``."""
        cells = pl.col(name).fill_null("").str.to_lowercase()
        is_category = self.items.kinds[name] == CATEGORY
        lists = cells.str.replace_all(";", "|").str.split("|") if is_category else pl.concat_list(cells)
        trimmed = lists.list.eval(pl.element().str.strip_chars())
        return self.items.columns.select(trimmed.list.set_difference(pl.lit([""]))).to_series()

    def require(self, name: str, where: str) -> str:
        """Return the name of a column.

        Raises:
            DataError: the table has no such column.
        """
        if name not in self.items.kinds:
            raise DataError(f"{where}: the item table has no column {quoted(name)}; it has {self.describe()}")
        return name

    def truth(self, text: str, now: float) -> Truth:
        """Return the ids for which a filter is true, and those for which it is false.

        Args:
            text: the filter.
            now: the time of the request, in seconds since 1970.

        Raises:
            DataError: it is no filter, or names a column or a value that the table lacks.
        """
        return _Parser(text, self, now).parse()


def _typed(name: str, kind: str) -> str:
    return f"fit the model with --item-columns {quoted(f'{one_line(name, 60)}={kind}')}"


class _Parser:
    """A filter that is evaluated while it is read.

    Args:
        text: the filter.
        columns: of the items.
        now: the time of the request.
    """

    def __init__(self, text: str, columns: ItemColumns, now: float) -> None:
        self.text = text
        self.columns = columns
        self.now = now
        self.tokens: list[tuple[int, str]] = []
        self.at = 0
        end = 0
        while text[end:].strip() and len(text) <= MAX_CHARACTERS:
            match = _TOKEN.match(text, end)
            if match is None:
                self.refuse(f"{quoted(text[end:].strip()[:20])} cannot be read; quote texts and times")
            self.tokens.append((match.lastindex or 0, match[match.lastindex or 0]))
            end = match.end()
        if not self.tokens:
            self.refuse(f'give 1 to {MAX_CHARACTERS:,} characters, such as category == "shoes" and price < 50')

    def refuse(self, reason: str) -> NoReturn:
        raise DataError(f"filter {one_line(self.text, 60)}: {reason}")

    def parse(self) -> Truth:
        truth = self.expression(0)
        if self.at < len(self.tokens):
            self.refuse(f"expected and, or, or the end before {quoted(self.tokens[self.at][1])}")
        return truth

    def takes(self, *texts: str) -> str:
        """Move on and return the next token if it is one of some signs or words, else return nothing."""
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else (0, "")
        if kind not in (_SIGN, _WORD) or text not in texts:
            return ""
        self.at += 1
        return text

    def require(self, text: str) -> None:
        if not self.takes(text):
            self.refuse(f"{text} is missing {self.before()}")

    def before(self) -> str:
        return f"before {quoted(self.tokens[self.at][1])}" if self.at < len(self.tokens) else "at the end"

    def expression(self, depth: int) -> Truth:
        truth = self.conjunction(depth)
        while self.takes("or"):
            other = self.conjunction(depth)
            truth = Truth(truth.true | other.true, truth.false & other.false)
        return truth

    def conjunction(self, depth: int) -> Truth:
        truth = self.negation(depth)
        while self.takes("and"):
            other = self.negation(depth)
            truth = Truth(truth.true & other.true, truth.false | other.false)
        return truth

    def negation(self, depth: int) -> Truth:
        if depth > MAX_NESTED:
            self.refuse(f"parentheses and not are nested more than {MAX_NESTED} deep")
        if self.takes("not"):
            truth = self.negation(depth + 1)
            return Truth(truth.false, truth.true)
        if self.takes("("):
            truth = self.expression(depth + 1)
            self.require(")")
            return truth
        return self.comparison()

    def comparison(self) -> Truth:
        kind, name = self.tokens[self.at] if self.at < len(self.tokens) else (0, "")
        if kind != _WORD:
            self.refuse(f"a column is missing {self.before()}; the item table has {self.columns.describe()}")
        name = self.columns.require(name.strip("`"), f"filter {one_line(self.text, 60)}")
        self.at += 1
        if self.takes("within"):
            return self.within(name)
        is_negated = bool(self.takes("not"))
        if is_negated or (self.at < len(self.tokens) and self.tokens[self.at][1] == "in"):
            self.require("in")
            truth = self.equal(name, self.constants())
            return Truth(truth.false, truth.true) if is_negated else truth
        sign = self.takes(*_SIGNS)
        if not sign:
            self.refuse(f"after {name} one of {', '.join(_SIGNS)}, in or within is missing {self.before()}")
        constant = self.constant()
        if self.columns.items.kinds[name] in (NUMBER, TIME):
            numbers = self.columns.numbers(name)
            true = _SIGNS[sign](numbers, self.number(name, constant))
            # A comparison with NaN is false but for !=, so empty cells are taken out of both sides.
            is_filled = ~np.isnan(numbers)
            return Truth(true & is_filled, ~true & is_filled)
        if sign not in ("==", "!="):
            self.refuse(f"{name} holds texts; compare it by ==, != or in, or {_typed(name, NUMBER)}")
        truth = self.equal(name, [constant])
        return Truth(truth.false, truth.true) if sign == "!=" else truth

    def within(self, name: str) -> Truth:
        if self.columns.items.kinds[name] != TIME:
            column_type = self.columns.items.kinds[name]
            self.refuse(
                f"{name} is a column of type {column_type}; within needs one of type time: {_typed(name, TIME)}"
            )
        kind, number = self.tokens[self.at] if self.at < len(self.tokens) else (0, "")
        self.at += 1
        unit = self.takes(*UNITS)
        if kind != _NUMBER or not unit:
            self.refuse(f"within needs a number and one of {', '.join(UNITS)}, such as within 7 d")
        times = self.columns.numbers(name)
        # What is dated after the request is not out yet.
        true = (times <= self.now) & (times >= self.now - float(number) * UNITS[unit])
        return Truth(true, ~true & ~np.isnan(times))

    def constants(self) -> list[tuple[int, str]]:
        self.require("[")
        constants = [self.constant()]
        while self.takes(","):
            constants.append(self.constant())
        self.require("]")
        return constants

    def constant(self) -> tuple[int, str]:
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else (0, "")
        if kind not in (_TEXT, _NUMBER):
            self.refuse(f"a number, or a text in quotes, is missing {self.before()}")
        self.at += 1
        return kind, text[1:-1] if kind == _TEXT else text

    def number(self, name: str, constant: tuple[int, str]) -> float:
        """Return a constant as a number, or as the seconds of a time."""
        kind, text = constant
        if kind == _NUMBER:
            return float(text)
        if self.columns.items.kinds[name] == NUMBER:
            self.refuse(f"{name} is a column of numbers; compare it with a number instead of {quoted(text)}")
        try:
            return float(parse_times(pl.Series([text]), lambda row: "", TimeOptions(unit="iso")).numbers[0])
        except DataError:
            self.refuse(f"{quoted(text)} is not a time; write it as 2024-05-01 or 2024-05-01T12:00:00Z")

    def equal(self, name: str, constants: Sequence[tuple[int, str]]) -> Truth:
        """Compare a column with each of some constants."""
        true = np.zeros(self.columns.num_ids, np.bool_)
        if self.columns.items.kinds[name] in (NUMBER, TIME):
            numbers = self.columns.numbers(name)
            for constant in constants:
                true |= numbers == self.number(name, constant)
            return Truth(true, ~true & ~np.isnan(numbers))
        ids_by_value = self.columns.ids_by_value(name)
        for _, text in constants:
            if (ids := ids_by_value.get(text.strip().lower())) is None:
                # Suggest similar values, or the most frequent ones.
                close = get_close_matches(text.lower(), ids_by_value, MAX_LISTED) or [*ids_by_value][:MAX_LISTED]
                self.refuse(f"no item has the {name} {quoted(text)}; others are {listed(close)}")
            true[ids] = True
        false = np.zeros(self.columns.num_ids, np.bool_)
        false[np.fromiter(self.columns.values_by_id(name), np.int64)] = True
        return Truth(true, false & ~true)
