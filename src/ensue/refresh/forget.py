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
from ensue.store.folder import Contents, read_file, write_folder
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
class ForgetReport:
    """Removed data of users, and what remains."""

    users: tuple[str, ...]
    removed: tuple[Removed, ...]
    remains: tuple[str, ...]
    """Sentences on what cannot be removed, and what to do about it."""

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that ``forget --json`` prints."""
        return asdict(self)


def forget(folder: Path, users: Collection[str], records: object = None) -> ForgetReport:
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
        replaced: list[tuple[Path, dict[str, Contents]]] = []
        # Each stored version holds the person as well, and can be restored.
        for path in (folder, *(versions.place_of(folder, number) for number in versions.kept(folder))):
            predictor = load(path)
            predictor.require_trainable()
            stream: dict[str, Contents] = {name: read_file(path, name) for name in STREAM if (path / name).exists()}
            reports: list[Forgotten] = []
            if path == folder and stream:
                stream, of_stream = named("ensue.stream.forget:forget_users")(folder, predictor, records, names)
                reports.append(of_stream)
            forget_users = TASKS[predictor.task].module("forget").forget_users
            reports.append(forget_users(predictor, records, names, path))
            removed += [Removed(str(path), *removal) for report in reports for removal in report.removed]
            remains |= dict.fromkeys(line for report in reports for line in report.remains)
            if any(report.removed for report in reports):
                card = read_file(path, "CARD.md").decode()
                replaced.append((path, {**stream, **predictor.files(card)}))
        # Nothing is written before all folders were read: an error leaves all of them as they were.
        for path, files in replaced:
            write_folder(path, files)
        if replaced:
            target = folder.resolve()
            # The model from before the last chunk of a stream: it holds the person.
            for path in target.parent.glob(f".{glob.escape(target.name)}.resume.*"):
                shutil.rmtree(path)
    return ForgetReport(tuple(users), tuple(removed), tuple(remains))
