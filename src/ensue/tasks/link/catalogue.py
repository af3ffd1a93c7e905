"""The models of task ``link``.

``MODELS`` is the whole registry: a name, its module, its default settings, and how it is trained (``None``: it is not).
"""

from ensue.tasks.link.models.network import FROM_ARTICLES, SCHEDULE, Linker, LinkSettings
from ensue.tasks.link.models.sbert import SbertSettings
from ensue.tasks.link.settings import SharedSettings
from ensue.tasks.own import Models
from ensue.text.encoder import Encoder

MODELS = Models(
    "link",
    {
        "best": (None, None, None),
        "ast": (Linker, LinkSettings(encoder="ast"), FROM_ARTICLES),
        "cnn": (Linker, LinkSettings(encoder="cnn"), FROM_ARTICLES),
        "gru": (Linker, LinkSettings(encoder="gru"), FROM_ARTICLES),
        "bigru": (Linker, LinkSettings(encoder="bigru"), FROM_ARTICLES),
        "ast-paper": (
            Linker,
            LinkSettings(encoder="ast", bag=0, pretrain="none", loss="triplet", residual=False),
            SCHEDULE,
        ),
        "bag": (Linker, LinkSettings(encoder="bag"), None),
        "sbert": (Encoder, SbertSettings(), None),
        "tfidf": (None, None, None),
        "bm25": (None, None, None),
    },
)
SHARED = SharedSettings()
"""What is set of every model beside its own settings."""
ABOUT: dict[str, tuple[str, str]] = {
    "best": ("weighted ensemble of word, character and topic scores, with a network or an encoder if named", ""),
    "ast": ("a Siamese Star-Transformer with adaptive entmax", "Danovitch, ITCSE 2020"),
    "cnn": ("a Siamese CNN", "baseline in Danovitch, ITCSE 2020"),
    "gru": ("a Siamese GRU", "baseline in Danovitch, ITCSE 2020"),
    "bigru": ("a Siamese bidirectional GRU", "baseline in Danovitch, ITCSE 2020"),
    "ast-paper": ("ast as published: trained from scratch on triplets", "Danovitch, ITCSE 2020"),
    "bag": ("bag of words pretrained on the articles: which article a passage comes from", ""),
    "sbert": ("an installed sentence encoder", "Reimers & Gurevych, EMNLP 2019"),
    "tfidf": ("shared words, weighted by tf-idf", ""),
    "bm25": ("shared words, weighted by BM25", "Robertson & Zaragoza, 2009"),
}
"""What each is, in a line, and where it was published."""
BEST = ("best",)
"""What ``best`` is: itself."""
COUNTING = ("tfidf", "bm25")
"""Scored beside every model."""
WITHOUT_TRAINING = ("best", "tfidf", "bm25", "sbert")
"""What works without a model folder; sbert with the name of an encoder."""
