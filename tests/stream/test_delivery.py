"""Hourly metrics are the same for the model and every baseline, however the same events are delivered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensue.stream import SQLiteQueue, engine
from ensue.stream import metrics as stream_metrics
from ensue.stream.brokers import open_source
from ensue.stream.engine import Stream
from ensue.stream.metrics import Hour
from ensue.stream.sources import SQLiteSource
from ensue.stream.state import StreamSettings
from tests.stream.conftest import NUM_VALUES, log, streamed, write

NUM = 250
Deliver = Callable[[Path, Path, list[str]], None]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that end by their number of events and by the clock, in a log of few events."""
    monkeypatch.setattr(engine, "CHUNK", 32)


def metrics(folder: Path) -> list[Any]:
    """What the folder holds of every hour, to the last bit, and the counts that repeats do not change."""
    state = json.loads((folder / "stream.json").read_text())
    counts = {name: state["counts"][name] for name in ("events", "late", "sessions", "targets", "new_values")}
    return [state["hours"], counts]


def unique(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(lines))


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Events of five sessions, of which some are late and some values are new to the model."""
    return unique(log(NUM, seed=3, values=26))


@pytest.fixture(scope="module")
def expected(fitted: Path, lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    place = tmp_path_factory.mktemp("whole")
    shutil.copytree(fitted, place / "m")
    chunk, engine.CHUNK = engine.CHUNK, 32
    try:
        streamed(place / "m", write(place / "log.jsonl", lines))
    finally:
        engine.CHUNK = chunk
    found = metrics(place / "m")
    assert found[1]["late"] > 5 and found[1]["new_values"] == 6
    assert set(found[0][0]["sums"]) == {"model", "popular 15 min", "popular 1 h", "popular 6 h", "followers"}
    return found


def in_blocks(size: int) -> Deliver:
    def deliver(folder: Path, place: Path, lines: list[str]) -> None:
        streamed(folder, write(place / "log.jsonl", lines), batch=size)

    return deliver


def one_by_one(folder: Path, place: Path, lines: list[str]) -> None:
    """Each is read, and committed, before the next is written."""
    queue = SQLiteQueue(place / "queue.db")
    stream = Stream(folder, SQLiteSource(place / "queue.db"), StreamSettings(commit_interval=0.1, wait=0.0))
    left = iter(lines)

    def put_next() -> bool:
        line = next(left, None)
        if line is not None:
            queue.put([line])
        return line is None

    for _ in stream.run(stopped=put_next):
        pass
    stream.source.close()


def each_twice(folder: Path, place: Path, lines: list[str]) -> None:
    streamed(folder, write(place / "log.jsonl", [line for line in lines for _ in "12"]), batch=7)


def blocks_twice(folder: Path, place: Path, lines: list[str]) -> None:
    """As a source that saw no acknowledgement: the last 40 lines again, after every 20."""
    repeated = [line for stop in range(20, len(lines) + 20, 20) for line in lines[max(0, stop - 40) : stop]]
    streamed(folder, write(place / "log.jsonl", repeated))


def the_log_twice(folder: Path, place: Path, lines: list[str]) -> None:
    streamed(folder, write(place / "log.jsonl", lines + lines))


def in_runs(stops: list[int], repeat: int = 0) -> Deliver:
    """Stopped after so many events, the last lines of each run delivered again in the next."""

    def deliver(folder: Path, place: Path, lines: list[str]) -> None:
        path, begin = place / "log.jsonl", 0
        path.touch()
        for stop in [*stops, len(lines)]:
            with path.open("a") as file:
                file.writelines(f"{line}\n" for line in lines[max(0, begin - repeat) : stop])
            streamed(folder, str(path))
            begin = stop

    return deliver


def until_stopped(folder: Path, place: Path, lines: list[str]) -> None:
    address = write(place / "log.jsonl", lines)
    for until in (1, 2, 33, 100, 101, 190, None):
        streamed(folder, address, batch=7, until=until)


def killed(folder: Path, place: Path, lines: list[str]) -> None:
    """Left after some commits, as after a kill; commits fall in the midst of chunks."""
    address = write(place / "log.jsonl", lines)
    for journal in (2**60, 0, 0):
        settings = StreamSettings(batch=5, commit_interval=0.0, journal=journal)
        stream = Stream(folder, open_source(address, print), settings)
        running: Iterator[Any] = stream.run(follow=False)
        for _ in range(11):
            next(running)
        stream.source.close()
    streamed(folder, address)


@pytest.mark.parametrize(
    "deliver",
    [
        in_blocks(1),
        in_blocks(7),
        one_by_one,
        each_twice,
        blocks_twice,
        the_log_twice,
        in_runs([1, 40, 97]),
        in_runs([31, 32, 33], repeat=25),
        until_stopped,
        killed,
    ],
    ids=["1", "7", "one by one", "each twice", "blocks twice", "log twice", "runs", "runs again", "until", "killed"],
)
def test_the_delivery_changes_no_metric(
    folder: Path, tmp_path: Path, lines: list[str], expected: list[Any], deliver: Deliver
) -> None:
    deliver(folder, tmp_path, lines)
    assert metrics(folder) == expected


def test_recent_popularity_is_that_of_counting_event_by_event(folder: Path, tmp_path: Path) -> None:
    """Eight events in one block, worked out by hand: of seven targets three are values that came before."""
    values = ["new a", "new b", "new a", "new c", "new b", "new d", "new a", "new e"]
    lines = [json.dumps({"session": "s", "item": value, "time": 60 * at}) for at, value in enumerate(values)]
    _, last = streamed(folder, write(tmp_path / "log.jsonl", lines))
    (hour,) = last.board.rows()
    assert isinstance(hour, Hour) and hour.targets == 7
    assert hour.figures()["popular 1 h"]["hr@20"] == pytest.approx(3 / 7)


def test_followers_are_those_of_a_plain_loop(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late events are no targets and nobody's follower; the window of 15 minutes holds the whole log."""
    monkeypatch.setattr(stream_metrics, "NUM_FOLLOWERS", 8)
    draw = np.random.default_rng(9)
    known = [f"v{value}" for value in range(NUM_VALUES)]
    latest: dict[str, tuple[int, str]] = {}
    followers: dict[str, list[str]] = {}
    before: list[str] = []
    ranks: list[float] = []
    lines: list[str] = []
    for number in range(300):
        session, item = f"s{draw.integers(9)}", f"v{draw.integers(NUM_VALUES + 5)}"
        time = 1_700_000_000 + 2 * number - (45 if draw.random() < 0.1 else 0)
        lines.append(json.dumps({"session": session, "item": item, "time": time, "id": number}))
        last_time, last = latest.get(session, (0, ""))
        if last and time >= last_time:
            counted = followers.setdefault(last, [])
            order = {value: (counted[-8:].count(value), before.count(value)) for value in known}
            ranks.append(sum(order[value] >= order[item] for value in known) if item in known else np.inf)
            counted.append(item)
        if time >= last_time:
            latest[session] = time, item
        before.append(item)
        known += [] if item in known else [item]
    stream, last_status = streamed(folder, write(tmp_path / "log.jsonl", lines), batch=50)
    assert stream.predictor.metadata.repeats
    counts = last_status.counts
    assert (counts.targets, counts.new_values) == (len(ranks), 5) and counts.late > 5
    hits = [rank for rank in ranks if rank <= 20]
    expected = {"hr@20": len(hits) / len(ranks), "mrr@20": sum(1 / rank for rank in hits) / len(ranks)}
    assert last_status.board.total().figures()["followers"] == pytest.approx(expected)
