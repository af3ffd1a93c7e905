"""How query logs and suggestions look in a terminal."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Column, Table

from ensue.answers import Answer, QueryExplanation
from ensue.cli import show
from ensue.data.queries import UnderstoodQueries
from ensue.evaluation import SuggestResult
from ensue.suggest.check import QueryFindings

_MEASURES = {
    "bleu": "BLEU",
    **{f"precision@{n}": f"{n}-gram" for n in range(1, 5)},
    "content@1": "content",
    "exact": "exact",
    "mrr@10": "MRR@10",
    "recall@10": "recall@10",
}
_PARTS = ("bleu", "content@1", "mrr@10", "recall@10")
_HEEDED = 3


def understood(found: UnderstoodQueries) -> None:
    """What the reader made of a file, and all it left out: always shown."""
    columns = ", ".join(f"{role}={name}" for role, name in found.columns.items())
    show.remark(f"{found.path}: {found.layout}{f' ({columns})' if columns else ''}; time: {found.time}")
    for line in found.sentences:
        show.remark(f"  left out: {line}")
    for note in found.notes:
        show.remark(f"  note: {note}")


def findings(found: QueryFindings) -> None:
    """The answer of ``ensue check``."""
    _line(
        f"{found.sessions:,} sessions, {found.queries:,} queries, {found.distinct:,} distinct; length mean "
        f"{found.mean_length:.1f}, longest {found.longest:,}; words a query {found.mean_words:.1f}"
    )
    if found.parts:
        _line(f"parts: {', '.join(f'{name or chr(45)} {count:,}' for name, count in found.parts.items())}")
    floor = found.floor
    _line(
        f"floor: {100 * found.shown:.1f} % of what was typed may be suggested ({floor['rule']}); {floor['below']:,} "
        f"distinct queries were typed by fewer, {floor['personal']:,} look personal"
    )
    table = Table("session", title="the first three, as understood", title_justify="left")
    for row in found.rows:
        table.add_row(escape("  >  ".join(row.values)))
    show.out.print(table)
    for name, share in found.splits.items():
        _line(f"  {name}: {100 * share:.1f} % of its pairs stand here too")
    for warning in found.warnings:
        show.out.print(f"[yellow]would spoil a result:[/] {escape(warning)}", highlight=False)
    if not found.warnings:
        _line("nothing found that would spoil a result")


def result(found: SuggestResult) -> None:
    """The table, the same by length of the session and by pair, the card and the verdict."""
    card = found.protocol
    show.figures(found.rows, _MEASURES, f"protocol {card.name}: figures x 100, ± 95 %")
    heads = (f"{part}" for part in (_MEASURES[name] for name in _PARTS))
    table = Table(Column("model", no_wrap=True), "targets that follow", "number", *heads, title_justify="left")
    for row in found.rows:
        parts = {f"{name} typed": own for name, own in row.notes["by_length"].items()}
        parts |= {f"a pair {name} in training": own for name, own in row.notes["by_pair"].items()}
        for name, own in parts.items():
            if own["targets"]:
                table.add_row(row.model, name, f"{own['targets']:,}", *(f"{100 * own[key]:.2f}" for key in _PARTS))
    show.out.print(table)
    for name in ("data", "targets", "words", "ranks", "floor", "counting", "leaked", "interval"):
        _line(f"  {name}: {getattr(card, name)}")
    _line(found.verdict)


def answer(found: Answer) -> None:
    """The suggestions for one session, best first."""
    table = Table("#", "suggestion", "score", "leaned on (share; score lost when not read)")
    for rank, choice in enumerate(found.choices, 1):
        heeded = "   ".join(
            f"{escape(heed.value)} {heed.share:.2f}" + ("" if heed.lost is None else f" ({-heed.lost:+.3f})")
            for heed in choice.heeded
        )
        table.add_row(str(rank), escape(choice.value), f"{choice.score:.3f}", heeded)
    if found.id:
        _line(found.id)
    show.out.print(table)
    popular = "" if found.given else ": nothing typed, so these are the queries typed most"
    few = "" if found.choices else "; nothing that fits reaches the privacy floor"
    _line(f"{found.known} of {found.given} queries hold a known word{popular}{few}")


def explanation(found: QueryExplanation) -> None:
    """Each suggested word with the earlier words it leaned on most, then the suggestions."""
    words = [(word, place) for place, query in enumerate(found.words) for word in query]
    if found.weights:
        table = Table("word", "leaned most on (query, share)", title="weights: what the model leaned on, not causes")
        for word, row in zip(found.suggested, found.weights, strict=True):
            best = sorted(range(len(row)), key=lambda place: -row[place])[:_HEEDED]
            parts = (f"{escape(words[place][0])} ({words[place][1] + 1}, {row[place]:.2f})" for place in best)
            table.add_row(escape(word), "   ".join(parts))
        show.out.print(table)
    answer(found.answer)


def _line(text: str) -> None:
    show.out.print(text, markup=False, highlight=False)
