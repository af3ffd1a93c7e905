"""``kill -9`` at random moments: the script that does it 50 times a source, here a few times on one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_kills(*options: str) -> subprocess.CompletedProcess[str]:
    """Run ``benchmarks/kill.py``, which has to end with exit code 0."""
    command = [sys.executable, "benchmarks/kill.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_every_event_counts_once_whatever_is_killed() -> None:
    asked = ["--kills", "3", "--cases", "stream", "--sources", "jsonl", "--events", "400"]
    done = run_kills(*asked)
    found = json.loads(done.stdout)
    assert (found["kills"], found["rounds_that_differ"], found["folders_that_do_not_load"]) == (3, 0, 0)
    assert found["counts"]["events"] >= 350


def test_two_consumers_of_partitions_lose_and_double_nothing() -> None:
    """One learns and one is on standby, and either is killed; commits go to the journal."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: nothing about Redis is tested here")
    asked = ["--kills", "3", "--cases", "stream", "--sources", "keys", "--events", "400", "--consumers", "2"]
    done = run_kills(*asked)
    found = json.loads(done.stdout)
    assert (found["kills"], found["rounds_that_differ"]) == (3, 0)


def test_two_models_of_one_stream_each_learn_every_event_whatever_is_killed() -> None:
    """A foreign reader takes and acknowledges entries of their group meanwhile."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: nothing about Redis is tested here")
    asked = ["--kills", "3", "--cases", "stream", "--sources", "keys", "--events", "400", "--models", "2"]
    done = run_kills(*asked)
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["kills"], found["rounds_that_differ"], found["left"]) == (3, 0, [])


def test_an_update_that_is_killed_and_a_clock_that_goes_back_lose_and_double_nothing() -> None:
    done = run_kills("--kills", "3", "--cases", "update,clock")
    update, clock = (json.loads(line) for line in done.stdout.splitlines())
    assert (update["kills"], update["wrong"]) == (3, 0)
    assert (clock["rounds"], clock["wrong"]) == (1, 0)
    assert "Traceback" not in done.stderr
