"""The page of first answers: one section per question, at most five commands each; ``test_pages.py`` runs them."""

from __future__ import annotations

import re

from scripts.site.blocks import ROOT
from scripts.site.first_answer import MOST, install, table, ways
from scripts.site.tables import load


def test_every_question_is_answered_in_five_commands() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert list(ways()) == re.findall(r"^\| (.*\?) \|", index, re.MULTILINE)
    assert install() == 'pip install "ensue[torch]"'
    for lines in ways().values():
        assert 1 <= len(lines) < MOST
        assert any(line.startswith("ensue") for line in lines)


def test_the_commands_are_those_that_were_measured() -> None:
    def verbs(commands: list[str]) -> list[str]:
        return re.findall(r"ensue (\w+)", " ".join(commands))

    measured = load("benchmarks/results/first_answer.json")["rows"]
    assert [verbs(row["commands"]) for row in measured] == [verbs(commands) for commands in ways().values()]
    for row in measured:
        assert f"| {row['cpu_s']:.1f} | {row['wall_s']:.1f} |" in table()
