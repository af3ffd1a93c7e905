"""The whole life of a stream: counts, figures and folder are right, however it is cut, stopped and started again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensue import DataError, History, ModelFolderError, SettingError
from ensue.data.histories import Histories
from ensue.predictor import make
from ensue.refresh import refresh
from ensue.store.pack import read_arrays
from ensue.stream import commit as saved
from ensue.stream import engine
from ensue.stream.brokers import open_source
from ensue.stream.engine import Stream
from ensue.stream.metrics import Board
from ensue.stream.sources import JSONLinesSource, SQLiteQueue
from ensue.stream.state import StreamSettings
from ensue.tasks.next.predictor import NextPredictor
from tests.folders import resum
from tests.stream.conftest import log, streamed, write

BAD = ["{", '{"session": "s1"}', '{"session": "s1", "item": "v1", "time": 1700000000123}', "\x00é"]


def mixed(num: int) -> list[str]:
    lines = log(num)
    for number, line in enumerate(BAD):
        lines.insert(40 * (number + 1), line)
    return lines


def told(folder: Path) -> dict[str, Any]:
    """What must not depend on batches, stops and starts."""
    found = json.loads((folder / "stream.json").read_text())
    rejects = folder.with_name("m.rejects.jsonl").read_text()
    hours = [[row["hour"], row["events"], row["targets"]] for row in found["hours"]]
    return {"counts": found["counts"], "hours": hours, "position": found["position"], "rejects": rejects}


@pytest.fixture(scope="module")
def expected(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run in one go comes to."""
    place = tmp_path_factory.mktemp("whole")
    NextPredictor.load(fitted).save(place / "m")
    _, last = streamed(place / "m", write(place / "log.jsonl", mixed(200)))
    assert last.over
    assert last.counts.lines == len(mixed(200))
    assert last.counts.rejected == len(BAD)
    assert last.counts.events + last.counts.repeated + len(BAD) == last.counts.lines
    assert min(last.counts.late, last.counts.repeated, last.counts.sessions) > 2
    return told(place / "m")


@pytest.mark.parametrize("batch", [1, 7, 512])
def test_the_batches_change_no_count(folder: Path, tmp_path: Path, batch: int, expected: dict[str, Any]) -> None:
    streamed(folder, write(tmp_path / "log.jsonl", mixed(200)), batch=batch)
    assert told(folder) == expected


def test_stops_and_starts_change_nothing_at_all(folder: Path, tmp_path: Path, expected: dict[str, Any]) -> None:
    address = write(tmp_path / "log.jsonl", mixed(200))
    for until in (1, 60, 61, 150):
        stream, _ = streamed(folder, address, batch=7, until=until)
        assert stream.counts.events >= until
        assert NextPredictor.load(folder).metadata.steps == stream.predictor.metadata.steps
    _, last = streamed(folder, address, batch=7)
    assert told(folder) == expected
    assert last.rate > 0


def test_the_same_log_gives_the_same_bytes(fitted: Path, tmp_path: Path) -> None:
    address = write(tmp_path / "log.jsonl", log(300))
    for name in ("a", "b"):
        NextPredictor.load(fitted).save(tmp_path / name / "m")
    streamed(tmp_path / "a" / "m", address, batch=64)
    streamed(tmp_path / "b" / "m", address, batch=64, commit_interval=0.0)  # commits as often as can be
    for path in (tmp_path / "a" / "m").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / "m" / path.name).read_bytes(), path.name


def test_lines_rejected_after_the_last_commit_are_written_once(folder: Path, tmp_path: Path) -> None:
    """As after a kill: the file of rejects is ahead of the folder."""
    address = write(tmp_path / "log.jsonl", mixed(100))
    streamed(folder, address, until=50)
    aside = tmp_path / "m.rejects.jsonl"
    before = aside.read_text()
    aside.write_text(before + '{"place": "half')
    streamed(folder, address)
    entries = [json.loads(line) for line in aside.read_text().splitlines()]
    assert [entry["line"] for entry in entries] == BAD
    assert entries[0]["reason"].startswith("not JSON (Expecting property name")
    assert entries[0]["place"].startswith("log.jsonl: byte ")


