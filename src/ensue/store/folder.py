"""Folders and files that are replaced as a whole: a reader sees the old one or the new one, never half.

A model folder holds ``settings.json`` (task, model, settings, versions), tensors as safetensors, the vocabulary, the
optimiser's state and ``CARD.md``. Nothing in it is code, and nothing in it is run. ``B2SUMS`` holds a checksum of every
file but the card, which is compared when the file is read.

:mod:`ensue.store.pack` reads tensors, so that who asks what a folder holds waits for no torch.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

from ensue.data.file_bytes import flush
from ensue.data.schema import DataSchema
from ensue.errors import MissingLibraryError, ModelFolderError, UnknownModelError
from ensue.lines import decode_json, one_line
from ensue.store import checksums
from ensue.store.access import Access, access_of, create_file, create_folder, set_folder_access
from ensue.store.checksums import chunks, opened, require_sum, sum_of, sums_of
from ensue.store.swap import locked, put_back, put_in_place
from ensue.version import __version__

T = TypeVar("T")
Settings: TypeAlias = dict[str, Any]
"""Contents of ``settings.json``: decoded JSON, whose keys a task knows."""
Contents: TypeAlias = bytes | Iterable[bytes | memoryview]
"""Contents of a file, as bytes or as an iterable of chunks."""
FORMAT = 2
"""Version of the folder's layout; any other is refused."""

MAX_SETTINGS_BYTES = 2**26
"""Bytes of ``settings.json``, at most."""
MAX_JSON_BYTES = 2**30
"""Bytes of any other JSON file of a folder, at most."""
_KEYS = {"ensue", "format", "task", "model", "settings"}
_TYPES = {"ensue": (str,), "settings": (dict,), "schedule": (dict, type(None)), "seed": (int,), "facts": (dict,)}
"""Types of the values in ``settings.json``; the task and the model are looked up by name."""


def write_file(path: Path, data: bytes, *, access: Access | None = None) -> None:
    """Replace one file at once: a temporary sibling is written, flushed to the disk and renamed.

    Args:
        path: the file; a link stays a link, and its target is replaced.
        data: its new contents.
        access: permissions of a file that is new; those of the umask if ``None``. One that is replaced keeps its own.

    Raises:
        ModelFolderError: the disk is full, or the path cannot be written or is no file; the old file is unchanged.
    """
    write_chunks(path, [data], access=access)


def write_chunks(path: Path, chunks: Iterable[bytes | memoryview], *, access: Access | None = None) -> None:
    """Replace one file at once by bytes that come in chunks.

    Raises:
        ModelFolderError: as :func:`write_file`.
    """
    with replaced_file(path, access=access) as file:
        file.writelines(chunks)


@contextmanager
def replaced_file(path: Path, *, access: Access | None = None) -> Iterator[BinaryIO]:
    """Open a file that replaces another at once when it is closed; those of killed writers are removed.

    Raises:
        ModelFolderError: as :func:`write_file`.
    """
    # A link stays, and what it leads to is replaced.
    target = Path(os.path.realpath(path))
    sibling = target.with_name(_temporary(target))
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            raise ModelFolderError(f"{path}: is not a regular file, and would be replaced by one; give another name")
        target.parent.mkdir(parents=True, exist_ok=True)
        # Killed writers left these; nobody else looks for them.
        for abandoned in _temporaries(target):
            _remove_abandoned(abandoned)
        try:
            with _flushed(sibling, access_of(target) or access) as file:
                yield file
            sibling.replace(target)
        except BaseException:
            sibling.unlink(missing_ok=True)
            raise
        # Without this a power cut may undo the rename.
        flush(target.parent)
    except OSError as error:
        raise ModelFolderError(
            f"{path}: cannot be written ({error.strerror}); the existing file is unchanged"
        ) from error


def _temporary(target: Path) -> str:
    """Return a new name for what will replace a file or folder."""
    return f".{target.name.removeprefix('.')}.{secrets.token_hex(4)}.tmp"


