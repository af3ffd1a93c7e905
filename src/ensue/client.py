"""Clients of the service, blocking and asynchronous: sessions are lists of ids, answers are those of the library.

    >>> from ensue.client import Client
    >>> Client("http://127.0.0.1:8000").predict("clicks", [["a17", "b03"]], k=3)

A request is sent again where the connection failed or the service was busy; an update only under a key, events never.
Needs the extra ``client``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypedDict, TypeVar, Unpack, overload

from pydantic import TypeAdapter, ValidationError

from ensue.answers import (
    Answer,
    Explanation,
    LinkAnswer,
    LinkExplanation,
    QueryExplanation,
    TextAnswer,
    TextExplanation,
    VariantAnswer,
)
from ensue.arguments import id_list
from ensue.errors import DataError, EnsueError, ModelFolderError, SettingError
from ensue.records import Article, History, Post, Text

__all__ = ["AsyncClient", "Client"]

Record = History | Text | Post
Session = Sequence[str] | History
"""A session or a cascade: a list of ids or queries, oldest first, or with times and an id a :class:`~ensue.History`."""
Records = Sequence[Record | Session]
"""Records of any task, or lists of ids."""
Kind = TypeVar("Kind")
_ANSWERS: Mapping[type[Record], type[Answer | TextAnswer | LinkAnswer]]
_ANSWERS = {History: Answer, Text: TextAnswer, Post: LinkAnswer}
_ERRORS: Mapping[int, type[EnsueError]] = {
    **dict.fromkeys((400, 413, 422), DataError), **dict.fromkeys((401, 403, 404), SettingError), 409: ModelFolderError
}  # fmt: skip


BUSY = (429, 503)
"""Statuses after which a service may answer a little later."""
LONGEST = 10.0
"""Seconds that a service may ask a client to wait before it is asked again; after longer ones nobody is."""
PAUSE = 0.25
"""Seconds before the first further attempt where the service names none; each pause is twice the one before."""


class SimilarOptions(TypedDict, total=False):
    """Keywords of :meth:`ensue.client.Client.similar`, all of task next."""

    exclude: Collection[str]
    """Task next: items that are never returned."""
    allow: Collection[str] | None
    """Task next: the only items that are returned; all unless stated."""
    exclude_lists: Sequence[str]
    """Task next: names of stored lists whose items are never returned, see :meth:`Client.put_list`."""
    allow_lists: Sequence[str]
    """Task next: names of stored lists; only items on each of them are returned."""
    filters: Sequence[str]
    """Task next: conditions on columns of the item table, such as ``price < 50``."""
    now: float | None
    """Task next: the time that ``within`` in a filter counts from, in seconds; else the clock."""


class PredictOptions(SimilarOptions, total=False):
    """Keywords of :meth:`ensue.client.Client.predict`."""

    evidence: bool
    """True to fill the attributions of each choice. [default: True]"""
    prefix: str
    """Task suggest: text in the search box."""
    max_per: Mapping[str, int]
    """Task next: maximum number of answers with the same value of a column, by the column."""
    diversify: str
    """Task next: re-ranking for diversity, such as ``mmr=0.3``."""
    exclude_seen: bool | None
    """Task next: whether items of the session are left out; by the repeats in the training data unless stated."""
    rank_unknown: bool
    """Task next: whether items of the session that the training data lacks are ranked too."""
    variant: str
    """Task next: variant of an A/B test, which the service logs; the answers are then ``VariantAnswer``. Unless stated,
    an experiment of the service assigns one by the id of each record."""


class UpdateOptions(TypedDict, total=False):
    """Keywords of :meth:`ensue.client.Client.update`."""

    articles: Sequence[Article]
    """Task link: new articles."""
    items: Sequence[Mapping[str, object]]
    """Task next: rows of the item table that are new or have changed, column -> value."""
    users: Sequence[str] | None
    """Task suggest: who typed each session, for the k-anonymity threshold."""
    max_drop: float | None
    """Fraction by which the tested metric may fall before the update is refused; 0.05 unless stated."""
    test: bool
    """True to test the update before it becomes active. [default: True]"""
    key: str | None
    """A text such as a UUID with which the update can be sent again where no answer came: an update under a key that
    the model knows is answered once more and not trained on twice."""


@dataclass(frozen=True)
class Request(Generic[Kind]):
    """One request, and the reader of its answer."""

    method: str
    path: str
    read: Callable[[Any], Kind]
    body: object = None
    seconds: float | None = None
    key: str | None = None
    writes: bool = False
    """True where it needs the update token."""
    repeats: bool = True
    """True where it may be sent twice."""


class RequestSender:
    """Requests, retries and replies of both clients; the arguments are those of :class:`Client`."""

    library_class: ClassVar[str]
    """Class of the library of connections, which keeps a pool of them."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        update_token: str | None = None,
        seconds: float = 30.0,
        retries: int = 2,
    ) -> None:
        try:
            # Only here: the package is an extra, and the library itself needs no HTTP.
            import httpx2
        except ImportError as error:
            raise SettingError("the client needs httpx2; install it with: pip install 'ensue[client]'") from error
        if not address.startswith(("http://", "https://")):
            raise SettingError(f"{address!r} is not an address; write http://HOST:PORT")
        headers = _authorization("ENSUE_TOKEN", token)
        self._update_headers = _authorization("ENSUE_UPDATE_TOKEN", update_token)
        self.address, self.retries = address.rstrip("/"), retries
        self.errors, self.no_connection = (httpx2.HTTPError, httpx2.InvalidURL), httpx2.ConnectError
        pool = getattr(httpx2, self.library_class)
        self.http: Any = pool(base_url=self.address, headers=headers, timeout=seconds)

    def models_request(self) -> Request[list[dict[str, object]]]:
        """See :meth:`ensue.client.Client.models`."""
        return Request("GET", "/v1/models", lambda answer: answer)

    def predict_request(
        self, model: str, records: Records, k: int = 10, **options: Unpack[PredictOptions]
    ) -> Request[list[Any]]:
        """See :meth:`ensue.client.Client.predict`."""
        records = _records(records)
        # An empty allow list allows nothing, so it is sent; an empty exclude list says nothing.
        lists = {
            name: sorted(id_list(items, name))
            for name, items in (("exclude", options.pop("exclude", ())), ("allow", options.pop("allow", None)))
            if items is not None and (items or name == "allow")
        }
        fields = {
            name: value
            for name, value in options.items()
            if value not in (None, "") and (name, value) != ("rank_unknown", False)
        }
        # Options at their defaults are left out, so that older services take the request.
        body = {"records": _plain(records), "k": k, **fields, **lists}

        def read(reply: Mapping[str, Sequence[Mapping[str, object]]]) -> list[Any]:
            pairs = zip(records, reply["answers"], strict=True)
            return [_read(_answer(record, answer), answer) for record, answer in pairs]

        return Request("POST", f"/v1/models/{model}/predict", read, body)

    def explain_request(self, model: str, records: Records, k: int = 3) -> Request[list[Any]]:
        """See :meth:`ensue.client.Client.explain`."""
        records = _records(records)

        def read(reply: Mapping[str, Sequence[Mapping[str, object]]]) -> list[Any]:
            pairs = zip(records, reply["explanations"], strict=True)
            return [_read(_explanation(record, explanation), explanation) for record, explanation in pairs]

        return Request("POST", f"/v1/models/{model}/explain", read, {"records": _plain(records), "k": k})

    def similar_request(
        self, model: str, items: Collection[str], k: int = 10, **options: Unpack[SimilarOptions]
    ) -> Request[list[Answer]]:
        """See :meth:`ensue.client.Client.similar`."""
        fields = {
            name: sorted(id_list(value, name)) if name in ("exclude", "allow") else value
            for name, value in options.items()
            if value is not None
        }
        body = {"items": list(id_list(items, "items")), "k": k, **fields}

        def read(reply: Any) -> list[Answer]:
            return [_read(Answer, answer) for answer in reply["answers"]]

        return Request("POST", f"/v1/models/{model}/similar", read, body)

    def update_request(
        self, model: str, records: Records, **options: Unpack[UpdateOptions]
    ) -> Request[dict[str, object]]:
        """See :meth:`ensue.client.Client.update`."""
        key = options.pop("key", None)
        articles = _plain(options.pop("articles", ()))
        fields = {name: value for name, value in options.items() if value is not None and value != ()}
        body = {"records": _plain(_records(records)), **fields, **({"articles": articles} if articles else {})}
        path = f"/v1/models/{model}/update"
        # Without a key an update that is sent twice would be trained on twice.
        return Request("POST", path, lambda answer: answer, body, 600.0, key, writes=True, repeats=key is not None)

    def events_request(self, events: Sequence[Mapping[str, object]]) -> Request[int]:
        """See :meth:`ensue.client.Client.events`."""
        body = {"events": list(events)}
        return Request("POST", "/v1/events", lambda answer: int(answer["accepted"]), body, writes=True, repeats=False)

    def put_list_request(self, model: str, name: str, items: Collection[str]) -> Request[dict[str, int]]:
        """See :meth:`ensue.client.Client.put_list`."""
        body = {"items": sorted(id_list(items, "items"))}
        return Request("PUT", f"/v1/models/{model}/lists/{name}", lambda answer: answer, body, writes=True)

    def options(self, request: Request[Any]) -> dict[str, object]:
        """Return what the library of connections takes besides method and path."""
        # The update token replaces the other one; a client without it shows that.
        headers = self._update_headers if request.writes else {}
        headers = headers if request.key is None else {**headers, "idempotency-key": request.key}
        options = {"json": request.body, "headers": headers or None, "timeout": request.seconds}
        # None would override the defaults of the pool.
        return {name: value for name, value in options.items() if value is not None}

    def pause(self, request: Request[Any], attempt: int, reply: Any) -> float | None:
        """Return the seconds until a request is sent again; ``None`` where it is not.

        Args:
            request: what was sent.
            attempt: number of attempts before this one.
            reply: the response, or the error of the connection.
        """
        failed = isinstance(reply, Exception)
        # No connection was made, so that nothing was done; any other failure may have come after the work.
        passes = isinstance(reply, self.no_connection) if failed else reply.status_code in BUSY
        if not passes or not request.repeats or attempt >= self.retries:
            return None
        # A date is allowed there too; then the pause is ours.
        retry_after = "" if failed else reply.headers.get("retry-after", "")
        seconds = float(retry_after) if retry_after.isdecimal() else PAUSE * 2**attempt
        return seconds if seconds <= LONGEST else None

    def result(self, request: Request[Kind], reply: Any) -> Kind:
        """Return what the reply says.

        Raises:
            EnsueError: the service cannot be reached, refuses, or is another one.
        """
        if isinstance(reply, Exception):
            raise EnsueError(f"{self.address}: cannot be reached ({reply}); is the service running?") from reply
        try:
            decoded = reply.json()
        except ValueError:
            wrong = f"{self.address}: status {reply.status_code}, and no JSON; is this an ensue service?"
            raise EnsueError(wrong) from None
        if reply.is_success:
            return request.read(decoded)
        problem = decoded if isinstance(decoded, dict) else {}
        sentences = [str(problem[name]) for name in ("error", "hint") if name in problem]
        # A proxy may have answered, without the service's own error.
        text = "; ".join(sentences) or f"status {reply.status_code}"
        raise _ERRORS.get(reply.status_code, EnsueError)(text)


