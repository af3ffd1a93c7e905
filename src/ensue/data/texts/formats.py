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
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import polars as pl

from ensue.data.delimited import Delimited
from ensue.data.encodings import is_table, parsed_json
from ensue.data.files import Content
from ensue.data.histories import Index
from ensue.data.layouts import Layout, recognise
from ensue.data.markup import strip_markup
from ensue.data.posts.formats import export_of, json_originals, read_export, read_post_rows
from ensue.data.posts.platforms import is_json, objects
from ensue.data.schema import FoundColumns, Roles, name_table, plain_name, require_columns, require_roles
from ensue.data.table import (
    Table,
    by_role,
    json_lines,
    names_of,
    read_delimited,
    read_object,
    read_objects,
    read_table,
    sample_objects,
)
from ensue.data.texts.exports import LabelFields, flattened
from ensue.data.texts.label_sets import UNIT, binary_columns, from_binary
from ensue.errors import DataError, SettingError
from ensue.lines import listed, plural, quoted
from ensue.records import Text

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
    # A label is the word right behind an opening parenthesis, so each piece is read with the one before it.
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
            # The Penn Treebank writes slashes and stars of a text with a backslash.
            words.append(piece.replace("\\/", "/").replace("\\*", "*"))
    if unclosed or not spans:
        raise DataError(f"{where}: a parenthesis is not closed; write one complete tree per line")
    # A phrase is the words between its opening and its closing parenthesis: words[start:end].
    return [(" ".join(words[start : ends[phrase]]), label) for phrase, (label, start) in enumerate(spans)]


_PAIRS = (
    *(("premise", "hypothesis"), ("sentencea", "sentenceb"), ("1string", "2string")),
    *((f"{word}1", f"{word}2") for word in ("sentence", "text", "question")),
)
_COLUMNS = Roles(
    known=name_table("""
        text: text fulltext review reviewtext reviewbody sentence content body document comment commenttext commentbody
            tweet tweettext tweetcontent posttext messagetext question message utterance selftext premise sentencea
            1string sentence1 text1 question1 description
        second:
        label: goldlabel label stance entailmentjudgment entailmentlabel sentiment category class classindex stars
            rating polarity intent emotion target isduplicate quality
        labels: labels tags topics genres categories emotions
        id: id pairid textid reviewid uid
        group: group groupid movie movieid product productid businessid captionid promptid
        part:
    """),
    needed=("text",),
    doubted=("text", "label"),
    example="text=…,label=…",
    plain=plain_name,
)
ROLES = tuple(_COLUMNS.known)
_NAMES = {name for names in (*_COLUMNS.known.values(), *_PAIRS) for name in names}
_EXPORTED = {"fulltext", "commenttext", "selftext"}
"""Names of texts that exports of platforms have, too; those have readers of their own."""
_ADDED = ("label", "goldlabel")
"""Fields of objects of an export that are labels; platforms have none of these names."""
# A number, or a class of TREC such as DESC:manner.
_MARK = r"[-+]?\d+(?:\.\d+)?|[A-Z][A-Z_]*:\w+"
_WORDS = re.compile(rf"\s*({_MARK})(?: +(\S.*)?)?")
_PROBED = 50
"""Rows that are looked at for a header of unknown names."""
_CODERS = frozenset(("annotator", "codeur", "coder", "codierer", "expert", "judge", "kodierer", "rater", "worker"))
_NO_LABELS = frozenset(("comment", "comments", "confidence", "date", "id", "name", "note", "notes", "number", "time"))
"""Words in the names of columns that are about coders and hold no labels."""


