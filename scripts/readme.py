"""Rewrite the README's tables from the files of results, or check that they agree."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Rewrite, or with ``--check`` compare."""
    path = ROOT / "README.md"
    old = path.read_text()
    new = old
    for name, make in SECTIONS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, found, rest = new.partition(begin)
        if not found or end not in rest:
            sys.exit(f"README.md: the markers of {name!r} are missing")
        new = f"{head}{begin}{make()}\n{rest[rest.index(end) :]}"
    if "--check" in sys.argv and new != old:
        sys.exit("README.md: the tables do not agree with the results; run scripts/readme")
    path.write_text(new)


def hidan() -> str:
    """HiDAN and the counting rows, paper protocol and full, from ``studies/results/hidan.json``."""
    found = _load("studies/results/hidan.json")
    measures = ("mrr", "hit@10", "hit@50", "hit@100")
    lines = ["| data | protocol | model | MRR | A@10 | A@50 | A@100 |", "|---|---|---|---|---|---|---|"]
    for row in found["tables"]["prediction"]:
        if row["model"] in ("hidan", row["best_counting"]):
            cells = [
                f"{100 * row[name]:.2f} ± {50 * (row['interval'][name][1] - row['interval'][name][0]):.2f}"
                for name in measures
            ]
            lines.append(f"| {row['data']} | {row['protocol']} | {row['model']} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", _source(found)])


def speed() -> str:
    """The ratios of the benchmarks."""
    lines = ["| what | beside | ratio |", "|---|---|---|"]
    epoch = _load("benchmarks/results/epoch.json")
    for row in epoch["rows"]:
        if row["model"] != "hidan":
            what = f"an epoch of HiDAN, {row['users']:,} users, mean length 24"
            lines.append(f"| {what} | {row['model']} | {row['hidan_over_it']} |")
    reading = _load("benchmarks/results/reading.json")
    for row in reading["rows"]:
        if row["reader"] != "ensue":
            lines.append(f"| reading 10 million events from CSV, CPU time | {row['reader']} | {row['ensue_over_it']} |")
    return "\n".join([*lines, "", _source(epoch), _source(reading)])


def _load(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / path).read_text())
    return found


def _source(found: dict[str, Any]) -> str:
    return f"Made by `{found['command']}` at {found['commit']} on {found['machine']}."


SECTIONS: dict[str, Callable[[], str]] = {"figures": hidan, "speed": speed}

if __name__ == "__main__":
    main()
