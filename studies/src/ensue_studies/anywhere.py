"""``best`` compared with the best baseline on subsets of every data set at hand, in the sizes that people have.

For each subset, ``best`` is trained with its defaults, with several seeds, and all baselines of its task with it; other
models are trained on the smaller subsets. ``best`` is tested against the baseline that scores best on the test data, on
the same resamples: this baseline has the advantage of being chosen by the metric of the test, and ``best`` has not.

The last table shows what rules that are not trained gain by each leak that published numbers rest on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go

from ensue import figures
from ensue.data.histories import Histories, Index, dated, hold_out
from ensue.data.posts.corpus import Corpus
from ensue.data.queries import Queries
from ensue.data.sequences import read
from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.evaluation.comparison import compare
from ensue.evaluation.result import Result
from ensue.lines import plural
from ensue.metrics import label
from ensue.predictor import AnyPredictor, make
from ensue.registry import models, settings_of
from ensue_studies import ast, centrality, hidan, mtn, sansr
from ensue_studies.datasets import columns_of, evenly, fingerprint, folder_of
from ensue_studies.page import Page, Row, Rows, Tables, Values, distinct, estimate, percent, select
from ensue_studies.papers import Paper
from ensue_studies.results import Study
from ensue_studies.runner import CachedRun, CachedRuns, Request, require_models
from ensue_studies.untrained import untrained_with_leaks

PAPER = Paper("anywhere")
METRICS: Mapping[str, Sequence[str]] = PAPER["metrics"]
"""Metrics that are shown, by task; the first one decides."""
LOGS = {"globo": "clicks.csv", "ml-100k": "ml-100k.inter"}
"""Logs with times, by their file: the last tenth of their histories, by the time of their first event, is test data."""
TEXTS = ("sst1", "sst2", "trec", "imdb", "snli")
"""Sets of texts; the others are the same texts under other labels."""
OUTCOMES = {
    "better": "significantly better",
    "equal": "no significant difference",
    "worse": "significantly worse",
}
Data = Histories | Texts | Queries | Corpus


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is trained and scored.

    Attributes:
        sizes: training records of the subsets by kind of data; 0 is all of them.
        max_sessions: training sessions at most.
        test_size: test records at most.
        compared: models that are trained next to ``best``, by task.
        max_compared: training records of the largest subset on which they are trained.
        max_repeated: training records of the largest subset with several seeds, by task.
    """

    sizes: Mapping[str, Sequence[int]]
    max_sessions: int = 200_000
    test_size: int = 5_000
    compared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    max_compared: int = 0
    max_repeated: Mapping[str, int] = field(default_factory=dict)


FULL, QUICK = (Plan(**PAPER["plan"][name]) for name in ("full", "quick"))


# --- data --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Subset:
    """A part of a data set as somebody may have it.

    Nothing is given as validation data: models choose from their training data, as for somebody with one file. The test
    data is the same for all subsets of a data set.

    Attributes:
        task: name of the task.
        data: name of the data set.
        part: description of the training data, for people.
        train: training data.
        test: test data.
        fingerprint: hash of the full data set.
        settings: settings of every model that has them.
    """

    task: str
    data: str
    part: str
    train: Data
    test: Data
    fingerprint: str
    settings: Values = field(default_factory=dict)


def find_subsets(data: Path, plan: Plan) -> tuple[list[Subset], list[str]]:
    """Return all subsets of all data sets at hand, the smallest of each set first.

    Args:
        data: folder with ``sessions``, ``cascades``, ``text``, ``queries`` and ``links``, any of them.
        plan: sizes of the subsets.

    Returns:
        The subsets, and the kinds of data that are not available.

    Raises:
        DataError: none is available, or a part of one is missing.
    """
    kinds: dict[str, Callable[[Path, Plan], Iterator[Subset]]] = {
        "sessions": _sessions,
        "cascades": _cascades,
        "text": _texts,
        "queries": _queries,
        "links": _links,
    }
    absent = [kind for kind in kinds if not (data / kind).is_dir()]
    subsets = [subset for kind, find in kinds.items() if kind not in absent for subset in find(data, plan)]
    if not subsets:
        raise DataError(f"{data}: none of the folders {', '.join(kinds)} exists; name the folder that holds them")
    return subsets, absent


