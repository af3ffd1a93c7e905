"""How logs of events look in a terminal, with what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ensue.answers import Answer, Choice, Explanation, Forecast
from ensue.cli import display
from ensue.lines import plural
from ensue.tasks.next.metadata import default_exclusion, exclusion_sentence

if TYPE_CHECKING:
    from ensue.tasks.next.check import Findings


def findings(found: Findings) -> None:
    """The answer of ``ensue check``."""
    display.line(
        f"{plural(found.sequences, 'session')}, {plural(found.events, 'event')}, {plural(found.distinct, 'item')}; "
        f"events per session: mean {found.mean_length:.1f}, median {found.median_length:g}, max {found.longest:,}"
    )
    rows = (
        (row.id or str(number), " ".join(row.values), " ".join(f"{time:.15g}" for time in row.times))
        for number, row in enumerate(found.rows)
    )
    heads = ("session", "items", "times (s)")
    display.table(heads, rows, wraps=heads, title="first sessions")
    shares = found.repeat_share, found.immediate_repeat_share
    display.line(exclusion_sentence(default_exclusion(*shares), *shares))
    display.problems(found.warnings)


def ranked(choices: Sequence[Choice]) -> None:
    """Print items with their scores; titles and attributions only where an item has any."""
    columns = {
        "#": [str(rank) for rank in range(1, len(choices) + 1)],
        "item": [display.one_line(choice.value) for choice in choices],
        "title": [display.one_line(choice.title) for choice in choices],
        "score": [f"{choice.score:.3f}" for choice in choices],
        display.ATTRIBUTIONS: [display.attributions_text(choice) for choice in choices],
    }
    shown = {head: cells for head, cells in columns.items() if any(cells) or head == "item"}
    display.table(tuple(shown), zip(*shown.values(), strict=True), wraps=("item", "title", display.ATTRIBUTIONS))


def answer(found: Answer) -> None:
    """One ranked answer."""
    if found.id:
        display.line(display.one_line(found.id))
    ranked(found.choices)
    popular = "" if found.in_vocabulary else "; items are ranked by popularity"
    display.line(f"in vocabulary: {found.in_vocabulary} of {plural(found.events, 'event')}{popular}")


def forecast(found: Forecast) -> None:
    """A history rolled forward, a row a step."""
    rows = []
    for step, seen in enumerate(found.steps, 1):
        choices = "   ".join(f"{display.one_line(choice.value)} ({choice.score:.3f})" for choice in seen.choices)
        after = (f"{_span(seen.after[0])} to {_span(seen.after[2])}", _span(seen.after[1])) if seen.after else ("", "")
        rows.append((str(step), f"{100 * seen.stop:.1f} %", *after, choices))
    if found.id:
        display.line(display.one_line(found.id))
    items = "items (score)"
    display.table(("step", "P(end)", "time to event (80 %)", "median", items), rows, wraps=(items,))
    display.line(f"in vocabulary: {found.in_vocabulary} of {plural(found.events, 'event')}")


def _span(seconds: float) -> str:
    """A length of time, as one says it."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def explanation(found: Explanation) -> None:
    """Print each event with the earlier event it attends to most, then the answer."""
    rows = []
    for at, row in enumerate(found.dependency):
        if any(row):
            best = max(range(len(row)), key=row.__getitem__)
            rows.append((display.one_line(found.values[at]), display.one_line(found.values[best]), f"{row[best]:.2f}"))
    if rows:
        heads = ("event", "attends most to", "weight")
        display.table(heads, rows, wraps=heads[:2], title="attention weights (not causes)")
    answer(found.answer)
