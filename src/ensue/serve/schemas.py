"""The OpenAPI document: schemas made of the library's records, an example for every body, and the token.

Routes read their bodies themselves, so that a mistake has the library's own message; here is what they take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from ensue.answers import Answer, Explanation, LinkAnswer, QueryExplanation, TextAnswer, TextExplanation
from ensue.records import Article, History, Post, Text
from ensue.serve.bodies import KEY_LENGTH
from ensue.serve.learning import KEYS
from ensue.serve.settings import ServeSettings
from ensue.tasks.link.explain import LinkExplanation

TAKEN = (History, Text, Post, Article)
GIVEN = (Answer, TextAnswer, LinkAnswer, Explanation, QueryExplanation, TextExplanation, LinkExplanation)
HISTORY = {"values": ["a17", "b03", "c44"], "times": [0, 20, 65]}
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "predict": {
        "next": {"records": [HISTORY], "k": 3},
        "suggest": {"records": [{"values": ["cheap flights"]}], "k": 5, "prefixes": ["fl"]},
        "classify": {"records": [{"texts": ["a fine film"]}]},
        "link": {"records": [{"text": "The bridge is closed again"}], "k": 3},
    },
    "explain": {
        "next": {"records": [HISTORY], "k": 3},
        "suggest": {"records": [{"values": ["cheap flights", "flights to rome"]}]},
        "classify": {"records": [{"texts": ["a fine film"]}]},
        "link": {"records": [{"text": "The bridge is closed again"}]},
    },
    "update": {
        "next": {"records": [HISTORY, {"values": ["a17", "d91"]}]},
        "next, tested": {"records": [HISTORY, {"values": ["a17", "d91"]}], "max_drop": 0.05},
        "suggest": {"records": [{"values": ["cheap flights", "flights to rome"]}], "users": ["u1"]},
        "classify": {"records": [{"texts": ["a fine film"], "label": "good"}]},
        "link": {
            "records": [{"text": "The bridge is closed again", "id": "p9", "about": ["n4"]}],
            "articles": [{"body": "The old bridge was closed on Monday.", "id": "n4", "title": "Bridge closed"}],
        },
    },
    "figure": {
        "next": {"record": HISTORY, "k": 5, "choice": 0},
        "suggest": {"record": {"values": ["cheap flights"]}, "choice": 0, "prefix": "fl"},
        "classify": {"record": {"texts": ["a fine film"]}},
        "link": {"record": {"text": "The bridge is closed again"}, "choice": 1},
    },
    "events": {
        "one": {"session": "s1", "item": "a17", "time": 1700000000, "id": "e1"},
        "many": {"events": [{"session": "s1", "item": "b03", "time": 1700000042}]},
        "UBI": {
            "action_name": "click",
            "session_id": "s1",
            "timestamp": "2026-01-31T10:00:00Z",
            "event_attributes": {"object": {"object_id": "a17"}},
        },
    },
    "gorse": {"a session": [{"ItemId": "a17", "Timestamp": "2026-01-31T10:00:00Z", "FeedbackType": "read"}]},
}
KEY: Mapping[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A UUID of your own. An update that is sent again under its key, to the same model and with the "
    "same body, is answered as it was and not learned twice, also where the service was killed before it answered; "
    "the answer then carries Idempotent-Replayed: true. Another body under a known key is refused. "
    f"The latest {KEYS} are known.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH},
    "example": "7f3b9c6e-5d1f-4a0e-9f1d-1f6f0c1b2a3d",
}
_WHOLE = {"type": "integer", "minimum": 1}
_RECORD = {"anyOf": [{"$ref": f"#/components/schemas/{one.__name__}"} for one in (History, Text, Post)]}
_TEXTS = {"type": "array", "items": {"type": "string"}}


def _object(needed: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def bodies_of(own: ServeSettings) -> Mapping[str, Any]:
    """The body of each verb, with the limits of this service."""
    k, prefix = {**_WHOLE, "maximum": own.most}, {"type": "string", "maxLength": own.prefix}

    def records(most: int, words: int) -> dict[str, Any]:
        limits = (
            f"a history has at most {own.history:,} values of {own.value_characters:,} characters, a text or post "
            f"{words:,} words and {own.characters:,} characters"
        )
        return {"type": "array", "items": _RECORD, "maxItems": most, "description": limits}

    return {
        "predict": _object(
            ["records"],
            records=records(own.records, own.words),
            k=k,
            evidence={"type": "boolean"},
            prefix=prefix,
            prefixes={"type": "array", "items": prefix},
        ),
        "explain": _object(["records"], records=records(own.explained, own.explained_words), k=k),
        "update": _object(
            ["records"],
            records=records(own.learned, own.words),
            users=_TEXTS,
            articles={"type": "array", "items": {"$ref": "#/components/schemas/Article"}},
            max_drop={"type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0.05},
            test={"type": "boolean", "default": True},
        ),
        "figure": _object(
            ["record"],
            record=_RECORD,
            k=k,
            choice={"type": "integer", "minimum": 0},
            prefix=prefix,
        ),
        "events": {
            "anyOf": [
                _object(["events"], events={"type": "array", "items": {"type": "object"}, "maxItems": own.events}),
                {"type": "object", "minProperties": 1},
                {"type": "array", "items": {"type": "object", "minProperties": 1}},
            ]
        },
        "gorse": {
            "type": "array",
            "maxItems": own.history,
            "items": _object(
                ["ItemId"],
                ItemId={"type": "string", "minLength": 1},
                Timestamp={"type": "string"},
                FeedbackType={"type": "string"},
                UserId={"type": "string"},
                Comment={"type": "string"},
            ),
        },
    }


REFUSED = {
    400: "not JSON",
    401: "no token, or a wrong one",
    404: "not served",
    408: "the body came too slowly",
    409: "another process learns into the folder, or the update was refused",
    413: "the body is too large, or has too many parts",
    415: "not JSON by its type",
    422: "what the library says of such data, or a record beyond a limit",
    429: "the queue is full",
    503: "not answered in time, and given up",
}
_PROBLEM = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def described(verb: str, settings: ServeSettings) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that takes a body."""
    examples = {name: {"value": value} for name, value in EXAMPLES[verb].items()}
    content = {"application/json": {"schema": bodies_of(settings)[verb], "examples": examples}}
    return {"requestBody": {"required": True, "content": content}}


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer beside success."""
    return {status: {"description": REFUSED[status], "content": _PROBLEM} for status in statuses}


def document(app: FastAPI, names: Iterable[str]) -> dict[str, Any]:
    """The whole document, with the names of the models that are served."""
    found: dict[str, Any] = get_openapi(
        title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes
    )
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for mode, classes in (("validation", TAKEN), ("serialization", GIVEN)):
        for one in classes:
            made = TypeAdapter(one).json_schema(ref_template="#/components/schemas/{model}", mode=mode)  # type: ignore[arg-type]
            schemas |= made.pop("$defs", {}) | {one.__name__: made}
    for one in TAKEN:
        schemas[one.__name__]["additionalProperties"] = False
    schemas["Problem"] = _object(["error"], error={"type": "string"}, hint={"type": "string"})
    operations = (operation for methods in found["paths"].values() for operation in methods.values())
    for parameter in (own for operation in operations for own in operation.get("parameters", ())):
        if parameter["in"] == "path":
            parameter["schema"] = {"type": "string", "enum": list(names)}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    return found
