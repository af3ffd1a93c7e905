"""The operations of the service, and their OpenAPI document, which FastAPI writes from models of bodies and replies.

Endpoints read their bodies themselves, so that a body is measured before it is decoded, and a large one is decoded in a
thread. The models of the bodies are added to the document here, with examples that can be sent as they are. Replies
have models for the document alone; most replies are lines that the library has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from types import GenericAlias

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from starlette.responses import JSONResponse

from ensue.serve import events, lists
from ensue.serve.bodies import KEY_LENGTH, NAME, Bodies, Limits, limited
from ensue.serve.learning import KEYS
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import service_of
from ensue.tasks import TASKS
from ensue.version import __version__


class Problem(BaseModel):
    """The error of a request."""

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
    """Result of an update."""

    model_config = ConfigDict(extra="allow")
    accepted: bool
    version: int = Field(description="the active version now")
    slices: list[dict[str, object]] = Field(description="test data of the update")
    held: str
    max_drop: float | None
    loss: float
    verdict: str
    warning: str = Field(description="what the test could not cover; empty if stored examples were tested")


class Stored(BaseModel):
    """A stored list."""

    items: int
    in_vocabulary: int = Field(description="items of the list that the model knows")


class Queued(BaseModel):
    """Events that wait in the queue."""

    accepted: int
    passed_over: int = Field(description="ignored events of other kinds, such as searches")


class Status(BaseModel):
    """State of the process."""

    status: str
    refused: dict[str, str] | None = Field(
        None, description="by model, why the new version in its folder does not answer; the previous one does"
    )


SUMMARY = "Predict the next share, item or query, label texts, and link posts to articles."
REPLIES = {
    "predict": ("answers", "answer_type"),
    "explain": ("explanations", "explanation_type"),
    "similar": ("answers", "answer_type"),
}
"""Operations that answer by records: the field of the reply, and which type of a task's row it is a list of."""
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
LIST: Mapping[str, object] = {
    "name": "list",
    "in": "path",
    "required": True,
    "description": "name of the list",
    "schema": {"type": "string", "pattern": f"^{NAME.pattern}$"},
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


COMMON = (400, 401, 404, 408, 413, 415, 422, 429, 503)
"""Statuses of the errors of every operation that reads a body."""


@dataclass(frozen=True)
class Operation:
    """One operation: its route, and what the document says of it.

    Attributes:
        name: of its endpoint, and of its bodies in :class:`RequestBodies`.
        method: of HTTP.
        path: template of the address.
        tag: section of the document.
        summary: one line.
        errors: statuses of its errors.
        reply: model of its reply; ``None`` for text, and for answers, which :func:`document` adds.
        status: of success.
        reads_body: whether it takes a body.
        writes: whether it needs the update token.
        parameters: descriptions of its headers.
    """

    name: str
    method: str
    path: str
    tag: str
    summary: str
    errors: tuple[int, ...] = ()
    reply: object = None
    status: int = 200
    reads_body: bool = False
    writes: bool = False
    parameters: tuple[Mapping[str, object], ...] = ()


MODEL = "/v1/models/{name}"
OPERATIONS = (
    Operation("list_models", "GET", "/v1/models", "models", "The served models", (401,), list[Served]),
    Operation(
        "predict", "POST", f"{MODEL}/predict", "models", "Return the ranked answers of each record", COMMON,
        reads_body=True,
    ),
    Operation(
        "explain", "POST", f"{MODEL}/explain", "models",
        "Return the attributions inside each record, with score drops", COMMON, reads_body=True,
    ),
    Operation(
        "figure", "POST", f"{MODEL}/figure", "models", "Return the evidence of one choice as a Plotly figure", COMMON,
        Drawing, reads_body=True,
    ),
    Operation(
        "similar", "POST", f"{MODEL}/similar", "models",
        "Return the items most similar to each item (task next)", COMMON, reads_body=True,
    ),
    Operation(
        "update", "POST", f"{MODEL}/update", "models",
        "Update the model with new records; the old version is kept and the new one takes over",
        (*COMMON, 403, 409), Learned, reads_body=True, writes=True, parameters=(KEY,),
    ),
    Operation(
        "put_list", "PUT", f"{MODEL}/lists/{{list}}", "models",
        "Store a list of items, which requests name in exclude_lists and allow_lists", (*COMMON, 403, 409), Stored,
        reads_body=True, writes=True, parameters=(LIST,),
    ),
    Operation(
        "delete_list", "DELETE", f"{MODEL}/lists/{{list}}", "models", "Delete a list of items", (401, 403, 404, 422),
        status=204, writes=True, parameters=(LIST,),
    ),
    Operation(
        "events", "POST", "/v1/events", "events", "Add events to the queue that `ensue stream` reads", (*COMMON, 403),
        Queued, 202, reads_body=True, writes=True,
    ),
    Operation("healthz", "GET", "/healthz", "service", "Whether the process answers", (), Status),
    Operation(
        "readyz", "GET", "/readyz", "service", "Whether every model answers, and why a new version does not", (503,),
        Status,
    ),
    Operation("metrics", "GET", "/metrics", "service", "Metrics for Prometheus", (401,)),
    Operation("story", "GET", "/v1/story", "service", "The demo scenario of the page, if there is one", (401, 404)),
)  # fmt: skip


class RequestBodies:
    """Models of the bodies within the limits of a service.

    Args:
        settings: the limits.

    Attributes:
        events: model of the body of ``/v1/events``.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._bodies: dict[str, Bodies] = {}
        self.events = limited("Events", events.EventList, Limits(settings))

    def of(self, task: str) -> Bodies:
        """Return the models of a task's bodies; its predictor is imported by the first call."""
        if task not in self._bodies:
            service = service_of(task)
            limits = Limits(self._settings, service.task.record, service.read)
            self._bodies[task] = Bodies(
                **{
                    verb: limited(f"{verb.title()}{task.title()}", body, limits)
                    for verb, body in service.bodies._asdict().items()
                    if body is not None
                }
            )
        return self._bodies[task]

    def schemas(self) -> tuple[dict[str, object], dict[str, object]]:
        """Return the schema of each operation's body, by its name, and the definitions that they refer to."""
        types = {
            name: reduce(or_, filter(None, [getattr(models, name) for models in map(self.of, TASKS)]))
            for name in Bodies._fields
        }
        types["put_list"] = lists.ItemList
        # One event, a list, or an object with a list.
        types["events"] = self.events | events.Event | list[events.Event]
        adapters = [(name, "validation", TypeAdapter(kind)) for name, kind in types.items()]
        # All at once, so that two models of one name get one definition each.
        schemas, definitions = TypeAdapter.json_schemas(adapters, ref_template=REFERENCE)  # type: ignore[arg-type]
        return {name: schema for (name, _), schema in schemas.items()}, definitions["$defs"]


def document(requests: RequestBodies, models: Iterable[str]) -> dict[str, object]:
    """Return the whole document.

    Args:
        requests: models of the bodies.
        models: names of the served models.
    """
    schemas, definitions = requests.schemas()
    routes = [_documented(operation, schemas.get(operation.name), list(models)) for operation in OPERATIONS]
    openapi = get_openapi(title="ensue", version=__version__, summary=SUMMARY, routes=routes)
    for methods in openapi["paths"].values():
        for operation in methods.values():
            # FastAPI takes it from the docstring of the endpoint, which answers nothing here.
            operation.pop("description", None)
    components = openapi.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **definitions}
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "ENSUE_TOKEN of the service"},
        "update token": {"type": "http", "scheme": "bearer", "description": "ENSUE_UPDATE_TOKEN of the service"},
    }
    openapi["security"] = [{"token": []}]
    return openapi


