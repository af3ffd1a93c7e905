"""Ids of event logs: one normal form whatever a file writes, and none for what is missing or was rounded."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ensue import DataError, History, SettingError
from ensue.data.sequences import read
from ensue.data.sequences.batches import Share
from ensue.data.sequences.prepare import prepare, prepare_share
from ensue.data.sequences.prepared import read_prepared
from ensue.data.table import ReadOptions
from tests.data.files import records, write

ITEMS = (110, 7, 110, 8)
WAYS: dict[str, pl.Series] = {
    "texts": pl.Series([str(item) for item in ITEMS]),
    "whole numbers": pl.Series(ITEMS),
    "small whole numbers": pl.Series(ITEMS, dtype=pl.UInt8),
    "floats": pl.Series(ITEMS, dtype=pl.Float64),
    "single floats": pl.Series(ITEMS, dtype=pl.Float32),
    "decimals": pl.Series([f"{item}.00" for item in ITEMS]).cast(pl.Decimal(10, 2)),
    "floats as texts": pl.Series([f"{item}.0" for item in ITEMS]),
    "padded texts": pl.Series([f" {item} " for item in ITEMS]),
    "an enumeration": pl.Series([str(item) for item in ITEMS]).cast(pl.Enum(["110", "7", "8"])),
}
CELLS = "session,item,time\n1,a,5\n1,{},6\n2,{},7\n2,b,8\n"


@pytest.fixture(params=["csv", "tsv", "jsonl", "parquet", "folder", "prepared"])
def form(request: pytest.FixtureRequest) -> str:
    if request.param == "prepared":
        pytest.importorskip("duckdb", reason="the extra large is not there")
    return str(request.param)


def read_as(form: str, folder: Path, frame: pl.DataFrame, missing: str = "") -> list[History]:
    """The histories of a table that was written in some form."""
    path = folder / f"log.{form if form not in ('folder', 'prepared') else 'parquet'}"
    if form == "csv" or form == "tsv":
        frame.write_csv(path, separator="," if form == "csv" else "\t")
    elif form == "jsonl":
        frame.write_ndjson(path)
    elif form == "folder":
        path = folder / "logs"
        path.mkdir()
        frame[:2].write_parquet(path / "a.parquet")
        frame[2:].write_parquet(path / "b.parquet")
    else:
        frame.write_parquet(path)
    if form == "prepared":
        prepare([path], folder / "prepared", ReadOptions(missing=missing))
        return records(read_prepared(folder / "prepared")[0])
    return records(read(path, missing=missing)[0])


@pytest.mark.parametrize("way", WAYS)
def test_an_id_is_the_same_however_a_file_writes_it(form: str, way: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"session": WAYS[way], "item": WAYS[way], "time": [1, 2, 3, 4]})
    expected = [History(("110", "110"), (1.0, 3.0), "110"), History(("7",), (2.0,), "7"), History(("8",), (4.0,), "8")]
    assert read_as(form, tmp_path, frame) == expected


@pytest.mark.parametrize("items", [("1.0", "1.5"), ("007", "7"), ("1e5", "+7"), ("1.0", "2.0.1"), ("NaNa", "nil")])
def test_other_texts_stay_as_they_are(items: tuple[str, str], tmp_path: Path) -> None:
    path = write(tmp_path, CELLS.format(*items))
    histories, understood = read(path)
    assert [record.values for record in records(histories)] == [("a", items[0]), (items[1], "b")]
    assert (understood.notes, understood.warnings) == ((), ())


def test_floats_among_names_are_the_same_whole_numbers(tmp_path: Path) -> None:
    histories, _ = read(write(tmp_path, "session,item,time\n1,7.0,1\n1, 8,2\n2,unknown,3\n2,7,4\n2,8.0,5\n"))
    assert histories.vocabulary.values == ["7", "8", "unknown"]


def test_nan_of_json_is_an_empty_cell(tmp_path: Path) -> None:
    path = write(tmp_path, '[{"session": 1, "item": 7.0, "time": 1}, {"session": 1, "item": NaN, "time": 2}]')
    with pytest.raises(DataError, match="column 'item' is empty"):
        read(path)
    assert records(read(path, missing="drop")[0])[0].values == ("7",)


def test_a_folder_of_whole_numbers_and_floats_holds_each_id_once(tmp_path: Path) -> None:
    whole = pl.DataFrame({"session": [1, 1], "item": [7, 8], "time": [1, 2]})
    whole.write_parquet(tmp_path / "a.parquet")
    whole.cast({"item": pl.Float64}).with_columns(session=2).write_parquet(tmp_path / "b.parquet")
    histories, understood = read(tmp_path)
    assert histories.vocabulary.values == ["7", "8"]
    note = f"column 'item' holds whole numbers written as floats, first in {tmp_path}/b.parquet row 1: 7.0 is read as 7"
    assert note in understood.notes


def test_a_prepared_log_decides_about_a_column_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece whose ids are all whole numbers is read as one that also holds a fraction is."""
    pytest.importorskip("duckdb", reason="the extra large is not there")
    monkeypatch.setattr("ensue.data.sequences.batches.BYTES", 40)
    rows = "".join(f"1,{number}.0,{number}\n" for number in range(20))
    for name, last, value in (("versions", "2.5", "0.0"), ("names", "x", "0"), ("numbers", "21", "0")):
        path = write(tmp_path, f"session,item,time\n{rows}1,{last},21\n", f"{name}.csv")
        prepare([path], tmp_path / name, ReadOptions())
        histories, understood = read_prepared(tmp_path / name)
        assert records(histories) == records(read(path)[0])
        assert histories.vocabulary.values[0] == value
        assert understood.notes == read(path)[1].notes


