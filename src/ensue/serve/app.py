"""The application: routes that read a body, ask a model's thread, and give what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from ensue.errors import DataError, EnsueError
from ensue.serve import bodies, gorse, learning, schemas, updates
from ensue.serve.events import Queue, put, read_events
from ensue.serve.files import INDEX, Files
from ensue.serve.guard import COUNTED, Guard
from ensue.serve.logs import Log
from ensue.serve.metrics import CONTENT_TYPE, Metrics
from ensue.serve.models import Model, Models
from ensue.serve.pictures import Drawn
from ensue.serve.problems import Problem, busy, problem_of
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import Kind, Typed
from ensue.version import __version__

JSON = "application/json"
OFTEN = (400, 401, 404, 408, 413, 415, 422, 429, 503)


@dataclass(kw_only=True)
class Service:
    """All that the routes need.

    Attributes:
        models: by name.
        settings: limits and times.
        metrics: what is counted.
        log: where lines go.
        files: the page.
        queue: where events wait, or nothing.
        story: JSON for the page, or nothing.
        token: what a client must show; empty where none is needed.
        hosts: names the service goes by; any where empty.
    """

    models: Models
    settings: ServeSettings
    metrics: Metrics
    log: Log
    files: Files
    queue: Queue | None = None
    story: bytes | None = None
    token: str = ""
    hosts: tuple[str, ...] = ()
    stopping: bool = False
    learning: asyncio.Lock = field(default_factory=asyncio.Lock)


def make_app(service: Service) -> FastAPI:
    """The application of a service; its models are closed with it."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(service.models.watch())
        try:
            yield
        finally:
            service.stopping = True
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            await asyncio.to_thread(service.models.close)

    app = FastAPI(
        title="ensue",
        version=__version__,
        summary="Who passes it on, what is read or searched next, which label fits, which posts are about it.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=life,
    )
    for add in (_add_answers, _add_figure, _add_update, _add_gorse, _add_events):
        add(app, service)
    _add_looks(app, service)
    _add_page(app, service)
    app.add_exception_handler(Problem, lambda request, error: error.response())
    app.add_exception_handler(EnsueError, lambda request, error: problem_of(error).response())
    app.add_exception_handler(HTTPException, _foreign)
    app.add_middleware(Guard, token=service.token, hosts=service.hosts, log=service.log, metrics=service.metrics)
    return app


def _foreign(request: Request, error: Exception) -> Response:
    """What the framework refuses: no such address, or no such method there."""
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing at this address", 405: "this address does not take that method"}
    hint = "GET /openapi.json lists what there is"
    return Problem(error.status_code, said.get(error.status_code, str(error.detail)), hint, error.headers).response()


def _add_answers(app: FastAPI, service: Service) -> None:
    models = service.models

    @app.get("/v1/models", summary="The served models", tags=["models"], responses=schemas.responses(401))
    async def list_models() -> list[dict[str, Any]]:
        return [model.describe() for model in models.values()]

    @app.post(
        "/v1/models/{name}/predict",
        summary="Rank what comes next, the labels, or the articles of each record",
        tags=["models"],
        openapi_extra=schemas.described("predict", service.settings),
        responses=schemas.responses(*OFTEN),
    )
    async def predict(name: str, request: Request) -> Response:
        model = models.named(name)
        read = partial(bodies.read_asked, task=model.task, settings=service.settings)
        asked = await bodies.read_json(request, service.settings, service.settings.body_bytes, read)
        return await _answers(service, request, model, Kind("predict", asked.k, asked.evidence), asked.records)

    @app.post(
        "/v1/models/{name}/explain",
        summary="Say what the model leaned on inside each record, and what it loses without that",
        tags=["models"],
        openapi_extra=schemas.described("explain", service.settings),
        responses=schemas.responses(*OFTEN),
    )
    async def explain(name: str, request: Request) -> Response:
        model = models.named(name)
        read = partial(bodies.read_asked, task=model.task, settings=service.settings, verb="explain")
        asked = await bodies.read_json(request, service.settings, service.settings.body_bytes, read)
        records = [Typed(record, "") for record in asked.records] if model.task == "suggest" else asked.records
        return await _answers(service, request, model, Kind("explain", asked.k), records)


def _add_figure(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/models/{name}/figure",
        summary="Draw the evidence behind one choice as a Plotly figure",
        tags=["models"],
        openapi_extra=schemas.described("figure", service.settings),
        responses=schemas.responses(*OFTEN),
    )
    async def figure(name: str, request: Request) -> Response:
        model, settings = service.models.named(name), service.settings
        found: Any = await bodies.read_json(request, settings, settings.body_bytes)
        known = ["record", "k", "choice", *(["prefix"] if model.task == "suggest" else [])]
        body = bodies.fields_of(found, known, "record")
        record = bodies.read_record(body["record"], model.task, "record", settings.history)
        bodies.require_short(record, "record", settings.explained_words, settings)
        if model.task == "suggest":
            record = Typed(record, bodies.read_prefix(body.get("prefix", ""), 'field "prefix"', settings.prefix))
        k = bodies.whole_number(body, "k", 5, settings.most)
        choice = bodies.whole_number(body, "choice", 0, settings.most, least=0)
        request.scope[COUNTED] = 1
        (line,) = await model.ask(Drawn(max(k, choice + 1), choice), [record])
        service.metrics.records.labels(model.name, "figure").inc()
        return Response(line, media_type=JSON)


