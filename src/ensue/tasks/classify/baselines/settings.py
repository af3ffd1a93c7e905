"""Settings of the linear models and of the majority."""

from __future__ import annotations

from dataclasses import dataclass

from ensue.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class CountingSettings:
    """Settings of the linear models and of the majority."""

    strength: float = 1.0
    """How much the data counts beside the penalty: scikit-learn's C."""
    vectors: str | None = None
    """A file of word vectors (GloVe, fastText, word2vec text or npz)."""
    extra_words: int = 50_000
    """Of the file's first words, so many are kept though the training data lacks them: later texts may hold them."""
    dim: int | None = None
    """Width of a word's vector: that of the file."""
    lower: bool = True
    """Whether case is dropped."""
    min_count: int = 1
    """How often a word must occur in the training data to be known."""
    max_words: int | None = None
    """A cap on the words of a text, of a sentence in documents; everything is read without one."""
    max_sentences: int | None = None
    """A cap on the sentences of a document; all are read without one."""

    def __post_init__(self) -> None:
        if self.strength <= 0:
            raise SettingError(f"strength is {self.strength}; it must be above 0")
        for name in ("dim", "min_count", "max_words", "max_sentences"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise SettingError(f"{name} is {value}; it must be at least 1")
        if self.extra_words < 0:
            raise SettingError(f"extra_words is {self.extra_words}; it must be 0 or more")