def _authorization(variable: str, token: str | None) -> dict[str, str]:
    """Return the header that shows a token, or the one of the environment; none where it is empty."""
    # An empty text means no token, even where the environment has one.
    secret = os.environ.get(variable, "") if token is None else token
    return {"authorization": f"Bearer {secret}"} if secret else {}


def _records(records: Records) -> list[Record]:
    """Return records as they are, and lists of ids as sessions.

    Raises:
        DataError: something else.
    """
    example = 'give a list of sessions, such as [["a", "b"]], or of records'
    if isinstance(records, str) or not isinstance(records, Sequence):
        raise DataError(f"records is of type {type(records).__name__}; {example}")
    for position, record in enumerate(records):
        # A text is a sequence too, and would become a session of letters.
        if not isinstance(record, Record | list | tuple):
            raise DataError(f"records[{position}] is of type {type(record).__name__}; {example}")
    return [record if isinstance(record, Record) else History(tuple(record)) for record in records]


def _plain(records: Sequence[Record | Article]) -> list[object]:
    return [json.loads(record.to_json()) for record in records]


def _answer(record: Record, decoded: Mapping[str, object]) -> type:
    # An experiment answers with the variant that it assigned.
    return VariantAnswer if "variant" in decoded else _ANSWERS[type(record)]


