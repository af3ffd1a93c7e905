"""What the tests of pages share."""

from __future__ import annotations

import pytest

from scripts.site.blocks import ROOT, differences, run_page


def check_page(name: str) -> None:
    """Every command and every line of Python of a page prints what stands below it."""
    shown = (ROOT / name).read_text(encoding="utf-8")
    if "$ ensue prepare" in shown:
        pytest.importorskip("duckdb", reason="the extra large is not there")
    if "$ ensue export" in shown:
        pytest.importorskip("onnx", reason="the extra onnx is not there")
    assert differences(shown, run_page(shown)) == [], f"run: python scripts/site/blocks.py {name}"
