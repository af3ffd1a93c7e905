"""Files as strangers hold them: packed without end, from Excel, in old encodings, with cut emoji and odd tables."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import threading
import zipfile
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import xlsxwriter
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from ensue.data.encodings import mend_halves
from ensue.data.packed import RATIO, memory_at_hand
from ensue.data.posts import read_articles, read_posts
from ensue.data.queries import read_queries
from ensue.data.tables import read
from ensue.data.texts import read_texts
from ensue.data.vectors import read_vectors
from ensue.errors import DataError, SettingError
from ensue.records import History

from .test_read import records, write

PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "xz": lzma.compress, "zst": zstd.compress}
LOG = "session,item,time\n1,a,5\n1,b,6\n"


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read(path)
    return str(caught.value).removeprefix(str(path))


# --- packed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PACKERS)
def test_packed_files_are_read(tmp_path: Path, name: str) -> None:
    histories, _ = read(write(tmp_path, PACKERS[name](LOG.encode())))
    assert records(histories) == [History(("a", "b"), (5.0, 6.0), "1")]


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
    monkeypatch.setattr("ensue.data.files.memory_at_hand", lambda: 2**20)
    assert refusal(Path("/dev/zero")).startswith(": does not end within 0.000524 GB, half of the memory at hand")


def test_a_document_of_json_may_stand_in_one_long_line(tmp_path: Path) -> None:
    posts, _ = read_posts(write(tmp_path, json.dumps([{"id": n, "text": f"{n} " * 200} for n in range(12_000)])))
    assert len(posts) == 12_000
    assert refusal(tmp_path / "clicks.csv")  # no log, and one line says so


def test_polars_never_unpacks_by_itself(tmp_path: Path) -> None:
    for magic in (b"x\x01", b"x\x9c", b"x\xda"):  # zlib
        assert refusal(write(tmp_path, magic + b"session,item\n1,2\n")).startswith(": is binary")


def test_memory_at_hand_is_some_and_not_all() -> None:
    assert 2**20 < memory_at_hand() < 2**50


def test_parquet_that_packs_more_rows_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.select(session=pl.repeat("a", 100_000), item=pl.repeat("b", 100_000))
    frame.write_parquet(tmp_path / "p")
    monkeypatch.setattr("ensue.data.files.memory_at_hand", lambda: 2**20)
    assert refusal(tmp_path / "p") == ": 100,000 rows of 2 columns need more memory than there is"


@pytest.mark.parametrize(("end", "mended"), [(b"\x15PAR1", True), (b"PAR1", True)])
def test_damaged_parquet_is_an_error_of_the_file(tmp_path: Path, end: bytes, mended: bool) -> None:
    pl.DataFrame({"session": ["a"], "item": ["b"]}).write_parquet(tmp_path / "p")
    path = write(tmp_path, (tmp_path / "p").read_bytes()[:-20] + end)
    for reader in (read, read_texts, read_queries, read_posts, read_articles):
        with pytest.raises(DataError, match="is damaged, or unusual in what it holds"):
            reader(path)


def test_a_panic_of_polars_is_an_error_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds\nin the middle")

    pl.DataFrame({"session": ["a"], "item": ["b"]}).write_parquet(tmp_path / "p")
    monkeypatch.setattr(pl, "read_parquet", panic)
    assert refusal(tmp_path / "p") == ": is damaged, or unusual in what it holds (index out of bounds)"


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
    assert refusal(path) == " row 3: column 'item' is empty; every event needs a value"


def test_posts_articles_and_queries_of_excel(tmp_path: Path) -> None:
    posts, _ = read_posts(workbook(tmp_path / "p", [["id", "text"], [1, "a post"], [2, "another"]]))
    assert posts.ids.to_list() == ["1", "2"]
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
    assert "is empty, or has a header at best" in refusal(tmp_path / "x")
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
    assert re.search(r"sheet1.xml spans 17,179,869,184 cells; delete what stands far out", refusal(edited))


# --- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path: Path, encoding: str) -> None:
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    path = write(tmp_path, mark + "session,item,time\r\n1,Käse 🧀,5\r\n1,b,6\r\n".encode(encoding))
    histories, understood = read(path)
    assert records(histories) == [History(("Käse 🧀", "b"), (5.0, 6.0), "1")]
    assert understood.byte_order_mark
    assert all(note.startswith("read as utf-16") for note in understood.notes)


@pytest.mark.parametrize(
    "content",
    [
        '{"values": ["a", "b"], "times": [5, 6], "id": "1"}\n',
        '{"session": 1, "item": "a", "time": 5}\n{"session": 1, "item": "b", "time": 6}\n',
        "a,b:5,6\n",
        "a,5 b,6\n",
        "1,a,5,b,6\n",
    ],
)
def test_a_mark_before_any_layout(tmp_path: Path, content: str) -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        histories, understood = read(write(tmp_path, content.encode(encoding)))
        assert [record.values for record in records(histories)] == [("a", "b")]
        assert understood.byte_order_mark


def test_a_file_without_a_mark_carries_none(tmp_path: Path) -> None:
    assert not read(write(tmp_path, LOG))[1].byte_order_mark


def test_cp1252_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label\n„Käse“ – 5 €,good\nb,bad\n".encode("cp1252"))
    with pytest.raises(DataError, match=r":2: not UTF-8 text; save the file as UTF-8, or name .* --encoding cp1252"):
        read_texts(path)
    texts, understood = read_texts(path, encoding="cp1252")
    assert texts.texts[0][0] == "„Käse“ – 5 €"
    assert understood.notes == ("read as cp1252",)
    with pytest.raises(SettingError, match="encoding 'cp12525' is not known; cp1252, latin-1 and utf-16 are"):
        read_texts(path, encoding="cp12525")
    with pytest.raises(SettingError, match="encoding 'base64' is not known"):
        read_texts(path, encoding="base64")
    with pytest.raises(DataError, match=r":2: not cp1252 \(.*\); name another"):
        read_texts(write(tmp_path, b"text,label\na\x81,1\n"), encoding="cp1252")


def test_half_a_character_of_utf16_is_replaced_and_said(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label\na\ud83d,x\nb,y\n".encode("utf-16", "surrogatepass"))
    texts, understood = read_texts(path)
    assert texts.texts[0].to_list() == ["a\ufffd", "b"]
    assert any("broken or cut in two" in note for note in understood.notes)


# --- half a character ------------------------------------------------------------------------------------------------

HALF = r"\ud83d"  # of 🧀, 🙂 and many others
WHOLE = r"\ud83e\uddc0"  # 🧀
NOTE = ", as cut emoji leave, replaced by \ufffd"


@given(st.text(st.sampled_from('a\\"u\ud83d\ude00🧀\ud800\udfffd83'), max_size=12))
def test_halves_are_what_python_calls_halves(text: str) -> None:
    """UTF-16 says the same of which halves belong together."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    mended, count = mend_halves(json.dumps(text).encode())
    assert json.loads(bytes(mended)) == whole
    assert count == whole.count("\ufffd")