def _explanation(record: Record, decoded: Mapping[str, object]) -> type:
    # Sessions are of two tasks, which the fields of the answer tell apart.
    kinds = {Post: LinkExplanation, Text: TextExplanation}
    return kinds.get(type(record), QueryExplanation if "queries" in decoded else Explanation)


def _read(kind: type[Kind], decoded: object) -> Kind:
    """Return a decoded object as one of the library's dataclasses."""
    # To build a reader takes longer than to read an answer.
    if kind not in _READERS:
        _READERS[kind] = TypeAdapter(kind)
    try:
        answer: Kind = _READERS[kind].validate_python(decoded)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise EnsueError(
            f"the answer is not what this version reads ({location}: {first['msg']}); update ensue"
        ) from error
    return answer


_READERS: dict[type, TypeAdapter[Any]] = {}


class Client(RequestSender):
    """Client of a service.

    Args:
        address: such as ``http://127.0.0.1:8000``.
        token: token of the service. [default: the variable ENSUE_TOKEN]
        update_token: token for updates and events. [default: the variable ENSUE_UPDATE_TOKEN, else ``token``]
        seconds: time limit of a request; updates have ten minutes.
        retries: number of further attempts where the connection failed or the service was busy.

    Raises:
        SettingError: the extra ``client`` is missing, or the address is invalid.

    Example:
        >>> from ensue.client import Client
        >>> with Client("http://127.0.0.1:8000") as client:
        ...     (answer,) = client.predict("next", [["crack-explained", "bridge-history"]], k=1)
        >>> answer.choices[0].value
        'bridge-closes'
    """

    library_class = "Client"

    def models(self) -> list[dict[str, object]]:
        """Return the served models: name, task, model, version and more.

        Raises:
            EnsueError: the service cannot be reached, or refuses.
        """
        return self._run(self.models_request())

    def ready(self) -> bool:
        """Return whether every served model answers; ``False`` also where the service cannot be reached."""
        try:
            return bool(self.http.request("GET", "/readyz").is_success)
        except self.errors:
            return False

    @overload
    def predict(
        self, model: str, records: Sequence[Session], k: int = 10, **options: Unpack[PredictOptions]
    ) -> list[Answer]: ...
    @overload
    def predict(
        self, model: str, records: Sequence[Text], k: int = 10, **options: Unpack[PredictOptions]
    ) -> list[TextAnswer]: ...
    @overload
    def predict(
        self, model: str, records: Sequence[Post], k: int = 10, **options: Unpack[PredictOptions]
    ) -> list[LinkAnswer]: ...
    def predict(
        self, model: str, records: Records, k: int = 10, **options: Unpack[PredictOptions]
    ) -> Sequence[Answer | TextAnswer | LinkAnswer]:
        """Return the ``k`` likeliest answers to each record, best first, as ``predict`` of the model does.

        Args:
            model: the name of a served model.
            records: sessions (lists of ids or queries) for tasks next and suggest, else ``Text`` or ``Post`` records.
            k: choices per answer.
            options: see :class:`~ensue.client.PredictOptions`.

        Raises:
            DataError: a record is not what it should be.
            EnsueError: the service cannot be reached, or refuses.
        """
        return self._run(self.predict_request(model, records, k, **options))

    def explain(self, model: str, records: Records, k: int = 3) -> list[Any]:
        """Return the attributions inside each record, as ``explain`` of the model does.

        Raises:
            DataError: a record is not what it should be.
            EnsueError: the service cannot be reached, or refuses.
        """
        return self._run(self.explain_request(model, records, k))

    def similar(
        self, model: str, items: Collection[str], k: int = 10, **options: Unpack[SimilarOptions]
    ) -> list[Answer]:
        """Return the ``k`` items most similar to each item, as ``similar`` of the model does.

        Raises:
            DataError: an item that the model does not know, or a model of another task.
            EnsueError: the service cannot be reached, or refuses.
        """
        return self._run(self.similar_request(model, items, k, **options))

    def update(self, model: str, records: Records, **options: Unpack[UpdateOptions]) -> dict[str, object]:
        """Train a served model on new records; the new version is active when this returns.

        Args:
            model: the name of a served model.
            records: new data, as for :meth:`predict`.
            options: see :class:`~ensue.client.UpdateOptions`.

        Returns:
            The active version, and the result of the test.

        Raises:
            DataError: the records cannot be trained on.
            ModelFolderError: the update was refused, or another process trains in the folder.
            EnsueError: the service cannot be reached, or refuses.
        """
        return self._run(self.update_request(model, records, **options))

    def put_list(self, model: str, name: str, items: Collection[str]) -> dict[str, int]:
        """Store a list of items for requests with ``exclude_lists`` and ``allow_lists``, or replace it.

        Returns:
            The number of ``items``, and how many of them the model knows: ``in_vocabulary``.

        Raises:
            DataError: the name cannot be one, or an item is no id.
            EnsueError: the service cannot be reached, or refuses.
        """
        return self._run(self.put_list_request(model, name, items))

    def events(self, events: Sequence[Mapping[str, object]]) -> int:
        """Put events into the queue of the service, all or none, and return their number.

        Raises:
            DataError: one of them is no event.
            EnsueError: the service cannot be reached, refuses, or takes no events.
        """
        return self._run(self.events_request(events))

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, request: Request[Kind]) -> Kind:
        for attempt in itertools.count():
            try:
                reply = self.http.request(request.method, request.path, **self.options(request))
            except self.errors as error:
                reply = error
            pause = self.pause(request, attempt, reply)
            if pause is None:
                break
            time.sleep(pause)
        return self.result(request, reply)


