"""A client of the service that speaks in the library's records.

    >>> from ensue import History
    >>> from ensue.client import Client
    >>> Client("http://127.0.0.1:8000").predict("clicks", [History(("a17", "b03"))], k=3)

Needs the extra ``client``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from pydantic import TypeAdapter, ValidationError

from ensue.answers import Answer, Explanation, LinkAnswer, QueryExplanation, TextAnswer, TextExplanation
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


class Client:
    """Asks a service.

    Args:
        address: such as ``http://127.0.0.1:8000``.
        token: what the service wants to be shown; else what ENSUE_TOKEN holds.
        seconds: to wait for an answer; updates wait for ten minutes.

    Raises:
        SettingError: the extra is missing, or this is no address.
    """

    def __init__(self, address: str, *, token: str | None = None, seconds: float = 30.0) -> None:
        try:
            import httpx2
        except ImportError as error:
            raise SettingError("the client needs httpx2; install it with: pip install 'ensue[client]'") from error
        if not address.startswith(("http://", "https://")):
            raise SettingError(f"{address!r} is no address; write http://HOST:PORT")
        own = os.environ.get("ENSUE_TOKEN", "") if token is None else token
        headers = {"authorization": f"Bearer {own}"} if own else {}
        self.address, self._failed = address.rstrip("/"), (httpx2.HTTPError, httpx2.InvalidURL)
        self._http: Any = httpx2.Client(base_url=self.address, headers=headers, timeout=seconds)

    def models(self) -> list[dict[str, object]]:
        """The served models: name, task, model, version and more.

        Raises:
            EnsueError: the service is away, or refuses.
        """
        models: list[dict[str, object]] = self._ask("GET", "/v1/models")
        return models

    @overload
    def predict(
        self,
        model: str,
        records: Sequence[History],
        k: int = 10,
        *,
        evidence: bool = True,
        prefix: str = "",
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
    ) -> list[Answer]: ...
    @overload
    def predict(
        self, model: str, records: Sequence[Text], k: int = 10, *, evidence: bool = True
    ) -> list[TextAnswer]: ...
    @overload
    def predict(
        self, model: str, records: Sequence[Post], k: int = 10, *, evidence: bool = True
    ) -> list[LinkAnswer]: ...
    def predict(
        self,
        model: str,
        records: Sequence[Record],
        k: int = 10,
        *,
        evidence: bool = True,
        prefix: str = "",
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
    ) -> Sequence[Answer | TextAnswer | LinkAnswer]:
        """The ``k`` likeliest answers to each record, best first, as the model's ``predict`` gives them.

        Args:
            model: the name of a served model.
            records: of its task.
            k: choices an answer.
            evidence: whether to say what each choice leaned on.
            prefix: of suggestions: what stands in the search box already.
            exclude: of next: values that are no answer.
            allow: of next: the only values that are, ``None`` for all.

        Raises:
            DataError: a record is not what it should be.
            EnsueError: the service is away, or refuses.
        """
        body = {"records": _plain(records), "k": k, "evidence": evidence, **({"prefix": prefix} if prefix else {})}
        body |= {"exclude": sorted(exclude)} if exclude else {}
        body |= {} if allow is None else {"allow": sorted(allow)}
        answers = self._ask("POST", f"/v1/models/{model}/predict", body)["answers"]
        return [_read(_ANSWERS[type(record)], answer) for record, answer in zip(records, answers, strict=True)]

    @overload
    def explain(
        self, model: str, records: Sequence[History], k: int = 3
    ) -> list[Explanation] | list[QueryExplanation]: ...
    @overload
    def explain(self, model: str, records: Sequence[Text], k: int = 3) -> list[TextExplanation]: ...
    @overload
    def explain(self, model: str, records: Sequence[Record], k: int = 3) -> list[Any]: ...
    def explain(self, model: str, records: Sequence[Record], k: int = 3) -> Sequence[object]:
        """What the model leaned on inside each record, as its ``explain`` gives it.

        Raises:
            DataError: a record is not what it should be.
            EnsueError: the service is away, or refuses.
        """
        body = {"records": _plain(records), "k": k}
        explanations = self._ask("POST", f"/v1/models/{model}/explain", body)["explanations"]
        pairs = zip(records, explanations, strict=True)
        return [_read(_explanation(record, explanation), explanation) for record, explanation in pairs]

    def update(
        self,
        model: str,
        records: Sequence[Record],
        *,
        articles: Sequence[Article] = (),
        users: Sequence[str] | None = None,
        max_drop: float | None = None,
        test: bool = True,
        key: str | None = None,
    ) -> dict[str, object]:
        """Learn records on top of a served model; the new version has taken over when this returns.

        Args:
            model: the name of a served model.
            records: what is new.
            articles: of links: articles that are new.
            users: of suggestions: who typed each session, for the privacy floor.
            max_drop: refuse the update if the figure it is tested by falls by more than this share; 0.05 unless stated.
            test: whether the update is tested at all before it takes over.
            key: a text of your own, such as a UUID, with which it can be sent again where no answer came: an update
                under a key that the model knows is answered once more and not learned twice.

        Returns:
            The version that stands now, and what the test said.

        Raises:
            DataError: it cannot be learned.
            ModelFolderError: the update was refused, or another process learns into the folder.
            EnsueError: the service is away, or refuses.
        """
        body: dict[str, object] = {"records": _plain(records)}
        body |= {"articles": _plain(articles)} if articles else {}
        body |= {"users": list(users)} if users is not None else {}
        body |= {"max_drop": max_drop} if max_drop is not None else {}
        body |= {} if test else {"test": False}
        report: dict[str, object] = self._ask("POST", f"/v1/models/{model}/update", body, seconds=600.0, key=key)
        return report

    def send(self, events: Sequence[Mapping[str, object]]) -> int:
        """Put events into the service's queue, all or none; returns how many were taken.

        Raises:
            DataError: one is no event.
            EnsueError: the service is away, refuses, or takes no events.
        """
        return int(self._ask("POST", "/v1/events", {"events": list(events)})["accepted"])

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(
        self, method: str, path: str, body: object = None, *, seconds: float | None = None, key: str | None = None
    ) -> Any:
        """The decoded answer; which fields it has, the address says."""
        more: dict[str, object] = {} if body is None else {"json": body}
        if key is not None:
            more["headers"] = {"idempotency-key": key}
        if seconds is not None:
            more["timeout"] = seconds
        try:
            answer = self._http.request(method, path, **more)
        except self._failed as error:
            raise EnsueError(f"{self.address}: cannot be reached ({error}); is the service running?") from error
        try:
            decoded = answer.json()
        except ValueError:
            wrong = f"{self.address}: status {answer.status_code}, and no JSON; is this a service of ensue?"
            raise EnsueError(wrong) from None
        if answer.is_success:
            return decoded
        problem = decoded if isinstance(decoded, dict) else {}
        parts = [str(problem[part]) for part in ("error", "hint") if part in problem]
        text = "; ".join(parts) or f"status {answer.status_code}"
        raise _ERRORS.get(answer.status_code, EnsueError)(text)


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
