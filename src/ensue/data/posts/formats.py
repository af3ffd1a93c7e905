"""The rows of a file of posts or of articles: any table, JSON Lines, or what a collector writes (see ``platforms``).

Roles are found by the names of columns or stated; every other column stays in the file, to be written out again.

The records of an export of a collector or a platform are the same for every task: an id, a text, an author, a time and
a language, and relations to others: the post that is passed on (``repost_of``) or answered (``parent``), the
conversation (``thread``) and the page that is linked (``shared_link``). Task `link` takes the texts and ids, `classify`
the texts, and `next` the authors of each cascade in order of time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import polars as pl

from ensue.data.delimited import Delimited, is_quoted
from ensue.data.files import Content
from ensue.data.layouts import Object, dig
from ensue.data.posts.platforms import (
    RELATIONS,
    collected,
    collector_of,
    is_json,
    objects,
    platform_of,
    read_platform,
    related,
)
from ensue.data.schema import (
    FindColumns,
    Roles,
    name_table,
    plain_name,
    require_columns,
    require_distinct,
    require_roles,
)
from ensue.data.table import JSON, Table, names_of, read_delimited, read_table
from ensue.errors import DataError
from ensue.lines import plural

POST_ROLES = Roles(
    known=name_table("""
        text: text fulltext body tweet tweettext posttext message content comment caption commenttext status selftext
            post description tweetcontent query querytext claim
        id: id idstr commentid postid tweetid itemid messageid statusid uri queryid qid
        title: title subject headline
        about: about articles article articleids articleid stories storyid storiesid vclaimid corduid
        part: split part fold
    """),
    needed=("text", "title"),
    doubted=("text",),
    example="text=…,id=…",
    plain=plain_name,
)
ARTICLE_ROLES = Roles(
    known=name_table("""
        body: body text fulltext content articletext articlebody maintext storytext paragraphs passage document
        id: id articleid storiesid storyid docid documentid corpusid passageid pid vclaimid corduid guid url link
        title: title headline storytitle articletitle
        summary: summary claim vclaim claimreviewed lead standfirst abstract teaser subtitle
    """),
    needed=("body", "title"),
    doubted=("body",),
    example="body=…,id=…",
    plain=plain_name,
)
FIELDS = ("id", "text", "author", "time", "language", *RELATIONS)
"""The columns of records of an export."""
# The address of the post itself, often "url", is no link that it shares.
_RECORDS = Roles(
    known=name_table("""
        id: id tweetid uri itemid commentid postid
        text: body text fulltext commenttext selftext title
        author: author authorusername userscreenname userhandle authorhandle username authorid channelid
        time: timestamp createdat createdutc publishedat timestamputc commentcreatetimestamp date
        language: lang language
        repost_of: retweetedid retweetid referencedtweetsretweetedid repostof
        parent: inreplytoid inreplytostatusid referencedtweetsrepliedtoid parentid parentcommentid
        thread: threadid conversationid linkid videoid
        shared_link: urls links entitiesurlsexpandedurl externalurl
    """),
    needed=("text",),
    doubted=(),
    example="",
    plain=plain_name,
)
_COLLECTIONS = {2: ("id", "text"), 3: ("id", "title", "text"), 4: ("id", "url", "title", "text")}
_SAMPLES = 100


def read_post_rows(content: Content, stated: Mapping[str, str], roles: Roles, *, every: bool = False) -> Table:
    """The rows of a file by roles.

    Args:
        content: the file.
        stated: role -> column.
        roles: ``POST_ROLES`` or ``ARTICLE_ROLES``.
        every: whether to keep empty rows too.

    Raises:
        DataError: a column that is missing, none for the text, or a line that does not fit.
        SettingError: an unknown role, or one column in two roles.
    """
    require_roles(stated, roles.known)
    require_distinct(stated)
    find = partial(roles.find, content.path, stated=stated, trained=content.trained)
    if is_json(content):
        return _json(content, stated, roles)
    if not (content.parquet or content.header) and len(content.head(2)) < 2:
        raise DataError(f"{content.path}: has one line, which can only be a header; give a header and one row per text")
    # Collections are published without a header: id TAB text, as those of MS MARCO.
    if not stated and (names := collection_of(content, roles)):
        delimited = Delimited(content, "\t", quoted=is_quoted(content), header=names)
        table = read_delimited(delimited, find(names)[0], (f"no header: the columns are read as {', '.join(names)}",))
        return replace(table, originals=partial(delimited.whole, [*names])).filled(content.path, "text", every=every)
    table = _named_table(content, find).filled(content.path, "text", every=every)
    # Lists of paragraphs become one text, texts of ids lists.
    schema = content.schema() if content.parquet else {}
    lists = [role for role, name in table.columns.items() if role != "about" and isinstance(schema.get(name), pl.List)]
    texts = pl.col(lists).str.json_decode(pl.List(pl.String)).list.join("\n")
    return replace(table, frame=table.frame.with_columns(texts, *map(_ids, {"about"} & table.columns.keys())))


def _named_table(content: Content, find: FindColumns) -> Table:
    """Read a table; its layout has the name of the collector that wrote it."""
    table = read_table(content, find, "give texts or lists", lambda role: True)
    collector = collector_of(content.names())
    if collector is None:
        return table
    if collector.name == "youtube takeout" and "text" in table.frame.columns:
        texts = table.frame["text"].map_elements(_joined_pieces, return_dtype=pl.String)
        table = replace(table, frame=table.frame.with_columns(texts))
    return replace(table, layout=collector.name)


def _joined_pieces(text: str) -> str:
    """Return a text that a Takeout keeps as ``{"text":"…"},{"text":"…"}``; another text as it is."""
    try:
        # The pieces are objects with commas between them, and no list.
        pieces = json.loads(f"[{text}]")
    except (ValueError, RecursionError):
        return text
    texts = [piece.get("text") for piece in pieces if isinstance(piece, dict)]
    return "".join(piece for piece in texts if isinstance(piece, str)) or text


def collection_of(content: Content, roles: Roles) -> tuple[str, ...]:
    """The columns of ``id TAB text`` and the like, as collections and queries are published; empty for other tables.

    No name of the first line is known, ids hold no space, and of every line the last field does.
    """
    if content.parquet or content.header:
        return ()
    rows = [line.split("\t") for line in content.head()]
    # A known name in the first line makes it a header.
    known_names = {word for words in roles.known.values() for word in words}
    if set(map(plain_name, rows[0])) & known_names or any(len(row) != len(rows[0]) for row in rows):
        return ()
    fits = all(" " not in row[0].strip() and " " in row[-1].strip() for row in rows)
    return _COLLECTIONS.get(len(rows[0]), ()) if fits else ()


def _ids(name: str) -> pl.Expr:
    """Ids with spaces, ``|`` or ``;`` between them as lists; so are lists as Python and JSON write them."""
    texts = pl.col(name)
    # ['x', "y z"] holds x and y z: what is in quotes is one id, and the quotes go.
    written = texts.str.extract_all(r"""'[^']*'|"[^"]*"|[^\s,'"\[\]]+""").list.eval(pl.element().str.strip_chars("'\""))
    return pl.when(texts.str.contains(r"^\s*\[.*\]\s*$")).then(written).otherwise(texts.str.extract_all(r"[^\s|;]+"))


