"""Splits of posts that tear no article and no group of near-copies apart, and what two parts still share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ensue.data.histories import Index
from ensue.data.near_copies import components, near_copies
from ensue.data.posts.dataset import Posts
from ensue.errors import DataError, SettingError

_EXAMPLES, _SHOWN = 3, 60


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
    if not 0 < share < 1:
        raise SettingError(f"share: {share} is not between 0 and 1")
    linked = np.diff(posts.offsets) > 0
    if not linked.any():
        raise DataError("no post is about an article; name their column with --columns about=…")
    groups = groups_of(posts)
    members = np.bincount(groups[linked], minlength=len(posts))
    roots = np.flatnonzero(members)
    if len(roots) < 2:
        raise DataError("all posts are connected by articles and near copies; give posts about two stories")
    order = np.random.default_rng(seed).permutation(roots)
    left, held = max(round(share * int(linked.sum())), 1), np.zeros(len(posts), bool)
    for root in order:
        if members[root] <= left:
            held[root], left = True, left - int(members[root])
    if not held.any():  # no group is small enough
        held[order[np.argmin(members[order])]] = True
    chosen = held[groups]
    rule = (
        f"{int(chosen.sum()):,} of {len(posts):,} posts at random (seed {seed}), split by article; near copies stay "
        "together"
    )
    return posts.select(~chosen), posts.select(chosen), rule


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
    groups = near_copies(pl.concat([train.texts, other.texts]))
    copies = np.flatnonzero(groups[len(train) :] < len(train))
    return LinkLeaks(
        posts=len(train),
        other_posts=len(other),
        shared_articles=other.about.filter(pl.Series(shared)).n_unique(),
        on_shared=len(np.unique(owners[shared])),
        copies=len(copies),
        examples=tuple(other.texts[int(row)][:_SHOWN] for row in copies[:_EXAMPLES]),
    )


def groups_of(posts: Posts) -> Index:
    """(posts,) the first post that each hangs together with by articles or near-copies."""
    owners = np.repeat(np.arange(len(posts)), np.diff(posts.offsets))
    frame = pl.DataFrame({"about": posts.about, "post": owners})
    first = frame.select(pl.col("post").min().over("about")).to_series().to_numpy()
    rows = np.arange(len(posts))
    return components(np.concatenate([first, near_copies(posts.texts)]), np.concatenate([owners, rows]), len(posts))
