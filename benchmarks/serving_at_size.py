"""Answers and a service over a large catalogue: what an index costs and keeps, lists of a request, several workers.

The catalogue is made up: vectors around topics of 50 items, and topics around fewer themes, as a network learns them;
nothing is trained, for the cost of an answer does not depend on how good it is. Sessions are of one topic each, and
what follows is another item of it. Exact answers and answers by the index are asked in turn in one process, on one
thread, and CPU time is told beside wall time. Then the service answers at a steady rate, by one process and by several;
its CPU time is its own, of all its processes, and so is its memory (shared pages counted once). Each is told with
batches that begin at once and with such as begin ``--intervals`` seconds apart.

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
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import torch
from load import _metrics, _value, figures, send_all

from ensue.data.histories import Histories
from ensue.predictor import load
from ensue.records import History
from ensue.tasks.next import train
from ensue.tasks.next.infer import predict_each, score_histories
from ensue.tasks.next.item_filter import Rules
from ensue.tasks.next.nearest import score_candidates
from ensue.tasks.next.predictor import NextPredictor
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST, Vocabulary
from ensue_studies.results import provenance

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
    random = np.random.default_rng(7)
    results = []
    for _ in range(num):
        topic = int(items // TOPIC * random.random() ** 2)
        values = [f"item{TOPIC * topic + at}" for at in random.integers(0, TOPIC, random.integers(2, 9)).tolist()]
        results.append((History(tuple(values[:-1])), values[-1]))
    return results


def middle(taken: list[float]) -> dict[str, float]:
    return {f"p{part}": round(float(np.percentile(taken, part)), 2) for part in (50, 95)}


def answers(predictor: NextPredictor, asked: list[tuple[History, str]]) -> dict[str, Any]:
    """Exact answers and answers by the index, in turn."""
    index = predictor.index
    records = [record for record, _ in asked]
    results: dict[str, Any] = {"index": predictor.metadata.index}
    for evidence in (False, True):
        taken: dict[str, dict[str, list[float]]] = {
            name: {"cpu_ms": [], "wall_ms": []} for name in ("exact", "by_index")
        }
        for number, record in enumerate(records[: SINGLE + 5]):
            for name, own in (("exact", None), ("by_index", index)):
                if name == "exact" and number % 4:
                    continue
                predictor.index = own
                wall = time.perf_counter()
                cpu = time.thread_time()
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
        results["with evidence" if evidence else "plain"] = {
            name: {
                "one": {unit: middle(values[5:]) for unit, values in taken[name].items()},
                "answers_a_cpu_second": round(float(np.median(rates[name]))),
            }
            for name in taken
        }
    lists: dict[str, list[list[str]]] = {}
    for name, own in (("exact", None), ("by_index", index)):
        predictor.index = own
        output = predictor.predict(records[:TARGETS], K, evidence=False)
        lists[name] = [[choice.value for choice in answer.choices] for answer in output]
    hits = {
        name: float(np.mean([target in entry for entry, (_, target) in zip(own, asked, strict=False)]))
        for name, own in lists.items()
    }
    overlap = [len({*entry} & {*other}) / K for entry, other in zip(lists["exact"], lists["by_index"], strict=True)]
    results |= {"recall@20_of_what_followed": hits, "of_the_exact_list": round(float(np.mean(overlap)), 4)}
    return results


def with_lists(predictor: NextPredictor, records: list[History]) -> dict[str, Any]:
    """Requests with lists of their own, as JSON gives them: what is let through, and what the lists cost.

    Half of the best that are told without lists are on each; ``exclude`` has 80 values more and ``allow`` 500. A shop's
    own list of 5,000 values, the same for all, is ``shared``; a program that asks in Python has it as one frozen set,
    ``held``, as it has longer ones. Each history is asked once in each way, with many others between, for an answer
    finds in the cache what the same answer just before had read.
    """
    random = np.random.default_rng(3)
    values = predictor.vocabulary.values
    forbidden = short = asked = 0
    results: dict[str, Any] = {}

    def some(num: int) -> list[str]:
        return [values[at] for at in random.integers(0, len(values), num).tolist()]

    shared = some(5000)
    sizes = [size for size in (5000, 10_000, 50_000, 100_000) if 4 * size <= len(values)]
    held = {size: frozenset(shared if size == len(shared) else some(size)) for size in sizes}
    ways: dict[str, Callable[[list[str]], tuple[Collection[str], Collection[str] | None]]] = {
        "plain": lambda own: ([], None),
        "exclude": lambda own: ([*own, *some(80)], None),
        "allow": lambda own: ([], [*own, *some(500)]),
        "exclude shared": lambda own: (shared, None),
        "allow shared": lambda own: ([], shared),
    }
    for number, given in held.items():
        ways[f"exclude {number:,} held"] = lambda own, given=given: (given, None)
        ways[f"allow {number:,} held"] = lambda own, given=given: ((), given)
    for size, rounds in ((1, REQUESTS // 8), (BATCH, REQUESTS // 4 // BATCH)):
        parts = [records[low : low + size] for low in range(0, size * rounds, size)]
        output = (predictor.predict(part, K, evidence=False) for part in parts)
        best = [[[choice.value for choice in entry.choices] for entry in own] for own in output]
        taken = {name: np.zeros(rounds) for name in ways}
        names = [*ways]
        for turn in range(rounds):
            for number in random.permutation(len(ways)).tolist():
                at = (turn + number * rounds // len(ways)) % rounds
                name = names[number]
                drawn = [[value for value in own if random.random() < 0.5] for own in best[at]]
                lists = [ways[name](own) for own in drawn]
                if "held" not in name:
                    lists = [json.loads(json.dumps(entry)) for entry in lists]
                cpu = time.thread_time()
                permitted = predictor.filters_of([Rules.of(*pair) for pair in lists])
                answers = predict_each(predictor, parts[at], permitted, K, evidence=False)
                taken[name][at] = time.thread_time() - cpu
                for answer, (exclude, allow) in zip(answers, lists, strict=True):
                    chosen = {choice.value for choice in answer.choices}
                    forbidden += not chosen.isdisjoint(exclude) or not (allow is None or chosen.issubset(allow))
                    short += len(chosen) < K
                    asked += name != "plain"
        plain = taken.pop("plain")
        results["one at a time" if size == 1 else f"{size} together"] = {
            "plain": {"cpu_ms": middle([1000 * entry for entry in plain])},
            **{
                name: {
                    **{f"p{part}": round(float(np.percentile(own / plain, part)), 3) for part in (50, 95)},
                    "of_medians": round(float(np.median(own) / np.median(plain)), 3),
                    "of_p95": round(float(np.percentile(own, 95) / np.percentile(plain, 95)), 3),
                }
                for name, own in taken.items()
            },
        }
    return {"requests": asked, "forbidden": int(forbidden), "fewer_than_k": int(short), "cpu_ratio": results}


def totals(predictor: NextPredictor, records: list[History]) -> dict[str, float]:
    """By how much the logarithm of the total over the catalogue is off, with all candidates and with few."""
    index = predictor.index
    histories = Histories.of(records, predictor.vocabulary)
    assert index is not None
    off: dict[str, list[float]] = {"all": [], "brief": []}
    for low in range(0, len(histories), 32):
        part = histories.select(np.arange(low, min(low + 32, len(histories))))
        exclusion = predictor.metadata.exclusion
        exact = score_histories(predictor, exclusion, K, part, None).totals
        for name, filters in (("all", [None] * len(part)), ("brief", None)):
            estimated = score_candidates(predictor, exclusion, K, part, filters, index=index).totals
            off[name] += np.abs(estimated - exact).tolist()
    return {name: round(float(np.mean(own)), 4) for name, own in off.items()}


def service(
    folder: Path, items: int, asked: list[tuple[History, str]], workers: int, interval: float, args: argparse.Namespace
) -> dict[str, Any]:
    """The service at a steady rate, without lists, and with one of 90 excluded values in each request."""
    random = np.random.default_rng(5)
    questions = [{"records": [{"values": record.values}], "k": K, "evidence": False} for record, _ in asked]
    lists = ([f"item{at}" for at in random.integers(0, items, 90).tolist()] for _ in questions)
    bodies = [json.dumps(question).encode() for question in questions]
    listed = [json.dumps({**question, "exclude": own}).encode() for question, own in zip(questions, lists, strict=True)]
    command = [sys.executable, "-m", "ensue", "serve", f"next={folder}", "--port", "0", "--workers", str(workers)]
    command += ["--set", f"interval={interval:g}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = int(json.loads(process.stderr.readline())["address"].rsplit(":", 1)[1])
    drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)

    async def nothing(begun: float) -> None:
        pass

    try:
        asyncio.run(send_all(port, [*bodies[:100], *listed[:100]], args.rate, 3, nothing))  # warm
        results = []
        for sent in (bodies, listed):
            before = _value(_metrics(port), "process_cpu_seconds_total")
            output = asyncio.run(send_all(port, sent, args.rate, args.seconds, nothing))
            cpu = _value(_metrics(port), "process_cpu_seconds_total") - before
            results.append({**figures(output), "requests_a_cpu_second": round(len(output) / cpu)})
        memory = proportional(process.pid)
    finally:
        process.terminate()
        process.wait(60)
        drain.wait(60)
    asked_by = {"workers": workers, "interval": interval, "rate": args.rate, "seconds": args.seconds}
    return {**asked_by, **results[0], "memory_mb": round(memory / 2**20), "with_lists": results[1]}


def proportional(pid: int) -> float:
    """Bytes of memory of a process and its children, each page divided by those that share it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = [
        line for entry in (str(pid), *children) for line in Path(f"/proc/{entry}/smaps_rollup").read_text().splitlines()
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
    results: dict[str, Any] = {"items": items, "dim": DIM, "load_cpu_seconds": round(time.process_time() - cpu, 2)}
    print(f"{items:,} items: made in {made:.0f} CPU s, loaded in {results['load_cpu_seconds']}", flush=True)
    asked = sessions(items, TARGETS)
    results |= answers(predictor, asked)
    print(json.dumps(results), flush=True)
    results["lists"] = with_lists(predictor, [record for record, _ in sessions(items, REQUESTS // 4)])
    print(json.dumps(results["lists"]), flush=True)
    results["total_off"] = totals(predictor, [record for record, _ in asked[:512]])
    print(json.dumps(results["total_off"]), flush=True)
    del predictor
    results["service"] = []
    for workers, interval in ((workers, interval) for interval in args.intervals for workers in args.workers):
        results["service"].append(service(folder, items, asked, workers, interval, args))
        print(json.dumps(results["service"][-1]), flush=True)
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--items", type=numbers, default=[100_000, 1_000_000])
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    parser.add_argument("--intervals", type=lambda text: [*map(float, text.split(","))], default=[0.0, 0.03])
    parser.add_argument("--rate", type=float, default=150.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = [run(items, args, Path(folder)) for items in args.items]
    if args.json:
        args.json.write_text(json.dumps({**provenance(), "k": K, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
