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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import polars as pl

from ensue.data.clock import Where
from ensue.data.files import Content, fits
from ensue.data.formats import read_object
from ensue.data.histories import Index
from ensue.data.originals import JSON
from ensue.data.trees import is_tree, phrases_of
from ensue.errors import DataError, SettingError
from ensue.lines import listed, plural, quoted
from ensue.records import Text

ROLES = ("text", "second", "label", "id", "group")
_PAIRS = (("premise", "hypothesis"), *((f"{word}1", f"{word}2") for word in ("sentence", "text", "question")))
_KNOWN = {
    "text": (
        *("text", "review", "reviewtext", "reviewbody", "sentence", "content", "body", "document", "comment", "tweet"),
        *("question", "message", *(first for first, _ in _PAIRS)),
    ),
    "label": ("goldlabel", "label", "sentiment", "category", "class", "stars", "rating", "polarity", "target"),
    "id": ("id", "pairid", "textid", "reviewid", "uid"),
    "group": ("group", "groupid", "movie", "movieid", "product", "productid", "businessid", "captionid", "promptid"),
}
_NAMES = {name for names in (*_KNOWN.values(), *_PAIRS) for name in names}
_IMDB = re.compile(r"(pos|neg|unsup)/\d+\t[^\t]*\t\d+\t")
_SS = re.compile(r"[^\t]+\t\t[^\t]+\t\t[\d.]+\t\t")


@dataclass(frozen=True)
class Rows:
    """What a file of texts holds, before labels and texts are looked at."""

    layout: str
    frame: pl.DataFrame
    """One column of texts a role; anything may be null."""
    where: Where
    """The place of a row in the file."""
    columns: dict[str, str]
    notes: tuple[str, ...]
    originals: Callable[[], pl.DataFrame] | None = None
    """Reads all columns of the file's rows anew, the empty ones too; of JSON the objects in a column ``json``."""

    def select(self, kept: pl.Series) -> Rows:
        """The rows that a mask keeps."""
        places = kept.arg_true()
        return replace(self, frame=self.frame.filter(kept), where=lambda row: self.where(int(places[row])))


def read_rows(content: Content, stated: Mapping[str, str], phrases: bool, *, every: bool = False) -> Rows:
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
    for role in stated:
        if role not in ROLES:
            raise SettingError(f"columns: role {role!r} is not known; the roles are {', '.join(ROLES)}")
    first = "{" if content.parquet else content.head(1)[0].lstrip(" ")
    lists = {"fasttext": first.startswith("__label__"), "trees": is_tree(first)}
    if phrases and not lists["trees"]:
        raise SettingError(f"{content.path}: only trees have labelled phrases; leave phrases out")
    for layout in (layout for layout, found in lists.items() if found):
        if stated:
            raise SettingError(f"{content.path}: the layout {layout} has no columns; leave --columns out")
        return _trees(content, phrases) if layout == "trees" else _fasttext(content)
    if content.parquet:
        return _parquet(content, stated, every)
    if first.startswith("{"):
        return _json(content, stated, every)
    separator = _separator(content, first, stated)
    if separator is None:
        return _headless(content, first, stated, every)
    return _delimited(content, separator, stated, every)


def _fasttext(content: Content) -> Rows:
    """A line with several labels is refused: which one to learn is not for a reader to choose."""
    lines, numbers, notes = _lines(content)
    halves = lines.str.extract_groups(r"^\s*((?:__label__\S*(?:\s+|$))*)(.*)$").struct.unnest()
    counts = halves["1"].str.count_matches(r"__label__\S*")
    for row in (counts > 1).arg_true()[:1]:
        found = f"{counts[row]} labels in one line; keep one"
        raise DataError(f"{content.path}:{numbers[row]}: {found}, as in __label__good a fine film")
    label = halves["1"].str.strip_chars().str.strip_prefix("__label__")
    frame = pl.DataFrame({"text": halves["2"], "label": label})
    return Rows("fasttext", frame, lambda row: f"{content.path}:{numbers[row]}", {}, notes)


