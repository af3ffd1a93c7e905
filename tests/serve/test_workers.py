"""Several processes behind one port: figures added up, one that dies is replaced, an update reaches all at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from ensue import History, SettingError
from ensue.data.histories import Histories
from ensue.predictor import make
from ensue.serve.server import run
from ensue.store import versions
from ensue.store.folder import clone_folder
from tests.processes import PLAIN, Started
from tests.serve.test_server import start

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no system that tells of processes")
ASK = {"records": [{"values": ["v1", "v2"]}], "k": 2}
LEARN = {"records": [{"values": ["v1", "v2", "brand new"]}] * 2}


class Served(NamedTuple):
    """A service of several processes."""

    process: Started
    address: str
    said: list[dict[str, Any]]

    def get(self, path: str) -> str:
        with urlopen(self.address + path, timeout=30) as answer:
            return str(answer.read().decode())

    def post(self, path: str, body: object, token: str = "") -> tuple[int, Any]:
        """Over a connection of its own."""
        headers = {"content-type": "application/json", "x-api-key": token}
        request = Request(self.address + path, json.dumps(body).encode(), headers)
        try:
            with urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except HTTPError as error:
            return error.code, json.loads(error.read())

    def value(self, name: str) -> float:
        lines = (line.rsplit(" ", 1) for line in self.get("/metrics").splitlines())
        return sum(float(line[1]) for line in lines if line[0].split("{")[0] == name)

    @property
    def workers(self) -> list[int]:
        """Their process ids."""
        return [
            int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in list(self.said) if line.get("event") == event]


@contextmanager
def served(*arguments: object, code: str = PLAIN) -> Iterator[Served]:
    """It runs, ends by SIGTERM with code 0, and leaves no process behind."""
    process, line = start(*arguments, "--set", "poll=0.05", code=code)
    said: list[dict[str, Any]] = [line]
    reading = threading.Thread(target=lambda: said.extend(json.loads(text) for text in process.stderr), daemon=True)
    reading.start()
    found = Served(process, line["address"], said)
    try:
        yield found
        workers = found.workers
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
        reading.join(10)
        assert said[-1]["event"] == "stopped"
    finally:
        process.kill()


def until(happens: Any, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_figures_are_added_up_and_a_worker_that_dies_is_started_again(fitted: Path) -> None:
    with served(fitted / "counted", "--workers", 2) as service:
        assert service.said[0]["workers"] == 2 and len(service.workers) == 2
        assert json.loads(service.get("/readyz")) == json.loads(service.get("/readyz")) == {"status": "ready"}
        answers = [service.post("/v1/models/counted/predict", ASK) for _ in range(20)]
        assert answers == [answers[0]] * 20 and answers[0][0] == 200
        assert service.value("ensue_records_total") == 20
        (answer,) = answers[0][1]["answers"]
        assert service.value("ensue_asked_values_total") == 20 * answer["events"] > 0
        assert service.value("ensue_unknown_values_total") == 20 * (answer["events"] - answer["in_vocabulary"])
        assert service.value("ensue_model_version") == 1
        drifts = [json.loads(service.get("/v1/models"))[0]["drift"] for _ in range(10)]  # whichever of them answers
        given = 20 * answer["events"]
        assert drifts == [{"days": 7, "records": 20, "events": given, "unknown": drifts[0]["unknown"]}] * 10
        before = service.workers
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(service.workers) == 2 and service.workers != before)
        until(lambda: len(service.events("worker_ended")) == 1)
        assert [service.post("/v1/models/counted/predict", ASK) for _ in range(20)] == answers
        assert service.value("ensue_records_total") == 40
        assert json.loads(service.get("/v1/models"))[0]["drift"] == {**drifts[0], "records": 40, "events": 2 * given}
        assert service.value("ensue_worker_restarts_total") == 1
        assert service.value("process_cpu_seconds_total") > 0
        assert service.value("process_resident_memory_bytes") > 10**7


def test_a_worker_that_hangs_is_replaced_and_the_others_answer_on(fitted: Path) -> None:
    with served(fitted / "counted", "--workers", 2, "--set", "hung=3") as service:
        stopped, _ = before = service.workers
        os.kill(stopped, signal.SIGSTOP)
        until(lambda: ") T " in Path(f"/proc/{stopped}/stat").read_text())
        statuses = []

        def replaced() -> bool:
            statuses.append(service.post("/v1/models/counted/predict", ASK)[0])
            return len(set(service.workers) - {stopped}) == 2

        until(replaced)
        statuses += [service.post("/v1/models/counted/predict", ASK)[0] for _ in range(20)]
        assert set(statuses) == {200} and len(statuses) > 20
        until(lambda: service.value("ensue_worker_restarts_total") == 1)
        assert set(before) - set(service.workers) == {stopped}
        (hung,) = service.events("worker_hung")
        assert hung["seconds"] >= 3 and not service.events("worker_ended")


LARGE = """
from ensue.tasks.next import nearest, state