def _sessions(data: Path, plan: Plan) -> Iterator[Subset]:
    folder = data / "sessions"
    if any((folder / name).is_dir() for name in sansr.SETS):
        for found in sansr.find_sets(data):
            yield from _newest("sessions", found.name, found.train, found.test, found.fingerprint, plan)
    for name, file in LOGS.items():
        paths = [path for path in sorted((folder / name).glob(f"{file}*")) if path.is_file()]
        for path in paths[:1]:
            train, test, _ = hold_out(read(path)[0])
            seen = fingerprint(columns_of(train, test, times=True))
            yield from _newest("histories", name, train, test, seen, plan)


def _cascades(data: Path, plan: Plan) -> Iterator[Subset]:
    for found in hidan.find_sets(data)[0]:
        yield from _newest("cascades", found.name, found.train, found.test, found.fingerprint, plan)


def _newest(what: str, name: str, train: Histories, test: Histories, seen: str, plan: Plan) -> Iterator[Subset]:
    """Yield the newest sessions or cascades of a set, by the time of their first event where there are times."""
    order = _by_start(train)
    # The test data is what comes next, not what comes weeks later.
    next_test = test.select(np.sort(_by_start(test)[: plan.test_size]))
    for size in _sizes(plan, "sessions", min(len(train), plan.max_sessions)):
        part = f"{'all' if size == len(train) else 'newest'} {size:,} {what}"
        newest = train.select(np.sort(order[-size:]))
        yield Subset(task="next", data=name, part=part, train=newest, test=next_test, fingerprint=seen)


def _by_start(histories: Histories) -> Index:
    """Return rows of histories, the oldest first; in the order of the file where times do not count from 1970."""
    if not dated(histories):
        return np.arange(len(histories))
    return np.argsort(histories.times[histories.offsets[:-1]], kind="stable")


def _texts(data: Path, plan: Plan) -> Iterator[Subset]:
    vectors = folder_of(data, "text") / centrality.VECTORS
    settings = {"no vectors": {}, **({"word vectors": {"vectors": str(vectors)}} if vectors.is_file() else {})}
    for found in centrality.find_sets(data)[0]:
        for size in _sizes(plan, "labels", len(found.train)) if found.name in TEXTS else ():
            train, test = evenly(found.train, size), evenly(found.test, plan.test_size)
            subset = Subset(
                task="classify", data=found.name, part="", train=train, test=test, fingerprint=found.fingerprint
            )
            for name, values in settings.items():
                yield replace(subset, part=f"{size:,} labels, {name}", settings=values)


def _queries(data: Path, plan: Plan) -> Iterator[Subset]:
    for found in mtn.find_sets(data)[0]:
        train = replace(found.train, parts=found.train.parts.clear())
        test = evenly(found.test, plan.test_size)
        for size in _sizes(plan, "queries", len(train)):
            yield Subset(
                task="suggest",
                data=found.name,
                part=plural(size, "session"),
                train=evenly(train, size),
                test=test,
                fingerprint=found.fingerprint,
            )


def _links(data: Path, plan: Plan) -> Iterator[Subset]:
    for found in ast.find_sets(data)[0]:
        part, test = found.train.part("train"), found.train.part("test")
        train = replace(part, posts=replace(part.posts, parts=None)).linked()
        subset = Subset(task="link", data=found.name, part="", train=train, test=test, fingerprint=found.fingerprint)
        for size in _sizes(plan, "posts", len(train)):
            yield replace(subset, part=plural(size, "labelled post"), train=evenly(train, size))
        first_article = train.related.argmax(1)
        for half, word in enumerate(("first", "second")):
            rows = (first_article % 2 == half).nonzero()[0]
            yield replace(subset, part=f"posts of the {word} half of the articles", train=train.select(rows))


