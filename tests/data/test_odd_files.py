"""Files that are none, that change while they are read, or hold what no text does: one line, no signal, no waiting."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from ensue import DataError, EnsueError
from ensue.data import file_bytes, files
from ensue.data.file_bytes import PREFIX, FileBytes, open_input, temporary_folder
from ensue.data.kinds import kind_of
from ensue.data.posts.dataset import read_articles, read_posts
from ensue.data.queries import read_queries
from ensue.data.rankings import read_rankings
from ensue.data.sequences import batches, read
from ensue.data.sequences.prepare import prepare
from ensue.data.table import ReadOptions
from ensue.data.texts import read_texts
from ensue.text.vectors import read_vectors
from tests.data.files import write

HEADER = "session_id,item_id,timestamp\n"
ROWS = "".join(f"s{row // 4},i{row % 7},{1773000000 + row}\n" for row in range(20_000))
CUT = "was cut short while it was read (is it a log that is being rotated?); try again, or read a copy"
READERS: dict[str, Callable[[Path], object]] = {
    "log": read,
    "texts": read_texts,
    "queries": read_queries,
    "posts": read_posts,
    "articles": read_articles,
    "kind": kind_of,
    "vectors": lambda path: read_vectors(path, ["word"]),
    "prepare": lambda path: prepare([path], path.with_name("prepared"), ReadOptions()),
}


def refusal(reader: Callable[[Path], object], path: Path) -> str:
    if reader is READERS["prepare"]:
        pytest.importorskip("duckdb", reason="the extra large is not there")
    with pytest.raises(EnsueError) as caught:
        reader(path)
    return str(caught.value).removeprefix(str(path))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_bytes, "PIPE_WAIT", 0.1)


# --- not files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_what_is_no_file_is_named_and_nobody_waits(
    tmp_path: Path, reader: Callable[[Path], object], impatient: None
) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "link.csv").symlink_to("nowhere.csv")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.csv"))
        expected = {
            tmp_path / "pipe.csv": ": is a pipe without a writer; start its writer first, or give a file",
            tmp_path / "link.csv": ": is a link to nowhere.csv, which does not exist; check the name",
            tmp_path / "socket.csv": ": is a socket; give a file",
            Path("/dev/zero"): ": is a device or a terminal; give a file, or pipe the data in",
            Path("/dev/null"): ": is a device or a terminal; give a file, or pipe the data in",
        }
        assert {path: refusal(reader, path) for path in expected} == expected
    assert not [thread for thread in threading.enumerate() if thread.daemon and "wait" in thread.name]


def test_a_writer_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    late = threading.Timer(0.3, (tmp_path / "pipe.csv").write_text, ["a,b\n1,2\n"])
    late.start()
    with open_input(tmp_path / "pipe.csv") as file:
        assert file.read() == b"a,b\n1,2\n"


# --- bytes that are no text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [b"s1,\0\0\0,5\n", "s1,i1,5\n".encode("utf-16-le")], ids=["zeros", "utf-16"])
def test_zero_bytes_behind_the_head_are_found(tmp_path: Path, bad: bytes) -> None:
    path = write(tmp_path, HEADER.encode() + ROWS.encode() + bad)
    assert path.stat().st_size > files._HEAD
    message = ", line 20002: holds a zero byte, which text files never do; remove the damaged part"
    for name in ("log", "texts", "queries", "prepare"):
        assert refusal(READERS[name], path) == message, name


def test_parquet_whose_lists_have_no_name(tmp_path: Path) -> None:
    """The column without a name is not taken for the labels, which are missing."""
    frame = pl.DataFrame({"": [[0.5]], "text": ["a fine film"]})
    frame.write_parquet(tmp_path / "texts.parquet")
    texts, _ = read_texts(tmp_path / "texts.parquet", unlabelled=True)
    assert texts.labels is None and [*texts.texts[0]] == ["a fine film"]


def test_a_long_line_is_refused_before_it_takes_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEADER + "x" * (files.LONGEST_LINE + 2**21))
    monkeypatch.setattr(FileBytes, "whole", lambda self: pytest.fail("read whole"))
    assert refusal(read, path) == ", line 2: a line is longer than 8 MiB; put one event or session on each line"


def test_a_file_larger_than_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, HEADER + ROWS)
    monkeypatch.setattr(file_bytes, "memory_at_hand", lambda: 1000)
    assert refusal(read, path).startswith(": has 0.000")


# --- files that change while they are read ---------------------------------------------------------------------------


def changing(monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]) -> None:
    """Let somebody change each file after it has been opened and before its bytes are read."""
    original = FileBytes.__init__

    def opened(self: FileBytes, path: Path, file: object) -> None:
        original(self, path, file)  # type: ignore[arg-type]
        change(path)

    monkeypatch.setattr(FileBytes, "__init__", opened)


@pytest.mark.parametrize("name", ["log", "texts", "queries", "posts", "kind", "prepare"])
def test_a_file_that_is_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = write(tmp_path, HEADER + ROWS)
    changing(monkeypatch, lambda path: os.truncate(path, 5000))
    assert refusal(READERS[name], path) == f": {CUT}"


def test_parquet_and_workbooks_that_are_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"session": ["1"] * 5000, "item": [f"i{row}" for row in range(5000)], "time": range(5000)})
    frame.write_parquet(tmp_path / "log.parquet")
    frame.write_excel(tmp_path / "log.xlsx")
    changing(monkeypatch, lambda path: os.truncate(path, 5000))
    assert refusal(read, tmp_path / "log.parquet") == f": {CUT}"
    assert refusal(read, tmp_path / "log.xlsx") == f": {CUT}"


def test_a_file_that_grows_is_read_up_to_its_last_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(path: Path) -> None:
        with path.open("a") as file:
            file.write("773000000\ns9,i2,1773000001\n")

    path = write(tmp_path, HEADER + "s1,i1,1773000000\ns1,i2,1773000001\ns2,i1,1")
    changing(monkeypatch, grow)
    histories, _ = read(path)
    assert [record.id for record in histories.records()] == ["s1"]


def test_a_growing_log_is_prepared_up_to_its_last_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, HEADER + ROWS + "s99999,i1,17")
    pytest.importorskip("duckdb", reason="the extra large is not there")
    monkeypatch.setattr(batches, "BYTES", 2**16)
    monkeypatch.setattr(FileBytes, "has_grown", lambda self: True)
    _, counts = prepare([path], tmp_path / "prepared", ReadOptions())
    assert counts.events == 20_000


def test_a_file_that_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, HEADER + ROWS)
    changing(monkeypatch, lambda path: os.utime(path, (1, 1)))
    assert refusal(read, path) == ": was written to while it was read; wait until it is complete"


def test_a_file_that_is_replaced_is_read_as_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, HEADER + "s1,i1,1773000000\ns1,i2,1773000001\n")

    def rotate(path: Path) -> None:
        if path.exists():
            path.rename(path.with_suffix(".1"))

    changing(monkeypatch, rotate)
    assert len(read(path)[0]) == 1


def test_a_file_that_goes_between_two_looks(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + ROWS)
    kind_of(path)
    path.unlink()
    assert refusal(read, path) == ": no such file; check the name"


def test_nothing_of_a_log_is_mapped(tmp_path: Path) -> None:
    """A mapped file that another program cuts short ends the process that reads it by SIGBUS."""
    path = write(tmp_path, HEADER + ROWS)
    content = ReadOptions().open(path)
    pieces = ReadOptions().open(path, in_pieces=True)
    assert str(path) not in Path("/proc/self/maps").read_text()
    os.truncate(path, 5000)
    assert content.data[-10:] == ROWS.encode()[-10:]
    with pytest.raises(DataError, match="cut short"):
        pieces.data[-10:]


# --- a part of a file ------------------------------------------------------------------------------------------------


def test_bytes_of_a_file_are_those_of_bytes(tmp_path: Path) -> None:
    data = (HEADER + ROWS).encode()
    with open_input(write(tmp_path, data)) as file:
        read_later = FileBytes(tmp_path / "log", file)
    for part in (slice(None), slice(5), slice(-7, None), slice(3, 900_000), slice(9, 4)):
        assert read_later[part] == data[part]
    for wanted, start, stop in ((b"\n", 0, None), (b"s4999", 10, None), (b"s4999", 0, 1000), (b"\0", 0, None)):
        assert read_later.find(wanted, start, stop) == data.find(wanted, start, stop)
    assert read_later.stream().readlines() == data.splitlines(keepends=True)
    assert len(read_later) == len(data) and read_later.whole() == data


def test_rankings_that_are_no_file(tmp_path: Path, impatient: None) -> None:
    os.mkfifo(tmp_path / "run.trec")
    assert "is a pipe without a writer" in refusal(lambda path: read_rankings(path), tmp_path / "run.trec")


# --- temporary folders -----------------------------------------------------------------------------------------------

HOLD = """
import os, signal, sys
from ensue.data.file_bytes import temporary_folder
with temporary_folder() as folder:
    (folder / "log").touch()
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1:] else sys.stdin.read()
"""


def test_temporary_folders_of_killed_processes_go_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as busy:
        assert busy.stdout is not None
        held = Path(busy.stdout.readline().strip())
        killed = Path(subprocess.run([*command, "kill"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip())
        assert killed.exists() and killed.name.startswith(PREFIX)
        with temporary_folder() as own:
            assert sorted(tmp_path.iterdir()) == sorted([held, own])
            assert own.stat().st_mode & 0o777 == 0o700
        assert list(tmp_path.iterdir()) == [held]
    assert list(tmp_path.iterdir()) == []


def test_a_name_without_end_is_cut_in_a_message(tmp_path: Path) -> None:
    path = write(tmp_path, f"user,query,time{'x' * 10_000}\nu,a,1\n")
    assert len(refusal(read, path)) < 400
