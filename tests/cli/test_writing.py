"""Cells of written tables: none is a formula, and none steers a terminal."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ensue.cli import writing
from tests.cli.test_predicting import MARK


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ('=HYPERLINK("http://evil","x")', '\'=HYPERLINK("http://evil","x")'),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\n=1"),
        (" =1", "' =1"),
        ("＝1+1", "'＝1+1"),
        ("- a list", "'- a list"),
        ("-3.5", "-3.5"),
        ("+1,234.50", "+1,234.50"),
        ("-1e-5", "-1e-5"),
        ("-12 %", "-12 %"),
        ("-", "-"),
        ("a=b", "a=b"),
        ("a\x1b[31m\u202e", "a\\x1b[31m\\u202e"),
        ("👩‍👧 fine", "👩‍👧 fine"),
        (None, None),
        ("", ""),
    ],
)
def test_no_cell_is_a_formula(cell: str | None, written: str | None) -> None:
    assert writing.harmless(pl.Series("c", [cell], pl.String)).to_list() == [written]


def test_names_of_columns_lists_and_numbers(tmp_path: Path) -> None:
    frame = pl.DataFrame({"=1+1": ["x"], "ids": [["a", "é"]], "n": [-3.5], "raw": [b"\x00\x1b"]})
    writing.write(frame, tmp_path / "out.csv", byte_order_mark=True)
    assert (tmp_path / "out.csv").read_bytes() == MARK + b"""'=1+1,ids,n,raw\nx,"[""a"", ""\xc3\xa9""]",-3.5,001b\n"""
