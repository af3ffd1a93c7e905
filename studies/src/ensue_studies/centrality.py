"""Centrality attention (Gong et al., Science China Information Sciences 2020) on the data sets at hand.

Tables 1 (data), 2 (settings), 3 (accuracy) and 4 (SNLI), figure 4 (steps of the power method), and the cost of each
pooling. Every number of the paper is one run without an interval.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log, sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import polars as pl
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_union
from sklearn.svm import LinearSVC

from ensue import figures
from ensue.data.histories import Index
from ensue.data.texts import Texts, leaks, read_texts
from ensue.data.texts.dataset import hold_out_texts
from ensue.errors import DataError
from ensue.evaluation.bootstrap import BootstrapResult, bootstrap
from ensue.evaluation.classify import LabelledTexts, TextLabels
from ensue.evaluation.examples import statistic_of
from ensue.metrics import Floats
from ensue.nn.pooling import POOLINGS
from ensue.significance import LEVEL
from ensue.tasks.classify.catalogue import COUNTING, MODELS
from ensue.tasks.classify.dataset import codes
from ensue.tasks.classify.ensembles.blend import NETWORK
from ensue.tasks.classify.model import Shape
from ensue.tasks.classify.models.centrality import CentralityClassifier
from ensue.tasks.classify.passages import PassageBatches
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.classify.settings import GRAPH_POOLINGS
from ensue.text.tokens import Tokens, split_words
from ensue.training.report import Report
from ensue.vocabulary import FIRST
from ensue_studies.datasets import DataSet, available, evenly, fingerprint, folder_of, packed, planned
from ensue_studies.mixing import mixing_of, second_eigenvalue, steps_to_converge
from ensue_studies.page import (
    Page,
    Row,
    Rows,
    Tables,
    Values,
    by_significance,
    distinct,
    estimate,
    is_significant,
    listed,
    percent,
    select,
)
from ensue_studies.papers import Paper
from ensue_studies.results import Study
from ensue_studies.runner import (
    CachedRun,
    CachedRuns,
    Plan,
    Request,
    cost_of,
    extend,
    mean_of,
    metrics_of,
    require_models,
    step_cost,
    timed_steps,
)

PAPER = Paper("centrality")
FULL, QUICK = (Plan(**PAPER["plan"][name]) for name in ("full", "quick"))
TRAINED = tuple(name for name, row in MODELS.items() if row.schedule is not None and row.settings.pooling in POOLINGS)
GRAPHS = GRAPH_POOLINGS
"""Poolings by a word graph."""
SVC = "linear-svc"
"""scikit-learn's linear SVM on words, pairs of words and characters: what a reader would try on single texts."""
BASELINES = (*COUNTING, SVC)
REFERENCE = "self-attention"
LABELS = {"accuracy": "accuracy", "macro_f1": "macro-F1", "calibration_error": "ECE"}
METRICS = tuple(LABELS)
PRINTED = PAPER.rows("accuracy")
"""Tables 3 and, of SNLI, 4 of the paper: accuracy in percent."""
SETTINGS = PAPER.rows("settings")
"""Table 2 of the paper, by our names."""
STATISTICS = PAPER.rows("statistics")
"""Table 1 of the paper."""
TEST_SIZES = {"sst1": 2210, "sst2": 1821, "snli": 9824}
"""Test texts of the paper."""
TOLERANCE, STEPS = PAPER["tolerance"], int(PAPER["steps"])
"""The stopping tolerance of the power method, and the steps that Figure 4 finds enough for most texts."""
MAX_STEPS = 5000
"""Steps of the power method at most: the cap of the released program in evaluation."""
CLASSES = (2, 5, 9, 17, 33, 65, 129)
"""First length of each class of lengths; the last one has no end."""
COLLAPSED = 0.05
"""Mean |lambda_2| below which one step of the walk forgets its start, so that centrality is self-attention."""
SIMILAR = 0.3
"""Below this |lambda_2| the columns of a graph are so alike that little can differ from self-attention."""
SCALE = 65_535  # a multiple of BINS, so that the bounds of the bins of the calibration error are stored exactly
LENGTHS = {"like SST": np.array([52, *np.random.default_rng(0).gamma((19 / 9) ** 2, 81 / 19, 63).round().clip(2, 52)])}
"""Words per text where a step is timed: gamma of mean 19 and deviation 9 up to 52."""

# --- data --------------------------------------------------------------------------------------------------------

VECTORS = "vectors/sgns100.npz"
REVIEWS = {"imdb": "polarity", "imdb-ratings": "rating"}
"""Sets that share a folder, by the column of their label."""
FOLDERS = {
    "sst1": "sst1",
    "sst2": "sst2",
    "sst2-phrases": "sst_trees",
    "trec": "trec",
    "imdb": "imdb50k",
    "imdb-ratings": "imdb50k",
    "snli": "snli",
}
Parts = tuple[Texts, Texts | None, Texts]


