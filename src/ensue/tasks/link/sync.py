"""Vectors of the posts that a folder's model last ranked, kept beside the folder: only new texts are encoded."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ensue.data.posts.dataset import Posts
from ensue.errors import ModelFolderError
from ensue.store.access import ensure_folder, sibling_access
from ensue.tasks.link.encode import vectors_of
from ensue.tasks.link.index.vector_index import VectorIndex, text_hashes
from ensue.tasks.link.state import LinkState
from ensue.text.encoder import Encoder

AT_ONCE = 1 << 13
"""Posts between two commits."""


class Synced(NamedTuple):
    """Result of a synchronisation: posts encoded, reused and deleted."""

    new: int
    held: int
    gone: int


def index_of(folder: Path) -> Path:
    """Return the path of the index of a model folder's posts: next to it, ``NAME.posts``."""
    place = folder.resolve()
    return place.with_name(f"{place.name}.posts")


def sync(state: LinkState, posts: Posts, place: Path, count: Callable[[int, int], None] | None = None) -> Synced:
    """Make an index hold these posts and no others, and let the model read from it.

    Vectors of another encoder are of no use and go first. A killed run goes on where it stopped.

    Args:
        state: with a network.
        posts: the corpus.
        place: the folder of the index.
        count: called with how many posts are encoded, and how many have to be.

    Raises:
        ModelFolderError: the index is half written or damaged, or the place cannot be written.
    """
    kind = encoder_key(state)
    index = VectorIndex.open(place) if place.exists() else None
    if index is not None and index.manifest["kind"] != kind:
        shutil.rmtree(place)
        index = None
    if index is None:
        try:
            ensure_folder(place, sibling_access(place.with_name(place.name.removesuffix(".posts")), 0o777))
        except OSError as error:
            raise ModelFolderError(f"{place}: cannot be written ({error.strerror})") from error
        index = VectorIndex.create(place, state.article_index.vectors.shape[1], kind=kind, bits="float32")
    gone = index.rows["id"].filter((~index.rows["id"].is_in(posts.ids.implode())).to_numpy() & index.standing)
    removed = index.remove(gone) if len(gone) else 0
    hashes = text_hashes(posts.texts)
    fresh = np.flatnonzero(index.fresh(posts.ids, hashes))
    for low in range(0, len(fresh), AT_ONCE):
        part = fresh[low : low + AT_ONCE]
        vectors = vectors_of(state, posts.texts.gather(part)).numpy()
        index.add(posts.ids.gather(part), hashes[part], vectors)
        if count is not None:
            count(low + len(part), len(fresh))
    if len(index) < len(index.standing) / 2:
        index.compact()
    state.post_index = index
    return Synced(len(fresh), len(posts) - len(fresh), removed)


def encoder_key(state: LinkState) -> str:
    """Names what makes vectors of texts: the weights, the words, and the cap; or the encoder, and its probe."""
    if isinstance(state.model, Encoder):
        named = json.dumps([state.model.name, state.metadata.encoder]).encode()
        return hashlib.blake2b(named, digest_size=16).hexdigest()
    words = state.tokenizer.vocabulary.values
    key = hashlib.blake2b(json.dumps([state.tokenizer.lower, *words]).encode(), digest_size=16)
    for name, tensor in state.network.state_dict().items():
        key.update(name.encode() + np.ascontiguousarray(tensor.cpu().numpy()).tobytes())
    key.update(str(state.network_settings.max_words).encode())
    return key.hexdigest()
