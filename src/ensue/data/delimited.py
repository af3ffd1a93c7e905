"""CSV, TSV and their like, with or without a header: one row per line, and the first row that does not fit.

Published tables without a header have one row of :data:`LAYOUTS` each, and are recognised by the shape of all fields.

==================  =================================================================================================
movielens           ``ratings.dat`` of MovieLens 1M and 10M: ``user::movie::rating::timestamp``
movielens 100k      ``u.data``: ``user TAB movie TAB rating TAB timestamp``
amazon              ``user,item,rating,timestamp`` of 2014; the ids of Amazon tell users from items
amazon 2018         ``item,user,rating,timestamp``
taobao              ``UserBehavior.csv``: ``user,item,category,behaviour,timestamp``
check-ins           Gowalla and Brightkite: ``user TAB time TAB latitude TAB longitude TAB location``
foursquare          New York and Tokyo: user, venue, category, its name, latitude, longitude, offset, time
foursquare global   ``user TAB venue TAB time TAB offset``
last.fm 1k          ``user TAB time TAB artist id TAB artist TAB track id TAB track``
yoochoose           clicks: ``session,time,item,category``
yoochoose buys      ``session,time,item,price,quantity``
orcas               ``query id TAB query TAB document TAB url``
mind behaviors      ``impression TAB user TAB time TAB history TAB impressions``
mind news           id, category, subcategory, title, abstract, url and two lists of entities, between tabs
sentiment140        ``"polarity","id","date","flag","user","text"``
==================  =================================================================================================

Other tables without a header are read where ``--columns`` numbers their columns from 1: ``session=1,item=3``.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Literal

import polars as pl

from ensue.data.encodings import MARKS, decode
from ensue.data.file_bytes import FileBytes
from ensue.data.files import Content, answering, fits
from ensue.errors import DataError
from ensue.lines import plural, quoted

Types = Mapping[str, type[pl.DataType]]


@dataclass(frozen=True)
class Delimited:
    """A text taken apart into rows of fields."""

    content: Content
    separator: str
    quoted: bool = True
    """True if quotes hold a field together; otherwise they are part of the text."""
    strict: bool = True
    """True if a quote that is left open is refused where it opens, and not where a row turns out to be too short."""
    header: tuple[str, ...] = ()
    """The names of the columns where no header gives them."""

    @classmethod
    def of(cls, content: Content, separator: str | None = None) -> Delimited:
        """A table as it comes: with tabs, quotes are looked at before they are trusted."""
        between = separator or content.separator
        return cls(content, between, quoted=between != "\t" or is_quoted(content), header=content.header)

    @cached_property
    def names(self) -> list[str]:
        """The columns.

        Raises:
            DataError: the header names one twice, or does not stand in the first line.
        """
        if self.header:
            return list(self.header)
        content = self.content
        number = self.number
        names = content.names(self.separator) if self.quoted else content.head(1)[0].split(self.separator)
        double = next((name for name, count in Counter(names).items() if count > 1), None)
        if double is not None:
            raise DataError(f"{content.path}, line {number}: column {quoted(double)} appears twice; rename one")
        if number > content.first_line:
            raise DataError(
                f"{content.path}, line {content.first_line}: is empty, the header is in line {number}; delete the "
                "lines before it"
            )
        return names

    @cached_property
    def number(self) -> int:
        """The line of the header.

        Raises:
            DataError: every cell is empty.
        """
        number = next((number for number, row in self.rows() if any(row)), None)
        if number is None:
            raise DataError(f"{self.content.path}: every cell is empty; give a file with a header and rows")
        return number

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Every row, the header and the empty ones too, with the number of the line it begins on.

        Raises:
            DataError: at the first line that is not UTF-8 or cannot be CSV.
        """
        if self.quoted:
            return self.content.rows(self.separator, strict=self.strict)
        return ((number, line.rstrip("\r\n").split(self.separator)) for number, line in self.content.lines())

    def where(self, row: int) -> str:
        """The place of a row of data, from 0."""
        return f"{self.content.path}, line {next(islice(self.rows(), row + (not self.header), None))[0]}"

    def read(self, columns: Iterable[str], types: Types | None = None) -> pl.DataFrame:
        """Columns by their names, as texts unless a type is given.

        Raises:
            DataError: the first row that does not fit.
        """
        names = list(columns)
        last = self.names[-1]
        # The last column tells polars, and us, whether a row is too long or too short.
        parsed_names = [name for name in self.names if name in {*names, last}]
        frame = self._frame(parsed_names, types or {}, self._refuse)
        if frame[last].null_count() and (self.strict or self._may_be_short()):
            self._refuse()
        return frame.select(names)

    def whole(self, columns: list[str] | None = None, num_rows: int | None = None) -> pl.DataFrame:
        """Return columns as texts, those without a name too.

        Args:
            columns: names of the columns. [default: all]
            num_rows: number of rows from the top. [default: all]
        """
        with answering(self.content.path):
            return self._frame(columns, {}, lambda: None, num_rows)

    def _frame(
        self, names: list[str] | None, types: Types, refuse: Callable[[], None], num_rows: int | None = None
    ) -> pl.DataFrame:
        """Read columns with polars.

        Args:
            names: the columns; all where it is ``None``.
            types: column -> type, of those that are no texts.
            refuse: raises at the first row that does not fit the header.
            num_rows: number of rows from the top; all where it is ``None``.

        Raises:
            DataError: what ``refuse`` finds, or else what polars complains about.
        """
        read = partial(
            pl.read_csv,
            self._parsable.source,
            columns=None if self.header else names,
            has_header=not self.header,
            new_columns=list(self.header) or None,
            separator=self.separator,
            quote_char='"' if self.quoted else None,
            schema_overrides=types,
            infer_schema=False,
            n_rows=num_rows,
        )
        try:
            return read()
        except pl.exceptions.PolarsError as error:
            refuse()
            # All rows fit but for empty fields past the header's end, as trailing separators leave them, or for numbers
            # that polars does not read: their texts are parsed, or refused, later.
            with suppress(pl.exceptions.PolarsError):
                return read(truncate_ragged_lines=True, schema_overrides={})
            self.content.refuse(error)

    @cached_property
    def _parsable(self) -> Content:
        """The table with quotes around each field that holds one: polars joins the rows between ``5" x`` and ``7" x``.

        Raises:
            DataError: at a quote that is left open.
        """
        if not self.quoted or has_regular_quotes(self.content.data, self.separator):
            return self.content
        table = io.StringIO(newline="")
        rows = (row for _, row in self.content.rows(self.separator, strict=True))
        csv.writer(table, delimiter=self.separator, lineterminator="\n").writerows(rows)
        return replace(self.content, data=table.getvalue().encode())

    def _may_be_short(self) -> bool:
        """Return whether a line has too few separators, or quotes that may hide them."""
        lines = self.content.column_of_lines()
        short = lines.str.count_matches(self.separator, literal=True) < len(self.names) - 1
        return bool(((short | lines.str.contains('"', literal=True)) & (lines != "")).any())

    def _refuse(self) -> None:
        """Raise at the first row of another width."""
        width = len(self.names)
        for line, row in self.rows():
            if (any(row) if self.strict else row) and not fits(row, width):
                advice = "is a quote missing?" if self.strict else "is a quote left open?"
                fields = f"{plural(len(row), 'field')}, but the {'layout' if self.header else 'header'} has {width}"
                raise DataError(f"{self.content.path}, line {line}: {fields}; {advice}")


