"""The application: routes that read a body, ask a model's thread, and give what it says."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from ensue.data.edges import Edges
from ensue.errors import DataError, EnsueError
from ensue.serve import bodies, learning
from ensue.serve.bodies import Update, read_apart, read_body, read_key, read_request
from ensue.serve.events import Queue, put, read_events
from ensue.serve.files import DOCS, INDEX, Files
from ensue.serve.limits import COUNTED, Guard, require_tested, require_update
from ensue.serve.models import Model, Models
from ensue.serve.monitoring import CONTENT_TYPE, Log, Metrics
from ensue.serve.problems import Problem, busy, problem_of
from ensue.serve.proof import described
from ensue.serve.schemas import (
    KEY,
    UPDATES,
    Drawing,
    Learned,
    Queued,
    Requests,
    Served,
    Status,
    document,
    replies,
    responses,
)
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import Drawn, Kind
from ensue.serve.workers import Link
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
        edges: of models of histories, the true edges between values where they are known.
        token: what a client must show; empty where none is needed.
        update_token: what a client must show to update and to send events; empty where whoever may ask may.
        hosts: names the service goes by; any where empty.
        link: to who looks after this process, where it is one of several.
        lock: a file that is locked while one of them learns.
        watching: looks at the model folders.
    """

    models: Models
    settings: ServeSettings
    metrics: Metrics
    log: Log
    files: Files
    queue: Queue | None = None
    story: bytes | None = None
    edges: Mapping[str, Edges] = field(default_factory=dict)
    token: str = ""
    update_token: str = ""
    hosts: tuple[str, ...] = ()
    stopping: bool = False
    learning: asyncio.Lock = field(default_factory=asyncio.Lock)
    link: Link | None = None
    lock: Path | None = None
    watching: asyncio.Task[None] | None = None

    @property
    def unwatched(self) -> str:
        """Why new versions are no longer taken up; empty where they are."""
        if self.link is not None:
            return self.link.lost
        if self.watching is None or not self.watching.done():
            return ""
        error = None if self.watching.cancelled() else self.watching.exception()
        return f"the model folders are no longer watched ({'stopped' if error is None else described(error)})"

    @property
    def refused(self) -> dict[str, str]:
        """Why versions that lie in the folders do not answer, by model."""
        return self.models.refused if self.link is None else self.link.refused

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the one that learns, of all processes of the service.

        Raises:
            Problem: another update is being learned.
        """
        if self.learning.locked():
            raise busy("an update is running; send one at a time", 5)
        async with self.learning:
            with ExitStack() as stack:
                if self.lock is not None:
                    file = stack.enter_context(self.lock.open("wb"))
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        raise busy("an update is running; send one at a time", 5) from None
                yield

    async def taken_up(self, model: Model) -> None:
        """Wait until a folder that was replaced is what every process of the service answers from."""
        if self.link is None:
            await asyncio.to_thread(model.refresh)
        else:
            async with asyncio.timeout(self.settings.learn_seconds):
                await self.link.taken_up()


def make_app(service: Service) -> FastAPI:
    """The application of a service, whose models may come later; they are closed with it."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        service.watching = asyncio.create_task(service.models.watch())
        try:
            yield
        finally:
            service.stopping = True
            service.watching.cancel()
            await asyncio.wait([service.watching])
            await asyncio.to_thread(service.models.close)

    app = FastAPI(
        title="ensue",
        version=__version__,
        summary="Predict the next share, item or query, label texts, and link posts to articles.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=life,
    )
    requests = Requests(service.settings)
    for add in (_add_answers, _add_figure, _add_update, _add_events, _add_looks):
        add(app, service, requests)
    _add_page(app, service)
    app.add_exception_handler(Problem, lambda request, error: error.response())
    app.add_exception_handler(EnsueError, lambda request, error: problem_of(error).response())
    app.add_exception_handler(HTTPException, _foreign)
    app.add_middleware(
        Guard,
        token=service.token,
        update_token=service.update_token,
        hosts=service.hosts,
        log=service.log,
        metrics=service.metrics,
    )
    return app


def _foreign(request: Request, error: Exception) -> Response:
    """What the framework refuses: no such address, or no such method there."""
    assert isinstance(error, HTTPException)
    sentences = {404: "there is nothing at this address", 405: "this address does not take that method"}
    hint = "GET /openapi.json lists all routes"
    return Problem(
        error.status_code, sentences.get(error.status_code, str(error.detail)), hint, error.headers
    ).response()


def _add_answers(app: FastAPI, service: Service, requests: Requests) -> None:
    @app.get("/v1/models", summary="The served models", tags=["models"], responses=responses(401))
    async def list_models() -> list[Served]:
        return [Served.model_validate(model.describe()) for model in service.models.values()]

    @app.post(
        "/v1/models/{name}/predict",
        summary="Return the ranked answers of each record",
        tags=["models"],
        response_model=replies("answers", "answer_type"),
        openapi_extra=requests.described("predict"),
        responses=responses(*OFTEN),
    )
    async def predict(name: str, request: Request) -> Response:
        model = service.models.named(name)
        body = await read_request(request, service.settings, requests.bodies[model.task].predict)
        kind = Kind("predict", body.k, body.evidence)
        return await _answers(service, request, model, kind, model.service.questions(body))

    @app.post(
        "/v1/models/{name}/explain",
        summary="Return the attributions inside each record, with score drops",
        tags=["models"],
        response_model=replies("explanations", "explanation_type"),
        openapi_extra=requests.described("explain"),
        responses=responses(*OFTEN),
    )
    async def explain(name: str, request: Request) -> Response:
        model = service.models.named(name)
        body = await read_request(request, service.settings, requests.bodies[model.task].explain)
        return await _answers(service, request, model, Kind("explain", body.k), model.service.questions(body))


