"""Item tables: one row per item, with its title, categories, words, numbers and times.

A table is a file or a frame with a column of item ids. Every other column is a feature; its type is found from its
values, from a header such as RecBole's ``title:token_seq``, or stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

import polars as pl

from ensue.data.clock import parse_times
from ensue.data.dates import Where
from ensue.data.file_bytes import DROP, Opening
from ensue.data.files import answering
from ensue.data.histories import CATEGORY, IGNORE, KINDS, NUMBER, TEXT, TIME, Items
from ensue.data.ids import MISSING, IdColumns
from ensue.data.lists import lists_in
from ensue.data.markup import strip_markup
from ensue.data.schema import FoundColumns, plain_name
from ensue.data.table import ReadOptions, Table, read_table
from ensue.errors import DataError, SettingError
from ensue.lines import listed, quoted

ITEM = "item"
TITLE = "title"
_ID_NAMES = (
    *("item", "itemid", "id", "articleid", "productid", "movieid", "newsid", "videoid", "trackid", "bookid", "postid"),
    *("sku", "asin", "parentasin", "pageid", "page", "url", "user", "userid", "author", "authorid", "value", "aid"),
)
_TITLE_NAMES = ("title", "name", "headline", "movietitle", "producttitle", "productname", "itemname", "displayname")
_RECBOLE = {"token": CATEGORY, "token_seq": TEXT, "float": NUMBER, "float_seq": IGNORE}
_DECIMAL_COMMA = r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?"
_THOUSANDS_COMMA = r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
"""Numbers such as 1.234,50, and 1,234.50."""
_ADVICE = "give texts, numbers or lists of them, or leave it out with --item-columns NAME=ignore"
_CATEGORY_SHARE = 0.2
_CATEGORY_WORDS = 2.0
"""A column of texts is one of categories where its distinct values are at most this share of all, or short."""


class _ItemColumns:
    """The roles and types of the columns of an item table.

    Args:
        path: the file, for messages.
        stated: ``item`` and ``title`` to column names, and column names to types.
        like: the items of a model, whose columns the table must have.

    Raises:
        SettingError: a type that does not exist.
    """

    def __init__(self, path: Path, stated: Mapping[str, str], like: Items | None) -> None:
        self.path = path
        self.like = like
        # "title=text" gives a column of that name its type; "title=name" says which column is the title.
        self.roles = {role: stated[role] for role in (ITEM, TITLE) if stated.get(role, IGNORE) not in KINDS}
        self.kinds = {name: kind for name, kind in stated.items() if name not in self.roles}
        for name, kind in self.kinds.items():
            if kind not in KINDS:
                raise SettingError(f"item columns: {name}={kind} is no type; choose from {', '.join(KINDS)}")
        if like is not None:
            self.kinds = {**like.kinds, **self.kinds}
            self.roles = {TITLE: like.title, **self.roles} if like.title else self.roles
        self.headers: dict[str, str] = {}
        """Base name of each column to the type that its header states, or nothing."""
        self.id_column = ""
        """Base name of the column of ids, once the header has been read."""

    def find(self, names: Sequence[str]) -> FoundColumns:
        """Return the columns of a header: that of ids, and each feature as the role "feature NAME".

        Raises:
            DataError: no column of ids, or one that is stated is missing.
        """
        typed = {name: name.rpartition(":") for name in names}
        bases = {name: base if kind in _RECBOLE else name for name, (base, _, kind) in typed.items()}
        self.headers = {bases[name]: _RECBOLE.get(kind, "") for name, (_, _, kind) in typed.items()}
        former = self.like.id_column if self.like is not None else ""
        stated = self.roles.get(ITEM, former if former in self.headers else None)
        item = _choose(bases, _ID_NAMES, stated)
        if item is None and stated is None:
            raise DataError(
                f"{self.path}: no column is known as the item; the columns are {listed(names)}; name it with "
                f"--item-columns item={names[0]}"
            )
        needed = [*filter(None, (stated, self.roles.get(TITLE))), *self.kinds]
        if missing := [name for name in needed if name not in bases and name not in self.headers]:
            raise DataError(f"{self.path}: column {quoted(missing[0])} is missing; the columns are {listed(names)}")
        assert item is not None
        title = _choose(bases, _TITLE_NAMES, self.roles.get(TITLE))
        # Whatever a column holds that is left out, it is not read; a title is shown even if it is no feature.
        bases = {name: base for name, base in bases.items() if self.kinds.get(base) != IGNORE or name in (item, title)}
        if len(names) < 2:
            raise DataError(f"{self.path}: has no column besides the item; add a title, a category or the like")
        self.id_column = bases[item]
        return {ITEM: item, **{f"feature {base}": name for name, base in bases.items() if name != item}}, ()


def read_items(
    path: str | Path, *, columns: Mapping[str, str] | None = None, like: Items | None = None, **opening: Unpack[Opening]
) -> tuple[Items, tuple[str, ...]]:
    """Read a table of items: CSV, TSV, JSON Lines, Parquet or Excel.

    Args:
        path: the file.
        columns: ``item`` and ``title`` to column names, where these do not speak for themselves, and column names to
            ``category``, ``text``, ``number``, ``time`` or ``ignore``, where the type that is found is wrong.
        like: the items of a model, whose columns are read, with their types.
        opening: ``encoding``, ``sheet``, ``max_unpacked`` and ``missing``.

    Returns:
        The items, and warnings.

    Raises:
        DataError: no column of ids, no feature, an item with two rows, or a cell that does not fit its column.
        SettingError: a type that does not exist.
    """
    path = Path(path)
    item_columns = _ItemColumns(path, columns or {}, like)
    with answering(path):
        content = ReadOptions(**opening).open(path)
        table = read_table(content, item_columns.find, _ADVICE, lambda role: role != ITEM).filled(path, "item")
    ids = IdColumns({ITEM: "item"}, "item", opening.get("missing", DROP))
    table = _one_row_per_item(ids.normalise(table))
    frame = table.frame
    names = [name.removeprefix("feature ") for name in frame.columns if name != ITEM]
    title = _choose({name: name for name in names}, _TITLE_NAMES, item_columns.roles.get(TITLE)) or ""
    kinds = dict[str, str]()
    features = list[pl.Series]()
    warnings = [*ids.warnings]
    for name in names:
        # Empty cells, and words for nothing such as NULL and NaN, are null.
        cells = frame[f"feature {name}"].alias(name).cast(pl.String).str.strip_chars().replace(["", *MISSING], None)
        joined = _joined_lists(cells)
        is_list = joined is not cells
        plain = _decimal_points(joined)
        detected_kind = TEXT if name == title else CATEGORY if is_list else _kind_of(plain)
        kind = item_columns.kinds.get(name) or item_columns.headers[name] or detected_kind
        cells = plain if kind == NUMBER else joined
        if kind == NUMBER and plain is not joined:
            row = int((plain != joined).fill_null(value=False).arg_max() or 0)
            warnings.append(
                f"column {quoted(name)} has commas in its numbers: {joined[row]} is read as {plain[row]}; if this is "
                f"wrong, read it as texts with --item-columns {name}=category"
            )
        if kind in (NUMBER, TIME):
            cells = _numbers(cells, kind, table.where)
        if kind == TEXT or name == title:
            cells = strip_markup(cells.fill_null(""))[0].replace("", None)
        if kind != IGNORE or name == title:
            kinds[name] = kind
            features.append(cells)
    if not {*kinds.values()} - {IGNORE}:
        ignored = [name for name in item_columns.headers if name != item_columns.id_column]
        advice = f"give {listed(ignored)} a type, as in --item-columns {ignored[0]}=text"
        raise DataError(f"{path}: no column is a feature; {advice}")
    left_out = tuple(name for name in names if name not in kinds)
    items = Items(frame[ITEM].cast(pl.String), pl.DataFrame(features), kinds, title, item_columns.id_column, left_out)
    return items, tuple(warnings)


def _joined_lists(cells: pl.Series) -> pl.Series:
    """Return cells with lists such as ``["a", "b"]`` as ``a|b``; the same object where most are no lists."""
    is_list = cells.str.contains(r"^\[.*\]$").fill_null(value=False)
    if 2 * is_list.sum() < max(cells.len() - cells.null_count(), 1):
        return cells
    members = lists_in(cells.filter(is_list))
    return cells.replace([*members], ["|".join(each) or None for each in members.values()]) if members else cells


def _decimal_points(cells: pl.Series) -> pl.Series:
    """Return numbers such as ``1.234,50`` or ``1,234.50`` as ``1234.50``.

    The same object where no cell has a comma, or a cell such as ``1,234`` may be either number and no other cell
    decides it.
    """
    filled = cells.drop_nulls()
    if not filled.str.contains(",", literal=True).any():
        return cells
    is_decimal, is_thousands = (
        bool(filled.str.contains(f"^(?:{pattern})$").all()) for pattern in (_DECIMAL_COMMA, _THOUSANDS_COMMA)
    )
    if is_decimal == is_thousands:
        return cells
    separator = "." if is_decimal else ","
    return cells.str.replace_all(separator, "", literal=True).str.replace(",", ".", literal=True)


def _one_row_per_item(table: Table) -> Table:
    """Return a table without rows that are copies of another.

    Raises:
        DataError: two rows of an item differ.
    """
    table = table.select(table.frame.select(pl.struct(pl.all()).is_first_distinct()).to_series())
    for row in (~table.frame[ITEM].is_first_distinct()).arg_true()[:1]:
        item = table.frame[ITEM][row]
        first = int((table.frame[ITEM] == item).arg_max() or 0)
        raise DataError(
            f"{table.where(row)}: item {quoted(item)} has other values than in {table.where(first)}; keep one row per "
            "item"
        )
    return table


def _choose(bases: Mapping[str, str], known: Sequence[str], stated: str | None) -> str | None:
    """Return the column that is stated, or the first one with a known name."""
    if stated is not None:
        return next((name for name, base in bases.items() if stated in (name, base)), None)
    by_plain = {plain_name(base): name for name, base in reversed([*bases.items()])}
    return next((by_plain[name] for name in known if name in by_plain), None)


def _numbers(cells: pl.Series, kind: str, where: Where) -> pl.Series:
    """Return the cells of a column of numbers, or the times of one as seconds.

    Raises:
        DataError: a cell is none.
    """
    rows = cells.is_not_null().arg_true()
    filled = cells.gather(rows)
    if not len(filled):
        return cells
    if kind == TIME:
        # Row 2 of the filled cells is row rows[2] of the table, which messages name.
        seconds = parse_times(filled, lambda row: where(int(rows[row]))).numbers
        return cells.scatter(rows, pl.Series(seconds).cast(pl.String))
    numbers = filled.cast(pl.Float64, strict=False)
    for row in (numbers.is_null() | ~numbers.is_finite()).arg_true()[:1]:
        raise DataError(
            f"{where(int(rows[row]))}: {cells.name} {quoted(filled[row])} is not a number; correct it, or read the "
            f"column as texts with --item-columns {cells.name}=category"
        )
    return cells


def _kind_of(column: pl.Series) -> str:
    """Return the type of a column of texts."""
    filled = column.drop_nulls()
    if not len(filled):
        return IGNORE
    numbers = filled.cast(pl.Float64, strict=False)
    if not numbers.is_null().any():
        return NUMBER
    if filled.str.contains(r"^\s*\d{4}-\d{2}-\d{2}").all():
        return TIME
    # Few distinct values, or lists such as Action|Drama, are categories; else texts of several words are texts.
    words = float(filled.str.count_matches(r"\S+").mean() or 0.0)  # type: ignore[arg-type]
    distinct = filled.n_unique()
    if distinct <= _CATEGORY_SHARE * len(filled) or filled.str.contains(r"[|;]").mean() > 0.2:  # type: ignore[operator]
        return CATEGORY
    if distinct == len(filled) and words < _CATEGORY_WORDS:
        return IGNORE  # a second id, or an address: no two items share it
    return TEXT if words >= _CATEGORY_WORDS else CATEGORY