def _sizes(plan: Plan, kind: str, total: int) -> list[int]:
    """Return the sizes below the total, and the total where 0 asks for it."""
    return [size or total for size in plan.sizes[kind] if size < total] or [total]


# --- trainings ---------------------------------------------------------------------------------------------------


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables.

    Args:
        data: see :func:`find_subsets`.
        request: ``models``: which models are trained next to ``best``; ``best`` for none of them. ``quick``: the
            smallest subset of each data set, without other models. ``seeds``: of each model.

    Raises:
        DataError: no data set is available, or the file of cached runs is something else.
        SettingError: a model that has no row.
    """
    require_models(request.models, ["best", *dict.fromkeys(name for names in FULL.compared.values() for name in names)])
    plan, runs = QUICK if request.quick else FULL, request.cached_runs()
    subsets, absent = find_subsets(data, plan)
    tables: Tables = {"paired_tests": [], "rows": [], "leaks": []}
    for subset in subsets:
        names = plan.compared.get(subset.task, ()) if len(subset.train) <= plan.max_compared else ()
        others = [name for name in names if not request.models or name in request.models]
        seeds = request.seeds if len(subset.train) <= plan.max_repeated.get(subset.task, 0) else 1
        found = _measure(runs, subset, others, seeds)
        tables["paired_tests"].append(found["paired_test"])
        tables["rows"] += found["rows"]
    largest = {subset.data: subset for subset in subsets if isinstance(subset.train, Histories)}  # the last one
    for subset in largest.values():
        tables["leaks"] += _leaks(runs, subset)
    return Study("anywhere", tables, write(introduction(tables, absent, quick=request.quick), tables), draw(tables))


def _measure(runs: CachedRuns, subset: Subset, others: Sequence[str], seeds: int) -> CachedRun:
    """Return the rows and the paired test of one subset."""
    settings = {name: Path(value).name if name == "vectors" else value for name, value in subset.settings.items()}
    about = {"task": subset.task, "data": subset.data, "part": subset.part, "fingerprint": subset.fingerprint}
    key = {**about, "settings": settings, "compared": list(others), "seeds": seeds, "test_size": len(subset.test)}

    def make_run() -> CachedRun:
        runs.log(f"{subset.data}, {subset.part}: {', '.join(['best', *others])}")
        return _Comparison(runs, subset, seeds).run(others)

    return runs.get(key, make_run)


def _leaks(runs: CachedRuns, subset: Subset) -> Rows:
    """Return what an untrained rule gains by each leak of a data set."""
    train, test = subset.train, subset.test
    assert isinstance(train, Histories) and isinstance(test, Histories)
    key = {"leaks": subset.data, "part": subset.part, "fingerprint": subset.fingerprint, "test_size": len(test)}
    return runs.rows(
        key,
        f"{subset.data}: leaks",
        lambda: [{"data": subset.data, **row.to_dict()} for row in untrained_with_leaks(train, test)],
    )


class _Comparison:
    """The models of one subset."""

    def __init__(self, runs: CachedRuns, subset: Subset, seeds: int) -> None:
        self.runs, self.subset, self.seeds = runs, subset, seeds
        self.metrics = METRICS[subset.task]
        self.about: Row = {"task": subset.task, "data": subset.data, "part": subset.part}
        self.baselines = {model.name for model in models(subset.task) if model.counting}

    def run(self, others: Sequence[str]) -> CachedRun:
        """Train, compare, and return the rows and the paired test."""
        names = ("best", *others)
        fitted = {name: [self.fit(name, seed) for seed in range(self.seeds)] for name in names}
        # If seeds chose different models, the row is named after a network, so that every baseline keeps its row.
        entries = [
            sorted((predictor for predictor, _ in fitted[name]), key=lambda one: one.model_name in self.baselines)
            for name in names
        ]
        result = compare(entries, self.subset.test)
        seconds = {
            entry[0].model_name: [seconds for _, seconds in fitted[name]]
            for name, entry in zip(names, entries, strict=True)
        }
        return {"rows": self.rows(result, seconds), "paired_test": self.paired_test(result, fitted["best"])}

    def fit(self, name: str, seed: int) -> tuple[AnyPredictor, float]:
        """Return a fitted predictor and the CPU seconds of its training."""
        known = {setting.name for setting in settings_of(self.subset.task, name)}
        settings = {name: value for name, value in self.subset.settings.items() if name in known}
        predictor = make(self.subset.task, name, settings=settings, seed=seed)
        start = time.process_time()
        self.runs.progress(predictor.fit(self.subset.train))
        return predictor, time.process_time() - start

    def rows(self, result: Result, seconds: Mapping[str, Sequence[float]]) -> Rows:
        """Return one row per model: its metrics, their intervals, and the seconds of its trainings."""
        rows = []
        for number, (row, drawn) in enumerate(zip(result.rows, result.bootstrap, strict=True)):
            values, interval = drawn.by_name(), drawn.interval()
            kind = "best" if number == 0 else "baseline" if row.model in self.baselines else "network"
            rows.append(
                {
                    **self.about,
                    "model": row.model,
                    "kind": kind,
                    **{name: values[name] for name in self.metrics},
                    "interval": {name: interval[name] for name in self.metrics},
                    "seconds": [round(value, 1) for value in seconds.get(row.model, ())] if kind != "baseline" else [],
                }
            )
        return rows

    def paired_test(self, result: Result, best: Sequence[tuple[AnyPredictor, float]]) -> Row:
        """Return ``best`` against the baseline that scores best."""
        metric, *more = self.metrics
        drawn = {row.model: values for row, values in zip(result.rows, result.bootstrap, strict=True)}
        rows = [row.model for row in (*result.rows[1:], result.rows[0])]  # the first of equal baselines is taken
        baseline = max(
            (name for name in rows if name in self.baselines), key=lambda name: drawn[name].by_name()[metric]
        )
        first = result.bootstrap[0]
        against = {
            name: {key: round(value, 5) for key, value in first.against(drawn[baseline], name).items()}
            for name in self.metrics
        }
        difference = {key: against[metric][key] for key in ("difference", "low", "high")}
        return {
            **self.about,
            "train_size": len(self.subset.train),
            "seeds": self.seeds,
            "chosen": ", ".join(sorted({predictor.model_name for predictor, _ in best})),
            "metric": metric,
            "best": first.by_name()[metric],
            "baseline": baseline,
            "baseline_score": drawn[baseline].by_name()[metric],
            **difference,
            "outcome": outcome(difference["low"], difference["high"]),
            "seconds": round(sum(seconds for _, seconds in best) / len(best), 2),
            "baseline_seconds": round(self.fit(baseline, 0)[1], 2),
            **{name: [against[name][key] for key in ("difference", "low", "high")] for name in more},
        }


def outcome(low: float, high: float) -> str:
    """Return whether the 95 % interval of a difference is above 0, below it, or holds it."""
    return "better" if low > 0 else "worse" if high < 0 else "equal"


# --- page --------------------------------------------------------------------------------------------------------


def introduction(tables: Mapping[str, Rows], absent: Sequence[str], *, quick: bool) -> str:
    """Return the text above the first table."""
    page = Page("# `best` compared with its best baseline")
    tests = tables["paired_tests"]
    most = max(row["seeds"] for row in tests)
    single = [f"{row['data']}, {row['part']}" for row in tests if row["seeds"] < most]
    seeds = f"{most} seeds" + (f", one for {'; '.join(single)}" if single else "")
    page.text(PAPER["quick"] if quick else "", PAPER["introduction"].format(seeds=seeds))
    page.text(f"Not available: {', '.join(absent)}." if absent else "")
    return str(page)


def write(text: str, tables: Mapping[str, Rows]) -> str:
    """Return the page as Markdown."""
    tests = tables["paired_tests"]
    tasks = distinct(tests, "task")
    page = Page(text)
    page.section("Summary")
    page.table([_summary_line(task, select(tests, task=task)) for task in tasks])
    for number, task in enumerate(tasks, 1):
        rows = select(tests, task=task)
        page.section(f"Table {number}: {task}, `best` and its best baseline, {label(rows[0]['metric'])} in %")
        page.table([_test_line(row) for row in rows])
    for task in distinct(tables["rows"], "task"):
        rows = select(tables["rows"], task=task)
        metrics = [name for name in rows[0] if name in rows[0]["interval"]]
        parts = dict.fromkeys((row["data"], row["part"]) for row in rows)
        page.section(f"{task}: all models")
        page.table([_models_line(select(rows, data=data, part=part), metrics) for data, part in parts])
    if tables["leaks"]:
        page.section("Effect of leaks")
        page.text(PAPER["leaks"])
        page.table([_leak_line(row) for row in tables["leaks"]])
    return str(page)


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Return one plot per task: the difference between ``best`` and its best baseline."""
    plots = []
    for task in distinct(tables["paired_tests"], "task"):
        rows = select(tables["paired_tests"], task=task)
        names = [f"{row['data']}, {row['part']}" for row in rows]
        ends = {name: [100 * row[name] for row in rows] for name in ("low", "difference", "high")}
        title = f"{task}: difference to the best baseline"
        plots.append(figures.lines(title, f"{label(rows[0]['metric'])} in %", names, ends))
    return tuple(plots)


