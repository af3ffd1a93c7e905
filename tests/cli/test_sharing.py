"""Models that are given to others: as one file."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Ensue


def test_a_model_is_packed_and_unpacked(ensue: Ensue, model: Path, tmp_path: Path) -> None:
    ran = ensue("pack", model, "-o", tmp_path / "next.ensue")
    assert ran.code == 0 and "past sessions" in ran.err, ran.err
    assert ensue("unpack", tmp_path / "next.ensue", "-o", tmp_path / "copy").code == 0
    assert (tmp_path / "copy" / "B2SUMS").read_bytes() == (model / "B2SUMS").read_bytes()
    assert "holds a model" in ensue("unpack", tmp_path / "next.ensue", "-o", tmp_path / "copy").err
    assert "must end in .ensue" in ensue("pack", model, "-o", tmp_path / "next.zip").err
    assert "ensue unpack" in ensue("predict", tmp_path / "next.ensue").err
    assert ensue("unpack", tmp_path / "none.ensue", "-o", tmp_path / "other").code == 2
