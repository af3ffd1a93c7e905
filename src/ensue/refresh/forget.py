"""Forget people: remove what a model folder, what is kept beside it and a stream hold of them, and report the rest."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from ensue.errors import SettingError
from ensue.learning.life import Forgotten
from ensue.predictor import load
from ensue.records import normal_id
from ensue.refresh import STREAM
from ensue.store import versions
from ensue.store.folder import read_file, write_folder
from ensue.store.swap import only_writer, sweep
from ensue.tasks import TASKS, named


@dataclass(frozen=True, slots=True)
class Removed:
    """One kind of removed data."""

    folder: str
    """The model folder, or a kept version of it."""
    file: str
    what: str
    count: int


@dataclass(frozen=True, slots=True)
class Report:
    """Removed data of users, and what remains."""

    users: tuple[str, ...]
    removed: tuple[Removed, ...]
    remains: tuple[str, ...]
    """Sentences on what cannot be removed, and what to do about it."""

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that ``forget --json`` prints."""
        return asdict(self)


def forget(folder: Path, users: Collection[str], records: object = None) -> Report:
    """Remove the data of users from a folder, its kept versions and its stream.

    A folder holds no names, so what people did is recognised in the records. Each folder is replaced at once; one in
    which nothing was found stays as it is, byte for byte.

    Args:
        folder: a model folder.
        users: their ids. Of task ``next`` a user is a sequence of the records (with all sessions cut from it), or a
            value of the model, such as somebody who passes cascades on.
        records: the log that was trained on. Of ``next`` its ``Histories``; of ``suggest`` the ``Queries`` of the log
            and those of the log without the users' rows; of ``classify`` and ``link`` the ``Texts`` or ``Posts`` of the
            users, and all others.

    Raises:
        SettingError: no user is named, the task cannot forget, or a stream was killed and is to be ended first.
        ModelFolderError: the folder is no model, another process learns into it, or it cannot be written.
    """
    if not users:
        raise SettingError("no user is named; give --user ID")
    names = [normal_id(user) for user in users]
    removed: list[Removed] = []
    remains: dict[str, None] = {}
    with only_writer(folder):
        sweep(folder)
        replaced: list[tuple[Path, dict[str, bytes]]] = []
        for place in _places(folder):
            predictor = load(place)
            stream = {name: read_file(place, name) for name in STREAM if (place / name).exists()}
            parts: list[Forgotten] = []
            if place == folder and stream:
                stream, of_stream = named("ensue.stream.forget:forget_users")(folder, predictor, records, names)
                parts.append(of_stream)
            parts.append(named(TASKS[predictor.task].forget)(predictor, records, names, place))
            removed += [Removed(str(place), *one) for part in parts for one in part.removed]
            remains |= dict.fromkeys(line for part in parts for line in part.remains)
            if any(part.removed for part in parts):
                card = read_file(place, "CARD.md").decode()
                replaced.append((place, {**stream, **predictor.files(card)}))
        for place, files in replaced:
            write_folder(place, files)
        if replaced:
            for place in _siblings(folder, "resume.*"):  # the model from before the last chunk: it holds the person
                shutil.rmtree(place)
    return Report(tuple(users), tuple(removed), tuple(remains))


def _places(folder: Path) -> list[Path]:
    """Return the folder and its kept versions."""
    kept = [versions.place_of(folder, number) for number in versions.kept(folder)]
    return [folder, *kept]


def _siblings(folder: Path, pattern: str) -> list[Path]:
    """Return the folders of a stream beside a model folder."""
    place = folder.resolve()
    return sorted(place.parent.glob(f".{glob.escape(place.name)}.{pattern}"))
