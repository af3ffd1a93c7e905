"""Settings and schedules of the models of task ``suggest``; this module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ensue.errors import SettingError
from ensue.schedule import Schedule
from ensue.settings import DEEPEST, Count, NonNegative, Settings, Share, Size, must_be, one_of, require_heads


@dataclass(frozen=True, kw_only=True)
class Search(Settings):
    """Settings of the beam search."""

    beam: Size = 5
    """Beam width; 1 is greedy search."""
    keep: Size = 5
    """Suggestions per session."""
    longest: Size = 10
    """Maximum number of tokens of a suggestion."""
    exponent: NonNegative = 0.6
    """Length normalisation: log-probabilities are divided by the length to this power; 0 favours short suggestions."""
    repeats: bool = False
    """Whether queries of the session may be suggested again."""
    exhaustive: bool = False
    """Whether the search goes on until no open beam can enter the result; if false, until none would if it ended with
    its next token."""


CappedSize = Annotated[int, must_be("at least 1 and at most 100,000", lambda value: 1 <= value <= 100_000)]
Exponent = Annotated[float, must_be("at least 0 and at most 10", lambda value: 0 <= value <= 10)]


@dataclass(frozen=True, kw_only=True)
class SuggestSettings(Settings):
    """Settings that every model of the task has."""

    min_users: CappedSize = 5
    """k-anonymity threshold: number of users (sessions, if the log has no users) that must have typed a query before it
    is shown."""
    tokens: Annotated[str, one_of("auto", "words", "bpe")] = "auto"
    """Tokens of queries: words, bpe (byte-level subwords, with no unknown words), or auto: words, and bpe where most
    queries are in a script without spaces between words."""
    min_count: CappedSize = 3
    """Minimum number of occurrences of a word (tokens: words); rarer words share one unknown token."""
    vocabulary_size: int = 8192
    """Maximum size of the vocabulary (tokens: bpe)."""
    turns: Annotated[int, must_be("at least 2", lambda value: value >= 2)] = 16
    """Maximum number of queries per session; longer sessions are trained on in windows and answered from their latest
    queries."""
    query_tokens: CappedSize = 24
    """Maximum number of tokens read of a query."""
    suggestion_tokens: Annotated[int, must_be("at least 1 and at most 256", lambda value: 1 <= value <= 256)] = 12
    """Maximum number of tokens of a suggestion."""
    beam: Annotated[int, must_be("at least 1 and at most 1,000", lambda value: 1 <= value <= 1000)] = 5
    """Beam width; at least the number of suggestions requested."""
    exponent: Exponent = 0.6
    """Length normalisation: log-probabilities are divided by the length to this power."""
    repeats: bool = False
    """Whether queries of the session may be suggested again."""
    exhaustive: bool = False
    """Whether the search goes on until no open beam can enter the result; if false, until none would if it ended with
    its next token."""
    retrieved: Annotated[Count, must_be("at most 100,000", lambda value: value <= 100_000)] = 0
    """Number of queries retrieved from the log per answer and scored together with the generated ones."""
    first: Annotated[str, one_of("likeliest", "consensus")] = "likeliest"
    """Suggestion ranked first: likeliest, or consensus (minimum Bayes risk: the one that shares most words with the
    other candidates)."""

    def search(self, k: int) -> Search:
        """Return the settings of the search for ``k`` suggestions."""
        beam = max(self.beam, k)
        return Search(
            beam=beam,
            keep=beam,
            longest=self.suggestion_tokens,
            exponent=self.exponent,
            repeats=self.repeats,
            exhaustive=self.exhaustive,
        )


MTN_SCHEDULE = Schedule(
    epochs=30,
    batch_size=64,
    learning_rate=7e-4,
    warm_up=4000,
    beta2=0.98,
    weight_decay=0.0,
    patience=3,
    refit=True,
    replay=0,
)


Even = Annotated[Size, must_be("even, because each direction has half of it", lambda value: value % 2 == 0)]
RECURRENT_SCHEDULE = Schedule(epochs=30, batch_size=64, learning_rate=1e-3, weight_decay=0.0, patience=3, replay=0)


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(Settings):
    """Settings of every network; the defaults are those of the MTN paper."""

    embedding: Size = 300
    """Dimension of the token embeddings."""
    dropout: Share = 0.1
    """Dropout rate."""
    smoothing: Share = 0.0
    """Label smoothing."""
    tied: bool = False
    """Whether the output layer shares the token embeddings."""


@dataclass(frozen=True, kw_only=True)
class AttentionSettings(NetworkSettings):
    """Settings of a network of Transformer layers."""

    depth: str
    """Number of layers of each part, from the tokens up, and of the decoder."""
    dim: Size = 512
    """Dimension of the model."""
    wide: Size = 1024
    """Hidden dimension of the feed-forward layers."""
    heads: Size = 8
    """Attention heads."""
    copy: bool = False
    """Whether the decoder has a copy mechanism."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_heads(self.dim, self.heads)
        self.layers()

    def layers(self) -> tuple[int, ...]:
        """Return the number of layers of each encoder, from the tokens up, and of the decoder.

        Raises:
            SettingError: ``depth`` is not of the form of the model's default.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class MTNSettings(AttentionSettings):
    """Settings of MTN; the defaults are the paper's best, those of model ``mtn`` are smaller."""

    depth: str = "3+2+3"
    """Number of layers of query encoder, session encoder and decoder; more numbers in between add levels above
    sessions."""
    smoothing: Share = 0.1
    """Label smoothing."""
    projection: Annotated[str, one_of("learned", "mean")] = "learned"
    """Pooling of a query's tokens: learned (one weight per position) or mean."""
    longest: Size = 32
    """Number of positions with their own pooling weight; later tokens share the last one."""
    reads: Annotated[str, one_of("last", "all")] = "last"
    """Tokens that the decoder attends to: those of the last query, or of all queries so far."""

    def layers(self) -> tuple[int, ...]:
        """Return the number of layers of each encoder, from the tokens up, and of the decoder."""
        return read_depth(self.depth, "query encoder + session encoder + decoder, such as 3+2+3", least=3)


