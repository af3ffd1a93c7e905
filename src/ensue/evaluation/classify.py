"""Evaluation of task ``classify``: accuracy, macro F1, calibration error and log loss, and the card.

Every text counts, the empty ones too; a label unseen in training counts as wrong. Intervals resample what was drawn
together: whole groups where the data has groups, all pairs of a first text, else single texts. They are centred at the
metrics, because an empirical calibration error is larger in resamples than in truth.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ensue import metrics
from ensue.data.histories import Index, Mask
from ensue.data.rankings import Rankings
from ensue.data.texts import Texts
from ensue.data.texts.labels import match_spellings, require_known
from ensue.errors import DataError
from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.examples import Entries, Examples, Json, Scored, fraction_of, ids_of
from ensue.evaluation.result import LISTED
from ensue.lines import plural, quoted
from ensue.metrics import Floats
from ensue.significance import is_significant
from ensue.tasks.classify.calibration import BINS
from ensue.tasks.classify.catalogue import COUNTING
from ensue.tasks.classify.dataset import codes, known, require_sets
from ensue.tasks.classify.ensembles.blend import NETWORK
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.training.report import LEFT_OUT

METRICS = ("accuracy", "macro_f1", "calibration_error", "log_loss")
METRICS_OF_SETS = ("micro_f1", "macro_f1", "subset_accuracy", "lrap", "calibration_error")
MAX_CALIBRATION_ERROR = 0.1
"""Calibration error above which a row warns that its probabilities are not to be taken as such."""
TOLERANCE = 0.1
"""Probabilities of one text may add up to this much more than 1, because programs write few decimals."""
_NO_LABEL = "(none of these)"
"""Label of a text for which another program has no list."""


@dataclass(frozen=True, slots=True, eq=False)
class TextLabels(Scored):
    """The label that one model gives to every text; labels are numbered across all models.

    Attributes:
        labels: by number.
        predicted: (texts,) number of the predicted label; the number of labels where there is none.
        targets: (texts,) number of the true label.
        probability: (texts,) of the predicted label.
        loss: (texts,) log loss.
        seconds: of all predictions.
    """

    labels: Sequence[str]
    predicted: Index
    targets: Index
    probability: Floats
    loss: Floats
    seconds: float = 0.0

    def metrics(self) -> Mapping[str, Floats]:
        """Return the (texts,) metrics that are means over texts."""
        return {"accuracy": (self.predicted == self.targets).astype(np.float64), "log_loss": self.loss}

    def pooled(self, weights: Floats) -> Mapping[str, Floats]:
        """Return (draws,) macro F1 and expected calibration error of weighted texts."""
        # Bins are closed on the right: (0, 1/BINS] is bin 0, and a probability of exactly 0 is clipped into it.
        bins = np.clip(np.ceil(self.probability * BINS).astype(np.int64) - 1, 0, BINS - 1)
        errors = self.probability - (self.predicted == self.targets)
        # The error of a bin is the sum of its probabilities less the number of its correct texts.
        calibration = [np.abs(np.bincount(bins, times * errors, BINS)).sum() / times.sum() for times in weights]
        f1 = [metrics.macro_f1(self.counts(times)) for times in weights]
        return {"macro_f1": np.array(f1), "calibration_error": np.array(calibration)}

    def counts(self, weights: Floats | None = None) -> Floats:
        """Return (3, labels) as :func:`ensue.metrics.label_counts`."""
        return metrics.label_counts(self.predicted, self.targets, len(self.labels), weights)

    def answers(self) -> Mapping[str, pl.Series]:
        """Return the label of every text, its probability and the log loss."""
        label = pl.Series([*self.labels, _NO_LABEL], dtype=pl.String).gather(self.predicted)
        return {"label": label, "probability": pl.Series(self.probability), "log_loss": pl.Series(self.loss)}


@dataclass(frozen=True, slots=True, eq=False)
class TextSets(Scored):
    """The set of labels that one model gives to every text; labels are numbered across all models.

    Attributes:
        labels: by number.
        predicted: (texts, labels) whether each label is predicted.
        targets: (texts, labels) whether it is true.
        probabilities: (texts, labels).
        seconds: of all predictions.
    """

    labels: Sequence[str]
    predicted: Mask
    targets: Mask
    probabilities: Floats
    seconds: float = 0.0

    @property
    def probability(self) -> Floats:
        """(texts,) probability of the likeliest label."""
        return self.probabilities.max(1)

    def metrics(self) -> Mapping[str, Floats]:
        """Return the (texts,) metrics that are means over texts."""
        exact = metrics.subset_accuracy(self.predicted, self.targets)
        return {"subset_accuracy": exact, "lrap": metrics.label_ranking_precision(self.probabilities, self.targets)}

    def pooled(self, weights: Floats) -> Mapping[str, Floats]:
        """Return (draws,) micro and macro F1 and expected calibration error of weighted texts."""
        bins = np.clip(np.ceil(self.probabilities * BINS).astype(np.int64) - 1, 0, BINS - 1)
        errors = self.probabilities - self.targets
        # (texts, bins) the error of each text in each bin, so that a draw is a weighted sum of texts.
        by_bin = np.stack([np.where(bins == number, errors, 0.0).sum(1) for number in range(BINS)], axis=1)
        calibration: Floats = np.abs(weights @ by_bin).sum(1) / (weights.sum(1) * len(self.labels))
        tables = [self.counts(times) for times in weights]
        return {
            "micro_f1": np.array([metrics.micro_f1(table) for table in tables]),
            "macro_f1": np.array([metrics.macro_f1(table) for table in tables]),
            "calibration_error": calibration,
        }

    def counts(self, weights: Floats | None = None) -> Floats:
        """Return (3, labels) as :func:`ensue.metrics.set_counts`."""
        return metrics.set_counts(self.predicted, self.targets, weights)

    def answers(self) -> Mapping[str, pl.Series]:
        """Return the labels of every text, with ``;`` between them, and the metrics of the text."""
        names = np.array(self.labels)
        sets = pl.Series([";".join(names[row]) for row in self.predicted], dtype=pl.String)
        return {"labels": sets, **{name: pl.Series(column) for name, column in self.metrics().items()}}


class LabelledTexts(Examples[ClassifyPredictor, TextLabels | TextSets]):
    """The texts of a data set, which models label.

    Args:
        entries: fitted predictors by model and seed.
        data: labelled texts.
        rankings: the labels that other programs give to the texts, by their ids, with probabilities as scores.

    Raises:
        DataError: no texts, no labels, or pairs where the models were trained on single texts.
    """

    order = "in turn"
    centred = True

    def __init__(self, entries: Entries[ClassifyPredictor], data: Texts, rankings: Sequence[Rankings] = ()) -> None:
        if not len(data):
            raise DataError("nothing to score: there are no texts")
        trained = [label for seeds in entries for predictor in seeds for label in predictor.labels]
        known_labels = list(dict.fromkeys(trained))
        self.data, self.respelled = data.match_spellings(known_labels)
        true = self.data.distinct_labels()
        require_known(self.data.flat_labels, known_labels, "the texts to score")
        require_sets(data, entries[0][0].metadata.sets, "the texts to score")
        if data.multilabel and rankings:
            raise DataError("lists of other programs are scored for texts with one label each")
        known_labels = list(dict.fromkeys([*known_labels, *true]))
        self.rankings = {lists.name: _respelled(lists, known_labels) for lists in rankings}
        listed = [label for lists in self.rankings.values() for label in lists.frame["value"].unique().sort()]
        # Labels of the models first, then of the data, then of other programs; ``fromkeys`` drops repeats in order.
        self.labels = list(dict.fromkeys([*known_labels, *listed]))
        self.ids = ids_of(pl.Series() if data.ids is None else data.ids, np.arange(len(data)), len(data))
        self.units, self.resampled = _units(data)
        self.num_units = int(self.units.max()) + 1
        self.first = entries[0][0]
        self.baselines = [name for name in COUNTING if name in self.first.counting]
        self.baseline_predictors = entries[0]
        self.main = "micro_f1" if data.multilabel else "accuracy"
        self.names = self.table_metrics = METRICS_OF_SETS if data.multilabel else METRICS
        # The metric that the model was selected by is tested first.
        self.tested = (self.main, "macro_f1")[:: -1 if self.first.shared.metric == "macro-f1" else 1]

    def score(self, predictor: ClassifyPredictor, component: str | None = None) -> TextLabels | TextSets:
        """Label every text by a predictor, or by one of its baselines.

        Raises:
            DataError: the texts have no labels, or are pairs where the model was trained on single texts.
        """
        targets = codes(self.data, self.labels)
        start = time.perf_counter()
        probabilities = predictor.scores(self.data, component)
        seconds = time.perf_counter() - start
        # Column of each label of this model among the labels of all models.
        numbers = np.array([self.labels.index(label) for label in predictor.labels])
        if self.data.multilabel:
            # Columns of the model among the labels of all models; a label that it does not know has probability 0.
            scores = np.zeros(targets.shape)
            predicted_sets = np.zeros(targets.shape, np.bool_)
            scores[:, numbers] = probabilities
            predicted_sets[:, numbers] = predictor.predicted_sets(probabilities, component)
            return TextSets(self.labels, predicted_sets, targets.astype(np.bool_), scores, seconds)
        best = probabilities.argmax(1)
        columns = predictor.targets(self.data)
        texts = np.arange(len(self.data))
        # A label that the model does not know has the column -1 and the probability 0.
        true = np.where(columns >= 0, probabilities[texts, columns], 0.0)
        predicted = numbers[best]
        return TextLabels(self.labels, predicted, targets, probabilities[texts, best], metrics.log_loss(true), seconds)

    def score_rankings(self, rankings: Rankings) -> TextLabels:
        """Return the labels of another program: the most probable one of each list; a text without a list is wrong.

        A list without probabilities is certain of its first label.

        Raises:
            DataError: no list is of one of the texts, or scores are not probabilities.
        """
        lists = self.rankings[rankings.name].by_score().frame
        _require_probabilities(rankings.name, lists)
        # A list without scores counts as probability 1 for its first label.
        certain = (pl.col("position") == 1).cast(pl.Float64)
        lists = lists.with_columns(score=pl.coalesce("score", certain))
        texts = pl.DataFrame({"query": self.ids, "true": self.data.labels})
        # A left join keeps texts without a list; their label is null, and counts as wrong.
        first = texts.join(lists.filter(position=1), on="query", how="left", maintain_order="left")
        if not first["value"].count():
            raise DataError(
                f"{rankings.name}: labels none of the texts; its first list is for "
                f"{quoted(lists['query'].first() or '')}, the first text is {quoted(self.ids[0])}"
            )
        lists = lists.select("query", "score", true="value")
        true = texts.join(lists, on=["query", "true"], how="left", maintain_order="left")["score"].fill_null(0.0)
        numbers = {label: number for number, label in enumerate(self.labels)}
        predicted = first["value"].replace_strict(numbers, default=len(self.labels), return_dtype=pl.Int64).to_numpy()
        probability = first["score"].fill_null(0.0).to_numpy()
        targets = codes(self.data, self.labels)
        return TextLabels(self.labels, predicted, targets, probability, metrics.log_loss(true.to_numpy()))

    def variants(self, predictors: Sequence[ClassifyPredictor]) -> Sequence[tuple[str, Sequence[ClassifyPredictor]]]:
        """Return the network of ensembles, unless it was left out early; other ensembles are a baseline alone."""
        trained = [predictor for predictor in predictors if predictor.metadata.ended != LEFT_OUT]
        blended = [predictor for predictor in trained if predictor.metadata.blend is not None]
        return [(NETWORK, blended)] if blended else []

    def frame(self) -> pl.DataFrame:
        """Return one row per text, in the order of the data."""
        labels = self.data.labels
        targets = labels.list.join(";") if labels is not None and self.data.multilabel else labels
        return pl.DataFrame({"id": self.ids, "unit": self.units, "target": targets})

    def notes(self, runs: Sequence[TextLabels | TextSets]) -> Json:
        """Return precision, recall and F1 of each label, and a warning where probabilities are far off."""
        counts = [run.counts() for run in runs]
        fractions = np.mean([metrics.precision_recall_f1(table) for table in counts], 0)
        by_label = {
            label: {"precision": float(p), "recall": float(r), "f1": float(f1), "texts": int(num)}
            for label, p, r, f1, num in zip(self.labels, *fractions, counts[0][2], strict=True)
        }
        ones = np.ones((1, len(self.data)))
        error = float(np.mean([run.pooled(ones)["calibration_error"] for run in runs]))
        # TextLabels without probabilities are no claim of certainty.
        is_certain = all((run.probability == 1).all() for run in runs)
        if error <= MAX_CALIBRATION_ERROR or is_certain:
            return {"labels": by_label}
        warning = f"calibration error {error:.3f}: the probabilities do not match the accuracy"
        return {"labels": by_label, "warnings": [warning]}

    def warning(self, name: str, result: BootstrapResult, results: Mapping[str, BootstrapResult]) -> str:
        """Return a sentence unless the accuracy, or micro F1, is significantly above that of the majority row."""
        majority = results["majority"]
        accuracy = result.by_name()[self.main]
        base = majority.by_name()[self.main]
        if result is majority or (accuracy > base and is_significant(result.p_value(majority, self.main))):
            return ""
        return (
            f"{name}: {metrics.label(self.main)} {100 * accuracy:.2f} % is not significantly above {100 * base:.2f} %, "
            f"that of always predicting the most frequent label{'s' if self.data.multilabel else ''}"
        )

    def card(self, run: TextLabels | TextSets) -> dict[str, str]:
        """Return what the metrics mean."""
        data = self.data
        assert data.labels is not None
        counts = data.flat_labels.value_counts(sort=True, name="count")
        listed = ", ".join(f"{label} {count:,}" for label, count in counts.head(LISTED).iter_rows())
        tail = f", and {len(counts) - LISTED:,} more" if len(counts) > LISTED else ""
        new = int((~known(self.first.targets(data))).sum())
        sides = self.first.encode(data)
        num_words = np.sum([tokens.lengths for tokens in sides], axis=0)
        num_known = np.sum([tokens.num_known for tokens in sides], axis=0)
        cut = sum(tokens.cut_words for tokens in sides)
        caps = f"; caps cut {plural(cut, 'word')}" if cut else ""
        certain = [name for name, lists in self.rankings.items() if lists.frame["score"].null_count()]
        without = f"; without probabilities the first label has probability 1 ({', '.join(certain)})"
        labels = f"{listed}{tail}; {fraction_of(new, len(data))} have a label unseen in training and count as wrong"
        averaging = (
            f"accuracy, calibration error ({BINS} bins) and log loss over texts; macro-F1 over all labels "
            f"that are true or predicted{without if certain else ''}"
        )
        if data.multilabel:
            labels = f"{listed}{tail}; {len(data.flat_labels) / len(data):.2f} labels per text"
            averaging = (
                f"subset accuracy and LRAP over texts; calibration error ({BINS} bins) and micro F1 over all pairs of "
                "a text and a label, macro-F1 over all labels that are true or predicted; a label is predicted from "
                "its threshold on"
            )
        return {
            "name": "labels",
            "data": plural(len(data), "pair" if data.paired else "text"),
            "labels": "; ".join((labels, *self.respelled)),
            "averaging": averaging,
            "leaked": f"{fraction_of(int(self.first.seen(data).sum()), len(data))} are in the training data, ignoring "
            "case and spaces",
            "unknown": f"{fraction_of(int((num_known == 0).sum()), len(data))} have no word in the vocabulary; "
            f"{int((num_words == 0).sum()):,} of these are empty{caps}",
            "interval": self.resampled,
            "ties": "the first of equally probable labels is the answer",
        }


def _respelled(rankings: Rankings, labels: Sequence[str]) -> Rankings:
    """Return the lists of another program with labels spelled as here.

    Raises:
        DataError: a list holds two spellings of one label.
    """
    values, _ = match_spellings(rankings.frame["value"], labels)
    frame = rankings.frame.with_columns(values.alias("value"))
    doubled = frame.filter(frame.select("query", "value").is_duplicated())
    for query, label in doubled.select("query", "value").head(1).iter_rows():
        raise DataError(f"{rankings.name}: the list of {quoted(query)} has two spellings of the label {quoted(label)}")
    return replace(rankings, frame=frame)


def _require_probabilities(name: str, lists: pl.DataFrame) -> None:
    """Refuse scores that are not probabilities of labels that exclude each other.

    Raises:
        DataError: a score is not between 0 and 1, or those of a text add up to more than 1.
    """
    for query, score in lists.filter(~pl.col("score").is_between(0, 1)).select("query", "score").head(1).iter_rows():
        raise DataError(
            f"{name}: scores of labels must be probabilities, and a label of {quoted(query)} has {score:g}; give "
            "numbers from 0 to 1, or JSON Lines without scores, best label first"
        )
    sums = lists.group_by("query", maintain_order=True).agg(pl.col("score").sum())
    for query, total in sums.filter(pl.col("score") > 1 + TOLERANCE).head(1).iter_rows():
        raise DataError(
            f"{name}: the probabilities of the labels of {quoted(query)} add up to {total:.3g}; give probabilities "
            "that add up to 1, or JSON Lines without scores, best label first"
        )


def _units(data: Texts) -> tuple[Index, str]:
    """Return the (texts,) unit that each text is resampled with, and the words for the card."""
    column = data.groups if data.groups is not None else data.texts[0] if data.paired else None
    if column is None:
        return np.arange(len(data)), "texts"
    units = column.rank("dense").to_numpy().astype(np.int64) - 1
    words = "whole groups" if data.groups is not None else "first texts with all their pairs"
    return units, f"{words}, {int(units.max()) + 1:,} in all"
