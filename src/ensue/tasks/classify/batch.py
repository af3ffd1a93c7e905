"""Input and output of every ``classify`` network."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ensue.nn.pooling import Pooled


class Block(NamedTuple):
    """Passages of like length as one padded block, longest first.

    Attributes:
        items: (rows, length) what stands there: ids of words, or numbers of passages; 0 at padding.
        mask: (rows, length) True where an item is; every row holds at least one.
        lengths: (rows,) number of items, always on the CPU.
        rows: (rows,) the number of each passage in the batch.
    """

    items: Tensor
    mask: Tensor
    lengths: Tensor
    rows: Tensor

    def to(self, device: torch.device) -> Block:
        """Return the block on another device."""
        items, mask, rows = (tensor.to(device, non_blocking=True) for tensor in (self.items, self.mask, self.rows))
        return Block(items, mask, self.lengths, rows)


class Batch(NamedTuple):
    """Texts, or pairs of them: the first texts of all pairs come before the second ones.

    Attributes:
        words: the passages, whose items are words; empty where an encoder gives their vectors.
        sentences: documents, whose items are passages; empty where texts are not read as documents.
        owners: (rows,) the text of each row of the upper level.
        shares: (rows,) the part of its text that each such row makes up; 1 unless a text was cut.
        num_texts: texts in all: twice the pairs.
        targets: (records,) codes of the labels; empty when they are not known.
        vectors: (passages, dim) vectors of the passages, where an encoder gives them.
        below: (records, labels) scores that the network adds to, where there are any.
    """

    words: tuple[Block, ...]
    sentences: tuple[Block, ...]
    owners: Tensor
    shares: Tensor
    num_texts: int
    targets: Tensor
    vectors: Tensor | None = None
    below: Tensor | None = None

    @property
    def num_targets(self) -> int:
        """Number of labelled records: the weight of this batch's mean loss."""
        return int(self.targets.shape[0])

    def to(self, device: torch.device) -> Batch:
        """Return the batch on another device."""
        words, sentences = (tuple(block.to(device) for block in blocks) for blocks in (self.words, self.sentences))
        owners, shares, targets = (tensor.to(device) for tensor in (self.owners, self.shares, self.targets))
        vectors = None if self.vectors is None else self.vectors.to(device, non_blocking=True)
        below = None if self.below is None else self.below.to(device, non_blocking=True)
        return Batch(words, sentences, owners, shares, self.num_texts, targets, vectors, below)


class Output(NamedTuple):
    """Scores before normalising, (records, labels), and what was pooled on the way, block by block."""

    scores: Tensor
    words: list[Pooled]
    sentences: list[Pooled]
