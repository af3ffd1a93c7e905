"""The return value of ``predict`` of an estimator: a sequence of answers, also as lists and as a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar, overload

import polars as pl

from ensue.answers import Choices
from ensue.lines import plural

A = TypeVar("A", bound=Choices, covariant=True)
_MAX_LISTED = 10


class Predictions(Sequence[A], Generic[A]):
    """One answer per query, in the order of the queries.

    Args:
        answers: one per query.

    Example:
        >>> from ensue import Answer, Choice, Predictions
        >>> predictions = Predictions([Answer((Choice("b", 0.5), Choice("c", 0.25)))])
        >>> predictions.values, predictions.scores
        ([['b', 'c']], [[0.5, 0.25]])
    """

    def __init__(self, answers: Sequence[A]) -> None:
        self._answers = tuple(answers)

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self._answers)

    @overload
    def __getitem__(self, index: int) -> A: ...
    @overload
    def __getitem__(self, index: slice) -> Predictions[A]: ...
    def __getitem__(self, index: int | slice) -> A | Predictions[A]:
        """Return the answer to one query, or the predictions of several."""
        return Predictions(self._answers[index]) if isinstance(index, slice) else self._answers[index]

    @property
    def values(self) -> list[list[str]]:
        """(queries, up to k) ids, queries or articles, best first."""
        return [[choice.value for choice in answer.choices] for answer in self._answers]

    @property
    def scores(self) -> list[list[float]]:
        """(queries, up to k) scores, falling within a query."""
        return [[choice.score for choice in answer.choices] for answer in self._answers]

    def to_frame(self) -> pl.DataFrame:
        """Return a polars frame with one row per choice: ``query``, ``rank`` from 1, ``value``, ``score``.

        Where items have titles, there is a column ``title`` too.

        ``query`` is the id of the query where it has one, and its position from 0 where no query has.
        """
        has_ids = any(answer.id for answer in self._answers)
        lengths = [len(answer.choices) for answer in self._answers]
        queries = pl.Series("query", [answer.id if has_ids else i for i, answer in enumerate(self._answers)])
        titles = [getattr(choice, "title", "") for answer in self._answers for choice in answer.choices]
        # One row per choice: the query of an answer is repeated for each of its choices.
        frame = pl.DataFrame(
            {
                "query": queries.gather([i for i, length in enumerate(lengths) for _ in range(length)])
                if lengths
                else pl.Series("query", [], dtype=pl.Int64),
                "rank": pl.Series([rank for length in lengths for rank in range(1, length + 1)], dtype=pl.Int64),
                "value": pl.Series([value for row in self.values for value in row], dtype=pl.String),
                "score": pl.Series([score for row in self.scores for score in row], dtype=pl.Float64),
            }
        )
        return frame.with_columns(pl.Series("title", titles)) if any(titles) else frame

    def __repr__(self) -> str:
        """Return the number of queries and the first answers, one per line."""
        lines = [f"Predictions({plural(len(self), 'query', 'queries')})", *map(repr, self._answers[:_MAX_LISTED])]
        return "\n".join([*lines, *(["…"] if len(self) > _MAX_LISTED else [])])

    def _repr_html_(self) -> str:
        """Return the first answers as tables, for a notebook."""
        return "".join(answer._repr_html_() for answer in self._answers[:_MAX_LISTED])
