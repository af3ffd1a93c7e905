"""``ensue`` in processes that start at once: each is forked from one that has imported everything.

A process that begins with an empty interpreter spends two seconds on imports, and a test that kills a training needs
three of them. What a real start costs and prints is tested where it matters: ``tests/cli/test_startup.py``, and one
process a verb elsewhere. What ``ensue`` starts itself, to learn an update and to try a version, is forked in the same
way: ``sys.executable`` is then :func:`quick_python`.
"""

from __future__ import annotations

import atexit
import importlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO

PYTHON = sys.executable
"""The interpreter itself."""
PLAIN = "from ensue import cli; cli.main()"
"""What begins ``ensue``."""

# polars has threads of its own from its import on, of which Python 3.12 warns when it forks; no child uses them.
warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "tests.processes",  # for its filter of warnings
        "torch._dynamo",  # an optimiser imports it
        "torch.distributed.nn",
        "ensue.cli",
        "ensue.tasks.next.predictor",
        "ensue.serve.app",
        "ensue.serve.learning",
        "ensue.serve.proof",
        "ensue.serve.server",
    ]
)


def _main(
    arguments: Sequence[str], code: str, environment: Mapping[str, str], out: Connection, err: Connection, python: str
) -> None:
    """The child: ``ensue`` with these arguments and streams, begun by ``code``."""
    sys.executable = python
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    out.close()
    err.close()
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)  # as an interpreter has it
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["ensue", *arguments]
    exec(code, {"__name__": "__main__"})


class Started:
    """A running ``ensue``, with what tests use of ``subprocess.Popen``.

    Args:
        arguments: of the command line.
        code: what begins it.
        environment: of the process.
    """

    def __init__(
        self,
        *arguments: object,
        code: str = PLAIN,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        (read_out, out), (read_err, err) = (_CONTEXT.Pipe(duplex=False) for _ in range(2))
        given = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **(environment or {})}
        self._process = _CONTEXT.Process(
            target=_main, args=([*map(str, arguments)], code, given, out, err, quick_python())
        )
        self._process.start()
        self.stdout, self.stderr = _reader(read_out), _reader(read_err)
        for end in (out, err, read_out, read_err):
            end.close()
        weakref.finalize(self, _close, self.stdout, self.stderr)

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """As of ``Popen``: what it ended with, minus a signal, or ``None`` while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same as a question."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """What it ended with.

        Raises:
            TimeoutExpired: it goes on.
        """
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("ensue", timeout or 0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it prints until it ends.

        Raises:
            TimeoutExpired: it goes on.
        """
        told = ["", ""]

        def read(place: int, stream: TextIO) -> None:
            with stream:
                told[place] = stream.read()

        threads = [
            threading.Thread(target=read, args=(place, stream), daemon=True)
            for place, stream in enumerate((self.stdout, self.stderr))
            if not stream.closed
        ]
        for thread in threads:
            thread.start()
        self.wait(timeout)
        for thread in threads:
            thread.join(timeout)
        return told[0], told[1]

    def send_signal(self, number: int) -> None:
        """A signal, if it still runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()


def _reader(end: Connection) -> TextIO:
    return os.fdopen(os.dup(end.fileno()), "r")


def _close(*streams: TextIO) -> None:
    for stream in streams:
        stream.close()


QUICK = ("ensue.serve.learning", "ensue.serve.proof")
"""Modules whose ``main`` runs in a process that is forked."""
CLIENT = """#!{python} -IS
import json, os, socket, sys
if sys.argv[1] != "-m" or sys.argv[2] not in {modules}:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
socket.send_fds(connection, [b"-"], [0, 1, 2])
connection.sendall(json.dumps([sys.argv[2], dict(os.environ), os.getcwd()]).encode() + b"\\n")
code = int(connection.recv(16))
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""What passes its streams on to a forked process, waits for it, and ends as it does."""


@cache
def quick_python() -> str:
    """A file that starts like the interpreter, and the modules of ``QUICK`` at once."""
    folder = Path(tempfile.mkdtemp(prefix="quick"))
    address, path = str(folder / "socket"), folder / "python"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    _CONTEXT.Process(target=_fork_all, args=(listening,), daemon=True).start()
    listening.close()
    atexit.register(shutil.rmtree, folder, True)
    path.write_text(CLIENT.format(python=PYTHON, modules=QUICK, address=address))
    path.chmod(0o755)
    return str(path)


def _fork_all(listening: socket.socket) -> None:
    """Fork two processes for everyone who connects: one becomes the module, the other waits for it."""
    parent = os.getppid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listening.settimeout(5)
    while os.getppid() == parent:
        try:
            connection, _ = listening.accept()
        except TimeoutError:
            continue
        connection.setblocking(True)
        if not os.fork():
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _wait_for_one(connection)
        connection.close()


def _wait_for_one(connection: socket.socket) -> None:
    """Start a module, kill it when who asked for it is gone, and tell how it ended."""
    streams = socket.recv_fds(connection, 1, 3)[1]
    with connection.makefile("r", encoding="utf-8") as lines:
        module, environment, folder = json.loads(lines.readline())
    child = os.fork()
    if not child:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        _become(module, environment, folder)
    for stream in streams:
        os.close(stream)

    def kill() -> None:
        if not connection.recv(1):
            os.kill(child, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        connection.sendall(str(code).encode())
    os._exit(0)


def _become(module: str, environment: Mapping[str, str], folder: str) -> None:
    """Run a module as an interpreter does, and end."""
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    code: object = 0
    try:
        importlib.import_module(module).main()
    except SystemExit as end:
        code = end.code or 0
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)
