"""The examples of a data set, the predictions of models for them, and their metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
import polars as pl

from ensue.data.histories import Index, Mask
from ensue.data.rankings import Rankings
from ensue.evaluation.bootstrap import BootstrapResult, Order, Statistic, bootstrap, means_over_units
from ensue.metrics import Floats
from ensue.predictor import AnyPredictor

Json = dict[str, Any]
"""A JSON object."""
P = TypeVar("P", bound=AnyPredictor)
S = TypeVar("S", bound="Scored")
Entries: TypeAlias = Sequence[Sequence[P]]
"""Fitted predictors, by model and seed."""


class Scored:
    """Predictions of one model with one seed for the examples of a data set; a dataclass per task."""

    seconds: float
    """Time of all predictions."""

    def metrics(self) -> Mapping[str, Floats]:
        """Return (examples,) of each metric that is a mean over examples; NaN where an example does not count."""
        raise NotImplementedError

    def pooled(self, weights: Floats) -> Mapping[str, Floats]:
        """Return (draws,) of each other metric, from (draws, examples) how often each example counts."""
        return {}

    def answers(self) -> Mapping[str, pl.Series]:
        """Return the columns of a table with one row per example."""
        raise NotImplementedError


class Examples(Generic[P, S]):
    """The examples of a data set that a task scores; one class per task, which a ``Task`` names as its evaluator.

    It is made of the predictors (by model and seed), the data, the rankings of other programs, and the options of the
    task, such as a protocol.

    Attributes:
        choices: the values of each option that has a fixed list, by name of the option.
        order: of resampling.
        macro: whether means are over the examples of a unit first, then over units.
        centred: whether intervals are centred at the metrics.
        names: of all metrics, in the order of the table.
        table_metrics: those that a card and a table for a paper show.
        tested: those of the paired tests.
        units: (examples,) number of the unit that each example is resampled with.
        num_units: number of units, those without examples included.
        baselines: names of the baselines that are reported next to every model.
        baseline_predictors: the predictors that have the baselines.
        derived: rows that are a re-ranking of the row of a model, by name; no paired test chooses them.
    """

    choices: ClassVar[Mapping[str, Collection[str]]] = {}
    order: ClassVar[Order]
    macro = False
    centred = False
    derived: Mapping[str, str] = {}
    names: Sequence[str]
    table_metrics: Sequence[str]
    tested: Sequence[str]
    units: Index
    num_units: int
    baselines: Sequence[str]
    baseline_predictors: Sequence[P]

    def score(self, predictor: P, component: str | None = None) -> S:
        """Score a predictor, or a baseline or another part of it."""
        raise NotImplementedError

    def score_rankings(self, rankings: Rankings) -> S:
        """Score what another program ranked."""
        raise NotImplementedError

    def variants(self, predictors: Sequence[P]) -> Sequence[tuple[str, Sequence[P]]]:
        """Return further rows of a model: the part of the predictors, which is the name of the row."""
        return ()

    def frame(self) -> pl.DataFrame:
        """Return one row per example: its ``id``, its ``unit``, and the true answer."""
        raise NotImplementedError

    def notes(self, runs: Sequence[S]) -> Json:
        """Return what a row says besides its metrics, from each seed of the model."""
        return {}

    def warning(self, name: str, result: BootstrapResult, results: Mapping[str, BootstrapResult]) -> str:
        """Return a sentence where the result of a row is not significantly better than chance."""
        return ""

    def card(self, run: S) -> dict[str, str]:
        """Return what the metrics mean, by name; ``interval`` names the units, ``run`` is of the first predictor."""
        raise NotImplementedError

    def line(self, name: str, predictors: Sequence[P], component: str | None = None) -> ScoredModel:
        """Score a model, or a part of it, with each of its seeds."""
        seeds = [predictor.seed for predictor in predictors]
        return ScoredModel(name, [self.score(predictor, component) for predictor in predictors], seeds)

    def bootstrap(self, lines: Sequence[ScoredModel]) -> list[BootstrapResult]:
        """Return the metrics of each line, and the same on resampled data."""
        statistics = [
            [statistic_of(run, self.names, self.units, self.num_units, macro=self.macro) for run in line.runs]
            for line in lines
        ]
        num_counted = len(np.unique(self.units))
        return bootstrap(self.names, statistics, self.num_units, self.order, num_counted=num_counted)


@dataclass(frozen=True, slots=True)
class ScoredModel:
    """One model that is scored.

    Attributes:
        name: of its row.
        runs: one per seed.
        seeds: of the trainings.
        rankings: of another program; ``None`` for ours.
    """

    name: str
    runs: Sequence[Scored]
    seeds: Sequence[int]
    rankings: Rankings | None = None

    def seed_notes(self, result: BootstrapResult) -> Json:
        """Return the metrics of each seed and their standard deviation; nothing for a single seed."""
        if len(self.seeds) < 2:
            return {}
        by_seed = [
            {"seed": seed, **dict(zip(result.names, values, strict=True))}
            for seed, values in zip(self.seeds, result.by_seed.tolist(), strict=True)
        ]
        # ddof=1: the seeds are a sample of all trainings.
        spread = dict(zip(result.names, np.std(result.by_seed, axis=0, ddof=1).tolist(), strict=True))
        return {"seeds": len(self.seeds), "by_seed": by_seed, "spread": spread}


@dataclass(frozen=True, eq=False)
class PerExample:
    """Predictions of each model for each example, for other tests of the same differences.

    Args:
        frame: returns one row per example.
        lines: the models.
    """

    frame: Callable[[], pl.DataFrame]
    lines: Sequence[ScoredModel]

    def to_frame(self) -> pl.DataFrame:
        """Return one row per model, seed and example."""
        examples = self.frame()
        tables = [
            examples.with_columns(pl.lit(line.name).alias("model"), pl.lit(seed).alias("seed"), **run.answers())
            for line in self.lines
            for run, seed in zip(line.runs, line.seeds, strict=True)
        ]
        return pl.concat(tables).select("model", "seed", pl.exclude("model", "seed"))


def statistic_of(run: Scored, names: Sequence[str], units: Index, num_units: int, *, macro: bool = False) -> Statistic:
    """Return all metrics of a run as a statistic of how often each unit is drawn.

    Args:
        run: of one model with one seed.
        names: of the metrics.
        units: (examples,) number of the unit of each example.
        num_units: number of units, those without examples included.
        macro: whether means are over the examples of a unit first, then over units.
    """
    columns = run.metrics()
    table = np.stack([*columns.values()], axis=1)
    means = means_over_units(table, units, num_units, macro=macro)
    means_of = list(columns)

    def statistic(times: Floats) -> Floats:
        values = dict(zip(means_of, means(times).T, strict=True))
        # Pooled metrics are no means of examples and are computed again for each draw.
        if len(values) < len(names):
            # Gather: an example is drawn as often as its unit.
            values |= run.pooled(times[:, units])
        return np.stack([values[name] for name in names], axis=1)

    return statistic


def rank_column(rank: Floats) -> pl.Series:
    """Return ranks from 1 as whole numbers, null where there is none."""
    # Infinity has no integer: 0 marks a miss until it becomes null.
    return pl.Series("rank", np.where(np.isfinite(rank), rank, 0), pl.Int64).replace(0, None)


def ids_of(names: pl.Series, rows: Index, num: int) -> pl.Series:
    """Return the (rows,) id of each row; its number from 1 where it has no name.

    Args:
        names: (num,) names, or none at all.
        rows: indices of names.
        num: number of names.
    """
    # Rows are numbered from 1 where they have no name.
    numbers = pl.Series(np.arange(1, num + 1)).cast(pl.String)
    ids = names.zip_with(names != "", numbers) if len(names) else numbers
    return ids.gather(rows)


def fraction_of(count: int, total: int) -> str:
    """Return a count with its fraction of the total: ``12 (50.0 %)``."""
    return f"{count:,} ({100 * count / total:.1f} %)"


def means_of(runs: Sequence[Scored], mask: Mask, names: Sequence[str]) -> Json:
    """Return the metrics over some of the examples, means over seeds, and the number of these ``targets``.

    Args:
        runs: one per seed.
        mask: (examples,) which examples.
        names: of the metrics.
    """
    num_targets = int(mask.sum())
    by_seed = []
    for run in runs:
        values = {name: column[mask].sum() / max(num_targets, 1) for name, column in run.metrics().items()}
        # The mask as weights of a single draw selects the examples of a pooled metric.
        values |= {name: column[0] for name, column in run.pooled(mask[None].astype(np.float64)).items()}
        by_seed.append([values[name] for name in names])
    return {"targets": num_targets, **dict(zip(names, np.mean(by_seed, 0).tolist(), strict=True))}
