"""The ways of the page ``docs/first_answers.md``: their commands, and the table of what each took."""

from __future__ import annotations

import re

from scripts.site.blocks import FENCE, commands
from scripts.site.tables import ROOT, load, source

PAGE = ROOT / "docs" / "first_answers.md"
MOST = 5
"""Commands of a way, the install among them."""


def install() -> str:
    """The first command of every way."""
    (body,) = (body for kind, _, body in FENCE.findall(PAGE.read_text(encoding="utf-8")) if kind == "sh")
    return str(body).strip()


def ways() -> dict[str, list[str]]:
    """The commands after the install, by question."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        section.split("\n", 1)[0]: [
            command for kind, _, body in FENCE.findall(section) if kind == "console" for command in commands(body)
        ]
        for section in sections
    }


def table() -> str:
    """How many commands and how many seconds each way took, from ``benchmarks/results/first_answer.json``."""
    found = load("benchmarks/results/first_answer.json")
    lines = ["| question | commands, with the install | processor, s | at the clock, s |", "|---" * 4 + "|"]
    for row in found["rows"]:
        cells = f"{len(row['commands']) + 1} | {row['cpu_s']:.1f} | {row['wall_s']:.1f}"
        lines.append(f"| [{row['question']}](#{_place(row['question'])}) | {cells} |")
    lines += [
        "",
        f"Seconds are of all commands after the install, medians of {found['rounds']} runs in turns, on one thread and "
        f"beside other load. The install took {found['install_s']:.0f} s, with PyTorch (CPU) on the disk and the rest "
        f"fetched from a mirror near by; {found['installed_mb']:,.0f} MB stand in its environment then.",
    ]
    return "\n".join([*lines, "", source(found)])


def _place(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^a-z ]", "", heading.lower()).replace(" ", "-")
