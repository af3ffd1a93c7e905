"""What the paper of centrality attention prints, and how sure it is.

Gong et al., Text Information Aggregation with Centrality Attention, Science China Information Sciences 2020. Every
figure is one run, without an interval; the test sets alone say how far another draw of texts would move it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

SETTINGS_NAMES = (
    "dim",
    "hidden",
    "score_dim",
    "weight_decay",
    "learning_rate",
    "decay_rate",
    "decay_steps",
    "batch_size",
    "smallest_batch",
    "dropout",
)
"""Table 2's rows, in its order, by our names."""
SETTINGS: Mapping[str, tuple[float, ...]] = {
    "yelp-2013": (300, 300, 50, 1e-6, 0.0001, 0.9, 2000, 64, 32, 0.6),
    "yelp-2014": (300, 300, 50, 1e-6, 0.0001, 0.9, 5000, 64, 16, 0.6),
    "imdb-10": (300, 300, 50, 1e-6, 0.0001, 0.9, 1000, 32, 32, 0.4),
    "sst1": (300, 300, 50, 1e-6, 0.0003, 0.95, 500, 128, 32, 0.6),
    "sst2": (300, 300, 50, 1e-6, 0.0003, 0.95, 500, 128, 16, 0.6),
    "snli": (300, 300, 30, 1e-20, 0.0001, 0.95, 20_000, 128, 128, 0.2),
}
"""Table 2. ``imdb-10`` is Tang's set with ten ratings, which is not the one of Maas et al."""

STATISTICS_NAMES = ("train", "dev", "test", "classes", "mean_length", "vocabulary")
STATISTICS: Mapping[str, tuple[int, ...]] = {
    "yelp-2013": (62_522, 7_773, 8_671, 5, 189, 29_300),
    "yelp-2014": (183_019, 22_745, 25_399, 5, 197, 49_600),
    "imdb-10": (67_426, 8_381, 9_112, 10, 395, 61_100),
    "sst1": (8_544, 1_101, 2_201, 5, 18, 16_300),
    "sst2": (6_920, 872, 1_821, 2, 19, 14_800),
    "snli": (549_000, 9_800, 9_800, 3, 11, 36_000),
}
"""Table 1, its thousands (``36k``) written out."""

ROWS: Mapping[str, str] = {
    "max": "Max pooling",
    "mean": "Average pooling",
    "self-attention": "Self-attention",
    "routing": "Standard DR-AGG",
    "reverse-routing": "Reverse DR-AGG",
    "centrality": "This work",
}
"""Our models by their names in Tables 3 and 4."""
RESULTS: Mapping[str, Mapping[str, float]] = {
    "yelp-2013": {
        "max": 61.1,
        "mean": 60.7,
        "self-attention": 61.0,
        "routing": 62.1,
        "reverse-routing": 61.6,
        "centrality": 63.7,
    },
    "yelp-2014": {
        "max": 61.2,
        "mean": 60.6,
        "self-attention": 61.5,
        "routing": 63.0,
        "reverse-routing": 62.5,
        "centrality": 64.2,
    },
    "imdb-10": {
        "max": 41.1,
        "mean": 39.1,
        "self-attention": 43.3,
        "routing": 45.1,
        "reverse-routing": 44.5,
        "centrality": 48.2,
    },
    "sst1": {
        "max": 48.0,
        "mean": 46.2,
        "self-attention": 48.2,
        "routing": 50.5,
        "reverse-routing": 49.3,
        "centrality": 51.6,
    },
    "sst2": {
        "max": 87.0,
        "mean": 85.2,
        "self-attention": 86.4,
        "routing": 87.6,
        "reverse-routing": 87.2,
        "centrality": 88.5,
    },
}
"""Table 3: accuracy in per cent."""
ENTAILMENT: Mapping[str, float] = {
    "max": 84.5,
    "intra-attention": 84.2,
    "self-attention": 84.4,
    "mean": 83.4,
    "centrality": 85.3,
}
"""Table 4: accuracy on SNLI in per cent."""
TOLERANCE, STEPS = 1e-10, 200
"""The power method's stop factor, and the steps that Figure 4 finds enough for most samples."""
COST = 5
"""How many times the training of attentive pooling the paper's takes on Yelp-14."""
SLIPS = (
    "Table 1 gives SST-1 a test set of 2,201; the standard split has 2,210.",
    "The paper's 20 taped steps find the gradient to 1e-3 only where |lambda_2| is at most 0.72: the error falls as "
    "|lambda_2| to the 20th.",
    "Its baselines pool without the two LayerNorms of its own layer, and its max pooling sees padding (in the released "
    "program); here all have the same LayerNorms and masks.",
)
"""What a reader should know before comparing."""


def printed(data: str, model: str) -> float | None:
    """The accuracy that Table 3 (of SNLI, Table 4) prints, in per cent; ``None`` where it has none."""
    return (ENTAILMENT if data == "snli" else RESULTS.get(data, {})).get(model)


def half(percent: float, texts: int) -> float:
    """Half of the 95 % interval, in per cent, of a share measured once on so many texts (normal approximation)."""
    return 1.96 * sqrt(percent * (100 - percent) / texts)
