"""Articles and the posts that may be about them: what task ``link`` learns, is scored on, and answers from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.arguments import require_path
from ensue.data.packed import Opening
from ensue.data.posts.dataset import Articles, Pairs, Posts, PostsReport, read_articles, read_posts
from ensue.data.posts.judgements import judged, read_judgements
from ensue.data.posts.splits import given_part, hold_out_posts
from ensue.errors import DataError, SettingError
from ensue.lines import plural
from ensue.records import Post

ROLES = {"body": "body", "article_id": "id", "article_title": "title", "summary": "summary"}
"""What names a column of the articles, and its role there; every other role is one of the posts."""
_NAMES = {
    "articles": ("articles", "stories", "news", "corpus", "documents", "collection"),
    "posts": ("posts", "tweets", "comments", "queries"),
}
_QRELS = "qrels"
_PARTS = {"dev": "valid", "validation": "valid"}


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
        """What is learned, what is held out of it, and by which rule: the file's own parts, or a tenth by article.

        Raises:
            DataError: no post is about an article, or all hang together.
        """
        if {"train", "valid"} <= self.parts:
            part, held = self.part("train"), self.part("valid")
            return part, held, f"as marked in the file: {plural(len(part), 'post')} in train, {len(held):,} in valid"
        whole = self.part("train") if "train" in self.parts and len(self.parts) > 1 else self
        train, valid, rule = hold_out_posts(whole.posts, seed=seed)
        return replace(self, posts=train), replace(self, posts=valid), rule


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
            :class:`~ensue.data.packed.Opening`.

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
        found, articles, source = judgement_files(source), *(find_file(source, name) for name in _NAMES)
    else:
        found = {} if judgements is None else {"": require_path(judgements, "judgements")}
    given = columns or {}
    ours = {ROLES[role]: name for role, name in given.items() if role in ROLES}
    theirs = {role: name for role, name in given.items() if role not in ROLES}
    stories, understood = read_articles(articles, columns=ours, **_opening_of_articles(opening))
    posts, said = read_posts(source, columns=theirs, **opening)
    missing: tuple[tuple[str, str], ...] = ()
    if found:
        for report, option in ((understood, "article_id"), (said, "id")):
            _require_ids(report, next(iter(found.values())), option)
        posts, notes, missing = _judged(posts, found, stories, opening)
        said = replace(said, notes=(*said.notes, *notes))
    return Corpus(stories, posts, missing), (understood, said)


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
    inside = sorted((folder / _QRELS).iterdir()) if (folder / _QRELS).is_dir() else []
    parts = {_PARTS.get(name := path.name.lower().split(".")[0], name): path for path in inside}
    alone = sorted(folder.glob(f"{_QRELS}.*"))
    return parts or ({"": alone[0]} if alone else {})


def _judged(
    posts: Posts, files: Mapping[str, Path], articles: Articles, opening: Opening
) -> tuple[Posts, list[str], tuple[tuple[str, str], ...]]:
    """Return the posts that files of judgements name, each in the part of the first file that names it.

    Returns:
        The posts with the articles they are about; notes; and (part, id) of the judged queries that are not among them.
    """
    frames, notes = list[pl.DataFrame](), list[str]()
    for part, path in files.items():
        frame, more = read_judgements(path, **opening)
        frames.append(frame.with_columns(part=pl.lit(part)))
        notes += [f"about by {path}", *more]
    judgements = pl.concat(frames)
    found, more = judged(posts, judgements, str(next(iter(files.values()))), articles.ids)
    first_part = judgements.unique("query", keep="first", maintain_order=True)
    if "" not in files:
        parts = dict(first_part.select("query", "part").iter_rows())
        found = replace(found, parts=found.ids.replace_strict(parts, return_dtype=pl.String))
    missing = first_part.filter(~pl.col("query").is_in(posts.ids.implode()))
    return found, [*notes, *more], tuple(missing.select("part", "query").iter_rows())


def is_corpus(path: Path) -> bool:
    """Whether a folder holds a file of articles and one of posts."""
    return path.is_dir() and all(_fitting(path, name) for name in _NAMES)


def find_file(folder: Path, kind: str) -> Path:
    """The file of ``articles`` or of ``posts`` in a folder, by its name.

    Raises:
        DataError: none, or more than one.
    """
    files = _fitting(folder, kind)
    if len(files) != 1:
        some = f"{len(files)} files are" if files else "no file is"
        raise DataError(
            f"{folder}: {some} named {' or '.join(_NAMES[kind])}; give one, such as {kind}.jsonl, or name both files"
        )
    return files[0]


def _fitting(folder: Path, kind: str) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.lower().split(".")[0] in _NAMES[kind])
