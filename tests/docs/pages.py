"""What the tests of pages share."""

from __future__ import annotations

from scripts.site.blocks import ROOT, differences, run_page


def check_page(name: str) -> None:
    """Every command and every line of Python of a page prints what stands below it."""
    shown = (ROOT / name).read_text(encoding="utf-8")
    assert differences(shown, run_page(shown)) == [], f"run: python scripts/site/blocks.py {name}"
