"""Requests made up from the service's own document, whole and broken: never an error of ours, always JSON."""

from __future__ import annotations

import json
import random
import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from ensue.serve import learning
from ensue.serve.events import open_queue
from tests.serve.conftest import Running, running
from tests.serve.test_server import rest, send, start

pytestmark = pytest.mark.fuzz
JSON = {"content-type": "application/json"}
BOUNDED = settings(
    max_examples=15,
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
    """Of every operation a dozen requests that fit the document, and as many that do not."""
    document = schemathesis.openapi.from_dict(served.client.get("/openapi.json").json())
    operations: list[Any] = [found.ok() for found in document.get_all_operations()]  # type: ignore[union-attr]
    assert len(operations) >= 10
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
    assert sent > 70


def broken(served: Running, case: Any) -> None:
    """Fail where an answer is an error of ours, or an error without a sentence."""
    request: dict[str, Any] = case.as_transport_kwargs(base_url="http://testserver")
    names = {"method", "url", "headers", "params", "json", "data"}
    kept: dict[str, Any] = {name: value for name, value in request.items() if name in names}
    # The client sends no text beyond ASCII in a header, but others do.
    kept["headers"] = {name: value.encode() for name, value in dict(kept.get("headers") or {}).items()}
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
    for address in [*addresses, "/v1/events"]:
        answer = served.client.post(address, content=body, headers=JSON)
        assert answer.status_code < 500, (address, answer.text)
        assert answer.is_success or isinstance(answer.json()["error"], str)


def test_the_queue_holds_only_events(served: Running) -> None:
    """After all that: every line reads as an event."""
    path = served.service.queue.path  # type: ignore[union-attr]
    with sqlite3.connect(path) as database:
        lines = [json.loads(line) for (line,) in database.execute("SELECT line FROM events")]
    assert all(isinstance(line["session"], str) and isinstance(line["time"], float) for line in lines)


PIECES = (b"\r\n", b"\x00", b"\xff", b"%00", b"[", b"\\ud83d", b"HTTP/1.0", b"..%2f", b"\r\nhost: b\r\n", b"9" * 400)
BODIES = {
    "/v1/models/counted/predict": b'{"records": [{"values": ["v1", "v2"]}], "k": 3}',
    "/v1/models/counted/figure": b'{"record": {"values": ["v1", "v2"]}}',
    "/v1/events": b'{"session": "s", "item": "a", "time": 1}',
}


def changed(data: bytes, draw: random.Random) -> bytes:
    """One to six places of some bytes are cut out, repeated, replaced, or get a piece of something else."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(found) + 1)
        new, size = [(b"", 9), (bytes(found[at : at + 30]), 0), (bytes([draw.randrange(256)]), 1)][draw.randrange(3)]
        found[at : at + size] = draw.choice((new, draw.choice(PIECES)))
    return bytes(found)


def sent(port: int, data: bytes) -> bytes:
    """What comes back first to these bytes; nothing where more of them are waited for."""
    with socket.create_connection(("127.0.0.1", port), timeout=0.3) as one:
        try:
            one.sendall(data)
            return one.recv(64)
        except OSError:  # too late, or reset
            return b""


def test_changed_bytes_break_no_service(fitted: Path, tmp_path: Path) -> None:
    """300 requests of HTTP whose bytes were changed, in all of it or in the body alone, to the process as it runs."""
    draw, requests = random.Random(0), list[bytes]()
    for number in range(300):
        path, body = draw.choice(list(BODIES.items()))
        body = changed(body, draw) if number % 2 else body
        head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        whole = head.encode() + b"\r\n\r\n" + body
        requests.append(whole if number % 2 else changed(whole, draw))
    process, line = start(fitted / "counted", "--queue", f"sqlite:{tmp_path / 'q.db'}", "--allow-host", "a")
    port = int(line["address"].rsplit(":", 1)[1])
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda data: sent(port, data), requests))
    good = b"GET /readyz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    assert rest(send(port, good)).startswith(b"HTTP/1.1 200 ")
    process.terminate()
    _, err = process.communicate(timeout=60)
    lines = [json.loads(text) for text in err.splitlines()]
    assert process.returncode == 0
    assert [line for line in lines if line.get("status") == 500 or line.get("event") == "failure"] == []
    assert sum(answer.startswith(b"HTTP/1.1 4") for answer in answers) > 50