@dataclass(frozen=True)
class _Request:
    """A file, and how it is to be read."""

    content: Content
    stated_columns: Mapping[str, str]
    phrases: bool
    keep_all: bool

    @cached_property
    def first(self) -> str:
        """The first line, without spaces before it."""
        return "" if self.content.parquet else self.content.head(1)[0].lstrip(" ")

    @property
    def has_unknown_header(self) -> bool:
        """True of a table whose first line names columns, none of which is one of texts."""
        return bool(self.content.header) or ("\t" not in self.first and has_unknown_header(self.content))

    @cached_property
    def export(self) -> str | None:
        """The layout of an export of posts; ``None`` of another file, and of a table whose columns name texts."""
        export = export_of(self.content)
        if export is None or is_json(self.content):
            return export
        is_named = set(map(plain_name, self.content.names())) & set(_COLUMNS.known["text"]) - _EXPORTED
        return None if self.stated_columns or is_named else export

    @cached_property
    def separator(self) -> str | None:
        """The separator of a header; ``None`` where the first line is none."""
        for separator in ("\t",) if "\t" in self.first else (",", ";", "|"):
            names = self.content.names(separator)
            plain = set(map(plain_name, names))
            # One known word between tabs may be a label: "question TAB What is it ?".
            may_be_header = separator != "\t" or len(names) > 3 or len(plain & _NAMES) > 1
            if self.stated_columns:
                if set(self.stated_columns.values()) <= set(names):
                    return separator
            elif self.content.trained.columns.get("text") in names or (
                may_be_header and plain & set(_COLUMNS.known["text"])
            ):
                return separator
        return None

    def find(self, names: Sequence[str]) -> FoundColumns:
        """Return the columns that :meth:`Roles.find` detects; texts with paired names are a pair unless one is stated.

        Raises:
            DataError: a column that is missing, no column for the text, or a column of labels for each coder.
            SettingError: one column in two roles.
        """
        content = self.content
        stated_columns = self.stated_columns
        plain = {plain_name(name): name for name in reversed(names)}
        pair = next(((plain[a], plain[b]) for a, b in _PAIRS if a in plain and b in plain), None)
        find = partial(_COLUMNS.find, content.path, names, stated_columns, plain.values(), content.trained)
        usual = {**content.trained.present(names, stated_columns), **stated_columns}
        # A column that is stated, or known from the training data, is no half of a pair.
        alone = pair is None or {"text", "second"} & usual.keys() or set(pair) & set(usual.values())
        columns, notes = find() if alone or pair is None else find(text=pair[0], second=pair[1])
        if not self.keep_all and "label" not in usual:
            _require_one_coder(content.path, names, columns)
        return columns, notes

    def table(
        self, layout: str, frame: pl.DataFrame, numbers: Index | pl.Series, columns: dict[str, str], *notes: str
    ) -> Table:
        """Return rows that were read from lines with some numbers."""
        return Table(layout, frame, lambda row: f"{self.content.path}, line {numbers[row]}", columns, notes)


_Reader = Callable[[_Request], Table]


def read_rows(content: Content, stated_columns: Mapping[str, str], phrases: bool, *, keep_all: bool = False) -> Table:
    """The rows of a file, whatever its layout.

    Args:
        content: the file.
        stated_columns: role -> column.
        phrases: of trees, whether to read every labelled phrase.
        keep_all: whether to keep the rows of tables that hold nothing, and those on whose label no one agreed.

    Raises:
        DataError: no layout known here, or a line that does not fit it.
        SettingError: an unknown role, or roles and phrases where the layout has none.
    """
    require_roles(stated_columns, ROLES)
    request = _Request(content, stated_columns, phrases, keep_all)
    layout = recognise(LAYOUTS, request)
    if phrases and (layout is None or layout.name != "trees"):
        raise SettingError(f"{content.path}: only trees have labelled phrases; leave phrases out")
    if layout is None:
        number, _ = next(content.filled())
        raise DataError(
            f"{content.path}, line {number}: {quoted(request.first, 40)} does not match a known layout of texts; give "
            "label TAB text, NUMBER text, or a header whose names are known or stated with --columns text=…,label=…"
        )
    layout.require_columns(content, stated_columns)
    return _agreed(content, layout.read(request), keep_all)


def _table(request: _Request) -> Table:
    delimited = Delimited.of(request.content, request.separator)
    columns, notes = request.find(delimited.names)
    table = read_delimited(delimited, columns, notes)
    return _with_binary_labels(request, table, request.content)


