"""The page and the figure of the study ``anywhere``, from its tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from ensue import figures
from ensue.studies.rows import Row, Rows, distinct

OUTCOMES = {
    "leads": "significantly better",
    "draws": "no significant difference",
    "loses": "significantly worse",
}


def write(tables: Mapping[str, Rows], absent: Sequence[str], *, quick: bool) -> str:
    """The page as Markdown."""
    verdicts = tables["verdicts"]
    lines = ["# Is best best anywhere?", ""]
    if quick:
        lines += ["**Quick run**: the smallest cut of each set, few of what is scored, no rivals. An impression.", ""]
    lines += [
        "Every set is cut into what people have, and `best` learns each cut with its defaults and nothing else. Beside "
        "it stands everything that counts, and of these the one that scores best on the test part is the floor it is "
        "judged by. ± and the difference: 95 % over resampled test data, the same for all, and over seeds where there "
        f"are several ({_seeds(verdicts)}). Full ranking, micro average; what is known already is ruled out where the "
        "training data never repeats a value. Of `next`, a target that the training data lacks is a miss for every row "
        "(`--unknown miss`), and one that follows no known event is ranked by popularity. Seconds are CPU seconds of "
        "learning.",
        "",
    ]
    if absent:
        lines += [f"Not at hand: {', '.join(absent)}.", ""]
    lines += ["## In short", "", *_summary(verdicts), ""]
    for number, task in enumerate(distinct(verdicts, "task"), 1):
        own = [row for row in verdicts if row["task"] == task]
        title = f"Table {number}: {task}, `best` beside its best floor, {own[0]['measure']} x 100"
        lines += [f"## {title}", "", *_verdicts(own), ""]
    for task in distinct(tables["rows"], "task"):
        lines += [f"## {task}: every row", "", *_rows([row for row in tables["rows"] if row["task"] == task]), ""]
    lines += ["## What a leak is worth", "", *_leaks(tables["leaks"]), ""] if tables["leaks"] else []
    return "\n".join(lines)


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """How far ``best`` is ahead of its best floor, a figure a task."""
    found = []
    for task in distinct(tables["verdicts"], "task"):
        own = [row for row in tables["verdicts"] if row["task"] == task]
        names = [f"{row['data']}, {row['part']}" for row in own]
        ends = {name: [100 * row[name] for row in own] for name in ("low", "difference", "high")}
        found.append(figures.lines(f"{task}: ahead of the best floor", f"{own[0]['measure']} x 100", names, ends))
    return tuple(found)


def _summary(verdicts: Rows) -> list[str]:
    """How often it leads, draws and loses, and the most it takes where it only draws."""
    lines = [f"| task | cuts | {' | '.join(OUTCOMES)} | at most x the floor's time where it draws |", "|---" * 6 + "|"]
    for task in distinct(verdicts, "task"):
        own = [row for row in verdicts if row["task"] == task]
        counts = [str(sum(row["outcome"] == outcome for row in own)) for outcome in OUTCOMES]
        drawn = [_times(row) for row in own if row["outcome"] == "draws"]
        lines.append(f"| {task} | {len(own)} | {' | '.join(counts)} | {f'{max(drawn):.0f}' if drawn else ''} |")
    return lines


def _seeds(verdicts: Rows) -> str:
    """How many there are, and of which cuts fewer."""
    most = max(row["seeds"] for row in verdicts)
    single = [f"{row['data']}, {row['part']}" for row in verdicts if row["seeds"] < most]
    return f"{most} here" + (f", one of {'; '.join(single)}" if single else "")


def _times(row: Row) -> float:
    """Seconds of ``best`` over those of the floor."""
    return float(row["seconds"]) / max(float(row["seconds_of_the_floor"]), 0.01)


def _verdicts(rows: Rows) -> list[str]:
    head = ("data", "learned", "chosen", "best", "best floor", "ahead by", "outcome", "seconds", "of the floor")
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
            f"**{row['outcome']}**" if row["outcome"] != "draws" else "draws",
            f"{row['seconds']:.2f}",
            f"{row['seconds_of_the_floor']:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _rows(rows: Rows) -> list[str]:
    """A line a cut: every model with its first two figures, the highest first."""
    measures = [name for name in rows[0] if name in rows[0]["interval"]]
    lines = [f"| data | learned | {', '.join(measures)} x 100 |", "|---" * 3 + "|"]
    for data, part in dict.fromkeys((row["data"], row["part"]) for row in rows):
        own = [row for row in rows if (row["data"], row["part"]) == (data, part)]
        own.sort(key=lambda row: -row[measures[0]])
        said = "; ".join(_said(row, measures) for row in own)
        lines.append(f"| {data} | {part} | {said} |")
    return lines


def _leaks(rows: Rows) -> list[str]:
    """What rules that learn nothing score with a leak and without it."""
    about = (
        "Rules that learn nothing, on every event after the first, where they may look at what they should not: at "
        "the other rows of a batch of 100 prefixes in the order of the file (a longer prefix holds the answer), at "
        "what followed an equal prefix in training, at training data that begins after the first of what is scored. "
        "A model that reads its batch is refused by `compare` and named by `evaluate`; copies and times are named by "
        "`check`."
    )
    names = list(rows[0]["with_leak"])
    lines = [f"| data | leak | touches | rule | {' | '.join(f'{name}, with | without' for name in names)} |"]
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