def _headless(content: Content, first: str, stated: Mapping[str, str], every: bool) -> Rows:
    """Fields between tabs that no header names."""
    lines, numbers, notes = _lines(content)
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
        raise DataError(f"{where}: {_fields(counts[row])}, but the file begins with {len(names)}: {shape}")
    frame = lines.str.splitn(between, len(names)).struct.rename_fields(names).struct.unnest()
    if layout == "imdb":
        frame = frame.with_columns(polarity=pl.col("id").str.split("/").list.first())
    roles = _states(content.path, frame.columns, stated) | {k: v for k, v in roles.items() if k not in stated}
    own = Rows(layout, frame, lambda row: f"{content.path}:{numbers[row]}", roles, notes)
    return _rows(content, own, every)


def _trees(content: Content, phrases: bool) -> Rows:
    """Whole sentences, or every phrase once for each label it bears, in the group of its first sentence."""
    found: list[tuple[str, str, str]] = []
    for number, line in _filled(content):
        spans = phrases_of(line, f"{content.path}:{number}")
        found += [(text, label, str(number)) for text, label in (spans if phrases else spans[:1])]
    every = pl.DataFrame(found, schema=dict.fromkeys(("text", "label", "group"), pl.String), orient="row")
    frame = every.unique(["text", "label"], keep="first", maintain_order=True) if phrases else every
    repeated = len(every) - len(frame)
    repeats = f"{plural(len(every), 'phrase')}; left out as copies with the same label: {repeated:,}"
    chosen = frame if phrases else frame.drop("group")
    return Rows("trees", chosen, lambda row: f"{content.path}:{frame['group'][row]}", {}, (repeats,) * phrases)


def _separator(content: Content, first: str, stated: Mapping[str, str]) -> str | None:
    """What stands between the names of a header, or ``None`` where the line is none."""
    for separator in ("\t",) if "\t" in first else (",", ";", "|"):
        names = content.names(separator)
        plain = set(map(_plain, names))
        # One known word between tabs may be a label: "question TAB What is it ?".
        named = separator != "\t" or len(names) > 3 or len(plain & _NAMES) > 1
        if set(stated.values()) <= set(names) if stated else named and plain & set(_KNOWN["text"]):
            return separator
    return None


def _delimited(content: Content, separator: str, stated: Mapping[str, str], every: bool) -> Rows:
    in_quotes = separator != "\t" or _is_quoted(content)
    number = next(number for number, record in _records(content, separator, in_quotes) if any(record))
    header = content.names(separator) if in_quotes else content.head(1)[0].split(separator)
    if number > content.first_line:
        raise DataError(
            f"{content.path}:{content.first_line}: is empty, the header stands in line {number}; delete the lines "
            "before it"
        )
    double = next((name for name, count in Counter(header).items() if count > 1), None)
    if double is not None:
        raise DataError(f"{content.path}:{number}: column {quoted(double)} appears twice; rename one")
    roles, notes = _find_columns(content.path, header, stated)
    read_csv = partial(
        pl.read_csv,
        content.source,
        # The last column tells whether a row is too long or too short.
        columns=[name for name in header if name in {*roles.values(), header[-1]}],
        separator=separator,
        quote_char='"' if in_quotes else None,
        infer_schema=False,
    )
    frame = content.delimited(read_csv, lambda: _refuse_rows(content, separator, in_quotes, len(header)))
    if frame[header[-1]].null_count():
        _refuse_rows(content, separator, in_quotes, len(header))

    def where(row: int) -> str:
        return f"{content.path}:{next(islice(_records(content, separator, in_quotes), row + 1, None))[0]}"

    def originals() -> pl.DataFrame:
        return content.delimited(partial(read_csv, columns=header), lambda: None)

    layout = "tsv" if separator == "\t" else "csv"
    return _rows(content, Rows(layout, frame, where, roles, notes, originals), every)


