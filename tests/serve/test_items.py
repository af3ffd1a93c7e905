"""Items of an item table over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensue import NextEvent
from tests.serve.conftest import running
from tests.tasks.next.test_item_features import TABLE, sessions

PATH = "/v1/models/shop/update"
NEW = {"sku": "boat99", "title": "The fast boat", "topic": "boat", "price": 3.5, "added": "2024-01-12"}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "items.csv").write_text(TABLE)
    model = NextEvent("core", dim=8, epochs=1, refit=False).fit(sessions(1, 60), items=tmp_path / "items.csv")
    model.save(tmp_path / "shop")
    return tmp_path / "shop"


@pytest.mark.usefixtures("at_hand")
def test_new_items_are_answers_at_once(shop: Path) -> None:
    with running({"shop": shop}) as service:
        updated = service.post(PATH, {"records": [], "items": [NEW, {**NEW, "sku": 7, "title": None}]})
        assert (updated.status_code, updated.json()["version"]) == (200, 2)
        answer = service.post("/v1/models/shop/predict", {"records": [{"values": ["boat1"]}], "k": 40}).json()
        titles = {choice["value"]: choice.get("title") for choice in answer["answers"][0]["choices"]}
        assert titles["boat99"] == "The fast boat" and titles["7"] is None
        both = service.post(PATH, {"records": [{"values": ["boat99", "boat1"]}], "items": [{**NEW, "sku": "b2"}]})
        assert (both.status_code, both.json()["version"]) == (200, 3)


@pytest.mark.usefixtures("at_hand")
def test_items_that_do_not_fit_are_refused(shop: Path) -> None:
    with running({"shop": shop}) as service:
        for items, words in (
            ([{"sku": "boat99"}], "items: column 'title' is missing"),
            ([NEW, {**NEW, "price": 4}], "item 'boat99' has other values than in items row 1"),
            ([{**NEW, "price": "cheap"}], "price 'cheap' is not a number"),
            ([NEW, {**NEW, "price": True}], "items[1] must be a text"),
            ([{**NEW, "title": "x" * 10**6}], "items[0]: 1,000,046 characters are more than"),
        ):
            refused = service.post(PATH, {"records": [], "items": items})
            assert (refused.status_code, words in refused.json()["error"]) == (422, True), refused.text
        assert service.post(PATH, {"records": [], "items": []}).status_code == 422


def test_similar_items_by_rules_and_lists(shop: Path) -> None:
    with running({"shop": shop}) as service:
        path = "/v1/models/shop/similar"
        answers = service.post(path, {"items": ["tea1", "boat1"], "k": 3}).json()["answers"]
        assert [answer["id"] for answer in answers] == ["tea1", "boat1"] and len(answers[0]["choices"]) == 3
        expected = NextEvent.load(shop).similar(["tea1"], k=3)[0]
        assert [choice["value"] for choice in answers[0]["choices"]] == [choice.value for choice in expected]
        filtered = service.post(path, {"items": ["tea1"], "filters": ['topic == "boat"'], "exclude": ["boat1"]}).json()
        found = [choice["value"] for choice in filtered["answers"][0]["choices"]]
        assert found and all(value.startswith("boat") for value in found) and "boat1" not in found
        service.client.put("/v1/models/shop/lists/gone", json={"items": found})
        listed = service.post(path, {"items": ["tea1"], "k": 40, "exclude_lists": ["gone"]}).json()
        assert not {*found} & {choice["value"] for choice in listed["answers"][0]["choices"]}
        for body, words in (
            ({"items": ["tea11111"]}, "is not an item of the model"),
            ({"items": "tea1"}, '"items" must be a list'),
            ({"items": ["tea1"], "k": 0}, '"k" must be a whole number'),
            ({"items": ["tea1"] * 100_000}, '"items" must be'),
            ({"items": ["tea1"], "filters": ["colour == 1"]}, "no column"),
        ):
            refused = service.post(path, body)
            assert (refused.status_code, words in refused.json()["error"]) == (422, True), refused.text


def test_other_tasks_compare_no_items(fitted: Path) -> None:
    with running({"mood": fitted / "mood", "counted": fitted / "counted"}) as service:
        refused = service.post("/v1/models/mood/similar", {"items": ["a"]})
        assert refused.status_code == 422 and "compares no items" in refused.json()["error"]
        counted = service.post("/v1/models/counted/similar", {"items": ["v3"], "k": 2}).json()["answers"][0]
        assert {choice["value"] for choice in counted["choices"]} == {"v2", "v4"}
