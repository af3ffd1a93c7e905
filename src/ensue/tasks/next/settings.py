"""Settings and schedules of the models of task ``next``: light to import, as the command line needs them first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from ensue.schedule import Schedule
from ensue.settings import (
    DEEPEST,
    Count,
    DropoutRate,
    NonNegative,
    Positive,
    Settings,
    Share,
    Size,
    must_be,
    require_heads,
    variant_of,
)


@dataclass(frozen=True, kw_only=True)
class SharedSettings(Settings):
    """Settings that every model of the task knows."""

    min_users: Size = 1
    """How many people must have had the same events in the same order for them to be learned (sequences, of which those
    cut from one user's clicks count as one); values that fewer had are unknown. 1: all is learned."""


AUTO, SAMPLED = "auto", "sampled"


@dataclass(frozen=True, kw_only=True)
class SoftmaxSettings(Settings):
    """What models with an output layer over all users have in common."""

    loss: Annotated[str, variant_of(AUTO, "ce", SAMPLED)] = AUTO
    """ce (all users), sampled (shared negatives), or auto: sampled where there are more than 50,000 users."""
    negatives: Size = 2048
    """Users drawn a batch for ``sampled``."""

    @property
    def drawn(self) -> int | None:
        """How many users are drawn a batch; ``None`` where the loss goes over all."""
        return self.negatives if self.loss == SAMPLED else None


@dataclass(frozen=True, kw_only=True)
class CountingSettings(Settings):
    """Settings of the counting predictors."""

    window: Size = 30
    """How many of the latest events count."""
    power: float = 0.7
    """Row totals are divided out to this power: 1 trusts a rare value as much as a frequent one, 0 not at all."""
    popularity: Positive = 0.05
    """Weight of plain popularity beside the pair counts."""
    keep: Size = 1000
    """Successors kept a value, the most counted ones; bounds memory on large catalogues."""
    replay: Count = 1
    """0: nothing of a single history stays in a folder, so VS-kNN does not stand beside, and twins are not told."""


@dataclass(frozen=True, kw_only=True)
class OwnItemsSettings(CountingSettings):
    """Settings of sequential rules, and how far back own values count."""

    window: Size = 100
    """How many of the latest events count."""


@dataclass(frozen=True, kw_only=True)
class VSKNNSettings(Settings):
    """Settings of VS-kNN."""

    sample: Size = 1000
    """How many of the most recent sessions that share a click are compared (m)."""
    neighbours: Size = 100
    """How many of those, the most similar ones, have a say (k)."""
    window: Size = 10
    """How many of the latest clicks are compared."""
    decay: Annotated[str, variant_of("linear", "reciprocal", "quadratic")] = "reciprocal"
    """What a click weighs n steps before the latest: linear (1 - n / 10), reciprocal (1 / (n + 1)) or its square."""
    idf: NonNegative = 1.0
    """How much an item that few sessions hold gains; 0: nothing."""
    popularity: Positive = 0.01
    """Weight of plain popularity beside the neighbours' shares."""


CORE_SCHEDULE = Schedule(
    epochs=8,
    batch_size=256,
    min_steps=400,
    largest_batch=1024,
    max_epochs=32,
    learning_rate=2e-3,
    decay=True,
    weight_decay=0.0,
    monitor="mrr",
    patience=8,
)
"""Chosen on validation data: the last tenth of the training sessions of Diginetica."""


@dataclass(frozen=True, kw_only=True)
class CORESettings(Settings):
    """Settings of CORE."""

    dim: Size = 128
    """Width of the items."""
    heads: Size = 2
    """Heads of the encoder's attention."""
    max_length: Size = 50
    """How many events either layer looks back."""
    dropout: Share = 0.2
    """Share of units dropped in training."""
    temperature: Positive = 0.07
    """Cosines are divided by it."""
    loss: Annotated[str, variant_of("sampled", "ce")] = "sampled"
    """sampled (shared negatives) or ce (all items)."""
    negatives: Size = 4096
    """Items drawn a batch for ``sampled``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_heads(self.dim, self.heads)


DECAY = "linear"
"""How the memory weighs clicks by their distance; this and 300 neighbours: the last tenth of Diginetica's training."""


@dataclass(frozen=True, kw_only=True)
class BlendSettings(CORESettings):
    """Settings of CORE, and of the memory."""

    sample: Size = 1000
    """How many of the most recent sessions that share an event are compared."""
    neighbours: Size = 300
    """How many of those, the most similar ones, have a say."""
    window: Size = 10
    """How many of the latest events are compared."""

    def memory(self) -> VSKNNSettings:
        """The memory's part."""
        return VSKNNSettings(sample=self.sample, neighbours=self.neighbours, window=self.window, decay=DECAY)


@dataclass(frozen=True, kw_only=True)
class HiDANSettings(SoftmaxSettings):
    """Settings of HiDAN; sizes and dropout are the paper's."""

    dim: Size = 64
    """Width of users, contexts and cascades (d)."""
    table_dim: Size = 32
    """Width of the user table under Eq. 1's dense layer."""
    window: Count = 30
    """How many of the latest users are heeded; 0 for all."""
    max_hours: Positive = 120.0
    """Ages beyond this share the last interval (T_max)."""
    intervals: Size = 40
    """Number of equal age intervals (T)."""
    dropout: Share = 0.2
    """Share of units dropped in training (keep probability 0.8)."""
    user_attention: bool = True
    """False for HiDAN-NUA: the plain mean of the user and those before it, in place of attention and gate."""
    cascade_attention: bool = True
    """False for HiDAN-NCA: the cascade is the plain mean of its users."""
    time_decay: bool = True
    """False for HiDAN-NT: influence without ages."""
    cosine: bool = False
    """True: a user's score is a cosine times a factor that is learned, in place of Eq. 10's inner product."""


@dataclass(frozen=True, kw_only=True)
class CascadeBlendSettings(HiDANSettings):
    """Settings of HiDAN; what is beside it has none of its own."""

    table_dim: int = 64
    """Width of the user table."""
    cosine: bool = True
    """Scores are cosines."""


@dataclass(frozen=True, kw_only=True)
class RecurrentSettings(SoftmaxSettings):
    """Settings of the recurrent rivals; the defaults are those of HiDAN's paper."""

    dim: Size = 64
    """Width of the states."""
    table_dim: Size = 32
    """Width of the user table."""
    cell: Annotated[str, variant_of("rnn", "lstm")] = "rnn"
    """rnn or lstm."""
    attention: bool = False
    """True for Att-RNN and Att-LSTM: each state looks back at the states before it."""
    dropout: DropoutRate = 0.2
    """Share of units dropped in training (keep probability 0.8)."""


SHORTEST = 1 / 3600
"""Hours of the shortest gap: a second."""


@dataclass(frozen=True, kw_only=True)
class RMTPPSettings(SoftmaxSettings):
    """Settings of RMTPP; the defaults are those of HiDAN's paper."""

    dim: Size = 64
    """Width of the states."""
    table_dim: Size = 32
    """Width of the user table."""
    max_hours: Annotated[float, must_be("above a second", lambda value: value > SHORTEST)] = 120.0
    """Gaps beyond this share the last interval, and are learned as "not until then"."""
    intervals: Size = 40
    """Number of equal intervals of the gap."""
    dropout: Share = 0.2
    """Share of units dropped in training (keep probability 0.8)."""
    time_weight: NonNegative = 1.0
    """Weight of the time's part of the loss beside the marker's; 0 learns no times."""


@dataclass(frozen=True, kw_only=True)
class CYANRNNSettings(SoftmaxSettings):
    """Settings of CYAN-RNN; the defaults are those of HiDAN's paper."""

    dim: Size = 64
    """Width of the states of encoder and decoder."""
    table_dim: Size = 32
    """Width of the user table."""
    coverage: Size = 10
    """Numbers kept of each user on how much it was looked at."""
    cell: Annotated[str, variant_of("rnn", "gru")] = "rnn"
    """The encoder: rnn, or gru as in the authors' program."""
    max_hours: Positive = 120.0
    """Longer gaps count as this."""
    dropout: Share = 0.2
    """Share of units dropped in training (keep probability 0.8)."""


@dataclass(frozen=True, kw_only=True)
class SANSRSettings(Settings):
    """Settings of SANSR; width, heads and blocks are the paper's best, the loss is ours."""

    dim: Size = 128
    """Width of items and positions (d)."""
    heads: Size = 2
    """Attention heads (h)."""
    num_layers: Annotated[int, must_be(f"from 0 to {DEEPEST}", lambda value: 0 <= value <= DEEPEST)] = 1
    """Self-attention blocks (k); 0 compares the last click alone."""
    max_length: Size = 50
    """How many of the latest clicks are read (l)."""
    residual: bool = True
    """False for SANSR-RC: no residual into and around the feed-forward part."""
    dropout: Share = 0.4
    """Share of units dropped in training."""
    loss: Annotated[str, variant_of("sampled", "ce", "bpr", "bpr_softmax")] = "sampled"
    """sampled, ce, bpr (on scores) or bpr_softmax (Eq. 8 as printed)."""
    negatives: Size = 2048
    """Items drawn for each batch by ``sampled``; the pairwise losses draw 32 for each target, outside its session."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_heads(self.dim, self.heads)


FACTORS_SCHEDULE = Schedule(epochs=30, batch_size=128, weight_decay=0.0, monitor="mrr", patience=3)
"""How BPR-MF is trained."""
FPMC_SCHEDULE = replace(FACTORS_SCHEDULE, learning_rate=0.01)
"""How FPMC is trained: at the rate that session papers give it."""


@dataclass(frozen=True, kw_only=True)
class BPRMFSettings(Settings):
    """Settings of BPR-MF."""

    dim: Size = 100
    """Number of factors."""
    max_length: Size = 50
    """How many of the latest clicks make the session."""


@dataclass(frozen=True, kw_only=True)
class FPMCSettings(Settings):
    """Settings of FPMC."""

    dim: Size = 32
    """Number of factors of each of the two products."""
    max_length: Size = 50
    """How many of the latest clicks make the session."""
    negatives: Size = 10
    """Items drawn a target."""
    regularisation: NonNegative = 1e-3
    """L2: half of this times the squared factors that a pair touches is added to its loss."""


GRU4REC_SCHEDULE = Schedule(epochs=10, batch_size=128, weight_decay=0.0, monitor="mrr", patience=3)
"""The authors' epochs and batch (of sessions), with Adam's usual step."""


@dataclass(frozen=True, kw_only=True)
class GRU4RecSettings(Settings):
    """Settings of GRU4Rec; the defaults are the authors' for Diginetica."""

    dim: Size = 512
    """Width of the table and of the state."""
    dropout_items: DropoutRate = 0.5
    """Share of units of the clicks dropped in training."""
    dropout_state: DropoutRate = 0.3
    """Share of units of the state dropped in training."""
    loss: Annotated[str, variant_of("bpr-max", "ce")] = "bpr-max"
    """bpr-max, or ce (cross-entropy over target and negatives)."""
    negatives: Size = 2048
    """Items drawn a batch."""
    power: NonNegative = 0.3
    """Negatives are drawn by their count to this power (alpha): 0 uniform, 1 by popularity."""
    logq: NonNegative = 0.0
    """For ``ce``: how much of log(its expected draws) is taken off a negative; 1 corrects the sampling in full."""
    regularisation: NonNegative = 0.9
    """For ``bpr-max``: weight of the squared scores of the negatives."""


NARM_SCHEDULE = Schedule(epochs=30, batch_size=128, weight_decay=0.0, monitor="mrr", patience=3)
"""The authors' epochs and Adam's step, 0.001; 128 sessions are about 512 prefixes."""


@dataclass(frozen=True, kw_only=True)
class NARMSettings(Settings):
    """Settings of NARM; the defaults are the authors'."""

    dim: Size = 100
    """Width of the GRU's state."""
    table_dim: Size = 50
    """Width of the item table."""
    max_length: Size = 19
    """How many of the latest clicks the attention heeds."""
    dropout_items: DropoutRate = 0.25
    """Share of units of the clicks dropped in training."""
    dropout_session: DropoutRate = 0.5
    """Share of units of the session's vector dropped in training."""
    loss: Annotated[str, variant_of("ce", "sampled")] = "ce"
    """ce (softmax over all items) or sampled (over the target and drawn ones)."""
    negatives: Size = 2048
    """Items drawn a batch for ``sampled``."""


STAMP_SCHEDULE = Schedule(epochs=30, batch_size=128, learning_rate=3e-3, weight_decay=0.0, monitor="mrr", patience=3)
"""The authors' rate; 128 sessions are about 512 prefixes; early stopping picks the epoch."""


@dataclass(frozen=True, kw_only=True)
class STAMPSettings(Settings):
    """Settings of STAMP; the defaults are the authors'."""

    dim: Size = 100
    """Width of items and cells."""
    max_length: Size = 50
    """How many of the latest clicks are read."""
    loss: Annotated[str, variant_of("ce", "sampled")] = "ce"
    """ce (softmax over all items) or sampled (over the target and drawn ones)."""
    negatives: Size = 2048
    """Items drawn a batch for ``sampled``."""
