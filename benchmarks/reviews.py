"""Simulated reviews on labelled posts: how often the statement is right, and which share of the posts is read for it.

A story is articles drawn at random until they hold a share of the pool's posts; the pool is as large as the part
``test`` and is that part for the reviews, and as many of the other posts for the earlier stories. Both stopping rules
of ``ensue.link.review`` run on the same stories. Beside them stands the ranking's own limit: the share read until 90 %
are found by one who knows the truth, which no rule that must not be wrong can beat, and reading in random order.

    python benchmarks/reviews.py politifact/ clickbait22/ [--reviews 200] [--stories 199] [--share .1] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ensue.classify.logistic import SparseRows
from ensue.data.corpus import Corpus, read_corpus
from ensue.data.posts import Articles
from ensue.link.lexical import Lexical
from ensue.link.predictor import LinkPredictor
from ensue.link.review import ReviewSettings, review, shortfall, story_threshold
from ensue.metrics import Floats
from ensue.studies.provenance import provenance

TARGET = 0.9


class Pool(NamedTuple):
    """Scores of posts with all articles, their links, and their TF-IDF rows."""

    scores: Floats
    related: np.ndarray[Any, np.dtype[np.bool_]]
    rows: SparseRows


class Story(NamedTuple):
    """What a review starts from, and the truth."""

    start: Floats
    rows: SparseRows
    relevant: np.ndarray[Any, np.dtype[np.bool_]]


def pool_of(predictor: LinkPredictor, corpus: Corpus) -> Pool:
    """A part of the data, ranked together."""
    lexical = Lexical("words")
    lexical.add(corpus.posts.texts)
    return Pool(predictor.scores(corpus.posts).whole(), corpus.related, lexical.rows(corpus.posts.texts))


def stories(predictor: LinkPredictor, pool: Pool, size: int, share: float, seed: int) -> Iterator[Story]:
    """Stories without end."""
    random = np.random.default_rng(seed)
    while True:
        kept = np.sort(random.permutation(len(pool.scores))[:size])
        related = pool.related[kept]
        chosen: list[int] = []
        relevant = np.zeros(size, bool)
        for article in random.permutation(np.flatnonzero(related.any(0))).tolist():
            chosen.append(article)
            relevant |= related[:, article]
            if relevant.mean() >= share:
                break
        assert predictor.calibration is not None
        sure = predictor.calibration.probabilities(pool.scores[kept][:, chosen].max(1)).clip(1e-9, 1 - 1e-9)
        places = np.full(len(pool.scores), -1)
        places[kept] = np.arange(size)
        owners, columns, values = pool.rows.cells
        held = places[owners] >= 0
        cells = places[owners][held], columns[held], values[held]
        yield Story(np.log(sure / (1 - sure)), SparseRows(*cells, (size, pool.rows.shape[1])), relevant)


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
    """Two rows a data set, one a rule."""
    corpus, _ = read_corpus(path)
    if "clickbait" in path.name:  # its titles are not there for all posts
        silent = pl.Series([""] * len(corpus.articles))
        corpus = Corpus(Articles(corpus.articles.bodies, silent, corpus.articles.ids), corpus.posts)
    predictor = LinkPredictor("best")
    for _ in predictor.fit(corpus):
        pass
    assert corpus.posts.parts is not None
    test = pool_of(predictor, corpus.part("test"))
    other = pool_of(predictor, corpus.select((corpus.posts.parts != "test").to_numpy()))
    size = len(test.scores)
    earlier = stories(predictor, other, size, share, 1)
    threshold = story_threshold(
        [shortfall(story.start, story.rows, story.relevant) for story, _ in zip(earlier, range(num_stories))]  # noqa: B905
    )
    rows = []
    for rule, own in (("earlier stories", threshold), ("audit", None)):
        new = stories(predictor, test, size, share, 2)
        runs = [run(next(new), ReviewSettings(seed=seed, threshold=own)) for seed in range(reviews)]
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
