"""Checks of posts and articles: what they hold, and warnings about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ensue.data.near_copies import headline_copies, near_copies
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, LinkLeaks, Posts, PostsReport, link_leaks
from ensue.data.schema import FindingRow, counts_text
from ensue.lines import part_of, plural
from ensue.records import Post

_ROWS, _SHOWN = 3, 80
_LEAST_ID = 6


@dataclass(frozen=True, kw_only=True)
class LinkFindings:
    """Counts, a glance at the data, and warnings; goes into JSON by ``dataclasses.asdict``."""

    understood: tuple[PostsReport, PostsReport]
    """Reports on the articles and on the posts."""
    articles: int
    posts: int
    links: int
    """Links to articles that are there."""
    linked_posts: int
    linked_articles: int
    most_posts: int
    """Posts about the article that most are about."""
    unknown_links: int
    """Links to articles that are not there."""
    median_words: int
    longest_words: int
    median_post_words: int
    near_copies: int
    """Posts that nearly repeat an earlier one."""
    headlines: int
    """Posts that repeat a headline."""
    parts: dict[str, int]
    rows: tuple[Post, ...]
    splits: dict[str, LinkLeaks]
    """By the name of another file, or of a part of this one."""
    warnings: tuple[str, ...] = field(default=())

    def table(self) -> list[FindingRow]:
        """Return the findings for people, one row each."""
        linked = f"{plural(self.linked_posts, 'post')} and {plural(self.linked_articles, 'article')}"
        return [
            ("articles", f"{self.articles:,}", f"words: median {self.median_words:,}, max {self.longest_words:,}"),
            ("posts", f"{self.posts:,}", f"words: median {self.median_post_words:,}"),
            ("links", f"{self.links:,}", f"between {linked}, at most {self.most_posts:,} per article"),
            *([("parts", f"{len(self.parts):,}", counts_text(self.parts))] if self.parts else []),
            ("near copies", f"{self.near_copies:,}", "posts that nearly repeat an earlier one"),
            ("copies of a headline", f"{self.headlines:,}", "posts"),
            *(
                (name, plural(leak.other_posts, "post"), f"{leak.on_shared:,} about a shared article, {copies}")
                for name, leak in self.splits.items()
                for copies in [plural(leak.copies, "near copy", "near copies")]
            ),
        ]


def check(
    data: Corpus | Posts | Articles,
    understood: tuple[PostsReport, PostsReport] | PostsReport,
    others: Mapping[str, Corpus] | None = None,
) -> LinkFindings | AloneFindings:
    """Return the findings on articles with posts, or on a file of either alone, which has one report."""
    if isinstance(data, Corpus):
        assert isinstance(understood, tuple)
        return _check_links(data, understood, others or {})
    assert isinstance(understood, PostsReport)
    return _check_alone(data, understood)


def _check_links(
    corpus: Corpus, understood: tuple[PostsReport, PostsReport], others: Mapping[str, Corpus]
) -> LinkFindings:
    """Count, show and warn.

    Args:
        corpus: what a model would be trained on; of a file with parts, every other part is compared with ``train``.
        understood: what the readers said of the articles and of the posts.
        others: other splits by name, such as ``{"test": …}``.
    """
    pairs, unknown = corpus.posts.pairs(corpus.articles)
    posts = corpus.posts
    train = corpus.part("train") if "train" in corpus.parts else corpus
    parts = {name: corpus.part(name) for name in sorted(corpus.parts - {"train"}) if "train" in corpus.parts}
    splits = {name: link_leaks(train.posts, own.posts) for name, own in {**parts, **others}.items()}
    repeated = int((near_copies(posts.texts) != np.arange(len(posts))).sum())
    pasted = int((headline_copies(posts.texts, corpus.articles.titles) >= 0).sum())
    words = corpus.articles.texts.str.count_matches(r"\S+").to_numpy()
    return LinkFindings(
        understood=understood,
        articles=len(corpus.articles),
        posts=len(posts),
        links=len(pairs),
        linked_posts=len(np.unique(pairs[:, 1])),
        linked_articles=len(np.unique(pairs[:, 0])),
        most_posts=int(np.bincount(pairs[:, 0]).max(initial=0)),
        unknown_links=unknown,
        median_words=int(np.median(words)),
        longest_words=int(words.max()),
        median_post_words=int(np.median(posts.texts.str.count_matches(r"\S+").to_numpy())),
        near_copies=repeated,
        headlines=pasted,
        parts=dict(posts.parts.value_counts(sort=True).iter_rows()) if posts.parts is not None else {},
        rows=tuple(_glance(corpus, row) for row in range(min(_ROWS, len(posts)))),
        splits=splits,
        warnings=(
            *(warning for report in understood for warning in report.warnings),
            *_warnings(corpus, unknown, pasted, splits),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class AloneFindings:
    """Findings on a file of posts alone or of articles alone; written to JSON by ``dataclasses.asdict``."""

    understood: PostsReport
    kind: str
    """``posts`` or ``articles``."""
    texts: int
    median_words: int
    longest_words: int
    near_copies: int
    """Texts that nearly repeat an earlier one."""
    rows: tuple[Post, ...]
    warnings: tuple[str, ...]

    def table(self) -> list[FindingRow]:
        """Return the findings for people, one row each."""
        words = f"words: median {self.median_words:,}, max {self.longest_words:,}"
        copies = f"{self.kind} that nearly repeat an earlier one"
        return [(self.kind, f"{self.texts:,}", words), ("near copies", f"{self.near_copies:,}", copies)]


def _check_alone(texts_alone: Posts | Articles, understood: PostsReport) -> AloneFindings:
    """Count, show and say what is lacking.

    Args:
        texts_alone: posts or articles; not empty.
        understood: what the reader said of them.
    """
    words = texts_alone.texts.str.count_matches(r"\S+").to_numpy()
    copies = int((near_copies(texts_alone.texts) != np.arange(len(texts_alone))).sum())
    posts = isinstance(texts_alone, Posts)
    shown = ((texts_alone.texts[row], texts_alone.ids[row]) for row in range(min(_ROWS, len(texts_alone))))
    lacking = "articles: give them with --articles" if posts else "posts: check those with --articles and this file"
    return AloneFindings(
        understood=understood,
        kind="posts" if posts else "articles",
        texts=len(texts_alone),
        median_words=int(np.median(words)),
        longest_words=int(words.max()),
        near_copies=copies,
        rows=tuple(Post(_cut(text), name) for text, name in shown),
        warnings=(*understood.warnings, f"training and scoring need the {lacking}"),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _glance(corpus: Corpus, row: int) -> Post:
    post = corpus.posts.record(row)
    return Post(_cut(post.text), post.id, post.about)


def _warnings(corpus: Corpus, unknown: int, pasted: int, splits: Mapping[str, LinkLeaks]) -> Iterator[str]:
    if unknown:
        yield f"{part_of(unknown, len(corpus.posts.about), 'link', 'names', 'name')} an article that is missing"
    if pasted > len(corpus.posts) / 10:
        yield (
            f"{part_of(pasted, len(corpus.posts), 'post', 'repeats', 'repeat')} a headline: matching titles finds those"
        )
    if held := _named(corpus):
        yield (
            f"{part_of(held, len(corpus.posts), 'post', 'holds', 'hold')} the id of an article that it is about: "
            "matching ids finds those"
        )
    for name, leak in splits.items():
        yield from _of_split(name, leak)


def _of_split(name: str, leak: LinkLeaks) -> Iterator[str]:
    if leak.on_shared:
        yield (
            f"{part_of(leak.on_shared, leak.other_posts, 'post', 'is', 'are', of=name)} about an article that is in "
            "both files; split by article"
        )
    if leak.copies:
        verbs = ("nearly repeats", "nearly repeat")
        yield f"{part_of(leak.copies, leak.other_posts, 'post', *verbs, of=name)} a training post"


def leaks_between(corpus: Corpus, other: Corpus, name: str) -> Iterator[str]:
    """Find leaks between the training posts and another part: shared articles and near copies.

    Args:
        corpus: what is trained on; of a file with parts its ``train``.
        other: the other part; of a file with parts its ``test``.
        name: what it is called.
    """
    train = corpus.part("train") if "train" in corpus.parts else corpus
    asked = other.part("test") if "test" in other.parts else other
    yield from _of_split(name, link_leaks(train.posts, asked.posts))


def _named(corpus: Corpus) -> int:
    """Count the posts that contain the id of an article they are about; short ids may occur by chance."""
    pairs = corpus.pairs
    held = pl.DataFrame(
        {
            "post": pairs[:, 1],
            "text": corpus.posts.texts.gather(pairs[:, 1]).str.to_lowercase(),
            "id": corpus.articles.ids.gather(pairs[:, 0]).str.to_lowercase(),
        }
    ).filter(pl.col("id").str.len_chars() >= _LEAST_ID)
    return held.filter(pl.col("text").str.contains(pl.col("id"), literal=True))["post"].n_unique()
