"""What every request passes: host, origin, tokens; and what every answer carries: headers that keep a page to itself.

A request is logged and counted by its route, whatever became of it, and an error that nobody foresaw is answered in one
line that tells nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Collection
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ensue.refresh import MAX_DROP
from ensue.serve.logs import Log
from ensue.serve.metrics import Metrics
from ensue.serve.problems import Problem

FREE = ("/", "/docs", "/healthz", "/readyz", "/favicon.ico")
"""What needs no token: probes, and the pages, which hold nothing until they are given one."""
RIGHTS = "ensue.rights"
"""Where a route finds the :class:`Rights` of a request."""
COUNTED = "ensue.records"
"""Where a route puts the number of records it was asked about."""
HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LOCAL = ("localhost", "127.0.0.1", "[::1]")


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Rights(NamedTuple):
    """What a request may do beside asking.

    Attributes:
        update: write: learn an update, or put events into the queue.
        untested: learn an update whose test is left out or loosened.
    """

    update: bool
    untested: bool


class Guard:
    """The outermost layer.

    Args:
        app: what it guards.
        token: what a client must show; empty where none is needed.
        update_token: what a client must show to write; empty where whoever may ask may write.
        hosts: names the service goes by; any where empty.
        log: one line a request.
        metrics: counts requests.
    """

    def __init__(
        self, app: ASGIApp, *, token: str, update_token: str, hosts: Collection[str], log: Log, metrics: Metrics
    ) -> None:
        self._app, self._log, self._metrics = app, log, metrics
        self._token, self._update_token, self._hosts = token.encode(), update_token.encode(), frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            self._require(scope)
            await self._app(scope, receive, answer)
        except Problem as problem:
            await problem.response()(scope, receive, answer)
        except asyncio.CancelledError:
            if status:
                raise
            gone = Problem(503, "the service stopped before there was an answer", "", {"connection": "close"})
            await gone.response()(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 - the last resort: one line, and the places in the log
            self._log.failure(error, route=route_of(scope))
            if not status:
                await Problem(500, "something went wrong in the service; its log says where").response()(
                    scope, receive, answer
                )
        finally:
            taken, route, method = time.perf_counter() - begun, route_of(scope), _method(scope)
            self._metrics.request(method=method, route=route, status=status, seconds=taken)
            self._log.request(method=method, route=route, status=status, seconds=taken, records=scope.get(COUNTED, 0))

    def _require(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if len(headers.getlist("host")) > 1:
            raise Problem(400, "the request names several Hosts", "send one Host")
        host = headers.get("host", "")
        if self._hosts and _name(host) not in self._hosts:
            raise Problem(403, "this Host is not allowed", "add it with --allow-host")
        origin = headers.get("origin")
        if origin is not None and (place := _place(origin)) != host and _name(place) not in self._named:
            raise Problem(403, "requests from other origins are refused", "call the service from a page of its own")
        path = scope["path"]
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        shown = (credentials.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")).encode()
        asks = hmac.compare_digest(shown, self._token)
        writes = bool(self._update_token) & hmac.compare_digest(shown, self._update_token)
        scope[RIGHTS] = Rights(update=writes or not self._update_token, untested=writes)
        if not (asks or writes or not self._token or path in FREE or path.startswith("/page/")):
            wrong = "the token is wrong" if shown else "a token is needed"
            raise Problem(401, wrong, "send Authorization: Bearer TOKEN", {"www-authenticate": 'Bearer realm="ensue"'})

    @property
    def _named(self) -> Collection[str]:
        """Names other than those that any page on this machine goes by."""
        return self._hosts - set(LOCAL)


def require_update(scope: Scope) -> None:
    """Refuse a request that may ask only, where it would write.

    Raises:
        Problem: 403.
    """
    if not scope[RIGHTS].update:
        raise Problem(403, "updates and events need the update token", "send it as Authorization: Bearer TOKEN")


def require_tested(scope: Scope, *, test: bool, max_drop: float) -> None:
    """Refuse an update that is not tested as by default, unless the request shows the update token.

    Raises:
        Problem: 403.
    """
    if not scope[RIGHTS].untested and not (test and max_drop <= MAX_DROP):
        raise Problem(
            403,
            f'"test": false and a "max_drop" above {MAX_DROP:g} need the update token',
            "start the service with ENSUE_UPDATE_TOKEN and send that token, or let the update be tested",
        )


def route_of(scope: Scope) -> str:
    """The template of the route that a request took, such as ``/v1/models/{name}/predict``."""
    return getattr(scope.get("route"), "path", "other")


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"


def _place(origin: str) -> str:
    """Host and port of an origin."""
    try:
        return urlsplit(origin).netloc
    except ValueError as error:
        raise Problem(400, "the Origin is no address", "send the page's own origin, or none") from error


def _name(host: str) -> str:
    """A host without its port, in lower case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
