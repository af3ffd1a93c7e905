"""Connections that say nothing, too little or too much, and a stop that loses none that was there before it."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ensue.serve.limits import HEAD_BYTES, URL_BYTES
from tests.processes import Started
from tests.serve.test_server import ASK, heads, rest, send, start

GET = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"
FILES = resource.RLIMIT_NOFILE
SMALL = ("--set", "connections=12", "--set", "address_connections=8", "--set", "head_seconds=1")


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[Started, int]]:
    """A service and its port."""
    process, line = start(folder, *options)
    try:
        yield process, int(line["address"].rsplit(":", 1)[1])
    finally:
        process.kill()
        process.wait(30)
        for pipe in (process.stdout, process.stderr):
            pipe.close()


@pytest.fixture(scope="module")
def small(fitted: Path) -> Iterator[int]:
    """The port of a service with room for few, which every test leaves as it found it."""
    with serving(fitted / "counted", *SMALL) as (_, port):
        yield port


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def test_silence_shuts_nobody_out(fitted: Path) -> None:
    """Forty say nothing where eight of one address have room; one who speaks is answered, and they are let go."""
    with serving(fitted / "counted", *SMALL, "--set", "head_seconds=20") as (_, port), ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(40)]
        for _ in range(3):
            assert status(rest(send(port, heads(len(ASK), b"connection: close\r\n") + ASK))) == 200
        assert silent[0].recv(1) == b""  # the longest idle one has made room
        answer = rest(send(port, b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"))
        assert b'ensue_connections_refused_total{reason="too many of one address"}' in answer


def test_where_all_are_busy_a_new_one_is_refused(small: int) -> None:
    busy = [send(small, heads(len(ASK)) + ASK[:5]) for _ in range(8)]
    time.sleep(0.5)  # until their heads are read
    refused = rest(socket.create_connection(("127.0.0.1", small), timeout=30))
    assert status(refused) == 503
    assert json.loads(refused.split(b"\r\n\r\n", 1)[1])["error"] == "too many connections"
    for one in busy:
        one.sendall(ASK[5:])
        assert b"HTTP/1.1 200" in one.recv(2**16)
        one.close()


@pytest.mark.parametrize(
    ("feed", "expected"),
    [
        (lambda one: None, 0),
        (lambda one: one.sendall(GET), 408),
        (lambda one: _drip(one, b"x: y\r\n", 12), 408),
        (lambda one: one.sendall(GET + b"x: " + b"y" * (HEAD_BYTES + 1)), 431),
        (lambda one: one.sendall(GET + b"x: y\r\n" * (HEAD_BYTES // 6)), 431),
        (lambda one: one.sendall(GET + b"x: " + b"y" * HEAD_BYTES + b"\r\n\r\n"), 431),
        (lambda one: one.sendall(b"GET /" + b"y" * HEAD_BYTES + b" HTTP/1.1\r\nhost: a\r\n\r\n"), 414),
        (lambda one: one.sendall(b"GET /?" + b"y" * URL_BYTES + b" HTTP/1.1\r\nhost: a\r\n\r\n"), 414),
        (lambda one: one.sendall(b"GET /" + b"y" * (HEAD_BYTES + 1)), 414),
        (lambda one: one.sendall(b"\x16\x03\x01 is no HTTP\r\n\r\n"), 400),
        (lambda one: one.sendall(GET + b"\r\n" + GET + b"x: "), 408),
    ],
)
def test_a_head_that_never_ends(small: int, feed: Callable[[socket.socket], None], expected: int) -> None:
    """It is given up a second after it began, however it is fed; the last of the answers says so."""
    with socket.create_connection(("127.0.0.1", small), timeout=30) as one:
        feed(one)
        answer = rest(one)
    assert status(answer[answer.rfind(b"HTTP/1.1 ") :] if answer else b"") == expected
    assert status(rest(send(small, GET + b"connection: close\r\n\r\n"))) == 200


def _drip(one: socket.socket, piece: bytes, times: int) -> None:
    one.sendall(GET)
    for _ in range(times):
        time.sleep(0.1)
        try:
            one.sendall(piece)
        except OSError:  # it has been closed
            return


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="sets the limit of another process")
def test_a_service_without_files_left_goes_on_once_there_are_some(fitted: Path) -> None:
    """Nothing can be accepted for a while; the process neither ends nor spins, and then it answers as before."""
    with serving(fitted / "counted", "--set", "head_seconds=20") as (process, port):
        whole = GET + b"connection: close\r\n\r\n"
        assert status(rest(send(port, whole))) == 200
        used, (soft, hard) = len(list(Path(f"/proc/{process.pid}/fd").iterdir())), resource.prlimit(process.pid, FILES)
        resource.prlimit(process.pid, FILES, (used + 4, hard))
        waiting = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(12)]
        begun, now = seconds_used(process.pid), time.monotonic()
        time.sleep(1.5)
        assert seconds_used(process.pid) - begun < 0.5 * (time.monotonic() - now)
        assert process.poll() is None
        for one in waiting:
            one.close()
        resource.prlimit(process.pid, FILES, (soft, hard))
        assert status(rest(send(port, whole))) == 200


def seconds_used(process: int) -> float:
    """CPU seconds of a process: the 14th and 15th field of its line."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_answers_go_on_when_nobody_reads_the_log(fitted: Path) -> None:
    with serving(fitted / "counted") as (process, port):
        process.stderr.close()
        for _ in range(3):
            assert status(rest(send(port, heads(len(ASK), b"connection: close\r\n") + ASK))) == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_what_connected_before_a_stop_is_answered(fitted: Path) -> None:
    """Two hundred: some have sent all, some half, some nothing, some are kept alive; 200 for each, and code 0."""
    with serving(fitted / "counted", "--set", "address_connections=300") as (process, port):
        whole = heads(len(ASK)) + ASK
        parts = [(whole, b""), (whole[:40], whole[40:]), (b"", whole), (heads(len(ASK)), ASK)]
        clients = [(send(port, first), second) for first, second in parts * 50]
        process.send_signal(signal.SIGTERM)
        for client, second in clients:
            client.sendall(second)
        answers = [rest(client) for client, _ in clients]
        assert [status(answer) for answer in answers] == [200] * 200
        assert process.wait(30) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_stop_that_comes_with_the_start(fitted: Path) -> None:
    """The signal follows the line that says where it listens, and who connected before is answered."""
    with serving(fitted / "counted") as (process, port):
        one = send(port, heads(len(ASK)) + ASK)
        process.send_signal(signal.SIGTERM)
        assert status(rest(one)) == 200
        assert process.wait(30) == 0