def _add_update(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/models/{name}/update",
        summary="Learn records on top of the model; what stood is kept, and the new version takes over",
        tags=["models"],
        openapi_extra={**schemas.described("update", service.settings), "parameters": [schemas.KEY]},
        responses=schemas.responses(*OFTEN, 409),
    )
    async def update(name: str, request: Request) -> Response:
        return await _update(service, service.models.named(name), request)


def _add_gorse(app: FastAPI, service: Service) -> None:
    @app.post(
        "/api/session/recommend",
        summary="Gorse's address: feedback of a session in, scored items out",
        tags=["gorse"],
        openapi_extra={
            **schemas.described("gorse", service.settings),
            "parameters": [
                {"name": "n", "in": "query", "schema": {"type": "integer", "minimum": 1, "default": 10}},
                {"name": "offset", "in": "query", "schema": {"type": "integer", "minimum": 0, "default": 0}},
                {"name": "model", "in": "query", "schema": {"type": "string"}},
            ],
        },
        responses=schemas.responses(*OFTEN),
    )
    async def session_recommend(request: Request) -> Response:
        settings, query = service.settings, request.query_params
        model = service.models.of_task("next", query.get("model"))
        n, offset = (
            _number(query.get("n"), "n", 10, settings.most),
            _number(query.get("offset"), "offset", 0, settings.most),
        )
        read = partial(gorse.read_feedback, limit=settings.history)
        history = await bodies.read_json(request, settings, settings.body_bytes, read)
        bodies.require_short(history, "feedback", settings.words, settings)
        request.scope[COUNTED] = 1
        k = n + offset + len(set(history.values))
        (line,) = await model.ask(Kind("predict", k, evidence=False), [history])
        service.metrics.records.labels(model.name, "predict").inc()
        return Response(gorse.recommended(line, history, n, offset), media_type=JSON)


async def _answers(service: Service, request: Request, model: Model, kind: Kind, records: Sequence[Any]) -> Response:
    request.scope[COUNTED] = len(records)
    lines = await model.ask(kind, records)
    service.metrics.records.labels(model.name, kind.verb).inc(len(records))
    name = "answers" if kind.verb == "predict" else "explanations"
    return Response(f'{{"{name}": [{", ".join(lines)}]}}', media_type=JSON)


async def _update(service: Service, model: Model, request: Request) -> Response:
    settings = service.settings
    if not settings.learn:
        raise Problem(
            403, "this service does not learn over HTTP", "use `ensue update`, or start it without --read-only"
        )
    key = bodies.read_key(request.headers.getlist("idempotency-key"))
    body = await bodies.read_body(request, settings.update_bytes, settings.patience)
    look = partial(updates.count_checked, task=model.task, settings=settings)
    request.scope[COUNTED] = await bodies.read_apart(body, settings, look)
    if service.learning.locked():
        raise busy("an update is being learned; one at a time", 5)
    async with service.learning:
        asked = learning.Asked(model.folder, body, settings.keep, key)
        made = await learning.learn_apart(asked, seconds=settings.learn_seconds)
        await asyncio.to_thread(model.refresh)
    replayed = made.pop("replayed", False)
    if not replayed:
        service.metrics.updates.labels(model.name).inc()
    return JSONResponse(made, headers={"idempotent-replayed": "true"} if replayed else None)


def _add_events(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/events",
        summary="Put events into the queue that `ensue stream` learns from",
        tags=["events"],
        status_code=202,
        openapi_extra=schemas.described("events", service.settings),
        responses=schemas.responses(*OFTEN),
    )
    async def events(request: Request) -> dict[str, int]:
        if service.queue is None:
            raise Problem(
                404, "this service takes no events", "start it with --queue sqlite:queue.db or a Redis address"
            )
        settings = service.settings
        read = partial(read_events, limit=settings.events)
        taken = await bodies.read_json(request, settings, settings.update_bytes, read)
        request.scope[COUNTED] = len(taken.lines)
        if taken.lines:
            await asyncio.to_thread(put, service.queue, taken.lines)
        service.metrics.events.inc(len(taken.lines))
        return {"accepted": len(taken.lines), "passed_over": taken.passed_over}


def _add_looks(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", summary="Whether the process answers", tags=["service"])
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/readyz", summary="Whether every model answers", tags=["service"], responses=schemas.responses(503))
    async def readyz() -> dict[str, str]:
        if service.stopping:
            raise Problem(503, "not ready: stopping")
        if silent := service.models.silent:
            raise Problem(503, f"not ready: {', '.join(silent)} does not answer")
        return {"status": "ready"}

    @app.get("/metrics", summary="Figures for Prometheus", tags=["service"], responses=schemas.responses(401))
    async def metrics() -> Response:
        return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})

    @app.get(
        "/v1/story",
        summary="The story that the page shows, if there is one",
        tags=["service"],
        responses=schemas.responses(401, 404),
    )
    async def story() -> Response:
        if service.story is None:
            raise Problem(404, "this service shows no story", "start it with --story FILE, or with `ensue demo`")
        return Response(service.story, media_type=JSON)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = schemas.document(app, service.models)
        return app.openapi_schema


def _add_page(app: FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return await service.files.response(INDEX, request)

    @app.get("/page/{name:path}", include_in_schema=False)
    async def page(name: str, request: Request) -> Response:
        return await service.files.response(name, request)


def _number(given: str | None, name: str, default: int, most: int) -> int:
    """A whole number of the address."""
    least = min(default, 1)
    if given is None or given == "":
        return default
    if not (given.isascii() and given.isdecimal() and len(given) < 10 and least <= int(given) <= most):
        raise DataError(f"{name} in the address must be a whole number from {least} to {most}")
    return int(given)
