"""Kill a stream with SIGKILL at random moments, start it again, and compare with a run that nobody touched.

Every source gets as many kills as asked for. After each the folder must load; at the end every count, the events and
targets of every hour, the position and the file of rejects must be those of the undisturbed run, and nothing else may
be left beside the folder or in the one of temporary files. The log holds late and repeated events, lines that are no
events, and new values. Commits follow closely, so that many kills hit one. With ``--models 2`` two models read one
source of Redis or Kafka, with a reader in their group that is none of ours, and either model is killed.

Beside that (``kill_folders.py``): trainings and updates that are killed, alone and in the service, ``ensue update``
against the service's own, a full disk during a stream (a mount of its own: root), and a clock that is set back.

    python benchmarks/kill.py [--kills 50] [--cases stream,fit,update,serve,both,disk,clock]
                              [--sources jsonl,folder,sqlite,redis,keys,kafka]
                              [--consumers 1|2] [--models 1|2] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

os.environ["OMP_NUM_THREADS"] = "1"  # children are forked from here: no pool of threads may exist

import torch

from ensue.data.histories import Histories
from ensue.errors import FolderInUseError
from ensue.predictor import load, make
from ensue.records import History
from ensue.store.swap import only_writer
from ensue.stream.brokers import open_source
from ensue.stream.engine import Stream
from ensue.stream.sources import SQLiteQueue, partition_of
from ensue.stream.state import StreamSettings
from ensue_studies.results import provenance

SOURCES = ("jsonl", "folder", "sqlite", "redis", "keys", "kafka")
JOURNALED = ("keys", "kafka")
"""Sources whose commits go to the journal, as those of a large model do; the others write folders."""
PARTITIONS = 4
MOCK = """
import json, sys, time
import confluent_kafka
brokers = confluent_kafka.Producer({"bootstrap.servers": "mock:9092", "test.mock.num.brokers": 2, "log_level": 0})
addresses = brokers.list_topics(timeout=30).brokers.values()
for topic in ("clicks", "untouched"):
    for number, lines in enumerate(json.loads(open(sys.argv[1]).read())):
        for line in lines:
            brokers.produce(topic, value=line, partition=number)
            brokers.poll(0)
assert brokers.flush(60) == 0
print(",".join(f"{one.host}:{one.port}" for one in addresses), flush=True)
time.sleep(86_400)
"""
"""librdkafka's mock cluster in a process of its own, for its threads do not survive a fork."""
LONGEST = 0.4
"""Seconds a run reads at most before it is killed."""


def made_up(num: int, seed: int) -> list[str]:
    """Lines of a log with everything that goes wrong in one."""
    draw = random.Random(seed)
    lines: list[str] = []
    for at in range(num):
        event = {
            "session": f"s{draw.randrange(40)}",
            "item": f"v{int(30 * draw.random() ** 2 + at / 400)}",
            "time": at * 7,
        }
        if draw.random() < 0.3:
            event["id"] = f"e{at}"
        if draw.random() < 0.05:
            event["time"] = max(0, at * 7 - draw.randrange(900))
        lines.append(json.dumps(event))
        if draw.random() < 0.03:
            lines.append(draw.choice(lines[-50:]))
        if draw.random() < 0.02:
            lines.append(
                draw.choice(["{", "[1]", '{"session": "s1"}', "\u00e9", "", json.dumps({**event, "time": "noon"})])
            )
    return lines


def fit(folder: Path) -> None:
    """A small model that knows the first values."""
    draw = random.Random(0)
    sessions = [History(tuple(f"v{draw.randrange(30)}" for _ in range(4)), (0.0, 1.0, 2.0, 3.0)) for _ in range(200)]
    predictor = make("next", "sansr", settings={"dim": 8, "epochs": 1, "negatives": 16}, device="cpu")
    for _ in predictor.fit(Histories.of(sessions)):
        pass
    predictor.save(folder)


def prepare(kind: str, lines: list[str], place: Path, stack: ExitStack) -> str:
    """Put the lines where a source of this kind reads them; returns its address."""
    text = [f"{line}\n" for line in lines]
    if kind == "jsonl":
        (place / "clicks.jsonl").write_text("".join(text))
        return str(place / "clicks.jsonl")
    if kind == "folder":
        (place / "clicks").mkdir()
        for number, low in enumerate(range(0, len(text), 500)):
            (place / "clicks" / f"{number:04}.jsonl").write_text("".join(text[low : low + 500]))
        return str(place / "clicks")
    if kind == "sqlite":
        SQLiteQueue(place / "queue.db").put(lines)
        return f"sqlite:{place / 'queue.db'}"
    parts = parted(lines) if kind in JOURNALED else [lines]
    if kind == "kafka":
        return f"kafka://{serve_kafka(parts, place, stack)}/clicks"
    port = serve_redis(place, stack)
    import redis

    keys = [f"-{number}" for number in range(len(parts))] if kind == "keys" else [""]
    with redis.Redis(port=port) as server:
        for key, part in zip(keys, parts, strict=True):
            for name in ("clicks", "untouched"):
                for line in part:
                    server.xadd(f"{name}{key}", {"line": line})
    return f"redis://127.0.0.1:{port}/0?stream={','.join(f'clicks{key}' for key in keys)}"


