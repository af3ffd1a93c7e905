"""``kill -9`` at random moments: the script that does it 50 times a source, here a few times on one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_event_counts_once_whatever_is_killed() -> None:
    command = [sys.executable, "benchmarks/kill.py", "--kills", "5", "--sources", "jsonl", "--events", "400"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["kills"], found["rounds_that_differ"], found["folders_that_do_not_load"]) == (5, 0, 0)
    assert found["counts"]["events"] >= 350
