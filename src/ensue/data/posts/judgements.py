"""Judgements of relevance in a file of their own (qrels): which query, here a post, is about which document.

===========  ================================================================================
trec         ``query 0 document relevance``, spaces or tabs between them
beir         ``query TAB document TAB relevance``, with a header (``query-id corpus-id score``)
table        CSV, TSV, Excel, Parquet or JSON Lines whose columns are named so, in any order
pairs        ``query TAB document``: each pair is relevant
===========  ================================================================================

Ids hold no spaces, but in tables with names. A relevance above 0 is a link; what is judged as 0 is none.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import polars as pl

from ensue.data.clock import is_number
from ensue.data.files import Content, answering, open_file
from ensue.data.histories import offsets_of
from ensue.data.ids import IdColumns
from ensue.data.packed import Opening
from ensue.data.posts.dataset import Posts
from ensue.data.roles import Roles, plain_name
from ensue.data.table import Table, names_of, read_table, sample_objects
from ensue.errors import DataError
from ensue.lines import part_of, plural, quoted

_WIDTHS = {2: (0, 1, None), 3: (0, 1, 2), 4: (0, 2, 3)}
"""Number of fields -> places of query, document and relevance."""
MIN_MATCHES = 0.1
"""Fraction of the smaller of two files of ids that must match; below it the files do not belong together."""
_COLUMNS = Roles(
    known={
        "query": ("queryid", "qid", "query", "topicid", "topic", "postid", "tweetid"),
        "document": (
            "corpusid",
            "docid",
            "docno",
            "documentid",
            "document",
            "did",
            "pid",
            "passageid",
            "articleid",
            "vclaimid",
        ),
        "relevance": ("score", "relevance", "rel", "relevant", "label", "judgement", "judgment", "grade"),
    },
    needed=("query", "document"),
    doubted=(),
    example="",
    plain=plain_name,
)
_SHAPES = "query 0 document relevance, or query TAB document TAB relevance"


def read_judgements(path: str | Path, **opening: Unpack[Opening]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Judgements as columns ``query``, ``document`` and ``relevant``, and notes.

    Args:
        path: the file.
        opening: ``encoding``, ``sheet``, ``max_unpacked`` and ``missing``.

    Raises:
        DataError: naming the file, the line and what to do.
    """
    with answering(path):
        content = open_file(Path(path), **opening)
        return _judgements(content, opening.get("missing", ""))


def judged(posts: Posts, judgements: pl.DataFrame, name: str, documents: pl.Series) -> tuple[Posts, tuple[str, ...]]:
    """Return the judged posts, each about the documents that are relevant to it, and notes about what does not match.

    A relevant document that ``documents`` lacks stays among those that a post is about.

    Args:
        posts: all posts, or queries.
        judgements: as :func:`read_judgements` returns them.
        name: file of the judgements, for messages.
        documents: (documents,) ids.

    Raises:
        DataError: few or none of the judged ids are ids of posts, or of documents.
    """
    queries = judgements["query"].unique(maintain_order=True)
    _require_matches(name, ("query", "queries"), queries, posts.ids, "query or post")
    table = pl.DataFrame({"query": posts.ids, "post": np.arange(len(posts))})
    matches = judgements.join(table, on="query", maintain_order="left")
    index = np.sort(matches["post"].unique().to_numpy())
    relevant = matches.filter(pl.col("relevant")).unique(["post", "document"], maintain_order=True)
    if len(relevant):
        _require_matches(
            name, ("document", "documents"), relevant["document"].unique(maintain_order=True), documents, "document"
        )
    notes = []
    if unjudged := len(posts) - len(index):
        notes.append(f"{part_of(unjudged, len(posts), 'post', 'is', 'are')} not judged: left out")
    if missing := len(queries) - len(index):
        example = queries.filter(~queries.is_in(posts.ids.implode()))[0]
        verb = "is" if missing == 1 else "are"
        notes.append(
            f"{missing:,} of {plural(len(queries), 'judged query', 'judged queries')} {verb} not among the queries, "
            f"such as {quoted(example)}: left out"
        )
    if absent := int((~relevant["document"].is_in(documents.implode())).sum()):
        example = relevant["document"].filter(~relevant["document"].is_in(documents.implode()))[0]
        judgement = part_of(absent, len(relevant), "relevant judgement", "names", "name")
        notes.append(
            f"{judgement} a document that is not among the documents, such as {quoted(example)}: never retrieved"
        )
    relevant = relevant.sort("post", maintain_order=True)
    counts = np.bincount(relevant["post"].to_numpy(), minlength=len(posts)).astype(np.int64)[index]
    return replace(posts.select(index), about=relevant["document"], offsets=offsets_of(counts)), tuple(notes)


