"""Settings and schedules of the models of task ``link``; this module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from ensue.errors import SettingError
from ensue.schedule import Schedule
from ensue.settings import DEEPEST, Count, NonNegative, Positive, Settings, Size, must_be


@dataclass(frozen=True, kw_only=True)
class SharedLinkSettings(Settings):
    """Settings that every model of the task has."""

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
    """Text encoder: ast, cnn, gru, bigru, or bag (a weighted bag of words alone)."""
    vectors: str | None = None
    """Path of a file of word vectors (GloVe, fastText, word2vec text or npz). [default: vectors are learned; with a
    bag, they are initialised from the articles' character n-grams]"""
    tuned: bool = True
    """Whether the vectors of the file are fine-tuned."""
    extra_words: Count = 50_000
    """Number of words stored from the start of the file of vectors although the training data lacks them: later texts
    may contain them."""
    dim: Size | None = None
    """Dimension of a word vector. [default: that of the file, or 300 without a file]"""
    heads: Size = 6
    """Attention heads of ast; their number must divide the dimension of a word vector."""
    bag: Count = 512
    """Dimension of a weighted bag of words that is concatenated to the encoder's output; 0: the encoder alone, as in
    the paper."""
    pretrain: Literal["none", "cloze", "inductive"] = "cloze"
    """Pretraining: cloze (on all articles: match a few words with the article they were taken from), inductive (cloze
    on the articles of training posts only, so that the other articles are unseen) or none."""
    residual: bool = True
    """Whether the encoder has a residual connection from the mean of the word vectors; the paper's encoders have
    none."""
    neighbours: Size = 1
    """Neighbouring words on each side that a word of ast attends to."""
    sparse: bool = True
    """Whether ast attends with entmax, whose sparsity is learned per head; if false, with softmax."""
    scale: Literal["fixed", "asentmax"] = "fixed"
    """Scale of the attention scores of ast: fixed, or asentmax, which multiplies them by a temperature that is learned
    from the query and the number of its keys."""
    relay: bool = True
    """Whether ast has a relay node, connected with every word; if false, the mean of the words."""
    cycles: Annotated[Size, must_be(f"at most {DEEPEST}", lambda value: value <= DEEPEST)] = 1
    """Number of ring and star updates of ast."""
    hidden: Size = 300
    """Dimension of a text vector of cnn, gru (its units) and bigru (half of the units per direction)."""
    filters: Size = 300
    """Number of filters of cnn for each width from 1 to 4."""
    loss: Literal["triplet", "contrastive"] = "contrastive"
    """Training loss: triplet (the paper's) or contrastive (in-batch negatives, of posts and of articles)."""
    margin: NonNegative = 0.15
    """Margin of the triplet loss, in squared distance."""
    epsilon: NonNegative = 0.1
    """Triplets that are right by more than this, in cosine, are left out of the triplet loss."""
    temperature: Positive = 0.05
    """Temperature of the contrastive loss: cosines are divided by it."""
    lower: bool = True
    """Whether texts are lowercased."""
    min_count: Size | None = None
    """Minimum number of occurrences of a word in the training data. [default: 2 with a bag, which reads rarer words as
    subwords; otherwise 1]"""
    max_words: Size | None = None
    """Maximum number of words read of a text. [default: all]"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder == "bigru" and self.hidden % 2:
            raise SettingError(f"hidden is {self.hidden}; it must be even for bigru, which halves it")
        if self.encoder == "bag" and not self.bag:
            raise SettingError("bag is 0, but model bag needs a width; set bag above 0")

    @property
    def least_count(self) -> int:
        """Minimum number of occurrences of a word.

        A word that occurs once is better read as pieces: without labels posts outside PolitiFact's test
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
"""Schedule of networks that are pretrained on the articles: two to six epochs of posts are enough."""


@dataclass(frozen=True, kw_only=True)
class SbertSettings:
    """Settings of ``sbert``."""

    encoder: str = ""
    """Name or folder of an installed sentence-transformers model."""
