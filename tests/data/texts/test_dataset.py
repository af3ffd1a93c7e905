"""Texts: every layout by hand, and every refusal word for word."""

from __future__ import annotations

import csv
import gzip
import io
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from backports import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensue import DataError, SettingError, Text
from ensue.data.schema import ReadReport
from ensue.data.texts import Texts, read_texts
from tests.data.files import write

SNLI = (
    '{"gold_label":"neutral","sentence1":"A man.","sentence2":"He runs.","captionID":"c1","pairID":"c1#0"}\n'
    '{"gold_label":"-","sentence1":"A man.","sentence2":"He sits.","captionID":"c1","pairID":"c1#1"}\n'
    '{"gold_label":"entailment","sentence1":"A dog.","sentence2":"","captionID":"c2","pairID":"c2#0"}\n'
)
SS = "u1\t\tp1\t\t4\t\tgood food . <sssss> will come back .\nu2\t\tp1\t\t1\t\tbad .\nu3\t\tp2\t\t4\t\ta\ttab stays .\n"
IMDB = "neg/0\ttt1\t3\tWeak. <sssss> Very.\npos/7\ttt2\t10\tStrong.\n"
TREES = "(3 (2 It) (4 (2 really) (4 works)))\n\n(1 (2 It) (1 (2 1\\/2) (1 fails)))\n"


def rows(texts: Texts) -> list[tuple[object, ...]]:
    return [(record.label, *record.texts) for record in texts.records()]


def test_labelled_lines_by_hand(tmp_path: Path) -> None:
    # Quotes mean nothing, fields keep their spaces, a label may stand alone.
    texts, understood = read_texts(write(tmp_path, '\ufeff4\t"fine" , he said "ok\r\n0\t\n\n4\t  x \n', "any.csv"))
    assert rows(texts) == [("4", '"fine" , he said "ok'), ("0", ""), ("4", "  x ")]
    assert (understood.layout, understood.columns) == ("labelled lines", {"text": "text", "label": "label"})
    assert understood.notes == ("1 empty line skipped", "1 of 3 rows has a text without words: kept")
    assert (texts.ids, texts.groups, texts.paired, len(texts)) == (None, None, False, 3)


def test_a_label_that_could_name_a_column(tmp_path: Path) -> None:
    texts, _ = read_texts(write(tmp_path, "question\tWhat is it ?\ncomment\tSo it is .\n"))
    assert rows(texts) == [("question", "What is it ?"), ("comment", "So it is .")]


def test_labelled_pairs_by_hand(tmp_path: Path) -> None:
    texts, understood = read_texts(write(tmp_path, "neutral\tA man .\tHe runs .\nentailment\tA dog .\t\n"))
    assert rows(texts) == [("neutral", "A man .", "He runs ."), ("entailment", "A dog .", "")]
    assert texts.paired
    assert understood.columns == {"text": "text", "second": "second", "label": "label"}
    swapped, _ = read_texts(write(tmp_path, "a b\t1\nc d\t2\n"), columns={"text": "label", "label": "text"})
    assert rows(swapped) == [("1", "a b"), ("2", "c d")]


@pytest.mark.parametrize("packed", ["plain", "gzip", "zst"])
@pytest.mark.parametrize("name", ["reviews.csv", "reviews.txt", "reviews.parquet", "reviews.gz"])
def test_extensions_lie(tmp_path: Path, packed: str, name: str) -> None:
    content = b'label,text\n1,"a, ""b"""\n0,"two\nlines"\n'
    packing = {"plain": lambda: content, "gzip": lambda: gzip.compress(content), "zst": lambda: zstd.compress(content)}
    path = tmp_path / name
    path.write_bytes(packing[packed]())
    texts, understood = read_texts(path)
    assert rows(texts) == [("1", 'a, "b"'), ("0", "two\nlines")]
    assert understood == ReadReport(path=str(path), layout="csv", columns={"text": "text", "label": "label"}, notes=())


