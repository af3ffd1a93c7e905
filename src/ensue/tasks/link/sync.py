"""Vectors of the posts that a folder's model last ranked, stored next to the folder: only new texts are encoded."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ensue.data.posts.dataset import Posts
from ensue.tasks.link.state import LinkState
from ensue.tasks.link.vector_index import VectorIndex, text_hashes
from ensue.text.encoder import Encoder

BATCH_SIZE = 1 << 13
"""Number of posts that are encoded at once."""
COMMIT_INTERVAL, COMMIT_FRACTION = 60.0, 0.1
"""Seconds after which vectors are written while others are still to be encoded; more where the last commit, which
writes all vectors, took more than that fraction of them."""


class Synced(NamedTuple):
    """Result of a synchronisation: number of posts that were encoded, were stored already, and were deleted."""

    new: int
    stored: int
    deleted: int


def index_of(folder: Path) -> Path:
    """Return the path of the index of a model folder's posts: next to it, ``NAME.posts``."""
    path = folder.resolve()
    return path.with_name(f"{path.name}.posts")


def sync(state: LinkState, posts: Posts, folder: Path, progress: Callable[[int, int], None] | None = None) -> Synced:
    """Make the index of a model folder hold these posts and no others, and let the model read from it.

    An index of another encoder is replaced. A run that was killed continues from its last commit.

    Args:
        state: a predictor with a network.
        posts: the corpus.
        folder: the model folder.
        progress: called with the number of encoded posts, and of posts to encode.

    Raises:
        ModelFolderError: the index is damaged, or cannot be written.
    """
    encoder = encoder_key(state)
    path = index_of(folder)
    index = VectorIndex.open(path) if path.exists() else None
    if index is None or index.rows.encoder != encoder:
        index = VectorIndex.create(path, state.article_index.vectors.shape[1], encoder, like=folder)
    # Posts that left the corpus must not be found.
    deleted = index.remove(index.rows.ids.filter(~index.rows.ids.is_in(posts.ids.implode())))
    # A text that changed under its id is encoded again.
    hashes = text_hashes(posts.texts)
    new = np.flatnonzero(index.is_new(posts.ids, hashes))
    committed = time.monotonic()
    interval = COMMIT_INTERVAL
    for low in range(0, len(new), BATCH_SIZE):
        batch = new[low : low + BATCH_SIZE]
        vectors = state.vectors(posts.texts.gather(batch))
        index.add(posts.ids.gather(batch), hashes[batch], vectors)
        # A killed run continues from the last commit.
        if (started := time.monotonic()) - committed > interval:
            index.save()
            committed = time.monotonic()
            # Writing must not take more than a fraction of the time.
            interval = max(COMMIT_INTERVAL, (committed - started) / COMMIT_FRACTION)
        if progress is not None:
            progress(low + len(batch), len(new))
    if deleted or len(new):
        index.save()
    state.post_index = index
    return Synced(len(new), len(posts) - len(new), deleted)


def encoder_key(state: LinkState) -> str:
    """Return a hash of what determines vectors: weights, words and maximum length, or the encoder and its probe."""
    if isinstance(state.model, Encoder):
        name_and_probe = json.dumps([state.model.name, state.metadata.encoder]).encode()
        return hashlib.blake2b(name_and_probe, digest_size=16).hexdigest()
    words = state.tokenizer.vocabulary.values
    key = hashlib.blake2b(json.dumps([state.tokenizer.lower, *words]).encode(), digest_size=16)
    for name, tensor in state.network.state_dict().items():
        key.update(name.encode() + np.ascontiguousarray(tensor.cpu().numpy()).tobytes())
    key.update(str(state.network_settings.max_words).encode())
    return key.hexdigest()
