"""Make the picture of the README: run and serve the demonstration, and take a screenshot with Chromium.

``scripts/picture [FILE] [--demo FOLDER]``; a folder that ``ensue demo --output FOLDER`` wrote saves the training.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 1280, 1650
PANEL, CARD = "about", 0
MOST = 400_000


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=ROOT / "docs" / "page.png")
    parser.add_argument("--demo", type=Path, help="what `ensue demo --output FOLDER` wrote")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("there is no Chromium on this machine; on Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        demo = options.demo or Path(folder)
        if options.demo is None:
            subprocess.run([sys.executable, "-m", "ensue", "demo", "--no-serve", "--output", folder], check=True)
        take(demo, options.file, chromium)
    size = options.file.stat().st_size
    if size > MOST:
        sys.exit(f"{options.file} has {size:,} bytes, more than {MOST:,}")
    print(f"wrote {options.file}, {size:,} bytes")


def take(demo: Path, file: Path, chromium: str) -> None:
    """Serve what the demonstration wrote, and photograph the page."""
    folders = sorted(str(path) for path in (demo / "models").iterdir())
    command = [sys.executable, "-m", "ensue", "serve", *folders, "--scenario", str(demo / "story.json"), "--port", "0"]
    environment = {**os.environ, "ENSUE_TOKEN": ""}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            lines = (json.loads(line) for line in process.stderr if line.startswith("{"))
            address = next(line["address"] for line in lines if line.get("event") == "listening")
            photograph(address, file, chromium)
        finally:
            process.terminate()


def photograph(address: str, file: Path, chromium: str) -> None:
    """Take a picture of the first panel with its answer and its evidence."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        page.goto(f"{address}/#{PANEL}")
        page.locator(f"#panel-{PANEL} .card").nth(CARD).click()
        page.locator(f"#panel-{PANEL} .plot .main-svg").first.wait_for()
        page.wait_for_timeout(1500)
        page.screenshot(path=file, clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
        browser.close()


if __name__ == "__main__":
    main()
