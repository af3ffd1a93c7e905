"""State of a text classifier: vocabulary, network, baselines, metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial

import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.learning.state import State
from ensue.schedule import require_fixed
from ensue.settings import changed
from ensue.tasks.classify.baselines.majority import Majority
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.baselines.tfidf import Tfidf
from ensue.tasks.classify.catalogue import BEST, MODELS, PAIRED, SHARED
from ensue.tasks.classify.dataset import Passages, Remembered, Sides
from ensue.tasks.classify.metadata import Metadata
from ensue.tasks.classify.model import Baseline, Model, Network
from ensue.tasks.classify.models.centrality import TABLE_2, Shape
from ensue.tasks.classify.sentences import SentencePassages
from ensue.tasks.classify.settings import CountingSettings, TextSettings
from ensue.text.encoder import Encoder
from ensue.text.tokens import Tokenizer
from ensue.training.optimizer import RowAdam, make_optimizer


class ClassifyState(State[Network]):
    """A text classifier: see :class:`~ensue.learning.state.State` for its arguments."""

    task = "classify"

    def configure(self, model: str, settings: dict[str, object]) -> None:
        """Take the settings of a model; nothing is trained yet."""
        MODELS.require(model, "best")
        self.options = settings
        """The settings that differ from the defaults, by name."""
        self.names: tuple[str, ...] = BEST if model == "best" else (model,)
        """The models to choose from: more than one under ``best``."""
        if model == "best" and settings.get("vectors") is None:
            self.names = tuple(name for name in BEST if name != "vectors")
        self.encoder: Encoder | None = None
        """Encodes sentences, where the settings name an encoder."""
        *_, self.shared = changed(settings, *(part for name in self.names for part in MODELS[name][1:]), SHARED)
        self.select_model(self.names[0])
        self.tokenizer = Tokenizer()
        """Splits texts into words and holds their ids."""
        self.model: Model | None = None
        self.counting: dict[str, Baseline] = {}
        """The baselines, by name."""
        self.metadata: Metadata = Metadata(
            texts=0, labels=[], paired=False, architecture="flat", temperature={}, strength={}, calibration_error={},
            validation_accuracy={}, notes=[],
        )  # fmt: skip
        self.train_prints = torch.zeros(0, dtype=torch.int64)
        """(distinct training texts,) hashes, by which test texts among the training data are detected."""
        self.remembered: Remembered | None = None
        """Held-out texts with the codes of their labels, on which updates are tested."""

    def select_model(self, name: str, architecture: str = "flat", sized: Mapping[str, object] | None = None) -> None:
        """Take the name and the settings of a model: the paper's for such texts, ``sized`` ones, and what was set."""
        _, settings, schedule = MODELS[name]
        own = {field.name for part in (settings, schedule) if part is not None for field in fields(part)}
        changes = {**(TABLE_2[architecture] if schedule is not None else {}), **(sized or {})}
        if architecture == "pair" and self.options.get("encoder") is None and "pooling" not in self.options:
            changes |= PAIRED.get(name, {})
        changes |= self.options
        self.model_name = name
        changes = {key: value for key, value in changes.items() if key in own}
        self.settings: TextSettings | CountingSettings
        self.settings, self.schedule = changed(changes, settings, schedule)
        encoder = getattr(self.settings, "encoder", None)
        self.encoder = None if encoder is None else self.encoder or Encoder(encoder, self.device)
        require_fixed(self.schedule, "classify", "accuracy")

    @property
    def labels(self) -> list[str]:
        """The labels in the order of the columns of scores: numbers by size, else by alphabet."""
        return list(self.metadata.labels)

    @property
    def architecture(self) -> str:
        """What the data made of ``architecture="auto"``."""
        return self.metadata.architecture

    @property
    def documents(self) -> bool:
        """Whether texts are read sentence by sentence."""
        return self.architecture == "hierarchical" or self.encoder is not None

    def encode(self, texts: Texts) -> Sides:
        """Texts in ids; of pairs, first texts and second ones.

        Raises:
            DataError: pairs where single texts were learned, or the reverse.
        """
        if texts.paired != self.metadata.paired:
            kinds = ("pairs", "single texts") if texts.paired else ("single texts", "pairs")
            raise DataError(f"these are {kinds[0]}, but the model was trained on {kinds[1]}; give {kinds[1]}")
        encode = partial(
            self.tokenizer.encode,
            sentences=self.documents,
            max_words=self.settings.max_words,
            max_sentences=self.settings.max_sentences if self.documents else None,
            keep_words=True,  # characters of unknown words are read
        )
        return tuple(map(encode, texts.texts))

    def passages(self, sides: Sides, targets: Index | None = None) -> Passages:
        """Encoded texts as the network reads them.

        Args:
            sides: the texts.
            targets: (texts,) codes of their labels.

        Raises:
            SettingError: a sentence encoder is missing, or not the one that was learned with.
        """
        if self.encoder is None:
            passages = Passages(sides, targets, documents=self.documents)
        else:
            assert self.metadata.encoder is not None
            self.encoder.require(self.metadata.encoder)
            passages = SentencePassages(sides, targets, self.encoder)
        if self.metadata.residual:
            row = self.counting["vectors"].scores(sides)
            passages.below = (row / self.metadata.temperature["vectors"]).float()
        return passages

    def new_optimizer(self) -> RowAdam:
        """Return an optimizer with L2 on everything but the word vectors, whose rows move when a batch touches them."""
        assert self.schedule is not None
        return make_optimizer(self.module, self.schedule, undecayed=[self.module.get_parameter("table.weight")])

    def make_network(self, num_words: int, dim: int) -> Network:
        """Return an untrained network where torch makes tensors."""
        shape = Shape(num_words, dim, len(self.labels), self.architecture)
        network: Network = MODELS[self.model_name].make(self.settings, shape)
        return network

    def new_counting(self, name: str, strength: float, matrix: Tensor | None = None) -> Baseline:
        """One of ``COUNTING`` that has learned nothing.

        Args:
            name: which.
            strength: how much the data counts beside the penalty.
            matrix: (words, dim) vectors of the words, for ``vectors``.
        """
        num_labels, kind = len(self.labels), MODELS[name].make
        if kind is Majority:
            return Majority(torch.zeros(num_labels, dtype=torch.int64))
        if kind is Tfidf:
            model = Tfidf(num_labels, strength)
            model.vocabulary = self.tokenizer.vocabulary
            return model
        matrix = torch.zeros(0, 0) if matrix is None else matrix
        return MeanVectors(num_labels, strength, matrix, 2 if self.metadata.paired else 1)
