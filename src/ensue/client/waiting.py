"""The asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self, Unpack, overload

from ensue.answers import Answer, LinkAnswer, TextAnswer
from ensue.client.requests import Kind, PredictOptions, Record, Request, Requests, Session, UpdateOptions
from ensue.records import Post, Text


class AsyncClient(Requests):
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

    def opened(self, library: ModuleType, **options: object) -> object:
        """A pool of connections."""
        return library.AsyncClient(**options)

    async def models(self) -> list[dict[str, object]]:
        """See :meth:`Client.models`."""
        return await self._run(self.models_request())

    async def ready(self) -> bool:
        """See :meth:`Client.ready`."""
        try:
            return bool((await self.http.request("GET", "/readyz")).is_success)
        except self.failed:
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
        self, model: str, records: Sequence[Record | Session], k: int = 10, **options: Unpack[PredictOptions]
    ) -> Sequence[Answer | TextAnswer | LinkAnswer]:
        """See :meth:`Client.predict`."""
        return await self._run(self.predict_request(model, records, k, **options))

    async def explain(self, model: str, records: Sequence[Record | Session], k: int = 3) -> list[Any]:
        """See :meth:`Client.explain`."""
        return await self._run(self.explain_request(model, records, k))

    async def update(
        self, model: str, records: Sequence[Record | Session], **options: Unpack[UpdateOptions]
    ) -> dict[str, object]:
        """See :meth:`Client.update`."""
        return await self._run(self.update_request(model, records, **options))

    async def events(self, events: Sequence[Mapping[str, object]]) -> int:
        """See :meth:`Client.events`."""
        return await self._run(self.events_request(events))

    async def aclose(self) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _run(self, request: Request[Kind]) -> Kind:
        for attempt in range(self.retries + 1):
            answer, failure = None, None
            try:
                answer = await self.http.request(request.method, request.path, **self.sent(request))
            except self.unheard as error:
                failure = error
            except self.failed as error:
                raise self.away(error) from error
            pause = self.pause(request, attempt, answer)
            if pause is None:
                break
            await asyncio.sleep(pause)
        if failure is not None:
            raise self.away(failure) from failure
        return self.understood(request, answer)
