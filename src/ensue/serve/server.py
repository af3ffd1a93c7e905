"""The process: one socket, one event loop, and a stop that finishes what is in flight."""

from __future__ import annotations

import fcntl
import gc
import io
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import uvicorn
from starlette.types import ASGIApp

from ensue.data.edges import Edges, read_edges
from ensue.errors import DataError, SettingError
from ensue.experiments import Experiment
from ensue.registry import task_of
from ensue.serve.app import Service, make_app
from ensue.serve.bodies import decode
from ensue.serve.events import open_queue
from ensue.serve.experiments import require_experiments
from ensue.serve.files import Files
from ensue.serve.limits import LOCAL, Connection, Register, Server, is_local, raise_file_limit
from ensue.serve.models import ServedFolder, ServedModels, limit_threads, require_names
from ensue.serve.monitoring import Metrics, ServiceLog, SharedCounts
from ensue.serve.problems import RequestError
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import service_of
from ensue.serve.workers import Supervisor, SupervisorLink
from ensue.store.swap import locked, sweep

TURN = 0.0005
"""Seconds for which a thread may hold the interpreter while others wait for it."""
PRIVATE = "ensue-serve-"
"""Prefix of the names of temporary folders."""
MAX_DEPTH = 64
MAX_VALUES = 10**7
"""Depth and number of values of a demo scenario, at most: it is the owner's file."""


