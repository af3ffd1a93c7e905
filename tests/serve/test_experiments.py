"""Experiments over HTTP: assignment, interleaving, and the file of shown lists."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensue import History, SettingError
from ensue.answers import Answer, VariantAnswer
from ensue.client import Client
from ensue.experiments import Experiment, pseudonym
from ensue.serve.experiments import require_experiments
from tests.serve.conftest import Running, running

SPLIT = Experiment("home", {"clicks": 0.5, "counted": 0.5})
MIXED = Experiment("mixed", {"clicks": 0.5, "counted": 0.5}, interleaved=True)


@pytest.fixture(scope="module")
def shown() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def service(fitted: Path, shown: io.StringIO) -> Iterator[Running]:
    folders = {name: fitted / name for name in ("clicks", "counted", "mood")}
    with running(folders, experiments=(SPLIT, MIXED), shown=shown) as found:
        yield found


def asked(service: Running, name: str, records: list[dict[str, Any]], **more: Any) -> Any:
    reply = service.post(f"/v1/models/{name}/predict", {"records": records, "k": 4, "evidence": False, **more})
    return reply.json()["answers"] if reply.status_code == 200 else (reply.status_code, reply.json()["error"])


def lines(service: Running, shown: io.StringIO) -> list[dict[str, Any]]:
    assert service.service.shown is not None and service.client.portal is not None
    service.client.portal.call(asyncio.to_thread, service.service.shown.flush)
    return [json.loads(line) for line in shown.getvalue().splitlines()]


def test_sessions_are_answered_by_their_variant(service: Running, shown: io.StringIO) -> None:
    records: list[dict[str, Any]] = [{"values": [f"v{at % 12}"], "id": f"s{at}"} for at in range(40)]
    answers = asked(service, "home", records)
    assert {answer["variant"] for answer in answers} == {"clicks", "counted"}
    for record, answer in zip(records, answers, strict=True):
        variant = answer.pop("variant")
        assert variant == SPLIT.variant(record["id"])
        (alone,) = asked(service, variant, [record])
        # A batch rounds otherwise.
        assert [choice["value"] for choice in answer["choices"]] == [choice["value"] for choice in alone["choices"]]
    written = lines(service, shown)[-40:]
    for record, answer, line in zip(records, answers, written, strict=True):
        assert line["ranking"] == [choice["value"] for choice in answer["choices"]] and line["share"] == 0.5
        assert line["unit"] == pseudonym("home", record["id"]) and line["experiment"] == "home"
        # Nothing that the request says of the session is written.
        assert {*line} == {"time", "experiment", "unit", "variant", "share", "ranking"}
    (logged,) = [line for line in service.lines() if line.get("variants") and line["records"] == 40]
    assert sum(logged["variants"].values()) == 40 and {*logged["variants"]} == {"clicks", "counted"}
    # The request may name the variant.
    assert asked(service, "home", records[:2], variant="counted")[1]["variant"] == "counted"


def test_interleaved_lists_name_the_model_of_each_item(service: Running, shown: io.StringIO) -> None:
    (answer,) = asked(service, "mixed", [{"values": ["v3"], "id": "s1"}])
    assert answer["variant"] == "interleave" and len(answer["choices"]) == 4
    assert sorted(answer["sources"]) == ["clicks", "clicks", "counted", "counted"]
    values = [choice["value"] for choice in answer["choices"]]
    assert len({*values}) == 4
    for model in ("clicks", "counted"):
        (alone,) = asked(service, model, [{"values": ["v3"], "id": "s1"}])
        order = [choice["value"] for choice in alone["choices"]]
        own = [value for value, source in zip(values, answer["sources"], strict=True) if source == model]
        assert [order.index(value) for value in own if value in order] == sorted(map(order.index, own))
    assert asked(service, "mixed", [{"values": ["v3"], "id": "s1"}]) == [answer]
    line = lines(service, shown)[-1]
    assert (line["variant"], line["sources"], line["ranking"]) == ("interleave", answer["sources"], values)


def test_a_label_of_the_client_is_logged_with_a_model(service: Running, shown: io.StringIO) -> None:
    (answer,) = asked(service, "counted", [{"values": ["v3"], "id": "s1"}], variant="blue")
    assert answer["variant"] == "blue" and lines(service, shown)[-1]["variant"] == "blue"


@pytest.mark.parametrize(
    ("name", "body", "status", "error"),
    [
        ("home", {"records": [{"values": ["v1"]}]}, 422, 'records[0]: field "id" is missing'),
        (
            "home",
            {"records": [{"values": ["v1"], "id": "s"}], "variant": "x"},
            422,
            "experiment home has clicks, counted",
        ),
        ("mixed", {"records": [{"values": ["v1"], "id": "s"}], "variant": "clicks"}, 422, "mixed has interleave"),
        (
            "mixed",
            {"records": [{"values": ["v1"], "id": "s"}], "max_per": {"a": 1}},
            422,
            'field "max_per": lists of two',
        ),
        ("counted", {"records": [], "now": 1700000000000}, 422, "now is 1700000000000.0; give seconds since 1970, not"),
        ("counted", {"records": [], "variant": "a b"}, 422, 'field "variant" must be a name of at most 64'),
        ("counted", {"records": [], "variant": "a" * 65}, 422, 'field "variant" must be a name of at most 64'),
        ("mood", {"records": [], "variant": "a"}, 422, "field 'variant' is not known"),
        ("other", {"records": []}, 404, "other"),
    ],
)
def test_wrong_requests_are_refused(service: Running, name: str, body: dict[str, Any], status: int, error: str) -> None:
    reply = service.post(f"/v1/models/{name}/predict", body)
    assert reply.status_code == status and error in reply.json()["error"]


@pytest.mark.parametrize("verb", ["similar", "explain", "figure", "update"])
def test_an_experiment_only_predicts(service: Running, verb: str) -> None:
    reply = service.post(f"/v1/models/home/{verb}", {"records": [{"values": ["v1"], "id": "s1"}]})
    assert reply.status_code == 422 and reply.json()["error"] == "'home' is an experiment, which only predicts"
    assert "clicks, counted" in str(reply.json())


def test_clients_return_the_variant(service: Running) -> None:
    client = Client("http://127.0.0.1:1", retries=0)
    client.http = service.client
    (answer,) = client.predict("mixed", [History(("v3",), id="s1")], k=2)
    assert isinstance(answer, VariantAnswer) and answer.variant == "interleave" and len(answer.sources) == 2
    (answer,) = client.predict("counted", [History(("v3",), id="s1")], k=2, variant="blue")
    assert isinstance(answer, VariantAnswer) and answer.variant == "blue"
    (answer,) = client.predict("counted", [["v3"]], k=2)
    assert type(answer) is Answer


@pytest.mark.parametrize(
    ("experiment", "error"),
    [
        (Experiment("clicks", {"clicks": 0.5, "counted": 0.5}), "a model has this name"),
        (Experiment("home", {"clicks": 0.5, "absent": 0.5}), "no model is named 'absent'"),
        (Experiment("home", {"clicks": 0.5, "mood": 0.5}), "model mood answers classify"),
    ],
)
def test_wrong_experiments_are_refused(fitted: Path, experiment: Experiment, error: str) -> None:
    folders = {name: fitted / name for name in ("clicks", "counted", "mood")}
    with pytest.raises(SettingError, match=error):
        require_experiments([experiment], folders)
