"""One loop for every model: a generator of reports. It knows ``torch.distributed`` and no task.

Under ``torchrun`` each rank takes every n-th part of each batch and gradients are averaged by the number of targets, so
the sum over ranks is the gradient of the whole batch. Only rank 0 writes.

The random state is a function of (seed, step, rank): nothing of it needs saving, and a run that was killed continues
bit for bit from its last checkpoint, on the same number of ranks.
"""

from __future__ import annotations

import glob
import json
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.optim import Adam

from ensue.data.file_bytes import temporary_folder
from ensue.data.histories import Index
from ensue.errors import SettingError
from ensue.nn.device import in_order, memory_for
from ensue.nn.sampling import drawn_together
from ensue.schedule import Schedule
from ensue.training.checkpoint import NO_CHECKPOINT, Checkpoint, load_state, save_state
from ensue.training.distributed import GradientSums, max_over_ranks, mean_over_ranks, rank_and_size, share
from ensue.training.optimizer import by_row
from ensue.training.report import Interruption, Report, Reports, StopRequest, Trained, end_asked, whole_steps


class TrainingBatch(Protocol):
    """A batch: tensors that can be moved, and the number of terms in its mean loss."""

    @property
    def num_targets(self) -> int:
        """Number of targets."""

    def to(self, device: torch.device) -> TrainingBatch:
        """Return the batch on another device."""


class Learner(Protocol):
    """A module as the loop sees it."""

    def loss(self, batch: TrainingBatch) -> Tensor:
        """Return the mean loss over the batch's targets."""


class TrainingSource(Protocol):
    """Training data: a shuffled plan an epoch, and batches on demand."""

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        """Return the batches of an epoch as index arrays; the same for the same seed."""

    def groups(self, targets: int) -> Iterator[Index]:
        """Yield all the data once, in groups of about this many targets."""

    def batch(self, index: Index) -> TrainingBatch:
        """Return one batch on the CPU."""


TIMED_STEPS = 10
"""Steps after which the duration of a step is known, where the time is limited."""
PATIENCE_FACTOR = 4
"""Factor on the patience of a run whose monitored metric is still below ``min_useful_metric``."""
COUNTS = ["epoch", "step", "taken", "waited", "halvings", "best", "best_epoch", "loss_sum", "loss_count", "first_loss"]
"""Attributes of a run that a checkpoint holds besides the weights and the moments."""


