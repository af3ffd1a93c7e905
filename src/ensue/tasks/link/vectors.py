"""Vectors of the posts that a folder's model last ranked, kept beside the folder: only new texts are encoded."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ensue.data.posts import Posts
from ensue.tasks.link.index import VectorIndex, fingerprints
from ensue.tasks.link.storage import encoder_of

if TYPE_CHECKING:
    from ensue.tasks.link.predictor import LinkPredictor

AT_ONCE = 1 << 13
"""Posts between two commits."""


class Synced(NamedTuple):
    """What became of an index: posts encoded, taken from it, and deleted from it."""

    new: int
    held: int
    gone: int


def index_of(folder: Path) -> Path:
    """Where the vectors of a model folder's posts stand: beside it, as ``NAME.posts``."""
    place = folder.resolve()
    return place.with_name(f"{place.name}.posts")


def sync(
    predictor: LinkPredictor, posts: Posts, place: Path, count: Callable[[int, int], None] | None = None
) -> Synced:
    """Make an index hold these posts and no others, and let the predictor read from it.

    Vectors of another encoder are of no use and go first. A killed run goes on where it stopped.

    Args:
        predictor: with a network.
        posts: the corpus.
        place: the folder of the index.
        count: called with how many posts are encoded, and how many have to be.

    Raises:
        ModelFolderError: the index is half written or damaged, or the place cannot be written.
    """
    kind = encoder_of(predictor)
    index = VectorIndex.open(place) if place.exists() else None
    if index is not None and index.manifest["kind"] != kind:
        shutil.rmtree(place)
        index = None
    if index is None:
        index = VectorIndex.create(place, predictor.known.vectors.shape[1], kind=kind, bits="float32")
    gone = index.rows["id"].filter((~index.rows["id"].is_in(posts.ids.implode())).to_numpy() & index.standing)
    removed = index.remove(gone) if len(gone) else 0
    marks = fingerprints(posts.texts)
    fresh = np.flatnonzero(index.fresh(posts.ids, marks))
    for low in range(0, len(fresh), AT_ONCE):
        part = fresh[low : low + AT_ONCE]
        vectors = predictor.vectors(posts.texts.gather(part)).numpy()
        index.add(posts.ids.gather(part), marks[part], vectors)
        if count is not None:
            count(low + len(part), len(fresh))
    if len(index) < len(index.standing) / 2:
        index.compact()
    predictor.index = index
    return Synced(len(fresh), len(posts) - len(fresh), removed)
