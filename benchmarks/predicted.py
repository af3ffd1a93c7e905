"""Predict time, memory and network bytes of a training step at any size, from constants that are measured here.

A step of SANSR (``sampled``) is taken for: a constant part; multiplications, targets x (blocks of the network + width x
negatives x 3); and rows that are moved, each with its two moments. Three constants are found by least squares on small
runs. Memory is ``ensue.tasks.next.sizing``'s count, the log's columns, and so many bytes a score of the largest step
and a number of the network's layers. Network bytes count what a rank sends: dense gradients in a ring, touched rows to
every other rank. Both are checked at three larger sizes, each in fresh processes: CPU seconds a step, resident bytes,
and with two ranks the bytes given to the group.

    python benchmarks/predicted.py [--check 100000:256,300000:512,1000000:1024] [--json FILE]
    python benchmarks/predicted.py --constants FILE --events 100000000 --items 5000000 --dim 64 --ranks 8
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import distributed

from ensue.data.histories import Histories
from ensue.schedule import Schedule
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.models.sansr import SANSR
from ensue.tasks.next.settings import CORE_SCHEDULE, SANSRSettings
from ensue.tasks.next.sizing import training_bytes
from ensue.training.distributed import ranks
from ensue.training.loop import train
from ensue.training.optimizer import by_row, make_optimizer
from ensue.vocabulary import FIRST, Vocabulary
from ensue_studies.results import provenance

MEAN, STEPS, WARM = 4, 300, 5
"""Clicks a session; steps that are timed at most, after some that are not: batches differ in what they hold."""
CALIBRATED = (
    (10_000, 32, 512, 256),
    (10_000, 128, 1024, 256),
    (60_000, 64, 2048, 256),
    (60_000, 128, 1024, 512),
    (60_000, 64, 2048, 1024),
    (200_000, 64, 8192, 64),
)
"""Items, width, negatives and sessions a batch of the small runs."""
LENGTH = 50
"""Clicks that are read."""
EVENTS = 240_000
"""Of the small runs: batches enough for a mean."""
BYTES_AN_EVENT = 4 + 8
"""Of a log: an id and a time."""
BYTES_DRAWN = 4 + 8 + 8
"""By which an id is drawn: its share, its column and its alias."""


def made_up(events: int, items: int) -> Histories:
    """Sessions of items of which few are popular."""
    random = np.random.default_rng(0)
    lengths = random.geometric(1 / MEAN, events // MEAN).clip(2)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = (items * random.random(offsets[-1]) ** 3).astype(np.int32) + FIRST
    return Histories(ids, offsets, Vocabulary(), np.zeros(0))


def shape(events: int, items: int, dim: int, negatives: int, size: int) -> dict[str, float]:
    """What a step does on average, and at most, by the numbers of the log and the model; batches are those of a log."""
    windows = Windows(made_up(min(events, 400_000), items), LENGTH - 1)
    batches = [windows.batch(index) for index in windows.plan(size, 0)[: STEPS + WARM]]
    targets, cells = (
        [getter(batch) for batch in batches] for getter in (lambda b: b.num_targets, lambda b: b.ids.size)
    )
    own = statistics.mean(len(np.unique(batch.ids)) for batch in batches)
    drawn = items * (1 - (1 - 1 / items) ** negatives)
    products = 3 * (statistics.mean(targets) * dim * negatives + statistics.mean(cells) * 8 * dim * dim)
    return {
        "targets": statistics.mean(targets), "rows": min(items, own + drawn), "own": own, "products": products,
        "dim": dim, "scores": max(targets) * negatives, "numbers": max(cells) * dim,
    }  # fmt: skip


def measured(items: int, dim: int, negatives: int, events: int, size: int, world: bool) -> dict[str, float]:
    """Steps in this process, or in this rank: CPU seconds a step, peak bytes over those before, bytes to the group."""
    torch.set_num_threads(1)
    data = made_up(events, items)
    if not world:
        rehearse()
    sent = [0]

    def counted(own: Any, weigh: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            sent[0] += weigh(given)
            return own(*given, **more)

        return call

    distributed.all_reduce = counted(distributed.all_reduce, lambda given: given[0].nbytes)
    distributed.all_gather = counted(distributed.all_gather, lambda given: given[1].nbytes)
    before = resident()
    peak = 0
    torch.manual_seed(0)
    schedule = Schedule(epochs=1, batch_size=size, weight_decay=0.0)
    model = SANSR(SANSRSettings(dim=dim, negatives=negatives, max_length=LENGTH), items + FIRST)
    model.sampler.count(torch.from_numpy(np.bincount(data.ids, minlength=items + FIRST)).float())
    windows = Windows(data, LENGTH - 1)
    spent = []
    marks = [0]
    start_time = time.process_time()
    for report in train(model, windows, None, schedule, optimizer=make_optimizer(model, schedule), seed=0):
        spent.append(time.process_time() - start_time)
        marks.append(sent[0])
        peak = max(peak, resident())
        start_time = time.process_time()
        if report.step == STEPS + WARM:
            break
    return {
        "cpu": statistics.mean(spent[WARM:]),
        "memory": peak - before,
        "sent": (marks[-1] - marks[WARM]) / (len(marks) - 1 - WARM) if world else 0,
    }


def rehearse() -> None:
    """Steps of a small model, so that what is imported and kept once counts for no size."""
    data = made_up(4_000, 3_000)
    schedule = Schedule(epochs=1, weight_decay=0.0)
    model = SANSR(SANSRSettings(dim=32, negatives=512, max_length=LENGTH), 3_000 + FIRST)
    for _ in train(model, Windows(data, LENGTH - 1), None, schedule, optimizer=make_optimizer(model, schedule), seed=0):
        pass


def resident() -> int:
    """Bytes that this process holds."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def in_process(items: int, dim: int, negatives: int, events: int, size: int, world: int = 1) -> dict[str, float]:
    """The same in fresh processes; of several ranks the first one's."""
    given = [sys.executable, __file__, "--child", f"{items},{dim},{negatives},{events},{size}"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    started = [
        subprocess.Popen(
            given, stdout=subprocess.PIPE, text=True,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else os.environ,
        )
        for rank in range(world)
    ]  # fmt: skip
    outs = [entry.communicate()[0] for entry in started]
    assert not any(entry.returncode for entry in started), "a run failed"
    result: dict[str, float] = json.loads(outs[0].splitlines()[-1])
    return result


def calibrated() -> dict[str, float]:
    """The constants: seconds a step, a multiplication and a number of a moved row."""
    rows = []
    times = []
    working = []
    for items, dim, negatives, size in CALIBRATED:
        step = shape(EVENTS, items, dim, negatives, size)
        rows.append([1.0, step["products"], step["rows"] * dim])
        result = in_process(items, dim, negatives, EVENTS, size)
        times.append(result["cpu"])
        working.append((result["memory"] - held(items, dim, negatives), step["scores"], step["numbers"]))
        print(items, dim, negatives, size, times[-1], *working[-1], file=sys.stderr)
    weights = 1 / np.array(times)  # relative errors count
    from scipy.optimize import nnls

    scaled = np.array(rows) * weights[:, None]
    units = scaled.max(0)
    solved, _ = nnls(scaled / units, np.ones(len(times)))
    fixed, product, row = (solved / units).tolist()
    taken, *parts = np.array(working, float).T
    most = np.array([part.max() for part in parts])
    score, number = (nnls(np.stack(parts, 1) / most, taken)[0] / most).tolist()
    memory = {"bytes_a_score": score, "bytes_a_number": number}
    return {"step": fixed, "product": product, "number_of_a_row": row, **memory}


def network(dim: int, negatives: int, num_ids: int) -> SANSR:
    """The model that all is about."""
    return SANSR(SANSRSettings(dim=dim, negatives=negatives, max_length=LENGTH), num_ids)


def held(items: int, dim: int, negatives: int) -> int:
    """Bytes between two steps; no check is made, so no copy of the table."""
    whole = training_bytes(lambda num: network(dim, negatives, num), items + FIRST, least=FIRST + 1)
    return whole + BYTES_DRAWN * items - 4 * items * dim


def predict(
    constants: dict[str, float], events: int, items: int, dim: int, negatives: int, size: int, world: int
) -> dict[str, float]:
    """What one rank takes: CPU seconds a step, bytes held, bytes sent a step."""
    step = shape(events, items, dim, negatives, size)
    own = min(items, step["own"] / world)
    drawn = step["rows"] - step["own"]
    seconds = constants["step"] + constants["product"] * step["products"] / world
    seconds += constants["number_of_a_row"] * dim * (drawn + own * world)  # every rank moves the rows of all
    small = network(dim, negatives, FIRST + 1)
    tables = by_row(small)
    dense = sum(parameter.numel() for parameter in small.parameters() if parameter not in tables)
    sent = 4 * dense + (drawn + own) * (8 + 4 * dim)
    return {
        "cpu": seconds,
        "memory": held(items, dim, negatives)
        + (constants["bytes_a_score"] * step["scores"] + constants["bytes_a_number"] * step["numbers"]) / world
        + events * BYTES_AN_EVENT,
        "given_to_the_group": sent if world > 1 else 0,
        "sent": 2 * (world - 1) / world * 4 * dense + (world - 1) * (drawn + own) * (8 + 4 * dim),
        "targets": step["targets"] / world,
    }


def check(constants: dict[str, float], items: int, size: int) -> dict[str, Any]:
    """Predicted beside measured at one size, by one rank and by two."""
    dim = 64
    negatives = 2048
    events = items
    entry, two = (in_process(items, dim, negatives, events, size, world) for world in (1, 2))
    output = [predict(constants, events, items, dim, negatives, size, world) for world in (1, 2)]
    results = {
        "cpu_seconds_a_step": (output[0]["cpu"], entry["cpu"]),
        "memory_mb": ((output[0]["memory"] - events * BYTES_AN_EVENT) / 1e6, entry["memory"] / 1e6),
        "kilobytes_to_the_group_a_step_2_ranks": (output[1]["given_to_the_group"] / 1e3, two["sent"] / 1e3),
    }
    print(items, results, file=sys.stderr)
    return {
        "items": items, "events": events, "dim": dim, "negatives": negatives, "batch": size,
        **{name: {"predicted": round(a, 5), "measured": round(b, 5), "ratio": round(a / b, 3)}
           for name, (a, b) in results.items()},
    }  # fmt: skip


def whole(constants: dict[str, float], args: argparse.Namespace) -> dict[str, Any]:
    """An epoch at any size on so many ranks; the speed of the network is given, not measured."""
    targets = args.events * (1 - 1 / MEAN)
    sessions = args.events // MEAN
    size = CORE_SCHEDULE.fitted(sessions, round(targets)).batch_size
    output = predict(constants, args.events, args.items, args.dim, args.negatives, size, args.ranks)
    steps = targets / (output["targets"] * args.ranks)
    seconds = output["cpu"] + output["sent"] / args.bandwidth
    return {
        "events": args.events, "items": args.items, "dim": args.dim, "batch": size, "ranks": args.ranks,
        "steps_an_epoch": round(steps), "hours_an_epoch": round(steps * seconds / 3600, 2),
        "seconds_a_step": round(seconds, 4), "of_it_network": round(output["sent"] / args.bandwidth, 4),
        "megabytes_sent_a_step_and_rank": round(output["sent"] / 1e6, 2),
        "gigabytes_a_rank": round((output["memory"] + 4 * args.items * args.dim) / 1e9, 2),
    }  # fmt: skip


def main() -> None:
    """Measure, check and print; or predict from a file of constants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", default="100000:256,300000:512,1000000:1024", help="items and batch")
    parser.add_argument("--constants", type=Path)
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--items", type=int, default=5_000_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--negatives", type=int, default=2048)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes a second between machines")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        items, dim, negatives, events, size = map(int, args.child.split(","))
        with ranks() as (_, world):
            print(json.dumps(measured(items, dim, negatives, events, size, world > 1)))
        return
    if args.constants:
        results = whole(json.loads(args.constants.read_text())["constants"], args)
    else:
        constants = calibrated()
        sizes = [check(constants, *map(int, entry.split(":"))) for entry in args.check.split(",")]
        results = {**provenance(), "constants": constants, "checks": sizes, "predictions": []}
        for machines in (1, 8, 64):
            args.ranks = machines
            results["predictions"].append(whole(constants, args))
    print(json.dumps(results, indent=1))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
