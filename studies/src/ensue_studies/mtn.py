"""MTN (Multiresolution Transformer Networks, 2019) on the query logs at hand.

Table 1 (data), table 2 (every model, at equal numbers of weights), the depths that the paper compares, metrics by
length of the session and by whether a pair was seen in training, and the cost of a training step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import polars as pl
import torch

from ensue import figures, metrics
from ensue.data.histories import Histories, Index
from ensue.data.queries import Queries, prefixes, read_queries
from ensue.data.queries.rules import PAPER_RULES, QueryRules
from ensue.errors import DataError
from ensue.evaluation.bootstrap import BootstrapResult, bootstrap
from ensue.evaluation.examples import means_of, statistic_of
from ensue.evaluation.suggest import METRICS, SHOWN, ScoredSuggestions
from ensue.tasks.suggest.baselines.counting import Suggestions
from ensue.tasks.suggest.batch import pad
from ensue.tasks.suggest.catalogue import COUNTING, MODELS
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.tasks.suggest.privacy import prints
from ensue.vocabulary import FIRST
from ensue_studies.datasets import DataSet, available, columns_of, fingerprint, folder_of, packed
from ensue_studies.page import (
    Page,
    Row,
    Rows,
    Tables,
    Values,
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
    paired_tests,
    require_models,
    step_cost,
    timed_steps,
)

PAPER = Paper("mtn")
FULL, QUICK = (Plan(**PAPER["plan"][name]) for name in ("full", "quick"))
NETWORKS = ("seq2seq", "h-lstm", "m-nsrf", "transformer", "flat-transformer", "mtn")
"""The models of the paper, and the flat Transformer."""
TRAINED = (*NETWORKS, "best")
RECURRENT = NETWORKS[:3]
EXHAUSTIVE = {"exhaustive": True}
"""Models are compared, so their beam searches lose nothing."""
TESTED = ("bleu", f"mrr@{SHOWN}")
"""Metrics of the paired tests of MTN and best."""
EXAMPLES = 6
HEADS: Mapping[str, str] = {
    "bleu": "BLEU",
    **{f"precision@{n}": f"{n}-gram" for n in range(1, 5)},
    "content@1": "content",
    "exact": "exact",
    f"mrr@{SHOWN}": f"MRR@{SHOWN}",
    f"recall@{SHOWN}": f"recall@{SHOWN}",
}
PARTS = (("number of queries before the target", "lengths", "queries before"), ("pair", "pairs", "pair"))
"""Parts of the test pairs: title, table and column."""
SHORT = ("bleu", "precision@1", "content@1", f"mrr@{SHOWN}")

FILES: Mapping[str, str] = {"msmarco": "sessions.tsv", "sqa": "sequences.tsv"}
RULES = QueryRules(normalisation="paper")
"""The paper's normalisation without its caps on queries per session and words per query."""
TURNS = 16
"""Queries before a target that models see."""
LENGTHS = ("1", "2", "3", "4 and more")
"""Classes of the number of queries before a target."""

Sessions = DataSet[Queries]


@dataclass(frozen=True, eq=False)
class Targets:
    """Every query after the first of a session.

    Attributes:
        before: the queries before each.
        true: the target queries.
        owners: (targets,) row of the session.
        length: (targets,) index in ``LENGTHS``.
        seen: (targets,) whether it follows the same query in training data.
        known: (targets,) whether it is in training data at all.
    """

    before: Histories
    true: pl.Series
    owners: Index
    length: Index
    seen: npt.NDArray[np.bool_]
    known: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, test: Histories, train: Histories) -> Targets:
        """Return the targets of some sessions."""
        before, ids = prefixes(test, TURNS)
        values = pl.Series("query", test.vocabulary.values, dtype=pl.String)
        true = values.gather(ids.astype(np.int64) - FIRST)
        owners = np.repeat(np.arange(len(test)), np.maximum(test.lengths - 1, 0))
        position = np.arange(len(ids)) - np.searchsorted(owners, owners)
        train_queries = {train.vocabulary.value(id) for id in np.unique(train.ids).tolist()}
        return cls(
            before,
            true,
            owners,
            np.minimum(position, len(LENGTHS) - 1),
            np.isin(prints(test), prints(train)),
            np.array([text in train_queries for text in true], np.bool_),
        )

    def __len__(self) -> int:
        """Return the number of targets."""
        return len(self.true)