def has_regular_quotes(data: bytes | FileBytes, separator: str) -> bool:
    """Return whether all quotes open a field, close one or are doubled, as far as the bytes beside them tell."""
    if data.find(b'"') < 0:
        return True
    mark = separator.encode()
    plain = data[:].replace(b'""', b"").removeprefix(MARKS[0])
    num_opening = plain.count(mark + b'"') + plain.count(b'\n"') + plain.startswith(b'"')
    num_closing = plain.count(b'"' + mark) + plain.count(b'"\n') + plain.count(b'"\r') + plain.endswith(b'"')
    return 2 * num_opening == 2 * num_closing == plain.count(b'"')


def is_quoted(content: Content) -> bool:
    """Return whether quotes in a table with tabs are CSV's: every field that opens with one closes with one.

    Otherwise they are part of the text, as in the files of GLUE.
    """
    if content.data.find(b'"') < 0:
        return True
    lines = content.column_of_lines()
    field = r'(?:"(?:[^"]|"")*"|[^"\t][^\t]*|)'
    open_lines = lines.filter(~lines.str.contains(rf"^{field}(?:\t{field})*$"))
    widths = lines.filter(lines != "").str.count_matches("\t", literal=True)
    # A field over several lines leaves an odd number of quotes in its first line and in its last.
    return not len(open_lines) or (widths.n_unique() > 1 and bool((open_lines.str.count_matches('"') % 2 == 1).all()))


