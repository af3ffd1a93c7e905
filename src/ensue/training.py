"""One loop for every model: a generator of reports. It knows ``torch.distributed`` and no task.

Under ``torchrun`` each rank takes every n-th part of each batch and gradients are averaged by the number of targets, so
the sum over ranks is the gradient of the whole batch. Only rank 0 writes.

The random state is a function of (seed, step, rank): nothing of it needs saving, and a run that was killed continues
bit for bit from its last checkpoint, on the same number of ranks.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, distributed, nn
from torch.optim import Adam

from ensue.errors import ModelFolderError, SettingError
from ensue.folder import tensor_bytes, write_file
from ensue.group import here
from ensue.optimizer import by_row, optimizer_tensors, restore_optimizer

Index = npt.NDArray[np.int64]
WARM_UP = 200
"""Steps in which a decaying step size first rises."""


class TrainingBatch(Protocol):
    """A batch: tensors that can be moved, and the number of terms in its mean loss."""

    @property
    def num_targets(self) -> int:
        """Number of targets."""
        ...

    def to(self, device: torch.device) -> TrainingBatch:
        """The same batch on another device."""
        ...


class Source(Protocol):
    """Training data: a shuffled plan an epoch, and batches on demand."""

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        """The batches of an epoch, as index arrays; the same for the same seed."""
        ...

    def groups(self, targets: int) -> Iterator[Index]:
        """All the data once, in groups of about this many targets."""
        ...

    def batch(self, index: Index) -> Any:
        """One batch on the CPU (:class:`TrainingBatch`)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How a model is trained; each model names its paper's own."""

    epochs: int = 200
    """Epochs at most."""
    batch_size: int = 32
    """Histories (or texts) a batch, over all ranks."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    decay: bool = False
    """Whether the step size rises over the first steps and falls to 0 along a cosine, over all the epochs."""
    warm_up: int | None = None
    """Where set, the step size rises to ``learning_rate`` in so many steps and falls as 1 / sqrt(step) from there."""
    beta2: float = 0.999
    """How much of its mean of squared gradients Adam keeps a step."""
    decay_rate: float = 1.0
    """The step size is multiplied by this every ``decay_steps`` steps, in equal parts a step."""
    decay_steps: int = 1000
    """Steps in which ``decay_rate`` is reached once."""
    smallest_batch: int | None = None
    """Where set, the batch size halves after every check without a better validation figure, down to this."""
    weight_decay: float = 5e-5
    """L2: this times half the squared norm of all weights is added to the loss."""
    watch: str = "loss"
    """What early stopping looks at on the validation data: ``loss``, ``accuracy``, or ``mrr``, how its targets rank."""
    patience: int = 5
    """Checks without a better validation figure before training stops."""
    check_every: int = 1
    """Epochs between two checks on the validation data."""
    refit: bool = True
    """Where no validation data was given: after early stopping, train anew on everything for as many epochs."""
    replay: int = 20_000
    """Past histories kept in the model folder (ids and times, no names), for updates to learn anew; 0 keeps none."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience", "check_every", "decay_steps"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.watch not in ("loss", "mrr", "accuracy"):
            raise SettingError(f"watch is {self.watch!r}; choose from loss, mrr, accuracy")
        if not 0 < self.decay_rate <= 1:
            raise SettingError(f"decay_rate is {self.decay_rate}; it must be above 0 and at most 1")
        if self.smallest_batch is not None and self.smallest_batch < 1:
            raise SettingError(f"smallest_batch is {self.smallest_batch}; it must be at least 1")
        if self.warm_up is not None and (self.warm_up < 1 or self.decay):
            raise SettingError(f"warm_up is {self.warm_up}; it must be at least 1, and decay off")
        if not 0 <= self.beta2 < 1:
            raise SettingError(f"beta2 is {self.beta2}; it must be at least 0 and below 1")
        if self.learning_rate <= 0 or self.weight_decay < 0:
            raise SettingError("learning_rate must be above 0 and weight_decay 0 or more")
        if self.replay < 0:
            raise SettingError(f"replay is {self.replay}; it must be 0 or more")

    def rate(self, step: int, steps: int) -> float:
        """The step size of step ``step`` of ``steps`` in all."""
        rate: float = self.learning_rate * self.decay_rate ** (step / self.decay_steps)
        if self.warm_up is not None:  # Vaswani et al. 2017, section 5.3
            return rate * min((step + 1) / self.warm_up, math.sqrt(self.warm_up / (step + 1)))
        if not self.decay:
            return rate
        return rate * min(1.0, (step + 1) / WARM_UP) * (0.5 + 0.5 * math.cos(math.pi * step / steps))

    def batch(self, halvings: int) -> int:
        """The batch size after so many checks without a better figure."""
        if self.smallest_batch is None:
            return self.batch_size
        return max(self.batch_size >> halvings, min(self.smallest_batch, self.batch_size))

    def better(self, new: float, old: float) -> bool:
        """Whether one watched figure is better than another."""
        return new < old if self.watch == "loss" else new > old