def parted(lines: list[str]) -> list[list[str]]:
    """The lines of each partition, by a digest of their session; those without one are in the first."""
    parts: list[list[str]] = [[] for _ in range(PARTITIONS)]
    for line in lines:
        try:
            number = partition_of(str(json.loads(line)["session"]), PARTITIONS)
        except (ValueError, KeyError, TypeError):
            number = 0
        parts[number].append(line)
    return parts


def serve_kafka(parts: list[list[str]], place: Path, stack: ExitStack) -> str:
    """Brokers of our own with the lines in two topics; they end with the stack."""
    (place / "parts.json").write_text(json.dumps(parts))
    command = [sys.executable, "-c", MOCK, str(place / "parts.json")]
    brokers = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    stack.callback(brokers.wait)
    stack.callback(brokers.kill)
    assert brokers.stdout is not None
    return brokers.stdout.readline().strip()


def serve_redis(place: Path, stack: ExitStack) -> int:
    """A server of our own on a free port of this machine; it ends with the stack."""
    import redis

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(place)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    stack.callback(server.wait)
    stack.callback(server.terminate)
    with redis.Redis(port=port) as client:
        for _ in range(100):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
    return port


def forked(task: Callable[[], None]) -> int:
    """Start a task in a process of its own; it leaves with 0 once done, with 1 after an error."""
    child = os.fork()
    if child:
        return child
    try:
        task()
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - said, and the process ends
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)


def run(folder: Path, address: str, began: Callable[[], None] = lambda: None, until: int | None = None) -> None:
    """Stream to the end, or for so many events; wait while another streams."""
    journaled = address.startswith("kafka") or "," in address
    settings = StreamSettings(commit_interval=0.03, batch=16, gap=10, journal=0 if journaled else 2**60)
    with ExitStack() as held:
        while True:
            with suppress(FolderInUseError):
                held.enter_context(only_writer(folder))
                break
            time.sleep(0.01)
        stream = Stream(folder, open_source(address, print), settings)
        began()
        for _ in stream.run(follow=False, until=until):
            pass


def killed(folder: Path, address: str, draw: random.Random) -> int:
    """Start a run and kill it at a random moment, one in five while it still starts; its exit status."""
    hear, say = os.pipe()
    child = forked(lambda: run(folder, address, lambda: os.write(say, b".") and None))
    if draw.random() < 0.8:
        os.close(say)
        os.read(hear, 1)
        time.sleep(LONGEST * draw.random())
    else:
        time.sleep(0.1 * draw.random())
        os.close(say)
    os.kill(child, signal.SIGKILL)
    os.close(hear)
    return os.waitpid(child, 0)[1]


def side_by_side(folders: list[Path], address: str, draw: random.Random, kills: int) -> tuple[int, int]:
    """Run one consumer per folder, of which one at a time is killed and started again; return (kills, failures).

    Where the folders are one, the consumer on standby takes over, and at least one is left until both are at the end.
    """
    running = {forked(lambda folder=folder: run(folder, address)): folder for folder in folders}  # type: ignore[misc]
    hit = failed = 0
    while running:
        time.sleep(LONGEST * draw.random())
        for child in list(running):
            done, code = os.waitpid(child, os.WNOHANG)
            if done:
                del running[child]
                failed += code != 0
        if hit < kills and len(running) > len(folders) - len(set(folders)):
            child = draw.choice(sorted(running))
            folder = running.pop(child)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            hit += 1
            running[forked(lambda folder=folder: run(folder, address))] = folder  # type: ignore[misc]
    return hit, failed


@contextmanager
def foreign_reader(address: str) -> Iterator[None]:
    """A process that reads and acknowledges entries of the models' group, as another program would."""
    reader = forked(lambda: read_redis(address) if address.startswith("redis") else read_kafka(address))
    try:
        yield
    finally:
        os.kill(reader, signal.SIGKILL)
        os.waitpid(reader, 0)


def read_redis(address: str) -> None:
    """Read and acknowledge the group's entries, again from the beginning once all were read."""
    import redis

    parts = urlsplit(address)
    keys = parse_qs(parts.query)["stream"][0].split(",")
    with redis.Redis(port=parts.port or 0) as server:
        while True:
            for key in keys:
                with suppress(redis.ResponseError):
                    server.xgroup_create(key, "ensue", id="0")
                entries = [entry for _, read in server.xreadgroup("ensue", "other", {key: ">"}, 7) for entry, _ in read]
                server.xack(key, "ensue", *entries) if entries else server.xgroup_setid(key, "ensue", "0")
            time.sleep(0.01)


