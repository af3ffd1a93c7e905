"""What the service shows of itself: metrics, logs, its document, its page; and what becomes of its own faults."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensue import SettingError
from ensue.serve.files import Files
from ensue.serve.monitoring import ServiceLog
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import TaskService
from tests.serve.conftest import Running, running

SECRET = "a very private value"


@pytest.fixture
def counted(fitted: Path) -> Iterator[Running]:
    with running({"counted": fitted / "counted"}) as found:
        yield found


def value(text: str, name: str) -> float:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.rsplit(" ", 1)[1])


def test_metrics_count(counted: Running) -> None:
    body = {"records": [{"values": ["v1"]}] * 3}
    for _ in range(2):
        counted.post("/v1/models/counted/predict", body)
    counted.post("/v1/models/nobody/predict", body)
    counted.client.get("/somewhere/else")
    found = counted.client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    route = 'route="/v1/models/{name}/predict"'
    assert value(found.text, f'ensue_requests_total{{method="POST",{route},status="200"}}') == 2
    assert value(found.text, f'ensue_requests_total{{method="POST",{route},status="404"}}') == 1
    assert value(found.text, 'ensue_requests_total{method="GET",route="other",status="404"}') == 1
    assert value(found.text, f"ensue_request_seconds_count{{{route}}}") == 3
    assert value(found.text, 'ensue_records_total{model="counted",verb="predict"}') == 6
    assert value(found.text, 'ensue_batch_records_sum{model="counted"}') == 6
    assert value(found.text, 'ensue_asked_values_total{model="counted"}') == 6
    assert value(found.text, 'ensue_model_version{model="counted"}') == 1
    assert value(found.text, 'ensue_waiting_records{model="counted"}') == 0


def test_a_line_a_request_and_no_word_of_it(counted: Running) -> None:
    body = {"records": [{"values": ["v1", SECRET], "id": SECRET}]}
    assert counted.post("/v1/models/counted/predict?note=secret", body).status_code == 200
    counted.post("/v1/models/counted/predict", {"records": [{"values": [SECRET], SECRET: 1}]})
    counted.client.post("/v1/models/counted/predict", content=SECRET, headers={"content-type": "application/json"})
    counted.client.get(f"/{SECRET}", headers={"authorization": f"Bearer {SECRET}", "referer": SECRET})
    lines = counted.lines()
    assert len(lines) == 4
    assert [(line["method"], line["route"], line["status"], line["records"]) for line in lines] == [
        ("POST", "/v1/models/{name}/predict", 200, 1),
        ("POST", "/v1/models/{name}/predict", 422, 0),
        ("POST", "/v1/models/{name}/predict", 400, 0),
        ("GET", "other", 404, 0),
    ]
    assert all(set(line) == {"time", "method", "route", "status", "ms", "records"} for line in lines)
    assert all(line["ms"] > 0 and line["time"].endswith("+00:00") for line in lines)
    text = counted.written.getvalue()
    assert SECRET not in text and "secret" not in text and "private" not in text


def test_a_fault_of_ours_is_one_line_that_tells_nothing(counted: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> list[str]:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(TaskService, "answer", fail)
    found = counted.post("/v1/models/counted/predict", {"records": [{"values": [SECRET]}]})
    assert (found.status_code, found.json()) == (
        500,
        {"error": "something went wrong in the service; its log says where"},
    )
    assert found.headers["x-content-type-options"] == "nosniff"
    failure, request = counted.lines()
    assert (failure["error"], request["status"]) == ("ZeroDivisionError", 500)
    assert any(place.startswith("test_looks.py:") for place in failure["at"])
    assert SECRET not in counted.written.getvalue()


def test_too_late_and_too_many(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the thread is held, one request waits in vain (503), and more than fit into the queue are refused (429)."""
    entered, go_on = threading.Event(), threading.Event()
    answer = TaskService.answer

    def slow(*arguments: Any) -> Any:
        entered.set()
        assert go_on.wait(20)
        return answer(*arguments)

    limits: dict[str, Any] = {"patience": 1.0, "waiting": 3, "records": 3}
    with running({"counted": fitted / "counted"}, **limits) as service:
        monkeypatch.setattr(TaskService, "answer", slow)
        body = {"records": [{"values": ["v1"]}] * 2}
        found: list[Any] = []

        def client() -> None:
            found.append(service.post("/v1/models/counted/predict", body))

        threads = [threading.Thread(target=client) for _ in range(3)]
        threads[0].start()
        assert entered.wait(20)
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join()
        ready = service.client.get("/readyz")
        assert (ready.status_code, ready.json()["error"]) == (503, "not ready: counted does not answer")
        go_on.set()
        assert sorted(one.status_code for one in found) == [429, 503, 503]
        assert all(one.headers["retry-after"] == "1" for one in found)
        errors = {one.json()["error"] for one in found}
        assert errors == {
            "model 'counted' has a full queue (2 more records)",
            "model 'counted' did not answer within 1 s",
        }
        assert service.post("/v1/models/counted/predict", body).status_code == 200
        assert service.client.get("/readyz").status_code == 200