def test_each_batch_is_scored_before_it_is_learned(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    for owner, name in (
        (NextPredictor, "ranks"),
        (NextPredictor, "learn"),
        (NextPredictor, "add_values"),
        (Board, "add"),
    ):
        old = getattr(owner, name)

        def noted(self: Any, *args: Any, old: Any = old, name: str = name, **options: Any) -> Any:
            order.append(name)
            return old(self, *args, **options)

        monkeypatch.setattr(owner, name, noted)
    streamed(folder, write(tmp_path / "log.jsonl", log(100)), batch=50)
    assert order == ["ranks", "add", "add_values", "learn"] * 3  # 100 events, 20 s apart, in quarters of an hour


def test_what_comes_later_changes_no_figure(fitted: Path, tmp_path: Path) -> None:
    """Two logs, alike in their first 100 lines: after those the figures are the same, and so are the weights."""
    first, found = log(120)[:100], []
    for name, rest in (("a", log(50, seed=7, values=90)), ("b", log(50, seed=8))):
        NextPredictor.load(fitted).save(tmp_path / name / "m")
        (tmp_path / name).mkdir(exist_ok=True)
        stream, _ = streamed(
            tmp_path / name / "m", write(tmp_path / name / "log.jsonl", first + rest), batch=50, until=80
        )
        found.append((stream.board.hours, (tmp_path / name / "m" / "model.safetensors").read_bytes()))
    assert found[0] == found[1]


def test_the_model_learns_what_it_sees(folder: Path, tmp_path: Path) -> None:
    """A planted order of new values: a, b, c, … each followed by the next."""
    lines = [
        json.dumps({"session": f"s{at // 12}", "item": f"new {(at // 12 + at % 12) % 30}", "time": 10 * at})
        for at in range(6000)
    ]
    _, last = streamed(folder, write(tmp_path / "log.jsonl", lines), batch=64)
    assert last.counts.new_values == 30
    rows = last.board.rows()
    first, final = rows[0].figures(), rows[-1].figures()
    assert final["model"]["mrr@20"] > 3 * final["popular 1 h"]["mrr@20"]
    assert final["model"]["mrr@20"] > first["model"]["mrr@20"]
    assert "## Trained on a stream" in (folder / "CARD.md").read_text()
    assert (folder / "CARD.md").read_text().count("fitted on a made-up log") == 1
    assert NextPredictor.load(folder).vocabulary.id("new 7") > 20


def test_hours_are_told_once_when_they_are_over(folder: Path, tmp_path: Path) -> None:
    address = write(tmp_path / "log.jsonl", log(500))
    found = []
    for until in (250, None):
        stream = Stream(folder, open_source(address, print), StreamSettings(batch=32, commit_interval=0.0))
        for status in stream.run(follow=False, until=until):
            found += [row.hour for row in status.closed]
            assert all(row.hour < status.board.rows()[-1].hour for row in status.closed)
    assert found == sorted(stream.board.hours)[:-1]


def test_an_update_in_between_leaves_the_position(folder: Path, tmp_path: Path, expected: dict[str, Any]) -> None:
    address = write(tmp_path / "log.jsonl", mixed(200))
    streamed(folder, address, until=100)
    new = Histories.of(History(("v1", "newer still", "v3"), (at, at + 1.0, at + 2.0)) for at in range(40))
    assert refresh(folder, new, max_drop=0.99).accepted
    assert "newer still" in NextPredictor.load(folder).vocabulary
    streamed(folder, address)
    assert told(folder) == expected


def test_a_log_without_events_leaves_the_folder_as_it_is(folder: Path, tmp_path: Path) -> None:
    _, last = streamed(folder, write(tmp_path / "log.jsonl", []))
    assert (last.counts.lines, (folder / "stream.json").exists()) == (0, False)
    _, last = streamed(folder, write(tmp_path / "log.jsonl", ["", "{"]))
    assert (last.counts.lines, last.counts.rejected, last.board.rows()) == (2, 1, [])


def test_what_a_killed_process_left_half_written_is_removed(folder: Path, tmp_path: Path) -> None:
    for name in (".m.abcd.tmp", ".other.abcd.tmp"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1.0, 1.0))
    streamed(folder, write(tmp_path / "log.jsonl", log(20)))
    assert {path.name for path in tmp_path.glob(".*")} == {".other.abcd.tmp", ".m.resume.23"}


def test_another_source_is_refused_and_taken_anew(folder: Path, tmp_path: Path) -> None:
    streamed(folder, write(tmp_path / "log.jsonl", mixed(100)))
    SQLiteQueue(tmp_path / "q.db").put(mixed(50))
    other = f"sqlite:{tmp_path / 'q.db'}"
    with pytest.raises(SettingError, match=r"m follows log\.jsonl, not sqlite:q\.db; give that source, or start"):
        streamed(folder, other)
    steps = NextPredictor.load(folder).metadata.steps
    stream = Stream(folder, open_source(other, print), StreamSettings(), restart=True)
    *_, last = stream.run(follow=False)
    stream.source.close()
    assert last.counts.lines == len(mixed(50))
    assert NextPredictor.load(folder).metadata.steps > steps
    assert len((tmp_path / "m.rejects.jsonl").read_text().splitlines()) == 2 * len(BAD)  # those from before stay


