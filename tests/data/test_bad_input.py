"""Each kind of bad input gives one line: file, line, field, what to do."""

import gzip
import lzma
import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from backports import zstd

from ensue import DataError, SettingError
from ensue.data.sequences import read
from tests.data.files import PACKERS, write
from tests.data.sequences.test_dataset import CLICKS

HEAD = "session,item,time\n"

LINES: dict[str, tuple[str | bytes, str]] = {
    "text time": (
        HEAD + "1,a,5\n1,b,abc\n",
        ", line 3: time 'abc' is not a time; use seconds since 1970, ISO 8601, or --time-unit",
    ),
    "text time first": (
        HEAD + "1,a,abc\n1,b,5\n",
        ", line 2: time 'abc' is not a time; use seconds since 1970, ISO 8601, or --time-unit",
    ),
    "bad date": (
        HEAD + "1,a,2014-05-13\n1,b,soon\n",
        ", line 3: time 'soon' is not a time; use seconds since 1970, ISO 8601, or --time-unit",
    ),
    "nan": (HEAD + "1,a,5\n1,b,nan\n", ", line 3: time nan is not a finite number"),
    "infinite": (HEAD + "1,a,5\n1,b,1e999\n", ", line 3: time inf is not a finite number"),
    "no time": (
        HEAD + "1,a,5\n1,b,\n",
        ", line 3: time is empty; give every event a time, or leave such rows out with --missing drop",
    ),
    "no value": (
        HEAD + "1,a,5\n\n1,,6\n",
        ", line 4: column 'item' is empty; every event needs the item: leave such rows out with --missing drop",
    ),
    "quoted nothing": (
        HEAD + '1,a,5\n1,"",6\n',
        ", line 3: column 'item' is empty; every event needs the item: leave such rows out with --missing drop",
    ),
    "no sequence": (
        HEAD + ",a,5\n",
        ", line 2: column 'session' is empty; every event needs the session: leave such rows out with --missing drop",
    ),
    "too few": (HEAD + "1,a,5\n1,b\n", ", line 3: 2 fields, but the header has 3; is a quote left open?"),
    "too few, shifted": (
        "session,item,time,note\n1,a,5,x\n1,6,y\n",
        ", line 3: 3 fields, but the header has 4; is a quote left open?",
    ),
    "too many": (HEAD + "1,a,5\n1,b,6,7\n", ", line 3: 4 fields, but the header has 3; is a quote left open?"),
    "too many, unused": (
        "session,item,time,note\n1,a,5,x\n1,b,6,y,z\n",
        ", line 3: 5 fields, but the header has 4; is a quote left open?",
    ),
    "open quote": (
        HEAD + '1,"a,5\n1,b,6\n',
        ", line 2: a quote is left open; close it, and double the quotes within a field",
    ),
    "twice": ("session,item,time,item\n1,a,5,b\n", ", line 1: column 'item' appears twice; rename one"),
    "encoding": (
        HEAD.encode() + b"1,a,5\n1,b\xff,6\n",
        ", line 3: not UTF-8 text; save the file as UTF-8, or name its encoding, as in --encoding cp1252",
    ),
    "encoding, cascade": (
        b"a:1\nb\xff:2\n",
        ", line 2: not UTF-8 text; save the file as UTF-8, or name its encoding, as in --encoding cp1252",
    ),
    "mixed units": (
        HEAD + "1,a,1400000000\n1,b,1400000005\n2,c,1400000000000\n",
        ", line 4: time 1400000000000 looks like milliseconds since 1970, but others, such as 1400000000, look like "
        "seconds; give all times in one unit",
    ),
    "wrong unit": (
        "session,item,time_s\n1,a,1400000000000\n",
        ", line 2: time 1400000000000 cannot be seconds (from the column's name 'time_s'); set the unit with "
        "--time-unit",
    ),
    "no header": (
        "832,2014-04-06T20:21:58.444Z,214717095\n",
        ", line 1: a header was expected, but '832,2014-04-06T20:21:58.444Z,214717095' looks like data; number "
        "the columns, such as --columns session=1,item=2,time=3, or add a line of column names",
    ),
    "no layout": (
        "just some words\n",
        ", line 1: 'just some words' is neither a header nor a known layout; give one, such as session,item,time; for "
        "texts, queries or posts name the task: classify, suggest, link",
    ),
    "missing names": (
        "a,b,time\n1,2,3\n",
        ": no column is recognised as the session; the columns are 'a', 'b', 'time'; name them with --columns "
        "session=…,item=…,time=time",
    ),
    "one stream": (
        "item,time\n1,2\n",
        ": no column is recognised as the session; the columns are 'item', 'time'; name them with --columns "
        "session=…,item=item,time=time",
    ),
    "empty": ("", ": is empty"),
    "white": (" \n\n", ": is empty"),
    "header only": (HEAD, ": has a header but no event"),
    "hidan counts": ("a,b:1,2\na,b,c:1,2\n", ", line 2: 3 users but 2 times; give one per user"),
    "hidan shape": ("a,b:1,2\n\nabc\n", ", line 3: 'abc' does not fit; expected user,user,…:time,time,…"),
    "hidan time": (
        "a,b:1,2\na,b:1,x\n",
        ", line 2: time 'x' is not a time; use seconds since 1970, ISO 8601, or --time-unit",
    ),
    "hidan value": ("a,b:1,2\na,:1,2\n", ", line 2: a value is empty; every event needs one"),
    "forest shape": ("a,1 b,2\na,1 b\n", ", line 2: 'b' does not fit; expected user,time"),
    "cyan shape": ("1,a,0,b,2\n2,a,0\n3,a\n", ", line 3: '3,a' does not fit; expected id,user,time,user,time,…"),
    "json": ('{"session":1,"item":2}\n{"session":1,\n', ", line 2: not JSON ("),
    "json, list": ('{"session":1,"item":2}\n[1]\n', ", line 2: not a JSON object; expected one object per line"),
    "json, empty": (
        '{"session":1,"item":2}\n\n{"session":1}\n',
        ", line 3: column 'item' is empty; every event needs the item: leave such rows out with --missing drop",
    ),
    "json, nested": (
        '{"session":1,"item":[[2]]}\n',
        ": field 'item' holds something other than a text or a number; give texts or numbers, one row per event, or a "
        "list of items and one of times in a row per session",
    ),
    "history": (
        '{"values":["a"]}\n{"values":"b"}\n',
        ', line 2: field "values" must be a list of texts or whole numbers',
    ),
    "history times": (
        '{"values":["a"],"times":[1]}\n{"values":["b"]}\n',
        ", line 2: 1 value but 0 times; give one time per value, in every line or in none",
    ),
    "binary": (
        b"\x7fELF\0\0\0",
        ": is binary, neither text nor Parquet; give CSV, TSV, JSON Lines, Parquet, Feather, Excel or cascades",
    ),
    "parquet": (b"PAR1 cut short", ": is damaged or has unusual content ("),
    "xz": (
        lzma.compress(CLICKS.encode() * 99)[:60],
        ": the xz data is truncated or damaged; fetch or pack the file again",
    ),
    "gzip": (
        gzip.compress(CLICKS.encode() * 99)[:60],
        ": the gzip data is truncated or damaged; fetch or pack the file",
    ),
    "long line": (
        (HEAD + "1,a,5\n").encode() + b"x" * 10_000_000,
        ", line 3: a line is longer than 8 MiB; put one event or session on each line",
    ),
}


