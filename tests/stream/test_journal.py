"""Commits that hold what changed: the same bytes as whole folders, whatever was cut off in the midst of one."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ensue import History, ModelFolderError
from ensue.data.histories import Histories
from ensue.learning.state import module_of
from ensue.predictor import make
from ensue.stream import engine
from ensue.stream.brokers import open_source
from ensue.stream.changes import Changes, large_by_rows
from ensue.stream.commit import Entry, Journal
from ensue.stream.engine import Stream
from ensue.stream.state import StreamSettings
from ensue.tasks.next.predictor import NextPredictor
from tests.stream.conftest import log, streamed, write

NEVER = 2**60
SMALL: dict[str, Any] = {"batch": 16, "commit_interval": 0.0, "step": 8}


@pytest.fixture(scope="module", params=["sansr", "core"])
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models that learn by rows; one counts what came lately, and places new values by it."""
    sessions = [
        History(tuple(f"v{(3 * at + step) % 20}" for step in range(5)), (0.0, 20.0, 40.0, 60.0, 80.0))
        for at in range(60)
    ]
    settings = {"dim": 8, "heads": 2, "epochs": 1, "negatives": 4}
    predictor = make("next", request.param, settings=settings, device="cpu")
    for _ in predictor.fit(Histories.of(sessions)):
        pass
    folder = tmp_path_factory.mktemp("models") / "m"
    predictor.save(folder, "fitted on a made-up log")
    return folder


