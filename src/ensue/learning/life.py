"""Life of a model, the same for all tasks: fit on training data, update on new data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ensue.lazy import lazy, torch
from ensue.learning.state import AnyState, is_network
from ensue.nn.validation import as_array
from ensue.records import History
from ensue.schedule import Schedule
from ensue.store.pack import NETWORK, TABLES
from ensue.training.checkpoint import NO_CHECKPOINT, Checkpoint, run_key
from ensue.training.distributed import share
from ensue.training.report import LEFT_OUT, OUT_OF_TIME, Report, Reports, Trained
from ensue.vocabulary import FIRST

if TYPE_CHECKING:
    from torch.optim import Adam

    from ensue.training import loop
    from ensue.training import optimizer as optimizers
    from ensue.training.loop import TrainingSource
else:
    loop = lazy("ensue.training.loop")
    optimizers = lazy("ensue.training.optimizer")

MAX_EXAMPLES = 6
"""Number of held-out records that a model keeps for the page."""
EVENTS = 20
"""Number of the latest events of a history that an example shows."""
CHARACTERS = 600
"""Length of a text up to which it may be an example."""
TRIED = 200
"""Held-out records that are looked at, spread over all of them."""
MIN_STEPS = 100
"""Steps before a network may be left out; after 60 on 1,000 questions of TREC it was still as good as none."""

Example = dict[str, object]


def keep(state: AnyState, num: int, example: Callable[[int], Example | None], *, learned: bool) -> None:
    """Keep some of the held-out records, if the predictor is to.

    Args:
        state: what was trained.
        num: held-out records.
        example: one of them by its number, as :func:`of_history` and :func:`of_texts` write it, if it may be kept.
        learned: whether they were learned in the end, when they had served to judge.
    """
    if not state.keeps_examples or not num:
        return
    # Spread the tries evenly over the held-out records; ``unique`` drops repeats where there are few.
    tried = np.unique(np.linspace(0, num - 1, min(num, TRIED)).astype(np.int64)).tolist()
    # Visit every step-th try first, then their successors, so that the first matches are spread out as well.
    step = max(1, len(tried) // MAX_EXAMPLES)
    order = (tried[at] for start in range(step) for at in range(start, len(tried), step))
    examples = [*islice((record for record in map(example, order) if record is not None), MAX_EXAMPLES)]
    if examples:
        state.metadata.examples = {"learned": learned, "held_out": examples}


def of_history(record: History) -> Example | None:
    """Return the latest events before the last one, which is the true answer; ``None`` without any."""
    if len(record.values) < 2:
        return None
    # The last event is the true answer, so the window ends before it.
    window = slice(max(0, len(record.values) - 1 - EVENTS), -1)
    query: Example = {"values": [*record.values[window]]}
    if record.times:
        query["times"] = [*record.times[window]]
    return {"record": query, "truth": [record.values[-1]]}


def of_texts(query: Example, texts: Sequence[str], truth: Iterable[str]) -> Example | None:
    """Return a record of texts; ``None`` where they are too long or empty."""
    if not any(text.strip() for text in texts) or sum(map(len, texts)) > CHARACTERS:
        return None
    return {"record": query, "truth": [*truth]}


Data = TypeVar("Data", bound=Sized)
StateT = TypeVar("StateT", bound=AnyState, contravariant=True)

USED = "used for the final training unless --no-refit"
"""Note on validation data that the final training includes."""
FIRST_TRAINING = 0.4
LAST_TRAINING = 0.8
"""Fractions of the time that is left for a training that another one on all data follows, and for the last one."""
NO_TRAINING = Report("update", 1, 1, 1, 1, 0.0, 0.0, stopped=True)
"""Report of an update that trains no network."""


@dataclass(frozen=True)
class Split(Generic[Data]):
    """Data of a fit.

    Attributes:
        train: data that is trained on first.
        valid: held-out data, for early stopping and model selection; ``None`` where nothing is selected.
        full: data of the final training, held-out data included; ``None`` if there is none.
        rule: how the data was split, as the card says it.
        notes: what was changed in the data.
    """

    train: Data
    valid: Data | None
    full: Data | None = None
    rule: str = ""
    notes: tuple[str, ...] = ()


class Life(Protocol[StateT, Data]):
    """Functions of a task that :func:`fit` calls; implemented by a module, ``ensue.tasks.TASK.train``."""

    def split(self, state: StateT, data: Data, valid: Data | None) -> Split[Data]:
        """Refuse data that cannot be trained on, and return training and validation data."""

    def train(self, state: StateT, split: Split[Data], checkpoint: Checkpoint) -> Reports[Split[Data]]:
        """Count the training data, train networks on it, and select by the validation data.

        Returns the split, without ``full`` where what was selected needs no final training.
        """

    def refit(self, state: StateT, full: Data, checkpoint: Checkpoint) -> Iterator[Report]:
        """Count all data and train the selected network on it."""

    def finish(self, state: StateT, split: Split[Data]) -> None:
        """Complete the metadata, and store held-out records for the tests of updates."""

    def example(self, state: StateT, valid: Data, index: int) -> Example | None:
        """Return a held-out record for the page, or ``None`` if it may not be shown."""


def fit(
    life: Life[StateT, Data], state: StateT, data: Data, valid: Data | None, checkpoint: Checkpoint
) -> Iterator[Report]:
    """Train a model from scratch, yielding a report per step.

    Args:
        life: functions of the task.
        state: an untrained model, which can be used when the generator ends.
        data: training data.
        valid: validation data. [default: a part of the training data is held out]
        checkpoint: a file from which a killed run continues.
    """
    split = life.split(state, data, valid)
    # Training may drop the final training on all data, if what it selected needs none.
    split = yield from life.train(state, split, checkpoint)
    if split.full is not None:
        yield from life.refit(state, split.full, checkpoint)
    if not state.metadata.held_out:
        state.metadata.held_out = split.rule
    life.finish(state, split)
    held_out = split.valid
    if held_out is not None:
        keep(state, len(held_out), lambda index: life.example(state, held_out, index), learned=split.full is not None)


def train_network(
    state: AnyState,
    data: TrainingSource,
    valid: Callable[[], float] | None,
    schedule: Schedule,
    *,
    arrays: Iterable[npt.NDArray[np.generic]],
    checkpoint: Checkpoint = NO_CHECKPOINT,
    stage: str = "fit",
    min_useful_metric: float | None = None,
    is_behind: Callable[[], bool] | None = None,
) -> Reports[Trained]:
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
        is_behind: see :func:`race`; ``None`` where the network races with nothing.
    """
    assert state.optimizer is not None
    reports = loop.train(
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
        stop_time=_stop_time(state, refit=valid is not None and schedule.refit),
    )
    if is_behind is None:
        trained = yield from reports
    else:
        # The network has to earn its cost: it races with the baselines on held-out data.
        trained, lost = yield from race(reports, is_behind)
        state.metadata.ended = LEFT_OUT if lost else ""
    if trained.late:
        state.metadata.ended = OUT_OF_TIME
        # A report that carries only a note, which the caller prints.
        yield Report(stage, 0, schedule.epochs, 0, 0, 0.0, 0.0, note=OUT_OF_TIME)
    state.metadata.epochs = trained.best_epoch
    state.seconds_an_epoch = trained.seconds_an_epoch
    return trained


