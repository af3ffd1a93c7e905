"""The page and the figures of SANSR's study, from its tables alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from ensue import figures
from ensue.evaluation.rows import label
from ensue_studies.rows import Row, Rows, Values, distinct, plain
from ensue_studies.sansr_paper import GRID, MEASURES, STATISTICS_NOTE, printed, suspects


def about(whole: int, tested: int | None, cells: tuple[int, int] | None, left: Sequence[str]) -> list[str]:
    """What the reader must know before any figure.

    Args:
        whole: Table 1 learns the newest one of so many parts.
        tested: test sessions scored; ``None`` is all.
        cells: which part Table 3 and figure 4 learn, and epochs at most; ``None`` in a quick run, which lacks both.
        left: sets and rows that a quick run leaves out.
    """
    learned = "all training sessions" if whole == 1 else f"the newest 1/{whole} of the training sessions"
    scored = "all test sessions" if tested is None else f"the newest {tested:,} test sessions"
    quick = [
        "**Quick run**: a part of the sessions, few epochs, small batches. An impression, not a result. Left out, for "
        f"they need the long run (without `--quick`): table 3, figure 4, {', '.join(left)}.",
        "",
    ]
    sliced = (
        f"Table 3 and figure 4 learn the newest 1/{cells[0]}, at most {cells[1]} epochs, seed 0: their figures compare "
        "with each other, not with Table 1. NARM and STAMP learn with shared negatives in place of all items, for "
        "time. "
        if cells
        else ""
    )
    return [
        "# SANSR: tables and plots",
        "",
        *([] if cells else quick),
        "Every row is scored under two protocols. `full`: the target is ranked among all items. `sampled`: "
        "among itself "
        "and 100 items drawn at random, as the paper evaluates SANSR; a random order has HR@10 0.099 and HR@20 0.198. "
        "The two cannot be compared. Ties count against the target; micro average over targets; what the "
        "session already holds stays in the ranking. A target that the training data lacks is a miss, for every row "
        "(`--unknown miss`); one that follows no known event is ranked by popularity.",
        "",
        f"Table 1 learns {learned}, of which the newest tenth is held out to choose the epoch, and scores {scored}. "
        f"{sliced}± is half a 95 % interval over resampled sessions.",
        "",
    ]


def write(head: Sequence[str], tables: Mapping[str, Rows]) -> str:
    """The page as Markdown."""
    lines = [*head, *_impossible(tables["impossible"])]
    for data in distinct(tables["overall"], "data"):
        rows = [row for row in tables["overall"] if row["data"] == data]
        lines += [f"## Table 1: {data}", "", *_overall(data, rows), *_verdict(data, rows), ""]
        lines += ["### Figure 2: without residuals", "", *_ablation(rows), ""]
        lines += ["### Figure 3: CPU seconds an epoch", "", *_cost(rows), ""]
    lines += ["## Table 2: the data", "", *plain(tables["statistics"]), "", STATISTICS_NOTE]
    for data in distinct(tables["grid"], "data"):
        lines += ["", f"## Table 3: heads and blocks, NDCG@20, {data}", ""]
        lines += _grid(data, [row for row in tables["grid"] if row["data"] == data])
    for data in distinct(tables["sizes"], "data"):
        lines += ["", f"## Figure 4: width, {data}", ""]
        lines += plain([_size(row) for row in tables["sizes"] if row["data"] == data])
    return "\n".join([*lines, ""])


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Figures 2, 3 and 4, a data set each."""
    found = []
    for data in distinct(tables["overall"], "data"):
        rows = [row for row in tables["overall"] if row["data"] == data]
        for protocol in ("full", "sampled"):
            series = {
                name: [_mean(_of(rows, name, protocol), measure) for measure in MEASURES]
                for name in ("sansr", "sansr-rc")
                if _of(rows, name, protocol)
            }
            if series:
                title = f"Figure 2: residuals ({data}, {protocol})"
                found.append(figures.bars(title, "figure", [label(measure) for measure in MEASURES], series))
        cost = {name: _mean(_of(rows, name, "full"), "seconds_an_epoch") for name in _trained(rows)}
        if cost:
            found.append(
                figures.bars(
                    f"Figure 3: CPU seconds an epoch ({data})", "CPU seconds", list(cost), {"": list(cost.values())}
                )
            )
    for data in distinct(tables["sizes"], "data"):
        for protocol in ("full", "sampled"):
            rows = [row for row in tables["sizes"] if (row["data"], row["protocol"]) == (data, protocol)]
            series = {label(measure): [row[measure] for row in rows] for measure in MEASURES}
            title = f"Figure 4: width ({data}, {protocol})"
            found.append(figures.lines(title, "figure", [str(row["size"]) for row in rows], series))
    return tuple(found)


def _impossible(rows: Rows) -> list[str]:
    table = [{**row, "cells": ", ".join(label(cell) if "@" in cell else cell for cell in row["cells"])} for row in rows]
    text = "Found from the printed numbers alone: no ranking by one model gives them. They carry a † below."
    return ["## Cells of the paper that cannot be", "", text, "", *plain(table), ""]


