"""Scores of posts with articles: a shelf of articles that grows, and blocks of posts against all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.data.posts import Articles, Posts
from ensue.link.hybrid import heads, log_shares, mixed, popularity, standardised
from ensue.link.lexical import Arrays, Kind, Lexical
from ensue.metrics import Floats

if TYPE_CHECKING:
    from ensue.link.predictor import LinkPredictor

KINDS: Mapping[str, Kind] = {"words": "words", "characters": "characters", "bm25": "bm25"}
SAMPLE = 20_000
"""Posts of a corpus from which it is told how much each article is discussed."""
_HEAD = "head "
_CELLS = 1 << 22
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


class LinkScores:
    """The scores of a corpus of posts, made a block at a time, as often as they are asked for.

    Args:
        predictor: trained.
        posts: the corpus; under ``best`` its posts are ranked together.
        name: the model.
    """

    def __init__(self, predictor: LinkPredictor, posts: Posts, name: str) -> None:
        self.predictor, self.posts, self.name = predictor, posts, name
        self._popularity: Floats | None = None

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """The number of the first post of a block, and the (posts, articles) scores of the block."""
        step = max(1, _CELLS // max(len(self.predictor.known), 1))
        for low in range(0, len(self.posts), step):
            yield low, self._of(self.posts.select(slice(low, low + step)))

    def whole(self) -> Floats:
        """(posts, articles)."""
        parts = [block for _, block in self.blocks()]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.predictor.known)))

    def best(self, places: Sequence[int]) -> tuple[Floats, Index]:
        """(posts,) the highest score with any of some articles, and which of them has it; one block is held at a time.

        Of equal scores the first one's.
        """
        chosen = list(places)
        scores, numbers = np.zeros(len(self.posts)), np.zeros(len(self.posts), np.int64)
        for low, block in self.blocks():
            own, rows = block[:, chosen], slice(low, low + len(block))
            numbers[rows] = own.argmax(1)
            scores[rows] = own[np.arange(len(own)), numbers[rows]]
        return scores, numbers

    def _of(self, posts: Posts) -> Floats:
        predictor = self.predictor
        if self.name in _BY_MODEL:
            scores = predictor.known.lexical[_BY_MODEL[self.name]].scores(posts.texts)
            return scores.astype(np.float64)
        if self.name != "best":
            return learned_scores(predictor, posts)
        if not predictor.weights:
            return mean_cosine(predictor, posts)
        return log_shares(sums(predictor, posts), self._discussed(), predictor.nothing)

    def _discussed(self) -> Floats:
        if self._popularity is None:
            pull = self.predictor.pull if self.predictor.shared.together else 0.0
            every = np.linspace(0, len(self.posts) - 1, min(SAMPLE, len(self.posts))).astype(np.int64)
            sample = sums(self.predictor, self.posts.select(every if pull else every[:0]))
            self._popularity = popularity(sample, pull, self.predictor.nothing)
        return self._popularity


def features(predictor: LinkPredictor, posts: Posts) -> dict[str, Floats]:
    """The standardised scores that ``best`` weighs, by name."""
    own = {name: standardised(lexical.scores(posts.texts)) for name, lexical in predictor.known.lexical.items()}
    if predictor.model is not None:
        own["learned"] = standardised(learned_scores(predictor, posts))
    return own


def sums(predictor: LinkPredictor, posts: Posts) -> Floats:
    """(posts, articles) the weighted sums of ``best``, every post alone."""
    return mixed(features(predictor, posts), predictor.weights)


def mean_cosine(predictor: LinkPredictor, posts: Posts) -> Floats:
    """(posts, articles): of words and of characters, whole and head; what ``best`` is without any label.

    An encoder's cosine, where one was named, is half of it.
    """
    cosines = [own.scores(posts.texts) for own in predictor.known.lexical.values() if own.kind != "bm25"]
    found: Floats = np.mean(cosines, axis=0, dtype=np.float64)
    return found if predictor.model is None else (found + learned_scores(predictor, posts)) / 2


def learned_scores(predictor: LinkPredictor, posts: Posts) -> Floats:
    """(posts, articles) cosines of the network."""
    found = post_vectors(predictor, posts) @ predictor.known.vectors.T
    return found.double().numpy()


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
