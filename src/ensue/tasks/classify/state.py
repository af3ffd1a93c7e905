"""State of a text classifier: vocabulary, network, baselines, metadata, and the scores of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ensue.data.histories import Index, Mask
from ensue.data.texts import Texts
from ensue.errors import DataError, SettingError
from ensue.lazy import lazy
from ensue.learning.state import Count, State, require_trained
from ensue.learning.state import Metadata as SharedMetadata
from ensue.metrics import Floats
from ensue.schedule import require_fixed
from ensue.settings import changed
from ensue.tasks.classify.baselines.majority import Majority
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.baselines.tfidf import Tfidf
from ensue.tasks.classify.calibration import thresholds
from ensue.tasks.classify.catalogue import BEST, MODELS, PAIRED, SHARED
from ensue.tasks.classify.dataset import Passages, RememberedTexts, Sides, text_hashes, word_counts
from ensue.tasks.classify.ensembles import blend
from ensue.tasks.classify.model import Model, Shape, TextBaseline, TextNetwork
from ensue.tasks.classify.onnx_network import OnnxClassifier
from ensue.tasks.classify.settings import TABLE_2, LinearSettings, TextSettings
from ensue.text.encoder import Encoder, Vectors
from ensue.text.linear import log_softmax, sigmoid
from ensue.text.tokens import Tokenizer

if TYPE_CHECKING:  # of networks, which need torch
    from ensue.tasks.classify import neural, passages
    from ensue.tasks.classify.passages import PassageBatches
    from ensue.training import optimizer
    from ensue.training.optimizer import RowAdam
else:
    neural = lazy("ensue.tasks.classify.neural")
    passages = lazy("ensue.tasks.classify.passages")
    optimizer = lazy("ensue.training.optimizer")

Weight = Annotated[float, Field(ge=0, le=1e12)]
Scale = Annotated[float, Field(ge=1e-12, le=1e12)]


@dataclass(kw_only=True)
class ClassifierMetadata(SharedMetadata):
    """Training data of a classifier, and its results on held-out texts."""

    texts: Count
    """Learned so far."""
    labels: Annotated[list[str], Field(min_length=2)]
    """In the order of the columns of scores."""
    paired: bool
    """True if the training data holds pairs of texts."""
    architecture: Annotated[str, Field(pattern="^(flat|hierarchical|pair)$")]
    """Architecture that was chosen for the data: flat, hierarchical or pair."""
    temperature: dict[str, Scale]
    """By model, what its scores are divided by; 1 for those left out."""
    strength: dict[str, Scale]
    """By baseline, how much the data counts beside the penalty."""
    calibration_error: dict[str, float]
    """By model, on held-out texts."""
    validation_accuracy: dict[str, float]
    """By model, on held-out texts."""
    notes: list[str]
    """Sentences for the person who trains the model."""
    encoder: Annotated[list[float], Field(min_length=1, max_length=8)] | None = None
    """Probe of the sentence encoder, by which it is recognised."""
    known_vectors: Count = 0
    """Words that have a vector in the file."""
    residual: bool = False
    """True if the network's scores are added to those of the mean-vector baseline."""
    blend: Annotated[dict[str, Weight], Field(min_length=1)] | None = None
    """The weight of each model in the pool; ``None`` where nothing is pooled."""
    sets: bool = False
    """True if a text may have several labels, or none."""
    thresholds: dict[str, list[float]] = field(default_factory=dict)
    """By model, the probability from which each label is predicted, where texts have sets of labels."""


