"""The models of task ``link``.

Each row of ``MODELS`` is a name, its class (``MODULE:CLASS``, imported when it is made), default settings and schedule
(``None``: it is not trained). Importing this module does not import torch.
"""

from ensue.registry import Models
from ensue.tasks.link.settings import FROM_ARTICLES, SCHEDULE, LinkSettings, SbertSettings, SharedLinkSettings

MODELS = Models(
    "link",
    {
        "best": ("", None, None),
        "ast": ("models.network:Linker", LinkSettings(encoder="ast"), FROM_ARTICLES),
        "cnn": ("models.network:Linker", LinkSettings(encoder="cnn"), FROM_ARTICLES),
        "gru": ("models.network:Linker", LinkSettings(encoder="gru"), FROM_ARTICLES),
        "bigru": ("models.network:Linker", LinkSettings(encoder="bigru"), FROM_ARTICLES),
        "ast-paper": (
            "models.network:Linker",
            LinkSettings(encoder="ast", bag=0, pretrain="none", loss="triplet", residual=False),
            SCHEDULE,
        ),
        "bag": ("models.network:Linker", LinkSettings(encoder="bag"), None),
        "sbert": ("state:Encoder", SbertSettings(), None),
        "tfidf": ("", None, None),
        "bm25": ("", None, None),
    },
)
SHARED = SharedLinkSettings()
"""Settings that every model has."""
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
"""Description of each model in one line, and its publication."""
BEST = ("best",)
"""Models that ``best`` chooses from: itself."""
COUNTING = ("tfidf", "bm25")
"""Scored beside every model."""
WITHOUT_TRAINING = ("best", "tfidf", "bm25", "sbert")
"""Models that need no model folder; sbert needs the name of an encoder."""
