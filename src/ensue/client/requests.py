"""What both clients share: the requests, when one is sent again, and what becomes of an answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from ensue.answers import Answer, Explanation, LinkAnswer, QueryExplanation, TextAnswer, TextExplanation
from ensue.arguments import id_list
from ensue.errors import DataError, EnsueError, ModelFolderError, SettingError
from ensue.records import Article, History, Post, Text

Record = History | Text | Post
Kind = TypeVar("Kind")
_ANSWERS: Mapping[type[Record], type[Answer | TextAnswer | LinkAnswer]] = {
    History: Answer,
    Text: TextAnswer,
    Post: LinkAnswer,
}
_ERRORS: Mapping[int, type[EnsueError]] = {
    400: DataError,
    401: SettingError,
    403: SettingError,
    404: SettingError,
    409: ModelFolderError,
    413: DataError,
    422: DataError,
}


BUSY = (429, 503)
"""Statuses after which a service may answer a little later."""
LONGEST = 10.0
"""Seconds that a service may ask a client to wait before it is asked again; after longer ones nobody is."""
PAUSE = 0.25
"""Seconds before the first further attempt where the service names none; each pause is twice the one before."""


@dataclass(frozen=True, kw_only=True)
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
        return Request(method="GET", path="/v1/models", read=lambda found: found)

    def predict_request(
        self,
        model: str,
        records: Sequence[Record],
        k: int,
        evidence: bool,
        prefix: str,
        exclude: Collection[str],
        allow: Collection[str] | None,
        exclude_seen: bool | None,
        *,
        rank_unknown: bool,
    ) -> Request[list[Answer | TextAnswer | LinkAnswer]]:
        """See :meth:`ensue.client.Client.predict`."""
        body: dict[str, object] = {"records": _plain(records), "k": k, "evidence": evidence}
        body |= {"prefix": prefix} if prefix else {}
        body |= {"exclude": sorted(id_list(exclude, "exclude"))} if exclude else {}
        body |= {} if allow is None else {"allow": sorted(id_list(allow, "allow"))}
        body |= {} if exclude_seen is None else {"exclude_seen": exclude_seen}
        body |= {"rank_unknown": True} if rank_unknown else {}

        def read(found: Any) -> list[Answer | TextAnswer | LinkAnswer]:
            pairs = zip(records, found["answers"], strict=True)
            return [_read(_ANSWERS[type(record)], answer) for record, answer in pairs]

        return Request(method="POST", path=f"/v1/models/{model}/predict", body=body, read=read)

    def explain_request(self, model: str, records: Sequence[Record], k: int) -> Request[list[Any]]:
        """See :meth:`ensue.client.Client.explain`."""

        def read(found: Any) -> list[Any]:
            pairs = zip(records, found["explanations"], strict=True)
            return [_read(_explanation(record, explanation), explanation) for record, explanation in pairs]

        body = {"records": _plain(records), "k": k}
        return Request(method="POST", path=f"/v1/models/{model}/explain", body=body, read=read)

    def update_request(
        self,
        model: str,
        records: Sequence[Record],
        articles: Sequence[Article],
        users: Sequence[str] | None,
        max_drop: float | None,
        test: bool,
        key: str | None,
    ) -> Request[dict[str, object]]:
        """See :meth:`ensue.client.Client.update`."""
        body: dict[str, object] = {"records": _plain(records)}
        body |= {"articles": _plain(articles)} if articles else {}
        body |= {"users": list(users)} if users is not None else {}
        body |= {"max_drop": max_drop} if max_drop is not None else {}
        body |= {} if test else {"test": False}
        path, again = f"/v1/models/{model}/update", key is not None
        return Request(
            method="POST",
            path=path,
            body=body,
            read=lambda found: found,
            seconds=600.0,
            key=key,
            writes=True,
            again=again,
        )

    def events_request(self, events: Sequence[Mapping[str, object]]) -> Request[int]:
        """See :meth:`ensue.client.Client.events`."""
        body = {"events": list(events)}
        return Request(
            method="POST",
            path="/v1/events",
            body=body,
            read=lambda told: int(told["accepted"]),
            writes=True,
            again=False,
        )

    def sent(self, request: Request[Any]) -> dict[str, object]:
        """What the library of connections is told."""
        more: dict[str, object] = {} if request.body is None else {"json": request.body}
        headers = dict(self._update_headers) if request.writes else {}
        if request.key is not None:
            headers["idempotency-key"] = request.key
        if headers:
            more["headers"] = headers
        if request.seconds is not None:
            more["timeout"] = request.seconds
        return more

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


def _plain(records: Sequence[Record | Article]) -> list[object]:
    return [json.loads(record.to_json()) for record in records]


def _explanation(record: Record, decoded: Mapping[str, object]) -> type:
    if isinstance(record, Post):
        from ensue.answers import LinkExplanation

        return LinkExplanation
    if isinstance(record, Text):
        return TextExplanation
    return QueryExplanation if "queries" in decoded else Explanation


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