def _temporaries(target: Path) -> Iterator[Path]:
    """Return the files whose names :func:`_temporary` gave."""
    name = re.compile(rf"\.{re.escape(target.name.removeprefix('.'))}\.[0-9a-f]{{8}}\.tmp")
    return (path for path in target.parent.glob(".*.tmp") if name.fullmatch(path.name))


def _remove_abandoned(path: Path) -> None:
    """Remove a temporary file unless its writer is still at work, which holds a lock on it or is about to take it."""
    with suppress(OSError):
        # Neither a link nor a pipe of that name is opened.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if abs(time.time() - os.fstat(descriptor).st_mtime) > 1:  # a clock may be set back
                path.unlink()


def write_folder(folder: Path, files: Mapping[str, Contents], *, like: Path | None = None) -> None:
    """Replace a model folder at once; it and its files keep their permissions.

    Args:
        folder: where it shall stand; an older model folder there is replaced, anything else is refused.
        files: contents by file name: bytes, or what gives them in parts.
        like: the model folder whose permissions a new folder gets; those of the umask if ``None``.

    Raises:
        ModelFolderError: not a model folder, not writable or the disk is full; what stood there is unchanged.
    """
    with _replacement(folder, like) as (new, access):
        sums = {}
        for name, contents in files.items():
            hashed = checksums.Hashed([contents] if isinstance(contents, bytes) else contents)
            _flush(new / name, hashed, access(name))
            sums[name] = hashed.digest
        _flush(new / checksums.FILE, [checksums.lines_of(sums)], access(checksums.FILE))


def clone_folder(source: Path, folder: Path) -> None:
    """Replace a model folder by a copy of another one at once; files are linked, not copied, where that works.

    A new folder gets the permissions of ``source``; one that is replaced keeps its own.

    Raises:
        ModelFolderError: as :func:`write_folder`.
    """
    with _replacement(folder, source) as (new, access):
        for name in checksums.names_in(source):
            path = source / name
            with opened(source, name) as file:
                if access_of(path) == access(name):  # a link has the permissions of what it is linked to
                    with suppress(OSError):  # no links on this file system
                        os.link(path.resolve(), new / name)
                        continue
                _flush(new / name, chunks(file), access(name))


@contextmanager
def linked_copy(folder: Path) -> Iterator[Path]:
    """Hold a copy of a model folder beside it, which stays as it is when the folder is replaced or removed.

    Raises:
        ModelFolderError: there is no such folder, or nothing can be written beside it.
    """
    read_settings(folder)
    with _new_sibling(folder, access_of(folder)) as copy:
        try:
            for path in folder.iterdir():
                with suppress(OSError):  # no links on this file system
                    os.link(path, copy / path.name)
                    continue
                with opened(folder, path.name) as file:
                    _flush(copy / path.name, chunks(file), access_of(path))
        except OSError as error:
            raise ModelFolderError(f"{folder}: cannot be copied ({error.strerror}); the folder is unchanged") from error
        yield copy


def require_writable(folder: Path) -> None:
    """Check before the work, and not after it, that a model can be saved here.

    Raises:
        ModelFolderError: something else has the name, or the folder cannot be written.
    """
    with _new_sibling(folder):
        pass


def read_settings(folder: Path) -> Settings:
    """``settings.json`` of a model folder.

    Raises:
        ModelFolderError: no folder, half a folder, somebody else's folder, or one of a newer ensue.
    """
    if folder.is_file():
        hint = f"unpack it first: ensue unpack {folder} -o FOLDER" if folder.suffix == ".ensue" else ""
        hint = hint or "give the folder that `ensue fit` wrote first"
        raise ModelFolderError(f"{folder}: is a file, not a model folder; {hint}")
    # A process killed between two renames left the folder under another name.
    if not folder.is_dir() and not put_back(folder):
        raise ModelFolderError(f"{folder}: no such model folder; make one with `ensue fit TASK DATA -o {folder}`")
    return parse_settings(read_file(folder, "settings.json", MAX_SETTINGS_BYTES), folder)


