"""Questions over HTTP: the answers are the library's own, byte for byte in their JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ensue import History, Post, Text, load
from tests.serve.conftest import Running, running

RECORDS: dict[str, Any] = {
    "clicks": History(("v1", "v2"), (0.0, 5.0), "me"),
    "heat": History(("v1", "v2", "v3"), (0.0, 5.0, 9.0)),
    "counted": History(("v1",)),
    "searches": History(("cheap flights",)),
    "mood": Text(("a good film",)),
    "links": Post("the harbour ferry", "p1"),
}


def close(one: Any, other: Any) -> None:
    """The same structure and texts; numbers up to rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            close(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            close(mine, theirs)
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-6)
    else:
        assert one == other


@pytest.mark.parametrize("name", RECORDS)
def test_predict_is_the_librarys_answer(all_tasks: Running, fitted: Path, name: str) -> None:
    record = RECORDS[name]
    found = all_tasks.post(f"/v1/models/{name}/predict", {"records": [json.loads(record.to_json())], "k": 3})
    assert found.status_code == 200, found.text
    (expected,) = load(fitted / name).predictor_.predict([record], 3)
    close(found.json(), {"answers": [json.loads(expected.to_json())]})


@pytest.mark.parametrize("name", RECORDS)
def test_explain_is_the_librarys_explanation(all_tasks: Running, fitted: Path, name: str) -> None:
    record = RECORDS[name]
    found = all_tasks.post(f"/v1/models/{name}/explain", {"records": [json.loads(record.to_json())], "k": 2})
    assert found.status_code == 200, found.text
    (expected,) = load(fitted / name).explain([record], 2)
    close(found.json(), {"explanations": [json.loads(expected.to_json())]})


def test_evidence_can_be_left_out(all_tasks: Running) -> None:
    body = {"records": [{"values": ["v1", "v2"]}], "k": 2}
    with_it = all_tasks.post("/v1/models/clicks/predict", body).json()["answers"][0]["choices"]
    without = all_tasks.post("/v1/models/clicks/predict", {**body, "evidence": False}).json()["answers"][0]["choices"]
    assert [choice["value"] for choice in with_it] == [choice["value"] for choice in without]
    assert all(choice["attributions"] for choice in with_it)
    assert not any(choice["attributions"] for choice in without)


def test_lists_of_a_request_hold_for_its_records_alone(all_tasks: Running) -> None:
    def values(**lists: list[str]) -> set[str]:
        body = {"records": [{"values": ["v1", "v2"]}] * 2, "k": 12, **lists}
        found = all_tasks.post("/v1/models/clicks/predict", body)
        assert found.status_code == 200, found.text
        one, other = ({choice["value"] for choice in answer["choices"]} for answer in found.json()["answers"])
        assert one == other
        return one

    every = values()
    assert len(every) == 10  # of 12 values those that the history lacks, for hardly any comes again
    assert values(exclude=["v3", "v5", "never seen"]) == every - {"v3", "v5"}
    assert values(allow=["v3", "v5", "never seen"]) == {"v3", "v5"}
    assert values(allow=["v3", "v5"], exclude=["v3"]) == {"v5"}
    assert values(allow=[]) == set()
    assert values() == every
    null = all_tasks.post("/v1/models/clicks/predict", {"records": [{"values": ["v1"]}], "exclude": [None]})
    assert (null.status_code, null.json()["error"]) == (
        422,
        "exclude[0]: None is not an id; leave out events whose id is missing",
    )
    wrong = all_tasks.post("/v1/models/clicks/predict", {"records": [{"values": ["v1"]}], "exclude": "v3"})
    assert (wrong.status_code, "exclude" in wrong.json()["error"]) == (422, True)
    other = all_tasks.post("/v1/models/mood/predict", {"records": [{"texts": ["good"]}], "exclude": ["yes"]})
    assert (other.status_code, "exclude" in other.json()["error"]) == (422, True)


def test_suggestions_begin_with_what_is_typed(all_tasks: Running) -> None:
    body = {"records": [{"values": ["cheap flights"]}] * 2, "k": 5, "prefixes": ["ro", "fl"]}
    first, second = all_tasks.post("/v1/models/searches/predict", body).json()["answers"]
    assert first["choices"] and all(choice["value"].startswith("ro") for choice in first["choices"])
    assert second["choices"] and all(choice["value"].startswith("fl") for choice in second["choices"])
    one = all_tasks.post("/v1/models/searches/predict", {"records": body["records"], "k": 5, "prefix": "ro"}).json()
    assert [answer["choices"][0]["value"] for answer in one["answers"]] == [first["choices"][0]["value"]] * 2