@pytest.fixture(autouse=True)
def never_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal of a model this small would soon be as large as it."""
    monkeypatch.setattr(engine, "GROWN", 1e9)


def begun(folder: Path, address: str, journal: int, commits: int) -> Stream:
    """A stream that is left after so many commits, as if it had been killed then."""
    stream = Stream(folder, open_source(address, print), StreamSettings(**SMALL, journal=journal))
    running = stream.run(follow=False)
    for _ in range(commits):
        next(running)
    stream.source.close()
    return stream


def held(folder: Path) -> dict[str, Any]:
    """All that a folder holds but checksums and the card."""
    tensors = {
        f"{path.name}.{name}": tensor
        for path in folder.glob("*.safetensors")
        for name, tensor in load_file(path).items()
    }
    texts = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
    return {**tensors, **texts}


def require_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        same = torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name]
        assert same, name


@pytest.mark.parametrize("counted", [40, NEVER])
def test_a_stream_that_is_killed_goes_on_from_its_journal_to_the_same_bytes(
    fitted: Path, tmp_path: Path, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "COUNT_EVERY", counted)
    address = write(tmp_path / "log.jsonl", log(300, values=40))
    found = {}
    for name, journal in (("folders", NEVER), ("journal", 0)):
        folder = tmp_path / name
        NextPredictor.load(fitted).save(folder)
        begun(folder, address, journal, commits=7)
        path = folder.with_name(f".{name}.journal")
        assert path.exists() is (journal == 0)
        again = begun(folder, address, journal, commits=3)  # killed once more
        assert again.counts.events > 100
        _, last = streamed(folder, address, journal=journal, **SMALL)
        assert not path.exists()  # at its end the folder is whole
        found[name] = {**held(folder), "counts": last.counts}
    require_equal(found["folders"], found["journal"])


def test_what_was_cut_off_is_no_commit(fitted: Path, tmp_path: Path) -> None:
    address = write(tmp_path / "log.jsonl", log(200))
    folder, path = tmp_path / "m", tmp_path / ".m.journal"
    NextPredictor.load(fitted).save(folder)
    begun(folder, address, 0, commits=4)
    whole = path.read_bytes()
    entries = Journal(folder).read()
    assert len(entries) == 3  # the first commit of a stream is the folder
    for cut in (len(whole) - 1, len(whole) - 40, len(whole) - 2000):
        path.write_bytes(whole[:cut])
        assert len(Journal(folder).read()) == 2
        assert path.stat().st_size < cut  # and is cut away, so that the next one follows what is whole
    path.write_bytes(whole[:-5] + b"\0" + whole[-4:])
    assert len(Journal(folder).read()) == 2
    path.write_bytes(whole[:20])
    assert Journal(folder).read() == [] and not path.exists()


def test_a_journal_of_another_folder_is_none(fitted: Path, tmp_path: Path) -> None:
    address = write(tmp_path / "log.jsonl", log(200))
    folder, path = tmp_path / "m", tmp_path / ".m.journal"
    NextPredictor.load(fitted).save(folder)
    begun(folder, address, 0, commits=4)
    before = json.loads((folder / "stream.json").read_text())["counts"]["events"]
    sums = (folder / "B2SUMS").read_text().splitlines()
    (folder / "B2SUMS").write_text("\n".join(sorted(sums, reverse=True)) + "\n")  # as if it had been written anew
    stream = Stream(folder, open_source(address, print), StreamSettings(**SMALL, journal=0))
    assert stream.counts.events == before and not path.exists()
    stream.source.close()


def test_a_journal_as_long_as_the_model_becomes_a_folder(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = write(tmp_path / "log.jsonl", log(300))
    folder, path = tmp_path / "m", tmp_path / ".m.journal"
    NextPredictor.load(fitted).save(folder)
    stream = Stream(folder, open_source(address, print), StreamSettings(**SMALL, journal=0))
    monkeypatch.undo()
    sizes, bound = [], 3 * sum(parameter.nbytes for parameter in module_of(stream.predictor.network).parameters())
    for _ in stream.run(follow=False):
        sizes.append(path.stat().st_size if path.exists() else 0)
    stream.source.close()
    assert 0 in sizes[1:-1] and max(sizes) > bound and sizes[-1] == 0
    largest_entry = max(later - earlier for earlier, later in pairwise(sizes))
    assert max(sizes) <= bound + largest_entry


def test_commits_do_not_wait_once_much_has_changed(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = write(tmp_path / "log.jsonl", log(200))
    found = []
    for number, heavy in enumerate((1, NEVER)):
        monkeypatch.setattr(engine, "HEAVY", heavy)
        folder = tmp_path / f"m{number}"
        NextPredictor.load(fitted).save(folder)
        settings = StreamSettings(batch=16, commit_interval=3600.0, journal=0)
        stream = Stream(folder, open_source(address, print), settings)
        found.append(len(list(stream.run(follow=False))))
        stream.source.close()
    assert found[0] > 5 and found[1] == 1


def test_a_full_disk_keeps_the_commit_before(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(saved(fitted, tmp_path))
    journal.append(Entry({"position": 1}, {"a": np.ones(3)}))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ensue.stream.commit.os.fsync", full)
    with pytest.raises(ModelFolderError, match=r"No space left on device.*the last commit is kept"):
        journal.append(Entry({"position": 2}, {"a": np.zeros(3)}))
    monkeypatch.undo()
    journal.append(Entry({"position": 3}, {"a": np.zeros(3)}))
    assert [entry.tree["position"] for entry in Journal(journal.folder).read()] == [1, 3]


def saved(fitted: Path, tmp_path: Path) -> Path:
    NextPredictor.load(fitted).save(tmp_path / "m")
    return tmp_path / "m"


def test_changes_are_the_rows_that_moved_and_the_new_ones(fitted: Path) -> None:
    predictor = NextPredictor.load(fitted)
    changes = Changes(predictor)
    old = module_of(predictor.network).state_dict()["items.weight"].clone()
    predictor.add_values(["new 1", "new 2"])
    predictor.learn(Histories.of([History(("v1", "v2"), (0.0, 1.0))], predictor.vocabulary))
    assert changes.bytes > 0
    values, tensors = changes.take()
    assert values == ["new 1", "new 2"] and changes.bytes == 0
    rows = tensors["ids.items.weight"].tolist()
    now = module_of(predictor.network).state_dict()["items.weight"]
    moved = [row for row in range(len(old)) if not torch.equal(now[row], old[row])]
    assert set(moved) | {len(old), len(old) + 1} <= set(rows) and len(rows) < len(now)
    assert torch.equal(tensors["rows.items.weight"], now[rows])


def test_models_that_are_not_learned_by_rows_or_small_write_folders() -> None:
    table = torch.nn.Embedding(100, 8, sparse=True)
    assert large_by_rows(table, 3 * 3200) and not large_by_rows(table, 3 * 3200 + 1)
    assert not large_by_rows(torch.nn.Embedding(100, 8), 0)
    wide = torch.nn.ModuleList([table, torch.nn.Linear(3000, 1000)])
    assert not large_by_rows(wide, 0)
