"""Rules by columns of the item table, in Python, on the command line and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ensue import DataError, NextEvent
from ensue.tasks.next import infer
from tests.cli.conftest import Ensue
from tests.serve.conftest import Running, running

NOW = 1_717_200_000.0
"""2024-06-01."""
ITEMS = [
    {
        "item": f"i{number}",
        "category": ("Shoes", "boots", "hats|sale", "")[number % 4],
        "price": "" if number % 7 == 0 else str(number),
        "published": f"2024-05-{1 + number % 28:02d}",
        "list price": str(100 - number),
    }
    for number in range(40)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop")
    random = np.random.default_rng(0)
    # Items from i36 on are in no session: they are new.
    sessions = [[f"i{id}" for id in random.integers(0, 36, random.integers(2, 7))] for _ in range(200)]
    model = NextEvent("core", dim=8, epochs=1, min_steps=1, refit=False).fit(
        [*sessions, ["lone", "i1"]], items=pl.DataFrame(ITEMS)
    )
    model.save(path / "shop")
    return path / "shop"


@pytest.fixture(scope="module")
def model(folder: Path) -> NextEvent:
    return NextEvent.load(folder)


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Running]:
    with running({"shop": folder}) as started:
        yield started


@pytest.mark.parametrize(
    ("filters", "is_permitted"),
    [
        (['category == "shoes"'], lambda item: item["category"] == "Shoes"),
        (["category == 'SALE'"], lambda item: "sale" in item["category"]),
        (['category in ["boots", "sale"]'], lambda item: item["category"] in ("boots", "hats|sale")),
        (['category not in ["boots", "sale"]'], lambda item: item["category"] == "Shoes"),
        (['category != "boots"'], lambda item: item["category"] in ("Shoes", "hats|sale")),
        (["price < 5"], lambda item: item["price"] != "" and float(item["price"]) < 5),
        (["not price >= 5"], lambda item: item["price"] != "" and float(item["price"]) < 5),
        (["price in [8, 9.0, 1e1]"], lambda item: item["price"] in ("8", "9", "10")),
        (["`list price` <= 70"], lambda item: float(item["list price"]) <= 70),
        (["published within 7d"], lambda item: item["published"] >= "2024-05-25"),
        (['published > "2024-05-26"'], lambda item: item["published"] > "2024-05-26"),
        (["price != 8", "price < 12", "price > 5"], lambda item: item["price"] in ("6", "9", "10", "11")),
        (
            ['price < 3 or (category == "boots" and not price < 30)'],
            lambda item: item["price"] in ("1", "2") or (item["category"] == "boots" and item["price"] in ("33", "37")),
        ),
    ],
)
def test_answers_are_the_items_that_fulfil_the_filters(model: NextEvent, filters: list[str], is_permitted: Any) -> None:
    expected = {item["item"] for item in ITEMS if is_permitted(item)}
    (values,) = model.predict([["i1", "i2"]], k=50, filters=filters, now=NOW, exclude_seen=False).values
    assert {*values} == expected and expected
    answers = model.predict([["i1"], [], ["unknown"]], k=3, filters=filters, now=NOW, exclude=["i2"], rank_unknown=True)
    assert all({*row} <= expected - {"i2"} and len(row) >= min(3, len(expected) - 2) for row in answers.values)


def test_probabilities_stay_those_of_all_items_and_seen_items_can_be_left_out_too(model: NextEvent) -> None:
    scores = dict(zip(*_columns(model, []), strict=True))
    values, filtered = _columns(model, ["price < 20"])
    assert [scores[value] for value in values] == filtered
    assert "i1" not in model.predict([["i1"]], k=50, filters=["price < 20"], exclude_seen=True).values[0]


def _columns(model: NextEvent, filters: list[str]) -> tuple[list[str], list[float]]:
    (answer,) = model.predict([["i1"]], k=50, filters=filters, exclude_seen=False)
    return [choice.value for choice in answer.choices], [choice.score for choice in answer.choices]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("colour == 'red'", "no column 'colour'; it has category (category), price (number), published (time)"),
        ("category == 'sheos'", "no item has the category 'sheos'; others are 'shoes'"),
        ("category < 3", "category holds texts; compare it by ==, != or in"),
        ("price < 'x'", "price is a column of numbers; compare it with a number instead of 'x'"),
        ("published > 'x'", "'x' is not a time; write it as 2024-05-01 or 2024-05-01T12:00:00Z"),
        ("price within 7 d", "price is a column of type number; within needs one of type time"),
        ("published within 7 years", "within needs a number and one of min, h, d, w, such as within 7 d"),
        ("price <", "a number, or a text in quotes, is missing at the end"),
        ("(price < 3", ") is missing at the end"),
        ("price < 3 5", "expected and, or, or the end before '5'"),
        ("price ~ 3", "'~ 3' cannot be read; quote texts and times"),
        ("price", "after price one of ==, !=, <, <=, >, >=, in or within is missing at the end"),
        ("price < 3 and", "a column is missing at the end; the item table has"),
        (f"{'(' * 30}price < 3", "parentheses and not are nested more than 20 deep"),
        ("__import__('os')", "the item table has no column '__import__'"),
        (" ", "give 1 to 10,000 characters, such as category == \"shoes\""),
    ],
)  # fmt: skip
def test_a_wrong_filter_is_one_line(model: NextEvent, service: Running, text: str, reason: str) -> None:
    with pytest.raises(DataError) as refused:
        model.predict([["i1"]], filters=[text])
    assert reason in str(refused.value) and "\n" not in str(refused.value)
    reply = service.post("/v1/models/shop/predict", {"records": [{"values": ["i1"]}], "filters": [text]})
    assert (reply.status_code, reply.json()["error"]) == (422, str(refused.value))


def test_models_without_an_item_table_have_no_columns_and_lists_of_filters_are_short(model: NextEvent) -> None:
    counted = NextEvent("markov").fit([["a", "b"]])
    with pytest.raises(DataError, match="no item table, so it has no columns; fit it with --items"):
        counted.predict([["a"]], filters=["price < 3"])
    with pytest.raises(DataError, match="21 filters exceed the limit of 20; join them by and"):
        model.predict([["a"]], filters=["price < 3"] * 21)


def test_the_command_line_and_the_service_answer_as_python(
    model: NextEvent, service: Running, ensue: Ensue, folder: Path
) -> None:
    filters = ["price < 12", "published within 4 w"]
    expected = model.predict([["i1"]], k=9, filters=filters, now=NOW).values[0]
    assert expected
    expected_capped = model.predict([["i1"]], k=9, max_per={"category": 1}, diversify="mmr=0.5").values[0]
    body = {"records": [{"values": ["i1"]}], "k": 9, "filters": filters, "now": NOW, "evidence": False}
    reply = service.post("/v1/models/shop/predict", body).json()
    assert [choice["value"] for choice in reply["answers"][0]["choices"]] == expected
    options = [word for text in filters for word in ("--filter", text)]
    ran = ensue(
        "predict", folder, "-", "-k", 9, "--json", *options, "--now", "2024-06-01", stdin='{"values": ["i1"]}\n'
    )
    assert [choice["value"] for choice in json.loads(ran.out)["choices"]] == expected
    body = {"records": [{"values": ["i1"]}], "k": 9, "max_per": {"category": 1}, "diversify": "mmr=0.5"}
    reply = service.post("/v1/models/shop/predict", body).json()
    assert [choice["value"] for choice in reply["answers"][0]["choices"]] == expected_capped
    options = ["--max-per", "category=1", "--diversify", "mmr=0.5", "-k", "9", "--json"]
    ran = ensue("predict", folder, "-", *options, stdin='{"values": ["i1"]}\n')
    assert [choice["value"] for choice in json.loads(ran.out)["choices"]] == expected_capped
    ran = ensue("predict", folder, "-", "--filter", "price < 3", stdin='{"values": ["i1"]}\n')
    assert ran.err == "1 of 1 answer: the rules permit fewer than 10 items\n"
    wrong = ensue("predict", folder, "-", "--max-per", "category", stdin='{"values": ["i1"]}\n')
    assert (wrong.code, wrong.out) == (2, "")
    wrong = ensue("predict", folder, "-", "--filter", "prise < 3", stdin='{"values": ["i1"]}\n')
    assert (wrong.code, wrong.out) == (2, "") and "no column 'prise'" in wrong.err


def categories(item: str) -> list[str]:
    return [part for part in ITEMS[int(item[1:])]["category"].lower().split("|") if part]


def test_answers_have_at_most_n_items_per_value_of_a_column(model: NextEvent) -> None:
    """The best ones that fit, also where they are far below the candidates that are looked at first."""
    (ranked,) = model.predict([["i1"]], k=50, filters=["price < 100"]).values
    for limit, k in ((1, 10), (2, 5), (2, 30), (3, 12)):
        expected = list[str]()
        counts = dict.fromkeys(["shoes", "boots", "hats", "sale"], 0)
        for item in ranked:
            if all(counts[value] < limit for value in categories(item)) and len(expected) < k:
                expected.append(item)
                for value in categories(item):
                    counts[value] += 1
        (values,) = model.predict([["i1"]], k=k, filters=["price < 100"], max_per={"category": limit}).values
        assert values == expected


def test_few_candidates_are_more_where_rules_leave_too_few(model: NextEvent, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = model.predict([["i1"], ["i2"]], k=9, max_per={"category": 2}).values
    monkeypatch.setattr(infer, "MIN_POOL", 1)
    monkeypatch.setattr(infer, "POOL", 1)
    assert model.predict([["i1"], ["i2"]], k=9, max_per={"category": 2}).values == expected


def test_re_ranking_chooses_by_the_formulas(model: NextEvent) -> None:
    predictor = model.predictor_
    (answer,) = model.predict([["i1", "i2"]], k=40)
    ids = predictor.vocabulary.ids([choice.value for choice in answer.choices]).astype(np.int64)
    logs = np.log([choice.score for choice in answer.choices])
    relevance = (logs - logs.min()) / (logs.max() - logs.min())
    similarity = predictor.item_similarity().of_all(ids, ids)
    assert similarity.diagonal() == pytest.approx(np.ones(len(ids))) and 0 <= similarity.min() < 0.5

    def by_mmr(chosen: list[int], at: int) -> float:
        return float(0.4 * relevance[at] - 0.6 * max((similarity[at, one] for one in chosen), default=0.0))

    # i1 is a boot, i2 a hat on sale.
    p = {"boots": 1 / 2, "hats": 1 / 4, "sale": 1 / 4}

    def by_calibration(chosen: list[int], at: int) -> float:
        values = [categories(answer.choices[one].value) for one in (*chosen, at)]
        q = {name: np.mean([(name in of) / len(of or "-") for of in values]) for name in p}
        divergence = sum(p[name] * np.log(p[name] / (0.99 * q[name] + 0.01 * p[name])) for name in p)
        return float(0.2 * relevance[at] - 0.8 * divergence)

    for diversify, value in (("mmr=0.6", by_mmr), ("calibrated:category=0.8", by_calibration)):
        chosen: list[int] = []
        for _ in range(8):
            values = {at: value(chosen, at) for at in range(len(ids)) if at not in chosen}
            chosen.append(max(values, key=values.__getitem__))
        expected = [answer.choices[at].value for at in chosen]
        assert model.predict([["i1", "i2"]], k=8, diversify=diversify).values == [expected]
    assert model.predict([["i1", "i2"]], k=8, diversify="mmr=0").values[0] == [c.value for c in answer.choices[:8]]


def test_items_without_a_table_are_similar_where_they_occur_together() -> None:
    counted = NextEvent("markov").fit([["a", "b"]] * 3 + [["c", "d"], ["a", "c"]])
    similarity = counted.predictor_.item_similarity()
    a, b, d = counted.predictor_.vocabulary.ids("abd").astype(np.int64)[:, None]
    assert similarity.source == "co-occurrence"
    assert similarity.of_pairs(a, b)[0] == pytest.approx(3 / np.sqrt(4 * 3)) and similarity.of_pairs(a, d)[0] == 0
    assert len(counted.predict([["a"]], k=3, diversify="mmr=0.9").values[0]) == 3


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"diversify": "mmr=2"}, "diversify mmr=2: write mmr=0.3 or calibrated:COLUMN=0.3, a weight from 0 to 1"),
        ({"diversify": "calibrated:x=.2"}, "diversify: the item table has no column 'x'; it has category (category)"),
        ({"max_per": {"category": 0}}, "max_per category=0: give a whole number from 1"),
        ({"max_per": {"colour": 1}}, "max_per: the item table has no column 'colour'; it has category (category)"),
    ],
)
def test_wrong_rules_of_re_ranking_are_one_line(
    model: NextEvent, service: Running, rules: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DataError) as refused:
        model.predict([["i1"]], **rules)
    assert reason in str(refused.value)
    reply = service.post("/v1/models/shop/predict", {"records": [{"values": ["i1"]}], **rules})
    assert (reply.status_code, reply.json()["error"]) == (422, str(refused.value))


def test_lists_are_sent_once_and_used_by_name(model: NextEvent, folder: Path, service: Running) -> None:
    body: dict[str, Any] = {"records": [{"values": ["i1"]}], "k": 50, "evidence": False}

    def values(**fields: object) -> set[str]:
        reply = service.post("/v1/models/shop/predict", {**body, **fields})
        assert reply.status_code == 200, reply.text
        return {choice["value"] for choice in reply.json()["answers"][0]["choices"]}

    path = "/v1/models/shop/lists/sold-out"
    sold = [f"i{number}" for number in range(30)]
    stored = service.client.request("PUT", path, json={"items": [*sold, "nobody knows this"]})
    assert (stored.status_code, stored.json()) == (200, {"items": 31, "in_vocabulary": 30})
    assert values(exclude_lists=["sold-out"]) == {f"i{number}" for number in range(30, 40)}
    assert values(exclude_lists=["sold-out"], exclude=["i30"], filters=["price < 33"]) == {"i31", "i32"}
    assert values(exclude=["i30"], allow_lists=["sold-out"], filters=["price < 3"], exclude_seen=False) == {"i1", "i2"}
    # Another process of the service sees the file, and a list that is replaced counts at once.
    assert json.loads((folder.parent / "shop.lists" / "sold-out.json").read_text())[:2] == ["i0", "i1"]
    assert service.client.request("PUT", path, json={"items": sold[:29]}).status_code == 200
    assert values(exclude_lists=["sold-out"]) == {f"i{number}" for number in range(29, 40)}
    for name, fields, error in (
        ("predict", {"exclude_lists": ["sold"]}, "no list is named 'sold'; PUT it first (stored: sold-out)"),
        ("predict", {"allow_lists": ["../shop"]}, "'../shop' cannot be the name of a list; use letters, digits"),
    ):
        refused = service.post(f"/v1/models/shop/{name}", {**body, **fields})
        assert (refused.status_code, error in refused.json()["error"]) == (422, True)
    wrong = service.client.request("PUT", "/v1/models/shop/lists/a%20b", json={"items": []})
    assert (wrong.status_code, "cannot be the name of a list" in wrong.json()["error"]) == (422, True)
    assert service.client.request("DELETE", path).status_code == 204
    assert service.post("/v1/models/shop/predict", {**body, "exclude_lists": ["sold-out"]}).status_code == 422


def test_random_filters_let_nothing_through_that_they_forbid(model: NextEvent) -> None:
    """Each is also evaluated row by row, with ``None`` for what is neither true nor false."""
    random = np.random.default_rng(3)
    for _ in range(300):
        text, is_true = random_filter(random, 3)
        permitted = {item["item"] for item in ITEMS if is_true(item)}
        k = int(random.integers(1, 45))
        (values,) = model.predict([["i1", "lone"]], k=k, filters=[text], now=NOW, exclude_seen=False).values
        assert {*values} <= permitted and len(values) == min(k, len(permitted)), text


def random_filter(random: np.random.Generator, depth: int) -> tuple[str, Any]:
    """Return a filter, and a function of an item that returns whether it is true, or ``None``."""
    if depth and random.random() < 0.6:
        first, is_first = random_filter(random, depth - 1)
        if random.random() < 0.3:
            return f"not ({first})", lambda item: None if is_first(item) is None else not is_first(item)
        second, is_second = random_filter(random, depth - 1)
        joined = ("and", False) if random.random() < 0.5 else ("or", True)

        def is_true(item: Any) -> bool | None:
            values = is_first(item), is_second(item)
            return joined[1] if joined[1] in values else None if None in values else not joined[1]

        return f"({first}) {joined[0]} ({second})", is_true
    if random.random() < 0.5:
        sign, bound = random.choice(["<", ">=", "=="]), int(random.integers(0, 40))

        def compares(item: Any) -> bool | None:
            price = item["price"] and float(item["price"])
            return {"<": price < bound, ">=": price >= bound, "==": price == bound}[sign] if price else None

        return f"price {sign} {bound}", compares
    value = str(random.choice(["shoes", "boots", "hats", "sale"]))
    return f'category == "{value}"', lambda item: value in item["category"].lower() if item["category"] else None


@pytest.mark.parametrize("name", ["markov", "vsknn", "popularity"])
def test_baselines_keep_the_table_for_rules(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    sessions = [[f"i{id}" for id in random.integers(0, 30, 5)] for _ in range(80)]
    plain = NextEvent(name).fit(sessions)
    counted = NextEvent(name).fit(sessions, items=pl.DataFrame(ITEMS))
    counted.save(tmp_path / "model")
    loaded = NextEvent.load(tmp_path / "model")
    cheap = {item["item"] for item in ITEMS if item["price"] and float(item["price"]) < 12}
    for model in (counted, loaded):
        assert model.predict([["i3"]], k=40).values == plain.predict([["i3"]], k=40).values
        (values,) = model.predict([["i3"]], k=40, filters=["price < 12"]).values
        assert values == [value for value in plain.predict([["i3"]], k=40).values[0] if value in cheap]
        (values,) = model.predict([["i3"]], k=40, max_per={"category": 1}, diversify="mmr=0.3").values
        categories = [ITEMS[int(value[1:])]["category"] for value in values]
        assert sorted(filter(None, categories)) == sorted({*categories} - {""})
    # An item of the table is an answer once a session has it.
    loaded.update([["i3", "i38"], ["i3", "i38"]], items=pl.DataFrame([*ITEMS[:38], {**ITEMS[38], "price": "5"}]))
    assert "i38" in loaded.predict([["i3"]], k=40, filters=["price < 12"]).values[0]
    result = loaded.evaluate(sessions[:9], cutoffs=[5], max_per={"category": 2})
    assert result.rows[1].model == f"{name}, 2 per category"


def test_lists_of_items_that_the_model_does_not_know_are_named(ensue: Ensue, folder: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"values": ["i1"]}\n')
    listed = tmp_path / "sold.csv"
    listed.write_text("i2;sold out\ni3;sold out\n")
    for command in (("predict", folder, asked), ("similar", folder, "i1")):
        ran = ensue(*command, "--exclude", listed)
        assert ran.code == 0
        assert f"warning: {listed}: the model knows none of 2 items, such as 'i2;sold out'; write ids alone" in ran.err
    listed.write_text("i2\nnot yet in the catalogue\n")
    assert "warning" not in ensue("predict", folder, asked, "--exclude", listed).err
    listed.write_text("\n".join(f"i{number}" for number in range(40)) + "\nlone\n")
    assert (
        "1 of 1 answer: the rules permit fewer than 3 items"
        in ensue("predict", folder, asked, "-k", "3", "--exclude", listed).err
    )
    ran = ensue("predict", folder, asked, "--max-per", "category=1", "--max-per", "category=2")
    assert ran.code == 2 and "a column appears twice; give it one limit" in ran.err


def test_a_column_of_another_type_says_how_to_state_it(ensue: Ensue, folder: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"values": ["i1"]}\n')
    for condition, kind in (("`list price` within 7 d", "'list price=time'"), ("category < 3", "'category=number'")):
        ran = ensue("predict", folder, asked, "--filter", condition)
        assert ran.code == 2 and ran.err.rstrip().endswith(f"fit the model with --item-columns {kind}")
