"""Folders and files that are replaced as a whole: a reader sees the old one or the new one, never half.

A model folder holds ``settings.json`` (task, model, settings, versions), tensors as safetensors, the vocabulary, the
optimiser's state and ``CARD.md``. Nothing in it is code, and nothing in it is run. ``B2SUMS`` holds a checksum of every
file but the card, which is compared when the file is read; folders of before there were checksums lack it.

:mod:`ensue.store.tensors` reads tensors, so that who asks what a folder holds waits for no torch.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ensue.errors import ModelFolderError, SettingError, UnknownModelError
from ensue.store import checksums
from ensue.store.checksums import chunks, opened, require_sum, sum_of, sums_of
from ensue.store.swap import locked, put_back, put_in_place
from ensue.version import __version__

T = TypeVar("T")
Settings: TypeAlias = dict[str, Any]
"""What ``settings.json`` holds: decoded JSON, whose keys a task knows."""
Contents: TypeAlias = bytes | Iterable[bytes | memoryview]
"""What stands in a file."""
FORMAT = 1
"""Version of the folder's layout; a newer one is refused."""

_KEYS = {"ensue", "format", "task", "model", "settings"}


def write_file(path: Path, data: bytes) -> None:
    """Replace one file at once: a temporary sibling is written, flushed to the disk and renamed.

    Raises:
        ModelFolderError: the disk is full or the place cannot be written; the old file stands.
    """
    write_chunks(path, [data])