def test_half_an_emoji_in_a_log(tmp_path: Path) -> None:
    lines = f'{{"session":"1","item":"a{HALF}","time":1}}\n{{"session":"1","item":"b{WHOLE}","time":2}}\n'
    histories, understood = read(write(tmp_path, lines))
    assert records(histories)[0].values == ("a\ufffd", "b🧀")
    assert understood.notes == (f"1 half of a character{NOTE}",)
    histories, understood = read(write(tmp_path, f'{{"values":["{HALF}{HALF}","\\\\{HALF[1:]}"],"id":"{HALF}x"}}\n'))
    # A backslash of its own before u is no half of anything.
    assert records(histories) == [History(("\ufffd\ufffd", "\\ud83d"), (), "\ufffdx")]
    assert understood.notes == (f"3 halves of characters{NOTE}",)


def test_half_an_emoji_in_texts_queries_posts_and_articles(tmp_path: Path) -> None:
    texts, of_texts = read_texts(write(tmp_path, f'{{"text":"a{HALF}","label":"x"}}\n{{"text":"b","label":"y"}}\n'))
    assert texts.texts[0].to_list() == ["a\ufffd", "b"]
    path = write(tmp_path, "".join(f'{{"user":"u","query":"a{HALF} {n}","time":{n}}}\n' for n in (1, 2)))
    queries, of_queries = read_queries(path)
    assert all("a\ufffd" in value for value in records(queries.histories)[0].values)
    posts, of_posts = read_posts(write(tmp_path, f'{{"id_str":"1","full_text":"a {HALF}","user":{{}}}}\n'))
    assert posts.texts.to_list() == ["a \ufffd"]
    articles, of_articles = read_articles(write(tmp_path, f'[{{"id":"1","body":"a {HALF}"}}]'))
    assert articles.bodies.to_list() == ["a \ufffd"]
    for understood in (of_texts, of_queries, of_posts, of_articles):
        assert any(note.endswith(NOTE) for note in understood.notes), understood


def test_half_an_emoji_in_a_nested_post(tmp_path: Path) -> None:
    data = f'{{"desc":"say {HALF}","deep":["{HALF[:-4]}de00"]}}'  # the second half alone
    post = f'{{"item_id":"1","nav_index":"1","source_platform":"x","data":{data}}}\n'
    posts, understood = read_posts(write(tmp_path, post))
    assert posts.texts.to_list() == ["say \ufffd"]
    assert json.loads(posts.originals()["json"][0])["data"]["deep"] == ["\ufffd"]
    assert understood.notes == (f"2 halves of characters{NOTE}",)


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "session,item,time\n007,a,5\n007,b,6\n",
        "SESSION_ID;ITEM_ID;TIMESTAMP\n007;a;5\n007;b;6\n",
        "session,item,time,,\n007,a,5,,\n007,b,6,,\n",
        "session,item,time,\n007,a,5\n007,b,6,\n",
        "session,item,time\n007,a,5,\n007,b,6,,\n",
        ",session,item,time\n0,007,a,5\n1,007,b,6\n",
        "session,item,time\r\n007,a,5\n007,b,6\r\n",
        "session,item,time\r007,a,5\r007,b,6\r",
        '"session","item","time"\n"007","a","5"\n"007","b","6"\n',
        "session;item;time\n007;a;5,0\n007;b;6,0\n",
        "session;item;time\n007;a;1970-01-01T00:00:05Z\n007;b;1970-01-01T02:00:06+02:00\n",
        "session\titem\ttime\n007\ta\t1970-01-01 00:00:05\n007\tb\t1969-12-31T19:00:06-0500\n",
    ],
)
def test_tables_of_strangers(tmp_path: Path, content: str) -> None:
    histories, _ = read(write(tmp_path, content))
    assert records(histories) == [History(("a", "b"), (5.0, 6.0), "007")]


