"""Labelled posts in folds, so that what some of them teach is measured on the others."""

from __future__ import annotations

import numpy as np

from ensue.data.histories import Index, Mask
from ensue.data.near_copies import near_copies
from ensue.data.posts.dataset import Posts, groups_of

FOLDS = 5


def folds_of(posts: Posts, labelled: Mask, seed: int = 0) -> Index:
    """(posts,) the number of each post's fold, from 0 up to ``FOLDS``; all folds hold about as many labels.

    Posts about the same articles stay together, and so do near-copies. Where that leaves fewer than two groups of
    labelled posts a fold, or one group with half of them, near-copies alone stay together; where that does too, none.

    Args:
        posts: the posts.
        labelled: (posts,) those that are about an article.
        seed: of the order of groups of one size.
    """
    for groups in (groups_of(posts), near_copies(posts.texts)):
        if _fits(groups[labelled]):
            return _dealt(groups, labelled, seed)
    return _dealt(np.arange(len(posts)), labelled, seed)


def _fits(groups: Index) -> bool:
    sizes = np.unique(groups, return_counts=True)[1]
    return len(sizes) >= 2 * FOLDS and 2 * int(sizes.max()) <= len(groups)


def _dealt(groups: Index, labelled: Mask, seed: int) -> Index:
    """Groups, those of most labels first, dealt there and back: 0 1 2 2 1 0 0 1 2 … of three folds."""
    roots, numbers = np.unique(groups, return_inverse=True)
    labels = np.bincount(numbers, labelled, len(roots))
    order = np.lexsort((np.random.default_rng(seed).permutation(len(roots)), -labels))
    # There and back, so that the folds that get the largest groups first get the smallest last.
    turn = np.append(np.arange(FOLDS), np.arange(FOLDS)[::-1])
    fold = np.empty(len(roots), np.int64)
    fold[order] = turn[np.arange(len(roots)) % len(turn)]
    return fold[numbers]
