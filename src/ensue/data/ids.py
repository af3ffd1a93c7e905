"""Columns of ids in one normal form: ``7``, ``7.0`` and a number of Excel are one id, ``NaN`` is none.

The texts are those of :func:`ensue.records.normal_id`. A file decides about whole numbers by column: where a column of
texts holds whole numbers that are written as ``7.0``, as tools write a column with a gap, they lose their ``.0``. A
column that also holds ``1.5`` or ``1.0.2`` is one of versions or measures, and keeps its texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import polars as pl

from ensue.data.clock import FIRST_INEXACT_FLOAT32
from ensue.data.file_bytes import DROP, KEEP
from ensue.data.histories import distinct_texts
from ensue.data.table import Table
from ensue.errors import DataError
from ensue.lines import plural, quoted
from ensue.records import MAX_EXACT

MISSING = (
    *("nan", "NaN", "NAN", "-nan", "NaT", "NULL", "Null", "null", "None", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA"),
    "\\N",
)
"""Words that tools write in place of an id that is missing."""
MAX_WORDS = 3
"""Words for nothing that a message shows."""
_WORDS = "|".join(map(re.escape, MISSING))
_UNUSUAL = rf"^\s|\s$|\.0+$|[eE]\+|^(?:{_WORDS})$"
"""Ids that need a closer look; of most columns no id does."""
_FLOAT = r"^\s*-?\d+\.0+\s*$"
"""A whole number that is written as a float: ``7.0``, maybe with spaces around it."""
_FRACTION = r"^\s*[vV]?-?\d+\.(?:\d*[1-9]|\d+\.\d)"
"""Beginning of a version or a measure: ``1.5``, ``1.05``, ``1.0.2``."""
_SCIENTIFIC = r"^-?\d(?:[.,]\d+)?[eE]\+\d{2,}$"


@dataclass
class Tally:
    """Findings about the ids of one column, over all pieces of a log."""

    column: str
    cells: int = 0
    missing: int = 0
    """Ids that are empty or a word of ``MISSING``, in rows that are left out."""
    words: list[str] = field(default_factory=list)
    """Up to ``MAX_WORDS`` such words."""
    rounded: int = 0
    """Ids in scientific notation, or floats beyond 2^53."""
    example: str = ""
    """The first of these."""
    number: str = ""
    """An id that is read otherwise than the column writes it: ``7.0``, or one with spaces around it."""
    number_place: str = ""
    """Place of the first of these in the file."""
    missing_place: str = ""

    def add_missing(self, absent: pl.Series, table: Table) -> None:
        """Count the cells of a piece of the log, and those that are missing."""
        self.cells += len(absent)
        if absent.any():
            self.missing += int(absent.sum())
            self.missing_place = self.missing_place or table.where(int(absent.arg_true()[0]))

    def add_words(self, words: Iterable[str]) -> None:
        """Add words of ``MISSING``, up to ``MAX_WORDS`` of them."""
        self.words = list(dict.fromkeys([*self.words, *words]))[:MAX_WORDS]


@dataclass
class IdColumns:
    """The columns of ids of a log, which is read in one piece or in many.

    Attributes:
        nouns: role -> what its ids name, such as ``session``.
        rows: what a row is called.
        missing: what is done about ids that are missing, see :class:`~ensue.data.file_bytes.Opening`.
        drops: whether rows without an id are left out; otherwise the id becomes null.
        consequence: what a warning says of rows without an id.
    """

    nouns: Mapping[str, str]
    rows: str = "event"
    missing: str = ""
    drops: bool = True
    consequence: str = "left out"
    tallies: dict[str, Tally] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)
    """Role -> whether none of its ids is a fraction; known once a whole number was written as a float."""

    def normalise(self, table: Table, pieces: Callable[[], Iterable[Table]] | None = None) -> Table:
        """Return the table with its ids in normal form, without the rows that lack one.

        Args:
            table: a piece of the log, with a column per role.
            pieces: reads all pieces of the log from its beginning, where ``table`` is one of many.

        Raises:
            DataError: an id was rounded, and the policy does not say what to do about it.
        """
        dropped = np.zeros(len(table.frame), np.bool_)
        columns = {}
        for role in (role for role in self.nouns if role in table.frame.columns):
            columns[role], is_unusable = self._normal(role, table, pieces)
            if self.drops:
                dropped |= is_unusable.to_numpy()
            elif is_unusable.any():
                columns[role] = columns[role].set(is_unusable, None)
        if self.missing == DROP and "time" in table.frame.columns:
            times = table.frame["time"].cast(pl.String).str.strip_chars()
            untimed = times.is_in(["", *MISSING]).fill_null(value=True)
            self._tally("time", table).add_missing(untimed, table)
            dropped |= untimed.to_numpy()
        table = replace(table, frame=table.frame.with_columns(column.alias(role) for role, column in columns.items()))
        return table.select(pl.Series(~dropped)) if dropped.any() else table

    def plain(self, table: Table) -> Table:
        """Return the table with ids that have a type as whole numbers or texts; what texts say is not looked at.

        Raises:
            DataError: a fraction, or a truth.
        """
        roles = [role for role in self.nouns if role in table.frame.columns]
        return replace(table, frame=table.frame.with_columns(self._plain(role, table).alias(role) for role in roles))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what was changed and cannot be wrong."""
        return tuple(_float_note(tally) for tally in self.tallies.values() if tally.number)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on ids that are missing or were rounded."""
        return tuple(
            sentence
            for role, tally in self.tallies.items()
            for sentence in (self._missing(role, tally), self._rounded(tally))
            if sentence
        )

    def take(self, other: Self) -> None:
        """Add what was noticed in the files that follow, which were read elsewhere."""
        for role, tally in other.tallies.items():
            total = self.tallies.setdefault(role, Tally(tally.column))
            for name in ("cells", "missing", "rounded"):
                setattr(total, name, getattr(total, name) + getattr(tally, name))
            # Examples are those that come first in the log.
            for name in ("example", "number", "number_place", "missing_place"):
                setattr(total, name, getattr(total, name) or getattr(tally, name))
            total.add_words(tally.words)

    def _normal(
        self, role: str, table: Table, pieces: Callable[[], Iterable[Table]] | None
    ) -> tuple[pl.Series, pl.Series]:
        """The ids of a role in normal form, and which rows have none that can be used.

        Raises:
            DataError: an id was rounded or can be none.
        """
        column = self._plain(role, table)
        tally = self._tally(role, table)
        absent = rounded = pl.repeat(False, len(column), eager=True)
        # Most columns hold nothing unusual: one look at the distinct ids, and they are done.
        if column.dtype in (pl.String, pl.Categorical) and _distinct(column).str.contains(_UNUSUAL).any():
            column, absent, rounded = self._of_texts(role, column, table, pieces)
        tally.rounded += int(rounded.sum())
        if rounded.any() and not self.missing:
            tally.cells += len(rounded)  # the message counts the cells of this piece too
            where = table.where(int(rounded.arg_true()[0]))
            raise DataError(f"{where}: {self._rounded(tally)}, or leave such rows out with --missing drop")
        is_unusable = absent
        if self.missing == DROP:
            empty = column.is_null() if column.dtype != pl.String else column.is_null() | (column == "")
            absent = absent | empty.fill_null(True)
            is_unusable = absent | rounded
        tally.add_missing(absent, table)
        return column, is_unusable

    def _tally(self, role: str, table: Table) -> Tally:
        return self.tallies.setdefault(role, Tally(table.columns.get(role, role)))

    def _plain(self, role: str, table: Table) -> pl.Series:
        """The ids of a role as whole numbers, texts or categories.

        Raises:
            DataError: a fraction, or a truth.
        """
        column = table.frame[role]
        name = quoted(table.columns.get(role, role))
        if column.dtype == pl.Boolean:
            raise DataError(f"{table.where(0)}: column {name} ({role}) holds true and false, which are not ids")
        if column.dtype.is_decimal() or isinstance(column.dtype, pl.Enum):
            return column.cast(pl.String)
        if not column.dtype.is_float():
            return column
        # Floats hold every whole number up to a limit; beyond it, the ids of the file are lost.
        limit = FIRST_INEXACT_FLOAT32 if column.dtype == pl.Float32 else MAX_EXACT
        numbers = column.cast(pl.Float64)
        numbers = numbers.set(~numbers.is_finite(), None)  # NaN is how a column of floats writes an empty cell
        for row in (numbers != numbers.round()).arg_true()[:1]:
            raise DataError(
                f"{table.where(row)}: {self.nouns[role]} {numbers[row]} in column {name} is not an id; ids are texts "
                "or whole numbers"
            )
        inexact = (numbers.abs() >= limit).fill_null(False)
        if inexact.any():
            # Written with an exponent they are found as rounded among the texts; the others stay whole numbers.
            texts = [f"{number:.16e}" for number in numbers.filter(inexact)]
            whole_numbers = numbers.set(inexact, None).cast(pl.Int64).cast(pl.String)
            return whole_numbers.scatter(inexact.arg_true(), pl.Series(texts))
        self._note_float(role, table, numbers.is_not_null(), "{:.1f}".format, numbers)
        return numbers.cast(pl.Int64)

    def _of_texts(
        self, role: str, column: pl.Series, table: Table, pieces: Callable[[], Iterable[Table]] | None
    ) -> tuple[pl.Series, pl.Series, pl.Series]:
        """Texts in normal form, which of them are words for nothing, and which were rounded."""
        # Of categories each distinct text is looked at once; ``index`` is the place of every row's text.
        texts = column
        index = None
        if column.dtype != pl.String:
            texts, codes = distinct_texts(column)
            index = pl.Series(codes).set(column.is_null(), None)
        stripped = texts.str.strip_chars()
        tally = self.tallies[role]
        absent = stripped.is_in(MISSING).fill_null(False) & (self.missing != KEEP)
        floats = texts.str.contains(_FLOAT).fill_null(False)
        is_inexact = (stripped.cast(pl.Float64, strict=False).abs() >= MAX_EXACT).fill_null(False)
        rounded = stripped.str.contains(_SCIENTIFIC).fill_null(False) | (floats & is_inexact)
        floats &= ~rounded
        # 7.0 becomes 7 only where the whole column holds whole numbers, or 1.0 would be another version than 1.5 is.
        changed = (stripped != texts).fill_null(False)
        normal = stripped.set(stripped == "", None)
        if floats.any() and self._is_whole(role, table, pieces):
            normal = normal.zip_with(~floats, stripped.str.replace(r"\.0+$", ""))
            changed |= floats
        if changed.any() and not tally.number:
            self._note_float(role, table, changed if index is None else changed.gather(index), str, column)
        tally.add_words(stripped.filter(absent).unique(maintain_order=True))
        texts = normal.set(absent, None)
        if rounded.any():
            tally.example = tally.example or texts.filter(rounded)[0]
        if index is None:
            return texts, absent, rounded
        # From one truth per distinct text to one per row.
        no_row = pl.repeat(False, len(index), eager=True)
        absent, rounded = (mask.gather(index).fill_null(False) if mask.any() else no_row for mask in (absent, rounded))
        return texts.cast(pl.Categorical).gather(index), absent, rounded

    def _is_whole(self, role: str, table: Table, pieces: Callable[[], Iterable[Table]] | None) -> bool:
        """Return whether no id of a role is a fraction, in all pieces of the log."""
        if role not in self.whole:
            tables = [table] if pieces is None else pieces()
            self.whole[role] = not any(_has_fraction(other.frame[role]) for other in tables)
        return self.whole[role]

    def _note_float(
        self, role: str, table: Table, floats: pl.Series, shown: Callable[..., str], column: pl.Series
    ) -> None:
        tally = self._tally(role, table)
        rows = floats.arg_true()
        if not tally.number and len(rows):
            tally.number, tally.number_place = shown(column[rows[0]]), table.where(int(rows[0]))

    def _missing(self, role: str, tally: Tally) -> str:
        if not tally.missing:
            return ""
        lacking = f"{tally.missing:,} of {plural(tally.cells, self.rows)} {'has' if tally.missing == 1 else 'have'} no"
        words = [*tally.words, "an empty cell"] if self.missing == DROP else tally.words
        cells = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
        keep = "; --missing keep reads such words as ids" if tally.words else ""
        return (
            f"{lacking} {self.nouns.get(role, role)} ({cells} in column {quoted(tally.column)}, first in "
            f"{tally.missing_place}): {self.consequence}{keep}"
        )

    def _rounded(self, tally: Tally) -> str:
        if not tally.rounded:
            return ""
        consequence = "are left out" if self.missing == DROP else "different ids become equal"
        count = f"{tally.rounded:,} of {plural(tally.cells, self.rows)} {'has' if tally.rounded == 1 else 'have'}"
        return (
            f"ids such as {tally.example} were cut by a spreadsheet or a column of floats: {count} such an "
            f"id in column {quoted(tally.column)}, and {consequence}; export again with ids as text"
        )


def whole_numbers(column: pl.Series) -> pl.Series:
    """Return a column of texts without the ``.0`` of whole numbers; ``:3`` may follow, as in a TREC run.

    A column that also holds fractions is returned as it is.
    """
    texts = _distinct(column)
    # Most columns have no such number, and are done after a look at their distinct texts.
    if not texts.str.contains(r"^-?\d+\.0+(?::\d+)?$").any():
        return column
    if texts.str.contains(_FRACTION).any():
        return column
    return column.str.replace(r"^(-?\d+)\.0+(:\d+)?$", "$1$2")


def _distinct(column: pl.Series) -> pl.Series:
    """Texts that include each text of a column: its categories, or one for each run of equal texts."""
    if column.dtype == pl.Categorical:
        return column.unique().cast(pl.String)
    return column.rle().struct.field("value")


def _float_note(tally: Tally) -> str:
    """Return a note on the first id of a column that is read otherwise than it is written, in quotes if no number."""
    is_float = re.search(_FLOAT, tally.number) is not None
    way = "whole numbers written as floats" if is_float else "ids with spaces around them"
    # 7.0 is read as 7, and " a" as a.
    read = re.sub(r"\.0+$", "", tally.number.strip()) if is_float else tally.number.strip()
    shown, as_read = (text if re.fullmatch(r"-?[\d.]+", text) else quoted(text) for text in (tally.number, read))
    return f"column {quoted(tally.column)} holds {way}, first in {tally.number_place}: {shown} is read as {as_read}"


def _has_fraction(column: pl.Series) -> bool:
    """Return whether an id of a column of texts is a fraction or a version."""
    if column.dtype not in (pl.String, pl.Categorical):
        return False
    texts = _distinct(column)
    return bool((texts.str.contains(_FRACTION) & ~texts.str.contains(_SCIENTIFIC)).any())
