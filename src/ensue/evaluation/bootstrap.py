"""Resampling of test data, and the significance tests that use it.

Test data is resampled by whole units (a session, a group of texts, an article with its posts), the same for all models;
of each model its seeds are resampled too. The orders of drawing differ in how they use the same random numbers: the
numbers printed under an order are reproduced by it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from ensue.data.histories import Index
from ensue.metrics import UNBOUNDED, Floats, label
from ensue.significance import LEVEL, is_significant, normal_p_value, resampled_p_value

RESAMPLES = 1000
Order = Literal["in turn", "units first", "multinomial"]
"""``in turn``: the units of one resample, then its seeds, then the next one. ``units first``: the units of all
resamples, then all seeds. ``multinomial``: as ``units first``, units from their multinomial distribution."""
Statistic = Callable[[Floats], Floats]
"""From (draws, units) how often each unit is drawn, the (draws, metrics) of one model with one seed."""
RULE = (
    f"paired and two-sided, on the same resamples; significant is p < {f'{LEVEL:g}'.lstrip('0')}; the best model and "
    "the best baseline are chosen by their metrics on this test data"
)
"""The significance rule of every task, for cards."""
_BLOCK = 1 << 20
"""Maximum size of a block of draws: bounds the memory."""


@dataclass(frozen=True, eq=False)
class BootstrapResult:
    """The metrics of one model, and the same on resampled data.

    Args:
        names: of the metrics.
        by_seed: (seeds, metrics).
        draws: (resamples, metrics); draw number r is of the same test data for all models.
        num_units: number of units that are resampled, if known.
    """

    names: tuple[str, ...]
    by_seed: Floats
    draws: Floats
    num_units: int | None = None

    def by_name(self) -> dict[str, float]:
        """Return the means over seeds by metric."""
        return dict(zip(self.names, self.by_seed.mean(0).tolist(), strict=True))

    def interval(self, *, centred: bool = False) -> dict[str, tuple[float, float]]:
        """Return the 95 % interval of each metric.

        Args:
            centred: move the draws so that their mean is the metric, within the bounds of the metric: for metrics that
                resampling biases.
        """
        draws, means = self.draws, self.by_seed.mean(0)
        if centred:
            upper = [np.inf if name in UNBOUNDED else 1.0 for name in self.names]
            draws = np.clip(draws - draws.mean(0) + means, 0.0, upper)
        low, high = np.percentile(draws, [2.5, 97.5], axis=0)
        if centred:
            low, high = np.minimum(low, means), np.maximum(high, means)
        return dict(zip(self.names, zip(low.tolist(), high.tolist(), strict=True), strict=True))

    def differences(self, other: BootstrapResult, metric: str) -> Floats:
        """Return the (resamples,) differences to another model on the same draws."""
        column = self.names.index(metric)
        return self.draws[:, column] - other.draws[:, column]

    def p_value(self, other: BootstrapResult, metric: str) -> float:
        """Return the two-sided p-value of the difference to another model on the same draws."""
        return resampled_p_value(self.differences(other, metric), self.num_units)

    def against(self, other: BootstrapResult, metric: str) -> dict[str, float]:
        """Return the difference to another model, its 95 % interval, the ratio of the two and the two-sided p-value."""
        low, high = np.percentile(self.differences(other, metric), [2.5, 97.5])
        value = self.by_name()[metric]
        reference = other.by_name()[metric]
        return {
            "difference": value - reference,
            "low": float(low),
            "high": float(high),
            "ratio": value / reference if reference else float("inf"),
            "p_value": self.p_value(other, metric),
        }


def bootstrap(
    names: Sequence[str],
    models: Sequence[Sequence[Statistic]],
    num_units: int,
    order: Order,
    *,
    num_counted: int | None = None,
    resamples: int | None = None,
) -> list[BootstrapResult]:
    """Return the metrics of each model, and the same on resampled data.

    Args:
        names: of the metrics.
        models: by model, the statistic of each seed.
        num_units: number of units that are drawn.
        order: of drawing.
        num_counted: number of units for p-values. [default: all units]
        resamples: number of resamples. [default: ``RESAMPLES``]
    """
    num_resamples = RESAMPLES if resamples is None else resamples
    random = np.random.default_rng(0)
    seeds: list[list[Index]] = [[] for _ in models]
    values: list[list[Floats]] = [[] for _ in models]
    # Draws are made in blocks, since all of them at once would not fit into memory on large test data.
    block = max(1, _BLOCK // num_units)
    for start in range(0, num_resamples, block):
        times = np.empty((min(block, num_resamples - start), num_units))
        for row in times:
            row[:] = _draw_units(random, num_units, order)
            if order == "in turn":
                for numbers, model in zip(seeds, models, strict=True):
                    numbers.append(random.integers(len(model), size=len(model)))
        for blocks, model in zip(values, models, strict=True):
            blocks.append(np.stack([statistic(times) for statistic in model]))
    results = []
    for numbers, blocks, model in zip(seeds, values, models, strict=True):
        draws = np.concatenate(blocks, axis=1)  # (seeds, resamples, metrics)
        if order == "units first":
            numbers = [*random.integers(len(model), size=(num_resamples, len(model)))]
        means = resample_seeds(draws) if order == "multinomial" else _mean_of_seeds(draws, np.stack(numbers))
        by_seed = np.concatenate([statistic(np.ones((1, num_units))) for statistic in model])
        results.append(BootstrapResult(tuple(names), by_seed, means, num_counted or num_units))
    return results


def _draw_units(random: np.random.Generator, num_units: int, order: Order) -> Floats | Index:
    """Return the (units,) number of times that each unit is drawn in one resample."""
    if order == "multinomial":
        return random.multinomial(num_units, np.full(num_units, 1 / num_units))
    return np.bincount(random.integers(num_units, size=num_units), minlength=num_units)


def resample_seeds(draws: Floats) -> Floats:
    """Return (resamples, metrics) means over seeds that are drawn independently of other models.

    Args:
        draws: (seeds, resamples, metrics) of one model.
    """
    return _mean_of_seeds(draws, np.random.default_rng(1).integers(len(draws), size=draws.shape[:2]).T)


def _mean_of_seeds(draws: Floats, numbers: Index) -> Floats:
    """Return (resamples, metrics) means of (seeds, resamples, metrics) over the (resamples, seeds) drawn ones."""
    return draws[numbers.T, np.arange(len(numbers))].mean(0)


def means_over_units(columns: Floats, units: Index, num_units: int, *, macro: bool = False) -> Statistic:
    """Return the statistic of metrics that are means over examples.

    Args:
        columns: (examples, metrics); NaN where an example does not count for a metric.
        units: (examples,) number of the unit of each example.
        num_units: number of units, those without examples included.
        macro: average over the examples of a unit first, then over units; else over all examples.
    """
    is_counted = ~np.isnan(columns)
    # Units are drawn whole, so sums by unit are all that a resample needs.
    sums = np.stack([np.bincount(units, column, num_units) for column in np.where(is_counted, columns, 0.0).T], axis=1)
    every_column = is_counted if not is_counted.all() else is_counted[:, :1]
    counts = np.stack([np.bincount(units, column, num_units) for column in every_column.T], axis=1)
    if macro:
        sums = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        counts = (counts > 0).astype(np.float64)

    def statistic(times: Floats) -> Floats:
        # Metrics of every draw in two products: weighted sums, and weighted counts to divide by.
        totals = times @ counts
        return times @ sums / np.where(totals > 0, totals, 1.0)

    return statistic


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
        score, baseline_score = self.metrics
        if self.model is None or score == baseline_score or not is_significant(self.p_value):
            return None
        return self.model if score > baseline_score else self.baseline

    @property
    def is_chosen_on_test_data(self) -> bool:
        """True where one of the two was chosen among several by its metric on the test data."""
        return self.model is not None and max(self.num_models, self.num_baselines) > 1

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form; baselines among themselves have no p-value."""
        row = asdict(self) | {"winner": self.winner, "chosen_on_test_data": self.is_chosen_on_test_data}
        return row | ({"p_value": None} if self.model is None else {})

    @property
    def sentence(self) -> str:
        """One part of the verdict."""
        metric = label(self.measure)
        score, baseline_score = self.metrics
        baseline = f"{self.baseline} ({_chosen_from('baseline', self.num_baselines)})"
        if self.model is None:
            if not baseline_score:
                return f"only baselines were scored: none has a {metric} above 0"
            return f"only baselines were scored: {baseline} has the highest {metric} ({100 * baseline_score:.2f} %)"
        model = f"{self.model} ({_chosen_from('model', self.num_models)})" if self.num_models > 1 else self.model
        first, second, sign = (model, baseline, 1) if score >= baseline_score else (baseline, model, -1)
        # Swapping the two models mirrors the interval; adding 0.0 turns -0.0 into 0.0.
        low, high = sorted(round(sign * 100 * bound, 2) + 0.0 for bound in self.interval)
        p_value = "p < .001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}".replace("0.", ".")
        relation = f"{first} is significantly better than {second}"
        if self.winner is None:
            relation = f"{first} and {second} do not differ significantly"
        difference = f"{metric} {100 * abs(score - baseline_score):+.2f} points"
        return f"{relation}: {difference} (95 % CI {low:.2f} to {high:.2f}, {p_value})"


