"""Checks of posts and articles: what they hold, and warnings about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ensue.data.near_copies import headline_copies, near_copies
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, LinkLeaks, Posts, PostsReport, link_leaks
from ensue.data.schema import FindingRow, counts_text
from ensue.lines import cut, part_of, plural
from ensue.records import Post

_ROWS, _MAX_CHARACTERS = 3, 80
"""Rows that are shown, and characters of each."""
_MIN_ID_CHARACTERS = 6


@dataclass(frozen=True, kw_only=True)
class LinkFindings:
    """Findings on articles with posts, or on a file of either alone, whose other fields are ``None``.

    They are written to JSON by ``dataclasses.asdict``, without what is ``None``.
    """

    understood: tuple[PostsReport, PostsReport] | PostsReport
    """Reports on the articles and on the posts, or on the one file."""
    median_words: int
    """Median of the articles, or of the posts in a file of posts alone."""
    longest_words: int
    near_copies: int
    """Texts of the posts, or of the one file, that nearly repeat an earlier one."""
    rows: tuple[Post, ...]
    warnings: tuple[str, ...]
    kind: str | None = None
    """``posts`` or ``articles``, of a file alone."""
    texts: int | None = None
    """Number of texts of a file alone."""
    articles: int | None = None
    posts: int | None = None
    links: int | None = None
    """Links to articles that are there."""
    linked_posts: int | None = None
    linked_articles: int | None = None
    most_posts: int | None = None
    """Posts about the article that most are about."""
    unknown_links: int | None = None
    """Links to articles that are not there."""
    median_post_words: int | None = None
    headlines: int | None = None
    """Posts that repeat a headline."""
    parts: dict[str, int] | None = None
    splits: dict[str, LinkLeaks] | None = None
    """By the name of another file, or of a part of this one."""

    def table(self) -> list[FindingRow]:
        """Return the findings for people, one row each."""
        words = f"words: median {self.median_words:,}, max {self.longest_words:,}"
        if self.kind is not None:
            copies = f"{self.kind} that nearly repeat an earlier one"
            return [(self.kind, f"{self.texts:,}", words), ("near copies", f"{self.near_copies:,}", copies)]
        linked = f"{plural(self.linked_posts or 0, 'post')} and {plural(self.linked_articles or 0, 'article')}"
        return [
            ("articles", f"{self.articles:,}", words),
            ("posts", f"{self.posts:,}", f"words: median {self.median_post_words:,}"),
            ("links", f"{self.links:,}", f"between {linked}, at most {self.most_posts:,} per article"),
            *([("parts", f"{len(self.parts):,}", counts_text(self.parts))] if self.parts else []),
            ("near copies", f"{self.near_copies:,}", "posts that nearly repeat an earlier one"),
            ("copies of a headline", f"{self.headlines:,}", "posts"),
            *(_split_row(name, leak) for name, leak in (self.splits or {}).items()),
        ]


def _split_row(name: str, leak: LinkLeaks) -> FindingRow:
    copies = plural(leak.copies, "near copy", "near copies")
    return name, plural(leak.other_posts, "post"), f"{leak.on_shared:,} about a shared article, {copies}"


def check(
    data: Corpus | Posts | Articles,
    understood: tuple[PostsReport, PostsReport] | PostsReport,
    others: Mapping[str, Corpus] | None = None,
) -> LinkFindings:
    """Return the findings on articles with posts, or on a file of either alone.

    Args:
        data: what a model would be trained on; of a file with parts, every other part is compared with ``train``.
        understood: the reports on the articles and on the posts, or on the one file.
        others: other splits by name, such as ``{"test": …}``.
    """
    corpus = data if isinstance(data, Corpus) else None
    posts = data.posts if isinstance(data, Corpus) else data
    words = _word_counts(data.articles if isinstance(data, Corpus) else data)
    reports = understood if isinstance(understood, tuple) else (understood,)
    findings = LinkFindings(
        understood=understood,
        median_words=int(np.median(words)),
        longest_words=int(words.max()),
        near_copies=int((near_copies(posts.texts) != np.arange(len(posts))).sum()),
        rows=tuple(_shortened(posts, row, corpus) for row in range(min(_ROWS, len(posts)))),
        warnings=tuple(warning for report in reports for warning in report.warnings),
    )
    if corpus is not None:
        return _with_links(findings, corpus, others or {})
    kind = "posts" if isinstance(data, Posts) else "articles"
    missing = {
        "posts": "articles: give them with --articles",
        "articles": "posts: check those with --articles and this file",
    }
    warning = f"training and scoring need the {missing[kind]}"
    return replace(findings, kind=kind, texts=len(posts), warnings=(*findings.warnings, warning))


def _with_links(findings: LinkFindings, corpus: Corpus, others: Mapping[str, Corpus]) -> LinkFindings:
    """Add the findings on links between articles and posts."""
    posts = corpus.posts
    pairs, num_unknown = posts.pairs(corpus.articles)
    train = _training_part(corpus)
    # Parts of the file are compared with its training part.
    file_splits = {name: corpus.part(name) for name in sorted(corpus.parts - {"train"}) if "train" in corpus.parts}
    splits = {name: link_leaks(train.posts, split.posts) for name, split in {**file_splits, **others}.items()}
    # Copies of headlines are found by title alone, so they say little about a model.
    num_headlines = int((headline_copies(posts.texts, corpus.articles.titles) >= 0).sum())
    return replace(
        findings,
        articles=len(corpus.articles),
        posts=len(posts),
        links=len(pairs),
        linked_posts=len(np.unique(pairs[:, 1])),
        linked_articles=len(np.unique(pairs[:, 0])),
        most_posts=int(np.bincount(pairs[:, 0]).max(initial=0)),
        unknown_links=num_unknown,
        median_post_words=int(np.median(_word_counts(posts))),
        headlines=num_headlines,
        parts=dict(posts.parts.value_counts(sort=True).iter_rows()) if posts.parts is not None else {},
        splits=splits,
        warnings=(*findings.warnings, *_warnings(corpus, num_unknown, num_headlines, splits)),
    )


def _word_counts(texts: Posts | Articles) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return texts.texts.str.count_matches(r"\S+").to_numpy()


def _shortened(texts: Posts | Articles, row: int, corpus: Corpus | None) -> Post:
    """Return the beginning of a text, and of a corpus the articles that the post is about."""
    text, name = cut(texts.texts[row], _MAX_CHARACTERS), texts.ids[row]
    return Post(text, name) if corpus is None else Post(text, name, corpus.posts.record(row).about)


def _training_part(corpus: Corpus) -> Corpus:
    return corpus.part("train") if "train" in corpus.parts else corpus


def _warnings(corpus: Corpus, num_unknown: int, num_headlines: int, splits: Mapping[str, LinkLeaks]) -> Iterator[str]:
    num_posts = len(corpus.posts)
    if num_unknown:
        yield f"{part_of(num_unknown, len(corpus.posts.about), 'link', 'names', 'name')} an article that is missing"
    if num_headlines > num_posts / 10:
        repeats = part_of(num_headlines, num_posts, "post", "repeats", "repeat")
        yield f"{repeats} a headline: matching titles finds those"
    if num_named := _count_named(corpus):
        posts = part_of(num_named, num_posts, "post", "holds", "hold")
        yield f"{posts} the id of an article that it is about: matching ids finds those"
    for name, leak in splits.items():
        yield from _leak_warnings(name, leak)


def _leak_warnings(name: str, leak: LinkLeaks) -> Iterator[str]:
    if leak.on_shared:
        posts = part_of(leak.on_shared, leak.other_posts, "post", "is", "are", of=name)
        yield f"{posts} about an article that is in both files; split by article"
    if leak.copies:
        posts = part_of(leak.copies, leak.other_posts, "post", "nearly repeats", "nearly repeat", of=name)
        yield f"{posts} a training post"


def leaks_between(corpus: Corpus, other: Corpus, name: str) -> Iterator[str]:
    """Find leaks between the training posts and another part: shared articles and near copies.

    Args:
        corpus: training data; of a file with parts its ``train``.
        other: the other part; of a file with parts its ``test``.
        name: of the other part.
    """
    test = other.part("test") if "test" in other.parts else other
    yield from _leak_warnings(name, link_leaks(_training_part(corpus).posts, test.posts))


def _count_named(corpus: Corpus) -> int:
    """Count the posts that contain the id of an article they are about; short ids may occur by chance."""
    pairs = corpus.pairs
    frame = pl.DataFrame(
        {
            "post": pairs[:, 1],
            "text": corpus.posts.texts.gather(pairs[:, 1]).str.to_lowercase(),
            "id": corpus.articles.ids.gather(pairs[:, 0]).str.to_lowercase(),
        }
        # A short id may occur in a post by chance.
    ).filter(pl.col("id").str.len_chars() >= _MIN_ID_CHARACTERS)
    return frame.filter(pl.col("text").str.contains(pl.col("id"), literal=True))["post"].n_unique()
