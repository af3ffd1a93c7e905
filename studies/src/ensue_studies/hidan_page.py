"""The page and the figures of HiDAN's study, from its tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from ensue import figures
from ensue.tasks.next.catalogue import COUNTING
from ensue_studies.hidan_paper import HEADS, MEASURES
from ensue_studies.hidan_sets import ABOUT, HALF, LATER
from ensue_studies.rows import Rows, Values, distinct, of_data, plain

PROTOCOLS: Mapping[str, str] = {
    "macro": "the paper's: mean over a cascade's targets, then over cascades; whom the cascade already holds stays in "
    "the ranking",
    "full": "ours: mean over targets; whom the cascade already holds is ruled out, for no cascade here holds anyone "
    "twice",
    "end": "as ours, but the end of a cascade is a target too, as GRASS and others score; its baseline counts by "
    "length",
    "theirs": "GRASS (a social graph is read, and an end token is scored as if it were a user), as its authors report",
}
OURS = "cascade-blend"
RIVALS = ("lstm", "att-lstm", "rmtpp")


@dataclass(frozen=True)
class Amounts:
    """How much was trained and scored; ``None`` is all there is."""

    learned: int | None
    tested: int | None
    seeds: int
    beside: int
    """Seeds of what HiDAN's verdicts do not need."""


def about(sets: Sequence[str], absent: Sequence[str], amounts: Amounts, *, quick: bool) -> list[str]:
    """What the reader must know before any figure."""
    lines = ["# HiDAN: tables rebuilt", ""]
    if quick:
        lines += [
            f"**Quick run**: at most {amounts.learned or 0:,} cascades learned and {amounts.tested or 0:,} scored, few "
            "epochs. An impression, not a result. Left out, for they need the long run (without `--quick`): Weibo and "
            "both of Twitter, MemeTracker, and the other models and variants.",
            "",
        ]
    times = "once" if amounts.seeds == 1 else f"with {amounts.seeds} seeds"
    if amounts.beside < amounts.seeds:
        few = "once" if amounts.beside == 1 else f"with {amounts.beside}"
        times += f" (HiDAN and the models it is tested against; the others, and all in the later papers' sets, {few})"
    return [
        *lines,
        "Every user after the first of a cascade is a target, ranked among all users of the training data. A user that "
        "it lacks is a miss, for every row (`--unknown miss`; the paper drops such users); one who follows no known "
        "user is ranked by popularity. Ties count against the target. No end token is scored but where it says so. "
        "Metrics in %, but for parameters and seconds. Each network is trained "
        f"{times}; metrics are means over seeds. ± is half a 95 % interval over resampled test cascades, and seeds "
        "where there are several. Nothing was chosen on test data: early stopping and the numbers of `cascade-blend` "
        "look at validation cascades alone.",
        "",
        f"A near copy is a test cascade that stands user for user in training data, or {100 * HALF:.0f} % of whose "
        "events do at the very same second.",
        "",
        *(f"- **{name}**: {ABOUT[name]}." for name in sets),
        *([f"- Not available: {', '.join(absent)}."] if absent else []),
        "",
    ]


def write(head: Sequence[str], tables: Mapping[str, Rows]) -> str:
    """The page as Markdown."""
    lines = [*head, "## Table 1: the data", "", *plain(tables["statistics"])]
    for data in distinct(tables["prediction"], "data"):
        rows, verdicts = (of_data(tables[name], data) for name in ("prediction", "verdicts"))
        lines += ["", f"## Table 2: {data}", ""]
        for protocol in distinct(rows, "protocol"):
            own = [row for row in rows if row["protocol"] == protocol]
            for part in distinct(own, "cascades"):
                title = protocol if part == "all" else f"{protocol}, without near copies"
                lines += [f"**{title}** ({PROTOCOLS[protocol]}).", ""]
                lines += [*_prediction([row for row in own if row["cascades"] == part]), ""]
        lines += _judged(verdicts)
    lines += ["", "## Table 3: cost of training", "", *_cost(tables["cost"])]
    if tables["sources"]:
        lines += ["", "## Figure 4 as a number: who infected whom", "", *_sources(tables["sources"])]
    return "\n".join([*lines, ""])


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """MRR of every row a data set and protocol; seconds an epoch; figure 4."""
    found = []
    for data in distinct(tables["prediction"], "data"):
        for protocol in ("macro", "full"):
            rows = _rows(of_data(tables["prediction"], data), protocol)
            names = [row["model"] for row in rows]
            series = {"here": [100 * row["mrr"] for row in rows]}
            if any("paper" in row for row in rows):
                series["paper"] = [100 * row["paper"]["mrr"] if "paper" in row else 0.0 for row in rows]
            found.append(figures.bars(f"Table 2: MRR ({data}, {protocol})", "x 100", names, series))
    for data in distinct(tables["cost"], "data"):
        rows = of_data(tables["cost"], data)
        spent = {"": [row["seconds_an_epoch"] for row in rows]}
        found.append(figures.bars(f"Table 3: an epoch ({data})", "seconds", [row["model"] for row in rows], spent))
    if rows := tables["sources"]:
        names = [*(f"{row['model']}, {row['by']}" for row in rows), "the latest user", "a random user"]
        values = [*(100 * row["precision"] for row in rows), 100 * rows[0]["latest"], 100 * rows[0]["chance"]]
        found.append(figures.bars("Figure 4: how often the strongest weight is a true edge", "%", names, {"": values}))
    return tuple(found)


