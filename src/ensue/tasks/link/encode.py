"""Texts as numbers, of which every score is made: terms, and vectors of the network or the encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ensue.data.histories import Index
from ensue.data.posts.dataset import Posts
from ensue.learning.state import require_tokens
from ensue.metrics import Floats
from ensue.nn.validation import require_ids, require_table
from ensue.tasks.link.pieces import PIECES
from ensue.tasks.link.settings import LinkSettings
from ensue.tasks.link.state import LinkState, RememberedPosts
from ensue.text.encoder import Vectors
from ensue.text.lexical import TERM_KINDS, TermKind, counted_terms
from ensue.text.terms import Terms
from ensue.vocabulary import UNKNOWN

LEXICAL = {"tfidf": "words", "bm25": "bm25"}
"""Score of the article index that each count-based model is."""


@dataclass(frozen=True, eq=False)
class EncodedPosts:
    """Posts as numbers.

    Attributes:
        num: number of posts.
        terms: by kind, counted at the first access.
        vectors: (posts, width) of a network or an encoder, where the model has one.
    """

    num: int
    terms: Mapping[TermKind, Terms]
    vectors: Vectors | None

    def cosines(self, articles: Vectors) -> Floats:
        """Return cosines with vectors of articles, (posts, articles)."""
        assert self.vectors is not None
        return (self.vectors @ articles.T).astype(np.float64)


def encode_posts(state: LinkState, posts: Posts, name: str) -> EncodedPosts:
    """Return posts as numbers for a model of the name, with stored vectors where the state has an index of posts."""
    if state.post_index is None or not state.has_vectors(name):
        return encode_post_texts(state, posts.texts, name)
    return EncodedPosts(len(posts), TermsOf(posts.texts), state.post_index.vectors_of(posts.ids))


def encode_post_texts(state: LinkState, texts: pl.Series, name: str) -> EncodedPosts:
    """Return the texts of posts as numbers for a model of the name."""
    vectors = state.vectors(texts) if state.has_vectors(name) else None
    return EncodedPosts(len(texts), TermsOf(texts), vectors)


def encode_remembered(state: LinkState, posts: RememberedPosts, rows: slice | Index) -> EncodedPosts:
    """Return some remembered posts as numbers; a network encodes their words again."""
    selected = posts.select(rows)
    vectors = selected.vectors if selected.tokens is None else state.network.vectors(selected.tokens)
    return EncodedPosts(selected.num, selected.terms, vectors)


class TermsOf(dict[TermKind, Terms]):
    """Terms of texts by kind, counted at the first access."""

    def __init__(self, texts: pl.Series) -> None:
        super().__init__()
        self.texts = texts

    def __missing__(self, counted: TermKind) -> Terms:
        """Count the terms of a kind."""
        terms = self[counted] = counted_terms(self.texts, counted)
        return terms


def terms_of(texts: pl.Series, name: str) -> dict[TermKind, Terms]:
    """Return the terms that a model of the name counts."""
    return {kind: counted_terms(texts, kind) for kind in kinds_of(name)}


def kinds_of(name: str) -> tuple[TermKind, ...]:
    """Return the kinds of terms that a model counts."""
    return TERM_KINDS if name == "best" else TERM_KINDS[:1] if name in LEXICAL else ()


def require_remembered(state: LinkState, posts: RememberedPosts) -> None:
    """Check the remembered posts of a folder.

    Raises:
        ValueError: they are of another model, or do not fit together.
    """
    require_ids("the articles of pairs", posts.pairs[:, 0], len(state.article_index))
    is_network = isinstance(state.settings, LinkSettings)
    if {*posts.terms} != {*kinds_of(state.model_name)} or (posts.tokens is not None) != is_network:
        raise ValueError("the stored posts belong to another model")
    if posts.tokens is not None:
        # Pieces of unknown words have ids below 0.
        first = -PIECES if state.network_settings.bag else UNKNOWN
        require_tokens("tokens", posts.tokens, len(state.tokenizer.vocabulary), first)
    if (posts.vectors is not None) != (state.model is not None and not is_network):
        raise ValueError("the stored posts belong to another model")
    if posts.vectors is not None:
        require_table("vectors", posts.vectors, np.float32, [posts.num, state.article_index.vectors.shape[1]])
