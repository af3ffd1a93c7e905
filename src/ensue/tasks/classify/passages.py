"""Texts as the networks of task ``classify`` read them: passages of bounded length, in padded batches.

With a frozen sentence encoder, sentences become vectors, which the network reads as it reads the sentences of a
document: BiLSTM, pooling, classifier. The baselines still read words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.nn.blocks import Block, padded_blocks
from ensue.nn.pooling import Pooled
from ensue.tasks.classify.dataset import Passages, Sides
from ensue.text.encoder import PROBE, Encoder
from ensue.training.batches import epoch_batches, evaluation_batches

MAX_WORDS = 2**14
"""Maximum number of words of a block, and of a group of texts: an LSTM of 300 units writes under 200 MB for them."""
MAX_PAIRS = 2**22
"""Maximum number of pairs of words of a block: the word graph of a block takes 16 MB."""


class TextBatch(NamedTuple):
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

    def to(self, device: torch.device) -> TextBatch:
        """Return the batch on another device."""
        words, sentences = (tuple(block.to(device) for block in blocks) for blocks in (self.words, self.sentences))
        owners, shares, targets = (tensor.to(device) for tensor in (self.owners, self.shares, self.targets))
        vectors = None if self.vectors is None else self.vectors.to(device, non_blocking=True)
        below = None if self.below is None else self.below.to(device, non_blocking=True)
        return TextBatch(words, sentences, owners, shares, self.num_texts, targets, vectors, below)


class PooledOutput(NamedTuple):
    """Scores before normalising, (records, labels), what was pooled on the way, block by block, and the result."""

    scores: Tensor
    words: list[Pooled]
    sentences: list[Pooled]
    vectors: Tensor | None = None
    """(records, width) what the last layers score; ``None`` of a network that does not say."""


class PassageBatches(Passages):
    """Passages as training data of a network; see :class:`Passages` for the arguments."""

    below: npt.NDArray[np.float32] | None = None
    """(records, labels) scores that a network adds to."""

    def arrays(self) -> tuple[npt.NDArray[np.integer], ...]:
        """Everything that training depends on."""
        return self.ids, self.starts, self.sizes, self.first, self.targets

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        """A shuffled epoch: batches of ``size`` records of like length, in random order; the same for the same seed."""
        return epoch_batches([self.lengths], size, seed)

    def groups(self, targets: int = MAX_WORDS) -> Iterator[Index]:
        """All records once, shortest first, in groups of about so many words."""
        # Texts of similar length share a batch, so that little of it is padding.
        order = np.argsort(self.lengths, kind="stable")
        return evaluation_batches(order, np.maximum(self.lengths, 1), targets)

    def blocks(self, chosen: Index) -> tuple[Block, ...]:
        """The words of some passages."""
        return padded_blocks(self.starts[chosen], self.sizes[chosen], self.ids, MAX_WORDS, MAX_PAIRS)

    def batch(self, index: Index) -> TextBatch:
        """The records ``index`` as padded tensors on the CPU."""
        numbers = self.passages(index)
        upper = self.upper_rows(index)
        sentences: tuple[Block, ...] = ()
        if self.documents:
            sentences = padded_blocks(upper.starts, upper.sizes, np.arange(len(numbers)), MAX_WORDS, MAX_PAIRS)
        return TextBatch(
            self.blocks(numbers),
            sentences,
            torch.from_numpy(upper.owners),
            torch.from_numpy(upper.shares),
            upper.num_texts,
            torch.from_numpy(self.targets[index] if len(self.targets) else self.targets),
            below=None if self.below is None else torch.from_numpy(self.below[index]),
        )


MAX_ENCODED_WORDS = 64
"""Maximum number of words of an encoded passage: encoders ignore everything beyond 128 to 512 word pieces."""
_ATTACHED = r"(?i) (n't\b|'(?:s|m|d|re|ve|ll)\b|[.,!?;:)\]])"


class SentencePassages(PassageBatches):
    """Texts whose sentences are encoded, each distinct one once: documents of passages that have vectors, not words.

    Args:
        sides: the texts, with their words; for pairs, the first ones and the second ones.
        targets: (records,) codes of the labels, or ``None``.
        encoder: turns sentences into vectors.
    """

    max_words = MAX_ENCODED_WORDS

    def __init__(self, sides: Sides, targets: Index | None, encoder: Encoder) -> None:
        super().__init__(sides, targets, documents=True)
        words = pl.concat([side.words for side in sides if side.words is not None])
        sentences = written(words, self.sizes).to_frame("sentence")
        # A sentence that occurs often is encoded once.
        distinct = sentences.unique(maintain_order=True).with_row_index("number")
        self.numbers = sentences.join(distinct, on="sentence", maintain_order="left")["number"].to_numpy()
        """(passages,) the row of each among ``vectors``."""
        self.vectors = torch.from_numpy(encoder.vectors(distinct["sentence"].to_list() or [PROBE]))

    def blocks(self, chosen: Index) -> tuple[Block, ...]:
        """None: words are not looked at."""
        return ()

    def batch(self, index: Index) -> TextBatch:
        """The records ``index`` as padded tensors on the CPU, with the vectors of their passages."""
        return super().batch(index)._replace(vectors=self.vectors[self.numbers[self.passages(index)].astype(np.int64)])


def written(words: pl.Series, sizes: Index) -> pl.Series:
    """(passages,) words as running text: joined by spaces, but for marks and clitics that hang on a word."""
    rows = pl.DataFrame({"passage": np.repeat(np.arange(len(sizes)), sizes), "word": words})
    joined = rows.group_by("passage", maintain_order=True).agg(pl.col("word").str.join(" "))
    return joined["word"].str.replace_all(_ATTACHED, "$1")