class ClassifyState(State[TextNetwork]):
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
        *_, self.shared = changed(settings, *(defaults for name in self.names for defaults in MODELS[name][1:]), SHARED)
        self.select_model(self.names[0])
        self.tokenizer = Tokenizer()
        """Splits texts into words and holds their ids."""
        self.model: Model | OnnxClassifier | None = None
        self.counting: dict[str, TextBaseline] = {}
        """The baselines, by name."""
        self.metadata: ClassifierMetadata = ClassifierMetadata(
            texts=0, labels=[], paired=False, architecture="flat", temperature={}, strength={}, calibration_error={},
            validation_accuracy={}, notes=[],
        )  # fmt: skip
        self.train_prints: Index = np.zeros(0, np.int64)
        """(distinct training texts,) hashes, by which test texts among the training data are detected."""
        self.remembered: RememberedTexts | None = None
        """Held-out texts with the codes of their labels, on which updates are tested."""

    def select_model(self, name: str, architecture: str = "flat", sized: Mapping[str, object] | None = None) -> None:
        """Take the name and the settings of a model: the paper's for such texts, ``sized`` ones, and what was set."""
        _, settings, schedule = MODELS[name]
        names = {field.name for defaults in (settings, schedule) if defaults is not None for field in fields(defaults)}
        # Later ones win: the paper's, those that fit the data, those for pairs, the user's.
        changes = {**(TABLE_2[architecture] if schedule is not None else {}), **(sized or {})}
        if architecture == "pair" and self.options.get("encoder") is None and "pooling" not in self.options:
            changes |= PAIRED.get(name, {})
        changes |= self.options
        self.model_name = name
        changes = {key: value for key, value in changes.items() if key in names}
        self.settings: TextSettings | LinearSettings
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
        """The architecture that was chosen for the data."""
        return self.metadata.architecture

    @property
    def documents(self) -> bool:
        """True if texts are read sentence by sentence."""
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

    def scores(self, texts: Texts, counting: str | None = None) -> Floats:
        """Return calibrated probabilities, (texts, labels), the same that :meth:`predict` gives.

        Args:
            texts: any number; their labels are ignored.
            counting: name of a baseline in place of the model; of a blend also ``network``, its network alone.

        Raises:
            DataError: pairs where the model was trained on single texts, or the reverse.
            SettingError: not trained.
        """
        require_trained(self.model)
        return self.probabilities(self.encode(texts), counting)

    def probabilities(self, sides: Sides, counting: str | None = None) -> Floats:
        """Return the scores of texts that are encoded already; see :meth:`scores`.

        A record without words gets the relative frequencies of the labels.
        """
        name = counting or self.model_name
        scores = self.raw_scores(sides, counting) / self.metadata.temperature.get(name, 1.0)
        probabilities: Floats = sigmoid(scores) if self.metadata.sets else np.exp(log_softmax(scores))
        if (is_empty := word_counts(sides) == 0).any():
            majority = self.counting["majority"]
            assert isinstance(majority, Majority)
            probabilities[is_empty] = majority.probabilities()
        if not np.isfinite(probabilities).all():
            raise SettingError(
                f"the probabilities of {name} are not finite numbers; fit it again with settings closer to the defaults"
            )
        return probabilities

    def choose_thresholds(self, name: str, scores: Floats, targets: Index) -> None:
        """Choose the threshold of each label, where texts have sets of labels.

        Args:
            name: of the model.
            scores: (texts, labels) raw scores of texts that the model was not trained on.
            targets: (texts, labels) 1 for the labels of a text.
        """
        if self.metadata.sets:
            probabilities = sigmoid(scores / self.metadata.temperature.get(name, 1.0))
            self.metadata.thresholds[name] = thresholds(probabilities, targets).tolist()

    def predicted_sets(self, probabilities: Floats, counting: str | None = None) -> Mask:
        """Return (records, labels) whether each label is predicted: its probability is not below its threshold."""
        thresholds = np.array(self.metadata.thresholds[counting or self.model_name])
        return probabilities >= thresholds

    def raw_scores(self, sides: Sides, counting: str | None = None) -> Floats:
        """Return scores before temperature and softmax, (records, labels)."""
        name = counting or self.model_name
        if name in self.counting:
            return self.counting[name].scores(sides)
        if weights := self.metadata.blend if name != blend.NETWORK else None:
            # A part of weight 0 is not computed.
            used = {component: weight for component, weight in weights.items() if weight} or weights
            parts = {component: self.raw_scores(sides, component) for component in used}
            return blend.pool(parts, used, sets=self.metadata.sets)
        if isinstance(self.model, OnnxClassifier):
            scores = self.model.scores(Passages(sides, documents=self.documents))
            return scores if (below := self._below(sides)) is None else scores + below
        return neural.scores(self.network, self.passages(sides), len(self.labels), self.device)

    def attention(self, sides: Sides) -> Floats:
        """Return the attention weights of the network, (words of all sides,)."""
        if isinstance(self.model, OnnxClassifier):
            return self.model.attention(Passages(sides, documents=self.documents))
        return neural.attention(self.network, self.passages(sides), self.device)

    def _below(self, sides: Sides) -> npt.NDArray[np.float32] | None:
        """Return (records, labels) scores that the network adds to, where there are any."""
        if not self.metadata.residual:
            return None
        baseline_scores = self.counting["vectors"].scores(sides) / self.metadata.temperature["vectors"]
        return baseline_scores.astype(np.float32)

    def pooled_vectors(self, sides: Sides) -> Vectors | None:
        """Return (records, width) the vectors that the last layers score; ``None`` where the network has none."""
        if isinstance(self.model, OnnxClassifier):
            raise SettingError("an exported model has no vectors of texts; ask the folder that it was exported from")
        return neural.vectors(self.network, self.passages(sides), self.device)

    def passages(self, sides: Sides, targets: Index | None = None) -> PassageBatches:
        """Return encoded texts as the network reads them.

        Args:
            sides: the texts.
            targets: (texts,) codes of their labels.

        Raises:
            SettingError: a sentence encoder is missing, or not the one that the network was trained with.
        """
        if self.encoder is None:
            batches = passages.PassageBatches(sides, targets, documents=self.documents)
        else:
            assert self.metadata.encoder is not None
            self.encoder.require(self.metadata.encoder)
            batches = passages.SentencePassages(sides, targets, self.encoder)
        batches.below = self._below(sides)
        return batches

    def seen(self, texts: Texts) -> Mask:
        """Return a (texts,) mask of the texts that are among the training texts, ignoring case and spaces."""
        return np.isin(text_hashes(texts), self.train_prints)

    def new_optimizer(self) -> RowAdam:
        """Return an optimizer with L2 on everything but the word vectors, whose rows move when a batch touches them."""
        assert self.schedule is not None
        undecayed = [self.module.get_parameter("table.weight")]
        return optimizer.make_optimizer(self.module, self.schedule, undecayed=undecayed)

    def make_network(self, num_words: int, dim: int) -> TextNetwork:
        """Return an untrained network where torch makes tensors."""
        shape = Shape(num_words, dim, len(self.labels), self.architecture)
        return MODELS[self.model_name].make(self.settings, shape)

    def new_baseline(self, name: str, strength: float, matrix: npt.NDArray[np.float32] | None = None) -> TextBaseline:
        """Return an untrained baseline.

        Args:
            name: one of ``COUNTING``.
            strength: weight of the data relative to the penalty.
            matrix: (words, dim) vectors of the words, for ``vectors``.
        """
        num_labels = len(self.labels)
        kind = MODELS[name].make
        if kind is Majority:
            return Majority(np.zeros(num_labels, np.int64), sets=self.metadata.sets)
        if kind is Tfidf:
            model = Tfidf(num_labels, strength, sets=self.metadata.sets)
            model.vocabulary = self.tokenizer.vocabulary
            return model
        matrix = np.zeros((0, 0), np.float32) if matrix is None else matrix
        num_sides = 2 if self.metadata.paired else 1
        return MeanVectors(num_labels, strength, matrix, num_sides, sets=self.metadata.sets)
