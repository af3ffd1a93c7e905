"""Permissions of what is written: kept where something is replaced, the umask's where it is new, never wider before."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ensue import ModelFolderError
from ensue.store import versions
from ensue.store.access import access_of, ensure_file, sibling_access
from ensue.store.folder import clone_folder, described, write_chunks, write_file, write_folder
from ensue.store.swap import only_writer

SUMMARY = {"task": "next", "model": "markov", "settings": {}, "schedule": None, "seed": 0, "facts": {"version": 1}}


def modes(folder: Path) -> dict[str, str]:
    return {path.name: f"{path.stat().st_mode & 0o7777:o}" for path in (folder, *folder.iterdir())}


def model(folder: Path, version: int = 1, **more: bytes) -> Path:
    files = described({**SUMMARY, "facts": {"version": version}}, "card") | more
    write_folder(folder, {**files, "tensors": str(version).encode()})
    return folder


@pytest.fixture(params=[0o022, 0o077, 0o002], ids=["022", "077", "002"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@contextmanager
def with_umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    yield
    os.umask(before)


def test_what_is_new_follows_the_umask(tmp_path: Path, umask: int) -> None:
    write_file(tmp_path / "answers.csv", b"1")
    model(tmp_path / "m")
    versions.keep(tmp_path / "m")
    file, folder = f"{0o666 & ~umask:o}", f"{0o777 & ~umask:o}"
    assert modes(tmp_path)["answers.csv"] == file
    inside = {"settings.json": file, "CARD.md": file, "tensors": file, "B2SUMS": file}
    assert modes(tmp_path / "m") == {"m": folder, **inside}
    assert modes(tmp_path / "m.versions") == {"m.versions": folder, "1": folder}
    assert modes(tmp_path / "m.versions" / "1") == {"1": folder, **inside}


def test_what_is_replaced_keeps_its_mode(tmp_path: Path, umask: int) -> None:
    folder = model(tmp_path / "m")
    folder.chmod(0o2750)
    for path in folder.iterdir():
        path.chmod(0o640)
    (folder / "tensors").chmod(0o600)
    before = modes(folder)
    model(folder, 2, new=b"a file that the old one does not have")
    assert modes(folder) == {**before, "new": "640"}
    answers = tmp_path / "answers.csv"
    write_file(answers, b"1")
    for mode in (0o600, 0o664, 0o400):
        answers.chmod(mode)
        write_file(answers, b"2")
        assert answers.stat().st_mode & 0o7777 == mode


def test_what_is_kept_beside_a_private_folder_is_private(tmp_path: Path) -> None:
    """700 and 600 under the umask 022 that made them 755 and 644."""
    with with_umask(0o022):
        folder = model(tmp_path / "m")
        folder.chmod(0o700)
        for path in folder.iterdir():
            path.chmod(0o600)
        versions.keep(folder)
        model(folder, 2)
        ensure_file(tmp_path / "m.rejects.jsonl", sibling_access(folder))
        versions.roll_back(folder)
    for path in (tmp_path / "m", tmp_path / "m.versions", *tmp_path.rglob("*")):
        assert not path.stat().st_mode & 0o077, path


@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "sibling"),
    [(0o755, 0o644, 0o644), (0o755, 0o600, 0o600), (0o700, 0o644, 0o600), (0o750, 0o644, 0o640), (0o711, 0o640, 0o640)],
)
def test_a_file_beside_a_folder_is_read_by_nobody_else(
    tmp_path: Path, folder_mode: int, file_mode: int, sibling: int
) -> None:
    folder = model(tmp_path / "m")
    (folder / "settings.json").chmod(file_mode)
    folder.chmod(folder_mode)
    with with_umask(0o022):
        access = sibling_access(folder)
    assert access is not None and access.mode == sibling


def test_a_version_put_back_keeps_the_modes_of_what_it_replaces(tmp_path: Path) -> None:
    with with_umask(0o022):
        folder = model(tmp_path / "m")
        versions.keep(folder)
        model(folder, 2)
        for path in (folder, *folder.iterdir()):
            path.chmod(path.stat().st_mode & 0o700)
        before = modes(folder)
        versions.roll_back(folder)
    assert versions.current(folder) == 1
    assert modes(folder) == before


def test_nothing_is_wider_while_it_is_written(tmp_path: Path) -> None:
    """Modes are looked at between two chunks, as somebody would who waits for his moment."""
    seen: list[int] = []

    def chunks(place: Path) -> Iterator[bytes]:
        yield b"1"
        seen.extend(path.stat().st_mode & 0o077 for path in place.iterdir())

    with with_umask(0o022):
        (tmp_path / "m").mkdir(mode=0o700)
        answers = tmp_path / "answers.csv"
        answers.touch(mode=0o600)
        write_chunks(answers, chunks(tmp_path))
        write_folder(tmp_path / "m", {**described(SUMMARY, "card"), "tensors": chunks(tmp_path)})
    assert seen == [0] * 6
    assert f"{(tmp_path / 'm').stat().st_mode & 0o777:o}" == "700"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_and_group_are_kept_and_nobody_gains_where_they_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model(tmp_path / "m")
    for path in (folder, *folder.iterdir()):
        os.chown(path, 1234, 2345)
        path.chmod(0o750 if path == folder else 0o640)
    model(folder, 2)
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (folder, *folder.iterdir())} == {(1234, 2345)}
    assert set(modes(folder).values()) == {"750", "640"}

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    model(folder, 3)
    assert set(modes(folder).values()) == {"700", "600"}  # the group is another one now


def test_an_access_list_is_kept(tmp_path: Path) -> None:
    """User 1234 may read a file of mode 600: its group bits become the mask of the list, and the group has nothing."""
    path = tmp_path / "answers.csv"
    path.touch(mode=0o600)
    none, entries = 2**32 - 1, [(1, 6), (2, 4, 1234), (4, 0), (16, 4), (32, 0)]
    value = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", entry[0], entry[1], entry[2] if len(entry) > 2 else none) for entry in entries
    )
    try:
        os.setxattr(path, "system.posix_acl_access", value)
    except OSError:
        pytest.skip("no access lists on this file system")
    before = access_of(path)
    write_file(path, b"1")
    assert before is not None and before.mode == 0o640
    assert access_of(path) == before


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target.csv").touch(mode=0o600)
    link = tmp_path / "link.csv"
    link.symlink_to("target.csv")
    write_file(link, b"1")
    assert str(link.readlink()) == "target.csv" and (tmp_path / "target.csv").read_bytes() == b"1"
    dangling = tmp_path / "dangling.csv"
    dangling.symlink_to("later.csv")
    write_file(dangling, b"2")
    assert str(dangling.readlink()) == "later.csv" and (tmp_path / "later.csv").read_bytes() == b"2"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "out.csv"
    make(path)
    before = path.stat()
    with pytest.raises(ModelFolderError, match=r"out\.csv: is not a regular file"):
        write_file(path, b"1")
    assert path.stat().st_ino == before.st_ino and list(tmp_path.iterdir()) == [path]


def test_links_and_pipes_under_temporary_names_are_left_alone(tmp_path: Path) -> None:
    """A file of somebody else is not taken for one that a killed writer left, and a planted link is not followed."""
    os.mkfifo(tmp_path / ".out.csv.0123abcd.tmp")
    (tmp_path / ".out.csv.89abcdef.tmp").symlink_to("victim")
    (tmp_path / ".out.csv.backup.tmp").write_text("mine")
    (tmp_path / ".m.lock").symlink_to("victim")
    thread = threading.Thread(target=write_file, args=(tmp_path / "out.csv", b"1"), daemon=True)
    thread.start()
    thread.join(10)
    assert (tmp_path / "out.csv").read_bytes() == b"1"
    assert (tmp_path / ".out.csv.backup.tmp").read_text() == "mine"
    with pytest.raises(ModelFolderError, match="cannot be locked"), only_writer(tmp_path / "m"):
        pass
    assert not (tmp_path / "victim").exists()


def test_a_copy_without_links_has_the_modes_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = model(tmp_path / "m")
    for path in (source, *source.iterdir()):
        path.chmod(path.stat().st_mode & 0o700)

    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", refuse)
    clone_folder(source, tmp_path / "copy")
    copied, original = modes(tmp_path / "copy"), modes(source)
    assert copied.pop("copy") == original.pop("m") == "700"
    assert copied == original
