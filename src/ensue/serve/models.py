"""The served models: loaded, watched, and swapped when their folder is replaced, while requests go on."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import plotly.graph_objects as go
import torch

from ensue.errors import EnsueError, ModelFolderError, SettingError
from ensue.predictor import AnyPredictor, load
from ensue.serve.batching import Full, Job, Worker
from ensue.serve.facts import facts
from ensue.serve.logs import Log
from ensue.serve.metrics import Metrics
from ensue.serve.problems import Problem, busy, late
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import Drawn, Kind, load_of, service_of
from ensue.store import versions
from ensue.tasks import TASKS

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
RETRY = 30.0
"""Seconds until a folder that could not be loaded is tried again, unless it changes before."""

Identity = tuple[int, int, int] | None


class Loaded(NamedTuple):
    """What a folder held when it was read."""

    predictor: AnyPredictor
    version: int
    examples: list[dict[str, object]]


class Held:
    """A folder, and what is loaded of it; no thread stands behind it.

    Args:
        name: what requests call it.
        folder: where it stands.
        metrics: hears of versions and failures.
        log: hears of them.
        warm: whether it is asked at once; else :meth:`warm` does so, in the process that answers.

    Raises:
        ModelFolderError: the folder is none, or damaged.
    """

    def __init__(self, name: str, folder: Path, metrics: Metrics, log: Log, *, warm: bool = True) -> None:
        self._warm = warm
        self.name, self.folder, self._metrics, self._log = name, folder, metrics, log
        self._failed: tuple[Identity, float] = (None, 0.0)
        self._identity = identity_of(folder)
        self.loaded = self._read()
        self.task = self.loaded.predictor.task
        self.since = datetime.now(UTC)
        metrics.version.labels(name).set(self.loaded.version)

    def refresh(self) -> bool:
        """Load the folder if it was replaced; a folder that cannot be loaded leaves what stands."""
        identity = identity_of(self.folder)
        if identity is None or identity == self._identity:
            return False
        if self._failed[0] == identity and time.monotonic() < self._failed[1] + RETRY:
            return False
        try:
            loaded = self._read()
            if loaded.predictor.task != self.task:
                raise ModelFolderError(
                    f"{self.name}: now answers {loaded.predictor.task}, not {self.task}; stop and start"
                )
        except EnsueError as error:
            self._failed = (identity, time.monotonic())
            self._metrics.failures.labels(self.name).inc()
            self._log.event("load_failed", model=self.name, error=_without_path(error, self.folder))
            return False
        self.loaded, self._identity, self.since = loaded, identity, datetime.now(UTC)
        return True

    def tell(self) -> None:
        """Say that what was loaded last is what answers now."""
        self._metrics.swaps.labels(self.name).inc()
        self._metrics.version.labels(self.name).set(self.loaded.version)
        self._log.event("swapped", model=self.name, version=self.loaded.version)

    def warm(self) -> None:
        """Make what is made once, and ask once, so that nobody waits for it."""
        self.loaded = self._warmed(self.loaded)

    @property
    def unprepared(self) -> bool:
        """Whether something is to be made before the first answer that takes long."""
        return service_of(self.task).prepares(self.loaded.predictor)

    def made(self) -> bytes:
        """Make it, for another process to :meth:`take`."""
        service = service_of(self.task)
        service.prepare(self.loaded.predictor)
        return service.made(self.loaded.predictor)

    def take(self, made: bytes) -> None:
        """Answer by what another process made."""
        service_of(self.task).take(self.loaded.predictor, made)

    def _read(self) -> Loaded:
        loaded = Loaded(load(self.folder), versions.current(self.folder), [])
        return self._warmed(loaded) if self._warm else loaded

    def _warmed(self, loaded: Loaded) -> Loaded:
        service = service_of(loaded.predictor.task)
        service.prepare(loaded.predictor)
        first = service.first_question(loaded.predictor)
        if first is not None:
            service.answer(loaded.predictor, Kind("predict", 1), [first])
        return loaded._replace(examples=service.shown(loaded.predictor))


class Model:
    """One served folder.

    Args:
        held: it.
        settings: limits and times.
        metrics: hears of batches.
    """

    def __init__(self, held: Held, settings: ServeSettings, metrics: Metrics) -> None:
        self.held, self.settings, self._metrics = held, settings, metrics
        self.name, self.folder, self.task = held.name, held.folder, held.task
        self._swapping = threading.Lock()
        self.service = service_of(held.task)
        self.drift = metrics.drift(held.name)
        self.worker = Worker(
            self._answer,
            most=settings.batch,
            room=settings.waiting,
            begin=lambda: torch.set_num_threads(settings.threads),
            heard=self._heard,
            load=lambda question: load_of(self.service.texts_of(question)),
            interval=settings.interval,
        )
        metrics.watch_waiting(held.name, lambda: self.worker.waiting)

    def _heard(self, size: int) -> None:
        self._metrics.batch.labels(self.name).observe(size)
        self._metrics.tell_waiting(self.name, self.worker.waiting)

    async def ask(self, kind: Hashable, records: Sequence[object]) -> Sequence[str]:
        """Lines of JSON, one a record.

        Raises:
            EnsueError: the model cannot answer such a record.
            Problem: the queue is full, or the answer took too long.
        """
        if not records:
            return []
        job = Job(kind, records)
        try:
            self.worker.ask(job)
        except Full:
            raise busy(f"model {self.name!r} has no room for {len(records)} more records") from None
        try:
            async with asyncio.timeout(self.settings.patience):
                lines = await asyncio.wrap_future(job.done)
        except TimeoutError:
            raise late(f"model {self.name!r} did not answer within {self.settings.patience:g} s") from None
        finally:
            if job.done.cancel():  # not answered: no further slice of it begins
                self.worker.forget(job)
        if isinstance(kind, Kind) and kind.verb == "predict":
            given, unknown = self.drift.hear(lines)
            self._metrics.given.labels(self.name).inc(given)
            self._metrics.unknown.labels(self.name).inc(unknown)
        return lines

    def refresh(self) -> bool:
        """Load the folder if it was replaced, and swap it in; a folder that cannot be loaded leaves what stands.

        It takes as long as loading does: call it in a thread.
        """
        with self._swapping:
            swapped = self.held.refresh()
            if swapped:
                self.held.tell()
        return swapped

    def describe(self) -> dict[str, object]:
        """What ``/v1/models`` says."""
        predictor = self.held.loaded.predictor
        held_out = predictor.metadata.examples
        return {
            "name": self.name,
            "task": self.task,
            "view": self.service.view,
            "model": predictor.model_name,
            **self.service.describe(predictor),
            **({} if held_out is None else {"held_out": held_out}),
            "version": self.held.loaded.version,
            "since": self.held.since.isoformat(timespec="seconds"),
            **facts(self.folder),
            "drift": self.drift.describe(),
            "examples": self.held.loaded.examples,
        }

    def _answer(self, kind: Hashable, questions: Sequence[object]) -> Sequence[str]:
        """In the worker's thread: one predictor from the first question of a batch to its last."""
        predictor = self.held.loaded.predictor
        if isinstance(kind, Drawn):
            return [_drawn(*self.service.draw(predictor, kind, question)) for question in questions]
        assert isinstance(kind, Kind)
        return self.service.answer(predictor, kind, questions)