def targets_of(data: Sessions) -> Targets:
    """Return the targets of the test sessions."""
    return Targets.of(data.test.histories, data.train.histories)


def find_sets(data: Path) -> tuple[list[Sessions], list[str]]:
    """Read the available data sets.

    Args:
        data: folder with ``msmarco/sessions.tsv`` and ``sqa/sequences.tsv`` (plain, .gz or .xz), one of them at least,
            or its parent.

    Returns:
        The data sets, and the names of those that are not available.

    Raises:
        DataError: neither is available, or a part of one is missing.
    """
    folder = folder_of(data, "queries")
    readers = {name: partial(_read_set, name, folder / name / file) for name, file in FILES.items()}
    return available(data, readers, [f"{name}/{file} (plain, .gz or .xz)" for name, file in FILES.items()])


def _read_set(name: str, file: Path) -> Sessions | None:
    """Read one data set; its details are the test part under the caps of the paper, if any session is left."""
    path = packed(file)
    if path is None:
        return None
    queries = read_queries(path, rules=RULES)[0]
    if missing := {"train", "valid", "test"} - {*queries.parts.unique()}:
        raise DataError(f"{path}: it has no part {', '.join(sorted(missing))}; the study needs train, valid and test")
    train = queries.part("train")
    valid, test = (queries.part(part, novel=bool(len(queries.novel))) for part in ("valid", "test"))
    return DataSet(
        name=name,
        train=train,
        valid=valid,
        test=test,
        fingerprint=fingerprint(columns_of(train.histories, valid.histories, test.histories)),
        about=PAPER["about"][name],
        details=_capped(path),
    )


def _capped(path: Path) -> Queries | None:
    try:
        queries = read_queries(path, rules=PAPER_RULES)[0]
        test = queries.part("test", novel=bool(len(queries.novel)))
    except DataError:  # the file itself was read before
        return None
    return test if len(test) else None


