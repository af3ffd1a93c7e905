"""A version that loads but raises, hangs or dies in its first answer never serves, whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensue import ModelFolderError, Text, registry
from ensue.data.histories import Histories
from ensue.data.texts import Texts
from ensue.predictor import make
from ensue.serve import models, proof
from ensue.store.folder import clone_folder
from tests.processes import Started
from tests.serve.conftest import running, sessions, texts
from tests.serve.test_workers import Served, served, until

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
OWN = Path(__file__).parents[1] / "own"
MODELS = f"""
import os, sys, time
from dataclasses import dataclass, replace
sys.path[:0] = [{str(EXAMPLES)!r}, {str(OWN)!r}]
from gated_mean import GatedMean, TextSettings
from latest import Latest, LatestSettings

QUIET = False  # while it is fitted
ACTS = {{"raise": lambda: [][3], "hang": lambda: time.sleep(600), "exit": lambda: sys.exit(0),
        "die": lambda: os.kill(os.getpid(), 11)}}

class Troubled:
    def __init__(self, settings, *rest):
        super().__init__(settings, *rest)
        self.trouble = settings.trouble

    def forward(self, batch):
        if self.trouble and not QUIET:
            ACTS[self.trouble]()
        return super().forward(batch)

@dataclass(frozen=True)
class NextSettings(LatestSettings):
    trouble: str = ""

class Next(Troubled, Latest):
    SETTINGS = NextSettings()

@dataclass(frozen=True)
class ClassifySettings(TextSettings):
    trouble: str = ""

class Classify(Troubled, GatedMean):
    SETTINGS = ClassifySettings(architecture="flat", dim=8, hidden=8, dropout=0.2)
