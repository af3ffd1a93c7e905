"""``ensue`` in processes that start at once: each is forked from one that has imported everything.

A process that begins with an empty interpreter spends two seconds on imports, and a test that kills a training needs
three of them. What a real start costs and prints is tested where it matters: ``tests/cli/test_startup.py``, and one
process a verb elsewhere.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TextIO

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
        "ensue.cli.commands",
        "ensue.tasks.next.predictor",
        "ensue.serve.app",
        "ensue.serve.server",
    ]
)


def _main(
    arguments: Sequence[str], code: str, environment: Mapping[str, str], out: Connection, err: Connection
) -> None:
    """The child: ``ensue`` with these arguments and streams, begun by ``code``."""
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
        self._process = _CONTEXT.Process(target=_main, args=([*map(str, arguments)], code, given, out, err))
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