@pytest.mark.parametrize(
    ("header", "columns", "notes"),
    [
        ("Review,Sentiment", {"text": "Review", "label": "Sentiment"}, ()),
        ("id;stars;review_body", {"text": "review_body", "label": "stars", "id": "id"}, ()),
        ("premise\thypothesis\tlabel", {"text": "premise", "second": "hypothesis", "label": "label"}, ()),
        ("sentence1|sentence2|gold_label", {"text": "sentence1", "second": "sentence2", "label": "gold_label"}, ()),
        ("sentence\tlabel", {"text": "sentence", "label": "label"}, ()),
        ("text", {"text": "text"}, ()),
        ("movie_id,text,class", {"text": "text", "label": "class", "group": "movie_id"}, ()),
        (
            "text,body,label,stars",
            {"text": "text", "label": "label"},
            (
                "text is 'text'; 'body' would fit too; choose with --columns",
                "label is 'label'; 'stars' would fit too; choose with --columns",
            ),
        ),
    ],
)
def test_columns_by_their_names(tmp_path: Path, header: str, columns: dict[str, str], notes: tuple[str, ...]) -> None:
    names = re.split(r"[,;|\t]", header)
    separator = re.sub(r"\w", "", header)[:1]
    texts, understood = read_texts(write(tmp_path, f"{header}\n{separator.join('value of ' + n for n in names)}\n"))
    assert (understood.columns, understood.notes) == (columns, notes)
    assert texts.texts[0].to_list() == [f"value of {columns['text']}"]
    assert (texts.labels is None) == ("label" not in columns)


def test_stated_columns_win(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label,heading,topic\na,1,b,x\nc,2,d,y\n")
    texts, understood = read_texts(path, columns={"text": "heading", "label": "topic"})
    assert rows(texts) == [("x", "b"), ("y", "d")]
    assert understood.notes == ()
    pairs, _ = read_texts(path, columns={"second": "heading"})
    assert rows(pairs) == [("1", "a", "b"), ("2", "c", "d")]


def test_quotes_of_a_table_with_tabs(tmp_path: Path) -> None:
    # GLUE does not quote: one field opens with a quote and goes on after the next one.
    plain, _ = read_texts(write(tmp_path, 'sentence\tlabel\n"Gold" is best\t1\n"all"\t0\nsaid "no\t1\n'))
    assert plain.texts[0].to_list() == ['"Gold" is best', '"all"', 'said "no']
    # Others do: every field that opens with a quote closes with one, and quotes within are doubled.
    quoted, _ = read_texts(write(tmp_path, 'sentence\tlabel\n"a ""b""\tc"\t1\n"all"\t0\nsaid\t1\n'))
    assert quoted.texts[0].to_list() == ['a "b"\tc', "all", "said"]


def test_empty_rows_and_empty_texts(tmp_path: Path) -> None:
    texts, understood = read_texts(write(tmp_path, 'text,label\na,1\n\n,2\n" ",3\n'))
    assert rows(texts) == [("1", "a"), ("2", ""), ("3", " ")]
    assert understood.notes == ("1 empty row skipped", "2 of 3 rows have a text without words: kept")


def test_fasttext_by_hand(tmp_path: Path) -> None:
    texts, understood = read_texts(write(tmp_path, "__label__good a fine , film\n__label__bad\n__label__good\tx\n"))
    assert rows(texts) == [("good", "a fine , film"), ("bad", ""), ("good", "x")]
    assert understood.layout == "fasttext"


def test_snli_by_hand(tmp_path: Path) -> None:
    texts, understood = read_texts(write(tmp_path, SNLI))
    assert rows(texts) == [("neutral", "A man.", "He runs."), ("entailment", "A dog.", "")]
    assert texts.ids is not None and texts.ids.to_list() == ["c1#0", "c2#0"]
    assert texts.groups is not None and texts.groups.to_list() == ["c1", "c2"]
    assert understood.layout == "snli"
    assert understood.notes == (
        "1 row left out: label '-', fewer than two of three annotators agreed",
        "1 of 2 rows has a text without words: kept",
    )


def test_json_lines(tmp_path: Path) -> None:
    texts, understood = read_texts(write(tmp_path, '{"text":"a \\"b\\"","stars":5,"x":[1]}\n\n{"stars":1}\n'))
    assert rows(texts) == [("5", 'a "b"'), ("1", "")]
    assert (understood.layout, understood.columns) == ("jsonl", {"text": "text", "label": "stars"})


@given(
    st.sampled_from([1, 2]).flatmap(lambda n: st.lists(st.tuples(*[st.text(max_size=9)] * n), min_size=1, max_size=5))
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_records_and_back(tmp_path: Path, many: list[tuple[str, ...]]) -> None:
    records = [Text(texts, f"label {i}", f"id {i}") for i, texts in enumerate(many)]
    path = write(tmp_path, "".join(record.to_json() + "\n" for record in records))
    texts, understood = read_texts(path)
    assert understood.layout == "jsonl texts"
    assert list(texts.records()) == records == list(Texts.of(records).records())


def test_records_without_labels(tmp_path: Path) -> None:
    texts, _ = read_texts(write(tmp_path, '{"texts":["a","b"]}\n{"texts":["c",""]}\n'))
    assert list(texts.records()) == [Text(("a", "b")), Text(("c", ""))]
    assert texts.labels is None and texts.ids is None


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=9), st.text("ab", min_size=1)
        ),
        min_size=1,
    ),
    st.sampled_from(",;\t"),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_tables_and_back(tmp_path: Path, many: list[tuple[str, str]], separator: str) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([("text", "label"), *many])
    texts, _ = read_texts(write(tmp_path, stream.getvalue()))
    assert rows(texts) == [(label, text) for text, label in many]


