"""Files that are easily read as something else: stray quotes, spaces around ids, lists written as texts, rounded times.

Each is read as it is meant, or refused by one line that says what to do; none is read wrongly in silence.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ensue import DataError
from ensue.data.kinds import kind_of
from ensue.data.posts.dataset import read_posts
from ensue.data.queries import read_queries
from ensue.data.queries.rules import QueryRules
from ensue.data.sequences import read
from ensue.data.sequences.telling import telling_columns
from ensue.data.texts import read_texts


def write(folder: Path, text: str, name: str = "file.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8", newline="")
    return path


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_quotes_within_texts_join_no_rows(tmp_path: Path, separator: str) -> None:
    table = [["0", "a b", '5" x'], ["1", '"say ""no"""', '7"'], ["2", "plain", "good"], ["3", 'a 5" pipe', '"b"']]
    path = write(tmp_path, "\n".join(separator.join(row) for row in [["id", "text", "label"], *table]) + "\n")
    texts, _ = read_texts(path)
    assert texts.texts[0].to_list() == ["a b", 'say "no"', "plain", 'a 5" pipe']
    assert texts.labels is not None
    assert texts.labels.to_list() == ['5" x', '7"', "good", "b"]


def test_quotes_within_ids_join_no_events(tmp_path: Path) -> None:
    path = write(tmp_path, 'session,time,item\n1,1,"a, b"\n1,2,5" x\n1,3,c\n2,1,"q"\n2,2,7" x\n')
    assert [record.values for record in read(path)[0].records()] == [("a, b", '5" x', "c"), ("q", '7" x')]


def test_quotes_within_queries_join_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path, 'user,time,query\nu,1700000000,tv 42"\nu,1700000010,"a, b"\nu,1700000020,tv 50"\n')
    sessions, _ = read_queries(path, rules=QueryRules(min_queries=1))
    assert [record.values for record in sessions.records()] == [('tv 42"', "a, b", 'tv 50"')]


def test_a_quote_that_is_left_open_is_refused_by_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, 'session,item\n1,a\n1,"b\n2,c\n')
    with pytest.raises(DataError, match=r"file\.csv, line 3: a quote is left open; close it"):
        read(path)


def test_spaces_around_ids_are_left_out_and_noted(tmp_path: Path) -> None:
    histories, report = read(write(tmp_path, "session,item\nu, a\nu ,a\nu,b b \n"))
    assert [record.values for record in histories.records()] == [("a", "a", "b b")]
    assert report.notes == (
        f"column 'session' holds ids with spaces around them, first in {tmp_path}/file.csv, line 3: 'u ' is read as "
        "'u'",
        f"column 'item' holds ids with spaces around them, first in {tmp_path}/file.csv, line 2: ' a' is read as 'a'",
    )


def test_blanks_are_no_ids(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 3: column 'item' is empty"):
        read(write(tmp_path, "session,item\nu,a\nu,  \n"))


@pytest.mark.parametrize(
    "cell", ["x|y z", "\"['x', 'y', 'z']\"", '"[""x"", ""y"", ""z""]"', "\"['x' 'y' 'z']\"", "[x;y;z]"]
)
def test_lists_of_articles_are_read_as_written(tmp_path: Path, cell: str) -> None:
    posts, _ = read_posts(write(tmp_path, f"id,text,about\n1,the ferry,{cell}\n"))
    separators = str.maketrans("|;", "  ")
    assert " ".join(posts.record(0).about).translate(separators).split() == ["x", "y", "z"]


def test_times_of_32_bit_floats_are_refused(tmp_path: Path) -> None:
    times = pl.Series([1_700_000_000.0, 1_700_000_060.0], dtype=pl.Float32)
    pl.DataFrame({"session": ["u", "u"], "item": ["a", "b"], "time": times}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"log\.parquet row 1: time 1700000000 was rounded: column 'time' holds 32-bit"):
        read(tmp_path / "log.parquet")
    small = pl.Series([1.5, 3.0], dtype=pl.Float32)
    pl.DataFrame({"session": ["u", "u"], "item": ["a", "b"], "time": small}).write_parquet(tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet")[0].times.tolist() == [1.5, 3.0]


def test_durations_are_no_ids(tmp_path: Path) -> None:
    durations = pl.Series([1, 2], dtype=pl.Duration)
    pl.DataFrame({"session": ["u", "u"], "item": durations}).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"column 'item' \(item\) holds Duration.*; give texts or numbers"):
        read(tmp_path / "log.parquet")


def test_texts_before_their_labels_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a fine film\tgood\nno good\tbad\nso\tbad\n", "texts.tsv")
    with pytest.raises(DataError, match=r"texts\.tsv, line 1: 'a fine film' looks like a text and 'good' like its"):
        read_texts(path)
    texts, _ = read_texts(path, columns={"text": "1", "label": "2"})
    assert [text.texts[0] for text in texts.records()] == ["a fine film", "no good", "so"]


def test_sessions_of_several_users_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "user_id,session_id,item_id\nu,1,a\nu,2,b\nv,1,c\nv,1,d\n")
    assert telling_columns(path) == [
        "1 of 2 sessions holds events of several users ('user_id'): if the ids of sessions start again for each user, "
        "make one column of 'user_id' and 'session_id', or give --columns session=user_id"
    ]
    assert telling_columns(path, columns={"session": "user_id"}) == []


