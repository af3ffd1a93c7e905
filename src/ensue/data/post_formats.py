"""The rows of a file of posts or of articles: any table, JSON Lines, or what a collector writes (see ``post_json``).

Roles are found by the names of columns or stated; every other column stays in the file, to be written out again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import polars as pl

from ensue.data.clock import Where
from ensue.data.files import Content, answering
from ensue.data.post_fields import flat
from ensue.data.post_json import READERS, dig, layout_of, objects
from ensue.data.table import JSON
from ensue.data.text_formats import read_rows
from ensue.errors import DataError, SettingError
from ensue.lines import listed, plural, quoted

POST_ROLES: Mapping[str, tuple[str, ...]] = {
    "text": (
        *("text", "fulltext", "body", "tweet", "tweettext", "posttext", "message", "content", "comment", "caption"),
        *("status", "selftext", "post", "description"),
    ),
    "id": ("id", "idstr", "postid", "tweetid", "itemid", "messageid", "commentid", "statusid", "uri"),
    "title": ("title", "subject", "headline"),
    "about": ("about", "articles", "article", "articleids", "articleid", "stories", "storyid", "storiesid"),
    "part": ("split", "part", "fold"),
}
ARTICLE_ROLES: Mapping[str, tuple[str, ...]] = {
    "body": (
        "body",
        "text",
        "fulltext",
        "content",
        "articletext",
        "articlebody",
        "maintext",
        "storytext",
        "paragraphs",
    ),
    "id": ("id", "articleid", "storiesid", "storyid", "guid", "url", "link"),
    "title": ("title", "headline", "storytitle", "articletitle"),
    "summary": ("summary", "claim", "claimreviewed", "lead", "standfirst", "abstract", "teaser", "subtitle"),
}
# The reader of texts takes a table apart; these of its roles hold our columns meanwhile.
_LENT = ("text", "second", "id", "group", "label")
# Columns that no table but a collector's has together. A thread and an author alone would be a cascade's.
_COLLECTORS: Mapping[str, tuple[set[str], ...]] = {
    "4cat": ({"id", "threadid", "body", "timestamp"},),
    "twarc csv": ({"id", "conversationid", "authorid", "createdat", "text"}, {"tweeturl", "userscreenname", "text"}),
    "bluesky csv": ({"uri", "cid", "text"}, {"uri", "userhandle", "text"}),
    "zeeschuimer csv": ({"itemid", "sourceplatform", "navindex"},),
    "media cloud": ({"storiesid", "title", "url"}, {"title", "url", "publishdate"}),
}
_SAMPLES = 100


@dataclass(frozen=True)
class PostRows:
    """What a file holds, before texts are cleaned."""

    layout: str
    frame: pl.DataFrame
    """A column of texts a role; ``about`` holds lists of ids. Anything may be null."""
    where: Where
    columns: dict[str, str]
    notes: tuple[str, ...]
    byte_order_mark: bool
    originals: Callable[[], pl.DataFrame]
    """Reads all columns of the same rows anew; of JSON the objects, a line each in a column ``json``."""
    flat: Callable[[], pl.DataFrame] | None = None
    """Of JSON: reads the fields of the same objects anew, as columns."""


def collector_of(names: Sequence[str]) -> str | None:
    """The collector that writes a table with these columns, or ``None``."""
    plain = set(map(_plain, names))
    return next((name for name, known in _COLLECTORS.items() if any(plain >= columns for columns in known)), None)


def read_post_rows(
    content: Content, stated: Mapping[str, str], known: Mapping[str, tuple[str, ...]], *, every: bool = False
) -> PostRows:
    """The rows of a file by roles.

    Args:
        content: the file.
        stated: role -> column.
        known: role -> the names that speak for themselves, ``POST_ROLES`` or ``ARTICLE_ROLES``.
        every: whether to keep empty rows too.

    Raises:
        DataError: a column that is missing, none for the text, or a line that does not fit.
        SettingError: an unknown role, or one column in two roles.
    """
    for role in stated:
        if role not in known:
            raise SettingError(f"columns: role {role!r} is not known; the roles are {', '.join(known)}")
    if len(set(stated.values())) < len(stated):
        raise SettingError(f"columns: {', '.join(stated.values())} names one column twice; give each role its own")
    if not content.parquet and content.head(1)[0].lstrip()[:1] in ("{", "["):
        return _json(content, stated, known)
    return _table(content, stated, known, every)


def _table(content: Content, stated: Mapping[str, str], known: Mapping[str, tuple[str, ...]], every: bool) -> PostRows:
    if not content.parquet and len(content.head(2)) < 2:
        raise DataError(f"{content.path}: has one line, a header at best; give a header and a row for each text")
    names = content.names()
    roles, notes = find_roles(content, names, stated, known)
    if content.parquet and any(content.schema()[name].is_nested() for name in roles.values()):
        return _nested_parquet(content, roles, notes)
    lent = dict(zip(roles, _LENT, strict=False))
    rows = read_rows(content, {lent[role]: name for role, name in roles.items()}, phrases=False, every=every)
    frame = rows.frame.select(rows.frame[lent[role]].alias(role) for role in roles)
    if "about" in roles:
        frame = frame.with_columns(_ids("about"))

    def originals() -> pl.DataFrame:
        with answering(content.path):
            found = _all_columns(content, roles, rows.frame)
        return found if every else found.filter(~pl.all_horizontal(pl.col(list(rows.columns.values())).is_null()))

    layout = collector_of(names) or rows.layout
    skipped = tuple(note for note in rows.notes if "empty row" in note)
    every_note = (*content.notes, *notes, *skipped)
    return PostRows(layout, frame, rows.where, roles, every_note, content.byte_order_mark, originals)


def _ids(name: str) -> pl.Expr:
    """Ids with spaces, ``|`` or ``;`` between them as lists."""
    return pl.col(name).str.extract_all(r"[^\s|;]+")


def _all_columns(content: Content, roles: Mapping[str, str], kept: pl.DataFrame) -> pl.DataFrame:
    """All columns of a table; whether quotes mean anything in it shows in the number of rows they give."""
    if content.parquet:
        return content.table()
    found = pl.DataFrame()
    for quote in ('"', None):
        try:
            found = pl.read_csv(
                content.source,
                separator=content.separator,
                quote_char=quote,
                infer_schema=False,
                truncate_ragged_lines=True,
            )
        except pl.exceptions.PolarsError:
            continue
        empty = pl.all_horizontal(pl.col(list(roles.values())).is_null())
        filled = found if len(found) == len(kept) else found.filter(~empty)
        if len(filled) == len(kept) and filled[roles[next(iter(roles))]].equals(kept.to_series(), check_names=False):
            break
    return found


def _nested_parquet(content: Content, roles: dict[str, str], notes: tuple[str, ...]) -> PostRows:
    """A table some of whose columns are lists: paragraphs, or ids of articles."""
    raw = content.table(roles.values())
    columns = {}
    for role, name in roles.items():
        column, nested = raw[name], isinstance(raw.schema[name], pl.List)
        if raw.schema[name] == pl.Binary or (raw.schema[name].is_nested() and not nested):
            raise DataError(
                f"{content.path}: column {quoted(name)} ({role}) holds {raw.schema[name]}; give texts or lists"
            )
        strings = column.cast(pl.List(pl.String) if nested else pl.String)
        columns[role] = strings.list.join("\n") if nested and role != "about" else strings
    frame = pl.DataFrame(columns)
    if "about" in frame.columns and frame.schema["about"] == pl.String:
        frame = frame.with_columns(_ids("about"))
    return PostRows(
        content.layout,
        frame,
        content.place,
        roles,
        (*content.notes, *notes),
        content.byte_order_mark,
        content.table,
    )


def _json(content: Content, stated: Mapping[str, str], known: Mapping[str, tuple[str, ...]]) -> PostRows:
    samples = [found for _, found in islice(objects(content), _SAMPLES)]
    if not samples:
        raise DataError(f"{content.path}: holds no post; is the list empty?")
    layout = Counter(map(layout_of, samples)).most_common(1)[0][0] if "text" in known and not stated else "jsonl"
    roles, notes = dict[str, str](), tuple[str, ...]()
    if layout == "jsonl":
        names = list(dict.fromkeys(name for sample in samples for name in sample))
        paths = [path for path in stated.values() if any(dig(sample, path) is not None for sample in samples)]
        roles, notes = find_roles(content, [*names, *(path for path in paths if path not in names)], stated, known)
    rows: dict[str, list[object]] = {role: [] for role in roles or ("text", "id")}
    numbers, other = [], 0
    for number, found in objects(content):
        numbers.append(number)
        if layout == "jsonl":
            for role, path in roles.items():
                rows[role].append(_value(found[path] if path in found else dig(found, path), role))
            continue
        own = layout_of(found)
        other += own != layout
        text, name = READERS.get(own, READERS[layout])(found)
        rows["text"].append(text)
        rows["id"].append(name)
    if other:
        notes = (*notes, f"{plural(other, 'object')} of another shape than {layout}: what text is there is read")
    schema = {role: pl.List(pl.String) if role == "about" else pl.String for role in rows}
    frame = pl.DataFrame(rows, schema=schema, strict=False)
    return PostRows(
        layout,
        frame,
        lambda row: f"{content.path}:{numbers[row]}",
        roles,
        (*content.notes, *notes),
        content.byte_order_mark,
        lambda: _json_originals(content),
        lambda: flat(found for _, found in objects(content)),
    )


def _json_originals(content: Content) -> pl.DataFrame:
    plain = (
        {name: value for name, value in found.items() if name not in ("__includes", "__users")}
        for _, found in objects(content)
    )
    return pl.DataFrame({JSON: [json.dumps(found, ensure_ascii=False) for found in plain]})


def _value(value: object, role: str) -> object:
    """A text, or the list of ids that a post is about; paragraphs become one text, numbers texts."""
    if role == "about":
        given = value if isinstance(value, list) else [] if value is None else [value]
        return [text for item in given if (text := _text(item))]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return _text(value)


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    # Half a character, as cut emoji leave, has no place in UTF-8.
    return str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def find_roles(
    content: Content, names: Sequence[str], stated: Mapping[str, str], known: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The column of each role, and a note wherever two columns would have fitted the text.

    Raises:
        DataError: a stated column that is missing, or no column for the text (of articles, for body and title).
    """
    for role, name in stated.items():
        if name not in names:
            raise DataError(
                f"{content.path}: column {quoted(name)} ({role}) is missing; the columns are {listed(names)}"
            )
    found, notes = dict(stated), []
    for role, words in known.items():
        fitting = [name for word in words for name in names if _plain(name) == word and name not in found.values()]
        if role not in found and fitting:
            found[role] = fitting.pop(0)
            if role in ("text", "body") and fitting:
                notes.append(
                    f"{role} is {quoted(found[role])}; {quoted(fitting[0])} would fit too, choose with --columns"
                )
    main = next(iter(known))
    if main not in found and "title" not in found:
        raise DataError(
            f"{content.path}: no column is known as the {main}; the columns are {listed(names)}; name them with "
            f"--columns {main}=…,id=…"
        )
    return {role: found[role] for role in known if role in found}, tuple(notes)


def _plain(name: str) -> str:
    """``Stories_ID`` and ``storiesId`` alike."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
