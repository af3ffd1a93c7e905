"""Finding the library, choosing an instruction set, and doing without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ensue import kernels
from ensue.errors import SettingError
from ensue.kernels import loading
from tests.kernels.paths import COMPILED, HERE, needs_kernels, using

LEVEL = [sys.executable, "-c", "import ensue.kernels; print(ensue.kernels.level())"]


def said(value: str) -> str:
    """The level that a process of its own finds."""
    environment = {**os.environ, kernels.VARIABLE: value}
    return subprocess.run(LEVEL, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_off_means_off() -> None:
    assert said("off") == "off"
    with using("off"):
        assert kernels.library() is None and kernels.level() == "off"


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


def test_a_library_that_is_not_there_broken_or_of_other_sources_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with using(COMPILED):
        (tmp_path / "broken.so").write_bytes(b"no library")
        for name in ("none.so", "broken.so"):
            monkeypatch.setattr(loading, "FILE", tmp_path / name)
            assert kernels.load("avx512") == "off" and kernels.library() is None
        monkeypatch.undo()
        monkeypatch.setattr(loading, "INTERFACE", -1)
        assert kernels.load("avx512") == "off"
        monkeypatch.undo()
    assert kernels.level() == COMPILED