def test_no_records_no_answers(all_tasks: Running) -> None:
    assert all_tasks.post("/v1/models/clicks/predict", {"records": []}).json() == {"answers": []}
    assert all_tasks.post("/v1/models/clicks/explain", {"records": []}).json() == {"explanations": []}


def test_unknown_values_are_welcome(all_tasks: Running) -> None:
    (answer,) = all_tasks.post("/v1/models/clicks/predict", {"records": [{"values": ["v1", "new", 7]}]}).json()[
        "answers"
    ]
    assert (answer["in_vocabulary"], answer["events"]) == (1, 3)


def test_the_list_of_models(all_tasks: Running) -> None:
    found = {model["name"]: model for model in all_tasks.client.get("/v1/models").json()}
    assert {name: model["task"] for name, model in found.items()} == {
        "clicks": "next",
        "heat": "next",
        "counted": "next",
        "searches": "suggest",
        "mood": "classify",
        "links": "link",
    }
    assert found["clicks"]["model"] == "core"
    assert found["clicks"]["version"] == 1
    assert found["mood"]["labels"] == ["no", "yes"]
    assert found["links"]["articles"] == 3


@pytest.mark.parametrize("name", RECORDS)
def test_a_figure_with_words(all_tasks: Running, name: str) -> None:
    body = {"record": json.loads(RECORDS[name].to_json()), "k": 2, "choice": 1}
    found = all_tasks.post(f"/v1/models/{name}/figure", body)
    assert found.status_code == 200, found.text
    assert found.json()["figure"]["data"]
    assert "layout" in found.json()["figure"]
    answers = all_tasks.post(f"/v1/models/{name}/predict", {"records": [body["record"]], "k": 2}).json()["answers"]
    assert answers[0]["choices"][1]["value"] in found.json()["words"]
    if name != "links":
        assert "causes" in found.json()["words"] or "common" in found.json()["words"]


def test_bars_of_a_session_are_its_weights(all_tasks: Running) -> None:
    """CORE has no weights between clicks: a bar a click, beside what the choice loses without it."""
    record = {"values": ["v3", "nobody", "v4", "v3"]}
    drawn = all_tasks.post("/v1/models/clicks/figure", {"record": record}).json()["figure"]["data"]
    (said,) = all_tasks.post("/v1/models/clicks/explain", {"records": [record], "k": 5}).json()["explanations"]
    weights, lost = (series["y"] for series in drawn)
    assert weights == pytest.approx(said["influence"], abs=1e-6)
    losses = {
        attribution["position"]: attribution["score_drop"]
        for attribution in said["answer"]["choices"][0]["attributions"]
    }
    assert lost == pytest.approx([losses[place] for place in (0, 2, 3)], abs=1e-6)


def test_true_edges_are_drawn_where_the_service_knows_them(fitted: Path) -> None:
    record = {"values": ["v3", "v4", "v9", "v5"], "times": [0, 20, 40, 60]}
    edges = {name: frozenset({("v3", "v4"), ("v4", "v5"), ("v5", "v3")}) for name in ("heat", "clicks")}
    with running({name: fitted / name for name in ("heat", "clicks", "counted")}, edges=edges) as own:
        for name in ("heat", "clicks"):
            found = own.post(f"/v1/models/{name}/figure", {"record": record}).json()
            (true,) = (trace for trace in found["figure"]["data"] if trace["name"] == "true edge")
            assert true["y"] == [0, 1, None, 1, 3, None]
            assert "Dotted: 2 true edges between these." in found["words"]
        assert "1 event attended most" in own.post("/v1/models/heat/figure", {"record": record}).json()["words"]
        found = own.post("/v1/models/counted/figure", {"record": record}).json()
        assert "Dotted" not in found["words"]


def test_a_choice_that_is_not_there(all_tasks: Running) -> None:
    found = all_tasks.post("/v1/models/mood/figure", {"record": {"texts": ["a good film"]}, "choice": 9})
    assert found.status_code == 422
    assert found.json()["error"] == 'field "choice" is 9, but the answer has 2 choices, counted from 0'


def test_nothing_to_draw(all_tasks: Running) -> None:
    for name, record in (("mood", {"texts": [""]}), ("links", {"text": ""})):
        found = all_tasks.post(f"/v1/models/{name}/figure", {"record": record})
        assert (found.status_code, "to draw" in found.json()["error"]) == (422, True)
    assert all_tasks.post("/v1/models/clicks/figure", {"record": {"values": []}}).status_code == 200
