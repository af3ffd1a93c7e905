"""The SQLite queue: what writers put is read once, in order."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from ensue import DataError
from ensue.stream import SQLiteQueue
from ensue.stream.sources import Position, SQLiteSource


def started(path: Path, position: Position | None = None) -> SQLiteSource:
    source = SQLiteSource(path)
    source.begin(position)
    return source


def test_lines_in_order_from_every_position(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    assert SQLiteQueue(path).put(["a", b"\xff", "é"]) == 3
    assert SQLiteQueue(path).put(["", "e"]) == 5
    expected = [b"a", b"\xff", "é".encode(), b"", b"e"]
    for stop in range(1, 6):
        source = started(path)
        block = source.read(stop, 0.0)
        assert (block.lines, block.position["position"]) == (expected[:stop], stop)
        assert source.behind() == (5 - stop, "lines")
        source.close()
        again = started(path, block.position)
        assert again.read(512, 0.0).lines == expected[stop:]
        again.close()


def test_writers_beside_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    queue = SQLiteQueue(path)
    source = started(path)

    def write(name: int) -> None:
        for number in range(20):
            queue.put([f"{name} {number}"])

    threads = [Thread(target=write, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    found: list[bytes] = []
    while len(found) < 40:
        found += source.read(7, 0.2).lines
    for thread in threads:
        thread.join()
    for name in range(2):
        assert [line for line in found if line.startswith(b"%d " % name)] == [b"%d %d" % (name, n) for n in range(20)]
    source.close()


def test_read_lines_may_be_deleted_and_their_positions_never_come_again(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    queue = SQLiteQueue(path)
    queue.put(["a", "b"])
    source = started(path)
    position = source.read(512, 0.0).position
    source.close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM events")
    assert queue.put(["c"]) == 3
    again = started(path, position)
    assert again.read(512, 0.0).lines == [b"c"]
    again.close()


@pytest.mark.parametrize("lines", [["a"], ["x", "y", "z"]])
def test_another_queue_under_the_same_name(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "q.db"
    SQLiteQueue(path).put(["a", "b"])
    source = started(path)
    position = source.read(512, 0.0).position
    source.close()
    for rest in tmp_path.glob("q.db*"):
        rest.unlink()
    SQLiteQueue(path).put(lines)
    with pytest.raises(DataError, match="is not the queue that was read up to position 2; restore it, or start"):
        started(path, position)


def test_what_is_no_queue(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such queue; a writer makes it with ensue\.stream\.SQLiteQueue"):
        started(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("nothing of the kind, and long enough to be looked at " * 20)
    with pytest.raises(DataError, match="not a queue"):
        started(tmp_path / "text.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as database, database:
        database.execute("CREATE TABLE clicks (line)")
    with pytest.raises(DataError, match="no such table: events"):
        started(tmp_path / "other.db")
