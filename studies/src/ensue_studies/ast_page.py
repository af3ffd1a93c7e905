"""The page and the figures of AST's study, from its tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from ensue import figures
from ensue.evaluation.link import MEASURES
from ensue.significance import LEVEL
from ensue.tasks.link.catalogue import COUNTING
from ensue_studies.ast_measures import SHARED, lengths_line
from ensue_studies.ast_paper import CUT, SLIPS
from ensue_studies.ast_sets import ABOUT
from ensue_studies.rows import Rows, Values, distinct, of_data, plain

HEADS = {
    "mrr": "MRR",
    "recall@10": "R@10",
    "map": "MAP",
    "article_mrr": "MRR, articles",
    "article_map": "MAP, articles",
    "pooled_ap": "AP (paper: mAP)",
    "mrp": "mRP",
    "auc": "AUC",
}


@dataclass(frozen=True)
class Amounts:
    """What the texts were read with."""

    has_vectors: bool
    encoder: str = ""


def about(sets: Sequence[str], absent: Sequence[str], amounts: Amounts, *, quick: bool) -> list[str]:
    """What the reader must know before any figure."""
    lines = ["# AST: tables and plots", ""]
    if quick:
        lines += [
            "**Quick run**: at most six epochs, one training a network, of each article the first 150 words. An "
            "impression, not a result.",
            "",
        ]
    start = "vectors of a file" if amounts.has_vectors else "trained vectors"
    lines += [
        "Four encoders in one Siamese frame, with the same loss, schedule and words: each starts as the mean of "
        "vectors that the articles' runs of characters give, together with a bag of words, and adds what it "
        "is trained on. A post "
        f"and an article each become a vector, apart, and their cosine ranks. ast-paper is AST as published, from "
        f"{start}; the rows after it change one thing of AST. ast-inductive is pre-trained on the articles of "
        "training posts alone, the others on all articles, which are at hand when posts are linked. The CNN gives the "
        "maximum over time, the GRUs the mean of their states, which the paper leaves open: the last state of a whole "
        "article ranks hardly anything. MRR, "
        "R@10 and MAP: each test post ranks all articles; "
        "the same for articles, which rank the test posts; and pooled, as in the paper: all test posts with all "
        "articles that any of them is about, in one list. `best` weighs lexical scores by held-out posts, reads no "
        "network, and lets posts of one corpus tell of each other; best-alone, tfidf and bm25 rank each post alone, "
        "and best+ast weighs the cosine of AST too. Metrics are in %, means over seeds; ± is half a 95 % interval "
        "over resampled articles with their posts, and seeds. The epoch is chosen by the MRR of validation posts.",
        "",
        *(
            [
                f"sbert is the cosine of an installed encoder, {amounts.encoder}, which was trained elsewhere, on far "
                "more text, and reads each text as far as it goes; best+sbert weighs it too.",
                "",
            ]
            if amounts.encoder
            else []
        ),
        *(f"- **{name}**: {ABOUT[name]}." for name in sets),
        *([f"- Not available: {', '.join(absent)}."] if absent else []),
        "",
    ]
    return lines


def write(head: Sequence[str], tables: Mapping[str, Rows]) -> str:
    """The page as Markdown."""
    lines = [*head, "## The data", "", *plain(tables["statistics"])]
    for data in distinct(tables["overall"], "data"):
        rows = of_data(tables["overall"], data)
        lines += ["", f"## Table 1: precision of the r best pairs, {data}", ""]
        lines += _precision(of_data(tables["precision"], data))
        lines += ["", f"## Table 2: {data}", "", *_overall(rows), ""]
        lines += [*_verdict(rows, of_data(tables["verdicts"], data)), "", *_cost(rows)]
    lines += ["", "## Figure 1: weights by length", "", lengths_line(tables["weights"]), ""]
    lines += plain([{key: value for key, value in row.items() if key != "weights"} for row in tables["weights"]])
    lines += ["", f"## Figure 2: posts about the {SHARED} articles that most test posts are about", "", *_maps(tables)]
    lines += ["", "## Figure 3: trained alpha of each head", "", *_heads(tables["heads"])]
    lines += ["", "## Figure 4: what a threshold catches", "", *_cuts(tables["cuts"])]
    lines += ["", "## Notes for a comparison with the paper", "", *(f"- {slip}" for slip in SLIPS)]
    return "\n".join([*lines, ""])


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Table 1 as curves and figures 1 to 4."""
    found = [_weights(tables["weights"])]
    for data in distinct(tables["overall"], "data"):
        rows = of_data(tables["precision"], data)
        ranks = list(rows[0]["precision"])
        series = {row["model"]: [100 * row["precision"][r] for r in ranks] for row in rows}
        found.append(figures.lines(f"Table 1: precision of the r best pairs ({data})", "per cent", ranks, series))
        found += [_map(row) for row in of_data(tables["map"], data) if row.get("x") and row["model"] == "ast"]
        if heads := [row for row in of_data(tables["heads"], data) if row["seed"] == 0]:
            names = [f"head {number}" for number in range(1, len(heads[0]["alphas"]) + 1)]
            series = {row["step"]: row["alphas"] for row in heads}
            found.append(figures.bars(f"Figure 3: alpha of each head ({data})", "alpha", names, series))
        cuts = [row for row in of_data(tables["cuts"], data) if row["at"] == "even"]
        names = [row["model"] for row in cuts]
        caught = {kind: [row[kind] for row in cuts] for kind in ("right", "wrong", "missed")}
        found.append(figures.bars(f"Figure 4: pairs at the cut that each model calls even ({data})", "", names, caught))
    return tuple(found)


