"""The service under made-up requests, while another client asks small questions and takes their time.

A service of four small models, one a task, runs as a process of its own. It gets requests made from its own document,
whole and broken, requests of HTTP whose bytes were changed, and bodies of the sizes that once held it: 400,000 words, a
prefix of 500 KB, 13 MB of empty lists. The other client, a process too, asks for one prediction every 20 ms, first
alone and then beside all that. Nothing is learned (``--read-only``); only loopback is used.

    python benchmarks/fuzz_service.py [--requests 5000] [--seed 0] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.queries import read_queries
from ensue.data.texts import Texts
from ensue.predictor import make
from ensue.records import Article, History, Post, Text
from ensue_studies.results import provenance

SMALL = json.dumps({"records": [{"values": ["v1", "v2"]}], "k": 3}).encode()
ALONE, EVERY, WORKERS = 3.0, 0.02, 4
PIECES = (
    b"\r\n",
    b"\x00",
    b"\xff",
    b"\r\nhost: b\r\n",
    b"\r\ncontent-length: 3\r\n",
    b"%00",
    b"[",
    b"{",
    b"\\ud83d",
    b" ",
)
MORE = (b"\r\ntransfer-encoding: chunked\r\n", b"Infinity", b"9" * 400, b"HTTP/1.0", b"..%2f", b"\xf0\x9f\x98")


def write_models(place: Path) -> dict[str, Path]:
    """A folder a task, of a few records."""
    words = ["ferry", "train", "storm", "harbour", "bridge", "night"]
    log = place / "queries.jsonl"
    rows = [
        {"user": f"u{user}", "query": query, "time": 1_700_000_000 + 100_000 * at + 60 * step}
        for user in range(8)
        for at in range(5)
        for step, query in enumerate((f"{words[at]} fares", f"{words[at + 1]} hotels"))
    ]
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    articles = [Article(f"The {word} is late. More of the {word}.", f"n{at}", word) for at, word in enumerate(words)]
    posts = [Post(f"the {word} again", f"p{at}", (f"n{at}",)) for at, word in enumerate(words)]
    texts = [Text((f"a {('good', 'bad')[at % 2]} {words[at % 6]}",), ("yes", "no")[at % 2]) for at in range(60)]
    histories = [History(tuple(f"v{(at + step) % 12}" for step in range(5))) for at in range(60)]
    made: dict[str, Any] = {
        "next": (make("next", "markov", device="cpu"), Histories.of(histories)),
        "classify": (
            make("classify", "centrality", settings={"hidden": 16, "dim": 16, "epochs": 1}, device="cpu"),
            Texts.of(texts),
        ),
        "suggest": (
            make("suggest", "mtn", settings={"dim": 16, "heads": 2, "epochs": 1, "min_count": 1}, device="cpu"),
            read_queries(log)[0],
        ),
        "link": (make("link", "best", device="cpu"), Corpus(Articles.of(articles), Posts.of(posts))),
    }
    for name, (predictor, data) in made.items():
        for _ in predictor.fit(data):
            pass
        predictor.save(place / name, "for a benchmark")
    return {name: place / name for name in made}


def ask_often(port: int, stop: Event, told: Any) -> None:
    """Another client: one small question after the other, the seconds of each; in a process of its own."""
    taken: list[float] = []
    told.send("ready")
    while not stop.is_set():
        start_time = time.perf_counter()
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/models/next/predict", SMALL, {"content-type": "application/json"})
        assert connection.getresponse().read().startswith(b'{"answers"')
        connection.close()
        taken.append(time.perf_counter() - start_time)
        time.sleep(EVERY)
    told.send(taken)


def sent(port: int, data: bytes, seconds: float) -> str:
    """The first status of what comes back to these bytes; ``closed`` where nothing does, ``waits`` for more of them."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as entry:
        try:
            entry.sendall(data)
            result = entry.recv(64)
        except TimeoutError:
            return "waits"
        except OSError:
            return "reset"
    return result.split(b" ", 2)[1].decode("latin-1") if result.startswith(b"HTTP/1.1 ") else "closed"


def whole(path: str, body: bytes) -> bytes:
    """A request of HTTP."""
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def mutated(count: int, draw: random.Random) -> Iterator[bytes]:
    """Requests whose bytes were changed in one to six places: of all of it, or of the body alone."""
    bodies = {
        "/v1/models/next/predict": SMALL,
        "/v1/models/classify/explain": b'{"records": [{"texts": ["a good ferry"]}]}',
        "/v1/models/suggest/predict": b'{"records": [{"values": ["ferry fares"]}], "prefix": "fe"}',
        "/v1/models/link/figure": b'{"record": {"text": "the ferry again"}}',
        "/v1/events": b'{"session": "s", "item": "a", "time": 1}',
        "/page/style.css": b"",
    }
    for number in range(count):
        path, body = draw.choice(list(bodies.items()))
        result = bytearray(body if number % 2 else whole(path, body))
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(result) + 1)
            way = draw.randrange(4)
            if way == 0:
                result[at:at] = draw.choice(PIECES + MORE)
            elif way == 1:
                result[at : at + draw.randint(1, 20)] = b""
            elif way == 2:
                result[at : at + 1] = bytes([draw.randrange(256)])
            else:
                result[at:at] = result[at : at + draw.randint(1, 60)]
        yield whole(path, bytes(result)) if number % 2 else bytes(result)


