"""Articles and the posts that may be about them: what task ``link`` learns, is scored on, and answers from.

Judgements of relevance may be in a file of their own (qrels): which query, here a post, is about which document.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.arguments import require_path
from ensue.data.clock import is_number
from ensue.data.file_bytes import Opening
from ensue.data.files import Content, answering, open_file
from ensue.data.histories import offsets_of
from ensue.data.ids import IdColumns
from ensue.data.posts.dataset import (
    Articles,
    Pairs,
    Posts,
    PostsReport,
    given_part,
    hold_out_posts,
    read_articles,
    read_posts,
)
from ensue.data.schema import Roles, name_table, plain_name
from ensue.data.table import Table, names_of, read_table, sample_objects
from ensue.errors import DataError, SettingError
from ensue.lines import part_of, plural, quoted
from ensue.records import Post

ROLES = {"body": "body", "article_id": "id", "article_title": "title", "summary": "summary"}
"""Stated role -> role of the articles; every other role is one of the posts."""
_NAMES = {
    "articles": ("articles", "stories", "news", "corpus", "documents", "collection"),
    "posts": ("posts", "tweets", "comments", "queries"),
}
_QRELS = "qrels"
_PART_NAMES = {"dev": "valid", "validation": "valid"}


@dataclass(frozen=True, eq=False)
class Corpus:
    """Articles, and posts some of which are known to be about some of them.

    Attributes:
        articles: all that a post may be about.
        posts: the posts.
        missing_queries: (part, id) of the judged queries that are not among the posts.

    Example:
        >>> from ensue import Article, Post
        >>> from ensue.data.posts.corpus import Corpus
        >>> from ensue.data.posts.dataset import Articles, Posts
        >>> articles = Articles.of([Article("It sails at ten.", "ferry")])
        >>> corpus = Corpus(articles, Posts.of([Post("the ferry!", "p1", ("ferry",)), Post("no bus", "p2")]))
        >>> len(corpus.posts), len(corpus.linked())
        (2, 1)
    """

    articles: Articles
    posts: Posts
    missing_queries: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        """Number of posts."""
        return len(self.posts)

    def records(self) -> Iterator[Post]:
        """All posts as records, one at a time."""
        return self.posts.records()

    @property
    def pairs(self) -> Pairs:
        """(links, 2) numbers of an article and of a post about it; links to articles that are not here are left out."""
        return self.posts.pairs(self.articles)[0]

    @property
    def related(self) -> npt.NDArray[np.bool_]:
        """(posts, articles) whether a post is about an article."""
        related = np.zeros((len(self.posts), len(self.articles)), bool)
        articles, posts = self.pairs.T
        # Scatter the pairs into a table of posts by articles.
        related[posts, articles] = True
        return related

    def select(self, chosen: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Corpus:
        """The chosen posts, in the order chosen, and all articles."""
        return replace(self, posts=self.posts.select(chosen))

    def linked(self) -> Corpus:
        """The posts that are about an article of this corpus, and all articles."""
        return self.select(np.unique(self.pairs[:, 1]))

    def judged(self) -> Corpus:
        """Return the posts that are about an article, in this corpus or not, and all articles."""
        return self.select(np.flatnonzero(np.diff(self.posts.offsets)))

    def part(self, name: str) -> Corpus:
        """The posts that the file puts in one part, and all articles.

        Raises:
            DataError: the file has no such part.
        """
        missing = tuple((part, query) for part, query in self.missing_queries if part in ("", name))
        return replace(self, posts=given_part(self.posts, name), missing_queries=missing)

    @property
    def parts(self) -> set[str]:
        """The parts that the file names."""
        return set() if self.posts.parts is None else set(self.posts.parts.unique())

    def split(self, seed: int = 0) -> tuple[Corpus, Corpus, str]:
        """Return the training part, the held-out part and the rule: the file's own parts, or a tenth by article.

        Raises:
            DataError: no post is about an article, or all hang together.
        """
        if {"train", "valid"} <= self.parts:
            train = self.part("train")
            valid = self.part("valid")
            rule = f"as marked in the file: {plural(len(train), 'post')} in train, {len(valid):,} in valid"
            return train, valid, rule
        corpus = self.part("train") if "train" in self.parts and len(self.parts) > 1 else self
        train_posts, valid_posts, rule = hold_out_posts(corpus.posts, seed=seed)
        return replace(self, posts=train_posts), replace(self, posts=valid_posts), rule


def read_corpus(
    path: str | Path,
    articles: str | Path | None = None,
    *,
    judgements: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    **opening: Unpack[Opening],
) -> tuple[Corpus, tuple[PostsReport, PostsReport]]:
    """Read posts and articles.

    Args:
        path: a file of posts, or a folder with a file of articles and one of posts.
        articles: the file of articles, where ``path`` is one of posts.
        judgements: a file that says which posts, or queries, are about which articles, or documents; posts that it
            does not name are left out.
        columns: of posts ``text``, ``id``, ``title``, ``about`` and ``part``; of articles ``body``, ``summary``,
            ``article_id`` and ``article_title``.
        opening: of both files ``encoding``, ``sheet``, ``max_unpacked`` and ``missing``, see
            :class:`~ensue.data.file_bytes.Opening`.

    Returns:
        The corpus; and what was understood of the articles and of the posts.

    Raises:
        DataError: naming the file, the line, the field and what to do.
        SettingError: an unknown role, or no file of articles.

    Example:
        >>> from ensue.data.posts.corpus import read_corpus
        >>> corpus, understood = read_corpus("linked.jsonl", "stories.csv")
        >>> len(corpus.posts), len(corpus.articles)
        (400, 24)
    """
    source = require_path(path)
    if articles is None:
        if not source.is_dir():
            raise SettingError(f"{path}: holds posts; give the file of articles with --articles FILE")
        qrels, articles, source = judgement_files(source), *(find_file(source, name) for name in _NAMES)
    else:
        qrels = {} if judgements is None else {"": require_path(judgements, "judgements")}
    # Roles such as body belong to the file of articles, all others to that of posts.
    stated_columns = columns or {}
    article_columns = {ROLES[role]: name for role, name in stated_columns.items() if role in ROLES}
    post_columns = {role: name for role, name in stated_columns.items() if role not in ROLES}
    stories, understood = read_articles(articles, columns=article_columns, **_opening_of_articles(opening))
    posts, post_report = read_posts(source, columns=post_columns, **opening)
    missing: tuple[tuple[str, str], ...] = ()
    if qrels:
        for report, option in ((understood, "article_id"), (post_report, "id")):
            _require_ids(report, next(iter(qrels.values())), option)
        posts, notes, missing = _judged(posts, qrels, stories, opening)
        post_report = replace(post_report, notes=(*post_report.notes, *notes))
    return Corpus(stories, posts, missing), (understood, post_report)


def _require_ids(report: PostsReport, judgements: Path, option: str) -> None:
    """Refuse a table without ids that judgements could name: the numbers of its rows are none.

    Raises:
        DataError: naming the file and the option.
    """
    if report.columns and "id" not in report.columns:
        raise DataError(
            f"{report.path}: has no column of ids that {judgements} could name; name it id in the header, also if it "
            f"is the first column and has no name, or with --columns {option}=…"
        )


def _opening_of_articles(opening: Opening) -> Opening:
    """Return how to open the file of articles: the columns of the training data by the roles of articles."""
    if "schema" not in opening:
        return opening
    trained = opening["schema"]
    columns = {ROLES[role]: name for role, name in trained.columns.items() if role in ROLES}
    return {**opening, "schema": replace(trained, columns=columns)}


def columns_of(articles: PostsReport, posts: PostsReport) -> dict[str, str]:
    """Return role -> column of both files, roles as the ``columns`` of :func:`read_corpus` name them."""
    names = {role: name for name, role in ROLES.items()}
    return {**posts.columns, **{names[role]: name for role, name in articles.columns.items()}}


def judgement_files(folder: Path) -> dict[str, Path]:
    """The files of judgements in a folder by the part each is of: ``qrels/test.tsv``, or ``qrels.tsv`` of no part."""
    # BEIR keeps qrels/train.tsv, qrels/dev.tsv and qrels/test.tsv; other collections one file.
    inside = sorted((folder / _QRELS).iterdir()) if (folder / _QRELS).is_dir() else []
    by_part = {_PART_NAMES.get(name := path.name.lower().split(".")[0], name): path for path in inside}
    alone = sorted(folder.glob(f"{_QRELS}.*"))
    return by_part or ({"": alone[0]} if alone else {})


def _judged(
    posts: Posts, files: Mapping[str, Path], articles: Articles, opening: Opening
) -> tuple[Posts, list[str], tuple[tuple[str, str], ...]]:
    """Return the posts that files of judgements name, each in the part of the first file that names it.

    Returns:
        The posts with the articles they are about; notes; and (part, id) of the judged queries that are not among them.
    """
    frames = list[pl.DataFrame]()
    notes = list[str]()
    for part, path in files.items():
        frame, more_notes = read_judgements(path, **opening)
        frames.append(frame.with_columns(part=pl.lit(part)))
        notes += [f"about by {path}", *more_notes]
    judgements = pl.concat(frames)
    judged_posts, more_notes = judged(posts, judgements, str(next(iter(files.values()))), articles.ids)
    # A query that two files judge is in the part of the first.
    first_part = judgements.unique("query", keep="first", maintain_order=True)
    if "" not in files:
        names = dict(first_part.select("query", "part").iter_rows())
        judged_posts = replace(judged_posts, parts=judged_posts.ids.replace_strict(names, return_dtype=pl.String))
    missing = first_part.filter(~pl.col("query").is_in(posts.ids.implode()))
    return judged_posts, [*notes, *more_notes], tuple(missing.select("part", "query").iter_rows())


def is_corpus(path: Path) -> bool:
    """Return whether a folder holds a file of articles and one of posts."""
    return path.is_dir() and all(_fitting(path, name) for name in _NAMES)


def find_file(folder: Path, kind: str) -> Path:
    """The file of ``articles`` or of ``posts`` in a folder, by its name.

    Raises:
        DataError: none, or more than one.
    """
    files = _fitting(folder, kind)
    if len(files) != 1:
        total = f"{len(files)} files are" if files else "no file is"
        raise DataError(
            f"{folder}: {total} named {' or '.join(_NAMES[kind])}; give one, such as {kind}.jsonl, or name both files"
        )
    return files[0]


def _fitting(folder: Path, kind: str) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.lower().split(".")[0] in _NAMES[kind])


_FIELDS = {2: "query document", 3: "query document relevance", 4: "query iteration document relevance"}
"""Number of fields of a line without names -> the fields."""
MIN_MATCHES = 0.1
"""Fraction of the smaller of two files of ids that must match; below it the files do not belong together."""
_COLUMNS = Roles(
    known=name_table("""
        query: queryid qid query topicid topic postid tweetid
        document: corpusid docid docno documentid document did pid passageid articleid vclaimid
        relevance: score relevance rel relevant label judgement judgment grade
    """),
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
    # Judgements of posts that are not here have no number and are left out.
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
    # Links, post after post, and how many of them each judged post has.
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
    # Few matches are chance: 1, 2, 3 are ids in any file.
    if matches and matches >= MIN_MATCHES * min(len(judged_ids), len(ids)):
        return
    unmatched = judged_ids.filter(~is_match)[0]
    unjudged_ids = ids.filter(~ids.is_in(judged_ids.implode()))
    example = unjudged_ids[0] if len(unjudged_ids) else ids[0]
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
        return frame.with_columns(relevant=pl.lit(True)), (*notes, "the pairs have no relevance: each is a link")
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
    # Fields are between spaces or tabs; a line without any has commas.
    words = lines.str.extract_all(r"\S+" if re.search(r"\s", lines[0].strip()) else r"[^\s,]+")
    width = len(words[0])
    if width not in _FIELDS:
        raise DataError(f"{content.path}, line {numbers[0]}: {plural(width, 'field')}; expected {_SHAPES}")
    fields = _FIELDS[width].split()
    # The first line is a header where its relevance is no number.
    headed = "relevance" in fields and not is_number(words[0][-1])
    words = words[int(headed) :]
    numbers = numbers[int(headed) :]
    if not len(words):
        raise DataError(f"{content.path}: has a header but no judgement")
    for row in (words.list.len() != width).arg_true()[:1]:
        problem = f"{plural(len(words[row]), 'field')}, but the first line has {width}; ids hold no spaces"
        raise DataError(f"{content.path}, line {numbers[row]}: {problem}")
    if width == 4 and _counts_rows(words):
        fields = ["row", "query", "document", "relevance"]
        notes = (*notes, "the first field is a line number and is ignored")
    frame = words.list.to_struct(fields=fields).struct.unnest()
    return Table("qrels", frame, lambda row: f"{content.path}, line {numbers[row]}", {}, notes)


def _counts_rows(words: pl.Series) -> bool:
    """Return whether four fields begin with a row number, in place of TREC's iteration in the second."""
    first, second = words.list.get(0), words.list.get(1)
    # Row numbers rise by one from 0 or 1; the iteration of TREC is the same in all lines.
    counts = pl.int_range(len(words), eager=True)
    numbered = any((first == (counts + begin).cast(pl.String)).all() for begin in (0, 1))
    return numbered and len(words) > 1 and second.n_unique() > 1


def require_links(data: Corpus, where: str) -> None:
    """Refuse data without two articles, or without a post about one of them.

    Raises:
        DataError: naming what to do.
    """
    if len(data.articles) < 2:
        raise DataError(f"{where}: there is one article, so there is nothing to rank; give at least two")
    if not len(data.posts.about):
        raise DataError(f"{where}: no post is about an article; name their column with --columns about=…")
    if not len(data.pairs):
        name = data.posts.about[0]
        raise DataError(
            f"{where}: no post is about a given article; the first names {name!r}, the first article is "
            f"{data.articles.ids[0]!r}: name the columns of ids with --columns about=…,article_id=…"
        )
