"""State of a suggester: k-anonymity filter, tokens, queries of the log, network, optimiser and metadata.

Tokens of short texts, and constraints on the beam search: the k-anonymity threshold and the typed prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import fields, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Ids, Mask
from ensue.data.queries import Queries
from ensue.data.queries.tokens import QueryTokenizer
from ensue.lazy import lazy
from ensue.learning.state import State, require_trained
from ensue.schedule import by_hand, require_fixed
from ensue.settings import changed
from ensue.tasks.suggest.baselines.counting import MostFrequentNext
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.baselines.shares import Shares
from ensue.tasks.suggest.baselines.table import Crowd
from ensue.tasks.suggest.batch import FIRST_TOKEN, UNKNOWN
from ensue.tasks.suggest.candidates import MIXED
from ensue.tasks.suggest.catalogue import BEST, MODELS, RERANKED, RERANKER, SHARED
from ensue.tasks.suggest.dataset import Sessions, spell_out
from ensue.tasks.suggest.metadata import SuggesterMetadata
from ensue.tasks.suggest.onnx_network import OnnxGenerator
from ensue.tasks.suggest.prefix import PrefixRule
from ensue.tasks.suggest.privacy import Floor, people_of
from ensue.tasks.suggest.settings import (
    HLSTMSettings,
    MTNSettings,
    Seq2SeqSettings,
    SuggestSettings,
    TransformerSettings,
)
from ensue.tasks.suggest.similarity import Similarity
from ensue.vocabulary import FIRST

if TYPE_CHECKING:  # need torch
    from ensue.tasks.suggest import torch_generator
    from ensue.tasks.suggest.model import QueryNetwork
else:
    torch_generator = lazy("ensue.tasks.suggest.torch_generator")

MAX_TEXTS = 200_000
"""Texts and words whose tokens are cached; then all are computed again."""


class Spelling:
    """Splits texts as ``task.spell_out`` does; the tokens of words and of texts are cached.

    Args:
        tokenizer: splits words that are new.
    """

    def __init__(self, tokenizer: QueryTokenizer) -> None:
        self.tokenizer = tokenizer
        self.words: dict[str, list[int]] = {}
        self.texts: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each normalised text; one without any is a single unknown token. They must not be changed."""
        new = [text for text in dict.fromkeys(texts) if text not in self.texts]
        if len(self.texts) + len(new) > MAX_TEXTS:
            new = [*dict.fromkeys(texts)]
            self.texts = {}
            self.words = {}
        if new:
            lists = [text.split(" ") if text else [] for text in new]
            # Words repeat across texts: only new ones are cut into tokens.
            new_words = [word for word in dict.fromkeys(chain.from_iterable(lists)) if word not in self.words]
            self.words.update(zip(new_words, self.tokenizer.spell(new_words), strict=True))
            for text, words in zip(new, lists, strict=True):
                self.texts[text] = [*chain.from_iterable(self.words[word] for word in words)] or [UNKNOWN]
        return [self.texts[text] for text in texts]


class GenerationRules:
    """Constraints on generated tokens; what only a network needs is made when a network first asks for it.

    Args:
        floor: what may be shown.
        tokenizer: splits texts into the tokens that are generated.

    Attributes:
        spelling: the tokens of what is typed and looked up.
    """

    def __init__(self, floor: Floor, tokenizer: QueryTokenizer) -> None:
        self.floor = floor
        self.tokenizer = tokenizer
        self.spelling = Spelling(tokenizer)

    @cached_property
    def banned(self) -> Mask:
        """(ids,) True for tokens that no text which may be shown can hold."""
        return ~self.floor.word_ids_allowed(self.tokenizer)

    @cached_property
    def prefixes(self) -> PrefixRule:
        """Which tokens continue a text."""
        return PrefixRule(spellings(self.tokenizer))


def spellings(tokenizer: QueryTokenizer) -> list[bytes]:
    """Return the text of each token: a word and a space, or the bytes of a subword."""
    if tokenizer.kind == "words":
        return [f"{token} ".encode() for token in tokenizer.tokens]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]  # Radford et al. 2019: other bytes are 256 and up
    hidden = (byte for byte in range(256) if byte not in set(printable))
    table = {chr(byte): byte for byte in printable} | {chr(256 + number): byte for number, byte in enumerate(hidden)}
    special = (b"" for _ in range(FIRST_TOKEN))
    return [*special, *(bytes(table[mark] for mark in token) for token in tokenizer.tokens[FIRST_TOKEN:])]