@dataclass(frozen=True, slots=True)
class Report:
    """Where training stands. Losses are means in nats; ``valid``, the watched figure, is set after an epoch's check."""

    stage: str
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    seconds: float
    valid: float | None = None
    best: float | None = None
    stopped: bool = False


class Trained(NamedTuple):
    """How a finished run went: the epochs behind the best weights, and seconds an epoch, checks included."""

    best_epoch: int
    seconds_an_epoch: float


def train(
    model: nn.Module,
    data: Source,
    valid: Callable[[], float] | None,
    schedule: Schedule,
    *,
    optimizer: Adam,
    seed: int,
    stage: str = "fit",
    checkpoint: Path | None = None,
    resume: bool = False,
    fingerprint: str = "",
    every_seconds: float = 30.0,
) -> Generator[Report, None, Trained]:
    """Train a model until the watched figure stops getting better; it ends with its best weights.

    Args:
        model: a module with ``loss(batch) -> Tensor``, the mean over the batch's targets.
        data: what to learn.
        valid: the figure that early stopping watches, as ``schedule.watch`` says, on data that is neither learned nor
            used as a test; ``None`` to train for all the epochs.
        schedule: epochs, sizes, rates.
        optimizer: made by :func:`ensue.optimizer.make_optimizer`; ends in the state that goes with the best weights.
        seed: the same seed gives the same bytes on the CPU.
        stage: a word for the reports.
        checkpoint: a file that lets a killed run continue; a finished run leaves it, for the caller to remove.
        resume: continue from ``checkpoint`` if it is there.
        fingerprint: names data and settings, so that a checkpoint of another run is refused.
        every_seconds: time between two checkpoints.

    Returns:
        The number of epochs behind the best weights, and what an epoch took.

    Raises:
        SettingError: the checkpoint belongs to other data or settings, or the loss is no longer a number.
        ModelFolderError: the checkpoint is damaged or cannot be written.
    """
    run = _Run(model, optimizer, seed, f"{fingerprint} {json.dumps(asdict(schedule))} {seed} {here()[1]}")
    if resume and checkpoint is not None and checkpoint.exists():
        run.load(checkpoint)
    first, saved, begun = run.epoch, time.monotonic(), time.monotonic()

    def report(epoch: int, step: int, steps: int, loss: float, valid: float | None, stopped: bool) -> Report:
        seconds = time.monotonic() - begun
        return Report(stage, epoch, schedule.epochs, step, steps, loss, seconds, valid, run.best, stopped)

    while run.epoch < schedule.epochs and run.waited < schedule.patience:
        plan = data.plan(schedule.batch(run.halvings), (seed, run.epoch))
        for number in range(run.step, len(plan)):
            run.set_rate(schedule.rate(run.taken, schedule.epochs * len(plan)))
            run.learn(data, plan[number], run.taken)
            run.step, run.taken = number + 1, run.taken + 1
            if checkpoint is not None and time.monotonic() - saved > every_seconds:
                run.save(checkpoint)
                saved = time.monotonic()
            yield report(run.epoch + 1, run.step, len(plan), run.mean, None, False)
        checked = (run.epoch + 1) % schedule.check_every == 0 or run.epoch + 1 == schedule.epochs
        found = valid() if checked and valid is not None else None
        mean = run.close_epoch(found, better=schedule.better)
        over = run.epoch == schedule.epochs or run.waited >= schedule.patience
        if checkpoint is not None and (over or time.monotonic() - saved > every_seconds):
            run.save(checkpoint)
            saved = time.monotonic()
        yield report(run.epoch, len(plan), len(plan), mean, found, over)
    return Trained(run.restore_best(), (time.monotonic() - begun) / max(1, run.epoch - first))


