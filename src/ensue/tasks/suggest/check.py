"""Checks of query logs: what a log holds, and warnings about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from ensue.data.leaks import before_the_last, begun_beside
from ensue.data.queries import Queries, QueriesReport
from ensue.data.schema import FindingRow, counts_text
from ensue.lines import cut, part_of, plural
from ensue.records import History
from ensue.tasks.suggest.privacy import Floor, prints
from ensue.vocabulary import FIRST

_MAX_ROWS = 3
_MAX_CHARACTERS = 80
_MAX_TURNS = 5


@dataclass(frozen=True, kw_only=True)
class QueryFindings:
    """Counts, a glance at the data, and warnings; goes into JSON by ``dataclasses.asdict``."""

    understood: QueriesReport
    sessions: int
    queries: int
    distinct: int
    mean_length: float
    """Queries a session."""
    longest: int
    mean_words: float
    parts: dict[str, int]
    """Sessions of each part that the file names."""
    floor: dict[str, Any]
    """The k-anonymity rule, and the number of distinct queries below it."""
    shown: float
    """Share of all queries typed that may be shown again."""
    rows: tuple[History, ...]
    """The first sessions, cut short; queries that look personal are left out."""
    splits: dict[str, float]
    """By the name of another file: the share of its pairs of queries that follow each other here too."""
    warnings: tuple[str, ...] = field(default=())

    def table(self) -> list[FindingRow]:
        """Return the findings for people, one row each."""
        num_below = self.floor["below"]
        personal = self.floor["personal"]
        return [
            ("sessions", f"{self.sessions:,}", counts_text(self.parts)),
            ("queries", f"{self.queries:,}", f"{self.distinct:,} distinct"),
            ("queries per session", f"mean {self.mean_length:.1f}, max {self.longest:,}", ""),
            ("words per query", f"mean {self.mean_words:.1f}", ""),
            ("can be suggested", f"{100 * self.shown:.1f} % of the queries", self.floor["rule"]),
            ("below the k-anonymity threshold", plural(num_below, "distinct query", "distinct queries"), ""),
            ("possible personal data", plural(personal, "distinct query", "distinct queries"), ""),
            *((name, f"{100 * share:.1f} % of its pairs", "also in this file") for name, share in self.splits.items()),
        ]


def check(
    queries: Queries, understood: QueriesReport, others: Mapping[str, Queries] | None = None, min_users: int = 5
) -> QueryFindings:
    """Count, show and warn.

    Args:
        queries: what a model would be trained on.
        understood: what the reader said of it.
        others: the other splits by name, such as ``{"test": …}``.
        min_users: the k-anonymity threshold.
    """
    histories = queries.histories
    floor = Floor.of(queries, min_users)
    values = pl.Series("query", histories.vocabulary.values, dtype=pl.String)
    ids = histories.ids.astype(np.int64) - FIRST
    words = values.str.count_matches(" ", literal=True).to_numpy().astype(np.int64) + 1
    shared = {name: _repeated(queries, other) for name, other in (others or {}).items()}
    leaks = [line for name, other in (others or {}).items() for line in leaks_between(queries, other, name, "here")]
    share_shown = float(floor.allowed(values)[ids].mean())
    return QueryFindings(
        understood=understood,
        sessions=len(queries),
        queries=len(ids),
        distinct=len(np.unique(ids)),
        mean_length=float(histories.lengths.mean()),
        longest=int(histories.lengths.max()),
        mean_words=float(words[ids].mean()),
        parts=dict(queries.parts.value_counts(sort=True).iter_rows()) if len(queries.parts) else {},
        floor=floor.facts,
        shown=share_shown,
        rows=tuple(_glance(queries, floor, row) for row in range(min(_MAX_ROWS, len(queries)))),
        splits=shared,
        warnings=(*understood.warnings, *_warnings(floor, share_shown, understood), *leaks, *_order(queries)),
    )


def leaks_between(queries: Queries, other: Queries, name: str, here: str = "in the training data") -> Iterator[str]:
    """Find leaks between the training data and another part: shared pairs of queries, and later times.

    Args:
        queries: what is trained on.
        other: the other part.
        name: what it is called.
        here: where the first part is.
    """
    if share := _repeated(queries, other):
        yield f"{100 * share:.1f} % of the pairs of {name} are {here} too: a model that memorises them scores well"
    if late := before_the_last(queries.histories, other.histories):
        count_text = part_of(late, len(other), "session", "begins", "begin", of=name, percent=True)
        yield f"{count_text} before the last {here}: training data is later than test data"


def _repeated(queries: Queries, other: Queries) -> float:
    """Share of the pairs of another part that follow each other here too."""
    pairs = prints(other.histories)
    return float(np.isin(pairs, np.unique(prints(queries.histories))).mean()) if len(pairs) else 0.0


def _order(queries: Queries) -> Iterator[str]:
    if num_adjacent := begun_beside(queries.histories):
        count_text = part_of(num_adjacent, len(queries), "session", "begins", "begin", percent=True)
        yield f"{count_text} the adjacent row: expanded prefixes contain each other's answers; give whole sessions"


def _glance(queries: Queries, floor: Floor, row: int) -> History:
    values = queries.histories.record(row).values[:_MAX_TURNS]
    fine = floor.allowed(values).tolist()
    texts = (
        value if is_shown else "(below the k-anonymity threshold)" for value, is_shown in zip(values, fine, strict=True)
    )
    return History(tuple(cut(value, _MAX_CHARACTERS) for value in texts))


def _warnings(floor: Floor, shown: float, understood: QueriesReport) -> Iterator[str]:
    if floor.counted == "sessions":
        yield ("no users: sessions are counted, and one person's habit can reach the k-anonymity threshold")
    if shown < 0.5:
        yield (
            f"{100 * (1 - shown):.1f} % of what was typed is below the k-anonymity threshold of {floor.min_users} "
            f"{floor.counted} and will never be suggested"
        )
    # Sessions that are too short or too long are removed on purpose.
    gone = sum(count for name, count in understood.dropped.items() if name not in ("short_sessions", "long_sessions"))
    if gone > understood.rows / 2:
        yield f"{part_of(gone, understood.rows, 'row', 'was', 'were')} removed by the cleaning rules"
