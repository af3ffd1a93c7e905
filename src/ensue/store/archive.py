"""A model folder as one file: a zip file without compression, the same bytes for the same folder.

The file holds what ``B2SUMS`` lists, ``B2SUMS`` itself and the card, so that every program that reads zip files shows
what is in it. Reading trusts nothing: names, number, sizes and checksums are compared before a file gets its name, and
compressed members are refused, so that no file becomes larger than it came.
"""

from __future__ import annotations

import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ensue.errors import ModelFolderError
from ensue.store import checksums
from ensue.store.checksums import FILE, FREE, Hashed, chunks, names_in, opened, parse_sums, sums_of
from ensue.store.folder import MAX_SETTINGS_BYTES, parse_settings, read_settings, replaced_file, write_folder

SUFFIX = ".ensue"
"""Ending of a packed model."""
SETTINGS = "settings.json"
MAX_FILES = 64
"""Files in a packed model, at most; a model folder has about ten."""
_MAX_READ = 2**20
"""Bytes of one read, at most: the list of members of a stranger may claim any size."""
_MAX_CARD_BYTES = 2**24
_NAME = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every member, the earliest that the format has."""


def pack(folder: str | Path, file: str | Path) -> Path:
    """Write a model folder as one file; an existing file is replaced atomically.

    Args:
        folder: a model folder.
        file: the file to write, such as ``next.ensue``.

    Returns:
        The file.

    Raises:
        ModelFolderError: the folder is incomplete or damaged, or the file cannot be written.
    """
    source = Path(folder)
    target = Path(file)
    read_settings(source)
    if source.resolve() in target.resolve().parents:
        raise ModelFolderError(f"{target}: is inside the model folder; give a file outside of it")
    with replaced_file(target) as stream:
        _pack(source, stream)
    return target


def require_no_model(folder: Path) -> None:
    """Refuse to write over a model.

    Raises:
        ModelFolderError: the folder holds one.
    """
    if (folder / SETTINGS).exists():
        raise ModelFolderError(f"{folder}: holds a model; give another folder")


def _pack(folder: Path, file: BinaryIO) -> None:
    """Write the files of a folder into a zip file.

    Raises:
        ModelFolderError: a file is missing or is not the one that was saved.
    """
    sums = sums_of(folder)
    with ZipFile(file, "w", ZIP_STORED) as archive:
        for name in names_in(folder):
            member = ZipInfo(name, _EPOCH)
            member.create_system = 3  # Unix on every system, for the same bytes
            member.external_attr = (stat.S_IFREG | 0o644) << 16
            with opened(folder, name) as content, archive.open(member, "w", force_zip64=True) as entry:
                entry.writelines(verified(chunks(content), name, sums.get(name), folder))


def unpack(file: str | Path, folder: str | Path) -> Path:
    """Write the model folder that a file holds; nothing is left of one that is damaged.

    Args:
        file: written by :func:`pack`.
        folder: the new model folder.

    Returns:
        The folder.

    Raises:
        ModelFolderError: the file is no packed model, damaged or of another version of ensue, or the folder holds a
            model already or cannot be written.
    """
    source = Path(file)
    target = Path(folder)
    require_no_model(target)
    if not source.is_file():
        raise ModelFolderError(f"{source}: is not a file; give one that `ensue pack` wrote")
    try:
        with (
            opened(source.parent, source.name) as stream,
            ZipFile(_BoundedReader(FileIO(stream.fileno(), closefd=False))) as archive,
        ):
            members = _members(archive, source, target)
            sums = parse_sums(_small(archive, members[FILE], checksums.MAX_BYTES, source), source)
            if set(members) - FREE != set(sums):
                raise ModelFolderError(f"{source}: holds other files than its {FILE} lists; pack the model again")
            # Checked before anything is written: the version of the layout, and that it is a model of ours.
            parse_settings(_small(archive, members[SETTINGS], MAX_SETTINGS_BYTES, source), source)
            contents = {
                name: _content(archive, member, sums.get(name), source)
                for name, member in members.items()
                if name != FILE
            }
            write_folder(target, contents)
    except (BadZipFile, NotImplementedError, EOFError, ValueError, RuntimeError) as error:
        raise ModelFolderError(f"{source}: is no packed model, or damaged ({error}); copy it again") from error
    return target


class _BoundedReader(BufferedReader):
    """A file of which no more than ``_MAX_READ`` bytes are read at once."""

    def read(self, size: int | None = -1) -> bytes:
        """Read some bytes.

        Raises:
            BadZipFile: too many are asked for.
        """
        # One byte more than allowed shows that there is more.
        data = super().read(_MAX_READ + 1 if size is None or size < 0 else min(size, _MAX_READ + 1))
        if len(data) > _MAX_READ:
            raise BadZipFile("its list of files is too large")
        return data


def _members(archive: ZipFile, source: Path, target: Path) -> dict[str, ZipInfo]:
    """Return the files of an archive by name.

    Raises:
        ModelFolderError: they are not those of a model folder, or larger than the archive or the free disk.
    """
    members = archive.infolist()
    if len(members) > MAX_FILES:
        raise ModelFolderError(f"{source}: holds {len(members):,} files, more than {MAX_FILES}; it is no packed model")
    for member in members:
        is_plain = member.compress_type == ZIP_STORED and not member.flag_bits & 1
        kind = stat.S_IFMT(member.external_attr >> 16)
        if not _NAME.fullmatch(member.filename) or not is_plain or kind not in (0, stat.S_IFREG):
            raise ModelFolderError(
                f"{source}: {member.filename[:80]!r} is no plain file of a model folder (no path, no link, not "
                "compressed); it was not written by `ensue pack`"
            )
    by_name = {member.filename: member for member in members}
    if len(by_name) < len(members) or not {FILE, SETTINGS} <= set(by_name):
        raise ModelFolderError(f"{source}: {FILE} or {SETTINGS} is missing, or a file comes twice; pack it again")
    total = sum(member.file_size for member in members)
    # Stored files that together are larger than the archive overlap, as those of a zip bomb do.
    if total > source.stat().st_size:
        raise ModelFolderError(f"{source}: its files claim {total:,} bytes, more than it has; it is damaged")
    existing = next(parent for parent in target.resolve().parents if parent.is_dir())
    if total > (free := shutil.disk_usage(existing).free):
        raise ModelFolderError(f"{target}: the model takes {total:,} bytes, and {free:,} are free")
    return by_name


def _small(archive: ZipFile, member: ZipInfo, max_bytes: int, source: Path) -> bytes:
    """Return the contents of a small file of an archive."""
    if member.file_size > max_bytes:
        raise ModelFolderError(f"{source}: {member.filename} has {member.file_size:,} bytes; it is damaged")
    return b"".join(_blocks(archive, member))


def _content(archive: ZipFile, member: ZipInfo, expected: str | None, source: Path) -> Iterator[bytes]:
    """Yield the contents of a file of an archive, and compare their checksum at the end; the card has none."""
    if expected is None:
        yield _small(archive, member, _MAX_CARD_BYTES, source)
        return
    yield from verified(_blocks(archive, member), member.filename, expected, source)


def verified(blocks: Iterable[bytes], name: str, expected: str | None, place: Path) -> Iterator[bytes]:
    """Yield the contents of a file, and compare their checksum at the end.

    Raises:
        ModelFolderError: it is another one than expected.
    """
    hashed = Hashed(blocks)
    for block in hashed:
        yield bytes(block)
    if expected is not None and hashed.digest != expected:
        raise _damaged(place, name)


def _blocks(archive: ZipFile, member: ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as entry:
        while block := entry.read(_MAX_READ // 2):
            yield block


def _damaged(place: Path, name: str) -> ModelFolderError:
    return ModelFolderError(
        f"{place}: {name} is damaged or edited (its checksum is not the one in {FILE}); copy it again"
    )
