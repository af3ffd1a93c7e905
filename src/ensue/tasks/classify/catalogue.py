"""The models of task ``classify``.

Each row of ``MODELS`` is a name, its class (``MODULE:CLASS``, imported when it is made), default settings and schedule
(``None``: it is not trained). Importing this module does not import torch.
"""

from ensue.registry import Models
from ensue.tasks.classify.settings import ALIGNMENT, SCHEDULE, LinearSettings, SharedTextSettings, TextSettings

_NETWORKS = {
    "centrality": TextSettings(pooling="centrality"),
    "centrality-paper": TextSettings(method="power", residual=False),
    "centrality-bilinear": TextSettings(pooling="centrality-bilinear"),
    "tokenrank": TextSettings(pooling="tokenrank"),
    "blend": TextSettings(pooling="centrality"),
    "self-attention": TextSettings(pooling="self-attention"),
    "mean": TextSettings(pooling="mean"),
    "max": TextSettings(pooling="max"),
    "routing": TextSettings(pooling="routing"),
    "reverse-routing": TextSettings(pooling="reverse-routing"),
    "decomposable-attention": TextSettings(pooling=ALIGNMENT, tuned=False),
}
"""Settings of the networks, which have one class."""
MODELS = Models(
    "classify",
    {
        **{
            name: ("models.centrality:CentralityClassifier", settings, SCHEDULE) for name, settings in _NETWORKS.items()
        },
        "tfidf": ("baselines.tfidf:Tfidf", LinearSettings(), None),
        "vectors": ("baselines.mean_vectors:MeanVectors", LinearSettings(), None),
        "majority": ("baselines.majority:Majority", LinearSettings(), None),
    },
)
PAIRED: dict[str, dict[str, object]] = {"blend": {"pooling": ALIGNMENT, "tuned": False}}
"""Defaults that differ for pairs. On pairs of SNLI's dev part and counterfactual pairs whose
first texts were not learned, decomposable attention is right on 63.9 %, centrality on 58.3 %."""
SHARED = SharedTextSettings()
"""Settings that every model has."""
ABOUT: dict[str, tuple[str, str]] = {
    "centrality": ("a BiLSTM; words weighted by their centrality in an attention graph", "Gong et al., SCIS 2020"),
    "centrality-paper": ("centrality as published: the power method, Table 2, nothing added", "Gong et al., SCIS 2020"),
    "centrality-bilinear": ("centrality, edges by a bilinear score", "Gong et al., SCIS 2020"),
    "tokenrank": ("a BiLSTM; words weighted by the PageRank of their attention", "Erel et al., NeurIPS 2025"),
    "blend": ("centrality (of pairs: decomposable attention) pooled with the baselines", ""),
    "self-attention": ("a BiLSTM and self-attention", "baseline in Gong et al., SCIS 2020"),
    "mean": ("a BiLSTM and the mean", "baseline in Gong et al., SCIS 2020"),
    "max": ("a BiLSTM and the maximum", "baseline in Gong et al., SCIS 2020"),
    "routing": ("a BiLSTM and dynamic routing", "Gong et al., COLING 2018"),
    "reverse-routing": ("a BiLSTM and dynamic routing, reversed", "Gong et al., COLING 2018"),
    "decomposable-attention": ("decomposable attention: words aligned across a pair", "Parikh et al., EMNLP 2016"),
    "tfidf": ("words, character n-grams and overlap of pairs, with logistic regression", ""),
    "vectors": ("mean word vector with logistic regression; needs a file of vectors", ""),
    "majority": ("label frequencies, ignoring the text", ""),
}
"""Description of each model in one line, and its publication."""
COUNTING = ("tfidf", "vectors", "majority")
"""Learned beside every model; ``vectors`` only where there is a file of them."""
BEST = ("blend", "tfidf", "vectors", "majority")
"""Models that ``best`` chooses from: centrality attention combined with the baselines, or a baseline alone where
held-out labels are likelier with it. Networks are not compared, since each costs a whole training; ``compare`` does
that."""
