"""Limits of connections, then checks of host, origin and tokens, before the application sees a request.

Every connection is either busy, with a request that is read or answered, or idle. Where there is no room for a new one,
the one that has been idle longest makes room; a new one is refused only where all are busy. So silence costs an
attacker as many addresses as it costs the service sockets, and a client that speaks is always let in. A stop loses no
connection that was there before it.

Every request passes the guard, and every answer carries its headers, which keep a page to itself. A request is logged
and counted by its route, whatever became of it, and an error that nobody foresaw is answered in one line that tells
nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvicorn
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ensue.errors import EnsueError
from ensue.refresh import MAX_DROP
from ensue.serve.monitoring import Metrics, ServiceLog
from ensue.serve.problems import RequestError, problem_of

HEAD_BYTES = 2**16
"""Bytes of an address and headers; more are refused with 431."""
URL_BYTES = 2**15
"""Bytes of the address; a longer one is refused with 414."""
LINGER = 1.0
"""Seconds for which a stop waits for what an idle connection may be about to ask."""
FIRST = 5.0
"""Seconds for which a stop waits for the first request of a connection that was made before it."""

OTHER_FILES = 128
"""Files that the service itself may open beside its connections."""


_LARGE_HEAD = RequestError(431, f"the head of the request is larger than {HEAD_BYTES:,} bytes")


class Register:
    """The open connections of a service.

    Args:
        max_connections: connections at once.
        each: connections of one address at once.
        seconds: how long a connection may take for its first byte, and for the whole head of a request.
        refused: told why a connection was closed or refused.
    """

    def __init__(self, max_connections: int, each: int, seconds: float, refused: Callable[[str], None]) -> None:
        self.max_connections = max_connections
        self.each = each
        self.seconds = seconds
        self.refused = refused
        self.stopping = False
        self.idle: dict[Connection, None] = {}
        self._of: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """Number of open connections."""
        return self._of.total()

    def admit(self, connection: Connection) -> bool:
        """Count a connection in, after the longest idle one has made room if there was none; false: no room."""
        crowded = self._of[connection.address] >= self.each
        if crowded or self.open >= self.max_connections:
            # An address that has too many makes room among its own.
            longest = next((idle for idle in self.idle if not crowded or idle.address == connection.address), None)
            self.refused("too many of one address" if crowded else "too many")
            if longest is None:
                return False
            longest.leave()
        self._of[connection.address] += 1
        self.idle[connection] = None
        return True

    def remove(self, connection: Connection) -> None:
        """Count a connection out."""
        self.idle.pop(connection, None)
        self._of[connection.address] -= 1
        self._of += Counter()  # an address that has gone takes no room


class Connection(HttpToolsProtocol):
    """One connection: uvicorn's own, with a bound on how long and how large the head of a request may be."""

    def __init__(self, register: Register, **options: Any) -> None:
        super().__init__(**options)
        self.register = register
        self.address = ""
        self._admitted = self._has_asked = self._has_begun = self._body = False
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.TimerHandle | None = None
        self._head = 0
        self.url, self.headers = b"", []  # of a request that has not begun

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or refuse it."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._admitted = self.register.admit(self)
        if self._admitted:
            self._wait()
        else:
            self._refuse(RequestError(503, "too many connections", "come back in a moment", {"retry-after": "1"}))

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._stop_timer()
        if self._flushing is not None:
            self._flushing.cancel()
        if self._admitted:
            self._admitted = False
            self.register.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; what is no head after so many bytes, or never becomes one, is refused."""
        if self.transport.is_closing():
            return
        self._head += len(data)
        super().data_received(data)
        if self.transport.is_closing() or self._busy:
            return
        if self._head > HEAD_BYTES and not self._body:  # the rest of a body that was refused is thrown away
            self._refuse(self._large() or _LARGE_HEAD)
        elif self._timer is None:
            self._wait()

    def on_message_begin(self) -> None:
        """Note the first byte of a head."""
        self._has_begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that the head is complete: the connection is busy now."""
        if self._large():
            raise ValueError  # the parser stops, and this comes back as what is no HTTP
        self._stop_timer()
        self._has_begun, self._body = False, True
        self.register.idle.pop(self, None)
        self._has_asked = True
        super().on_headers_complete()
        # The answer says that the connection closes, so that the client opens another one elsewhere.
        if self.register.stopping and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """Note the last byte of a request."""
        self._body, self._head = False, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note that a request is answered: the connection is idle unless another request is in its pipeline."""
        super().on_response_complete()
        self._head = 0
        if self._admitted and not self._busy:
            self.register.idle[self] = None
            if self._has_begun and self._timer is None:  # half a head came behind the request
                self._wait()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP in our words; where it follows a request, that request is answered first."""
        if self._busy and not self._body:
            self.cycle.keep_alive = False  # the latest that was whole
            return
        self._refuse(self._large() or RequestError(400, msg.rstrip(".").lower()))

    def _large(self) -> RequestError | None:
        """Return the problem of a head that is too large."""
        if len(self.url) > URL_BYTES:
            return RequestError(414, f"the address is longer than {URL_BYTES:,} bytes", "send what is long in the body")
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        return _LARGE_HEAD if size > HEAD_BYTES else None

    def leave(self) -> None:
        """Close to make room for another connection."""
        if self._admitted:
            self._admitted = False
            self.register.remove(self)
        self.transport.abort()

    def pause_writing(self) -> None:
        """Watch an answer that waits to be read: it may take long, but must progress."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Stop watching: the answer is read."""
        super().resume_writing()
        if self._flushing is not None:
            self._flushing.cancel()

    def _watch(self, former: int | None = None) -> None:
        # Fewer bytes than a moment ago: the client reads, however slowly.
        num_bytes = self.transport.get_write_buffer_size()
        if former is not None and num_bytes >= former:
            self.register.refused("does not read")
            self.transport.abort()
        else:
            self._flushing = self.loop.call_later(self.register.seconds, self._watch, num_bytes)

    def last_call(self) -> None:
        """Close when the request that is under way is answered; one that is idle has some time left to ask."""
        if self._busy:
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(LINGER if self._has_asked else FIRST, self._close_idle)

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_idle(self) -> None:
        if not self._busy:
            self.transport.close()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.register.seconds, self._late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._busy or self.transport.is_closing():
            return
        self.register.refused("silent")
        if self._has_begun:
            self._refuse(
                RequestError(408, f"the head of the request did not arrive within {self.register.seconds:g} s")
            )
        else:
            self.transport.close()

    def _refuse(self, problem: RequestError) -> None:
        """Answer without the application, and close."""
        response = problem.response()
        # Written by hand, for there is no request that the application could answer.
        lines = [STATUS_LINE[problem.status]]
        lines += [b"%s: %s\r\n" % pair for pair in [*response.raw_headers, (b"connection", b"close")]]
        self.transport.write(b"".join([*lines, b"\r\n", bytes(response.body)]))
        self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server, with a stop that lets in what stands in the backlog and finishes what was there before it.

    Args:
        config: of uvicorn; its protocol is a :class:`Connection` of this register.
        register: of the connections.
        stopping: called once, when the stop begins.
        on_start: called once, when connections are accepted.
        closed: called once after the stop began, when no further request can begin.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        register: Register,
        stopping: Callable[[], None],
        on_start: Callable[[], None] = lambda: None,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self.register = register
        self._stopping = stopping
        self._on_start = on_start
        self._closed = closed

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, and report it."""
        await super().startup(sockets)
        if not self.should_exit:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept what has connected, stop accepting, answer everything, then let uvicorn end."""
        self._stopping()
        self.register.stopping = True
        loop = asyncio.get_running_loop()
        ends = asyncio.get_running_loop().time() + self._grace
        make = partial(
            Connection, self.register, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        for listening in sockets or []:
            listening.setblocking(False)
            while True:
                try:
                    # Connections of the backlog were accepted by the system: to close the socket would reset them.
                    connected, _ = listening.accept()
                except OSError:  # nobody waits any more
                    break
                connected.setblocking(False)
                await loop.connect_accepted_socket(make, connected)
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.last_call()
        while self.register.idle and not self.force_exit and loop.time() < ends:
            await asyncio.sleep(0.02)
        self._closed()
        while self.server_state.connections and not self.force_exit and loop.time() < ends:
            await asyncio.sleep(0.02)
        for task in list(self.server_state.tasks):  # what is left now has had its time, and is told so
            task.cancel()
        await asyncio.sleep(0.1)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        self.config.timeout_graceful_shutdown = 1
        await super().shutdown(None)

    @property
    def _grace(self) -> float:
        return float(self.config.timeout_graceful_shutdown or 0)


def raise_file_limit(connections: int) -> int:
    """Let this process open as many files as it may; returns how many connections that leaves room for."""
    # Each connection is an open file; beyond the limit none can be accepted.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    num_files = connections + OTHER_FILES
    limit = num_files if hard == resource.RLIM_INFINITY else min(num_files, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = limit
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - OTHER_FILES))