@dataclass(frozen=True, kw_only=True)
class TransformerSettings(AttentionSettings):
    """Settings of a Transformer; the defaults are those of the MTN paper for its baseline."""

    depth: str = "4+4"
    """Number of layers of the encoder and of the decoder."""
    window: Size = 1
    """Number of latest queries that are read."""

    def layers(self) -> tuple[int, ...]:
        """Return the number of layers of the encoder and of the decoder."""
        return read_depth(self.depth, "encoder + decoder, such as 4+4", least=2, most=2)


@dataclass(frozen=True, kw_only=True)
class Seq2SeqSettings(NetworkSettings):
    """Settings of Seq2Seq; the defaults are those of the MTN paper."""

    dim: Even = 512
    """Units of the decoder LSTM; the encoder has half as many per direction."""


@dataclass(frozen=True, kw_only=True)
class HLSTMSettings(NetworkSettings):
    """Settings of the hierarchical LSTM; the defaults are those of the MTN paper for H-LSTM."""

    dim: Even = 512
    """Units of the session LSTM and of the decoder LSTM; the query encoder has half as many per direction."""
    pooling: Annotated[str, one_of("last", "max")] = "last"
    """Pooling of a query's states: last (the last state of each direction, HRED) or max (over its tokens, M-NSRF)."""
    entropy: NonNegative = 0.0
    """Weight of the confidence penalty, the sum of p log p over all tokens (M-NSRF: 0.1)."""


def read_depth(depth: str, parts: str, least: int, most: int | None = None) -> tuple[int, ...]:
    """Return the layers of each part from a text such as ``3+2+3``; the last part, the decoder, has at least one.

    Raises:
        SettingError: it is not of that form, or has too few or too many parts.
    """
    numbers = tuple(int(layers) for layers in depth.split("+") if layers.strip().isdecimal())
    is_valid = len(numbers) == len(depth.split("+")) and least <= len(numbers) <= (most or len(numbers))
    if not is_valid or not numbers[-1]:
        raise SettingError(f"depth is {depth!r}; give the layers of {parts}, the last at least 1")
    if sum(numbers) > DEEPEST:
        raise SettingError(f"depth is {depth}; it must be at most {DEEPEST} in all")
    return numbers
