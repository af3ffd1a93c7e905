"""What both clients share: the requests, when one is sent again, and what becomes of an answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypedDict, TypeVar

from pydantic import TypeAdapter, ValidationError

from ensue.answers import (
    Answer,
    Explanation,
    LinkAnswer,
    LinkExplanation,
    QueryExplanation,
    TextAnswer,
    TextExplanation,
)
from ensue.arguments import id_list
from ensue.errors import DataError, EnsueError, ModelFolderError, SettingError
from ensue.records import Article, History, Post, Text

Record = History | Text | Post
Session = Sequence[str] | History
"""A session or a cascade: a list of ids or queries, oldest first, or with times and an id a :class:`~ensue.History`."""
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


class PredictOptions(TypedDict, total=False):
    """Keywords of :meth:`ensue.client.Client.predict`."""

    evidence: bool
    """Whether to fill the attributions of each choice, ``True`` unless stated."""
    prefix: str
    """Task suggest: text in the search box."""
    exclude: Collection[str]
    """Task next: items that are never returned."""
    allow: Collection[str] | None
    """Task next: the only items that are returned; all unless stated."""
    exclude_seen: bool | None
    """Task next: whether items of the session are left out; by the repeats in the training data unless stated."""
    rank_unknown: bool
    """Task next: whether items of the session that the training data lacks are ranked too."""


class UpdateOptions(TypedDict, total=False):
    """Keywords of :meth:`ensue.client.Client.update`."""

    articles: Sequence[Article]
    """Task link: new articles."""
    users: Sequence[str] | None
    """Task suggest: who typed each session, for the k-anonymity threshold."""
    max_drop: float | None
    """Fraction by which the tested metric may fall before the update is refused; 0.05 unless stated."""
    test: bool
    """Whether the update is tested before it becomes active, ``True`` unless stated."""
    key: str | None
    """A text such as a UUID with which the update can be sent again where no answer came: an update under a key that
    the model knows is answered once more and not trained on twice."""


@dataclass(frozen=True)
class Request(Generic[Kind]):
    """What is sent, and how the answer is read."""

    method: str
    path: str
    read: Callable[[Any], Kind]
    body: object = None
    seconds: float | None = None
    key: str | None = None
    writes: bool = False
    """Whether it needs the token that updates."""
    again: bool = True
    """Whether it may be sent twice."""


class Requests:
    """What both clients share; the arguments are those of :class:`ensue.client.Client`."""

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
            import httpx2
        except ImportError as error:
            raise SettingError("the client needs httpx2; install it with: pip install 'ensue[client]'") from error
        if not address.startswith(("http://", "https://")):
            raise SettingError(f"{address!r} is not an address; write http://HOST:PORT")
        headers = _authorization("ENSUE_TOKEN", token)
        self._update_headers = _authorization("ENSUE_UPDATE_TOKEN", update_token)
        self.address, self.retries = address.rstrip("/"), retries
        self.failed, self.unheard = (httpx2.HTTPError, httpx2.InvalidURL), httpx2.ConnectError
        self.http: Any = self.opened(httpx2, base_url=self.address, headers=headers, timeout=seconds)

    def opened(self, library: ModuleType, **options: object) -> object:
        """A pool of connections."""
        raise NotImplementedError

    def models_request(self) -> Request[list[dict[str, object]]]:
        """See :meth:`ensue.client.Client.models`."""
        return Request("GET", "/v1/models", lambda answer: answer)

    def predict_request(
        self,
        model: str,
        records: Sequence[Record | Session],
        k: int = 10,
        *,
        evidence: bool = True,
        prefix: str = "",
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
        exclude_seen: bool | None = None,
        rank_unknown: bool = False,
    ) -> Request[list[Any]]:
        """See :meth:`ensue.client.Client.predict`."""
        records = _records(records)
        body: dict[str, object] = {"records": _plain(records), "k": k, "evidence": evidence}
        body |= {"prefix": prefix} if prefix else {}
        body |= {"exclude": sorted(id_list(exclude, "exclude"))} if exclude else {}
        body |= {} if allow is None else {"allow": sorted(id_list(allow, "allow"))}
        body |= {} if exclude_seen is None else {"exclude_seen": exclude_seen}
        body |= {"rank_unknown": True} if rank_unknown else {}

        def read(found: Any) -> list[Any]:
            pairs = zip(records, found["answers"], strict=True)
            return [_read(_ANSWERS[type(record)], answer) for record, answer in pairs]

        return Request("POST", f"/v1/models/{model}/predict", read, body)

    def explain_request(self, model: str, records: Sequence[Record | Session], k: int = 3) -> Request[list[Any]]:
        """See :meth:`ensue.client.Client.explain`."""
        records = _records(records)

        def read(found: Any) -> list[Any]:
            pairs = zip(records, found["explanations"], strict=True)
            return [_read(_explanation(record, explanation), explanation) for record, explanation in pairs]

        return Request("POST", f"/v1/models/{model}/explain", read, {"records": _plain(records), "k": k})

    def update_request(
        self,
        model: str,
        records: Sequence[Record | Session],
        *,
        articles: Sequence[Article] = (),
        users: Sequence[str] | None = None,
        max_drop: float | None = None,
        test: bool = True,
        key: str | None = None,
    ) -> Request[dict[str, object]]:
        """See :meth:`ensue.client.Client.update`."""
        body: dict[str, object] = {"records": _plain(_records(records))}
        body |= {"articles": _plain(articles)} if articles else {}
        body |= {"users": list(users)} if users is not None else {}
        body |= {"max_drop": max_drop} if max_drop is not None else {}
        body |= {} if test else {"test": False}
        path = f"/v1/models/{model}/update"
        return Request("POST", path, lambda answer: answer, body, 600.0, key, writes=True, again=key is not None)

    def events_request(self, events: Sequence[Mapping[str, object]]) -> Request[int]:
        """See :meth:`ensue.client.Client.events`."""
        body = {"events": list(events)}
        return Request("POST", "/v1/events", lambda answer: int(answer["accepted"]), body, writes=True, again=False)

    def sent(self, request: Request[Any]) -> dict[str, object]:
        """What the library of connections is told."""
        headers = self._update_headers if request.writes else {}
        headers = headers if request.key is None else {**headers, "idempotency-key": request.key}
        options = {"json": request.body, "headers": headers or None, "timeout": request.seconds}
        return {name: value for name, value in options.items() if value is not None}

    def pause(self, request: Request[Any], attempt: int, answer: Any = None) -> float | None:
        """Seconds until it is asked again; ``None`` where it is not.

        Args:
            request: what was asked.
            attempt: how often it was asked before.
            answer: what came; ``None`` where nobody took the connection.
        """
        if not request.again or attempt >= self.retries or (answer is not None and answer.status_code not in BUSY):
            return None
        named = "" if answer is None else answer.headers.get("retry-after", "")
        seconds = float(named) if named.isdecimal() else PAUSE * 2**attempt
        return seconds if seconds <= LONGEST else None

    def away(self, error: Exception) -> EnsueError:
        """That nobody can be reached."""
        return EnsueError(f"{self.address}: cannot be reached ({error}); is the service running?")

    def understood(self, request: Request[Kind], answer: Any) -> Kind:
        """What the answer says.

        Raises:
            EnsueError: that the service refused, or that it is another one.
        """
        try:
            decoded = answer.json()
        except ValueError:
            wrong = f"{self.address}: status {answer.status_code}, and no JSON; is this an ensue service?"
            raise EnsueError(wrong) from None
        if answer.is_success:
            return request.read(decoded)
        problem = decoded if isinstance(decoded, dict) else {}
        parts = [str(problem[part]) for part in ("error", "hint") if part in problem]
        text = "; ".join(parts) or f"status {answer.status_code}"
        raise _ERRORS.get(answer.status_code, EnsueError)(text)


def _authorization(variable: str, token: str | None) -> dict[str, str]:
    """Return the header that shows a token, or the one of the environment; none where it is empty."""
    own = os.environ.get(variable, "") if token is None else token
    return {"authorization": f"Bearer {own}"} if own else {}


def _records(records: Sequence[Record | Session]) -> list[Record]:
    """Return records as they are, and lists of ids as sessions.

    Raises:
        DataError: something else.
    """
    example = 'give a list of sessions, such as [["a", "b"]], or of records'
    if isinstance(records, str) or not isinstance(records, Sequence):
        raise DataError(f"records is of type {type(records).__name__}; {example}")
    for position, record in enumerate(records):
        if not isinstance(record, Record | list | tuple):
            raise DataError(f"records[{position}] is of type {type(record).__name__}; {example}")
    return [record if isinstance(record, Record) else History(tuple(record)) for record in records]


def _plain(records: Sequence[Record | Article]) -> list[object]:
    return [json.loads(record.to_json()) for record in records]


def _explanation(record: Record, decoded: Mapping[str, object]) -> type:
    kinds = {Post: LinkExplanation, Text: TextExplanation}
    return kinds.get(type(record), QueryExplanation if "queries" in decoded else Explanation)


def _read(kind: type[Kind], decoded: object) -> Kind:
    """A decoded object as one of the library's dataclasses."""
    if kind not in _READERS:
        _READERS[kind] = TypeAdapter(kind)
    try:
        answer: Kind = _READERS[kind].validate_python(decoded)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise EnsueError(
            f"the answer is not what this version reads ({place}: {first['msg']}); update ensue"
        ) from error
    return answer


_READERS: dict[type, TypeAdapter[Any]] = {}
