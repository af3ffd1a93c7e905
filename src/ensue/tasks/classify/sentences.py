"""Sentences as vectors of a frozen encoder, an installed ``sentence-transformers`` model, in place of words.

The network then reads them as it reads the sentences of a document: BiLSTM, pooling, classifier. Words, counts and word
vectors stay for the counting models beside.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ensue.data.histories import Index
from ensue.tasks.classify.batch import Batch, Block
from ensue.tasks.classify.dataset import Passages, Sides
from ensue.text.encoder import PROBE, Encoder

CHUNK = 64
"""Words that are encoded together at most: encoders leave out what is beyond some 128 to 512 pieces of words."""
_APART = r"(?i) (n't\b|'(?:s|m|d|re|ve|ll)\b|[.,!?;:)\]])"


class SentencePassages(Passages):
    """Texts whose sentences are encoded, each distinct one once: documents of passages that have vectors, not words.

    Args:
        sides: the texts, with their words; for pairs, the first ones and the second ones.
        targets: (records,) codes of the labels, or ``None``.
        encoder: turns sentences into vectors.
    """

    chunk = CHUNK

    def __init__(self, sides: Sides, targets: Index | None, encoder: Encoder) -> None:
        super().__init__(sides, targets, documents=True)
        words = pl.concat([side.words for side in sides if side.words is not None])
        sentences = written(words, self.sizes).to_frame("sentence")
        distinct = sentences.unique(maintain_order=True).with_row_index("number")
        self.numbers = sentences.join(distinct, on="sentence", maintain_order="left")["number"].to_numpy()
        """(passages,) the row of each among ``vectors``."""
        self.vectors = encoder.vectors(distinct["sentence"].to_list() or [PROBE])

    def blocks(self, chosen: Index) -> tuple[Block, ...]:
        """None: words are not looked at."""
        return ()

    def batch(self, index: Index) -> Batch:
        """The records ``index`` as padded tensors on the CPU, with the vectors of their passages."""
        return super().batch(index)._replace(vectors=self.vectors[self.numbers[self.passages(index)].astype(np.int64)])


def written(words: pl.Series, sizes: Index) -> pl.Series:
    """(passages,) words as running text: joined by spaces, but for marks and clitics that hang on a word."""
    rows = pl.DataFrame({"passage": np.repeat(np.arange(len(sizes)), sizes), "word": words})
    joined = rows.group_by("passage", maintain_order=True).agg(pl.col("word").str.join(" "))
    return joined["word"].str.replace_all(_APART, "$1")
