"""An update over HTTP: learned by a process of its own in a copy, which then takes the folder's place at once.

The process that answers does none of the work, so requests go on at their pace, and a learning process that dies leaves
the folder as it was. It reads one JSON object on stdin and writes one on stdout:

    python -m ensue.serve.learning
    {"folder": "models/next", "body": {"records": […]}, "keep": 5}
    {"report": {…}, "version": 2} or {"error": "…", "status": 422}
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ensue.errors import EnsueError, ModelFolderError
from ensue.refresh import MAX_DROP, refresh
from ensue.serve import tasks
from ensue.serve.problems import Problem, late

LEARNED = ("records", "users", "articles", "max_drop", "test")
"""The fields of a body that is to be learned."""


async def learn_apart(folder: Path, body: Mapping[str, Any], *, keep: int, seconds: float) -> dict[str, Any]:
    """Let a process of its own learn a checked body into a folder.

    Raises:
        Problem: the body cannot be learned, the folder cannot be written, or it took too long; the folder is unchanged.
    """
    asked = json.dumps({"folder": str(folder), "body": body, "keep": keep}).encode()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ensue.serve.learning"), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
    )
    try:
        async with asyncio.timeout(seconds):
            written, _ = await process.communicate(asked)
    except TimeoutError:
        raise late(f"the update took longer than {seconds:g} s and was given up; the model stands as it was") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    try:
        found = json.loads(written)
    except ValueError:
        raise Problem(503, "the learning process ended before its time; the model stands as it was") from None
    return answered(found, folder)


def answered(found: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a learning process said, for the client.

    Raises:
        Problem: it could not learn.
    """
    if "error" in found:
        raise Problem(found["status"], str(found["error"]).replace(str(folder), folder.name))
    return found


def learn(folder: Path, body: Mapping[str, Any], keep: int) -> dict[str, Any]:
    """Learn a body into a folder, after a test unless ``test`` is false; what stood there is kept as a version.

    Raises:
        EnsueError: it cannot be learned, or was refused; the folder is unchanged.
    """
    drop = float(body.get("max_drop", MAX_DROP)) if body.get("test", True) else None

    def data(predictor: Any) -> Any:
        return tasks.data_of(predictor, _records(predictor, body), body)

    found = refresh(folder, data, max_drop=drop, keep=keep)
    if not found.accepted:
        raise ModelFolderError(found.verdict)
    return found.to_dict()


def said(folder: Path, body: Mapping[str, Any], keep: int) -> dict[str, Any]:
    """What :func:`learn` comes to, as JSON: a report, or an error and its status."""
    try:
        return learn(folder, body, keep)
    except ModelFolderError as error:
        return {"error": str(error), "status": 409}
    except EnsueError as error:
        return {"error": str(error), "status": 422}


def main() -> None:
    """Read what to learn on stdin, say on stdout what came of it."""
    with suppress(OSError):
        os.nice(10)  # answers come first
    asked = json.loads(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(said(Path(asked["folder"]), asked["body"], asked["keep"])))


def _records(predictor: Any, body: Mapping[str, Any]) -> list[Any]:
    return [tasks.read_record(predictor.task, found, f"records[{at}]") for at, found in enumerate(body["records"])]


if __name__ == "__main__":
    main()
