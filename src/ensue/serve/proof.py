"""The trial of a new version before it may answer: it is loaded and asked by a process of its own, which may die of it.

A folder that is whole may still hold a model that raises, hangs or ends its process in the first answer. So a version
is linked beside its folder, where nobody replaces it, and a short-lived process loads it from there and asks it for a
few predictions and an explanation. Only then it is loaded by the service, from the same files. The process reads a
line of JSON on stdin and writes one object on stdout:

    python -m ensue.serve.proof
    {"folder": "models/.next.x1.tmp"}
    {"error": ""}
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ensue.errors import EnsueError, ModelFolderError, UnknownModelError
from ensue.lines import refuse_number
from ensue.predictor import AnyPredictor, load
from ensue.serve.settings import UNLIMITED
from ensue.serve.tasks import Kind, Question, service_of

CHOICES = 3
"""Choices that a trial asks for."""
REMEDY = "fit the model again, or restore an older version with `ensue update FOLDER --rollback`"
STEP = 0.05
"""Seconds between two looks at the process."""


def _pause() -> bool:
    time.sleep(STEP)
    return True


def run_apart(
    module: str, head: Mapping[str, object], body: bytes, seconds: float, wait: Callable[[], bool]
) -> dict[str, Any]:
    """Run a module in a process of its own, which ends with this one, and return the JSON object that it writes.

    Args:
        module: its ``main`` reads a line of JSON and the body on stdin.
        head: the line.
        body: the bytes after it.
        seconds: until the process is killed.
        wait: waits a moment; false kills the process.

    Raises:
        TimeoutError: it takes too long.
        InterruptedError: ``wait`` was false.
        ChildProcessError: it ended without an object; the exit status is its argument.
    """
    # A file and not a pipe: a long report would fill a pipe that nobody reads meanwhile.
    with tempfile.TemporaryFile() as report:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=report,
            stderr=subprocess.DEVNULL,
            env=_environment(),
        )
        assert process.stdin is not None
        deadline = time.monotonic() + seconds
        try:
            with suppress(BrokenPipeError):  # it has ended already; its status says how
                process.stdin.write(json.dumps(head).encode() + b"\n" + body)
                process.stdin.flush()  # and left open: the process ends with this one
            while process.poll() is None:
                if not wait():
                    raise InterruptedError
                if time.monotonic() > deadline:
                    raise TimeoutError
        finally:
            # Also where it has ended: that does nothing.
            process.kill()
            process.wait()
            with suppress(BrokenPipeError):
                process.stdin.close()
        report.seek(0)
        try:
            return dict(json.loads(report.read()))
        except ValueError:
            raise ChildProcessError(process.returncode) from None


def prove_apart(folder: Path, seconds: float, wait: Callable[[], bool] = _pause) -> None:
    """Let a process of its own load and ask a version.

    A model that is known to this process alone (:func:`ensue.add_model`) cannot be tried there, and passes: whoever
    loads it asks it too.

    Args:
        folder: the version.
        seconds: until the process is killed.
        wait: waits a moment; false ends the trial.

    Raises:
        ModelFolderError: it does not answer, ends the process, or takes too long.
        InterruptedError: the trial was ended.
    """
    try:
        report = run_apart("ensue.serve.proof", {"folder": str(folder)}, b"", seconds, wait)
    except TimeoutError:
        raise ModelFolderError(f"{folder}: does not answer within {seconds:g} s (proof_seconds); {REMEDY}") from None
    except ChildProcessError as error:
        (code,) = error.args
        status = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise ModelFolderError(f"{folder}: crashes the process ({status}); {REMEDY}") from None
    if report["error"]:
        raise ModelFolderError(report["error"])


def _environment() -> dict[str, str]:
    """Return the environment of a process that a model may run in: one thread, and none of the service's tokens."""
    public = {name: value for name, value in os.environ.items() if name not in ("ENSUE_TOKEN", "ENSUE_UPDATE_TOKEN")}
    return {**public, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def read(folder: Path) -> AnyPredictor:
    """Load a version.

    Raises:
        EnsueError: it cannot be loaded, whatever its model raises.
    """
    try:
        return load(folder)
    except EnsueError:
        raise
    except Exception as error:
        raise ModelFolderError(f"{folder}: cannot be loaded ({described(error)})") from error


def ask(predictor: AnyPredictor, folder: Path) -> list[dict[str, object]]:
    """Prepare a predictor, and ask it what nobody else has asked it yet.

    Args:
        predictor: what is asked.
        folder: what errors name.

    Returns:
        The records that the page offers.

    Raises:
        ModelFolderError: it raises what is none of our errors, or a score is not a number.
    """
    service = service_of(predictor.task)
    try:
        if not predictor.is_prepared:
            predictor.prepare()
        examples = service.example_records(predictor)
        records = [service.read(record, "example", UNLIMITED, "words") for record in examples]
        questions = [Question(record) for record in (service.first_record(predictor), *records)]
        # NaN in a score is no JSON, and no client could read the answer.
        for line in service.answer(predictor, Kind("predict", CHOICES), questions) if questions else ():
            json.loads(line, parse_constant=refuse_number)
        with suppress(EnsueError):  # not every model explains itself
            service.answer(predictor, Kind("explain", 1), questions[:1])
    except EnsueError:
        raise
    except Exception as error:
        raise ModelFolderError(f"{folder}: loads, but does not answer ({described(error)}); {REMEDY}") from error
    return examples


def described(error: BaseException) -> str:
    """The kind of an error and its place in the code: its text may hold what people typed, and is left out."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error).__name__ + (f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "")


def end_with_parent() -> None:
    """End this process when the one that started it has ended: nothing more comes on stdin before."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def main() -> None:
    """Read which version to try on stdin, and say on stdout what is wrong with it."""
    os.nice(10)  # answers come first
    folder = Path(json.loads(sys.stdin.buffer.readline())["folder"])
    threading.Thread(target=end_with_parent, daemon=True).start()
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a model prints is no report
    error = ""
    try:
        ask(read(folder), folder)
    except EnsueError as wrong:
        # Known to the service alone, by ensue.add_model: it asks the model itself.
        error = "" if isinstance(wrong.__cause__, UnknownModelError) else str(wrong)
    with report:
        json.dump({"error": error}, report)
    sys.stdout.flush()
    os._exit(0)  # no thread of a model holds it up


if __name__ == "__main__":
    main()