def statistics(data: Sessions) -> Rows:
    """Return Table 1, one row per part."""
    rows = []
    for name, part in data.parts.items():
        histories = part.histories
        values = pl.Series(histories.vocabulary.values, dtype=pl.String)
        queries = values.gather(histories.ids.astype(np.int64) - FIRST)
        words = queries.str.split(" ")
        rows.append(
            {
                "data": data.name,
                "part": name,
                "sessions": len(part),
                "pairs": int((histories.lengths - 1).sum()),
                "queries per session": round(float(histories.lengths.mean()), 2),
                "words per query": round(float(words.list.len().to_numpy().mean()), 2),
                "distinct queries": queries.n_unique(),
                "distinct words": words.explode(empty_as_null=False).n_unique(),
            }
        )
    return rows


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables.

    Args:
        data: see :func:`find_sets`.
        request: ``quick``: a part of the sessions, fewer models and epochs, small networks. ``seeds``: per model, but
            for ``max_seeds`` of the plan.

    Raises:
        DataError: no data set is available, or the file of cached runs is something else.
        SettingError: a model that has no row.
    """
    require_models(request.models, TRAINED)
    plan, runs = QUICK if request.quick else FULL, request.cached_runs()
    names = ("statistics", "baselines", "overall", "paired_tests", "depths", "lengths", "pairs", "cost", "examples")
    tables: Tables = {name: [] for name in names}
    sets, absent = find_sets(data)
    for full in sets:
        data_set = full.subset(plan.train_size, plan.test_size)
        targets = targets_of(data_set)
        request.log(f"{full.name}: {len(data_set.train):,} training sessions, {len(targets):,} test pairs")
        tables["statistics"] += statistics(data_set)
        tables["baselines"] += baselines(full, runs)
        models = request.models or plan.models.get(full.name, TRAINED)
        extend(tables, _tables(plan, runs, data_set, targets, models, request.seeds))
    models = request.models or plan.models.get(sets[0].name, TRAINED)
    tables["cost"] = _cost(plan, runs, targets_of(sets[0]), models)
    text = introduction(plan, sets, absent, request)
    return Study("mtn", tables, write(text, tables), draw(tables))


def _tables(
    plan: Plan, runs: CachedRuns, data: Sessions, targets: Targets, models: Sequence[str], seeds: int
) -> Tables:
    """Return all rows of one data set but its statistics."""

    def trained(name: str, depth: str = "") -> list[CachedRun]:
        requested = plan.seeds(seeds, data.name, name)
        return [_train(plan, runs, data, targets, name, seed, depth) for seed in requested]

    cells = {name: trained(name) for name in models}
    cells |= {name: [_baseline(plan, runs, data, targets, name)] for name in COUNTING}
    deep = {(name, depth): trained(name, depth) for name, depth in plan.details["depths"] if name in models}
    labels = {" ".join(key): key for key in deep}
    answers = {name: [unpack(run, targets.true) for run in found] for name, found in cells.items()}
    answers |= {name: [unpack(run, targets.true) for run in deep[key]] for name, key in labels.items()}
    results = resample(answers, targets.owners, plan.resamples)
    lengths = {label: targets.length == index for index, label in enumerate(LENGTHS)}
    pairs = {
        "seen in training": targets.seen,
        "new pair of a known query": ~targets.seen & targets.known,
        "query not in training data": ~targets.known,
    }
    return {
        "overall": [_row(data.name, name, cells[name], results[name], len(targets)) for name in cells],
        "paired_tests": paired_tests(data.name, {name: results[name] for name in cells}, ("mtn", "best"), TESTED),
        "depths": [
            {
                **_row(data.name, key[0], deep[key], results[name], len(targets)),
                "depth": key[1],
                "paper": PAPER["depths"].get(key[0], {}).get(key[1]),
            }
            for name, key in labels.items()
        ],
        "lengths": [row for name in cells for row in _parts(data.name, name, "queries before", answers[name], lengths)],
        "pairs": [row for name in cells for row in _parts(data.name, name, "pair", answers[name], pairs)],
        "examples": _examples(data.name, cells, targets),
    }


def _train(
    plan: Plan, runs: CachedRuns, data: Sessions, targets: Targets, model: str, seed: int, depth: str = ""
) -> CachedRun:
    options = {**plan.settings(data.name, model), **({"depth": depth} if depth else {})}
    return runs.train(
        data.key(model, options, seed),
        f"{data.name}: {model} {options.get('depth', '')} seed {seed}",
        lambda: SuggestPredictor(model, settings={**options, **EXHAUSTIVE}, seed=seed),
        lambda predictor: predictor.fit(data.train, data.valid),
        lambda predictor: {**_suggestions(predictor, targets), **_summary(predictor)},
    )


def _baseline(plan: Plan, runs: CachedRuns, data: Sessions, targets: Targets, name: str) -> CachedRun:
    options = {"min_users": plan.options.get("min_users", 1)}
    return runs.train(
        data.key(name, options, 0),
        f"{data.name}: {name}",
        lambda: SuggestPredictor(name, settings=options),
        lambda predictor: predictor.fit(data.train),
        lambda predictor: _suggestions(predictor, targets, name),
    )


def _suggestions(predictor: SuggestPredictor, targets: Targets, baseline: str | None = None) -> CachedRun:
    start = time.perf_counter()
    packed_run = pack(predictor.suggest(targets.before, SHOWN, baseline), targets.true)
    return {**packed_run, "seconds_to_score": round(time.perf_counter() - start, 2)}


def _summary(predictor: SuggestPredictor) -> CachedRun:
    """Return what is saved of a training next to its suggestions."""
    metadata, values = predictor.metadata, predictor.metadata.to_dict()
    names = ("found_in_pool", "mix", "word_cost", "validation_mrr", "validation_bleu", "notes")
    return {
        "epochs": metadata.epochs,
        "epoch_seconds": round(predictor.seconds_an_epoch or 0.0, 2),
        "parameters": sum(parameter.numel() for parameter in predictor.network.parameters()),
        "words": metadata.tokens,
        "validation_loss": round(metadata.validation_loss, 4),
        **{name: values[name] for name in names if name in values},
    }


def baselines(data: Sessions, runs: CachedRuns) -> Rows:
    """Return the metrics of the baselines on the full test part, without the paper's caps and with them."""
    rows = []
    for caps, test in (("none", data.test), ("the paper's", data.details)):
        if test is None:
            continue
        targets = Targets.of(test.histories, data.train.histories)
        predictor = SuggestPredictor("most-frequent-next", settings={"min_users": 1})
        runs.progress(predictor.fit(data.train))
        for name in COUNTING:
            answers = unpack(pack(predictor.suggest(targets.before, SHOWN, name), targets.true), targets.true)
            about = {"data": data.name, "caps": caps, "model": name}
            rows.append({**about, **means_of([answers], np.ones(len(targets), np.bool_), METRICS)})
    return rows