def parse_settings(content: bytes, folder: Path) -> Settings:
    """Return the value of the bytes of ``settings.json``.

    Raises:
        ModelFolderError: they are damaged, somebody else's, or of a newer ensue.
    """
    try:
        settings = decode_json(content)
    except ValueError as error:
        raise ModelFolderError(f"{folder}/settings.json: not JSON ({error}); the folder is damaged") from error
    if not isinstance(settings, dict) or not set(settings) >= _KEYS:
        raise ModelFolderError(f"{folder}/settings.json: not written by ensue; give a folder made by `ensue fit`")
    if type(settings["format"]) is not int or settings["format"] != FORMAT:
        version, layout = (one_line(str(settings[key]), 40) for key in ("ensue", "format"))
        raise ModelFolderError(
            f"{folder}: written by ensue {version} in format {layout}, this version reads format {FORMAT}; fit the "
            "model again"
        )
    for key, types in _TYPES.items():
        if type(settings.get(key)) not in types:
            value = one_line(str(settings.get(key)), 40)
            raise ModelFolderError(
                f'{folder}: damaged ("{key}" in settings.json is {value}); fit the model again or copy it again'
            )
    return settings


def read_model(folder: Path, make: Callable[..., T], fill: Callable[[T, Path, Settings], None]) -> T:
    """The predictor of a folder.

    Args:
        folder: a model folder.
        make: a predictor of a model's name, ``settings`` and ``seed``, that has learned nothing.
        fill: gives it the rest of the folder, and the facts in ``settings.json``.

    Raises:
        ModelFolderError: the folder is half, foreign, damaged, or of a newer ensue.
    """

    def read() -> T:
        settings = read_settings(folder)
        with damage(folder):
            # Settings of the model and of its training share one namespace.
            changed_settings = {**settings["settings"], **(settings["schedule"] or {})}
            predictor = make(settings["model"], settings=changed_settings, seed=settings["seed"])
            fill(predictor, folder, settings["facts"])
        return predictor

    return read_unchanged(folder, read)


def read_unchanged(folder: Path, read: Callable[[], T]) -> T:
    """Return the result of ``read``, which is called again if the folder was replaced meanwhile: never two halves.

    Raises:
        ModelFolderError: ``read`` raises it while the folder stays as it is.
    """
    while True:
        identity = _identity(folder)
        try:
            content = read()
        except ModelFolderError:
            if _identity(folder) == identity:
                raise
        else:
            if _identity(folder) == identity:
                return content


def read_file(folder: Path, name: str, max_bytes: int | None = None) -> bytes:
    """Return the contents of one file of a model folder.

    Args:
        folder: a model folder.
        name: of the file.
        max_bytes: its size, at most; as much as the machine has memory unless given.

    Raises:
        ModelFolderError: the file is missing, too large, not a regular file, or not the one that was saved.
    """
    # A file of a stranger may claim any size: reading it must not exhaust the machine.
    limit = max_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def read() -> bytes:
        with opened(folder, name) as file:
            if (size := os.fstat(file.fileno()).st_size) > limit:
                raise ModelFolderError(
                    f"{folder}/{name}: has {size:,} bytes, more than the {limit:,} that are read; the folder is damaged"
                )
            data = file.read()
        require_sum(folder, name, sum_of(folder, name), [data])
        return data

    return read_unchanged(folder, read)


def read_json(folder: Path, name: str) -> object:
    """Return the value in one JSON file of a model folder; see :func:`ensue.lines.decode_json`.

    Raises:
        ModelFolderError: the file cannot be read, or is not JSON.
    """
    try:
        return decode_json(read_file(folder, name, MAX_JSON_BYTES))
    except ValueError as error:
        raise ModelFolderError(
            f"{folder}: damaged ({name}: not JSON ({error})); fit the model again or copy it again"
        ) from error


