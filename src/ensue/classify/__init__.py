"""Task ``classify``: which label fits this text, or this pair of texts.

``MODELS`` is the whole registry: a name, its module, its default settings, and how it is trained (``None``: counted).
"""

from typing import Any

from ensue.classify.counting import CountingSettings, Majority, MeanVectors, Tfidf
from ensue.classify.network import SCHEDULE, TextClassifier, TextSettings
from ensue.schedule import Schedule

MODELS: dict[str, tuple[Any, Any, Schedule | None]] = {
    "centrality": (TextClassifier, TextSettings(pooling="centrality"), SCHEDULE),
    "centrality-bilinear": (TextClassifier, TextSettings(pooling="centrality-bilinear"), SCHEDULE),
    "blend": (TextClassifier, TextSettings(pooling="centrality"), SCHEDULE),
    "self-attention": (TextClassifier, TextSettings(pooling="self-attention"), SCHEDULE),
    "mean": (TextClassifier, TextSettings(pooling="mean"), SCHEDULE),
    "max": (TextClassifier, TextSettings(pooling="max"), SCHEDULE),
    "routing": (TextClassifier, TextSettings(pooling="routing"), SCHEDULE),
    "reverse-routing": (TextClassifier, TextSettings(pooling="reverse-routing"), SCHEDULE),
    "tfidf": (Tfidf, CountingSettings(), None),
    "vectors": (MeanVectors, CountingSettings(), None),
    "majority": (Majority, CountingSettings(), None),
}
COUNTING = ("tfidf", "vectors", "majority")
"""Learned beside every model; ``vectors`` only where there is a file of them."""
BEST = ("blend", "tfidf", "vectors")
"""What ``best`` chooses from: centrality attention pooled with counting, which gives way to counting alone where that
is right more often on held-out texts. Networks are not tried against each other, for each costs a whole training;
``compare`` does that."""
