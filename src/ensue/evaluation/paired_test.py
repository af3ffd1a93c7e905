"""The verdict: a paired test of the best model against the best baseline, by one metric, on the same resampled data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.rows import figure, label
from ensue.significance import LEVEL, is_significant

RULE = (
    f"paired and two-sided, on the same resamples; significant is p < {f'{LEVEL:g}'.lstrip('0')}; the best model and "
    "the best baseline are chosen by their metrics on this test data"
)
"""The significance rule of every task, for cards."""


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The best model and the best baseline by one metric.

    Attributes:
        measure: name of the metric.
        model: the best model that is not a baseline; ``None`` where only baselines were scored.
        counting: the best baseline.
        figures: metrics of the two.
        p_value: of their difference, two-sided.
        num_models: number of models that the best one was chosen from, on the test data.
        num_baselines: number of baselines that the best one was chosen from, on the test data.
    """

    measure: str
    model: str | None
    counting: str
    figures: tuple[float, float]
    p_value: float
    num_models: int = 1
    num_baselines: int = 1

    @property
    def winner(self) -> str | None:
        """The model or the baseline that is significantly better; ``None`` where neither is."""
        ours, theirs = self.figures
        if self.model is None or ours == theirs or not is_significant(self.p_value):
            return None
        return self.model if ours > theirs else self.counting

    @property
    def is_chosen_on_test_data(self) -> bool:
        """Whether one of the two that are tested was chosen among several by its metric on the test data."""
        return self.model is not None and max(self.num_models, self.num_baselines) > 1

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; baselines among themselves have no p-value."""
        row = asdict(self) | {"winner": self.winner, "chosen_on_test_data": self.is_chosen_on_test_data}
        return row | ({"p_value": None} if self.model is None else {})

    @property
    def sentence(self) -> str:
        """One part of the verdict."""
        metric = label(self.measure)
        ours, theirs = (figure(value, self.measure) for value in self.figures)
        baseline = _Side("baseline", self.counting, self.num_baselines)
        if self.model is None:
            return f"by {metric} no network was compared; {baseline.apart} has {theirs}"
        model = _Side("model", self.model, self.num_models)
        level = f"(p = {self.p_value:.3f})"
        if self.winner is None:
            return f"by {metric} {model.scored(ours)} and {baseline.scored(theirs)} do not differ significantly {level}"
        better, worse = model.scored(ours), f"{baseline.name_or_best} ({theirs})"
        if self.winner == self.counting:
            better, worse = baseline.scored(theirs), f"{model.name_or_best} ({ours})"
        return f"by {metric} {better} is significantly better than {worse} {level}"


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a paired test, as a sentence names it."""

    kind: str
    name: str
    number: int

    @property
    def name_or_best(self) -> str:
        """The name, with the number of models or baselines that it was chosen from."""
        if self.number > 1:
            return f"the best of {self.number} {self.kind}s, {self.name}"
        return f"the baseline {self.name}" if self.kind == "baseline" else self.name

    @property
    def apart(self) -> str:
        """The same where a verb follows."""
        return f"{self.name_or_best}," if self.number > 1 else self.name_or_best

    def scored(self, metric: str) -> str:
        """Return the same with its metric, where a verb follows."""
        return f"{self.name_or_best} ({metric})" + ("," if self.number > 1 else "")


def paired_tests(
    measures: Sequence[str], baselines: Collection[str], names: Sequence[str], results: Sequence[BootstrapResult]
) -> tuple[PairedTest, ...]:
    """Return a test of the best model against the best baseline for each measure.

    Args:
        measures: names of metrics.
        baselines: names of the models that are baselines.
        names: (rows,) names of the models.
        results: (rows,) of each model, on the same resampled data.
    """
    tests = []
    baseline_rows = [row for row, name in enumerate(names) if name in baselines]
    model_rows = [row for row, name in enumerate(names) if name not in baselines]
    for measure in measures:
        metrics = [result.by_name()[measure] for result in results]
        best_baseline = max(baseline_rows, key=metrics.__getitem__)
        best_model = max(model_rows, key=metrics.__getitem__, default=best_baseline)
        tests.append(
            PairedTest(
                measure,
                names[best_model] if model_rows else None,
                names[best_baseline],
                (metrics[best_model], metrics[best_baseline]),
                results[best_model].p_value(results[best_baseline], measure),
                len(model_rows),
                len(baseline_rows),
            )
        )
    return tuple(tests)
