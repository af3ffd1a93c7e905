"""`ensue prepare` of a made log in many Parquet files against the bare polars query that groups it: CPU s and memory.

Run: ``python benchmarks/prepare.py [--events 10000000 --items 500000 --files 20 --ids texts|numbers] [--json FILE]``.
Each is a process of its own, start of the interpreter included, and the two take turns. Sessions overlap in time, so
that hardly two rows of one stand beside each other; items are log-uniform, a few of them in most sessions.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

TARGET_RATIO, TARGET_MEGABYTES = 2.0, 4000
SPAN = 30 * 86_400


def write_log(folder: Path, events: int, items: int, files: int, *, texts: bool) -> None:
    """Files one after the other in time; what a session does after its file's end stands in the next."""
    chance = np.random.default_rng(0)
    number = 10_000_000
    left = pl.DataFrame()
    for file in range(files):
        sessions = events // 4 // files
        lengths = chance.geometric(0.25, sessions)
        begin = SPAN * file // files
        end = SPAN * (file + 1) // files
        location = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        times = np.repeat(np.sort(chance.integers(begin, end, sessions)), lengths) + 37 * location
        drawn = (items ** chance.random(len(times))).astype(np.int64)
        owners = np.repeat(np.arange(sessions) + number, lengths)
        frame = pl.DataFrame(
            {
                "session_id": owners,
                "item_id": drawn * 2_654_435_761 % items + 200_000,
                "timestamp": 1_400_000_000 + times,
            }
        )
        if texts:
            frame = frame.with_columns(
                pl.concat_str(pl.lit("s"), "session_id").alias("session_id"),
                pl.concat_str(pl.lit("i"), "item_id").alias("item_id"),
            )
        whole = pl.concat([left, frame]).sort("timestamp", maintain_order=True)
        inside = whole["timestamp"] < 1_400_000_000 + end if file < files - 1 else whole["timestamp"] > 0
        left = whole.filter(~inside)
        whole.filter(inside).write_parquet(folder / f"part-{file:05}.parquet")
        number += sessions


def bare(log: Path, place: Path) -> int:
    frame = pl.scan_parquet(log / "*.parquet").group_by("session_id", maintain_order=True)
    return len(frame.agg("item_id", "timestamp").collect())


def prepared(log: Path, place: Path) -> int:
    from ensue.data.sequences.prepare import prepare
    from ensue.data.table import ReadOptions

    return prepare([log], place / "prepared", ReadOptions())[1].sequences


def mapped(log: Path, place: Path) -> int:
    from ensue.data.sequences import read

    return len(read(place / "prepared")[0])


STEPS = {"polars": bare, "ensue prepare": prepared, "ensue reads it": mapped}


def measure(name: str, log: Path, place: Path) -> dict[str, float]:
    """CPU seconds and peak megabytes of one step in a child process, start of the interpreter included."""
    command = [sys.executable, __file__, "--child", name, str(log), str(place)]
    done = subprocess.run(command, check=True, capture_output=True)
    return dict(json.loads(done.stdout))


def child(name: str, log: Path, place: Path) -> None:
    sequences = STEPS[name](log, place)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    print(json.dumps({"sequences": sequences, "cpu": cpu, "megabytes": used.ru_maxrss / 1024}))


def compare(options: argparse.Namespace, place: Path) -> list[dict[str, object]]:
    log = options.log or place / "log"
    if not log.exists():
        log.mkdir()
        write_log(log, options.events, options.items, options.files, texts=options.ids == "texts")
    events = int(pl.scan_parquet(log / "*.parquet").select(pl.len()).collect().item())
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in STEPS}
    for _ in range(options.repeats):
        shutil.rmtree(place / "prepared", ignore_errors=True)
        for name in STEPS:
            runs[name].append(measure(name, log, place))
    (sequences,) = {run["sequences"] for result in runs.values() for run in result}
    cpu = {name: statistics.median(run["cpu"] for run in result) for name, result in runs.items()}
    rows = []
    for name, result in runs.items():
        peak = max(run["megabytes"] for run in result)
        print(f"{name:16} {cpu[name]:7.1f} CPU s {peak:6.0f} MB   {cpu[name] / cpu['polars']:.2f} x polars")
        rows.append(
            {
                "step": name,
                "ids": options.ids,
                "events": events,
                "items": options.items,
                "sequences": sequences,
                "files": options.files,
                "cpu_seconds": round(cpu[name], 2),
                "over_polars": round(cpu[name] / cpu["polars"], 2),
                "peak_megabytes": round(peak),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--items", type=int, default=500_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--ids", choices=["texts", "numbers"], default="texts")
    parser.add_argument("--log", type=Path, help="a folder of a former run of the same log, or to keep this one in")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="rows are added to those of other sizes and ids that stand there")
    parser.add_argument("--child", nargs=3)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], *map(Path, options.child[1:]))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(options, Path(folder))
    if options.json:
        from ensue_studies.results import provenance

        held = json.loads(options.json.read_text())["runs"] if options.json.exists() else []
        others = [
            run for run in held if run["rows"][0]["events"] != rows[0]["events"] or run["rows"][0]["ids"] != options.ids
        ]
        runs = [*others, {**provenance(), "rows": rows}]
        options.json.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    if rows[1]["over_polars"] > TARGET_RATIO or rows[1]["peak_megabytes"] > TARGET_MEGABYTES:  # type: ignore[operator]
        sys.exit(f"over the target: {TARGET_RATIO} x polars, {TARGET_MEGABYTES} MB")


if __name__ == "__main__":
    main()