def test_numbers_with_spaces_around_them_are_times(tmp_path: Path) -> None:
    path = write(tmp_path, "session , item , time \n1 , a , 1700000000 \n1 , b , 1700000060 \n")
    (record,) = read(path)[0].records()
    assert (record.values, record.times) == (("a", "b"), (1_700_000_000.0, 1_700_000_060.0))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_headers_of_joined_files_are_no_rows(tmp_path: Path, mark: str) -> None:
    log = "session,item,time\n1,a,1700000000\n1,b,1700000060\n"
    sessions, report = read(write(tmp_path, log + mark + log.replace("\n1,", "\n2,"), "log.csv"))
    assert [record.values for record in sessions.records()] == [("a", "b"), ("a", "b")]
    assert f"1 repeated header left out, first {tmp_path / 'log.csv'}, line 4" in report.notes
    coded = "text,label\na good film,yes\na bad film,no\n"
    texts, _ = read_texts(write(tmp_path, coded + mark + coded, "coded.csv"))
    assert texts.labels is not None
    assert texts.labels.to_list() == ["yes", "no", "yes", "no"]


def test_a_tab_within_a_query_makes_no_list_of_queries(tmp_path: Path) -> None:
    path = write(tmp_path, "user,query,time\nu,ferry\ttimes,1700000000\nu,bus times,1700000010\n")
    sessions, report = read_queries(path, rules=QueryRules(min_queries=1))
    assert report.layout == "csv"
    assert [record.values for record in sessions.records()] == [("ferry times", "bus times")]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_needs_no_mark(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes("session,item,time\r\n1,a,1700000000\r\n1,ß,1700000060\r\n".encode(encoding))
    assert [record.values for record in read(path)[0].records()] == [("a", "ß")]


def test_a_carriage_return_within_a_field(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label\na good\rfilm,yes\na bad film,no\n")
    texts, _ = read_texts(path)
    assert texts.texts[0].to_list() == ["a good\rfilm", "a bad film"]


def test_a_time_of_day_without_its_date_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "session,item,time\n1,a,10:00:00\n1,b,10:01:00\n")
    with pytest.raises(DataError, match="line 2: time '10:00:00' has no date; write date and time of day into one"):
        read(path)


@pytest.mark.parametrize("cell", ["", "NaT"])
def test_rows_without_a_time_are_left_out_if_that_is_asked_for(tmp_path: Path, cell: str) -> None:
    rows = "".join(f"{number},{item},{cell if item == 'b' else 1_700_000_000}\n" for number in (1, 2) for item in "abc")
    path = write(tmp_path, "session,item,time\n" + rows)
    sessions, report = read(path, missing="drop")
    assert [record.values for record in sessions.records()] == [("a", "c"), ("a", "c")]
    assert any(warning.startswith("2 of 6 events have no time") for warning in report.warnings)
    queries = path.read_text().replace("session,item", "user,query")
    kept, _ = read_queries(write(tmp_path, queries, "q.csv"), rules=QueryRules(min_queries=1), missing="drop")
    assert [record.values for record in kept.records()] == [("a", "c"), ("a", "c")]


SHOPS = {
    "an online shop": (
        "event_time,event_type,product_id,user_id,user_session\n2024-03-05 09:00:00 UTC,view,p,u,s\n",
        {"session": "user_session", "item": "product_id", "time": "event_time"},
    ),
    "invoices": (
        "InvoiceNo,StockCode,Description,InvoiceDate,CustomerID\n1,p,a lamp,2024-03-05 09:00,17850\n",
        {"session": "CustomerID", "item": "StockCode", "time": "InvoiceDate"},
    ),
    "Google Analytics": (
        "event_date,event_timestamp,user_pseudo_id,item_id\n20240305,1709629200000000,u,p\n",
        {"session": "user_pseudo_id", "item": "item_id", "time": "event_timestamp"},
    ),
}


@pytest.mark.parametrize(("text", "columns"), SHOPS.values(), ids=SHOPS.keys())
def test_exports_of_shops_are_logs(tmp_path: Path, text: str, columns: dict[str, str]) -> None:
    path = write(tmp_path, text)
    assert kind_of(path) == "sequences"
    histories, report = read(path)
    assert (report.columns, histories.times.tolist()) == (columns, [1_709_629_200])


def test_nested_columns_are_named_where_a_role_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path, '{"user_pseudo_id": "u", "event_params": [{"key": "page"}], "items": []}\n', "log.jsonl")
    with pytest.raises(DataError, match=r"nested columns are 'event_params', 'items': give .* one row per event, or"):
        read(path)
