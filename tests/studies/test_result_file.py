"""Files of results: what is written reads the same, a row a line, and no paper's file grows out of hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ensue_studies.results import write_result

RESULTS = Path(__file__).parents[2] / "studies" / "results"
MOST = 150_000
"""Bytes a paper."""


def test_rows_stand_a_line_each(tmp_path: Path) -> None:
    found = {"paper": "it", "tables": {"rows": [{"data": "a", "n": 1}, {"data": "b", "n": None}], "none": []}}
    write_result(tmp_path / "it.json", found)
    text = (tmp_path / "it.json").read_text()
    assert json.loads(text) == found
    assert text.splitlines()[3:6] == ['  "rows": [', '{"data":"a","n":1},', '{"data":"b","n":null}']


def test_numbers_read_as_before_with_fewer_digits(tmp_path: Path) -> None:
    figures = [1 / 3, 0.18734999999, 0.18735, 1506931200.0, 1234.56789, 0.000123456, -2 / 3, float("inf")]
    ends = [0.123449, 0.234561]
    write_result(tmp_path / "it.json", {"rows": [{"figures": figures, "interval": ends}]})
    (row,) = json.loads((tmp_path / "it.json").read_text())["rows"]
    for own, short in zip(figures, row["figures"], strict=True):
        assert (f"{100 * own:.2f}", f"{own:.3f}") == (f"{100 * short:.2f}", f"{short:.3f}")
    assert row["figures"][0] == 0.3333 and row["figures"][3] == 1506931200.0  # a moment stays to the second
    low, high = row["interval"]
    assert f"{50 * (high - low):.2f}" == f"{50 * (ends[1] - ends[0]):.2f}" and abs(low - ends[0]) < 1e-3


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_files_are_compact(path: Path) -> None:
    assert path.stat().st_size <= MOST
    widest = max(map(len, path.read_text().splitlines()))
    assert widest < MOST / 5  # a map of posts is the longest row
