"""The README is one screen or two; its table agrees with the results, and its links lead somewhere.

What it runs is run with the other pages, by ``tests/docs/test_pages.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

from scripts import readme

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_it_has_what_a_newcomer_needs() -> None:
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code) == 1 and 10 <= len(code[0].strip().splitlines()) <= 11  # ten lines, and an empty one
    for needed in ("scripts/demo", "scripts/test", "pip install ensue", "docs/page.png"):
        assert needed in README


def test_the_table_agrees_with_the_results() -> None:
    shown = README.split(readme.BEGIN)[1].split(readme.END)[0]
    assert shown == readme.table(), "run scripts/readme"
    assert len(shown.splitlines()) >= 7


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target