def run(
    folders: Mapping[str, Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    story: Path | None = None,
    edges: Mapping[str, Path] = MappingProxyType({}),
    queue: str | None = None,
    experiments: Sequence[Experiment] = (),
    shown: Path | None = None,
    token: str = "",
    update_token: str = "",
    settings: ServeSettings | None = None,
    log: ServiceLog | None = None,
) -> None:
    """Serve model folders until a signal says stop; requests in flight are finished.

    Args:
        folders: name to model folder; a folder that is replaced is swapped in while requests go on.
        host: the address to listen on.
        port: 0 takes any free port, which the log names.
        workers: processes that answer at one port; they share what is loaded.
        story: a file of JSON that the page shows, at ``/v1/story``.
        edges: name of a model of histories to a file of true edges, ``from to`` per line, which its plots show.
        queue: where ``/v1/events`` puts events: ``sqlite:queue.db`` or ``redis://host:port/0?stream=NAME``.
        experiments: that the service answers at addresses of their own.
        shown: file to which the list of each answer with a variant is appended, without the ids of sessions.
        token: token of clients; needed unless only this machine can reach ``host``.
        update_token: token for updates and events; without one, every client may send them, but no client may leave
            out the test of an update.
        settings: limits and times.
        log: where lines go. [default: stderr]

    Raises:
        SettingError: a needed token is missing, or a name or an address is invalid.
        ModelFolderError: a folder is no model folder, or damaged.
    """
    limits = settings or ServeSettings()
    lines = log or ServiceLog()
    if not token and not is_local(host):
        raise SettingError(
            f"{host} can be reached from other machines: set ENSUE_TOKEN to a secret, or listen on 127.0.0.1"
        )
    for name, secret in (("ENSUE_TOKEN", token), ("ENSUE_UPDATE_TOKEN", update_token)):
        if not secret.isascii() or secret != secret.strip():
            raise SettingError(f"{name} must be plain ASCII without spaces around it")
    if token and token == update_token:
        raise SettingError("ENSUE_UPDATE_TOKEN is the same as ENSUE_TOKEN; give updates a secret of their own")
    if workers < 1 or (workers > 1 and sys.platform == "win32"):
        raise SettingError(f"--workers {workers}: give at least 1, and 1 on a system that cannot fork")
    require_names(folders)
    experiments_by_name = require_experiments(experiments, folders)
    scenario = None if story is None else _read_story(story)
    true_edges = _read_edges(edges, folders)
    local = (*LOCAL, host.lower()) if is_local(host) else ()
    names = (*local, *(name.lower() for name in limits.hosts))
    _quiet(lines)
    for folder in folders.values():
        sweep(folder)  # the copies of a service that was killed
    with _listen(host, port) as listening, _taking_turns(), ExitStack() as stack:
        counts = None
        if workers > 1:
            counts = SharedCounts(stack.enter_context(_private_folder()))
        metrics = Metrics(counts)

        service = Service(
            models=ServedModels((), limits, metrics, lines, watches=False),
            settings=limits,
            metrics=metrics,
            log=lines,
            files=Files(),
            experiments=experiments_by_name,
            shown=None if shown is None else ServiceLog(stack.enter_context(_appended(shown))),
            story=scenario,
            edges=true_edges,
            token=token,
            update_token=update_token,
            hosts=names,
            lock=None if counts is None else counts.folder / "learning.lock",
        )

        def answer(models: ServedModels, announce: Callable[[], None], link: SupervisorLink | None = None) -> None:
            service.models, service.link = models, link
            service.queue = None if queue is None else open_queue(queue)
            _serve(service, app or make_app(service), listening, announce, link)

        def announce(tasks: Mapping[str, str]) -> None:
            shown_host = f"[{host}]" if ":" in host else host
            several = {"workers": workers} if workers > 1 else {}
            address = f"http://{shown_host}:{listening.getsockname()[1]}"
            lines.event("listening", address=address, models=dict(tasks), **several)

        app: ASGIApp | None = None
        if counts is None:
            models = ServedModels.of_folders(folders, limits, metrics, lines)
            tasks = {name: model.task for name, model in models.items()}
            answer(models, lambda: announce(tasks))
        else:

            def work(served: Sequence[ServedFolder], link: SupervisorLink) -> None:
                answer(ServedModels(served, limits, metrics, lines, watches=False), lambda: None, link)
                if link.orphaned:  # whoever would remove it was killed
                    shutil.rmtree(counts.folder, ignore_errors=True)

            app = make_app(service)  # each worker would make its own, of 30 MB
            # Imports what uvicorn needs before the fork, so that workers share it.
            uvicorn.Config(app, lifespan="on", log_config=None).load()
            limit_threads(1)
            supervisor = Supervisor(folders, workers, limits, metrics, counts, lines, work)
            supervisor.run(lambda: announce(supervisor.tasks))
        lines.event("stopped")


def _appended(path: Path) -> TextIO:
    """Open a file to which several processes append lines: each write is one call of the system.

    Raises:
        SettingError: it cannot be written.
    """
    try:
        return io.TextIOWrapper(io.FileIO(path, "a"), "ascii", write_through=True)
    except OSError as error:
        raise SettingError(
            f"--shown {path}: cannot be written ({error.strerror}); name a file in a folder that is there"
        ) from error


@contextmanager
def _taking_turns() -> Iterator[None]:
    """Let the threads of this process have short turns, so that a small request is answered beside large ones.

    A thread that wants the interpreter gets it ten times sooner than by default.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(TURN)
    try:
        yield
    finally:
        gc.unfreeze()  # what was frozen once the models were loaded
        sys.setswitchinterval(interval)


def _serve(
    service: Service,
    app: ASGIApp,
    listening: socket.socket,
    announce: Callable[[], None],
    link: SupervisorLink | None = None,
) -> None:
    """Answer until a signal says stop.

    Args:
        service: what answers.
        app: made of it.
        listening: where.
        announce: called before the first request is taken.
        link: to who looks after this process, where it is one of several.
    """
    limits = service.settings

    def refused(reason: str) -> None:
        service.metrics.refused.labels(reason).inc()

    def stopping() -> None:
        service.stopping = True

    max_connections = raise_file_limit(limits.connections)
    register = Register(max_connections, min(limits.address_connections, max_connections), limits.head_seconds, refused)
    config = uvicorn.Config(
        app,
        http=partial(Connection, register),  # type: ignore[arg-type]  # called, never asked for its type
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, round(limits.grace)),
    )
    hooks = (link.begin, link.close) if link else ()
    server = Server(config, register, stopping, *hooks)
    # Also before it listens for signals itself, and when it raises them again.
    old = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        announce()
        server.run(sockets=[listening])
    finally:
        service.log.flush()
        if service.shown is not None:
            service.shown.flush()
        for number, handler in old.items():
            signal.signal(number, handler)


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Hold a temporary folder that is locked while a process of the service lives; remove those of killed services."""
    for folder_left in Path(tempfile.gettempdir()).glob(f"{PRIVATE}*"):
        with suppress(OSError), locked(folder_left, fcntl.LOCK_EX | fcntl.LOCK_NB):
            # The folder of temporary files belongs to all users.
            if folder_left.stat().st_uid == os.getuid():
                shutil.rmtree(folder_left, ignore_errors=True)
    with ExitStack() as stack:
        while True:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=PRIVATE, ignore_cleanup_errors=True)))
            with suppress(OSError):  # removed by another service that has just begun
                stack.enter_context(locked(folder, fcntl.LOCK_EX))
            if folder.exists():
                break
        yield folder


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket: a port in use is noticed before the models are read."""
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        family = socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingError(
            f"{host}:{port}: cannot be listened on ({reason}); choose another --host or --port"
        ) from error


def _read_story(path: Path) -> bytes:
    try:
        story = path.read_bytes()
        decode(story, MAX_DEPTH, MAX_VALUES)
    except OSError as error:
        raise SettingError(f"{path}: cannot be read ({error.strerror}); name a file of JSON") from error
    except RequestError as problem:
        raise DataError(f"{path}: {problem.error}") from problem
    return story


def _read_edges(files: Mapping[str, Path], folders: Mapping[str, Path]) -> dict[str, Edges]:
    for name in files:
        if name not in folders or not service_of(task_of(folders[name])).has_edges:
            raise SettingError(f"--edges {name}=…: no model of histories is served by this name; name one of task next")
    return {name: read_edges(path) for name, path in files.items()}


def _quiet(log: ServiceLog) -> None:
    """Write uvicorn's warnings to the log; only their kind, for their text may hold data."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log.event("server", level=record.levelname.lower(), says=str(record.msg)[:200])

    logger = logging.getLogger("uvicorn")
    logger.handlers = [Lines(logging.WARNING)]
    logger.propagate = False
    logger.setLevel(logging.WARNING)
