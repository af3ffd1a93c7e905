"""Held-out posts that stay in a folder, as numbers with the articles they are about, so that updates can be tested.

Of a post stay what the model reads it by: its terms and how often it holds each (lexical models), the ids of its words
in their order (networks), or its vector (an encoder).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ensue.data.corpus import Corpus
from ensue.data.histories import Index
from ensue.data.posts import Pairs
from ensue.data.tokens import Tokens
from ensue.metrics import Floats
from ensue.tasks.link.lexical import Arrays, Terms
from ensue.tasks.link.measures import by_row
from ensue.tasks.link.scoring import EncodedPosts, LinkScores, has_vectors, terms_of

if TYPE_CHECKING:
    from ensue.tasks.link.predictor import LinkPredictor

FILE = "remembered.safetensors"
_TERMS, _TOKENS, _VECTORS = ("owners", "keys", "counts"), ("ids", "sentences", "texts"), "vectors"


@dataclass(frozen=True, eq=False)
class Remembered:
    """Posts as numbers, and the articles they are about.

    Attributes:
        num: how many posts.
        pairs: (links, 2) the number of an article on the shelf, and of a post about it.
        terms: by kind, of lexical models.
        tokens: of networks.
        vectors: (posts, width) of an encoder.
    """

    num: int
    pairs: Pairs
    terms: Mapping[str, Terms]
    tokens: Tokens | None = None
    vectors: Tensor | None = None

    def encoded(self, predictor: LinkPredictor, chosen: slice | Index) -> EncodedPosts:
        """Some of the posts for a model that reads such numbers; a network reads them anew."""
        index = np.arange(self.num)[chosen]
        vectors = self.vectors
        if self.tokens is not None:
            vectors = predictor.vectors_of(self.tokens.select(index))
        elif vectors is not None:
            vectors = vectors[torch.from_numpy(index)]
        return EncodedPosts(len(index), {kind: _part(terms, index) for kind, terms in self.terms.items()}, vectors)


def remember(predictor: LinkPredictor, held: Corpus, num: int) -> Remembered | None:
    """At most ``num`` held-out posts that have a word and a known article, drawn at random; ``None`` for none.

    Args:
        predictor: trained.
        held: posts with the predictor's articles.
        num: how many.
    """
    usable = np.intersect1d(held.pairs[:, 1], held.posts.texts.str.contains(r"\w").arg_true().to_numpy())
    drawn = np.sort(np.random.default_rng(predictor.seed).permutation(usable)[:num])
    if not len(drawn):
        return None
    part, name, tokens, vectors = held.select(drawn), predictor.model_name, None, None
    texts = part.posts.texts
    if has_vectors(predictor, name) and predictor.schedule is not None:
        tokens = predictor.tokenizer.encode(texts, max_words=predictor.settings.max_words)
    elif has_vectors(predictor, name):
        vectors = predictor.vectors(texts)
    return Remembered(len(drawn), part.pairs, terms_of(texts, name), tokens, vectors)


def reciprocal_ranks(predictor: LinkPredictor, posts: Remembered, known: pl.Series, name: str = "") -> Floats:
    """(posts,) one over the rank of the best article that each is about, among articles of known ids.

    An article that came since under a known id counts as the one of that id: it should not be found by others' posts.

    Args:
        predictor: the model that ranks.
        posts: of this model or of a former version of it.
        known: (articles,) ids of the articles that the posts were linked to.
        name: of ``best`` the network whose cosine alone shall rank.
    """
    ids = predictor.articles.ids
    columns = ids.is_in(known.implode()).arg_true().to_numpy()
    owners = pl.DataFrame({"id": known.gather(posts.pairs[:, 0]), "post": posts.pairs[:, 1]})
    found = owners.join(pl.DataFrame({"id": ids.gather(columns), "column": np.arange(len(columns))}), on="id")
    related = np.zeros((posts.num, len(columns)), bool)
    related[found["post"].to_numpy(), found["column"].to_numpy()] = True
    name = name or predictor.model_name
    scores = LinkScores(predictor, posts.num, lambda chosen: posts.encoded(predictor, chosen), name)
    parts = [by_row(part[:, columns], related[low : low + len(part)])[:, 0] for low, part in scores.blocks()]
    return np.concatenate(parts)


def tensors_of(posts: Remembered) -> dict[str, Tensor]:
    """What is kept, as tensors by name."""
    arrays: Arrays = {"num": np.array(posts.num), "pairs": posts.pairs}
    for kind, (owners, keys, counts) in posts.terms.items():
        arrays[f"{kind}.owners"], arrays[f"{kind}.counts"] = owners.astype(np.int32), counts.astype(np.int32)
        arrays[f"{kind}.keys"] = keys.view(np.int64)
    for name in _TOKENS if posts.tokens is not None else ():
        arrays[f"tokens.{name}"] = getattr(posts.tokens, name)
    found = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    return found | ({_VECTORS: posts.vectors} if posts.vectors is not None else {})


def restored(tensors: Mapping[str, Tensor]) -> Remembered:
    """What :func:`tensors_of` gave."""
    terms: dict[str, Terms] = {}
    for kind in ("words", "characters"):
        if f"{kind}.keys" in tensors:
            owners, keys, counts = (tensors[f"{kind}.{name}"].numpy() for name in _TERMS)
            terms[kind] = owners.astype(np.int64), keys.view(np.uint64), counts.astype(np.int64)
    tokens = None
    if "tokens.ids" in tensors:
        ids, sentences, texts = (tensors[f"tokens.{name}"].numpy() for name in _TOKENS)
        tokens = Tokens(ids, sentences, texts)
    return Remembered(int(tensors["num"]), tensors["pairs"].numpy(), terms, tokens, tensors.get(_VECTORS))


def _part(terms: Terms, index: Index) -> Terms:
    """The terms of the chosen texts, which rise."""
    owners, keys, counts = terms
    places = np.searchsorted(index, owners).clip(max=len(index) - 1)
    kept = index[places] == owners
    return places[kept], keys[kept], counts[kept]
