"""``kill -9`` at random moments: the script that does it 50 times a source, here a few times on one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.processes import Started

ROOT = Path(__file__).parents[2]


def run_kills(*options: str) -> tuple[str, str]:
    """Both streams of ``benchmarks/kill.py``, which has to end with exit code 0."""
    folder = ROOT / "benchmarks"
    begin = (
        f"import runpy, sys; sys.path.insert(0, {str(folder)!r}); sys.argv = {['kill.py', *options]!r}\n"
        f"runpy.run_path({str(folder / 'kill.py')!r}, run_name='__main__')"
    )
    process = Started(code=begin)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out, err


def test_every_event_counts_once_whatever_is_killed() -> None:
    asked = ["--kills", "2", "--cases", "stream", "--sources", "jsonl", "--events", "400"]
    out, _ = run_kills(*asked)
    found = json.loads(out)
    assert (found["kills"], found["rounds_that_differ"], found["folders_that_do_not_load"]) == (2, 0, 0)
    assert found["counts"]["events"] >= 350


def test_two_consumers_of_partitions_lose_and_double_nothing() -> None:
    """One learns and one is on standby, and either is killed; commits go to the journal."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: nothing about Redis is tested here")
    asked = ["--kills", "2", "--cases", "stream", "--sources", "keys", "--events", "400", "--consumers", "2"]
    out, _ = run_kills(*asked)
    found = json.loads(out)
    assert (found["kills"], found["rounds_that_differ"]) == (2, 0)


def test_two_models_of_one_stream_each_learn_every_event_whatever_is_killed() -> None:
    """A foreign reader takes and acknowledges entries of their group meanwhile."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: nothing about Redis is tested here")
    asked = ["--kills", "2", "--cases", "stream", "--sources", "keys", "--events", "400", "--models", "2"]
    out, _ = run_kills(*asked)
    found = json.loads(out.splitlines()[-1])
    assert (found["kills"], found["rounds_that_differ"], found["left"]) == (2, 0, [])


def test_an_update_that_is_killed_and_a_clock_that_goes_back_lose_and_double_nothing() -> None:
    out, err = run_kills("--kills", "2", "--cases", "update,clock")
    update, clock = (json.loads(line) for line in out.splitlines())
    assert (update["kills"], update["wrong"]) == (2, 0)
    assert (clock["rounds"], clock["wrong"]) == (1, 0)
    assert "Traceback" not in err
