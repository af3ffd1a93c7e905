"""State of a linker: settings, articles, weights, network and metadata, and the vectors of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Self, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from ensue.data.histories import Index
from ensue.data.posts.dataset import Articles, Pairs
from ensue.errors import SettingError
from ensue.lazy import lazy
from ensue.learning.state import Count, State, require_trained
from ensue.learning.state import Metadata as SharedMetadata
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_ids, require_table
from ensue.schedule import Schedule, by_hand, require_fixed
from ensue.settings import changed
from ensue.tasks.link.article_index import ArticleIndex
from ensue.tasks.link.catalogue import COUNTING, MODELS, SHARED
from ensue.tasks.link.link_metrics import Calibration
from ensue.tasks.link.onnx_network import OnnxLinker
from ensue.tasks.link.pieces import with_pieces
from ensue.tasks.link.settings import LinkSettings, SbertSettings, SharedLinkSettings
from ensue.tasks.link.vector_index import VectorIndex
from ensue.text.encoder import Encoder, Vectors
from ensue.text.lexical import TermKind, chosen_terms
from ensue.text.terms import Keys, Terms
from ensue.text.tokens import Tokenizer, Tokens

if TYPE_CHECKING:  # of networks, which need torch
    from ensue.tasks.link.models.network import Linker
    from ensue.training import optimizer
    from ensue.training.optimizer import RowAdam
else:
    optimizer = lazy("ensue.training.optimizer")


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Metrics on held-out posts; precision and recall where the probability is at least one half."""

    mrr: float
    precision: float
    precision_interval: tuple[float, float]
    """95 %."""
    recall: float
    recall_interval: tuple[float, float]
    """95 %."""
    first_said: float | None = None
    """Mean probability of the posts' first articles."""
    first_right: float | None = None
    """Accuracy of the first articles."""


@dataclass(kw_only=True)
class LinkerMetadata(SharedMetadata):
    """Training data and results of a fit; the defaults are those of a model that is not fitted."""

    articles: Count
    posts: Count
    links: Count
    validation_posts: Count = 0
    notes: list[str] = field(default_factory=list)
    """Sentences on texts and links that were cut or left out."""
    known_vectors: Count | None = None
    """Words that the file of vectors has."""
    encoder: list[float] | None = None
    """Probe of the installed encoder, by which it is recognised."""
    words: Count | None = None
    validation: Validation | None = None
    floors: dict[str, float] | None = None
    """MRR of held-out posts by each score alone (model best)."""
    alone: str | None = None
    """Name of the single score that is used because no weights rank held-out posts better (model best)."""
    penalty: float | None = None
    """L2 penalty that draws the weights to the sum that needs no label (model best)."""
    remembered: Count | None = None
    """Number of held-out posts that are stored in the folder."""


@dataclass(frozen=True, eq=False)
class RememberedPosts:
    """Held-out posts that are stored in a folder as numbers, with the articles they are about, to test updates on.

    A post is stored as its model reads it: its terms and their counts (lexical models), the ids of its words in their
    order (networks), or its vector (an encoder).

    Attributes:
        num: number of posts.
        pairs: (links, 2) the number of an article of the index, and of a post about it.
        terms: by kind, of lexical models.
        tokens: of networks.
        vectors: (posts, width) of an encoder.
    """

    num: Annotated[int, Field(ge=1, lt=MAX_COUNT)]
    pairs: Pairs
    terms: Mapping[TermKind, Terms]
    tokens: Tokens | None = None
    vectors: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        """Check that the columns are of as many posts.

        Raises:
            ValueError: they are not.
        """
        require_table("pairs", self.pairs, np.int64, [None, 2])
        require_ids("the posts of pairs", self.pairs[:, 1], self.num)
        for kind, terms in self.terms.items():
            terms.require(kind, self.num)
        if self.tokens is not None and len(self.tokens) != self.num:
            raise ValueError(f"tokens of {len(self.tokens)} posts where {self.num} are stored")

    def select(self, rows: slice | Index) -> RememberedPosts:
        """Return some of the posts, in rising order."""
        index = np.arange(self.num)[rows]
        articles, posts = self.pairs[np.isin(self.pairs[:, 1], index)].T
        return replace(
            self,
            num=len(index),
            # A post's new number is its position among the selected ones.
            pairs=np.stack([articles, np.searchsorted(index, posts)], axis=1),
            terms={kind: chosen_terms(terms, index) for kind, terms in self.terms.items()},
            tokens=self.tokens.select(index) if self.tokens is not None else None,
            vectors=self.vectors[index] if self.vectors is not None else None,
        )