def _is_quoted(content: Content) -> bool:
    """Whether quotes in a table with tabs are CSV's: every field that opens with one closes with one.

    Otherwise they are part of the text, as in the files of GLUE.
    """
    lines = content.column_of_lines()
    field = r'(?:"(?:[^"]|"")*"|[^"\t][^\t]*|)'
    open_lines = lines.filter(~lines.str.contains(rf"^{field}(?:\t{field})*$"))
    widths = lines.filter(lines != "").str.count_matches("\t", literal=True)
    # A field over several lines leaves an odd number of quotes in its first line and in its last.
    return not len(open_lines) or (widths.n_unique() > 1 and bool((open_lines.str.count_matches('"') % 2 == 1).all()))


def _records(content: Content, separator: str, in_quotes: bool) -> Iterator[tuple[int, list[str]]]:
    """Every record, the empty ones too, with the number of the line it begins on.

    Raises:
        DataError: at the first line that is not UTF-8 or cannot be CSV.
    """
    if in_quotes:
        return content.rows(separator, strict=True)
    return ((number, line.rstrip("\r\n").split(separator)) for number, line in content.lines())


def _refuse_rows(content: Content, separator: str, in_quotes: bool, num_fields: int) -> None:
    """Raise at the first row of another width."""
    for number, row in _records(content, separator, in_quotes):
        if any(row) and not fits(row, num_fields):
            where = f"{content.path}:{number}"
            raise DataError(f"{where}: {_fields(len(row))}, but the header has {num_fields}; is a quote missing?")


def _fields(count: int) -> str:
    return f"{count} field" + "s" * (count != 1)


def _json(content: Content, stated: Mapping[str, str], every: bool) -> Rows:
    samples = [read_object(line, f"{content.path}:{number}") for number, line in islice(_filled(content), 100)]
    listed = isinstance(samples[0].get("texts"), list) and not stated
    strings = dict.fromkeys(("label", "id"), pl.String)
    schema: dict[str, pl.DataType | type[pl.DataType]] = {"texts": pl.List(pl.String), **strings}
    notes: tuple[str, ...] = ()
    if not listed:
        names = list(dict.fromkeys(name for sample in samples for name in sample))
        roles, notes = _find_columns(content.path, names, stated)
        for name in roles.values():
            if any(isinstance(sample.get(name), list | dict) for sample in samples):
                raise DataError(f"{content.path}: field {quoted(name)} holds more than a text or a number")
        schema = dict.fromkeys(roles.values(), pl.String)
    try:
        frame = pl.read_ndjson(content.source, schema=schema)
    except pl.exceptions.PolarsError as error:
        for number, line in _filled(content):
            where = f"{content.path}:{number}"
            _ = Text.from_json(line, where) if listed else read_object(line, where)
        content.refuse(error)

    def place(row: int) -> str:
        return f"{content.path}:{next(islice(_filled(content), row, None))[0]}"

    def originals() -> pl.DataFrame:
        return pl.DataFrame({JSON: [line.strip() for _, line in _filled(content)]})

    if not listed:
        layout = "snli" if "gold_label" in roles.values() else "jsonl"
        return _rows(content, Rows(layout, frame, place, roles, notes, originals), every)
    return _rows(content, Rows("jsonl texts", *_unlisted(frame, place), notes, originals), every)


def _unlisted(frame: pl.DataFrame, where: Where) -> tuple[pl.DataFrame, Where, dict[str, str]]:
    """Lists of one text, or of two, as columns."""
    counts = frame["texts"].list.len().fill_null(0)
    for row in ((counts < 1) | (counts > 2) | (counts != counts[0])).arg_true()[:1]:
        raise DataError(f"{where(row)}: {counts[row]} texts; give one text in every line, or two in every line")
    roles = list(("text", "second")[: counts[0]])
    texts = {role: frame["texts"].list.get(place) for place, role in enumerate(roles)}
    roles += [role for role in ("label", "id") if frame[role].null_count() < len(frame)]
    return frame.with_columns(**texts), where, {role: role for role in roles}