@pytest.mark.parametrize("word", ["nan", "NaN", "NULL", "null", "None", "#N/A", "<NA>", "N/A", "NA", "\\N"])
def test_a_word_for_nothing_is_no_id_and_its_event_is_left_out_with_a_warning(word: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"session,item,time\n1,a,5\n1,{word},6\n{word},b,7\n{word},c,8\n2,d,9\n")
    histories, understood = read(path)
    assert [record.values for record in records(histories)] == [("a",), ("d",)]
    assert understood.warnings == (
        f"2 of 5 events have no session ({word} in column 'session', first in {path}, line 4): left out; --missing "
        "keep "
        "reads such words as ids",
        f"1 of 5 events has no item ({word} in column 'item', first in {path}, line 3): left out; --missing keep "
        "reads such "
        "words as ids",
    )
    kept, understood = read(path, missing="keep")
    assert [record.values for record in records(kept)] == [("a", word), ("b", "c"), ("d",)]
    assert understood.warnings == ()


def test_words_for_nothing_are_left_out_of_lines_of_sequences_too(tmp_path: Path) -> None:
    path = write(tmp_path, '{"values": ["a", "nan", "7"], "times": [1, 2, 3]}\n{"values": ["NULL"], "times": [4]}\n')
    histories, understood = read(path)
    assert records(histories) == [History(("a", "7"), (1.0, 3.0))]
    assert understood.warnings[0].startswith("2 of 4 events have no item (nan or NULL in column 'item'")


def test_an_empty_cell_is_refused_unless_it_is_to_be_left_out(form: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"session": ["1", "1", "2"], "item": ["a", None, "b"], "time": [1, 2, 3]})
    with pytest.raises(DataError, match=r"column 'item' is empty; every event needs the item: .*--missing drop"):
        read_as(form, tmp_path, frame)
    (tmp_path / "again").mkdir()
    kept = read_as(form, tmp_path / "again", frame, "drop")
    assert [record.values for record in kept] == [("a",), ("b",)]


def test_an_id_of_spaces_in_a_line_of_a_sequence_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, '{"values": ["b", "a"]}\n{"values": ["  ", "b"]}\n')
    with pytest.raises(DataError, match=r", line 2: column 'item' is empty; every event needs the item"):
        read(path)


