"""SANSR (Sun et al., IEEE Access 2019) on the data sets at hand, every row under both protocols.

Tables 1 (results), 2 (data) and 3 (heads x blocks), figures 2 (residuals), 3 (CPU seconds per epoch) and 4 (width).

Some printed cells cannot be right, which the printed numbers alone show. With one true item per target, a rank r gives
MRR 1 / r and NDCG 1 / log2(r + 1). So every metric grows with its cutoff, MRR <= NDCG <= HR, and the hits at ranks 11
to 20 bound what MRR and NDCG may gain between the two cutoffs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import log2
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from ensue import figures
from ensue.data.histories import Histories
from ensue.data.sequences import read
from ensue.errors import DataError
from ensue.evaluation.comparison import evaluate_alone
from ensue.metrics import label
from ensue.tasks.next.catalogue import COUNTING, MODELS
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.datasets import DataSet, available, columns_of, fingerprint, folder_of, planned
from ensue_studies.page import Page, Row, Rows, Tables, Values, distinct, listed, select
from ensue_studies.papers import Paper
from ensue_studies.results import Study
from ensue_studies.runner import CachedRun, CachedRuns, Plan, Request, require_models

PAPER = Paper("sansr")
FULL, QUICK = (Plan(**PAPER["plan"][name]) for name in ("full", "quick"))
DIGINETICA, YOOCHOOSE = SETS = ("diginetica", "yoochoose-1-64")
TRAINED = ("bpr-mf", "fpmc", "gru4rec", "narm", "stamp", "sansr", "sansr-rc", "blend")
"""The models of the paper, and ours."""
PROTOCOLS = ("full", "sampled")
CUTOFFS = (10, 20)
METRICS = ("hit@10", "hit@20", "mrr@10", "mrr@20", "ndcg@10", "ndcg@20")
PRINTED = PAPER.tables("overall")
"""Table 1 of the paper."""
SAMPLED = 100
"""Items that the paper samples per target."""
ROUNDING = 1.5e-4
"""Largest error of a difference of two numbers with four decimals, plus a third of another."""

Sessions = DataSet[Histories]


def find_sets(data: Path) -> list[Sessions]:
    """Read the available data sets.

    Args:
        data: folder with ``diginetica`` and ``yoochoose-1-64``, one of them at least, or its parent.

    Raises:
        DataError: neither is available, or a part of one is missing.
    """
    return available(data, {name: partial(_read_set, data, name) for name in SETS}, SETS)[0]


def _read_set(data: Path, name: str) -> Sessions | None:
    folder = folder_of(data, name) if (data / name).is_dir() else data / "sessions" / name
    if not folder.is_dir():
        return None
    files = [folder / f"{part}.txt.gz" for part in ("train", "test")]
    if missing := [path for path in files if not path.is_file()]:
        raise DataError(f"{missing[0]}: does not exist; each data set needs train.txt.gz and test.txt.gz")
    train, test = (read(path)[0] for path in files)
    return DataSet(name=name, train=train, test=test, fingerprint=fingerprint(columns_of(train, test)))


def statistics(data: Sessions) -> Rows:
    """Return Table 2: the data at hand, and what the paper prints."""
    clicks = len(data.train.ids) + len(data.test.ids)
    sessions = len(data.train) + len(data.test)
    counts = {
        "clicks": clicks,
        "training": len(data.train),
        "test": len(data.test),
        "items": len({value for part in data.parts.values() for value in part.vocabulary.values}),
        "mean length": round(clicks / sessions, 2),
    }
    return [
        {"data": data.name, "row": "here", **counts},
        {"data": data.name, "row": "paper", **PAPER["statistics"][data.name]},
    ]


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables and plots.

    Args:
        data: see :func:`find_sets`.
        request: Table 3 and figure 4 come with ``sansr``. ``quick``: a part of one data set, few epochs, no Table 3 and
            no figure 4. ``seeds``: of each model of Table 1.

    Raises:
        DataError: no data set is available, or the file of cached runs is something else.
        SettingError: a model that does not exist or is not trained.
    """
    require_models(request.models, [name for name, (_, _, schedule) in MODELS.items() if schedule is not None])
    plan, runs = QUICK if request.quick else FULL, request.cached_runs()
    tables: Tables = {"overall": [], "statistics": [], "grid": [], "sizes": [], "impossible": impossible()}
    sets, left_out = planned(find_sets(data), plan.sets)
    for sessions in sets:
        request.log(f"{sessions.name}: {len(sessions.train):,} training sessions, {len(sessions.test):,} test sessions")
        models = request.models or plan.models.get(sessions.name, TRAINED)
        left_out += [name for name in TRAINED if name not in models and not request.models]
        tables["statistics"] += statistics(sessions)
        tables["overall"] += _overall(plan, runs, sessions, models, request.seeds)
        if not request.models or "sansr" in request.models:
            tables["grid"] += _grid(plan, runs, sessions)
            tables["sizes"] += _sizes(plan, runs, sessions)
    return Study("sansr", tables, write(introduction(plan, left_out, request), tables), draw(tables))


