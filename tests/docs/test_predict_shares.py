"""The guide is run."""

import subprocess
import sys

from scripts.site.blocks import ROOT

PAGE = "docs/guides/predict_shares.md"


def test_the_guide_shows_what_is_printed() -> None:
    """Its network is trained in a process of its own, whose sums are the same on every processor."""
    command = [sys.executable, "scripts/site/blocks.py", "--check", PAGE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run: python scripts/site/blocks.py {PAGE}\n{done.stdout}{done.stderr}"
