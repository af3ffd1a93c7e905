"""Task ``link``: which posts discuss this article, and which articles a post is about.

``MODELS`` is the whole registry: a name, its module, its default settings, and how it is trained (``None``: it is not).
"""

from ensue.link.network import SCHEDULE, Linker, LinkSettings
from ensue.link.sbert import SbertSettings
from ensue.nn.encoder import Encoder
from ensue.schedule import Schedule

Row = tuple[type[Linker | Encoder] | None, LinkSettings | SbertSettings | None, Schedule | None]
MODELS: dict[str, Row] = {
    "best": (None, None, None),
    "ast": (Linker, LinkSettings(encoder="ast"), SCHEDULE),
    "cnn": (Linker, LinkSettings(encoder="cnn"), SCHEDULE),
    "gru": (Linker, LinkSettings(encoder="gru"), SCHEDULE),
    "bigru": (Linker, LinkSettings(encoder="bigru"), SCHEDULE),
    "sbert": (Encoder, SbertSettings(), None),
    "tfidf": (None, None, None),
    "bm25": (None, None, None),
}
COUNTING = ("tfidf", "bm25")
"""Scored beside every model."""
WITHOUT_TRAINING = ("best", "tfidf", "bm25", "sbert")
"""What works without a model folder; sbert with the name of an encoder."""
