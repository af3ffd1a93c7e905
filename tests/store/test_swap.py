"""What a process leaves that is killed while one folder takes another's place, on systems without a swap."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from ensue.store.swap import locked, put_back, sweep


def made(place: Path) -> Path:
    place.mkdir()
    (place / "file").write_text(place.name)
    return place


def test_what_was_moved_aside_is_put_back_where_nothing_stands(tmp_path: Path) -> None:
    """Killed between the two renames: the old folder stands again, and the new one is removed."""
    made(tmp_path / ".m.abcdefgh.old")
    made(tmp_path / ".m.abcdefgh.tmp")
    assert put_back(tmp_path / "m")
    assert not put_back(tmp_path / "m")
    sweep(tmp_path / "m")
    assert {path.name for path in tmp_path.iterdir()} == {"m"}
    assert (tmp_path / "m" / "file").read_text() == ".m.abcdefgh.old"


def test_what_was_moved_aside_is_removed_where_a_folder_stands(tmp_path: Path) -> None:
    for name in ("m", ".m.abcdefgh.old", ".m.abcdefgh.tmp", ".m.2.abcdefgh.old", ".other.abcdefgh.old"):
        made(tmp_path / name)
    sweep(tmp_path / "m")
    assert {path.name for path in tmp_path.iterdir()} == {"m", ".m.2.abcdefgh.old", ".other.abcdefgh.old"}
    assert (tmp_path / "m" / "file").read_text() == "m"


@pytest.mark.parametrize("stands", [True, False])
def test_who_is_at_work_is_left_alone(tmp_path: Path, stands: bool) -> None:
    old = made(tmp_path / ".m.abcdefgh.old")
    if stands:
        made(tmp_path / "m")
    with locked(old, fcntl.LOCK_EX):
        sweep(tmp_path / "m")
        assert not put_back(tmp_path / "m")
        assert old.exists()