def find_sets(data: Path) -> tuple[list[DataSet[Texts]], list[str]]:
    """Read the available data sets, in the order of the tables.

    Args:
        data: folder with any of ``sst1``, ``sst2``, ``sst_trees``, ``trec``, ``imdb50k`` and ``snli`` (with
            ``snli_cad`` next to it), or its parent.

    Returns:
        The data sets, and the names of those that are not available.

    Raises:
        DataError: none is available, or a part of one is missing.
    """
    folder = folder_of(data, "text")
    readers = {name: partial(_read_set, folder / place, name) for name, place in FOLDERS.items()}
    return available(data, readers, FOLDERS.values())


def _read_set(folder: Path, name: str) -> DataSet[Texts] | None:
    if not folder.is_dir():
        return None
    train, valid, test = READERS[name](folder, name)
    parts = [part for part in (train, valid, test) if part is not None]
    columns = [column for part in parts for column in (*part.texts, part.labels, part.groups)]
    seen = fingerprint(part for column in columns for part in (() if column is None else column, "\0"))
    pairs = " and the counterfactual training pairs" if (folder.parent / "snli_cad").is_dir() else ""
    about = PAPER["about"][name].format(pairs=pairs)
    return DataSet(name=name, train=train, valid=valid, test=test, fingerprint=seen, about=about)


def _file(folder: Path, name: str) -> Path:
    path = packed(folder / name)
    if path is None:
        raise DataError(f"{folder / name}: does not exist, plain, .gz or .xz; a data set needs all of its parts")
    return path


def _with_dev(folder: Path, name: str) -> Parts:
    train, valid, test = (read_texts(_file(folder, f"{part}.tsv"))[0] for part in ("train", "dev", "test"))
    return train, valid, test


def _phrases(folder: Path, name: str) -> Parts:
    parts = (read_texts(_file(folder, f"{part}.txt"), phrases=part == "train")[0] for part in ("train", "dev", "test"))
    train, valid, test = (_polar(part) for part in parts)
    return train, valid, test


def _polar(texts: Texts) -> Texts:
    """Return labels 0 and 1 as negative (0), 3 and 4 as positive (1), without neutral texts and their duplicates."""
    frame = pl.DataFrame({"text": texts.texts[0], "label": texts.labels}).filter(pl.col("label") != "2")
    frame = frame.with_columns(label=pl.col("label").replace({"0": "0", "1": "0", "3": "1", "4": "1"}))
    frame = frame.unique(["text", "label"], keep="first", maintain_order=True) if texts.groups is not None else frame
    return Texts((frame["text"],), frame["label"])


def _without_dev(folder: Path, name: str) -> Parts:
    columns = {"label": REVIEWS[name]} if name in REVIEWS else None
    train, test = (read_texts(_file(folder, f"{part}.tsv"), columns=columns)[0] for part in ("train", "test"))
    return train, None, test


def _pairs(folder: Path, name: str) -> Parts:
    files, more = [_file(folder, "dev.tsv")], folder.parent / "snli_cad"
    if more.is_dir():
        files += [_file(more, f"{part}.train.tsv") for part in ("original", "revised_combined")]
    parts = [read_texts(file)[0] for file in files]
    columns = tuple(pl.concat([part.texts[side] for part in parts]) for side in (0, 1))
    labels = pl.concat([part.labels for part in parts if part.labels is not None])
    return Texts(columns, labels), None, read_texts(_file(folder, "test.tsv"))[0]


READERS: Mapping[str, Callable[[Path, str], Parts]] = {
    "sst1": _with_dev,
    "sst2": _with_dev,
    "sst2-phrases": _phrases,
    "trec": _without_dev,
    "imdb": _without_dev,
    "imdb-ratings": _without_dev,
    "snli": _pairs,
}


def statistics(data: DataSet[Texts]) -> Rows:
    """Return Table 1: the data at hand, and what the paper prints of a set of that name."""
    assert data.train.labels is not None
    words = [split_words(column) for column in data.train.texts]
    counts = {
        "train": len(data.train),
        "dev": 0 if data.valid is None else len(data.valid),
        "test": len(data.test),
        "classes": data.train.labels.n_unique(),
        "mean_length": round(float(np.mean([len(side.words) / len(data.train) for side in words])), 1),
        "vocabulary": pl.concat([side.words for side in words]).n_unique(),
    }
    rows: Rows = [{"data": data.name, "row": "here", **counts}]
    printed = STATISTICS.get(data.name)
    return [*rows, {"data": data.name, "row": "paper", **printed}] if printed else rows


