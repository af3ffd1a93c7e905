"""Training and updates of a network: what is the same for all tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch.optim import Adam

from ensue.schedule import Schedule
from ensue.tasks.state import AnyState
from ensue.training.checkpoint import NO_CHECKPOINT, Checkpoint, run_key
from ensue.training.loop import Trained, train
from ensue.training.optimizer import optimizer_tensors, restore_optimizer
from ensue.training.report import Report
from ensue.training.source import Source

COUNTED = Report("update", 1, 1, 1, 1, 0.0, 0.0, stopped=True)
"""Report of an update that trains no network."""


def train_network(
    state: AnyState,
    data: Source,
    valid: Callable[[], float] | None,
    schedule: Schedule,
    *,
    arrays: Iterable[npt.NDArray[np.generic]],
    checkpoint: Checkpoint = NO_CHECKPOINT,
    stage: str = "fit",
    min_useful_metric: float | None = None,
) -> Generator[Report, None, Trained]:
    """Train the network of a state until the monitored metric stops getting better, and note its epochs.

    Args:
        state: with a network and its optimizer, which end in the state of the best epoch.
        data: training data.
        valid: returns the monitored metric on validation data; ``None`` to train for all epochs.
        schedule: epochs, batches and learning rates.
        arrays: training and validation data, by which a checkpoint of other data is refused.
        checkpoint: see :func:`ensue.training.loop.train`.
        stage: its name in the reports.
        min_useful_metric: see :func:`ensue.training.loop.train`.
    """
    assert state.optimizer is not None
    trained = yield from train(
        state.module,
        data,
        valid,
        schedule,
        optimizer=state.optimizer,
        seed=state.seed,
        stage=stage,
        checkpoint=checkpoint,
        fingerprint=run_key([state.model_name, state.all_settings], arrays),
        min_useful_metric=min_useful_metric,
    )
    state.metadata.epochs, state.seconds_an_epoch = trained.best_epoch, trained.seconds_an_epoch
    return trained


def train_update(state: AnyState, data: Source) -> Generator[Report, None, Trained]:
    """Train the network of a state on new data in one pass; the number of the update is in the metadata already."""
    assert state.schedule is not None and state.optimizer is not None
    schedule, seed = update_schedule(state.schedule, state.optimizer), state.seed + state.metadata.updates
    return train(state.module, data, None, schedule, optimizer=state.optimizer, seed=seed, stage="update")


def update_schedule(schedule: Schedule, optimizer: Adam) -> Schedule:
    """Return the schedule of one pass over new data: small batches, at a constant learning rate.

    A rate that rises and then falls with the steps is as it was at the end of training.
    """
    num_steps = max((int(moments["step"]) for moments in optimizer.state.values()), default=0)
    rate = schedule.learning_rate if schedule.warm_up is None else schedule.rate(num_steps, num_steps + 1)
    return replace(
        schedule,
        epochs=1,
        batch_size=schedule.smallest_batch or schedule.batch_size,
        smallest_batch=None,
        learning_rate=rate,
        warm_up=None,
        decay=False,
        decay_rate=1.0,
    )


def resize_embeddings(state: AnyState, num_rows: int) -> None:
    """Give the network rows for new words; the moments of the others stay."""
    assert state.optimizer is not None
    torch.manual_seed(state.seed + state.metadata.updates)
    moments = optimizer_tensors(state.module, state.optimizer)
    state.network.grow(num_rows)
    state.optimizer = state.new_optimizer()
    restore_optimizer(state.module, state.optimizer, moments)
