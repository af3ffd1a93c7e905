"""Settings and schedules of the models of task ``next``; this module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from ensue.schedule import Schedule
from ensue.settings import (
    DEEPEST,
    Count,
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
    """Settings that every model of the task has."""

    min_users: Size = 1
    """k-anonymity threshold: number of users (sequences, if the log has no users) that must share a run of events
    before it is trained on; rarer items are out of vocabulary. 1: everything is trained on."""
    vectors: str | None = None
    """Path of a file of word vectors (GloVe, fastText, word2vec text or npz) that encode the texts of an item table by
    the mean over their words. [default: an embedding of each word is learned]"""
    encoder: str | None = None
    """Name or folder of a sentence-transformers model that encodes the texts of an item table."""


AUTO = "auto"
SAMPLED = "sampled"


@dataclass(frozen=True, kw_only=True)
class SampledSettings(Settings):
    """Settings of models whose loss may be over shared negatives."""

    loss: str
    """Training loss."""
    negatives: Size = 2048
    """Items or users drawn per batch by ``sampled``."""

    @property
    def drawn(self) -> int | None:
        """Number of negatives drawn per batch; ``None`` if the loss is over all."""
        return self.negatives if self.loss == SAMPLED else None


@dataclass(frozen=True, kw_only=True)
class HeadSettings(Settings):
    """Settings of models whose attention heads share the width."""

    dim: Size
    """Dimension of the item vectors."""
    heads: Size
    """Attention heads."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_heads(self.dim, self.heads)


@dataclass(frozen=True, kw_only=True)
class SoftmaxSettings(SampledSettings):
    """Settings of models with an output layer over all users."""

    loss: Annotated[str, variant_of(AUTO, "ce", SAMPLED)] = AUTO
    """Training loss: ce (softmax over all users), sampled (shared negatives), or auto: sampled above 50,000 users."""
    dim: Size = 64
    """Dimension of the states (d)."""
    table_dim: Size = 32
    """Dimension of the user embeddings."""
    dropout: Share = 0.2
    """Dropout rate."""


@dataclass(frozen=True, kw_only=True)
class CountingSettings(Settings):
    """Settings of the count-based baselines."""

    window: Size = 30
    """Number of latest events that are scored from."""
    power: float = 0.7
    """Exponent of the normalisation by row totals: 1 trusts a rare item as much as a frequent one, 0 does not
    normalise."""
    popularity: Positive = 0.05
    """Weight of popularity, added to the pair counts."""
    keep: Size = 1000
    """Maximum number of successors stored per item, the most frequent ones; bounds memory on large catalogues."""
    replay: Count = 1
    """0: nothing of a single history is stored in the folder; baseline VS-kNN and duplicate histories are then not
    available."""


@dataclass(frozen=True, kw_only=True)
class VSKNNSettings(Settings):
    """Settings of VS-kNN."""

    sample: Size = 1000
    """Number of most recent sessions with a shared click that are compared (m)."""
    neighbours: Size = 100
    """Number of most similar sessions that are scored from (k)."""
    window: Size = 10
    """Number of latest clicks that are compared."""
    decay: Annotated[str, variant_of("linear", "reciprocal", "quadratic")] = "reciprocal"
    """Weight of a click n steps before the latest: linear (1 - n / 10), reciprocal (1 / (n + 1)) or quadratic (its
    square)."""
    idf: NonNegative = 1.0
    """Weight of the inverse document frequency of items; 0 turns it off."""
    popularity: Positive = 0.01
    """Weight of popularity, added to the scores of the neighbours."""


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
class CORESettings(HeadSettings, SampledSettings):
    """Settings of CORE."""

    dim: Size = 128
    """Dimension of the item vectors."""
    heads: Size = 2
    """Attention heads of the encoder."""
    max_length: Size = 50
    """Maximum number of latest events that are read."""
    dropout: Share = 0.2
    """Dropout rate."""
    temperature: Positive = 0.07
    """Temperature: cosines are divided by it."""
    loss: Annotated[str, variant_of("sampled", "ce")] = "sampled"
    """Training loss: sampled (shared negatives) or ce (softmax over all items)."""
    negatives: Size = 4096
    """Items drawn per batch by ``sampled``."""


DECAY = "linear"
"""Decay of the nearest-neighbour part; chosen with its 300 neighbours on the last tenth of Diginetica's training
data."""


@dataclass(frozen=True, kw_only=True)
class BlendSettings(CORESettings):
    """Settings of CORE and of the nearest-neighbour part of ``blend``."""

    sample: Size = 1000
    """Number of most recent sessions with a shared event that are compared."""
    neighbours: Size = 300
    """Number of most similar sessions that are scored from."""
    window: Size = 10
    """Number of latest events that are compared."""

    def memory(self) -> VSKNNSettings:
        """Return the settings of the nearest-neighbour part."""
        return VSKNNSettings(sample=self.sample, neighbours=self.neighbours, window=self.window, decay=DECAY)