def _chosen_from(kind: str, number: int) -> str:
    """Return what a model is, with the number of candidates that it was the best of."""
    return f"best of {number} {kind}s" if number > 1 else kind


def paired_tests(
    metrics: Sequence[str], baselines: Collection[str], names: Sequence[str], results: Sequence[BootstrapResult]
) -> tuple[PairedTest, ...]:
    """Return a test of the best model against the best baseline for each metric.

    Args:
        metrics: names of metrics.
        baselines: names of the models that are baselines.
        names: (rows,) names of the models.
        results: (rows,) of each model, on the same resampled data.
    """
    tests = []
    baseline_rows = [row for row, name in enumerate(names) if name in baselines]
    model_rows = [row for row, name in enumerate(names) if name not in baselines]
    for metric in metrics:
        values = [result.by_name()[metric] for result in results]
        best_baseline = max(baseline_rows, key=values.__getitem__)
        # Without a model, the best baseline is compared with itself.
        best_model = max(model_rows, key=values.__getitem__, default=best_baseline)
        difference = results[best_model].against(results[best_baseline], metric)
        tests.append(
            PairedTest(
                metric,
                names[best_model] if model_rows else None,
                names[best_baseline],
                (values[best_model], values[best_baseline]),
                difference["p_value"],
                (difference["low"], difference["high"]),
                len(model_rows),
                len(baseline_rows),
            )
        )
    return tuple(tests)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The paired test of two models by one metric, the better one first.

    Attributes:
        measure: name of the metric.
        model: the better model.
        other: the other one.
        difference: of the two.
        low: lower end of the 95 % interval of the difference, not corrected.
        high: upper end of it.
        p_value: two-sided, from the standard deviation of the resampled differences.
        corrected: the p-value after Holm's (1979) correction over all pairs of the table.
    """

    measure: str
    model: str
    other: str
    difference: float
    low: float
    high: float
    p_value: float
    corrected: float

    @property
    def sure(self) -> bool:
        """True where the difference is significant after the correction."""
        return is_significant(self.corrected)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form."""
        return {**asdict(self), "sure": self.sure}