def test_parquet(tmp_path: Path) -> None:
    frame = pl.DataFrame({"text": ["a", None], "label": [1, 0], "id": [7, 8]})
    frame.write_parquet(tmp_path / "p.csv")
    texts, understood = read_texts(tmp_path / "p.csv")
    assert list(texts.records()) == [Text(("a",), "1", "7"), Text(("",), "0", "8")]
    assert understood.layout == "parquet"


def test_ss_by_hand(tmp_path: Path) -> None:
    texts, understood = read_texts(write(tmp_path, SS))
    assert rows(texts) == [("4", "good food . <sssss> will come back ."), ("1", "bad ."), ("4", "a\ttab stays .")]
    assert texts.groups is not None and texts.groups.to_list() == ["p1", "p1", "p2"]
    assert (understood.layout, understood.columns["label"]) == ("ss", "rating")
    by_user, _ = read_texts(write(tmp_path, SS), columns={"group": "user"})
    assert by_user.groups is not None and by_user.groups.to_list() == ["u1", "u2", "u3"]


def test_imdb_by_hand(tmp_path: Path) -> None:
    texts, understood = read_texts(write(tmp_path, IMDB))
    assert list(texts.records()) == [Text(("Weak. <sssss> Very.",), "neg", "neg/0"), Text(("Strong.",), "pos", "pos/7")]
    assert texts.groups is not None and texts.groups.to_list() == ["tt1", "tt2"]
    assert understood.layout == "imdb"
    rated, understood = read_texts(write(tmp_path, IMDB), columns={"label": "rating"})
    assert rated.labels is not None and rated.labels.to_list() == ["3", "10"]
    assert understood.columns == {"text": "text", "label": "rating", "id": "id", "group": "movie"}


def test_trees_by_hand(tmp_path: Path) -> None:
    texts, understood = read_texts(write(tmp_path, TREES))
    assert rows(texts) == [("3", "It really works"), ("1", "It 1/2 fails")]
    assert (understood.layout, understood.notes, texts.groups) == ("trees", (), None)
    phrases, understood = read_texts(write(tmp_path, TREES), phrases=True)
    # (2 It) stands in both trees with one label: it counts once, in the group of line 1.
    assert rows(phrases) == [
        ("3", "It really works"),
        ("2", "It"),
        ("4", "really works"),
        ("2", "really"),
        ("4", "works"),
        ("1", "It 1/2 fails"),
        ("1", "1/2 fails"),
        ("2", "1/2"),
        ("1", "fails"),
    ]
    assert phrases.groups is not None and phrases.groups.to_list() == ["1"] * 5 + ["3"] * 4
    assert understood.notes == ("10 phrases; left out as copies with the same label: 1",)


