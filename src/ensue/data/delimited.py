"""CSV, TSV and their like: a header, a row a line, and the first row that does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

import polars as pl

from ensue.data.clock import is_number
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
    given: tuple[str, ...] = ()
    """The names of the columns where no header gives them."""

    @classmethod
    def of(cls, content: Content, separator: str | None = None) -> Delimited:
        """A table as it comes: with tabs, quotes are looked at before they are trusted."""
        between = separator or content.separator
        return cls(content, between, quoted=between != "\t" or is_quoted(content), given=content.header)

    @cached_property
    def names(self) -> list[str]:
        """The columns.

        Raises:
            DataError: the header names one twice, or does not stand in the first line.
        """
        if self.given:
            return list(self.given)
        content, number = self.content, self.number
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
        return f"{self.content.path}, line {next(islice(self.rows(), row + (not self.given), None))[0]}"

    def read(self, columns: Iterable[str], types: Types | None = None) -> pl.DataFrame:
        """Columns by their names, as texts unless a type is given.

        Raises:
            DataError: the first row that does not fit.
        """
        names, last = list(columns), self.names[-1]
        # The last column tells polars, and us, whether a row is too long or too short.
        parsed_names = [name for name in self.names if name in {*names, last}]
        frame = self.content.delimited(self._parser(parsed_names, types or {}), lambda: self._refuse(types or {}))
        if frame[last].null_count() and (self.strict or self._may_be_short()):
            self._refuse({})
        return frame.select(names)

    def whole(self, columns: list[str] | None = None, num_rows: int | None = None) -> pl.DataFrame:
        """Return columns as texts, those without a name too.

        Args:
            columns: names of the columns. [default: all]
            num_rows: number of rows from the top. [default: all]
        """
        with answering(self.content.path):
            return self.content.delimited(partial(self._parser(columns, {}), n_rows=num_rows), lambda: None)

    def _parser(self, names: list[str] | None, types: Types) -> partial[pl.DataFrame]:
        return partial(
            pl.read_csv,
            self.content.source,
            columns=None if self.given else names,
            has_header=not self.given,
            new_columns=list(self.given) or None,
            separator=self.separator,
            quote_char='"' if self.quoted else None,
            schema_overrides=types,
            infer_schema=False,
        )

    def _may_be_short(self) -> bool:
        """Return whether a line has too few separators, or quotes that may hide them."""
        lines = self.content.column_of_lines()
        short = lines.str.count_matches(self.separator, literal=True) < len(self.names) - 1
        return bool(((short | lines.str.contains('"', literal=True)) & (lines != "")).any())

    def _refuse(self, types: Types) -> None:
        """Raise at the first row of another width, or whose time is no number though it shall be one."""
        width, header_noun = len(self.names), "layout" if self.given else "header"
        times = [self.names.index(name) for name, kind in types.items() if kind == pl.Float64]
        for line, row in self.rows():
            where = f"{self.content.path}, line {line}"
            if (any(row) if self.strict else row) and not fits(row, width):
                advice = "is a quote missing?" if self.strict else "is a quote left open?"
                raise DataError(f"{where}: {plural(len(row), 'field')}, but the {header_noun} has {width}; {advice}")
            for index in times if row and (self.given or line > self.number) else ():
                if row[index] and not is_number(row[index]):
                    time = quoted(row[index])
                    raise DataError(
                        f"{where}: time {time} is not a time; use seconds since 1970, ISO 8601, or --time-unit"
                    )


def is_quoted(content: Content) -> bool:
    """Return whether quotes in a table with tabs are CSV's: every field that opens with one closes with one.

    Otherwise they are part of the text, as in the files of GLUE.
    """
    lines = content.column_of_lines()
    field = r'(?:"(?:[^"]|"")*"|[^"\t][^\t]*|)'
    open_lines = lines.filter(~lines.str.contains(rf"^{field}(?:\t{field})*$"))
    widths = lines.filter(lines != "").str.count_matches("\t", literal=True)
    # A field over several lines leaves an odd number of quotes in its first line and in its last.
    return not len(open_lines) or (widths.n_unique() > 1 and bool((open_lines.str.count_matches('"') % 2 == 1).all()))
