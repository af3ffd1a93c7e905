"""Reading and checking ten million clicks against the bare polars query that groups them: CPU seconds and memory.

Run: ``python benchmarks/reading.py [--json FILE]``. Each reading is a fresh process, the two alternating.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import numpy as np
import polars as pl

COLUMNS = ["session_id", "item_id", "timestamp"]
TARGET_RATIO, TARGET_MEGABYTES = 1.5, 1500


def write_clicks(path: Path, num_sessions: int) -> int:
    chance = np.random.default_rng(0)
    lengths = chance.geometric(0.25, num_sessions)
    starts = 1_400_000_000 + np.sort(chance.integers(0, 30 * 86_400, num_sessions))
    location = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    sessions = np.repeat(np.arange(num_sessions) + 10_000_000, lengths)
    items = chance.zipf(1.2, lengths.sum()) % 50_000 + 200_000
    frame = {"session_id": sessions, "item_id": items, "timestamp": np.repeat(starts, lengths) + 37 * location}
    pl.DataFrame(frame).write_csv(path)
    return int(lengths.sum())


def bare(path: Path) -> int:
    texts = {"session_id": pl.String, "item_id": pl.String}
    frame = pl.read_csv(path, columns=COLUMNS, schema_overrides=texts)
    return len(frame.group_by("session_id", maintain_order=True).agg("item_id", "timestamp"))


def bare_encoded(path: Path) -> int:
    texts = {"session_id": pl.String, "item_id": pl.Categorical}
    frame = pl.read_csv(path, columns=COLUMNS, schema_overrides=texts)
    return len(frame.group_by("session_id", maintain_order=True).agg("item_id", "timestamp"))


def bare_numbers(path: Path) -> int:
    """The cheapest query of all: ids as whole numbers, so that 007 and 7 are the same."""
    frame = pl.read_csv(path, columns=COLUMNS)
    return len(frame.group_by("session_id", maintain_order=True).agg("item_id", "timestamp"))


def ensue(path: Path) -> int:
    from ensue.data.sequences import read

    return len(read(path)[0])


def ensue_check(path: Path) -> int:
    from ensue.cli import main as command_line

    sys.argv = ["ensue", "check", "--json", str(path)]
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()), suppress(SystemExit):
        command_line()
    return int(json.loads(output.getvalue())["sequences"])


READERS = {
    "ensue": ensue,
    "ensue check": ensue_check,
    "polars": bare,
    "polars, items encoded": bare_encoded,
    "polars, ids as numbers": bare_numbers,
}


def measure(name: str, path: Path) -> dict[str, float]:
    """CPU seconds and peak megabytes of one reading in a child process, start of the interpreter included."""
    done = subprocess.run([sys.executable, __file__, "--child", name, str(path)], check=True, capture_output=True)
    return dict(json.loads(done.stdout))


def child(name: str, path: Path) -> None:
    sequences = READERS[name](path)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps({"sequences": sequences, "cpu": used.ru_utime + used.ru_stime, "megabytes": used.ru_maxrss / 1024})
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sessions", type=int, default=2_500_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clicks.csv"
        events = write_clicks(path, options.sessions)
        for _ in range(options.repeats):
            for name in READERS:
                runs[name].append(measure(name, path))
    cpu = {name: statistics.median(run["cpu"] for run in result) for name, result in runs.items()}
    peak = {name: max(run["megabytes"] for run in result) for name, result in runs.items()}
    rows = []
    for name in READERS:
        ratio = cpu["ensue"] / cpu[name]
        row = {
            "reader": name,
            "events": events,
            "cpu_seconds": round(cpu[name], 2),
            "peak_megabytes": round(peak[name]),
        }
        rows.append({**row, "ensue_over_it": round(ratio, 2)})
        print(f"{name:22} {events:,} events {cpu[name]:6.2f} CPU s {peak[name]:6.0f} MB   ensue / this {ratio:.2f}")
    if options.json:
        from ensue_studies.results import provenance

        options.json.write_text(json.dumps({**provenance(), "rows": rows}, indent=1) + "\n")
    if cpu["ensue"] > TARGET_RATIO * cpu["polars"] or peak["ensue"] > TARGET_MEGABYTES:
        sys.exit(f"over the target: {TARGET_RATIO} x polars, {TARGET_MEGABYTES} MB")


if __name__ == "__main__":
    main()
