"""Who may ask, from where, and what every answer carries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ensue.serve.guard import HEADERS, is_local
from tests.serve.conftest import Running, running

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
    for address in ("/v1/models/counted/predict", "/v1/models/nobody/predict", "/v1/events", "/api/session/recommend"):
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
    assert (found.status_code, found.json()["error"]) == (403, "this service does not go by that Host")
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
