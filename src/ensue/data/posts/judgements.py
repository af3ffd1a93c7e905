"""Judgements of relevance in a file of their own (qrels): which query, here a post, is about which document.

===========  ================================================================================
trec         ``query 0 document relevance``, spaces or tabs between them
beir         ``query TAB document TAB relevance``, with a header (``query-id corpus-id score``)
pairs        ``query TAB document``: each pair is relevant
===========  ================================================================================

Ids hold no spaces. A relevance above 0 is a link; what is judged as 0 is none.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np
import polars as pl

from ensue.data.clock import is_number
from ensue.data.files import Content, answering, open_file
from ensue.data.histories import offsets_of
from ensue.data.packed import Opening
from ensue.data.posts.dataset import Posts
from ensue.errors import DataError
from ensue.lines import part_of, plural, quoted

_WIDTHS = {2: (0, 1, None), 3: (0, 1, 2), 4: (0, 2, 3)}
"""Number of fields -> places of query, document and relevance."""
_SHAPES = "query 0 document relevance, or query TAB document TAB relevance"


def read_judgements(path: str | Path, **opening: Unpack[Opening]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Judgements as columns ``query``, ``document`` and ``relevant``, and notes.

    Args:
        path: the file.
        opening: ``encoding``, ``sheet`` and ``max_unpacked``.

    Raises:
        DataError: naming the file, the line and what to do.
    """
    with answering(path):
        content = open_file(Path(path), **opening)
        if content.parquet or content.json:
            raise DataError(f"{path}: are no judgements; give lines of {_SHAPES}")
        return _judgements(content)


def judged(posts: Posts, judgements: pl.DataFrame, name: str, documents: pl.Series) -> tuple[Posts, tuple[str, ...]]:
    """The posts that judgements name, each about what is relevant to it; and notes on what was left out.

    Args:
        posts: all of them.
        judgements: as :func:`read_judgements` gives them.
        name: their file, for messages.
        documents: (documents,) ids, for messages.

    Raises:
        DataError: they name no post, or no document.
    """
    places = pl.DataFrame({"query": posts.ids, "post": np.arange(len(posts))})
    known = judgements.join(places, on="query", maintain_order="left")
    asked = np.sort(known["post"].unique().to_numpy())
    if not len(asked):
        first, own = judgements["query"][0], posts.ids[0]
        raise DataError(
            f"{name}: none of its queries, such as {quoted(first)}, is the id of a query or post, such as {quoted(own)}"
        )
    relevant = known.filter(pl.col("relevant")).unique(["post", "document"], maintain_order=True)
    if len(relevant) and not relevant["document"].is_in(documents.implode()).any():
        first, own = relevant["document"][0], documents[0]
        raise DataError(f"{name}: none of its documents, such as {quoted(first)}, has an id such as {quoted(own)}")
    notes = []
    if left := len(posts) - len(asked):
        notes.append(f"{part_of(left, len(posts), 'post', 'is', 'are')} not judged: left out")
    if lost := judgements["query"].n_unique() - len(asked):
        notes.append(f"{plural(lost, 'query', 'queries')} of {name} not there: left out")
    own = relevant.sort("post", maintain_order=True)
    counts = np.bincount(own["post"].to_numpy(), minlength=len(posts)).astype(np.int64)[asked]
    return replace(posts.select(asked), about=own["document"], offsets=offsets_of(counts)), tuple(notes)


def _judgements(content: Content) -> tuple[pl.DataFrame, tuple[str, ...]]:
    lines, numbers, notes = content.filled_lines()
    words = lines.str.extract_all(r"\S+" if re.search(r"\s", lines[0].strip()) else r"[^\s,]+")
    width = len(words[0])
    if width not in _WIDTHS:
        raise DataError(f"{content.path}:{numbers[0]}: {plural(width, 'field')}; expected {_SHAPES}")
    query, document, score = _WIDTHS[width]
    headed = score is not None and not is_number(words[0][score])
    words, numbers = words[int(headed) :], numbers[int(headed) :]
    if not len(words):
        raise DataError(f"{content.path}: has a header but no judgement")
    for row in (words.list.len() != width).arg_true()[:1]:
        found = plural(len(words[row]), "field")
        raise DataError(f"{content.path}:{numbers[row]}: {found}, but the file begins with {width}; ids hold no spaces")
    relevant = pl.Series([True]).new_from_index(0, len(words))
    if score is not None:
        relevance = words.list.get(score).cast(pl.Float64, strict=False)
        for row in relevance.is_null().arg_true()[:1]:
            raise DataError(f"{content.path}:{numbers[row]}: relevance {quoted(words[row][score])} is no number")
        relevant = relevance > 0
    else:
        notes = (*notes, "no relevance stands beside the pairs: each is a link")
    frame = pl.DataFrame({"query": words.list.get(query), "document": words.list.get(document), "relevant": relevant})
    return frame, notes