def require_whole(folder: Path) -> None:
    """Read every file of a model folder that has a checksum.

    Raises:
        ModelFolderError: one is missing or not what was saved.
    """
    read_settings(folder)
    for name, expected in sums_of(folder).items():
        with opened(folder, name) as file:
            require_sum(folder, name, expected, chunks(file))


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Turn every error while a folder is read into one that names the folder.

    Libraries raise any type: what a damaged file makes of them is not known beforehand.
    """
    try:
        yield
    except (ModelFolderError, MissingLibraryError):
        raise
    except UnknownModelError as error:
        message = str(error).partition(";")[0]
        raise ModelFolderError(
            f"{path}: {message}; for a class of your own, give its file again: --model FILE.py:CLASS, or "
            "ensue.add_model"
        ) from error
    except Exception as error:
        reason = one_line(" ".join(str(error).split()) or type(error).__name__, 300)
        raise ModelFolderError(f"{path}: damaged ({reason}); fit the model again or copy it again") from error


def described(summary: Mapping[str, object], card: str) -> dict[str, bytes]:
    """The files of every model folder that say what it is: ``settings.json`` and ``CARD.md``."""
    settings = {"ensue": __version__, "format": FORMAT, **summary}
    return {"settings.json": json.dumps(settings, indent=1).encode(), "CARD.md": card.encode()}


@contextmanager
def _replacement(folder: Path, like: Path | None) -> Iterator[tuple[Path, Callable[[str], Access | None]]]:
    """Yield a new folder that replaces another at the end, and the permissions of each of its files by name."""
    target = folder.resolve()
    source = target if target.exists() else like
    folder_access = access_of(source) if source else None
    settings_access = access_of(source / "settings.json") if source else None

    def access(name: str) -> Access | None:
        return (access_of(source / name) if source else None) or settings_access

    with _new_sibling(folder, folder_access) as new:
        try:
            yield new, access
            if folder_access is not None:
                set_folder_access(new, folder_access)
            flush(new)
            put_in_place(new, target)
            flush(target.parent)
        except OSError as error:
            raise ModelFolderError(
                f"{folder}: cannot be saved ({error.strerror}); the existing file is unchanged"
            ) from error


@contextmanager
def _new_sibling(folder: Path, access: Access | None = None) -> Iterator[Path]:
    """Yield an empty folder next to another, locked while it is written; what has its name in the end is removed."""
    if folder.exists() and not _is_model(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelFolderError(f"{folder}: exists and is not a model folder; use another folder")
    target = folder.resolve()  # a link stays a link, and what it points at is replaced
    with ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            while True:
                new = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
                # From before it is there: a signal may come at any moment.
                stack.callback(shutil.rmtree, new, ignore_errors=True)
                create_folder(new, access)
                with suppress(OSError):  # a file system without locks, or swept before it was locked
                    stack.enter_context(locked(new, fcntl.LOCK_EX))
                if new.exists():
                    break
        except OSError as error:
            raise ModelFolderError(
                f"{folder}: cannot be written here ({error.strerror}); use another folder"
            ) from error
        yield new


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _is_model(folder: Path) -> bool:
    """Return whether a folder has settings of ours: other programs have a ``settings.json`` too."""
    try:
        with opened(folder, "settings.json") as file:
            settings = decode_json(file.read(MAX_SETTINGS_BYTES))
    except (ModelFolderError, ValueError):
        return False
    return isinstance(settings, dict) and set(settings) >= _KEYS


@contextmanager
def _flushed(path: Path, access: Access | None) -> Iterator[BinaryIO]:
    """Open a new file under a lock; it is on the disk when it is closed."""
    with create_file(path, access) as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file
        file.flush()
        os.fsync(file.fileno())


def _flush(path: Path, chunks: Iterable[bytes | memoryview], access: Access | None) -> None:
    """Write a new file to the disk."""
    with _flushed(path, access) as file:
        file.writelines(chunks)


def schema_of(folder: Path) -> DataSchema:
    """Return how the training data of a folder's model was read; the default where the folder does not say.

    Raises:
        ModelFolderError: no model folder, or a damaged one.
    """
    metadata = read_settings(folder).get("facts")
    values = metadata.get("reading") if isinstance(metadata, dict) else None
    try:
        return DataSchema.from_dict(values or {})
    except (ValueError, AttributeError, TypeError) as error:
        raise ModelFolderError(f"{folder}/settings.json: {error}; the folder is damaged") from error
