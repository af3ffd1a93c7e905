"""Several files as one log: a folder, a pattern; what they must have in common, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ensue import DataError
from ensue.data.histories import Histories
from ensue.data.sequences import read
from ensue.data.sequences.sources import files_of

START = 1_400_000_000
# Users come back in later files, values too; b is earlier in time than what stands above it.
EVENTS = [("u", "a", 0), ("v", "x", 10), ("u", "b", 9000), ("w", "a", 20), ("v", "a", 5), ("u", "c", 9060)]


def frame(rows: list[tuple[str, str, int]], numbers: bool = False) -> pl.DataFrame:
    users = [str(ord(user)) for user, _, _ in rows]
    times = [START + time for _, _, time in rows]
    found = pl.DataFrame({"user_id": users, "item_id": [item for _, item, _ in rows], "timestamp": times})
    return found.cast({"user_id": pl.Int64}) if numbers else found


def same(found: Histories, expected: Histories) -> None:
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert found.times.tolist() == expected.times.tolist()
    assert found.names.to_list() == expected.names.to_list()
    assert found.vocabulary == expected.vocabulary


@pytest.mark.parametrize("form", ["parquet", "csv", "tsv", "jsonl", "csv.gz"])
def test_a_folder_reads_as_its_files_one_below_the_other(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "day=2"
    (folder / "deeper").mkdir(parents=True)
    for number, low in enumerate((0, 2, 4)):
        place = folder / ("deeper" if number == 2 else "") / f"part-{number}.{form}"
        write_rows(frame(EVENTS[low : low + 2], numbers=form == "parquet" and number == 1), place, form)
    (folder / "_SUCCESS").write_text("")
    # deeper/part-2 comes before part-0 by name.
    write_rows(frame([*EVENTS[4:], *EVENTS[:4]]), tmp_path / f"whole.{form}", form)
    expected, one = read(tmp_path / f"whole.{form}")
    for place in (folder, tmp_path / "day=*" / "**" / f"*.{form}"):
        histories, several = read(place)
        same(histories, expected)
        assert (several.layout, several.columns, several.time) == (one.layout, one.columns, one.time)
        assert several.notes[0] == "3 files read as one log, ordered by name"
        assert several.notes[1:] == one.notes


def write_rows(rows: pl.DataFrame, path: Path, form: str) -> None:
    if form == "parquet":
        rows.write_parquet(path)
    elif form == "jsonl":
        rows.write_ndjson(path)
    else:
        text = rows.write_csv(separator="\t" if form == "tsv" else ",").encode()
        if form.endswith("gz"):
            import gzip

            text = gzip.compress(text)
        path.write_bytes(text)


def refused(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read(path)
    return str(caught.value).replace(f"{path}", "")


def test_what_files_must_have_in_common(tmp_path: Path) -> None:
    frame(EVENTS).write_parquet(tmp_path / "a.parquet")
    second = tmp_path / "b.parquet"
    frame(EVENTS).rename({"item_id": "product_id"}).write_parquet(second)
    assert refused(tmp_path) == (
        "/b.parquet: its columns are session=user_id, item=product_id, time=timestamp, but those of /a.parquet are "
        "session=user_id, item=item_id, time=timestamp; rename them, set --columns, or select files by a pattern "
        "in quotes, such as 'logs/*.parquet'"
    )
    frame(EVENTS).with_columns(pl.from_epoch("timestamp")).write_parquet(second)
    assert refused(tmp_path) == (
        "/b.parquet row 1: times are dates here, but numbers at /a.parquet row 1; write all times in the same way"
    )
    second.unlink()
    frame(EVENTS).write_csv(tmp_path / "c.csv")
    assert refused(tmp_path).startswith(
        "/c.csv: is a table of text, but /a.parquet is parquet; files that are read together"
    )
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "d.csv").write_text("")
    assert refused(tmp_path) == "/d.csv: is empty; fetch it again, or remove it from the folder"
    (tmp_path / "d.csv").write_text("a1 a2 a3\na4 a5\n")
    assert refused(tmp_path).startswith(
        "/d.csv: has one session per row (sessions), and such files are read one at a time"
    )


def test_errors_name_the_file_and_its_row(tmp_path: Path) -> None:
    frame(EVENTS).write_csv(tmp_path / "a.csv")
    bad = tmp_path / "b.csv"
    bad.write_text(f"user_id,item_id,timestamp\n1,a,{START}\n2,,{START}\n")
    assert (
        refused(tmp_path)
        == "/b.csv, line 3: column 'item_id' is empty; every event needs the item: leave such rows out with "
        "--missing drop"
    )
    bad.write_text(f"user_id,item_id,timestamp\n1,a,{START}\n2,b\n")
    assert refused(tmp_path).startswith("/b.csv, line 3: 2 fields, but the header has 3")
    bad.write_text(f"user_id,item_id,timestamp\n1,a,{START}\n2,b,\n")
    assert (
        refused(tmp_path)
        == "/b.csv, line 3: time is empty; give every event a time, or leave such rows out with --missing drop"
    )


def test_files_without_rows_are_counted(tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        folder = tmp_path / form
        folder.mkdir()
        write_rows(frame(EVENTS), folder / f"a.{form}", form)
        write_rows(frame(EVENTS)[:0], folder / f"b.{form}", form)
        _, understood = read(folder)
        assert understood.notes[0] == ("2 files read as one log, ordered by name; 1 file holds no event")
        (folder / f"a.{form}").unlink()
        assert refused(folder) == ": none of 1 file holds an event"


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    (tmp_path / ".hidden.csv").write_text("x")
    found = refused(tmp_path)
    assert found.startswith(": is a folder; name a file in it, or one that holds files that end in .parquet, ")
    assert found.endswith("(packed or not): this one holds 'notes.md'")
    assert refused(tmp_path / "*.csv.gz") == ": no file matches; check the pattern"
    assert files_of(tmp_path / "notes.md") == [tmp_path / "notes.md"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "day[1].csv"
    frame(EVENTS).write_csv(path)
    assert len(read(path)[0].ids) == len(EVENTS)
