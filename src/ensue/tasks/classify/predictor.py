"""The predictor of task ``classify``: texts in, calibrated labels out, for networks and baselines alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ensue.answers import TextAnswer, TextExplanation
from ensue.arguments import require_records
from ensue.data.histories import Index, Mask
from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.learning import life
from ensue.learning.life import NO_TRAINING, resize_embeddings, train_update
from ensue.learning.state import require_tokens, require_trained
from ensue.nn.validation import require_ids, require_table
from ensue.records import Text
from ensue.store.graph import Graph
from ensue.store.pack import NETWORK, TREE, read_tensors
from ensue.tasks.classify import explain, train
from ensue.tasks.classify.baselines.grams import require_grams
from ensue.tasks.classify.baselines.majority import Majority
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.baselines.tfidf import Tfidf
from ensue.tasks.classify.catalogue import COUNTING
from ensue.tasks.classify.catalogue import MODELS as CATALOGUE
from ensue.tasks.classify.dataset import RememberedTexts, codes, text_hashes
from ensue.tasks.classify.ensembles import blend
from ensue.tasks.classify.onnx_network import OnnxClassifier
from ensue.tasks.classify.settings import ALIGNMENT
from ensue.tasks.classify.state import ClassifyState
from ensue.text.encoder import Vectors
from ensue.text.tokens import Tokenizer
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report
from ensue.vocabulary import FIRST


@dataclass(eq=False)
class FittedClassifier:
    """Fitted values in a folder of a classifier, without the weights of the network.

    Attributes:
        tokenizer: splits texts into words.
        train_prints: (distinct training texts,) their hashes.
        majority: a baseline, as ``tfidf`` and ``vectors`` are.
        remembered: held-out texts.
    """

    tokenizer: Tokenizer
    train_prints: Index
    majority: Majority
    tfidf: Tfidf | None = None
    vectors: MeanVectors | None = None
    remembered: RememberedTexts | None = None

    def __post_init__(self) -> None:
        """Check that everything is of the same words and labels.

        Raises:
            ValueError: it is not.
        """
        require_table("train_prints", self.train_prints, np.int64, [None])
        num_words = len(self.tokenizer.vocabulary)
        num_labels = len(self.majority.counts)
        if not self.majority.counts.any():
            raise ValueError("majority.counts counts no text")
        if {baseline.num_labels for baseline in (self.tfidf, self.vectors) if baseline is not None} - {num_labels}:
            raise ValueError(f"the baselines are not of the {num_labels} labels of majority.counts")
        if self.tfidf is not None:
            require_grams("tfidf.keys", self.tfidf.keys, num_words)
            self.tfidf.vocabulary = self.tokenizer.vocabulary
        if self.vectors is not None:
            require_table("vectors.matrix", self.vectors.matrix, np.float32, [num_words, None])
        if self.remembered is not None:
            sides, targets = self.remembered
            sets = self.majority.sets
            require_table("remembered.targets", targets, np.int64, [None, num_labels] if sets else [None])
            require_ids("remembered.targets", targets.ravel(), 2 if sets else num_labels)
            for number, tokens in enumerate(sides):
                require_tokens(f"remembered.sides.{number}", tokens, num_words)
            if not len(targets) or {len(tokens) for tokens in sides} != {len(targets)}:
                raise ValueError("remembered: the texts and their labels differ in number")


class ClassifyPredictor(ClassifyState):
    """Predictor of the label of a text, or of a pair of texts: see :class:`ClassifyState` for its arguments."""

    data_type = Texts
    fitted = FittedClassifier

    def fit(
        self, data: Texts, valid: Texts | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Train on labelled texts, yielding a report per step; the predictor can be used once the loop is over.

        Without ``valid`` a tenth of ``data`` is held out, for early stopping, for the temperature of the probabilities,
        and for the strength of the baselines.

        Args:
            data: labelled texts.
            valid: validation data in place of the held-out tenth.
            checkpoint: a file that lets a killed run continue (and one next to it, for the log).
            resume: continue from there.

        Raises:
            DataError: no labels, or one only; single texts here and pairs there; vectors that cannot be read.
            SettingError: the loss is no longer a number, vectors of another width, or another run's checkpoint.
        """
        self.require_data(data, valid)
        return life.fit(train, self, data, valid, Checkpoint(checkpoint, resume))

    def update(self, data: Texts) -> Report:
        """Train on more labelled texts in one pass; they may hold new words, but no new labels.

        Probabilities keep their temperature. The former texts are not stored, so many updates of one kind wear down the
        rest: fit from scratch from time to time.

        Raises:
            DataError: no labels, a label that is new, or pairs where the model was trained on single texts.
        """
        self.require_data(data)
        require_trained(self.model)
        self.require_trainable()
        if not len(data):
            raise DataError("new data: there are no texts")
        targets = codes(data, self.labels)
        spelled, _ = data.match_spellings(self.labels)
        for label in [label for label in spelled.distinct_labels() if label not in self.labels][:1]:
            raise DataError(
                f"new data: the label {label!r} is not a label of the model ({', '.join(self.labels)}); fit again on "
                "all data"
            )
        # Check pairs against single texts before anything changes.
        self.encode(data.select(slice(0, 1)))  # refused before anything is changed
        self.tokenizer.add(data.texts, min_count=self.settings.min_count)
        sides = self.encode(data)
        for baseline in self.counting.values():
            baseline.grow(len(self.tokenizer.vocabulary))
            baseline.count(sides, targets)
        self.train_prints = np.union1d(self.train_prints, text_hashes(data))
        self.metadata.updates += 1
        self.metadata.texts += len(data)
        if self.schedule is None or self.optimizer is None:
            return NO_TRAINING
        if self.encoder is None:  # an encoder reads words that no vocabulary has
            resize_embeddings(self, len(self.tokenizer.vocabulary))
        *_, report = train_update(self, self.passages(sides, targets))
        return report

    def predict(self, records: Sequence[Text], k: int = 10, *, evidence: bool = True) -> list[TextAnswer]:
        """Return the ``k`` likeliest labels of each record, with attributions and the score drop without those words.

        A record without words gets the relative frequencies of the labels in the training data.

        Args:
            records: any number.
            k: number of labels per record, fewer if there are fewer.
            evidence: whether to fill ``Choice.attributions`` and ``TextAnswer.deletion`` (about ten more passes).

        Raises:
            DataError: pairs where the model was trained on single texts, or the reverse.
            SettingError: not trained, or ``k`` below 1.
        """
        return explain.answers(self, require_records(records, Text), k, evidence=evidence)

    def explain(self, records: Sequence[Text], k: int = 3) -> list[TextExplanation]:
        """Return attributions inside each record: weights of words and sentences, graphs, and deletion tests.

        Raises:
            DataError: pairs where the model was trained on single texts, or the reverse.
            SettingError: not trained.
        """
        return explain.explanations(self, require_records(records, Text), k)

    def vectors_of(self, records: Sequence[Text]) -> tuple[Vectors, Mask]:
        """Return the pooled vector of each text or pair, before the layers that score labels; all texts have one."""
        texts = Texts.of(require_records(records, Text))
        if self.schedule is None:
            raise self.without_vectors("texts", "centrality")
        if not len(texts):
            raise DataError("no texts are given, so there are no vectors")
        vectors = self.pooled_vectors(self.encode(texts))
        if vectors is None:
            raise self.without_vectors("texts", "centrality")
        return vectors, np.ones(len(texts), np.bool_)

    def targets(self, texts: Texts) -> Index:
        """Return the column of each text's label in :meth:`scores`, (texts,); -1 for a label of no training text.

        Raises:
            DataError: the texts have no labels.
        """
        return codes(texts, self.labels)

    def _collect(self) -> FittedClassifier:
        """Return the fitted values of a classifier."""
        return FittedClassifier(self.tokenizer, self.train_prints, remembered=self.remembered, **self.counting)  # type: ignore[arg-type]

    def _restore(self, fitted: FittedClassifier, folder: Path) -> None:
        """Take the fitted values and the network of a folder."""
        metadata = self.metadata
        if self.encoder is not None and metadata.encoder is None:
            raise ValueError("facts.encoder: is missing")
        if len(set(metadata.labels)) < len(metadata.labels) or metadata.paired != (metadata.architecture == "pair"):
            raise ValueError("the labels or the architecture in settings.json belong to different models")
        self.tokenizer = fitted.tokenizer
        self.train_prints = fitted.train_prints
        self.remembered = fitted.remembered
        self.counting = {name: model for name in COUNTING if (model := getattr(fitted, name)) is not None}
        num_sides = 2 if metadata.paired else 1
        if len(fitted.majority.counts) != len(metadata.labels) or (
            self.remembered is not None and len(self.remembered.sides) != num_sides
        ):
            raise ValueError(f"{TREE} belongs to another model")
        if fitted.vectors is not None and fitted.vectors.num_sides != num_sides:
            raise ValueError(f"{TREE} belongs to another model")
        components = {*self.counting, *([blend.NETWORK] if self.model_name == "blend" else [])}
        if not {*(metadata.blend or ())} <= components or (metadata.blend is None) == (self.model_name == "blend"):
            raise ValueError("the weights of the blend belong to another model")
        if metadata.residual and not ("vectors" in self.counting and "vectors" in metadata.temperature):
            raise ValueError("the word vectors that the network adds to are missing")
        if self.schedule is None:
            self.model = self.counting[self.model_name]
            return
        if metadata.exported is not None:
            aligned = getattr(self.settings, "pooling", "") == ALIGNMENT
            self.model = OnnxClassifier(Graph.read(folder), len(metadata.labels), aligned=aligned)
            return
        tensors = read_tensors(folder, NETWORK)
        table = tensors["table.weight"]
        num_rows = len(self.tokenizer.vocabulary) if self.encoder is None else 0
        require_table("table.weight", table, np.float32, [num_rows, None])
        self.read_network(folder, tensors, num_rows, table.shape[1], bounded=self.model_name in {*CATALOGUE})

    def stored_data(self) -> list[str]:
        """Return what the folder stores of the training texts: single words may be personal data."""
        words = (
            "every word of the training texts in `baselines.safetensors` (`ensue fit --set min_count=5`: seen 5 times)"
        )
        prints = "a 64-bit fingerprint of each text there, to detect test texts that are in the training data"
        lines = [f"- {words}, and {prints}."]
        if num := self.shared.remembered:
            remembered = f"up to {num:,} held-out texts as word ids, with their labels, in `baselines.safetensors`"
            lines.append(f"- {remembered}, to test updates on; `ensue fit --set remembered=0` stores none.")
        return lines

    def _shown(self) -> dict[str, object]:
        """Return the size of the vocabulary."""
        return {"words": len(self.tokenizer.vocabulary) - FIRST}
