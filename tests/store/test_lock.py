"""One process at a time learns into a folder, whether it stands yet or not."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ensue import ModelFolderError
from ensue.store.swap import only_writer


@pytest.mark.parametrize("stands", [False, True])
def test_the_second_is_refused_and_nothing_is_left_behind(tmp_path: Path, stands: bool) -> None:
    if stands:
        (tmp_path / "m").mkdir()
    before = sorted(tmp_path.iterdir())
    refused = pytest.raises(ModelFolderError, match="m: another process updates it")
    with only_writer(tmp_path / "m"), refused, only_writer(tmp_path / "m"):
        pass
    with only_writer(tmp_path / "m"):
        assert (tmp_path / ".m.lock").exists()
    assert sorted(tmp_path.iterdir()) == before


def test_a_killed_process_holds_nobody_up(tmp_path: Path) -> None:
    holding = "import sys, time, pathlib; from ensue.store.swap import only_writer\n"
    holding += "with only_writer(pathlib.Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", holding, str(tmp_path / "m")], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        with pytest.raises(ModelFolderError, match="another process"), only_writer(tmp_path / "m"):
            pass
        child.kill()
    assert (tmp_path / ".m.lock").exists(), "nobody was left to remove it"
    with only_writer(tmp_path / "m"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_many_that_take_turns_never_meet(tmp_path: Path) -> None:
    """Though each removes the file that the others may just have opened."""
    inside, most, turns = 0, 0, 0

    def take() -> None:
        nonlocal inside, most, turns
        for _ in range(300):
            try:
                with only_writer(tmp_path / "m"):
                    inside += 1
                    most = max(most, inside)
                    turns += 1
                    inside -= 1
            except ModelFolderError:
                pass

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and turns >= 300
    assert list(tmp_path.iterdir()) == []
