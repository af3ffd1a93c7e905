"""How texts and their labels look in a terminal."""

from __future__ import annotations

from rich.text import Text

from ensue.answers import TextAnswer, TextExplanation
from ensue.cli import display
from ensue.lines import plural, printable
from ensue.tasks.classify.check import TextFindings

_LABELS = 20


def findings(found: TextFindings) -> None:
    """The answer of ``ensue check``."""
    kind = "pair" if found.paired else "text"
    display.line(
        f"{plural(found.texts, kind)}; words per {kind}: mean {found.mean_words:.1f}, median {found.median_words:g}, "
        f"max {found.longest_words:,}; sentences: mean {found.mean_sentences:.1f}, max {found.longest_sentences:,}"
    )
    listed = ", ".join(f"{label} {count:,}" for label, count in list(found.labels.items())[:_LABELS])
    more = len(found.labels) - _LABELS
    display.line(
        f"{plural(len(found.labels), 'label')}{listed and ': '}{listed}{f', and {more:,} more' if more > 0 else ''}"
    )
    rows = ((row.label or "", "\n".join(row.texts)) for row in found.rows)
    display.table(("label", "text"), rows, wraps=("label", "text"), title="first rows")
    for name, leak in found.splits.items():
        display.line(f"  {name}: {plural(leak.other_rows, kind)}, {leak.shared:,} of them also in this file")
    display.problems(found.warnings)


def answer(found: TextAnswer) -> None:
    """The labels of one text, likeliest first."""
    rows = (
        (str(rank), display.one_line(choice.value), f"{choice.score:.3f}", display.attributions_text(choice))
        for rank, choice in enumerate(found.choices, 1)
    )
    if found.id:
        display.line(display.one_line(found.id))
    if not found.choices:
        display.line("no words, no answer")
        return
    display.table(("#", "label", "probability", display.ATTRIBUTIONS), rows, wraps=("label", display.ATTRIBUTIONS))
    display.line(f"in vocabulary: {found.in_vocabulary} of {plural(found.events, 'word')}")
    if found.deletion is not None and found.choices:
        test = found.deletion
        words = plural(test.words, "word")
        display.line(
            f"deletion test of {found.choices[0].value}: score drop {display.drop(test.score_drop)} without the "
            f"{words} of highest weight, {display.drop(test.random)} without {words} at random ({test.draws} draws)"
        )
        if test.score_drop <= test.random:
            display.line("random words matter as much: these weights do not explain the answer")


def explanation(found: TextExplanation) -> None:
    """Each word with its share, sentence by sentence, then the answer."""
    from ensue.figures.texts import name_of

    display.line("attention weights (not causes); the weights of a passage sum to 1")
    for place, part in enumerate(found.passages):
        display.line(f"{name_of(found, place)}: {part.weight:.2f}")
        strong = max(part.weights, default=0.0)
        words = (
            Text.assemble((printable(word), "bold" if weight == strong > 0 else ""), f" {weight:.2f}")
            for word, weight in zip(part.words, part.weights, strict=True)
        )
        display.console().print(Text.assemble("  ", Text("  ").join(words)))
    answer(found.answer)
