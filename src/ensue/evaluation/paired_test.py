"""The verdict: a paired test of the best model against the best baseline, by one metric, on the same resampled data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.rows import label
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
        baseline: the best baseline.
        metrics: those of the two.
        p_value: of their difference, two-sided.
        interval: 95 % interval of the difference, model less baseline.
        num_models: number of models that the best one was chosen from, on the test data.
        num_baselines: number of baselines that the best one was chosen from, on the test data.
    """

    measure: str
    model: str | None
    baseline: str
    metrics: tuple[float, float]
    p_value: float
    interval: tuple[float, float] = (0.0, 0.0)
    num_models: int = 1
    num_baselines: int = 1

    @property
    def winner(self) -> str | None:
        """The model or the baseline that is significantly better; ``None`` where neither is."""
        ours, theirs = self.metrics
        if self.model is None or ours == theirs or not is_significant(self.p_value):
            return None
        return self.model if ours > theirs else self.baseline

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
        metric, (ours, theirs) = label(self.measure), self.metrics
        baseline = f"{self.baseline} ({_chosen_from('baseline', self.num_baselines)})"
        if self.model is None:
            return f"only baselines were scored: {baseline} has the highest {metric} ({100 * theirs:.2f} %)"
        model = f"{self.model} ({_chosen_from('model', self.num_models)})" if self.num_models > 1 else self.model
        first, second, sign = (model, baseline, 1) if ours >= theirs else (baseline, model, -1)
        low, high = sorted(round(sign * 100 * bound, 2) + 0.0 for bound in self.interval)
        p_value = "p < .001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}".replace("0.", ".")
        relation = f"{first} is significantly better than {second}"
        if self.winner is None:
            relation = f"{first} and {second} do not differ significantly"
        difference = f"{metric} {100 * abs(ours - theirs):+.2f} points"
        return f"{relation}: {difference} (95 % CI {low:.2f} to {high:.2f}, {p_value})"


def _chosen_from(kind: str, number: int) -> str:
    """Return what a model is, with the number of candidates that it was the best of."""
    return f"best of {number} {kind}s" if number > 1 else kind


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
        difference = results[best_model].against(results[best_baseline], measure)
        tests.append(
            PairedTest(
                measure,
                names[best_model] if model_rows else None,
                names[best_baseline],
                (metrics[best_model], metrics[best_baseline]),
                difference["p_value"],
                (difference["low"], difference["high"]),
                len(model_rows),
                len(baseline_rows),
            )
        )
    return tuple(tests)
