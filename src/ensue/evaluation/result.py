"""What every evaluator gives: a protocol card, a row a model, and who wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, Generic, Protocol, TypeVar

import polars as pl

from ensue.evaluation import export
from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.entries import Entry
from ensue.evaluation.examples import Examples
from ensue.evaluation.paired_test import PairedTest
from ensue.evaluation.rows import Json, Row
from ensue.evaluation.verdicts import Verdict, verdicts


class Card(Protocol):
    """What the figures mean: stands beside every table."""

    __dataclass_fields__: ClassVar[Json]

    @property
    def name(self) -> str:
        """Of the protocol."""
        ...

    @property
    def interval(self) -> str:
        """What is resampled, for people."""
        ...


CHOSEN = "the best are chosen on this test data"
"""End of a verdict between models or baselines of which the best was chosen by its metric on the test data."""
CARD = TypeVar("CARD", bound=Card, covariant=True)
OWN = TypeVar("OWN", bound=Card)
RUN = TypeVar("RUN")


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[CARD]):
    """A table, its card, and whether a network or counting wins."""

    task: ClassVar[str]

    protocol: CARD
    rows: tuple[Row, ...]
    paired_tests: tuple[PairedTest, ...]
    """One for each measure that the verdict goes by."""
    drawn: tuple[BootstrapResult, ...] = field(default=(), repr=False, compare=False)
    """What resampling found of each row, on the same draws."""
    leaks: tuple[str, ...] = ()
    """What of the figures may have been read off, a line each."""
    examples: Examples | None = field(default=None, repr=False, compare=False)
    """What each model made of each thing that was scored."""

    def __repr__(self) -> str:
        """Two lines: what it is, and who wins."""
        return f"{type(self).__name__}({self.protocol.name}: {len(self.rows)} rows)\n{self.verdict}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return export.to_html(self)

    @property
    def model(self) -> str | None:
        """The best model by the first of them; ``None`` where only baselines were scored."""
        return self.paired_tests[0].model

    @property
    def best_baseline(self) -> str:
        """The best baseline by the first of them."""
        return self.paired_tests[0].baseline

    @property
    def p_value(self) -> float:
        """The two-sided p-value of the first difference."""
        return self.paired_tests[0].p_value

    @property
    def winner(self) -> str | None:
        """The model or baseline that is significantly better by the first of them; ``None`` where neither is."""
        return self.paired_tests[0].winner

    @property
    def beats_baselines(self) -> bool:
        """Whether a model that is not a baseline is significantly better by the first of them."""
        return self.winner is not None and self.winner == self.model

    @property
    def verdict(self) -> str:
        """The line under the table."""
        chosen = any(test.is_chosen_on_test_data for test in self.paired_tests)
        return "; ".join([*(test.sentence for test in self.paired_tests), *([CHOSEN] if chosen else [])])

    @property
    def shown(self) -> list[str]:
        """The figures that a card shows."""
        return list(self.rows[0].figures)

    @property
    def card(self) -> dict[str, str]:
        """What the figures mean, by name; without lines that say nothing of this table."""
        return {name: line for name, line in asdict(self.protocol).items() if line != ""}

    def verdicts(self, measure: str = "") -> tuple[Verdict, ...]:
        """Every pair of rows on the same resampled data, corrected after Holm over all pairs.

        Args:
            measure: by which; that of the verdict unless stated.
        """
        return verdicts([row.model for row in self.rows], self.drawn, measure or self.paired_tests[0].measure)

    def to_frame(self, measures: Sequence[str] = ()) -> pl.DataFrame:
        """A row a model: measures as fractions, and the ends of their 95 %."""
        return export.to_frame(self, measures)

    def to_csv(self, measures: Sequence[str] = ()) -> str:
        """The same as CSV."""
        return self.to_frame(measures).write_csv()

    def to_markdown(self, measures: Sequence[str] = ()) -> str:
        """A table for Markdown, figures x 100, and the protocol below it."""
        return export.to_markdown(self, measures)

    def to_latex(self, measures: Sequence[str] = ()) -> str:
        """A table for LaTeX (``booktabs``): the best of a column in bold, the protocol in the caption."""
        return export.to_latex(self, measures)

    def outcome(self) -> Json:
        """Return the paired tests as JSON, and the first of them flat."""
        return {
            "paired_tests": [test.to_dict() for test in self.paired_tests],
            "best_baseline": self.best_baseline,
            "beats_baselines": self.beats_baselines,
            "winner": self.winner,
            "p_value": None if self.model is None else self.p_value,
        }

    def to_dict(self) -> Json:
        """The JSON object that ``evaluate --json`` and ``compare --json`` print."""
        return {
            "task": self.task,
            "protocol": self.card,
            "rows": [row.to_dict() for row in self.rows],
            **self.outcome(),
            "verdict": self.verdict,
            **({"leaks": [*self.leaks]} if self.leaks else {}),
        }


def with_seeds(card: OWN, entries: Sequence[Entry[RUN]]) -> OWN:
    """The card, which says so where intervals resample seeds too."""
    several = any(len(entry.seeds) > 1 for entry in entries)
    return replace(card, interval=f"{card.interval}; seeds are resampled too") if several else card
