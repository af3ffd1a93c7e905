"""Exports of collectors and platforms as records, the same for every task: who posted what, when, and about what.

A record has an id, a text, an author, a time and a language, and is tied to others by what it passes on
(``repost_of``), what it answers (``parent``), its conversation (``thread``) and the page that it links to
(``shared_link``). Task `link` takes the texts and ids, `classify` the texts, and `next` the authors of each cascade in
order of time.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ensue.data.files import Content
from ensue.data.posts.fields import RELATIONS, collected, related
from ensue.data.posts.formats import ARTICLES, collector_of, joined_pieces
from ensue.data.posts.platforms import READERS, is_json, layout_of, objects
from ensue.data.roles import plain_name, require_columns, split_words
from ensue.data.table import Table, read_table
from ensue.errors import DataError
from ensue.lines import plural

FIELDS = ("id", "text", "author", "time", "language", *RELATIONS)
"""The columns of records."""
_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "tweetid", "uri", "itemid", "commentid", "postid"),
    "text": ("body", "text", "fulltext", "commenttext", "selftext", "title"),
    "author": split_words("author authorusername userscreenname userhandle authorhandle username authorid channelid"),
    "time": ("timestamp", "createdat", "createdutc", "publishedat", "timestamputc", "commentcreatetimestamp", "date"),
    "language": ("lang", "language"),
    "repost_of": ("retweetedid", "retweetid", "referencedtweetsretweetedid", "repostof"),
    "parent": ("inreplytoid", "inreplytostatusid", "referencedtweetsrepliedtoid", "parentid", "parentcommentid"),
    "thread": ("threadid", "conversationid", "linkid", "videoid"),
    "shared_link": ("urls", "links", "entitiesurlsexpandedurl", "externalurl"),
}
"""Names of these columns in tables; the address of the post itself, often ``url``, is no link."""
_SUBMISSIONS = {"subreddit", "author", "url"}
"""Columns of Reddit's submissions, whose ``url`` is the page that they link to."""
_CASCADES = ("repost_of", "shared_link", "thread")
"""Columns that may identify a cascade, the most specific first."""


def export_of(content: Content) -> str | None:
    """Return the name of the layout of an export, by its columns or its first object; ``None`` of another file."""
    try:
        if not is_json(content):
            collector = collector_of(content.names())
            return None if collector in ARTICLES else collector
        _, first = next(objects(content), (0, {}))
    except DataError:  # the reader that gets the file says what is wrong with it
        return None
    return layout if (layout := layout_of(first)) in READERS else None


def read_export(content: Content, layout: str) -> Table:
    """Return the records of an export, one row per post.

    Args:
        content: the file.
        layout: as :func:`export_of` names it.

    Returns:
        A table with the columns ``FIELDS``, all of them texts; those of a record that has none are null.
    """
    if is_json(content):
        rows, numbers = list[dict[str, str | None]](), list[int]()
        for number, post in objects(content):
            fields = {**(collected(post) or {}), **related(post)}
            rows.append({name: None if fields.get(name) is None else str(fields[name]) for name in FIELDS})
            numbers.append(number)
        frame = pl.DataFrame(rows, schema=dict.fromkeys(FIELDS, pl.String))
        return Table(layout, frame, lambda row: f"{content.path}, line {numbers[row]}", {}, ())
    plain = {plain_name(name): name for name in reversed(content.names())}
    columns = {role: next((plain[word] for word in words if word in plain), None) for role, words in _NAMES.items()}
    if plain.keys() >= _SUBMISSIONS:
        columns["shared_link"] = plain["url"]
    present = {role: name for role, name in columns.items() if name is not None}
    table = read_table(content, lambda names: (present, ()))
    frame = table.frame.with_columns(pl.lit(None, pl.String).alias(role) for role in FIELDS if role not in present)
    if layout == "youtube takeout":
        frame = frame.with_columns(joined_pieces(frame["text"]))
    # Of several links of a post, the first is read.
    frame = frame.select(*FIELDS).with_columns(pl.col("shared_link").str.extract(r"(https?://[^\s,;|]+)"))
    return Table(layout, frame, table.where, {}, table.notes)


def read_cascades(content: Content, layout: str, stated: Mapping[str, str]) -> Table:
    """Return who passed on what, a row per event: the columns ``session``, ``item`` and ``time``.

    Args:
        content: an export.
        layout: as :func:`export_of` names it.
        stated: ``session``, ``item`` and ``time`` to columns of ``FIELDS``; found out unless given.

    Raises:
        DataError: nobody passes on what another did, or several columns say who did.
    """
    records = read_export(content, layout)
    require_columns(content.path, FIELDS, stated)
    frame = _with_originals(records.frame)
    columns = {"session": "", "item": "author", "time": "time", **stated}
    if not columns["session"]:
        columns["session"] = _cascade(content, layout, frame)
    kept = frame.select(pl.col(columns["session"]).is_not_null() & pl.col(columns["item"]).is_not_null()).to_series()
    if not kept.any():
        raise DataError(
            f"{content.path}: no post of this export ({layout}) has both {columns['session']} and {columns['item']}; "
            f"the columns are {', '.join(FIELDS)}"
        )
    events = frame.select(pl.col(name).alias(role) for role, name in columns.items())
    if events["time"].null_count() == len(events):
        events, columns = events.drop("time"), {role: name for role, name in columns.items() if role != "time"}
    table = Table(layout, events, records.where, columns, records.notes)
    left = len(kept) - int(kept.sum())
    note = f"{plural(left, 'post')} of {len(kept):,} without {columns['session']} or {columns['item']} left out"
    return Table(layout, events, table.where, columns, (*table.notes, note)).select(kept) if left else table


def _with_originals(frame: pl.DataFrame) -> pl.DataFrame:
    """Return records in which a post that others pass on belongs to their cascade, and is its first event."""
    passed = pl.col("id").is_in(frame["repost_of"].drop_nulls().unique().implode())
    return frame.with_columns(repost_of=pl.coalesce("repost_of", pl.when(passed).then(pl.col("id"))))


def _cascade(content: Content, layout: str, frame: pl.DataFrame) -> str:
    """Return the column that cascades are made of.

    Raises:
        DataError: none joins posts of two authors, or more than one does.
    """
    found = []
    for name in _CASCADES:
        authors = frame.drop_nulls([name, "author"]).group_by(name).agg(pl.col("author").n_unique())["author"]
        if (authors > 1).any():
            found.append(name)
    if not found:
        raise DataError(
            f"{content.path}: is an export of posts ({layout}) in which no two authors pass on one post, share a link "
            "or write in one conversation, so it does not show who passes on what next; give an export with reposts or "
            "links, or name the task: classify, link"
        )
    if len(found) > 1:
        choices = " or ".join(f"session={name},item=author,time=time" for name in found)
        raise DataError(
            f"{content.path}: this export ({layout}) shows who passes on what in more than one way; choose with "
            f"--columns {choices}"
        )
    return found[0]
