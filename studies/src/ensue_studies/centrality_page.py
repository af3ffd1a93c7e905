"""The page and the figures of centrality's study, from its tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import plotly.graph_objects as go

from ensue import figures
from ensue.significance import LEVEL
from ensue.tasks.classify.mixing_time import COLLAPSED
from ensue_studies.centrality_paper import COST, RESULTS, SLIPS, STEPS, TOLERANCE, half
from ensue_studies.rows import Rows, Values, distinct, of_data, plain

LABELS = {"accuracy": "accuracy", "macro_f1": "macro-F1", "calibration_error": "ECE"}
PEER = "self-attention"
NEAR = 0.3
"""Below this |lambda_2| the graph's columns are so alike that little can differ from self-attention."""


@dataclass(frozen=True)
class Amounts:
    """How much was trained and scored; ``None`` is all there is."""

    learned: int | None
    reviews: int | None
    tested: int | None
    graphs: int
    options: Values
    has_vectors: bool
    seeds: int
    left: Sequence[str] = ()
    """Sets at hand that need the long run."""


def about(sets: Mapping[str, str], absent: Sequence[str], amounts: Amounts, *, quick: bool) -> list[str]:
    """What the reader must know before any figure."""
    lines = ["# Centrality attention: tables and plots", ""]
    if quick:
        options = ", ".join(f"{name} {value}" for name, value in amounts.options.items())
        left = ", ".join([*amounts.left, "verdicts between poolings"])
        lines += [
            f"**Quick run**: at most {amounts.learned or 0:,} texts learned ({amounts.reviews or 0:,} reviews) and "
            f"{amounts.tested or 0:,} scored, and {options}. An impression, not a result: no figure here compares with "
            f"the paper's. Left out, for they need the long run (without `--quick`): {left}.",
            "",
        ]
    else:
        lines += [
            "The LSTM is as wide as the available vectors, 100 (the paper: both 300). Step size, batch, dropout and "
            "epochs were chosen on validation texts with centrality alone, and every pooling has the same (Table 2). "
            "Only routing on SNLI has the paper's step size: with the others' its loss stays at that of a "
            "random guess. Sets "
            "that take long have fewer seeds; each table says how many.",
            "",
        ]
    start = "vectors of a file (the paper: GloVe)" if amounts.has_vectors else "trained vectors"
    lines += [
        f"Every pooling has the same network and the same LayerNorms and masks: {start}, a BiLSTM, the "
        "pooling, a classifier. Pairs are compared as [p; h; |p - h|; p * h]; reviews are read sentence by sentence. "
        f"Each is trained {_times(amounts.seeds)}; metrics are means over seeds. ± is half a 95 % interval over "
        "resampled test texts, and seeds where there are several. Every test text counts, the empty ones too. "
        "Probabilities are calibrated by one temperature, found on validation texts; ECE is the calibration error in "
        "15 bins. Macro-F1 is over all labels that are true or predicted. Metrics are in %. tfidf (words, pairs of "
        "words and characters under logistic regression), vectors (the mean vector under the same) and majority need "
        "no network.",
        "",
        *(f"- **{name}**: {text}" for name, text in sets.items()),
    ]
    if absent:
        lines.append(f"- Not available: {', '.join(absent)}.")
    return [
        *lines,
        "- Yelp-13, Yelp-14 and the paper's IMDB (ten ratings) are not among them, nor is the training part of SNLI.",
        "",
    ]


