"""The client gives what the library gives; every error is one of ensue's. It asks the application itself, no socket."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensue.client import Client
from ensue.errors import DataError, EnsueError, ModelFolderError, SettingError
from ensue.predictor import load
from ensue.records import Article, History, Post, Text
from tests.serve.conftest import Running, running, write_models

RECORDS: dict[str, Any] = {
    "clicks": History(("v1", "v2"), (0.0, 5.0), "me"),
    "heat": History(("v1", "v2", "v3"), (0.0, 5.0, 9.0)),
    "searches": History(("cheap flights",)),
    "mood": Text(("a good film",)),
    "links": Post("the harbour ferry", "p1"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models."""
    found = tmp_path_factory.mktemp("models")
    write_models(found)
    return found


@pytest.fixture(scope="module")
def service(place: Path) -> Iterator[Running]:
    with running({name: place / name for name in RECORDS}) as found:
        yield found


class Straight:
    """A connection that is the application; it knows no waiting."""

    def __init__(self, service: Running) -> None:
        self.service = service

    def request(self, method: str, path: str, *, timeout: float = 0.0, **more: Any) -> Any:
        return self.service.client.request(method, path, **more)


def asks(service: Running) -> Client:
    """A client on top of a service without a socket."""
    made = Client("http://testserver", token="")
    made.close()
    made._http = Straight(service)
    return made


@pytest.mark.parametrize("name", RECORDS)
def test_answers_are_the_librarys(service: Running, place: Path, name: str) -> None:
    """The same classes with the same content; numbers up to rounding, since batches may differ."""
    predictor, client = load(place / name), asks(service)
    (answer,), (expected,) = client.predict(name, [RECORDS[name]], 3), predictor.predict([RECORDS[name]], 3)
    assert type(answer) is type(expected)
    assert rounded(answer) == rounded(expected)
    (explanation,), (expected,) = client.explain(name, [RECORDS[name]]), predictor.explain([RECORDS[name]])
    assert type(explanation) is type(expected)
    assert rounded(explanation) == rounded(expected)
    assert hash(answer)  # tuples all the way down


def rounded(found: Any) -> Any:
    return json.loads(found.to_json(), parse_float=lambda text: round(float(text), 5))


def test_lists_of_what_may_be_an_answer(service: Running) -> None:
    asked = [History(("v1", "v2"))]
    (every,) = asks(service).predict("clicks", asked, 12)
    (some,) = asks(service).predict("clicks", asked, 12, exclude={"v3"})
    (few,) = asks(service).predict("clicks", asked, 12, allow=["v3", "v4"])
    assert {choice.value for choice in every.choices} - {choice.value for choice in some.choices} == {"v3"}
    assert {choice.value for choice in few.choices} == {"v3", "v4"}


def test_suggestions_for_a_prefix(service: Running) -> None:
    (answer,) = asks(service).predict("searches", [History(("cheap flights",))], prefix="ro")
    assert answer.choices and all(choice.value.startswith("ro") for choice in answer.choices)


def test_models(service: Running) -> None:
    assert [(model["name"], model["task"]) for model in asks(service).models()][:2] == [
        ("clicks", "next"),
        ("heat", "next"),
    ]


def test_an_error_is_the_services(service: Running) -> None:
    client = asks(service)
    with pytest.raises(SettingError, match=r"^no model is named 'nobody'; GET /v1/models lists those"):
        client.predict("nobody", [History(("a",))])
    with pytest.raises(DataError, match=r'^field "k" must be a whole number'):
        client.predict("clicks", [History(("a",))], k=0)
    with pytest.raises(DataError, match="expected"):
        client.predict("clicks", [Text(("a",))])
    with pytest.raises(SettingError, match="this service takes no events"):
        client.send([{"session": "s", "item": "a", "time": 1}])
    with pytest.raises(DataError, match="there is nothing to learn"):
        client.update("links", [])


def test_an_update_in_three_lines(place: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(place / "links", tmp_path / "links"))
    with running({"links": copy}) as service:
        client = asks(service)
        found = client.update("links", [], articles=[Article("A comet was seen over the town.", "comet")])
        assert found["version"] == 2
        (answer,) = client.predict("links", [Post("that comet")], k=1)
        assert answer.choices[0].value == "comet"


def test_a_refusal_of_the_folder_keeps_its_kind(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from ensue.serve import learning
    from ensue.serve.problems import Problem

    async def refuse(*arguments: Any, **more: Any) -> None:
        raise Problem(409, "refused: MRR on the newest slice")

    monkeypatch.setattr(learning, "learn_apart", refuse)
    with pytest.raises(ModelFolderError, match="refused: MRR"):
        asks(service).update("clicks", [History(("v1", "v2"))] * 2, max_drop=0.0)


def test_a_service_that_is_not_there() -> None:
    with Client("http://127.0.0.1:9", seconds=2) as client, pytest.raises(EnsueError, match="cannot be reached"):
        client.models()
    with pytest.raises(SettingError, match="is no address"):
        Client("localhost:8000")


def test_something_else_at_that_address(service: Running) -> None:
    client = asks(service)
    with pytest.raises(EnsueError, match="and no JSON"):
        client._ask("GET", "/page/plotly.min.js")


def test_the_token_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSUE_TOKEN", "of the environment")
    with Client("http://x") as one, Client("http://x", token="given") as other, Client("http://x", token="") as none:
        assert one._http.headers["authorization"] == "Bearer of the environment"
        assert other._http.headers["authorization"] == "Bearer given"
        assert "authorization" not in none._http.headers


def test_a_client_needs_no_torch() -> None:
    code = "import sys, ensue.client; ensue.client.Client('http://x').close(); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