def test_a_field_of_a_megabyte_is_read_whole(tmp_path: Path) -> None:
    long = "word " * 210_000
    for content in (
        f"label,text\n1,{long}\n",
        f"1\t{long}\n",
        f'{{"label":"1","text":"{long}"}}\n',
        f"__label__1 {long}\n",
    ):
        texts, _ = read_texts(write(tmp_path, content))
        assert rows(texts) == [("1", long)]
    # A mistake after it is still found on its own line.
    with pytest.raises(DataError, match=r", line 3: 1 field, but the header has 2"):
        read_texts(write(tmp_path, f"label,text\n1,{long}\n2\n"))


def test_labels_that_are_no_labels_are_noted(tmp_path: Path) -> None:
    _, understood = read_texts(write(tmp_path, "".join(f"{i}\tsome text\n" for i in range(20))))
    assert understood.notes == ("each of the 20 rows has a different label; is this the label column?",)


LINES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", ": is empty"),
    "white": (" \n\n", ": is empty"),
    "header only": ("text,label\n", ": has a header but no text"),
    "header only, tabs": ("text\tlabel\n", ": has a header but no text"),
    "too few": ("1\ta\n2\n", ", line 2: 1 field, but the file begins with 2: label TAB text"),
    "too many": (
        "1\ta\tb\n\n2\ta\tb\tc\n",
        ", line 3: 4 fields, but the file begins with 3: label TAB text TAB second",
    ),
    "ss": (
        SS + "u\t\tp\t\t3\n",
        ", line 4: 3 fields, but the file begins with 4: user TAB TAB product TAB TAB rating TAB TAB text",
    ),
    "imdb": (
        IMDB + "pos/1\ttt1\t9\n",
        ", line 3: 3 fields, but the file begins with 4: id TAB movie TAB rating TAB text",
    ),
    "csv few": ("text,label\na,1\nb\n", ", line 3: 1 field, but the header has 2; is a quote missing?"),
    "csv many": ("text,label\na,1\nb, c,1\n", ", line 3: 3 fields, but the header has 2; is a quote missing?"),
    "tsv few": ('text\tlabel\n"a" b\t1\nb\n', ", line 3: 1 field, but the header has 2; is a quote missing?"),
    "open quote": (
        'text,label\na,1\n"b,1\nc,2\n',
        ", line 3: a quote is left open; close it, and double the quotes within a field",
    ),
    "stray quote": (
        'text,label\na,1\n"b" c,1\n',
        ", line 3: a quote is inside a quoted field; close it, and double the quotes within a field",
    ),
    "twice": ("text,label,text\na,1,b\n", ", line 1: column 'text' appears twice; rename one"),
    "no names": (
        "\nfoo,bar\na,1\n",
        ": no column is recognised as the text; the columns are 'foo', 'bar'; name them with --columns text=…,label=…",
    ),
    "encoding": (
        b"1\ta\n2\tb\xff\n",
        ", line 2: not UTF-8 text; save the file as UTF-8, or name its encoding, as in --encoding cp1252",
    ),
    "encoding, csv": (
        b"text,label\na,1\nb\xff,2\n",
        ", line 3: not UTF-8 text; save the file as UTF-8, or name its encoding, as in --encoding cp1252",
    ),
    "encoding, tree": (
        b"(1 a)\n(1 b\xff)\n",
        ", line 2: not UTF-8 text; save the file as UTF-8, or name its encoding, as in --encoding cp1252",
    ),
    "tree open": (
        "(1 (2 a) (2 b))\n(1 (2 a)\n",
        ", line 2: a parenthesis is not closed; write one complete tree per line",
    ),
    "tree open first": ("(1 (2 a) (2 b)\n", ", line 1: a parenthesis is not closed; write one complete tree per line"),
    "tree closed": ("(1 a)\n\n(1 (2 a)))\n", ", line 3: ')' is outside the tree; is there one parenthesis too many?"),
    "tree word": ("(1 a)\n(1 a) b\n", ", line 2: 'b' is outside the tree; is there one parenthesis too many?"),
    "tree silent": (
        "(1 a)\n(1 (2 ) (2 b))\n",
        ", line 2: a phrase has no words; write (label word) or (label (…) (…))",
    ),
    "tree unlabelled": ("(1 a)\n((2 a) (2 b))\n", ", line 2: a phrase has no label; write one tree per line"),
    "tree two": ("(1 a)\n(1 a) (2 b)\n", ", line 2: two trees; write one tree per line"),
    "json": ('{"text":"a"}\n{"text":\n', ", line 2: not JSON ("),
    "json list": ('{"text":"a"}\n[1]\n', ", line 2: not a JSON object; expected one object per line"),
    "json nested": (
        '{"text":["a"]}\n',
        ": field 'text' holds something other than a text or a number; give texts or numbers",
    ),
    "json names": (
        '{"words":"a","y":1}\n',
        ": no column is recognised as the text; the columns are 'words', 'y'; name them with --columns text=…,label=…",
    ),
    "texts": (
        '{"texts":["a"]}\n{"texts":["a","b"]}\n',
        ", line 2: 2 texts; give one text in every line, or two in every line",
    ),
    "texts three": (
        '{"texts":["a","b","c"]}\n',
        ", line 1: 3 texts; give one text in every line, or two in every line",
    ),
    "texts number": ('{"texts":["a"]}\n{"texts":7}\n', ', line 2: field "texts" must be a list of one or two texts'),
    "binary": (
        b"\x7fELF\0\0\0",
        ": is binary, neither text nor Parquet; give CSV, TSV, JSON Lines, Parquet, Feather, Excel or cascades",
    ),
    "parquet": (b"PAR1 cut short", ": is damaged or has unusual content ("),
}