def _stop_time(state: AnyState, *, refit: bool) -> float | None:
    """Return the time at which the training of a network has to end, so that the rest of the fit has its share."""
    if state.stop_time is None:
        return None
    now = time.monotonic()
    return now + (state.stop_time - now) * (FIRST_TRAINING if refit else LAST_TRAINING)


def race(reports: Reports[Trained], is_behind: Callable[[], bool]) -> Reports[tuple[Trained, bool]]:
    """Pass on the reports of a training, and end it at the first rung where the network is behind.

    Successive halving (Jamieson & Talwalkar, AISTATS 2016) of a network and of what costs less: at the epochs 1, 2, 4,
    … held-out data decides whether the network takes as many epochs again, if they are left and it took
    ``MIN_STEPS`` steps. No rung depends on the clock, so the same seed gives the same bytes.

    Args:
        reports: of :func:`ensue.training.loop.train`, with checks on held-out data.
        is_behind: returns whether the network, as it is now, adds nothing to the cheaper models on the held-out data;
            it is called on every rank, and the answer of the first rank counts.

    Returns:
        How the training went, and whether the network was behind.
    """
    rung = 1
    behind = False
    while True:
        try:
            report = next(reports)
        except StopIteration as end:
            trained: Trained = end.value
            return trained, behind
        # A rung is due once the epoch is reached, enough steps were taken, and as many epochs again fit.
        is_due = report.epoch >= rung and report.epoch * report.steps >= MIN_STEPS and 2 * report.epoch <= report.epochs
        if report.valid is not None and is_due:
            rung = 2 * report.epoch
            # Called on every rank; the answer of the first one decides, so that all stop after the same epoch.
            behind = share(is_behind())
        yield report
        if behind and report.valid is not None:
            report.stop()
            yield replace(
                report, valid=None, note=f"stopped after epoch {report.epoch} of at most {report.epochs}; {LEFT_OUT}"
            )


def train_update(state: AnyState, data: TrainingSource) -> Reports[Trained]:
    """Train the network of a state on new data in one pass; the number of the update is in the metadata already."""
    assert state.schedule is not None and state.optimizer is not None
    schedule = update_schedule(state.schedule, state.optimizer)
    seed = state.seed + state.metadata.updates
    return loop.train(state.module, data, None, schedule, optimizer=state.optimizer, seed=seed, stage="update")


