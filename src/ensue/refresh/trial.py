"""What an update is tested on, and what it came to there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ensue.metrics import Floats
from ensue.training.report import Report

NEWEST = "newest"
"""Name of the slice of what is new; all others are of what the model learned before."""
LABELS = {"mrr": "MRR", "mrr@10": "MRR@10", "accuracy": "accuracy"}


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of examples, and the figures on it, as fractions."""

    name: str
    targets: int
    old: dict[str, float]
    new: dict[str, float]
    counting: dict[str, float]
    best_baseline: str
    figure: str = "mrr"
    """The figure that decides."""
    error: float = 0.0
    """Standard error of its mean change."""

    @property
    def label(self) -> str:
        """The figure that decides, for people."""
        return LABELS[self.figure]

    @property
    def before(self) -> float:
        """The old model's figure."""
        return self.old[self.figure]

    @property
    def after(self) -> float:
        """The candidate's figure."""
        return self.new[self.figure]

    @property
    def change(self) -> float:
        """Relative change from old to new; 0 where the old one is 0."""
        return self.after / self.before - 1 if self.before else 0.0

    def falls(self, max_drop: float) -> bool:
        """Whether the figure fell by more than a share, and by more than chance."""
        return self.change < -max_drop and self.after - self.before + 2 * self.error < 0


def standard_error(old: Floats, new: Floats) -> float:
    """Of the mean of paired differences; infinite of fewer than two."""
    return float((new - old).std(ddof=1) / np.sqrt(len(old))) if len(old) > 1 else float("inf")


def slices_of(figure: str, parts: Mapping[str, tuple[Floats, Floats]]) -> tuple[Slice, ...]:
    """The slices of a figure of each example, of the model that stands and of the candidate; of none no slice.

    Args:
        figure: its name in :data:`LABELS`.
        parts: (examples,) of both models, by the name of the slice.
    """
    return tuple(
        Slice(
            name,
            len(before),
            {figure: float(before.mean())},
            {figure: float(after.mean())},
            {},
            "",
            figure,
            standard_error(before, after),
        )
        for name, (before, after) in parts.items()
        if len(before)
    )


class Trial(NamedTuple):
    """What a candidate that has learned came to."""

    slices: tuple[Slice, ...] = ()
    """None where nothing was tested."""
    held: str = ""
    """Which part of what is new was held out."""
    loss: float = 0.0
    """Of the latest step, in nats."""
    learn_rest: Callable[[], object] = lambda: None
    """Learns what was held out, and makes what is made once all is learned; called once the candidate has passed."""


class Ask(NamedTuple):
    """How a candidate shall learn."""

    tested: bool
    standing: int
    """The version that stands."""
    follow: Callable[[Iterable[Report]], None]
    """What to do with the reports of a pass; it has to run through them."""


Learn = Callable[[Any, Any, Any, Ask], Trial]
"""Lets a candidate learn and tests it: (the predictor that stands, the candidate, what is new, how)."""