@pytest.mark.parametrize(("content", "expected"), LINES.values(), ids=LINES.keys())
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_message(tmp_path: Path, content: str | bytes, expected: str, packed: bool) -> None:
    raw = content.encode() if isinstance(content, str) else content
    path = write(tmp_path, gzip.compress(raw) if packed else raw)
    with pytest.raises(DataError) as caught:
        read_texts(path)
    message = str(caught.value)
    assert "\n" not in message
    shown = message.removeprefix(str(path))
    assert shown == expected or (expected.endswith("(") and shown.startswith(expected))


def test_parquet_names_the_row(tmp_path: Path) -> None:
    pl.DataFrame({"text": [["a"]]}).write_parquet(tmp_path / "p")
    with pytest.raises(DataError, match=r"p: column 'text' \(text\) holds List\(String\); give texts or numbers"):
        read_texts(tmp_path / "p")


def test_settings(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label\na,1\n")
    with pytest.raises(SettingError, match="role 'value' is not known; the roles are text, second, label, labels, id"):
        read_texts(path, columns={"value": "text"})
    with pytest.raises(SettingError, match="columns: text, text names one column twice; give each role its own"):
        read_texts(path, columns={"text": "text", "label": "text"})
    with pytest.raises(SettingError, match="only trees have labelled phrases; leave phrases out"):
        read_texts(path, phrases=True)
    with pytest.raises(SettingError, match="the layout trees has no named columns; remove --columns"):
        read_texts(write(tmp_path, TREES), columns={"text": "a"})
    with pytest.raises(DataError, match=r"column 'mood' \(label\) is missing; the columns are 'label', 'text'"):
        read_texts(write(tmp_path, "1\ta\n"), columns={"label": "mood"})
    with pytest.raises(DataError, match=r"field|column 'mood' \(label\) is missing; the columns are 'text', 'y'"):
        read_texts(write(tmp_path, '{"text":"a","y":1}\n'), columns={"label": "mood"})


def test_columns_of_records() -> None:
    with pytest.raises(DataError, match="text 1: 2 texts after 1; give single texts, or pairs"):
        Texts.of([Text(("a",)), Text(("a", "b"))])
    with pytest.raises(DataError, match="text 1: give every text a label, or none"):
        Texts.of([Text(("a",), "x"), Text(("b",))])
    assert len(Texts.of([])) == 0


def test_select() -> None:
    text, labels, ids, groups = (pl.Series(list(column)) for column in ("abc", "xyz", "123", "ggh"))
    texts = Texts((text,), labels, ids, groups)
    expected = [Text((text,), label, name) for text, label, name in zip("abc", "xyz", "123", strict=True)]
    assert list(texts.records()) == expected
    assert list(texts.select(np.array([2, 0])).records()) == [expected[2], expected[0]]
    assert list(texts.select(np.array([False, True, True])).records()) == expected[1:]
    kept = texts.select(slice(1, 3))
    assert kept.groups is not None and kept.groups.to_list() == ["g", "h"]


def test_a_label_before_a_space_by_hand(tmp_path: Path) -> None:
    text = "DESC:manner How did it begin ?\nENTY:cremat What films ?\n\nDESC:manner How ?\nENTY:cremat Which ?\n"
    texts, understood = read_texts(write(tmp_path, text))
    assert understood.layout == "labelled words"
    assert understood.notes == ("1 empty line skipped", "the label is the word before the first space of a line")
    assert [(record.label, *record.texts) for record in texts.records()][:2] == [
        ("DESC:manner", "How did it begin ?"),
        ("ENTY:cremat", "What films ?"),
    ]
    texts, _ = read_texts(write(tmp_path, "4 a  fine film\n-1 a dull one\n4 fine\n-1 dull\n"))
    assert texts.labels is not None and texts.labels.to_list() == ["4", "-1", "4", "-1"]
    assert texts.texts[0][0] == "a  fine film"


def test_numbered_lines_have_no_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "1 the first\n2 the second\n3 the third\n4 the fourth\n")
    with pytest.raises(DataError, match="give label TAB text, NUMBER text, or a header"):
        read_texts(path)
    with pytest.raises(DataError, match=r", line 121: 'five' has no label before its text; .* look like '1 one'"):
        read_texts(write(tmp_path, "1 one\n0 two\n" * 60 + "five\n"))
    with pytest.raises(DataError, match="does not match a known layout"):
        read_texts(write(tmp_path, "1 one\n0 two\n1 three\n0 four\nfive\n"))


