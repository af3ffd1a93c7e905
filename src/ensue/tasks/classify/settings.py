"""Settings and schedule of the models of task ``classify``: light to import, as the command line needs them first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ensue.errors import SettingError, UnknownModelError
from ensue.schedule import Schedule
from ensue.settings import (
    Count,
    Positive,
    Settings,
    Share,
    Size,
    one_of,
)
from ensue.tasks.own import find_class


@dataclass(frozen=True, kw_only=True)
class SharedSettings(Settings):
    """What is set of every model: what stays in a folder, and what is chosen by."""

    remembered: Count = 200
    """Held-out texts kept as ids of words, at most, to test updates on; 0 keeps none."""
    metric: Annotated[str, one_of("accuracy", "macro-f1")] = "accuracy"
    """What early stopping goes by on held-out texts; ``macro-f1`` also chooses a blend and ``best``, in place of their
    log loss."""


@dataclass(frozen=True, kw_only=True)
class CountingSettings(Settings):
    """Settings of the linear models and of the majority."""

    strength: Positive = 1.0
    """How much the data counts beside the penalty: scikit-learn's C."""
    vectors: str | None = None
    """A file of word vectors (GloVe, fastText, word2vec text or npz)."""
    extra_words: Count = 50_000
    """Of the file's first words, so many are kept though the training data lacks them: later texts may hold them."""
    dim: Size | None = None
    """Width of a word's vector: that of the file."""
    lower: bool = True
    """Whether case is dropped."""
    min_count: Size = 1
    """How often a word must occur in the training data to be known."""
    max_words: Size | None = None
    """A cap on the words of a text, of a sentence in documents; everything is read without one."""
    max_sentences: Size | None = None
    """A cap on the sentences of a document; all are read without one."""


POOLINGS = ("max", "mean", "self-attention", "routing", "reverse-routing", "centrality", "centrality-bilinear")
"""Names of the poolings of single texts (:mod:`ensue.nn.pooling`)."""
ALIGNMENT = "alignment"
"""The pooling of that name."""
Architecture = Literal["auto", "flat", "hierarchical", "pair"]


@dataclass(frozen=True, kw_only=True)
class TextSettings(Settings):
    """Settings of a text classifier; sizes and dropout are those of the paper for SST-2."""

    pooling: str = "centrality"
    """How words become a text: max, mean, self-attention, routing, reverse-routing, centrality, centrality-bilinear; or
    alignment, which compares each word with what the other text of a pair has for it; or FILE.py:CLASS, a pooling of
    your own."""
    architecture: Architecture = "auto"
    """flat, hierarchical (words, sentences, document) or pair; auto: as the data is."""
    vectors: str | None = None
    """A file of word vectors (GloVe, fastText, word2vec text or npz); without one, vectors are learned."""
    encoder: str | None = None
    """Name or folder of a sentence-transformers model that encodes the sentences: the network reads these vectors."""
    tuned: bool = True
    """Whether the vectors of the file are trained too."""
    extra_words: Count = 50_000
    """Of the file's first words, so many are kept though the training data lacks them: later texts may hold them."""
    dim: Size | None = None
    """Width of a word's vector: that of the file, or 300 where there is none."""
    hidden: Size = 300
    """LSTM units in each direction."""
    score_dim: Size = 50
    """Width inside the scores of centrality and self-attention."""
    head: Size = 300
    """Hidden units of the classifier."""
    dropout: Share = 0.6
    """Share of the units dropped in training, of the vectors of words and in the classifier."""
    residual: bool = True
    """Whether the network is trained under a schedule that goes by the number of texts and, where there are vectors,
    added to the mean-vector row by what it is worth; without it, the paper's network and Table 2."""
    precision: Annotated[str, one_of("float32", "bfloat16")] = "float32"
    """Numbers that texts are read in, once learned: products of bfloat16 take half of the time where the processor has
    them (avx512_bf16), twice where not; probabilities differ in the third digit, and training is in float32."""
    method: Literal["solve", "power", "series"] = "solve"
    """How centrality is found: solve (exact), power (the paper) or series (Theorem 2)."""
    lower: bool = True
    """Whether case is dropped."""
    min_count: Size = 1
    """How often a word must occur in the training data to be known."""
    max_words: Size | None = None
    """A cap on the words of a sentence (of a text that is not read as a document); everything is read without one."""
    max_sentences: Size | None = None
    """A cap on the sentences of a document."""

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
