"""What a command costs before and beside its work: CPU seconds from start to end, in units of ``import torch``.

Run: ``python benchmarks/startup.py [--demo FOLDER] [--json FILE]``; a folder that ``ensue demo --output FOLDER`` wrote
saves the training. Each run is a fresh process, user and system time together; the commands take turns,
``import torch`` among them. ``predict`` answers one record of the demonstration's own story a model.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ensue_studies.results import provenance

MOST_RATIO, MOST = 1.5, 0.5
TORCH = "import torch"
EARLY = {
    "--help": ["--help"],
    "models": ["models"],
    "unknown task": ["fit", "sing", "log.csv", "-o", "m"],
    "missing file": ["fit", "next", "missing.csv", "-o", "m"],
    "unknown folder": ["predict", "missing"],
    "wrong option": ["fit", "--sideways"],
}


def cpu_seconds(command: list[str], stdin: str, cwd: Path) -> float:
    """User and system seconds of one fresh process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(command, input=stdin, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode not in (0, 2):
        sys.exit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(demo: Path) -> dict[str, tuple[list[str], str]]:
    """What is run, with what on stdin, by name."""
    ensue = [sys.executable, "-m", "ensue"]
    panels = json.loads((demo / "story.json").read_text())["panels"]
    results = {TORCH: ([sys.executable, "-c", "import torch"], "")}
    for folder in sorted((demo / "models").iterdir()):
        asked = json.dumps(panels[folder.name][0]["record"])
        results[f"predict {folder.name}"] = ([*ensue, "predict", str(folder), "-"], asked)
    return results | {name: ([*ensue, *words], "") for name, words in EARLY.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, help="what `ensue demo --output FOLDER` wrote")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        demo = args.demo.resolve() if args.demo else Path(folder) / "demo"
        if not args.demo:
            subprocess.run([sys.executable, "-m", "ensue", "demo", "--no-serve", "--output", str(demo)], check=True)
        every = commands(demo)
        seconds: dict[str, list[float]] = {name: [] for name in every}
        for number in range(args.rounds + 1):
            for name, (command, stdin) in every.items():
                spent = cpu_seconds(command, stdin, Path(folder))
                if number:  # the first round fills the caches of files
                    seconds[name].append(spent)
    torch = statistics.median(seconds[TORCH])
    rows = []
    for name, spent in seconds.items():
        middle = statistics.median(spent)
        target = {} if name == TORCH else {"most_ratio": MOST_RATIO} if name not in EARLY else {"most_cpu_s": MOST}
        row = {"command": name, "cpu_s": round(middle, 3), "least": round(min(spent), 3), "most": round(max(spent), 3)}
        rows.append({**row, "ratio": round(middle / torch, 2), **target})
        print(f"{name:<18} {middle:6.2f} CPU s  {middle / torch:5.2f} x import torch", flush=True)
    if args.json:
        results = {**provenance(), "threads": os.environ.get("OMP_NUM_THREADS", "all"), "rounds": args.rounds}
        args.json.write_text(json.dumps({**results, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