own, state.LARGE = nearest.make_index, 100
def counted(*given):
    with open({place!r}, "a") as file:
        file.write("made")
    return own(*given)
nearest.make_index = counted
"""


def test_what_a_folder_lacks_is_made_once_for_all_workers(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="the extra ann is not there")
    folder, made = tmp_path / "large", tmp_path / "made"
    walks = [History(tuple(f"v{(5 * at + step) % 700}" for step in range(10))) for at in range(140)]
    predictor = make("next", "core", settings={"dim": 8, "epochs": 1, "negatives": 8}, device="cpu")
    for _ in predictor.fit(Histories.of(walks)):
        pass
    for place in (folder, tmp_path / "again"):
        predictor.save(place, "card")
    assert not (folder / "items.safetensors").exists()
    with served(folder, "--workers", 2, code=LARGE.format(place=str(made)) + PLAIN) as service:
        asked = [service.post("/v1/models/large/predict", ASK) for _ in range(10)]
        assert made.read_text() == "made" and asked[0][0] == 200 and asked == [asked[0]] * 10
        before = service.workers
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(service.workers) == 2 and service.workers != before)
        assert [service.post("/v1/models/large/predict", ASK) for _ in range(10)] == asked
        assert made.read_text() == "made"
        clone_folder(tmp_path / "again", folder)
        until(lambda: service.events("swapped"))
        assert service.post("/v1/models/large/predict", ASK) == asked[0]
        assert made.read_text() == "mademade" and len(service.events("prepared")) == 1


def _in_vocabulary(connection: HTTPConnection, body: object) -> int:
    """Ask over an open connection how many of the values are known."""
    connection.request("POST", "/v1/models/next/predict", json.dumps(body), {"content-type": "application/json"})
    return int(json.loads(connection.getresponse().read())["answers"][0]["in_vocabulary"])


def test_an_update_is_learned_once_and_all_workers_answer_from_it_while_requests_go_on(folder: Path) -> None:
    with served(f"next={folder}", "--workers", 2) as service:
        known = {"records": [{"values": ["brand new"]}], "k": 2}
        connections = [HTTPConnection(urlsplit(service.address).netloc, timeout=30) for _ in range(6)]
        assert [_in_vocabulary(one, known) for one in connections[:3]] == [0, 0, 0]
        for one in connections[3:]:
            one.connect()  # and asks nothing before the update
        statuses: list[int] = []
        over = threading.Event()

        def ask() -> None:
            while not over.is_set():
                try:
                    statuses.append(service.post("/v1/models/next/predict", ASK)[0])
                except (URLError, ConnectionError) as error:
                    statuses.append(0 if "reset" in str(error) else -1)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            before = service.workers
            status, report = service.post("/v1/models/next/update", LEARN)
            assert (status, report["version"]) == (200, 2)
            # from now on nobody answers from the old version, over no connection
            for one in connections:
                try:
                    assert _in_vocabulary(one, known) == 1
                except (RemoteDisconnected, ConnectionError):  # the old worker has closed it
                    one.close()
                    assert _in_vocabulary(one, known) == 1
                one.close()
            for _ in range(12):
                assert service.post("/v1/models/next/predict", known)[1]["answers"][0]["in_vocabulary"] == 1
                (model,) = json.loads(service.get("/v1/models"))
                assert model["version"] == 2
            until(lambda: not set(before) & set(service.workers) and len(service.workers) == 2)
        finally:
            over.set()
            asking.join()
        assert set(statuses) == {200} and len(statuses) > 5
        assert versions.current(folder) == 2
        assert (service.value("ensue_updates_total"), service.value("ensue_model_swaps_total")) == (1, 1)
        assert service.value("ensue_model_version") == 2
        assert len(service.events("swapped")) == 1


def test_a_folder_that_cannot_be_loaded_leaves_what_stands(folder: Path, tmp_path: Path) -> None:
    with served(f"next={folder}", "--workers", 2) as service:
        before = service.workers
        shutil.copytree(folder, tmp_path / "bad")
        (tmp_path / "bad" / "fitted.json").write_text("[]")
        clone_folder(tmp_path / "bad", folder)
        until(lambda: service.events("version_refused"))
        assert service.post("/v1/models/next/predict", ASK)[0] == 200
        assert service.workers == before
        assert service.value("ensue_load_failures_total") == 1


def test_models_of_other_tasks_are_loaded_by_each_worker(fitted: Path, folder: Path, tmp_path: Path) -> None:
    mood = Path(shutil.copytree(fitted / "mood", tmp_path / "mood"))
    with served(f"mood={mood}", f"clicks={folder}", "--workers", 2) as service:
        for _ in range(4):
            assert service.post("/v1/models/mood/predict", {"records": [{"texts": ["a good film"]}]})[0] == 200
            assert service.post("/v1/models/clicks/predict", ASK)[0] == 200
        before = service.workers
        clone_folder(fitted / "mood", mood)
        until(lambda: service.events("swapped"))
        until(lambda: not set(before) & set(service.workers))
        assert service.post("/v1/models/mood/predict", {"records": [{"texts": ["a good film"]}]})[0] == 200


def test_workers_end_with_the_process_that_looks_after_them_and_nothing_stays(folder: Path, tmp_path: Path) -> None:
    """Neither of it, nor of services that were killed before it began."""
    temporary = tmp_path / "temporary"
    (temporary / "ensue-serve-left").mkdir(parents=True)
    (tmp_path / ".clicks.0a1b.tmp").mkdir()
    code = f"import tempfile; tempfile.tempdir = {str(temporary)!r}\n{PLAIN}"
    process, _ = start(folder, "--workers", 2, code=code)
    (own,) = temporary.iterdir()
    assert own.name != "ensue-serve-left" and own.stat().st_mode & 0o777 == 0o700
    other, _ = start(folder, "--workers", 2, code=code)
    assert own.exists(), "its processes live"
    other.terminate()
    assert other.wait(60) == 0 and [*temporary.iterdir()] == [own]
    workers = Served(process, "", []).workers
    assert len(workers) == 2
    process.kill()
    process.wait(30)
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in workers), 30)
    assert [*temporary.iterdir()] == [] and {path.name for path in tmp_path.iterdir()} == {"clicks", "temporary"}


def test_what_cannot_begin_is_said(fitted: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="give at least 1"):
        run({"counted": fitted / "counted"}, port=0, workers=0)
    bad = Path(shutil.copytree(fitted / "counted", tmp_path / "bad"))
    (bad / "fitted.json").write_text("[]")
    process = Started("serve", bad, "--port", 0, "--workers", 2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "checksum" in err and "Traceback" not in err
