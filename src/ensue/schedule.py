"""How long, in which steps and by which figure a model is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from ensue.errors import SettingError
from ensue.settings import Count, NonNegative, Positive, Settings, Share, Size, must_be, one_of

WARM_UP = 200
"""Steps in which a decaying step size first rises, at most."""
RISING = 10
"""It rises in one of so many steps at most: by fewer steps than ``WARM_UP`` where there are few in all."""
LEAST_TARGETS = 32
"""Targets of a batch below which ``least_steps`` never cuts it: a gradient of fewer is mostly noise."""
LARGER = 2
"""So many times ``least_steps`` an epoch keeps at least where batches are larger than the schedule's."""


@dataclass(frozen=True, kw_only=True)
class Schedule(Settings):
    """How a model is trained; each model names its paper's own."""

    epochs: Size = 200
    """Epochs at most."""
    batch_size: Size = 32
    """Histories (or texts) a batch, over all ranks."""
    learning_rate: Positive = 1e-3
    """Adam's step size."""
    decay: bool = False
    """Whether the step size rises over the first steps and falls to 0 along a cosine, over all the epochs."""
    warm_up: int | None = None
    """Where set, the step size rises to ``learning_rate`` in so many steps and falls as 1 / sqrt(step) from there."""
    beta2: Share = 0.999
    """How much of its mean of squared gradients Adam keeps a step."""
    decay_rate: Annotated[float, must_be("above 0 and at most 1", lambda value: 0 < value <= 1)] = 1.0
    """The step size is multiplied by this every ``decay_steps`` steps, in equal parts a step."""
    decay_steps: Size = 1000
    """Steps in which ``decay_rate`` is reached once."""
    least_steps: Count = 0
    """Where set, the batch halves until an epoch has so many steps, but not below 32 targets."""
    largest_batch: Size | None = None
    """Where set, the batch doubles as long as twice ``least_steps`` steps are left of an epoch, up to this, and
    ``learning_rate`` grows with its root."""
    most_epochs: Size | None = None
    """Where that still gives fewer than ``epochs`` x ``least_steps`` steps in all, more epochs, so many at most."""
    smallest_batch: Size | None = None
    """Where set, the batch size halves after every check without a better validation figure, down to this."""
    weight_decay: NonNegative = 5e-5
    """L2: this times half the squared norm of all weights is added to the loss."""
    watch: Annotated[str, one_of("loss", "mrr", "accuracy")] = "loss"
    """What early stopping looks at on the validation data: ``loss``, ``accuracy``, or ``mrr``, how its targets rank."""
    patience: Size = 5
    """Checks without a better validation figure before training stops; four times as many in task next while the values
    are hardly ranked better than by popularity."""
    check_every: Size = 1
    """Epochs between two checks on the validation data."""
    refit: bool = True
    """After early stopping, train anew for as many epochs on what was held out too; and on validation data that was
    given, where it is later than the training data."""
    replay: Count = 20_000
    """Past histories kept in the model folder (ids and times, no names), for updates to learn anew; 0 keeps none,
    and nothing else of a single history."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warm_up is not None and (self.warm_up < 1 or self.decay):
            raise SettingError(f"warm_up is {self.warm_up}; it must be at least 1, and decay off")

    def rate(self, step: int, steps: int) -> float:
        """The step size of step ``step`` of ``steps`` in all."""
        rate: float = self.learning_rate * self.decay_rate ** (step / self.decay_steps)
        if self.warm_up is not None:  # Vaswani et al. 2017, section 5.3
            return rate * min((step + 1) / self.warm_up, math.sqrt(self.warm_up / (step + 1)))
        if not self.decay:
            return rate
        return rate * min(1.0, (step + 1) / self.rising(steps)) * (0.5 + 0.5 * math.cos(math.pi * step / steps))

    def rising(self, steps: int) -> int:
        """Of ``steps`` in all, those in which the step size first rises."""
        if self.warm_up is not None:
            return self.warm_up
        return max(1, min(WARM_UP, steps // RISING)) if self.decay else 0

    def fitted(self, rows: int, targets: int) -> Schedule:
        """The same schedule for a log: the largest batch with enough steps an epoch, or more epochs.

        An optimiser's step moves a weight by about the step size, whatever the batch: a log of few rows needs as many
        steps as a larger one before its weights are where they should be (Hoffer, Hubara & Soudry 2017, "Train longer,
        generalize better", section 5).

        Args:
            rows: histories, say; a batch is so many of them.
            targets: what is to be learned of all rows together.
        """
        size, wanted = self.batch_size, self.epochs * self.least_steps
        while rows < size * self.least_steps and targets * (size // 2) >= rows * LEAST_TARGETS:
            size //= 2
        largest = self.largest_batch or 0
        while self.least_steps and 2 * size <= largest and rows >= LARGER * 2 * size * self.least_steps:
            size *= 2
        longer = min(wanted // max(1, -(-rows // size)), self.most_epochs or 0)
        epochs = max(self.epochs, longer)
        patience = epochs if self.patience >= self.epochs else self.patience  # as before: to the end of the cosine
        return replace(self.sized(size), epochs=epochs, patience=patience)

    def sized(self, size: int) -> Schedule:
        """The same schedule with batches of another size; steps grow with the root of a larger one.

        So much less noisy is its gradient, and Adam then moves as it did (Malladi, Lyu, Panigrahi & Arora 2022, "On the
        SDEs and scaling rules for adaptive gradient algorithms").
        """
        rate = self.learning_rate * math.sqrt(max(1.0, size / self.batch_size))
        return replace(self, batch_size=size, learning_rate=rate)

    def batch(self, halvings: int) -> int:
        """The batch size after so many checks without a better figure."""
        if self.smallest_batch is None:
            return self.batch_size
        return max(self.batch_size >> halvings, min(self.smallest_batch, self.batch_size))

    def better(self, new: float, old: float) -> bool:
        """Whether one watched figure is better than another."""
        return new < old if self.watch == "loss" else new > old


def require_fixed(schedule: Schedule | None, task: str, watch: str) -> None:
    """What a task leaves no choice of: one figure to watch, no second training, nothing replayed.

    Raises:
        SettingError: one of them was set to something else.
    """
    for name, only in (("watch", watch), ("refit", False), ("replay", 0), ("least_steps", 0)):
        if schedule is not None and getattr(schedule, name) != only:
            raise SettingError(f"{name} is {getattr(schedule, name)!r}; task {task} knows only {only!r}")


def by_hand(settings: Mapping[str, object]) -> dict[str, object]:
    """Settings with those that keep what a person set from being fitted to the log."""
    kept = {
        "batch_size": ("least_steps", 0),
        "epochs": ("most_epochs", None),
        "learning_rate": ("largest_batch", None),
    }
    return {
        **settings,
        **{key: value for name, (key, value) in kept.items() if name in settings and key not in settings},
    }
