"""The models of task ``suggest``.

Each row of ``MODELS`` is a name, its class (``MODULE:CLASS``, imported when it is made), default settings and schedule
(``None``: it is not trained). Importing this module does not import torch.
The networks are of a size that a CPU trains and answers with, and each has about as many weights; ``mtn-paper`` has the
paper's sizes, which are the defaults of its settings.
"""

from dataclasses import replace
from typing import Any

from ensue.registry import Models
from ensue.tasks.suggest.settings import (
    MTN_SCHEDULE,
    RECURRENT_SCHEDULE,
    HLSTMSettings,
    MTNSettings,
    Seq2SeqSettings,
    SuggestSettings,
    TransformerSettings,
)

_SMALL: dict[str, Any] = {"dim": 128, "embedding": 128, "wide": 256, "heads": 4, "tied": True, "dropout": 0.2}
_SMALL_BATCHES: dict[str, Any] = {"batch_size": 32, "min_steps": 50, "max_epochs": 100}
"""30 epochs of 50 steps: as many as 10,000 sessions get in the five epochs in which they learn the most."""
_SHORT_WARM_UP = replace(MTN_SCHEDULE, learning_rate=1e-3, warm_up=300, **_SMALL_BATCHES)
"""A log of some 10,000 sessions has learned what it can before the paper's 4,000 steps of warm-up are over."""
_RECURRENT = replace(RECURRENT_SCHEDULE, **_SMALL_BATCHES)
_LSTM: dict[str, Any] = {"dim": 240, "embedding": 128, "tied": True}  # wider, for as many weights

MODELS = Models(
    "suggest",
    {
        "mtn": ("models.mtn:MTN", MTNSettings(**_SMALL), _SHORT_WARM_UP),
        "mtn-paper": ("models.mtn:MTN", MTNSettings(), replace(MTN_SCHEDULE, epochs=5, refit=False)),
        "transformer": ("models.transformers:Transformer", TransformerSettings(**_SMALL), _SHORT_WARM_UP),
        "flat-transformer": (
            "models.transformers:Transformer",
            TransformerSettings(**_SMALL, window=16),
            _SHORT_WARM_UP,
        ),
        "seq2seq": ("models.recurrent:Seq2Seq", Seq2SeqSettings(**{**_LSTM, "dim": 288}), _RECURRENT),
        "h-lstm": ("models.recurrent:HLSTM", HLSTMSettings(**_LSTM), _RECURRENT),
        "m-nsrf": ("models.recurrent:HLSTM", HLSTMSettings(**_LSTM, pooling="max", entropy=0.1), _RECURRENT),
        "reranker": ("baselines.shares:Shares", None, None),
        "most-frequent-next": ("baselines.counting:MostFrequentNext", None, None),
        "popular": ("baselines.shares:Shares", None, None),
        "co-occurrence": ("baselines.shares:Shares", None, None),
        "after-words": ("baselines.shares:Shares", None, None),
        "repeat-last": ("baselines.counting:RepeatLast", None, None),
    },
)
SHARED = SuggestSettings()
"""Settings that every model has."""
ABOUT: dict[str, tuple[str, str]] = {
    "mtn": (
        "hierarchical Transformers over words and queries, with a decoder",
        "Multiresolution Transformer Networks, 2019",
    ),
    "mtn-paper": ("MTN with the sizes of its paper, five epochs", "Multiresolution Transformer Networks, 2019"),
    "transformer": ("a Transformer on the last query", "Vaswani et al., NeurIPS 2017"),
    "flat-transformer": ("a Transformer on the whole session", "Mustar, Lamprier & Piwowarski, 2021"),
    "seq2seq": ("LSTMs with attention, on the last query", "Luong, Pham & Manning, EMNLP 2015"),
    "h-lstm": ("an LSTM over words, one over queries", "Sordoni et al., CIKM 2015"),
    "m-nsrf": ("hierarchical LSTM, queries by max pooling over words", "Ahmad, Chang & Wang, ICLR 2018"),
    "reranker": ("counts and shared words, ranked by a trained reranker", "McFadden, 1974"),
    "most-frequent-next": ("most frequent followers of the last query, then popularity", ""),
    "popular": ("popularity", ""),
    "co-occurrence": ("queries that co-occur with the session's, weighted by distance", ""),
    "after-words": ("followers of the session's words, rare words weighted more", ""),
    "repeat-last": ("queries of the session, repeated", ""),
}
"""Description of each model in one line, and its publication."""
COUNTING = ("most-frequent-next", "popular", "co-occurrence", "after-words", "repeat-last")
"""Learned beside every network."""
RERANKER = "reranker"
"""The model that counts, and whose order is learned."""
RERANKED: dict[str, object] = {"retrieved": 50, "first": "consensus"}
"""Settings of the reranker."""
BEST: tuple[str, dict[str, object]] = (
    "mtn",
    {"copy": True, "reads": "all", "smoothing": 0.0, "retrieved": 50, "first": "consensus"},
)
"""Model and settings of ``best``: MTN that attends to and may copy words of all queries so far, and scores retrieved
queries together with generated ones. Weights that held-out sessions choose order both, and the one that most of them
share words with leads. Networks are not tried against each other, for each costs a whole training: ``compare`` does
that."""