def leaked(data: DataSet[Texts]) -> Row:
    """Return how many test texts are in the training part too, ignoring case and spaces."""
    found = leaks(data.train, data.test)
    return {
        "data": data.name,
        "test_texts": found.other_rows,
        "also_trained_on": found.shared,
        "under_another_label": found.shared_disagree,
        "group_trained_on": found.shared_groups,
        "example": found.examples[0] if found.examples else "",
    }


def labels_of(data: DataSet[Texts]) -> list[str]:
    """Return all labels in one order, the same for every model."""
    parts = [part.labels for part in (data.train, data.test) if part.labels is not None]
    return sorted({label for part in parts for label in part.unique().to_list()})


# --- trainings ---------------------------------------------------------------------------------------------------


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables and the plots.

    Args:
        data: see :func:`find_sets`; word vectors are ``vectors/sgns100.npz`` there.
        request: ``quick``: two data sets, few epochs and small networks. ``seeds``: per pooling; fewer on large sets
            (``max_seeds`` of the plan).

    Raises:
        DataError: no data set is available, or the file of cached runs is something else.
        SettingError: a model that is no pooling.
    """
    require_models(request.models, (*TRAINED, SVC))
    vectors = folder_of(data, "text") / VECTORS
    plan = QUICK if request.quick else FULL
    trainer = Trainer(plan, request.cached_runs(), vectors if vectors.is_file() else None)
    names = ("statistics", "leaks", "settings", "overall", "paired_tests", "curves", "convergence", "cost")
    tables: Tables = {name: [] for name in names}
    found, absent = find_sets(data)
    sets, left_out = planned(found, plan.sets)
    for data_set in sets:
        request.log(f"{data_set.name}: {len(data_set.train):,} training texts, {len(data_set.test):,} test texts")
        tables["statistics"] += statistics(data_set)
        tables["leaks"].append(leaked(data_set))
        train_size = plan.details.get("reviews") if data_set.name in REVIEWS else plan.train_size
        models = tuple(request.models) or plan.models.get(data_set.name, TRAINED)
        subset = data_set.subset(train_size, plan.test_size)
        extend(tables, _tables(plan, trainer, subset, models, request.seeds))
    tables["cost"] = _step_cost(plan, trainer.runs, request.models or TRAINED)
    text = introduction(trainer, sets, absent, left_out, request)
    return Study("centrality", tables, write(text, tables), draw(tables))


class Trainer:
    """Trainings of one study, with the word vectors that every network reads."""

    def __init__(self, plan: Plan, runs: CachedRuns, vectors: Path | None) -> None:
        self.plan, self.runs, self.vectors = plan, runs, vectors
        self.vectors_hash = hashlib.blake2b(vectors.read_bytes(), digest_size=8).hexdigest() if vectors else ""
        self.vectors_setting = {"vectors": str(vectors)} if vectors else {}

    def options(self, data: DataSet[Texts], model: str) -> Row:
        """Return the settings of a network but the word vectors."""
        pooling = {"pooling": GRAPHS[0]} if model == "blend" else {}  # also for pairs
        return {"residual": False, **pooling, **self.plan.settings(data.name, model)}

    def key(self, data: DataSet[Texts], model: str, options: Values, seed: int) -> Row:
        """Return the key of a cached run."""
        return {**data.key(model, options, seed), "vectors": self.vectors_hash}

    def train(self, data: DataSet[Texts], model: str, seed: int) -> CachedRun:
        """Return the measurements of one pooling and seed."""
        options = self.options(data, model)
        epochs: Rows = []

        def measure(predictor: ClassifyPredictor) -> CachedRun:
            if model == "blend":  # its network is the one that the row of centrality is about
                alone = self.key(data, "centrality", self.options(data, "centrality"), seed)
                self.runs.get(alone, lambda: self.measure(predictor, data, epochs, "centrality", NETWORK))
            return self.measure(predictor, data, epochs, model)

        return self.runs.train(
            self.key(data, model, options, seed),
            f"{data.name}: {model} seed {seed}",
            lambda: ClassifyPredictor(model, settings={**options, **self.vectors_setting}, seed=seed),
            lambda predictor: logged(predictor, data, epochs),
            measure,
        )

    def measure(
        self, predictor: ClassifyPredictor, data: DataSet[Texts], epochs: Rows, model: str, part: str | None = None
    ) -> CachedRun:
        """Return the answers of a trained predictor, and what is saved of its training."""
        settings = {**predictor.summary()["settings"], **(predictor.summary()["schedule"] or {})}
        settings["dim"] = predictor.module.get_parameter("table.weight").shape[1]
        metadata = predictor.metadata
        run = {
            **_answers(predictor, data, part),
            "epochs": metadata.epochs,
            "epoch_seconds": round(predictor.seconds_an_epoch or 0.0, 2),
            "parameters": sum(part.numel() for part in predictor.network.parameters()),
            "architecture": metadata.architecture,
            "held_out": metadata.held_out or "its own part",
            "log": epochs,
            "notes": metadata.notes,
            "settings": {name: settings[name] for name in SETTINGS["sst1"]},
        }
        if model in GRAPHS and predictor.seed == 0:
            run["convergence"] = convergence(predictor, data.test, self.plan.details["graphs"])
        return run

    def baselines(self, data: DataSet[Texts]) -> CachedRun:
        """Return the answers of the baselines, fitted on the same texts."""
        return self.runs.train(
            self.key(data, "baselines", {}, 0),
            f"{data.name}: {listed(COUNTING)}",
            lambda: ClassifyPredictor("tfidf", settings=self.vectors_setting),
            lambda predictor: predictor.fit(data.train, data.valid),
            lambda predictor: {
                "rows": {name: _answers(predictor, data, name) for name in COUNTING if name in predictor.counting}
            },
        )

    def linear_svc(self, data: DataSet[Texts]) -> CachedRun:
        """Return the answers of scikit-learn's linear SVM, fitted on the training texts with its default settings."""

        def make() -> CachedRun:
            self.runs.log(f"{data.name}: {SVC}")
            return svc_answers(data)

        return self.runs.get(self.key(data, SVC, {}, 0), make)


