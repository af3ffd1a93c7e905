"""The OpenAPI document: FastAPI writes it from the models of bodies and replies.

Routes read their bodies themselves, so that a body is measured before it is decoded, and decoded in a thread; so the
models that they read are put into the document here, and beside them examples that can be sent as they are.
Replies are here as models too, for the document; most are lines that the library has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from types import GenericAlias

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from ensue.serve import events
from ensue.serve.bodies import KEY_LENGTH, Bodies, Limits, limited
from ensue.serve.learning import KEYS
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import service_of
from ensue.tasks import TASKS


class Problem(BaseModel):
    """What is wrong with a request."""

    model_config = ConfigDict(extra="forbid")
    error: str = Field(description="one line: where, what is wrong, what to do")
    hint: str = Field("", description="what to do, where the line does not say so")


class Served(BaseModel):
    """A served model; the models of each task have more to say."""

    model_config = ConfigDict(extra="allow")
    name: str
    task: str
    view: str = Field(description="panel of the page")
    model: str
    version: int
    since: str = Field(description="start of this version, ISO")
    trained: str | None = Field(description="the day it was written, ISO")
    scores: dict[str, object] | None = Field(description="of its card: metrics, protocol, verdict")
    drift: dict[str, object] | None = Field(
        description="share `unknown` of the ids and words in requests of the last 7 days"
    )
    examples: list[dict[str, object]] = Field(description="example records")


class Drawing(BaseModel):
    """A figure of Plotly, and a sentence that says what it shows."""

    figure: dict[str, object]
    words: str


class Learned(BaseModel):
    """What an update came to."""

    model_config = ConfigDict(extra="allow")
    accepted: bool
    version: int = Field(description="the active version now")
    slices: list[dict[str, object]] = Field(description="test data of the update")
    held: str
    max_drop: float | None
    loss: float
    verdict: str
    warning: str = Field(description="what the test could not cover; empty if stored examples were tested")


class Queued(BaseModel):
    """Events that wait to be learned."""

    accepted: int
    passed_over: int = Field(description="ignored events of other kinds, such as searches")


class Status(BaseModel):
    """How the process is."""

    status: str
    refused: dict[str, str] | None = Field(
        None, description="by model, why the new version in its folder does not answer; the previous one does"
    )


REFERENCE = "#/components/schemas/{model}"
KEY: Mapping[str, object] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A UUID of your own. An update that is sent again under its key, to the same model and with "
    "the same body, is answered as before and not applied twice, also where the service was "
    "killed before it answered; the answer then carries Idempotent-Replayed: true. Another body "
    f"under a known key is refused. The latest {KEYS} are known.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH},
    "example": "7f3b9c6e-5d1f-4a0e-9f1d-1f6f0c1b2a3d",
}
UPDATES = [{"update token": list[str]()}]
"""The ``security`` of routes that write: where the service has no update token, the token that asks does."""
REFUSED = {
    400: "not JSON",
    401: "no token, or a wrong one",
    403: "updates over HTTP are off, or the token may only query",
    404: "not served",
    408: "the body came too slowly",
    409: "another process updates the folder, or the update was refused",
    413: "the body is too large, or has too many parts",
    415: "not JSON by its type",
    422: "what the library says of such data, or a record beyond a limit",
    429: "the queue is full",
    503: "not answered in time, and given up",
}


class Requests:
    """What the routes take, within the limits of a service.

    Args:
        settings: the limits.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.bodies = {task: _bodies_of(task, settings) for task in TASKS}
        """By task."""
        self.events = limited("Events", events.EventList, Limits(settings))
        """What waits for ``ensue stream``."""
        every = {verb: [getattr(own, verb) for own in self.bodies.values()] for verb in Bodies._fields}
        types = {verb: reduce(or_, models) for verb, models in every.items()}
        types["events"] = self.events | events.Event | list[events.Event]
        adapters = [(verb, "validation", TypeAdapter(kind)) for verb, kind in types.items()]
        schemas, definitions = TypeAdapter.json_schemas(adapters, ref_template=REFERENCE)  # type: ignore[arg-type]
        self.definitions = definitions["$defs"]
        """The schemas of all of them, by name."""
        self._schemas = {verb: schema for (verb, _), schema in schemas.items()}

    def described(self, verb: str) -> dict[str, object]:
        """The ``openapi_extra`` of a route that takes a body."""
        examples: Mapping[str, object] = events.EXAMPLES
        if verb != "events":
            examples = {name: body for task in TASKS for name, body in service_of(task).examples.get(verb, {}).items()}
        named = {name: {"value": value} for name, value in examples.items()}
        content = {"application/json": {"schema": self._schemas[verb], "examples": named}}
        return {"requestBody": {"required": True, "content": content}}


def _bodies_of(task: str, settings: ServeSettings) -> Bodies:
    service = service_of(task)
    limits = Limits(settings, service.task.record, service.read)
    predict, explain, figure, update = service.bodies
    return Bodies(
        limited(f"Predict{task.title()}", predict, limits),
        limited(f"Explain{task.title()}", explain, limits),
        limited(f"Figure{task.title()}", figure, limits),
        limited(f"Update{task.title()}", update, limits),
    )


def replies(field: str, kind: str) -> type[BaseModel]:
    """``{"answers": […]}`` of every task: ``kind`` is ``answer_type`` or ``explanation_type``."""
    every = reduce(or_, dict.fromkeys(getattr(service_of(task), kind) for task in TASKS))
    fields = {field: (GenericAlias(list, (every,)), ...)}
    return create_model(field.title(), **fields)  # type: ignore[call-overload,no-any-return]


def responses(*statuses: int) -> dict[int | str, dict[str, object]]:
    """What a route may answer beside success."""
    return {status: {"description": REFUSED[status], "model": Problem} for status in statuses}


def document(app: FastAPI, requests: Requests, names: Iterable[str]) -> dict[str, object]:
    """The whole document, with the names of the models that are served."""
    whole = get_openapi(
        title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes
    )
    components = whole.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **requests.definitions}
    operations = (operation for methods in whole["paths"].values() for operation in methods.values())
    for parameter in (own for operation in operations for own in operation.get("parameters", ())):
        if parameter["in"] == "path":
            parameter["schema"] = {"type": "string", "enum": list(names)}
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "ENSUE_TOKEN of the service"},
        "update token": {"type": "http", "scheme": "bearer", "description": "ENSUE_UPDATE_TOKEN of the service"},
    }
    whole["security"] = [{"token": []}]
    return whole
