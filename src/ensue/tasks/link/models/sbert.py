"""A sentence encoder that somebody else trained, as a row beside the models that learn here, and as a part of ``best``.

Reimers & Gurevych, Sentence-BERT, EMNLP 2019: each text alone becomes a vector, and cosines rank. Here nothing is
trained but the weight that ``best`` gives to the cosine. An encoder reads a text as far as it goes, often 256 pieces of
words.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn import functional

from ensue.text.encoder import Encoder
from ensue.text.tokens import split_words


def unit_vectors(encoder: Encoder, texts: pl.Series) -> Tensor:
    """(texts, width) vectors of length 1 on the CPU; 0 for texts without a word.

    Raises:
        SettingError: the package is missing, or the model cannot be read.
    """
    read = split_words(texts)
    spoken = np.diff(read.sentences[read.texts]) > 0
    vectors = torch.zeros(len(texts), encoder.dim)
    if spoken.any():
        vectors[torch.from_numpy(spoken)] = functional.normalize(
            encoder.vectors(texts.filter(pl.Series(spoken)).to_list())
        )
    return vectors