def test_a_connection_kept_alive_is_answered_once_more(fitted: Path) -> None:
    with serving(fitted / "counted") as (process, port):
        one = send(port, heads(len(ASK)) + ASK)
        first = one.recv(2**16)
        while not first.endswith(b"]}"):  # head and body may come apart
            first += one.recv(2**16)
        assert status(first) == 200
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        one.sendall(GET.replace(b"healthz", b"readyz") + b"\r\n")
        answer = rest(one)
        assert status(answer) == 503
        assert b"connection: close" in answer
        assert process.wait(30) == 0


def test_a_body_that_is_refused_early_is_told_so(fitted: Path) -> None:
    """Thirteen megabytes are sent where one is taken: the answer comes through, no reset in its place."""
    with serving(fitted / "counted") as (_, port):
        one = send(port, heads(13_000_000) + b"[" * 13_000_000)
        assert status(one.recv(2**12)) == 413
        one.close()


def test_what_stands_before_junk_is_answered(fitted: Path) -> None:
    with serving(fitted / "counted") as (_, port):
        assert status(rest(send(port, heads(len(ASK)) + ASK + b"\x00junk\r\n\r\n"))) == 200


def unread(port: int) -> socket.socket:
    """A client that asks for megabytes and reads none of them."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(("127.0.0.1", port))
    one.sendall(GET.replace(b"healthz", b"page/plotly.min.js") + b"\r\n")
    return one


def test_who_does_not_read_is_let_go(fitted: Path) -> None:
    with serving(fitted / "counted", *SMALL) as (_, port):
        waiting = [unread(port) for _ in range(4)]
        told = b'ensue_connections_refused_total{reason="does not read"} 4.0'
        metrics = GET.replace(b"healthz", b"metrics") + b"connection: close\r\n\r\n"
        for _ in range(100):
            time.sleep(0.2)
            if told in (answer := rest(send(port, metrics))):
                break
        assert told in answer
        for one in waiting:
            one.close()


def test_a_stop_waits_no_longer_than_its_grace(fitted: Path) -> None:
    """Not for a client that does not read; one whose body never comes is told 503."""
    with serving(fitted / "counted", "--set", "grace=1") as (process, port):
        one, half = unread(port), send(port, heads(len(ASK)) + ASK[:5])
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert status(rest(half)) == 503
        assert process.wait(30) == 0
        one.close()