def _overall(plan: Plan, runs: CachedRuns, data: Sessions, models: Sequence[str], seeds: int) -> Rows:
    """Return the rows of Table 1 and figures 2 and 3: the baselines, then the trained models."""
    part = plan.details["part"]
    entries: list[tuple[str, Values, int]] = [(name, {}, 0) for name in COUNTING]
    for name in models:
        entries += [(name, plan.settings(data.name, name), seed) for seed in plan.seeds(seeds, data.name, name)]
    return [row for name, options, seed in entries for row in _rows(plan, runs, data, name, options, seed, part)]


def _grid(plan: Plan, runs: CachedRuns, data: Sessions) -> Rows:
    """Return Table 3. Without a block there are no heads: k = 0 is trained once."""
    small = plan.details["small"]
    cells = dict.fromkeys((heads if blocks else 1, blocks) for blocks in small["blocks"] for heads in small["heads"])
    rows = []
    for heads, blocks in cells:
        options = {"dim": small["dim"], "heads": heads, "num_layers": blocks, **small["options"]}
        more = {"heads": heads, "blocks": blocks}
        rows += [{**row, **more} for row in _rows(plan, runs, data, "sansr", options, 0, small["part"])]
    return rows


def _sizes(plan: Plan, runs: CachedRuns, data: Sessions) -> Rows:
    """Return figure 4."""
    small = plan.details["small"]
    rows = []
    for size in small["sizes"]:
        options = {"dim": size, **small["options"]}
        rows += [{**row, "size": size} for row in _rows(plan, runs, data, "sansr", options, 0, small["part"])]
    return rows