def _filled(content: Content) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in content.lines() if line.strip())


def _parquet(content: Content, stated: Mapping[str, str], every: bool) -> Rows:
    schema = content.schema()
    roles, notes = _find_columns(content.path, list(schema), stated)
    for role, name in roles.items():
        if schema[name].is_nested() or schema[name] in (pl.Binary, pl.Object):
            raise DataError(
                f"{content.path}: column {quoted(name)} ({role}) holds {schema[name]}; give texts or numbers"
            )
    frame = content.table(roles.values())
    return _rows(
        content, Rows(content.layout, frame.cast(pl.String), content.place, roles, notes, content.table), every
    )


def _rows(content: Content, rows: Rows, every: bool) -> Rows:
    """The columns by their roles, without empty rows and pairs on whose label no one agreed unless ``every`` stays."""
    roles, notes = rows.columns, rows.notes
    frame = rows.frame.select(pl.col(roles[role]).alias(role) for role in ROLES if role in roles)
    kept = ~frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    if not kept.any():
        raise DataError(f"{content.path}: has a header but no text")
    rows = replace(rows, frame=frame, columns={role: roles[role] for role in frame.columns})
    if every:
        return rows
    if empty := len(kept) - int(kept.sum()):
        notes = (*notes, f"{plural(empty, 'empty row')} skipped")
    if _plain(roles.get("label", "")) == "goldlabel":
        unsure = (frame["label"] == "-").fill_null(False)
        kept &= ~unsure
        if num_unsure := int(unsure.sum()):
            notes = (*notes, f"{plural(num_unsure, 'row')} left out: label '-', no two in three annotators agreed")
    if not kept.any():
        raise DataError(f"{content.path}: has a header but no text")
    return replace(rows.select(kept), notes=notes)


def _find_columns(
    path: Path, names: Sequence[str], stated: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The column of each role, and a note wherever two columns would have fitted.

    Raises:
        DataError: a column that is missing, or no column for the text.
        SettingError: one column in two roles.
    """
    found = _states(path, names, stated)
    plain = {_plain(name): name for name in reversed(names)}
    pair = next(((plain[a], plain[b]) for a, b in _PAIRS if a in plain and b in plain), None)
    if pair is not None and not {"text", "second"} & found.keys() and not set(pair) & set(found.values()):
        found |= {"text": pair[0], "second": pair[1]}
    notes = []
    for role, known in _KNOWN.items():
        fitting = [plain[word] for word in known if word in plain and plain[word] not in found.values()]
        if role not in found and fitting:
            found[role] = fitting.pop(0)
        if fitting and role in ("text", "label") and role not in stated:
            notes.append(f"{role} is {quoted(found[role])}; {quoted(fitting[0])} would fit too, choose with --columns")
    if "text" not in found:
        raise DataError(
            f"{path}: no column is known as the text; the columns are {listed(names)}; name them with --columns "
            "text=…,label=…"
        )
    return found, tuple(notes)


def _states(path: Path, names: Sequence[str], stated: Mapping[str, str]) -> dict[str, str]:
    for role, name in stated.items():
        if name not in names:
            raise DataError(f"{path}: column {quoted(name)} ({role}) is missing; the columns are {listed(names)}")
    if len(set(stated.values())) < len(stated):
        raise SettingError(f"columns: {', '.join(stated.values())} names one column twice; give each role its own")
    return dict(stated)


def _plain(name: str) -> str:
    """``Review_Text`` and ``reviewText`` alike."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _lines(content: Content) -> tuple[pl.Series, Index, tuple[str, ...]]:
    """The lines that hold anything, their numbers, and a note on the others; fields keep their spaces."""
    lines = content.column_of_lines()
    kept = (lines.str.strip_chars() != "").arg_true().to_numpy()
    skipped = len(lines) - len(kept)
    return (
        lines.gather(kept),
        kept.astype("int64") + 1,
        (f"{plural(skipped, 'empty line')} skipped",) if skipped else (),
    )