_LINES = 100
_LINES_PER_BROKEN = 20
"""First lines that are compared with a layout, and how many of them may come with one that does not fit."""
_INTEGER = r"\d+"
_FLOAT = r"-?\d+(?:\.\d+)?(?:[eE]-?\d+)?"
_HEX = r"[0-9a-f]{24}"
_STARS = r"[0-5](?:\.[05])?"
_SINCE_1970 = r"\d{9,13}"
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?"
_TWEETED = r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d [\d:]{8} (?:[+-]\d{4} \d{4}|[A-Z]{3} \d{4})"
_AMERICAN = r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d\d:\d\d [AP]M"
# Reviewers' ids of Amazon begin with an A, items are ASINs, which begin with a B, or ISBNs.
_REVIEWER = r"(?:A|AE|#oc-R)[A-Z0-9]{8,30}"
_ASIN = r"(?:B[A-Z0-9]{9}|\d{9}[\dX])"
_NEWS = r"N\d+"
_ANY = r"[^\t]*"


@dataclass(frozen=True)
class Headerless:
    """A published table without a header."""

    name: str
    separator: str
    fields: Mapping[str, str]
    """The name of each column, and the pattern of all that it holds."""
    kind: Literal["sequences", "texts", "queries", "posts"] = "sequences"
    """The kind of records in it."""
    encoding: str = ""
    """The encoding it was published in, where that is not UTF-8."""

    @property
    def shape(self) -> re.Pattern[str]:
        """The pattern of a line."""
        return re.compile(re.escape(self.separator).join(f"(?:{field})" for field in self.fields.values()))


_USER = {"user_id": _INTEGER}
_RATINGS = {"rating": _STARS, "timestamp": _SINCE_1970}
_POINT = {"latitude": _FLOAT, "longitude": _FLOAT}
# fmt: off
LAYOUTS: tuple[Headerless, ...] = (
    Headerless("movielens", "::", {**_USER, "movie_id": _INTEGER, **_RATINGS}),
    Headerless("movielens 100k", "\t", {**_USER, "movie_id": _INTEGER, **_RATINGS}),
    Headerless("amazon", ",", {"user_id": _REVIEWER, "item_id": _ASIN, **_RATINGS}),
    Headerless("amazon 2018", ",", {"item_id": _ASIN, "user_id": _REVIEWER, **_RATINGS}),
    # A few timestamps of Taobao are broken, as published.
    Headerless("taobao", ",", {**_USER, "item_id": _INTEGER, "category_id": _INTEGER, "behavior": "pv|buy|cart|fav",
                               "timestamp": r"-?\d{1,13}"}),
    Headerless("check-ins", "\t", {**_USER, "time": _ISO, **_POINT, "location_id": r"[0-9a-f]+"}),
    Headerless("foursquare", "\t", {**_USER, "venue_id": _HEX, "category_id": rf"{_HEX}|", "category": _ANY, **_POINT,
                                    "timezone_offset": r"-?\d+", "utc_time": _TWEETED}, encoding="cp1252"),
    Headerless("foursquare global", "\t", {**_USER, "venue_id": _HEX, "utc_time": _TWEETED,
                                           "timezone_offset": r"-?\d+"}),
    Headerless("last.fm 1k", "\t", {"user_id": r"user_\d{6}", "timestamp": _ISO, "artist_id": r"[0-9a-f-]*",
                                    "artist_name": _ANY, "track_id": _ANY, "track_name": _ANY}),
    Headerless("yoochoose", ",", {"session": r"[^,\s]+", "time": _ISO, "item": r"[^,\s]+", "category": r"[^,]*"}),
    Headerless("yoochoose buys", ",", {"session": _INTEGER, "time": _ISO, "item": _INTEGER, "price": _INTEGER,
                                       "quantity": _INTEGER}),
    Headerless("orcas", "\t", {"qid": _INTEGER, "query": r"[^\t]+", "did": r"D\d+", "url": r"https?://\S+"}, "queries"),
    Headerless("mind behaviors", "\t", {"impression_id": _INTEGER, "user_id": r"U\d+", "time": _AMERICAN,
                                        "history": rf"(?:{_NEWS}(?: {_NEWS})*)?",
                                        "impressions": rf"{_NEWS}(?:-[01])?(?: {_NEWS}(?:-[01])?)*"}),
    Headerless("mind news", "\t", {"id": _NEWS, "category": r"\w+", "subcategory": r"\w[\w-]*", "title": _ANY,
                                   "abstract": _ANY, "url": r"(?:https?://\S+)?", "title_entities": r"(?:\[.*\])?",
                                   "abstract_entities": r"(?:\[.*\])?"}, "posts"),
    # A tweet may go on in the next line.
    Headerless("sentiment140", ",", {"polarity": r'"[024]"', "id": r'"\d+"', "date": rf'"{_TWEETED}"',
                                     "flag": r'"[^"]*"', "user": r'"[^"]*"', "text": r'".*"?'}, "texts", "cp1252"),
)
# fmt: on
KINDS = {layout.name: layout.kind for layout in LAYOUTS}
_UNIT = "\x1f"
"""The separator of fields in ASCII."""
_SEPARATORS = ("::", "\t", ",", ";", "|", " ")


