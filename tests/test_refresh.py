"""An update is tested before it takes over: what it is tested on, what is refused, what stands afterwards."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import numpy as np
import pytest

from ensue import DataError, History, ModelFolderError, SettingError, metrics
from ensue.data.histories import Histories
from ensue.evaluation.next_event import SessionTargets
from ensue.refresh import refresh, roll_back
from ensue.store import versions
from ensue.store.swap import only_writer
from ensue.tasks.next.catalogue import COUNTING
from ensue.tasks.next.predictor import NextPredictor
from tests.folders import resum

SETTINGS = {"dim": 16, "epochs": 12, "batch_size": 8, "learning_rate": 0.02, "loss": "ce", "dropout": 0.0}
DAY = 86400.0


def circles(num: int, seed: int, *, step: int = 1, day: int = 0) -> list[History]:
    """Dated walks around a circle of ten values."""
    starts = np.random.default_rng(seed).integers(0, 10, num)
    return [
        History(
            tuple(f"a{(start + step * t) % 10}" for t in range(5)), tuple(1e9 + DAY * day + n + t for t in range(5))
        )
        for n, start in enumerate(starts.tolist())
    ]


@pytest.fixture(scope="module")
def trained() -> NextPredictor:
    made = NextPredictor("sansr", settings=SETTINGS, seed=5, device="cpu")
    for _ in made.fit(Histories.of(circles(100, 0)), Histories.of(circles(4, 1))):
        pass
    return made


@pytest.fixture
def folder(trained: NextPredictor, tmp_path: Path) -> Path:
    trained.save(tmp_path / "m", "the old card")
    return tmp_path / "m"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def figures(predictor: NextPredictor, data: Histories) -> dict[str, float]:
    rank = SessionTargets([[predictor]], data).score(predictor).rank
    return {"mrr": float(metrics.reciprocal_rank(rank).mean()), "hit@20": float(metrics.hit(rank, 20).mean())}


def test_an_update_that_does_no_harm_takes_over_and_the_old_version_is_kept(folder: Path) -> None:
    before = contents(folder)
    found = refresh(folder, Histories.of([*circles(30, 2, day=1), History(("a1", "new"), (2e9, 2e9))]), max_drop=0.5)
    assert found.accepted and found.version == versions.current(folder) == 2
    assert contents(folder.with_name("m.versions") / "1") == before
    updated = NextPredictor.load(folder, device="cpu")
    assert "new" in updated.vocabulary and updated.metadata.sequences == 131, "the newest part was learned too"
    assert "## The latest update" in (folder / "CARD.md").read_text()
    assert "131 past sessions (the latest 50 events of each" in (folder / "CARD.md").read_text()
    assert sorted(path.name for path in folder.parent.iterdir()) == ["m", "m.versions"]


def test_the_slices_are_the_newest_tenth_and_a_part_of_what_is_remembered(folder: Path) -> None:
    data = circles(30, 2, day=1)
    data = [data[place] for place in np.random.default_rng(0).permutation(30)]  # the file is not in order of time
    newest = Histories.of(sorted(data, key=lambda record: record.times[0])[-3:])
    old = NextPredictor.load(folder, device="cpu")
    found = refresh(folder, Histories.of(data), max_drop=0.9)
    first, second = found.slices
    assert (first.name, first.targets, found.held) == ("newest", 12, "the last 3 of 30 by start time")
    assert first.old == pytest.approx(figures(old, newest))
    assert (second.name, second.targets) == ("remembered", 40)  # a tenth of 100 histories of five events
    assert second.old == pytest.approx(figures(old, old.reservoir.part(10, 1)[0]))
    assert first.change == pytest.approx(first.new["mrr"] / first.old["mrr"] - 1)
    assert first.best_baseline in COUNTING and first.counting["mrr"] > 0


def test_items_the_old_model_never_saw_are_its_misses(folder: Path) -> None:
    """Each history is (x, y): the old model knows neither, the candidate has met both."""
    found = refresh(folder, Histories.of([History(("x", "y"), (1e9 + n, 1e9 + n)) for n in range(200)]), max_drop=0.9)
    assert found.slices[0].old == {"mrr": 0.0, "hit@20": 0.0}
    assert found.slices[0].new["mrr"] > 0.3 and found.slices[0].change == 0.0, "no share of nothing"


def test_an_update_that_forgets_is_refused_and_the_folder_stays_byte_for_byte(folder: Path) -> None:
    before, inode = contents(folder), folder.stat().st_ino
    found = refresh(folder, Histories.of(circles(400, 2, step=3, day=1)), max_drop=0.01)
    assert not found.accepted and found.version == 1
    assert found.slices[1].change < -0.01
    assert found.verdict == (
        f"refused: MRR on the remembered slice changed by {100 * found.slices[1].change:+.1f} %, more than --max-drop "
        "0.01 allows; version 1 stays active"
    )
    assert contents(folder) == before and folder.stat().st_ino == inode
    assert versions.kept(folder) == []


def test_what_a_stream_keeps_in_the_folder_goes_with_it(folder: Path) -> None:
    (folder / "stream.json").write_text('{"position": 7}')
    resum(folder)
    refresh(folder, Histories.of(circles(30, 2, day=1)), max_drop=0.99)
    assert (folder / "stream.json").read_text() == '{"position": 7}'
    parts = (f"{part}.safetensors" for part in ("model", "baselines", "optimizer"))
    assert set(contents(folder)) == {"stream.json", "settings.json", "fitted.json", "CARD.md", "B2SUMS", *parts}


def test_rolling_back_gives_equal_answers(folder: Path) -> None:
    questions = circles(10, 4)
    before = NextPredictor.load(folder, device="cpu").predict(questions)
    refresh(folder, Histories.of(circles(60, 2, step=3, day=1)), max_drop=0.99)
    after = NextPredictor.load(folder, device="cpu").predict(questions)
    assert after != before
    assert roll_back(folder) == (1, 2) and NextPredictor.load(folder, device="cpu").predict(questions) == before
    assert roll_back(folder, 2) == (2, 1) and NextPredictor.load(folder, device="cpu").predict(questions) == after


def test_no_more_versions_are_kept_than_told(folder: Path) -> None:
    for day in range(1, 5):
        refresh(folder, Histories.of(circles(10, day, day=day)), max_drop=0.99, keep=2)
    assert versions.current(folder) == 5 and versions.kept(folder) == [3, 4]


def test_the_same_update_gives_the_same_bytes(trained: NextPredictor, tmp_path: Path) -> None:
    for name in ("one", "two"):
        trained.save(tmp_path / name / "m")
        refresh(tmp_path / name / "m", Histories.of(circles(30, 2, day=1)), max_drop=0.9)
    assert contents(tmp_path / "one" / "m") == contents(tmp_path / "two" / "m")


@pytest.mark.parametrize("replay", [0, 9])
def test_without_remembered_histories_only_the_newest_part_is_tested(replay: int, tmp_path: Path) -> None:
    made = NextPredictor("sansr", settings={**SETTINGS, "epochs": 1, "replay": replay}, device="cpu")
    for _ in made.fit(Histories.of(circles(20, 0)), Histories.of(circles(4, 1))):
        pass
    made.save(tmp_path / "m")
    found = refresh(tmp_path / "m", Histories.of(circles(30, 2, day=1)), max_drop=0.99, keep=0)
    assert [part.name for part in found.slices] == ["newest"]
    assert found.warning.startswith(
        "only the newest part of the new data was tested: the model stores no earlier examples"
    )
    assert versions.kept(tmp_path / "m") == [1], "the way back stays open, whatever --keep-versions says"
    assert (len(NextPredictor.load(tmp_path / "m").reservoir) > 0) is (replay > 0)


def test_a_counting_model_is_updated_too(tmp_path: Path) -> None:
    made = NextPredictor("markov", device="cpu")
    for _ in made.fit(Histories.of(circles(20, 0))):
        pass
    made.save(tmp_path / "m")
    found = refresh(tmp_path / "m", Histories.of(circles(30, 2, day=1)))
    assert found.accepted and [part.name for part in found.slices] == ["newest"]
    assert found.slices[0].counting["mrr"] >= found.slices[0].new["mrr"] > 0, "it is one of them"
    assert NextPredictor.load(tmp_path / "m").metadata.sequences == 50


@pytest.mark.parametrize("hours", [-48, 0, 48])
def test_what_killed_processes_left_is_swept_whatever_the_clock_says(folder: Path, hours: int) -> None:
    """And what another process still writes stays: it holds a lock on it, as the kernel knows."""
    for name in (".m.left00000.tmp", ".m.busy00000.tmp", ".other.left.tmp"):
        (folder.parent / name).mkdir()
        (folder.parent / name / "weights").write_text("half")
        os.utime(folder.parent / name, (time.time() + 3600 * hours,) * 2)
    busy = os.open(folder.parent / ".m.busy00000.tmp", os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    refresh(folder, Histories.of(circles(30, 2)), max_drop=0.99)
    os.close(busy)
    assert sorted(path.name for path in folder.parent.glob(".*.tmp")) == [".m.busy00000.tmp", ".other.left.tmp"]


def test_two_updates_at_a_time_are_one_too_many(folder: Path) -> None:
    before = contents(folder)
    with only_writer(folder), pytest.raises(ModelFolderError, match="another process updates it"):
        refresh(folder, Histories.of(circles(30, 2)))
    with only_writer(folder), pytest.raises(ModelFolderError, match="another process updates it"):
        roll_back(folder)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([History(("a1",))] * 3, {}, "new data: every session has one event, so there is nothing to predict"),
        ([], {}, "new data: every session has one event, so there is nothing to predict"),
        (
            [*[History(("a1", "a2"))] * 10, History(("a1",))],
            {},
            "the newest tenth of the new data: every session has one event",
        ),
        (circles(9, 0), {"max_drop": 1.0}, "--max-drop 1: give a fraction in [0, 1)"),
        (circles(9, 0), {"max_drop": float("nan")}, "--max-drop nan: give a fraction in [0, 1)"),
        (circles(9, 0), {"keep": -1}, "--keep-versions -1: give 0 or more"),
    ],
)
def test_refusals_leave_the_folder_as_it_is(
    folder: Path, records: list[History], options: dict[str, float], message: str
) -> None:
    before = contents(folder)
    with pytest.raises((DataError, SettingError)) as caught:
        refresh(folder, Histories.of(records), **options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message) and contents(folder) == before
