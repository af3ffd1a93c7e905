"""Former versions of a model folder, kept beside it as ``NAME.versions/NUMBER``; any of them can be put back.

A version is whole before it has its name, and the folder itself changes by one rename, so that whatever is killed at
whatever moment leaves a folder that loads. Callers hold the folder's lock.
"""

from __future__ import annotations

import filecmp
import shutil
from pathlib import Path

from ensue.errors import ModelFolderError, SettingError
from ensue.store.access import ensure_folder, sibling_access
from ensue.store.folder import clone_folder, read_settings, require_whole


def current(folder: Path) -> int:
    """The number of the version that stands; a folder that was fitted and never updated is 1.

    Raises:
        ModelFolderError: not a whole model folder.
    """
    # Metadata may come from a stranger: nothing is known of its types yet.
    saved = read_settings(folder).get("facts")
    version = saved.get("version", 1) if isinstance(saved, dict) else 1
    if not isinstance(version, int) or version < 1:
        raise ModelFolderError(f"{folder}/settings.json: version {version!r} is not a number from 1")
    return version


def kept(folder: Path) -> list[int]:
    """Numbers of the versions kept beside a folder, oldest first."""
    place = _place(folder)
    names = [path.name for path in place.iterdir()] if place.is_dir() else []
    return sorted(int(name) for name in names if name.isdecimal())


def next_number(folder: Path) -> int:
    """The number of the version to come: above the one that stands and all that are kept."""
    return 1 + max([current(folder), *kept(folder)])


def keep(folder: Path) -> int:
    """Keep what stands under its number, or, where another model has that number, under the next; returns which."""
    number = current(folder)
    if number in kept(folder) and not _same(folder, _place(folder) / str(number)):
        # The folder was fitted again under a number that an older model has.
        number = next_number(folder)
    if number not in kept(folder):
        try:
            ensure_folder(_place(folder), sibling_access(folder, 0o777))
        except OSError as error:
            raise ModelFolderError(f"{_place(folder)}: cannot be written ({error.strerror})") from error
        # Files are linked, so that a version takes no space until the folder changes.
        clone_folder(folder, _place(folder) / str(number))
    return number


def prune(folder: Path, num: int) -> None:
    """Remove all kept versions but the newest ``num``, the one that stands not counted."""
    standing = current(folder)
    others = [number for number in kept(folder) if number != standing or not _same(folder, place_of(folder, number))]
    for number in others[: max(0, len(others) - num)]:
        gone = _place(folder) / f".{number}.tmp"  # first out of the list, then away: no half version has a number
        place_of(folder, number).rename(gone)
    for rest in _place(folder).glob(".*.tmp"):
        shutil.rmtree(rest, ignore_errors=True)


def roll_back(folder: Path, number: int | None = None) -> tuple[int, int]:
    """Put a kept version in the folder's place; what stood there is kept too.

    Args:
        folder: a model folder.
        number: which; else the newest that is older than what stands.

    Returns:
        The number of the version that stands now, and the one under which what it replaced is kept.

    Raises:
        SettingError: no such version.
        ModelFolderError: it is damaged, or the disk is full; what stands is unchanged.
    """
    versions = kept(folder)
    standing = current(folder)
    if number is None:
        older = [version for version in versions if version < standing]
        if not older:
            raise SettingError(f"{folder}: no version older than {standing} is stored{_list(versions)}")
        number = older[-1]
    elif number not in versions:
        raise SettingError(f"{folder}: version {number} is not stored{_list(versions)}")
    require_whole(place_of(folder, number))
    # Kept before it is replaced: a kill between the two loses nothing.
    replaced = keep(folder)
    clone_folder(place_of(folder, number), folder)
    return number, replaced


def _list(versions: list[int]) -> str:
    return (
        f"; stored: {', '.join(map(str, versions))}"
        if versions
        else ("; `ensue update` stores the version that it replaces")
    )


def _place(folder: Path) -> Path:
    place = folder.resolve()
    return place.with_name(f"{place.name}.versions")


def place_of(folder: Path, number: int) -> Path:
    """Return where a version of a folder is kept."""
    return _place(folder) / str(number)


def _same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files byte for byte; the card, which `evaluate` rewrites, aside."""
    names = {path.name for path in one.iterdir()} - {"CARD.md"}
    if names != {path.name for path in other.iterdir()} - {"CARD.md"}:
        return False
    # Contents, not times and sizes: a copied folder has other times.
    _, differ, unread = filecmp.cmpfiles(one, other, sorted(names), shallow=False)
    return not differ and not unread