def svc_answers(data: DataSet[Texts]) -> CachedRun:
    """Return the labels that a linear SVM predicts, and their probabilities by cross-fitted sigmoids."""
    assert data.train.labels is not None
    start = time.perf_counter()
    vectorizer = make_union(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True),
    )
    inputs = vectorizer.fit_transform(data.train.texts[0].to_list())
    model = CalibratedClassifierCV(LinearSVC(random_state=0), ensemble=False, cv=3)
    model.fit(inputs, data.train.labels.to_list())
    test_inputs = vectorizer.transform(data.test.texts[0].to_list())
    probabilities = model.predict_proba(test_inputs)
    # The labels are those of the SVM itself: the sigmoids of several labels may order them differently.
    predicted = model.calibrated_classifiers_[0].estimator.predict(test_inputs)
    columns = np.searchsorted(model.classes_, predicted)
    chosen = np.take_along_axis(probabilities, columns[:, None], axis=1)[:, 0]
    numbers = np.searchsorted(labels_of(data), predicted)
    return {**Answers(numbers, chosen).pack(), "seconds_to_score": round(time.perf_counter() - start, 2)}


def _answers(predictor: ClassifyPredictor, data: DataSet[Texts], part: str | None) -> CachedRun:
    start = time.perf_counter()
    examples = LabelledTexts([[predictor]], data.test)
    scored = examples.score(predictor, part)
    numbers = np.array([labels_of(data).index(label) for label in examples.labels])
    answers = Answers(numbers[scored.predicted], scored.probability).pack()
    return {**answers, "seconds_to_score": round(time.perf_counter() - start, 2)}


def _tables(plan: Plan, trainer: Trainer, data: DataSet[Texts], models: Sequence[str], seeds: int) -> Tables:
    """Return all rows of one data set but its statistics."""
    # A blend brings the run of its network, so it is trained first.
    order = sorted((name for name in models if name in TRAINED), key=lambda name: name != "blend")
    trained = {name: [trainer.train(data, name, seed) for seed in plan.seeds(seeds, data.name, name)] for name in order}
    runs = {name: trained[name] for name in models if name in TRAINED}
    baselines = trainer.baselines(data)["rows"]
    if not data.train.paired:
        baselines = {**baselines, SVC: trainer.linear_svc(data)}
    runs |= {name: [baselines[name]] for name in BASELINES if name in baselines}
    answers = {name: [Answers.unpack(run) for run in found] for name, found in runs.items()}
    targets = codes(data.test, labels_of(data))
    results = resample(answers, targets, owners(data.test), plan.resamples)
    graphs = {name: runs[name][0] for name in GRAPHS if name in runs}
    pairs = [
        (name, other)
        for name in graphs
        for other in (results if plan.details["between"] else BASELINES)
        if other in results
        and other not in (name, "majority")
        and (other not in GRAPHS or GRAPHS.index(other) > GRAPHS.index(name))
    ]
    pairs += [(name, SVC) for name in ("blend", "tfidf") if name in results and SVC in results]
    about = {name: {"data": data.name, "model": name} for name in runs}
    settings = {"here": next(iter(runs.values()))[0].get("settings"), "paper": SETTINGS.get(data.name)}
    return {
        "settings": [{"data": data.name, "row": name, **row} for name, row in settings.items() if row],
        "overall": [_row(data, name, runs[name], results[name]) for name in runs],
        "paired_tests": [
            {**about[name], "other": other, **results[name].against(results[other], "accuracy")}
            for name, other in pairs
        ],
        "curves": [
            {**about[name], **epoch, "best": epoch["epoch"] == run["epochs"]}
            for name, run in graphs.items()
            for epoch in run["log"]
        ],
        "convergence": [{**about[name], **row} for name, run in graphs.items() for row in run.get("convergence", [])],
    }


