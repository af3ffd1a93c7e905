"""A growing file or folder: every whole line once, from any position, and a file that changed is noticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError, ModelFolderError
from ensue.stream.events import LONGEST
from ensue.stream.sources import JSONLinesSource


def lines_of(path: Path, position: Any = None, limit: int = 512) -> tuple[list[bytes], Any]:
    """All lines from a position on, in blocks of ``limit``, and the position then."""
    source, found = JSONLinesSource(path), []
    source.begin(position)
    while (block := source.read(limit, 0.0)).lines:
        assert len(block.lines) <= limit
        found += block.lines
    assert block.at_end
    source.close()
    return found, json.loads(json.dumps(block.position))


@pytest.mark.parametrize("limit", [1, 3, 512])
def test_whole_lines_from_every_position(tmp_path: Path, limit: int) -> None:
    path, expected = tmp_path / "a.jsonl", [b"one", b"", b"three\r", "vier é".encode(), b"5" * 300_000, b"six"]
    path.write_bytes(b"".join(line + b"\n" for line in expected))
    assert lines_of(path, limit=limit)[0] == expected
    for stop in range(len(expected)):
        source = JSONLinesSource(path)
        source.begin(None)
        block = source.read(stop, 0.0) if stop else None
        position = block.position if block else None
        source.close()
        assert lines_of(path, position, limit)[0] == expected[stop:]


def test_a_half_written_line_waits_for_its_newline(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntw")
    source = JSONLinesSource(path)
    source.begin(None)
    block = source.read(512, 0.0)
    assert (block.lines, block.position["offset"]) == ([b"one"], 4)
    assert source.read(512, 0.0).lines == []
    with path.open("ab") as file:
        file.write(b"o\nthree")
    assert source.read(512, 0.0).lines == [b"two"]
    with path.open("ab") as file:
        file.write(b"\n")
    block = source.read(512, 0.0)
    assert (block.lines, block.locations) == ([b"three"], ["a.jsonl: byte 8"])
    assert source.behind().amount == 0


def test_a_line_that_is_too_long_is_cut_and_the_next_one_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * (3 * LONGEST) + b"\nnext\n")
    found, position = lines_of(path)
    assert LONGEST < len(found[0]) < 2 * LONGEST
    assert found[1:] == [b"next"]
    assert position["offset"] == path.stat().st_size


def test_a_copy_elsewhere_is_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\n")
    _, position = lines_of(path)
    (tmp_path / "copy").mkdir()
    copy = Path(shutil.copy(path, tmp_path / "copy" / "a.jsonl"))
    with copy.open("ab") as file:
        file.write(b"three\n")
    assert lines_of(copy, position)[0] == [b"three"]


def replaced(path: Path) -> None:
    path.rename(path.with_name("a.jsonl.1"))
    path.write_bytes(b"another file that is longer\n")


def shortened(path: Path) -> None:
    path.write_bytes(b"one\n")


def written_anew(path: Path) -> None:
    path.write_bytes(b"other lines, as many or more\n")


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [replaced, shortened, written_anew, removed])
def test_a_file_that_changed_is_an_error_in_a_run_and_after_one(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\n")
    _, position = lines_of(path)
    running = JSONLinesSource(path)
    running.begin(position)
    change(path)
    told = (
        "is not the file that was read up to byte 8 (rotated, truncated or replaced); put it back, or let logs rotate"
    )
    with pytest.raises(DataError) as error:
        running.read(512, 0.0)
    assert told in str(error.value)
    running.close()
    with pytest.raises(DataError) as error:
        lines_of(path, position)
    assert told in str(error.value) or "no such file" in str(error.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder; give a JSON Lines file"):
        JSONLinesSource(tmp_path / "none.jsonl").begin(None)


def folder_of(tmp_path: Path, **files: bytes) -> Path:
    place = tmp_path / "clicks"
    place.mkdir(exist_ok=True)
    for name, data in files.items():
        (place / f"{name}.jsonl").write_bytes(data)
    return place


@pytest.mark.parametrize("limit", [1, 512])
def test_a_folder_in_the_order_of_names(tmp_path: Path, limit: int) -> None:
    place = folder_of(tmp_path, b=b"3\n4\n", a=b"1\n2\n", c=b"", d=b"5\n")
    (place / "notes.txt").write_text("not read")
    (place / ".a.jsonl").write_text("nor this")
    found, position = lines_of(place, limit=limit)
    assert found == [b"1", b"2", b"3", b"4", b"5"]
    folder_of(tmp_path, e=b"6\n")
    assert lines_of(place, position, limit)[0] == [b"6"]


def test_files_that_appear_while_it_is_read(tmp_path: Path) -> None:
    place = folder_of(tmp_path)
    source = JSONLinesSource(place)
    source.begin(None)
    assert source.read(512, 0.0).at_end
    folder_of(tmp_path, a=b"1\n2")
    assert source.read(512, 0.0).lines == [b"1"]
    assert source.read(512, 0.0).lines == []  # half a line, and no later file yet
    with (place / "a.jsonl").open("ab") as file:
        file.write(b"2\n33")
    folder_of(tmp_path, b=b"4\n")
    block = source.read(512, 0.0)
    assert block.lines == [b"22", b"33", b"4"]  # the file is over, so its last line is too
    assert block.locations == ["a.jsonl: byte 2", "a.jsonl: byte 5", "b.jsonl: byte 0"]
    (place / "a.jsonl").unlink()  # what was read may go
    folder_of(tmp_path, c=b"5\n")
    assert source.read(512, 0.0).lines == [b"5"]


@pytest.mark.parametrize("name", ["a", "aa"])
def test_lines_that_would_be_missed_are_an_error(tmp_path: Path, name: str) -> None:
    place = folder_of(tmp_path, a=b"1\n", b=b"2\n")
    _, position = lines_of(place)
    folder_of(tmp_path, **{name: b"1\n9\n"})
    with pytest.raises(DataError, match=rf"{name}\.jsonl: grew or appeared after b\.jsonl was started"):
        lines_of(place, position)


def test_waiting_ends_with_the_first_full_block_or_the_time(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n2\n3\n")
    source = JSONLinesSource(path)
    source.begin(None)
    assert source.read(2, 60.0).lines == [b"1", b"2"]  # full: no waiting
    block = source.read(2, 0.01)
    assert (block.lines, block.at_end) == ([b"3"], True)
    assert source.behind() == (0, "bytes")
    source.close()


@pytest.mark.parametrize("name", ["../outside.jsonl", "..", ".", "a.jsonl\0", "b.jsonl"])
def test_a_position_names_no_file_outside_its_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.jsonl").write_text("one\n")
    (tmp_path / "outside.jsonl").write_text("secret\n")
    with pytest.raises(DataError, match="cannot be read"):
        lines_of(folder, {"file": name, "offset": 0, "digest": "", "done": {}})


@pytest.mark.parametrize(
    ("field", "value"), [("file", 1), ("offset", -1), ("offset", 2**70), ("digest", None), ("done", {"a": "b"})]
)
def test_a_position_of_other_types_is_refused(tmp_path: Path, field: str, value: object) -> None:
    (tmp_path / "a.jsonl").write_text("one\n")
    with pytest.raises(ModelFolderError, match=rf"stream\.json, position: damaged \({field}.*: Input should be"):
        lines_of(tmp_path / "a.jsonl", {"file": "a.jsonl", "offset": 0, "digest": "", "done": {}, field: value})
