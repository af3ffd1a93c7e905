"""Seconds to count pairs and sessions of a log, at one size and at ten times as much: near 10 where time is linear.

Made-up sessions over 100,000 items, one process and one thread; what is counted beside every model of task next, at the
default settings. Each size is a process of its own, and the ratio is of two processes of one run.

    python benchmarks/counting.py [--clicks 1000000] [--times 10] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from distributed import made_up

from ensue.tasks.next.catalogue import COUNTING, MODELS
from ensue_studies.results import provenance

ITEMS = 100_000


def child(clicks: int) -> None:
    """Count, and print the CPU seconds of each model and the peak of this process."""
    torch.set_num_threads(1)
    data = made_up(clicks, ITEMS)
    results: dict[str, Any] = {"clicks": len(data.ids), "sessions": len(data), "cpu_seconds": {}}
    for name in COUNTING:
        module = MODELS[name].make
        settings = MODELS[name].settings
        made = module(settings, len(data.vocabulary))
        start_time = time.process_time()
        made.count(data)
        results["cpu_seconds"][name] = round(time.process_time() - start_time, 3)
    results["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(results))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clicks", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.clicks)
        return
    rows = []
    for clicks in (args.clicks, args.clicks * args.times):
        done = subprocess.run(
            [sys.executable, __file__, "--child", f"--clicks={clicks}"],
            check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        rows.append(json.loads(done.stdout))
    small, large = (row["cpu_seconds"] for row in rows)
    result = {
        **provenance(),
        "items": ITEMS,
        "rows": rows,
        "clicks_over_clicks": round(rows[1]["clicks"] / rows[0]["clicks"], 2),
        "seconds_over_seconds": {name: round(large[name] / small[name], 1) for name in COUNTING},
    }
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
