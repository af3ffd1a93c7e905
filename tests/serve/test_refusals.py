"""Bodies that are wrong: always 4xx, always a line that says what to do, never a 500."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError, History
from tests.serve.conftest import Running, running

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def small(fitted: Path) -> Iterator[Running]:
    """Low limits."""
    limits: dict[str, Any] = {"body_bytes": 2000, "records": 3, "explained": 2, "history": 5, "depth": 6, "max_k": 7}
    limits |= {
        "words": 9,
        "explained_words": 4,
        "characters": 60,
        "value_characters": 8,
        "prefix": 3,
        "body_values": 1000,
    }
    with running({name: fitted / name for name in ("clicks", "mood", "searches", "links")}, **limits) as found:
        yield found


def refused(small: Running, body: bytes, model: str = "clicks", verb: str = "predict") -> tuple[int, str]:
    found = small.client.post(f"/v1/models/{model}/{verb}", content=body, headers=JSON)
    return found.status_code, found.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"", 400, "the body is not JSON (Expecting value: line 1 column 1 (char 0))"),
        (b'{"records": [', 400, "the body is not JSON (Expecting value: line 1 column 14 (char 13))"),
        (b'{"records": [], "k": NaN}', 400, "the body is not JSON (NaN is not a number of JSON)"),
        (b'{"k": 1, "k": 2}', 400, "the body is not JSON (field 'k' appears twice in an object)"),
        (b'{"records": "\xff"}', 400, "the body is not UTF-8 (invalid start byte at byte 13)"),
        (b"[" * 7 + b"]" * 7, 400, "lists or objects are nested more than 6 deep"),
        (b"[" * 900 + b"]" * 900, 400, "lists or objects are nested more than 6 deep"),
        (b"[]", 422, 'the body must be an object such as {"records": …}'),
        (b"3", 422, 'the body must be an object such as {"records": …}'),
        (b"{}", 422, 'field "records" is missing'),
        (b'{"record": []}', 422, "field 'record' is not known; a body has records, k, evidence"),
        (b'{"records": {}}', 422, 'field "records" must be a list'),
        (b'{"records": [3]}', 422, 'records[0]: must be an object such as {"values": ["a", "b"]}'),
        (b'{"records": [{}]}', 422, 'records[0]: field "values" is missing; expected {"values": ["a", "b"]}'),
        (
            b'{"records": [{"values": ["a"]}, {"values": [1.5]}]}',
            422,
            'records[1]: field "values" must be a list of texts or whole numbers',
        ),
        (
            b'{"records": [{"values": ["a", "b"], "times": [2, 1]}]}',
            422,
            "records[0]: history '': times[1] = 1.0 comes after 2.0; times must not decrease",
        ),
        (
            b'{"records": [{"values": ["a"], "who": 1}]}',
            422,
            "records[0]: field 'who' is not known; a history has values, times and id",
        ),
        (b'{"records": [], "k": 0}', 422, 'field "k" must be a whole number from 1 to 7'),
        (b'{"records": [], "k": 8}', 422, 'field "k" must be a whole number from 1 to 7'),
        (b'{"records": [], "k": "3"}', 422, 'field "k" must be a whole number from 1 to 7'),
        (b'{"records": [], "k": true}', 422, 'field "k" must be a whole number from 1 to 7'),
        (b'{"records": [], "evidence": 1}', 422, 'field "evidence" must be true or false'),
        (
            b'{"records": [{"values": []}, {"values": []}, {"values": []}, {"values": []}]}',
            422,
            "4 records exceed the limit of 3 per request; send them in parts",
        ),
        (
            b'{"records": [{"values": [1, 2, 3, 4, 5, 6]}]}',
            422,
            "records[0]: 6 values are more than the 5 of a history; send the latest",
        ),
        (b'{"records": [{"values": ["a"], "times": [1e999]}]}', 422, "records[0]: history '': times[0] is inf; times "),
    ],
)
def test_what_is_wrong_is_said(small: Running, body: bytes, status: int, error: str) -> None:
    found, said = refused(small, body)
    assert (found, said[: len(error)]) == (status, error)


def test_the_text_is_the_librarys(small: Running) -> None:
    fields = {"values": ["a", "b"], "times": [2, 1]}
    with pytest.raises(DataError) as caught:
        History.from_fields(fields, "records[0]")
    found = small.post("/v1/models/clicks/predict", {"records": [fields]})
    assert found.json() == {"error": str(caught.value)}


def test_half_a_character_is_replaced(small: Running) -> None:
    """Wherever it stands, a field's name too; a whole one of two halves stays."""
    for body in (b'{"records": [{"values": ["\\ud800"]}]}', b'{"records": [{"values": ["a"], "id": "\\udfff"}]}'):
        assert small.client.post("/v1/models/clicks/predict", content=body, headers=JSON).status_code == 200
    assert refused(small, b'{"\\ud83d": 1}')[1].startswith("field '\ufffd' is not known")
    assert refused(small, b'{"\\ud83d\\ude00": 1}')[1].startswith("field '\U0001f600' is not known")