def with_columns(content: Content, stated: Iterable[str] = (), encoding: str = "") -> Content:
    """Name the columns of a text that has no header.

    Args:
        content: the file.
        stated: the names of columns that are stated; where all are numbers, they number the columns of the file.
        encoding: the encoding that is stated; a layout published in another one than UTF-8 is read in that otherwise.

    Returns:
        The file with its columns named; as it is where its first line may be a header, or is no table.
    """
    if content.parquet or content.json:
        return content
    head = content.head(_LINES)
    columns = list(stated)
    if columns and all(re.fullmatch(r"[1-9]\d{0,2}", name) for name in columns):
        separator = next((between for between in _SEPARATORS if between in head[0]), "")
        names = _header(content, separator) if separator else []
        # A header of numbers is that of pandas, 0,1,2,…
        if separator and names != [str(number) for number in range(len(names))]:
            return _named(content, "", separator, [str(number + 1) for number in range(len(names))])
        return content
    layout = next((layout for layout in LAYOUTS if _fits(layout, head)), None)
    if layout is None:
        return content
    if layout.encoding and not encoding:
        content = _decoded(content, layout.encoding)
    return _named(content, layout.name, layout.separator, list(layout.fields))


def _fits(layout: Headerless, head: Sequence[str]) -> bool:
    """Return whether the first lines have the shape of a layout; few may be broken, but not the first."""
    shape = layout.shape
    num_broken = sum(shape.fullmatch(line) is None for line in head)
    return shape.fullmatch(head[0]) is not None and num_broken <= max(1, len(head) // _LINES_PER_BROKEN)


def _header(content: Content, separator: str) -> list[str]:
    return content.names(separator) if len(separator) == 1 else content.head(1)[0].split(separator)


def _named(content: Content, layout: str, separator: str, names: Sequence[str]) -> Content:
    notes = (*content.notes, f"no header: the columns are read as {', '.join(names)}")
    if len(separator) > 1:  # readers of tables know separators of one byte
        content = replace(content, data=content.data[:].replace(separator.encode(), _UNIT.encode()))
        separator = _UNIT
    return replace(content, header=tuple(names), published=layout, between=separator, notes=notes)


def _decoded(content: Content, encoding: str) -> Content:
    """Decode a file from the encoding it was published in, unless it was converted to UTF-8 since."""
    data = content.data[:]
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        text, notes = decode(content.path, data, encoding)
        return replace(content, data=text, notes=(*content.notes, *notes))
    return content
