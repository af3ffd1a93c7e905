"""Files as strangers hold them: in old encodings, with cut emoji and odd tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensue import DataError, History, SettingError
from ensue.data.encodings import mend_halves
from ensue.data.posts.dataset import read_articles, read_posts
from ensue.data.queries import read_queries
from ensue.data.sequences import read
from ensue.data.texts import read_texts
from tests.data.files import LOG, records, refusal, write

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
    with pytest.raises(
        DataError, match=r", line 2: not UTF-8 text; save the file as UTF-8, or name .* --encoding cp1252"
    ):
        read_texts(path)
    texts, understood = read_texts(path, encoding="cp1252")
    assert texts.texts[0][0] == "„Käse“ – 5 €"
    assert understood.notes == ("read as cp1252",)
    with pytest.raises(SettingError, match="encoding 'cp12525' is not known; cp1252, latin-1 and utf-16 are"):
        read_texts(path, encoding="cp12525")
    with pytest.raises(SettingError, match="encoding 'base64' is not known"):
        read_texts(path, encoding="base64")
    with pytest.raises(DataError, match=r", line 2: not cp1252 \(.*\); use another encoding"):
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
    assert json.loads(mended[:]) == whole
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
    assert refusal(write(tmp_path, f'{{"session":{digits},"item":1,"time":1}}\n')).startswith(", line 1: not JSON (")
    lines = f'{{"session":"a","item":"b","time":{"9" * 400}}}\n'
    assert "umber" in refusal(write(tmp_path, lines))


# --- partly coded sheets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("text,label\na,1\nb,\nc,2\n", "1 of 3 rows has no label: left out"),
        ('text,label\na,1\n\nb,"  "\nd,\nc,2\n', "2 of 4 rows have no label: left out"),
        ("1\ta\n\tb\n2\tc\n", "1 of 3 rows has no label: left out"),
        ('{"text":"a","label":"1"}\n{"text":"b"}\n{"text":"c","label":"2"}\n', "1 of 3 rows has no label: left out"),
        ("__label__1 a\nb\n__label__2 c\n", "1 of 3 rows has no label: left out"),
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