def read_kafka(address: str) -> None:
    """Read messages as a member of the group, and commit their offsets."""
    import confluent_kafka

    parts = urlsplit(address)
    group = {"bootstrap.servers": parts.netloc, "group.id": "ensue", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = confluent_kafka.Consumer(group)
    consumer.subscribe([parts.path.strip("/")])
    while True:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            consumer.commit(message)


def state(folder: Path) -> dict[str, Any]:
    """What must be equal, whatever was killed."""
    result = json.loads((folder / "stream.json").read_text())
    rejects = folder.with_name(f"{folder.name}.rejects.jsonl")
    places = [json.loads(line) for line in rejects.read_text().splitlines()]
    return {
        "counts": result["counts"],
        "hours": [[row["hour"], row["events"], row["targets"]] for row in result["hours"]],
        "position": result["position"] if "entry" not in json.dumps(result["position"]) else None,
        "rejects": sorted([entry["reason"], entry["line"]] for entry in places),
    }


def leftovers(place: Path) -> set[str]:
    """What lies beside the folders, where only rejected lines and the folder to go on from belong, and in ``/tmp``."""
    beside = {path.name for path in place.glob(".*") if ".resume." not in path.name}
    return beside | {path.name for path in (place / "tmp").iterdir()}


def check(
    kind: str, kills: int, events: int, place: Path, draw: random.Random, consumers: int, models: int
) -> dict[str, Any]:
    """One source."""
    with ExitStack() as stack:
        (place / "tmp").mkdir()
        stack.callback(setattr, tempfile, "tempdir", tempfile.gettempdir())
        os.environ["TMPDIR"] = tempfile.tempdir = str(place / "tmp")
        lines = made_up(events, seed=1)
        address = prepare(kind, lines, place, stack)
        model = place / "model"
        folders = [place / f"killed{number}" for number in range(models)]
        assert os.waitpid(forked(lambda: fit(model)), 0)[1] == 0
        shutil.copytree(model, place / "whole")
        untouched = re.sub(r"clicks(?=-|$)", "untouched", address) if kind in ("redis", *JOURNALED) else address
        assert os.waitpid(forked(lambda: run(place / "whole", untouched)), 0)[1] == 0
        expected = state(place / "whole")
        former = leftovers(place)
        hit = 0
        halves = 0
        unloadable = 0
        rounds = 0
        wrong = 0
        left = set[str]()
        if models > 1:
            stack.enter_context(foreign_reader(address))
        while hit < kills:
            rounds += 1
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(model, folder)
                folder.with_name(f"{folder.name}.rejects.jsonl").unlink(missing_ok=True)
            if max(consumers, models) > 1:
                killed_now, failed = side_by_side(folders * consumers, address, draw, kills - hit)
                assert not failed, f"{kind}: a run failed"
                hit += killed_now
            while max(consumers, models) == 1:
                if hit < kills:
                    code = killed(folders[0], address, draw)
                else:
                    code = os.waitpid(forked(lambda: run(folders[0], address)), 0)[1]
                if not os.WIFSIGNALED(code):
                    assert code == 0, f"{kind}: a run failed"
                    break
                hit += 1
                halves += len(list(place.glob(".killed0.*.tmp")))
                try:
                    load(folders[0])
                except Exception as error:  # noqa: BLE001 - counted and said
                    unloadable += 1
                    sys.stderr.write(f"{error}\n")
            for folder in folders:
                if state(folder) != expected:
                    wrong += 1
                    (place / "expected.json").write_text(json.dumps(expected))
                    (place / "found.json").write_text(json.dumps(state(folder)))
            left |= leftovers(place) - former
    return {
        "source": kind,
        "consumers": consumers,
        "models": models,
        "kills": hit,
        "kills_within_a_commit": halves,
        "rounds": rounds,
        "rounds_that_differ": wrong,
        "folders_that_do_not_load": unloadable,
        "left": sorted(left),
        "counts": expected["counts"],
    }


def main() -> None:
    """Kill and print; the exit code is 1 if anything differed."""
    from kill_folders import CASES  # it takes the helpers above

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--cases", default=",".join(["stream", *CASES]))
    parser.add_argument("--sources", default=",".join(SOURCES))
    parser.add_argument("--events", type=int, default=6000)
    parser.add_argument("--consumers", type=int, choices=(1, 2), default=1)
    parser.add_argument("--models", type=int, choices=(1, 2), default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.optim.Adam([torch.zeros(1)])  # imports here what each child would import anew: kills meet work, not imports
    rows = []
    cases = args.cases.split(",")
    for kind in args.sources.split(",") if "stream" in cases else ():
        with tempfile.TemporaryDirectory() as folder:
            draw = random.Random(args.seed)
            rows.append(check(kind, args.kills, args.events, Path(folder), draw, args.consumers, args.models))
        print(json.dumps(rows[-1]), flush=True)
    for case in (case for case in cases if case != "stream"):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(CASES[case](args.kills, Path(folder), random.Random(args.seed)))
        print(json.dumps(rows[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({**provenance(), "rows": rows}, indent=1) + "\n")
    failures = ("rounds_that_differ", "folders_that_do_not_load", "left", "wrong")
    sys.exit(any(row.get(name) for row in rows for name in failures))


if __name__ == "__main__":
    main()
