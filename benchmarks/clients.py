"""Requests that the service answers per CPU second, beside a bare FastAPI application of the same machine and run.

Clients send their next request once the one before is answered: one client alone, and 32 at once. Each asks for 20 of
all items of Diginetica after a session, without evidence. The other application reads the same body by a pydantic model
and returns one fixed answer of 20 choices. CPU seconds are those of the server's process, of both sides in turn.

    python benchmarks/clients.py [--data DIGINETICA] [--model core] [--requests 500] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from load import asked, exchange, fit

from ensue.data.sequences import read
from ensue_studies.results import provenance

CLIENTS = (1, 32)
BARE = """
import json, socket, sys
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

class Session(BaseModel):
    values: list[str]

class Body(BaseModel):
    records: list[Session]
    k: int
    evidence: bool

app = FastAPI()
CHOICES = [{"value": str(rank), "score": 0.5 / rank} for rank in range(1, 21)]

@app.post("/v1/models/next/predict")
async def predict(body: Body):
    return {"answers": [{"choices": CHOICES, "in_vocabulary": 3, "events": 3}]}

listening = socket.create_server(("127.0.0.1", 0))
sys.stderr.write(json.dumps({"address": "http://127.0.0.1:%d" % listening.getsockname()[1]}) + "\\n")
sys.stderr.flush()
uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run(sockets=[listening])
"""


@contextmanager
def serving(command: list[str]) -> Iterator[tuple[int, int]]:
    """Run a server; its process and port."""
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = int(json.loads(process.stderr.readline())["address"].rsplit(":", 1)[1])
        with subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL):
            try:
                yield process.pid, port
            finally:
                process.terminate()
                process.wait(30)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


async def send(port: int, bodies: list[bytes], num_clients: int) -> None:
    """Send bodies by some clients, each one after the other."""
    remaining = iter(bodies)

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for body in remaining:
            status, _ = await exchange(reader, writer, "/v1/models/next/predict", body)
            assert status == 200, status
        writer.close()

    await asyncio.gather(*(client() for _ in range(num_clients)))


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Fit, serve, and send."""
    fit(read(args.data / "train.txt.gz")[0], args.model, folder / "next")
    sessions = asked(read(args.data / "test.txt.gz")[0], evidence=False)
    bodies = [sessions[number % len(sessions)] for number in range(args.requests)]
    commands = {"ensue": ["-m", "ensue", "serve", f"next={folder / 'next'}", "--port", "0"], "fastapi": ["-c", BARE]}
    rates: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serving(command)) for name, command in commands.items()}
        for _, port in servers.values():
            asyncio.run(send(port, bodies, 1))
        for _ in range(args.rounds):
            for num_clients in CLIENTS:
                for name, (pid, port) in servers.items():
                    before = cpu_seconds(pid)
                    asyncio.run(send(port, bodies, num_clients))
                    rate = len(bodies) / (cpu_seconds(pid) - before)
                    rates.setdefault((name, num_clients), []).append(rate)
    rows = [
        {"server": name, "clients": num_clients, "requests_a_cpu_second": round(statistics.median(values))}
        for (name, num_clients), values in rates.items()
    ]
    return {"model": args.model, "requests": args.requests, "rounds": args.rounds, "rows": rows}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=home / "sessions" / "diginetica")
    parser.add_argument("--model", default="core")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(args, Path(folder))
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps({**provenance(), **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
