"""The served models: loaded, watched, and swapped when their folder is replaced, while requests go on."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, cast

import plotly.graph_objects as go
import torch

from ensue.errors import EnsueError, ModelFolderError, SettingError
from ensue.predictor import AnyPredictor
from ensue.registry import task_of
from ensue.serve.batching import Full, Job, Worker
from ensue.serve.bodies import load_of
from ensue.serve.monitoring import Log, Metrics
from ensue.serve.problems import Problem, busy, late
from ensue.serve.proof import ask, described, prove_apart, read
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import Drawn, Kind, Question, service_of
from ensue.store import versions
from ensue.store.card import read_scores
from ensue.store.folder import linked_copy

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
RETRY = 30.0
"""Seconds until a folder that could not be loaded is tried again, unless it changes before."""

LONGEST_RETRY = 3600.0
"""Seconds after many attempts: each waits twice as long as the one before."""

Identity = tuple[int, int, int] | None
Prove = Callable[[Path], None]
"""Tries a version before it is loaded; raises ModelFolderError where it does not answer."""


class Loaded(NamedTuple):
    """Contents of a folder when it was read."""

    predictor: AnyPredictor
    version: int
    examples: list[dict[str, object]]


class Watched(ABC):
    """A served folder; a new version is activated once it has been proved.

    Args:
        name: what requests call the model.
        folder: where its versions appear.
        metrics: counts versions that were refused.
        log: tells of them.

    Attributes:
        refused: why what lies in the folder now does not answer; empty where it does.
    """

    def __init__(self, name: str, folder: Path, metrics: Metrics, log: Log) -> None:
        self.name, self.folder, self.refused = name, folder, ""
        self._metrics, self._log = metrics, log
        self._identity = identity_of(folder)
        self._failed: Identity = None
        self._attempts = 0
        self._retry = 0.0

    def refresh(self, prove: Prove) -> bool:
        """Take up what was put into the folder's place; where that fails for any reason, the version before stays.

        Args:
            prove: called with a copy of the version that nobody replaces, from which it is then taken up.
        """
        identity = identity_of(self.folder)
        if identity is None or identity == self._identity:
            self.refused = ""
            return False
        if self._failed == identity and time.monotonic() < self._retry:
            return False
        copy = self.folder
        try:
            with ExitStack() as stack:
                copy = stack.enter_context(pinned(self.folder))
                prove(copy)
                loaded = self._read(copy)
                if copy == self.folder and identity_of(copy) != identity:
                    raise ModelFolderError(f"{copy}: was replaced while it was tested")
                self._activate(loaded, copy, stack)
        except InterruptedError:  # the service stops
            return False
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a version raises, others are still answered
            self._refuse(error, identity, copy)
            return False
        self._identity, self.refused = identity, ""
        return True

    def revert(self) -> None:
        """Go back to the version before: no process could answer by the one that was taken up last."""
        self._restore()
        self._refuse(ModelFolderError(f"{self.folder}: no worker could load it"), self._identity, self.folder)
        self._identity = None

    def tell(self) -> None:
        """Log and count that what was taken up last is what answers now."""
        self._metrics.swaps.labels(self.name).inc()
        self._metrics.version.labels(self.name).set(self.version)
        self._log.event("swapped", model=self.name, version=self.version)

    @property
    @abstractmethod
    def version(self) -> int:
        """The version that answers."""

    def _refuse(self, error: BaseException, identity: Identity, copy: Path) -> None:
        """Note and log that a version does not answer; it is tried again after a while."""
        self._attempts = self._attempts + 1 if self._failed == identity else 0
        self._failed = identity
        self._retry = time.monotonic() + min(RETRY * 2**self._attempts, LONGEST_RETRY)
        wrong = str(error) if isinstance(error, EnsueError) else f"{copy}: cannot be loaded ({described(error)})"
        for path in (copy, self.folder):
            wrong = wrong.replace(str(path), self.name)
        self.refused = wrong
        self._metrics.failures.labels(self.name).inc()
        self._log.event("version_refused", model=self.name, error=wrong)

    @abstractmethod
    def _read(self, source: Path) -> Loaded | None:
        """Load a version, where this process does."""

    @abstractmethod
    def _activate(self, loaded: Loaded | None, copy: Path, stack: ExitStack) -> None:
        """Answer with a version from now on; ``stack`` holds its copy on the disk."""

    @abstractmethod
    def _restore(self) -> None:
        """Answer with the former version."""


class Held(Watched):
    """A folder and its loaded model, without a thread.

    Args:
        name: what requests call it.
        folder: where it stands.
        metrics: hears of versions and failures.
        log: hears of them.
        warm: whether it is asked at once; else :meth:`warm` does so, in the process that answers.
        source: where the version is read from that answers first; the folder unless given.

    Raises:
        ModelFolderError: the folder is none, or damaged, or its model does not answer.
    """

    def __init__(
        self, name: str, folder: Path, metrics: Metrics, log: Log, *, warm: bool = True, source: Path | None = None
    ) -> None:
        super().__init__(name, folder, metrics, log)
        self._warm, self.task = warm, ""
        self.loaded = self._former = self._read(source or folder)
        self.task = self.loaded.predictor.task
        self.since = datetime.now(UTC)
        metrics.version.labels(name).set(self.loaded.version)

    @property
    def version(self) -> int:
        """The version that answers."""
        return self.loaded.version

    def warm(self) -> None:
        """Build what is built once and ask for a few answers, so that no request waits for it."""
        self.loaded = self.loaded._replace(examples=ask(self.loaded.predictor, self.folder))

    @property
    def unprepared(self) -> bool:
        """True where something slow must be built before the first answer."""
        return service_of(self.task).is_unprepared(self.loaded.predictor)

    def made(self) -> bytes:
        """Build it and return its bytes, for :meth:`take` in another process."""
        service = service_of(self.task)
        service.prepare(self.loaded.predictor)
        assert service.preparation is not None
        return service.preparation.pack(self.loaded.predictor)

    def take(self, made: bytes) -> None:
        """Use what another process built."""
        preparation = service_of(self.task).preparation
        assert preparation is not None
        preparation.unpack(self.loaded.predictor, made)

    def _read(self, source: Path) -> Loaded:
        predictor = read(source)
        _require_task(source, predictor.task, self.task or predictor.task)
        examples = ask(predictor, source) if self._warm else []
        return Loaded(predictor, versions.current(source), examples)

    def _activate(self, loaded: Loaded | None, copy: Path, stack: ExitStack) -> None:
        assert loaded is not None
        self._former, self.loaded, self.since = self.loaded, loaded, datetime.now(UTC)

    def _restore(self) -> None:
        self.loaded = self._former


class Pinned(Watched):
    """A folder of which each worker loads the proved version for itself, from a copy that nobody replaces.

    Args:
        name: what requests call the model.
        folder: where its versions appear.
        metrics: counts versions that were refused.
        log: tells of them.

    Attributes:
        source: where the version that answers lies.
    """

    def __init__(self, name: str, folder: Path, metrics: Metrics, log: Log) -> None:
        super().__init__(name, folder, metrics, log)
        self.task = task_of(folder)
        self._stack, self._former = ExitStack(), (folder, ExitStack())
        self.source = self._stack.enter_context(pinned(folder))
        self._source_identity = identity_of(self.source)

    @property
    def version(self) -> int:
        """The version that answers."""
        return versions.current(self.source)

    def hold(self) -> Held:
        """Load the version that answers, for a worker.

        Raises:
            ModelFolderError: it was not linked beside its folder, and has been replaced since.
        """
        if identity_of(self.source) != self._source_identity:
            raise ModelFolderError(f"{self.folder}: was replaced by a version that no worker could load")
        try:
            return Held(self.name, self.folder, self._metrics, self._log, source=self.source)
        except EnsueError as error:
            raise ModelFolderError(str(error).replace(str(self.source), str(self.folder))) from error

    def close(self) -> None:
        """Remove the copies."""
        self._former[1].close()
        self._stack.close()

    def _read(self, source: Path) -> None:
        _require_task(source, task_of(source), self.task)

    def _activate(self, loaded: Loaded | None, copy: Path, stack: ExitStack) -> None:
        self._former[1].close()
        self._former = self.source, self._stack
        self.source, self._stack = copy, stack.pop_all()
        self._source_identity = identity_of(copy)

    def _restore(self) -> None:
        self._stack.close()
        self.source, self._stack = self._former
        self._former = self.source, ExitStack()
        self._source_identity = identity_of(self.source)


def _require_task(source: Path, task: str, former: str) -> None:
    if task != former:
        raise ModelFolderError(f"{source}: now answers {task}, not {former}; stop and start the service")


@contextmanager
def pinned(folder: Path) -> Iterator[Path]:
    """Hold a copy of a folder that nobody replaces; the folder itself where nothing can be written beside it."""
    with ExitStack() as stack:
        copy = folder
        with suppress(ModelFolderError):
            copy = stack.enter_context(linked_copy(folder))
        yield copy


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
        self._total, self._unknown = metrics.given.labels(held.name), metrics.unknown.labels(held.name)
        self.worker = Worker(
            self._answer,
            max_batch=settings.batch,
            max_waiting=settings.waiting,
            begin=lambda: torch.set_num_threads(settings.threads),
            on_batch=self._count_batch,
            load=lambda question: load_of(cast(Question, question).record),
            interval=settings.interval,
        )
        if metrics.places is None:  # else each process writes it down for the others
            metrics.waiting.labels(held.name).set_function(lambda: self.worker.waiting)

    def _count_batch(self, size: int) -> None:
        self._metrics.batch.labels(self.name).observe(size)
        if self._metrics.places is not None:
            self._metrics.waiting.labels(self.name).set(self.worker.waiting)

    async def ask(self, kind: Hashable, records: Sequence[object]) -> Sequence[str]:
        """Return lines of JSON, one per record.

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
            raise busy(f"model {self.name!r} has a full queue ({len(records)} more records)") from None
        try:
            async with asyncio.timeout(self.settings.patience):
                lines = await job.done
        except TimeoutError:
            raise late(f"model {self.name!r} did not answer within {self.settings.patience:g} s") from None
        finally:
            if job.done.cancelled():  # not answered: no further slice of it begins
                self.worker.forget(job)
        if isinstance(kind, Kind) and kind.verb == "predict":
            total, unknown = self.drift.count(lines)
            self._total.inc(total)
            self._unknown.inc(unknown)
        return lines

    def refresh(self) -> bool:
        """Prove and load the folder if it was replaced, and swap it in; a folder that fails leaves what answers.

        It takes longer than loading does: call it in a thread.
        """
        with self._swapping:
            swapped = self.held.refresh(lambda copy: prove_apart(copy, self.settings.proof_seconds))
            if swapped:
                self.held.tell()
        return swapped

    def describe(self) -> dict[str, object]:
        """Return the model's entry in ``/v1/models``."""
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
        predictor, asked = self.held.loaded.predictor, cast(Sequence[Question], questions)
        if isinstance(kind, Drawn):
            return [_drawn(*self.service.draw(predictor, kind, question)) for question in asked]
        assert isinstance(kind, Kind)
        return self.service.answer(predictor, kind, asked)


