"""Task ``link``: which posts discuss this article, and which articles a post is about.

``MODELS`` is the whole registry: a name, its module, its default settings, and how it is trained.
"""

from ensue.link.network import SCHEDULE, Linker, LinkSettings
from ensue.training import Schedule

MODELS: dict[str, tuple[type[Linker], LinkSettings, Schedule]] = {
    "ast": (Linker, LinkSettings(encoder="ast"), SCHEDULE),
    "cnn": (Linker, LinkSettings(encoder="cnn"), SCHEDULE),
    "gru": (Linker, LinkSettings(encoder="gru"), SCHEDULE),
    "bigru": (Linker, LinkSettings(encoder="bigru"), SCHEDULE),
}
