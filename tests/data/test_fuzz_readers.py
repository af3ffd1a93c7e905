"""Made-up files through every reader; ``benchmarks/fuzz_readers.py`` reads as many as it is asked to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fuzz_readers.py"


@pytest.mark.fuzz
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_made_up_files_end_in_an_answer_or_in_an_error_of_ours(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--files", "30", "--seed", "11", "--json", str(tmp_path / "found.json")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["findings"] == []
    assert found["ends"].keys() == {"read", "DataError", "SettingError"}
    assert sum(found["ends"].values()) == 30 * 14
    assert found["most_megabytes"] < 1000
