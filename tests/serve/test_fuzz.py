"""Requests made up from the service's own document, whole and broken: never an error of ours, always JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from ensue.serve import learning
from ensue.serve.events import open_queue
from tests.serve.conftest import Running, running

pytestmark = pytest.mark.fuzz
JSON = {"content-type": "application/json"}
BOUNDED = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def served(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A model a task and a queue; what is to be learned is checked, and then not learned."""
    folders = {name: fitted / name for name in ("counted", "mood", "searches", "links")}
    queue = open_queue(str(tmp_path_factory.mktemp("queue") / "q.db"))

    async def learn(*arguments: Any, **more: Any) -> dict[str, Any]:
        return {"version": 1}

    with pytest.MonkeyPatch.context() as patch, running(folders, queue=queue, story=b"{}") as found:
        patch.setattr(learning, "learn_apart", learn)
        yield found


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_breaks_the_service(served: Running, mode: GenerationMode) -> None:
    """Of every operation a few dozen requests that fit the document, and as many that do not."""
    document = schemathesis.openapi.from_dict(served.client.get("/openapi.json").json())
    operations: list[Any] = [found.ok() for found in document.get_all_operations()]  # type: ignore[union-attr]
    assert len(operations) >= 11
    sent = 0
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and operation.method == "get":
            continue  # nothing of it can be broken

        @BOUNDED
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            nonlocal sent
            sent += 1
            broken(served, case)

        send()
    assert sent > 150


def broken(served: Running, case: Any) -> None:
    """Fail where an answer is an error of ours, or an error without a sentence."""
    request: dict[str, Any] = case.as_transport_kwargs(base_url="http://testserver")
    names = {"method", "url", "headers", "params", "json", "data"}
    kept: dict[str, Any] = {name: value for name, value in request.items() if name in names}
    if isinstance(kept.get("data"), bytes | str):
        kept["content"] = kept.pop("data")
    answer = served.client.request(**kept)
    assert answer.status_code < 500, answer.text
    if answer.headers.get("content-type") == "application/json" and not answer.is_success:
        assert isinstance(answer.json()["error"], str)


BROKEN = [
    b"\x00",
    b"\xef\xbb\xbf{}",
    b'{"records": [{"values": ["\xed\xa0\x80"]}]}',
    b'{"records": [{"values": [' + b"9" * 5000 + b"]}]}",
    b'{"records": [{"values": [1], "times": [1e400]}]}',
    b'{"records": [{"values": [1], "times": [' + b"9" * 400 + b"]}]}",
    b'{"records": [{"texts": ["\\ud83d"]}]}',
    b'{"records": [{"text": "\\u0000\\uffff"}]}',
    b'{"records": null, "k": null}',
    b'{"": {}}',
    b'{"events": [{"session": "s", "item": "i", "time": 1e308}]}',
    b'[{"ItemId": "a", "Timestamp": "9999-12-31T23:59:59.999999+23:59"}]',
    b'[{"ItemId": "a", "Timestamp": 1e308}]',
    b'{"session": {}, "item": [], "time": {}}',
    b'{"action_name": [], "event_attributes": {"object": {"object_id": {}}}}',
    b'{"record": {"values": ["a"]}, "choice": -1}',
    b'{"record": {"texts": ["\\u200b"]}}',
    b'"' + b"\\u0000" * 1000 + b'"',
    b"[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]",
    b"1e5",
    b"-",
    b"[" * 100_000,
    b'{"a":' * 50_000,
]


@pytest.mark.parametrize("body", BROKEN, ids=range(len(BROKEN)))
def test_known_poison(served: Running, body: bytes) -> None:
    addresses = [
        f"/v1/models/{name}/{verb}" for name in served.service.models for verb in ("predict", "figure", "update")
    ]
    for address in [*addresses, "/v1/events", "/api/session/recommend"]:
        answer = served.client.post(address, content=body, headers=JSON)
        assert answer.status_code < 500, (address, answer.text)
        assert answer.is_success or isinstance(answer.json()["error"], str)


def test_the_queue_holds_only_events(served: Running) -> None:
    """After all that: every line reads as an event."""
    path = served.service.queue._queue.path  # type: ignore[union-attr]
    with sqlite3.connect(path) as database:
        lines = [json.loads(line) for (line,) in database.execute("SELECT line FROM events")]
    assert all(isinstance(line["session"], str) and isinstance(line["time"], float) for line in lines)
