"""How logs of events look in a terminal, with what comes next."""

from __future__ import annotations

from ensue.answers import Answer, Explanation, Forecast
from ensue.cli import show
from ensue.lines import plural
from ensue.tasks.next.check import Findings
from ensue.tasks.next.metadata import default_exclusion, exclusion_sentence


def findings(found: Findings) -> None:
    """The answer of ``ensue check``."""
    show.line(
        f"{plural(found.sequences, 'sequence')}, {plural(found.events, 'event')}, "
        f"{plural(found.distinct, 'distinct value')}; length mean {found.mean_length:.1f}, median "
        f"{found.median_length:g}, longest {found.longest:,}"
    )
    rows = (
        (row.id or str(number), " ".join(row.values), " ".join(f"{time:.15g}" for time in row.times))
        for number, row in enumerate(found.rows)
    )
    heads = ("sequence", "values", "times (s)")
    show.table(heads, rows, wraps=heads, title="the first three, as understood")
    if found.answers_beside >= 0.0005:
        show.line(
            f"{100 * found.answers_beside:.1f} % of the prefixes have their answer in the one beside them: a batch in "
            "order gives them away to a model that reads it, and `ensue compare` refuses such a model"
        )
    shares = found.repeat_share, found.immediate_repeat_share
    show.line(exclusion_sentence(default_exclusion(*shares), *shares))
    show.spoiling(found.warnings)


def answer(found: Answer) -> None:
    """One ranked answer."""
    evidence = "leaned on (share; score drop when removed)"
    if found.id:
        show.line(show.one_line(found.id))
    rows = (
        (str(rank), show.one_line(choice.value), f"{choice.score:.3f}", show.attended(choice))
        for rank, choice in enumerate(found.choices, 1)
    )
    show.table(("#", "value", "score", evidence), rows, wraps=("value", evidence))
    popular = "" if found.in_vocabulary else ": nothing known, so this is plain popularity"
    show.line(f"{found.in_vocabulary} of {plural(found.events, 'id')} known{popular}")


def forecast(found: Forecast) -> None:
    """A history rolled forward, a row a step."""
    rows = []
    for step, seen in enumerate(found.steps, 1):
        choices = "   ".join(f"{show.one_line(choice.value)} ({choice.score:.3f})" for choice in seen.choices)
        after = (f"{_span(seen.after[0])} to {_span(seen.after[2])}", _span(seen.after[1])) if seen.after else ("", "")
        rows.append((str(step), f"{100 * seen.stop:.1f} %", *after, choices))
    if found.id:
        show.line(show.one_line(found.id))
    likeliest = "likeliest (score)"
    show.table(("step", "stops", "after, 8 of 10", "median", likeliest), rows, wraps=(likeliest,))
    show.line(f"{found.in_vocabulary} of {plural(found.events, 'id')} known")


def _span(seconds: float) -> str:
    """A length of time, as one says it."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def explanation(found: Explanation) -> None:
    """Who leaned on whom, as a list: each event with the earlier one it attributions most, then the answer."""
    rows = []
    for at, row in enumerate(found.dependency):
        if any(row):
            best = max(range(len(row)), key=row.__getitem__)
            rows.append((show.one_line(found.values[at]), show.one_line(found.values[best]), f"{row[best]:.2f}"))
    if rows:
        heads = ("event", "leaned most on", "weight")
        show.table(heads, rows, wraps=heads[:2], title="weights: what the model leaned on, not causes")
    answer(found.answer)
