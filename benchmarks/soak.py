"""A service under 50,000 mixed requests: its memory, its statuses, and that none of them is an error of its own.

Predictions of all four tasks, explanations, figures, events, events of many fields, broken bodies, pages packed by
gzip, bodies that say they are packed, and connections that are cut off in the middle, from a few clients at once to a
process on this machine. The memory (RSS) is read after every 500 requests; the first 5,000 are for warming up.

    python benchmarks/soak.py [--requests 50000] [--workers 1] [--seed 0] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from fuzz_service import mutated, sent, write_models

from ensue_studies.results import provenance

CLIENTS, SAMPLE, WARM = 4, 500, 5_000
JSON = {"content-type": "application/json"}
WORDS = ("ferry", "train", "storm", "harbour", "bridge", "night", "good", "bad", "fares", "größe", "東京", "unknown")


class Asked(NamedTuple):
    """A request."""

    path: str
    body: bytes | None = None
    headers: dict[str, str] = JSON


def record(task: str, draw: random.Random) -> dict[str, Any]:
    """Return a record of a task, of a few known and unknown values or words."""
    words = draw.choices(WORDS, k=draw.randint(1, 12))
    if task == "next":
        return {"values": [f"v{draw.randrange(15)}" for _ in words]}
    if task == "suggest":
        return {"values": [" ".join(words[:2])]}
    return {"texts": [" ".join(words)]} if task == "classify" else {"text": " ".join(words)}


def question(draw: random.Random) -> Asked:
    """Return one of the mixed requests."""
    task = draw.choice(("next", "classify", "suggest", "link"))
    way = draw.random()
    model = f"/v1/models/{task}"
    if way < 0.55:
        body = {"records": [record(task, draw) for _ in range(draw.randint(1, 8))], "k": draw.randint(1, 20)}
        return Asked(f"{model}/predict", json.dumps({**body, "evidence": draw.random() < 0.5}).encode())
    if way < 0.65:
        return Asked(f"{model}/explain", json.dumps({"records": [record(task, draw)], "k": 2}).encode())
    if way < 0.68:
        return Asked(f"{model}/figure", json.dumps({"record": record(task, draw)}).encode())
    if way < 0.78:
        events = [{"session": f"s{draw.randrange(99)}", "item": f"v{draw.randrange(15)}", "time": 1.7e9}] * 3
        return Asked("/v1/events", json.dumps({"events": events}).encode())
    if way < 0.80:
        wide = {f"c{draw.randrange(10**6)}": 1 for _ in range(draw.choice((90, 200, 5000)))}
        return Asked("/v1/events", json.dumps({**wide, "session": "a", "item": "b", "time": 1.7e9}).encode())
    if way < 0.88:
        broken = draw.choice(
            (b"{", b"[]", b'{"records": 3}', b"\xff\xfe", b'{"records": [{"values": [{}]}]}', b"[" * 999)
        )
        return Asked(draw.choice((f"{model}/predict", f"{model}/update", "/v1/events")), broken)
    if way < 0.91:
        return Asked(f"{model}/predict", b"\x1f\x8b\x08\0\0", {**JSON, "content-encoding": "gzip"})
    if way < 0.94:
        return Asked(draw.choice(("/", "/page/style.css")), None, {"accept-encoding": "gzip"})
    paths = ("/v1/models", "/metrics", "/readyz", "/openapi.json", "/v1/models/nobody", "/v1/story")
    return Asked(draw.choice(paths), None)


def client(port: int, count: int, seed: int, told: Callable[[str], None]) -> None:
    """Send a share of the requests over a connection that stays open, but for those that are cut off."""
    draw = random.Random(seed)
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(count):
        asked = question(draw)
        if draw.random() < 0.03 and asked.body:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as entry:
                head = f"POST {asked.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                entry.sendall(
                    f"{head}content-length: {len(asked.body)}\r\n\r\n".encode() + asked.body[: len(asked.body) // 2]
                )
            told("cut off")
            continue
        try:
            connection.request("GET" if asked.body is None else "POST", asked.path, asked.body, asked.headers)
            answer = connection.getresponse()
            answer.read()
            told(str(answer.status))
        except (HTTPException, OSError) as error:  # it closed the connection, as after a body that is no HTTP
            told(type(error).__name__)
            connection.close()
    connection.close()


def resident(pids: list[int]) -> float:
    """Return the memory of some processes in MB, pages that they share counted once."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def run(count: int, workers: int, seed: int, fuzzed: int, place: Path) -> dict[str, Any]:
    """Serve, send and measure."""
    folders = write_models(place)
    command = [sys.executable, "-m", "ensue", "serve", *(f"{name}={folder}" for name, folder in folders.items())]
    command += ["--port", "0", "--queue", f"sqlite:{place / 'queue.db'}", "--workers", str(workers)]
    log = place / "log.jsonl"
    counts = Counter[str]()
    samples = list[tuple[int, float]]()
    lock = threading.Lock()
    with log.open("w") as lines:
        process = subprocess.Popen(command, stderr=lines)
    while not (listening := [line for line in log.read_text().splitlines() if '"listening"' in line]):
        time.sleep(0.2)
    port = int(json.loads(listening[0])["address"].rsplit(":", 1)[1])
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    pids = [process.pid, *map(int, children)]

    def told(status: str) -> None:
        with lock:
            counts[status] += 1
            if counts.total() % SAMPLE == 0:
                samples.append((counts.total(), round(resident(pids), 1)))

    start_time = time.perf_counter()
    threads = [
        threading.Thread(target=client, args=(port, count // CLIENTS, seed + number, told)) for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start_time
    changed = Counter(sent(port, data, 1.0) for data in mutated(fuzzed, random.Random(seed)))
    after = round(resident(pids), 1)
    process.send_signal(signal.SIGTERM)
    code = process.wait(60)
    written = [json.loads(line) for line in log.read_text().splitlines()]
    warm = next((memory for number, memory in samples if number >= WARM), samples[0][1])
    later = [memory for number, memory in samples if number >= WARM]
    return {
        "requests": counts.total(),
        "workers": workers,
        "seconds": round(seconds, 1),
        "answers": dict(sorted(counts.items())),
        "bytes_changed": dict(sorted(changed.items())),
        "status_500": sum(line.get("status") == 500 for line in written),
        "failures": [line for line in written if line.get("event") == "failure"][:5],
        "memory_mb": samples,
        "memory_after_5000_mb": warm,
        "memory_at_most_mb": max(later),
        "memory_after_fuzzing_mb": after,
        "growth": round(max([*later, after]) / warm - 1, 4),
        "exit_code": code,
    }


def main() -> None:
    """Send, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--fuzzed", type=int, default=5_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(args.requests, args.workers, args.seed, args.fuzzed, Path(folder))
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps({**provenance(), **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
