"""Forget a person: remove sessions, followers and rejected lines of one from what a stream keeps with its model."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ensue.data.histories import Histories, keys_of
from ensue.errors import SettingError
from ensue.learning.life import Forgotten
from ensue.store.folder import damage, write_file
from ensue.store.pack import TensorFile, files_of
from ensue.stream.commit import FILES, TENSORS, Journal, read_commit
from ensue.stream.events import Reject, decode, rejects_of
from ensue.stream.metrics import StreamBaselines
from ensue.stream.sessions import HistoryTable, PartitionSessions
from ensue.tasks.next.forget import records_of
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.reservoir import latest_events
from ensue.tasks.next.training_data import fingerprints


class Forgetting(NamedTuple):
    """The files of a stream without a person, and what was removed."""

    files: dict[str, bytes | TensorFile]
    forgotten: Forgotten


REMAINS = (
    "events of a stream without names: sessions that ended and are not yet counted, recently popular values, latest "
    "followers of items that are in none of the removed sessions, and digests of the latest 200,000 events "
    "(stream.safetensors), until as many others have come",
    "the log, queue or topic that the stream reads: remove the person's events there, or a stream that starts over "
    "learns them again",
)
"""Sentences on what a stream keeps, and on what it reads."""


def forget_users(folder: Path, predictor: NextPredictor, records: object, users: Collection[str]) -> Forgetting:
    """Remove some users, whose names are those of its sessions.

    Args:
        folder: a model folder with a stream, under its lock.
        predictor: of the folder.
        records: the log that was learned, as ``Histories``; ``None``: nothing but open sessions is recognised.
        users: their names.

    Returns:
        The files of the stream without them, and what was removed.

    Raises:
        SettingError: the stream was killed; what it has not learned yet is not forgotten.
        ModelFolderError: its files are damaged.
    """
    commit = read_commit(folder)
    assert commit is not None
    if Journal(folder).path.exists() or any(table.waiting for table in commit.sessions.values()) or len(commit.chunk):
        raise SettingError(
            f"{folder}: its stream was killed and has events that are not learned yet; start it with `ensue stream` "
            "and end it, then forget again"
        )
    forgotten = Forgotten()
    sessions = PartitionSessions(0.0)
    baselines = StreamBaselines()
    with damage(folder):
        sessions.restore(commit.sessions, commit.chunk.resume(predictor.vocabulary))
        ended = commit.ended.histories(predictor.vocabulary)
        baselines.restore(commit.baselines, len(predictor.vocabulary))
    removed = sessions.remove(users)
    forgotten.add(TENSORS, "open sessions", len(removed))
    if isinstance(records, Histories):
        mine = records_of(records, users).encode(predictor.vocabulary, drop_unknown=True)
        keys = {*keys_of(latest_events(mine))}
        stays = np.array([key not in keys for key in keys_of(ended)], np.bool_)
        forgotten.add(TENSORS, "sessions that ended", int((~stays).sum()))
        counted = mine.select(np.isin(fingerprints(mine).view(np.int64), predictor.training_hashes))
        for histories in (ended.select(~stays), counted):
            removed += [ids.tolist() for ids in np.split(histories.ids, histories.offsets[1:-1])]
        ended = ended.select(stays)
    forgotten.add(TENSORS, "followers of items", baselines.followers.forget(removed))
    rejects = _forget_rejects(folder, users, commit.rejects, forgotten)
    without = replace(
        commit,
        sessions=sessions.tables(),
        ended=HistoryTable.of(ended),
        rejects=rejects,
        baselines=baselines.table(),
        resume="",
    )
    forgotten.remains.extend(REMAINS)
    return Forgetting(files_of(without, FILES), forgotten)


def _forget_rejects(folder: Path, users: Collection[str], length: int, forgotten: Forgotten) -> int:
    """Remove the rejected lines that hold one of the names; returns how many bytes are left."""
    path = rejects_of(folder)
    if not path.exists():
        return length
    # Whole words only: user 1 is not part of user 12.
    names = re.compile("|".join(rf"(?<!\w){re.escape(user)}(?!\w)" for user in users))
    lines = path.read_bytes()[:length].splitlines(keepends=True)
    # Rather a line too much than one with a name: a rejected line cannot be read.
    remaining = [line for line in lines if not names.search(_text(line))]
    if len(remaining) < len(lines):
        forgotten.add(path.name, "rejected lines", len(lines) - len(remaining))
        write_file(path, b"".join(remaining))
    return sum(map(len, remaining))


def _text(entry: bytes) -> str:
    """Return a rejected line as it came, and its values as they were meant where it is JSON."""
    line = str(json.loads(entry)["line"])
    with suppress(Reject):
        return f"{line} {json.dumps(decode(line.encode()), ensure_ascii=False)}"
    return line