def _row(data: str, name: str, runs: Sequence[CachedRun], result: BootstrapResult, targets: int) -> Row:
    """Return a row of a table: means over seeds, intervals, and the cost of training."""
    row: Row = {"data": data, "model": name, "seeds": len(runs), "targets": targets}
    row |= {**metrics_of(result), "bleu_by_seed": [round(float(seed[0]), 5) for seed in result.by_seed]}
    if "epochs" in runs[0]:
        row |= {"parameters": runs[0]["parameters"], **cost_of(runs)}
    return {**row, "seconds_to_score": mean_of(runs, "seconds_to_score", 2)}


def _parts(
    data: str, name: str, by: str, answers: Sequence[ScoredSuggestions], masks: Mapping[str, npt.NDArray[np.bool_]]
) -> Rows:
    """Return one row per part of the targets, by name."""
    about = {"data": data, "model": name}
    return [{**about, by: part, **means_of(answers, mask, METRICS)} for part, mask in masks.items() if mask.any()]


def _examples(data: str, cells: Mapping[str, Sequence[CachedRun]], targets: Targets) -> Rows:
    """Return some sessions with the first suggestion of each model, spread evenly over the test part."""
    rows = []
    for index in np.linspace(0, len(targets) - 1, EXAMPLES).astype(int).tolist():
        suggestions = {name: runs[0]["first"][index] for name, runs in cells.items()}
        before = targets.before.record(index).values
        rows.append({"data": data, "before": list(before[-TURNS:]), "target": targets.true[index], **suggestions})
    return rows


# --- metrics -----------------------------------------------------------------------------------------------------


def pack(suggestions: Suggestions, true: pl.Series) -> Row:
    """Return the first suggestion of each list, and the rank of the target, 0 where it is not suggested."""
    ranks = metrics.text_ranks(suggestions.texts, suggestions.offsets, true)
    return {"first": suggestions.first.to_list(), "rank": np.where(ranks <= SHOWN, ranks, 0).astype(int).tolist()}


def unpack(run: Values, true: pl.Series) -> ScoredSuggestions:
    """Return the suggestions that :func:`pack` wrote."""
    rank = np.array(run["rank"], np.float64)
    first = pl.Series("query", run["first"], dtype=pl.String)
    return ScoredSuggestions.of(first, true, np.where(rank > 0, rank, metrics.MISS))


def resample(
    answers: Mapping[str, Sequence[ScoredSuggestions]], owners: Index, resamples: int
) -> dict[str, BootstrapResult]:
    """Resample sessions, the same for all models, and the seeds of each model.

    Args:
        answers: :func:`unpack` of each model, one per seed.
        owners: (targets,) the session of each.
        resamples: number of resamples.
    """
    num_sessions = int(owners.max()) + 1
    statistics = [[statistic_of(run, METRICS, owners, num_sessions) for run in runs] for runs in answers.values()]
    results = bootstrap(METRICS, statistics, num_sessions, "units first", resamples=resamples)
    return dict(zip(answers, results, strict=True))


def _cost(plan: Plan, runs: CachedRuns, targets: Targets, models: Sequence[str]) -> Rows:
    """Return the time of a training step of each network; the Transformer is always included."""
    names = [name for name in NETWORKS if name in models or name == "transformer"]
    options = {name: plan.settings("", name) for name in names}
    batch, repeats = plan.details["batch"], plan.details["repeats"]
    key = {"timed": options, "batch": batch, "repeats": repeats}
    timed = partial(step_times, options, targets, num_ids=5000, batch=batch, repeats=repeats)
    return runs.rows(key, "the time of a step of each network", timed)