def write_chunks(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Replace one file at once by bytes that come in parts; what killed writers left of it is removed.

    Raises:
        ModelFolderError: as :func:`write_file`.
    """
    begin = f".{path.name.removeprefix('.')}."
    sibling = path.with_name(f"{begin}{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"{glob.escape(begin)}*.tmp"):
            _remove_abandoned(left)
        _flush(sibling, chunks)
        sibling.replace(path)
        _flush_names(path.parent)
    except OSError as error:
        with suppress(OSError):
            sibling.unlink()
        raise ModelFolderError(
            f"{path}: cannot be written ({error.strerror}); what stood there is unchanged"
        ) from error


def _remove_abandoned(left: Path) -> None:
    """Remove a temporary file, unless its writer is still at work: who holds a lock on it, or is about to take it."""
    with suppress(OSError), left.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if abs(time.time() - left.stat().st_mtime) > 1:  # a clock may be set back
            left.unlink()


def write_folder(folder: Path, files: Mapping[str, Contents]) -> None:
    """Replace a model folder at once.

    Args:
        folder: where it shall stand; an older model folder there is replaced, anything else is refused.
        files: contents by file name: bytes, or what gives them in parts.

    Raises:
        ModelFolderError: not a model folder, not writable or the disk is full; what stood there is unchanged.
    """

    def fill(new: Path) -> None:
        sums = {}
        for name, contents in files.items():
            counted = checksums.Counted([contents] if isinstance(contents, bytes) else contents)
            _flush(new / name, counted)
            sums[name] = counted.digest
        _flush(new / checksums.FILE, [checksums.lines_of(sums)])

    _replace(folder, fill)


def clone_folder(source: Path, folder: Path) -> None:
    """Put a copy of a model folder in the place of another, at once; files are linked, not copied, where that works.

    Raises:
        ModelFolderError: as :func:`write_folder`.
    """

    def fill(new: Path) -> None:
        for path in source.iterdir():
            try:
                os.link(path, new / path.name)
            except OSError:  # no links on this file system
                with opened(source, path.name) as file:
                    _flush(new / path.name, chunks(file))

    _replace(folder, fill)


def require_writable(folder: Path) -> None:
    """Find out before the work, not after it, whether a model can be saved here.

    Raises:
        ModelFolderError: the place is taken by something else, or cannot be written.
    """
    with _new_sibling(folder):
        pass


def read_settings(folder: Path) -> Settings:
    """``settings.json`` of a model folder.

    Raises:
        ModelFolderError: no folder, half a folder, somebody else's folder, or one of a newer ensue.
    """
    if folder.is_file():
        raise ModelFolderError(f"{folder}: is a file, no model folder; the folder that `ensue fit` wrote comes first")
    if not folder.is_dir() and not put_back(folder):
        raise ModelFolderError(f"{folder}: no such model folder; make one with `ensue fit TASK DATA -o {folder}`")
    try:
        settings = json.loads(read_file(folder, "settings.json"))
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{folder}/settings.json: not JSON ({error}); the folder is damaged") from error
    if not isinstance(settings, dict) or not set(settings) >= _KEYS:
        raise ModelFolderError(f"{folder}/settings.json: not written by ensue; name a folder made by `ensue fit`")
    if not isinstance(settings["format"], int) or settings["format"] > FORMAT:
        raise ModelFolderError(
            f"{folder}: written by ensue {settings['ensue']} in format {settings['format']}, this one reads up to "
            f"{FORMAT}; update ensue"
        )
    if "checksums" in settings and not (folder / checksums.FILE).exists():
        raise ModelFolderError(f"{folder}: {checksums.FILE} is missing; copy the folder anew")
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
            chosen = {**settings["settings"], **(settings["schedule"] or {})}
            predictor = make(settings["model"], settings=chosen, seed=settings["seed"])
            facts = settings["facts"]
            if not isinstance(facts, dict):
                raise TypeError("the facts in settings.json are no object")
            fill(predictor, folder, facts)
        return predictor

    return read_unchanged(folder, read)


def read_unchanged(folder: Path, read: Callable[[], T]) -> T:
    """What ``read`` makes of a folder; read anew if the folder was replaced meanwhile, so that nobody sees two halves.

    Raises:
        ModelFolderError: what ``read`` raises while the folder stays as it is.
    """
    while True:
        before = _identity(folder)
        try:
            content = read()
        except ModelFolderError:
            if _identity(folder) == before:
                raise
        else:
            if _identity(folder) == before:
                return content


def read_file(folder: Path, name: str) -> bytes:
    """One file of a model folder.

    Raises:
        ModelFolderError: the file is missing, cannot be read, is no file, or not the one that was saved.
    """

    def read() -> bytes:
        with opened(folder, name) as file:
            data = file.read()
        require_sum(folder, name, sum_of(folder, name), [data])
        return data

    return read_unchanged(folder, read)


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
    """Whatever does not fit together while a folder is read is one error that names the folder."""
    try:
        yield
    except UnknownModelError as error:
        said = str(error).partition(";")[0]
        raise ModelFolderError(
            f"{path}: {said}; if it is your own, name its file again with --model FILE.py:CLASS or ensue.add_model"
        ) from error
    except (KeyError, TypeError, ValueError, RuntimeError, SettingError) as error:
        reason = " ".join(str(error).split())
        raise ModelFolderError(f"{path}: damaged ({reason}); fit the model again or copy it anew") from error


def described(summary: Mapping[str, object], card: str) -> dict[str, bytes]:
    """The files of every model folder that say what it is: ``settings.json`` and ``CARD.md``."""
    settings = {"ensue": __version__, "format": FORMAT, "checksums": checksums.FILE, **summary}
    return {"settings.json": json.dumps(settings, indent=1).encode(), "CARD.md": card.encode()}


def _replace(folder: Path, fill: Callable[[Path], None]) -> None:
    with _new_sibling(folder) as new:
        place = folder.resolve()
        try:
            fill(new)
            new.chmod(0o755)
            _flush_names(new)
            put_in_place(new, place)
            _flush_names(place.parent)
        except OSError as error:
            raise ModelFolderError(
                f"{folder}: cannot be saved ({error.strerror}); what stood there is unchanged"
            ) from error


@contextmanager
def _new_sibling(folder: Path) -> Iterator[Path]:
    """An empty folder beside another, locked while it is written; what has its name in the end is removed."""
    if folder.exists() and not _is_model(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelFolderError(f"{folder}: exists and is not a model folder; name another place")
    place = folder.resolve()  # a link stays a link, and what it points at is replaced
    with ExitStack() as stack:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            while True:
                new = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".tmp", dir=place.parent))
                with suppress(OSError):  # a file system without locks, or swept before it was locked
                    stack.enter_context(locked(new, fcntl.LOCK_EX))
                if new.exists():
                    break
        except OSError as error:
            raise ModelFolderError(
                f"{folder}: cannot be written here ({error.strerror}); name another place"
            ) from error
        try:
            yield new
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _is_model(folder: Path) -> bool:
    """Whether its settings are ours: others keep a ``settings.json`` too."""
    try:
        return set(json.loads(read_file(folder, "settings.json"))) >= _KEYS
    except (ModelFolderError, ValueError, TypeError, RecursionError):
        return False


def _flush(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    with path.open("wb") as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _flush_names(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