def large() -> list[bytes]:
    """What once held the service, and the most that it takes."""
    words = " ".join(["ferry"] * 400_000)
    allowed = " ".join(["ferry"] * 2000)
    lists = b"[" + b"[]," * 4_300_000 + b"[]]"
    return [
        whole("/v1/models/classify/predict", json.dumps({"records": [{"texts": [words[:1_000_000]]}]}).encode()),
        whole("/v1/models/link/predict", json.dumps({"records": [{"text": words[:1_000_000]}]}).encode()),
        whole(
            "/v1/models/suggest/predict",
            json.dumps({"records": [{"values": ["a"]}], "prefix": "ab " * 166_000}).encode(),
        ),
        whole("/v1/events", lists),
        whole("/v1/events", b"[" + b"1," * 990_000 + b"1]"),
        whole("/v1/models/classify/predict", json.dumps({"records": [{"texts": [allowed]}] * 16}).encode()),
        whole("/v1/models/classify/explain", json.dumps({"records": [{"texts": [allowed[:2900]]}] * 16}).encode()),
        whole("/v1/models/link/explain", json.dumps({"records": [{"text": allowed[:2900]}] * 16}).encode()),
        whole("/v1/models/next/predict", json.dumps({"records": [{"values": ["v1"] * 400}] * 256}).encode()),
    ]


def made_up(port: int, count: int) -> Counter[str]:
    """Requests from the document, half of them whole, half broken; the statuses of their answers."""
    with urlopen(f"http://127.0.0.1:{port}/openapi.json") as answer:
        document = schemathesis.openapi.from_dict(json.load(answer))
    operations: list[Any] = [result.ok() for result in document.get_all_operations()]  # type: ignore[union-attr]
    output: Counter[str] = Counter()
    chosen = [
        (entry, mode)
        for entry in operations
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        if mode is GenerationMode.POSITIVE or entry.method != "get"
    ]
    for operation, mode in chosen:

        @settings(
            max_examples=-(-count // len(chosen)),
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            request: dict[str, Any] = case.as_transport_kwargs(base_url=f"http://127.0.0.1:{port}")
            body = request.get("data")
            given_body = json.dumps(request["json"]).encode() if request.get("json") is not None else body
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                path = request["url"].split(str(port), 1)[1]
                connection.request(request["method"], path, given_body, {"content-type": "application/json"})
                output[str(connection.getresponse().status)] += 1
            except (HTTPException, ValueError, OSError, UnicodeError) as error:  # it was never a request
                output[type(error).__name__] += 1
            finally:
                connection.close()

        send()
    return output


def milliseconds(taken: list[float]) -> dict[str, float]:
    """Median, 99 of 100, and the longest."""
    own = sorted(taken)
    places = {"p50_ms": len(own) // 2, "p99_ms": min(len(own) - 1, round(0.99 * len(own))), "max_ms": len(own) - 1}
    return {"requests": len(own), **{name: round(1000 * own[at], 1) for name, at in places.items()}}


def watched(port: int, work: Any) -> tuple[Any, dict[str, float]]:
    """Some work, and the times of the other client meanwhile."""
    context = multiprocessing.get_context("spawn")
    stop, (ours, peer) = context.Event(), context.Pipe()
    client = context.Process(target=ask_often, args=(port, stop, peer))
    client.start()
    assert ours.recv() == "ready"
    try:
        result = work()
    finally:
        stop.set()
    taken = ours.recv()
    client.join()
    return result, milliseconds(taken)


def run(count: int, seed: int, place: Path) -> dict[str, Any]:
    """Serve, send, and tell."""
    folders = write_models(place)
    command = [sys.executable, "-m", "ensue", "serve", *(f"{name}={folder}" for name, folder in folders.items())]
    log = place / "log.jsonl"
    with log.open("w") as lines:
        command += ["--port", "0", "--read-only", "--queue", f"sqlite:{place / 'queue.db'}"]
        process = subprocess.Popen(command, stderr=lines)
        while not log.read_text().endswith("\n"):
            time.sleep(0.1)
        port = int(json.loads(log.read_text().splitlines()[0])["address"].rsplit(":", 1)[1])
        draw = random.Random(seed)
        output = dict[str, Counter[str]]()

        def send_all() -> None:
            with ThreadPoolExecutor(WORKERS) as pool:
                heavy = [pool.submit(sent, port, data, 60.0) for data in large() * max(1, count // 1000)]
                bytes_ = [pool.submit(sent, port, data, 1.0) for data in mutated(count // 2, draw)]
                output["from the document"] = made_up(port, count - count // 2)
                output["bytes changed"] = Counter(entry.result() for entry in bytes_)
                output["large"] = Counter(entry.result() for entry in heavy)

        try:
            _, alone = watched(port, lambda: time.sleep(ALONE))
            start_time = time.perf_counter()
            _, beside = watched(port, send_all)
            seconds = time.perf_counter() - start_time
        finally:
            process.terminate()
            code = process.wait(60)
    written = [json.loads(line) for line in log.read_text().splitlines()]
    return {
        "requests": sum(counts.total() for counts in output.values()),
        "seconds": round(seconds, 1),
        "answers": {kind: dict(sorted(counts.items())) for kind, counts in output.items()},
        "status_500": sum(line.get("status") == 500 for line in written),
        "failures": sum(line.get("event") == "failure" for line in written),
        "other_client_alone": alone,
        "other_client_beside": beside,
        "exit_code": code,
    }


def main() -> None:
    """Send, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(args.requests, args.seed, Path(folder))
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps({**provenance(), **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