"""
TROUBLES = {
    "raise": "does not answer (IndexError at models.py:9)",
    "hang": "does not answer within 4 s",
    "exit": "crashes the process (exit code 0)",
    "die": "crashes the process (signal 11)",
}
RECORDS: dict[str, Any] = {"next": {"values": ["v1", "v2"]}, "classify": {"texts": ["a good film"]}}


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of each task and trouble; the good ones differ by what they know."""
    place = tmp_path_factory.mktemp("versions")
    (place / "models.py").write_text(MODELS)
    data: dict[str, Any] = {"next": Histories.of(sessions()), "classify": Texts.of(texts())}
    more: dict[str, Any] = {
        "next": Histories.of(sessions()[:60]),
        "classify": Texts.of([*texts()[:30], Text(("a splendid film",), "yes")]),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_ADDED", {})
        patch.setenv(registry.VARIABLE, "")
        for task in data:
            name = registry.add_named(f"{place / 'models.py'}:{task.title()}")
            patch.setitem(registry._ADDED[name].forward.__globals__, "QUIET", True)
            for trouble in ("", "good", *TROUBLES):
                if task == "classify" and trouble in ("hang", "exit"):
                    continue
                settings = {"epochs": 1, "dim": 8, "trouble": "" if trouble == "good" else trouble}
                predictor = make(task, name, settings=settings, device="cpu")
                for _ in predictor.fit(more[task] if trouble == "good" else data[task]):
                    pass
                predictor.save(place / f"{task}{trouble}", "card")
        yield place
    sys.path.remove(str(EXAMPLES))


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_trial_says_what_is_wrong_and_the_version_before_answers_on(
    versions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(models, "prove_apart", proof.prove_apart)
    folder, body = tmp_path / "m", {"records": [RECORDS["next"]], "k": 3}
    clone_folder(versions / "next", folder)
    with running({"m": folder}, proof_seconds=4.0 if trouble == "hang" else 60.0) as service:
        before = service.post("/v1/models/m/predict", body).json()
        clone_folder(versions / f"next{trouble}", folder)
        until(lambda: service.service.refused)
        found = service.client.get("/readyz")
        assert (found.status_code, found.json()["status"]) == (200, "ready")
        assert TROUBLES[trouble] in found.json()["refused"]["m"] and str(tmp_path) not in found.text
        assert service.post("/v1/models/m/predict", body).json() == before
        line = next(line for line in service.lines() if line.get("event") == "version_refused")
        assert (line["model"], line["error"]) == ("m", found.json()["refused"]["m"])
        if trouble == "raise":  # a good version is taken up afterwards
            clone_folder(versions / "nextgood", folder)
            until(lambda: any(line.get("event") == "swapped" for line in service.lines()))
            assert service.client.get("/readyz").json() == {"status": "ready"}
            assert service.post("/v1/models/m/predict", body).json() != before
    assert [path.name for path in tmp_path.iterdir()] == ["m"], "no copy stays beside the folder"


@pytest.mark.parametrize("task", RECORDS)
def test_killed_workers_begin_again_from_the_version_that_was_proved(
    versions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    folder, body = tmp_path / "m", {"records": [RECORDS[task]], "k": 2}
    clone_folder(versions / task, folder)
    with served(folder, "--workers", 2, *("--set", "proof_seconds=60")) as service:
        answer = service.post("/v1/models/m/predict", body)
        assert answer[0] == 200
        clone_folder(versions / f"{task}raise", folder)
        until(lambda: service.events("version_refused"))
        for pid in service.workers:
            killed(service, pid)
            assert [service.post("/v1/models/m/predict", body) for _ in range(6)] == [answer] * 6
        for _ in range(4):  # whichever of them answers
            found = json.loads(service.get("/readyz"))
            assert found["status"] == "ready" and TROUBLES["raise"] in found["refused"]["m"]
        clone_folder(versions / f"{task}good", folder)
        until(lambda: service.events("swapped"))
        until(lambda: len(service.workers) == 2)
        assert json.loads(service.get("/readyz")) == {"status": "ready"}
        (new,) = {json.dumps(service.post("/v1/models/m/predict", body)) for _ in range(6)}
        assert json.loads(new)[0] == 200 and json.loads(new) != [*answer]
    assert [path.name for path in tmp_path.iterdir()] == ["m"], "no copy stays beside the folder"


def killed(service: Served, pid: int) -> None:
    """Kill a worker, and wait until another one has taken its place."""
    ended = len(service.events("worker_ended"))
    os.kill(pid, signal.SIGKILL)
    until(lambda: len(service.events("worker_ended")) > ended and pid not in service.workers)
    until(lambda: service.post("/v1/models/m/predict", {"records": []})[0] == 200 and len(service.workers) == 2)


def test_a_version_that_only_workers_cannot_answer_by_is_taken_back(versions: Path, tmp_path: Path) -> None:
    """What passes the trial may still fail in a worker, as where memory is short: then all go back."""
    folder, body = tmp_path / "m", {"records": [RECORDS["next"]], "k": 2}
    clone_folder(versions / "next", folder)
    code = "from ensue.serve import workers; workers.prove_apart = lambda *own: None\n"
    with served(folder, "--workers", 2, code=f"{code}from ensue import cli; cli.main()") as service:
        answer = service.post("/v1/models/m/predict", body)
        clone_folder(versions / "nextraise", folder)
        until(lambda: "no worker could load it" in service.get("/readyz"))
        until(lambda: len(service.workers) == 2)
        for pid in service.workers:
            killed(service, pid)
        assert [service.post("/v1/models/m/predict", body) for _ in range(6)] == [answer] * 6


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_does_not_begin_with_a_version_that_does_not_answer(versions: Path, workers: int) -> None:
    process = Started("serve", versions / "nextraise", "--port", 0, "--workers", workers)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "does not answer (IndexError at models.py:9); fit the model again" in err
    assert "Traceback" not in err and "listening" not in err


def test_readiness_says_when_folders_are_no_longer_watched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*own: object) -> None:
        raise RuntimeError("a private value")

    monkeypatch.setattr(models.ServedModels, "_watch", broken)
    with running({"clicks": folder}) as service:
        until(lambda: service.client.get("/readyz").status_code == 503)
        error = service.client.get("/readyz").json()["error"]
        assert error.startswith("not ready: the model folders are no longer watched (RuntimeError at test_proof.py:")
        assert service.client.get("/healthz").status_code == 200


def test_the_watcher_survives_what_nobody_foresaw(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def broken(own: object) -> bool:
        calls.append(1)
        raise RuntimeError("a private value")

    with running({"clicks": folder}, poll=0.02) as service:
        monkeypatch.setattr(models.ServedModel, "refresh", broken)
        until(lambda: len(calls) > 2)
        assert service.client.get("/readyz").json() == {"status": "ready"}
        line = next(line for line in service.lines() if line.get("event") == "failure")
        assert (line["route"], line["error"]) == ("watch", "RuntimeError") and "private" not in str(service.lines())


def test_a_score_that_is_no_number_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ensue.serve.tasks import TaskService

    monkeypatch.setattr(TaskService, "answer", lambda *own: ['{"choices": [{"value": "v1", "score": NaN}]}'])
    with pytest.raises(ModelFolderError, match=r"clicks: loads, but does not answer \(ValueError at lines\.py"):
        proof.ask(proof.read(folder), folder)
