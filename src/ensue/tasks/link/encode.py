"""Texts as numbers, of which every score is made: terms, and vectors of the network or the encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.data.posts.dataset import Articles, Posts
from ensue.errors import SettingError
from ensue.learning.state import require_tokens
from ensue.metrics import Floats
from ensue.nn.validation import require_ids, require_table
from ensue.tasks.link.article_index import ArticleIndex
from ensue.tasks.link.dataset import encode_texts
from ensue.tasks.link.models.sbert import unit_vectors
from ensue.tasks.link.pieces import PIECES, with_pieces
from ensue.tasks.link.remembered import Remembered
from ensue.tasks.link.settings import LinkSettings
from ensue.tasks.link.state import LinkState, LinkStateT
from ensue.text.encoder import Encoder
from ensue.text.lexical import COUNTED, Cells, Counted, counted_terms
from ensue.text.terms import Terms
from ensue.text.tokens import Tokens
from ensue.vocabulary import UNKNOWN

LEXICAL = {"tfidf": "words", "bm25": "bm25"}
"""The models that only count, and which score of the article index each is."""


@dataclass(frozen=True, eq=False)
class EncodedPosts:
    """Posts as numbers.

    Attributes:
        num: how many.
        terms: by what is counted; those that the model counts, made when asked for.
        vectors: (posts, width) of a network or an encoder, where the model has one.
    """

    num: int
    terms: Mapping[Counted, Terms]
    vectors: Tensor | None
    _cells: dict[Counted, Cells] = field(default_factory=dict)

    def lexical_scores(self, index: ArticleIndex, name: str) -> npt.NDArray[np.float32]:
        """Return the scores of a name in ``ensue.tasks.link.article_index.KINDS``, (posts, articles)."""
        lexical = index.lexical[name]
        if (kind := lexical.counted) not in self._cells:
            self._cells[kind] = index.lexical[kind].cells(self.terms[kind])
        return lexical.scores_of(self._cells[kind], self.num)

    def cosines(self, articles: Tensor) -> Floats:
        """(posts, articles) with vectors of articles."""
        assert self.vectors is not None
        return (self.vectors @ articles.T).double().numpy()


def encode_posts(state: LinkState, posts: Posts, name: str) -> EncodedPosts:
    """Return posts as numbers for a model of the name, with stored vectors where the state has an index of posts."""
    if state.post_index is None or not has_vectors(state, name):
        return encode_post_texts(state, posts.texts, name)
    return EncodedPosts(len(posts), TermsOf(posts.texts), torch.from_numpy(state.post_index.vectors_of(posts.ids)))


def encode_post_texts(state: LinkState, texts: pl.Series, name: str) -> EncodedPosts:
    """Return the texts of posts as numbers for a model of the name."""
    vectors = vectors_of(state, texts) if has_vectors(state, name) else None
    return EncodedPosts(len(texts), TermsOf(texts), vectors)


def encode_remembered(state: LinkState, posts: Remembered, chosen: slice | Index) -> EncodedPosts:
    """Return some remembered posts as numbers; a network encodes their words again."""
    selected = posts.select(chosen)
    vectors = selected.vectors if selected.tokens is None else network_vectors(state, selected.tokens)
    return EncodedPosts(selected.num, selected.terms, vectors)


class TermsOf(dict[Counted, Terms]):
    """Terms of texts by kind, counted at the first access."""

    def __init__(self, texts: pl.Series) -> None:
        super().__init__()
        self.texts = texts

    def __missing__(self, counted: Counted) -> Terms:
        """Count the terms of a kind."""
        terms = self[counted] = counted_terms(self.texts, counted)
        return terms


def terms_of(texts: pl.Series, name: str) -> dict[Counted, Terms]:
    """Return the terms that a model of the name counts."""
    return {kind: counted_terms(texts, kind) for kind in kinds_of(name)}


def kinds_of(name: str) -> tuple[Counted, ...]:
    """Return the kinds of terms that a model counts."""
    return COUNTED if name == "best" else COUNTED[:1] if name in LEXICAL else ()


def require_remembered(state: LinkState, posts: Remembered) -> None:
    """Check posts of a file, whoever wrote it, for a model whose index is there.

    Raises:
        ValueError: they are of another model, or do not fit together.
    """
    require_ids("the articles of pairs", posts.pairs[:, 0], len(state.article_index))
    network = isinstance(state.settings, LinkSettings)
    if {*posts.terms} != {*kinds_of(state.model_name)} or (posts.tokens is not None) != network:
        raise ValueError("the stored posts belong to another model")
    if posts.tokens is not None:
        first = -PIECES if state.network_settings.bag else UNKNOWN
        require_tokens("tokens", posts.tokens, len(state.tokenizer.vocabulary), first)
    if (posts.vectors is not None) != (state.model is not None and not network):
        raise ValueError("the stored posts belong to another model")
    if posts.vectors is not None:
        require_table("vectors", posts.vectors, torch.float32, [posts.num, state.article_index.vectors.shape[1]])


def has_vectors(state: LinkState, name: str) -> bool:
    """Return whether a model also encodes posts as vectors."""
    return state.model is not None and name not in LEXICAL


def vectors_of(state: LinkState, texts: pl.Series) -> Tensor:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.vectors`."""
    if state.model is None:
        raise SettingError(f"model {state.model_name} has no network and cannot encode texts")
    if isinstance(state.model, Encoder):
        state.model.require(state.metadata.encoder or [])
        vectors = unit_vectors(state.model, texts)
        if (width := state.article_index.vectors.shape[1]) not in (0, vectors.shape[1]):
            raise SettingError(f"encoder {state.model.name!r} makes {vectors.shape[1]} numbers, not {width}")
        return vectors
    return network_vectors(state, encoded(state, texts))


def encoded(state: LinkState, texts: pl.Series) -> Tokens:
    """Texts as the network reads them: ids of words and, of words it has no row for, of their pieces."""
    settings = state.network_settings
    tokens = state.tokenizer.encode(texts, max_words=settings.max_words, keep_words=settings.bag > 0)
    return with_pieces(tokens) if settings.bag else tokens


def network_vectors(state: LinkState, tokens: Tokens) -> Tensor:
    """(texts, width) unit vectors of the network on the CPU, of texts as ids of words."""
    blocks = [block for _, block in encode_texts(state.network.eval(), tokens)]
    return torch.cat(blocks) if blocks else torch.zeros(0, state.network.width)


def joined(state: LinkStateT, articles: Articles) -> tuple[LinkStateT, list[int]]:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.joined`."""
    index, columns, new = state.article_index.joined(articles)
    copy = object.__new__(type(state))
    copy.__dict__ = {**state.__dict__, "_article_index": index}
    if state.model is not None and len(new):
        added = vectors_of(state, articles.select(np.array(new)).texts)
        index.vectors = torch.cat([state.article_index.vectors, added])
    return copy, columns