def update_schedule(schedule: Schedule, optimizer: Adam) -> Schedule:
    """Return the schedule of one pass over new data: small batches, at a constant learning rate.

    A rate that rises and then falls with the steps is as it was at the end of training.
    """
    # Parameters that rarely get a gradient have taken fewer steps than others.
    num_steps = max((int(moments["step"]) for moments in optimizer.state.values()), default=0)
    # Asking for the rate of the last of num_steps + 1 steps gives the end of the schedule.
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
    # New rows are drawn at random: each update has a seed of its own, and repeats bit for bit.
    torch.manual_seed(state.seed + state.metadata.updates)
    # Save the moments by name, as growing replaces the parameters that they are stored under.
    moments = optimizers.optimizer_tensors(state.module, state.optimizer)
    state.network.grow(num_rows)
    state.optimizer = state.new_optimizer()
    optimizers.restore_optimizer(state.module, state.optimizer, moments)


@dataclass(frozen=True)
class Forgotten:
    """Summary of what was removed from a model, and what remains.

    Attributes:
        removed: (file, kind, count) of everything that came from the person.
        remains: sentences about what cannot be removed, and what to do about it.
    """

    removed: list[tuple[str, str, int]] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)

    def add(self, file: str, kind: str, count: int) -> None:
        """Note something that was removed; nothing is noted for 0."""
        if count:
            self.removed.append((file, kind, count))


def clear_rows(state: AnyState, ids: npt.NDArray[np.integer], num_rows: int) -> int:
    """Set the rows of some ids to 0 in the tables of the network and in the optimizer's moments, and count them.

    Args:
        state: a model; nothing happens without a network.
        ids: (removed,) rows.
        num_rows: number of rows of a table with a row per id.
    """
    if not is_network(state.model):
        return 0
    count = 0
    rows = torch.from_numpy(ids.astype(np.int64))
    for parameter in state.model.parameters():
        # Tables with a row per id are recognised by their number of rows.
        if parameter.dim() and len(parameter) == num_rows:
            parameter.data[rows.to(parameter.device)] = 0
            count += len(ids)
            for moment in (state.optimizer.state.get(parameter, {}) if state.optimizer else {}).values():
                # The step count is a single number, and is no trace of one id.
                if moment.dim():
                    moment[rows.to(moment.device)] = 0
    return count


def remove_hashes(
    state: Any, forgotten: Forgotten, removed: npt.NDArray[np.integer], others: npt.NDArray[np.integer], records: str
) -> bool:
    """Remove the hashes that only the person's records have.

    Args:
        state: with ``train_prints``, hashes of its training data.
        forgotten: takes a note.
        removed: hashes of the person's records.
        others: hashes of all other records.
        records: what a record is, in the plural.

    Returns:
        Whether the records include everything that the model was trained on.
    """
    former = as_array(state.train_prints)
    # A hash that other records share stays: their data was trained on as well.
    remaining = np.setdiff1d(former, np.setdiff1d(removed, others))
    state.train_prints = remaining
    forgotten.add(TABLES, f"fingerprints of {records}", len(former) - len(remaining))
    return bool(np.isin(former, np.concatenate([removed, others])).all())


def remove_words(state: Any, forgotten: Forgotten, ids: npt.NDArray[np.integer]) -> None:
    """Remove words that nobody else used from the tokenizer; their ids stay without a word."""
    # The rows of padding and unknown belong to nobody.
    ids = ids[ids >= FIRST]
    vocabulary = state.tokenizer.vocabulary
    forgotten.add(TABLES, "words that nobody else used", len(ids))
    state.tokenizer.vocabulary = vocabulary.without(ids.tolist())
    forgotten.add(NETWORK, "rows of words that nobody else used", clear_rows(state, ids, len(vocabulary)))


def note_remaining_words(forgotten: Forgotten, records: str) -> None:
    """Note that words remain, since other records that used them may be missing."""
    forgotten.remains.append(
        f"words that perhaps nobody else used ({TABLES}), for the records lack {records} that were learned: give all "
        "of them, the person's among them"
    )


def remove_examples(state: AnyState, forgotten: Forgotten, may_stay: Callable[[tuple[str, ...]], bool]) -> None:
    """Remove examples for the page.

    Args:
        state: a model.
        forgotten: takes a note.
        may_stay: returns whether an example stays, given its texts and its true answers.
    """
    examples = state.metadata.examples
    if not examples:
        return
    former = cast("list[dict[str, dict[str, list[str] | str]]]", examples["held_out"])
    remaining = []
    for example in former:
        # The field that holds the texts depends on the task.
        texts = next(example["record"][field] for field in ("values", "texts", "text") if field in example["record"])
        if may_stay((*([texts] if isinstance(texts, str) else texts), *example["truth"])):
            remaining.append(example)
    if len(remaining) < len(former):
        state.metadata.examples = {**examples, "held_out": remaining} if remaining else None
    forgotten.add("settings.json", "examples for the page", len(former) - len(remaining))