def _documented(operation: Operation, schema: object, models: list[str]) -> APIRoute:
    """Return the route that FastAPI describes an operation by; it answers nothing."""
    parameters = list(operation.parameters)
    if "{name}" in operation.path:
        names = {"type": "string", "enum": models}
        parameters = [{"name": "name", "in": "path", "required": True, "schema": names}, *parameters]
    extra: dict[str, object] = {"parameters": parameters} if parameters else {}
    if operation.reads_body:
        content = {"application/json": {"schema": schema, "examples": _examples(operation.name)}}
        extra["requestBody"] = {"required": True, "content": content}
    if operation.writes:
        extra["security"] = UPDATES
    return APIRoute(
        operation.path,
        lambda: None,
        name=operation.name,
        methods=[operation.method],
        tags=[operation.tag],
        summary=operation.summary,
        status_code=operation.status,
        response_model=_reply_model(*REPLIES[operation.name]) if operation.name in REPLIES else operation.reply,
        response_class=JSONResponse,
        responses={status: {"description": REFUSED[status], "model": Problem} for status in operation.errors},
        openapi_extra=extra,
    )


def _examples(operation: str) -> dict[str, object]:
    """Return bodies of an operation that can be sent as they are, by name."""
    examples: Mapping[str, object] = {"events": events.EXAMPLES, "put_list": lists.EXAMPLES}.get(operation, {})
    if not examples:
        examples = {name: body for task in TASKS for name, body in service_of(task).examples.get(operation, {}).items()}
    return {name: {"value": value} for name, value in examples.items()}


@cache
def _reply_model(field: str, kind: str) -> object:
    """Return the model of a reply that is a list; operations with the same answers have the same one."""
    # Tasks share classes of answers: each is named once.
    items = reduce(or_, dict.fromkeys(getattr(service_of(task), kind) for task in TASKS))
    fields = {field: (GenericAlias(list, (items,)), ...)}
    return create_model(field.title(), **fields)  # type: ignore[call-overload]