def _json(content: Content, stated: Mapping[str, str], accepted: Roles) -> Table:
    """Objects, each with a text at the place of its platform, or with the fields of the roles."""
    samples = [post for _, post in islice(objects(content), _SAMPLES)]
    if not samples:
        raise DataError(f"{content.path}: holds no post")
    platform = None
    if not stated and accepted in (POST_ROLES, ARTICLE_ROLES):
        # Most objects decide: a page may begin with a pinned post or an advertisement of another shape.
        platform = Counter(map(platform_of, samples)).most_common(1)[0][0]
    if platform is not None:
        roles = dict[str, str]()
        notes: tuple[str, ...] = ()
        columns: Sequence[str] = (accepted.needed[0], "id")
    else:
        names = names_of(samples)
        # A stated column may be a path into the objects, such as data.caption.text.
        stated_names = dict.fromkeys((*stated.values(), *content.trained.columns.values()))
        paths = [path for path in stated_names if any(dig(sample, path) is not None for sample in samples)]
        fields = [*names, *(path for path in paths if path not in names)]
        roles, notes = accepted.find(content.path, fields, stated, trained=content.trained)
        columns = [*roles]
    rows = list[tuple[object, ...]]()
    numbers = list[int]()
    num_other = 0
    for number, post in objects(content):
        numbers.append(number)
        if platform is None:
            rows.append(
                tuple(_value(post[path] if path in post else dig(post, path), role) for role, path in roles.items())
            )
            continue
        # An object of another layout in the same file is read by its own, or as most of them are.
        layout = platform_of(post)
        num_other += layout != platform
        rows.append(read_platform(layout or platform, post))
    name = "jsonl" if platform is None else platform.name
    if num_other:
        notes = (*notes, f"{plural(num_other, 'object')} not in the layout {name}: only text fields are read")
    schema = {role: pl.List(pl.String) if role == "about" else pl.String for role in columns}
    frame = pl.DataFrame(rows, schema=schema, orient="row", strict=False)
    originals = partial(json_originals, content)
    return Table(name, frame, lambda row: f"{content.path}, line {numbers[row]}", roles, notes, originals)


def json_originals(content: Content) -> pl.DataFrame:
    """Return the objects of a file as JSON, one per row."""
    plain = (
        {name: value for name, value in post.items() if name not in ("__includes", "__users")}
        for _, post in objects(content)
    )
    return pl.DataFrame({JSON: [json.dumps(post, ensure_ascii=False) for post in plain]})


