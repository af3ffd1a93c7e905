"""Training schedule: epochs, batches, learning rate, and the metric of early stopping."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from ensue.errors import SettingError
from ensue.settings import Count, NonNegative, Positive, Settings, Share, Size, must_be, one_of

WARM_UP = 200
"""Maximum number of warm-up steps of a decaying learning rate."""
RISING = 10
"""Inverse of the largest fraction of all steps that warm-up may take."""
MIN_EPOCHS = 5
"""Epochs on short logs where ``max_steps`` limits them, at least."""
MIN_TARGETS = 32
"""Targets of a batch below which ``min_steps`` never cuts it: a gradient of fewer is mostly noise."""
LARGER = 2
"""Multiple of ``min_steps`` that an epoch keeps where batches are larger than the schedule's."""


@dataclass(frozen=True, kw_only=True)
class Schedule(Settings):
    """Training settings; the defaults of a model are those of its paper."""

    epochs: Size = 200
    """Maximum number of epochs, unless ``max_epochs`` allows more."""
    batch_size: Size = 32
    """Histories (or texts) per batch, over all ranks."""
    learning_rate: Positive = 1e-3
    """Learning rate of Adam."""
    decay: bool = False
    """Whether the learning rate warms up and then falls to 0 along a cosine, over all epochs."""
    warm_up: int | None = None
    """If set, the steps in which the learning rate rises to ``learning_rate``; it then falls as 1 / sqrt(step)."""
    beta2: Share = 0.999
    """Decay of Adam's mean of squared gradients, per step."""
    decay_rate: Annotated[float, must_be("above 0 and at most 1", lambda value: 0 < value <= 1)] = 1.0
    """Factor on the learning rate per ``decay_steps`` steps, applied smoothly at every step."""
    decay_steps: Size = 1000
    """Steps in which ``decay_rate`` is applied once."""
    min_steps: Count = 0
    """If set, the minimum number of steps per epoch: the batch is halved for it, but not below 32 targets."""
    largest_batch: Size | None = None
    """If set, the largest batch size: the batch doubles while an epoch keeps twice ``min_steps`` steps, and
    ``learning_rate`` grows with the square root of the batch."""
    max_epochs: Size | None = None
    """If set, the maximum number of epochs on short logs, where batches are halved for ``min_steps``; there are as many
    as make ``epochs`` x ``min_steps`` steps."""
    max_steps: Size | None = None
    """If set, the maximum number of steps on short logs, but at least 5 epochs."""
    smallest_batch: Size | None = None
    """If set, the batch size halves after every check without a better validation metric, down to this."""
    weight_decay: NonNegative = 5e-5
    """L2 penalty: this times half the squared norm of all weights is added to the loss."""
    monitor: Annotated[str, one_of("loss", "mrr", "accuracy")] = "loss"
    """Validation metric of early stopping: ``loss``, ``accuracy`` or ``mrr``."""
    patience: Size = 5
    """Checks without a better validation metric before training stops; four times as many in task next while the model
    ranks hardly better than popularity."""
    check_every: Size = 1
    """Epochs between two validations."""
    refit: bool = True
    """After early stopping, train again from scratch for as many epochs, with the held-out data included; with given
    validation data too, if it is later than the training data."""
    replay: Count = 20_000
    """Past histories stored in the model folder (ids and times, no names) and replayed by updates; 0 stores none,
    and nothing else of a single history."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warm_up is not None and (self.warm_up < 1 or self.decay):
            raise SettingError(f"warm_up is {self.warm_up}; it must be at least 1, and decay off")

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate at step ``step`` of ``steps``."""
        rate: float = self.learning_rate * self.decay_rate ** (step / self.decay_steps)
        if self.warm_up is not None:  # Vaswani et al. 2017, section 5.3
            return rate * min((step + 1) / self.warm_up, math.sqrt(self.warm_up / (step + 1)))
        if not self.decay:
            return rate
        # A linear rise, then half a cosine down to 0 at the last step.
        return rate * min(1.0, (step + 1) / self.rising(steps)) * (0.5 + 0.5 * math.cos(math.pi * step / steps))

    def rising(self, steps: int) -> int:
        """Return the number of warm-up steps among ``steps``."""
        if self.warm_up is not None:
            return self.warm_up
        return max(1, min(WARM_UP, steps // RISING)) if self.decay else 0

    def fitted(self, rows: int, targets: int) -> Schedule:
        """Return this schedule fitted to a log: the largest batch with enough steps per epoch, or more epochs.

        An optimiser's step moves a weight by about the step size, whatever the batch: a log of few rows needs as many
        steps as a larger one before its weights are where they should be (Hoffer, Hubara & Soudry 2017, "Train longer,
        generalize better", section 5).

        Args:
            rows: number of histories (or texts); a batch is counted in them.
            targets: number of targets in all rows.
        """
        size = self.batch_size
        num_steps = self.epochs * self.min_steps
        # Few rows: halve the batch until an epoch has enough steps, while a batch keeps enough targets.
        while rows < size * self.min_steps and targets * (size // 2) >= rows * MIN_TARGETS:
            size //= 2
        # Many rows: double it as long as an epoch has many times the steps that it needs.
        largest = self.largest_batch or 0
        while self.min_steps and 2 * size <= largest and rows >= LARGER * 2 * size * self.min_steps:
            size *= 2
        # Where no batch is small enough for the steps, more epochs make up for them.
        epochs = self.epochs
        if self.max_epochs is not None and rows < self.batch_size * self.min_steps:
            steps = max(1, -(-rows // size))
            epochs = min(max(epochs, num_steps // steps), self.max_epochs)
            if self.max_steps is not None:
                epochs = min(epochs, max(MIN_EPOCHS, self.max_steps // steps))
        patience = epochs if self.patience >= self.epochs else self.patience  # as before: to the end of the cosine
        return replace(self.sized(size), epochs=epochs, patience=patience)

    def sized(self, size: int) -> Schedule:
        """Return this schedule with another batch size; the learning rate grows with its square root.

        The gradient of a larger batch is that much less noisy, and Adam then moves as before (Malladi, Lyu, Panigrahi &
        Arora 2022, "On the SDEs and scaling rules for adaptive gradient algorithms").
        """
        rate = self.learning_rate * math.sqrt(max(1.0, size / self.batch_size))
        return replace(self, batch_size=size, learning_rate=rate)

    def batch(self, halvings: int) -> int:
        """Return the batch size after ``halvings`` checks without a better metric."""
        if self.smallest_batch is None:
            return self.batch_size
        return max(self.batch_size >> halvings, min(self.smallest_batch, self.batch_size))

    def better(self, new: float, old: float) -> bool:
        """Return whether the monitored metric ``new`` is better than ``old``."""
        return new < old if self.monitor == "loss" else new > old


def require_fixed(schedule: Schedule | None, task: str, monitor: str) -> None:
    """Refuse settings that a task fixes: the monitored metric, no refit, no replay, no minimum of steps.

    Raises:
        SettingError: one of them was set to something else.
    """
    for name, only in (("monitor", monitor), ("refit", False), ("replay", 0), ("min_steps", 0)):
        if schedule is not None and getattr(schedule, name) != only:
            raise SettingError(f"{name} is {getattr(schedule, name)!r}; task {task} allows only {only!r}")


def by_hand(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings with those that keep the values that a person set from being fitted to the log."""
    fixing_settings = {
        "batch_size": ("min_steps", 0),
        "epochs": ("max_epochs", None),
        "learning_rate": ("largest_batch", None),
    }
    return {
        **settings,
        **{key: value for name, (key, value) in fixing_settings.items() if name in settings and key not in settings},
    }
