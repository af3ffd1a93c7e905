"""Who may ask, from where, and what every answer carries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ensue import SettingError
from ensue.data.histories import Histories
from ensue.predictor import make
from ensue.serve.events import open_queue
from ensue.serve.limits import HEADERS, is_local
from ensue.serve.server import run
from tests.serve.conftest import Running, running, sessions

TOKEN = "a long secret that nobody knows"
ASK = {"records": [{"values": ["v1"]}]}


@pytest.fixture(scope="module")
def closed(fitted: Path) -> Iterator[Running]:
    """A service with a token and a name."""
    with running({"counted": fitted / "counted"}, token=TOKEN, hosts=("testserver", "news.example")) as found:
        yield found


def test_with_the_token(closed: Running) -> None:
    for headers in ({"authorization": f"Bearer {TOKEN}"}, {"authorization": f"bearer {TOKEN}"}, {"x-api-key": TOKEN}):
        assert closed.post("/v1/models/counted/predict", ASK, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "a token is needed"),
        ({"authorization": "Bearer "}, "a token is needed"),
        ({"authorization": f"Bearer {TOKEN}x"}, "the token is wrong"),
        ({"authorization": f"Bearer {TOKEN[:-1]}"}, "the token is wrong"),
        ({"authorization": f"Basic {TOKEN}"}, "a token is needed"),
        ({"x-api-key": "guess"}, "the token is wrong"),
        ({"authorization": b"Bearer \xff\xfe"}, "the token is wrong"),
    ],
)
def test_without_it(closed: Running, given: dict[str, str], error: str) -> None:
    for address in ("/v1/models/counted/predict", "/v1/models/nobody/predict", "/v1/events"):
        found = closed.post(address, ASK, headers=given)
        assert (found.status_code, found.json()["error"]) == (401, error)
        assert found.headers["www-authenticate"] == 'Bearer realm="ensue"'
    for address in ("/v1/models", "/metrics", "/openapi.json", "/v1/story", "/anything"):
        assert closed.client.get(address, headers=given).status_code == 401


def test_probes_and_the_page_are_free(closed: Running) -> None:
    for address in ("/healthz", "/readyz", "/page/plotly.min.js"):
        assert closed.client.get(address).status_code == 200


def test_a_host_that_is_not_ours(closed: Running) -> None:
    """A page elsewhere that points its name at this machine is not let in."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    found = closed.client.get("/v1/models", headers={**headers, "host": "evil.example"})
    assert (found.status_code, found.json()["error"]) == (403, "this Host is not allowed")
    for host in ("news.example", "NEWS.example:8443", "testserver:80"):
        assert closed.client.get("/v1/models", headers={**headers, "host": host}).status_code == 200


def test_other_origins_are_refused(closed: Running) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    for origin in ("https://evil.example", "null", "http://testserver.evil.example", "http://localhost:3000"):
        found = closed.post("/v1/models/counted/predict", ASK, headers={**headers, "origin": origin})
        assert (found.status_code, found.json()["error"]) == (403, "requests from other origins are refused")
        assert not [name for name in found.headers if name.startswith("access-control")]
    for origin in ("http://testserver", "https://news.example"):
        assert closed.post("/v1/models/counted/predict", ASK, headers={**headers, "origin": origin}).status_code == 200


def test_every_answer_is_kept_to_itself(closed: Running) -> None:
    answers = [closed.client.get(address) for address in ("/", "/page/plotly.min.js", "/healthz", "/v1/models", "/no")]
    for found in answers:
        for name, value in HEADERS.items():
            assert found.headers[name] == value, name
    policy = answers[0].headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe-eval" not in policy and "http" not in policy
    assert "script-src" not in policy  # it falls back to default-src: none inline, none from elsewhere
    assert answers[2].headers["cache-control"] == "no-store"
    assert "server" not in answers[0].headers