def _flat_table(request: _Request, content: Content) -> Table:
    """Return the table of Parquet or of objects; lists of labels are texts of JSON."""
    table = read_table(content, request.find, may_be_list=lambda role: role in ("label", "labels"))
    return _with_binary_labels(request, table, content)


def _with_binary_labels(request: _Request, table: Table, content: Content) -> Table:
    """Return a table that has no column of labels with those of its columns of 0 and 1, if it has such."""
    if request.keep_all or {"label", "labels"} & table.columns.keys() or table.originals is None:
        return table
    if content.json:
        frame = read_objects(content, dict.fromkeys(names_of(sample_objects(content)), pl.String), read_object)
    else:
        frame = table.originals()
    frame = frame.drop(table.columns.values())
    names = binary_columns(frame)
    if not names:
        return table
    if others := [name for name in frame.columns if plain_name(name) and name not in names]:
        note = f"the columns {listed(names)} hold 0 and 1; if they are labels, leave {listed(others)} out of the file"
        return replace(table, notes=(*table.notes, note))
    note = f"labels are the columns with 0 and 1: {listed(names)}"
    labels = from_binary(frame.select(names))
    return replace(table, frame=table.frame.with_columns(labels), notes=(*table.notes, note))


def _json(request: _Request) -> Table:
    """JSON Lines, or what becomes such."""
    content = request.content
    stated_columns = request.stated_columns
    fields = LabelFields(
        (*_COLUMNS.known["label"], *_COLUMNS.known["labels"]),
        _COLUMNS.known["text"],
        not request.keep_all,
        stated_columns.get("label") or stated_columns.get("labels", ""),
    )
    lines = content.head(2)
    # A document of one object may hold its texts, and their labels, as columns.
    if (
        not stated_columns
        and len(lines) == 2
        and parsed_json(lines[0]) is not None
        and _is_text(sample_objects(content)[0])
    ):
        return _lists(content)
    flat = flattened(content, fields)
    if flat is content and not stated_columns and _is_text(sample_objects(content)[0]):
        return _lists(content)
    # Documents of several lists name the list of each record in this field.
    if flat is not content and "part" in sample_objects(flat)[0]:
        request = replace(request, stated_columns={"part": "part", **stated_columns})
    table = _flat_table(request, flat)
    # Where a line is one object, it is an original, too; a document's lines are not those of the file.
    if flat is not content and len(flat.head(2)) == len(content.head(2)):
        table = replace(table, originals=partial(json_lines, content))
    return replace(table, layout="snli") if "gold_label" in table.columns.values() else table


def _is_text(fields: Mapping[str, object]) -> bool:
    """Return whether an object is a text or a pair as ``predict`` reads them."""
    return isinstance(fields.get("texts"), list)


def _export(request: _Request) -> Table:
    """Return the texts of an export of posts without their HTML, and their labels where a field is named so."""
    content = request.content
    if request.stated_columns:
        return read_post_rows(content, request.stated_columns, _COLUMNS)
    records = read_export(content, request.export or "")
    texts, num_marked = strip_markup(records.frame["text"].fill_null("").str.strip_chars())
    notes = (f"{num_marked:,} of {plural(len(texts), 'text')} held HTML tags or entities: stripped to words",)
    frame = pl.DataFrame([texts.alias("text"), records.frame["id"]])
    originals = Delimited.of(content).whole
    if is_json(content):
        labels = pl.Series("label", [_label(post) for _, post in objects(content)], pl.String)
        frame = frame.with_columns(labels) if labels.null_count() < len(labels) else frame
        originals = partial(json_originals, content)
    columns = {role: role for role in frame.columns}
    return Table(records.layout, frame, records.where, columns, notes if num_marked else (), originals)


def _label(post: Mapping[str, object]) -> str | None:
    """Return the label that somebody added to a post of an export."""
    values = (post[name] for name in post if plain_name(name) in _ADDED)
    return next((str(value) for value in values if isinstance(value, str | int | float)), None)


