"""Posts and articles as columns: read from any known layout, cleaned, every row left out counted and said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.arguments import require_fraction, require_records
from ensue.data.duplicates import doubled_rows
from ensue.data.file_bytes import DROP, REPORT, Opening
from ensue.data.files import Content, answering
from ensue.data.histories import Index, Mask, hold_groups, offsets_of, ranges
from ensue.data.ids import IdColumns
from ensue.data.markup import only_links, strip_markup
from ensue.data.near_copies import components, near_copies
from ensue.data.posts.documents import open_texts, read_document
from ensue.data.posts.formats import ARTICLE_ROLES, POST_ROLES, read_post_rows
from ensue.data.posts.platforms import flat, is_json, objects
from ensue.data.schema import ReadReport, SourceFile
from ensue.data.table import ReadOptions, Table, extended, nothing, read_together
from ensue.errors import DataError
from ensue.lines import part_of, plural, quoted
from ensue.records import Article, Post

Pairs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Posts:
    """Posts in columns.

    Attributes:
        texts: (posts,) without HTML.
        ids: (posts,) all different.
        about: ids of articles, post after post.
        offsets: (posts + 1,) post ``p`` is about ``about[offsets[p]:offsets[p + 1]]``.
        parts: (posts,) the part that the file puts each post in, or ``None``.
        rows: (posts,) which of the originals each was read from.
        originals: reads all columns of the file anew, in its order.
        flat: of JSON, reads its fields anew as columns.

    Example:
        >>> from ensue import Post
        >>> from ensue.data.posts.dataset import Posts
        >>> len(Posts.of([Post("the ferry sails at night"), Post("no bus again")]))
        2
    """

    texts: pl.Series
    ids: pl.Series
    about: pl.Series
    offsets: Index
    parts: pl.Series | None = None
    rows: Index = field(default_factory=lambda: np.empty(0, np.int64))
    originals: Callable[[], pl.DataFrame] = nothing
    flat: Callable[[], pl.DataFrame] | None = None

    def __len__(self) -> int:
        """Number of posts."""
        return len(self.texts)

    @classmethod
    def of(cls, records: Iterable[Post]) -> Posts:
        """Columns of a few records; one without an id gets its number, from 1.

        Raises:
            DataError: an id stands twice.
        """
        records_given = require_records(records, Post)
        ids = _named([record.id for record in records_given], "post")
        article_ids = [name for record in records_given for name in record.about]
        offsets = offsets_of([len(record.about) for record in records_given])
        texts = pl.Series([record.text for record in records_given], dtype=pl.String)
        return cls(texts, ids, pl.Series(article_ids, dtype=pl.String), offsets, rows=np.arange(len(records_given)))

    def record(self, index: int) -> Post:
        """One post as a record."""
        article_ids = self.about[int(self.offsets[index]) : int(self.offsets[index + 1])]
        return Post(self.texts[index], self.ids[index], tuple(article_ids))

    def records(self) -> Iterator[Post]:
        """All posts as records, one at a time."""
        return (self.record(index) for index in range(len(self)))

    def select(self, chosen: npt.NDArray[np.integer] | Mask | slice) -> Posts:
        """The chosen posts, in the order chosen."""
        index = np.arange(len(self))[chosen]
        # The ids of the articles of the chosen posts, one post after the other.
        lengths = np.diff(self.offsets)[index]
        return replace(
            self,
            texts=self.texts.gather(index),
            ids=self.ids.gather(index),
            about=self.about.gather(ranges(self.offsets[index], lengths)),
            offsets=offsets_of(lengths),
            parts=None if self.parts is None else self.parts.gather(index),
            rows=self.rows[index] if len(self.rows) else self.rows,
        )

    def pairs(self, articles: Articles) -> tuple[Pairs, int]:
        """(pairs, 2) numbers of an article and of a post about it; and how many links name no article that is there."""
        table = pl.DataFrame({"about": articles.ids, "article": np.arange(len(articles))})
        # The post of each link: of offsets 0 2 2 3 the owners are 0 0 2.
        owners = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        links = pl.DataFrame({"about": self.about, "post": owners}).join(table, on="about", maintain_order="left")
        # A post may name one article twice; the pair counts once.
        pairs = links.select("article", "post").unique(maintain_order=True)
        return pairs.to_numpy().astype(np.int64).reshape(-1, 2), len(self.about) - len(links)

    def extended(self, added: pl.DataFrame) -> pl.DataFrame:
        """The columns of the file these posts were read from, and others beside them.

        Args:
            added: (posts) columns; one whose name is taken gets ``ensue_`` before it.

        Returns:
            The posts' rows in the order of the posts. Of JSON one column ``json``, the added fields within its objects.
        """
        return extended(self.originals()[self.rows], added)

    def beside(self, added: pl.DataFrame, flat: bool) -> pl.DataFrame:
        """Return :meth:`extended`; of JSON, if ``flat``, a table of the fields that ``fields`` collects."""
        if not flat or self.flat is None:
            return self.extended(added)
        table = self.flat()[self.rows]
        # Objects of an unknown layout may have the text under another name.
        lacking = [column.alias(name) for name, column in (("id", self.ids), ("text", self.texts)) if name not in table]
        return extended(pl.DataFrame([*lacking, *table]), added)


@dataclass(frozen=True, eq=False)
class Articles:
    """Articles in columns.

    Attributes:
        bodies: (articles,) whole, without HTML; the title where an article has no body.
        titles: (articles,) or empty texts.
        ids: (articles,) all different.

    Example:
        >>> from ensue import Article
        >>> from ensue.data.posts.dataset import Articles
        >>> len(Articles.of([Article("It sails at ten.", "ferry-night", "Ferry adds night crossings")]))
        1
    """

    bodies: pl.Series
    titles: pl.Series
    ids: pl.Series

    def __len__(self) -> int:
        """Number of articles."""
        return len(self.bodies)

    @property
    def texts(self) -> pl.Series:
        """(articles,) title and body, the title once."""
        # An article without a body has its title in place of it: it is not repeated.
        alone = (self.titles == "") | (self.titles == self.bodies)
        return self.bodies.zip_with(alone, self.titles + "\n" + self.bodies)

    @classmethod
    def of(cls, records: Iterable[Article]) -> Articles:
        """Columns of a few records; one without an id gets its number, from 1.

        Raises:
            DataError: an id stands twice, or an article has neither body nor title.
        """
        records_given = require_records(records, Article)
        ids = _named([record.id for record in records_given], "article")
        for record, name in zip(records_given, ids, strict=True):
            if not (record.body.strip() or record.title.strip()):
                raise DataError(f"article {quoted(name)}: has neither body nor title; give it one")
        bodies = [record.body if record.body.strip() else record.title for record in records_given]
        titles = [record.title for record in records_given]
        return cls(pl.Series(bodies, dtype=pl.String), pl.Series(titles, dtype=pl.String), ids)

    def record(self, index: int) -> Article:
        """One article as a record."""
        return Article(self.bodies[index], self.ids[index], self.titles[index])

    def records(self) -> Iterator[Article]:
        """All articles as records, one at a time."""
        return (self.record(index) for index in range(len(self)))

    def __add__(self, other: Articles) -> Articles:
        """Return these articles, then the others."""
        columns = zip((self.bodies, self.titles, self.ids), (other.bodies, other.titles, other.ids), strict=True)
        return Articles(*map(pl.concat, columns))

    def select(self, chosen: npt.NDArray[np.integer] | Mask | slice) -> Articles:
        """The chosen articles, in the order chosen."""
        index = np.arange(len(self))[chosen]
        return Articles(self.bodies.gather(index), self.titles.gather(index), self.ids.gather(index))


@dataclass(frozen=True, kw_only=True)
class RowCounter(SourceFile):
    """A file whose rows are counted."""

    rows: int
    """Rows of the file; those kept and those dropped."""
    dropped: dict[str, int]
    """Reason -> rows."""


_REASONS = {
    "empty": ("has", "have", "no text"),
    "only_links": ("holds", "hold", "nothing but links and mentions"),
    "repeated": ("repeats", "repeat", "an earlier row, id and text"),
    "double_ids": ("has", "have", "the id of an earlier row and another text"),
}
"""Reason why a row is left out -> its words: of one row, of several, and what it is."""


@dataclass(frozen=True, kw_only=True)
class PostsReport(ReadReport, RowCounter):
    """Report of reading a file of posts or articles."""

    @property
    def details(self) -> str:
        """Return how many rows it has."""
        return plural(self.rows, "row")

    @property
    def sentences(self) -> list[str]:
        """Rows left out, one line per reason."""
        return [
            f"{part_of(count, self.rows, 'row', *_REASONS[reason][:2])} {_REASONS[reason][2]}: left out"
            for reason, count in self.dropped.items()
            if count
        ]


def read_posts(
    path: str | Path, *, columns: Mapping[str, str] | None = None, every: bool = False, **opening: Unpack[Opening]
) -> tuple[Posts, PostsReport]:
    """Read posts; the layout is found by its shape.

    Args:
        path: CSV, TSV, Excel, Parquet, JSON Lines or JSON, plain or packed; collectors' layouts are in ``platforms``.
        columns: ``text``, ``id``, ``title``, ``about`` and ``part`` to names, where those do not speak for themselves.
        every: whether to keep rows without a text, those that hold only links and those that stand twice, so that each
            row can be answered.
        opening: ``encoding``, ``sheet``, ``max_unpacked`` and ``missing``, see :class:`~ensue.data.file_bytes.Opening`.

    Raises:
        DataError: naming the file, the line, the field and what to do; or no post is left.
        SettingError: an unknown role, or one column in two roles.
    """
    with answering(path):
        options = ReadOptions(columns=columns or {}, **opening)
        contents = open_texts(path, options)
        rows = read_together(
            contents, lambda content: read_post_rows(content, options.columns, POST_ROLES, every=every)
        )
        return _posts(path, contents[0], _with_ids(rows, "post", REPORT if every else options.missing_ids), every)


def _with_ids(rows: Table, noun: str, missing: str) -> Table:
    """The rows with their ids, and those of what they are about, in normal form."""
    ids = IdColumns({"id": "id"}, noun, missing, drops=missing == DROP, consequence="the row number is used")
    rows = ids.normalise(rows)
    links = IdColumns({"about": "id"}, "link", missing, consequence="no link")
    if "about" in rows.frame.columns:
        rows = replace(rows, frame=rows.frame.with_columns(_normal_links(rows, links)))
    notes = (*rows.notes, *ids.notes, *links.notes)
    return replace(rows, notes=notes, warnings=(*rows.warnings, *ids.warnings, *links.warnings))


def _normal_links(rows: Table, ids: IdColumns) -> pl.Series:
    """(rows,) lists of the ids that posts are about, in normal form."""
    # One row per link, normalised, and gathered into one list per post again.
    links = pl.DataFrame({"about": rows.frame["about"]}).with_row_index("row").explode("about").drop_nulls("about")
    row = links["row"].to_numpy()
    table = ids.normalise(Table("", links, lambda link: rows.where(int(row[link])), rows.columns, ()))
    lists = table.frame.group_by("row", maintain_order=True).agg("about")
    all_rows = pl.DataFrame({"row": pl.int_range(len(rows.frame), dtype=pl.UInt32, eager=True)})
    return all_rows.join(lists, on="row", how="left", maintain_order="left")["about"]


def _posts(path: str | Path, content: Content, rows: Table, every: bool) -> tuple[Posts, PostsReport]:
    frame, notes = rows.frame, [*rows.notes]
    texts = _text(frame, "text")
    if "title" in frame.columns:
        texts = _or_title(texts, _text(frame, "title"), "posts", notes)
    texts = _stripped(texts, "posts", notes)
    reason = pl.when(texts == "").then(pl.lit("empty")).when(only_links(texts)).then(pl.lit("only_links"))
    ids, valid, report = _clean(path, content, rows, texts, reason, notes, "post", every=every)
    # Lists of ids become one column of links and the number of each post's links.
    id_lists = frame["about"].gather(valid) if "about" in frame.columns else None
    links = pl.Series(dtype=pl.String) if id_lists is None else id_lists.explode(empty_as_null=False).drop_nulls()
    lengths = np.zeros(len(valid), np.int64) if id_lists is None else id_lists.list.len().fill_null(0).to_numpy()
    part_names = frame["part"].fill_null("").gather(valid) if "part" in frame.columns else None
    table = (lambda: flat(post for _, post in objects(content))) if is_json(content) else None
    offsets = offsets_of(lengths)
    posts = Posts(texts.gather(valid), ids, links, offsets, part_names, valid, rows.originals or nothing, table)
    return posts, report


def read_articles(
    path: str | Path, *, columns: Mapping[str, str] | None = None, **opening: Unpack[Opening]
) -> tuple[Articles, PostsReport]:
    """Read articles; see :func:`read_posts`.

    Args:
        path: CSV, TSV, Excel, Parquet, JSON Lines or JSON, plain or packed; a body may be a list of paragraphs. Or one
            article, as plain text (``.txt``, ``.md``) or as a web page (``.html``).
        columns: ``body``, ``id``, ``title`` and ``summary`` to names, where those do not speak for themselves. A
            summary (a lead, the claim that is checked) becomes the first paragraph of the body.
        opening: ``encoding``, ``sheet``, ``max_unpacked`` and ``missing``, see :class:`~ensue.data.file_bytes.Opening`.

    Raises:
        DataError: naming the file, the line, the field and what to do; or no article is left.
        SettingError: an unknown role, or one column in two roles.
    """
    with answering(path):
        options = ReadOptions(columns=columns or {}, **opening)
        contents = open_texts(path, options)
        rows = read_together(
            contents,
            lambda content: (
                read_document(content, options, ARTICLE_ROLES)
                or read_post_rows(content, options.columns, ARTICLE_ROLES)
            ),
        )
        return _articles(path, contents[0], _with_ids(rows, "article", options.missing_ids))


def _articles(path: str | Path, content: Content, rows: Table) -> tuple[Articles, PostsReport]:
    notes = [*rows.notes]
    titles = _stripped(_text(rows.frame, "title"), "titles", notes)
    bodies = _stripped(_text(rows.frame, "body"), "bodies", notes)
    leads = _stripped(_text(rows.frame, "summary"), "summaries", notes)
    # The summary is the first paragraph of the body.
    bodies = pl.select(pl.concat_str(leads, pl.lit("\n"), bodies).alias("body")).to_series().str.strip_chars()
    bodies = _or_title(bodies, titles, "articles", notes)
    reason = pl.when(bodies == "").then(pl.lit("empty"))
    ids, valid, report = _clean(path, content, rows, bodies, reason, notes, "article")
    return Articles(bodies.gather(valid), titles.gather(valid), ids), report


def _text(frame: pl.DataFrame, role: str) -> pl.Series:
    column = frame[role] if role in frame.columns else pl.Series([""]).new_from_index(0, len(frame))
    return column.fill_null("").str.strip_chars()


def _or_title(texts: pl.Series, titles: pl.Series, nouns: str, notes: list[str]) -> pl.Series:
    lacking = (texts == "") & (titles != "")
    if count := int(lacking.sum()):
        lack = "body" if nouns == "articles" else "text"
        notes.append(f"{part_of(count, len(texts), nouns[:-1], 'has', 'have')} no {lack}: the title is read")
    return titles.zip_with(lacking, texts)


def _stripped(texts: pl.Series, nouns: str, notes: list[str]) -> pl.Series:
    plain, count = strip_markup(texts)
    if count:
        notes.append(f"{count:,} of {plural(len(texts), nouns[:-1])} held HTML tags or entities: stripped to words")
    return plain.str.strip_chars()


def _clean(
    path: str | Path,
    content: Content,
    rows: Table,
    texts: pl.Series,
    reason: pl.Expr,
    notes: list[str],
    noun: str,
    *,
    every: bool = False,
) -> tuple[pl.Series, Index, PostsReport]:
    """Return the ids of the rows that stay, which rows these are, and the report.

    Args:
        path: the file, for messages.
        content: its content.
        rows: all rows.
        texts: (rows,) their texts.
        reason: (rows,) the reason why a row is left out, or null.
        notes: notes on the rows; a note on ids is added.
        noun: the name of a row in messages.
        every: whether every row stays.

    Raises:
        DataError: no row stays, or most ids stand twice, with other texts.
    """
    ids = _text(rows.frame, "id")
    is_lacking = ids == ""
    # A row without an id gets its number, from 1.
    ids = pl.int_range(1, len(ids) + 1, eager=True).cast(pl.String).zip_with(is_lacking, ids)
    reasons = pl.repeat(None, len(ids), dtype=pl.String, eager=True)
    if not every:
        if count := int(is_lacking.sum()):
            notes.append(f"{part_of(count, len(texts), 'row', 'has', 'have')} no id: the row number is used")
        frame = pl.DataFrame({"id": ids, "text": texts}).with_columns(why=reason)
        reasons = _with_repeats(rows, frame)
    report = PostsReport(
        path=str(path),
        layout=rows.layout,
        columns=rows.columns,
        rows=len(reasons),
        dropped={reason: int((reasons == reason).sum()) for reason in _REASONS},
        notes=tuple(notes),
        byte_order_mark=content.byte_order_mark,
        warnings=(*rows.warnings, *doubled_rows(rows.frame)),
    )
    valid = reasons.is_null().arg_true().to_numpy().astype(np.int64)
    if not len(valid):
        raise DataError(f"{path}: no {noun} is left after cleaning: {'; '.join(report.sentences)}")
    return ids.gather(valid), valid, report


def _with_repeats(rows: Table, frame: pl.DataFrame) -> pl.Series:
    """Return (rows,) why a row is left out: the reason in column ``why``, or an id that an earlier row has.

    Raises:
        DataError: most ids stand twice, with other texts.
    """
    frame = frame.with_row_index("row")
    valid = frame.filter(pl.col("why").is_null())
    # Of rows with one id the first stays; a later one repeats it, or has another text.
    later = valid.with_columns(first=pl.col("row").min().over("id"), same=pl.col("row").min().over("id", "text"))
    later = later.filter(pl.col("row") != pl.col("first"))
    # The first row with this id and this text is another one: this one is a copy.
    cause = pl.when(pl.col("row") != pl.col("same")).then(pl.lit("repeated")).otherwise(pl.lit("double_ids"))
    later = later.with_columns(again=cause)
    double = later.filter(pl.col("again") == "double_ids")
    if len(double) > len(valid) / 2:
        raise DataError(
            f"{rows.where(int(double['row'][0]))}: id {quoted(double['id'][0])} is also the id of an earlier text, and "
            "most ids repeat; name the column of ids with --columns id=…"
        )
    # The rows of repeats, back in the order of the file.
    reasons = frame.join(later.select("row", "again"), on="row", how="left", maintain_order="left")
    return reasons.select(pl.coalesce("why", "again")).to_series()


def _named(ids: list[str], noun: str) -> pl.Series:
    all_ids = pl.Series([name or str(number) for number, name in enumerate(ids, 1)], dtype=pl.String)
    for name in all_ids.filter(all_ids.is_duplicated())[:1]:
        raise DataError(f"{noun} {quoted(name)}: the id appears twice; give each {noun} its own")
    return all_ids


_EXAMPLES, _MAX_CHARACTERS = 3, 60


def hold_out_posts(posts: Posts, share: float = 0.1, seed: int = 0) -> tuple[Posts, Posts, str]:
    """Split off posts at random, with all posts about the same articles and all their near-copies.

    Args:
        posts: those that are about no article stay in training.
        share: part of the posts with an article to hold out, between 0 and 1; groups that would exceed it stay.
        seed: the same seed gives the same split.

    Returns:
        The posts to train on, those held out (both in their former order), and the rule for the protocol card.

    Raises:
        DataError: no post is about an article, or all hang together.
        SettingError: a share outside (0, 1).
    """
    require_fraction(share, "share")
    linked = np.diff(posts.offsets) > 0
    if not linked.any():
        raise DataError("no post is about an article; name their column with --columns about=…")
    groups = groups_of(posts)
    roots, owners = np.unique(groups[linked], return_inverse=True)
    if len(roots) < 2:
        raise DataError("all posts are connected by articles and near copies; give posts about two stories")
    quotas = np.array([max(round(share * int(linked.sum())), 1)])
    generator = np.random.default_rng(seed)
    is_held_out = hold_groups(np.zeros(len(owners), np.int64), owners, quotas, generator)
    # Posts about no article follow those of which they are near copies.
    is_chosen = np.isin(groups, roots[owners[is_held_out]])
    rule = (
        f"{int(is_chosen.sum()):,} of {len(posts):,} posts at random (seed {seed}), split by article; near copies stay "
        "together"
    )
    return posts.select(~is_chosen), posts.select(is_chosen), rule


def given_part(posts: Posts, name: str) -> Posts:
    """The posts that the file puts in one part.

    Raises:
        DataError: the file has no such part.
    """
    if posts.parts is None or name not in posts.parts:
        names = "none" if posts.parts is None else ", ".join(map(repr, posts.parts.unique().sort()))
        raise DataError(f"there is no part {name!r}; the file has {names}")
    return posts.select((posts.parts == name).to_numpy())


@dataclass(frozen=True, kw_only=True)
class LinkLeaks:
    """Articles and near copies on both sides of a split; goes into JSON as it is."""

    posts: int
    """Posts to train on."""
    other_posts: int
    """Posts of the other part."""
    shared_articles: int
    """Articles that posts of both parts are about."""
    on_shared: int
    """Posts of the other part about such an article."""
    copies: int
    """Posts of the other part that nearly repeat one to train on."""
    examples: tuple[str, ...]
    """The first of those, cut short."""


def link_leaks(train: Posts, other: Posts) -> LinkLeaks:
    """Count articles and near-copies that stand on both sides."""
    linked = train.about.unique()
    shared = other.about.is_in(linked.implode()).to_numpy()
    owners = np.repeat(np.arange(len(other)), np.diff(other.offsets))
    # Groups are numbered by their first text: one of a group that begins in training is a near copy of it.
    groups = near_copies(pl.concat([train.texts, other.texts]))
    copies = np.flatnonzero(groups[len(train) :] < len(train))
    return LinkLeaks(
        posts=len(train),
        other_posts=len(other),
        shared_articles=other.about.filter(pl.Series(shared)).n_unique(),
        on_shared=len(np.unique(owners[shared])),
        copies=len(copies),
        examples=tuple(other.texts[int(row)][:_MAX_CHARACTERS] for row in copies[:_EXAMPLES]),
    )


def groups_of(posts: Posts) -> Index:
    """(posts,) the first post that each hangs together with by articles or near-copies."""
    owners = np.repeat(np.arange(len(posts)), np.diff(posts.offsets))
    frame = pl.DataFrame({"about": posts.about, "post": owners})
    # Every post is connected to the first post about the same article, and to the first of its near copies.
    first = frame.select(pl.col("post").min().over("about")).to_series().to_numpy()
    rows = np.arange(len(posts))
    return components(np.concatenate([first, near_copies(posts.texts)]), np.concatenate([owners, rows]), len(posts))