def one_pass(
    model: nn.Module, data: Source, plan: Sequence[Index], *, optimizer: Adam, rate: float, seed: int, first: int = 0
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
    run = _Run(model, optimizer, seed, "")
    run.set_rate(rate)
    for step, index in enumerate(plan, first):
        run.learn(data, index, step)
    return run.mean


def mean_loss(model: nn.Module, source: Source, targets: int = 4096) -> float:
    """Mean loss over all targets of a source, in evaluation mode, shared among the ranks."""
    rank, world = here()
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    sums = torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        for number, index in enumerate(source.groups(targets)):
            if number % world == rank:
                batch: TrainingBatch = source.batch(index).to(device)
                sums += torch.tensor([float(cast(Any, model).loss(batch)) * batch.num_targets, batch.num_targets])
    model.train(was_training)
    if world > 1:
        sums = sums.to(device)
        distributed.all_reduce(sums)
    return float(sums[0] / sums[1])


@contextmanager
def _in_order(device: torch.device) -> Iterator[None]:
    """Sums on the CPU in one order, whatever the number of threads: gradients of rows that are looked up twice."""
    if device.type != "cpu":
        yield
        return
    enabled, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    about: Any = torch.utils.deterministic
    filled = about.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    about.fill_uninitialized_memory = False  # it takes time, and no sum depends on it
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warn)
        about.fill_uninitialized_memory = filled