def test_quoted_columns_without_a_header_by_hand(tmp_path: Path) -> None:
    rows = '"3","Oil, again","Prices ""rise"",\nthey say"\n"1","Votes","A count"\n'
    texts, understood = read_texts(write(tmp_path, rows))
    assert (understood.layout, understood.columns) == ("labelled csv", {"text": "title + text", "label": "label"})
    assert understood.notes == (
        "no header: the columns are read as label, title, text; title and text are joined into one text; choose "
        "others with --columns label=label,text=text",
    )
    assert [(record.label, *record.texts) for record in texts.records()] == [
        ("3", 'Oil, again Prices "rise",\nthey say'),
        ("1", "Votes A count"),
    ]
    pairs, _ = read_texts(write(tmp_path, rows), columns={"label": "label", "text": "title", "second": "text"})
    assert pairs.record(1).texts == ("Votes", "A count")
    texts, understood = read_texts(write(tmp_path, '2,"a fine film"\n1,"a dull one"\n'))
    assert [*texts.texts[0]] == ["a fine film", "a dull one"]
    assert understood.notes == ("no header: the columns are read as label, text",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"3","a","b"\n"3","a"\n', ", line 2: 2 fields, but the layout has 3"),
        ('"3","a","b","c","d"\n', ", line 1: 5 fields without a header; give label,text or label,title,text"),
    ],
)
def test_quoted_columns_that_do_not_fit(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_texts(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_sick_by_hand(tmp_path: Path) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    texts, understood = read_texts(write(tmp_path, f"{header}7\tA man rests\tA man sleeps\t4.1\tNEUTRAL\n"))
    assert texts.record(0) == Text(("A man rests", "A man sleeps"), "NEUTRAL", "7")
    assert understood.columns == {
        "text": "sentence_A", "second": "sentence_B", "label": "entailment_judgment", "id": "pair_ID",
    }  # fmt: skip