LONG = "; shorten it, or start the service with --set "


@pytest.mark.parametrize(
    ("model", "verb", "body", "error"),
    [
        (
            "mood",
            "predict",
            {"records": [{"texts": ["a b"]}, {"texts": ["a " * 10]}]},
            f"records[1]: {{}}{LONG}words=N",
        ),
        ("mood", "explain", {"records": [{"texts": ["a, b, c"]}]}, "5 words"),
        ("links", "predict", {"records": [{"text": "x" * 61}]}, "61 characters"),
        ("links", "figure", {"record": {"text": "a b c d e"}}, "5 words"),
        ("clicks", "predict", {"records": [{"values": ["a", "x" * 9]}]}, "9 characters"),
        ("searches", "explain", {"records": [{"values": ["123456789"]}]}, "9 characters"),
        ("searches", "predict", {"records": [{"values": ["a"]}], "prefix": "abcd"}, "4 characters"),
        ("searches", "predict", {"records": [{"values": ["a"]}], "prefixes": ["abcd"]}, "4 characters"),
        ("searches", "figure", {"record": {"values": ["a"]}, "prefix": "abcd"}, "4 characters"),
    ],
)
def test_what_is_too_long_is_refused_before_a_model_sees_it(
    small: Running, model: str, verb: str, body: dict[str, Any], error: str
) -> None:
    """One line names the place, the size, the limit, and the setting; one less of each is answered."""
    found = small.post(f"/v1/models/{model}/{verb}", body)
    said = found.json()["error"]
    assert (found.status_code, LONG in said) == (422, True), said
    assert error.format("10 words are more than the 9 of a record") in said


def test_what_just_fits_is_answered(small: Running) -> None:
    for model, body in (
        ("mood", {"records": [{"texts": ["a " * 9]}]}),
        ("links", {"records": [{"text": "x" * 60}]}),
        ("clicks", {"records": [{"values": ["x" * 8]}]}),
        ("searches", {"records": [{"values": ["12345678"]}], "prefix": "abc"}),
    ):
        assert small.post(f"/v1/models/{model}/predict", body).status_code == 200


def test_a_body_of_many_parts(small: Running) -> None:
    """500 commas and 502 brackets are refused before any list is made; 999 commas and one bracket are read."""
    said = "the body has more than 1,000 values, lists and objects"
    assert refused(small, b"[" + b"[]," * 500 + b"[]]") == (413, said)
    assert refused(small, b"[" + b"1," * 999 + b"]")[0] == 400
    assert refused(small, b"[" + b"1," * 998 + b"1]")[0] == 422