def _fasttext(request: _Request) -> Table:
    """Read ``__label__x text``, or several labels before the text."""
    content = request.content
    lines, numbers, notes = content.filled_lines()
    # All labels at the start of a line, and the text behind them.
    halves = lines.str.extract_groups(r"^\s*((?:__label__\S*(?:\s+|$))*)(.*)$").struct.unnest()
    label = halves["1"].str.extract_all(r"__label__\S*").list.eval(pl.element().str.strip_prefix("__label__"))
    label = label.list.join(UNIT)
    return request.table("fasttext", pl.DataFrame({"text": halves["2"], "label": label}), numbers, {}, *notes)


def is_labelled(head: Sequence[str]) -> bool:
    """Return whether the first lines are ``label text``: a number or an upper-case word with a colon, few distinct.

    Of a list whose lines are numbered each has a number of its own.
    """
    # The classes of TREC are coarse:fine; the coarse ones are few, the fine ones may all differ.
    marks = [matched[1].partition(":")[0] if (matched := _WORDS.fullmatch(line)) else None for line in head]
    num_empty = sum(matched is not None and not matched[2] for matched in map(_WORDS.fullmatch, head))
    return None not in marks and len(set(marks)) <= len(marks) / 2 and num_empty <= len(marks) / 2


def _labelled_words(request: _Request) -> Table:
    lines, numbers, notes = request.content.filled_lines()
    # The label, and all behind the space after it.
    frame = lines.str.extract_groups(rf"^\s*(?<label>{_MARK})(?:\s+(?<text>.*))?$").struct.unnest()
    for row in frame["label"].is_null().arg_true()[:1]:
        problem = f"{quoted(lines[row], 40)} has no label before its text"
        raise DataError(
            f"{request.content.path}, line {numbers[row]}: {problem}; the first lines look like {quoted(lines[0], 20)}"
        )
    note = "the label is the word before the first space of a line"
    return request.table("labelled words", frame.select("text", "label"), numbers, {}, *notes, note)


def _labelled_csv(request: _Request) -> Table:
    """A number and one text, or a title and a text, which are one text unless columns are stated_columns."""
    content = request.content
    stated_columns = request.stated_columns
    width = len(next(row for _, row in content.rows(",") if any(row)))
    if not 2 <= width <= 4:
        raise DataError(
            f"{content.path}, line 1: {plural(width, 'field')} without a header; give label,text or "
            "label,title,text, or a header whose names are known or stated with --columns text=…,label=…"
        )
    names = ("label", "text") if width == 2 else ("label", "title", "text", "more")[:width]
    require_columns(content.path, names, stated_columns)
    # Without roles every column is read under its own name, to be joined below.
    columns = {role: stated_columns[role] for role in ROLES if role in stated_columns} or {name: name for name in names}
    table = replace(read_delimited(Delimited(content, ",", header=names), columns, ()), layout="labelled csv")
    if stated_columns:
        return table
    texts = names[1:]
    note = f"no header: the columns are read as {', '.join(names)}"
    if width > 2:
        joined = " and ".join(texts)
        note = f"{note}; {joined} are joined into one text; choose others with --columns label=label,text=text"
    # An empty title leaves no space before its text.
    text = pl.concat_str(pl.col(texts).fill_null(""), separator=" ").str.strip_chars()
    frame = table.frame.select(text.alias("text"), "label")
    return replace(table, frame=frame, columns={"text": " + ".join(texts), "label": "label"}, notes=(note,))


