"""Detection of the kind of a file by its shape: sequences of events, labelled texts, queries, or posts and articles."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal, Unpack

from ensue.data.delimited import KINDS, Delimited, with_columns
from ensue.data.encodings import parsed_json
from ensue.data.file_bytes import Opening, ending, files_in, is_several
from ensue.data.files import Content, answering, open_file
from ensue.data.posts.corpus import is_corpus
from ensue.data.posts.documents import is_document, open_texts
from ensue.data.posts.formats import export_of
from ensue.data.posts.platforms import collector_of, holds_searches, is_json, objects
from ensue.data.queries.formats import are_queries, is_query_log, list_of_turns
from ensue.data.sequences.columns import ROLES as LOG_ROLES
from ensue.data.sequences.columns import find_columns
from ensue.data.sequences.formats import recognise
from ensue.data.sequences.prepared import is_prepared
from ensue.data.table import ReadOptions, Table, read_object
from ensue.data.texts.formats import ROLES as TEXT_ROLES
from ensue.data.texts.formats import has_unknown_header, is_labelled, read_rows
from ensue.data.texts.label_sets import binary_columns
from ensue.errors import DataError

Kind = Literal["sequences", "texts", "queries", "posts"]
_LOGS = (".csv", ".tsv", ".parquet", ".pq", ".inter", ".dat", ".log")
"""Endings of the files of a folder that are looked at first: other files beside them may be notes."""
_SAMPLES = 100
_NO_HEADER = ("fasttext", "trees", "ss", "imdb", "snli", "jsonl texts", "labelled csv")


def kind_of(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    phrases: bool = False,
    articles: bool = False,
    **opening: Unpack[Opening],
) -> Kind:
    """Return the kind of a file; a file that no reader knows is left to the reader of sequences.

    A table is a log of queries if it names a query, whose it is, and no label or item, or a conversation, a turn and a
    text; ready-made sessions are one if their header says so, and ``{"values": […]}`` whose values are phrases. Other
    such sessions, and those without a header, could be of anything and stay logs of events. A table is labelled texts
    if it has a text and a label, or a text and not what a log needs. The first line decides. A folder that holds a file
    of articles and one of posts, and what a collector exports, are ``posts``; else the first table of a folder decides.

    Args:
        path: the file.
        columns: stated roles; those of one reader alone decide.
        phrases: asked for, which only texts have.
        articles: named beside it, which only posts have.
        opening: see :class:`~ensue.data.file_bytes.Opening`.

    Raises:
        DataError: a missing, empty, truncated or binary file.
    """
    if articles:
        return "posts"
    with answering(path):
        return _kind_of(Path(path), set(columns or {}), phrases, opening)


def _kind_of(path: Path, stated: set[str], phrases: bool, opening: Opening) -> Kind:
    if is_corpus(path):
        return "posts"
    if is_prepared(path):
        return "sequences"
    if phrases or (stated & set(TEXT_ROLES)):
        return "texts"
    if "query" in stated:
        return "queries"
    # Of a folder the first table is looked at: notes and pictures may lie beside it.
    files = files_in(path) if is_several(path) else [path]
    first = next((file for file in files if ending(file) in _LOGS), files[0])
    content = with_columns(open_file(first, in_pieces=True, **opening), encoding=opening.get("encoding", ""))
    if stated & set(LOG_ROLES):  # logs of queries have sessions and times too
        return "queries" if "item" not in stated and _is_queries(content) else "sequences"
    return _kind_of_content(content) if first == path else _kind_of_file_in(path, content)


def _kind_of_content(content: Content) -> Kind:
    if content.published:
        return KINDS[content.published]
    return next((kind for kind, matches in _RECOGNISERS if matches(content)), "sequences")


def _is_texts(content: Content) -> bool:
    table = _as_texts(content)
    if table is None:
        is_text = not content.parquet and is_labelled(content.head()) and recognise(content) is None
        return is_text or _has_labels(content)
    if table.layout in _NO_HEADER:
        return True
    if table.layout == "labelled lines":
        return recognise(content) is None and not _is_log(content.head(1)[0].split("\t"))
    return "label" in table.columns or not _is_log(_names(content))


def _has_labels(content: Content) -> bool:
    """Return whether a table whose columns are none of a log has columns of 0 and 1, one per label."""
    if content.parquet or content.json or recognise(content) is not None or _is_log(content.names()):
        return False
    with suppress(DataError):
        return bool(binary_columns(Delimited.of(content).whole(num_rows=_SAMPLES)))
    return False


def _kind_of_file_in(path: Path, content: Content) -> Kind:
    """Return what the files of a folder or a pattern hold, by one of them."""
    if is_json(content):
        # Documents of any nesting become lines of their objects, as their reader sees them.
        samples = islice((json.dumps(post) for _, post in objects(content)), _SAMPLES)
        content = replace(content, data="\n".join(samples).encode("utf-8", "replace"), first_line=1)
    elif is_document(content) and recognise(content) is None and not _is_log(content.names()):
        return "texts" if content.path.parent != path and path.is_dir() else "posts"
    return _kind_of_content(content)


def is_articles(path: Path, columns: Mapping[str, str] | None = None, **opening: Unpack[Opening]) -> bool:
    """Return whether a file of posts or articles holds articles: its columns say so, or it is a list of Media Cloud's.

    Raises:
        DataError: a missing, empty, truncated or binary file.
    """
    if set(columns or {}) & {"body", "summary"}:
        return True
    with answering(path):
        if is_several(path):
            content = open_texts(path, ReadOptions(**opening))[0]
            return "title" in content.head(1)[0] if is_json(content) else _is_articles(content)
        return _is_articles(with_columns(open_file(path, **opening), encoding=opening.get("encoding", "")))


def _is_articles(content: Content) -> bool:
    try:
        collector = None if is_json(content) else collector_of(content.names())
        return collector is not None and collector.read
    except DataError:  # the reader that gets the file says what is wrong with it
        return False


def is_plain(path: str | Path, **opening: Unpack[Opening]) -> bool:
    """Return whether a file is one text per line: no Parquet, JSON, tab or header, and no layout of its first line.

    Raises:
        DataError: a missing, empty, truncated or binary file.
    """
    with answering(path):
        if is_several(Path(path)):
            return False
        content = open_file(Path(path), **opening)
        if content.parquet or content.json or "\t" in content.head(1)[0]:
            return False
        # A name that ends in .csv, or a first line that looks like names, says that there are columns.
        if ending(content.path) == ".csv" or has_unknown_header(content):
            return False
        return _as_texts(content) is None and not is_labelled(content.head())


def _is_queries(content: Content) -> bool:
    try:
        if content.json and (are_queries(content) or list_of_turns(content) or holds_searches(content)):
            return True
        return is_query_log("" if content.parquet else content.head(1)[0], _names(content))
    except DataError:  # the reader that gets the file says what is wrong with it
        return False


_RECOGNISERS: tuple[tuple[Kind, Callable[[Content], bool]], ...] = (
    ("posts", lambda content: export_of(content) is not None or _is_articles(content)),
    ("queries", _is_queries),
    ("texts", _is_texts),
)
"""The first that matches a file decides; what none matches is left to the reader of sequences."""


def _as_texts(content: Content) -> Table | None:
    """Read the first line as labelled texts: as it is, or as a header above one row."""
    has_names = content.parquet or content.header
    line = ",".join(re.sub(r'[",\n\r]', " ", name) for name in _names(content)) if has_names else content.head(1)[0]
    if not line.strip():
        return None
    row = re.sub(r"[^\t,;|]+", "x", line)  # a row of x below the names of a header
    is_document = content.json and parsed_json(line) is None
    for probe in (content.data[:].decode("utf-8", "replace"),) if is_document else (line, f"{line}\n{row}"):
        try:
            return read_rows(replace(content, data=probe.encode(), first_line=1), {}, phrases=False, keep_all=True)
        except DataError:
            continue
    return None


def _names(content: Content) -> list[str]:
    return list(read_object(content.head(1)[0], str(content.path))) if content.json else content.names()


def _is_log(names: list[str]) -> bool:
    try:
        find_columns(Path(), names, {})
    except DataError:
        return False
    return True
