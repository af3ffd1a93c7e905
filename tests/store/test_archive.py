"""A model folder as one file: the same bytes for the same folder, and of a wrong one nothing is written."""

from __future__ import annotations

import os
import shutil
import stat
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

import ensue
from ensue.errors import ModelFolderError
from ensue.store import checksums
from ensue.store.archive import pack, unpack
from tests.folders import resum


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "m"
    ensue.NextEvent("markov").fit([["a", "b"], ["a", "b"], ["b", "c"]]).save(path)
    return path


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    return pack(folder, tmp_path / "m.ensue")


def refusal(file: Path, target: Path) -> str:
    """The message of a refused file, of which nothing was written."""
    before = sorted(target.parent.rglob("*"))
    with pytest.raises(ModelFolderError) as caught:
        unpack(file, target)
    assert sorted(target.parent.rglob("*")) == before
    message = str(caught.value)
    assert message.isprintable() and len(message) < 600
    return message


def rewritten(file: Path, change: Callable[[dict[str, bytes]], object], *, kind: int = ZIP_STORED) -> Path:
    """The archive with other files, as a stranger may write it."""
    with ZipFile(file) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with ZipFile(file, "w", kind) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file


def test_a_folder_comes_back_as_it_was_and_packs_to_the_same_bytes(folder: Path, packed: Path, tmp_path: Path) -> None:
    copy = unpack(packed, tmp_path / "copy")
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }
    assert ensue.NextEvent.load(copy).predict([["a"]], k=1).values == [["b"]]
    os.utime(copy / "CARD.md", (1, 1))
    assert pack(copy, tmp_path / "again.ensue").read_bytes() == packed.read_bytes()
    with ZipFile(packed) as archive:
        assert archive.testzip() is None and archive.namelist() == sorted(path.name for path in folder.iterdir())


def test_a_file_of_strangers_writes_nothing(folder: Path, packed: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    whole = packed.read_bytes()

    def changed(change: Callable[[dict[str, bytes]], object], *, kind: int = ZIP_STORED) -> str:
        packed.write_bytes(whole)
        return refusal(rewritten(packed, change, kind=kind), target)

    for name in ("../evil", "/tmp/evil", "a/b", "..", "C:\\evil", "-rf", ".hidden", "x" * 200):
        assert "no plain file" in changed(lambda files, name=name: files.update({name: b"x"}))  # type: ignore[misc]
    assert "no plain file" in changed(lambda files: None, kind=ZIP_DEFLATED)
    assert "other files" in changed(lambda files: files.update({"extra.py": b"x"}))
    assert "missing" in changed(lambda files: files.pop(checksums.FILE))
    assert "missing" in changed(lambda files: files.pop("settings.json"))
    assert "other files" in changed(lambda files: files.pop("baselines.safetensors"))
    assert "baselines.safetensors is damaged" in changed(lambda files: files.update({"baselines.safetensors": b"{}"}))
    assert "settings.json" in changed(lambda files: files.update({"settings.json": b"{}"}))
    many: Mapping[str, bytes] = {f"f{number}": b"" for number in range(100)}
    assert "more than 64" in changed(lambda files: files.update(many))
    assert "damaged (a line" in changed(lambda files: files.update({checksums.FILE: b"../x  y\n"}))


def test_damaged_files_and_bombs_are_refused(packed: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    whole = packed.read_bytes()
    for cut in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        packed.write_bytes(whole[:cut])
        assert "damaged" in refusal(packed, target)
    # The list of files claims two gigabytes: nothing of that size is read.
    end = len(whole) - 22
    assert whole[end : end + 4] == b"PK\x05\x06"
    packed.write_bytes(
        b"\0" * 2**21 + whole[:end] + whole[end : end + 12] + struct.pack("<I", 2**20 + 2**18) + whole[-6:]
    )
    assert "too large" in refusal(packed, target)
    # Two entries over the same bytes: together they are larger than the file.
    packed.write_bytes(whole)
    with ZipFile(packed, "a") as archive:
        for member in archive.infolist():
            member.file_size = member.compress_size = len(whole)
        archive._didModify = True  # type: ignore[attr-defined]
    assert "more than it has" in refusal(packed, target)


def test_links_folders_and_models_that_are_there_are_refused(folder: Path, packed: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    link = ZipInfo("settings.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with ZipFile(tmp_path / "link.ensue", "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr(checksums.FILE, "")
    assert "no link" in refusal(tmp_path / "link.ensue", target)
    shutil.copytree(folder, target)
    assert "holds a model" in refusal(packed, target)
    assert "is not a file" in refusal(tmp_path, tmp_path / "other")
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    (damaged / "baselines.safetensors").write_bytes(b"{}")
    with pytest.raises(ModelFolderError, match=r"baselines\.safetensors is damaged"):
        pack(damaged, tmp_path / "none.ensue")
    assert not (tmp_path / "none.ensue").exists()
    with pytest.raises(ModelFolderError, match="unpack it first"):
        ensue.load(packed)
    with pytest.raises(ModelFolderError, match="inside the model folder"):
        pack(folder, folder / "x.ensue")
    newer = tmp_path / "newer"
    shutil.copytree(folder, newer)
    (newer / "settings.json").write_bytes(
        (folder / "settings.json").read_bytes().replace(b'"format": 2', b'"format": 3')
    )
    file = rewritten(
        packed, lambda files: files.update({path.name: path.read_bytes() for path in resum(newer).iterdir()})
    )
    assert "this version reads format 2" in refusal(file, tmp_path / "other")
