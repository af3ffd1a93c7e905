"""Versions of a model folder: kept, pruned, put back; a kill leaves a folder that loads."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ensue import ModelFolderError, SettingError, __version__
from ensue.store import folder as folders
from ensue.store import versions
from ensue.store.folder import write_folder


def put(folder: Path, number: int | None, text: str) -> Path:
    """A folder that passes for a model of this version."""
    facts = {} if number is None else {"version": number}
    settings = {"ensue": __version__, "format": 2, "task": "next", "model": "m", "settings": {}}
    settings |= {"schedule": None, "seed": 0, "facts": facts}
    write_folder(folder, {"settings.json": json.dumps(settings).encode(), "weights": text.encode(), "CARD.md": b"card"})
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return put(tmp_path / "m", None, "first")


def grown(folder: Path, last: int) -> Path:
    """A folder that has gone through updates up to version ``last``."""
    for number in range(2, last + 1):
        versions.keep(folder)
        put(folder, number, f"text {number}")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_numbers_begin_at_one_and_rise(folder: Path) -> None:
    assert (versions.current(folder), versions.kept(folder), versions.next_number(folder)) == (1, [], 2)
    grown(folder, 4)
    assert (versions.current(folder), versions.kept(folder), versions.next_number(folder)) == (4, [1, 2, 3], 5)


def test_what_is_kept_is_what_stood_there_byte_for_byte(folder: Path) -> None:
    before = contents(folder)
    grown(folder, 2)
    assert contents(folder.with_name("m.versions") / "1") == before != contents(folder)


def test_the_newest_are_kept_and_nothing_half_is_left(folder: Path) -> None:
    grown(folder, 7)
    (folder.with_name("m.versions") / ".3.abc.tmp").mkdir()  # what a kill may leave
    versions.prune(folder, 2)
    assert versions.kept(folder) == [5, 6]
    assert sorted(path.name for path in folder.with_name("m.versions").iterdir()) == ["5", "6"]
    versions.prune(folder, 0)
    assert versions.kept(folder) == []


def test_where_fewer_stand_than_may_be_kept_none_goes(folder: Path) -> None:
    grown(folder, 4)
    for num in (3, 4, 5, 100):
        versions.prune(folder, num)
        assert versions.kept(folder) == [1, 2, 3]


def test_back_and_further_back_and_forward_again(folder: Path) -> None:
    grown(folder, 3)
    newest = contents(folder)
    assert versions.roll_back(folder) == (2, 3)
    assert (folder / "weights").read_text() == "text 2" and versions.current(folder) == 2
    assert versions.roll_back(folder) == (1, 2)
    assert (folder / "weights").read_text() == "first" and versions.kept(folder) == [1, 2, 3]
    assert versions.next_number(folder) == 4, "no number is given twice"
    assert versions.roll_back(folder, 3) == (3, 1)
    assert contents(folder) == newest


def test_a_folder_that_was_fitted_anew_takes_no_version_of_the_former_model_away(folder: Path) -> None:
    grown(folder, 3)
    put(folder, None, "another model")
    assert versions.keep(folder) == 3, "1 is taken by something else"
    assert (folder.with_name("m.versions") / "1" / "weights").read_text() == "first"
    assert (folder.with_name("m.versions") / "3" / "weights").read_text() == "another model"


def test_keeping_twice_keeps_once(folder: Path) -> None:
    assert versions.keep(folder) == versions.keep(folder) == 1
    (folder / "CARD.md").write_text("scored")
    assert versions.keep(folder) == 1 and versions.kept(folder) == [1]


@pytest.mark.parametrize(
    ("last", "number", "message"),
    [
        (1, None, "{}: no version older than 1 is stored; `ensue update` stores the version that it replaces"),
        (1, 3, "{}: version 3 is not stored; `ensue update` stores the version that it replaces"),
        (3, 9, "{}: version 9 is not stored; stored: 1, 2"),
    ],
)
def test_what_is_not_kept_cannot_come_back(folder: Path, last: int, number: int | None, message: str) -> None:
    before = contents(grown(folder, last))
    with pytest.raises(SettingError) as caught:
        versions.roll_back(folder, number)
    assert str(caught.value) == message.format(folder) and contents(folder) == before


@pytest.mark.parametrize("number", ["2", 0, 1.5])
def test_a_version_that_is_no_number_is_refused(folder: Path, number: Any) -> None:
    put(folder, number, "odd")
    with pytest.raises(ModelFolderError, match="is not a number from 1"):
        versions.current(folder)


def test_without_links_files_are_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    before = contents(folder)
    versions.keep(folder)
    assert contents(folder.with_name("m.versions") / "1") == before


class Killed(BaseException):
    """Stands for ``kill -9``: no handler of ours catches it."""


@pytest.mark.parametrize("when", range(12))
@pytest.mark.parametrize("swaps", [True, False])
def test_a_kill_between_any_two_steps_leaves_a_whole_folder_and_whole_versions(
    folder: Path, monkeypatch: pytest.MonkeyPatch, when: int, swaps: bool
) -> None:
    """The process dies before its n-th rename, swap or removal, also where a swap is two renames; cleaning up dies."""
    grown(folder, 3)
    left = [when]

    def dying(call: Any) -> Any:
        def step(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return call(*arguments, **options)

        return step

    for owner, name in ((folders, "put_in_place"), (folders, "flush"), (shutil, "rmtree")):
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))
    monkeypatch.setattr(Path, "rename", dying(Path.rename))
    if not swaps:
        monkeypatch.setattr("ensue.store.swap.ctypes.CDLL", lambda *_, **__: object())
    try:
        versions.keep(folder)
        put(folder, 4, "text 4")
        versions.prune(folder, 2)
    except Killed:
        pass
    monkeypatch.undo()
    texts = {1: "first", 2: "text 2", 3: "text 3", 4: "text 4"}
    standing = versions.current(folder)  # who looks puts back what was moved aside
    assert (folder / "weights").read_text() == texts[standing]
    for number in versions.kept(folder):
        assert (folder.with_name("m.versions") / str(number) / "weights").read_text() == texts[number]
        assert len(contents(folder.with_name("m.versions") / str(number))) == 4
    assert {2, 3} <= {versions.current(folder), *versions.kept(folder)}