def _row(data: DataSet[Texts], name: str, runs: Sequence[CachedRun], result: BootstrapResult) -> Row:
    """Return a row of Table 3 (Table 4 for SNLI): means over seeds, intervals, the accuracy of the paper."""
    row: Row = {"data": data.name, "model": name, "seeds": len(runs), "tested": len(data.test)}
    paper = PRINTED.get(data.name, {}).get(name)
    row |= {**metrics_of(result), "interval": result.interval(centred=True), "paper": paper}
    if name in TRAINED:
        row |= {**{key: runs[0][key] for key in ("parameters", "architecture", "held_out")}, **cost_of(runs)}
    return {**row, "seconds_to_score": mean_of(runs, "seconds_to_score", 2)}


def _step_cost(plan: Plan, runs: CachedRuns, models: Sequence[str]) -> Rows:
    """Return the time of a step under each pooling; self-attention is always included."""
    names = list(dict.fromkeys((REFERENCE, *(name for name in models if name in POOLINGS))))
    batch, long, repeats, options = (plan.details[key] for key in ("batch", "long", "repeats", "timed"))
    sizes = {"like SST": LENGTHS["like SST"][:batch], f"{long} each": np.full(batch, long)}
    lengths = {kind: words.astype(np.int64) for kind, words in sizes.items()}
    key = {"timed": names, "batch": batch, "long": long, "repeats": repeats, "options": dict(options)}
    timed = partial(step_times, names, options, lengths, dim=100, repeats=repeats)
    return runs.rows(key, "the time of a step under each pooling", timed)


# --- metrics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Answers:
    """One model's answer to every text.

    Attributes:
        predicted: (texts,) codes of labels.
        probability: (texts,) probabilities of the predicted labels.
    """

    predicted: Index
    probability: Floats

    def pack(self) -> dict[str, str]:
        """Return short texts for a cached run: one character per label, two bytes per probability."""
        labels = (self.predicted + ord("0")).astype(np.uint8).tobytes().decode("ascii")
        integers = np.rint(self.probability * SCALE).astype("<u2")
        return {"predicted": labels, "probability": base64.b64encode(integers.tobytes()).decode("ascii")}

    @classmethod
    def unpack(cls, run: Mapping[str, str]) -> Answers:
        """Return what :meth:`pack` wrote; probabilities to 1 / 65,535."""
        predicted = np.frombuffer(run["predicted"].encode("ascii"), np.uint8).astype(np.int64) - ord("0")
        return cls(predicted, np.frombuffer(base64.b64decode(run["probability"]), "<u2") / SCALE)


def resample(
    runs: Mapping[str, Sequence[Answers]], targets: Index, owners: Index, resamples: int
) -> dict[str, BootstrapResult]:
    """Resample texts, the same for all models, and the seeds of each model.

    Args:
        runs: answers of each model, one per seed.
        targets: (texts,) codes of the true labels.
        owners: (texts,) unit that each text is drawn with.
        resamples: number of resamples.
    """
    num_labels = 1 + max(int(targets.max()), *(int(run.predicted.max()) for seeds in runs.values() for run in seeds))
    units = int(owners.max()) + 1
    labels = [str(number) for number in range(num_labels)]
    loss = np.full(len(targets), np.nan)
    statistics = [
        [
            statistic_of(TextLabels(labels, run.predicted, targets, run.probability, loss), METRICS, owners, units)
            for run in seeds
        ]
        for seeds in runs.values()
    ]
    results = bootstrap(METRICS, statistics, units, "in turn", resamples=resamples)
    return dict(zip(runs, results, strict=True))


def owners(texts: Texts) -> Index:
    """Return (texts,) units of resampling: groups, all pairs of a first text, else single texts."""
    column = texts.groups if texts.groups is not None else texts.texts[0] if texts.paired else None
    if column is None:
        return np.arange(len(texts))
    units: Index = column.rank("dense").to_numpy().astype(np.int64) - 1
    return units


def logged(predictor: ClassifyPredictor, data: DataSet[Texts], epochs: Rows) -> Iterator[Report]:
    """Train, and add to ``epochs`` the accuracy and the loss of each epoch, and how fast its word graphs mix."""
    valid = data.valid
    if valid is None:  # the part that is held out by default
        valid = hold_out_texts(data.train.join_spellings()[0], seed=predictor.seed)[1]
    for report in predictor.fit(data.train, data.valid):
        if report.valid is not None:
            held_out = predictor.passages(predictor.encode(valid))
            row = {"epoch": report.epoch, "accuracy": report.valid, "loss": report.loss}
            epochs.append({**row, **mixing_of(predictor, held_out)})
        yield report


