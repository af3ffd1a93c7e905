"""State of a predictor of task ``next`` and metadata of its training: the steps of its life are functions of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ensue.errors import SettingError
from ensue.lazy import lazy, torch
from ensue.learning.state import Count, State, module_of
from ensue.learning.state import Metadata as SharedMetadata
from ensue.nn.device import memory_for
from ensue.nn.topk import has_faiss
from ensue.schedule import by_hand
from ensue.settings import changed
from ensue.tasks import named
from ensue.tasks.next.baselines.length_delay import LengthDelayModel
from ensue.tasks.next.baselines.own_items import OwnItems
from ensue.tasks.next.baselines.repeats import RepeatShares
from ensue.tasks.next.catalogue import BEST, COUNTING, MODELS, SHARED
from ensue.tasks.next.item_features import KnownItems
from ensue.tasks.next.item_filter import FilterCache, ItemFilter, Rules
from ensue.tasks.next.item_index import LARGE, IndexFacts, ItemIndex
from ensue.tasks.next.model import Baseline, Multiplies, NextModel
from ensue.tasks.next.reservoir import Reservoir
from ensue.tasks.next.settings import CountingSettings
from ensue.tasks.next.training_data import Exclusion
from ensue.vocabulary import FIRST, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from ensue.nn import sampling
    from ensue.tasks.next.item_similarity import ItemSimilarity
else:
    sampling = lazy("ensue.nn.sampling")


@dataclass(kw_only=True)
class NextMetadata(SharedMetadata):
    """Metadata of a model of task ``next``."""

    sequences: Count
    """Histories."""
    events: Count
    """Events of all histories."""
    values: Count
    """Distinct values."""
    repeats: bool
    """Whether any history holds a value twice; where none does, what a history holds is no answer."""
    repeat_share: float
    """Share of the events of the training data, the first of each history left out, whose history holds their item."""
    immediate_repeat_share: float
    """Share of the same events that repeat the item just before them."""
    exclusion: Exclusion
    """What ``predict`` leaves out by default, as the two shares suggest."""
    timed: bool
    """Whether events have times."""
    chosen: str = ""
    """Reason why ``best`` selected a baseline, if it did."""
    members: dict[str, float] | None = None
    """The weight of each member of an ensemble."""
    training: dict[str, int] | None = None
    """The batch, the steps in all, and those in which the step size rose: as they fitted the log."""
    steps: Count = 0
    """Optimiser steps taken in a stream."""
    min_users: dict[str, int] | None = None
    """What was left out because fewer people shared it: see :class:`ensue.tasks.next.training_data.LeftOut`."""
    forgotten: list[int] | None = None
    """Ids whose values were removed with a person: no answers, and without a value in the vocabulary."""
    item_columns: dict[str, str] | None = None
    """The type of each feature of items, by column."""
    index: IndexFacts | None = None
    """Of a large catalogue: what was measured when its index was made."""

    @property
    def ruled_out(self) -> Exclusion:
        """What metrics rule out: all that a history holds where the training data never repeats an item."""
        return Exclusion.NONE if self.repeats else Exclusion.SEEN


class NextState(State[NextModel]):
    """A ranker of next items: see :class:`~ensue.learning.state.State` for its arguments.

    Of ``best``, the models of ``BEST`` are trained, and held-out data decides.
    """

    task = "next"

    def configure(self, model: str, settings: dict[str, object]) -> None:
        """Take the settings of a model; nothing is trained yet."""
        MODELS.require(model, "best")
        names = BEST if model == "best" else (model,)
        defaults = (default for name in names for default in MODELS[name][1:])
        # Settings and schedule of each model alternate: 2 * at and 2 * at + 1.
        *configured, self.shared = changed(by_hand(settings), *defaults, SHARED)
        self.stated = {name: (configured[2 * at], configured[2 * at + 1]) for at, name in enumerate(names)}
        """The models that may be chosen from, each with its settings and schedule, as they were set."""
        self.candidates = dict(self.stated)
        """The same as they are for the catalogue that is learned."""
        if any(schedule is not None and schedule.monitor == "accuracy" for _, schedule in self.candidates.values()):
            raise SettingError("monitor is 'accuracy'; task next allows loss and mrr")
        self.select_model(names[0])
        self.vocabulary = Vocabulary()
        """Values and their ids."""
        self.model: NextModel | None = None
        """The trained or counted module; ``None`` before the first fit."""
        self.counting: dict[str, Baseline] = {}
        """The baselines that are reported next to the model, by name."""
        self.length_delay = LengthDelayModel()
        """Length of histories and delay of the next event."""
        self.metadata: NextMetadata = NextMetadata(
            sequences=0, events=0, values=0, repeats=False, repeat_share=0.0, immediate_repeat_share=0.0,
            exclusion=Exclusion.NONE, timed=False,
        )  # fmt: skip
        self.training_hashes = np.zeros(0, np.int64)
        """(histories,) fingerprints of what was learned, so that an evaluation finds what it tests among it."""
        self.reservoir = self.new_reservoir()
        """A sample of past histories, which updates train on again."""
        self.known_items: KnownItems | None = None
        """The item table; ``None`` where items have ids alone."""
        self.index: ItemIndex | None = None
        """Candidates for answers; ``None`` where every answer looks at the whole catalogue."""
        self.filters = FilterCache()
        """The lists of requests that came lately."""
        self._similarity: tuple[object, ItemSimilarity] | None = None
        self.new_rows: tuple[int, dict[str, Tensor]] | None = None
        """A block of ids and the rows that its new ids start from, by name of their tensor."""

    @property
    def keeps_histories(self) -> bool:
        """Whether single histories may stay in memory and in a folder, whole or as fingerprints: not by ``replay=0``.

        Then blends are their networks alone, and VS-kNN is not among the baselines.
        """
        return bool(getattr(self.schedule or self.settings, "replay", 1))

    @property
    def baselines(self) -> tuple[str, ...]:
        """Names of the baselines that are reported next to this model."""
        return tuple(name for name in COUNTING if self.keeps_histories or name != "vsknn")

    @property
    def has_item_features(self) -> bool:
        """Whether scores depend on the item table: a baseline keeps it for rules alone."""
        return self.known_items is not None and self.schedule is not None

    def repeat_shares(self, exclusion: Exclusion = Exclusion.NONE) -> RepeatShares | None:
        """Return how often values come again, by distance; ``None`` where none does, or none may be an answer."""
        own_items = self.counting.get("own-items")
        if not isinstance(own_items, OwnItems) or not self.metadata.repeats or exclusion is Exclusion.SEEN:
            return None
        return own_items.repeats.without_latest() if exclusion is Exclusion.LAST else own_items.repeats

    def filters_of(self, requests: Sequence[Rules]) -> list[ItemFilter | None]:
        """Return the filter of each request; ``None`` where all items may be answers.

        Raises:
            DataError: a filter cannot be read, or the model has no such column.
        """
        items = None if self.known_items is None else self.known_items.items
        return self.filters.of_each(requests, self.vocabulary, items, self.item_similarity)

    def item_similarity(self) -> ItemSimilarity:
        """Return the similarity of items; it is computed again once something was learned."""
        sources = self.vocabulary, self.known_items, self.counting["cooccurrence"]
        # The identities of its sources tell whether the cached similarity is still valid.
        if self._similarity is None or self._similarity[0] != (len(self.vocabulary), *map(id, sources)):
            similarity: ItemSimilarity = named("ensue.tasks.next.item_similarity:ItemSimilarity")(*sources)
            self._similarity = (len(self.vocabulary), *map(id, sources)), similarity
        return self._similarity[1]

    def exclusion(self, exclude_seen: bool | None) -> Exclusion:
        """Return which items of a history are no answer to it; ``None`` is the default of the model."""
        if exclude_seen is None:
            return self.metadata.exclusion
        return Exclusion.SEEN if exclude_seen else Exclusion.NONE

    def select_model(self, name: str) -> None:
        """Take the name and the settings of one of those that may be chosen from."""
        self.model_name = name
        self.settings, self.schedule = self.candidates[name]

    def select_baseline(self, name: str) -> None:
        """Select a baseline; the setting that forbids storing single histories is kept."""
        replay = int(self.keeps_histories)
        self.model_name = name
        _, settings, self.schedule = MODELS[name]
        self.settings = replace(settings, replay=replay) if isinstance(settings, CountingSettings) else settings
        self.optimizer = self.seconds_an_epoch = None

    def new_reservoir(self) -> Reservoir:
        """Return an empty reservoir; baselines store nothing there, for counts forget nothing."""
        return Reservoir(self.schedule.replay if self.schedule else 0, self.seed)

    def make_network(self) -> NextModel:
        """Return an untrained network where torch makes tensors."""
        return MODELS[self.model_name].make(self.settings, len(self.vocabulary))

    def new_baseline(self, name: str) -> Baseline:
        """Return an empty baseline, on the CPU."""
        row = MODELS[name]
        settings = self.settings if name == self.model_name else row.settings
        with memory_for(f"{name} with these settings"):
            baseline: Baseline = row.make(settings, len(self.vocabulary))
        return baseline

    @property
    def is_indexed(self) -> bool:
        """Whether the predictor has an index once it is trained: it pays for a large catalogue."""
        is_large = len(self.vocabulary) - FIRST >= LARGE
        return is_large and isinstance(self.network, Multiplies) and self.device.type == "cpu" and has_faiss()

    def learned(self) -> None:
        """Drop caches that depend on the network, after it was trained."""
        self._similarity = None
        if self.index is not None:
            self.index.clear_cache()

    def count_negatives(self) -> None:
        """Tell a network that draws negatives how often each id occurs."""
        for module in module_of(self.network).modules():
            if isinstance(module, sampling.Sampler):
                module.count(torch.from_numpy(self.counting["popularity"].totals))
