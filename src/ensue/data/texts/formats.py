"""The public layouts of labelled texts, recognised by their shape and read without a Python object per row.

===============  ==========================================================================
labelled lines   ``label TAB text``, or ``label TAB text TAB text`` for pairs; quotes mean nothing
csv, tsv         a header that names a text, and one row a text; so do jsonl and parquet
snli             JSON Lines with ``gold_label``, ``sentence1`` and ``sentence2``
jsonl texts      ``{"texts": […], "label": "…", "id": "…"}``
fasttext         ``__label__x text``
trees            ``(3 (2 It) (4 works))``, every phrase with its label
ss               ``user TAB TAB product TAB TAB rating TAB TAB text`` (Tang, Qin & Liu 2015)
imdb             ``pos/17 TAB movie TAB rating TAB text`` (Maas et al. 2011, one review a line)
===============  ==========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from ensue.data.delimited import Delimited
from ensue.data.files import Content
from ensue.data.roles import Found, Roles, plain_name, require_columns, require_roles
from ensue.data.table import Table, by_role, json_lines, read_delimited, read_objects, read_table, sample_objects
from ensue.data.texts.trees import is_tree, phrases_of
from ensue.errors import DataError, SettingError
from ensue.lines import plural, quoted
from ensue.records import Text

_PAIRS = (("premise", "hypothesis"), *((f"{word}1", f"{word}2") for word in ("sentence", "text", "question")))
_COLUMNS = Roles(
    known={
        "text": (
            *("text", "review", "reviewtext", "reviewbody", "sentence", "content", "body", "document", "comment"),
            *("tweet", "question", "message", *(first for first, _ in _PAIRS)),
        ),
        "second": (),
        "label": ("goldlabel", "label", "sentiment", "category", "class", "stars", "rating", "polarity", "target"),
        "id": ("id", "pairid", "textid", "reviewid", "uid"),
        "group": (
            *("group", "groupid", "movie", "movieid", "product", "productid", "businessid", "captionid", "promptid"),
        ),
    },
    needed=("text",),
    doubted=("text", "label"),
    example="text=…,label=…",
    plain=plain_name,
)
ROLES = tuple(_COLUMNS.known)
_NAMES = {name for names in (*_COLUMNS.known.values(), *_PAIRS) for name in names}
_IMDB = re.compile(r"(pos|neg|unsup)/\d+\t[^\t]*\t\d+\t")
_SS = re.compile(r"[^\t]+\t\t[^\t]+\t\t[\d.]+\t\t")


def read_rows(content: Content, stated: Mapping[str, str], phrases: bool, *, every: bool = False) -> Table:
    """The rows of a file, whatever its layout.

    Args:
        content: the file.
        stated: role -> column.
        phrases: of trees, whether to read every labelled phrase.
        every: whether to keep the rows of tables that hold nothing, and those on whose label no one agreed.

    Raises:
        DataError: no layout known here, or a line that does not fit it.
        SettingError: an unknown role, or roles and phrases where the layout has none.
    """
    require_roles(stated, ROLES)
    first = "{" if content.parquet else content.head(1)[0].lstrip(" ")
    lists = {"fasttext": first.startswith("__label__"), "trees": is_tree(first)}
    if phrases and not lists["trees"]:
        raise SettingError(f"{content.path}: only trees have labelled phrases; leave phrases out")
    for layout in (layout for layout, fits in lists.items() if fits):
        if stated:
            raise SettingError(f"{content.path}: the layout {layout} has no columns; leave --columns out")
        return _trees(content, phrases) if layout == "trees" else _fasttext(content)
    return _agreed(content, _table(content, first, stated), every)


def _table(content: Content, first: str, stated: Mapping[str, str]) -> Table:
    find = partial(_find, content.path, stated=stated)
    if content.parquet:
        return read_table(content, find)
    if first.startswith("{"):
        if not stated and isinstance(sample_objects(content)[0].get("texts"), list):
            return _lists(content)
        table = read_table(content, find)
        return replace(table, layout="snli") if "gold_label" in table.columns.values() else table
    separator = _separator(content, first, stated)
    if separator is None:
        return _headless(content, first, stated)
    delimited = Delimited.of(content, separator)
    return read_delimited(delimited, *find(delimited.names))


def _fasttext(content: Content) -> Table:
    """A line with several labels is refused: which one to learn is not for a reader to choose."""
    lines, numbers, notes = content.filled_lines()
    halves = lines.str.extract_groups(r"^\s*((?:__label__\S*(?:\s+|$))*)(.*)$").struct.unnest()
    counts = halves["1"].str.count_matches(r"__label__\S*")
    for row in (counts > 1).arg_true()[:1]:
        problem = f"{counts[row]} labels in one line; keep one"
        raise DataError(f"{content.path}:{numbers[row]}: {problem}, as in __label__good a fine film")
    label = halves["1"].str.strip_chars().str.strip_prefix("__label__")
    frame = pl.DataFrame({"text": halves["2"], "label": label})
    return Table("fasttext", frame, lambda row: f"{content.path}:{numbers[row]}", {}, notes)


def _headless(content: Content, first: str, stated: Mapping[str, str]) -> Table:
    """Fields between tabs that no header names."""
    lines, numbers, notes = content.filled_lines()
    num_fields = first.count("\t") + 1
    if _SS.match(first):
        layout, between, names = "ss", "\t\t", ["user", "product", "rating", "text"]
        roles = {"text": "text", "label": "rating", "group": "product"}
    elif _IMDB.match(first):
        layout, between, names = "imdb", "\t", ["id", "movie", "rating", "text"]
        roles = {"text": "text", "label": "polarity", "id": "id", "group": "movie"}
    elif num_fields in (2, 3):
        layout, between, names = "labelled lines", "\t", ["label", "text", "second"][:num_fields]
        roles = {name: name for name in names}
    else:
        raise DataError(
            f"{content.path}:{numbers[0]}: {quoted(first, 40)} begins no known layout of texts; give label TAB text, "
            "or a header whose names are known or stated with --columns text=…,label=…"
        )
    counts = lines.str.count_matches(between, literal=True) + 1
    for row in (counts != len(names)).arg_true()[:1]:
        shape = f" {between.replace(chr(9), 'TAB ')}".join(names)
        where = f"{content.path}:{numbers[row]}"
        raise DataError(f"{where}: {plural(counts[row], 'field')}, but the file begins with {len(names)}: {shape}")
    frame = lines.str.splitn(between, len(names)).struct.rename_fields(names).struct.unnest()
    if layout == "imdb":
        frame = frame.with_columns(polarity=pl.col("id").str.split("/").list.first())
    require_columns(content.path, frame.columns, stated)
    columns = {role: {**roles, **stated}[role] for role in ROLES if role in {**roles, **stated}}
    return Table(layout, by_role(frame, columns), lambda row: f"{content.path}:{numbers[row]}", columns, notes)


def _trees(content: Content, phrases: bool) -> Table:
    """Whole sentences, or every phrase once for each label it bears, in the group of its first sentence."""
    rows: list[tuple[str, str, str]] = []
    for number, line in content.filled():
        spans = phrases_of(line, f"{content.path}:{number}")
        rows += [(text, label, str(number)) for text, label in (spans if phrases else spans[:1])]
    every = pl.DataFrame(rows, schema=dict.fromkeys(("text", "label", "group"), pl.String), orient="row")
    frame = every.unique(["text", "label"], keep="first", maintain_order=True) if phrases else every
    repeated = len(every) - len(frame)
    repeats = f"{plural(len(every), 'phrase')}; left out as copies with the same label: {repeated:,}"
    chosen = frame if phrases else frame.drop("group")
    return Table("trees", chosen, lambda row: f"{content.path}:{frame['group'][row]}", {}, (repeats,) * phrases)


def _separator(content: Content, first: str, stated: Mapping[str, str]) -> str | None:
    """What stands between the names of a header, or ``None`` where the line is none."""
    for separator in ("\t",) if "\t" in first else (",", ";", "|"):
        names = content.names(separator)
        plain = set(map(plain_name, names))
        # One known word between tabs may be a label: "question TAB What is it ?".
        named = separator != "\t" or len(names) > 3 or len(plain & _NAMES) > 1
        if set(stated.values()) <= set(names) if stated else named and plain & set(_COLUMNS.known["text"]):
            return separator
    return None


def _lists(content: Content) -> Table:
    """``{"texts": […], "label": "…", "id": "…"}`` a line: lists of one text, or of two."""
    schema = {"texts": pl.List(pl.String), "label": pl.String(), "id": pl.String()}
    frame = read_objects(content, schema, Text.from_json)
    counts = frame["texts"].list.len().fill_null(0)
    for row in ((counts < 1) | (counts > 2) | (counts != counts[0])).arg_true()[:1]:
        raise DataError(
            f"{content.place_of_line(row)}: {counts[row]} texts; give one text in every line, or two in every line"
        )
    sides = ("text", "second")[: counts[0]]
    texts = {role: frame["texts"].list.get(place) for place, role in enumerate(sides)}
    roles = [*sides, *(role for role in ("label", "id") if frame[role].null_count() < len(frame))]
    frame, columns = frame.with_columns(**texts).select(roles), {role: role for role in roles}
    return Table("jsonl texts", frame, content.place_of_line, columns, (), partial(json_lines, content))


def _agreed(content: Content, table: Table, every: bool) -> Table:
    """The rows that hold anything, without pairs on whose label no one agreed; all of them if ``every`` stays."""
    table = table.filled(content.path, "text", every=every)
    if every or plain_name(table.columns.get("label", "")) != "goldlabel":
        return table
    unsure = (table.frame["label"] == "-").fill_null(False)
    if unsure.all():
        raise DataError(f"{content.path}: has a header but no text")
    if not unsure.any():
        return table
    note = f"{plural(int(unsure.sum()), 'row')} left out: label '-', no two in three annotators agreed"
    return replace(table.select(~unsure), notes=(*table.notes, note))


def _find(path: Path, names: Sequence[str], stated: Mapping[str, str]) -> Found:
    """As :meth:`Roles.find`; two texts that stand together are a pair where neither is stated.

    Raises:
        DataError: a column that is missing, or no column for the text.
        SettingError: one column in two roles.
    """
    plain = {plain_name(name): name for name in reversed(names)}
    pair = next(((plain[a], plain[b]) for a, b in _PAIRS if a in plain and b in plain), None)
    if pair is None or {"text", "second"} & stated.keys() or set(pair) & set(stated.values()):
        return _COLUMNS.find(path, names, stated, plain.values())
    return _COLUMNS.find(path, names, stated, plain.values(), text=pair[0], second=pair[1])