@dataclass(frozen=True, kw_only=True)
class HiDANSettings(SoftmaxSettings):
    """Settings of HiDAN; sizes and dropout are the paper's."""

    window: Count = 30
    """Number of latest users that are attended to; 0 for all."""
    max_hours: Positive = 120.0
    """Maximum age in hours; greater ages share the last interval (T_max)."""
    intervals: Size = 40
    """Number of equal age intervals (T)."""
    user_attention: bool = True
    """False for HiDAN-NUA: the mean of the user and the users before, in place of attention and gate."""
    cascade_attention: bool = True
    """False for HiDAN-NCA: a cascade is the mean of its users."""
    time_decay: bool = True
    """False for HiDAN-NT: influence without ages."""
    cosine: bool = False
    """If true, scores are cosines times a learned factor, in place of Eq. 10's inner product."""


@dataclass(frozen=True, kw_only=True)
class CascadeBlendSettings(HiDANSettings):
    """Settings of the HiDAN in ``cascade-blend``; its other parts have none."""

    table_dim: int = 64
    """Dimension of the user embeddings."""
    cosine: bool = True
    """If true, scores are cosines times a learned factor."""


@dataclass(frozen=True, kw_only=True)
class RecurrentSettings(SoftmaxSettings):
    """Settings of the recurrent baselines; the defaults are those of HiDAN's paper."""

    cell: Annotated[str, variant_of("rnn", "lstm")] = "rnn"
    """Recurrent cell: rnn or lstm."""
    attention: bool = False
    """True for Att-RNN and Att-LSTM: each state attends to the states before it."""


SHORTEST = 1 / 3600
"""Hours of the shortest gap: a second."""


@dataclass(frozen=True, kw_only=True)
class RMTPPSettings(SoftmaxSettings):
    """Settings of RMTPP; the defaults are those of HiDAN's paper."""

    max_hours: Annotated[float, must_be("above a second", lambda value: value > SHORTEST)] = 120.0
    """Maximum gap in hours; greater gaps share the last interval and are trained on as censored."""
    intervals: Size = 40
    """Number of equal intervals of the gap."""
    time_weight: NonNegative = 1.0
    """Weight of the time loss, added to that of the marker; 0 trains no times."""


@dataclass(frozen=True, kw_only=True)
class CYANRNNSettings(SoftmaxSettings):
    """Settings of CYAN-RNN; the defaults are those of HiDAN's paper."""

    coverage: Size = 10
    """Dimension of the coverage vector of each user."""
    cell: Annotated[str, variant_of("rnn", "gru")] = "rnn"
    """Recurrent cell of the encoder: rnn, or gru as in the authors' program."""
    max_hours: Positive = 120.0
    """Maximum gap in hours; greater gaps are set to it."""


@dataclass(frozen=True, kw_only=True)
class SANSRSettings(HeadSettings, SampledSettings):
    """Settings of SANSR; dimension, heads and layers are the paper's best, the loss is ours."""

    dim: Size = 128
    """Dimension of items and positions (d)."""
    heads: Size = 2
    """Attention heads (h)."""
    num_layers: Annotated[int, must_be(f"from 0 to {DEEPEST}", lambda value: 0 <= value <= DEEPEST)] = 1
    """Self-attention blocks (k); 0 scores from the last click alone."""
    max_length: Size = 50
    """Maximum number of latest clicks that are read (l)."""
    residual: bool = True
    """False for SANSR-RC: no residual connections into and around the feed-forward layer."""
    dropout: Share = 0.4
    """Dropout rate."""
    loss: Annotated[str, variant_of("sampled", "ce", "bpr", "bpr_softmax")] = "sampled"
    """Training loss: sampled, ce, or, against 32 items per target from outside its session, bpr (on scores) or
    bpr_softmax (Eq. 8 as printed)."""


FACTORS_SCHEDULE = Schedule(epochs=30, batch_size=128, weight_decay=0.0, monitor="mrr", patience=3)
"""Training schedule of BPR-MF."""
FPMC_SCHEDULE = replace(FACTORS_SCHEDULE, learning_rate=0.01)
"""Training schedule of FPMC, with the learning rate of papers on sessions."""


@dataclass(frozen=True, kw_only=True)
class BPRMFSettings(Settings):
    """Settings of BPR-MF."""

    dim: Size = 100
    """Number of factors."""
    max_length: Size = 50
    """Maximum number of latest clicks that are read."""


@dataclass(frozen=True, kw_only=True)
class FPMCSettings(Settings):
    """Settings of FPMC."""

    dim: Size = 32
    """Number of factors of each of the two products."""
    max_length: Size = 50
    """Maximum number of latest clicks that are read."""
    negatives: Size = 10
    """Items drawn per target."""
    regularisation: NonNegative = 1e-3
    """L2 penalty: half of this times the squared factors of a pair is added to its loss."""


GRU4REC_SCHEDULE = Schedule(epochs=10, batch_size=128, weight_decay=0.0, monitor="mrr", patience=3)
"""The authors' epochs and batch (of sessions), with Adam's usual step."""


