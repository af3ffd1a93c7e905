"""What the tables of every task are made of: a row a model, its intervals, and the Markdown of the card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ensue.metrics import Floats

RESAMPLES = 1000
PLAIN = ("log_loss",)
"""Measures that are no fractions: shown as they are, the others x 100."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model's figures, as fractions, with 95 % intervals by measure."""

    model: str
    figures: Mapping[str, float]
    interval: Mapping[str, tuple[float, float]]
    seconds_per_1000: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    warning: str = ""
    """Says so where the figures are not above those of a random order (of texts: of the most frequent label)."""

    def to_dict(self) -> dict[str, Any]:
        """Flat JSON form: ``{"model", "mrr", …, "interval": {…}}``; ``"below_chance": true`` where a warning stands."""
        below = {"below_chance": True} if self.warning else {}
        speed = {} if self.seconds_per_1000 is None else {"seconds_per_1000": self.seconds_per_1000}
        return {"model": self.model, **self.figures, "interval": dict(self.interval), **speed, **self.notes, **below}


class Rows(Protocol):
    """Whatever has rows."""

    @property
    def rows(self) -> Sequence[Row]:
        """A row a model."""
        ...


def intervals(resampled: Floats) -> list[tuple[float, float]]:
    """The middle 95 % of (resamples, measures), a pair a measure."""
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def cell(row: Row, name: str, between: str = " ± ") -> str:
    """One figure with the half-width of its interval."""
    low, high = row.interval[name]
    scale, digits = (1, 3) if name in PLAIN else (100, 2)
    return f"{scale * row.figures[name]:.{digits}f}{between}{scale * (high - low) / 2:.{digits}f}"


def table(result: Rows, measures: Sequence[str]) -> str:
    """A Markdown table, figures x 100 with the half-width of their interval; below it what is not above chance."""
    lines = [f"| model | {' | '.join(measures)} |", "|---" * (1 + len(measures)) + "|"]
    for row in result.rows:
        cells = [cell(row, name) for name in measures]
        lines.append(f"| {row.model}{' (chance!)' if row.warning else ''} | {' | '.join(cells)} |")
    return "\n".join([*lines, *(f"\nWarning: {row.warning}" for row in result.rows if row.warning)])
