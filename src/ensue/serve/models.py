"""The served models: loaded, watched, and swapped when their folder is replaced, while requests go on."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from ensue import kernels
from ensue.errors import EnsueError, ModelFolderError, SettingError
from ensue.lazy import is_imported
from ensue.predictor import AnyPredictor
from ensue.registry import task_of
from ensue.serve.batching import Full, Job, Worker
from ensue.serve.bodies import NAME, load_of
from ensue.serve.lists import ListStore
from ensue.serve.monitoring import Metrics, ServiceLog
from ensue.serve.problems import RequestError, busy, late
from ensue.serve.proof import ask, described, prove_apart, read
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import Kind, Question, service_of
from ensue.store import versions
from ensue.store.card import read_scores
from ensue.store.folder import linked_copy

RETRY = 30.0
"""Seconds until a folder that could not be loaded is tried again, unless it changes before."""

LONGEST_RETRY = 3600.0
"""Seconds after many attempts: each waits twice as long as the one before."""

Identity = tuple[int, int, int] | None
Prove = Callable[[Path], None]
"""Tries a version before it is loaded; raises ModelFolderError where it does not answer."""


@dataclass(frozen=True)
class Version:
    """A version of a folder.

    Attributes:
        source: where its files are.
        identity: of these files.
        files: removes them once the version is neither active nor the former one.
        predictor: the loaded model; ``None`` where each worker loads it for itself.
        is_own: whether the model consists of classes of ensue and torch alone.
        number: of the version.
        examples: example records of the page.
        since: start of this version.
    """

    source: Path
    identity: Identity
    files: ExitStack
    predictor: AnyPredictor | None
    is_own: bool
    number: int
    examples: list[dict[str, object]]
    since: datetime = field(default_factory=lambda: datetime.now(UTC))


class ServedFolder:
    """A served folder; a new version is activated once it has been proved.

    Args:
        name: what requests call the model.
        folder: where its versions appear.
        metrics: counts versions that were refused.
        log: reports them.
        loads: whether this process loads each version. Otherwise each worker does, from a copy that nobody replaces.
        warm: whether a loaded version is asked at once; otherwise :meth:`for_worker` does so.
        source: where the first version is read from. [default: the folder]

    Attributes:
        active: the version that answers.
        refused: why the version in the folder does not answer; empty where it does.

    Raises:
        ModelFolderError: the folder is no model folder, or damaged, or its model does not answer.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        metrics: Metrics,
        log: ServiceLog,
        *,
        loads: bool = True,
        warm: bool = True,
        source: Path | None = None,
    ) -> None:
        self.name, self.folder, self.refused = name, folder, ""
        self._metrics, self._log, self._loads, self._warm = metrics, log, loads, warm
        self._identity = identity_of(folder)
        self._failed: Identity = None
        self._attempts = 0
        self._retry = 0.0
        self.task = task_of(folder)
        with ExitStack() as stack:
            self.active = self._read(source or (folder if loads else stack.enter_context(pinned(folder))), stack)
        # An empty stack: the files are those of the active version and are removed with it.
        self._former = replace(self.active, files=ExitStack())
        if loads:
            metrics.version.labels(name).set(self.active.number)

    @property
    def predictor(self) -> AnyPredictor:
        """The model that answers, in a process that has loaded it."""
        assert self.active.predictor is not None
        return self.active.predictor

    def refresh(self, prove: Prove) -> bool:
        """Activate the version that has replaced the folder; where that fails for any reason, the former one stays.

        Args:
            prove: called with a copy of the version that nobody replaces, from which it is then activated.
        """
        identity = identity_of(self.folder)
        if identity is None or identity == self._identity:
            self.refused = ""
            return False
        # The same folder fails again most likely; a replaced one is tried at once.
        if self._failed == identity and time.monotonic() < self._retry:
            return False
        copy = self.folder
        try:
            with ExitStack() as stack:
                copy = stack.enter_context(pinned(self.folder))
                # A process of its own may crash or hang; only then the model is loaded here.
                prove(copy)
                version = self._read(copy, stack)
                # Nothing could be linked beside the folder, so it was tested where it may be replaced.
                if copy == self.folder and identity_of(copy) != identity:
                    raise ModelFolderError(f"{copy}: was replaced while it was tested")
        except InterruptedError:  # the service stops
            return False
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a version raises, others are still answered
            self._refuse(error, identity, copy)
            return False
        self._former.files.close()
        self._former, self.active = self.active, version
        self._identity = identity
        self.refused = ""
        return True

    def revert(self) -> None:
        """Activate the former version again: no worker could answer by the latest."""
        self.active.files.close()
        self.active, self._former = self._former, replace(self._former, files=ExitStack())
        self._refuse(ModelFolderError(f"{self.folder}: no worker could load it"), self._identity, self.folder)
        # The folder is tried again, however it looks.
        self._identity = None

    def report_swap(self) -> None:
        """Log and count that the latest version answers now."""
        self._metrics.swaps.labels(self.name).inc()
        self._metrics.version.labels(self.name).set(self.active.number)
        self._log.event("swapped", model=self.name, version=self.active.number)

    def for_worker(self) -> ServedFolder:
        """Return the folder with a loaded model that was asked for a few answers, so that no request waits for it.

        Raises:
            ModelFolderError: the version cannot be loaded, or could not be copied and was replaced.
        """
        if self._loads:
            self.active = replace(self.active, examples=ask(self.predictor, self.folder))
            return self
        source = self.active.source
        if identity_of(source) != self.active.identity:
            raise ModelFolderError(f"{self.folder}: was replaced by a version that no worker could load")
        try:
            return ServedFolder(self.name, self.folder, self._metrics, self._log, source=source)
        except EnsueError as error:
            raise ModelFolderError(str(error).replace(str(source), str(self.folder))) from error

    @property
    def is_unprepared(self) -> bool:
        """True where something slow must be built before the first answer."""
        return self._loads and not self.predictor.is_prepared

    def close(self) -> None:
        """Remove the copies."""
        self._former.files.close()
        self.active.files.close()

    def _read(self, source: Path, stack: ExitStack) -> Version:
        """Read a version; ``stack`` removes its files, which are needed for longer where each worker loads them."""
        predictor = read(source) if self._loads else None
        task = task_of(source) if predictor is None else predictor.task
        if task != self.task:
            raise ModelFolderError(f"{source}: now answers {task}, not {self.task}; stop and start the service")
        examples = ask(predictor, source) if predictor is not None and self._warm else []
        files = ExitStack() if self._loads else stack.pop_all()
        is_own = predictor is not None and is_own_model(predictor.trained)
        return Version(source, identity_of(source), files, predictor, is_own, versions.current(source), examples)

    def _refuse(self, error: BaseException, identity: Identity, copy: Path) -> None:
        """Note and log that a version does not answer; it is tried again after a while."""
        # Each failure of the same folder doubles the pause.
        self._attempts = self._attempts + 1 if self._failed == identity else 0
        self._failed = identity
        self._retry = time.monotonic() + min(RETRY * 2**self._attempts, LONGEST_RETRY)
        reason = str(error) if isinstance(error, EnsueError) else f"{copy}: cannot be loaded ({described(error)})"
        # Paths of this machine are not for clients.
        for path in (copy, self.folder):
            reason = reason.replace(str(path), self.name)
        self.refused = reason
        self._metrics.failures.labels(self.name).inc()
        self._log.event("version_refused", model=self.name, error=reason)


