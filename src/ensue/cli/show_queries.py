"""How query logs and suggestions look in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ensue.answers import Answer, QueryExplanation
from ensue.cli import show
from ensue.lines import plural

if TYPE_CHECKING:
    from ensue.tasks.suggest.check import QueryFindings

_HEEDED = 3


def findings(found: QueryFindings) -> None:
    """The answer of ``ensue check``."""
    show.line(
        f"{plural(found.sessions, 'session')}, {plural(found.queries, 'query', 'queries')}, {found.distinct:,} "
        f"distinct; length mean {found.mean_length:.1f}, longest {found.longest:,}; words mean {found.mean_words:.1f}"
    )
    if found.parts:
        show.line(f"parts: {', '.join(f'{name or chr(45)} {count:,}' for name, count in found.parts.items())}")
    floor = found.floor
    show.line(
        f"floor: {100 * found.shown:.1f} % of what was typed may be suggested ({floor['rule']}); below "
        f"it {plural(floor['below'], 'distinct query', 'distinct queries')}; personal by looks: {floor['personal']:,}"
    )
    rows = (("  >  ".join(row.values),) for row in found.rows)
    show.table(("session",), rows, wraps=("session",), title="the first three, as understood")
    for name, share in found.splits.items():
        show.line(f"  {name}: {100 * share:.1f} % of its pairs stand here too")
    show.spoiling(found.warnings)


def answer(found: Answer) -> None:
    """The suggestions for one session, best first."""
    evidence = "leaned on (share; score drop when not read)"
    rows = (
        (str(rank), show.one_line(choice.value), f"{choice.score:.3f}", show.attended(choice))
        for rank, choice in enumerate(found.choices, 1)
    )
    if found.id:
        show.line(show.one_line(found.id))
    show.table(("#", "suggestion", "score", evidence), rows, wraps=("suggestion", evidence))
    popular = "" if found.events else ": nothing typed, so these are the queries typed most"
    few = "" if found.choices else "; nothing that fits reaches the privacy floor"
    show.line(f"{found.in_vocabulary} of {plural(found.events, 'query', 'queries')} with a known word{popular}{few}")


def explanation(found: QueryExplanation) -> None:
    """Each suggested word with the earlier words it leaned on most, then the suggestions."""
    words = [(word, place) for place, query in enumerate(found.words) for word in query]
    if found.weights:
        rows = []
        for word, row in zip(found.suggested, found.weights, strict=True):
            best = sorted(range(len(row)), key=lambda place: -row[place])[:_HEEDED]
            rows.append((word, "   ".join(f"{words[at][0]} ({words[at][1] + 1}, {row[at]:.2f})" for at in best)))
        heads = ("word", "leaned most on (query, share)")
        show.table(heads, rows, wraps=heads, title="weights: what the model leaned on, not causes")
    answer(found.answer)
