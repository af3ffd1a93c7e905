"""How an evaluation looks in a terminal: the table of figures, the card, the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ensue.cli import show
from ensue.cli.show_ranked import cut_in_words
from ensue.evaluation import AnyResult, LinkResult, Result, Row, SuggestResult, TextResult
from ensue.evaluation.link import even
from ensue.evaluation.rows import cell, figure, label
from ensue.evaluation.verdicts import Verdict

_LINK_MEASURES = {
    "mrr": "MRR",
    "recall@10": "recall@10",
    "map": "MAP",
    "article_mrr": "by article: MRR",
    "article_map": "MAP",
    "pooled_ap": "pooled AP",
    "mrp": "mRP",
    "auc": "AUC",
}
_QUERY_MEASURES = {
    "bleu": "BLEU",
    **{f"precision@{n}": f"{n}-gram" for n in range(1, 5)},
    "content@1": "content",
    "exact": "exact",
    "mrr@10": "MRR@10",
    "recall@10": "recall@10",
}
_TEXT_MEASURES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "calibration_error": "ECE", "log_loss": "log loss"}
_QUERY_PARTS = ("bleu", "content@1", "mrr@10", "recall@10")


def figures(rows: Sequence[Row], measures: Mapping[str, str], title: str) -> None:
    """A row a model, a column a measure (by its name in the rows, and its head), then what is not above chance."""
    cells = []
    for row in rows:
        seconds = row.seconds_per_1000
        speed = "" if seconds is None else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"
        model = f"{row.model}\nchance!" if row.warning else row.model
        cells.append([model, *(cell(row, name, " ±") for name in measures), speed])
    show.table(["model", *measures.values(), "s / 1,000"], cells, title=title)
    several = [row for row in rows if "by_seed" in row.notes]
    if several:
        spread = []
        for row in several:
            each = [own["seed"] for own in row.notes["by_seed"]]
            found = (
                f"{figure(row.figures[name], name)} sd {figure(row.notes['spread'][name], name)}" for name in measures
            )
            spread.append([row.model, ", ".join(map(str, each)), *found])
        title = "over seeds: the mean and the standard deviation of a figure"
        show.table(["model", "seeds", *measures.values()], spread, title=title)
    for row in rows:
        if row.warning:
            show.warning("  warning:", row.warning)
        for warning in row.notes.get("warnings", ()):
            show.warning("  warning:", f"{row.model}: {warning}")
        if unmatched := row.notes.get("unmatched"):
            show.warning("  warning:", f"{row.model}: {unmatched}")


def of_pairs(pairs: Sequence[Verdict]) -> None:
    """Who is ahead of whom, where that is no chance; of the others how many there are."""
    if not pairs:
        return
    sure = [pair for pair in pairs if pair.sure]
    cells = [
        [
            pair.model,
            pair.other,
            figure(pair.difference, pair.measure),
            f"{figure(pair.low, pair.measure)} to {figure(pair.high, pair.measure)}",
            f"{pair.corrected:.3f}",
        ]
        for pair in sure
    ]
    title = f"significant differences by {label(pairs[0].measure)}, paired; p after Holm over {len(pairs)} pairs"
    show.table(["model", "ahead of", "by", "95 %", "p"], cells, title=title)
    show.line(f"{len(pairs) - len(sure)} of {len(pairs)} pairs do not differ significantly")


def _card_and_verdict(found: AnyResult) -> None:
    """Show every line of the protocol card but its name, which the table has, and the verdict."""
    for name, line in found.card.items():
        if name != "name":
            show.line(f"  {name}: {line}")
    show.line(found.verdict)


def of_events(found: Result, at: Sequence[int]) -> None:
    """A table of figures with its protocol card and verdict."""
    measures = ["mrr", *(f"hit@{k}" for k in at), *(f"ndcg@{k}" for k in at[: 2 if len(at) < 3 else 1])]
    card = found.protocol
    figures(found.rows, dict(zip(measures, measures, strict=True)), f"protocol {card.name}: figures x 100, ± 95 %")
    _card_and_verdict(found)


def of_texts(found: TextResult) -> None:
    """A table of figures with its protocol card and verdict."""
    figures(found.rows, _TEXT_MEASURES, "figures x 100 but for the log loss, ± 95 %")
    _card_and_verdict(found)


def of_queries(found: SuggestResult) -> None:
    """The table, the same by length of the session and by pair, the card and the verdict."""
    card = found.protocol
    figures(found.rows, _QUERY_MEASURES, f"protocol {card.name}: figures x 100, ± 95 %")
    rows = []
    for row in found.rows:
        parts = {f"{name} typed": own for name, own in row.notes["by_length"].items()}
        parts |= {f"a pair {name} in training": own for name, own in row.notes["by_pair"].items()}
        for name, own in parts.items():
            if own["targets"]:
                rows.append(
                    (row.model, name, f"{own['targets']:,}", *(f"{100 * own[key]:.2f}" for key in _QUERY_PARTS))
                )
    show.table(("model", "targets that follow", "number", *(_QUERY_MEASURES[name] for name in _QUERY_PARTS)), rows)
    _card_and_verdict(found)


def of_links(found: LinkResult) -> None:
    """The table, what the even cut catches, the card and the verdict."""
    figures(found.rows, _LINK_MEASURES, "figures x 100, ± 95 %")
    for row in found.rows:
        if (caught := even(row)) is not None:
            show.line(f"  {row.model}, P at least .5: {cut_in_words(caught, 'pair')}")
    _card_and_verdict(found)