def test_the_document_states_the_limits(small: Running) -> None:
    found = small.client.get("/openapi.json").json()
    body = found["paths"]["/v1/models/{name}/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"$ref": "#/components/schemas/PredictSuggest"} in body["anyOf"]
    fields = found["components"]["schemas"]["PredictSuggest"]["properties"]
    assert (fields["k"]["maximum"], fields["records"]["maxItems"], fields["prefix"]["maxLength"]) == (7, 3, 3)
    assert "9 words and 60 characters" in fields["records"]["description"]


def test_digits_without_end(small: Running) -> None:
    status, error = refused(small, b'{"records": [], "k": ' + b"9" * 1900 + b"}")
    assert (status, error) == (422, 'field "k" must be a whole number from 1 to 7')


def test_fewer_records_are_explained(small: Running) -> None:
    body = b'{"records": [{"values": []}, {"values": []}, {"values": []}]}'
    assert refused(small, body, verb="explain") == (
        422,
        "3 records exceed the limit of 2 per request; send them in parts",
    )


def test_a_body_that_is_too_large(small: Running) -> None:
    assert refused(small, b" " * 2001) == (413, "the body is larger than 2,000 bytes")


def test_a_large_body_without_a_length(small: Running) -> None:
    """In parts, so that no header tells how much will come: it is not read to its end."""
    sent = []

    def parts() -> Iterator[bytes]:
        for _ in range(1000):
            sent.append(1)
            yield b" " * 100

    found = small.client.post("/v1/models/clicks/predict", content=parts(), headers=JSON)
    assert (found.status_code, found.json()["error"]) == (413, "the body is larger than 2,000 bytes")


def test_another_type(small: Running) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        found = small.client.post("/v1/models/clicks/predict", content=b"{}", headers={"content-type": kind})
        assert (found.status_code, found.json()["hint"]) == (415, "send Content-Type: application/json")


def test_one_bad_record_spoils_no_neighbour(small: Running) -> None:
    """Pairs where the model learned single texts: the library says so, and the next request is answered."""
    pair = small.post("/v1/models/mood/predict", {"records": [{"texts": ["a", "b"]}]})
    assert pair.status_code == 422
    assert pair.json()["error"].endswith("but the model was trained on single texts; give single texts")
    assert small.post("/v1/models/mood/predict", {"records": [{"texts": ["a"]}]}).status_code == 200


def test_prefixes_only_where_they_mean_something(all_tasks: Running) -> None:
    found = all_tasks.post("/v1/models/clicks/predict", {"records": [], "prefix": "a"})
    assert found.json()["error"] == (
        "field 'prefix' is not known; a body has records, k, evidence, exclude, allow, exclude_lists, "
        "allow_lists, filters, now, max_per, diversify, exclude_seen, rank_unknown, variant"
    )
    for more, error in (
        ({"prefix": 3}, 'field "prefix" must be a text'),
        ({"prefixes": ["a", "b"]}, 'field "prefixes" must be a list of 1 text, one a record'),
        ({"prefixes": [3]}, "prefixes[0] must be a text"),
        ({"prefix": "a", "prefixes": ["a"]}, 'fields "prefix" and "prefixes" exclude each other; give one of the two'),
    ):
        found = all_tasks.post("/v1/models/searches/predict", {"records": [{"values": ["a"]}], **more})
        assert (found.status_code, found.json()["error"]) == (422, error)


@pytest.mark.parametrize(
    "name",
    [
        "nobody",
        "..",
        "%2e%2e",
        "..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "clicks%2f..",
        "clicks%00",
        "CLICKS",
        "clicks ",
        "a" * 5000,
        "%F0%9F%98%80",
    ],
)
def test_names_that_are_not_served(all_tasks: Running, name: str) -> None:
    for verb in ("predict", "explain", "update", "figure"):
        found = all_tasks.post(f"/v1/models/{name}/{verb}", {"records": []})
        assert found.status_code == 404, found.text
        assert len(found.json()["error"]) < 120


def test_page_names_reach_no_disk(all_tasks: Running) -> None:
    for name in ("..%2fapp.py", "%2e%2e/app.py", "..%5capp.py", "/etc/passwd", "index.html%00", ""):
        assert all_tasks.client.get(f"/page/{name}").status_code == 404


def test_addresses_and_methods_that_are_not_there(all_tasks: Running) -> None:
    assert all_tasks.client.get("/v1/nothing").json() == {
        "error": "there is nothing at this address",
        "hint": "GET /openapi.json lists all routes",
    }
    found = all_tasks.client.get("/v1/models/clicks/predict")
    assert (found.status_code, found.json()["error"]) == (405, "this address does not take that method")
    assert all_tasks.client.get("/redoc").status_code == 404
