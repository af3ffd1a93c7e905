"""Updates over HTTP that are sent twice, or that nobody waits for any more: each is learned once, or not at all."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from ensue.serve.bodies import KEY_LENGTH
from ensue.serve.learning import KEYS
from ensue.store import versions
from ensue.store.folder import read_settings
from tests.processes import PYTHON
from tests.serve.conftest import running
from tests.serve.test_server import start

BODY: dict[str, Any] = {"records": [{"values": ["v1", "v2"]}, {"values": ["v2", "brand new"]}]}
PATH = "/v1/models/clicks/update"


def learned(folder: Path) -> int:
    """Histories that a folder has learned."""
    return int(read_settings(folder)["facts"]["sequences"])


@pytest.mark.usefixtures("at_hand")
def test_an_update_under_a_key_is_learned_once(folder: Path) -> None:
    before = learned(folder)
    with running({"clicks": folder}) as service:
        first = service.post(PATH, BODY, headers={"idempotency-key": "one"})
        assert first.status_code == 200, first.text
        # the same in other words: fields in another order, the key in the quotes of a structured field
        turned = {"test": True, "records": [dict(reversed(record.items())) for record in BODY["records"]]}
        for body in (BODY, {"records": turned["records"]}):
            again = service.post(PATH, body, headers={"idempotency-key": '"one"'})
            assert (again.status_code, again.json()) == (200, first.json())
            assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
        other = service.post(PATH, turned, headers={"idempotency-key": "one"})
        assert (other.status_code, "was used for another body" in other.json()["error"]) == (422, True)
        assert (learned(folder), versions.current(folder)) == (before + 2, 2)
        assert service.service.metrics.updates.labels("clicks")._value.get() == 1
        for key in ({"idempotency-key": "two"}, {}, {}):
            assert service.post(PATH, BODY, headers=key).status_code == 200
        assert (learned(folder), versions.current(folder)) == (before + 8, 5)


@pytest.mark.usefixtures("at_hand")
def test_a_folder_keeps_digests_of_its_latest_keys(folder: Path) -> None:
    with running({"clicks": folder}, update_token="writes") as service:
        for number in range(KEYS + 2):
            headers = {"idempotency-key": f"a private key {number}", "x-api-key": "writes"}
            assert service.post(PATH, {**BODY, "test": False}, headers=headers).status_code == 200
    text = (folder / "settings.json").read_text() + (folder / "CARD.md").read_text()
    assert "private" not in text
    kept = read_settings(folder)["facts"]["answered"]
    assert [own["answer"]["version"] for own in kept] == list(range(4, KEYS + 4))
    assert f"- answered: {KEYS} latest updates by their Idempotency-Key" in text


@pytest.mark.usefixtures("at_hand")
def test_a_version_that_is_put_back_knows_the_keys_of_its_time(folder: Path) -> None:
    before = learned(folder)
    with running({"clicks": folder}) as service:
        assert service.post(PATH, BODY, headers={"idempotency-key": "one"}).status_code == 200
        versions.roll_back(folder)
        assert learned(folder) == before
        again = service.post(PATH, BODY, headers={"idempotency-key": "one"})
        assert (again.status_code, "idempotent-replayed" in again.headers) == (200, False)
    assert learned(folder) == before + 2


@pytest.mark.parametrize("key", ["", '""', "a" * (KEY_LENGTH + 1), "caf\u00e9".encode(), "a\tb"])
def test_keys_that_are_none(fitted: Path, key: Any) -> None:
    with running({"clicks": fitted / "clicks"}) as service:
        found = service.post(PATH, BODY, headers={"idempotency-key": key})
        assert (found.status_code, "Idempotency-Key must be one text" in found.json()["error"]) == (400, True)
        pair = [("idempotency-key", "a"), ("idempotency-key", "b")]
        assert service.post(PATH, BODY, headers=pair).status_code == 400


def test_what_nobody_waits_for_is_not_learned(folder: Path) -> None:
    """The learning process of a service that is killed ends too: its stdin ends, and nothing else is told it."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    body = json.dumps(BODY).encode()
    head = json.dumps({"folder": str(folder), "keep": 5, "key": "", "bytes": len(body)}).encode()
    command = [PYTHON, "-m", "ensue.serve.learning"]
    found = subprocess.run(command, input=head + b"\n" + body, capture_output=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (1, b"")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def ask(port: int) -> HTTPConnection:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": "application/json", "idempotency-key": "one"}
    connection.request("POST", PATH, json.dumps(BODY), headers)
    return connection


def test_a_service_that_is_killed_between_update_and_answer(folder: Path) -> None:
    """The folder has changed, the client knows nothing; it sends the same again and hears what came of it."""
    before = learned(folder)
    for kills in (True, False):
        process, line = start(folder)
        connection = ask(int(line["address"].rsplit(":", 1)[1]))
        try:
            end = time.monotonic() + 60
            while kills and versions.current(folder) == 1 and time.monotonic() < end:
                time.sleep(0.002)
            if kills:
                process.send_signal(signal.SIGKILL)
                with pytest.raises(OSError):
                    connection.getresponse()
            else:
                answer = connection.getresponse()
                assert (answer.status, json.load(answer)["version"]) == (200, 2)
                assert answer.headers["idempotent-replayed"] == "true"
        finally:
            connection.close()
            process.kill()
            process.communicate(timeout=30)
    assert (versions.current(folder), learned(folder)) == (2, before + 2)


LONG: dict[str, tuple[dict[str, Any], str]] = {
    "clicks": ({"records": [{"values": ["v1", "v" * 1001]}]}, "records[0]: 1,001 characters are more than the 1,000"),
    "mood": (
        {"records": [{"texts": ["a"], "label": "yes"}, {"texts": ["a " * 2001], "label": "yes"}]},
        "records[1]: 2,001 words are more than the 2,000 of a record",
    ),
    "searches": ({"records": [{"values": ["a", "b"]}], "users": ["u" * 1001]}, 'field "users": a name has more than'),
    "links": (
        {"records": [], "articles": [{"body": "a" * 200_000, "id": "n"}]},
        "articles[0]: 200,001 characters are more than the 200,000 of an article",
    ),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.usefixtures("at_hand")
def test_an_update_has_the_limits_of_other_requests(fitted: Path, name: str) -> None:
    body, error = LONG[name]
    with running({name: fitted / name}) as service:
        found = service.post(f"/v1/models/{name}/update", body)
        assert (found.status_code, error in found.json()["error"]) == (422, True), found.text