def test_nothing_left_is_one_clear_line(tmp_path: Path) -> None:
    path = write(tmp_path, "session,item,time\n1,nan,5\n1,NULL,6\n")
    with pytest.raises(DataError, match="no event is left after cleaning: 2 of 2 events have no item"):
        read(path)


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pl.Series(["1.23457E+18"] * 3), "1.23457E+18"),
        (pl.Series(["1,29E+12", "5", "6"]), "1,29E+12"),
        (pl.Series([1.2345678901234568e18, 5.0, 6.0]), "1.2345678901234568e+18"),
        (pl.Series([20_000_000.0, 5.0, 6.0], dtype=pl.Float32), "2.0000000000000000e+07"),
        (pl.Series(["1.2345678901234568e+18", "5.0", "6.0"]), "1.2345678901234568e+18"),
    ],
)
def test_ids_that_were_rounded_are_refused_by_name(column: pl.Series, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pl.DataFrame({"session": [1, 1, 1], "item": column, "time": [1, 2, 3]}).write_parquet(path)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path} row 1: ids such as {shown} were cut by a spreadsheet")
    assert "export again with ids as text, or leave such rows out with --missing drop" in str(caught.value)
    assert shown in read(path, missing="report")[1].warnings[0]
    if column.n_unique() == 1:
        with pytest.raises(DataError, match="no event is left"):
            read(path, missing="drop")
    else:
        assert records(read(path, missing="drop")[0])[0].values == ("5", "6")


@pytest.mark.parametrize("number", ["1.2345678901234568e+18", "1.2345678901234568E18"])
def test_a_number_of_json_that_was_rounded_is_refused_by_name(number: str, tmp_path: Path) -> None:
    path = write(
        tmp_path, '{"session": 1, "item": 5, "time": 1}\n\n' + f'{{"session": 1, "item": {number}, "time": 2}}'
    )
    with pytest.raises(DataError, match=r", line 3: ids such as 1.2345678901234568e\+18 were cut"):
        read(path)


def test_whole_numbers_and_texts_of_any_length_are_exact(tmp_path: Path) -> None:
    for column in (pl.Series([2**60 + 1, 2**60]), pl.Series([str(2**60 + 1), str(2**60)])):
        path = tmp_path / "log.parquet"
        pl.DataFrame({"session": [1, 1], "item": column, "time": [1, 2]}).write_parquet(path)
        assert records(read(path)[0])[0].values == ("1152921504606846977", "1152921504606846976")


def test_fractions_and_truths_of_a_typed_column_are_no_ids(tmp_path: Path) -> None:
    for column, message in (
        (pl.Series([1.0, 1.5]), "row 2: item 1.5 in column 'item' is not an id; ids are texts or whole numbers"),
        (pl.Series([True, False]), "column 'item' .item. holds true and false, which are not ids"),
    ):
        path = tmp_path / "log.parquet"
        pl.DataFrame({"session": [1, 1], "item": column, "time": [1, 2]}).write_parquet(path)
        with pytest.raises(DataError, match=message):
            read(path)


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="missing: 'omit' is not known; choose from drop, keep"):
        read(write(tmp_path, CELLS.format("c", "d")), missing="omit")


def test_shares_of_a_log_say_together_what_it_says_alone(tmp_path: Path) -> None:
    for name, cell in (("a", "nan"), ("b", "7.0")):
        write(tmp_path, f"session,item,time\n1,1.0,5\n1,{cell},6\n", f"log-{name}.csv")
    pytest.importorskip("duckdb", reason="the extra large is not there")
    files = [tmp_path / "log-a.csv", tmp_path / "log-b.csv"]
    for number in (1, 2):
        prepare_share(files, tmp_path / "whole", ReadOptions(), Share(number, 2))
    together, _ = prepare(files, tmp_path / "whole", ReadOptions(), merge=True)
    alone, _ = prepare(files, tmp_path / "alone", ReadOptions())
    assert together == alone
    assert together.warnings[0].startswith("1 of 4 events has no item (nan in column 'item'")
