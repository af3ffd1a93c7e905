"""Streamed folders whose commits are mutated; only what a stream keeps beside the model is, for the rest is elsewhere.

A family's folder holds the files of a commit, perhaps those of an entry of a journal, and in folders of their own the
rest of the model and the log.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from safetensors import SafetensorError
from safetensors.torch import load_file

from ensue import History
from ensue.data.histories import Histories
from ensue.predictor import make
from ensue.store import checksums
from ensue.store.pack import tensor_bytes
from ensue.stream import engine
from ensue.stream.brokers import open_source
from ensue.stream.commit import STATE, TENSORS, Journal
from ensue.stream.engine import Stream
from ensue.stream.state import StreamSettings
from tests.folders import resum
from tests.mutations import Family
from tests.stream.conftest import log

REST, LOGS, ENTRY = "rest", "logs", "entry"
LINES = log(160, values=26)
BATCH = 16


def save_stream(base: Path, *, model: str, journal: int) -> None:
    """Fit a model, learn half a log in the midst of a chunk, and put the files of the commit apart."""
    sessions = [
        History(tuple(f"v{(3 * at + step) % 20}" for step in range(5)), (0.0, 20.0, 40.0, 60.0, 80.0))
        for at in range(60)
    ]
    predictor = make("next", model, settings={"dim": 8, "heads": 2, "epochs": 1, "negatives": 4}, device="cpu")
    list(predictor.fit(Histories.of(sessions)))
    predictor.save(base / REST)
    (base / LOGS).mkdir()
    far = json.dumps({"session": "far", "item": "v1", "time": 1_750_000_000})  # waits until others are as far
    new = LINES[78].replace('"item": "', '"item": "new')
    for name, lines in (("a.jsonl", LINES[:40]), ("b.jsonl", [*LINES[40:78], new, far])):
        (base / LOGS / name).write_text("".join(f"{line}\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "GROWN", 1e9)
        patch.setattr(engine, "CHUNK", 30)
        settings = StreamSettings(batch=BATCH, commit_interval=0.0, step=8, journal=journal)
        stream = Stream(base / REST, open_source(str(base / LOGS), print), settings)
        running = stream.run(follow=False)
        for _ in range(5):
            next(running)
        stream.source.close()
    entries = Journal(base / REST).read()
    (base / f".{REST}.journal").unlink(missing_ok=True)
    for number, entry in enumerate(entries):
        (base / f"{ENTRY}{number}.safetensors").write_bytes(tensor_bytes(entry.arrays))
        (base / f"{ENTRY}{number}.json").write_text(json.dumps(entry.tree))
    assert bool(entries) == (not journal)
    for name in (STATE, TENSORS):
        (base / REST / name).rename(base / name)


def load_stream(base: Path) -> Stream:
    """Put the mutated files back with valid checksums, and begin where they stand."""
    folder = base / REST
    for name in (STATE, TENSORS):
        if (base / name).is_file():
            shutil.copy(base / name, folder / name)
    head = hashlib.blake2b((resum(folder) / checksums.FILE).read_bytes(), digest_size=32).digest()
    parts = [_entry(path) for path in sorted(base.glob(f"{ENTRY}*.safetensors")) if path.is_file()]
    if parts:
        (base / f".{REST}.journal").write_bytes(head + b"".join(parts))
    with (base / LOGS / "b.jsonl").open("a") as file:
        file.writelines(f"{line}\n" for line in LINES[79:])
    settings = StreamSettings(batch=BATCH, commit_interval=0.0, step=8, journal=0)
    return Stream(folder, open_source(str(base / LOGS), print), settings)


def _entry(path: Path) -> bytes:
    """A commit of the journal as its file holds it."""
    try:
        data = tensor_bytes(load_file(path), {"tree": path.with_suffix(".json").read_text()})
    except (OSError, ValueError, SafetensorError):
        data = path.read_bytes()
    return len(data).to_bytes(8, "little") + data + hashlib.blake2b(data, digest_size=32).digest()


def exercise(stream: Stream, scratch: Path) -> None:
    """Learn the rest of the log, and go on once more from what was committed."""
    *_, last = stream.run(follow=False)
    stream.source.close()
    for row in [last.board.total(), *last.board.rows()]:
        assert all(math.isfinite(value) for figures in row.figures().values() for value in figures.values()), row
    assert last.sentence and json.dumps(last.to_dict())
    settings = StreamSettings(batch=BATCH, commit_interval=0.0, step=8)
    again = Stream(stream.folder, open_source(str(scratch / "model" / LOGS), print), settings)
    assert [*again.run(follow=False)][-1].counts == last.counts
    again.source.close()


def _family(model: str, journal: int) -> Family:
    save: Callable[[Path], None] = partial(save_stream, model=model, journal=journal)
    return Family(save, exercise, load_stream)


FAMILIES: dict[str, Family] = {
    "folder": _family("sansr", 2**60),
    "journal": _family("core", 0),
}