class SuggestState(State["QueryNetwork"]):
    """A query suggester: see :class:`~ensue.learning.state.State` for its arguments."""

    task = "suggest"
    settings: MTNSettings | TransformerSettings | Seq2SeqSettings | HLSTMSettings | None
    """Settings of the network; ``None`` of a model without one."""
    shared: SuggestSettings

    def configure(self, model: str, settings: dict[str, object]) -> None:
        """Take the settings of a model; nothing is trained yet."""
        MODELS.require(model, "best")
        name, preset = BEST if model == "best" else (model, RERANKED if model == RERANKER else {})
        self.model_name, defaults, schedule = name, *MODELS[name][1:]
        network_options = {
            field.name
            for defaults_part in (defaults, schedule)
            if defaults_part is not None
            for field in fields(defaults_part)
        }
        self.chooses = model == "best" and not (network_options - {"refit"}) & settings.keys()
        """True where training may end without a network: under ``best``, unless a setting of the network is given."""
        self.settings, self.schedule, self.shared = changed({**preset, **by_hand(settings)}, defaults, schedule, SHARED)
        require_fixed(self.schedule and replace(self.schedule, refit=False, min_steps=0), "suggest", "loss")
        self.floor = Floor(self.shared.min_users, "users", frozenset(), frozenset(), {}, {})
        """The queries and words that reach the k-anonymity threshold."""
        self.tokenizer = QueryTokenizer.fit(pl.Series("query", [], dtype=pl.String))
        """Splits queries into tokens and holds their ids."""
        self.retrieval: Retrieval | None = None
        """The queries of the log that may be shown, and their counts; ``None`` before training."""
        self.model: QueryNetwork | OnnxGenerator | Retrieval | None = None
        self.metadata: SuggesterMetadata = SuggesterMetadata(
            sessions=0, queries=0, distinct=0, tokens=0, normalisation="plain", notes=[]
        )
        self.train_prints: Ids = np.zeros(0, np.int32)
        """(distinct pairs of queries,) hashes, by which test pairs among the training data are detected."""
        self.rules: GenerationRules | None = None
        """The tokens that the search may write, made by :meth:`search_rules`."""
        self.expected: Shares | None = None
        """Expected counts, made by :attr:`shares`."""
        self.compared: Similarity | None = None
        """Compares texts with sessions, made by :attr:`similarity`."""

    @property
    def generator(self) -> torch_generator.TorchGenerator | OnnxGenerator:
        """The trained network in terms of arrays."""
        if isinstance(self.model, OnnxGenerator):
            return self.model
        return torch_generator.TorchGenerator(self.network, self.device)

    @property
    def following(self) -> MostFrequentNext:
        """The queries that may be shown, and what followed each."""
        return require_trained(self.retrieval).following

    @property
    def shares(self) -> Shares:
        """Count-based probabilities; made once for the latest counts."""
        retrieval = require_trained(self.retrieval)
        if self.expected is None or self.expected.retrieval is not retrieval:
            self.expected = Shares(retrieval)
        return self.expected

    @property
    def similarity(self) -> Similarity:
        """Compares texts with sessions; made once for the latest counts."""
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
        min_pair_users = min_users if pair_users is None else pair_users
        values = pl.Series("query", data.histories.vocabulary.values, dtype=pl.String)
        self.floor = floor = Floor.of(data, min_users, min_pair_users)
        topics = self.shared.retrieved > 0
        crowd = Crowd(people_of(data), min_pair_users) if min_users > 1 else None
        self.retrieval = Retrieval.fit(data.histories, floor.kept(values), floor.words, crowd, topics=topics)
        self.rules = None

    def counted_on(self, data: Queries, min_users: int, pair_users: int) -> SuggestState:
        """Return a copy with the counts of another log, without a network: nothing of it is ever shown or stored."""
        other = copy(self)
        other.count(data, min_users, pair_users)
        # Copies share the tokens, but no counts and no network.
        other.model = other.retrieval
        other.schedule = None
        other.rules = self.search_rules()
        other.metadata = copy(self.metadata)
        other.metadata.mixture = dict.fromkeys(MIXED, 0.0)
        other.metadata.mix = None
        return other

    def search_rules(self) -> GenerationRules:
        """Return the rules of the search; made once."""
        if self.rules is None:
            self.rules = GenerationRules(self.floor, self.tokenizer)
        return self.rules

    def windows(self, sessions: Histories) -> Sessions:
        """Sessions as the network learns them."""
        # Only queries that occur are spelled; ids become their numbers among these.
        used, codes = np.unique(sessions.ids, return_inverse=True)
        values = sessions.vocabulary.values
        texts = pl.Series("query", [values[id - FIRST] for id in used.tolist()], dtype=pl.String)
        recoded = Histories(codes.astype(np.int32) + np.int32(FIRST), sessions.offsets, sessions.vocabulary)
        # Words below the threshold are unknown to the network.
        shown_texts = texts if self.tokenizer.kind == "words" else self.floor.common(texts)
        spelled = spell_out(self.tokenizer, shown_texts)
        return Sessions(recoded, spelled, self.shared.turns, self.shared.query_tokens)

    def make_network(self) -> QueryNetwork:
        """An untrained network where torch makes tensors."""
        return MODELS[self.model_name].make(self.settings, len(self.tokenizer))
