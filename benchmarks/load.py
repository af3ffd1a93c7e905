"""A service under steady load: next clicks out of all items of Diginetica, one new version and one update meanwhile.

Requests are sent at fixed moments, whether earlier ones were answered or not, and each is timed from its moment on: a
service that stalls cannot hide it. After a third of the time the folder is replaced by another version, after two
thirds sessions are learned over HTTP; latencies are told for all, and for the five seconds that begin with each. The
service runs as a process of its own on this machine, and so does this generator. A request asks for 20 items of one
session without evidence (``--evidence`` asks for it too).

    python benchmarks/load.py [--data DIGINETICA] [--seconds 300] [--rate 200] [--model core] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np

from ensue.data.histories import Histories
from ensue.data.sequences import read
from ensue.predictor import load, make
from ensue.store import versions
from ensue.store.folder import clone_folder
from ensue_studies.results import provenance

K, CONNECTIONS, LEARNED, WINDOW, LATEST = 20, 64, 200, 5.0, 40_000
SMALL: dict[str, dict[str, object]] = {"core": {"epochs": 1, "negatives": 256, "dim": 64, "refit": False}}


class Told(NamedTuple):
    """One request: when it was due, seconds from then to its answer, and its status (0: none)."""

    due: float
    taken: float
    status: int


def fit(data: Histories, model: str, folder: Path) -> None:
    """A model of all items, from the latest sessions and one session of every other item."""
    first = np.unique(data.ids, return_index=True)[1]
    kept = np.union1d(data.sequence_index()[first], np.arange(max(0, len(data) - LATEST), len(data)))
    predictor = make("next", model, settings=SMALL.get(model, {}), device="cpu")
    for _ in predictor.fit(data.select(kept)):
        pass
    predictor.save(folder, "for a benchmark")


def asked(data: Histories, evidence: bool) -> list[bytes]:
    """Bodies of requests: sessions of the test part without their last click."""
    records = [record for record in data.records() if len(record.values) > 1][:5000]
    bodies = ({"records": [{"values": record.values[:-1][-50:]}], "k": K, "evidence": evidence} for record in records)
    return [json.dumps(body).encode() for body in bodies]


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes
) -> tuple[int, bytes]:
    """One request over a connection that stays open."""
    writer.write(
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:"))
    return int(head.split(" ", 2)[1]), await reader.readexactly(length)


async def send_all(port: int, bodies: list[bytes], rate: float, seconds: float, then: Any) -> list[Told]:
    """Requests at their moments over a pool of connections."""
    pool: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        pool.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    output: list[Told] = []
    start_time = time.perf_counter()

    async def one(due: float, body: bytes) -> None:
        connection = await pool.get()
        status = 0
        try:
            status, _ = await exchange(*connection, "/v1/models/next/predict", body)
        except (OSError, asyncio.IncompleteReadError):
            connection[1].close()
            connection = await asyncio.open_connection("127.0.0.1", port)
        pool.put_nowait(connection)
        output.append(Told(due, time.perf_counter() - start_time - due, status))

    other = asyncio.create_task(then(start_time))
    tasks = []
    for number in range(round(rate * seconds)):
        due = number / rate
        await asyncio.sleep(max(0.0, start_time + due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(due, bodies[number % len(bodies)])))
    await asyncio.gather(*tasks)
    await other
    while not pool.empty():
        pool.get_nowait()[1].close()
    return output


def figures(told: list[Told]) -> dict[str, Any]:
    """Milliseconds and errors."""
    taken = [1000 * entry.taken for entry in told if entry.status == 200]
    places = np.percentile(taken, [50, 95, 99, 100]) if taken else [float("nan")] * 4
    names = ("p50_ms", "p95_ms", "p99_ms", "max_ms")
    latencies = {name: round(float(value), 1) for name, value in zip(names, places, strict=True)}
    return {"requests": len(told), "errors": len(told) - len(taken), **latencies}


def run(args: argparse.Namespace, place: Path) -> dict[str, Any]:
    """Fit, serve, send, and tell."""
    data, _ = read(args.data / "train.txt.gz")
    folder = place / "next"
    other = place / "other"
    begun = time.perf_counter()
    fit(data, args.model, folder)
    print(f"fitted {args.model} in {time.perf_counter() - begun:.0f} s", flush=True)
    predictor = load(folder)
    predictor.metadata.version = 2
    predictor.save(other, "the version that is swapped in")
    bodies = asked(read(args.data / "test.txt.gz")[0], args.evidence)
    new = [json.loads(record.to_json()) for record in data.select(np.arange(LEARNED)).records()]
    command = [sys.executable, "-m", "ensue", "serve", f"next={folder}", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = json.loads(process.stderr.readline())
    port = int(line["address"].rsplit(":", 1)[1])
    before = _value(_metrics(port), "process_cpu_seconds_total")
    drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    moments: dict[str, float] = {}

    async def then(begun: float) -> None:
        await asyncio.sleep(args.seconds / 3)
        moments["swap"] = time.perf_counter() - begun
        await asyncio.to_thread(clone_folder, other, folder)
        await asyncio.sleep(max(0.0, begun + 2 * args.seconds / 3 - time.perf_counter()))
        moments["update"] = time.perf_counter() - begun
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        status, output = await exchange(reader, writer, "/v1/models/next/update", json.dumps({"records": new}).encode())
        writer.close()
        moments["update_seconds"] = time.perf_counter() - begun - moments["update"]
        print(f"update: {status} {output[:200].decode()}", flush=True)

    try:
        printed = asyncio.run(send_all(port, bodies, args.rate, args.seconds, then))
        metrics = _metrics(port)
    finally:
        process.terminate()
        process.wait(30)
        drain.wait(30)
    batches = {key: _value(metrics, f'ensue_batch_records_{key}{{model="next"}}') for key in ("sum", "count")}
    windows = {"swap": WINDOW, "update": max(WINDOW, moments["update_seconds"])}
    return {
        "model": args.model,
        "items": len(predictor.vocabulary.values),
        "rate": args.rate,
        "seconds": args.seconds,
        "evidence": args.evidence,
        "all": figures(printed),
        **{
            name: figures([entry for entry in printed if 0 <= entry.due - moments[name] < length])
            for name, length in windows.items()
        },
        "update_seconds": round(moments["update_seconds"], 1),
        "cpu_ms_a_request": round(1000 * (_value(metrics, "process_cpu_seconds_total") - before) / len(printed), 2),
        "records_a_batch": round(batches["sum"] / batches["count"], 2),
        "swaps": _value(metrics, 'ensue_model_swaps_total{model="next"}'),
        "version": versions.current(folder),
        "exit_code": process.returncode,
    }


def _metrics(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return str(answer.read().decode())


def _value(metrics: str, name: str) -> float:
    return next(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line.startswith(f"{name} "))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    home = Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=home / "sessions" / "diginetica")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--model", default="core")
    parser.add_argument("--evidence", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(args, Path(folder))
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps({**provenance(), **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