FREE = ("/", "/docs", "/healthz", "/readyz", "/favicon.ico")
"""Addresses that need no token: probes, and the pages, which hold nothing until they are given one."""
RIGHTS = "ensue.rights"
"""Key of the :class:`Rights` of a request in its scope."""
RECORDS = "ensue.records"
"""Key of the number of records of a request in its scope."""
VARIANTS = "ensue.variants"
"""Key of the numbers of its records by variant of an experiment."""
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
_HEADERS = [(name.encode(), value.encode()) for name, value in {**HEADERS, "cache-control": "no-store"}.items()]
LOCAL = ("localhost", "127.0.0.1", "[::1]")


def is_local(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Rights(NamedTuple):
    """Rights of a request besides reading.

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
        self, app: ASGIApp, *, token: str, update_token: str, hosts: Collection[str], log: ServiceLog, metrics: Metrics
    ) -> None:
        self._app, self._log, self._metrics = app, log, metrics
        self._token, self._update_token, self._hosts = token.encode(), update_token.encode(), frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it, and answer whatever it raises."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                names = {name for name, _ in headers}
                message["headers"] = [*headers, *(pair for pair in _HEADERS if pair[0] not in names)]
            await send(message)

        try:
            self._require(scope)
            scope["app"] = self  # or the router would answer for itself what has no route
            await self._app(scope, receive, answer)
        except (RequestError, EnsueError, HTTPException) as error:
            await problem_of(error).response()(scope, receive, answer)
        except asyncio.CancelledError:
            if status:
                raise
            gone = RequestError(503, "the service stopped before there was an answer", "", {"connection": "close"})
            await gone.response()(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 - the last resort: one line, and the places in the log
            self._log.failure(error, route=route_of(scope))
            if not status:
                await RequestError(500, "something went wrong in the service; its log says where").response()(
                    scope, receive, answer
                )
        finally:
            seconds = time.perf_counter() - started
            route = route_of(scope)
            method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
            self._metrics.request(method=method, route=route, status=status, seconds=seconds)
            # The template of the route, so that nothing of the address itself is kept.
            fields = {"method": method, "route": route, "status": status, "ms": round(1000 * seconds, 2)}
            variants = {"variants": scope[VARIANTS]} if VARIANTS in scope else {}
            self._log.entry(**fields, records=scope.get(RECORDS, 0), **variants)

    def _require(self, scope: Scope) -> None:
        """Refuse a request by its host, its origin or its token.

        Raises:
            RequestError: 400, 401 or 403.
        """
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        # Proxies and applications differ in which of two they take.
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise RequestError(400, "the request names several Hosts", "send one Host")
        host = headers.get("host", "")
        # A page of somebody else can give its own name this machine's address (DNS rebinding); its Host gives it
        # away.
        if self._hosts and _name(host) not in self._hosts:
            raise RequestError(403, "this Host is not allowed", "add it with --allow-host")
        origin = headers.get("origin")
        if origin is not None and (netloc := _netloc(origin)) != host and _name(netloc) not in self._public_hosts:
            raise RequestError(
                403, "requests from other origins are refused", "call the service from a page of its own"
            )
        path = scope["path"]
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        token = (credentials.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")).encode()
        # Both are compared in constant time, so that the time of an answer tells nothing about a token.
        asks = hmac.compare_digest(token, self._token)
        writes = bool(self._update_token) & hmac.compare_digest(token, self._update_token)
        scope[RIGHTS] = Rights(update=writes or not self._update_token, untested=writes)
        if not (asks or writes or not self._token or path in FREE or path.startswith("/page/")):
            wrong = "the token is wrong" if token else "a token is needed"
            raise RequestError(
                401, wrong, "send Authorization: Bearer TOKEN", {"www-authenticate": 'Bearer realm="ensue"'}
            )

    @property
    def _public_hosts(self) -> Collection[str]:
        """Names other than those that any page on this machine goes by."""
        return self._hosts - set(LOCAL)


def require_update(scope: Scope) -> None:
    """Refuse a request that may ask only, where it would write.

    Raises:
        RequestError: 403.
    """
    if not scope[RIGHTS].update:
        raise RequestError(403, "updates and events need the update token", "send it as Authorization: Bearer TOKEN")


def require_tested(scope: Scope, *, test: bool, max_drop: float) -> None:
    """Refuse an update that is not tested as by default, unless the request shows the update token.

    Raises:
        RequestError: 403.
    """
    if not scope[RIGHTS].untested and not (test and max_drop <= MAX_DROP):
        raise RequestError(
            403,
            f'"test": false and a "max_drop" above {MAX_DROP:g} need the update token',
            "start the service with ENSUE_UPDATE_TOKEN and send that token, or let the update be tested",
        )


def route_of(scope: Scope) -> str:
    """The template of the route that a request took, such as ``/v1/models/{name}/predict``."""
    return getattr(scope.get("route"), "path", "other")


def _netloc(origin: str) -> str:
    """Host and port of an origin."""
    try:
        return urlsplit(origin).netloc
    except ValueError as error:
        raise RequestError(400, "the Origin is no address", "send the page's own origin, or none") from error


def _name(host: str) -> str:
    """A host without its port, in lower case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
