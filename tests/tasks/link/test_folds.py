"""Folds of labelled posts: whole articles where there are enough, as many labels in each."""

from __future__ import annotations

import numpy as np

from ensue import Post
from ensue.data.posts.dataset import Posts
from ensue.tasks.link.folds import FOLDS, folds_of

WORDS = (
    "harbour", "railway", "school", "storm", "museum", "bakery", "ballot", "hospital", "library", "forest", "market",
    "bridge",
)  # fmt: skip


def labelled(counts: list[int]) -> Posts:
    """So many posts about each of some articles, no two alike."""
    posts = [(article, number) for article, num in enumerate(counts) for number in range(num)]
    return Posts.of(
        Post(
            f"{WORDS[article]} {WORDS[number % 12]} {number} {article} {number * 7919}",
            f"{article}-{number}",
            (WORDS[article],),
        )
        for article, number in posts
    )


def test_articles_stay_whole_and_labels_are_even() -> None:
    posts = labelled([6, 5, 5, 4, 4, 3, 3, 3, 2, 2, 2, 1])
    folds = folds_of(posts, np.ones(len(posts), bool))
    for name in posts.about.unique():
        assert len(set(folds[(posts.about == name).to_numpy()])) == 1
    # Dealt there and back: 6 2 2, 5 2, 5 3, 4 3, 4 3 and the 1.
    counts = np.bincount(folds, minlength=FOLDS)
    assert counts.sum() == 40 and counts.max() - counts.min() <= 3


def test_one_article_with_most_labels_is_torn() -> None:
    posts = labelled([30, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    assert np.bincount(folds_of(posts, np.ones(41, bool))).tolist() == [9, 8, 8, 8, 8]


def test_few_articles_are_torn_but_near_copies_are_not() -> None:
    same = [Post(f"the ferry sails at night again and again {mark}", f"c{mark}", ("a",)) for mark in "!?"]
    posts = Posts.of([*same, *labelled([9, 8]).records()])
    folds = folds_of(posts, np.ones(19, bool))
    assert folds[0] == folds[1] and np.bincount(folds).min() >= 3


def test_posts_without_a_label_fill_the_folds_last() -> None:
    posts = labelled([2] * 12)
    mask = np.arange(24) < 10
    folds = folds_of(posts, mask)
    assert np.bincount(folds[mask], minlength=FOLDS).tolist() == [2] * 5
