"""Settings and schedules of the models of task ``link``: light to import, as the command line needs them first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from ensue.errors import SettingError
from ensue.schedule import Schedule
from ensue.settings import (
    DEEPEST,
    Count,
    NonNegative,
    Positive,
    Settings,
    Size,
    must_be,
)


@dataclass(frozen=True, kw_only=True)
class SharedSettings(Settings):
    """Settings of scores, and of what a folder stores of the posts."""

    network: str = ""
    """Model best: network whose cosine joins the lexical scores: ast, cnn, gru, bigru or sbert; none if empty."""
    cross_post_prior: bool = True
    """Model best: whether the posts of a corpus inform each other's ranking; if false, each is ranked on its own."""
    remembered: Count = 200
    """Maximum number of held-out posts stored as word ids, to test updates on; 0 stores none."""


Name = Literal["ast", "cnn", "gru", "bigru", "bag"]


@dataclass(frozen=True, kw_only=True)
class LinkSettings(Settings):
    """Settings of a network that links posts to articles; ``ast-paper`` turns off what the paper does not have."""

    encoder: Name = "ast"
    """What makes a vector of a text: ast, cnn, gru, bigru, or bag: the bag beside them alone."""
    vectors: str | None = None
    """A file of word vectors (GloVe, fastText, word2vec text or npz); without one they are learned, and beside a bag
    they start from the articles' runs of characters."""
    tuned: bool = True
    """Whether the vectors of the file are trained too."""
    extra_words: Count = 50_000
    """Of the file's first words, so many are kept though the training data lacks them: later texts may hold them."""
    dim: Size | None = None
    """Width of a word's vector: that of the file, or 300 where there is none."""
    heads: Size = 6
    """Attention heads of ast; they divide the width of a word's vector."""
    bag: Count = 512
    """Numbers of a word's vector that are summed by learned weights beside what the encoder makes; 0: the encoder
    alone, as in the paper."""
    pretrain: Literal["none", "cloze", "inductive"] = "cloze"
    """cloze: the network first learns, of the articles alone, to find what a few words of theirs were cut from;
    inductive: only of those that training posts are about, so that all others are new to it."""
    residual: bool = True
    """Whether a text starts as the mean of its words' vectors, to which the encoder adds what it learns; the paper's
    encoders have no such way around them."""
    neighbours: Size = 1
    """Words on each side that a word of ast attends to."""
    sparse: bool = True
    """Whether ast attends by entmax, which learns how sparse each head is; false: by softmax."""
    relay: bool = True
    """Whether ast has a relay, which every word sees and which sees every word; false: the mean of the words."""
    cycles: Annotated[Size, must_be(f"at most {DEEPEST}", lambda value: value <= DEEPEST)] = 1
    """How often ast goes through its ring and its star."""
    hidden: Size = 300
    """Width of a text's vector under cnn, gru (its units) and bigru (half of them a side)."""
    filters: Size = 300
    """Filters of cnn of each width from 1 to 4."""
    loss: Literal["triplet", "contrastive"] = "contrastive"
    """triplet: the paper's; contrastive: related posts against all others of the batch, and related articles."""
    margin: NonNegative = 0.15
    """Of triplet: by how much an unrelated post should be farther, in squared distance."""
    epsilon: NonNegative = 0.1
    """Of triplet: pairs that are on the right side by more than this, in cosine, are left out."""
    temperature: Positive = 0.05
    """Of contrastive: the cosines are divided by it."""
    lower: bool = True
    """Whether case is dropped."""
    min_count: Size | None = None
    """How often a word must occur in what is learned to be known; 2 where a bag reads pieces of the others, else 1."""
    max_words: Size | None = None
    """A cap on the words of a text; everything is read without one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder == "bigru" and self.hidden % 2:
            raise SettingError(f"hidden is {self.hidden}; it must be even for bigru, which halves it")
        if self.encoder == "bag" and not self.bag:
            raise SettingError("bag is 0, but model bag needs a width; set bag above 0")

    @property
    def least_count(self) -> int:
        """How often a word must occur.

        Of one that occurs once nothing is learned, but of its pieces: without labels posts outside PolitiFact's test
        part are ranked better so (MRR .407 to .414).
        """
        return self.min_count or (2 if self.bag else 1)

    @property
    def beside(self) -> int:
        """Numbers of a word's row beside those that the encoder reads: those of the bag, and its weight there."""
        return self.bag + 1 if self.bag else 0


SCHEDULE = Schedule(
    epochs=10, batch_size=64, min_steps=23, max_epochs=40, learning_rate=1e-4, weight_decay=0.0, monitor="mrr",
    patience=10, refit=False, replay=0,
)  # fmt: skip
FROM_ARTICLES = replace(SCHEDULE, learning_rate=1e-3, patience=2)
"""Of networks that start from what the articles tell: posts teach them in two to six epochs."""


@dataclass(frozen=True, kw_only=True)
class SbertSettings:
    """Settings of ``sbert``."""

    encoder: str = ""
    """Name or folder of an installed sentence-transformers model."""
