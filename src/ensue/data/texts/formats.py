"""The public layouts of labelled texts, recognised by their shape and read without a Python object per row.

===============  ==========================================================================
labelled lines   ``label TAB text``, or ``label TAB text TAB text`` for pairs; quotes mean nothing
labelled words   ``4 text`` or ``DESC:manner text``: the label is the first word, a number or an upper-case word with a
                 colon in it (SST, TREC)
labelled csv     ``"3","title","text"`` without a header: a number, then one text or two, which are read as one
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from ensue.data.delimited import Delimited
from ensue.data.encodings import is_table
from ensue.data.files import Content
from ensue.data.markup import strip_markup
from ensue.data.posts.formats import export_of, json_originals, read_export, read_post_rows
from ensue.data.posts.platforms import is_json, objects
from ensue.data.schema import Found, Roles, plain_name, require_columns, require_roles, split_words
from ensue.data.table import Table, by_role, json_lines, read_delimited, read_objects, read_table, sample_objects
from ensue.data.texts.exports import LabelFields, flattened
from ensue.errors import DataError, SettingError
from ensue.lines import listed, plural, quoted
from ensue.records import Text

_TREE = re.compile(r"\s*\([^\s()]+ +(\(|[^()]+\)\s*$)")
_PIECES = re.compile(r"[()]|[^\s()]+")


def phrases_of(line: str, where: str) -> list[tuple[str, str]]:
    """(text, label) of every phrase of a tree, the whole sentence first.

    Raises:
        DataError: parentheses that do not match, or a phrase without a label or without words.
    """
    pieces = _PIECES.findall(line)
    words: list[str] = []
    spans: list[tuple[str, int]] = []
    ends: dict[int, int] = {}
    unclosed: list[int] = []
    for previous, piece in zip(["", *pieces], pieces, strict=False):
        if piece == "(":
            if previous == "(" or (spans and not unclosed):
                raise DataError(
                    f"{where}: {'a phrase has no label' if unclosed else 'two trees'}; write one tree per line"
                )
            unclosed.append(len(spans))
            spans.append(("", len(words)))
        elif not unclosed:
            raise DataError(f"{where}: {quoted(piece)} is outside the tree; is there one parenthesis too many?")
        elif piece == ")":
            phrase = unclosed.pop()
            if spans[phrase][1] == len(words) or previous == "(":
                raise DataError(f"{where}: a phrase has no words; write (label word) or (label (…) (…))")
            ends[phrase] = len(words)
        elif previous == "(":
            spans[-1] = (piece, len(words))
        else:
            words.append(piece.replace("\\/", "/").replace("\\*", "*"))
    if unclosed or not spans:
        raise DataError(f"{where}: a parenthesis is not closed; write one complete tree per line")
    return [(" ".join(words[start : ends[phrase]]), label) for phrase, (label, start) in enumerate(spans)]


_PAIRS = (
    *(("premise", "hypothesis"), ("sentencea", "sentenceb"), ("1string", "2string")),
    *((f"{word}1", f"{word}2") for word in ("sentence", "text", "question")),
)
_COLUMNS = Roles(
    known={
        "text": (
            *split_words("text review reviewtext reviewbody sentence content body document comment"),
            *("tweet", "question", "message", *(first for first, _ in _PAIRS), "description"),
        ),
        "second": (),
        "label": split_words(
            "goldlabel label stance entailmentjudgment entailmentlabel sentiment category class classindex stars",
            "rating polarity intent emotion target isduplicate quality",
        ),
        "id": ("id", "pairid", "textid", "reviewid", "uid"),
        "group": (
            *("group", "groupid", "movie", "movieid", "product", "productid", "businessid", "captionid", "promptid"),
        ),
        "part": (),
    },
    needed=("text",),
    doubted=("text", "label"),
    example="text=…,label=…",
    plain=plain_name,
)
ROLES = tuple(_COLUMNS.known)
_NAMES = {name for names in (*_COLUMNS.known.values(), *_PAIRS) for name in names}
_ADDED = ("label", "goldlabel")
"""Fields of objects of an export that are labels; platforms have none of these names."""
_IMDB = re.compile(r"(pos|neg|unsup)/\d+\t[^\t]*\t\d+\t")
_MARK = r"[-+]?\d+(?:\.\d+)?|[A-Z][A-Z_]*:\w+"
_WORDS = re.compile(rf"\s*({_MARK})(?: +(\S.*)?)?")
_CSV = re.compile(r'"?[-+]?\d+"?,"')
_PROBED = 50
"""Rows that are looked at for a header of unknown names."""
_CODERS = frozenset(("annotator", "codeur", "coder", "codierer", "expert", "judge", "kodierer", "rater", "worker"))
_NO_LABELS = frozenset(("comment", "comments", "confidence", "date", "id", "name", "note", "notes", "number", "time"))
"""Words in the names of columns that are about coders and hold no labels."""
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
    lists = {"fasttext": first.startswith("__label__"), "trees": bool(_TREE.match(first))}
    if phrases and not lists["trees"]:
        raise SettingError(f"{content.path}: only trees have labelled phrases; leave phrases out")
    for layout in (layout for layout, fits in lists.items() if fits):
        if stated:
            raise SettingError(f"{content.path}: the layout {layout} has no named columns; remove --columns")
        return _trees(content, phrases) if layout == "trees" else _fasttext(content)
    return _agreed(content, _table(content, first, stated, every), every)


def _table(content: Content, first: str, stated: Mapping[str, str], every: bool) -> Table:
    find = partial(_find, content, stated=stated, strict=not every)
    if content.parquet:
        return _parquet(content, find, strict=not every)
    export = export_of(content)
    if export is not None and (is_json(content) or not (stated or _names_text(content.names()))):
        return _export(content, export, stated)
    if first.startswith("{"):
        return _json(content, stated, strict=not every)
    separator = _separator(content, first, stated)
    if separator is None and _CSV.match(first):
        return _labelled_csv(content, stated)
    if separator is None and is_labelled(content.head()):
        return _labelled_words(content, stated)
    if separator is None and (content.header or ("\t" not in first and has_unknown_header(content))):
        find(content.names())  # says which columns there are
    if separator is None:
        return _headless(content, first, stated)
    delimited = Delimited.of(content, separator)
    return read_delimited(delimited, *find(delimited.names))


def _parquet(content: Content, find: Callable[[Sequence[str]], Found], *, strict: bool) -> Table:
    """Columns of Parquet; lists of one label are labels, as in JSON.

    Raises:
        DataError: a list of several labels.
    """
    schema = content.schema()
    columns, notes = find(list(schema))
    kind = schema[columns["label"]] if "label" in columns else None  # a column may have no name at all
    if not isinstance(kind, pl.List | pl.Array) or kind.inner.is_nested():
        return read_table(content, find)
    name, other_columns = columns["label"], {role: column for role, column in columns.items() if role != "label"}
    lists = content.table([name])[name].cast(pl.List(pl.String)).list.drop_nulls().list.unique(maintain_order=True)
    labels = LabelFields(strict=strict)
    for row in (lists.list.len() > 1).fill_null(False).arg_true():
        labels.one(name, lists[row].to_list(), content.place(row))
    table = read_table(content, lambda _: (other_columns, notes))
    single = pl.DataFrame({"label": lists.set(lists.list.len() > 1, None).list.first()})
    return replace(table, frame=table.frame.with_columns(single["label"]), columns=columns)


def _json(content: Content, stated: Mapping[str, str], *, strict: bool) -> Table:
    """JSON Lines, or what becomes such."""
    fields = LabelFields(_COLUMNS.known["label"], _COLUMNS.known["text"], strict, stated.get("label", ""))
    flat = flattened(content, fields)
    if flat is content and not stated and isinstance(sample_objects(content)[0].get("texts"), list):
        return _lists(content)
    if flat is not content and "part" in sample_objects(flat)[0]:
        stated = {"part": "part", **stated}
    table = read_table(flat, partial(_find, content, stated=stated, strict=strict))
    if flat is not content and len(flat.head(2)) == len(content.head(2)):
        table = replace(table, originals=partial(json_lines, content))
    return replace(table, layout="snli") if "gold_label" in table.columns.values() else table


def _export(content: Content, export: str, stated: Mapping[str, str]) -> Table:
    """Return the texts of an export of posts without their HTML, and their labels where a field is named so."""
    if stated:
        return read_post_rows(content, stated, _COLUMNS)
    records = read_export(content, export)
    texts, num_marked = strip_markup(records.frame["text"].fill_null("").str.strip_chars())
    notes = (f"{num_marked:,} of {plural(len(texts), 'text')} held HTML tags or entities: stripped to words",)
    added = [_label(post) for _, post in objects(content)] if is_json(content) else [None] * len(texts)
    labels = pl.Series("label", added, pl.String)
    columns = {role: role for role in ("text", "id")}
    frame = pl.DataFrame([texts.alias("text"), records.frame["id"]])
    if labels.null_count() < len(labels):
        frame, columns = frame.with_columns(labels), {**columns, "label": "label"}
    originals = partial(json_originals, content) if is_json(content) else Delimited.of(content).whole
    return Table(export, frame, records.where, columns, notes if num_marked else (), originals)


def _names_text(names: Sequence[str]) -> bool:
    return bool(set(map(plain_name, names)) & set(_COLUMNS.known["text"]))


def _label(post: Mapping[str, object]) -> str | None:
    """Return the label that somebody added to a post of an export."""
    values = (post[name] for name in post if plain_name(name) in _ADDED)
    return next((str(value) for value in values if isinstance(value, str | int | float)), None)


def _fasttext(content: Content) -> Table:
    """A line with several labels is refused: which one to learn is not for a reader to choose."""
    lines, numbers, notes = content.filled_lines()
    halves = lines.str.extract_groups(r"^\s*((?:__label__\S*(?:\s+|$))*)(.*)$").struct.unnest()
    counts = halves["1"].str.count_matches(r"__label__\S*")
    for row in (counts > 1).arg_true()[:1]:
        problem = f"{counts[row]} labels in one line; keep one"
        raise DataError(f"{content.path}, line {numbers[row]}: {problem}, as in __label__good a fine film")
    label = halves["1"].str.strip_chars().str.strip_prefix("__label__")
    frame = pl.DataFrame({"text": halves["2"], "label": label})
    return Table("fasttext", frame, lambda row: f"{content.path}, line {numbers[row]}", {}, notes)


def is_labelled(head: Sequence[str]) -> bool:
    """Return whether the first lines are ``label text``: a number or an upper-case word with a colon, few distinct.

    Of a list whose lines are numbered each has a number of its own.
    """
    marks = [matched[1].partition(":")[0] if (matched := _WORDS.fullmatch(line)) else None for line in head]
    silent = sum(matched is not None and not matched[2] for matched in map(_WORDS.fullmatch, head))
    return None not in marks and len(set(marks)) <= len(marks) / 2 and silent <= len(marks) / 2


def _labelled_words(content: Content, stated: Mapping[str, str]) -> Table:
    if stated:
        raise SettingError(f"{content.path}: the layout labelled words has no named columns; remove --columns")
    lines, numbers, notes = content.filled_lines()
    groups = lines.str.extract_groups(rf"^\s*({_MARK})(?:\s+(.*))?$").struct.unnest()
    for row in groups["1"].is_null().arg_true()[:1]:
        problem = f"{quoted(lines[row], 40)} has no label before its text"
        raise DataError(
            f"{content.path}, line {numbers[row]}: {problem}; the first lines look like {quoted(lines[0], 20)}"
        )
    frame = groups.rename({"1": "label", "2": "text"}).select("text", "label")
    note = "the label is the word before the first space of a line"
    return Table("labelled words", frame, lambda row: f"{content.path}, line {numbers[row]}", {}, (*notes, note))


def _labelled_csv(content: Content, stated: Mapping[str, str]) -> Table:
    """A number and one text, or a title and a text, which are one text unless columns are stated."""
    width = len(next(row for _, row in content.rows(",") if any(row)))
    if not 2 <= width <= 4:
        raise DataError(
            f"{content.path}, line 1: {plural(width, 'field')} without a header; give label,text or "
            "label,title,text, or a header whose names are known or stated with --columns text=…,label=…"
        )
    names = ("label", "text") if width == 2 else ("label", "title", "text", "more")[:width]
    require_columns(content.path, names, stated)
    delimited = Delimited(content, ",", given=names)
    if stated:
        table = read_delimited(delimited, {role: stated[role] for role in ROLES if role in stated}, ())
        return replace(table, layout="labelled csv")
    table = read_delimited(delimited, {name: name for name in names}, ())
    text = pl.concat_str([pl.col(name).fill_null("") for name in names[1:]], separator=" ").str.strip_chars()
    read = " and ".join(names[1:])
    note = f"no header: the columns are read as {', '.join(names)}"
    if width > 2:
        note = f"{note}; {read} are joined into one text; choose others with --columns label=label,text=text"
    frame = table.frame.select(text.alias("text"), "label")
    return replace(
        table,
        layout="labelled csv",
        frame=frame,
        columns={"text": " + ".join(names[1:]), "label": "label"},
        notes=(note,),
    )


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
            f"{content.path}, line {numbers[0]}: {quoted(first, 40)} does not match a known layout of texts; give "
            "label TAB text, NUMBER text, or a header whose names are known or stated with --columns text=…,label=…"
        )
    counts = lines.str.count_matches(between, literal=True) + 1
    for row in (counts != len(names)).arg_true()[:1]:
        shape = f" {between.replace(chr(9), 'TAB ')}".join(names)
        where = f"{content.path}, line {numbers[row]}"
        raise DataError(f"{where}: {plural(counts[row], 'field')}, but the file begins with {len(names)}: {shape}")
    frame = lines.str.splitn(between, len(names)).struct.rename_fields(names).struct.unnest()
    if layout == "labelled lines" and num_fields == 2 and not stated:
        _require_label_first(content, frame, f"line {numbers[0]}")
    if layout == "imdb":
        frame = frame.with_columns(polarity=pl.col("id").str.split("/").list.first())
    require_columns(content.path, frame.columns, stated)
    columns = {role: {**roles, **stated}[role] for role in ROLES if role in {**roles, **stated}}
    return Table(layout, by_role(frame, columns), lambda row: f"{content.path}, line {numbers[row]}", columns, notes)


def _require_label_first(content: Content, frame: pl.DataFrame, line: str) -> None:
    """Refuse ``text TAB label``: most first fields are of several words, most second ones of one.

    Raises:
        DataError: naming the option that numbers the columns.
    """
    share = frame.head(_PROBED).select(pl.all().str.strip_chars().str.contains(r"\s").mean())
    if len(frame) > 1 and (share["label"][0] or 0) > 0.5 > (share["text"][0] or 0):
        raise DataError(
            f"{content.path}, {line}: {quoted(frame['label'][0], 40)} looks like a text and "
            f"{quoted(frame['text'][0], 40)} like its label; give label TAB text, or number the columns with --columns "
            "text=1,label=2"
        )


def _trees(content: Content, phrases: bool) -> Table:
    """Read whole sentences, or every phrase once for each of its labels, in the group of its first sentence."""
    rows: list[tuple[str, str, str]] = []
    for number, line in content.filled():
        spans = phrases_of(line, f"{content.path}, line {number}")
        rows += [(text, label, str(number)) for text, label in (spans if phrases else spans[:1])]
    table = pl.DataFrame(rows, schema=dict.fromkeys(("text", "label", "group"), pl.String), orient="row")
    frame = table.unique(["text", "label"], keep="first", maintain_order=True) if phrases else table
    repeated = len(table) - len(frame)
    repeats = f"{plural(len(table), 'phrase')}; left out as copies with the same label: {repeated:,}"
    result = frame if phrases else frame.drop("group")
    return Table("trees", result, lambda row: f"{content.path}, line {frame['group'][row]}", {}, (repeats,) * phrases)


def _separator(content: Content, first: str, stated: Mapping[str, str]) -> str | None:
    """Return the separator of a header, or ``None`` where the line is none."""
    for separator in ("\t",) if "\t" in first else (",", ";", "|"):
        names = content.names(separator)
        plain = set(map(plain_name, names))
        # One known word between tabs may be a label: "question TAB What is it ?".
        may_be_header = separator != "\t" or len(names) > 3 or len(plain & _NAMES) > 1
        if stated:
            if set(stated.values()) <= set(names):
                return separator
        elif content.trained.columns.get("text") in names or (may_be_header and plain & set(_COLUMNS.known["text"])):
            return separator
    return None


def has_unknown_header(content: Content) -> bool:
    """Return whether a text is a table between commas, semicolons or bars, whatever the names in its first line.

    Names of columns differ, hold something, do not begin or end with a space as words after a comma do, and end in no
    full stop; and the first lines all have as many fields as there are names.
    """
    with suppress(DataError):
        return any(is_table(row for _, row in content.rows(separator)) for separator in (",", ";", "|"))
    return False


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
    texts = {role: frame["texts"].list.get(index) for index, role in enumerate(sides)}
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
    note = f"{plural(int(unsure.sum()), 'row')} left out: label '-', fewer than two of three annotators agreed"
    return replace(table.select(~unsure), notes=(*table.notes, note))


def _require_one_coder(path: Path, names: Sequence[str], columns: Mapping[str, str]) -> None:
    """Refuse a coding sheet with a column for each coder, where it is not stated whose labels are meant.

    Args:
        path: the file.
        names: its columns.
        columns: role -> column.

    Raises:
        DataError: naming the columns.
    """
    stems = {name: _coder_stem(name) for name in names}
    label = plain_name(columns.get("label", ""))
    coders = [name for name, stem in stems.items() if stem is not None]
    if label and columns["label"] not in coders:
        coders = [columns["label"], *(name for name in coders if stems[name] == label)]
    if len(coders) > 1:
        raise DataError(
            f"{path}: the columns {listed(coders)} may all hold labels, one column per coder; choose one with "
            f"--columns label={coders[0]}"
        )


def _coder_stem(name: str) -> str | None:
    """Return what is in front of the number or letter of a coder's column of labels; ``None`` of other columns."""
    words = re.findall(r"[^\W\d_]+|\d+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    if not words or set(words) & _NO_LABELS:
        return None
    stem = "".join(words[:-1])
    if set(words) & _CODERS and len(words) > 1:
        return stem
    return stem if stem in _COLUMNS.known["label"] and (words[-1].isdigit() or words[-1] in "abcdef") else None


def _find(content: Content, names: Sequence[str], stated: Mapping[str, str], strict: bool = False) -> Found:
    """Return the columns that :meth:`Roles.find` detects; two texts with paired names are a pair unless one is stated.

    Args:
        content: the file.
        names: its columns.
        stated: role -> column.
        strict: whether labels are read, and columns of several coders are refused.

    Raises:
        DataError: a column that is missing, no column for the text, or a column of labels for each coder.
        SettingError: one column in two roles.
    """
    plain = {plain_name(name): name for name in reversed(names)}
    pair = next(((plain[a], plain[b]) for a, b in _PAIRS if a in plain and b in plain), None)
    find = partial(_COLUMNS.find, content.path, names, stated, plain.values(), content.trained)
    usual = {**content.trained.present(names, stated), **stated}
    alone = pair is None or {"text", "second"} & usual.keys() or set(pair) & set(usual.values())
    columns_found = find() if alone or pair is None else find(text=pair[0], second=pair[1])
    if strict and "label" not in usual:
        _require_one_coder(content.path, names, columns_found[0])
    return columns_found
