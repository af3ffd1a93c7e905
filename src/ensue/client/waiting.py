"""The client's twin for programs that wait for many things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self, overload

from ensue.answers import Answer, Explanation, LinkAnswer, QueryExplanation, TextAnswer, TextExplanation
from ensue.client.requests import Kind, Record, Request, Requests
from ensue.records import Article, History, Post, Text


class AsyncClient(Requests):
    """Asks a service while the program goes on; see :class:`Client` for the arguments.

    Example:
        >>> import asyncio
        >>> from ensue import History
        >>> from ensue.client import AsyncClient
        >>> async def ask():
        ...     async with AsyncClient("http://127.0.0.1:8000") as client:
        ...         return await client.predict("next", [History(("crack-explained", "bridge-history"))], k=1)
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
    async def predict(
        self, model: str, records: Sequence[Text], k: int = 10, *, evidence: bool = True
    ) -> list[TextAnswer]: ...
    @overload
    async def predict(
        self, model: str, records: Sequence[Post], k: int = 10, *, evidence: bool = True
    ) -> list[LinkAnswer]: ...
    async def predict(
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
        """See :meth:`Client.predict`."""
        return await self._run(
            self.predict_request(
                model, records, k, evidence, prefix, exclude, allow, exclude_seen, rank_unknown=rank_unknown
            )
        )

    @overload
    async def explain(
        self, model: str, records: Sequence[History], k: int = 3
    ) -> list[Explanation] | list[QueryExplanation]: ...
    @overload
    async def explain(self, model: str, records: Sequence[Text], k: int = 3) -> list[TextExplanation]: ...
    @overload
    async def explain(self, model: str, records: Sequence[Record], k: int = 3) -> list[Any]: ...
    async def explain(self, model: str, records: Sequence[Record], k: int = 3) -> Sequence[object]:
        """See :meth:`Client.explain`."""
        return await self._run(self.explain_request(model, records, k))

    async def update(
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
        """See :meth:`Client.update`."""
        return await self._run(self.update_request(model, records, articles, users, max_drop, test, key))

    async def events(self, events: Sequence[Mapping[str, object]]) -> int:
        """See :meth:`Client.events`."""
        return await self._run(self.events_request(events))

    async def aclose(self) -> None:
        """Let go of the connections."""
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