def step_times(options: Mapping[str, Values], targets: Targets, *, num_ids: int, batch: int, repeats: int) -> Rows:
    """Return parameters and the time of a training step of each network.

    Args:
        options: settings to change, by name in ``MODELS``.
        targets: lengths of the random sessions.
        num_ids: number of tokens.
        batch: sessions per step.
        repeats: turns, after one that is not counted.
    """
    random = np.random.default_rng(0)
    records = [targets.before.record(row).values for row in range(0, len(targets), max(1, len(targets) // batch))]
    sessions = [
        [random.integers(FIRST, num_ids, len(query.split())).tolist() for query in (*record, record[-1])]
        for record in records[:batch]
    ]
    torch.manual_seed(0)
    networks = {name: MODELS[name].make(_sizes(name, own), num_ids) for name, own in options.items()}
    inputs = pad(sessions)
    times = timed_steps({name: (network, partial(network.loss, inputs)) for name, network in networks.items()}, repeats)
    rows = []
    for name, seconds in times.items():
        parameters = sum(parameter.numel() for parameter in networks[name].parameters())
        reference = times.get("transformer", seconds)
        rows.append({"model": name, "parameters": parameters, **step_cost(seconds, reference)})
    return rows


def _sizes(name: str, options: Values) -> Any:
    """Return the settings of a network, without those of its training."""
    settings = MODELS[name].settings
    known = {field.name for field in fields(settings)}
    return replace(settings, **{key: value for key, value in options.items() if key in known})


# --- page --------------------------------------------------------------------------------------------------------


def introduction(plan: Plan, sets: Sequence[Sessions], absent: Sequence[str], request: Request) -> str:
    """Return the text above the first table."""
    page = Page("# MTN: tables")
    if request.quick:
        page.text(PAPER["quick"].format(train=plan.train_size or 0))
    times = "once" if request.seeds == 1 else f"once, or with {request.seeds} seeds where its row says so"
    sizes = PAPER["sizes"]["quick" if request.quick else "full"]
    page.text(PAPER["introduction"], PAPER["training"].format(times=times, sizes=sizes), PAPER["best"])
    page.data_sets({data.name: f"{data.about}." for data in sets}, absent)
    return str(page)


def write(text: str, tables: Mapping[str, Rows]) -> str:
    """Return the page as Markdown."""
    page = Page(text)
    page.section("Table 1: the data")
    page.table(tables["statistics"])
    page.section("Baselines", level=3)
    about = ("data", "caps", "model", "pairs")
    page.table([_metrics(row, about, METRICS) for row in tables["baselines"]], "No full test part is available.")
    for data in distinct(tables["overall"], "data"):
        of_data = {name: select(rows, data=data) for name, rows in tables.items()}
        page.section(f"Table 2: {data}")
        page.table([_overall_line(row) for row in of_data["overall"]])
        page.bullets(sentences(of_data["overall"], of_data["paired_tests"]))
        if of_data["depths"]:
            page.section(f"Depth: {data}", level=3)
            page.table([_depth_line(row) for row in of_data["depths"]])
        for title, table, by in PARTS:
            page.section(f"By {title}: {data}", level=3)
            rows = [row for value in distinct(of_data[table], by) for row in select(of_data[table], **{by: value})]
            page.table([_metrics(row, (by, "pairs", "model"), SHORT) for row in rows])
        page.section(f"Examples: {data}", level=3)
        page.bullets(_example_line(row) for row in of_data["examples"])
    page.section("Cost of training")
    page.table([_cost_line(row) for row in tables["cost"]])
    page.text("Medians; the networks take turns on the same sessions, on the CPU.")
    page.section("Notes for a comparison with the paper")
    page.bullets([PAPER["claims"], *PAPER["slips"]])
    return str(page)


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Return figure 3 (BLEU) and BLEU by the number of queries before the target per data set; then the cost."""
    plots = []
    for data in distinct(tables["overall"], "data"):
        rows, lengths = select(tables["overall"], data=data), select(tables["lengths"], data=data)
        names = [row["model"] for row in rows]
        scores = {"here": [100 * row["bleu"] for row in rows]}
        plots.append(figures.bars(f"Figure 3: BLEU ({data})", "x 100", names, scores))
        series = {name: [100 * row["bleu"] for row in select(lengths, model=name)] for name in names}
        plots.append(
            figures.lines(
                f"BLEU by queries before the target ({data})", "x 100", distinct(lengths, "queries before"), series
            )
        )
    cost = {row["model"]: row["ratio"] for row in tables["cost"]}
    title = "Time of a training step over the Transformer's"
    plots.append(figures.bars(title, "ratio", [*cost], {"": [*cost.values()]}))
    return tuple(plots)


def _metrics(row: Values, about: Sequence[str], names: Sequence[str]) -> Row:
    """Return what a row is about, and its metrics."""
    values = {**row, "pairs": f"{row['targets']:,}"}
    return {**{name: values[name] for name in about}, **{HEADS[name]: percent(row[name]) for name in names}}


def _overall_line(row: Row) -> Row:
    bleu = PAPER["bleu"].get(row["model"])
    return {
        "model": row["model"],
        "weights": f"{row['parameters']:,}" if "parameters" in row else "",
        "seeds": row["seeds"],
        "epochs": listed(row.get("epochs", [])),
        **{HEADS[name]: estimate(row, name) for name in METRICS},
        "the paper's BLEU (AOL)": "" if bleu is None else f"{bleu:.2f}",
    }


def _depth_line(row: Row) -> Row:
    return {
        "model": row["model"],
        "layers": row["depth"],
        "weights": f"{row['parameters']:,}",
        "BLEU": estimate(row, "bleu"),
        "the paper (AOL)": "" if row["paper"] is None else f"{row['paper']:.2f}",
    }


def _example_line(row: Row) -> str:
    suggestions = listed(f"{name}: *{row[name]}*" for name in row if name not in ("data", "before", "target"))
    return f"{' > '.join(row['before'])} > **{row['target']}**. {suggestions}"


def _cost_line(row: Row) -> Row:
    hours = PAPER["hours"]
    return {
        "model": row["model"],
        "weights (5,000 tokens)": f"{row['parameters']:,}",
        "milliseconds per step": row["milliseconds"],
        "over the Transformer": row["ratio"],
        "the paper, per epoch": f"{hours[row['model']] / hours['transformer']:.1f}" if row["model"] in hours else "",
    }


def sentences(rows: Rows, tests: Rows) -> list[str]:
    """Return the model with the highest BLEU, how far MTN and best are ahead of each, and which goals are reached."""
    by_name = {row["model"]: row for row in rows}
    lines = [f"Highest BLEU: {_winner(rows, by_name)}."]
    for name in ("mtn", "best"):
        if own := select(tests, model=name, metric="bleu"):
            lines.append(f"{name} against the others by BLEU: {'; '.join(map(_difference, own))}.")
    recurrent = [by_name[name] for name in RECURRENT if name in by_name]
    if "mtn" in by_name and recurrent:
        top = max(recurrent, key=lambda row: float(row["bleu"]))
        more = by_name["mtn"]["bleu"] / top["bleu"] - 1 if top["bleu"] else 0.0
        lines.append(f"MTN over the best recurrent row ({top['model']}): {100 * more:+.1f} % BLEU; the paper +25 %.")
    for goal in PAPER["goals"]:
        name, other, metric, ratio = (goal[key] for key in ("model", "other", "metric", "ratio"))
        if {name, other} <= by_name.keys():
            score, baseline = by_name[name][metric], by_name[other][metric]
            word = "reached" if score >= ratio * baseline else "**not reached**"
            lines.append(
                f"{name} by {HEADS[metric]} at least {ratio:g} x {other}: {word}, {percent(score)} against "
                f"{percent(baseline)} x {ratio:g} = {percent(ratio * baseline)}."
            )
    return lines


def _winner(rows: Rows, by_name: Values) -> str:
    top = max(rows, key=lambda row: float(row["bleu"]))
    text = f"{top['model']}, {percent(top['bleu'])}"
    pair = [by_name[name] for name in ("mtn", "flat-transformer") if name in by_name]
    if len(pair) == 2:
        first, second = sorted(pair, key=lambda row: -float(row["bleu"]))
        text += (
            f"; of MTN and the flat Transformer over the whole session {first['model']} ({percent(first['bleu'])} "
            f"against {percent(second['bleu'])})"
        )
    return text


def _difference(row: Values) -> str:
    low, high, difference = (100 * row[name] for name in ("low", "high", "difference"))
    significant = "" if is_significant(row) else ", not significant"
    return f"{row['other']} {difference:+.2f} ({low:+.2f} to {high:+.2f}{significant})"