def refusal(path: Path, columns: dict[str, str] | None = None) -> str:
    with pytest.raises(DataError) as caught:
        read(path, columns=columns)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


@pytest.mark.parametrize(("content", "expected"), LINES.values(), ids=LINES.keys())
def test_message(tmp_path: Path, content: str | bytes, expected: str) -> None:
    message = refusal(write(tmp_path, content))
    assert message == expected or (expected.endswith(("(", "file")) and message.startswith(expected))


@pytest.mark.parametrize("name", ["text time", "encoding", "hidan counts", "json"])
@pytest.mark.parametrize("packed", ["gzip", "zst"])
def test_message_of_packed_file(tmp_path: Path, name: str, packed: str) -> None:
    content, expected = LINES[name]
    raw = content.encode() if isinstance(content, str) else content
    message = refusal(write(tmp_path, gzip.compress(raw) if packed == "gzip" else zstd.compress(raw)))
    assert message.startswith(expected)


@pytest.mark.parametrize("packed", ["plain", "gzip", "zst"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (HEAD + '1,"a\nb",5\n2,x,1\n1,c,3\n', ", line 5: time 3.0 comes after 5.0"),
        (
            "1,2014-04-07T10:00:00Z,2,0\n1,2014-04-07T09:00:00Z,3,0\n",
            ", line 2: time '2014-04-07T09:00:00Z' comes after '2014-04-07T10:00:00Z'",
        ),
        (
            '{"values": ["a", "b"], "times": [1, 2]}\n{"values": ["a", "b"], "times": [2, 1]}\n',
            ", line 2: time 1.0 comes after 2.0",
        ),
    ],
)
def test_out_of_order_unsorted(tmp_path: Path, content: str, expected: str, packed: str) -> None:
    raw = content.encode()
    path = write(tmp_path, PACKERS.get(packed, bytes)(raw))
    with pytest.raises(DataError) as caught:
        read(path, sort=False)
    end = " in the same session; times must not decrease: remove --no-sort"
    assert str(caught.value) == f"{path}{expected}{end}"
    _, understood = read(path)
    assert any("sorted by time" in note for note in understood.notes)


