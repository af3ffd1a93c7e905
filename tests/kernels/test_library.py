"""Finding the library, choosing an instruction set, and doing without."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from ensue import SettingError, kernels
from tests.kernels.paths import COMPILED, HERE, needs_kernels, using

LEVEL = [sys.executable, "-c", "import ensue.kernels; print(ensue.kernels.level())"]


def said(value: str) -> str:
    """The level that a process of its own finds."""
    environment = {**os.environ, kernels.VARIABLE: value}
    return subprocess.run(LEVEL, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_off_means_off() -> None:
    assert said("off") == "off"
    with using("off"):
        assert not kernels.is_loaded() and kernels.level() == "off"


@needs_kernels
def test_every_instruction_set_can_be_chosen_and_none_above_the_processors() -> None:
    assert said("plain") == "plain"
    with using("off"):
        assert [kernels.load(name) for name in HERE] == list(HERE)
        assert kernels.load(kernels.LEVELS[-1]) in HERE


def test_an_unknown_one_is_named() -> None:
    with pytest.raises(SettingError) as error:
        kernels.load("sse9")
    assert str(error.value) == "ENSUE_KERNELS is 'sse9'; choose from off, plain, avx2, avx512, or leave it out"


def damaged(folder: Path) -> list[Path]:
    """Files where the library is looked for that are none, some of which kill whoever opens them."""
    contents = {"empty": b"", "short": b"no library", "zeros": bytes(5000)}
    if kernels.FILE.is_file():
        whole = kernels.FILE.read_bytes()
        middle = len(whole) // 2
        other_machine = whole[:18] + b"\xff\x00" + whole[20:-4]
        contents |= {f"cut{size}": whole[:size] for size in (64, 4096, middle, len(whole) - 4096, len(whole) - 1)}
        contents["half zeros"] = whole[:middle] + bytes(len(whole) - middle)
        contents["one bit"] = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        contents["other machine"] = other_machine + zlib.crc32(other_machine).to_bytes(4, "little")
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return sorted(folder.iterdir())


def test_a_library_that_is_not_there_broken_or_of_other_sources_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with using(COMPILED):
        for path in (tmp_path / "none.so", *damaged(tmp_path)):
            monkeypatch.setattr(kernels, "FILE", path)
            assert kernels.load("avx512") == "off" and not kernels.is_loaded(), path
        monkeypatch.undo()
        other = kernels._declarations()._replace(interface=-1)
        monkeypatch.setattr(kernels, "_declarations", lambda: other)
        assert kernels.load("avx512") == "off"
        monkeypatch.undo()
    assert kernels.level() == COMPILED