def _fields(request: _Request, *, layout: str, names: str, between: str, roles: Mapping[str, str]) -> Table:
    """Read fields that no header names.

    Args:
        request: the file.
        layout: its layout.
        names: names of its fields; a field may have the name of its role.
        between: what stands between two fields.
        roles: role -> field, for the others.

    Raises:
        DataError: a line with another number of fields, or a stated field that is missing.
    """
    content = request.content
    fields = names.split()
    lines, numbers, notes = content.filled_lines()
    # Fields are one more than separators.
    counts = lines.str.count_matches(between, literal=True) + 1
    for row in (counts != len(fields)).arg_true()[:1]:
        shape = f" {between.replace(chr(9), 'TAB ')}".join(fields)
        problem = f"{plural(counts[row], 'field')}, but the file begins with {len(fields)}: {shape}"
        raise DataError(f"{content.path}, line {numbers[row]}: {problem}")
    frame = lines.str.splitn(between, len(fields)).struct.rename_fields(fields).struct.unnest()
    if fields == ["label", "text"] and not request.stated_columns:
        _require_label_first(content, frame, f"line {numbers[0]}")
    if layout == "imdb":  # "pos/17" is the 17th positive review
        frame = frame.with_columns(polarity=pl.col("id").str.split("/").list.first())
    require_columns(content.path, frame.columns, request.stated_columns)
    # A stated column comes before the layout's, which comes before the field with the name of a role.
    sources = {**{name: name for name in fields if name in ROLES}, **roles, **request.stated_columns}
    columns = {role: sources[role] for role in ROLES if role in sources}
    return request.table(layout, by_role(frame, columns), numbers, columns, *notes)


def _require_label_first(content: Content, frame: pl.DataFrame, line: str) -> None:
    """Refuse ``text TAB label``: most first fields are of several words, most second ones of one.

    Raises:
        DataError: naming the option that numbers the columns.
    """
    fractions = frame.head(_PROBED).select(pl.all().str.strip_chars().str.contains(r"\s").mean())
    # Labels of several words are rare, so more than half of them decide.
    if len(frame) > 1 and (fractions["label"][0] or 0) > 0.5 > (fractions["text"][0] or 0):
        raise DataError(
            f"{content.path}, {line}: {quoted(frame['label'][0], 40)} looks like a text and "
            f"{quoted(frame['text'][0], 40)} like its label; give label TAB text, or number the columns with --columns "
            "text=1,label=2"
        )


def _trees(request: _Request) -> Table:
    """Read whole sentences, or every phrase once for each of its labels, in the group of its first sentence."""
    rows = list[tuple[str, str, str]]()
    for number, line in request.content.filled():
        spans = phrases_of(line, f"{request.content.path}, line {number}")
        rows += [(text, label, str(number)) for text, label in (spans if request.phrases else spans[:1])]
    all_rows = pl.DataFrame(rows, schema=dict.fromkeys(("text", "label", "group"), pl.String), orient="row")
    if not request.phrases:
        return request.table("trees", all_rows.drop("group"), all_rows["group"], {})
    # The same phrase is in many sentences: counted once per label, it belongs to the line it was met in first.
    frame = all_rows.unique(["text", "label"], keep="first", maintain_order=True)
    num_repeated = len(all_rows) - len(frame)
    note = f"{plural(len(all_rows), 'phrase')}; left out as copies with the same label: {num_repeated:,}"
    return request.table("trees", frame, frame["group"], {}, note)


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
    lists = isinstance(sample_objects(content)[0].get("label"), list)
    kind = pl.List(pl.String) if lists else pl.String()
    frame = read_objects(content, {"texts": pl.List(pl.String), "label": kind, "id": pl.String()}, Text.from_json)
    if lists:
        # The separator at the end tells the empty set of labels from no label.
        frame = frame.with_columns(label=pl.col("label").list.join(UNIT) + UNIT)
    counts = frame["texts"].list.len().fill_null(0)
    # The first line decides whether texts are single or pairs.
    for row in ((counts < 1) | (counts > 2) | (counts != counts[0])).arg_true()[:1]:
        raise DataError(
            f"{content.place_of_line(row)}: {counts[row]} texts; give one text in every line, or two in every line"
        )
    sides = ("text", "second")[: counts[0]]
    texts = {role: frame["texts"].list.get(index) for index, role in enumerate(sides)}
    roles = [*sides, *(role for role in ("label", "id") if frame[role].null_count() < len(frame))]
    frame = frame.with_columns(**texts).select(roles)
    columns = {role: role for role in roles}
    return Table("jsonl texts", frame, content.place_of_line, columns, (), partial(json_lines, content))


