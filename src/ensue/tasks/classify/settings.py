"""Settings and schedule of the models of task ``classify``; this module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ensue.errors import SettingError, UnknownModelError
from ensue.registry import find_class
from ensue.schedule import Schedule
from ensue.settings import Count, Positive, Settings, Share, Size, one_of


@dataclass(frozen=True, kw_only=True)
class SharedSettings(Settings):
    """Settings that every model of the task has."""

    remembered: Count = 200
    """Maximum number of held-out texts stored as word ids, to test updates on; 0 stores none."""
    metric: Annotated[str, one_of("accuracy", "macro-f1")] = "accuracy"
    """Validation metric of early stopping: accuracy or macro-f1. ``macro-f1`` also selects the weights of a blend and
    the model of ``best``, which otherwise go by log loss."""


@dataclass(frozen=True, kw_only=True)
class CountingSettings(Settings):
    """Settings of the linear models and of ``majority``."""

    strength: Positive = 1.0
    """Inverse of the L2 penalty, as scikit-learn's C."""
    vectors: str | None = None
    """Path of a file of word vectors (GloVe, fastText, word2vec text or npz)."""
    extra_words: Count = 50_000
    """Number of words stored from the start of the file of vectors although the training data lacks them: later texts
    may contain them."""
    dim: Size | None = None
    """Dimension of a word vector. [default: that of the file]"""
    lower: bool = True
    """Whether texts are lowercased."""
    min_count: Size = 1
    """Minimum number of occurrences of a word in the training data; rarer words are out of vocabulary."""
    max_words: Size | None = None
    """Maximum number of words read of a text, or of each sentence of a document. [default: all]"""
    max_sentences: Size | None = None
    """Maximum number of sentences read of a document. [default: all]"""


POOLINGS = ("max", "mean", "self-attention", "routing", "reverse-routing", "centrality", "centrality-bilinear")
"""Names of the poolings of single texts (:mod:`ensue.nn.pooling`)."""
ALIGNMENT = "alignment"
"""Pooling that compares the words of the two texts of a pair."""
Architecture = Literal["auto", "flat", "hierarchical", "pair"]


@dataclass(frozen=True, kw_only=True)
class TextSettings(Settings):
    """Settings of a text classifier; sizes and dropout are the paper's for SST-2."""

    pooling: str = "centrality"
    """Pooling of word vectors into a text vector: max, mean, self-attention, routing, reverse-routing, centrality,
    centrality-bilinear; alignment, which compares each word of a pair with the aligned words of the other text; or
    FILE.py:CLASS, your own pooling."""
    architecture: Architecture = "auto"
    """flat, hierarchical (words, sentences, document), pair, or auto: detected from the data."""
    vectors: str | None = None
    """Path of a file of word vectors (GloVe, fastText, word2vec text or npz). [default: vectors are learned]"""
    encoder: str | None = None
    """Name or folder of a sentence-transformers model; the network reads its sentence vectors."""
    tuned: bool = True
    """Whether the vectors of the file are fine-tuned."""
    extra_words: Count = 50_000
    """Number of words stored from the start of the file of vectors although the training data lacks them: later texts
    may contain them."""
    dim: Size | None = None
    """Dimension of a word vector. [default: that of the file, or 300 without a file]"""
    hidden: Size = 300
    """LSTM units in each direction."""
    score_dim: Size = 50
    """Hidden dimension of the attention scores of centrality and self-attention."""
    head: Size = 300
    """Hidden units of the classifier."""
    dropout: Share = 0.6
    """Dropout rate of word vectors and of the classifier."""
    residual: bool = True
    """Whether the schedule adapts to the number of texts and, where there are vectors, the network is added to the
    mean-vector baseline with a weight learned on validation texts; if false, the paper's network and its Table 2."""
    method: Literal["solve", "power", "series"] = "solve"
    """Computation of the stationary distribution: solve (exact), power (power iteration, the paper) or series (Theorem
    2)."""
    lower: bool = True
    """Whether texts are lowercased."""
    min_count: Size = 1
    """Minimum number of occurrences of a word in the training data; rarer words are out of vocabulary."""
    max_words: Size | None = None
    """Maximum number of words read of a sentence, or of a text that is not read as a document. [default: all]"""
    max_sentences: Size | None = None
    """Maximum number of sentences read of a document. [default: all]"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling not in (*POOLINGS, ALIGNMENT) and find_class(self.pooling) is None:
            choices = ", ".join((*POOLINGS, ALIGNMENT))
            raise UnknownModelError(f"pooling is {self.pooling!r}; choose from {choices}, or give FILE.py:CLASS")
        if self.encoder is not None and not self.encoder.strip():
            raise SettingError("encoder is empty; name a sentence-transformers model, or leave it out")
        if self.encoder is not None and self.pooling == ALIGNMENT:
            raise SettingError("pooling is alignment, which compares words; remove encoder")


SCHEDULE = Schedule(
    epochs=30,
    batch_size=128,
    smallest_batch=16,
    learning_rate=3e-4,
    decay_rate=0.95,
    decay_steps=500,
    weight_decay=1e-6,
    monitor="accuracy",
    patience=6,
    refit=False,
    replay=0,
)
