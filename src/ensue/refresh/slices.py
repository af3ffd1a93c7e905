"""Slices of examples that an update is tested on, and their metrics of two models.

The tests themselves are in :mod:`ensue.refresh.trial`, which imports the predictors of all tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ensue.metrics import Floats, label
from ensue.significance import standard_error

if TYPE_CHECKING:
    from ensue.training.report import Report

NEWEST = "newest"
"""Name of the slice of new data; all others are of what the model was trained on before."""
Columns = Mapping[str, Floats]
"""(examples,) of each metric, by name."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The metrics of two models on one slice of examples, as fractions.

    Attributes:
        name: of the slice.
        targets: number of examples.
        old: metrics of the active model.
        new: metrics of the candidate.
        counting: metrics of the best baseline, if there are baselines.
        best_baseline: its name.
        figure: the metric that decides.
        error: standard error of its mean change.
    """

    name: str
    targets: int
    old: dict[str, float]
    new: dict[str, float]
    counting: dict[str, float] = field(default_factory=dict)
    best_baseline: str = ""
    figure: str = "mrr"
    error: float = 0.0

    @classmethod
    def of(cls, name: str, old: Columns, new: Columns, baselines: Mapping[str, Columns] | None = None) -> Self:
        """Compare two models on the same examples, by the first metric.

        Args:
            name: of the slice.
            old: metrics of each example, of the active model.
            new: those of the candidate.
            baselines: those of each baseline.
        """
        # The first column decides; others are shown.
        metric = next(iter(old))
        means = {model: _means(columns) for model, columns in (baselines or {}).items()}
        best = max(means, key=lambda model: means[model][metric], default="")
        # Of the paired differences: both models are scored on the same examples.
        error = standard_error(new[metric] - old[metric])
        num_examples = len(old[metric])
        return cls(name, num_examples, _means(old), _means(new), means.get(best, {}), best, metric, error)

    @property
    def label(self) -> str:
        """The metric that decides, as tables show it."""
        return label(self.figure)

    @property
    def before(self) -> float:
        """The metric of the active model."""
        return self.old[self.figure]

    @property
    def after(self) -> float:
        """The metric of the candidate."""
        return self.new[self.figure]

    @property
    def change(self) -> float:
        """Relative change from old to new; 0 where the old metric is 0."""
        return self.after / self.before - 1 if self.before else 0.0

    def falls(self, max_drop: float) -> bool:
        """Return whether the metric fell by more than a fraction, and by more than two standard errors."""
        return self.change < -max_drop and self.after - self.before + 2 * self.error < 0


def _means(columns: Columns) -> dict[str, float]:
    return {name: float(column.mean()) for name, column in columns.items()}


class Trial(NamedTuple):
    """The result of testing a candidate that was trained on new data.

    Attributes:
        slices: none where nothing was tested.
        held_out: name of the part of the new data that was held out.
        loss: of the latest step, in nats.
        learn_rest: trains on what was held out and builds what needs all data; called once the candidate has passed.
    """

    slices: tuple[Slice, ...] = ()
    held_out: str = ""
    loss: float = 0.0
    learn_rest: Callable[[], object] = lambda: None


class Ask(NamedTuple):
    """Options of a candidate's training.

    Attributes:
        tested: whether it is tested.
        standing: the active version.
        follow: what to do with the reports of a pass; it has to run through them.
    """

    tested: bool
    standing: int
    follow: Callable[[Iterable[Report]], None]


Learn = Callable[[Any, Any, Any, Ask], Trial]
"""Trains a candidate and tests it: (the active predictor, the candidate, new data, how)."""
