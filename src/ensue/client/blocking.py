"""The client that waits for each answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self, Unpack, overload

from ensue.answers import Answer, LinkAnswer, TextAnswer
from ensue.client.requests import Kind, PredictOptions, Record, Request, Requests, Session, UpdateOptions
from ensue.records import Post, Text


class Client(Requests):
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

    def opened(self, library: ModuleType, **options: object) -> object:
        """A pool of connections."""
        return library.Client(**options)

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
        except self.failed:
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
        self, model: str, records: Sequence[Record | Session], k: int = 10, **options: Unpack[PredictOptions]
    ) -> Sequence[Answer | TextAnswer | LinkAnswer]:
        """Return the ``k`` likeliest answers to each record, best first, as ``predict`` of the model does.

        Args:
            model: the name of a served model.
            records: sessions (lists of ids or queries) for tasks next and suggest, else ``Text`` or ``Post`` records.
            k: choices per answer.
            options: see :class:`~ensue.client.requests.PredictOptions`.

        Raises:
            DataError: a record is not what it should be.
            EnsueError: the service cannot be reached, or refuses.
        """
        return self._run(self.predict_request(model, records, k, **options))

    def explain(self, model: str, records: Sequence[Record | Session], k: int = 3) -> list[Any]:
        """Return the attributions inside each record, as ``explain`` of the model does.

        Raises:
            DataError: a record is not what it should be.
            EnsueError: the service cannot be reached, or refuses.
        """
        return self._run(self.explain_request(model, records, k))

    def update(
        self, model: str, records: Sequence[Record | Session], **options: Unpack[UpdateOptions]
    ) -> dict[str, object]:
        """Train a served model on new records; the new version is active when this returns.

        Args:
            model: the name of a served model.
            records: new data, as for :meth:`predict`.
            options: see :class:`~ensue.client.requests.UpdateOptions`.

        Returns:
            The active version, and the result of the test.

        Raises:
            DataError: the records cannot be trained on.
            ModelFolderError: the update was refused, or another process trains in the folder.
            EnsueError: the service cannot be reached, or refuses.
        """
        return self._run(self.update_request(model, records, **options))

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
