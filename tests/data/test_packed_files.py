"""Files that are packed, from pipes, Parquet or Excel: read up to a limit, and refused in one line."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import threading
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import pytest
import xlsxwriter

from ensue import DataError, History
from ensue.data.binary import require_small
from ensue.data.file_bytes import RATIO, memory_at_hand
from ensue.data.posts.dataset import read_articles, read_posts
from ensue.data.queries import read_queries
from ensue.data.sequences import read
from ensue.data.texts import read_texts
from ensue.text.vectors import read_vectors
from tests.data.files import LOG, PACKERS, records, refusal, write

# --- packed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PACKERS)
def test_packed_files_are_read(tmp_path: Path, name: str) -> None:
    histories, _ = read(write(tmp_path, PACKERS[name](LOG.encode())))
    assert records(histories) == [History(("a", "b"), (5.0, 6.0), "1")]


def test_a_feather_file_is_read_as_parquet_is(tmp_path: Path) -> None:
    times = [datetime(2024, 3, 5, 3, 28, 15), datetime(2024, 3, 5, 3, 28, 16)]
    frame = pl.DataFrame({"session": ["1", "1"], "item": ["a", "b"], "time": times})
    frame.with_columns(pl.col("item").cast(pl.Categorical)).write_ipc(tmp_path / "log.feather", compression="lz4")
    frame.write_parquet(tmp_path / "log.parquet")
    feather, parquet = (read(tmp_path / name)[0] for name in ("log.feather", "log.parquet"))
    assert records(feather) == records(parquet)
    (tmp_path / "log.feather").write_bytes((tmp_path / "log.feather").read_bytes()[:-20])
    assert refusal(tmp_path / "log.feather").startswith(": is damaged or has unusual content")


@pytest.mark.parametrize("name", PACKERS)
def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, name: str) -> None:
    # 40 MB of one letter: over 16 MiB, which is always let pass, and over 64 times what the packed file takes.
    packed = PACKERS[name](LOG.encode() + b"a" * 40_000_000)
    assert len(packed) * RATIO < 40_000_000
    path = write(tmp_path, packed)
    message = refusal(path)
    assert message.startswith(": unpacks to more than 0.0")
    assert message.endswith("64 times its own size or over; if you trust the file, allow more with --max-unpacked GB")
    with pytest.raises(DataError, match=r"unpacks to more than 0\.03 GB, as allowed by --max-unpacked"):
        read(path, max_unpacked=0.03)
    with pytest.raises(DataError, match="longer than 8 MiB"):  # it is looked into, and found wanting
        read(path, max_unpacked=0.05)


@pytest.mark.parametrize("name", PACKERS)
def test_half_a_packed_file_and_one_packed_twice(tmp_path: Path, name: str) -> None:
    packed = PACKERS[name]("".join(f"{n},a,{n * 7919 % 1000}\n" for n in range(9999)).encode())
    assert refusal(write(tmp_path, packed[: len(packed) // 2])).endswith("fetch or pack the file again")
    for outer in PACKERS.values():
        assert refusal(write(tmp_path, outer(packed))) == ": is packed twice; unpack it once"


def test_a_pipe_is_read_and_one_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for content in (LOG.encode(), gzip.compress(LOG.encode())):
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
        writer.start()
        histories, _ = read(tmp_path / "pipe")
        writer.join()
        assert records(histories) == [History(("a", "b"), (5.0, 6.0), "1")]
    monkeypatch.setattr("ensue.data.file_bytes.memory_at_hand", lambda: 2**20)
    with subprocess.Popen(["yes", "1,a,5"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        path = Path(f"/dev/fd/{endless.stdout.fileno()}")
        assert refusal(path).startswith(": does not end within 0.000524 GB, half of the available memory")
        endless.kill()


def test_a_document_of_json_may_stand_in_one_long_line(tmp_path: Path) -> None:
    posts, _ = read_posts(write(tmp_path, json.dumps([{"id": n, "text": f"{n} " * 200} for n in range(12_000)])))
    assert len(posts) == 12_000
    assert refusal(tmp_path / "clicks.csv")  # no log, and one line says so


def test_polars_never_unpacks_by_itself(tmp_path: Path) -> None:
    for magic in (b"x\x01", b"x\x9c", b"x\xda"):  # zlib
        assert refusal(write(tmp_path, magic + b"session,item\n1,2\n")).startswith(": is binary")


def test_memory_at_hand_is_some_and_not_all() -> None:
    assert 2**20 < memory_at_hand() < 2**50


@pytest.mark.parametrize("compression", ["zstd", "gzip", "brotli"])
def test_parquet_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, compression: Literal["zstd", "gzip", "brotli"]
) -> None:
    frame = pl.DataFrame({"session": ["a", "a"], "item": ["b" * 40_000_000, "c"]})
    frame.write_parquet(tmp_path / "p", compression=compression)
    message = refusal(tmp_path / "p")
    assert message.startswith(": unpacks to more than 0.0") and "--max-unpacked GB" in message
    histories, _ = read(tmp_path / "p", max_unpacked=1)
    assert len(records(histories)[0].values) == 2


def test_the_footer_of_parquet_counts_what_its_row_groups_hold(tmp_path: Path) -> None:
    # 100 numbers of 8 bytes in each of 10 groups: 8,000 bytes and the heads of 10 pages, of some dozens each.
    rows = pl.select(pl.int_range(1000, dtype=pl.Int64).alias("n").shuffle(seed=0) * 2**40)
    rows.write_parquet(tmp_path / "p", row_group_size=100, compression="uncompressed", statistics=False)
    data = (tmp_path / "p").read_bytes()
    require_small(tmp_path / "p", data, 10_000, "")
    with pytest.raises(DataError, match=r"unpacks to more than 7.99e-06 GB"):
        require_small(tmp_path / "p", data, 7_990, "")
    for cut in range(1, 200):  # damage is named where it is seen; the rest is for polars to tell
        try:
            require_small(tmp_path / "p", data[: -8 - cut] + data[-8:], 2**40, "")
        except DataError as error:
            assert "is damaged (" in str(error) and "\n" not in str(error)


def test_parquet_that_packs_more_rows_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.select(session=pl.repeat("a", 100_000), item=pl.repeat("b", 100_000))
    frame.write_parquet(tmp_path / "p")
    monkeypatch.setattr("ensue.data.files.memory_at_hand", lambda: 2**20)
    assert refusal(tmp_path / "p") == ": 100,000 rows of 2 columns do not fit into memory"


@pytest.mark.parametrize(("end", "mended"), [(b"\x15PAR1", True), (b"PAR1", True)])
def test_damaged_parquet_is_an_error_of_the_file(tmp_path: Path, end: bytes, mended: bool) -> None:
    pl.DataFrame({"session": ["a"], "item": ["b"]}).write_parquet(tmp_path / "p")
    path = write(tmp_path, (tmp_path / "p").read_bytes()[:-20] + end)
    for reader in (read, read_texts, read_queries, read_posts, read_articles):
        with pytest.raises(DataError, match="is damaged or has unusual content"):
            reader(path)


def test_a_panic_of_polars_is_an_error_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds\nin the middle")

    pl.DataFrame({"session": ["a"], "item": ["b"]}).write_parquet(tmp_path / "p")
    monkeypatch.setattr(pl, "scan_parquet", panic)
    assert refusal(tmp_path / "p") == ": is damaged or has unusual content (index out of bounds)"


# --- Excel -----------------------------------------------------------------------------------------------------------


def workbook(path: Path, *sheets: list[list[object]]) -> Path:
    with xlsxwriter.Workbook(str(path), {"default_date_format": "yyyy-mm-dd hh:mm"}) as book:
        for rows in sheets:
            sheet = book.add_worksheet()
            for number, row in enumerate(rows):
                for place, cell in enumerate(row):
                    if isinstance(cell, date):
                        sheet.write_datetime(number, place, cell)
                    elif cell is not None:
                        sheet.write(number, place, cell)
    return path


def test_a_log_of_excel(tmp_path: Path) -> None:
    day = datetime(2024, 3, 1, 10, 5)
    path = workbook(
        tmp_path / "log.xlsx",
        [["session", "item", "time"], ["007", 12, day], ["007", 1.5, day.replace(minute=6)], ["8", "x", day]],
    )
    histories, understood = read(path)
    # 2024-03-01 10:05 is 1709287500 seconds since 1970; whole numbers have no point, texts keep their zeros.
    assert records(histories) == [
        History(("12", "1.5"), (1709287500.0, 1709287560.0), "007"),
        History(("x",), (1709287500.0,), "8"),
    ]
    assert understood.byte_order_mark
    assert understood.time.startswith("ISO dates")
    assert understood.layout == "excel"


def test_days_and_sheets_of_excel(tmp_path: Path) -> None:
    path = workbook(
        tmp_path / "x",
        [["text", "label", "id"], ['a\nb, "c"', "good", date(2024, 3, 1)], ["d", "bad", date(2024, 3, 2)]],
        [["text", "label"], ["other", "x"], ["sheet", "y"]],
    )
    texts, understood = read_texts(path)
    assert [record.texts for record in texts.records()] == [('a\nb, "c"',), ("d",)]
    assert texts.ids is not None and texts.ids.to_list() == ["2024-03-01", "2024-03-02"]
    assert understood.notes == ("sheet 'Sheet1' of 2; name another with --sheet",)
    texts, understood = read_texts(path, sheet="Sheet2")
    assert texts.texts[0].to_list() == ["other", "sheet"]
    assert understood.notes == ()
    with pytest.raises(DataError, match="has no sheet 'Sheet3'; the sheets are 'Sheet1', 'Sheet2'"):
        read_texts(path, sheet="Sheet3")


def test_a_row_of_excel_is_named_as_excel_does(tmp_path: Path) -> None:
    path = workbook(tmp_path / "x", [["session", "item"], ["1", "a"], ["2", None]])
    assert (
        refusal(path)
        == " row 3: column 'item' is empty; every event needs the item: leave such rows out with --missing drop"
    )


@pytest.mark.parametrize(
    ("above", "note"),
    [
        ([["Report of March"]], "row 1 above the header left out"),
        ([[], [None, "Report"], []], "rows 1 to 3 above the header left out"),
        ([[], []], "rows 1 to 2 above the header left out"),
    ],
)
def test_a_sheet_with_rows_above_its_header(above: list[list[object]], note: str, tmp_path: Path) -> None:
    rows: list[list[object]] = [["session", "item", "time"], ["1", "a", 1], ["1", "b", 2]]
    histories, understood = read(workbook(tmp_path / "x", [*above, *rows]))
    assert records(histories) == [History(("a", "b"), (1.0, 2.0), "1")]
    assert understood.notes == (note,)
    place = len(above) + 3  # the second row of data, from 1, under the header
    workbook(tmp_path / "x", [*above, *rows[:2], ["1", None, 2]])
    assert (
        refusal(tmp_path / "x")
        == f" row {place}: column 'item' is empty; every event needs the item: leave such rows out with --missing drop"
    )


def test_a_sheet_of_one_column_has_no_title(tmp_path: Path) -> None:
    texts, understood = read_texts(workbook(tmp_path / "x", [["text"], ["a b"], ["c"]]), unlabelled=True)
    assert texts.texts[0].to_list() == ["a b", "c"] and understood.notes == ()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(("first", "between"), [(b"sep=;", b";"), (b'"sep=,"', b","), (b"sep=\t", b"\t")])
def test_the_line_that_excel_names_its_separator_in(first: bytes, between: bytes, mark: bytes, tmp_path: Path) -> None:
    table = b"session;item;time\n1;a;1\n1;b;2\n".replace(b";", between)
    histories, understood = read(write(tmp_path, mark + first + b"\r\n" + table))
    assert records(histories) == [History(("a", "b"), (1.0, 2.0), "1")]
    note = first.decode().strip('"').replace("\t", "\\t")
    assert understood.notes == (f"a first line {note}, as Excel writes and reads, left out",)
    # lines keep the numbers that an editor gives them: the fifth is one field short
    assert refusal(write(tmp_path, first + b"\n" + table + b"2\n")).startswith(
        ", line 5: 1 field, but the header has 3"
    )


def test_posts_articles_and_queries_of_excel(tmp_path: Path) -> None:
    posts, understood = read_posts(workbook(tmp_path / "p", [["id", "text"], [1, "a post"], [2, "another"]]))
    assert posts.ids.to_list() == ["1", "2"]
    assert understood.layout == "excel"
    articles, _ = read_articles(workbook(tmp_path / "a", [["id", "title", "body"], [1, "t", "a body"]]))
    assert articles.bodies.to_list() == ["a body"]
    log: list[list[object]] = [
        ["user", "query", "time"],
        ["u", "a", datetime(2024, 3, 1, 10)],
        ["u", "b", datetime(2024, 3, 1, 10, 1)],
    ]
    queries, _ = read_queries(workbook(tmp_path / "q", log))
    assert records(queries.histories)[0].values == ("a", "b")


def test_what_is_no_workbook(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, b"\xd0\xcf\x11\xe0" + bytes(99))).startswith(": is an old Office file; save it as")
    assert refusal(write(tmp_path, b"PK\x03\x04" + bytes(99))) == ": is a damaged archive; fetch it again"
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("log.csv", LOG)
    assert refusal(tmp_path / "z").startswith(": is an archive without an Excel workbook; unpack it")
    workbook(tmp_path / "x", [["session", "item"]])
    assert "is empty or holds only a header" in refusal(tmp_path / "x")
    whole = workbook(tmp_path / "x", [["session", "item"], ["1", "a"]]).read_bytes()
    for cut in (len(whole) // 3, len(whole) // 2, len(whole) - 30):
        assert re.search("damaged|unusual", refusal(write(tmp_path, whole[:cut])))


def test_a_workbook_that_unpacks_to_too_much_or_spans_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = workbook(tmp_path / "x", [["session", "item"], ["1", "a"]])
    with zipfile.ZipFile(plain, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/image.bmp", bytes(40_000_000))
    assert "unpacks to more than" in refusal(plain)
    far = workbook(tmp_path / "y", [["session", "item"], ["1", "a"]])
    edited = tmp_path / "far"
    with zipfile.ZipFile(far) as old, zipfile.ZipFile(edited, "w") as new:
        for part in old.infolist():
            new.writestr(part, old.read(part).replace(b'r="B2"', b'r="XFD1048576"'))
    assert re.search(r"sheet1.xml spans 17,179,869,184 cells; delete cells far outside", refusal(edited))


# --- vectors ----------------------------------------------------------------------------------------------------------


def test_vectors_in_one_endless_line(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(b"word " + b"1 " * 40_000_000))
    with pytest.raises(DataError, match="a line is longer than 8 MiB"):
        read_vectors(path, ["word"])


def test_vectors_in_an_archive_of_another_kind(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", vectors=np.ones((1, 2)), words=np.array(["word"]))
    data = (tmp_path / "v.npz").read_bytes()
    at = data.index(b"PK\x01\x02")
    for place, value in ((at + 6, 175), (at + 8, 1)):  # a version that nobody can read, a part that is locked
        changed = write(tmp_path, data[:place] + bytes([value]) + data[place + 1 :])
        with pytest.raises(DataError, match="the npz is damaged"):
            read_vectors(changed, ["word"])
