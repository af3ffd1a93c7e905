"""The client that waits for each answer."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self, overload

from ensue.answers import Answer, Explanation, LinkAnswer, QueryExplanation, TextAnswer, TextExplanation
from ensue.client.requests import Kind, Record, Request, Requests
from ensue.records import Article, History, Post, Text


class Client(Requests):
    """Asks a service.

    Args:
        address: such as ``http://127.0.0.1:8000``.
        token: what the service wants to be shown; else what ENSUE_TOKEN holds.
        update_token: what it wants to be shown for updates and events; else what ENSUE_UPDATE_TOKEN holds, and where
            that is empty, the other one is shown.
        seconds: to wait for an answer; updates wait for ten minutes.
        retries: how often it is asked again where nobody took the connection, or the service was busy.

    Raises:
        SettingError: the extra is missing, or this is no address.

    Example:
        >>> from ensue import History
        >>> from ensue.client import Client
        >>> with Client("http://127.0.0.1:8000") as client:
        ...     (answer,) = client.predict("next", [History(("crack-explained", "bridge-history"))], k=1)
        >>> answer.choices[0].value
        'bridge-closes'
    """

    def opened(self, library: ModuleType, **options: object) -> object:
        """A pool of connections."""
        return library.Client(**options)

    def models(self) -> list[dict[str, object]]:
        """The served models: name, task, model, version and more.

        Raises:
            EnsueError: the service is away, or refuses.
        """
        return self._run(self.models_request())

    def ready(self) -> bool:
        """Whether every served model answers; ``False`` also where nobody is there."""
        try:
            return bool(self.http.request("GET", "/readyz").is_success)
        except self.failed:
            return False

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
        exclude_seen: bool | None = None,
        rank_unknown: bool = False,
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
        exclude_seen: bool | None = None,
        rank_unknown: bool = False,
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
            exclude_seen: of next: whether values of a history are no answers to it, ``None`` as the model was fitted.
            rank_unknown: of next: whether values of a history that the model lacks may be answers.

        Raises:
            DataError: a record is not what it should be.
            EnsueError: the service is away, or refuses.
        """
        return self._run(
            self.predict_request(
                model, records, k, evidence, prefix, exclude, allow, exclude_seen, rank_unknown=rank_unknown
            )
        )

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
        return self._run(self.explain_request(model, records, k))

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
        return self._run(self.update_request(model, records, articles, users, max_drop, test, key))

    def events(self, events: Sequence[Mapping[str, object]]) -> int:
        """Put events into the service's queue, all or none; returns how many were taken.

        Raises:
            DataError: one is no event.
            EnsueError: the service is away, refuses, or takes no events.
        """
        return self._run(self.events_request(events))

    send = events  # its name of before

    def close(self) -> None:
        """Let go of the connections."""
        self.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, request: Request[Kind]) -> Kind:
        for attempt in range(self.retries + 1):
            answer, failure = None, None
            try:
                answer = self.http.request(request.method, request.path, **self.sent(request))
            except self.unheard as error:
                failure = error
            except self.failed as error:
                raise self.away(error) from error
            pause = self.pause(request, attempt, answer)
            if pause is None:
                break
            time.sleep(pause)
        if failure is not None:
            raise self.away(failure) from failure
        return self.understood(request, answer)