class AsyncClient(RequestSender):
    """Asynchronous client of a service, with the arguments and methods of :class:`Client`.

    Example:
        >>> import asyncio
        >>> from ensue.client import AsyncClient
        >>> async def ask():
        ...     async with AsyncClient("http://127.0.0.1:8000") as client:
        ...         return await client.predict("next", [["crack-explained", "bridge-history"]], k=1)
        >>> asyncio.run(ask())[0].choices[0].value
        'bridge-closes'
    """

    library_class = "AsyncClient"

    async def models(self) -> list[dict[str, object]]:
        """See :meth:`Client.models`."""
        return await self._run(self.models_request())

    async def ready(self) -> bool:
        """See :meth:`Client.ready`."""
        try:
            return bool((await self.http.request("GET", "/readyz")).is_success)
        except self.errors:
            return False

    @overload
    async def predict(
        self, model: str, records: Sequence[Session], k: int = 10, **options: Unpack[PredictOptions]
    ) -> list[Answer]: ...
    @overload
    async def predict(
        self, model: str, records: Sequence[Text], k: int = 10, **options: Unpack[PredictOptions]
    ) -> list[TextAnswer]: ...
    @overload
    async def predict(
        self, model: str, records: Sequence[Post], k: int = 10, **options: Unpack[PredictOptions]
    ) -> list[LinkAnswer]: ...
    async def predict(
        self, model: str, records: Records, k: int = 10, **options: Unpack[PredictOptions]
    ) -> Sequence[Answer | TextAnswer | LinkAnswer]:
        """See :meth:`Client.predict`."""
        return await self._run(self.predict_request(model, records, k, **options))

    async def explain(self, model: str, records: Records, k: int = 3) -> list[Any]:
        """See :meth:`Client.explain`."""
        return await self._run(self.explain_request(model, records, k))

    async def similar(
        self, model: str, items: Collection[str], k: int = 10, **options: Unpack[SimilarOptions]
    ) -> list[Answer]:
        """See :meth:`Client.similar`."""
        return await self._run(self.similar_request(model, items, k, **options))

    async def update(self, model: str, records: Records, **options: Unpack[UpdateOptions]) -> dict[str, object]:
        """See :meth:`Client.update`."""
        return await self._run(self.update_request(model, records, **options))

    async def put_list(self, model: str, name: str, items: Collection[str]) -> dict[str, int]:
        """See :meth:`Client.put_list`."""
        return await self._run(self.put_list_request(model, name, items))

    async def events(self, events: Sequence[Mapping[str, object]]) -> int:
        """See :meth:`Client.events`."""
        return await self._run(self.events_request(events))

    async def aclose(self) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _run(self, request: Request[Kind]) -> Kind:
        for attempt in itertools.count():
            try:
                reply = await self.http.request(request.method, request.path, **self.options(request))
            except self.errors as error:
                reply = error
            pause = self.pause(request, attempt, reply)
            if pause is None:
                break
            await asyncio.sleep(pause)
        return self.result(request, reply)
