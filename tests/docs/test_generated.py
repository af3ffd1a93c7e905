"""Generated tables and drawings are up to date, and links of README and docs lead to files and headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.site.blocks import FENCE, ROOT, pages
from scripts.tables import generated

LINK = re.compile(r"\]\(([^)\s]+)\)")
MADE = ("generated/", "../generated/")


def test_generated_tables_and_drawings_are_up_to_date() -> None:
    assert [
        path.relative_to(ROOT).as_posix()
        for path, text in generated()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ] == [], "run scripts/tables"


def anchor(heading: str) -> str:
    """Return the anchor that GitHub and MyST give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if "://" in target or target.startswith(MADE):
            continue
        name, _, fragment = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), target
        if fragment:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert fragment in map(anchor, headings), target
