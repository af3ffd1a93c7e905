"""HTML in texts of every reader: tags go, words and code stay."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ensue import Text
from ensue.data.markup import strip_markup
from ensue.data.queries import read_queries
from ensue.data.texts import Texts, read_texts
from ensue.tasks.classify.predictor import ClassifyPredictor


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<p>Hello&nbsp;<b>big</b> world</p><div>two<br>three</div>", "Hello big world\ntwo\nthree"),
        ("One.<br /><br />Two", "One.\nTwo"),
        ("AT&amp;T caf&eacute; &lt;b&gt;", "AT&T café <b>"),
        ("fine &lt;br /&gt;&lt;br /&gt;film", "fine\nfilm"),
        ("I &lt;3 you &#128512; &quot;so&quot; &#39;much&#39;", "I <3 you 😀 \"so\" 'much'"),
        ("<style>p {}</style>left <!-- not --> over <user> <b", "left over <user> <b"),
        ('see <a href="https://a.org/?x=1&copy=2">this page</a>!', "see this page!"),
        ('<img src="a.png" alt="x">a picture', "a picture"),
        ("<ul><li>one<li>two</ul>", "one\ntwo"),
        ("a <EM>very</EM> good film", "a very good film"),
        ("x < y<br>List<i> and a<b", "x < y\nList<i> and a<b"),
    ],
)
def test_markup_goes(text: str, plain: str) -> None:
    column = pl.Series([text, "plain"])
    assert strip_markup(column)[0].to_list() == [plain, "plain"]
    assert strip_markup(column)[1] == 1
    assert column.to_list() == [text, "plain"]  # what was given is not written to


@pytest.mark.parametrize(
    "text",
    [
        "a < b & c <3 <user> R&D",
        "if (a<b && c>d) return x<y;",
        "vector<int> v; List<i> w; template<class T>",
        "how do I center a <div>, and what is <b>?",
        "https://a.org/?a=1&copy=2&lt=3",
        "-lrb- &amp ; the end",
        "2<3 and 5>4 <- -> <= >=",
        "<3 <3 </3",
    ],
)
def test_what_is_no_markup_stays(text: str) -> None:
    assert strip_markup(pl.Series([text] * 70))[0].to_list() == [text] * 70


def test_nulls_stay() -> None:
    assert strip_markup(pl.Series([None, "<br>a"]))[0].to_list() == [None, "a"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_every_reader_of_texts_strips(tmp_path: Path, suffix: str) -> None:
    path, text = tmp_path / f"x.{suffix}", "One.<br /><br />Two &amp; <i>three</i>"
    if suffix == "csv":
        pl.DataFrame({"text": [text], "label": ["a"]}).write_csv(path)
    elif suffix == "tsv":
        path.write_text(f"a\t{text}\nb\tplain\n")
    elif suffix == "jsonl":
        path.write_text(json.dumps({"texts": [text], "label": "a"}) + "\n")
    else:
        pl.DataFrame({"text": [text], "label": ["a"]}).write_parquet(path)
    texts, report = read_texts(path)
    assert texts.texts[0][0] == "One.\nTwo & three"
    assert "HTML tags and entities removed from 1 text" in report.notes
    assert Texts.of([Text((text,))]).texts[0][0] == "One.\nTwo & three"


def test_what_is_asked_is_stripped_too() -> None:
    predictor = ClassifyPredictor("tfidf")
    for _ in predictor.fit(
        Texts.of([Text((f"{'fine' if n % 2 else 'dull'} film {n}",), str(n % 2)) for n in range(20)])
    ):
        pass
    plain, marked = predictor.predict([Text(("a fine film",)), Text(("a <b>fine</b> film<br>",))])
    assert (marked.in_vocabulary, marked.events, marked.choices[0].score) == (
        plain.in_vocabulary,
        plain.events,
        plain.choices[0].score,
    )


def test_queries_are_stripped(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    rows = [
        f"u{user},{query},{user * 10 + place}"
        for user in range(6)
        for place, query in enumerate(["a &amp; b", "<b>red</b> boat"])
    ]
    path.write_text("user,query,time\n" + "\n".join(rows) + "\n")
    queries, report = read_queries(path)
    assert set(queries.histories.vocabulary.values) == {"a & b", "red boat"}
    assert "HTML tags and entities removed from 2 distinct queries" in report.notes