def train(
    model: nn.Module,
    data: TrainingSource,
    valid: Callable[[], float] | None,
    schedule: Schedule,
    *,
    optimizer: Adam,
    seed: int,
    stage: str = "fit",
    checkpoint: Checkpoint = NO_CHECKPOINT,
    fingerprint: str = "",
    every_seconds: float = 30.0,
    min_useful_metric: float | None = None,
    stop_time: float | None = None,
) -> Reports[Trained]:
    """Train a model until the monitored metric stops getting better; it ends with its best weights.

    Args:
        model: a module with ``loss(batch) -> Tensor``, the mean over the batch's targets.
        data: what to learn.
        valid: what early stopping watches, from data neither learned nor tested on; ``None``: all epochs are trained.
        schedule: epochs, sizes, rates.
        optimizer: made by :func:`ensue.training.optimizer.make_optimizer`; ends in the state of the best weights.
        seed: the same seed gives the same bytes on the CPU.
        stage: a word for the reports.
        checkpoint: a file that lets a killed run continue; a finished run leaves it, and the best weights next to it,
            for the caller to remove. Of several ranks the first one's counts for all.
        fingerprint: names data and settings, so that a checkpoint of another run is refused.
        every_seconds: time between two checkpoints.
        min_useful_metric: the monitored metric of a trivial baseline. Until the run passes it, patience is
            ``PATIENCE_FACTOR`` times as long: on sparse data, a network may need ten epochs before it finds more than
            how often each item occurs.
        stop_time: value of ``time.monotonic()`` after which no step begins; the learning rate decays towards it.

    Returns:
        The number of epochs behind the best weights, and what an epoch took.

    Raises:
        SettingError: the checkpoint belongs to other data or settings, or the loss is no longer a number.
        SettingError: what was trained is worse on its first batch than it was untrained.
        ModelFolderError: the checkpoint is damaged or cannot be written.
        Interruption: a signal asked for the end, where :func:`ensue.training.report.signals_heard` waits for one; a
            checkpoint was written first.
    """
    # A checkpoint of another schedule, seed or number of ranks would not continue bit for bit.
    fingerprint = f"{fingerprint} {json.dumps(asdict(schedule))} {seed} {rank_and_size()[1]}"
    with _Run(model, optimizer, seed, checkpoint.path) as run, whole_steps():
        run.start(fingerprint, resume=checkpoint.resume)
        first_epoch = run.epoch
        late = False
        start_time = time.monotonic()
        start_cpu_time = time.process_time()
        stop = StopRequest()
        monitor = schedule.monitor if valid is not None else ""
        parameters = sum(parameter.numel() for parameter in run.model.parameters())

        constant = Report(
            stage, 0, schedule.epochs, 0, 0, 0.0, 0.0, monitor=monitor, parameters=parameters, device=str(run.device),
            stop=stop,
        )  # fmt: skip

        def report(epoch: int, step: int, steps: int, loss: float, **changes: Any) -> Report:
            seconds = time.monotonic() - start_time
            return replace(
                constant, epoch=epoch, step=step, steps=steps, loss=loss, seconds=seconds, best=run.best,
                best_epoch=run.best_epoch, **changes,
            )  # fmt: skip

        while run.epoch < schedule.epochs and run.waited < run.patience(schedule, min_useful_metric):
            run.keep_best()
            plan = data.plan(schedule.batch(run.halvings), (seed, run.epoch))
            for number in range(run.step, len(plan)):
                # Number of steps over which the learning rate decays, if time does not end the training earlier.
                planned = schedule.epochs * len(plan)
                if stop_time is not None:
                    elapsed = time.monotonic() - start_time
                    remaining = stop_time - time.monotonic()
                    late = max_over_ranks(remaining <= 0) > 0
                    if late:
                        break
                    if run.taken >= TIMED_STEPS:
                        # Extrapolate from the mean duration of a step so far.
                        planned = min(planned, run.taken + int(run.taken * remaining / elapsed) + 1)
                run.set_rate(schedule.rate(run.taken, planned))
                signalled = run.learn(data, plan[number], run.taken)
                run.step = number + 1
                run.taken = run.taken + 1
                # A signal ends the training, so the checkpoint is written now, whenever the last one was.
                run.keep(0.0 if signalled else every_seconds)
                if signalled:
                    raise Interruption(signalled)
                yield report(run.epoch + 1, run.step, len(plan), run.mean)
            # The last epoch is always checked, so that its weights can be the best.
            checked = late or (run.epoch + 1) % schedule.check_every == 0 or run.epoch + 1 == schedule.epochs
            # All ranks take the first rank's metric: a difference in rounding could let one stop early alone.
            metric = share({"valid": valid()})["valid"] if checked and valid is not None else None
            mean = run.close_epoch(metric, better=schedule.better)
            over = late or run.epoch == schedule.epochs or run.waited >= run.patience(schedule, min_useful_metric)
            signalled = max_over_ranks(end_asked())
            run.keep(0.0 if over or signalled else every_seconds)
            if signalled:
                raise Interruption(signalled)
            improving = over and run.improving(schedule)
            yield report(run.epoch, len(plan), len(plan), mean, valid=metric, stopped=over, improving=improving)
            if stop.is_made or late:
                break
        best = run.restore_best()
        seconds = (time.process_time() - start_cpu_time) / max(1, run.epoch - first_epoch)
        run.require_learned(data, schedule)
        return Trained(best, seconds, run.improving(schedule), run.taken, late)


def one_pass(
    model: nn.Module,
    data: TrainingSource,
    plan: Sequence[Index],
    *,
    optimizer: Adam,
    rate: float,
    seed: int,
    first: int = 0,
) -> float:
    """Learn the batches of a plan once, without checks and reports; returns the mean loss.

    Args:
        model: as in :func:`train`.
        data: what the plan was made of.
        plan: the batches.
        optimizer: goes on from its state.
        rate: the step size.
        seed: of the random state, together with the number of the step.
        first: number of the first step.

    Raises:
        SettingError: the loss is no longer a number.
    """
    with _Run(model, optimizer, seed, None) as run:
        run.set_rate(rate)
        for step, index in enumerate(plan, first):
            run.learn(data, index, step)
        return run.mean


def mean_loss(model: nn.Module, source: TrainingSource, targets: int = 4096) -> float:
    """Return the mean loss over all targets of a source, in evaluation mode; ranks share the work."""
    rank, world = rank_and_size()
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    # Sum of the losses and number of targets, in float64, since many terms are added.
    sums = torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        for number, index in enumerate(source.groups(targets)):
            # Groups are dealt out to the ranks in turn.
            if number % world == rank:
                batch = source.batch(index).to(device)
                sums += torch.tensor([float(cast(Learner, model).loss(batch)) * batch.num_targets, batch.num_targets])
    model.train(was_training)
    if world > 1:
        sums = sums.to(device)
        distributed.all_reduce(sums)
    return float(sums[0] / sums[1])


