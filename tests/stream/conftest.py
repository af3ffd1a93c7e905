"""A small model, logs as lines, a Redis server of our own, and a stream run to its end."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.predictor import make
from ensue.stream.brokers import open_source
from ensue.stream.engine import Stream
from ensue.stream.state import StreamSettings, StreamStatus

NUM_VALUES = 20


def log(num: int, seed: int = 0, values: int = NUM_VALUES) -> list[str]:
    """Events of a few sessions that go on for ever, 20 s apart; some late, some repeated, some with ids."""
    draw = np.random.default_rng(seed)
    lines: list[str] = []
    for at in range(num):
        time = 1_700_000_000 + 20 * at
        event: dict[str, Any] = {"session": f"s{draw.integers(8)}", "item": f"v{draw.integers(values)}", "time": time}
        if draw.random() < 0.3:
            event["id"] = f"e{at}"
        if draw.random() < 0.1:
            event["time"] = time - int(draw.integers(600))
        lines.append(json.dumps(event))
        if draw.random() < 0.1:
            lines.append(lines[-1 - int(draw.integers(min(5, len(lines))))])
    return lines


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the first values; tests copy it."""
    draw = np.random.default_rng(1)
    sessions = [
        History(tuple(f"v{item}" for item in draw.integers(NUM_VALUES, size=5)), (0.0, 20.0, 40.0, 60.0, 80.0))
        for _ in range(150)
    ]
    predictor = make("next", "sansr", settings={"dim": 8, "epochs": 1, "negatives": 16}, device="cpu")
    for _ in predictor.fit(Histories.of(sessions)):
        pass
    folder = tmp_path_factory.mktemp("models") / "m"
    predictor.save(folder, "fitted on a made-up log")
    return folder


@pytest.fixture
def folder(fitted: Path, tmp_path: Path) -> Path:
    """A copy of the model to stream into."""
    return Path(shutil.copytree(fitted, tmp_path / "m"))


def write(path: Path, lines: list[str]) -> str:
    """Whole lines; the source's address."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def streamed(
    folder: Path, address: str, *, until: int | None = None, log: Callable[[str], None] = print, **options: Any
) -> tuple[Stream, StreamStatus]:
    """Stream to the end of the source, and what stood then."""
    settings = StreamSettings(**options)
    stream = Stream(folder, open_source(address, log), settings)
    *_, last = stream.run(follow=False, until=until)
    stream.source.close()
    return stream, last


class Server:
    """A Redis server on a port of its own, its data in a folder that outlives it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0?stream=clicks"

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.place)]
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self.process = subprocess.Popen([*command, *durable], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                with self.client() as client:
                    client.ping()
                return
            except ConnectionError:
                time.sleep(0.02)
        raise AssertionError("redis-server did not start")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
        self.process = None

    def client(self) -> Any:
        redis = pytest.importorskip("redis")

        class Client(redis.Redis):  # type: ignore[misc, name-defined]
            def ping(self, **options: Any) -> Any:
                try:
                    return super().ping(**options)
                except redis.ConnectionError as error:
                    raise ConnectionError from error

        return Client(port=self.port)

    def add(self, lines: list[str]) -> list[bytes]:
        """The ids of the entries."""
        with self.client() as client:
            return [client.xadd("clicks", {"line": line}) for line in lines]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A running server; skipped where there is none to run."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: nothing about Redis is tested here")
    (tmp_path / "redis").mkdir()
    found = Server(tmp_path / "redis")
    found.start()
    yield found
    found.stop()


Told = Callable[[str], None]