def write(head: Sequence[str], tables: Mapping[str, Rows]) -> str:
    """The page as Markdown."""
    lines = [*head, "## Table 1: the data", "", *plain(tables["statistics"]), "", *_leaks(tables["leaks"])]
    lines += ["", "## Table 2: the settings", "", *plain(tables["settings"])]
    for data in distinct(tables["overall"], "data"):
        rows, verdicts, curves = (of_data(tables[name], data) for name in ("overall", "verdicts", "curves"))
        lines += ["", f"## Table {4 if data == 'snli' else 3}: {data}", "", *_overall(data, rows), ""]
        lines += [*_verdict(rows, verdicts), *_explained(rows, verdicts, curves)]
    lines += ["", "## Figure 4: steps of the power method", "", *_convergence(tables["convergence"])]
    lines += ["", "## Cost", "", *_cost(tables["overall"], tables["cost"])]
    lines += ["", "## Notes for a comparison with the paper", "", *(f"- {slip}" for slip in SLIPS)]
    return "\n".join([*lines, ""])


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Accuracy, |lambda_2| by epoch and figure 4, a data set each; then the cost."""
    found = []
    for data in distinct(tables["overall"], "data"):
        rows, curves, steps = (of_data(tables[name], data) for name in ("overall", "curves", "convergence"))
        names = [row["model"] for row in rows]
        series = {"here": [100 * row["accuracy"] for row in rows], "the paper": [row["paper"] for row in rows]}
        if not any(series["the paper"]) or data == "snli":
            del series["the paper"]
        found.append(figures.bars(f"Table {4 if data == 'snli' else 3}: accuracy ({data})", "per cent", names, series))
        mixing = {
            name: [row.get("second_eigenvalue") for row in curves if row["model"] == name]
            for name in distinct(curves, "model")
        }
        if mixing:
            epochs = [str(epoch + 1) for epoch in range(max(map(len, mixing.values())))]
            found.append(figures.lines(f"|lambda_2| by epoch ({data})", "|lambda_2|", epochs, mixing))
        for model in distinct(steps, "model"):
            own = [row for row in steps if row["model"] == model]
            lengths = [f"{row['graphs_of']} {row['length']}" for row in own]
            parts = {"median": "median", "ninth decile": "ninth_decile", "largest": "largest"}
            bars = {name: [row[key] for row in own] for name, key in parts.items()}
            found.append(figures.bars(f"Figure 4: steps to converge ({data}, {model})", "steps", lengths, bars))
    kinds = distinct(tables["cost"], "lengths")
    models = distinct(tables["cost"], "model")
    ratios = {kind: [row["ratio"] for row in tables["cost"] if row["lengths"] == kind] for kind in kinds}
    found.append(figures.bars(f"Time of a training step over {PEER}'s", "ratio", models, ratios))
    return tuple(found)


def _leaks(rows: Rows) -> list[str]:
    text = (
        "Test texts that are in the training part too, case and spaces aside; they are left in, as in the "
        "field. The last but one column counts those whose film (of pairs: whose premise) is trained on."
    )
    return ["### Leaks", "", text, "", *plain([{**row, "example": row["example"].replace("|", "/")} for row in rows])]


def _overall(data: str, rows: Rows) -> list[str]:
    column = "paper (549k pairs)" if data == "snli" else "paper"
    with_paper = any(row["paper"] is not None for row in rows)
    head = ["model", *LABELS.values(), *([column] if with_paper else [])]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row["model"], *(_cell(row, measure) for measure in LABELS)]
        if with_paper:
            cells.append("" if row["paper"] is None else f"{row['paper']:.1f} ± {half(row['paper'], _whole(data)):.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    seeds = max(row["seeds"] for row in rows)
    times = "One training a pooling." if seeds == 1 else f"{seeds} trainings a pooling."
    if not with_paper:
        return [*lines, "", f"{times} The paper has no number for this set, trained in this way."]
    note = f"{times} The paper's numbers are one run each; their ± is computed here from the size of its test set."
    if data == "snli":
        note += (
            f" They were trained on thirty times the pairs and cannot be compared; the paper's table also has "
            f"intra-attention, {RESULTS['snli']['intra-attention']}."
        )
    return [*lines, "", note]


def _whole(data: str) -> int:
    return {"sst1": 2210, "sst2": 1821, "snli": 9824}[data]


def _cell(row: Values, measure: str) -> str:
    low, high = row["interval"][measure]
    return f"{100 * row[measure]:.2f} ± {50 * (high - low):.2f}"


def _verdict(rows: Rows, verdicts: Rows) -> list[str]:
    """Each graph pooling against every other row, paired, in a sentence."""
    lines = []
    for name in distinct(verdicts, "model"):
        own = [row for row in verdicts if row["model"] == name]
        groups = {
            "more often than": [row for row in own if _sure(row) and row["difference"] > 0],
            "less often than": [row for row in own if _sure(row) and row["difference"] < 0],
            "neither significantly more nor less often than": [row for row in own if not _sure(row)],
        }
        parts = [f"{word} {', '.join(map(_difference, group))}" for word, group in groups.items() if group]
        right = next(100 * row["accuracy"] for row in rows if row["model"] == name)
        lines += [f"{name} is right on {right:.2f} % of the texts: {'; '.join(parts)}.", ""]
    note = (
        f"Differences are paired on the same resampled texts; significant is p < {LEVEL}, which one comparison in "
        f"{1 / LEVEL:.0f} reaches by chance where there is no difference."
    )
    return [*lines, note] if lines else []


def _sure(row: Values) -> bool:
    return bool(row["p_value"] < LEVEL)


def _difference(row: Values) -> str:
    gain, low, high = (100 * row[key] for key in ("difference", "low", "high"))
    return f"{row['other']} ({gain:+.2f}, from {low:+.2f} to {high:+.2f}, p = {row['p_value']:.3f})"


def _explained(rows: Rows, verdicts: Rows, curves: Rows) -> list[str]:
    """Where centrality is not better than self-attention: the curve of |lambda_2|, and what it says."""
    lines = []
    found = {row["model"]: row for row in rows}
    for row in verdicts:
        if row["other"] != PEER or (_sure(row) and row["difference"] > 0):
            continue
        own = [epoch for epoch in curves if epoch["model"] == row["model"] and "second_eigenvalue" in epoch]
        if not own:
            continue
        here, there = (100 * found[name]["accuracy"] for name in (row["model"], PEER))
        kept = next((epoch for epoch in own if epoch["best"]), own[-1])
        lines += [
            "",
            f"**{row['model']} is not better than {PEER} here** ({here:.2f} against {there:.2f}). "
            f"{_reason(found[row['model']], found.get('majority'), kept, worse=_sure(row))}",
            "",
            *_curve(own),
        ]
    return lines


def _reason(row: Values, base: Values | None, kept: Values, *, worse: bool) -> str:
    if base is not None and row["interval"]["accuracy"][0] <= base["accuracy"]:
        return (
            f"It is not clearly above the most frequent label ({100 * base['accuracy']:.2f}): it has hardly learned, "
            "and the curve of its graph explains nothing."
        )
    slow = kept["second_eigenvalue"]
    text = explain(slow, kept["dobrushin"])
    if worse and slow < NEAR:
        text += (
            " That it is significantly worse comes then from its training rather than from its graph; more seeds tell."
        )
    return text


def explain(slow: float, apart: float) -> str:
    """What mean |lambda_2| and Dobrushin bound say of centrality beside self-attention, whose graph has 0 and 0."""
    found = f"|lambda_2| of its word graphs is {slow:.3f} on average on validation texts in the epoch that is kept: "
    if slow < COLLAPSED:
        return f"{found}the graph has collapsed, its columns are all but the same, and centrality is plain {PEER}."
    if slow < NEAR:
        return (
            f"{found}a step of the walk forgets all but that part of where it started, and the two columns of a graph "
            f"that are least alike differ in {100 * apart:.0f} % of their weight. At 0 centrality is {PEER}: it has "
            "little room to differ, and so to gain."
        )
    return (
        f"{found}the graphs are far from those of {PEER} (0), so words are weighed in another way, and that way is not "
        "right more often on these texts."
    )


def _curve(rows: Rows) -> list[str]:
    names = {"second_eigenvalue": "|lambda_2|", "dobrushin": "Dobrushin bound"}
    names |= {f"sentences_{key}": f"{name}, sentences" for key, name in tuple(names.items())}
    return plain(
        [
            {
                "epoch": f"{row['epoch']:.0f}{' (kept)' if row['best'] else ''}",
                **{name: f"{row[key]:.3f}" for key, name in names.items() if key in row},
                "validation accuracy": f"{100 * row['accuracy']:.2f}",
            }
            for row in rows
        ]
    )


def _convergence(rows: Rows) -> list[str]:
    if not rows:
        return ["No pooling by a word graph was asked for."]
    text = (
        f"Steps from the uniform distribution until one moves it by at most {TOLERANCE:.0e} in L1, in float64, on the "
        "graphs of test texts from the first seed's trained model. The error falls as |lambda_2| to the number of "
        f"steps, so {log(TOLERANCE) / log(0.1):.0f} steps are enough at 0.1 and {log(TOLERANCE) / log(0.9):.0f} at 0.9."
    )
    parts = []
    for model in distinct(rows, "model"):
        own = [row for row in rows if row["model"] == model]
        graphs = sum(row["graphs"] for row in own)
        within = sum(row["graphs"] * row[f"within_{STEPS}"] for row in own) / graphs
        parts.append(f"{100 * within:.1f} % of {graphs:,} graphs of {model}")
    verdict = f"Done within the {STEPS} steps of the paper's cap: {', '.join(parts)}."
    table = [
        {
            **{key: row[key] for key in ("data", "model", "graphs_of", "length", "graphs")},
            **{key: f"{row[key]:.0f}" for key in ("median", "ninth_decile", "largest")},
            f"within {STEPS}": f"{100 * row[f'within_{STEPS}']:.1f} %",
            "mean |lambda_2|": f"{row['second_eigenvalue']:.3f}",
        }
        for row in rows
    ]
    return [text, "", verdict, "", *plain(table)]


def _cost(rows: Rows, timed: Rows) -> list[str]:
    lines = [
        f"The paper needs {COST} times the time of attentive pooling on Yelp-14. Here, a training step of the flat "
        "network, the poolings in turns on one machine (median of the ratios):",
        "",
        *plain(timed),
        "",
        "And CPU seconds an epoch in the trainings above, checks on validation texts included, with their ratio to "
        f"{PEER}'s:",
        "",
    ]
    found = []
    for data in distinct(rows, "data"):
        trained = [row for row in of_data(rows, data) if "epochs" in row]
        peer = next((row["seconds_an_epoch"] for row in trained if row["model"] == PEER), 0.0)
        found += [
            {
                **{key: row[key] for key in ("data", "model", "seconds_an_epoch")},
                f"over {PEER}": f"{row['seconds_an_epoch'] / peer:.2f}" if peer else "",
                "epochs": ", ".join(map(str, row["epochs"])),
                "parameters": f"{row['parameters']:,}",
            }
            for row in trained
        ]
    return [*lines, *plain(found)]


def _times(seeds: int) -> str:
    return "once" if seeds == 1 else f"with {seeds} seeds"