def test_alive_and_ready(counted: Running) -> None:
    assert counted.client.get("/healthz").json() == {"status": "alive"}
    assert counted.client.get("/readyz").json() == {"status": "ready"}
    counted.service.stopping = True
    assert counted.client.get("/readyz").status_code == 503
    assert counted.client.get("/healthz").status_code == 200


def test_the_document(counted: Running) -> None:
    """Every body has an example, the schemas are the records', and the token is named."""
    found = counted.client.get("/openapi.json").json()
    bodies = {
        path: operation["requestBody"]["content"]["application/json"]
        for path, methods in found["paths"].items()
        for operation in methods.values()
        if "requestBody" in operation
    }
    assert set(bodies) == {
        *(f"/v1/models/{{name}}/{verb}" for verb in ("predict", "explain", "figure", "similar", "update")),
        "/v1/models/{name}/lists/{list}",
        "/v1/events",
    }
    assert all(body["examples"] and body["schema"] for body in bodies.values())
    assert set(found["components"]["schemas"]["History"]["properties"]) == {"values", "times", "id"}
    assert "LinkExplanation" in found["components"]["schemas"]
    assert found["components"]["securitySchemes"] == {
        name: {"type": "http", "scheme": "bearer", "description": f"{variable} of the service"}
        for name, variable in (("token", "ENSUE_TOKEN"), ("update token", "ENSUE_UPDATE_TOKEN"))
    }
    text = json.dumps(found)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in found["components"]["schemas"]


def test_the_examples_are_answered(all_tasks: Running) -> None:
    models = {"next": "clicks", "suggest": "searches", "classify": "mood", "link": "links"}
    found = all_tasks.client.get("/openapi.json").json()["paths"]
    for verb in ("predict", "explain", "figure"):
        content = found[f"/v1/models/{{name}}/{verb}"]["post"]["requestBody"]["content"]["application/json"]
        for name, example in content["examples"].items():  # "next", or "next, without some"
            said = all_tasks.post(f"/v1/models/{models[name.split(',')[0]]}/{verb}", example["value"])
            assert said.status_code == 200, (verb, name, said.text)


def test_a_story(fitted: Path) -> None:
    with running({"counted": fitted / "counted"}, story=b'{"title": "a bridge"}') as service:
        assert service.client.get("/v1/story").json() == {"title": "a bridge"}
    with running({"counted": fitted / "counted"}) as service:
        found = service.client.get("/v1/story")
        assert (found.status_code, found.json()["error"]) == (404, "this service has no demo scenario")


def test_the_page_and_its_files(fitted: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "index.html").write_text("<p>a page</p>")
    (tmp_path / "parts" / "one.js").write_text("let one = 1;")
    (tmp_path / "notes.txt").write_text("not for show")
    with running({"counted": fitted / "counted"}, files=Files(tmp_path)) as service:
        index = service.client.get("/")
        assert (index.text, index.headers["content-type"]) == ("<p>a page</p>", "text/html; charset=utf-8")
        script = service.client.get("/page/parts/one.js")
        assert (script.text, script.headers["content-type"]) == ("let one = 1;", "text/javascript; charset=utf-8")
        assert service.client.get("/page/notes.txt").status_code == 404
        again = service.client.get("/", headers={"if-none-match": index.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_plotly_comes_from_here(counted: Running) -> None:
    packed = counted.client.get("/page/plotly.min.js", headers={"accept-encoding": "gzip"})
    plain = counted.client.get("/page/plotly.min.js", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text
    assert "plotly.js v" in plain.text[:400]
    assert int(packed.headers["content-length"]) < len(gzip.compress(plain.content, 1))


def test_settings_without_meaning() -> None:
    for name in ("body_bytes", "records", "batch", "depth", "connections"):
        with pytest.raises(SettingError, match=rf"^{name} is 0; it must be at least 1$"):
            ServeSettings(**{name: 0})  # type: ignore[arg-type]
    for name in ("patience", "hung"):
        with pytest.raises(SettingError, match=rf"^{name} is 0; it must be above 0$"):
            ServeSettings(**{name: 0})  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"^grace is -1; it must be 0 or more$"):
        ServeSettings(grace=-1)
    with pytest.raises(SettingError, match=r"^patience is nan"):
        ServeSettings(patience=float("nan"))
    with pytest.raises(SettingError, match="records is 9, more than the 4 allowed in the queue"):
        ServeSettings(records=9, waiting=4)


def test_control_characters_reach_no_log() -> None:
    written = io.StringIO()
    ServiceLog(written).event("load_failed", error="a\x1b[2J\x9b31m\u2028b")
    (line,) = written.getvalue().splitlines()
    assert line.isprintable() and line.isascii()
    assert json.loads(line)["error"] == "a\x1b[2J\x9b31m\u2028b"


def test_a_log_that_cannot_be_written_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    async def log_request() -> None:
        log.entry(method="GET", route="/", status=200)

    log = ServiceLog(Gone())
    log.event("swapped")
    # A thread of its own: a browser of other tests may have left an event loop running in this one.
    requests = threading.Thread(target=lambda: asyncio.run(log_request()))
    requests.start()
    requests.join()
    log.flush()
    written = io.StringIO()
    monkeypatch.setattr(log, "_stream", written)
    log.event("swapped")
    assert json.loads(written.getvalue())["event"] == "swapped"