def test_truncated_zst(tmp_path: Path) -> None:
    cut = zstd.compress(np.random.default_rng(0).bytes(9999).hex().encode())[:500]
    expected = ": the zst data is truncated or damaged; fetch or pack the file again"
    assert refusal(write(tmp_path, cut)) == expected


def test_missing_folder_and_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(tmp_path / "none.csv") == ": no such file; check the name"
    assert refusal(tmp_path) == ": holds no file; name a folder with files in it"
    path = write(tmp_path, CLICKS)

    def forbid(name: object, *_: object) -> int:
        raise PermissionError(13, os.strerror(13), str(name))

    monkeypatch.setattr(os, "open", forbid)
    assert refusal(path) == ": cannot be read; change its permissions"


def test_missing_column_names_the_others(tmp_path: Path) -> None:
    expected = ": column 'user' (item) is missing; the columns are 'session_id', 'item_id', 'timestamp'"
    assert refusal(write(tmp_path, CLICKS), {"item": "user"}) == expected


def test_parquet_names_the_row(tmp_path: Path) -> None:
    pl.DataFrame({"session": ["1", "1"], "item": ["a", None]}).write_parquet(tmp_path / "p")
    assert (
        refusal(tmp_path / "p")
        == " row 2: column 'item' is empty; every event needs the item: leave such rows out with --missing drop"
    )
    pl.DataFrame({"session": ["1"], "item": [[["a"]]]}).write_parquet(tmp_path / "p")
    assert refusal(tmp_path / "p").startswith(
        ": column 'item' (item) holds List(List(String)); give texts or numbers, one row"
    )


def test_settings(tmp_path: Path) -> None:
    path = write(tmp_path, CLICKS)
    with pytest.raises(
        SettingError, match=re.escape("time_unit: 'm' is not known; the units are s, ms, us, ns, h, days, iso")
    ):
        read(path, time_unit="m")
    with pytest.raises(SettingError, match="role 'user' is not known; the roles are session, item, time"):
        read(path, columns={"user": "item_id"})
    with pytest.raises(SettingError, match="names one column twice; give each role its own"):
        read(path, columns={"session": "item_id", "item": "item_id"})
    with pytest.raises(SettingError, match="the layout hidan has no named columns; remove --columns"):
        read(write(tmp_path, "a:1\n"), columns={"item": "a"})
