"""The page and the figures of MTN's study, from its tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from ensue import figures
from ensue.evaluation.suggest import MEASURES, SHOWN
from ensue.significance import LEVEL
from ensue_studies.mtn_paper import BLEU, CLAIMS, HOURS, SLIPS
from ensue_studies.mtn_sets import ABOUT
from ensue_studies.rows import Rows, Values, distinct, of_data, plain

HEADS: Mapping[str, str] = {
    "bleu": "BLEU",
    **{f"precision@{n}": f"{n}-gram" for n in range(1, 5)},
    "content@1": "content",
    "exact": "exact",
    f"mrr@{SHOWN}": f"MRR@{SHOWN}",
    f"recall@{SHOWN}": f"recall@{SHOWN}",
}
SHORT = ("bleu", "precision@1", "content@1", f"mrr@{SHOWN}")
RECURRENT = ("seq2seq", "h-lstm", "m-nsrf")
COUNTED = ("repeat-last", "most-frequent-next")
GOALS = (
    ("mtn", "repeat-last", "bleu", 1.10),
    ("best", "repeat-last", "bleu", 1.25),
    ("best", "most-frequent-next", f"mrr@{SHOWN}", 2.0),
)
"""What each must reach: model, rival, measure, ratio."""


@dataclass(frozen=True)
class Amounts:
    """How much was trained; ``None`` is all there is."""

    learned: int | None
    seeds: int


def about(sets: Sequence[str], absent: Sequence[str], amounts: Amounts, *, quick: bool) -> list[str]:
    """What the reader must know before any figure."""
    lines = ["# MTN: tables", ""]
    if quick:
        lines += [
            f"**Quick run**: at most {amounts.learned or 0:,} sessions learned of each set, small networks, few "
            "epochs. An impression, not a result. Left out, for they need the long run (without `--quick`): the "
            "comparison of depths, seq2seq, m-nsrf, the other Transformers and best.",
            "",
        ]
    sizes = (
        "Weights differ" if quick else "All networks have as many weights, 10 % up or down (the column says how many)"
    )
    times = "once" if amounts.seeds == 1 else f"once, or with {amounts.seeds} seeds where its row says so"
    lines += [
        "Every query after the first of a session is a target; what stood before it is what was typed. The first "
        "suggestion is compared with the target: clipped precision of 1- to 4-grams and BLEU-4 over all targets, "
        "`content`: precision of its words without stop words, `exact`: how often it is the target. MRR and "
        f"recall: the rank of the target among {SHOWN} suggestions. Queries are compared in lower case, by letters, "
        "digits and apostrophes. Metrics in %.",
        "",
        f"Each network is trained {times}; metrics are means over seeds. ± is half a 95 % interval over resampled test "
        f"sessions, and seeds where there are several. {sizes}; all have the same tokens (words seen three times), and "
        "the same loop, which stops by the loss on validation sessions; nothing was chosen on test sessions. "
        "Suggestions come from a beam of 10 that looks on until nothing open can come in; a query of the session is "
        "not suggested again, except by repeat-last.",
        "",
        "The k-anonymity threshold is 1 for every model: these are published questions without users. "
        "`best` is MTN that reads and may copy the words of all queries so far; queries of the log are looked up "
        "in addition to what it generates, weights chosen on validation sessions order both, and the one "
        "whose words most of them "
        "share leads.",
        "",
        *(f"- **{name}**: {ABOUT[name]}." for name in sets),
        *([f"- Not available: {', '.join(absent)}."] if absent else []),
        "",
    ]
    return lines


def write(head: Sequence[str], tables: Mapping[str, Rows]) -> str:
    """The page as Markdown."""
    lines = [*head, "## Table 1: the data", "", *plain(tables["statistics"])]
    lines += ["", "### Baselines", "", *_floors(tables["floors"])]
    for data in distinct(tables["overall"], "data"):
        rows, verdicts = (of_data(tables[name], data) for name in ("overall", "verdicts"))
        lines += ["", f"## Table 2: {data}", "", *_overall(rows), "", *_verdict(rows, verdicts)]
        if depths := of_data(tables["depths"], data):
            lines += ["", f"### Depth: {data}", "", *_depths(depths)]
        lines += ["", f"### By what was typed: {data}", "", *_parts(of_data(tables["lengths"], data), "typed")]
        lines += ["", f"### By the pair: {data}", "", *_parts(of_data(tables["pairs"], data), "pair")]
        lines += ["", f"### As they come: {data}", "", *_examples(of_data(tables["examples"], data))]
    lines += ["", "## Cost of training", "", *_cost(tables["cost"])]
    lines += ["", "## Notes for a comparison with the paper", "", f"- {CLAIMS}", *(f"- {slip}" for slip in SLIPS)]
    return "\n".join([*lines, ""])


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Figure 3 (BLEU), and BLEU by what was typed, a data set each; then the cost."""
    found = []
    for data in distinct(tables["overall"], "data"):
        rows = of_data(tables["overall"], data)
        names = [row["model"] for row in rows]
        found.append(
            figures.bars(f"Figure 3: BLEU ({data})", "x 100", names, {"here": [100 * row["bleu"] for row in rows]})
        )
        lengths = of_data(tables["lengths"], data)
        series = {name: [100 * row["bleu"] for row in lengths if row["model"] == name] for name in names}
        found.append(figures.lines(f"BLEU by queries typed ({data})", "x 100", distinct(lengths, "typed"), series))
    cost = {row["model"]: row["ratio"] for row in tables["cost"]}
    found.append(
        figures.bars("Time of a training step over the Transformer's", "ratio", [*cost], {"": [*cost.values()]})
    )
    return tuple(found)


