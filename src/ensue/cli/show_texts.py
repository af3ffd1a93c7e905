"""How texts and their labels look in a terminal."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Column, Table

from ensue.answers import Choice, TextAnswer, TextExplanation
from ensue.cli import show
from ensue.data.text_check import TextFindings
from ensue.data.texts import UnderstoodTexts
from ensue.evaluation import TextResult

_LABELS = 20
_MEASURES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "calibration_error": "ECE", "log_loss": "log loss"}


def understood(found: UnderstoodTexts) -> None:
    """What the reader made of a file: always shown."""
    columns = ", ".join(f"{role}={name}" for role, name in found.columns.items())
    show.remark(f"{found.path}: {found.layout}{f' ({columns})' if columns else ''}")
    for note in found.notes:
        show.remark(f"  note: {note}")


def findings(found: TextFindings) -> None:
    """The answer of ``ensue check``."""
    kind = "pairs" if found.paired else "texts"
    _line(
        f"{found.texts:,} {kind}; words mean {found.mean_words:.1f}, median {found.median_words:g}, longest "
        f"{found.longest_words:,}; sentences mean {found.mean_sentences:.1f}, longest {found.longest_sentences:,}"
    )
    listed = ", ".join(f"{label} {count:,}" for label, count in list(found.labels.items())[:_LABELS])
    more = len(found.labels) - _LABELS
    _line(f"{len(found.labels):,} labels: {listed or 'none'}{f', and {more:,} more' if more > 0 else ''}")
    table = Table("label", "text", title="the first three, as understood", title_justify="left")
    for row in found.rows:
        table.add_row(escape(row.label or ""), escape("\n".join(row.texts)))
    show.out.print(table)
    for name, leak in found.splits.items():
        _line(f"  {name}: {leak.other_rows:,} {kind}, {leak.shared:,} of them stand here too")
    for warning in found.warnings:
        show.out.print(f"[yellow]would spoil a result:[/] {escape(warning)}", highlight=False)
    if not found.warnings:
        _line("nothing found that would spoil a result")


def result(found: TextResult) -> None:
    """A table of figures with its protocol card and verdict."""
    show.figures(found.rows, _MEASURES, "figures x 100 but for the log loss, ± 95 %")
    card = found.protocol
    for name in ("data", "labels", "averaging", "leaked", "unknown", "interval", "ties"):
        _line(f"  {name}: {getattr(card, name)}")
    _line(found.verdict)


def answer(found: TextAnswer) -> None:
    """The labels of one text, likeliest first."""
    table = Table("#", Column("label", no_wrap=True), "probability", "leaned on (share; lost when removed)")
    for rank, choice in enumerate(found.choices, 1):
        table.add_row(str(rank), escape(choice.value), f"{choice.score:.3f}", _heeded(choice))
    if found.id:
        _line(found.id)
    show.out.print(table)
    shares = "" if found.known or found.given else ": no words, so these are the shares of the labels in training"
    _line(f"{found.known} of {found.given} words known{shares}")
    if found.deletion is not None and found.choices:
        test = found.deletion
        words = f"{test.words} word{'s' * (test.words != 1)}"
        _line(
            f"deletion test: {found.choices[0].value} {-test.lost:+.3f} without the {words} it leaned on most, "
            f"{-test.random:+.3f} without {words} at random (mean of {test.draws})"
        )
        if test.lost <= test.random:
            _line("words at random matter as much: the weights tell nothing here")


def _heeded(choice: Choice) -> str:
    parts = (
        f"{escape(heed.value)} {heed.share:.2f}" + ("" if heed.lost is None else f" ({-heed.lost:+.3f})")
        for heed in choice.heeded
    )
    return "   ".join(parts)


def explanation(found: TextExplanation) -> None:
    """Each word with its share, sentence by sentence, then the answer."""
    from ensue.figures.texts import name_of

    _line("weights: what the model leaned on, not causes; shares of a passage's words sum to 1")
    for place, part in enumerate(found.passages):
        _line(f"{name_of(found, place)}: {part.share:.2f}")
        strong = max(part.weights, default=0.0)
        words = (
            f"[bold]{escape(word)}[/] {weight:.2f}" if weight == strong > 0 else f"{escape(word)} {weight:.2f}"
            for word, weight in zip(part.words, part.weights, strict=True)
        )
        show.out.print(f"  {'  '.join(words)}", highlight=False)
    answer(found.answer)


def _line(text: str) -> None:
    show.out.print(text, markup=False, highlight=False)
