"""Item tables: one row per item, with its title, categories, words, numbers and times.

A table is a file or a frame with a column of item ids. Every other column is a feature; its type is found from its
values, from a header such as RecBole's ``title:token_seq``, or stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

import polars as pl

from ensue.data.files import answering
from ensue.data.ids import IdColumns
from ensue.data.item_table import CATEGORY, IGNORE, KINDS, NUMBER, TEXT, TIME, Items
from ensue.data.markup import strip_markup
from ensue.data.packed import DROP, Opening
from ensue.data.roles import Found, plain_name
from ensue.data.table import ReadOptions, read_table
from ensue.errors import DataError, SettingError
from ensue.lines import listed, plural, quoted

ITEM, TITLE = "item", "title"
_ID_NAMES = (
    *("item", "itemid", "id", "articleid", "productid", "movieid", "newsid", "videoid", "trackid", "bookid", "postid"),
    *("sku", "asin", "parentasin", "pageid", "page", "url", "user", "userid", "author", "authorid", "value", "aid"),
)
_TITLE_NAMES = ("title", "name", "headline", "movietitle", "producttitle", "productname", "itemname", "displayname")
_RECBOLE = {"token": CATEGORY, "token_seq": TEXT, "float": NUMBER, "float_seq": IGNORE}
_CATEGORY_SHARE, _CATEGORY_WORDS = 0.2, 2.0
"""A column of texts is one of categories where its distinct values are at most this share of all, or short."""


def read_items(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    like: Items | None = None,
    **opening: Unpack[Opening],
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
        DataError: no column of ids, no feature, or a row that does not fit.
        SettingError: a type or a column that does not exist.
    """
    path, stated = Path(path), dict(columns or {})
    # "title=text" gives a column of that name its type; "title=name" says which column is the title.
    roles = {role: stated.pop(role) for role in (ITEM, TITLE) if stated.get(role, IGNORE) not in KINDS}
    id_column = ""
    if like is not None:
        stated = {**like.kinds, **stated}
        roles = {TITLE: like.title, **roles} if like.title else roles
        id_column = like.id_column
    for name, kind in stated.items():
        if kind not in KINDS:
            raise SettingError(f"item columns: {name}={kind} is no type; choose from {', '.join(KINDS)}")
    typed: dict[str, str] = {}

    def find(names: Sequence[str]) -> Found:
        for name in names:
            suffix = name.partition(":")[2]
            typed[name] = _RECBOLE.get(suffix, "")
        bases = {name: name.partition(":")[0] if typed[name] else name for name in names}
        nonlocal id_column
        item = _choose(names, bases, _ID_NAMES, roles.get(ITEM, id_column if id_column in bases.values() else None))
        if item is None and ITEM in roles:
            raise DataError(f"{path}: column {quoted(roles[ITEM])} (item) is missing; the columns are {listed(names)}")
        if item is None:
            raise DataError(
                f"{path}: no column is known as the item; the columns are {listed(names)}; name it with "
                f"--item-columns item={names[0] if names else 'COLUMN'}"
            )
        for name in stated:
            if name not in bases.values():
                raise DataError(f"{path}: column {quoted(name)} is missing; the columns are {listed(names)}")
        id_column = bases[item]
        return {ITEM: item, **{f" {base}": name for name, base in bases.items() if name != item}}, ()

    with answering(path):
        options = ReadOptions(columns={}, **opening)
        table = read_table(options.open(path), find)
    ids = IdColumns({ITEM: "item"}, "item", opening.get("missing", DROP))
    table = ids.normalise(table)
    frame = table.frame.rename({name: name[1:] for name in table.frame.columns if name != ITEM})
    warnings = list(ids.warnings)
    distinct = frame.unique(ITEM, keep="last", maintain_order=True)
    if len(distinct) < len(frame):
        warnings.append(f"{plural(len(frame) - len(distinct), 'row')} of an item that comes again; the last one counts")
    item_ids, features = distinct[ITEM].cast(pl.String), distinct.drop(ITEM)
    features = features.with_columns(
        pl.when(pl.col(name).str.strip_chars() == "").then(None).otherwise(pl.col(name)).alias(name)
        for name in features.columns
    )
    if not features.width:
        raise DataError(f"{path}: has no column besides the item; an item table needs a title, a category or the like")
    suffixes = {name.partition(":")[0]: kind for name, kind in typed.items() if kind}
    kinds = {name: stated.get(name) or suffixes.get(name) or _kind_of(features[name]) for name in features.columns}
    title = _choose(features.columns, {name: name for name in features.columns}, _TITLE_NAMES, roles.get(TITLE)) or ""
    if roles.get(TITLE) and not title:
        raise DataError(
            f"{path}: column {quoted(roles[TITLE])} (title) is missing; the columns are {listed(features.columns)}"
        )
    texts = [name for name, kind in kinds.items() if kind == TEXT or name == title]
    features = features.with_columns(strip_markup(features[name].fill_null(""))[0].alias(name) for name in texts)
    features = features.with_columns(pl.col(name).replace("", None) for name in texts)
    kept = [name for name in features.columns if kinds[name] != IGNORE or name == title]
    kinds = {name: kinds[name] for name in kept}
    return Items(item_ids, features.select(kept), kinds, title, id_column), tuple(warnings)


def _choose(names: Sequence[str], bases: Mapping[str, str], known: Sequence[str], stated: str | None) -> str | None:
    """Return the column that is stated, or the first one with a known name."""
    if stated is not None:
        return next((name for name in names if stated in (name, bases[name])), None)
    by_plain = {plain_name(bases[name]): name for name in reversed(names)}
    return next((by_plain[name] for name in known if name in by_plain), None)


def _kind_of(column: pl.Series) -> str:
    """Return the type of a column of texts."""
    filled = column.drop_nulls()
    if not len(filled):
        return IGNORE
    numbers = filled.str.strip_chars().cast(pl.Float64, strict=False)
    if not numbers.is_null().any() and numbers.is_finite().all():
        return NUMBER
    if filled.str.contains(r"^\s*\d{4}-\d{2}-\d{2}").all():
        return TIME
    words = float(filled.str.count_matches(r"\S+").mean() or 0.0)  # type: ignore[arg-type]
    distinct = filled.n_unique()
    if distinct <= _CATEGORY_SHARE * len(filled) or filled.str.contains(r"[|;]").mean() > 0.2:  # type: ignore[operator]
        return CATEGORY
    if distinct == len(filled) and words < _CATEGORY_WORDS:
        return IGNORE  # a second id, or an address: no two items share it
    return TEXT if words >= _CATEGORY_WORDS else CATEGORY