def test_a_file_that_changes_is_told_after_a_commit(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path, log(50))
    stream = Stream(folder, JSONLinesSource(path), StreamSettings(batch=10, commit_interval=1e9))

    def cut() -> bool:
        if stream.counts.lines >= 30:
            path.write_text("short\n")
        return False

    with pytest.raises(DataError, match="is not the file that was read"):
        list(stream.run(follow=False, stopped=cut))
    assert json.loads((folder / "stream.json").read_text())["counts"]["lines"] == 30


def test_a_commit_that_fails_leaves_the_last_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, Any]
) -> None:
    address = write(tmp_path / "log.jsonl", mixed(200))
    streamed(folder, address, until=100)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(*_: Any, **__: Any) -> None:
        raise ModelFolderError("m: cannot be saved (No space left on device); the existing file is unchanged")

    with monkeypatch.context() as patch:
        patch.setattr(saved, "write_folder", full)
        with pytest.raises(ModelFolderError, match="No space left"):
            streamed(folder, address)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    streamed(folder, address)
    assert told(folder) == expected


def test_a_damaged_position_is_said(folder: Path, tmp_path: Path) -> None:
    address = write(tmp_path / "log.jsonl", log(50))
    streamed(folder, address)
    good = (folder / "stream.json").read_text()

    def rewrite(text: str) -> None:
        (folder / "stream.json").write_text(text)
        resum(folder)

    rewrite(good[:-20])
    with pytest.raises(ModelFolderError, match="damaged"):
        streamed(folder, address)
    rewrite(good.replace('"counts"', '"count"'))
    with pytest.raises(ModelFolderError, match="damaged"):
        streamed(folder, address)


@pytest.mark.parametrize("options", [{"gap": 0.0}, {"commit_interval": -1.0}, {"batch": 0}, {"replay": 1.0}])
def test_settings_without_meaning(options: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        StreamSettings(**options)


def test_replay_is_a_share_of_what_is_learned(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []
    old = NextPredictor.learn

    def noted(self: NextPredictor, histories: Histories, known: Any = None) -> float:
        sizes.append((int((known > 0).sum() + 0), len(histories)))
        return old(self, histories, known)

    monkeypatch.setattr(NextPredictor, "learn", noted)
    address = write(tmp_path / "log.jsonl", log(60))
    streamed(folder, address, replay=0.75, until=30)
    with_replay = sizes.copy()
    sizes.clear()
    streamed(folder, address, replay=0.0, batch=5)
    assert with_replay[0][1] % 4 == 0  # three remembered sessions beside each fresh one
    assert max(size for _, size in sizes) <= 16


def test_a_counting_model_streams_too(tmp_path: Path) -> None:
    predictor = make("next", "markov")
    for _ in predictor.fit(Histories.of([History(("v1", "v2")), History(("v2", "v3"))])):
        pass
    predictor.save(tmp_path / "m")
    lines = [
        json.dumps({"session": f"s{at}", "item": f"v{n}", "time": 10 * at + n}) for at in range(800) for n in (1, 9)
    ]
    former_count, engine.COUNT_EVERY = engine.COUNT_EVERY, 100
    try:
        stream, last = streamed(tmp_path / "m", write(tmp_path / "log.jsonl", lines), batch=50, gap=1.0)
    finally:
        engine.COUNT_EVERY = former_count
    (answer,) = NextPredictor.load(tmp_path / "m").predict([History(("v1",))], k=1)
    assert answer.choices[0].value == "v9"
    assert last.board.rows()[-1].figures()["model"]["hr@20"] == 1.0
    assert np.isfinite(stream.sessions.clock)


@pytest.mark.parametrize("replay", [0, 50])
def test_without_replay_a_commit_holds_no_session_that_is_over(folder: Path, tmp_path: Path, replay: int) -> None:
    """Sessions are cut at ten idle minutes here, so that many end; those still open are needed to go on."""
    made = NextPredictor("sansr", settings={"dim": 8, "epochs": 1, "negatives": 16, "replay": replay}, device="cpu")
    sessions = [History(("v1", "v2", "v3"), (0.0, 1.0, 2.0)) for _ in range(30)]
    for _ in made.fit(Histories.of(sessions)):
        pass
    made.save(folder)
    stream, last = streamed(folder, write(tmp_path / "log.jsonl", log(300)), gap=2)
    assert last.counts.sessions > 8
    kept = read_arrays(folder, "stream.safetensors")["ended.ids"]
    assert (len(kept) > 0) is (replay > 0) and (len(stream.predictor.training_hashes) > 0) is (replay > 0)
    assert (len(NextPredictor.load(folder).reservoir) > 0) is (replay > 0)
    counted = NextPredictor.load(folder, device="cpu").metadata.sequences
    assert (counted > len(sessions)) is (replay == 0), "what is over was counted at once, or waits for more"