def _floors(rows: Rows) -> list[str]:
    table = [
        {
            "data": row["data"],
            "caps": row["caps"],
            "model": row["model"],
            "pairs": f"{row['targets']:,}",
            **{HEADS[name]: f"{100 * row[name]:.2f}" for name in MEASURES},
        }
        for row in rows
    ]
    return plain(table) if table else ["No test part is whole here."]


def _overall(rows: Rows) -> list[str]:
    table = [
        {
            "model": row["model"],
            "weights": f"{row['parameters']:,}" if "parameters" in row else "",
            "seeds": row["seeds"],
            "epochs": ", ".join(map(str, row.get("epochs", []))),
            **{HEADS[name]: _figure(row, name) for name in MEASURES},
            "the paper's BLEU (AOL)": f"{BLEU[row['model']]:.2f}" if row["model"] in BLEU else "",
        }
        for row in rows
    ]
    return plain(table)


def _verdict(rows: Rows, verdicts: Rows) -> list[str]:
    """Who wins, how far MTN is ahead of each, and whether what must be reached is."""
    by_name = {row["model"]: row for row in rows}
    lines = [f"- Highest BLEU: {_winner(rows, by_name)}."]
    for name in ("mtn", "best"):
        own = [row for row in verdicts if row["model"] == name and row["measure"] == "bleu"]
        if own:
            lines.append(f"- {name} against the others by BLEU: {'; '.join(map(_against, own))}.")
    rivals = [by_name[name] for name in RECURRENT if name in by_name]
    if "mtn" in by_name and rivals:
        top = max(rivals, key=lambda row: float(row["bleu"]))
        more = by_name["mtn"]["bleu"] / top["bleu"] - 1 if top["bleu"] else 0.0
        lines.append(f"- MTN over the best recurrent row ({top['model']}): {100 * more:+.1f} % BLEU; the paper +25 %.")
    for name, other, measure, ratio in GOALS:
        if {name, other} <= by_name.keys():
            ours, theirs = by_name[name][measure], by_name[other][measure]
            word = "reached" if ours >= ratio * theirs else "**not reached**"
            lines.append(
                f"- {name} by {HEADS[measure]} at least {ratio:g} x {other}: {word}, {100 * ours:.2f} against "
                f"{100 * theirs:.2f} x {ratio:g} = {100 * ratio * theirs:.2f}."
            )
    return lines


def _winner(rows: Rows, by_name: Values) -> str:
    top = max(rows, key=lambda row: float(row["bleu"]))
    pair = [by_name[name] for name in ("mtn", "flat-transformer") if name in by_name]
    text = f"{top['model']}, {100 * top['bleu']:.2f}"
    if len(pair) == 2:
        first, second = sorted(pair, key=lambda row: -float(row["bleu"]))
        text += (
            f"; of MTN and the flat Transformer over the whole session {first['model']} ({100 * first['bleu']:.2f} "
            f"against {100 * second['bleu']:.2f})"
        )
    return text


def _against(row: Values) -> str:
    sure = "" if row["p_value"] < LEVEL else ", not significant"
    low, high, apart = (100 * row[name] for name in ("low", "high", "difference"))
    return f"{row['other']} {apart:+.2f} ({low:+.2f} to {high:+.2f}{sure})"


def _depths(rows: Rows) -> list[str]:
    table = [
        {
            "model": row["model"],
            "layers": row["depth"],
            "weights": f"{row['parameters']:,}",
            "BLEU": _figure(row, "bleu"),
            "the paper (AOL)": "" if row["paper"] is None else f"{row['paper']:.2f}",
        }
        for row in rows
    ]
    return plain(table)


def _parts(rows: Rows, by: str) -> list[str]:
    table = [
        {
            by: row[by],
            "pairs": f"{row['targets']:,}",
            "model": row["model"],
            **{HEADS[name]: f"{100 * row[name]:.2f}" for name in SHORT},
        }
        for kind in distinct(rows, by)
        for row in rows
        if row[by] == kind
    ]
    return plain(table)


def _examples(rows: Rows) -> list[str]:
    lines = []
    for row in rows:
        said = ", ".join(f"{name}: *{text}*" for name, text in row.items() if name not in ("data", "typed", "came"))
        lines.append(f"- {' > '.join(row['typed'])} > **{row['came']}**. {said}")
    return lines


def _cost(rows: Rows) -> list[str]:
    table = [
        {
            "model": row["model"],
            "weights (5,000 tokens)": f"{row['parameters']:,}",
            "milliseconds a step": row["milliseconds"],
            "over the Transformer": row["ratio"],
            "the paper, an epoch": f"{HOURS[row['model']] / HOURS['transformer']:.1f}" if row["model"] in HOURS else "",
        }
        for row in rows
    ]
    return [*plain(table), "", "Medians; the networks take turns on the same sessions, on the CPU."]


def _figure(row: Values, name: str) -> str:
    low, high = row["interval"][name]
    return f"{100 * row[name]:.2f} ± {50 * (high - low):.2f}"
