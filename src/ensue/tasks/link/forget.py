"""Forget an author of posts: remove what a model folder holds of single posts, and their vectors beside the folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from ensue.data.histories import Mask
from ensue.data.posts.dataset import Posts
from ensue.learning.life import Forgotten, note_remaining_words, remove_examples, remove_hashes, remove_words
from ensue.store.pack import TABLES
from ensue.tasks.link.encode import terms_of
from ensue.tasks.link.state import LinkState, RememberedPosts
from ensue.tasks.link.sync import index_of
from ensue.tasks.link.train import training_hashes
from ensue.tasks.link.vector_index import VectorIndex
from ensue.text.lexical import TermKind
from ensue.text.terms import Terms
from ensue.text.tokens import rows_of_tokens
from ensue.vocabulary import FIRST

SAME = 1 - 1e-5
"""The cosine from which two vectors are those of one text."""


def forget_users(
    state: LinkState, records: tuple[Posts, Posts] | None, users: Collection[str], folder: Path
) -> Forgotten:
    """Remove some authors of posts.

    Args:
        state: of a model folder.
        records: their posts, and all other posts that were learned.
        users: their names.
        folder: the model folder, beside which vectors of posts may be.
    """
    forgotten = Forgotten()
    if records is None or not len(records[0]):
        return forgotten
    mine, other_posts = records
    complete = remove_hashes(state, forgotten, training_hashes(mine), training_hashes(other_posts), "posts")
    words = state.article_index.word_terms
    # Words that only the person's posts have.
    own_terms = np.intersect1d(state.post_terms, np.setdiff1d(words(mine.texts), words(other_posts.texts)))
    state.post_terms = np.setdiff1d(state.post_terms, own_terms)
    forgotten.add(TABLES, "fingerprints of words that nobody else used", len(own_terms))
    # A text that someone else posted too is not the person's alone.
    texts = {*mine.texts} - {*other_posts.texts}
    remove_examples(state, forgotten, lambda shown: shown[0] not in texts)
    if state.remembered is not None:
        remaining = np.flatnonzero(~_held_by(state, state.remembered, mine))
        forgotten.add(TABLES, "remembered posts", state.remembered.num - len(remaining))
        state.remembered = state.remembered.select(remaining) if len(remaining) else None
        state.metadata.remembered = len(remaining)
    # Vectors of posts are next to the folder.
    if (path := index_of(folder)).exists():
        index = VectorIndex.open(path)
        forgotten.add(path.name, "vectors of posts", index.remove(mine.ids))
        index.save()
    if len(state.tokenizer.vocabulary) > FIRST and complete:
        columns = (mine.texts, other_posts.texts, state.article_index.articles.texts)
        # Words of the person that occur in no other post and in no article.
        used, *other_ids = (np.unique(state.tokenizer.encode(column).ids) for column in columns)
        remove_words(state, forgotten, np.setdiff1d(used, np.concatenate(other_ids)))
    elif len(state.tokenizer.vocabulary) > FIRST:
        note_remaining_words(forgotten, "posts")
    if state.schedule is not None:
        forgotten.remains.append(
            "weights of the network, which was trained on all posts: fit again without the person's"
        )
    forgotten.remains.append(
        "numbers that all posts chose (weights of scores, probabilities), and articles whole, whoever wrote them: fit "
        "again"
    )
    return forgotten


def _held_by(state: LinkState, remembered: RememberedPosts, posts: Posts) -> Mask:
    """Return whether each remembered post is one of some posts, by what the folder holds of it."""
    if remembered.vectors is not None:
        return (remembered.vectors @ state.vectors(posts.texts).T).max(axis=1) >= SAME
    if remembered.tokens is not None:
        tokens = {*rows_of_tokens(state.encode(posts.texts))}
        return np.array([row in tokens for row in rows_of_tokens(remembered.tokens)], np.bool_)
    terms = {*_term_rows(terms_of(posts.texts, state.model_name), len(posts))}
    return np.array([row in terms for row in _term_rows(remembered.terms, remembered.num)], np.bool_)


def _term_rows(terms: Mapping[TermKind, Terms], num: int) -> list[tuple[bytes, ...]]:
    """Return the terms of each post and how often it holds each."""
    columns = []
    for owners, keys, counts in terms.values():
        # Terms of each post in the order of their keys, so that equal posts have equal bytes.
        order = np.lexsort((keys, owners))
        ends = np.searchsorted(owners[order], np.arange(num + 1))
        columns.append([(keys[order[a:b]], counts[order[a:b]]) for a, b in pairwise(ends)])
    return [tuple(array.tobytes() for cell in row for array in cell) for row in zip(*columns, strict=True)]
