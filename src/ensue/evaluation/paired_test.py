"""Who wins: the best model against the best counting row, by one measure, paired on the same resampled data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ensue.metrics import Floats

SURE = 0.05
"""A difference is called one where its p-value is below this."""


def p_value(ahead: Floats) -> float:
    """Two-sided: how often resampling turns (resamples,) differences round, or to nothing."""
    return float(min(1.0, 2 * (1 + min((ahead <= 0).sum(), (ahead >= 0).sum())) / (1 + len(ahead))))


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The best network and the best counting row by one measure."""

    measure: str
    model: str | None
    """``None`` where only counting models were scored."""
    counting: str
    figures: tuple[float, float]
    p_value: float

    @property
    def winner(self) -> str | None:
        """Who is ahead beyond what resampling explains; ``None`` where that is open."""
        ours, theirs = self.figures
        if self.model is None or ours == theirs or self.p_value >= SURE:
            return None
        return self.model if ours > theirs else self.counting

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form; counting models among themselves have no p-value."""
        return asdict(self) | {"winner": self.winner} | ({"p_value": None} if self.model is None else {})

    @property
    def sentence(self) -> str:
        """Its part of the verdict."""
        ours, theirs = (f"{100 * figure:.2f}" for figure in self.figures)
        name = self.measure.upper()
        if self.model is None:
            return f"by {name} no network among these rows; the best counting row is {self.counting}, {theirs}"
        between = f"{self.model} {ours}, the best counting row ({self.counting}) {theirs}"
        if self.winner is None:
            return f"by {name} neither wins: {between}, which may be chance (p = {self.p_value:.3f})"
        return f"by {name} {self.winner} wins: {between} (p = {self.p_value:.3f})"


def paired_tests(
    asked: Sequence[str],
    measures: Sequence[str],
    names: Sequence[str],
    counting: Collection[str],
    figures: Sequence[Floats],
    drawn: Sequence[Floats],
) -> tuple[PairedTest, ...]:
    """A duel for each measure that is asked.

    Args:
        asked: which measures.
        measures: the columns of what follows.
        names: the models.
        counting: which of them count.
        figures: (measures,) of each model.
        drawn: (resamples, measures) of each model, on the same resampled data.
    """
    found = []
    counted = [index for index, name in enumerate(names) if name in counting]
    others = [index for index in range(len(names)) if index not in counted]
    for measure in asked:
        column = measures.index(measure)
        scores = [float(own[column]) for own in figures]
        rival = max(counted, key=scores.__getitem__)
        ours = max(others, key=scores.__getitem__, default=rival)
        sure = p_value(drawn[ours][:, column] - drawn[rival][:, column])
        found.append(
            PairedTest(measure, names[ours] if others else None, names[rival], (scores[ours], scores[rival]), sure)
        )
    return tuple(found)