class Models(Mapping[str, Model]):
    """The served models by name.

    Args:
        held: what is loaded of each.
        settings: limits and times.
        metrics: hears of them.
        log: hears of them.
        own: whether this process loads what is replaced.
    """

    def __init__(
        self, held: Sequence[Held], settings: ServeSettings, metrics: Metrics, log: Log, *, own: bool = True
    ) -> None:
        torch.set_num_threads(settings.threads)
        self._settings, self._log, self._own = settings, log, own
        self._models = {one.name: Model(one, settings, metrics) for one in held}

    @classmethod
    def of_folders(cls, folders: Mapping[str, Path], settings: ServeSettings, metrics: Metrics, log: Log) -> Models:
        """Load all folders; see :func:`hold`."""
        torch.set_num_threads(settings.threads)
        return cls(hold(folders, metrics, log), settings, metrics, log)

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

    @property
    def silent(self) -> list[str]:
        """Models whose thread has ended, or is busy with one slice for longer than requests wait."""
        late = self._settings.patience
        return [name for name, own in self._models.items() if not own.worker.alive or own.worker.busy > late]

    async def watch(self) -> None:
        """Look at the folders for ever, and swap in what was replaced."""
        if self._own:
            await asyncio.gather(*map(self._watch, self._models.values()))

    async def _watch(self, model: Model) -> None:
        """Look at one folder; whatever goes wrong there, the next look follows."""
        while True:
            await asyncio.sleep(max(self._settings.poll, 0.02))
            try:
                await asyncio.to_thread(model.refresh)
            except Exception as error:  # noqa: BLE001 - see above
                self._log.failure(error, route="watch")

    @property
    def refused(self) -> dict[str, str]:
        """Reasons why versions in the folders do not answer, by model."""
        return {name: model.held.refused for name, model in self._models.items() if model.held.refused}

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
    require_names(folders)
    return [Held(name, folder, metrics, log, warm=warm) for name, folder in folders.items()]


def require_names(folders: Mapping[str, Path]) -> None:
    """Refuse names that cannot stand in an address.

    Raises:
        SettingError: there is no folder, or a name is of another form.
    """
    if not folders:
        raise SettingError("name at least one model folder, as in `ensue serve models/next`")
    for name in folders:
        if not NAME.fullmatch(name):
            raise SettingError(f"{name!r} cannot be the name of a model; write NAME=FOLDER with letters and digits")


def identity_of(folder: Path) -> Identity:
    """Changes with every replacement of the folder, and with nothing else."""
    try:
        status = (folder / "settings.json").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _drawn(figure: go.Figure, words: str) -> str:
    """Return a line of JSON."""
    return f'{{"figure": {figure.to_json()}, "words": {json.dumps(words, ensure_ascii=False)}}}'


def facts(folder: Path) -> dict[str, object]:
    """The day that a folder's model was written (ISO, UTC) and the scores of its card; ``None`` where there is none."""
    try:
        written = (folder / "settings.json").stat().st_mtime
    except OSError:  # a folder may be replaced at this moment
        return {"trained": None, "scores": None}
    return {"trained": datetime.fromtimestamp(written, UTC).date().isoformat(), "scores": read_scores(folder)}
