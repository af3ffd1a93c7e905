"""The predictor of task ``classify``: texts in, calibrated labels out, for trained and counting models alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ensue.answers import TextAnswer, TextExplanation
from ensue.data.histories import Index
from ensue.data.texts import Texts
from ensue.data.tokens import Tokenizer
from ensue.errors import DataError, SettingError
from ensue.metrics import Floats
from ensue.nn.device import find_device, room_for
from ensue.nn.encoder import Encoder
from ensue.records import Text
from ensue.schedule import require_fixed
from ensue.settings import changed, require_k, require_seed
from ensue.store.folder import read_model, write_folder
from ensue.tasks.classify import BEST, MODELS, SHARED, answers, blend, fitting, storage, updating
from ensue.tasks.classify.batch import Batch, Output
from ensue.tasks.classify.counting import Majority, MeanVectors, Sides, Tfidf
from ensue.tasks.classify.network import TABLE_2, Shape
from ensue.tasks.classify.sentences import SentencePassages
from ensue.tasks.classify.task import Passages
from ensue.threads import side_by_side
from ensue.training.loop import Report
from ensue.training.optimizer import LateOptimizer
from ensue.vocabulary import FIRST

GROUP = 6000
"""Words that are read together in prediction."""


class ClassifyPredictor:
    """Says which label fits a text, or a pair of texts.

    Args:
        model: a name in ``MODELS``, or ``best``: see ``BEST``.
        settings: settings of the model and of its schedule to change, by name; texts are read as numbers.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: where the network runs; a GPU is used when there is one.

    Raises:
        SettingError: an unknown model or setting.
    """

    task = "classify"
    optimizer = LateOptimizer()

    def __init__(
        self,
        model: str = "best",
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        if model not in ("best", *MODELS):
            raise SettingError(f"model {model!r} is not known for task classify; choose from best, {', '.join(MODELS)}")
        self.options = dict(settings or {})
        self.names: tuple[str, ...] = BEST if model == "best" else (model,)
        if model == "best" and self.options.get("vectors") is None:
            self.names = tuple(name for name in BEST if name != "vectors")
        self.device = find_device(device)
        self.encoder: Encoder | None = None
        *_, self.keeping = changed(self.options, *(part for name in self.names for part in MODELS[name][1:]), SHARED)
        self.become(self.names[0])
        self.seed = require_seed(seed)
        self.tokenizer = Tokenizer()
        self.model: Any = None
        self.counting: dict[str, Tfidf | MeanVectors | Majority] = {}
        self.facts: dict[str, Any] = {}
        self.seconds_an_epoch: float | None = None
        self.train_prints = torch.zeros(0, dtype=torch.int64)
        self.remembered: tuple[Sides, Index] | None = None
        self.optimizer = None

    def become(self, name: str, architecture: str = "flat") -> None:
        """Take the name and the settings of a model: the paper's for such texts, and what was set."""
        _, settings, schedule = MODELS[name]
        known = {field.name for part in (settings, schedule) if part is not None for field in fields(part)}
        changes = {**(TABLE_2[architecture] if schedule is not None else {}), **self.options}
        own = {key: value for key, value in changes.items() if key in known}
        self.model_name = name
        self.settings, self.schedule = changed(own, settings, schedule)
        encoder = getattr(self.settings, "encoder", None)
        self.encoder = None if encoder is None else self.encoder or Encoder(encoder, self.device)
        require_fixed(self.schedule, "classify", "accuracy")

    @property
    def network(self) -> Any:
        """The trained module, or what was counted.

        Raises:
            SettingError: nothing was trained or loaded yet.
        """
        if self.model is None:
            raise SettingError("this predictor is not trained yet: loop over fit(data), or load a folder")
        return self.model

    @property
    def labels(self) -> list[str]:
        """The labels in the order of the columns of :meth:`scores`: numbers by size, else by alphabet."""
        return list(self.facts["labels"])

    @property
    def architecture(self) -> str:
        """What the data made of ``architecture="auto"``."""
        return str(self.facts["architecture"])

    @property
    def documents(self) -> bool:
        """Whether texts are read sentence by sentence."""
        return self.architecture == "hierarchical" or self.encoder is not None

    def fit(
        self, data: Texts, valid: Texts | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Count and train, yielding a report a step; the predictor can be used once the loop is over.

        Without ``valid`` a tenth of ``data`` is held out: it says when to halve the batch and when to stop, sets the
        temperature of the probabilities, and chooses the strength of the linear models that stand beside.

        Args:
            data: labelled texts.
            valid: what is looked at in place of the held-out tenth.
            checkpoint: a file that lets a killed run continue (and one beside it, for what is logged).
            resume: continue from there.

        Raises:
            DataError: no labels, or one only; single texts here and pairs there; vectors that cannot be read.
            SettingError: the loss is no longer a number, vectors of another width, or another run's checkpoint.
        """
        return fitting.fit(self, data, valid, checkpoint, resume)

    def update(self, data: Texts) -> Report:
        """Learn labelled texts on top of what is known, in one pass; new words are welcome, new labels are not.

        Probabilities keep their temperature. Nothing of the former texts is kept, so many updates that are all of one
        kind will wear down the rest: fit anew from time to time.

        Raises:
            DataError: no labels, a label that is new, or pairs where single texts were learned.
        """
        return updating.update(self, data)

    def predict(self, records: Sequence[Text], k: int = 10, *, evidence: bool = True) -> list[TextAnswer]:
        """The ``k`` likeliest labels of each record, with the words they leaned on and what is lost without those.

        A record without words gets the shares of the labels in the training data.

        Args:
            records: any number.
            k: labels a record, fewer if there are fewer.
            evidence: whether to fill ``Choice.heeded`` and ``TextAnswer.deletion`` (about ten more passes).

        Raises:
            DataError: pairs where single texts were learned, or the reverse.
            SettingError: not trained, or ``k`` below 1.
        """
        require_k(k)
        self.network  # noqa: B018 trained?
        return answers.answers(self, records, k, evidence=evidence) if len(records) else []

    def explain(self, records: Sequence[Text], k: int = 3) -> list[TextExplanation]:
        """What the model leaned on inside each record: weights of words and sentences, graphs, and deletion tests.

        Raises:
            DataError: pairs where single texts were learned, or the reverse.
            SettingError: not trained.
        """
        found = zip(records, self.predict(records, k), strict=True)
        return [answers.explanation(self, record, answer) for record, answer in found]

    def scores(self, texts: Texts, counting: str | None = None) -> Floats:
        """(texts, labels) calibrated probabilities, the same that :meth:`predict` gives.

        Args:
            texts: any number; their labels are not looked at.
            counting: one of ``counting`` in place of the model; of a blend also its ``network`` alone.

        Raises:
            DataError: pairs where single texts were learned, or the reverse.
            SettingError: not trained.
        """
        self.network  # noqa: B018 trained?
        return self.probabilities(self.encode(texts), counting)

    def targets(self, texts: Texts) -> Index:
        """(texts,) the column of each text's label in :meth:`scores`; -1 for a label that was never learned.

        Raises:
            DataError: the texts have no labels.
        """
        return fitting.codes(texts, self.labels)

    def encode(self, texts: Texts) -> Sides:
        """Texts in ids; of pairs, first texts and second ones.

        Raises:
            DataError: pairs where single texts were learned, or the reverse.
        """
        if texts.paired != self.facts["paired"]:
            kinds = ("pairs", "single texts") if texts.paired else ("single texts", "pairs")
            raise DataError(f"these are {kinds[0]}, but the model learned {kinds[1]}; give {kinds[1]}")
        caps = {"max_words": self.settings.max_words}
        if self.documents:
            caps["max_sentences"] = self.settings.max_sentences
        encode = partial(self.tokenizer.encode, sentences=self.documents, keep_words=self.encoder is not None, **caps)
        return tuple(map(encode, texts.texts))

    def passages(self, sides: Sides, targets: Index | None = None) -> Passages:
        """Encoded texts as the network reads them.

        Raises:
            SettingError: a sentence encoder is missing, or not the one that was learned with.
        """
        if self.encoder is None:
            return Passages(sides, targets, documents=self.documents)
        self.encoder.require(self.facts["encoder"])
        return SentencePassages(sides, targets, self.encoder)

    def probabilities(self, sides: Sides, counting: str | None = None) -> Floats:
        """(records, labels) calibrated probabilities; a record without words gets the shares of the labels."""
        name = counting or self.model_name
        scores = self.raw_scores(sides, counting).double() / self.facts["temperature"].get(name, 1.0)
        found: Floats = scores.softmax(1).numpy()
        silent = np.sum([tokens.lengths for tokens in sides], axis=0) == 0
        found[silent] = self.counting["majority"].shares().numpy()  # type: ignore[union-attr]
        return found

    def raw_scores(self, sides: Sides, counting: str | None = None) -> Tensor:
        """(records, labels) scores before temperature and softmax, on the CPU."""
        name = counting or self.model_name
        if name in self.counting:
            return self.counting[name].scores(sides)
        if weights := self.facts.get("blend") if name != blend.NETWORK else None:
            return blend.pool({part: self.raw_scores(sides, part) for part in weights}, weights)
        passages = self.passages(sides)
        scores = torch.zeros(len(passages), len(self.labels))

        def score(index: Index) -> None:
            scores[torch.from_numpy(index)] = self.run(passages.batch(index)).scores.float().cpu()

        self.network.eval()
        side_by_side(score, reversed(list(passages.groups(GROUP))))
        return scores

    def run(self, batch: Batch) -> Output:
        """The network on a batch, in evaluation mode."""
        self.network.eval()
        with torch.inference_mode():
            output: Output = self.network(batch.to(self.device))
        return output

    def new_network(self, num_words: int, dim: int) -> Any:
        """An untrained network on this predictor's device."""
        shape = Shape(num_words, dim, len(self.labels), self.architecture)
        with room_for(self.model_name):
            return MODELS[self.model_name][0](self.settings, shape).to(self.device)

    def summary(self) -> dict[str, Any]:
        """What was learned from what, and how: goes into ``settings.json`` and the card."""
        return {
            "task": self.task,
            "model": self.model_name,
            "settings": {**asdict(self.settings), **asdict(self.keeping)},
            "schedule": asdict(self.schedule) if self.schedule else None,
            "seed": self.seed,
            "facts": {**self.facts, "words": len(self.tokenizer.vocabulary) - FIRST},
        }

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the model folder at once; an older model there is replaced whole.

        Args:
            folder: where.
            card: the text of ``CARD.md``.

        Raises:
            ModelFolderError: not writable, full, or taken by something that is no model.
            SettingError: not trained.
        """
        self.network  # noqa: B018 trained?
        write_folder(Path(folder), storage.files(self, card))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read a folder written by :meth:`save`.

        Raises:
            ModelFolderError: it is half, foreign, damaged, or of a newer ensue.
        """
        return read_model(Path(folder), partial(cls, device=device), storage.fill)

    def seen(self, texts: Texts) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """(texts,) whether each was trained on, case and spaces aside."""
        return np.isin(fitting.prints(texts), self.train_prints.numpy())
