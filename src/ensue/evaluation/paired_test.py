"""Who wins: the best model against the best counting row, by one measure, paired on the same resampled data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ensue.evaluation.bootstrap import BootstrapResult, p_value
from ensue.metrics import Floats

SURE = 0.05
"""A difference is called one where its p-value is below this."""


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
    counting: Collection[str],
    names: Sequence[str],
    found: Sequence[BootstrapResult],
    level: Callable[[Floats], float] = p_value,
) -> tuple[PairedTest, ...]:
    """A duel for each measure that is asked.

    Args:
        asked: which measures.
        counting: which models count.
        names: the models.
        found: of each model, on the same resampled data.
        level: the p-value of (resamples,) differences.
    """
    tests = []
    counted = [index for index, name in enumerate(names) if name in counting]
    others = [index for index, name in enumerate(names) if name not in counting]
    for measure in asked:
        figures = [own.by_name()[measure] for own in found]
        rival = max(counted, key=figures.__getitem__)
        ours = max(others, key=figures.__getitem__, default=rival)
        sure = level(found[ours].ahead(found[rival], measure))
        model = names[ours] if others else None
        tests.append(PairedTest(measure, model, names[rival], (figures[ours], figures[rival]), sure))
    return tuple(tests)
