"""Articles and posts as tensors: padded blocks of texts, batches with their relations, and the training data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from ensue.data.histories import Index, ranges
from ensue.data.posts.dataset import Pairs
from ensue.errors import DataError
from ensue.nn.attention import masked_mean
from ensue.nn.autograd import is_traced
from ensue.nn.blocks import Block, padded_blocks
from ensue.text.tokens import Tokens

WORDS = 2**14
"""Words of a block at most, but for one text that is longer: with 300 numbers each, 20 MB."""
POSTS = 8
"""Posts of one article that an epoch draws together at most; of an article with more, others come elsewhere in it."""
CHECKED = 256
"""Pairs whose loss is taken together at most, outside training."""


class LinkBatch(NamedTuple):
    """Articles, posts, and every relation between them that the data knows.

    Attributes:
        articles: the articles that have words.
        posts: the posts that have words.
        related: (articles, posts) True where the post is about the article.
    """

    articles: tuple[Block, ...]
    posts: tuple[Block, ...]
    related: Tensor

    @property
    def num_targets(self) -> int:
        """Number of related pairs: the weight of this batch's mean loss."""
        return int(self.related.sum())

    def to(self, device: torch.device) -> LinkBatch:
        """Return the batch on another device."""
        articles, posts = (tuple(block.to(device) for block in blocks) for blocks in (self.articles, self.posts))
        return LinkBatch(articles, posts, self.related.to(device))


class DistinctWords(NamedTuple):
    """A block as an encoder reads it: each distinct word once, and where it stands.

    What is made of a word alone, such as its projections, is made once a distinct word and then spread.

    Attributes:
        vectors: (distinct, dim) the vectors of the words.
        places: (rows, length) which of them stands where; any at padding.
        mask: (rows, length) True where a word is.
    """

    vectors: Tensor
    places: Tensor
    mask: Tensor

    def spread(self, each: Tensor) -> Tensor:
        """(distinct, …) to (rows, length, …); what stands at padding means nothing."""
        return functional.embedding(self.places, each)

    def mean(self) -> Tensor:
        """(rows, dim) mean vector of each row's words; 0 where there are none."""
        shares = masked_mean(self.mask, self.vectors.dtype)
        if is_traced():
            return (shares[:, None] @ self.spread(self.vectors))[:, 0]
        return functional.embedding_bag(self.places, self.vectors, per_sample_weights=shares, mode="sum")


class Links:
    """Encoded articles and posts with their relations, as training data.

    A pair of which one text has no word is left out of every plan.

    Args:
        articles: the articles.
        posts: the posts; each may be about any number of articles.
        pairs: (pairs, 2) which post is about which article.

    Raises:
        DataError: a pair that names an article or a post that is not there, or no pair whose texts both have words.
    """

    def __init__(self, articles: Tokens, posts: Tokens, pairs: Pairs) -> None:
        self.articles, self.posts = articles, posts
        # Sorted by article and post, each pair once.
        pairs = np.unique(np.asarray(pairs, np.int64).reshape(-1, 2), axis=0)
        sizes = len(articles), len(posts)
        if len(pairs) and (pairs.min() < 0 or (pairs.max(0) >= sizes).any()):
            raise DataError(f"a pair is outside the {sizes[0]} articles and {sizes[1]} posts; number both from 0")
        usable = (articles.lengths[pairs[:, 0]] > 0) & (posts.lengths[pairs[:, 1]] > 0)
        self.skipped = int((~usable).sum())
        """Pairs left out for want of a word."""
        self.pairs: Pairs = pairs[usable]
        if not len(self.pairs):
            raise DataError("there is no pair of an article and a post that both have words; give at least one")
        self._keys: Index = self.pairs[:, 0] * len(posts) + self.pairs[:, 1]  # sorted, as the pairs are

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        """A shuffled epoch of numbers of pairs, ``size`` a batch; the same for the same seed.

        Every pair comes once. The posts of an article come together, up to ``POSTS`` of them, and articles of like
        length; batches are in random order.
        """
        random = np.random.default_rng(seed)
        order = random.permutation(len(self))
        # Posts of an article side by side, in random order among themselves.
        order = order[np.argsort(self.pairs[order, 0], kind="stable")]
        # Articles [0 0 0 1] with POSTS 2: starts [0 3], counts [3 1], groups [0 0 1 3], which need not be without gaps.
        _, starts, counts = np.unique(self.pairs[order, 0], return_index=True, return_counts=True)
        group = np.repeat(starts, counts) + ranges(np.zeros_like(counts), counts) // POSTS
        groups, first = np.unique(group, return_index=True)
        turn = random.permutation(len(groups))
        # Blurred, so that the groups of one article do not end up side by side.
        lengths = self.articles.lengths[self.pairs[order[first], 0]] * random.uniform(0.8, 1.25, len(groups))
        # Groups are sorted by length within a pool of about 16 batches, which keeps batches random.
        pool = np.arange(len(groups)) // max(1, 16 * size * len(groups) // len(self))
        rank = np.empty_like(turn)
        rank[turn[np.lexsort((lengths[turn], pool))]] = np.arange(len(groups))
        order = order[np.argsort(rank[np.searchsorted(groups, group)], kind="stable")]
        batches = [order[low : low + size] for low in range(0, len(order), size)]
        return [batches[index] for index in random.permutation(len(batches))]

    def groups(self, targets: int = CHECKED) -> Iterator[Index]:
        """All pairs once, in the order of their articles, in groups of as many as asked for, or ``CHECKED``."""
        size = max(1, min(targets, CHECKED))
        return (np.arange(low, min(low + size, len(self))) for low in range(0, len(self), size))

    def batch(self, index: Index) -> LinkBatch:
        """The texts of some pairs, each once, with all their relations, on the CPU."""
        articles, posts = (np.unique(self.pairs[index, side]) for side in (0, 1))
        related = torch.from_numpy(self.related(articles, posts))
        return LinkBatch(text_blocks(self.articles, articles), text_blocks(self.posts, posts), related)

    def related(self, articles: Index, posts: Index) -> npt.NDArray[np.bool_]:
        """(articles, posts) whether the post of the column is about the article of the row."""
        # A pair is one number, so that membership is a search among sorted numbers.
        return np.isin(articles[:, None] * len(self.posts) + posts, self._keys)


def text_blocks(tokens: Tokens, index: Index, words: int = WORDS) -> tuple[Block, ...]:
    """Return some texts as padded blocks.

    Args:
        tokens: the texts.
        index: (texts,) numbers of the texts; ``Block.rows`` counts them in this order.
        words: of a block at most, padding included; a longer text has a block of its own.

    Returns:
        Blocks; texts without a word are in none.
    """
    return padded_blocks(tokens.sentences[tokens.texts[index]], tokens.lengths[index], tokens.ids, words)