def _summary_line(task: str, rows: Rows) -> Row:
    """Return the number of outcomes, and the highest cost where there is no significant difference."""
    counts = {title: len(select(rows, outcome=name)) for name, title in OUTCOMES.items()}
    equal = select(rows, outcome="equal")
    cost = [row["seconds"] / max(row["baseline_seconds"], 0.01) for row in equal]
    title = "at most x the baseline's time without significant difference"
    return {"task": task, "subsets": len(rows), **counts, title: f"{max(cost):.0f}" if cost else ""}


def _test_line(row: Row) -> Row:
    difference, low, high = (f"{100 * row[key]:+.2f}" for key in ("difference", "low", "high"))
    text = OUTCOMES[row["outcome"]]
    return {
        "data": row["data"],
        "training data": row["part"],
        "chosen": row["chosen"],
        "best": percent(row["best"]),
        "best baseline": f"{row['baseline']} {percent(row['baseline_score'])}",
        "difference": f"{difference} ({low} to {high})",
        "outcome": text if row["outcome"] == "equal" else f"**{text}**",
        "seconds": f"{row['seconds']:.2f}",
        "of the baseline": f"{row['baseline_seconds']:.2f}",
    }


def _models_line(rows: Rows, metrics: Sequence[str]) -> Row:
    """Return one line of a subset: every model with its metrics, the highest first."""
    cells = []
    for row in sorted(rows, key=lambda row: -row[metrics[0]]):
        name = f"**{row['model']}**" if row["kind"] == "best" else row["model"]
        more = "".join(f", {percent(row[metric])}" for metric in metrics[1:])
        cells.append(f"{name} {estimate(row, metrics[0])}{more}")
    title = f"{', '.join(map(label, metrics))} in %"
    return {"data": rows[0]["data"], "training data": rows[0]["part"], title: "; ".join(cells)}


def _leak_line(row: Row) -> Row:
    metrics = {
        f"{label(name)}, {title}": percent(row[side][name], 1)
        for name in row["with_leak"]
        for title, side in (("with", "with_leak"), ("without", "without"))
    }
    affected = f"{percent(row['share'], 1)} %"
    return {"data": row["data"], "leak": row["leak"], "affected": affected, "rule": row["rule"], **metrics}