def _precision(rows: Rows) -> list[str]:
    table = []
    for row in rows:
        own = {r: f"{100 * value:.1f}{_printed(row['paper'].get(r))}" for r, value in row["precision"].items()}
        table.append({"model": row["model"], **own})
    return [*plain(table), "", "In brackets the number of the paper, on its own tweets."]


def _printed(value: float | None) -> str:
    return "" if value is None else f" ({value:.1f})"


def _overall(rows: Rows) -> list[str]:
    table = []
    for row in rows:
        cells = {}
        for name in MEASURES:
            low, high = row["interval"][name]
            cells[HEADS[name]] = f"{100 * row[name]:.1f} ± {50 * (high - low):.1f}{_printed(row['paper'].get(name))}"
        table.append({"model": row["model"], "seeds": row["seeds"], **cells})
    return plain(table)


def _verdict(rows: Rows, verdicts: Rows) -> list[str]:
    """Who wins, in words, and where a network loses to counting."""
    lines = []
    for name in distinct(verdicts, "model"):
        for measure in distinct(verdicts, "measure"):
            own = [row for row in verdicts if (row["model"], row["measure"]) == (name, measure)]
            groups = {
                "above": [row for row in own if row["p_value"] < LEVEL and row["difference"] > 0],
                "below": [row for row in own if row["p_value"] < LEVEL and row["difference"] < 0],
                "not significantly different from": [row for row in own if row["p_value"] >= LEVEL],
            }
            parts = [f"{word} {', '.join(map(_ahead, group))}" for word, group in groups.items() if group]
            lines.append(f"- {name}, {HEADS[measure]}: {'; '.join(parts)}.")
    figure = {row["model"]: row["mrr"] for row in rows}
    counted = {name: figure[name] for name in COUNTING if name in figure}
    lost = [name for name in figure if name not in COUNTING and figure[name] < max(counted.values(), default=0.0)]
    if lost:
        lines.append(
            f"- By MRR, a baseline is above {', '.join(lost)}: {max(counted, key=lambda name: counted[name])}."
        )
    return [*lines, "", f"Differences are paired on the same draws; significant is p < {LEVEL}."]