@torch.no_grad()
def convergence(predictor: ClassifyPredictor, texts: Texts, size: int) -> Rows:
    """Return figure 4 by length: steps of the power method from the uniform distribution, in float64.

    Args:
        predictor: with a network that pools by centrality.
        texts: its graphs of one word are left out.
        size: texts at most, spread evenly.
    """
    network = copy.deepcopy(predictor.module).cpu().double().eval()
    passages = predictor.passages(predictor.encode(evenly(texts, size)))
    graphs: dict[str, list[npt.NDArray[np.float64]]] = {"words": [], "sentences": []}
    for index in passages.groups():
        batch = passages.batch(index)
        output = network(batch)
        levels = {"words": (batch.words, output.words), "sentences": (batch.sentences, output.sentences)}
        for level, (blocks, pooled) in levels.items():
            for block, part in zip(blocks, pooled, strict=True):
                steps = steps_to_converge(part.graph, block.mask, TOLERANCE, MAX_STEPS)
                eigenvalue = second_eigenvalue(part.graph, block.mask)
                graphs[level].append(torch.stack([block.lengths.double(), steps.double(), eigenvalue]).numpy())
    return [row for level, parts in graphs.items() if parts for row in by_length(level, np.concatenate(parts, 1))]


def by_length(level: str, graphs: npt.NDArray[np.float64]) -> Rows:
    """Return one row per class of lengths of (length, steps, |lambda_2|) columns, without empty classes."""
    rows = []
    for low, high in zip(CLASSES, (*CLASSES[1:], np.inf), strict=True):
        steps, eigenvalues = graphs[1:, (graphs[0] >= low) & (graphs[0] < high)]
        if len(steps):
            median, ninth_decile, largest = np.percentile(steps, [50, 90, 100]).tolist()
            rows.append(
                {
                    "graphs_of": level,
                    "length": f"{low}-{high - 1:.0f}" if np.isfinite(high) else f"{low}+",
                    "graphs": len(steps),
                    "median": median,
                    "ninth_decile": ninth_decile,
                    "largest": largest,
                    f"within_{STEPS}": float((steps <= STEPS).mean()),
                    "second_eigenvalue": float(eigenvalues.mean()),
                }
            )
    return rows


def step_times(models: Sequence[str], options: Values, lengths: Mapping[str, Index], *, dim: int, repeats: int) -> Rows:
    """Return the time of a training step of a flat network under each pooling.

    Args:
        models: names in ``MODELS``.
        options: settings of the network to change.
        lengths: (texts,) words of the texts of a batch, by name.
        dim: size of the word vectors.
        repeats: turns, after one that is not counted.
    """
    rows = []
    for kind, sizes in lengths.items():
        tokens = Tokens(
            np.random.default_rng(0).integers(FIRST, 1000, int(sizes.sum())).astype(np.int32),
            np.concatenate([[0], np.cumsum(sizes)]),
            np.arange(len(sizes) + 1),
        )
        batch = PassageBatches((tokens,), np.arange(len(sizes)) % 2).batch(np.arange(len(sizes)))
        torch.manual_seed(0)
        networks = {
            name: CentralityClassifier(replace(MODELS[name].settings, **options), Shape(1000, dim, 2, "flat"))
            for name in models
        }
        steps = {name: (network, partial(network.loss, batch)) for name, network in networks.items()}
        times = timed_steps(steps, repeats)
        rows += [
            {"lengths": kind, "model": name, **step_cost(seconds, times.get(REFERENCE, seconds))}
            for name, seconds in times.items()
        ]
    return rows


def half_width(accuracy: float, texts: int) -> float:
    """Return half of the 95 % interval, in percent, of an accuracy measured once (normal approximation)."""
    return 1.96 * sqrt(accuracy * (100 - accuracy) / texts)


# --- page --------------------------------------------------------------------------------------------------------


def introduction(
    trainer: Trainer, sets: Iterable[DataSet[Texts]], absent: Sequence[str], left_out: Sequence[str], request: Request
) -> str:
    """Return the text above the first table."""
    page, plan = Page("# Centrality attention: tables and plots"), trainer.plan
    if request.quick:
        options = listed(f"{name} {value}" for name, value in plan.options.items())
        sizes = {"train": plan.train_size or 0, "reviews": plan.details.get("reviews", 0), "test": plan.test_size or 0}
        left = listed([*left_out, "paired tests between poolings"])
        page.text(PAPER["quick"].format(**sizes, options=options, left_out=left))
    else:
        page.text(PAPER["full"])
    vectors = "vectors of a file (the paper: GloVe)" if trainer.vectors else "trained vectors"
    times = "once" if request.seeds == 1 else f"with {request.seeds} seeds"
    page.text(PAPER["introduction"].format(vectors=vectors, times=times))
    page.data_sets({data.name: data.about for data in sets}, absent, PAPER["missing"])
    return str(page)


