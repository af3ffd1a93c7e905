"""State of a linker: settings, articles, weights and network."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ensue.data.posts.dataset import Articles
from ensue.errors import SettingError
from ensue.learning.state import State, require_trained
from ensue.schedule import Schedule, by_hand, require_fixed
from ensue.settings import changed
from ensue.tasks.link.article_index import ArticleIndex
from ensue.tasks.link.catalogue import MODELS, SHARED
from ensue.tasks.link.link_metrics import Calibration
from ensue.tasks.link.metadata import Metadata
from ensue.tasks.link.models.network import Linker
from ensue.tasks.link.remembered import Remembered
from ensue.tasks.link.settings import LinkSettings, SbertSettings, SharedSettings
from ensue.tasks.link.vector_index import VectorIndex
from ensue.text.encoder import Encoder
from ensue.text.terms import Keys
from ensue.text.tokens import Tokenizer
from ensue.training.optimizer import RowAdam, make_optimizer


class LinkState(State[Linker]):
    """A linker of posts and articles: see :class:`~ensue.learning.state.State` for its arguments.

    Model ``best`` weighs lexical scores and, where ``network`` names a network, its cosine.
    """

    task = "link"
    settings: LinkSettings | SbertSettings | None
    """Settings of the network or encoder; ``None`` of a model without one."""
    shared: SharedSettings

    def configure(self, model: str, settings: dict[str, object]) -> None:
        """Take the settings of a model; nothing is trained yet."""
        MODELS.require(model)
        changes, self.model_name, (_, defaults, schedule) = settings, model, MODELS[model]
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
        self.model: Linker | Encoder | None = None
        """Network that is trained here, or installed encoder."""
        self.weights: dict[str, float] = {}
        """Weight of each standardised score (model best)."""
        self.prior_strength = 0.0
        """Of ``best``: how much posts of one corpus tell which articles are discussed, from 0 to 1; or, down to -1,
        which are taken by others."""
        self.neighbour_weight = 0.0
        """Weight of the articles of posts with the same rare words (model best)."""
        self.null_logit = 0.0
        """s_0, the weighted sum that stands for "no article" (model best)."""
        self.learned_scale = 0.0
        """Factor of the cosine of a network that is added to the score that needs no label."""
        self.calibration: Calibration | None = None
        """Scores to probabilities."""
        self.metadata: Metadata = Metadata(articles=0, posts=0, links=0)
        """Training data and results of the fit."""
        self.linked: tuple[str, ...] = ()
        """Ids of the articles that posts learned were about."""
        self.train_prints: Tensor = torch.zeros(0, dtype=torch.int64)
        """(texts,) hashes of the posts learned."""
        self.post_terms: Keys = np.empty(0, np.uint64)
        """(terms,) sorted keys of the words of the training posts, for the vocabulary of a model without a network."""
        self.remembered: Remembered | None = None
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
        return make_optimizer(self.module, self.schedule, undecayed=[table], slow=slow)

    def make_network(self, num_words: int, dim: int) -> Linker:
        """An untrained network where torch makes tensors."""
        return Linker(self.network_settings, num_words, dim)


LinkStateT = TypeVar("LinkStateT", bound=LinkState)


def _network_settings(name: str) -> tuple[LinkSettings | SbertSettings, Schedule | None]:
    """The settings and the schedule of the network or encoder whose cosine ``best`` shall weigh."""
    networks = [settings for settings, row in MODELS.items() if row.source]
    if name not in networks:
        raise SettingError(f"network is {name!r}; choose from {', '.join(networks)}, or remove it")
    _, settings, schedule = MODELS[name]
    assert settings is not None
    return replace(settings), schedule