def _rows(rows: Rows, protocol: str) -> Rows:
    return [row for row in rows if row["protocol"] == protocol and row["cascades"] == "all"]


def _prediction(rows: Rows) -> list[str]:
    names = [name for name in HEADS if name in rows[0]]
    if rows[0]["protocol"] == "macro":
        names = [name for name in names if name in MEASURES]
    lines = [f"| model | row | {' | '.join(HEADS[name] for name in names)} |", "|---" * (2 + len(names)) + "|"]
    for row in rows:
        if paper := row.get("paper"):
            lines.append(f"| {row['model']} | paper | {' | '.join(f'{100 * paper[name]:.2f}' for name in names)} |")
        who = "reported" if "interval" not in row else "here" if row["seeds"] == 1 else f"here, {row['seeds']} seeds"
        lines.append(f"| {row['model']} | {who} | {' | '.join(_figure(row, name) for name in names)} |")
    return lines


def _figure(row: Values, name: str) -> str:
    if "interval" not in row:
        return f"{100 * row[name]:.2f}"
    low, high = row["interval"][name]
    return f"{100 * row[name]:.2f} ± {50 * (high - low):.2f}"


def is_judged(data: str, protocol: str) -> bool:
    """Whether counting is judged under a protocol: under ours, and on the paper's own sets under the paper's."""
    return protocol == "full" or (protocol == "macro" and data not in LATER)


def judged_by(protocol: str) -> tuple[str, ...]:
    """The measures of a verdict."""
    return tuple(HEADS) if protocol == "full" else MEASURES


def _judged(verdicts: Rows) -> list[str]:
    """HiDAN against its rivals under its own protocol, and ours against counting under ours, in words."""
    lines = []
    found = {(row["model"], row["other"], row["measure"], row["protocol"], row["cascades"]): row for row in verdicts}
    for other in RIVALS:
        if row := found.get(("hidan", other, "mrr", "macro", "all")):
            lines.append(f"- HiDAN's MRR against {other}'s, the paper's protocol: {_said(row)}.")
    counted = [row for name in ("hidan", OURS) for row in verdicts if row["model"] == name and row["other"] in COUNTING]
    for name, best, protocol, part in dict.fromkeys(
        (row["model"], row["other"], row["protocol"], row["cascades"]) for row in counted
    ):
        here = [found[name, best, measure, protocol, part] for measure in judged_by(protocol)]
        ratios = ", ".join(f"{HEADS[row['measure']]} x {row['ratio']:.3f}{_mark(row)}" for row in here)
        where = protocol if part == "all" else f"{protocol}, {part}"
        lines.append(f"- {name} against the best baseline by MRR ({best}), {where}: {ratios}.")
    return [*lines, "", "An asterisk: the interval of the difference holds 0."] if lines else lines


def _said(row: Values) -> str:
    word = "higher" if row["low"] > 0 else "lower" if row["high"] < 0 else "no significant difference"
    low, high = 100 * row["low"], 100 * row["high"]
    return f"{word}, {100 * row['difference']:+.2f} [{low:+.2f}, {high:+.2f}]"


def _mark(row: Values) -> str:
    return "*" if row["low"] <= 0 <= row["high"] else ""


def _cost(rows: Rows) -> list[str]:
    table = []
    for row in rows:
        base = [own["seconds_an_epoch"] for own in rows if (own["data"], own["model"]) == (row["data"], "lstm")]
        line = {"data": row["data"], "model": row["model"], "parameters": f"{row['parameters']:,}"}
        line |= {"paper": row["paper_parameters"] or "", "epochs": ", ".join(map(str, row["epochs"]))}
        line |= {"CPU seconds an epoch": row["seconds_an_epoch"]}
        line["to LSTM"] = f"{row['seconds_an_epoch'] / base[0]:.2f}" if base and base[0] else ""
        line["paper, seconds"] = row["paper_seconds"] or ""
        table.append(line)
    return [*plain(table), "", "Parameters without user table and output layer, as the paper counts them."]


def _sources(rows: Rows) -> list[str]:
    first = rows[0]
    table = [
        {
            "row": row["model"],
            "by": row["by"],
            "precision": f"{100 * row['precision']:.1f}",
            "ratio to random": f"{row['precision'] / row['chance']:.2f}",
            "by seed": ", ".join(f"{100 * value:.1f}" for value in row["by_seed"]),
        }
        for row in rows
    ]
    table += [
        {"row": name, "precision": f"{100 * value:.1f}", "ratio to random": f"{value / first['chance']:.2f}"}
        for name, value in (("the latest user", first["latest"]), ("a random user", first["chance"]))
    ]
    text = (
        f"Of {first['steps']:,} users of the test cascades of {first['data']}, whose true graph is known: how often "
        "the selected earlier user has a true edge to them. By `weight`: the largest weight of the (first) "
        "attention, as the paper draws it. By `credit`: who adds most to the score that the user had before it came; "
        "HiDAN's score is a sum over the earlier users, a recurrent network's is not. By `without`: without whom "
        "the user would have been least likely, each earlier user left out in turn; it applies to all networks."
    )
    return [text, "", *plain(table)]
