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
    """Return the number of the active version; a folder that was fitted and never updated is 1.

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
    """Return the numbers of the versions stored next to a folder, oldest first."""
    parent = _parent(folder)
    names = [path.name for path in parent.iterdir()] if parent.is_dir() else []
    return sorted(int(name) for name in names if name.isdecimal())


def next_number(folder: Path) -> int:
    """Return the number of the next version: above the active one and all stored ones."""
    return 1 + max([current(folder), *kept(folder)])


def keep(folder: Path) -> int:
    """Store the active version under its number, or under the next where another model has that; return the number."""
    number = current(folder)
    if number in kept(folder) and not _same(folder, _parent(folder) / str(number)):
        # The folder was fitted again under a number that an older model has.
        number = next_number(folder)
    if number not in kept(folder):
        try:
            ensure_folder(_parent(folder), sibling_access(folder, 0o777))
        except OSError as error:
            raise ModelFolderError(f"{_parent(folder)}: cannot be written ({error.strerror})") from error
        # Files are linked, so that a version takes no space until the folder changes.
        clone_folder(folder, _parent(folder) / str(number))
    return number


def prune(folder: Path, num: int) -> None:
    """Remove all stored versions but the newest ``num``; a copy of the active version does not count."""
    active = current(folder)
    former = [number for number in kept(folder) if number != active or not _same(folder, place_of(folder, number))]
    for number in former[: max(0, len(former) - num)]:
        gone = _parent(folder) / f".{number}.tmp"  # first out of the list, then away: no half version has a number
        place_of(folder, number).rename(gone)
    for path in _parent(folder).glob(".*.tmp"):
        shutil.rmtree(path, ignore_errors=True)


def roll_back(folder: Path, number: int | None = None) -> tuple[int, int]:
    """Make a stored version the active one; the version that it replaces is stored too.

    Args:
        folder: a model folder.
        number: of the version. [default: the newest that is older than the active one]

    Returns:
        The number of the active version now, and the one under which the former one is stored.

    Raises:
        SettingError: no such version.
        ModelFolderError: it is damaged, or the disk is full; the active version is unchanged.
    """
    versions = kept(folder)
    active = current(folder)
    if number is None:
        older = [version for version in versions if version < active]
        if not older:
            raise SettingError(f"{folder}: no version older than {active} is stored{_list(versions)}")
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


def _parent(folder: Path) -> Path:
    target = folder.resolve()
    return target.with_name(f"{target.name}.versions")


def place_of(folder: Path, number: int) -> Path:
    """Return the folder of a stored version."""
    return _parent(folder) / str(number)


def _same(left: Path, right: Path) -> bool:
    """Return whether two folders hold the same files byte for byte, but for the card, which `evaluate` rewrites."""
    names = {path.name for path in left.iterdir()} - {"CARD.md"}
    if names != {path.name for path in right.iterdir()} - {"CARD.md"}:
        return False
    # Contents, not times and sizes: a copied folder has other times.
    _, differ, unread = filecmp.cmpfiles(left, right, sorted(names), shallow=False)
    return not differ and not unread
