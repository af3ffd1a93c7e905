"""How query logs and suggestions look in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ensue.answers import Answer, QueryExplanation
from ensue.cli import display
from ensue.lines import plural

if TYPE_CHECKING:
    from ensue.tasks.suggest.check import QueryFindings

_ATTENDED = 3


def findings(found: QueryFindings) -> None:
    """The answer of ``ensue check``."""
    display.line(
        f"{plural(found.sessions, 'session')}, {plural(found.queries, 'query', 'queries')}, {found.distinct:,} "
        f"distinct; queries per session: mean {found.mean_length:.1f}, max {found.longest:,}; "
        f"words per query: mean {found.mean_words:.1f}"
    )
    if found.parts:
        display.line(f"parts: {', '.join(f'{name or chr(45)} {count:,}' for name, count in found.parts.items())}")
    floor = found.floor
    display.line(
        f"k-anonymity threshold: {100 * found.shown:.1f} % of the queries may be suggested ({floor['rule']}); "
        f"below it: {plural(floor['below'], 'distinct query', 'distinct queries')}; "
        f"with possible personal data: {floor['personal']:,}"
    )
    rows = (("  >  ".join(row.values),) for row in found.rows)
    display.table(("session",), rows, wraps=("session",), title="first sessions")
    for name, share in found.splits.items():
        display.line(f"  {name}: {100 * share:.1f} % of its pairs are also in this file")
    display.problems(found.warnings)


def answer(found: Answer) -> None:
    """The suggestions for one session, best first."""
    rows = (
        (str(rank), display.one_line(choice.value), f"{choice.score:.3f}", display.attributions_text(choice))
        for rank, choice in enumerate(found.choices, 1)
    )
    if found.id:
        display.line(display.one_line(found.id))
    display.table(("#", "query", "score", display.ATTRIBUTIONS), rows, wraps=("query", display.ATTRIBUTIONS))
    popular = "" if found.events else "; nothing is typed: the most frequent queries"
    few = "" if found.choices else "; no matching query reaches the k-anonymity threshold"
    queries = plural(found.events, "query", "queries")
    display.line(f"in vocabulary (at least one word): {found.in_vocabulary} of {queries}{popular}{few}")


def explanation(found: QueryExplanation) -> None:
    """Each suggested word with the earlier words it leaned on most, then the suggestions."""
    words = [(word, place) for place, query in enumerate(found.words) for word in query]
    if found.weights:
        rows = []
        for word, row in zip(found.suggested, found.weights, strict=True):
            best = sorted(range(len(row)), key=lambda place: -row[place])[:_ATTENDED]
            rows.append((word, "   ".join(f"{words[at][0]} ({words[at][1] + 1}, {row[at]:.2f})" for at in best)))
        heads = ("word", "attends most to (query, weight)")
        display.table(heads, rows, wraps=heads, title="attention weights (not causes)")
    answer(found.answer)
