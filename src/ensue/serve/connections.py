"""Connections: how many may stand, how long one may be silent, and a stop that loses none that was there before it.

Every connection is either busy, with a request that is read or answered, or idle. Where there is no room for a new one,
the one that has been idle longest makes room; a new one is refused only where all are busy. So silence costs an
attacker as many addresses as it costs the service sockets, and a client that speaks is always let in.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ensue.serve.problems import Problem

HEAD_BYTES = 2**16
"""Bytes of an address and headers; more are refused with 431."""
URL_BYTES = 2**15
"""Of that, bytes of the address; a longer one is refused with 414."""
LINGER = 1.0
"""Seconds for which a stop waits for what an idle connection may be about to ask."""
FIRST = 5.0
"""Seconds for which a stop waits for the first request of a connection that was made before it."""

OTHER_FILES = 128
"""Files that the service itself may open beside its connections."""


_LARGE_HEAD = Problem(431, f"the head of the request is larger than {HEAD_BYTES:,} bytes")


class Register:
    """All connections of a service.

    Args:
        most: connections at once.
        each: connections of one address at once.
        seconds: how long a connection may take for its first byte, and for the whole head of a request.
        refused: told why a connection was closed or refused.
    """

    def __init__(self, most: int, each: int, seconds: float, refused: Callable[[str], None]) -> None:
        self.most, self.each, self.seconds, self.refused = most, each, seconds, refused
        self.stopping = False
        self.idle: dict[Connection, None] = {}
        self._of: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """Connections that stand."""
        return self._of.total()

    def admit(self, connection: Connection) -> bool:
        """Count a connection in, after the longest idle one has made room if there was none; false: no room."""
        crowded = self._of[connection.address] >= self.each
        if crowded or self.open >= self.most:
            longest = next((one for one in self.idle if not crowded or one.address == connection.address), None)
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

    def __init__(self, register: Register, **given: Any) -> None:
        super().__init__(**given)
        self.register, self.address = register, ""
        self._admitted = self._asked = self._begun = self._body = False
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.TimerHandle | None = None
        self._head = 0
        self.url, self.headers = b"", []  # of a request that has not begun

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or refuse where there is none."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._admitted = self.register.admit(self)
        if self._admitted:
            self._wait()
        else:
            self._refuse(Problem(503, "too many connections", "come back in a moment", {"retry-after": "1"}))

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._rest()
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
        """The first byte of a head."""
        self._begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is there: the connection is busy now."""
        if self._large():
            raise ValueError  # the parser stops, and this comes back as what is no HTTP
        self._rest()
        self._begun, self._body = False, True
        self.register.idle.pop(self, None)
        self._asked = True
        super().on_headers_complete()
        if self.register.stopping and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """The last byte of a request."""
        self._body, self._head = False, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered: the connection is idle unless another one stands in its pipeline."""
        super().on_response_complete()
        self._head = 0
        if self._admitted and not self._busy:
            self.register.idle[self] = None
            if self._begun and self._timer is None:  # half a head came behind the request
                self._wait()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is told so like everything else; where it stands behind a request, that one is answered."""
        if self._busy and not self._body:
            self.cycle.keep_alive = False  # the latest that was whole
            return
        self._refuse(self._large() or Problem(400, msg.rstrip(".").lower()))

    def _large(self) -> Problem | None:
        """What is too large about the head that is being read."""
        if len(self.url) > URL_BYTES:
            return Problem(414, f"the address is longer than {URL_BYTES:,} bytes", "send what is long in the body")
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        return _LARGE_HEAD if size > HEAD_BYTES else None

    def leave(self) -> None:
        """Make room for another."""
        if self._admitted:
            self._admitted = False
            self.register.remove(self)
        self.transport.abort()

    def pause_writing(self) -> None:
        """An answer waits to be read: it may take long, but has to go on."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """The answer is read."""
        super().resume_writing()
        if self._flushing is not None:
            self._flushing.cancel()

    def _watch(self, former: int | None = None) -> None:
        left = self.transport.get_write_buffer_size()
        if former is not None and left >= former:
            self.register.refused("does not read")
            self.transport.abort()
        else:
            self._flushing = self.loop.call_later(self.register.seconds, self._watch, left)

    def last_call(self) -> None:
        """Close when the request that is under way is answered; one that is idle has some time left to ask."""
        if self._busy:
            self.cycle.keep_alive = False
        else:
            self.loop.call_later(LINGER if self._asked else FIRST, self._close_idle)

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_idle(self) -> None:
        if not self._busy:
            self.transport.close()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.register.seconds, self._late)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._busy or self.transport.is_closing():
            return
        self.register.refused("silent")
        if self._begun:
            self._refuse(Problem(408, f"the head of the request did not arrive within {self.register.seconds:g} s"))
        else:
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Answer without the application, and close."""
        response = problem.response()
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
        begun: called once, when connections are accepted.
        closed: called once after the stop began, when no further request can begin.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        register: Register,
        stopping: Callable[[], None],
        begun: Callable[[], None] = lambda: None,
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self.register, self._stopping, self._begun, self._closed = register, stopping, begun, closed

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn has it, and say so."""
        await super().startup(sockets)
        if not self.should_exit:
            self._begun()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept what has connected, stop accepting, answer everything, then let uvicorn end."""
        self._stopping()
        self.register.stopping = True
        loop, ends = asyncio.get_running_loop(), asyncio.get_running_loop().time() + self._grace
        make = partial(
            Connection,
            self.register,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        for listening in sockets or []:
            listening.setblocking(False)
            while True:
                try:
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
    try:
        import resource
    except ImportError:  # a system without such limits
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = limit
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - OTHER_FILES))