def _add_figure(app: FastAPI, service: Service, requests: Requests) -> None:
    @app.post(
        "/v1/models/{name}/figure",
        summary="Return the evidence of one choice as a Plotly figure",
        tags=["models"],
        response_model=Drawing,
        openapi_extra=requests.described("figure"),
        responses=responses(*OFTEN),
    )
    async def figure(name: str, request: Request) -> Response:
        model = service.models.named(name)
        body = await read_request(request, service.settings, requests.bodies[model.task].figure)
        request.scope[COUNTED] = 1
        drawn = Drawn(max(body.k, body.choice + 1), body.choice, service.edges.get(model.name))
        (line,) = await model.ask(drawn, model.service.questions(body))
        service.metrics.records.labels(model.name, "figure").inc()
        return Response(line, media_type=JSON)


def _add_update(app: FastAPI, service: Service, requests: Requests) -> None:
    @app.post(
        "/v1/models/{name}/update",
        summary="Update the model with new records; the old version is kept and the new one takes over",
        tags=["models"],
        response_model=Learned,
        openapi_extra={**requests.described("update"), "parameters": [KEY], "security": UPDATES},
        responses=responses(*OFTEN, 403, 409),
    )
    async def update(name: str, request: Request) -> Response:
        require_update(request.scope)
        model = service.models.named(name)
        return await _update(service, model, request, requests.bodies[model.task].update)


async def _answers(
    service: Service, request: Request, model: Model, kind: Kind, questions: Sequence[object]
) -> Response:
    request.scope[COUNTED] = len(questions)
    lines = await model.ask(kind, questions)
    service.metrics.records.labels(model.name, kind.verb).inc(len(questions))
    name = "answers" if kind.verb == "predict" else "explanations"
    return Response(f'{{"{name}": [{", ".join(lines)}]}}', media_type=JSON)


async def _update(service: Service, model: Model, request: Request, kind: type[Update]) -> Response:
    settings = service.settings
    if not settings.learn:
        raise Problem(403, "updates over HTTP are disabled", "use `ensue update`, or start it without --read-only")
    key = read_key(request.headers.getlist("idempotency-key"))
    sent = await read_body(request, settings.update_bytes, settings.patience)
    body = await read_apart(sent, settings, partial(bodies.read, kind))
    if body.empty:
        raise DataError('field "records" is empty; there is nothing to train on')
    require_tested(request.scope, test=body.test, max_drop=body.max_drop)
    request.scope[COUNTED] = len(body.records)
    async with service.alone():
        report = await learning.learn_apart(
            learning.Sent(model.folder, sent, settings.keep, key), seconds=settings.learn_seconds
        )
        await service.taken_up(model)
    if wrong := service.refused.get(model.name):
        raise Problem(
            409,
            f"updated, but the new version does not answer: {wrong}",
            "restore an older version: ensue update FOLDER --rollback",
        )
    replayed = report.pop("replayed", False)
    if not replayed:
        service.metrics.updates.labels(model.name).inc()
    return JSONResponse(report, headers={"idempotent-replayed": "true"} if replayed else None)


def _add_events(app: FastAPI, service: Service, requests: Requests) -> None:
    @app.post(
        "/v1/events",
        summary="Add events to the queue that `ensue stream` reads",
        tags=["events"],
        status_code=202,
        openapi_extra={**requests.described("events"), "security": UPDATES},
        responses=responses(*OFTEN, 403),
    )
    async def events(request: Request) -> Queued:
        require_update(request.scope)
        if service.queue is None:
            raise Problem(
                404, "this service takes no events", "start it with --queue sqlite:queue.db or a Redis address"
            )
        read = partial(read_events, body=requests.events, settings=service.settings)
        sent = await read_body(request, service.settings.update_bytes, service.settings.patience)
        taken = await read_apart(sent, service.settings, read)
        request.scope[COUNTED] = len(taken.lines)
        if taken.lines:
            await asyncio.to_thread(put, service.queue, taken.lines)
        service.metrics.events.inc(len(taken.lines))
        return Queued(accepted=len(taken.lines), passed_over=taken.passed_over)


def _add_looks(app: FastAPI, service: Service, requests: Requests) -> None:
    @app.get("/healthz", summary="Whether the process answers", tags=["service"], response_model_exclude_none=True)
    async def healthz() -> Status:
        return Status(status="alive", refused=None)

    @app.get(
        "/readyz",
        summary="Whether every model answers, and why a new version does not",
        tags=["service"],
        response_model_exclude_none=True,
        responses=responses(503),
    )
    async def readyz() -> Status:
        if service.stopping:
            raise Problem(503, "not ready: stopping")
        if silent := service.models.silent:
            raise Problem(503, f"not ready: {', '.join(silent)} does not answer")
        if service.unwatched:
            raise Problem(503, f"not ready: {service.unwatched}")
        return Status(status="ready", refused=service.refused or None)

    @app.get("/metrics", summary="Metrics for Prometheus", tags=["service"], responses=responses(401))
    async def metrics() -> Response:
        return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})

    @app.get(
        "/v1/story",
        summary="The demo scenario of the page, if there is one",
        tags=["service"],
        responses=responses(401, 404),
    )
    async def story() -> Response:
        if service.story is None:
            raise Problem(
                404, "this service has no demo scenario", "start it with --scenario FILE, or with `ensue demo`"
            )
        return Response(service.story, media_type=JSON)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, object]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app, requests, service.models)
        return app.openapi_schema


def _add_page(app: FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return await service.files.response(INDEX, request)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return await service.files.response(DOCS, request)

    @app.get("/page/{name:path}", include_in_schema=False)
    async def page(name: str, request: Request) -> Response:
        return await service.files.response(name, request)
