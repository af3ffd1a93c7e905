"""Simulated reviews on labelled posts: how often the statement is right, and which share of the posts is read for it.

The posts are cut into halves, by article; each half is ranked by a model that learned the other. A story is articles
drawn at random until they hold a share of the posts of a half. The stories that are reviewed come from one half; the
earlier stories, whose labels are known, from the other. Both stopping rules of ``ensue.tasks.link.review`` run on the
same stories. Beside them stand audits of posts that are read in random order, and the ranking's own limit: the share
read until 90 % are found, for one who knows the truth.

    python benchmarks/reviews.py politifact/ clickbait22/ [--reviews 200] [--stories 199] [--share .1] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ensue.data.posts import Articles, Corpus, read_corpus
from ensue.data.posts.splits import hold_out_posts
from ensue.metrics import Floats
from ensue.studies.provenance import provenance
from ensue.tasks.link.measures import Calibration
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.review.review import ReviewSettings, conformal_threshold, review, shortfall
from ensue.text.lexical import Lexical
from ensue.text.sparse import SparseRows, sparse_rows

TARGET = 0.9
RANDOM = "audits, in random order"


class Pool(NamedTuple):
    """Scores of posts with all articles, what they mean, the links, and TF-IDF rows of the posts."""

    scores: Floats
    calibration: Calibration
    related: np.ndarray[Any, np.dtype[np.bool_]]
    rows: SparseRows


class Story(NamedTuple):
    """What a review starts from, and the truth."""

    start: Floats
    rows: SparseRows
    relevant: np.ndarray[Any, np.dtype[np.bool_]]


def pool_of(learned: Corpus, asked: Corpus) -> Pool:
    """One half of the posts, ranked by a model that learned the other."""
    predictor, lexical = LinkPredictor("best"), Lexical("words")
    for _ in predictor.fit(learned):
        pass
    lexical.add(asked.posts.texts)
    scores, rows = predictor.scores(asked.posts).whole(), lexical.rows(asked.posts.texts)
    assert predictor.calibration is not None
    return Pool(scores, predictor.calibration, asked.related, rows)


def stories(pool: Pool, share: float, seed: int) -> Iterator[Story]:
    """Stories without end."""
    random = np.random.default_rng(seed)
    while True:
        chosen: list[int] = []
        relevant = np.zeros(len(pool.scores), bool)
        for article in random.permutation(np.flatnonzero(pool.related.any(0))).tolist():
            chosen.append(article)
            relevant |= pool.related[:, article]
            if relevant.mean() >= share:
                break
        sure = pool.calibration.probabilities(pool.scores[:, chosen].max(1)).clip(1e-9, 1 - 1e-9)
        yield Story(np.log(sure / (1 - sure)), pool.rows, relevant)


def blind(story: Story, seed: int) -> Story:
    """The same posts in random order, from which nothing is learned."""
    none, posts = np.empty(0, np.int64), len(story.start)
    rows = sparse_rows(none, none, np.empty(0), (posts, 1))
    return story._replace(start=np.random.default_rng(seed).random(posts), rows=rows)


def run(story: Story, settings: ReviewSettings) -> dict[str, float]:
    """One review: whether its statement is right, the share it read, and the share read when the target was met."""
    met, truth = 1.0, story.relevant
    for progress in review(story.start, story.rows, lambda asked: truth[asked], settings):
        if progress.found >= TARGET * truth.sum():
            met = min(met, progress.labelled / progress.posts)
    return {
        "right": float(progress.found >= TARGET * truth.sum()),
        "read": progress.labelled / progress.posts,
        "met": met,
        "recall": progress.found / float(truth.sum()),
    }


def measure(path: Path, reviews: int, num_stories: int, share: float) -> list[dict[str, Any]]:
    """A row a rule."""
    corpus, _ = read_corpus(path)
    if "clickbait" in path.name:  # its titles are not there for all posts
        silent = pl.Series([""] * len(corpus.articles))
        corpus = Corpus(Articles(corpus.articles.bodies, silent, corpus.articles.ids), corpus.posts)
    posts = replace(corpus.posts, parts=None)
    first, second = (replace(corpus, posts=half) for half in hold_out_posts(posts, 0.5)[:2])
    new_pool, old_pool = pool_of(first, second), pool_of(second, first)
    size, earlier = len(second), stories(old_pool, share, 1)
    threshold = conformal_threshold(
        [shortfall(story.start, story.rows, story.relevant) for story, _ in zip(earlier, range(num_stories))]  # noqa: B905
    )
    rows = []
    for rule, own in (("earlier stories", threshold), ("audits", None), (RANDOM, None)):
        drawn, runs = stories(new_pool, share, 2), []
        for seed in range(reviews):
            story = blind(next(drawn), seed) if rule == RANDOM else next(drawn)
            runs.append(run(story, ReviewSettings(seed=seed, threshold=own)))
        means = {name: float(np.mean([one[name] for one in runs])) for name in runs[0]}
        rows.append({"data": path.name, "rule": rule, "reviews": reviews, "posts": size, "threshold": own, **means})
        print(
            f"{path.name}, {rule}: right {means['right']:.3f}, read {means['read']:.3f} of {size} posts (target met at "
            f"{means['met']:.3f}), recall {means['recall']:.3f}",
            flush=True,
        )
    return rows


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--reviews", type=int, default=200)
    parser.add_argument("--stories", type=int, default=199)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = [row for path in given.data for row in measure(path, given.reviews, given.stories, given.share)]
    if given.json:
        given.json.write_text(json.dumps({**provenance(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
