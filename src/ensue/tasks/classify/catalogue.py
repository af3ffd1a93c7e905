"""The models of task ``classify``.

``MODELS`` is the whole registry: a name, its module, its default settings, and how it is trained (``None``: counted).
"""

from ensue.tasks.classify.baselines.majority import Majority
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.baselines.settings import CountingSettings
from ensue.tasks.classify.baselines.tfidf import Tfidf
from ensue.tasks.classify.models.alignment import ALIGNMENT
from ensue.tasks.classify.models.centrality import SCHEDULE, TextClassifier, TextSettings
from ensue.tasks.classify.remembered import SharedSettings
from ensue.tasks.own import Models

MODELS = Models(
    "classify",
    {
        "centrality": (TextClassifier, TextSettings(pooling="centrality"), SCHEDULE),
        "centrality-paper": (TextClassifier, TextSettings(method="power", residual=False), SCHEDULE),
        "centrality-bilinear": (TextClassifier, TextSettings(pooling="centrality-bilinear"), SCHEDULE),
        "blend": (TextClassifier, TextSettings(pooling="centrality"), SCHEDULE),
        "self-attention": (TextClassifier, TextSettings(pooling="self-attention"), SCHEDULE),
        "mean": (TextClassifier, TextSettings(pooling="mean"), SCHEDULE),
        "max": (TextClassifier, TextSettings(pooling="max"), SCHEDULE),
        "routing": (TextClassifier, TextSettings(pooling="routing"), SCHEDULE),
        "reverse-routing": (TextClassifier, TextSettings(pooling="reverse-routing"), SCHEDULE),
        "decomposable-attention": (TextClassifier, TextSettings(pooling=ALIGNMENT, tuned=False), SCHEDULE),
        "tfidf": (Tfidf, CountingSettings(), None),
        "vectors": (MeanVectors, CountingSettings(), None),
        "majority": (Majority, CountingSettings(), None),
    },
)
PAIRED: dict[str, dict[str, object]] = {"blend": {"pooling": ALIGNMENT, "tuned": False}}
"""What a model has otherwise for pairs, unless it is set. On pairs of SNLI's dev part and counterfactual pairs whose
first texts were not learned, decomposable attention is right on 63.9 %, centrality on 58.3 %."""
SHARED = SharedSettings()
"""What is set of every model beside its own settings."""
ABOUT: dict[str, tuple[str, str]] = {
    "centrality": (
        "a BiLSTM; words weighted by their centrality in an attention graph",
        "Gong et al., SCIS 2020",
    ),
    "centrality-paper": ("centrality as published: the power method, Table 2, nothing added", "Gong et al., SCIS 2020"),
    "centrality-bilinear": ("centrality, edges by a bilinear score", "Gong et al., SCIS 2020"),
    "blend": ("centrality (of pairs: decomposable attention) pooled with the baselines", ""),
    "self-attention": ("a BiLSTM and self-attention", "baseline in Gong et al., SCIS 2020"),
    "mean": ("a BiLSTM and the mean", "baseline in Gong et al., SCIS 2020"),
    "max": ("a BiLSTM and the maximum", "baseline in Gong et al., SCIS 2020"),
    "routing": ("a BiLSTM and dynamic routing", "Gong et al., COLING 2018"),
    "reverse-routing": ("a BiLSTM and dynamic routing, reversed", "Gong et al., COLING 2018"),
    "decomposable-attention": (
        "decomposable attention: words aligned across a pair",
        "Parikh et al., EMNLP 2016",
    ),
    "tfidf": ("words, character n-grams and overlap of pairs, with logistic regression", ""),
    "vectors": ("mean word vector with logistic regression; needs a file of vectors", ""),
    "majority": ("label frequencies, ignoring the text", ""),
}
"""What each is, in a line, and where it was published."""
COUNTING = ("tfidf", "vectors", "majority")
"""Learned beside every model; ``vectors`` only where there is a file of them."""
BEST = ("blend", "tfidf", "vectors", "majority")
"""What ``best`` chooses from: centrality attention pooled with counting, which gives way to counting alone where that
makes the labels of held-out texts likelier. Networks are not tried against each other, for each costs a whole training;
``compare`` does that."""
