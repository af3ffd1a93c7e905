"""From nothing to an answer: what each way of ``docs/first_answers.md`` takes, in an empty environment.

Run: ``python benchmarks/first_answer.py [--rounds N] [--json FILE]``. The wheel is built and installed as a stranger
would; then the commands of the page run as they stand there, in the folder of small files, each a fresh process, the
ways in turns. The commands are written into the file of results, so a test sees when the page has changed since.
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
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ensue_studies.results import provenance
from scripts.package import environment
from scripts.site.files import write_all
from scripts.site.first_answer import install, ways

LIMIT = 900
"""Seconds that any one command may take."""


def run(line: str, folder: Path, path: str) -> None:
    """One line in a shell, as a newcomer types it."""
    bare = {**environment(), "PATH": path}
    words = ["bash", "-c", line]
    output = subprocess.run(words, cwd=folder, env=bare, capture_output=True, text=True, timeout=LIMIT, check=False)
    if output.returncode:
        sys.exit(f"{line} ended with {output.returncode}:\n{output.stdout}{output.stderr}")


def cpu_seconds() -> float:
    """User and system seconds of all that was started and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def installed(place: Path) -> tuple[str, float, float]:
    """The search path of an empty environment with the wheel, the seconds that the install took, and megabytes."""
    run(f"{sys.executable} -m pip wheel --quiet --no-deps --wheel-dir dist {ROOT}", place, os.environ["PATH"])
    run(f"{sys.executable} -m venv empty", place, os.environ["PATH"])
    (wheel,) = (place / "dist").glob("*.whl")
    path = f"{place / 'empty' / 'bin'}:{os.environ['PATH']}"
    began = time.perf_counter()
    line = f"{install().replace('ensue', str(wheel))} --constraint {ROOT / 'constraints.txt'}"
    run(line, place, path)
    seconds = time.perf_counter() - began
    held = sum(
        entry.stat().st_size for entry in (place / "empty").rglob("*") if entry.is_file() and not entry.is_symlink()
    )
    return path, seconds, held / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    every = ways()
    spent: dict[str, list[tuple[float, float]]] = {question: [] for question in every}
    with tempfile.TemporaryDirectory() as name:
        path, seconds, megabytes = installed(Path(name))
        print(f"install {seconds:.0f} s, {megabytes:,.0f} MB", flush=True)
        for number in range(args.rounds):
            for index, (question, lines) in enumerate(every.items()):
                folder = Path(name) / f"{number}-{index}"
                write_all(folder)
                began = time.perf_counter()
                before = cpu_seconds()
                for line in lines:
                    run(line, folder, path)
                spent[question].append((cpu_seconds() - before, time.perf_counter() - began))
                print(f"{question:40} {spent[question][-1][0]:6.1f} CPU s {spent[question][-1][1]:6.1f} s", flush=True)
    rows = [
        {
            "question": question,
            "commands": lines,
            "cpu_s": round(statistics.median(cpu for cpu, _ in spent[question]), 2),
            "wall_s": round(statistics.median(wall for _, wall in spent[question]), 2),
        }
        for question, lines in every.items()
    ]
    if args.json:
        results = {**provenance(), "rounds": args.rounds, "threads": environment()["OMP_NUM_THREADS"]}
        results |= {"install": install(), "install_s": round(seconds, 1), "installed_mb": round(megabytes, 1)}
        args.json.write_text(json.dumps({**results, "rows": rows}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