class Models(Mapping[str, Model]):
    """All served models by name.

    Args:
        held: what is loaded of each.
        settings: limits and times.
        metrics: hears of them.
        own: whether this process loads what is replaced.
    """

    def __init__(self, held: Sequence[Held], settings: ServeSettings, metrics: Metrics, *, own: bool = True) -> None:
        torch.set_num_threads(settings.threads)
        self._settings, self._own = settings, own
        self._models = {one.name: Model(one, settings, metrics) for one in held}

    @classmethod
    def of_folders(cls, folders: Mapping[str, Path], settings: ServeSettings, metrics: Metrics, log: Log) -> Models:
        """Load all folders; see :func:`hold`."""
        torch.set_num_threads(settings.threads)
        return cls(hold(folders, metrics, log), settings, metrics)

    def __getitem__(self, name: str) -> Model:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def named(self, name: str) -> Model:
        """A model by its name.

        Raises:
            Problem: 404.
        """
        if name not in self._models:
            raise Problem(404, f"no model is named {name[:64]!r}", "GET /v1/models lists those that are served")
        return self._models[name]

    def of_histories(self, name: str | None) -> Model:
        """The model of histories, by its name where there are several.

        Raises:
            Problem: none is served, or several and none was named.
        """
        fitting = [model for model in self._models.values() if model.service.histories]
        tasks = " or ".join(task for task in TASKS if service_of(task).histories)
        if name is not None:
            model = self.named(name)
            if not model.service.histories:
                raise Problem(
                    422, f"model {name!r} is of task {model.task}, not {tasks}", f"name a model of task {tasks}"
                )
            return model
        if len(fitting) != 1:
            names = ", ".join(model.name for model in fitting)
            wrong = f"several models of task {tasks} are served" if fitting else f"no model of task {tasks} is served"
            raise Problem(422 if fitting else 404, wrong, f"choose with ?model=, from {names}" if fitting else "")
        return fitting[0]

    @property
    def silent(self) -> list[str]:
        """Models whose thread has ended, or is busy with one slice for longer than requests wait."""
        late = self._settings.patience
        return [name for name, own in self._models.items() if not own.worker.alive or own.worker.busy > late]

    async def watch(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Look at the folders for ever, and swap in what was replaced."""
        while self._own and not stopped():
            await asyncio.sleep(max(self._settings.poll, 0.02))
            for model in self._models.values():
                await asyncio.to_thread(model.refresh)

    def close(self) -> None:
        """Answer what waits, then end the threads."""
        for model in self._models.values():
            model.worker.close(self._settings.grace)


def hold(folders: Mapping[str, Path], metrics: Metrics, log: Log, *, warm: bool = True) -> list[Held]:
    """Load folders.

    Args:
        folders: name to folder.
        metrics: hears of them.
        log: hears of them.
        warm: as :class:`Held` has it.

    Raises:
        SettingError: no folder, or a name that cannot stand in an address.
        ModelFolderError: a folder is none, or damaged.
    """
    if not folders:
        raise SettingError("name at least one model folder, as in `ensue serve models/next`")
    for name in folders:
        if not NAME.fullmatch(name):
            raise SettingError(f"{name!r} cannot be the name of a model; write NAME=FOLDER with letters and digits")
    return [Held(name, folder, metrics, log, warm=warm) for name, folder in folders.items()]


def identity_of(folder: Path) -> Identity:
    """Changes with every replacement of the folder, and with nothing else."""
    try:
        status = (folder / "settings.json").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _drawn(figure: go.Figure, words: str) -> str:
    """A line of JSON."""
    return f'{{"figure": {figure.to_json()}, "words": {json.dumps(words, ensure_ascii=False)}}}'


def _without_path(error: EnsueError, folder: Path) -> str:
    return str(error).replace(str(folder), folder.name)
