"""An update over HTTP: learned by a process of its own in a copy, which then takes the folder's place at once.

The process that answers does none of the work, so requests go on at their pace, and a learning process that dies leaves
the folder as it was. It reads a line of JSON and the body on stdin, and writes one object on stdout:

    python -m ensue.serve.learning
    {"folder": "models/next", "keep": 5, "key": "", "bytes": 34}
    {"records": [{"values": ["a", "b"]}]}
    {"report": {…}, "version": 2} or {"error": "…", "status": 422}

It ends with the process that asked, whose end of stdin stays open while that one lives: nothing takes place that
nobody hears of. For the moment in which the folder has changed and the answer is not sent there is the header
``Idempotency-Key`` (draft-ietf-httpapi-idempotency-key-header): an update under a key is answered once more, not
learned once more. The folder itself keeps digests of its latest keys and the answers to them, so that update and key
are one commit; a version that is put back knows the keys of its time.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, cast

from ensue.errors import DataError, EnsueError, ModelFolderError
from ensue.evaluation.comparison import Data
from ensue.predictor import AnyPredictor
from ensue.refresh import Refreshed, refresh
from ensue.registry import task_of
from ensue.serve.bodies import Limits, decode, limited, read
from ensue.serve.problems import RequestError, late
from ensue.serve.proof import STEP, ask, end_with_parent, run_apart
from ensue.serve.settings import UNLIMITED
from ensue.serve.tasks import service_of

REMEDY = "GET /v1/models shows the active version"
"""It may have ended between the folder's change and its answer."""
KEYS = 16
"""Keys that a folder keeps."""


class Repeated(Exception):  # noqa: N818 - it says how things are
    """An update under this key has taken place.

    Args:
        answer: what was said of it.
    """

    def __init__(self, answer: dict[str, object]) -> None:
        super().__init__()
        self.answer = answer


class Sent(NamedTuple):
    """An update.

    Attributes:
        folder: of the model.
        body: checked; as it was sent.
        keep: former versions kept, at most.
        key: ``Idempotency-Key``, or empty.
    """

    folder: Path
    body: bytes
    keep: int
    key: str = ""


async def learn_apart(update: Sent, *, seconds: float) -> dict[str, object]:
    """Let a process of its own learn a checked body into a folder.

    Returns:
        The report; with ``replayed`` where the key was known.

    Raises:
        RequestError: the body cannot be learned, the folder cannot be written, or it took too long.
    """
    head = {"folder": str(update.folder), "keep": update.keep, "key": update.key, "bytes": len(update.body)}
    # Set where the request is cancelled: the thread ends the process.
    stopped = threading.Event()
    try:
        report = await asyncio.to_thread(
            run_apart, "ensue.serve.learning", head, update.body, seconds, lambda: not stopped.wait(STEP)
        )
    except TimeoutError:
        raise late(f"the update took longer than {seconds:g} s and was stopped; {REMEDY}") from None
    except ChildProcessError:
        raise RequestError(503, f"the update process ended early; {REMEDY}") from None
    finally:
        stopped.set()
    return report_of(report, update.folder)


def report_of(report: dict[str, object], folder: Path) -> dict[str, object]:
    """Return the report of a training process, for the client.

    Raises:
        RequestError: it could not learn.
    """
    if "error" in report:
        status = report["status"]
        assert isinstance(status, int)
        raise RequestError(status, str(report["error"]).replace(str(folder), folder.name))
    return report


def learn(update: Sent, last: Callable[[], None]) -> dict[str, object]:
    """Learn a body into a folder, after a test unless ``test`` is false; what stood there is kept as a version.

    Args:
        update: as it was sent.
        last: called right before the folder changes.

    Raises:
        EnsueError: it cannot be learned, or was refused; the folder is unchanged.
    """
    # Read once more in this process: objects would have to be packed to get here.
    decoded = decode(update.body, sys.maxsize, sys.maxsize)
    service = service_of(task_of(update.folder))
    limits = Limits(UNLIMITED, service.task.record, service.read)  # its limits were looked at by who asks
    body = read(limited("Update", service.bodies.update, limits), decoded)
    marks = _marks(update.key, decoded)

    def data(predictor: AnyPredictor) -> Data:
        for former in (predictor.metadata.answered or ()) if update.key else ():
            if former["key"] == marks["key"] and former["body"] != marks["body"]:
                raise DataError("this Idempotency-Key was used for another body; give every update a key of its own")
            if former["key"] == marks["key"]:
                raise Repeated(former["answer"])
        return cast(Data, service.training_data(predictor, body))

    def prepare(candidate: AnyPredictor, refreshed: Refreshed) -> None:
        # The client asked for a test, and nothing could be tested.
        if body.test and body.records and not refreshed.slices:
            raise ModelFolderError(
                f"{update.folder}: stores no examples and the update is too small, so it cannot be tested; send more "
                'records, or "test": false with the update token'
            )
        # A model that does not answer must not take the folder's place.
        ask(candidate, update.folder)
        if update.key:
            former = [*(candidate.metadata.answered or ()), {**marks, "answer": refreshed.to_dict()}]
            # Part of the folder: the change and the memory of it are one commit.
            candidate.metadata.answered = former[-KEYS:]
        last()

    try:
        refreshed = refresh(
            update.folder, data, max_drop=body.max_drop if body.test else None, keep=update.keep, before=prepare
        )
    except Repeated as repeated:
        return {**repeated.answer, "replayed": True}
    if not refreshed.accepted:
        raise ModelFolderError(refreshed.verdict)
    return refreshed.to_dict()


def outcome(update: Sent, last: Callable[[], None] = lambda: None) -> dict[str, object]:
    """Return the result of :func:`learn` as JSON: a report, or an error and its status."""
    try:
        return learn(update, last)
    except ModelFolderError as error:
        return {"error": str(error), "status": 409}
    except EnsueError as error:
        return {"error": str(error), "status": 422}


def main() -> None:
    """Read what to learn on stdin, say on stdout what came of it."""
    with suppress(OSError):
        os.nice(10)  # answers come first
    head = json.loads(sys.stdin.buffer.readline())
    update = Sent(Path(head["folder"]), sys.stdin.buffer.read(head["bytes"]), head["keep"], head["key"])
    _require_parent()  # who was killed while this process started must not hold up the next one
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.stdout.write(json.dumps(outcome(update, _require_parent)))


def _require_parent() -> None:
    """End this process if its parent has ended, right before the folder changes: the other thread may be late."""
    if select.select([sys.stdin], [], [], 0)[0]:
        os._exit(1)


def _marks(key: str, body: object) -> dict[str, str]:
    """Digests of a key and of a body; the latter tells nothing to who does not know the key."""
    key_bytes = key.encode()
    # The order of fields does not make another body.
    canonical = json.dumps(body, sort_keys=True).encode()
    return {
        "key": blake2b(key_bytes, digest_size=16).hexdigest(),
        "body": blake2b(
            canonical, digest_size=16, key=blake2b(key_bytes, digest_size=32, person=b"body").digest()
        ).hexdigest(),
    }


if __name__ == "__main__":
    main()
