"""Answers and a service over a large catalogue: what an index costs and keeps, lists of a request, several workers.

The catalogue is made up: vectors around topics of 50 items, and topics around fewer themes, as a network learns them;
nothing is trained, for the cost of an answer does not depend on how good it is. Sessions are of one topic each, and
what follows is another item of it. Exact answers and answers by the index are asked in turn in one process, on one
thread, and CPU time is told beside wall time. Then the service answers at a steady rate, by one process and by several;
its CPU time is its own, of all its processes, and so is its memory (shared pages counted once).

    python benchmarks/serving_at_size.py [--items 100000,1000000] [--rate 150] [--seconds 30] [--json FILE]
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
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import torch
from load import _metrics, _value, figures, send_all

from ensue.data.histories import Histories
from ensue.predictor import load
from ensue.records import History
from ensue.studies.provenance import provenance
from ensue.tasks.next import train
from ensue.tasks.next.infer import predict_each
from ensue.tasks.next.permitted import Permitted
from ensue.tasks.next.predictor import NextPredictor
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST, Vocabulary

TOPIC, THEME, DIM, K = 50, 40, 64, 20
SINGLE, BATCH, TARGETS, REQUESTS = 200, 64, 2000, 10_000


def make(items: int, folder: Path) -> None:
    """A folder of SANSR over so many items, with its index."""
    predictor = NextPredictor("sansr", settings={"dim": DIM, "replay": 0}, device="cpu")
    ids = (FIRST + np.random.default_rng(0).permutation(items)).astype(np.int32)
    vocabulary = Vocabulary(f"item{number}" for number in range(items))
    data = Histories(ids, np.arange(0, items + 1, 5), vocabulary)
    train.learn_values(predictor, data)
    predictor.metadata.repeats = True
    predictor.model = network = predictor.new_network()
    predictor.count_negatives()
    draw = torch.Generator().manual_seed(1)
    topics = items // TOPIC
    themes = torch.randn(topics // THEME + 1, DIM, generator=draw)
    centres = themes[torch.randint(len(themes), (topics,), generator=draw)] + torch.randn(topics, DIM, generator=draw)
    rows = 0.7 * centres.repeat_interleave(TOPIC, 0) + 0.8 * torch.randn(items, DIM, generator=draw)
    rows *= (1 + 0.3 * torch.rand(items, 1, generator=draw)) / DIM**0.5
    with torch.no_grad():
        network.items.weight[FIRST:] = rows
    predictor.optimizer = make_optimizer(network, predictor.schedule)
    predictor.learn(data.select(np.arange(200)).encode(predictor.vocabulary))
    predictor.index_items()
    predictor.save(folder, "for a benchmark")


def sessions(items: int, num: int) -> list[tuple[History, str]]:
    """Sessions of one topic, and what follows."""
    random, found = np.random.default_rng(7), []
    for _ in range(num):
        topic = int(items // TOPIC * random.random() ** 2)
        values = [f"item{TOPIC * topic + at}" for at in random.integers(0, TOPIC, random.integers(2, 9)).tolist()]
        found.append((History(tuple(values[:-1])), values[-1]))
    return found


def middle(taken: list[float]) -> dict[str, float]:
    return {f"p{part}": round(float(np.percentile(taken, part)), 2) for part in (50, 95)}


def answers(predictor: NextPredictor, asked: list[tuple[History, str]]) -> dict[str, Any]:
    """Exact answers and answers by the index, in turn."""
    index, records = predictor.index, [record for record, _ in asked]
    found: dict[str, Any] = {"index": predictor.metadata.index}
    for evidence in (False, True):
        taken: dict[str, dict[str, list[float]]] = {
            name: {"cpu_ms": [], "wall_ms": []} for name in ("exact", "by_index")
        }
        for number, record in enumerate(records[: SINGLE + 5]):
            for name, own in (("exact", None), ("by_index", index)):
                if name == "exact" and number % 4:
                    continue
                predictor.index = own
                wall, cpu = time.perf_counter(), time.thread_time()
                predictor.predict([record], K, evidence=evidence)
                taken[name]["cpu_ms"].append(1000 * (time.thread_time() - cpu))
                taken[name]["wall_ms"].append(1000 * (time.perf_counter() - wall))
        rates: dict[str, list[float]] = {"exact": [], "by_index": []}
        for low in range(0, 5 * BATCH, BATCH):
            for name, own in (("exact", None), ("by_index", index)):
                predictor.index = own
                cpu = time.thread_time()
                predictor.predict(records[low : low + BATCH], K, evidence=evidence)
                rates[name].append(BATCH / (time.thread_time() - cpu))
        found["with evidence" if evidence else "plain"] = {
            name: {
                "one": {unit: middle(values[5:]) for unit, values in taken[name].items()},
                "answers_a_cpu_second": round(float(np.median(rates[name]))),
            }
            for name in taken
        }
    lists: dict[str, list[list[str]]] = {}
    for name, own in (("exact", None), ("by_index", index)):
        predictor.index = own
        told = predictor.predict(records[:TARGETS], K, evidence=False)
        lists[name] = [[choice.value for choice in answer.choices] for answer in told]
    hits = {
        name: float(np.mean([target in one for one, (_, target) in zip(own, asked, strict=False)]))
        for name, own in lists.items()
    }
    overlap = [len({*one} & {*other}) / K for one, other in zip(lists["exact"], lists["by_index"], strict=True)]
    found |= {"recall@20_of_what_followed": hits, "of_the_exact_list": round(float(np.mean(overlap)), 4)}
    return found


def with_lists(predictor: NextPredictor, records: list[History]) -> dict[str, Any]:
    """Requests with lists of their own: what is let through, and what the lists cost."""
    random, values = np.random.default_rng(3), predictor.vocabulary.values
    forbidden = short = 0
    ratios: dict[str, list[float]] = {"exclude": [], "allow": []}

    def some(num: int) -> list[str]:
        return [values[at] for at in random.integers(0, len(values), num).tolist()]

    for low in range(0, REQUESTS // 2, BATCH):
        part = [records[(low + at) % len(records)] for at in range(BATCH)]
        plain = predictor.predict(part, K, evidence=False)
        best = [[choice.value for choice in answer.choices] for answer in plain]
        for kind in ratios:
            given: list[tuple[list[str], list[str] | None]] = []
            for own in best:
                drawn = [value for value in own if random.random() < 0.5]
                given.append(([*drawn, *some(80)], None) if kind == "exclude" else ([], [*drawn, *some(500)]))
            taken = []
            for lists in (None, given):
                cpu = time.thread_time()
                permitted = [lists and Permitted.of(*one, predictor.vocabulary) for one in lists or given]
                told = predict_each(predictor, part, permitted, K, evidence=False)
                taken.append(time.thread_time() - cpu)
            ratios[kind].append(taken[1] / taken[0])
            for answer, (exclude, allow) in zip(told, given, strict=True):
                chosen = {choice.value for choice in answer.choices}
                forbidden += bool(chosen & {*exclude}) or (allow is not None and not chosen <= {*allow})
                short += len(chosen) < K
    cost = {kind: round(float(np.median(own)), 3) for kind, own in ratios.items()}
    asked = 2 * BATCH * len(ratios["allow"])
    return {"requests": asked, "forbidden": int(forbidden), "fewer_than_k": short, "cpu_ratio": cost}


def service(folder: Path, asked: list[tuple[History, str]], workers: int, args: argparse.Namespace) -> dict[str, Any]:
    """The service at a steady rate."""
    bodies = [
        json.dumps({"records": [{"values": record.values}], "k": K, "evidence": False}).encode() for record, _ in asked
    ]
    command = [sys.executable, "-m", "ensue", "serve", f"next={folder}", "--port", "0", "--workers", str(workers)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = int(json.loads(process.stderr.readline())["address"].rsplit(":", 1)[1])
    drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)

    async def nothing(begun: float) -> None:
        pass

    try:
        asyncio.run(send_all(port, bodies, args.rate, 3, nothing))  # warm
        before = _value(_metrics(port), "process_cpu_seconds_total")
        told = asyncio.run(send_all(port, bodies, args.rate, args.seconds, nothing))
        cpu = _value(_metrics(port), "process_cpu_seconds_total") - before
        memory = proportional(process.pid)
    finally:
        process.terminate()
        process.wait(60)
        drain.wait(60)
    rate = {"requests_a_cpu_second": round(len(told) / cpu), "memory_mb": round(memory / 2**20)}
    return {"workers": workers, "rate": args.rate, "seconds": args.seconds, **figures(told), **rate}


def proportional(pid: int) -> float:
    """Bytes of memory of a process and its children, each page divided by those that share it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = [
        line for one in (str(pid), *children) for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
    ]
    return float(sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")))


def run(items: int, args: argparse.Namespace, place: Path) -> dict[str, Any]:
    """Make, load, ask, serve."""
    folder = place / f"next-{items}"
    cpu = time.process_time()
    make(items, folder)
    made = time.process_time() - cpu
    cpu = time.process_time()
    predictor = load(folder)
    found: dict[str, Any] = {"items": items, "dim": DIM, "load_cpu_seconds": round(time.process_time() - cpu, 2)}
    print(f"{items:,} items: made in {made:.0f} CPU s, loaded in {found['load_cpu_seconds']}", flush=True)
    asked = sessions(items, TARGETS)
    found |= answers(predictor, asked)
    print(json.dumps(found), flush=True)
    found["lists"] = with_lists(predictor, [record for record, _ in asked])
    print(json.dumps(found["lists"]), flush=True)
    del predictor
    found["service"] = []
    for workers in args.workers:
        found["service"].append(service(folder, asked, workers, args))
        print(json.dumps(found["service"][-1]), flush=True)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--items", type=numbers, default=[100_000, 1_000_000])
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    parser.add_argument("--rate", type=float, default=150.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        rows = [run(items, args, Path(place)) for items in args.items]
    if args.json:
        args.json.write_text(json.dumps({**provenance(), "k": K, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
