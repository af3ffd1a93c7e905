"""New versions of a folder are taken up while requests go on; none is dropped, and a damaged folder changes nothing."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ensue.data.texts import Texts
from ensue.serve.tasks import Kind, TaskService, service_of
from ensue.store import versions
from ensue.store.folder import clone_folder
from ensue.store.swap import only_writer
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.next.predictor import NextPredictor
from tests.folders import resum
from tests.serve.conftest import running, sessions
from tests.tasks.classify.contract import planted as labelled

ASK = {"records": [{"values": ["v1", "v2"]}], "k": 3}


def until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def learned(folder: Path, place: Path, value: str) -> Path:
    """Another version of a model, which knows one value more."""
    predictor = NextPredictor.load(folder)
    predictor.add_values([value])
    predictor.metadata.version = 2
    predictor.save(place)
    return place


def test_a_new_version_is_taken_up_and_nothing_is_dropped(folder: Path, tmp_path: Path) -> None:
    """Four clients ask without a pause while the folder is replaced back and forth: each is answered by one of both."""
    other = learned(folder, tmp_path / "other", "brand new")
    first = Path(shutil.copytree(folder, tmp_path / "first"))
    record = {"records": [{"values": ["v1", "brand new"]}], "k": 1}
    known: list[int] = []
    wrong: list[tuple[int, str]] = []
    stop = threading.Event()
    with running({"clicks": folder}) as service:

        def client() -> None:
            while not stop.is_set():
                found = service.post("/v1/models/clicks/predict", record)
                if found.status_code != 200:
                    wrong.append((found.status_code, found.text))
                else:
                    known.append(found.json()["answers"][0]["in_vocabulary"])

        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        for turn, source in enumerate((other, first, other), 1):
            clone_folder(source, folder)
            until(lambda turn=turn: _swaps(service) == turn)  # type: ignore[misc]
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert {1, 2} == set(known)
        (found,) = service.client.get("/v1/models").json()
        assert (found["version"], found["values"]) == (2, 13)
        events = [line for line in service.lines() if line.get("event") == "swapped"]
        assert [line["version"] for line in events] == [2, 1, 2]


def _swaps(service: Any) -> int:
    return int(service.service.metrics.swaps.labels("clicks")._value.get())


def test_a_request_in_flight_is_answered_by_the_version_it_began_with(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = learned(folder, tmp_path / "other", "brand new")
    entered, go_on = threading.Event(), threading.Event()
    answer = service_of("next").answer

    def slow(predictor: Any, kind: Kind, questions: Any) -> Any:
        if kind.k == 10:  # what the new version is asked before it answers is not the request's
            entered.set()
            assert go_on.wait(20)
        return answer(predictor, kind, questions)

    with running({"clicks": folder}) as service:
        monkeypatch.setattr(TaskService, "answer", lambda own, *rest: slow(*rest))
        found: list[Any] = []
        body = {"records": [{"values": ["v1", "brand new"]}]}
        thread = threading.Thread(target=lambda: found.append(service.post("/v1/models/clicks/predict", body)))
        thread.start()
        assert entered.wait(20)
        clone_folder(other, folder)
        until(lambda: _swaps(service) == 1)
        go_on.set()
        thread.join()
        assert found[0].json()["answers"][0]["in_vocabulary"] == 1
        assert service.post("/v1/models/clicks/predict", body).json()["answers"][0]["in_vocabulary"] == 2


def test_a_damaged_version_changes_nothing(folder: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    (broken / "baselines.safetensors").write_bytes(b"half")
    with running({"clicks": folder}) as service:
        before = service.post("/v1/models/clicks/predict", ASK).json()
        clone_folder(broken, folder)
        until(lambda: service.service.metrics.failures.labels("clicks")._value.get() == 1)
        assert service.post("/v1/models/clicks/predict", ASK).json() == before
        assert service.client.get("/readyz").status_code == 200
        (line,) = [line for line in service.lines() if line.get("event") == "version_refused"]
        assert "damaged" in line["error"]
        assert str(tmp_path) not in line["error"]
        time.sleep(0.2)
        assert service.service.metrics.failures.labels("clicks")._value.get() == 1  # not tried again and again


def test_a_folder_of_another_task_is_not_taken_up(folder: Path, fitted: Path) -> None:
    with running({"clicks": folder}) as service:
        clone_folder(fitted / "mood", folder)
        until(lambda: service.service.metrics.failures.labels("clicks")._value.get() == 1)
        assert service.post("/v1/models/clicks/predict", ASK).status_code == 200


def test_a_folder_that_goes_away_is_served_on(folder: Path) -> None:
    with running({"clicks": folder}) as service:
        shutil.rmtree(folder)
        time.sleep(0.1)
        assert service.post("/v1/models/clicks/predict", ASK).status_code == 200


def test_an_update_is_learned_saved_and_served(folder: Path) -> None:
    """With a value that nobody knew; what stood is kept; requests meanwhile are answered."""
    new = [{"values": ["v1", "brand new", "v2"], "times": [0, 1, 2]}] * 30
    statuses: list[int] = []
    stop = threading.Event()
    with running({"clicks": folder}, poll=60.0) as service:

        def client() -> None:
            while not stop.wait(0.02):
                statuses.append(service.post("/v1/models/clicks/predict", ASK).status_code)

        thread = threading.Thread(target=client)
        thread.start()
        found = service.post("/v1/models/clicks/update", {"records": new})
        stop.set()
        thread.join()
        assert found.status_code == 200, found.text
        assert found.json()["version"] == 2
        assert [part["name"] for part in found.json()["slices"]][:1] == ["newest"], "tested without being asked to"
        assert set(statuses) == {200}
        (model,) = service.client.get("/v1/models").json()
        assert (model["version"], model["values"]) == (2, 13)  # swapped in before the answer came
        body = {"records": [{"values": ["brand new"]}], "k": 1}
        (answer,) = service.post("/v1/models/clicks/predict", body).json()["answers"]
        assert answer["in_vocabulary"] == 1
    assert (versions.current(folder), versions.kept(folder)) == (2, [1])


@pytest.mark.usefixtures("at_hand")
def test_a_stream_keeps_its_position_over_an_update(folder: Path) -> None:
    (folder / "stream.json").write_text('{"position": 7}')
    resum(folder)
    with running({"clicks": folder}) as service:
        found = service.post("/v1/models/clicks/update", {"records": [{"values": ["v1", "v2"]}]})
        assert found.status_code == 200, found.text
    assert json.loads((folder / "stream.json").read_text()) == {"position": 7}


@pytest.mark.usefixtures("at_hand")
def test_a_tested_update_may_be_refused(folder: Path) -> None:
    """What the newest tenth says against the candidate stands in the answer, and the folder stays."""
    new = [json.loads(record.to_json()) for record in sessions(40, seed=3)]
    with running({"clicks": folder}, update_token="writes") as service:
        headers = {"x-api-key": "writes"}
        found = service.post("/v1/models/clicks/update", {"records": new, "max_drop": 0.9}, headers=headers)
        assert found.status_code == 200, found.text
        assert found.json()["accepted"] is True
        assert found.json()["slices"][0]["name"] == "newest"
        odd = [{"values": ["v1", "v0", "v9", "v8"], "times": [1, 2, 3, 4]}] * 60
        found = service.post("/v1/models/clicks/update", {"records": odd + new[:10], "max_drop": 0.0}, headers=headers)
        assert found.status_code in (200, 409), found.text
        if found.status_code == 409:
            assert found.json()["error"].startswith("refused: MRR on the")


@pytest.mark.usefixtures("at_hand")
def test_400_rotated_labels_are_refused_by_default(tmp_path: Path) -> None:
    """Nobody asked for a test: the model that stands goes on as it was, and so do its answers."""
    made, copy = ClassifyPredictor("tfidf"), tmp_path / "mood"
    for _ in made.fit(Texts.of(labelled(200, 0))):
        pass
    made.save(copy)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    rotated = {"yes": "no", "no": "yes"}
    records = [{"texts": list(text.texts), "label": rotated[str(text.label)]} for text in labelled(400, 1)]
    body: dict[str, Any] = {"records": records}
    headers = {"x-api-key": "writes"}
    with running({"mood": copy}, update_token="writes") as service:
        found = service.post("/v1/models/mood/update", body, headers=headers)
        assert found.status_code == 409, found.text
        assert found.json()["error"].startswith("refused: accuracy on the remembered slice changed by -")
        assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
        found = service.post("/v1/models/mood/update", {**body, "test": False}, headers=headers)
        assert (found.status_code, found.json()["version"]) == (200, 2)


@pytest.mark.usefixtures("at_hand")
def test_an_update_of_each_other_task(fitted: Path, tmp_path: Path) -> None:
    bodies = {
        "mood": {"records": [{"texts": ["a good opera"], "label": "yes"}, {"texts": ["a bad opera"], "label": "no"}]},
        "searches": {
            "records": [{"values": ["night trains", "trains to rome"]}] * 6,
            "users": [f"w{user}" for user in range(6)],
        },
        "links": {
            "records": [{"text": "a comet over town", "id": "c1", "about": ["comet"]}],
            "articles": [{"body": "A comet was seen over the town.", "id": "comet"}],
        },
    }
    for name in bodies:
        shutil.copytree(fitted / name, tmp_path / name)
    with running({name: tmp_path / name for name in bodies}) as service:
        for name, body in bodies.items():
            found = service.post(f"/v1/models/{name}/update", body)
            assert found.status_code == 200, found.text
            assert found.json()["version"] == 2
        asked = {"records": [{"text": "that comet"}], "k": 1}
        (answer,) = service.post("/v1/models/links/predict", asked).json()["answers"]
        assert answer["choices"][0]["value"] == "comet"
        asked = {"records": [{"values": ["cheap flights"]}], "prefix": "night"}
        (answer,) = service.post("/v1/models/searches/predict", asked).json()["answers"]
        assert "night trains" in [choice["value"] for choice in answer["choices"]]


@pytest.mark.parametrize(
    ("name", "body", "error"),
    [
        ("clicks", {"records": []}, 'field "records" is empty; there is nothing to train on'),
        ("clicks", {"records": [{"values": ["v1"]}]}, "new data: "),
        ("clicks", {"records": [{"values": ["a", "b"]}], "max_drop": 1}, 'field "max_drop" must be a share in [0, 1)'),
        ("clicks", {"records": [{"values": ["a", "b"]}], "test": 0}, 'field "test" must be true or false'),
        (
            "mood",
            {"records": [{"texts": ["a"], "label": "maybe"}]},
            "new data: the label 'maybe' is not a label of the model",
        ),
        ("mood", {"records": [{"texts": ["a"]}]}, "the texts have no labels"),
        ("links", {"records": [{"text": "a", "about": ["nothing"]}]}, "new data: no article is new"),
        ("links", {"records": [], "articles": [{"body": "x", "id": "n", "who": 1}]}, "articles[0]: field 'who'"),
        ("links", {"records": [], "articles": [3]}, "articles[0]: must be an object"),
        ("searches", {"records": [{"values": ["a", "b"]}]}, "new data: the log has no users"),
        ("searches", {"records": [{"values": ["a", "b"]}], "users": []}, 'field "users" must be a list of 1 names'),
    ],
)
@pytest.mark.usefixtures("at_hand")
def test_updates_that_cannot_be_learned(
    fitted: Path, tmp_path: Path, name: str, body: dict[str, Any], error: str
) -> None:
    copy = Path(shutil.copytree(fitted / name, tmp_path / name))
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with running({name: copy}) as service:
        found = service.post(f"/v1/models/{name}/update", body)
        assert found.status_code == 422, found.text
        assert error in found.json()["error"]
        assert str(tmp_path) not in found.text
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


@pytest.mark.usefixtures("at_hand")
def test_one_writer_a_folder(folder: Path) -> None:
    with running({"clicks": folder}) as service, only_writer(folder):
        found = service.post("/v1/models/clicks/update", {"records": [{"values": ["v1", "v2"]}]})
        assert (found.status_code, "another process updates it" in found.json()["error"]) == (409, True)


def test_a_service_that_does_not_learn(folder: Path) -> None:
    with running({"clicks": folder}, learn=False) as service:
        found = service.post("/v1/models/clicks/update", {"records": [{"values": ["v1", "v2"]}]})
        assert (found.status_code, found.json()["error"]) == (403, "updates over HTTP are disabled")


def test_an_update_that_takes_too_long_is_given_up(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with running({"clicks": folder}, learn_seconds=0.05) as service:
        found = service.post("/v1/models/clicks/update", {"records": [{"values": ["v1", "v2"]}]})
        assert (found.status_code, "took longer than 0.05 s" in found.json()["error"]) == (503, True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