def _ahead(row: Values) -> str:
    return f"{row['other']} ({100 * row['difference']:+.1f})"


def _cost(rows: Rows) -> list[str]:
    table = [
        {
            "model": row["model"],
            "parameters": f"{row['parameters']:,}",
            "epochs": ", ".join(map(str, row["epochs"])),
            "CPU seconds an epoch": row["seconds_an_epoch"],
            "validation MRR": f"{100 * row['validation_mrr']:.1f}",
        }
        for row in rows
        if "parameters" in row
    ]
    return ["Parameters are those of the encoder, without word vectors.", "", *plain(table)] if table else []


def _maps(tables: Mapping[str, Rows]) -> list[str]:
    rows = [
        {"data": row["data"], "model": row["model"], "posts": len(row["x"]), "silhouette": f"{row['silhouette']:.3f}"}
        for row in tables["map"]
        if row.get("x")
    ]
    if not rows:
        return ["No network was asked for, or too few posts share an article."]
    text = (
        "The HTML page of this study draws AST's posts by t-SNE. As a number, the mean silhouette in the space of the "
        "vectors themselves: 1 if posts about one article are separate from all others, 0 if they are mixed."
    )
    return [text, "", *plain(rows)]


def _heads(rows: Rows) -> list[str]:
    if not rows:
        return ["AST was not asked for."]
    table = [
        {
            "data": row["data"],
            "seed": row["seed"],
            "step": row["step"],
            **{f"head {number}": f"{alpha:.2f}" for number, alpha in enumerate(row["alphas"], 1)},
        }
        for row in rows
    ]
    return ["1 is softmax, 2 is sparsemax; every head starts at 1.5.", "", *plain(table)]


def _cuts(rows: Rows) -> list[str]:
    table = [
        {
            "data": row["data"],
            "model": row["model"],
            "at": f"cosine {CUT}" if row["at"] == "cosine" else "even (P = .5)",
            "right": row["right"],
            "wrong": row["wrong"],
            "missed": row["missed"],
            "precision": _share(row["precision"], row["precision_interval"]),
            "recall": _share(row["recall"], row["recall_interval"]),
        }
        for row in rows
    ]
    text = (
        f"The paper: at cosine {CUT}, 36 of the retrieved tweets were relevant and 10 were not. Here all pairs of the "
        "pool, of the first seed: at that cosine, and at the score that the model itself calls even."
    )
    return [text, "", *plain(table)]


def _share(value: float, interval: Sequence[float]) -> str:
    return f"{100 * value:.1f} ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"


def _weights(rows: Rows) -> go.Figure:
    """Figure 1: a field of weights a normaliser and a length."""
    from plotly.subplots import make_subplots

    titles = [f"{row['normaliser']}, {row['length']} words" for row in rows]
    figure = make_subplots(rows=len(rows) // 2, cols=2, subplot_titles=titles, vertical_spacing=0.12)
    for place, row in enumerate(rows):
        field = go.Heatmap(z=row["weights"], zmin=0, zmax=1, colorscale="Blues", showscale=place == 0)
        figure.add_trace(field, row=place // 2 + 1, col=place % 2 + 1)
    return figure.update_layout(
        title={"text": "Figure 1: attention of random vectors"}, template="simple_white", height=700
    )


def _map(row: Values) -> go.Figure:
    """Figure 2."""
    figure = go.Figure()
    for number, title in enumerate(row["articles"]):
        own = [place for place, article in enumerate(row["article"]) if article == number]
        figure.add_scatter(
            x=[row["x"][place] for place in own],
            y=[row["y"][place] for place in own],
            mode="markers",
            name=title[:60],
        )
    name = f"Figure 2: test posts about the {SHARED} most shared articles ({row['data']}, {row['model']})"
    return figure.update_layout(title={"text": name}, template="simple_white", height=520)
