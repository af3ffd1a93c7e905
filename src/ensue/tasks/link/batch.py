"""Input of every ``link`` network: blocks of texts, and which posts are about which articles."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ensue.nn.attention import masked_mean


class Block(NamedTuple):
    """Texts of like length as one padded block, longest first.

    Attributes:
        ids: (rows, length) ids of words; 0 at padding.
        mask: (rows, length) True where a word is; every row holds at least one.
        texts: (rows,) the number of each text in the batch.
    """

    ids: Tensor
    mask: Tensor
    texts: Tensor

    def to(self, device: torch.device) -> Block:
        """Return the block on another device."""
        return Block(*(tensor.to(device, non_blocking=True) for tensor in self))


class Batch(NamedTuple):
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

    def to(self, device: torch.device) -> Batch:
        """Return the batch on another device."""
        articles, posts = (tuple(block.to(device) for block in blocks) for blocks in (self.articles, self.posts))
        return Batch(articles, posts, self.related.to(device))


class Words(NamedTuple):
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
        return functional.embedding_bag(self.places, self.vectors, per_sample_weights=shares, mode="sum")