def write(text: str, tables: Mapping[str, Rows]) -> str:
    """Return the page as Markdown."""
    page = Page(text)
    page.section("Table 1: the data")
    page.table(tables["statistics"])
    page.section("Leaks", level=3)
    page.text(PAPER["leaks"])
    page.table([{**row, "example": row["example"].replace("|", "/")} for row in tables["leaks"]])
    page.section("Table 2: the settings")
    page.table(tables["settings"])
    for data in distinct(tables["overall"], "data"):
        rows, tests = (select(tables[name], data=data) for name in ("overall", "paired_tests"))
        page.section(_title(data))
        page.table([_overall_line(data, row, rows) for row in rows])
        page.text(_note(data, rows), *_sentences(rows, tests))
        _explain(page, rows, tests, select(tables["curves"], data=data))
    page.section("Figure 4: steps of the power method")
    if steps := tables["convergence"]:
        enough = {f"steps_{eigenvalue}": log(TOLERANCE) / log(eigenvalue / 10) for eigenvalue in (1, 9)}
        page.text(PAPER["convergence"].format(tolerance=TOLERANCE, **enough), _within(steps))
    page.table([_steps_line(row) for row in steps], "No pooling by a word graph was trained.")
    page.section("Cost")
    page.text(PAPER["step_cost"].format(cost=PAPER["cost"]))
    page.table(tables["cost"])
    page.text(PAPER["epoch_cost"].format(reference=REFERENCE))
    page.table([_cost_line(row, tables["overall"]) for row in tables["overall"] if "epochs" in row])
    page.section("Notes for a comparison with the paper")
    page.bullets(PAPER["slips"])
    return str(page)


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Return plots of accuracy, of |lambda_2| by epoch and of figure 4 per data set; then of the cost."""
    plots = []
    for data in distinct(tables["overall"], "data"):
        rows, curves, steps = (select(tables[name], data=data) for name in ("overall", "curves", "convergence"))
        series = {"here": [100 * row["accuracy"] for row in rows]}
        if data != "snli" and any(row["paper"] for row in rows):
            series["the paper"] = [row["paper"] for row in rows]
        title = f"{_title(data).partition(':')[0]}: accuracy ({data})"
        plots.append(figures.bars(title, "per cent", [row["model"] for row in rows], series))
        models = distinct(curves, "model")
        mixing = {name: [row.get("second_eigenvalue") for row in select(curves, model=name)] for name in models}
        if mixing:
            epochs = [str(epoch + 1) for epoch in range(max(map(len, mixing.values())))]
            plots.append(figures.lines(f"|lambda_2| by epoch ({data})", "|lambda_2|", epochs, mixing))
        for model in distinct(steps, "model"):
            found = select(steps, model=model)
            lengths = [f"{row['graphs_of']} {row['length']}" for row in found]
            bars = {key.replace("_", " "): [row[key] for row in found] for key in ("median", "ninth_decile", "largest")}
            plots.append(figures.bars(f"Figure 4: steps to converge ({data}, {model})", "steps", lengths, bars))
    cost = tables["cost"]
    ratios = {kind: [row["ratio"] for row in select(cost, lengths=kind)] for kind in distinct(cost, "lengths")}
    title = f"Time of a training step over {REFERENCE}'s"
    plots.append(figures.bars(title, "ratio", distinct(cost, "model"), ratios))
    return tuple(plots)


def _title(data: str) -> str:
    return f"Table {4 if data == 'snli' else 3}: {data}"


def _overall_line(data: str, row: Row, rows: Rows) -> Row:
    line = {"model": row["model"], **{title: estimate(row, metric) for metric, title in LABELS.items()}}
    if any(other["paper"] is not None for other in rows):
        paper = row["paper"]
        column = "paper (549k pairs)" if data == "snli" else "paper"
        line[column] = "" if paper is None else f"{paper:.1f} ± {half_width(paper, TEST_SIZES[data]):.1f}"
    return line


def _note(data: str, rows: Rows) -> str:
    """Return what the numbers of a table are."""
    seeds = max(row["seeds"] for row in rows)
    times = "One seed per pooling." if seeds == 1 else f"{seeds} seeds per pooling."
    if not any(row["paper"] is not None for row in rows):
        return f"{times} The paper has no number for this set, trained in this way."
    note = f"{times} The paper's numbers are one run each; their ± is computed here from the size of its test set."
    return f"{note} {PAPER['pairs'].format(accuracy=PRINTED['snli']['intra-attention'])}" if data == "snli" else note


def _sentences(rows: Rows, tests: Rows) -> list[str]:
    """Return the paired tests of each graph pooling with every other row, in one sentence each."""
    words = ("more often than", "less often than", "neither significantly more nor less often than")
    accuracy = {row["model"]: row["accuracy"] for row in rows}
    lines = []
    for name in distinct(tests, "model"):
        found = by_significance(select(tests, model=name), words, _difference)
        lines.append(f"{name} is right on {percent(accuracy[name])} % of the texts: {found}.")
    note = (
        f"Differences are paired on the same resampled texts; significant is p < {LEVEL}, which one comparison in "
        f"{1 / LEVEL:.0f} reaches by chance where there is no difference."
    )
    return [*lines, note] if lines else []


def _difference(row: Values) -> str:
    difference, low, high = (100 * row[key] for key in ("difference", "low", "high"))
    p_value = "p < 0.001" if row["p_value"] < 0.001 else f"p = {row['p_value']:.3f}"
    return f"{row['other']} ({difference:+.2f}, from {low:+.2f} to {high:+.2f}, {p_value})"


def _explain(page: Page, rows: Rows, tests: Rows, curves: Rows) -> None:
    """Add, where centrality is not better than self-attention, the curve of |lambda_2| and what it means."""
    by_name = {row["model"]: row for row in rows}
    for test in select(tests, other=REFERENCE):
        epochs = [epoch for epoch in select(curves, model=test["model"]) if "second_eigenvalue" in epoch]
        if not epochs or (is_significant(test) and test["difference"] > 0):
            continue
        accuracies = [percent(by_name[name]["accuracy"]) for name in (test["model"], REFERENCE)]
        best = next((epoch for epoch in epochs if epoch["best"]), epochs[-1])
        reason = _reason(by_name[test["model"]], by_name.get("majority"), best, worse=is_significant(test))
        page.text(f"**{test['model']} is not better than {REFERENCE} here** ({' against '.join(accuracies)}). {reason}")
        page.table([_curve_line(row) for row in epochs])


def _reason(row: Values, majority: Values | None, best: Values, *, worse: bool) -> str:
    if majority is not None and row["interval"]["accuracy"][0] <= majority["accuracy"]:
        untrained: str = PAPER["reasons"]["untrained"]
        return untrained.format(accuracy=percent(majority["accuracy"]))
    text = explain(best["second_eigenvalue"], best["dobrushin"])
    return f"{text} {PAPER['reasons']['worse']}" if worse and best["second_eigenvalue"] < SIMILAR else text


def explain(eigenvalue: float, dobrushin: float) -> str:
    """Return what mean |lambda_2| and Dobrushin bound say of centrality, where self-attention's graph has 0 and 0."""
    reason = "collapsed" if eigenvalue < COLLAPSED else "similar" if eigenvalue < SIMILAR else "different"
    sentences = (PAPER["reasons"][key] for key in ("eigenvalue", reason))
    return " ".join(sentences).format(eigenvalue=eigenvalue, dobrushin=100 * dobrushin, reference=REFERENCE)


