"""The predictor of task ``classify``: texts in, calibrated labels out, for trained and counting models alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ensue.answers import TextAnswer, TextExplanation
from ensue.arguments import require_records
from ensue.data.histories import Index
from ensue.data.texts import Texts
from ensue.learning import life
from ensue.metrics import Floats
from ensue.records import Text
from ensue.tasks.classify import explain, infer, train, update
from ensue.tasks.classify.dataset import Sides, codes
from ensue.tasks.classify.save import FOLDERS
from ensue.tasks.classify.state import ClassifyState
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report


class ClassifyPredictor(ClassifyState):
    """Says which label fits a text, or a pair of texts: see :class:`ClassifyState` for its arguments."""

    data_type = Texts
    folders = FOLDERS

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
        self.require_data(data, valid)
        return life.fit(train, self, data, valid, Checkpoint(checkpoint, resume))

    def update(self, data: Texts) -> Report:
        """Learn labelled texts on top of what is known, in one pass; new words are welcome, new labels are not.

        Probabilities keep their temperature. Nothing of the former texts is kept, so many updates that are all of one
        kind will wear down the rest: fit anew from time to time.

        Raises:
            DataError: no labels, a label that is new, or pairs where single texts were learned.
        """
        self.require_data(data)
        return update.update(self, data)

    def predict(self, records: Sequence[Text], k: int = 10, *, evidence: bool = True) -> list[TextAnswer]:
        """The ``k`` likeliest labels of each record, with the words they leaned on and the score drop without those.

        A record without words gets the shares of the labels in the training data.

        Args:
            records: any number.
            k: labels a record, fewer if there are fewer.
            evidence: whether to fill ``Choice.attributions`` and ``TextAnswer.deletion`` (about ten more passes).

        Raises:
            DataError: pairs where single texts were learned, or the reverse.
            SettingError: not trained, or ``k`` below 1.
        """
        return explain.answers(self, require_records(records, Text), k, evidence=evidence)

    def explain(self, records: Sequence[Text], k: int = 3) -> list[TextExplanation]:
        """What the model leaned on inside each record: weights of words and sentences, graphs, and deletion tests.

        Raises:
            DataError: pairs where single texts were learned, or the reverse.
            SettingError: not trained.
        """
        return explain.explanations(self, require_records(records, Text), k)

    def scores(self, texts: Texts, counting: str | None = None) -> Floats:
        """(texts, labels) calibrated probabilities, the same that :meth:`predict` gives.

        Args:
            texts: any number; their labels are not looked at.
            counting: one of ``counting`` in place of the model; of a blend also its ``network`` alone.

        Raises:
            DataError: pairs where single texts were learned, or the reverse.
            SettingError: not trained.
        """
        return infer.scores(self, texts, counting)

    def targets(self, texts: Texts) -> Index:
        """(texts,) the column of each text's label in :meth:`scores`; -1 for a label that was never learned.

        Raises:
            DataError: the texts have no labels.
        """
        return codes(texts, self.labels)

    def probabilities(self, sides: Sides, counting: str | None = None) -> Floats:
        """(records, labels) what :meth:`scores` gives, of texts that are encoded already."""
        return infer.probabilities(self, sides, counting)

    def seen(self, texts: Texts) -> npt.NDArray[np.bool_]:
        """(texts,) whether each was trained on, ignoring case and spaces."""
        return infer.seen(self, texts)