def verdicts(names: Sequence[str], results: Sequence[BootstrapResult], metric: str) -> tuple[Verdict, ...]:
    """Return a paired test of each pair of models, the lowest p-value first.

    Args:
        names: of the models.
        results: of each model, on the same resampled data.
        metric: that they are compared by.
    """
    # Every pair of rows once, the better one first.
    pairs = []
    for row, column in combinations(range(len(names)), 2):
        is_ahead = results[row].by_name()[metric] >= results[column].by_name()[metric]
        first, second = (row, column) if is_ahead else (column, row)
        difference = results[first].against(results[second], metric)
        deviation = float(results[first].differences(results[second], metric).std())
        p_value = normal_p_value(difference["difference"], deviation, results[first].num_units)
        pairs.append((names[first], names[second], difference, p_value))
    corrected = holm(np.array([p_value for *_, p_value in pairs]))
    tests = [
        Verdict(metric, model, other, pair["difference"], pair["low"], pair["high"], p_value, float(p_corrected))
        for (model, other, pair, p_value), p_corrected in zip(pairs, corrected, strict=True)
    ]
    return tuple(sorted(tests, key=lambda test: (test.p_value, -test.difference)))


def holm(p_values: Floats) -> Floats:
    """Return (tests,) p-values corrected by Holm's step-down method (Scand. J. Statist. 6, 1979).

    The p-values .01 .04 .03 become .03 .06 .06: the smallest is multiplied by three, the next by two, and none may be
    below a smaller one.
    """
    order = np.argsort(p_values, kind="stable")
    # Running maximum: a corrected p-value is never below a smaller one.
    steps = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(steps, 1.0)
    return corrected
