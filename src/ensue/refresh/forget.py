"""Forget people: remove what a model folder and its kept versions hold of them, and say what cannot be removed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from ensue.data.histories import Histories
from ensue.data.shared_runs import user_names
from ensue.errors import SettingError
from ensue.ids import normal_id
from ensue.predictor import load
from ensue.refresh import STREAM
from ensue.store import versions
from ensue.store.folder import read_file, write_folder
from ensue.store.lock import only_writer
from ensue.store.swap import sweep
from ensue.tasks.next.predictor import NextPredictor


@dataclass(frozen=True, slots=True)
class Removed:
    """Something that was removed."""

    folder: str
    """The model folder, or a kept version of it."""
    file: str
    what: str
    count: int


@dataclass(frozen=True, slots=True)
class Report:
    """What was removed of some people, and what remains."""

    users: tuple[str, ...]
    removed: tuple[Removed, ...]
    remains: tuple[str, ...]
    """Sentences on what cannot be removed, and what to do about it."""

    def to_dict(self) -> dict[str, object]:
        """The JSON object that ``forget --json`` prints."""
        return asdict(self)


def forget(folder: Path, users: Collection[str], records: Histories | None = None) -> Report:
    """Remove what a folder of task ``next`` and its kept versions hold of some people.

    A user is a sequence of the records (with all sessions cut from it), or a value of the model, such as somebody who
    passes cascades on. A folder holds no names of sequences, so histories are recognised by their events in the
    records. Each folder is replaced at once; one in which nothing was found stays as it is, byte for byte.

    Args:
        folder: a model folder.
        users: their ids.
        records: the log that was trained on, or the rows of these users.

    Raises:
        SettingError: the folder is of another task, or no user is named.
        ModelFolderError: the folder is no model, another process learns into it, or it cannot be written.
    """
    if not users:
        raise SettingError("no user is named; give --user ID")
    with only_writer(folder):
        sweep(folder)
        places = [folder, *(versions.place_of(folder, number) for number in versions.kept(folder))]
        names = [normal_id(user) for user in users]
        removed: list[Removed] = []
        remains: dict[str, None] = {}
        replaced: list[tuple[Path, NextPredictor]] = []
        for place in places:
            predictor = load(place)
            if not isinstance(predictor, NextPredictor):
                raise SettingError(f"{folder}: is of task {predictor.task}; {ADVICE[predictor.task]}")
            mine = records_of(names, records)
            found = predictor.forget(mine, [name for name in names if name in predictor.vocabulary])
            removed += [Removed(str(place), *one) for one in found.removed]
            remains |= dict.fromkeys(found.remains)
            if found.removed:
                replaced.append((place, predictor))
        for place, predictor in replaced:
            stream = {name: read_file(place, name) for name in STREAM if (place / name).exists()}
            card = read_file(place, "CARD.md").decode()
            write_folder(place, {**stream, **predictor.files(card)})
    if (folder / STREAM[0]).exists():
        remains |= dict.fromkeys([STREAMED])
    return Report(tuple(users), tuple(removed), tuple(remains))


def records_of(users: Collection[str], records: Histories | None) -> Histories:
    """Return the histories of some users, and of sessions cut from what they did."""
    if records is None or not len(records.names):
        return Histories.of([]) if records is None else records.select(slice(0))
    return records.select(user_names(records).is_in([*users]).to_numpy() | records.names.is_in([*users]).to_numpy())


STREAMED = (
    "what a stream keeps beside the model: open sessions under digests of their names (stream.safetensors, until they "
    "end), lines it rejected, and its journal: end the stream, then forget again, and delete the file of rejected lines"
)
ADVICE = {
    task: f"{why}; fit again without the person's rows"
    for task, why in (
        ("classify", "it holds fingerprints of texts and remembered ones as numbers of words, and no user of either"),
        ("suggest", "it keeps nothing that one person alone typed (--min-users), and no user of what it counts"),
        ("link", "it holds remembered posts as numbers of words and vectors beside the folder, and no user of either"),
    )
}
"""Why a person cannot be found in the folder of another task."""