class LinkState(State["Linker"]):
    """A linker of posts and articles: see :class:`~ensue.learning.state.State` for its arguments.

    Model ``best`` weighs lexical scores and, where ``network`` names a network, its cosine.
    """

    task = "link"
    settings: LinkSettings | SbertSettings | None
    """Settings of the network or encoder; ``None`` of a model without one."""
    shared: SharedLinkSettings

    def configure(self, model: str, settings: dict[str, object]) -> None:
        """Take the settings of a model; nothing is trained yet."""
        MODELS.require(model)
        changes = settings
        self.model_name = model
        (_, defaults, schedule) = MODELS[model]
        if model == "best" and changes.get("encoder") and not changes.get("network"):
            changes["network"] = "sbert"
        network = str(changes.get("network", "")) if model == "best" else ""
        if network:
            defaults, schedule = _network_settings(network)
        self.settings, self.schedule, self.shared = changed(by_hand(changes), defaults, schedule, SHARED)
        if model != "best" and self.shared.network:
            raise SettingError(f"network is {self.shared.network!r}; only model best weights a trained network")
        if isinstance(defaults, LinkSettings) and changes.get("encoder", defaults.encoder) != defaults.encoder:
            raise SettingError(f"encoder is {changes['encoder']!r}; name the model {changes['encoder']} instead")
        if isinstance(self.settings, SbertSettings) and not self.settings.encoder.strip():
            raise SettingError(
                "sbert needs an encoder: --set encoder=NAME (of `ensue link`, --encoder NAME), a folder or a name that "
                "sentence-transformers knows"
            )
        require_fixed(self.schedule and replace(self.schedule, min_steps=0), "link", "mrr")
        self._article_index: ArticleIndex | None = None
        """The articles that posts are compared with; ``None`` before anything was learned."""
        self.tokenizer = Tokenizer()
        """The words of the network."""
        self.model: Linker | OnnxLinker | Encoder | None = None
        """Network that is trained here, or installed encoder."""
        self.weights: dict[str, float] = {}
        """Weight of each standardised score (model best)."""
        self.prior_strength = 0.0
        """Strength of the cross-post prior of ``best``: from 0 to 1, articles that other posts discuss are likelier;
        down to -1, less likely."""
        self.neighbour_weight = 0.0
        """Weight of the articles of posts with the same rare words (model best)."""
        self.null_logit = 0.0
        """s_0, the weighted sum that stands for "no article" (model best)."""
        self.learned_scale = 0.0
        """Factor of the cosine of a network that is added to the score that needs no label."""
        self.calibration: Calibration | None = None
        """Scores to probabilities."""
        self.metadata: LinkerMetadata = LinkerMetadata(articles=0, posts=0, links=0)
        """Training data and results of the fit."""
        self.linked: tuple[str, ...] = ()
        """Ids of the articles that posts learned were about."""
        self.train_prints: Index = np.zeros(0, np.int64)
        """(texts,) hashes of the posts learned."""
        self.post_terms: Keys = np.empty(0, np.uint64)
        """(terms,) sorted keys of the words of the training posts, for the vocabulary of a model without a network."""
        self.remembered: RememberedPosts | None = None
        """Held-out posts, to test updates on."""
        self.post_index: VectorIndex | None = None
        """Vectors of posts that are not encoded again."""

    @property
    def article_index(self) -> ArticleIndex:
        """The articles that posts are compared with.

        Raises:
            SettingError: nothing was trained or loaded yet.
        """
        return require_trained(self._article_index)

    @article_index.setter
    def article_index(self, index: ArticleIndex) -> None:
        self._article_index = index

    @property
    def articles(self) -> Articles:
        """The articles, in the order of the columns of scores."""
        return self.article_index.articles

    @property
    def network_settings(self) -> LinkSettings:
        """The settings of a model that trains a network."""
        assert isinstance(self.settings, LinkSettings)
        return self.settings

    @property
    def pulls(self) -> bool:
        """Return whether posts of one corpus inform each other's ranking."""
        is_fitted = bool(self.prior_strength or self.neighbour_weight)
        return self.model_name == "best" and is_fitted and self.shared.cross_post_prior

    def new_optimizer(self) -> RowAdam:
        """Return an optimizer with a lower learning rate for an encoder that starts as a mean of word vectors.

        With steps as large as those of the words' vectors, encoders lose within an epoch what they start from: on two
        fifths of the posts outside PolitiFact's test, the MRR of ast alone falls from .418 to .410, of cnn to .262.
        """
        assert self.schedule is not None
        slow = self.network.encoder.parameters() if self.network_settings.residual else ()
        table = self.module.get_parameter("table.weight")
        return optimizer.make_optimizer(self.module, self.schedule, undecayed=[table], slow=slow)

    def make_network(self, num_words: int, dim: int) -> Linker:
        """Return an untrained network where torch makes tensors."""
        return MODELS[self.network_settings.encoder].make(self.network_settings, num_words, dim)

    def has_vectors(self, name: str | None = None) -> bool:
        """Return whether a model also encodes texts as vectors.

        Args:
            name: ``tfidf`` or ``bm25`` in place of this model.
        """
        return self.model is not None and (name or self.model_name) not in COUNTING

    def encode(self, texts: pl.Series) -> Tokens:
        """Return texts as the network reads them: ids of words and, for words without a row, of their pieces."""
        settings = self.network_settings
        tokens = self.tokenizer.encode(texts, max_words=settings.max_words, keep_words=settings.bag > 0)
        return with_pieces(tokens) if settings.bag else tokens

    def vectors(self, texts: pl.Series) -> Vectors:
        """Return unit vectors of the network or the encoder, (texts, width); 0 for texts without a word.

        Raises:
            SettingError: there is no network; a sentence encoder is missing, or is not the one of the training.
        """
        if self.model is None:
            raise SettingError(f"model {self.model_name} has no network and cannot encode texts")
        if not isinstance(self.model, Encoder):
            return self.network.vectors(self.encode(texts))
        self.model.require(self.metadata.encoder or [])
        vectors = self.model.unit_vectors(texts)
        if (width := self.article_index.vectors.shape[1]) not in (0, vectors.shape[1]):
            raise SettingError(f"encoder {self.model.name!r} makes {vectors.shape[1]} numbers, not {width}")
        return vectors

    def joined(self, articles: Articles) -> tuple[Self, list[int]]:
        """Return a copy with more articles, and the columns of these.

        The original stays as it is. An article that is there with the same text is not added again.

        Raises:
            SettingError: not trained.
        """
        index, columns, new = self.article_index.joined(articles)
        copy = object.__new__(type(self))
        # A shallow copy: everything but the index of articles is shared.
        copy.__dict__ = {**self.__dict__, "_article_index": index}
        if self.model is not None and len(new):
            added = self.vectors(articles.select(np.array(new)).texts)
            index.vectors = np.concatenate([self.article_index.vectors, added])
        return copy, columns

    def probabilities(self, scores: Floats) -> Floats | None:
        """Return P(relevant) of scores, or ``None`` where there were no labels to fit it on."""
        return None if self.calibration is None else self.calibration.probabilities(scores)


LinkStateT = TypeVar("LinkStateT", bound=LinkState)


def _network_settings(name: str) -> tuple[LinkSettings | SbertSettings, Schedule | None]:
    """Return the settings and the schedule of the network or encoder whose cosine ``best`` weighs."""
    networks = [settings for settings, row in MODELS.items() if row.source]
    if name not in networks:
        raise SettingError(f"network is {name!r}; choose from {', '.join(networks)}, or remove it")
    _, settings, schedule = MODELS[name]
    assert settings is not None
    return replace(settings), schedule
