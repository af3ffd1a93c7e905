"""The client gives what the library gives; every error is one of ensue's. It asks the application itself, no socket."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from ensue import Article, DataError, EnsueError, History, ModelFolderError, Post, SettingError, Text
from ensue.client import AsyncClient, Client, Request
from ensue.predictor import load
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
    made.http = Straight(service)
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


def test_similar_items_are_the_librarys(service: Running, place: Path) -> None:
    (answer,) = asks(service).similar("clicks", ["v3"], 3, exclude=["v1"], allow=None)
    (choices,) = load(place / "clicks").similar(["v3"], 3, exclude=["v1"])  # type: ignore[attr-defined]
    assert [choice.value for choice in answer.choices] == [choice.value for choice in choices]
    with pytest.raises(DataError, match="not an item"):
        asks(service).similar("clicks", ["nothing"])


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
        client.events([{"session": "s", "item": "a", "time": 1}])
    with pytest.raises(DataError, match="there is nothing to train on"):
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
    from ensue.serve.problems import RequestError

    async def refuse(*arguments: Any, **more: Any) -> None:
        raise RequestError(409, "refused: MRR on the newest slice")

    monkeypatch.setattr(learning, "learn_apart", refuse)
    with pytest.raises(ModelFolderError, match="refused: MRR"):
        asks(service).update("clicks", [History(("v1", "v2"))] * 2, max_drop=0.0)


def test_a_service_that_is_not_there() -> None:
    with Client("http://127.0.0.1:9", seconds=2) as client, pytest.raises(EnsueError, match="cannot be reached"):
        client.models()
    with pytest.raises(SettingError, match="is not an address"):
        Client("localhost:8000")


def test_something_else_at_that_address(service: Running) -> None:
    client = asks(service)
    with pytest.raises(EnsueError, match="and no JSON"):
        client._run(Request(method="GET", path="/page/plotly.min.js", read=str))


def test_the_token_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSUE_TOKEN", "of the environment")
    with Client("http://x") as one, Client("http://x", token="given") as other, Client("http://x", token="") as none:
        assert one.http.headers["authorization"] == "Bearer of the environment"
        assert other.http.headers["authorization"] == "Bearer given"
        assert "authorization" not in none.http.headers


def test_updates_and_events_show_their_own_token(place: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(place / "clicks", tmp_path / "clicks"))
    with running({"clicks": folder}, token="asks", update_token="writes") as service:
        for writes, error in (("asks", "updates and events need the update token"), ("writes", "takes no events")):
            client = Client("http://testserver", token="asks", update_token=writes)
            headers = dict(client.http.headers)
            client.close()
            client.http = Straight(service)
            service.client.headers.update({"authorization": headers["authorization"]})
            assert len(client.predict("clicks", [History(("v1",))], k=1)) == 1
            with pytest.raises(SettingError, match=error):
                client.events([{"session": "s", "item": "i", "time": 1}])


class Scripted:
    """A connection that answers as it was told, and remembers what it was sent."""

    def __init__(self, *answers: tuple[int, dict[str, str]] | Exception) -> None:
        self.answers, self.sent = list(answers), list[str]()

    def request(self, method: str, path: str, **more: Any) -> httpx2.Response:
        self.sent.append(path)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, headers = answer
        found = {"answers": [], "accepted": 1, "version": 2} if status == 200 else {"error": "busy", "hint": "wait"}
        return httpx2.Response(status, headers=headers, json=found)


def scripted(
    monkeypatch: pytest.MonkeyPatch, *answers: tuple[int, dict[str, str]] | Exception
) -> tuple[Client, list[float]]:
    client, slept = Client("http://x", token=""), list[float]()
    client.close()
    client.http = Scripted(*answers)
    monkeypatch.setattr("time.sleep", slept.append)
    return client, slept


def test_a_busy_service_is_asked_again_when_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    client, slept = scripted(monkeypatch, (503, {"retry-after": "3"}), (429, {}), (200, {}))
    assert client.predict("clicks", list[History]()) == []
    assert slept == [3.0, 0.5]


def test_who_does_not_take_the_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = httpx2.ConnectError("refused")
    client, slept = scripted(monkeypatch, lost, (200, {}))
    assert client.predict("clicks", list[History]()) == []
    assert slept == [0.25]
    client, slept = scripted(monkeypatch, lost, lost, lost)
    with pytest.raises(EnsueError, match="cannot be reached"):
        client.models()
    assert slept == [0.25, 0.5]


def test_it_is_not_asked_again_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in ((503, {"retry-after": "600"}), (404, {}), (500, {})):
        client, slept = scripted(monkeypatch, answer)
        with pytest.raises(EnsueError, match="busy; wait"):
            client.models()
        assert slept == []
    client, _ = scripted(monkeypatch, httpx2.ReadTimeout("slow"))
    with pytest.raises(EnsueError, match="cannot be reached"):
        client.models()


def test_what_would_be_learned_twice_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client, slept = scripted(monkeypatch, (503, {}), (503, {}), (200, {}))
    with pytest.raises(EnsueError, match="busy"):
        client.events([{"session": "s", "item": "a", "time": 1}])
    with pytest.raises(EnsueError, match="busy"):
        client.update("clicks", [History(("a", "b"))])
    assert slept == []
    client, slept = scripted(monkeypatch, (503, {}), (200, {}))
    assert client.update("clicks", [History(("a", "b"))], key="one")["version"] == 2
    assert slept == [0.25]


def test_ready(service: Running) -> None:
    assert asks(service).ready()
    with Client("http://127.0.0.1:9") as client:
        assert not client.ready()


class StraightAsync(Straight):
    """The same, awaited."""

    async def request(self, method: str, path: str, **more: Any) -> Any:
        return super().request(method, path, **more)


def alone(asking: Coroutine[Any, Any, Any]) -> Any:
    """Its result; in a thread, for a test of the page may have left a loop running in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, asking).result()


def test_the_twin_says_the_same(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        async with AsyncClient("http://testserver", token="") as client:
            await client.http.aclose()
            client.http = StraightAsync(service)
            monkeypatch.setattr(client, "aclose", nothing)
            assert await client.ready()
            assert await client.models() == asks(service).models()
            for name, record in RECORDS.items():
                assert await client.predict(name, [record], 3) == asks(service).predict(name, [record], 3)
                assert await client.explain(name, [record]) == asks(service).explain(name, [record])
            with pytest.raises(SettingError, match="this service takes no events"):
                await client.events([{"session": "s", "item": "a", "time": 1}])
            with pytest.raises(DataError, match="there is nothing to train on"):
                await client.update("links", [])

    async def nothing() -> None:
        return None

    alone(ask())


def test_the_twin_waits_and_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = list[float]()

    class Awaited(Scripted):
        async def request(self, method: str, path: str, **more: Any) -> httpx2.Response:  # type: ignore[override]
            return super().request(method, path, **more)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def ask() -> int:
        client = AsyncClient("http://x", token="")
        await client.aclose()
        client.http = Awaited((503, {}), (200, {}))
        return len(await client.predict("clicks", list[History]()))

    monkeypatch.setattr("ensue.client.asyncio", SimpleNamespace(sleep=sleep))
    assert alone(ask()) == 0
    assert slept == [0.25]


def test_a_client_needs_no_torch() -> None:
    code = "import sys, ensue.client; ensue.client.Client('http://x').close(); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