@dataclass(frozen=True, kw_only=True)
class GRU4RecSettings(Settings):
    """Settings of GRU4Rec; the defaults are the authors' for Diginetica."""

    dim: Size = 512
    """Dimension of the item vectors and of the state."""
    dropout_items: Share = 0.5
    """Dropout rate of the item vectors."""
    dropout_state: Share = 0.3
    """Dropout rate of the state."""
    loss: Annotated[str, variant_of("bpr-max", "ce")] = "bpr-max"
    """Training loss: bpr-max, or ce (cross-entropy over target and negatives)."""
    negatives: Size = 2048
    """Items drawn per batch."""
    power: NonNegative = 0.3
    """Exponent of the counts that negatives are drawn by (alpha): 0 uniform, 1 by popularity."""
    logq: NonNegative = 0.0
    """For ``ce``: factor of the logQ correction of negatives; 1 corrects the sampling in full."""
    regularisation: NonNegative = 0.9
    """For ``bpr-max``: weight of the penalty on squared scores of negatives."""


@dataclass(frozen=True, kw_only=True)
class SessionSettings(SampledSettings):
    """Settings of models of sessions that their authors trained with a softmax over all items."""

    dim: Size = 100
    """Dimension of the states, and of the item vectors where these have no setting of their own."""
    max_length: Size = 50
    """Maximum number of latest clicks that are read."""
    loss: Annotated[str, variant_of("ce", "sampled")] = "ce"
    """Training loss: ce (softmax over all items) or sampled (shared negatives)."""


NARM_SCHEDULE = Schedule(epochs=30, batch_size=128, weight_decay=0.0, monitor="mrr", patience=3)
"""The authors' epochs and Adam's step, 0.001; 128 sessions are about 512 prefixes."""


@dataclass(frozen=True, kw_only=True)
class NARMSettings(SessionSettings):
    """Settings of NARM; the defaults are the authors'."""

    table_dim: Size = 50
    """Dimension of the item vectors."""
    max_length: Size = 19
    """Maximum number of latest clicks that are attended to."""
    dropout_items: Share = 0.25
    """Dropout rate of the item vectors."""
    dropout_session: Share = 0.5
    """Dropout rate of the session vector."""


STAMP_SCHEDULE = Schedule(epochs=30, batch_size=128, learning_rate=3e-3, weight_decay=0.0, monitor="mrr", patience=3)
"""The authors' rate; 128 sessions are about 512 prefixes; early stopping picks the epoch."""


class STAMPSettings(SessionSettings):
    """Settings of STAMP; the defaults are the authors'."""


SRGNN_SCHEDULE = Schedule(epochs=30, batch_size=128, weight_decay=1e-5, monitor="mrr", patience=3)
"""The authors' epochs, step size and penalty; 128 sessions are about 512 prefixes."""


@dataclass(frozen=True, kw_only=True)
class SRGNNSettings(SessionSettings):
    """Settings of SR-GNN; the defaults are the authors'."""

    steps: Annotated[int, must_be(f"from 1 to {DEEPEST}", lambda value: 1 <= value <= DEEPEST)] = 1
    """Steps in which messages are passed along the edges."""


SASREC_SCHEDULE = Schedule(epochs=200, batch_size=128, weight_decay=0.0, monitor="mrr", patience=10, min_steps=50)
"""The authors' batch and step size; early stopping picks the epoch."""


@dataclass(frozen=True, kw_only=True)
class SASRecSettings(HeadSettings, SampledSettings):
    """Settings of SASRec, eSASRec and HSTU; the defaults are those of SASRec's paper for MovieLens."""

    dim: Size = 64
    """Dimension of the item vectors (d)."""
    heads: Size = 1
    """Attention heads."""
    num_layers: Annotated[int, must_be(f"from 1 to {DEEPEST}", lambda value: 1 <= value <= DEEPEST)] = 2
    """Self-attention blocks (b)."""
    max_length: Size = 200
    """Maximum number of latest events that are read (n)."""
    dropout: Share = 0.2
    """Dropout rate."""
    loss: Annotated[str, variant_of("bce", "sampled", "ce")] = "bce"
    """Training loss: bce (one item outside the session per target), sampled (softmax over shared negatives) or ce
    (softmax over all items)."""


@dataclass(frozen=True, kw_only=True)
class BERT4RecSettings(HeadSettings):
    """Settings of BERT4Rec; the defaults are those of its paper for MovieLens."""

    dim: Size = 64
    """Dimension of the item vectors (d)."""
    heads: Size = 2
    """Attention heads (h)."""
    num_layers: Annotated[int, must_be(f"from 1 to {DEEPEST}", lambda value: 1 <= value <= DEEPEST)] = 2
    """Encoder blocks (L)."""
    max_length: Annotated[int, must_be("at least 2", lambda value: value >= 2)] = 200
    """Maximum number of latest events that are read, the mask included (N)."""
    dropout: Share = 0.2
    """Dropout rate."""
    mask_fraction: Annotated[float, must_be("above 0 and at most 1", lambda value: 0 < value <= 1)] = 0.2
    """Fraction of the events that are masked in training (rho)."""