def _value(value: object, role: str) -> object:
    """A text, or the list of ids that a post is about; paragraphs become one text, numbers texts."""
    if role == "about":
        items = value if isinstance(value, list) else [] if value is None else [value]
        return [text for item in items if (text := _text(item))]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return _text(value)


def _text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    # Half a character, as cut emoji leave, has no place in UTF-8.
    return str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_SUBMISSIONS = {"subreddit", "author", "url"}
"""Columns of Reddit's submissions, whose ``url`` is the page that they link to."""
_CASCADES = ("repost_of", "shared_link", "thread")
"""Columns that may identify a cascade, the most specific first."""


def export_of(content: Content) -> str | None:
    """Return the name of the layout of an export, by its columns or its first object; ``None`` of another file."""
    try:
        if is_json(content):
            layout = platform_of(next(objects(content), (0, Object()))[1])
            return None if layout is None else layout.name
        collector = collector_of(content.names())
        return None if collector is None or collector.read else collector.name
    except DataError:  # the reader that gets the file says what is wrong with it
        return None


def read_export(content: Content, layout: str) -> Table:
    """Return the records of an export, one row per post.

    Args:
        content: the file.
        layout: as :func:`export_of` names it.

    Returns:
        A table with the columns ``FIELDS``, all of them texts; those of a record that has none are null.
    """
    if is_json(content):
        rows = list[dict[str, str | None]]()
        numbers = list[int]()
        for number, post in objects(content):
            fields = {**(collected(post) or {}), **related(post)}
            rows.append({name: None if fields.get(name) is None else str(fields[name]) for name in FIELDS})
            numbers.append(number)
        frame = pl.DataFrame(rows, schema=dict.fromkeys(FIELDS, pl.String))
        return Table(layout, frame, lambda row: f"{content.path}, line {numbers[row]}", {}, ())
    columns = {plain_name(name): name for name in reversed(content.names())}
    # The address of a submission of Reddit is the page that it shares.
    link = {"shared_link": columns["url"]} if columns.keys() >= _SUBMISSIONS else {}
    table = _named_table(content, partial(_RECORDS.find, content.path, stated=link))
    frame = table.frame.with_columns(
        pl.lit(None, pl.String).alias(role) for role in FIELDS if role not in table.columns
    )
    # Of several links of a post, the first is read.
    frame = frame.select(*FIELDS).with_columns(pl.col("shared_link").str.extract(r"(https?://[^\s,;|]+)"))
    return replace(table, layout=layout, frame=frame, columns={})


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
    # A post that others pass on belongs to their cascade, and is its first event.
    passed = pl.col("id").is_in(records.frame["repost_of"].drop_nulls().unique().implode())
    frame = records.frame.with_columns(repost_of=pl.coalesce("repost_of", pl.when(passed).then(pl.col("id"))))
    columns = {"session": "", "item": "author", "time": "time", **stated}
    if not columns["session"]:
        columns["session"] = _cascade(content, layout, frame)
    valid = frame.select(pl.col(columns["session"]).is_not_null() & pl.col(columns["item"]).is_not_null()).to_series()
    if not valid.any():
        raise DataError(
            f"{content.path}: no post of this export ({layout}) has both {columns['session']} and {columns['item']}; "
            f"the columns are {', '.join(FIELDS)}"
        )
    events = frame.select(pl.col(name).alias(role) for role, name in columns.items())
    if events["time"].null_count() == len(events):
        events = events.drop("time")
        del columns["time"]
    notes = records.notes
    if num_missing := len(valid) - int(valid.sum()):
        column_names = f"{columns['session']} or {columns['item']}"
        notes = (*notes, f"{plural(num_missing, 'post')} of {len(valid):,} without {column_names} left out")
    return Table(layout, events, records.where, columns, notes).select(valid)


def _cascade(content: Content, layout: str, frame: pl.DataFrame) -> str:
    """Return the column that cascades are made of.

    Raises:
        DataError: none joins posts of two authors, or more than one does.
    """
    joining = []
    for name in _CASCADES:
        # One author who posts twice is no cascade.
        authors = frame.drop_nulls([name, "author"]).group_by(name).agg(pl.col("author").n_unique())["author"]
        if (authors > 1).any():
            joining.append(name)
    if not joining:
        raise DataError(
            f"{content.path}: is an export of posts ({layout}) in which no two authors pass on one post, share a link "
            "or write in one conversation, so it does not show who passes on what next; give an export with reposts or "
            "links, or name the task: classify, link"
        )
    if len(joining) > 1:
        choices = " or ".join(f"session={name},item=author,time=time" for name in joining)
        raise DataError(
            f"{content.path}: this export ({layout}) shows who passes on what in more than one way; choose with "
            f"--columns {choices}"
        )
    return joining[0]
