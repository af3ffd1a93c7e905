"""Settings and schedules of the models of task ``suggest``: light to import, as the command line needs them first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ensue.schedule import Schedule
from ensue.settings import (
    Count,
    NonNegative,
    Settings,
    Share,
    Size,
    must_be,
    one_of,
    require_heads,
)
from ensue.tasks.suggest.sizes import read_depth


@dataclass(frozen=True, kw_only=True)
class Search(Settings):
    """How suggestions are looked for."""

    beam: Size = 5
    """Open beams a row; 1 is greedy."""
    keep: Size = 5
    """Suggestions a row."""
    longest: Size = 10
    """Tokens a suggestion has at most."""
    exponent: NonNegative = 0.6
    """A suggestion's log-probability is divided by its length to this power: 0 favours short ones."""
    repeats: bool = False
    """Whether a query that was typed in this session already may be suggested."""
    exhaustive: bool = False
    """Whether to look on until no open beam can ever come in; else until none would if it ended with the next token."""


CappedSize = Annotated[int, must_be("at least 1 and at most 100,000", lambda value: 1 <= value <= 100_000)]
Exponent = Annotated[float, must_be("at least 0 and at most 10", lambda value: 0 <= value <= 10)]


@dataclass(frozen=True, kw_only=True)
class SuggestSettings(Settings):
    """Settings that every model of the task knows."""

    min_users: CappedSize = 5
    """The privacy floor: how many users (sessions, where the log knows no users) must have typed what is shown."""
    tokens: Annotated[str, one_of("auto", "words", "bpe")] = "auto"
    """What queries are cut into: words, or bpe (byte-level pieces, which leave no word unknown). ``auto`` takes words,
    and pieces where most queries are of a script that puts no space between words."""
    min_count: CappedSize = 3
    """Of words: how often one must occur to have a vector; the others are read as one unknown word."""
    vocabulary_size: int = 8192
    """Of bpe: how many pieces at most."""
    turns: Annotated[int, must_be("at least 2", lambda value: value >= 2)] = 16
    """Queries that are read at once: longer sessions are learned in windows, and answered from their latest queries."""
    query_tokens: CappedSize = 24
    """Tokens of a query that are read; the rest is cut."""
    suggestion_tokens: Annotated[int, must_be("at least 1 and at most 256", lambda value: 1 <= value <= 256)] = 12
    """Tokens that a suggestion has at most."""
    beam: Annotated[int, must_be("at least 1 and at most 1,000", lambda value: 1 <= value <= 1000)] = 5
    """Open beams in the search for suggestions; as many as are asked for, if that is more."""
    exponent: Exponent = 0.6
    """A suggestion's log-probability is divided by its length to this power."""
    repeats: bool = False
    """Whether a query that was typed in the session already may be suggested."""
    exhaustive: bool = False
    """Whether the search goes on until no open beam can come in: see :class:`Search`."""
    retrieved: Annotated[Count, must_be("at most 100,000", lambda value: value <= 100_000)] = 0
    """Queries of the log that are looked up for each answer and scored by the model beside those it writes."""
    first: Annotated[str, one_of("likeliest", "consensus")] = "likeliest"
    """Which suggestion leads: likeliest, or consensus: the one whose words most of what may come shares."""

    def search(self, k: int) -> Search:
        """How ``k`` suggestions are looked for."""
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


@dataclass(frozen=True, kw_only=True)
class MTNSettings(Settings):
    """Settings of MTN; the defaults are the paper's best, those of model ``mtn`` are smaller."""

    depth: str = "3+2+3"
    """Layers: query encoder, session encoder, decoder; with more numbers in between, one level each above sessions."""
    dim: Size = 512
    """Width of the model."""
    embedding: Size = 300
    """Width of the table of words."""
    wide: Size = 1024
    """Width inside the feed-forward parts."""
    heads: Size = 8
    """Heads of each attention."""
    dropout: Share = 0.1
    """Share of units dropped in training."""
    smoothing: Share = 0.1
    """Label smoothing: the share of each target that is spread over all words."""
    projection: Annotated[str, one_of("learned", "mean")] = "learned"
    """How a query's words become one vector: learned (a weight a position) or mean."""
    longest: Size = 32
    """Positions with a weight of their own; words after that share the last one."""
    reads: Annotated[str, one_of("last", "all")] = "last"
    """What the decoder reads: the words of the last query, or of all so far."""
    copy: bool = False
    """Whether words that the decoder reads can be copied."""
    tied: bool = False
    """Whether the table of words is the output layer too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_heads(self.dim, self.heads)
        self.layers()

    def layers(self) -> tuple[int, ...]:
        """Of each encoder, from the tokens up, and of the decoder."""
        return read_depth(self.depth, "query encoder + session encoder + decoder, such as 3+2+3", least=3)


Even = Annotated[Size, must_be("even, because each direction has half of it", lambda value: value % 2 == 0)]
RECURRENT_SCHEDULE = Schedule(epochs=30, batch_size=64, learning_rate=1e-3, weight_decay=0.0, patience=3, replay=0)


@dataclass(frozen=True, kw_only=True)
class Seq2SeqSettings(Settings):
    """Settings of Seq2Seq; the defaults are those of the MTN paper."""

    dim: Even = 512
    """Units of the LSTM that writes; half as many in each direction of the one that reads."""
    embedding: Size = 300
    """Width of the table of words."""
    dropout: Share = 0.1
    """Share of units dropped in training, of words and of states."""
    smoothing: Share = 0.0
    """Label smoothing: the share of each target that is spread over all words."""
    tied: bool = False
    """Whether the table of words is the output layer too."""


@dataclass(frozen=True, kw_only=True)
class HLSTMSettings(Settings):
    """Settings of the hierarchical LSTM; the defaults are those of the MTN paper for H-LSTM."""

    dim: Even = 512
    """Units of the LSTMs over queries and of the one that writes; half as many in each direction over words."""
    embedding: Size = 300
    """Width of the table of words."""
    dropout: Share = 0.1
    """Share of units dropped in training, of words and of states."""
    smoothing: Share = 0.0
    """Label smoothing: the share of each target that is spread over all words."""
    pooling: Annotated[str, one_of("last", "max")] = "last"
    """What stands for a query: last (the last state of each direction, HRED) or max (over its words, M-NSRF)."""
    entropy: NonNegative = 0.0
    """Weight of the sum of p log p over all words, which keeps the output from being too sure (M-NSRF: 0.1)."""
    tied: bool = False
    """Whether the table of words is the output layer too."""


@dataclass(frozen=True, kw_only=True)
class TransformerSettings(Settings):
    """Settings of a Transformer; the defaults are those of the MTN paper for its rival."""

    depth: str = "4+4"
    """Layers of the encoder and of the decoder."""
    window: Size = 1
    """How many of the latest queries are read."""
    dim: Size = 512
    """Width of the model."""
    embedding: Size = 300
    """Width of the table of words."""
    wide: Size = 1024
    """Width inside the feed-forward parts."""
    heads: Size = 8
    """Heads of each attention."""
    dropout: Share = 0.1
    """Share of units dropped in training."""
    smoothing: Share = 0.0
    """Label smoothing: the share of each target that is spread over all words."""
    copy: bool = False
    """Whether words of the queries read can be copied."""
    tied: bool = False
    """Whether the table of words is the output layer too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_heads(self.dim, self.heads)
        self.layers()

    def layers(self) -> tuple[int, ...]:
        """Of the encoder and of the decoder."""
        return read_depth(self.depth, "encoder + decoder, such as 4+4", least=2, most=2)
