"""The ways from nothing to an answer: one a question, short, measured as they stand; ``test_pages.py`` runs them."""

from __future__ import annotations

import re

from scripts.site.blocks import ROOT
from scripts.site.first_answer import MOST, install, table, ways
from scripts.site.tables import load


def test_every_question_is_answered_in_five_commands() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert list(ways()) == re.findall(r"^\| (.*\?) \|", index, re.MULTILINE)
    assert install() == "pip install ensue"
    for lines in ways().values():
        assert 1 <= len(lines) < MOST
        assert any(line.startswith("ensue") for line in lines)


def test_what_was_measured_are_these_commands() -> None:
    found = load("benchmarks/results/first_answer.json")
    measured = {row["question"]: row["commands"] for row in found["rows"]}
    assert measured == ways(), "run benchmarks/first_answer.py --json benchmarks/results/first_answer.json"
    shown = table()
    for row in found["rows"]:
        assert row["cpu_s"] > 0 and row["wall_s"] > 0
        assert f"| {row['cpu_s']:.1f} | {row['wall_s']:.1f} |" in shown
