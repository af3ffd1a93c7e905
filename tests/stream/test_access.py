"""Permissions of what a stream writes next to its model folder, in which parts of sessions are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ensue import ModelFolderError
from ensue.stream import SQLiteQueue, engine
from ensue.stream.brokers import open_source
from ensue.stream.engine import Stream
from ensue.stream.state import StreamSettings
from tests.stream.conftest import log, streamed


@pytest.fixture(params=[0o022, 0o077], ids=["022", "077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("private", [False, True], ids=["open", "private"])
def test_files_next_to_a_folder_are_read_by_nobody_else(
    folder: Path, tmp_path: Path, umask: int, private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "GROWN", 1e9)
    for path in (folder, *folder.iterdir()):
        path.chmod((0o700 if path.is_dir() else 0o600) if private else 0o755 if path.is_dir() else 0o644)
    inside = {path.name: path.stat().st_mode for path in (folder, *folder.iterdir())}
    queue = SQLiteQueue(tmp_path / "queue.db")
    queue.put(["{", *log(60)])
    address = f"sqlite:{tmp_path}/queue.db"
    stream = Stream(folder, open_source(address, print), StreamSettings(batch=16, commit_interval=0, journal=0))
    for _, _ in zip(range(3), stream.run(follow=False), strict=False):
        pass
    stream.source.close()

    def siblings() -> dict[str, str]:
        paths = [*tmp_path.glob(".m.*"), *tmp_path.glob("m.*"), *tmp_path.glob("queue.db*")]
        return {path.name: f"{path.stat().st_mode & 0o777:o}" for path in paths}

    file = 0o600 if private or umask == 0o077 else 0o644
    copied = f"{0o700 if private else 0o755:o}"  # a copy of the folder has its permissions
    shown = {".m.journal": f"{file:o}", "m.rejects.jsonl": f"{file:o}"}
    assert siblings() == {**shown, "queue.db": f"{0o666 & ~umask & 0o644:o}"}
    (tmp_path / "m.rejects.jsonl").chmod(0o640)
    queue.put(["{", *log(80)[-40:]])
    streamed(folder, address, journal=0)
    (resumed,) = [name for name in siblings() if ".resume." in name]
    shown = {"m.rejects.jsonl": "640", resumed: copied}
    assert siblings() == {**shown, "queue.db": f"{0o666 & ~umask & 0o644:o}"}
    found = {path.name: path.stat().st_mode for path in (folder, *folder.iterdir())}
    assert {name: found[name] for name in inside} == inside
    added = {found[name] & 0o777 for name in set(found) - set(inside)}
    assert added == {0o600 if private else 0o644}  # as the files of the folder


def test_a_pipe_in_the_place_of_rejected_lines_is_refused(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.rejects.jsonl")
    (tmp_path / "log.jsonl").write_text("{\n" + "\n".join(log(30)) + "\n")
    with pytest.raises(ModelFolderError, match=r"m\.rejects\.jsonl: is not a regular file; move it away"):
        streamed(folder, str(tmp_path / "log.jsonl"))