def _overall(data: str, rows: Rows) -> list[str]:
    lines = [f"| model | row | {' | '.join(map(label, MEASURES))} |", "|---" * (2 + len(MEASURES)) + "|"]
    trained, every = _trained(rows), distinct(rows, "model")
    names = list(dict.fromkeys(["popularity", *trained, *every]))
    for name in names:
        if paper := printed(data, name):
            marks = suspects(data, name)
            cells = [f"{paper[measure]:.4f}{' †' if measure in marks else ''}" for measure in MEASURES]
            lines.append(f"| {name} | paper | {' | '.join(cells)} |")
        for protocol in ("full", "sampled"):
            own = _of(rows, name, protocol)
            mark = " (not above random)" if any(row["warning"] for row in own) else ""
            cells = [f"{_mean(own, measure):.4f} ± {_half(own, measure):.4f}" for measure in MEASURES]
            lines.append(f"| {name} | {protocol}{mark} | {' | '.join(cells)} |")
    warnings = dict.fromkeys(row["warning"] for row in rows if row["warning"])
    about = f"{rows[0]['targets']}. {rows[0]['leaked']}."
    return [*lines, "", about, *(f"\nWarning: {warning}" for warning in warnings)]


def _verdict(data: str, rows: Rows) -> list[str]:
    """Where the paper's own row lies between the two protocols, in our figures."""
    own = [_mean(_of(rows, "sansr", protocol), "hit@20") for protocol in ("full", "sampled")]
    if not all(own):
        return []
    counted = {row["model"]: row["hit@20"] for row in rows if "epochs" not in row and row["protocol"] == "sampled"}
    best = max(counted, key=lambda name: counted[name])
    return [
        "",
        f"The paper's SANSR has HR@20 {printed(data, 'sansr')['hit@20']:.4f}; ours {own[0]:.4f} in full ranking and "
        f"{own[1]:.4f} among 101, where the best baseline ({best}) has {counted[best]:.4f}.",
    ]


def _ablation(rows: Rows) -> list[str]:
    found = [
        {"model": name, "protocol": protocol, **{label(measure): _figure(_mean(own, measure)) for measure in MEASURES}}
        for protocol in ("full", "sampled")
        for name in ("sansr", "sansr-rc")
        if (own := _of(rows, name, protocol))
    ]
    return plain(found) if found else ["Neither SANSR nor SANSR-RC was asked for."]


def _cost(rows: Rows) -> list[str]:
    found = [
        {
            "model": name,
            "CPU seconds an epoch": _figure(_mean(_of(rows, name, "full"), "seconds_an_epoch")),
            "epochs": ", ".join(str(row["epochs"]) for row in _of(rows, name, "full")),
            "parameters": _of(rows, name, "full")[0]["parameters"],
        }
        for name in _trained(rows)
    ]
    return [*plain(found), "", "Checks on the held-out sessions included."] if found else ["Nothing was trained."]


def _grid(data: str, rows: Rows) -> list[str]:
    blocks = sorted({row["blocks"] for row in rows})
    lines = [f"| heads | row | {' | '.join(f'k = {k}' for k in blocks)} |", "|---" * (2 + len(blocks)) + "|"]
    for heads in sorted({row["heads"] for row in rows}):
        for protocol in ("paper", "full", "sampled"):
            if protocol == "paper":
                cells = [f"{GRID[data][heads - 1][k]:.4f}{' †' if k == 0 else ''}" for k in blocks]
            else:
                own = {row["blocks"]: row for row in rows if (row["heads"], row["protocol"]) == (heads, protocol)}
                cells = [f"{own[k]['ndcg@20']:.4f}" if k in own else "" for k in blocks]
            lines.append(f"| {heads} | {protocol} | {' | '.join(cells)} |")
    return [*lines, "", "Without a block (k = 0) there are no heads: one cell, trained once."]


def _size(row: Values) -> Row:
    about = {"width": row["size"], "protocol": row["protocol"]}
    cost = {"CPU seconds an epoch": _figure(row["seconds_an_epoch"])}
    return {**about, **{label(measure): _figure(row[measure]) for measure in MEASURES}, **cost}


def _of(rows: Iterable[Row], model: str, protocol: str) -> Rows:
    return [row for row in rows if row["model"] == model and row["protocol"] == protocol]


def _trained(rows: Rows) -> list[str]:
    return distinct((row for row in rows if "epochs" in row), "model")


def _mean(rows: Rows, name: str) -> float:
    return float(sum(row[name] for row in rows) / len(rows)) if rows else 0.0


def _half(rows: Rows, name: str) -> float:
    return float(sum(row["interval"][name][1] - row["interval"][name][0] for row in rows) / len(rows) / 2)


def _figure(value: Any) -> str:
    return (
        f"{value:.4f}"
        if isinstance(value, float) and value < 1
        else f"{value:.1f}"
        if isinstance(value, float)
        else str(value)
    )