def test_tables_of_texts_of_strangers(tmp_path: Path) -> None:
    for content in (
        'Text,Label,\n"a\r\nb",1,\nc,2,\n',
        'TEXT;LABEL\n"a\r\nb";1;\nc;2\n',
        ',text,label\n0,"a\r\nb",1\n1,c,2\n',
    ):
        texts, _ = read_texts(write(tmp_path, content))
        assert texts.texts[0].to_list() == ["a\r\nb", "c"], content
        assert texts.labels is not None and texts.labels.to_list() == ["1", "2"]


def test_large_numbers_stay_as_they_are(tmp_path: Path) -> None:
    number = "123456789012345678901234567890"
    lines = f'{{"session":{number},"item":18446744073709551615}}\n{{"session":{number},"item":-1}}\n'
    histories, _ = read(write(tmp_path, lines))
    assert records(histories) == [History(("18446744073709551615", "-1"), (), number)]


def test_numbers_beyond_all_bounds(tmp_path: Path) -> None:
    digits = "9" * 5000
    assert refusal(write(tmp_path, f'{{"session":{digits},"item":1,"time":1}}\n')).startswith(":1: not JSON (")
    lines = f'{{"session":"a","item":"b","time":{"9" * 400}}}\n'
    assert "umber" in refusal(write(tmp_path, lines))


# --- partly coded sheets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("text,label\na,1\nb,\nc,2\n", "1 of 3 rows have no label: left out"),
        ('text,label\na,1\n\nb,"  "\nd,\nc,2\n', "2 of 4 rows have no label: left out"),
        ("1\ta\n\tb\n2\tc\n", "1 of 3 rows have no label: left out"),
        ('{"text":"a","label":"1"}\n{"text":"b"}\n{"text":"c","label":"2"}\n', "1 of 3 rows have no label: left out"),
        ("__label__1 a\nb\n__label__2 c\n", "1 of 3 rows have no label: left out"),
    ],
)
def test_an_empty_label_is_left_out_and_counted(tmp_path: Path, content: str, expected: str) -> None:
    texts, understood = read_texts(write(tmp_path, content))
    assert [(record.texts, record.label) for record in texts.records()] == [(("a",), "1"), (("c",), "2")]
    assert expected in understood.notes
    every, understood = read_texts(write(tmp_path, content), unlabelled=True)
    assert ("b",) in [record.texts for record in every.records() if record.label is None]
    empty = content.count("\n\n")  # a row that holds nothing is asked about too
    sizes = expected.removesuffix(": left out").split(" of ")
    kept = [f"{int(sizes[0]) + empty} of {int(sizes[1].split()[0]) + empty}", sizes[1].split(maxsplit=1)[1]]
    assert " ".join(kept) in understood.notes


def test_a_sheet_that_is_not_coded_at_all_has_no_labels(tmp_path: Path) -> None:
    texts, understood = read_texts(write(tmp_path, "text,label\na,\nb,\n"))
    assert texts.labels is None and len(texts) == 2
    assert "no row has a label" in understood.notes


# --- errors quote little ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "session,item,time\n1,a,5\n1,b,\x1b[31m" + "x" * 5000 + "\n",
        "session,item,time\n1,a,2014-01-01\n1,b,\x07" + "x" * 5000 + "\n",
        "\x1b[2J" + "x" * 5000 + "\n1,2\n",
        ",".join(f"column{n}\x1b" + "y" * 300 for n in range(500)) + "\n" + ",".join("1" * 500) + "\n",
        "a:1\n\x1b" + "b" * 5000 + "\n",
        '{"session":"1","item":"a","time":1}\n{"session":"1","item":"b","time":"\\u001b' + "x" * 5000 + '"}\n',
        '{"values":["a"],"\\u001b' + "x" * 5000 + '":1}\n',
    ],
)
def test_an_error_quotes_at_most_200_characters_and_no_control(tmp_path: Path, content: str) -> None:
    message = refusal(write(tmp_path, content))
    assert message.isprintable(), message
    assert max(map(len, re.findall(r"'[^']*'", message)), default=0) <= 206  # 200, two quotes, an escape
    assert len(message) < 2200


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
