"""The evaluator of ``classify``: accuracy, macro-F1, calibration error and log loss, counting rows beside every model.

Every text counts, the empty ones too; a label that was never learned counts as wrong. Intervals resample what was
drawn together: whole groups where the data has groups, all pairs of a first text, else single texts. They are moved so
that the mean of the resamples lies on the figure: an empirical calibration error is larger in resamples than in truth.

The verdict compares, on the same resamples, the accuracy of the best network and of the best counting row (two-sided).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue import metrics
from ensue.data.histories import Index
from ensue.data.rankings import Rankings, tie_rule
from ensue.data.texts import Texts
from ensue.data.texts.labels import match_spellings, require_known
from ensue.errors import DataError
from ensue.evaluation.bootstrap import RESAMPLES, BootstrapResult, resample
from ensue.evaluation.entries import Entry, beside_counting
from ensue.evaluation.examples import Examples, found_of, named
from ensue.evaluation.paired_test import RULE, paired_tests
from ensue.evaluation.result import TaskResult, with_seeds
from ensue.evaluation.rows import Row, seed_notes, share_of
from ensue.lines import plural, quoted
from ensue.metrics import Floats
from ensue.significance import is_significant
from ensue.tasks.classify.calibration import BINS, calibration_error
from ensue.tasks.classify.catalogue import COUNTING
from ensue.tasks.classify.dataset import codes
from ensue.tasks.classify.ensembles.blend import NETWORK
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.vocabulary import UNKNOWN

MEASURES = ("accuracy", "macro_f1", "calibration_error", "log_loss")
_LISTED = 12
MAX_CALIBRATION_ERROR = 0.1
"""Calibration error above which a row warns that its probabilities are not to be taken as such."""
RARE = 0.5
"""Fraction of an equal share of the texts below which a label is rare."""
_NO_LABEL = "(none of these)"
"""Shown as the label of a text for which another program has no list."""
TIES = "the first of equally probable labels is the answer"
TOLERANCE = 0.1
"""Probabilities of one text may add up to this much more than 1, because programs write few decimals."""


@dataclass(frozen=True, slots=True)
class TextCard:
    """What the figures mean: stands beside every table."""

    name: str
    data: str
    labels: str
    averaging: str
    leaked: str
    unknown: str
    interval: str
    ties: str = TIES
    significance: str = RULE


class TextResult(TaskResult[TextCard]):
    """A table, its card, paired tests by accuracy and by macro F1, and the recall of rare labels."""

    __slots__ = ()
    task = "classify"

    @property
    def verdict(self) -> str:
        """The line under the table."""
        labels = self.rows[0].notes.get("labels", {})
        texts = {label: own["texts"] for label, own in labels.items() if own["texts"]}
        limit = RARE * sum(texts.values()) / max(len(texts), 1)
        rare = sorted((label for label in texts if texts[label] < limit), key=lambda label: texts[label])
        if not rare:
            return super().verdict
        listed = ", ".join(f"{label} {texts[label]:,}" for label in rare[:_LISTED]) + ", …" * (len(rare) > _LISTED)
        rows = {row.model: row.notes["labels"] for row in self.rows if row.model in (self.model, self.best_baseline)}
        recalls = (
            f"{name} {100 * np.mean([own[label]['recall'] for label in rare]):.2f}" for name, own in rows.items()
        )
        return f"{super().verdict}; mean recall of rare labels ({listed}): {', '.join(recalls)}"


@dataclass(frozen=True, slots=True, eq=False)
class TextScored:
    """What one model says of every text; labels are numbered across all models."""

    model: str
    given: Index
    targets: Index
    sure: Floats
    """(texts,) probability of the label given."""
    loss: Floats
    """(texts,) log loss."""
    seconds: float

    def figures(self, rows: Index | slice = slice(None), num_labels: int = 0) -> list[float]:
        """``MEASURES`` over some of the texts."""
        given, targets = self.given[rows], self.targets[rows]
        right = given == targets
        sure, code = self.sure[rows][:, None], np.where(right, 0, -1)  # one column is enough for its bins
        f1 = metrics.macro_f1(metrics.label_counts(given, targets, num_labels))
        return [float(right.mean()), f1, calibration_error(sure, code), float(self.loss[rows].mean())]


def compare(
    entries: Sequence[Sequence[ClassifyPredictor]], data: Texts, rankings: Sequence[Rankings] = ()
) -> TextResult:
    """Score several models, each a list of predictors that differ in their seed alone.

    Args:
        entries: by model; counting models stand beside the first, of each seed, by which texts are held out.
        data: labelled texts.
        rankings: the labels that other programs give to the texts, by their ids, with probabilities as scores.

    Raises:
        DataError: no texts, no labels, or pairs where single texts were learned.
    """
    if not len(data):
        raise DataError("nothing to score: there are no texts")
    first = entries[0][0]
    known = _labels(entries, None)
    data, matched = data.match_spellings(known)
    if data.labels is not None:
        require_known(data.labels, known, "the texts to score")
    rankings = [_respelled(own, _labels(entries, data)) for own in rankings]
    labels = _labels(entries, data, rankings)
    lines: list[Entry[TextScored]] = []
    for seeds in entries:
        lines.append(Entry.of(seeds, partial(score, data=data, labels=labels)))
        if blended := [own for own in seeds if own.metadata.blend is not None]:  # others chose a counting row
            lines.append(Entry.of(blended, partial(score, data=data, labels=labels, counting=NETWORK), NETWORK))
    counting = [name for name in COUNTING if name in first.counting]
    lines = beside_counting(lines, counting, entries[0], lambda own, name: score(own, data, labels, name))
    lines = [*(Entry(own.name, [_labelled(own, data, labels)], [0]) for own in rankings), *lines]
    names = [line.name for line in lines]
    owners, interval = _owners(data)
    found = _resample([line.runs for line in lines], owners, len(labels))
    base = found[names.index("majority")]
    rows = tuple(_row(labels, line, own, base) for line, own in zip(lines, found, strict=True))
    chosen_by = ["accuracy", "macro_f1"][:: -1 if first.shared.metric == "macro-f1" else 1]
    tests = paired_tests(chosen_by, COUNTING, names, found)
    examples = Examples(partial(_asked, data, owners), partial(found_of, lines, partial(_given, labels)))
    card = with_seeds(_card(first, data, labels, interval, rankings), lines)
    card = replace(card, labels="; ".join((card.labels, *matched)))
    return TextResult(card, rows, tests, tuple(found), examples=examples)


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


def _asked(data: Texts, owners: Index) -> pl.DataFrame:
    """A row a text, in the order of the data."""
    return pl.DataFrame({"id": _ids(data), "unit": owners, "target": data.labels})


def _given(labels: Sequence[str], run: TextScored) -> dict[str, pl.Series]:
    """The label that each text got, and how sure the model was."""
    given = pl.Series([*labels, _NO_LABEL], dtype=pl.String).gather(run.given)
    return {"label": given, "probability": pl.Series(run.sure), "log_loss": pl.Series(run.loss)}


def score(
    predictor: ClassifyPredictor, data: Texts, labels: Sequence[str] | None = None, counting: str | None = None
) -> TextScored:
    """Label every text, by the predictor's model or by one of its counting models.

    Args:
        predictor: fitted.
        data: labelled texts.
        labels: a number for each label, those of the predictor and of the data at least; theirs unless stated.
        counting: one of the predictor's counting models in its place.

    Raises:
        DataError: the texts have no labels, or are pairs where single texts were learned.
    """
    labels = _labels([[predictor]], data) if labels is None else labels
    targets = codes(data, labels)
    begun = time.perf_counter()
    found = predictor.scores(data, counting)
    seconds = time.perf_counter() - begun
    columns = np.array([labels.index(label) for label in predictor.labels])
    best, own = found.argmax(1), predictor.targets(data)
    texts = np.arange(len(data))
    true = np.where(own >= 0, found[texts, own], 0.0)
    loss = metrics.log_loss(true)
    return TextScored(counting or predictor.model_name, columns[best], targets, found[texts, best], loss, seconds)


def _labelled(rankings: Rankings, data: Texts, labels: Sequence[str]) -> TextScored:
    """Return the labels of another program: the most probable one of each list; a text without a list is wrong.

    A list without probabilities is certain of its first label.

    Raises:
        DataError: no list is of one of the texts, or scores are not probabilities.
    """
    lists = rankings.by_score().frame
    _require_probabilities(rankings.name, lists)
    certain = (pl.col("position") == 1).cast(pl.Float64)
    lists = lists.with_columns(score=pl.coalesce("score", certain))
    ids = _ids(data)
    texts = pl.DataFrame({"query": ids, "true": data.labels})
    first = texts.join(lists.filter(position=1), on="query", how="left", maintain_order="left")
    if not first["value"].count():
        raise DataError(
            f"{rankings.name}: labels none of the texts; its first list is for "
            f"{quoted(lists['query'].first() or '')}, the first text is {quoted(ids[0])}"
        )
    true = texts.join(lists, left_on=["query", "true"], right_on=["query", "value"], how="left", maintain_order="left")
    numbers = {label: number for number, label in enumerate(labels)}
    given = first["value"].replace_strict(numbers, default=len(labels), return_dtype=pl.Int64).to_numpy()
    loss = metrics.log_loss(true["score"].fill_null(0.0).to_numpy())
    sure = first["score"].fill_null(0.0).to_numpy()
    return TextScored(rankings.name, given, codes(data, labels), sure, loss, 0.0)


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


def _ids(data: Texts) -> pl.Series:
    return named(pl.Series() if data.ids is None else data.ids, np.arange(len(data)), len(data))


def _labels(
    entries: Sequence[Sequence[ClassifyPredictor]], data: Texts | None, rankings: Sequence[Rankings] = ()
) -> list[str]:
    """Return all labels of all models, then those that the data and the lists of other programs add."""
    learned = [label for seeds in entries for predictor in seeds for label in predictor.labels]
    true = [] if data is None or data.labels is None else data.labels.unique().sort().to_list()
    listed = [label for own in rankings for label in own.frame["value"].unique().sort().to_list()]
    return list(dict.fromkeys([*learned, *true, *listed]))


def _owners(data: Texts) -> tuple[Index, str]:
    """(texts,) what each text was drawn with, and the words for the card."""
    column = data.groups if data.groups is not None else data.texts[0] if data.paired else None
    if column is None:
        return np.arange(len(data)), f"95 %, {RESAMPLES} resamples of texts"
    owners = column.rank("dense").to_numpy().astype(np.int64) - 1
    what = "whole groups" if data.groups is not None else "first texts with all their pairs"
    return owners, f"95 %, {RESAMPLES} resamples of {what}, {int(owners.max()) + 1:,} in all"


def _resample(runs: Sequence[Sequence[TextScored]], owners: Index, num_labels: int) -> list[BootstrapResult]:
    """Figures of each model, and the same for resampled texts."""
    texts, num_owners = np.arange(len(owners)), int(owners.max()) + 1

    def figures(times: Floats) -> Iterator[Floats]:
        rows = np.repeat(texts, times[0].astype(np.int64)[owners])
        for seeds in runs:
            yield np.array([[run.figures(rows, num_labels)] for run in seeds])

    by_seed = [np.array([run.figures(num_labels=num_labels) for run in seeds]) for seeds in runs]
    drawn = resample([*map(len, runs)], num_owners, figures, order="in turn", resamples=RESAMPLES)
    return [BootstrapResult(MEASURES, own, draws, num_owners) for own, draws in zip(by_seed, drawn, strict=True)]


def _row(labels: Sequence[str], entry: Entry[TextScored], found: BootstrapResult, majority: BootstrapResult) -> Row:
    runs = entry.runs
    figures, bounds = found.by_name(), [1.0 if name != "log_loss" else np.inf for name in MEASURES]
    ends = found.centred(bounds).interval()
    interval = {name: (min(low, figures[name]), max(high, figures[name])) for name, (low, high) in ends.items()}
    counts = np.stack([metrics.label_counts(run.given, run.targets, len(labels)) for run in runs])
    shares = np.mean([metrics.precision_recall_f1(own) for own in counts], 0)
    by_label = {
        label: {"precision": float(p), "recall": float(r), "f1": float(f1), "texts": int(num)}
        for label, p, r, f1, num in zip(labels, *shares, counts[0][2], strict=True)
    }
    notes = {"labels": by_label, **seed_notes(entry.seeds, found)}
    if warnings := _miscalibrated(runs, figures["calibration_error"]):
        notes["warnings"] = warnings
    seconds = 1000 * sum(run.seconds for run in runs) / sum(len(run.given) for run in runs)
    warning = _warning(found, majority)
    return Row(runs[0].model, figures, interval, seconds, notes, warning and f"{runs[0].model}: {warning}")


def _miscalibrated(runs: Sequence[TextScored], error: float) -> list[str]:
    """Return a warning where probabilities are far off; labels without probabilities are no claim of certainty."""
    if error <= MAX_CALIBRATION_ERROR or all((run.sure == 1).all() for run in runs):
        return []
    return [f"calibration error {error:.3f}: the probabilities do not match the accuracy"]


def _warning(found: BootstrapResult, majority: BootstrapResult) -> str:
    """Return a warning unless the accuracy is significantly above that of the majority row."""
    accuracy, other = found.by_name()["accuracy"], majority.by_name()["accuracy"]
    if found is majority or (accuracy > other and is_significant(found.p_value(majority, "accuracy"))):
        return ""
    return (
        f"accuracy {100 * accuracy:.2f} % is not significantly above {100 * other:.2f} %, that of always predicting "
        "the most frequent label"
    )


def _card(
    predictor: ClassifyPredictor,
    data: Texts,
    labels: Sequence[str],
    interval: str,
    rankings: Sequence[Rankings] = (),
) -> TextCard:
    assert data.labels is not None
    counts = data.labels.value_counts(sort=True, name="count")
    listed = ", ".join(f"{label} {count:,}" for label, count in counts.head(_LISTED).iter_rows())
    more = f", and {len(counts) - _LISTED:,} more" if len(counts) > _LISTED else ""
    new = int((predictor.targets(data) < 0).sum())
    sides = predictor.encode(data)
    given = np.sum([tokens.lengths for tokens in sides], axis=0)
    known = np.sum([_known(tokens.ids, tokens.sentences[tokens.texts]) for tokens in sides], axis=0)
    cut = sum(tokens.cut_words for tokens in sides)
    caps = f"; caps cut {plural(cut, 'word')}" if cut else ""
    return TextCard(
        "labels",
        f"{plural(len(data), 'pair' if data.paired else 'text')}",
        f"{listed}{more}; {share_of(new, len(data))} have a label unseen in training and count as wrong",
        f"accuracy, calibration error ({BINS} bins) and log loss over texts; macro-F1 over all labels that are true "
        f"or predicted{_certain(rankings)}",
        f"{share_of(int(predictor.seen(data).sum()), len(data))} are in the training data, ignoring case and spaces",
        f"{share_of(int((known == 0).sum()), len(data))} have no word in the vocabulary; {int((given == 0).sum()):,} "
        f"of these are empty{caps}",
        interval,
        f"{TIES}{tie_rule(rankings)}",
    )


def _certain(rankings: Sequence[Rankings]) -> str:
    """Return what is said of programs that list labels without probabilities; empty where there are none."""
    names = [own.name for own in rankings if own.frame["score"].null_count()]
    return f"; without probabilities the first label has probability 1 ({', '.join(names)})" if names else ""


def _known(ids: npt.NDArray[np.integer[Any]], offsets: Index) -> Index:
    sums: Index = np.concatenate([np.zeros(1, np.int64), np.cumsum(ids != UNKNOWN, dtype=np.int64)])
    return np.diff(sums[offsets])