@contextmanager
def pinned(folder: Path) -> Iterator[Path]:
    """Hold a copy of a folder that nobody replaces; the folder itself where nothing can be written beside it."""
    with ExitStack() as stack:
        copy = folder
        with suppress(ModelFolderError):
            copy = stack.enter_context(linked_copy(folder))
        yield copy


class ServedModel:
    """One served folder whose model answers requests.

    Args:
        served: the folder.
        settings: limits and times.
        metrics: counts batches and ids.
    """

    def __init__(self, served: ServedFolder, settings: ServeSettings, metrics: Metrics) -> None:
        self.served = served
        self.settings = settings
        self._metrics = metrics
        self.name, self.folder, self.task = served.name, served.folder, served.task
        self._swapping = threading.Lock()
        self.service = service_of(served.task)
        self.lists = ListStore(served.folder)
        self.drift = metrics.drift(served.name)
        self._total, self._unknown = metrics.asked_values.labels(served.name), metrics.unknown.labels(served.name)
        self.worker = Worker(
            self._answer,
            max_batch=settings.batch,
            max_waiting=settings.waiting,
            begin=lambda: limit_threads(settings.threads),
            on_batch=self._count_batch,
            load=lambda question: load_of(cast(Question, question).record),
            interval=settings.interval,
            is_inline=lambda: self.served.active.is_own,
        )
        if metrics.counts is None:  # else each process writes it down for the others
            metrics.waiting.labels(served.name).set_function(lambda: self.worker.waiting)

    def questions(self, body: object) -> Sequence[Question]:
        """Return the questions of a body.

        Raises:
            DataError: the body names a list that is not stored.
        """
        return self.service.questions(body, self.lists)

    def _count_batch(self, size: int) -> None:
        self._metrics.batch.labels(self.name).observe(size)
        if self._metrics.counts is not None:
            self._metrics.waiting.labels(self.name).set(self.worker.waiting)

    async def ask(self, kind: Kind, records: Sequence[object]) -> Sequence[str]:
        """Return lines of JSON, one per record.

        Raises:
            EnsueError: the model cannot answer such a record.
            RequestError: the queue is full, or the answer took too long.
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
        # Plots and explanations are asked for the same records again: they would count twice.
        if kind.verb == "predict":
            total, unknown = self.drift.count(lines)
            self._total.inc(total)
            self._unknown.inc(unknown)
        return lines

    def refresh(self) -> bool:
        """Prove and load the folder if it was replaced, and swap it in; a folder that fails leaves what answers.

        It takes longer than loading does: call it in a thread.
        """
        with self._swapping:
            swapped = self.served.refresh(lambda copy: prove_apart(copy, self.settings.proof_seconds))
            if swapped:
                freeze_objects()
                self.served.report_swap()
        return swapped

    def describe(self) -> dict[str, object]:
        """Return the model's entry in ``/v1/models``."""
        predictor = self.served.predictor
        version = self.served.active
        held_out = predictor.metadata.examples
        return {
            "name": self.name,
            "task": self.task,
            "view": self.service.view,
            "model": predictor.model_name,
            **self.service.describe(predictor),
            **({} if held_out is None else {"held_out": held_out}),
            "version": version.number,
            "since": version.since.isoformat(timespec="seconds"),
            **facts(self.folder),
            "drift": self.drift.describe(),
            "examples": version.examples,
        }

    def _answer(self, kind: Hashable, questions: Sequence[object]) -> Sequence[str]:
        """In the worker's thread: one predictor from the first question of a batch to its last."""
        return self.service.answer(self.served.predictor, cast(Kind, kind), cast(Sequence[Question], questions))