def _agreed(content: Content, table: Table, keep_all: bool) -> Table:
    """The rows that hold anything, without pairs on whose label no one agreed; all of them if ``keep_all``."""
    table = table.filled(content.path, "text", every=keep_all)
    # Only SNLI and its like write '-' for no gold label; elsewhere it may be a label.
    if keep_all or plain_name(table.columns.get("label", "")) != "goldlabel":
        return table
    is_undecided = (table.frame["label"] == "-").fill_null(False)
    if is_undecided.all():
        raise DataError(f"{content.path}: has a header but no text")
    if not is_undecided.any():
        return table
    note = f"{plural(int(is_undecided.sum()), 'row')} left out: label '-', fewer than two of three annotators agreed"
    return replace(table.select(~is_undecided), notes=(*table.notes, note))


def _require_one_coder(path: Path, names: Sequence[str], columns: Mapping[str, str]) -> None:
    """Refuse a coding sheet with a column for each coder, where it is not stated_columns whose labels are meant.

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
    # label, label2, label3: the first coder's column has no number.
    if label and columns["label"] not in coders:
        coders = [columns["label"], *(name for name in coders if stems[name] == label)]
    if len(coders) > 1:
        raise DataError(
            f"{path}: the columns {listed(coders)} may all hold labels, one column per coder; choose one with "
            f"--columns label={coders[0]}"
        )


def _coder_stem(name: str) -> str | None:
    """Return what is in front of the number or letter of a coder's column of labels; ``None`` of other columns."""
    # Take coderA and coder_a apart into words and numbers.
    words = re.findall(r"[^\W\d_]+|\d+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    if not words or set(words) & _NO_LABELS:
        return None
    # Of label2 the stem is label; the number or letter at the end tells coders apart.
    stem = "".join(words[:-1])
    if set(words) & _CODERS and len(words) > 1:
        return stem
    return stem if stem in _COLUMNS.known["label"] and (words[-1].isdigit() or words[-1] in "abcdef") else None


def _begins(pattern: str) -> Callable[[_Request], bool]:
    """Return the shape of a file whose first line begins with a pattern."""
    return lambda request: re.match(pattern, request.first) is not None


def in_fields(name: str, shape: str, names: str, between: str = "\t", **roles: str) -> Layout[_Request, _Reader]:
    """Return a layout of fields that no header names; see :func:`_fields`."""
    return Layout(name, _begins(shape), partial(_fields, layout=name, names=names, between=between, roles=roles))


# fmt: off
LAYOUTS: tuple[Layout[_Request, _Reader], ...] = (
    Layout("fasttext", _begins("__label__"), _fasttext, has_columns=False),
    Layout("trees", _begins(r"\s*\([^\s()]+ +(\(|[^()]+\)\s*$)"), _trees, has_columns=False),
    Layout("parquet", lambda request: request.content.parquet, lambda request: _flat_table(request, request.content)),
    Layout("export", lambda request: request.export is not None, _export),
    Layout("json", _begins(r"\{"), _json),
    Layout("table", lambda request: request.separator is not None, _table),
    Layout("labelled csv", _begins(r'"?[-+]?\d+"?,"'), _labelled_csv),
    Layout("labelled words", lambda request: is_labelled(request.content.head()), _labelled_words, has_columns=False),
    # Its reader says which columns a table has that names no text.
    Layout("unknown table", lambda request: request.has_unknown_header, _table),
    in_fields("ss", r"[^\t]+\t\t[^\t]+\t\t[\d.]+\t\t", "user product rating text", "\t\t",
               label="rating", group="product"),
    in_fields("imdb", r"(pos|neg|unsup)/\d+\t[^\t]*\t\d+\t", "id movie rating text", label="polarity", group="movie"),
    in_fields("labelled lines", r"[^\t]*\t[^\t]*$", "label text"),
    in_fields("labelled lines", r"[^\t]*\t[^\t]*\t[^\t]*$", "label text second"),
)
# fmt: on
"""Of each file the first that fits; a text between tabs of another number of fields has no layout."""
