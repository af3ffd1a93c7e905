"""The notebook is run in a kernel of its own; what it shows is what stands in it, and it can be looked at anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.site.blocks import ROOT, differences, environment
from tests.page.conftest import CHROMIUM, browser

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
SHOWN = ("Fitted model", "Protocol full", "2 of 3 in vocabulary", "attention weights, not causes")
"""The captions of a model, a result, an answer and an explanation."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook with today's outputs, and its page."""
    for name in ("nbclient", "nbconvert", "ipykernel"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    folder = tmp_path_factory.mktemp("notebook")
    command = [sys.executable, str(ROOT / "scripts" / "site" / "notebook.py"), str(NOTEBOOK), str(folder)]
    bare = {name: value for name, value in environment().items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=bare)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def outputs(path: Path) -> Iterator[dict[str, Any]]:
    """What the cells of a notebook show, in their order."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        yield from cell.get("outputs", ())


def as_text(path: Path) -> str:
    """All that is shown, as a terminal would have it."""
    every = (one["text"] if one["output_type"] == "stream" else one["data"]["text/plain"] for one in outputs(path))
    return "\n".join("".join(text) for text in every)


def test_it_shows_what_stands_in_it(folder: Path) -> None:
    now = as_text(folder / NOTEBOOK.name)
    assert differences(as_text(NOTEBOOK), now, trained=True) == [], (
        "run: python scripts/site/notebook.py NOTEBOOK FOLDER --write"
    )
    assert "Answer(2 of 3 in vocabulary" in now and "Explanation(weights" in now and "\\begin{tabular}" in now


def test_objects_show_themselves_as_tables(folder: Path) -> None:
    shown = [one.get("data", {}).get("text/html", "") for one in outputs(folder / NOTEBOOK.name)]
    tables = ["".join(lines) for lines in shown if lines]
    for caption in SHOWN:
        assert any(caption in table for table in tables), caption
    unfitted, fitted = (table for table in tables if "NextEvent" in table)
    assert "<table>" not in unfitted
    assert " sequences, " in fitted and " MB in its folder" in fitted
    assert not any("http" in table or "<script" in table for table in tables)


@pytest.mark.browser
def test_its_page_is_seen_and_asks_nobody(folder: Path) -> None:
    asked = list[str]()
    with browser().sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page()
        page.set_default_timeout(120_000)
        page.on("request", lambda one: asked.append(one.url))
        page.goto((folder / "notebook.html").as_uri())
        for caption in SHOWN:
            assert page.locator("table caption", has_text=caption).first.is_visible(), caption
        assert page.locator("table").count() == 5  # an explanation shows its answer too
        chromium.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
