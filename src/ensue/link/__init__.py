"""Task ``link``: which posts discuss this article, and which articles a post is about.

``MODELS`` is the whole registry: a name, its module, its default settings, and how it is trained (``None``: counted).
"""

from ensue.link.network import SCHEDULE, Linker, LinkSettings
from ensue.schedule import Schedule

MODELS: dict[str, tuple[type[Linker] | None, LinkSettings | None, Schedule | None]] = {
    "best": (None, None, None),
    "ast": (Linker, LinkSettings(encoder="ast"), SCHEDULE),
    "cnn": (Linker, LinkSettings(encoder="cnn"), SCHEDULE),
    "gru": (Linker, LinkSettings(encoder="gru"), SCHEDULE),
    "bigru": (Linker, LinkSettings(encoder="bigru"), SCHEDULE),
    "tfidf": (None, None, None),
    "bm25": (None, None, None),
}
COUNTING = ("tfidf", "bm25")
"""Scored beside every model."""
WITHOUT_TRAINING = ("best", "tfidf", "bm25")
"""What works without a model folder."""
