"""A stream at a large catalogue: events a CPU second, seconds and bytes a commit, and whether memory stays flat.

A small model is given rows for as many values as asked for, and a made-up stream of sessions over all of them is
learned. Each commit is timed; the journal takes those that are no whole folder. Memory is what the process holds at
every tenth of the stream.

    python benchmarks/stream_size.py [--items 1000000] [--events 20000] [--eval-fraction 0.02] [--model sansr]
                                     [--dim 64] [--negatives 512] [--commit-interval 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ensue.data.histories import Histories
from ensue.records import History
from ensue.stream.brokers import open_source
from ensue.stream.engine import Stream
from ensue.stream.state import StreamSettings
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.results import provenance

MEAN = 6
"""Events a session."""


def fit(model: str, items: int, settings: dict[str, object]) -> NextPredictor:
    """A model that has learned a few sessions and has a row for every value."""
    draw = np.random.default_rng(0)
    sessions = [History(tuple(f"v{item}" for item in draw.integers(100, size=5)), ()) for _ in range(200)]
    timed = [History(entry.values, tuple(20.0 * step for step in range(len(entry.values)))) for entry in sessions]
    predictor = NextPredictor(model, settings={**settings, "epochs": 1, "refit": False}, device="cpu")
    for _ in predictor.fit(Histories.of(timed)):
        pass
    predictor.add_values(f"v{number}" for number in range(items))
    return predictor


def write_clicks(path: Path, events: int, items: int) -> None:
    """Sessions that go on side by side; few values are popular, and half the time one follows another that is near."""
    draw = np.random.default_rng(1)
    drawn = (items * draw.random(events) ** 3).astype(np.int64)
    near = draw.random(events) < 0.5
    latest: dict[int, int] = {}
    with path.open("w", encoding="utf-8") as file:
        for at in range(events):
            session = at // (64 * MEAN) * 64 + int(draw.integers(64))
            item = (
                (latest.get(session, int(drawn[at])) + int(draw.integers(1, 20))) % items
                if near[at]
                else int(drawn[at])
            )
            latest[session] = item
            line = {"session": f"s{session}", "item": f"v{item}", "time": 1_700_000_000 + at}
            file.write(json.dumps(line) + "\n")


def resident() -> int:
    """Megabytes that this process holds."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def measure(args: argparse.Namespace, place: Path) -> dict[str, Any]:
    """The figures of one run."""
    settings: dict[str, object] = {"dim": args.dim, "negatives": args.negatives}
    fit(args.model, args.items, settings).save(place / "m")
    write_clicks(place / "clicks.jsonl", args.events, args.items)
    source = open_source(str(place / "clicks.jsonl"), print)
    stream = Stream(place / "m", source, StreamSettings(commit_interval=args.commit_interval, score=args.eval_fraction))
    start_time = time.process_time()
    commits = []
    memory = []
    marks = iter(range(args.events // 10, args.events, args.events // 10))
    mark = next(marks)
    own = stream._write

    def timed(over: bool) -> None:
        before = time.perf_counter()
        cpu = time.process_time()
        size = stream._journal.size
        own(over)
        kind = "journal" if stream._journal.size > size else "folder"
        written = stream._journal.size - size if kind == "journal" else 0
        commits.append((kind, time.perf_counter() - before, time.process_time() - cpu, written))

    stream._write = timed  # type: ignore[method-assign]
    for _ in stream.run(follow=False):
        while mark is not None and stream.counts.events >= mark:
            memory.append(resident())
            mark = next(marks, None)
    spent = time.process_time() - start_time
    journal = [entry for entry in commits if entry[0] == "journal"]
    folders = [entry for entry in commits if entry[0] == "folder"]
    learning = spent - sum(cpu for _, _, cpu, _ in folders)
    return {
        "model": args.model, "items": args.items, "dim": args.dim, "negatives": args.negatives,
        "score": args.eval_fraction,
        "events": stream.counts.events, "scored": stream.counts.targets, "cpu_seconds": round(spent, 1),
        "events_a_cpu_second": round(stream.counts.events / spent, 1),
        "events_a_cpu_second_without_whole_folders": round(stream.counts.events / learning, 1),
        "journal_commits": len(journal),
        "journal_commit_seconds": [
            round(float(np.quantile([entry[1] for entry in journal], at)), 3) for at in (0.5, 1.0)
        ]
        if journal else [],
        "journal_commit_cpu_seconds_median": round(float(np.median([entry[2] for entry in journal] or [0])), 3),
        "journal_megabytes_median": round(float(np.median([entry[3] for entry in journal] or [0])) / 1e6, 1),
        "folder_commits": len(folders),
        "folder_commit_seconds": [round(entry[1], 2) for entry in folders],
        "memory_mb": memory,
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--eval-fraction", type=float, default=0.02)
    parser.add_argument("--model", default="sansr")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--negatives", type=int, default=512)
    parser.add_argument("--commit-interval", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {**provenance(), **measure(args, Path(folder))}
    print(json.dumps(results, indent=1))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
