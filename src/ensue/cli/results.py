"""The result of an evaluation: a table of metrics, the protocol card and the verdict; the same as files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ensue.cli import display
from ensue.evaluation.ab_tests import ExperimentResult, Preference
from ensue.evaluation.bootstrap import Verdict
from ensue.evaluation.result import Result, Row, figure
from ensue.lazy import lazy
from ensue.metrics import UNBOUNDED, label
from ensue.registry import models
from ensue.significance import is_significant, p_value_text
from ensue.tasks import TASKS

if TYPE_CHECKING:
    from ensue.evaluation import link
else:
    link = lazy("ensue.evaluation.link")

_SUBSETS = {
    "by_length": "queries before: {}", "by_pair": "pair {} in training", "by_item": "{} items",
    "new_items_by": "new items by {}", "by_kind": "{} events", "by_weight": "{} events, weighted",
}  # fmt: skip
"""Notes that hold the metrics of subsets, and the titles of these subsets."""
_UNSCALED = ("novelty", "popularity")
"""Metrics of lists that are not fractions."""
_SUGGEST_METRICS = ("bleu", "content@1", "mrr@10", "recall@10")
"""Metrics that the table of subsets shows for ``suggest``."""


def show_result(result: Result) -> None:
    """Print the table, what only this task has, the protocol card and the verdict."""
    ndcg = [name for name in result.rows[0].figures if name.startswith("ndcg")]
    # One or two columns of NDCG fit a terminal; all are in JSON and CSV.
    names = [*result.table_metrics, *ndcg[: 2 if len(ndcg) < 3 else 1]]
    protocol = "" if "protocol" in TASKS[result.task].foreign.split() else f"protocol {result.card['name']}: "
    scale = " (log loss in nats)" if {*names} & {*UNBOUNDED} else ""
    metrics(result.rows, names, f"{protocol}metrics in %{scale} ± 95 % CI")
    if not {*_SUBSETS}.isdisjoint(result.rows[0].notes):
        _show_subsets(result)
    _show_beyond_accuracy(result)
    for row in result.rows:
        if "even" in row.notes and (at_half := link.even(row)) is not None:
            display.line(f"  {row.model}, P at least .5: {display.cutoff_metrics(at_half, 'pair')}")
    for name, line in result.card.items():
        if name != "name":  # the table has it
            display.line(f"  {name}: {line}")
    display.line(result.verdict)


def _show_subsets(result: Result) -> None:
    """Print the metrics of each row on subsets of the targets."""
    rows = []
    names = [name for name in _SUGGEST_METRICS if name in result.table_metrics] or result.table_metrics
    for row in result.rows:
        for key, title in _SUBSETS.items():
            for name, subset in row.notes.get(key, {}).items():
                if subset["targets"]:
                    values = (f"{100 * subset[metric]:.2f}" for metric in names)
                    rows.append((row.model, title.format(name), f"{subset['targets']:,}", *values))
    display.table(("model", "subset", "targets", *map(label, names)), rows)


def _show_beyond_accuracy(result: Result) -> None:
    """Print metrics of the lists of each model and of the best baseline, and hit rates of popular and rare items."""
    baselines = {model.name for model in models(result.task) if model.counting}
    hit = next((name for name in result.table_metrics if name.startswith("hit")), "")
    heads, rows = list[str](), list[list[str]]()
    for row in result.rows:
        values = row.notes.get("beyond_accuracy", {})
        if values and (row.model not in baselines or row.model == result.best_baseline):
            subsets = row.notes["by_popularity"]
            values = values | {f"{hit} {name}": subsets[name][hit] for name in ("popular", "rare")}
            heads = [*map(label, values)]
            scales = [1 if name.startswith(_UNSCALED) else 100 for name in values]
            rows.append(
                [row.model, *(f"{scale * value:.2f}" for scale, value in zip(scales, values.values(), strict=True))]
            )
    if rows:
        title = "lists in % (novelty in bits, popularity in training events), and targets that are popular or rare"
        display.table(("model", *heads), rows, title=title)


def metrics(rows: Sequence[Row], names: Sequence[str], title: str) -> None:
    """Print a table with one row per model and one column per metric, then the spread over seeds, then warnings."""
    heads = [label(name) for name in names]
    cells = []
    for row in rows:
        seconds = row.seconds_per_1000
        speed = "" if seconds is None else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"
        model = f"{row.model}\nat chance level" if row.warning else row.model
        cells.append([model, *(row.cell(name, " ±") for name in names), speed])
    display.table(["model", *heads, "s / 1,000"], cells, title=f"{title}, seconds per 1,000 predictions")
    # A second table: the intervals of the first one do not show how far seeds differ.
    several = [row for row in rows if "by_seed" in row.notes]
    if several:
        spread = []
        for row in several:
            seeds = ", ".join(str(run["seed"]) for run in row.notes["by_seed"])
            deviations = row.notes["spread"]
            values = (f"{figure(row.figures[name], name)} sd {figure(deviations[name], name)}" for name in names)
            spread.append([row.model, seeds, *values])
        display.table(["model", "seeds", *heads], spread, title="over seeds: mean and standard deviation")
    for row in rows:
        if row.warning:
            display.warning("warning:", row.warning)
        for warning in row.notes.get("warnings", ()):
            display.warning("warning:", f"{row.model}: {warning}")
        if unmatched := row.notes.get("unmatched"):
            display.warning("warning:", f"{row.model}: {unmatched}")


def show_experiment(result: ExperimentResult) -> None:
    """Print the metrics of each variant, and what differs between them."""
    names = [*result.variants[0].metrics]
    rows = []
    for variant in result.variants:
        values = (f"{100 * value:.2f}" for value in variant.metrics.values())
        rows.append([variant.name, f"{variant.units:,}", f"{variant.lists:,}", *values])
    display.table(["variant", "sessions", "lists", *map(label, names)], rows, title=f"{result.name}: metrics in %")
    cells = [
        [
            pair.variant,
            label(pair.metric),
            f"{100 * pair.difference:+.2f}",
            f"{100 * pair.low:+.2f} to {100 * pair.high:+.2f}",
            p_value_text(pair.p_value),
        ]
        for pair in result.differences
    ]
    if cells:
        reference = result.differences[0].reference
        display.table(["variant", "metric", f"points to {reference}", "95 % CI", "p"], cells)
    if result.preference is not None:
        display.line(_preference_text(result.preference))
    for warning in result.warnings:
        display.warning("warning:", f"{result.name}: {warning}")


def _preference_text(result: Preference) -> str:
    """Say in how many sessions of an interleaved test each model got more clicks."""
    is_sure = is_significant(result.p_value)
    verdict = f"{result.variant} is preferred to {result.reference}" if is_sure else "no significant preference"
    counts = f"{result.variant} has more clicks in {result.wins:,} sessions, {result.reference} in {result.losses:,}"
    interval = f"{100 * result.share:.1f} % (95 % CI {100 * result.low:.1f} to {100 * result.high:.1f})"
    return f"{verdict}: {counts}, {result.ties:,} ties; {interval}, sign test p {p_value_text(result.p_value)}"


def of_pairs(pairs: Sequence[Verdict]) -> None:
    """Print the significant differences between models, and the number of pairs without one."""
    if not pairs:
        return
    # Pairs without a significant difference are counted, not listed: there may be hundreds.
    significant = [pair for pair in pairs if pair.sure]
    cells = [
        [
            pair.model,
            pair.other,
            figure(pair.difference, pair.measure),
            f"{figure(pair.low, pair.measure)} to {figure(pair.high, pair.measure)}",
            p_value_text(pair.corrected),
        ]
        for pair in significant
    ]
    title = f"significant differences in {label(pairs[0].measure)} (paired, Holm-corrected for {len(pairs)} pairs)"
    display.table(["model", "better than", "points", "95 % CI", "p"], cells, title=title)
    display.line(f"{len(pairs) - len(significant)} of {len(pairs)} pairs do not differ significantly")