class _Run(ExitStack):
    """The state of one training run: everything a checkpoint must hold."""

    def __init__(self, model: nn.Module, optimizer: Adam, seed: int, checkpoint: Path | None) -> None:
        super().__init__()
        self.model = model
        self.optimizer = optimizer
        self.seed = seed
        self.checkpoint = checkpoint
        self.device = next(model.parameters()).device
        self.epoch = self.step = self.taken = self.waited = self.halvings = self.best_epoch = 0
        self.loss_sum = self.loss_count = 0.0
        self.best: float | None = None
        self.first_loss: float | None = None
        self.fingerprint = ""
        self.saved = time.monotonic()
        self.folder: Path | None = None
        self.sums: GradientSums | None = None

    @property
    def mean(self) -> float:
        """Mean training loss of this epoch so far."""
        return self.loss_sum / max(self.loss_count, 1.0)

    def patience(self, schedule: Schedule, min_useful_metric: float | None) -> int:
        """Return the number of checks without a better metric after which this run stops."""
        # Before the metric passes the trivial baseline, a plateau says little about the model.
        useful = min_useful_metric is None or self.best is None or schedule.better(self.best, min_useful_metric)
        return schedule.patience * (1 if useful else PATIENCE_FACTOR)

    def improving(self, schedule: Schedule) -> bool:
        """Return whether all epochs were taken, and the last one was the best."""
        return self.best is not None and self.best_epoch == self.epoch == schedule.epochs

    def set_rate(self, rate: float) -> None:
        """Set the learning rate; a group may have a ``pace`` to multiply it by."""
        for group in self.optimizer.param_groups:
            # Slow parameters have a pace below 1.
            group["lr"] = rate * group.get("pace", 1.0)

    def learn(self, data: TrainingSource, index: Index, step: int) -> int:
        """Take a step on this rank's part of a batch; return a signal that asks for the end, or 0."""
        world = rank_and_size()[1]
        signalled = end_asked()
        self.optimizer.zero_grad()
        with in_order(self.device), memory_for(f"a batch of {len(index):,} with these settings"):
            with self._drawn(data, index, step) as batch:
                loss = None if batch is None else cast(Learner, self.model).loss(batch)
            targets = 0 if batch is None else batch.num_targets
            if loss is not None:
                # Ranks may have parts of unequal size: gradients of sums can be added, those of means cannot.
                torch.autograd.backward(loss * targets if world > 1 else loss)
        # Sum of the losses of this rank's targets, and their number.
        total = torch.tensor([0.0 if loss is None else loss.item() * targets, targets], dtype=torch.float64)
        if world > 1:
            total, signalled = self._average(total, signalled)
        self._require_number(float(total[0]))
        if self.first_loss is None:
            self.first_loss = float(total[0] / total[1])
        self.loss_sum += float(total[0])
        self.loss_count += float(total[1])
        self.optimizer.step()
        return signalled

    @contextmanager
    def _drawn(self, data: TrainingSource, index: Index, step: int) -> Iterator[TrainingBatch | None]:
        """Yield this rank's part of a batch, if it has any, with the random state of its step."""
        rank, world = rank_and_size()
        state = np.random.SeedSequence([self.seed, step, rank]).generate_state(1, np.uint64)
        # Of 64 random bits drop one: torch's seeds are signed numbers.
        seed = int(state[0] >> np.uint64(1))
        torch.default_generator.manual_seed(seed)  # torch.manual_seed notes where it was called for every other device
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        if not self.model.training:
            self.model.train()
        if not len(rank_index := index[rank::world]):
            yield None
            return
        batch = data.batch(rank_index).to(self.device)
        # Without the rank, so that all ranks draw the same negatives.
        shared_seed = int(np.random.SeedSequence([self.seed, step]).generate_state(1)[0])
        # Mixed precision on GPUs alone; a training on the CPU is in float32.
        bfloat16 = torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")
        with drawn_together(self.model, shared_seed) if world > 1 else nullcontext(), bfloat16:
            yield batch

    def require_learned(self, data: TrainingSource, schedule: Schedule) -> None:
        """Refuse a model whose loss on its first batch is above twice that of the untrained one, and a nat above it.

        Dropout and negatives are drawn as they were then, so that nothing but the weights is another.
        """
        if self.first_loss is None:
            return
        first = data.plan(schedule.batch(0), (self.seed, 0))[0]
        with torch.no_grad(), self._drawn(data, first, 0) as batch:
            loss = 0.0 if batch is None else cast(Learner, self.model).loss(batch).item()
        later = mean_over_ranks(np.full(0 if batch is None else batch.num_targets, loss))
        if not later <= self.first_loss + max(1.0, abs(self.first_loss)):
            raise SettingError(
                f"training made the model worse: its loss rose from {self.first_loss:.4g} to {later:.4g} on its "
                f"first training batches; learning_rate is {schedule.learning_rate:g}, try a smaller one"
            )

    def _average(self, total: Tensor, signalled: int) -> tuple[Tensor, int]:
        """Sum the gradients of all ranks and divide by the number of targets; all ranks are asked to end, or none."""
        if self.sums is None:
            parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
            self.sums = GradientSums(parameters, by_row(self.model))
        # The signal is summed with the losses, so all ranks end after the same step.
        sums = self.sums(torch.tensor([*total, signalled], dtype=torch.float64), divisor=1)
        return sums[:2], signalled or (int(signal.SIGTERM) if sums[2] else 0)

    def close_epoch(self, valid: float | None, better: Callable[[float, float], bool]) -> float:
        """Count the epoch, and whether its weights are the best so far; returns the mean training loss."""
        mean = self.mean
        self._require_number(valid or 0.0)
        self.epoch = self.epoch + 1
        self.step = 0
        self.loss_sum = 0.0
        self.loss_count = 0.0
        if valid is not None and (self.best is None or better(valid, self.best)):
            self.best = valid
            self.waited = 0
            self.best_epoch = self.epoch
        elif valid is not None:
            self.waited = self.waited + 1
            self.halvings = self.halvings + 1
        return mean

    def keep_best(self) -> None:
        """Save the weights before an epoch changes them, if they are the best so far (first rank only)."""
        if self.best_epoch and self.best_epoch == self.epoch and not self.step and rank_and_size()[0] == 0:
            save_state(self._best_file(self.epoch), self.model, self.optimizer, {})

    def _require_number(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise SettingError(f"the loss became {loss} in epoch {self.epoch + 1}; try a smaller learning_rate")

    def restore_best(self) -> int:
        """Go back to the weights and the optimiser's state of the best check, if there was one; returns its epoch."""
        if self.best_epoch and self.best_epoch != self.epoch:
            load_state(self._best_file(self.best_epoch), self.model, self.optimizer, lambda _: None)
        # NaN and infinity show in the smallest or largest value of a parameter.
        ends = (torch.stack(parameter.detach().aminmax()) for parameter in self.model.parameters() if parameter.numel())
        if not all(bool(torch.isfinite(extremes).all()) for extremes in ends):  # no copy as large as a table
            raise SettingError("the weights are no longer numbers; try a smaller learning_rate")
        return self.best_epoch or self.epoch

    def _best_file(self, epoch: int) -> Path:
        """Return the file of the best epoch's weights; an older checkpoint may need those of another epoch."""
        if self.checkpoint is not None:
            return self.checkpoint.with_name(f"{self.checkpoint.name}.best-{epoch}")
        self.folder = self.folder or self.enter_context(temporary_folder())
        return self.folder / "best"

    def start(self, fingerprint: str, *, resume: bool) -> None:
        """Start from the beginning, or go on from the checkpoint that the first rank has."""
        self.fingerprint = fingerprint
        if max_over_ranks(share({"fingerprint": fingerprint})["fingerprint"] != fingerprint):
            raise SettingError("the ranks have different data or settings; start all of them with the same command")
        if resume and share({"there": self.checkpoint is not None and self.checkpoint.exists()})["there"]:
            assert self.checkpoint is not None
            metadata = load_state(self.checkpoint, self.model, self.optimizer, self._require_own)
            for name, value in json.loads(metadata["counts"]).items():
                setattr(self, name, value)

    def _require_own(self, metadata: Mapping[str, str]) -> None:
        if metadata.get("fingerprint") != self.fingerprint:
            raise SettingError(
                f"{self.checkpoint}: the checkpoint belongs to other data or settings; start without --resume"
            )

    def keep(self, every_seconds: float) -> None:
        """Save if there is a file for it and the last time is so long ago (first rank only)."""
        if self.checkpoint is None or time.monotonic() - self.saved < every_seconds or rank_and_size()[0]:
            return
        counts = json.dumps({name: getattr(self, name) for name in COUNTS})
        save_state(self.checkpoint, self.model, self.optimizer, {"fingerprint": self.fingerprint, "counts": counts})
        # Best weights of earlier epochs are needed only by the checkpoint that was just replaced.
        for old in self.checkpoint.parent.glob(f"{glob.escape(self.checkpoint.name)}.best-*"):
            if old != self._best_file(self.best_epoch):
                old.unlink(missing_ok=True)
        self.saved = time.monotonic()