def _rows(plan: Plan, runs: CachedRuns, data: Sessions, model: str, options: Values, seed: int, part: int) -> Rows:
    """Return one row per protocol of a model that is trained on the newest 1 / ``part`` of the training sessions."""
    about = {"data": data.name, "fingerprint": data.fingerprint, "newest": part, "tested": plan.test_size}
    key = {**about, "model": model, "options": dict(options), "seed": seed}
    words = " ".join(f"{name}={value}" for name, value in options.items())
    run = runs.train(
        key,
        f"{data.name}: {model} {words} seed {seed}, newest 1/{part}",
        lambda: NextPredictor(model, settings=options, seed=seed),
        lambda predictor: predictor.fit(data.train.select(slice(len(data.train) - len(data.train) // part, None))),
        lambda predictor: _measure(predictor, data.test, plan.test_size),
    )
    shared = {name: value for name, value in run.items() if name != "protocols"}
    return [{**key, "protocol": name, **row, **shared} for name, row in run["protocols"].items()]


def _measure(predictor: NextPredictor, test: Histories, test_size: int | None) -> CachedRun:
    """Return the metrics of both protocols on the newest test sessions."""
    start = time.perf_counter()
    test = test if test_size is None else test.select(slice(max(0, len(test) - test_size), None))
    run: CachedRun = {"protocols": {}}
    for protocol in PROTOCOLS:
        row, card = evaluate_alone(predictor, test, protocol=protocol, cutoffs=CUTOFFS)
        about = {name: card[name] for name in ("targets", "candidates", "leaked")}
        run["protocols"][protocol] = {**row.to_dict(), "warning": row.warning, **about}
    if predictor.schedule is not None:
        run["epochs"] = predictor.metadata.epochs
        run["epoch_seconds"] = round(predictor.seconds_an_epoch or 0.0, 2)
        run["parameters"] = sum(part.numel() for part in predictor.module.parameters())
    run["seconds_to_score"] = round(time.perf_counter() - start, 1)
    return run


# --- what the paper prints ---------------------------------------------------------------------------------------


def faults(row: Mapping[str, float]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield groups of cells of one printed row that contradict each other, each with the reason."""
    for name in ("hit", "mrr", "ndcg"):
        low, high = row[f"{name}@10"], row[f"{name}@20"]
        if low > high:
            yield (f"{name}@10", f"{name}@20"), f"{low:.4f} at 10 exceeds {high:.4f} at 20: a longer list loses nothing"
    for k in CUTOFFS:
        for less, more in (("mrr", "ndcg"), ("ndcg", "hit")):
            low, high = row[f"{less}@{k}"], row[f"{more}@{k}"]
            if low > high:
                yield (f"{less}@{k}", f"{more}@{k}"), f"{low:.4f} exceeds {high:.4f}, which no rank allows"
    hits = row["hit@20"] - row["hit@10"]
    for name, gains in (("mrr", (1 / 20, 1 / 11)), ("ndcg", (1 / log2(21), 1 / log2(12)))):
        gain, (low, high) = row[f"{name}@20"] - row[f"{name}@10"], (hits * value for value in gains)
        if gain >= 0 and not low - ROUNDING <= gain <= high + ROUNDING:
            worth = f"are worth {low:.4f} to {high:.4f}, the cells differ by {gain:.4f}"
            why = f"{hits:.4f} more hits at ranks 11 to 20 {worth}"
            yield ("hit@10", "hit@20", f"{name}@10", f"{name}@20"), why


def impossible() -> Rows:
    """Return every group of printed cells that cannot be right: table, data, model, cells and the reason."""
    rows: Rows = []
    for data, printed in PRINTED.items():
        for model, row in printed.items():
            for cells, why in faults(row):
                rows.append({"table": "1", "data": data, "model": model, "cells": list(cells), "why": why})
        chance = 20 / (1 + SAMPLED)
        if below := [model for model, row in printed.items() if row["hit@20"] <= chance]:
            why = (
                f"a random order among 1 + {SAMPLED} items has HR@20 {chance:.4f}, above these: the rows were ranked "
                "among all items and cannot stand in one table with a row ranked among 101"
            )
            rows.append({"table": "1", "data": data, "model": listed(below), "cells": ["hit@20"], "why": why})
    for data, grid in PAPER["grid"].items():
        column = [row[0] for row in grid]
        why = (
            f"without a block there are no heads, so the five are one model; they spread over "
            f"{max(column) - min(column):.4f}, and no smaller difference in this table means anything"
        )
        rows.append({"table": "3", "data": data, "model": "sansr", "cells": ["k = 0, h = 1 to 5"], "why": why})
    return rows


def suspects(data: str, model: str) -> set[str]:
    """Return the metrics of a printed row that contradict each other."""
    row = PRINTED[data].get(model)
    return {cell for cells, _ in faults(row) for cell in cells} if row else set()


# --- page --------------------------------------------------------------------------------------------------------


def introduction(plan: Plan, left_out: Iterable[str], request: Request) -> str:
    """Return the text above the first table."""
    page = Page("# SANSR: tables and plots")
    small, part = plan.details["small"], plan.details["part"]
    if request.quick:
        page.text(PAPER["quick"].format(left_out=listed(dict.fromkeys(left_out))))
    page.text(PAPER["introduction"])
    learned = "all training sessions" if part == 1 else f"the newest 1/{part} of the training sessions"
    scored = "all test sessions" if plan.test_size is None else f"the newest {plan.test_size:,} test sessions"
    grid = "" if request.quick else PAPER["small"].format(part=small["part"], epochs=small["options"]["epochs"])
    page.text(PAPER["protocol"].format(learned=learned, scored=scored, small=grid))
    return str(page)


def write(text: str, tables: Mapping[str, Rows]) -> str:
    """Return the page as Markdown."""
    page = Page(text)
    page.section("Contradictions in the printed tables")
    page.text("No ranking by one model gives these printed numbers together. They are marked with † below.")
    page.table([{**row, "cells": listed(label(cell) if "@" in cell else cell for cell in row["cells"])}
                for row in tables["impossible"]])  # fmt: skip
    for data in distinct(tables["overall"], "data"):
        rows = select(tables["overall"], data=data)
        page.section(f"Table 1: {data}")
        page.text("\n".join(_overall_lines(data, rows)), f"{rows[0]['targets']}. {rows[0]['leaked']}.")
        page.text(*(f"Warning: {warning}" for warning in distinct(rows, "warning") if warning), _conclusion(data, rows))
        page.section("Figure 2: without residuals", level=3)
        page.table(_ablation(rows), "Neither SANSR nor SANSR-RC was trained.")
        page.section("Figure 3: CPU seconds per epoch", level=3)
        cost = _cost(rows)
        page.table(cost, "Nothing was trained.")
        page.text("Checks on the held-out sessions included." if cost else "")
    page.section("Table 2: the data")
    page.table(tables["statistics"])
    page.text(PAPER["statistics_note"])
    for data in distinct(tables["grid"], "data"):
        page.section(f"Table 3: heads and blocks, NDCG@20, {data}")
        page.text("\n".join(_grid_lines(data, select(tables["grid"], data=data))))
        page.text("Without a block (k = 0) there are no heads: one cell, trained once.")
    for data in distinct(tables["sizes"], "data"):
        page.section(f"Figure 4: width, {data}")
        page.table([_size(row) for row in select(tables["sizes"], data=data)])
    return str(page)


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Return figures 2, 3 and 4 per data set."""
    plots = []
    names = [label(metric) for metric in METRICS]
    for data in distinct(tables["overall"], "data"):
        rows = select(tables["overall"], data=data)
        for protocol in PROTOCOLS:
            series = {
                name: [_mean(found, metric) for metric in METRICS]
                for name in ("sansr", "sansr-rc")
                if (found := select(rows, model=name, protocol=protocol))
            }
            if series:
                plots.append(figures.bars(f"Figure 2: residuals ({data}, {protocol})", "figure", names, series))
        if cost := {name: _mean(select(rows, model=name, protocol="full"), "epoch_seconds") for name in _trained(rows)}:
            title = f"Figure 3: CPU seconds per epoch ({data})"
            plots.append(figures.bars(title, "CPU seconds", list(cost), {"": list(cost.values())}))
    for data in distinct(tables["sizes"], "data"):
        for protocol in PROTOCOLS:
            rows = select(tables["sizes"], data=data, protocol=protocol)
            series = {label(metric): [row[metric] for row in rows] for metric in METRICS}
            sizes = [str(row["size"]) for row in rows]
            plots.append(figures.lines(f"Figure 4: width ({data}, {protocol})", "figure", sizes, series))
    return tuple(plots)


def _overall_lines(data: str, rows: Rows) -> list[str]:
    """Return the lines of Table 1: the paper's row of each model above ours."""
    lines = [f"| model | row | {' | '.join(map(label, METRICS))} |", "|---" * (2 + len(METRICS)) + "|"]
    for name in dict.fromkeys(["popularity", *_trained(rows), *distinct(rows, "model")]):
        if paper := PRINTED[data].get(name):
            marked = suspects(data, name)
            cells = [f"{paper[metric]:.4f}{' †' if metric in marked else ''}" for metric in METRICS]
            lines.append(f"| {name} | paper | {' | '.join(cells)} |")
        for protocol in PROTOCOLS:
            found = select(rows, model=name, protocol=protocol)
            mark = " (not above random)" if any(row["warning"] for row in found) else ""
            cells = [f"{_mean(found, metric):.4f} ± {_half_width(found, metric):.4f}" for metric in METRICS]
            lines.append(f"| {name} | {protocol}{mark} | {' | '.join(cells)} |")
    return lines


def _conclusion(data: str, rows: Rows) -> str:
    """Return where the paper's SANSR lies between our metrics of the two protocols."""
    full, sampled = (_mean(select(rows, model="sansr", protocol=protocol), "hit@20") for protocol in PROTOCOLS)
    if not (full and sampled):
        return ""
    baselines = {row["model"]: row["hit@20"] for row in select(rows, protocol="sampled") if "epochs" not in row}
    best = max(baselines, key=lambda name: baselines[name])
    return (
        f"The paper's SANSR has HR@20 {PRINTED[data]['sansr']['hit@20']:.4f}; ours {full:.4f} in full ranking and "
        f"{sampled:.4f} among 101, where the best baseline ({best}) has {baselines[best]:.4f}."
    )


def _ablation(rows: Rows) -> Rows:
    return [
        {"model": name, "protocol": protocol, **{label(metric): _number(_mean(found, metric)) for metric in METRICS}}
        for protocol in PROTOCOLS
        for name in ("sansr", "sansr-rc")
        if (found := select(rows, model=name, protocol=protocol))
    ]


def _cost(rows: Rows) -> Rows:
    trained = {name: select(rows, model=name, protocol="full") for name in _trained(rows)}
    return [
        {
            "model": name,
            "CPU seconds per epoch": _number(_mean(found, "epoch_seconds")),
            "epochs": listed(row["epochs"] for row in found),
            "parameters": found[0]["parameters"],
        }
        for name, found in trained.items()
    ]


def _grid_lines(data: str, rows: Rows) -> list[str]:
    blocks = sorted({row["blocks"] for row in rows})
    lines = [f"| heads | row | {' | '.join(f'k = {k}' for k in blocks)} |", "|---" * (2 + len(blocks)) + "|"]
    for heads in sorted({row["heads"] for row in rows}):
        cells = [f"{PAPER['grid'][data][heads - 1][k]:.4f}{' †' if k == 0 else ''}" for k in blocks]
        lines.append(f"| {heads} | paper | {' | '.join(cells)} |")
        for protocol in PROTOCOLS:
            found = {row["blocks"]: row for row in select(rows, heads=heads, protocol=protocol)}
            cells = [f"{found[k]['ndcg@20']:.4f}" if k in found else "" for k in blocks]
            lines.append(f"| {heads} | {protocol} | {' | '.join(cells)} |")
    return lines


def _size(row: Values) -> Row:
    numbers = {label(metric): _number(row[metric]) for metric in METRICS}
    cost = {"CPU seconds per epoch": _number(row["epoch_seconds"])}
    return {"width": row["size"], "protocol": row["protocol"], **numbers, **cost}


def _trained(rows: Rows) -> list[str]:
    return distinct((row for row in rows if "epochs" in row), "model")


def _mean(rows: Rows, name: str) -> float:
    return float(sum(row[name] for row in rows) / len(rows)) if rows else 0.0


def _half_width(rows: Rows, name: str) -> float:
    return float(sum(row["interval"][name][1] - row["interval"][name][0] for row in rows) / len(rows) / 2)


def _number(value: Any) -> str:
    return f"{value:.{4 if value < 1 else 1}f}" if isinstance(value, float) else str(value)
