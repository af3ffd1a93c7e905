"""The page and the plot of the study ``anywhere``, from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from ensue import figures
from ensue.evaluation.rows import label
from ensue_studies.rows import Row, Rows, distinct

OUTCOMES = {
    "leads": "significantly better",
    "draws": "no significant difference",
    "loses": "significantly worse",
}


def about(tables: Mapping[str, Rows], absent: Sequence[str], *, quick: bool) -> list[str]:
    """Return what the reader must know before any table."""
    lines = ["# `best` compared with its best baseline", ""]
    if quick:
        lines += ["**Quick run**: the smallest subset of each data set, few examples, no other models.", ""]
    lines += [
        "Every data set is reduced to sizes that people have, and `best` is trained on each subset with its defaults. "
        "It is compared with the baseline that scores best on the test part. Differences: 95 % intervals over "
        "resampled test data, the same for all models, and over seeds where there are several "
        f"({_seeds(tables['verdicts'])}). Full ranking, micro average; items of the sequence are left out if the "
        "training data never repeats one. In task `next`, a target that is not in the training data is a miss for "
        "every model (`--unknown miss`), and one that follows unknown events only is ranked by popularity. Seconds "
        "are CPU seconds of training.",
        "",
    ]
    return lines + [f"Not available: {', '.join(absent)}.", ""] * bool(absent)


def write(head: Sequence[str], tables: Mapping[str, Rows]) -> str:
    """Return the page as Markdown."""
    verdicts = tables["verdicts"]
    lines = [*head, "## Summary", "", *_summary(verdicts), ""]
    for number, task in enumerate(distinct(verdicts, "task"), 1):
        own = [row for row in verdicts if row["task"] == task]
        title = f"Table {number}: {task}, `best` and its best baseline, {label(own[0]['measure'])} in %"
        lines += [f"## {title}", "", *_verdicts(own), ""]
    for task in distinct(tables["rows"], "task"):
        lines += [f"## {task}: all models", "", *_rows([row for row in tables["rows"] if row["task"] == task]), ""]
    lines += ["## What leaks are worth", "", *_leaks(tables["leaks"]), ""] if tables["leaks"] else []
    return "\n".join(lines)


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Return one plot per task: the difference between ``best`` and its best baseline."""
    found = []
    for task in distinct(tables["verdicts"], "task"):
        own = [row for row in tables["verdicts"] if row["task"] == task]
        names = [f"{row['data']}, {row['part']}" for row in own]
        ends = {name: [100 * row[name] for row in own] for name in ("low", "difference", "high")}
        found.append(
            figures.lines(f"{task}: difference to the best baseline", f"{label(own[0]['measure'])} in %", names, ends)
        )
    return tuple(found)


def _summary(verdicts: Rows) -> list[str]:
    """Return the number of outcomes, and the highest cost where there is no significant difference."""
    costs = "at most x the baseline's time without significant difference"
    lines = [f"| task | subsets | {' | '.join(OUTCOMES.values())} | {costs} |", "|---" * 6 + "|"]
    for task in distinct(verdicts, "task"):
        own = [row for row in verdicts if row["task"] == task]
        counts = [str(sum(row["outcome"] == outcome for row in own)) for outcome in OUTCOMES]
        drawn = [_times(row) for row in own if row["outcome"] == "draws"]
        lines.append(f"| {task} | {len(own)} | {' | '.join(counts)} | {f'{max(drawn):.0f}' if drawn else ''} |")
    return lines


def _seeds(verdicts: Rows) -> str:
    """Return the number of seeds, and the subsets with fewer."""
    most = max(row["seeds"] for row in verdicts)
    single = [f"{row['data']}, {row['part']}" for row in verdicts if row["seeds"] < most]
    return f"{most} seeds" + (f", one for {'; '.join(single)}" if single else "")


def _times(row: Row) -> float:
    """Return the seconds of ``best`` divided by those of the baseline."""
    return float(row["seconds"]) / max(float(row["seconds_of_the_floor"]), 0.01)


def _verdicts(rows: Rows) -> list[str]:
    head = (
        "data",
        "training data",
        "chosen",
        "best",
        "best baseline",
        "difference",
        "outcome",
        "seconds",
        "of the baseline",
    )
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        floor = f"{row['floor']} {100 * row['of_the_floor']:.2f}"
        ahead = f"{100 * row['difference']:+.2f} ({100 * row['low']:+.2f} to {100 * row['high']:+.2f})"
        cells = (
            row["data"],
            row["part"],
            row["chosen"],
            f"{100 * row['best']:.2f}",
            floor,
            ahead,
            f"**{OUTCOMES[row['outcome']]}**" if row["outcome"] != "draws" else OUTCOMES["draws"],
            f"{row['seconds']:.2f}",
            f"{row['seconds_of_the_floor']:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _rows(rows: Rows) -> list[str]:
    """Return one line per subset: every model with its first two metrics, the highest first."""
    measures = [name for name in rows[0] if name in rows[0]["interval"]]
    lines = [f"| data | training data | {', '.join(map(label, measures))} in % |", "|---" * 3 + "|"]
    for data, part in dict.fromkeys((row["data"], row["part"]) for row in rows):
        own = [row for row in rows if (row["data"], row["part"]) == (data, part)]
        own.sort(key=lambda row: -row[measures[0]])
        said = "; ".join(_said(row, measures) for row in own)
        lines.append(f"| {data} | {part} | {said} |")
    return lines


def _leaks(rows: Rows) -> list[str]:
    """Return the scores of untrained rules with a leak and without it."""
    about = (
        "Rules that are not trained, on every event after the first, with access to what they should not see: the "
        "other rows of a batch of 100 prefixes in the order of the file (a longer prefix contains the answer), what "
        "followed an equal prefix in training, and training data that is later than the first test data. `compare` "
        "refuses a model that reads its batch, `evaluate` warns of it, and `check` reports copies and times."
    )
    names = list(rows[0]["with_leak"])
    lines = [f"| data | leak | affected | rule | {' | '.join(f'{label(name)}, with | without' for name in names)} |"]
    lines.append("|---" * (4 + 2 * len(names)) + "|")
    for row in rows:
        cells = (f"{100 * row[side][name]:.1f}" for name in names for side in ("with_leak", "without"))
        start = f"{row['data']} | {row['leak']} | {100 * row['share']:.1f} % | {row['rule']}"
        lines.append(f"| {start} | {' | '.join(cells)} |")
    return [about, "", *lines]


def _said(row: Row, measures: Sequence[str]) -> str:
    low, high = row["interval"][measures[0]]
    name = f"**{row['model']}**" if row["kind"] == "best" else row["model"]
    others = "".join(f", {100 * row[name]:.2f}" for name in measures[1:])
    return f"{name} {100 * row[measures[0]]:.2f} ± {50 * (high - low):.2f}{others}"
