"""The application: endpoints that read a body, put its questions to a model's thread, and send what it answers.

:data:`Guard` lets a request in and turns every error into an answer, a router of Starlette chooses the endpoint, and
the endpoint returns a response. FastAPI only writes the document (:mod:`ensue.serve.schemas`): a request passes none of
its layers.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from ensue.data.edges import Edges
from ensue.errors import DataError
from ensue.experiments import Experiment
from ensue.records import History
from ensue.serve import bodies, experiments, learning
from ensue.serve.bodies import Predict, read_apart, read_body, read_key, read_request
from ensue.serve.events import RedisQueue, put, read_events
from ensue.serve.files import DOCS, INDEX, Files
from ensue.serve.limits import RECORDS, VARIANTS, Guard, require_tested, require_update
from ensue.serve.lists import ItemList
from ensue.serve.models import ServedModel, ServedModels
from ensue.serve.monitoring import CONTENT_TYPE, Metrics, ServiceLog
from ensue.serve.problems import RequestError, busy
from ensue.serve.proof import described
from ensue.serve.schemas import OPERATIONS, RequestBodies, document
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import Kind
from ensue.serve.workers import SupervisorLink
from ensue.stream import SQLiteQueue

JSON = "application/json"
PAGES = {"/": INDEX, "/docs": DOCS}


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
        experiments: by name, which is an address as that of a model.
        shown: where the lists of variants are written, or nothing.
        story: JSON for the page, or nothing.
        edges: of models of histories, the true edges between values where they are known.
        token: what a client must show; empty where none is needed.
        update_token: what a client must show to update and to send events; empty where whoever may ask may.
        hosts: names the service goes by; any where empty.
        link: to who looks after this process, where it is one of several.
        lock: a file that is locked while one of them learns.
        watching: looks at the model folders.
    """

    models: ServedModels
    settings: ServeSettings
    metrics: Metrics
    log: ServiceLog
    files: Files
    queue: SQLiteQueue | RedisQueue | None = None
    experiments: Mapping[str, Experiment] = field(default_factory=dict)
    shown: ServiceLog | None = None
    story: bytes | None = None
    edges: Mapping[str, Edges] = field(default_factory=dict)
    token: str = ""
    update_token: str = ""
    hosts: tuple[str, ...] = ()
    stopping: bool = False
    learning: asyncio.Lock = field(default_factory=asyncio.Lock)
    link: SupervisorLink | None = None
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
            RequestError: another update is being learned.
        """
        # Refused, not queued: an update takes long, and its client would wait for two.
        if self.learning.locked():
            raise busy("an update is running; send one at a time", 5)
        async with self.learning:
            with ExitStack() as stack:
                if self.lock is not None:
                    file = stack.enter_context(self.lock.open("wb"))
                    try:
                        # The lock above is of this process; this one is of all workers.
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        raise busy("an update is running; send one at a time", 5) from None
                yield

    async def taken_up(self, model: ServedModel) -> None:
        """Wait until a folder that was replaced is what every process of the service answers from."""
        if self.link is None:
            await asyncio.to_thread(model.refresh)
        else:
            async with asyncio.timeout(self.settings.learn_seconds):
                await self.link.taken_up()


def make_app(service: Service) -> ASGIApp:
    """Return the application of a service, whose models may come later; it closes them when it ends."""

    @asynccontextmanager
    async def lifespan(app: Router) -> AsyncIterator[None]:
        service.watching = asyncio.create_task(service.models.watch())
        try:
            yield
        finally:
            # Probes say so before the models close, so that a proxy sends no more requests.
            service.stopping = True
            service.watching.cancel()
            await asyncio.wait([service.watching])
            await asyncio.to_thread(service.models.close)

    return Guard(
        Router(Endpoints(service).routes(), lifespan=lifespan),
        token=service.token,
        update_token=service.update_token,
        hosts=service.hosts,
        log=service.log,
        metrics=service.metrics,
    )


class Endpoints:
    """The endpoints of a service: each takes a request and returns its response, or raises.

    Args:
        service: what they need.
    """

    def __init__(self, service: Service) -> None:
        self._service, self._settings = service, service.settings
        self._requests = RequestBodies(service.settings)
        self._document: dict[str, object] = {}

    def routes(self) -> list[Route]:
        """Return the route of each documented operation, of the document and of the page."""
        routes = [
            Route(operation.path, getattr(self, f"_{operation.name}"), methods=[operation.method])
            for operation in OPERATIONS
        ]
        routes.append(Route("/openapi.json", self._openapi, methods=["GET"]))
        routes += [Route(path, self._page, methods=["GET"]) for path in (*PAGES, "/page/{name:path}")]
        for route in routes:
            assert route.methods is not None
            # Starlette adds HEAD to GET; the document does not have it.
            route.methods.discard("HEAD")
        return routes

    async def _list_models(self, request: Request) -> Response:
        return JSONResponse([model.describe() for model in self._service.models.values()])

    async def _predict(self, request: Request) -> Response:
        name = request.path_params["name"]
        experiment = self._service.experiments.get(name)
        # All models of an experiment are of one task, so that their bodies are alike.
        model = self._model(request) if experiment is None else self._service.models[next(iter(experiment.shares))]
        body = await read_request(request, self._settings, self._requests.of(model.task).predict)
        # Bodies of task next alone have a variant.
        variant: str = getattr(body, "variant", "")
        if experiment is not None or variant:
            lines = await self._predict_variants(request, experiment, body, variant)
        else:
            lines = await self._ask(request, model, Kind("predict", body.k, body.evidence), model.questions(body))
        return Response(f'{{"answers": [{", ".join(lines)}]}}', media_type=JSON)

    async def _predict_variants(
        self, request: Request, experiment: Experiment | None, body: Predict, variant: str
    ) -> Sequence[str]:
        """Return the line of JSON of the variant of each record, and log what was shown."""
        name = request.path_params["name"]
        records = cast(Sequence[History], body.records)
        variants = experiments.variants_of(experiment, records, variant)
        if experiment is not None and experiment.interleaved and getattr(body, "max_per", None):
            raise DataError(
                'field "max_per": lists of two models together may exceed it; leave it out, or split the sessions'
            )
        kind = Kind("predict", body.k, body.evidence)

        async def ask(model_name: str, rows: Sequence[int]) -> Sequence[str]:
            model = self._service.models.require(model_name)
            questions = model.questions(body)
            return await self._ask(request, model, kind, [questions[row] for row in rows])

        if experiment is None:
            lines = await ask(name, range(len(records)))
        else:
            lines = await experiments.answer(experiment, records, variants, body.k, ask)
        # Each line is an object of JSON, which gets one more field.
        lines = [
            f'{line[:-1]}, "variant": {json.dumps(assigned)}}}' for line, assigned in zip(lines, variants, strict=True)
        ]
        request.scope[RECORDS] = len(records)
        request.scope[VARIANTS] = Counter(variants)
        if self._service.shown is not None:
            experiments.write_shown(self._service.shown, name, experiment, records, lines)
        return lines

    async def _explain(self, request: Request) -> Response:
        model = self._model(request)
        body = await read_request(request, self._settings, self._requests.of(model.task).explain)
        lines = await self._ask(request, model, Kind("explain", body.k), model.questions(body))
        return Response(f'{{"explanations": [{", ".join(lines)}]}}', media_type=JSON)

    async def _figure(self, request: Request) -> Response:
        model = self._model(request)
        body = await read_request(request, self._settings, self._requests.of(model.task).figure)
        # The drawn choice must be among the answers, whatever k says.
        k = max(body.k, body.choice + 1)
        kind = Kind("figure", k, choice=body.choice, truth=self._service.edges.get(model.name))
        (line,) = await self._ask(request, model, kind, model.questions(body))
        return Response(line, media_type=JSON)

    async def _similar(self, request: Request) -> Response:
        model = self._model(request)
        body_type = self._requests.of(model.task).similar
        if body_type is None:
            raise RequestError(422, f"model {model.name!r} is of task {model.task}, which compares no items")
        body = await read_request(request, self._settings, body_type)
        lines = await self._ask(request, model, Kind("similar", body.k), model.questions(body))
        return Response(f'{{"answers": [{", ".join(lines)}]}}', media_type=JSON)

    def _model(self, request: Request) -> ServedModel:
        """Return the model that the address names."""
        name = request.path_params["name"]
        if name in self._service.experiments:
            variants = ", ".join(self._service.experiments[name].shares)
            raise RequestError(422, f"{name!r} is an experiment, which only predicts", f"name a model: {variants}")
        return self._service.models.require(name)

    async def _ask(
        self, request: Request, model: ServedModel, kind: Kind, questions: Sequence[object]
    ) -> Sequence[str]:
        """Return the model's line of JSON for each question, and count the questions."""
        request.scope[RECORDS] = len(questions)
        lines = await model.ask(kind, questions)
        self._service.metrics.records.labels(model.name, kind.verb).inc(len(questions))
        return lines

    async def _update(self, request: Request) -> Response:
        require_update(request.scope)
        service, settings, model = self._service, self._settings, self._model(request)
        if not settings.learn:
            raise RequestError(
                403, "updates over HTTP are disabled", "use `ensue update`, or start it without --read-only"
            )
        # Everything that can be refused is refused before the lock is taken.
        key = read_key(request.headers.getlist("idempotency-key"))
        sent = await read_body(request, settings.update_bytes, settings.patience)
        body = await read_apart(sent, settings, partial(bodies.read, self._requests.of(model.task).update))
        if body.empty:
            raise DataError('field "records" is empty; there is nothing to train on')
        require_tested(request.scope, test=body.test, max_drop=body.max_drop)
        request.scope[RECORDS] = len(body.records)
        async with service.alone():
            report = await learning.learn_apart(
                learning.Sent(model.folder, sent, settings.keep, key), seconds=settings.learn_seconds
            )
            # The client may ask the new version with its next request.
            await service.taken_up(model)
        if wrong := service.refused.get(model.name):
            raise RequestError(
                409,
                f"updated, but the new version does not answer: {wrong}",
                "restore an older version: ensue update FOLDER --rollback",
            )
        # An update that was answered once more is not counted twice.
        replayed = report.pop("replayed", False)
        if not replayed:
            service.metrics.updates.labels(model.name).inc()
        return JSONResponse(report, headers={"idempotent-replayed": "true"} if replayed else None)

    async def _put_list(self, request: Request) -> Response:
        require_update(request.scope)
        model = self._model(request)
        settings = self._settings
        num_known = model.service.num_known
        if num_known is None:
            raise RequestError(
                422, f"model {model.name!r} is of task {model.task}, which answers without lists of items"
            )
        sent = await read_body(request, settings.update_bytes, settings.patience)
        body = await read_apart(sent, settings, partial(bodies.read, ItemList))
        await asyncio.to_thread(model.lists.put, request.path_params["list"], body.items)
        return JSONResponse({"items": len(body.items), "in_vocabulary": num_known(model.served.predictor, body.items)})

    async def _delete_list(self, request: Request) -> Response:
        require_update(request.scope)
        self._model(request).lists.delete(request.path_params["list"])
        return Response(status_code=204)

    async def _events(self, request: Request) -> Response:
        require_update(request.scope)
        service, settings = self._service, self._settings
        if service.queue is None:
            raise RequestError(
                404, "this service takes no events", "start it with --queue sqlite:queue.db or a Redis address"
            )
        sent = await read_body(request, settings.update_bytes, settings.patience)
        accepted = await read_apart(sent, settings, partial(read_events, body=self._requests.events, settings=settings))
        request.scope[RECORDS] = len(accepted.lines)
        if accepted.lines:
            await asyncio.to_thread(put, service.queue, accepted.lines)
        service.metrics.events.inc(len(accepted.lines))
        return JSONResponse({"accepted": len(accepted.lines), "passed_over": accepted.passed_over}, 202)

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def _readyz(self, request: Request) -> Response:
        service = self._service
        if service.stopping:
            raise RequestError(503, "not ready: stopping")
        if silent := service.models.silent:
            raise RequestError(503, f"not ready: {', '.join(silent)} does not answer")
        if service.unwatched:
            raise RequestError(503, f"not ready: {service.unwatched}")
        return JSONResponse({"status": "ready", **({"refused": service.refused} if service.refused else {})})

    async def _metrics(self, request: Request) -> Response:
        return Response(self._service.metrics.text(), headers={"content-type": CONTENT_TYPE})

    async def _story(self, request: Request) -> Response:
        if self._service.story is None:
            raise RequestError(
                404, "this service has no demo scenario", "start it with --scenario FILE, or with `ensue demo`"
            )
        return Response(self._service.story, media_type=JSON)

    async def _openapi(self, request: Request) -> Response:
        self._document = self._document or document(self._requests, [*self._service.models, *self._service.experiments])
        return JSONResponse(self._document)

    async def _page(self, request: Request) -> Response:
        name = request.path_params.get("name", PAGES.get(request.url.path, ""))
        return await self._service.files.response(name, request)