def test_addresses_of_this_machine() -> None:
    assert [is_local(host) for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1")] == [True] * 4
    assert [is_local(host) for host in ("0.0.0.0", "::", "10.0.0.1", "ensue.example", "")] == [False] * 5


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://[x]", "//]["])
def test_an_origin_that_is_no_address(closed: Running, origin: str) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "origin": origin}
    found = closed.post("/v1/models/counted/predict", ASK, headers=headers)
    assert (found.status_code, found.json()["error"]) == (400, "the Origin is no address")


def test_two_hosts(closed: Running) -> None:
    """A proxy that looks at one and a service that looks at the other would disagree on who is asked."""
    twice = [("authorization", f"Bearer {TOKEN}"), ("host", "testserver"), ("host", "evil.example")]
    found = closed.client.get("/v1/models", headers=twice)
    assert (found.status_code, found.json()["error"]) == (400, "the request names several Hosts")


@pytest.fixture(scope="module")
def divided(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a token that asks and another one that writes."""
    queue = open_queue(str(tmp_path_factory.mktemp("queue") / "q.db"))
    with running({"counted": fitted / "counted"}, token=TOKEN, update_token="it writes", queue=queue) as found:
        yield found


EVENT = {"session": "s", "item": "v1", "time": 1_700_000_000}
LEARN = {"records": [{"values": ["v1", "v2"]}]}
UPDATE = "/v1/models/counted/update"


def test_the_token_that_asks_does_not_write(divided: Running) -> None:
    asks, writes = {"x-api-key": TOKEN}, {"authorization": "Bearer it writes"}
    for headers, status in ((asks, 200), (writes, 200), ({}, 401), ({"x-api-key": "guess"}, 401)):
        assert divided.post("/v1/models/counted/predict", ASK, headers=headers).status_code == status
    for path, body in (("/v1/events", EVENT), (UPDATE, LEARN), (UPDATE, {})):
        found = divided.post(path, body, headers=asks)
        assert (found.status_code, found.json()["error"]) == (403, "updates and events need the update token")
        assert divided.post(path, body).status_code == 401
    assert divided.post("/v1/events", EVENT, headers=writes).json() == {"accepted": 1, "passed_over": 0}
    assert divided.post(UPDATE, {"records": []}, headers=writes).status_code == 422, "nothing to learn"
    text = str(divided.lines()) + divided.client.get("/metrics", headers=asks).text
    text += divided.client.get("/openapi.json", headers=asks).text
    assert TOKEN not in text and "it writes" not in text


@pytest.mark.parametrize("body", [{"test": False}, {"max_drop": 0.06}, {"max_drop": 0.999}])
def test_only_the_update_token_leaves_out_the_test(fitted: Path, body: dict[str, object]) -> None:
    for tokens in ({}, {"token": TOKEN}):
        with running({"counted": fitted / "counted"}, **tokens) as service:  # type: ignore[arg-type]
            found = service.post(UPDATE, {**LEARN, **body}, headers={"x-api-key": TOKEN})
            assert (found.status_code, "need the update token" in found.json()["error"]) == (403, True)


@pytest.mark.usefixtures("at_hand")
def test_what_cannot_be_tested_is_learned_only_without_a_test(tmp_path: Path) -> None:
    made = make("next", "markov", settings={"replay": 0}, device="cpu")
    for _ in made.fit(Histories.of(sessions())):
        pass
    made.save(tmp_path / "counted", "card")
    headers = {"x-api-key": "it writes"}
    with running({"counted": tmp_path / "counted"}, update_token="it writes") as service:
        found = service.post(UPDATE, LEARN, headers=headers)
        assert (found.status_code, "it cannot be tested" in found.json()["error"]) == (409, True)
        assert service.post(UPDATE, {**LEARN, "test": False}, headers=headers).json()["version"] == 2


def test_tokens_are_two(fitted: Path) -> None:
    with pytest.raises(SettingError, match=r"^ENSUE_UPDATE_TOKEN is the same as ENSUE_TOKEN"):
        run({"counted": fitted / "counted"}, token=TOKEN, update_token=TOKEN, port=0)
    with pytest.raises(SettingError, match=r"^ENSUE_UPDATE_TOKEN must be plain ASCII"):
        run({"counted": fitted / "counted"}, update_token=" spaced", port=0)
