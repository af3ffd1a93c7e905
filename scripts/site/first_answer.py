"""The page ``docs/first_answers.md``: its commands, and the table of what each question took."""

from __future__ import annotations

import re

from scripts.site.blocks import FENCE, commands
from scripts.site.tables import ROOT, load, source

PAGE = ROOT / "docs" / "first_answers.md"
MOST = 5
"""Most commands per question, the install included."""


def install() -> str:
    """Return the first command of every question."""
    (body,) = (body for kind, _, body in FENCE.findall(PAGE.read_text(encoding="utf-8")) if kind == "sh")
    return str(body).strip()


def ways() -> dict[str, list[str]]:
    """Return the commands after the install, by question."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        section.split("\n", 1)[0]: [
            command for kind, _, body in FENCE.findall(section) if kind == "console" for command in commands(body)
        ]
        for section in sections
    }


def table() -> str:
    """Return how many commands and seconds each question took, from ``benchmarks/results/first_answer.json``."""
    result = load("benchmarks/results/first_answer.json")
    lines = ["| question | commands, install included | CPU seconds | seconds |", "|---" * 4 + "|"]
    for question, row in zip(ways(), result["rows"], strict=True):
        cells = f"{len(row['commands']) + 1} | {row['cpu_s']:.1f} | {row['wall_s']:.1f}"
        lines.append(f"| [{question}](#{_anchor(question)}) | {cells} |")
    lines += [
        "",
        f"Seconds are of all commands after the install: medians of {result['rounds']} runs on one thread of a busy "
        f"machine. The install took {result['install_s']:.0f} s, with PyTorch (CPU) on disk and the rest from a "
        f"mirror; its environment takes {result['installed_mb']:,.0f} MB.",
    ]
    return "\n".join([*lines, "", source(result)])


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z ]", "", heading.lower()).replace(" ", "-")
