"""Scores of posts with articles: a shelf of articles that grows, and blocks of posts against all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.data.posts import Articles, Posts
from ensue.metrics import Floats
from ensue.tasks.link.hybrid import heads, log_shares, mixed, popularity, standardised
from ensue.tasks.link.lexical import Arrays, Kind, Lexical, Terms
from ensue.tasks.link.terms import character_terms, word_terms

if TYPE_CHECKING:
    from ensue.tasks.link.predictor import LinkPredictor

KINDS: Mapping[str, Kind] = {"words": "words", "characters": "characters", "bm25": "bm25"}
SAMPLE = 20_000
"""Posts of a corpus from which it is told how much each article is discussed."""
_HEAD = "head "
_CELLS, _POSTS = 1 << 22, 1 << 14
"""Scores, and posts, of a block at most."""
_BY_MODEL = {"tfidf": "words", "bm25": "bm25"}


class Shelf:
    """The articles that posts are compared with, by their terms and by their vectors.

    Args:
        articles: in the order of the columns of all scores.
        lexical: by name, such as ``words`` of the whole text or ``head words`` of its head.
        vectors: (articles, width) of the network; of width 0 without one.
    """

    def __init__(self, articles: Articles, lexical: dict[str, Lexical], vectors: Tensor) -> None:
        self.articles, self.lexical, self.vectors = articles, lexical, vectors

    def __len__(self) -> int:
        """Number of articles."""
        return len(self.articles)

    @classmethod
    def of(cls, articles: Articles) -> Shelf:
        """A shelf of some articles, without vectors."""
        lexical = {f"{part}{name}": Lexical(kind) for part in ("", _HEAD) for name, kind in KINDS.items()}
        made = cls(articles, lexical, torch.zeros(len(articles), 0))
        made._put(articles)
        return made

    def observe(self, texts: pl.Series) -> None:
        """Take how rare a word is from these texts too."""
        for lexical in self.lexical.values():
            lexical.observe(texts)

    def joined(self, articles: Articles) -> tuple[Shelf, list[int], list[int]]:
        """A shelf with more articles, what stood here first.

        Returns:
            The shelf, with a network's vectors of before; the columns of the given articles; and which of them are new:
            of another id, or of another text.
        """
        held = {row: place for place, row in enumerate(zip(self.articles.ids, self.articles.texts, strict=True))}
        rows = list(zip(articles.ids, articles.texts, strict=True))
        new = [number for number, row in enumerate(rows) if row not in held]
        held |= {rows[number]: len(self) + place for place, number in enumerate(new)}
        places = [held[row] for row in rows]
        if not new:
            return self, places, new
        added = articles.select(np.array(new))
        bare = torch.zeros(len(self) + len(new), 0)
        made = Shelf(together(self.articles, added), {}, self.vectors if self.vectors.shape[1] else bare)
        for name, lexical in self.lexical.items():
            made.lexical[name] = Lexical(lexical.kind)
            made.lexical[name].restore(lexical.arrays())
        made._put(added)
        return made, places, new

    def arrays(self) -> Arrays:
        """All that was counted, read back by :meth:`restored`."""
        return {f"{name}.{key}": array for name, own in self.lexical.items() for key, array in own.arrays().items()}

    @classmethod
    def restored(cls, articles: Articles, arrays: Mapping[str, npt.NDArray[Any]], vectors: Tensor) -> Shelf:
        """A shelf of what :meth:`arrays` gave.

        Raises:
            ValueError: the parts do not fit together.
        """
        lexical = {}
        for name in dict.fromkeys(key.rpartition(".")[0] for key in arrays):
            lexical[name] = Lexical(KINDS[name.removeprefix(_HEAD)])
            lexical[name].restore({key.rpartition(".")[2]: own for key, own in arrays.items() if _of(key) == name})
            if len(lexical[name]) != len(articles):
                raise ValueError("the terms are not those of the articles")
        if len(vectors) != len(articles):
            raise ValueError("the vectors are not as many as the articles")
        return cls(articles, lexical, vectors)

    def _put(self, articles: Articles) -> None:
        texts = {"": articles.texts, _HEAD: heads(articles)}
        for name, lexical in self.lexical.items():
            lexical.add(texts[_HEAD if name.startswith(_HEAD) else ""])


@dataclass(frozen=True, eq=False)
class EncodedPosts:
    """Posts as numbers, of which every score is made.

    Attributes:
        num: how many.
        terms: by kind, ``words`` or ``characters``; those that the model counts.
        vectors: (posts, width) of a network or an encoder, where the model has one.
    """

    num: int
    terms: Mapping[str, Terms]
    vectors: Tensor | None

    @classmethod
    def of(cls, predictor: LinkPredictor, posts: Posts, name: str) -> EncodedPosts:
        """Posts for a model of the name."""
        terms = terms_of(posts.texts, name)
        return cls(len(posts), terms, post_vectors(predictor, posts) if has_vectors(predictor, name) else None)

    def scores_of(self, lexical: Lexical) -> npt.NDArray[np.float32]:
        """(posts, documents)."""
        return lexical.scores_of(self.terms[_terms_kind(lexical)], self.num)

    def cosines(self, articles: Tensor) -> Floats:
        """(posts, articles) with vectors of articles."""
        assert self.vectors is not None
        return (self.vectors @ articles.T).double().numpy()


def terms_of(texts: pl.Series, name: str) -> dict[str, Terms]:
    """The terms that a model of the name counts: of words, of characters, or none."""
    found = {"words": word_terms(texts)} if name in ("best", *_BY_MODEL) else {}
    return found | ({"characters": character_terms(texts)} if name == "best" else {})


def has_vectors(predictor: LinkPredictor, name: str) -> bool:
    """Whether a model of the name reads posts by vectors too."""
    return predictor.model is not None and name not in _BY_MODEL


class LinkScores:
    """The scores of a corpus of posts, made a block at a time, as often as they are asked for.

    Args:
        predictor: trained.
        num: posts of the corpus; under ``best`` they are ranked together.
        encode: gives some of them as numbers.
        name: the model.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        num: int,
        encode: Callable[[slice | Index], EncodedPosts],
        name: str,
    ) -> None:
        self.predictor, self.num, self.encode, self.name = predictor, num, encode, name
        self._popularity: Floats | None = None

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """The number of the first post of a block, and the (posts, articles) scores of the block."""
        step = self._step
        for low in range(0, self.num, step):
            yield low, self._of(self.encode(slice(low, min(low + step, self.num))))

    def whole(self) -> Floats:
        """(posts, articles)."""
        parts = [block for _, block in self.blocks()]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.predictor.known)))

    def best(self, places: Sequence[int]) -> tuple[Floats, Index]:
        """(posts,) the highest score with any of some articles, and which of them has it; one block is held at a time.

        Of equal scores the first one's.
        """
        chosen = list(places)
        scores, numbers = np.zeros(self.num), np.zeros(self.num, np.int64)
        for low, block in self.blocks():
            own, rows = block[:, chosen], slice(low, low + len(block))
            numbers[rows] = own.argmax(1)
            scores[rows] = own[np.arange(len(own)), numbers[rows]]
        return scores, numbers

    @property
    def _step(self) -> int:
        return min(_POSTS, max(1, _CELLS // max(len(self.predictor.known), 1)))

    def _of(self, posts: EncodedPosts) -> Floats:
        predictor = self.predictor
        if self.name in _BY_MODEL:
            return posts.scores_of(predictor.known.lexical[_BY_MODEL[self.name]]).astype(np.float64)
        if self.name != "best":
            return posts.cosines(predictor.known.vectors)
        if not predictor.weights:
            return mean_cosine(predictor, posts)
        return log_shares(sums(predictor, posts), self._discussed(), predictor.nothing)

    def _discussed(self) -> Floats:
        if self._popularity is None:
            pull = self.predictor.pull if self.predictor.shared.together else 0.0
            every = np.linspace(0, self.num - 1, min(SAMPLE, self.num) if pull else 0).astype(np.int64)
            sample = np.zeros((len(every), len(self.predictor.known)))
            for low in range(0, len(every), self._step):
                part = every[low : low + self._step]
                sample[low : low + len(part)] = sums(self.predictor, self.encode(part))
            self._popularity = popularity(sample, pull, self.predictor.nothing)
        return self._popularity


def features(predictor: LinkPredictor, posts: EncodedPosts) -> dict[str, Floats]:
    """The standardised scores that ``best`` weighs, by name."""
    names = [*predictor.known.lexical, *(["learned"] if predictor.model is not None else [])]
    return {name: _feature(predictor, posts, name) for name in names}


def _feature(predictor: LinkPredictor, posts: EncodedPosts, name: str) -> Floats:
    shelf = predictor.known
    return standardised(posts.cosines(shelf.vectors) if name == "learned" else posts.scores_of(shelf.lexical[name]))


def sums(predictor: LinkPredictor, posts: EncodedPosts) -> Floats:
    """(posts, articles) the weighted sums of ``best``, every post alone."""
    return mixed(((name, _feature(predictor, posts, name)) for name in predictor.weights), predictor.weights)


def mean_cosine(predictor: LinkPredictor, posts: EncodedPosts) -> Floats:
    """(posts, articles): of words and of characters, whole and head; what ``best`` is without any label.

    An encoder's cosine, where one was named, is half of it.
    """
    cosines = [posts.scores_of(own) for own in predictor.known.lexical.values() if own.kind != "bm25"]
    found: Floats = np.mean(cosines, axis=0, dtype=np.float64)
    return found if predictor.model is None else (found + posts.cosines(predictor.known.vectors)) / 2


def post_vectors(predictor: LinkPredictor, posts: Posts) -> Tensor:
    """(posts, width) vectors: those that an index holds are read, only the others are encoded."""
    if predictor.index is None:
        return predictor.vectors(posts.texts)
    return torch.from_numpy(predictor.index.vectors_of(posts.ids))


def together(first: Articles, second: Articles) -> Articles:
    """Articles of both, in this order."""
    columns = ("bodies", "titles", "ids")
    return Articles(*(pl.concat([getattr(first, name), getattr(second, name)]) for name in columns))


def _of(key: str) -> str:
    return key.rpartition(".")[0]


def _terms_kind(lexical: Lexical) -> str:
    return "characters" if lexical.kind == "characters" else "words"
