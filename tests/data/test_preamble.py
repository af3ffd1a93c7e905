"""Lines above the header of CSV: left out where the table below them is sure, and refused elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensue import DataError
from ensue.data.encodings import num_preamble_lines
from ensue.data.sequences import read
from ensue.data.texts import read_texts

TABLE = "session_id,item_id,timestamp\n1,a,1704100000\n1,b,1704100010\n"
READ = {
    "title": ("Report generated 2024-03-03\n\n", "note 2 lines above the header, left out"),
    "comment": ("# exported by tool\n", "note a line above the header, left out"),
    "comments with commas": ("# tool, version 2, 2024\n# all, of it\n", "note 2 lines above the header, left out"),
    "cells filled up": ("Report,,\n,,\n", "note 2 lines above the header, left out"),
    "empty line": ("\n", "note a line above the header, left out"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("case", READ)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_above_the_header(tmp_path: Path, case: str, end: str, mark: str) -> None:
    above, note = READ[case]
    path = tmp_path / "log.csv"
    path.write_bytes((mark + above + TABLE).replace("\n", end).encode())
    histories, report = read(path)
    assert histories.times.tolist() == [1704100000, 1704100010]
    assert [f"note {text}" for text in report.notes] == ([note] if note else [])
    path.write_bytes((mark + above + TABLE + "1,c,soon\n").replace("\n", end).encode())
    with pytest.raises(DataError, match=rf"log\.csv, line {above.count(chr(10)) + 4}: time 'soon'"):
        read(path)


@pytest.mark.parametrize(
    "first", ["sep=;\n", '"sep=;"\n', "\ufeffsep=;\n"], ids=["plain", "quoted", "with a byte-order mark"]
)
def test_sep_with_decimal_commas(tmp_path: Path, first: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f'{first}session_id;item_id;time\n1;a;"1704100000,5"\n1;"b;c";1704100010,25\n', encoding="utf-8")
    histories, _ = read(path)
    assert histories.times.tolist() == [1704100000.5, 1704100010.25]
    assert histories.vocabulary.values == ["a", "b;c"]


def test_a_header_may_begin_with_a_hash(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(f"#{TABLE}")
    assert read(tmp_path / "log.csv")[1].columns["session"] == "#session_id"


def test_texts_below_a_title(tmp_path: Path) -> None:
    path = tmp_path / "coded.csv"
    path.write_text('Tweets of May\n\ntext,label\n"Hi, you",a\nwell,b\n')
    texts, report = read_texts(path)
    assert texts.texts[0].to_list() == ["Hi, you", "well"]
    assert report.notes == ("2 lines above the header, left out",)


@pytest.mark.parametrize(
    "lines",
    [
        ["a title, with a comma", "", "one,two", "1,2"],
        ["first text", "second text", "third text", "good;bad", "a;b"],
        ["one text", "and another, longer one", "and a third, too"],
        ["title", "1,2", "3,4"],
        ["title", "one,two", "1,2", "3"],
        ["one", "two"],
    ],
)
def test_what_is_no_preamble(lines: list[str]) -> None:
    assert num_preamble_lines(lines) == 0