def _curve_line(row: Row) -> Row:
    names = {"second_eigenvalue": "|lambda_2|", "dobrushin": "Dobrushin bound"}
    names |= {f"sentences_{key}": f"{name}, sentences" for key, name in names.items()}
    return {
        "epoch": f"{row['epoch']:.0f}{' (kept)' if row['best'] else ''}",
        **{name: f"{row[key]:.3f}" for key, name in names.items() if key in row},
        "validation accuracy": percent(row["accuracy"]),
    }


def _within(rows: Rows) -> str:
    """Return the fraction of graphs that converge within the steps of the paper."""
    parts = []
    for model in distinct(rows, "model"):
        found = select(rows, model=model)
        graphs = sum(row["graphs"] for row in found)
        within = sum(row["graphs"] * row[f"within_{STEPS}"] for row in found) / graphs
        parts.append(f"{percent(within, 1)} % of {graphs:,} graphs of {model}")
    return f"Converged within the {STEPS} steps of the paper's cap: {listed(parts)}."


def _steps_line(row: Row) -> Row:
    return {
        **{key: row[key] for key in ("data", "model", "graphs_of", "length", "graphs")},
        **{key: f"{row[key]:.0f}" for key in ("median", "ninth_decile", "largest")},
        f"within {STEPS}": f"{percent(row[f'within_{STEPS}'], 1)} %",
        "mean |lambda_2|": f"{row['second_eigenvalue']:.3f}",
    }


def _cost_line(row: Row, rows: Rows) -> Row:
    reference = [other["epoch_seconds"] for other in select(rows, data=row["data"], model=REFERENCE)]
    return {
        **{key: row[key] for key in ("data", "model", "epoch_seconds")},
        f"over {REFERENCE}": f"{row['epoch_seconds'] / reference[0]:.2f}" if any(reference) else "",
        "epochs": listed(row["epochs"]),
        "parameters": f"{row['parameters']:,}",
    }