def _require_matches(name: str, nouns: tuple[str, str], judged_ids: pl.Series, ids: pl.Series, owner: str) -> None:
    """Refuse ids of judgements of which few or none are ids of the file they belong to.

    Raises:
        DataError: with one id of each side that the other lacks.
    """
    is_match = judged_ids.is_in(ids.implode())
    matches = int(is_match.sum())
    if matches and matches >= MIN_MATCHES * min(len(judged_ids), len(ids)):
        return
    unmatched = judged_ids.filter(~is_match)[0]
    others = ids.filter(~ids.is_in(judged_ids.implode()))
    example = others[0] if len(others) else ids[0]
    count = f"{matches:,} of its {len(judged_ids):,} {nouns[1]} match" if matches else f"none of its {nouns[1]} matches"
    raise DataError(
        f"{name}: {count}: it judges {nouns[0]} {quoted(unmatched)}, and the id of a {owner} is {quoted(example)}; "
        "give the files that belong together, or name their columns of ids with --columns id=…,article_id=…"
    )


def _judgements(content: Content, missing: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    table = _by_name(content) or _by_width(content)
    ids = IdColumns({"query": "query", "document": "document"}, "judgement", missing)
    table = ids.normalise(table)
    notes = (*table.notes, *ids.notes, *ids.warnings)
    frame = table.frame
    for role in ("query", "document"):
        for row in (frame[role].fill_null("") == "").arg_true()[:1]:
            raise DataError(f"{table.where(row)}: has no {role}; leave such rows out with --missing drop")
    if not len(frame):
        raise DataError(f"{content.path}: holds no judgement; {'; '.join(ids.warnings) or 'it has only a header'}")
    if "relevance" not in frame.columns:
        return frame.with_columns(relevant=pl.lit(True)), (
            *notes,
            "the pairs have no relevance: each is a link",
        )
    relevance = frame["relevance"].cast(pl.Float64, strict=False)
    for row in relevance.is_null().arg_true()[:1]:
        raise DataError(f"{table.where(row)}: relevance {quoted(str(frame['relevance'][row]))} is not a number")
    return frame.select("query", "document", relevant=relevance > 0), notes


def _by_name(content: Content) -> Table | None:
    """Judgements of a table whose header names a query and a document; ``None`` of another file.

    A column without a name, as pandas writes the numbers of its rows, is passed over.
    """
    names = names_of(sample_objects(content)) if content.json else content.names()
    plain = set(map(plain_name, names))
    if not all(plain & {*_COLUMNS.known[role]} for role in ("query", "document")):
        if content.parquet or content.json:
            raise DataError(
                f"{content.path}: are not judgements; name columns query-id, corpus-id and score, or give lines of "
                f"{_SHAPES}"
            )
        return None
    table = read_table(content, partial(_COLUMNS.find, content.path, stated={}))
    return table.filled(content.path, "judgement")


def _by_width(content: Content) -> Table:
    """Judgements by the number of fields in a line, and a table's column of row numbers passed over."""
    lines, numbers, notes = content.filled_lines()
    words = lines.str.extract_all(r"\S+" if re.search(r"\s", lines[0].strip()) else r"[^\s,]+")
    width = len(words[0])
    if width not in _WIDTHS:
        raise DataError(f"{content.path}, line {numbers[0]}: {plural(width, 'field')}; expected {_SHAPES}")
    query, document, score = _WIDTHS[width]
    headed = score is not None and not is_number(words[0][score])
    words, numbers = words[int(headed) :], numbers[int(headed) :]
    if not len(words):
        raise DataError(f"{content.path}: has a header but no judgement")
    for row in (words.list.len() != width).arg_true()[:1]:
        found = plural(len(words[row]), "field")
        raise DataError(
            f"{content.path}, line {numbers[row]}: {found}, but the first line has {width}; ids hold no spaces"
        )
    if width == 4 and _counts_rows(words):
        query, document = 1, 2
        notes = (*notes, "the first field is a line number and is ignored")
    frame = pl.DataFrame({"query": words.list.get(query), "document": words.list.get(document)})
    if score is not None:
        frame = frame.with_columns(relevance=words.list.get(score))
    return Table("qrels", frame, lambda row: f"{content.path}, line {numbers[row]}", {}, notes)


def _counts_rows(words: pl.Series) -> bool:
    """Whether four fields are a row number, a query, a document and a relevance, and not TREC's with an iteration."""
    first, second = words.list.get(0), words.list.get(1)
    counts = pl.int_range(len(words), eager=True)
    numbered = any((first == (counts + begin).cast(pl.String)).all() for begin in (0, 1))
    return numbered and len(words) > 1 and second.n_unique() > 1
