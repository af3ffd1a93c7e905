"""Settings of the linear models and of the majority."""

from __future__ import annotations

from dataclasses import dataclass

from ensue.settings import Count, Positive, Settings, Size


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
