"""The process as it runs: what it refuses to start with, one stop that finishes what is in flight, and the command."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError, ModelFolderError, SettingError
from ensue.cli.serve import named, serve
from ensue.serve.server import run as run_server
from tests.cli.conftest import run as run_command
from tests.processes import PLAIN, Started

ASK = b'{"records": [{"values": ["v1", "a private value"]}], "k": 2}'


def start(*arguments: object, code: str = PLAIN) -> tuple[Started, dict[str, Any]]:
    """``ensue serve`` on a free port, and the line that says where it listens."""
    process = Started("serve", *arguments, "--port", 0, code=code)
    told = ""
    while line := process.stderr.readline():
        told += line
        if '"event": "listening"' in line:
            return process, json.loads(line)
    process.kill()
    raise AssertionError(told)


def send(port: int, data: bytes) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=30)
    found.sendall(data)
    return found


def heads(length: int, extra: bytes = b"") -> bytes:
    return (
        b"POST /v1/models/counted/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        + extra
        + b"content-length: %d\r\n\r\n" % length
    )


def rest(connection: socket.socket) -> bytes:
    with connection, connection.makefile("rb") as file:
        return file.read()


def test_a_stop_finishes_what_is_in_flight(fitted: Path) -> None:
    """A request whose body is half sent when SIGTERM comes is read, answered, and then the process ends with code 0."""
    process, line = start(fitted / "counted")
    try:
        assert line["event"] == "listening"
        assert line["models"] == {"counted": "next"}
        port = int(line["address"].rsplit(":", 1)[1])
        whole = send(port, heads(len(ASK), b"connection: close\r\n") + ASK)
        assert rest(whole).startswith(b"HTTP/1.1 200 OK\r\n")
        slow = send(port, heads(len(ASK)) + ASK[:20])
        time.sleep(0.3)  # until its head is read
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert process.poll() is None
        slow.sendall(ASK[20:])
        answer = rest(slow)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert len(json.loads(answer.split(b"\r\n\r\n", 1)[1])["answers"][0]["choices"]) == 2
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    lines = [json.loads(text) for text in err.splitlines()]
    assert (process.returncode, out) == (0, "")
    assert [(line.get("status"), line.get("event")) for line in lines] == [(200, None), (200, None), (None, "stopped")]
    assert "private" not in err
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_other_machines_need_a_token(fitted: Path) -> None:
    with pytest.raises(SettingError, match=r"^0.0.0.0 can be reached from other machines: set ENSUE_TOKEN"):
        run_server({"counted": fitted / "counted"}, host="0.0.0.0", port=0)
    for token in ("caf\u00e9", " spaced "):
        with pytest.raises(SettingError, match="plain ASCII"):
            run_server({"counted": fitted / "counted"}, token=token, port=0)


def test_what_it_refuses_to_start_with(fitted: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="no such model folder"):
        run_server({"m": tmp_path / "m"}, port=0)
    with pytest.raises(SettingError, match="name at least one model folder"):
        run_server({}, port=0)
    for name in ("..", "a/b", "", "a b", ".hidden", "x" * 65):
        with pytest.raises(SettingError, match="cannot be the name of a model"):
            run_server({name: fitted / "counted"}, port=0)
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, pytest.raises(SettingError, match=r"cannot be listened on .*in use"):
        run_server({"m": fitted / "counted"}, port=taken.getsockname()[1])
    with pytest.raises(SettingError, match="cannot be listened on"):
        run_server({"m": fitted / "counted"}, host="no.such.host.invalid", port=0, token="t")
    (tmp_path / "story.json").write_text("{")
    with pytest.raises(DataError, match=r"story.json: the body is not JSON"):
        run_server({"m": fitted / "counted"}, story=tmp_path / "story.json", port=0)
    with pytest.raises(SettingError, match="cannot be read"):
        run_server({"m": fitted / "counted"}, story=tmp_path / "none.json", port=0)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, fitted: Path) -> None:
    monkeypatch.setitem(sys.modules, "ensue.serve.server", None)
    with pytest.raises(SettingError, match=r"^the service needs .*; install it with: pip install 'ensue\[serve\]'$"):
        serve([str(fitted / "counted")])


def test_names_of_folders(tmp_path: Path) -> None:
    assert named(["models/next", "mood=/somewhere/else", f"{tmp_path}/"]) == {
        "next": Path("models/next"),
        "mood": Path("/somewhere/else"),
        tmp_path.name: tmp_path,
    }
    with pytest.raises(SettingError, match="two folders are named 'next'"):
        named(["a/next", "b/next"])


def test_the_command_says_it_in_one_line(monkeypatch: pytest.MonkeyPatch, fitted: Path, tmp_path: Path) -> None:
    folder = fitted / "counted"
    for arguments, error in (
        ([tmp_path / "none"], "no such model folder"),
        ([folder, "--host", "0.0.0.0"], "set ENSUE_TOKEN"),
        ([folder, "--set", "nonsense=1"], "setting 'nonsense' is not known"),
        ([folder, "--set", "patience=0"], "patience is 0"),
        ([folder, "--queue", f"sqlite:{tmp_path}/no/q.db"], "cannot be opened"),
    ):
        monkeypatch.delenv("ENSUE_TOKEN", raising=False)
        ran = run_command(monkeypatch, "serve", *arguments, "--port", 0)
        assert (ran.code, len(ran.lines)) == (2, 1), ran.err
        assert error in ran.err


def test_the_service_imports_no_torch_by_itself() -> None:
    """A model of counts is served without it."""
    program = "import sys, ensue.serve.server, ensue.serve.tasks.next_event; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