class _Run:
    """The state of one training run: everything a checkpoint must hold."""

    def __init__(self, model: nn.Module, optimizer: Adam, seed: int, fingerprint: str) -> None:
        self.model, self.optimizer, self.seed, self.fingerprint = model, optimizer, seed, fingerprint
        self.device = next(model.parameters()).device
        self.epoch = self.step = self.taken = self.waited = self.halvings = self.best_epoch = 0
        self.loss_sum = self.loss_count = 0.0
        self.best: float | None = None
        self.best_tensors: dict[str, Tensor] = {}

    @property
    def mean(self) -> float:
        """Mean training loss of this epoch so far."""
        return self.loss_sum / max(self.loss_count, 1.0)

    def set_rate(self, rate: float) -> None:
        """The optimiser's step size from here on."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def learn(self, data: Source, index: Index, step: int) -> None:
        """One step of the optimiser on this rank's part of a batch."""
        rank, world = here()
        state = np.random.SeedSequence([self.seed, step, rank]).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0] >> np.uint64(1)))
        self.model.train()
        self.optimizer.zero_grad()
        part = index[rank::world]
        total = torch.zeros(2, dtype=torch.float64)
        if len(part):
            batch: TrainingBatch = data.batch(part).to(self.device)
            with _in_order(self.device):
                with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                    loss: Tensor = cast(Any, self.model).loss(batch)
                torch.autograd.backward(loss * batch.num_targets if world > 1 else loss)
            total = torch.tensor([loss.item() * batch.num_targets, batch.num_targets], dtype=torch.float64)
        if world > 1:
            total = self._average(total)
        self._require_number(float(total[0]))
        self.loss_sum += float(total[0])
        self.loss_count += float(total[1])
        self.optimizer.step()

    def _average(self, total: Tensor) -> Tensor:
        """Sum the gradients of all ranks in one message and divide by the number of targets.

        The message is as long as the model; what comes back for a table by rows is those that any rank touched.
        """
        parameters, tables = [p for p in self.model.parameters() if p.requires_grad], by_row(self.model)
        grads = (torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)
        flat = torch.cat([(grad.to_dense() if grad.is_sparse else grad).flatten() for grad in grads])
        total = total.to(self.device)
        distributed.all_reduce(total)
        distributed.all_reduce(flat)
        flat /= total[1].to(flat.dtype)
        for parameter, part in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
            grad = part.view_as(parameter)
            parameter.grad = grad.to_sparse(1) if parameter in tables else grad
        return total.cpu()

    def close_epoch(self, valid: float | None, better: Callable[[float, float], bool]) -> float:
        """Count the epoch, remember the weights if they are the best so far; returns the mean training loss."""
        mean = self.mean
        self._require_number(valid or 0.0)
        self.epoch, self.step, self.loss_sum, self.loss_count = self.epoch + 1, 0, 0.0, 0.0
        if valid is not None and (self.best is None or better(valid, self.best)):
            self.best, self.waited, self.best_epoch = valid, 0, self.epoch
            self.best_tensors = {name: tensor.detach().clone() for name, tensor in self._tensors().items()}
        elif valid is not None:
            self.waited, self.halvings = self.waited + 1, self.halvings + 1
        return mean

    def _require_number(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise SettingError(f"the loss became {loss} in epoch {self.epoch + 1}; try a smaller learning_rate")

    def restore_best(self) -> int:
        """Go back to the weights and the optimiser's state of the best check, if there was one; returns its epoch."""
        if self.best_tensors:
            self._put(self.best_tensors)
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.model.parameters()):
            raise SettingError("the weights are no longer numbers; try a smaller learning_rate")
        return self.best_epoch or self.epoch

    def save(self, path: Path) -> None:
        """Write everything to one file (rank 0 only)."""
        if here()[0]:
            return
        names = ("epoch", "step", "taken", "waited", "halvings", "best", "best_epoch", "loss_sum", "loss_count")
        counts = {name: getattr(self, name) for name in names}
        tensors = self._tensors() | {f"best.{name}": tensor for name, tensor in self.best_tensors.items()}
        write_file(path, tensor_bytes(tensors, {"fingerprint": self.fingerprint, "counts": json.dumps(counts)}))

    def load(self, path: Path) -> None:
        """Continue from :meth:`save`."""
        try:
            with safe_open(path, "pt", device=str(self.device)) as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ModelFolderError(f"{path}: the checkpoint is damaged ({error}); start without --resume") from error
        if metadata.get("fingerprint") != self.fingerprint:
            raise SettingError(f"{path}: the checkpoint is of other data or settings; start without --resume")
        for name, value in json.loads(metadata["counts"]).items():
            setattr(self, name, value)
        best = {name.removeprefix("best."): t for name, t in tensors.items() if name.startswith("best.")}
        self.best_tensors = best
        self._put({name: tensor for name, tensor in tensors.items() if not name.startswith("best.")})

    def _tensors(self) -> dict[str, Tensor]:
        moments = optimizer_tensors(self.model, self.optimizer)
        weights = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        return weights | {f"optimizer.{name}": tensor for name, tensor in moments.items()}

    def _put(self, tensors: Mapping[str, Tensor]) -> None:
        weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
        self.model.load_state_dict(weights)
        moments = {name.removeprefix("optimizer."): t for name, t in tensors.items() if name.startswith("optimizer.")}
        restore_optimizer(self.model, self.optimizer, moments)