class ServedModels(dict[str, ServedModel]):
    """The served models by name.

    Args:
        served: their folders, each with a loaded model.
        settings: limits and times.
        metrics: counts what they answer.
        log: reports new versions.
        watches: whether this process looks for new versions.
    """

    def __init__(
        self,
        served: Sequence[ServedFolder],
        settings: ServeSettings,
        metrics: Metrics,
        log: ServiceLog,
        *,
        watches: bool,
    ) -> None:
        limit_threads(settings.threads)
        self._settings, self._log, self._watches = settings, log, watches
        super().__init__({folder.name: ServedModel(folder, settings, metrics) for folder in served})

    @classmethod
    def of_folders(
        cls, folders: Mapping[str, Path], settings: ServeSettings, metrics: Metrics, log: ServiceLog
    ) -> ServedModels:
        """Load all folders and watch them.

        Raises:
            ModelFolderError: a folder is no model folder, or damaged.
        """
        served = [ServedFolder(name, folder, metrics, log) for name, folder in folders.items()]
        freeze_objects()
        return cls(served, settings, metrics, log, watches=True)

    def require(self, name: str) -> ServedModel:
        """A model by its name.

        Raises:
            RequestError: 404.
        """
        if name not in self:
            raise RequestError(404, f"no model is named {name[:64]!r}", "GET /v1/models lists those that are served")
        return self[name]

    @property
    def silent(self) -> list[str]:
        """Models whose thread has ended, or is busy with one slice for longer than requests wait."""
        late = self._settings.patience
        return [name for name, model in self.items() if not model.worker.alive or model.worker.busy > late]

    async def watch(self) -> None:
        """Look at the folders for ever, and swap in what was replaced."""
        if self._watches:
            await asyncio.gather(*map(self._watch, self.values()))

    async def _watch(self, model: ServedModel) -> None:
        """Look at one folder; whatever goes wrong there, the next look follows."""
        while True:
            await asyncio.sleep(max(self._settings.poll, 0.02))
            try:
                # To test and load takes seconds; requests go on.
                await asyncio.to_thread(model.refresh)
            except Exception as error:  # noqa: BLE001 - see above
                self._log.failure(error, route="watch")

    @property
    def refused(self) -> dict[str, str]:
        """Reasons why versions in the folders do not answer, by model."""
        return {name: model.served.refused for name, model in self.items() if model.served.refused}

    def close(self) -> None:
        """Answer what waits, then end the threads."""
        for model in self.values():
            model.worker.close(self._settings.grace)


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


def is_own_model(model: object) -> bool:
    """Return whether a model, its layers included, consists of classes of ensue and torch alone."""
    layers = getattr(model, "modules", lambda: [model])()
    return all(type(layer).__module__.partition(".")[0] in ("ensue", "torch") for layer in layers)


def limit_threads(num_threads: int) -> None:
    """Let compiled functions compute with this number of threads, and torch where a model has imported it."""
    kernels.set_num_threads(num_threads)
    if is_imported("torch"):
        sys.modules["torch"].set_num_threads(num_threads)


def freeze_objects() -> None:
    """Let the garbage collector, which stops all threads, pass over the objects that are there for long.

    Imported modules and loaded models have hundreds of thousands of them: a collection takes 1 ms then, not 120.
    """
    gc.unfreeze()  # a version that was replaced since the last call is garbage now, and in cycles
    gc.collect()
    gc.freeze()


def identity_of(folder: Path) -> Identity:
    """Changes with every replacement of the folder, and with nothing else."""
    try:
        status = (folder / "settings.json").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def facts(folder: Path) -> dict[str, object]:
    """The day that a folder's model was written (ISO, UTC) and the scores of its card; ``None`` where there is none."""
    try:
        written = (folder / "settings.json").stat().st_mtime
    except OSError:  # a folder may be replaced at this moment
        return {"trained": None, "scores": None}
    return {"trained": datetime.fromtimestamp(written, UTC).date().isoformat(), "scores": read_scores(folder)}
