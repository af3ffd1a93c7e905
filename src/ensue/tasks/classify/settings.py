"""Settings and schedule of the models of task ``classify``; this module imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from ensue.errors import SettingError, UnknownModelError
from ensue.registry import find_class
from ensue.schedule import Schedule
from ensue.settings import Count, Positive, Settings, Share, Size, one_of


@dataclass(frozen=True, kw_only=True)
class SharedTextSettings(Settings):
    """Settings that every model of the task has."""

    remembered: Count = 200
    """Maximum number of held-out texts stored as word ids, to test updates on; 0 stores none."""
    metric: Annotated[str, one_of("accuracy", "macro-f1")] = "accuracy"
    """Validation metric of early stopping: accuracy or macro-f1. ``macro-f1`` also selects the weights of a blend and
    the model of ``best``, which otherwise go by log loss."""


@dataclass(frozen=True, kw_only=True)
class WordSettings(Settings):
    """Settings of how words of texts are read, and of their vectors."""

    vectors: str | None = None
    """Path of a file of word vectors (GloVe, fastText, word2vec text or npz). [default: networks learn vectors]"""
    extra_words: Count = 50_000
    """Number of words stored from the start of the file of vectors although the training data lacks them: later texts
    may contain them."""
    dim: Size | None = None
    """Dimension of a word vector. [default: that of the file, or 300 without a file]"""
    lower: bool = True
    """Whether texts are lowercased."""
    min_count: Size = 1
    """Minimum number of occurrences of a word in the training data; rarer words are out of vocabulary."""
    max_words: Size | None = None
    """Maximum number of words read of a text, or of each sentence of a document. [default: all]"""
    max_sentences: Size | None = None
    """Maximum number of sentences read of a document. [default: all]"""


@dataclass(frozen=True, kw_only=True)
class LinearSettings(WordSettings):
    """Settings of the linear models and of ``majority``."""

    strength: Positive = 1.0
    """Inverse of the L2 penalty, as scikit-learn's C."""


GRAPH_POOLINGS = ("centrality", "centrality-bilinear", "tokenrank")
"""Names of the poolings by a word graph."""
POOLINGS = ("max", "mean", "self-attention", "routing", "reverse-routing", *GRAPH_POOLINGS)
"""Names of the poolings of single texts (:mod:`ensue.nn.pooling`)."""
ALIGNMENT = "alignment"
"""Pooling that compares the words of the two texts of a pair."""
Architecture = Literal["auto", "flat", "hierarchical", "pair"]


@dataclass(frozen=True, kw_only=True)
class TextSettings(WordSettings):
    """Settings of a text classifier; sizes and dropout are the paper's for SST-2."""

    pooling: str = "centrality"
    """Pooling of word vectors into a text vector: max, mean, self-attention, routing, reverse-routing, centrality,
    centrality-bilinear, tokenrank; alignment, which compares each word of a pair with the aligned words of the other
    text; or FILE.py:CLASS, your own pooling."""
    architecture: Architecture = "auto"
    """flat, hierarchical (words, sentences, document), pair, or auto: detected from the data."""
    encoder: str | None = None
    """Name or folder of a sentence-transformers model; the network reads its sentence vectors."""
    tuned: bool = True
    """Whether the vectors of the file are fine-tuned."""
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
    method: Literal["solve", "power"] = "solve"
    """Computation of the stationary distribution: solve (exact) or power (power iteration, the paper)."""
    damping: Share = 0.99
    """Pooling tokenrank: probability that a step of the walk follows the attention; otherwise it jumps to a random
    word."""

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
LEARNED_DIM = 300
"""Width of the vectors of words where no file gives them (Table 2)."""
TABLE_2: dict[str, dict[str, object]] = {
    "flat": {},
    "hierarchical": {
        "learning_rate": 1e-4,
        "decay_rate": 0.9,
        "decay_steps": 1000,
        "batch_size": 32,
        "smallest_batch": 32,
        "dropout": 0.4,
    },
    "pair": {
        "score_dim": 30,
        "learning_rate": 1e-4,
        "decay_steps": 20_000,
        "smallest_batch": 128,
        "weight_decay": 1e-20,
        "dropout": 0.2,
    },
}
"""Defaults of Table 2 that differ for documents (its column IMDB) and pairs (SNLI)."""
WIDTHS_WITHOUT_VECTORS = {"dim": 100, "hidden": 100}
"""Widths where no file gives the vectors of words: a third of Table 2's, whose file does, in a ninth of the time."""
MAX_EPOCHS = 60
"""Maximum number of epochs of :func:`schedule_for`."""
MAX_EPOCHS_OF_BEST = 8
"""Maximum number of epochs under ``best``, where no file gives the vectors of words. Networks of a thousand texts are
no better than the baselines there, and an epoch takes up to 1.5 times what all baselines take (0.7 s and 1.1 s of 1,000
texts of SST-2): eight are 12 times as much, where 20 were the most that a draw should cost."""
_STEPS = 1000
_PLATEAU_STEPS = 500
_STEPS_PER_EPOCH = 100


def schedule_for(num_texts: int, max_epochs: int = MAX_EPOCHS) -> dict[str, object]:
    """Return the settings of a schedule that depend on the number of texts.

    The paper's settings are for its sets: 128 texts per step are 54 steps per epoch of SST-2, but 4 of 500 texts, and
    thirty epochs of those move no weight further than 120 steps of 3e-4. What counts is how far Adam can move a weight,
    about its learning rate per step. So an epoch has about a hundred steps while that leaves batches of 16 to 128
    texts; there are as many epochs as make 1,000 steps, at least 4; and a run ends once 500 steps have brought nothing
    better, after three to eight epochs. The learning rate rises to 1e-3 and falls to 0 along a cosine, in place of
    batches that halve: with a constant one, the accuracy on the dev part of SST-2 moves by up to three points between
    epochs.

    Args:
        num_texts: number of training texts.
        max_epochs: maximum number of epochs.
    """
    batch_size = min(128, max(16, 2 ** round(math.log2(max(num_texts / _STEPS_PER_EPOCH, 1)))))
    steps = math.ceil(num_texts / batch_size)
    return {
        "batch_size": batch_size,
        "smallest_batch": batch_size,
        "epochs": min(max_epochs, max(4, math.ceil(_STEPS / steps))),
        "patience": min(8, max(3, math.ceil(_PLATEAU_STEPS / steps))),
        "learning_rate": 1e-3,
        "decay": True,
        "decay_rate": 1.0,
    }
