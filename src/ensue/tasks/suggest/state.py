"""State of a suggester: k-anonymity filter, tokens, queries of the log, network, optimiser and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import fields, replace

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.data.queries.tokens import QueryTokenizer
from ensue.nn.device import find_device, memory_for
from ensue.schedule import Schedule, by_hand, require_fixed
from ensue.settings import changed, require_seed
from ensue.tasks.state import Kept, module_of, require_trained
from ensue.tasks.suggest.baselines.counting import MostFrequentNext
from ensue.tasks.suggest.baselines.crowd import Crowd
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.baselines.shares import Shares
from ensue.tasks.suggest.candidates import MIXED
from ensue.tasks.suggest.catalogue import BEST, MODELS, RERANKED, RERANKER, SHARED
from ensue.tasks.suggest.dataset import Sessions, Spelled, spell_out
from ensue.tasks.suggest.metadata import Metadata
from ensue.tasks.suggest.model import AnyModel
from ensue.tasks.suggest.privacy import Floor, people_of
from ensue.tasks.suggest.rules import Rules
from ensue.tasks.suggest.settings import (
    HLSTMSettings,
    MTNSettings,
    Seq2SeqSettings,
    SuggestSettings,
    TransformerSettings,
)
from ensue.tasks.suggest.similarity import Similarity
from ensue.training.optimizer import LateOptimizer
from ensue.vocabulary import FIRST


class SuggestState:
    """Everything that the verbs of the task read and write.

    Args:
        model: a name in ``MODELS``, or ``best``: see ``BEST``.
        settings: settings of the model, of its schedule and of :class:`SuggestSettings` to change, by name.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: where the network runs; a GPU is used when there is one.

    Raises:
        SettingError: an unknown model or setting.
    """

    task = "suggest"
    keeps_examples = False
    optimizer = LateOptimizer()
    """Of the network; ``None`` where nothing is trained."""
    chooses: bool
    """Whether a training is free to do without a network: of ``best``, unless a setting of the network is given."""
    model_name: str
    """A name in ``MODELS``."""
    settings: MTNSettings | TransformerSettings | Seq2SeqSettings | HLSTMSettings | None
    """Of the network; ``None`` for a counting model."""
    shared: SuggestSettings
    """What every model of the task knows."""
    schedule: Schedule | None
    """How the network is trained; ``None`` for a counting model."""
    seed: int
    device: torch.device
    floor: Floor
    """What may be shown."""
    tokenizer: QueryTokenizer
    """Cuts queries into tokens and knows their ids."""
    retrieval: Retrieval | None
    """The queries of the log that may be shown, and which stand near which; ``None`` before training."""
    model: AnyModel | Retrieval | None
    """The network, or what was counted; ``None`` before."""
    metadata: Metadata
    """What was learned from, and what came out on held-out sessions."""
    seconds_an_epoch: float | None
    kept: Kept | None
    """Of the folder that it was loaded from."""
    train_prints: Tensor
    """(distinct pairs of queries,) their hashes, so that a test can say which of its pairs were learned."""
    rules: Rules | None
    """What the search may write; made by :meth:`search_rules` when it is first needed."""
    expected: Shares | None
    """What counting expects; made by :attr:`shares` when it is first needed."""

    compared: Similarity | None
    """Compares texts with sessions; made by :attr:`similarity` when it is first needed."""

    def __init__(
        self,
        model: str = "best",
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        MODELS.require(model, "best")
        name, preset = BEST if model == "best" else (model, RERANKED if model == RERANKER else {})
        self.model_name, own, schedule = name, *MODELS[name][1:]
        of_network = {field.name for part in (own, schedule) if part is not None for field in fields(part)} - {"refit"}
        self.chooses = model == "best" and not of_network & {*(settings or {})}
        self.settings, self.schedule, self.shared = changed(
            {**preset, **by_hand(settings or {})}, own, schedule, SHARED
        )
        require_fixed(self.schedule and replace(self.schedule, refit=False, min_steps=0), "suggest", "loss")
        self.seed = require_seed(seed)
        self.device = find_device(device)
        self.floor = Floor(self.shared.min_users, "users", frozenset(), frozenset(), {}, {})
        self.tokenizer = QueryTokenizer.fit(pl.Series("query", [], dtype=pl.String))
        self.retrieval = None
        self.model = None
        self.metadata = Metadata(sessions=0, queries=0, distinct=0, tokens=0, normalisation="plain", notes=[])
        self.seconds_an_epoch = None
        self.kept = None
        self.train_prints = torch.zeros(0, dtype=torch.int32)
        self.optimizer = None
        self.rules = None
        self.expected = None
        self.compared = None

    @property
    def network(self) -> AnyModel:
        """The trained network.

        Raises:
            SettingError: nothing was trained or loaded yet.
        """
        require_trained(self.model)
        assert self.model is not None and not isinstance(self.model, Retrieval)
        return self.model

    @property
    def module(self) -> nn.Module:
        """The trained network, as torch types it."""
        return module_of(self.network)

    @property
    def following(self) -> MostFrequentNext:
        """The queries that may be shown, and what followed each."""
        require_trained(self.model)
        assert self.retrieval is not None
        return self.retrieval.following

    @property
    def shares(self) -> Shares:
        """What counting expects; made once for what was counted last."""
        require_trained(self.model)
        assert self.retrieval is not None
        if self.expected is None or self.expected.retrieval is not self.retrieval:
            self.expected = Shares(self.retrieval)
        return self.expected

    @property
    def similarity(self) -> Similarity:
        """Compares texts with sessions; made once for what was counted last."""
        if self.compared is None or self.compared.shares is not self.shares:
            self.compared = Similarity(self.shares)
        return self.compared

    def count(self, data: Queries, min_users: int, pair_users: int | None = None) -> None:
        """Take the floor and the counts from a log.

        Args:
            data: the log.
            min_users: people who must have typed a query or a word.
            pair_users: people who must share an association; as many unless stated.
        """
        least = min_users if pair_users is None else pair_users
        values = pl.Series("query", data.histories.vocabulary.values, dtype=pl.String)
        self.floor = floor = Floor.of(data, min_users, least)
        topics = self.shared.retrieved > 0
        crowd = Crowd(people_of(data), least) if min_users > 1 else None
        self.retrieval = Retrieval.fit(data.histories, floor.kept(values), floor.words, crowd, topics=topics)
        self.rules = None

    def counted_on(self, data: Queries, min_users: int, pair_users: int) -> SuggestState:
        """The same tokens over the counts of another log, without a network: nothing of it is ever shown or kept."""
        other = copy(self)
        other.count(data, min_users, pair_users)
        other.model, other.schedule, other.rules = other.retrieval, None, self.search_rules()
        other.metadata = copy(self.metadata)
        other.metadata.mixture, other.metadata.mix = dict.fromkeys(MIXED, 0.0), None
        return other

    def search_rules(self) -> Rules:
        """What the search may write; made once."""
        if self.rules is None:
            self.rules = Rules.of(self.floor, self.tokenizer)
        return self.rules

    def windows(self, sessions: Histories) -> Sessions:
        """Sessions as the network learns them."""
        used, codes = np.unique(sessions.ids, return_inverse=True)
        values = sessions.vocabulary.values
        texts = pl.Series("query", [values[id - FIRST] for id in used.tolist()], dtype=pl.String)
        recoded = Histories(codes.astype(np.int32) + np.int32(FIRST), sessions.offsets, sessions.vocabulary)
        return Sessions(recoded, self.learned_spelling(texts), self.shared.turns, self.shared.query_tokens)

    def learned_spelling(self, values: pl.Series) -> Spelled:
        """What the network is taught of some queries: words below the floor are unknown to it, pieces of words too."""
        return spell_out(self.tokenizer, values if self.tokenizer.kind == "words" else self.floor.common(values))

    def new_network(self) -> AnyModel:
        """An untrained network on this predictor's device."""
        with memory_for(f"{self.model_name} with these settings"):
            network = self.untrained()
            module_of(network).to(self.device)
        return network

    def untrained(self) -> AnyModel:
        """An untrained network where torch makes tensors."""
        network: AnyModel = MODELS[self.model_name].make(self.settings, len(self.tokenizer))
        return network
