"""Posts and articles: every layout by hand, what is left out counted and said, and every refusal word for word."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ensue import Article, DataError, Post, SettingError
from ensue.data.markup import only_links
from ensue.data.posts.dataset import Articles, Posts, read_articles, read_posts
from tests.data.files import write

DATA = Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[3] / "../shared/data")) / "links"
real = pytest.mark.skipif(not DATA.is_dir(), reason=f"no real links at {DATA}; set ENSUE_DATA")

# One sentence in 20 languages and 12 scripts.
LANGUAGES = [
    *("The ferry sails at night", "Die Fähre fährt nachts", "Le ferry navigue de nuit", "El ferri navega de noche"),
    *("O ferry navega à noite", "Il traghetto naviga di notte", "Färjan går på natten", "Prom kursuje nocą"),
    *("Feribot gece sefer yapar", "Phà chạy vào ban đêm", "Паром ходит ночью", "Пором ходить уночі"),
    *("Το πλοίο ταξιδεύει νύχτα", "العبارة تبحر ليلا", "המעבורת מפליגה בלילה", "फ़ेरी रात में चलती है"),
    *("ফেরি রাতে চলে", "渡轮在夜间航行", "フェリーは夜に運航する", "เรือข้ามฟากแล่นตอนกลางคืน"),
]


def lines(*found: Any) -> str:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in found)


def rows(posts: Posts) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(record.id, record.text, record.about) for record in posts.records()]


@pytest.mark.parametrize("packed", [False, True])
def test_a_table_by_hand(tmp_path: Path, packed: bool) -> None:
    text = 'Tweet_ID,likes,Full Text,about,split\n7,3,"a, ""b""",x|y,train\n8,4,two,,test\n,,,,\n9,5,three,y,test\n'
    path = write(tmp_path, gzip.compress(text.encode()) if packed else text)
    posts, understood = read_posts(path)
    assert rows(posts) == [("7", 'a, "b"', ("x", "y")), ("8", "two", ()), ("9", "three", ("y",))]
    assert posts.parts is not None and posts.parts.to_list() == ["train", "test", "test"]
    assert (understood.layout, understood.rows, understood.notes) == ("csv", 3, ("1 empty row skipped",))
    assert understood.columns == {"text": "Full Text", "id": "Tweet_ID", "about": "about", "part": "split"}
    kept = posts.select(np.array([2, 0])).extended(pl.DataFrame({"likes": [1, 2], "probability": [0.5, 0.25]}))
    # The file's columns stay, in its words; a name that is taken gets another.
    assert kept.columns == ["Tweet_ID", "likes", "Full Text", "about", "split", "ensue_likes", "probability"]
    assert kept.rows() == [("9", "5", "three", "y", "test", 1, 0.5), ("7", "3", 'a, "b"', "x|y", "train", 2, 0.25)]


def test_tabs_and_parquet_say_the_same(tmp_path: Path) -> None:
    tabs, _ = read_posts(write(tmp_path, 'id\tbody\n1\t"no" she said\n2\tyes\n', "posts.txt"))
    assert rows(tabs) == [("1", '"no" she said', ()), ("2", "yes", ())]
    assert tabs.extended(pl.DataFrame({"p": [1, 2]})).rows() == [("1", '"no" she said', 1), ("2", "yes", 2)]
    frame = pl.DataFrame({"id": [1, 2], "text": ["a", "b"], "about": [["x", "y"], []], "other": [5, 6]})
    frame.write_parquet(tmp_path / "posts.parquet")
    posts, understood = read_posts(tmp_path / "posts.parquet")
    assert rows(posts) == [("1", "a", ("x", "y")), ("2", "b", ())]
    assert understood.layout == "parquet"
    assert posts.select(slice(1, 2)).extended(pl.DataFrame({"p": [0.5]})).rows() == [(2, "b", [], 6, 0.5)]


def test_json_lines_by_hand(tmp_path: Path) -> None:
    path = write(tmp_path, lines({"id": 1, "text": "a", "about": [3, "x"]}, {"id": "2", "text": "b", "likes": [1]}))
    posts, understood = read_posts(path)
    assert rows(posts) == [("1", "a", ("3", "x")), ("2", "b", ())]
    assert understood.layout == "jsonl"
    found = posts.extended(pl.DataFrame({"about": ["q", "r"], "p": [0.5, None]}))["json"].to_list()
    assert json.loads(found[0]) == {"id": 1, "text": "a", "about": [3, "x"], "ensue_about": "q", "p": 0.5}
    assert json.loads(found[1]) == {"id": "2", "text": "b", "likes": [1], "ensue_about": "r", "p": None}


def test_a_stated_path_into_json(tmp_path: Path) -> None:
    path = write(tmp_path, lines({"n": {"t": "deep"}, "text": "shallow"}, {"n": {"t": "down"}, "text": "up"}))
    posts, _ = read_posts(path, columns={"text": "n.t"})
    assert posts.texts.to_list() == ["deep", "down"]


def tweet(name: str, **more: Any) -> dict[str, Any]:
    return {"id_str": name, "user": {"screen_name": "u"}, **more}


# layout, lines, (id, text) of the posts
LAYOUTS: list[tuple[str, list[Any], list[tuple[str, str]]]] = [
    (
        "twarc v1",
        [
            tweet("1", full_text="whole &amp; all"),
            tweet("2", text="cut…", extended_tweet={"full_text": "not cut"}),
            tweet("3", full_text="RT @a: what was sa…", retweeted_status=tweet("1", full_text="what was said")),
        ],
        [("1", "whole & all"), ("2", "not cut"), ("3", "RT @a: what was said")],
    ),
    (
        "twarc v2",
        [
            {
                "data": [
                    {"id": "1", "text": "cut…", "author_id": "5", "note_tweet": {"text": "a long note"}},
                    {
                        "id": "2",
                        "text": "RT @b: the fir…",
                        "author_id": "5",
                        "referenced_tweets": [{"type": "retweeted", "id": "9"}],
                    },
                ],
                "includes": {"tweets": [{"id": "9", "text": "the first of all"}]},
            },
            {"id": "3", "text": "flat", "author_id": "6"},
        ],
        [("1", "a long note"), ("2", "RT @b: the first of all"), ("3", "flat")],
    ),
    (
        "zeeschuimer",
        [
            {"item_id": "1", "source_platform": "x.com", "nav_index": "", "data": {"legacy": {"full_text": "a tweet"}}},
            {"item_id": "2", "source_platform": "instagram.com", "data": {"caption": {"text": "a caption"}}},
            {"item_id": "3", "source_platform": "tiktok.com", "data": {"desc": "a video", "id": "33"}},
            {"item_id": "4", "source_platform": "linkedin.com", "data": {"commentary": {"text": {"text": "a job"}}}},
            {"id": "5", "desc": "flattened by 4CAT", "__import_meta": {}},
        ],
        [("1", "a tweet"), ("2", "a caption"), ("3", "a video"), ("4", "a job"), ("5", "flattened by 4CAT")],
    ),
    (
        "bluesky",
        [
            {"uri": "at://1", "record": {"text": "a post"}},
            {"feed": [{"post": {"uri": "at://2", "record": {"text": "of a feed"}}}]},
            {"posts": [{"uri": "at://3", "record": {"text": "of a search"}}], "cursor": "x"},
            {
                "did": "did:4",
                "commit": {"collection": "app.bsky.feed.post", "rkey": "k", "record": {"text": "of the jetstream"}},
            },
        ],
        [
            ("at://1", "a post"),
            ("at://2", "of a feed"),
            ("at://3", "of a search"),
            ("at://did:4/app.bsky.feed.post/k", "of the jetstream"),
        ],
    ),
]


@pytest.mark.parametrize(("layout", "found", "wanted"), LAYOUTS, ids=[row[0] for row in LAYOUTS])
@pytest.mark.parametrize("document", [False, True])
def test_collectors(
    tmp_path: Path, layout: str, found: list[Any], wanted: list[tuple[str, str]], document: bool
) -> None:
    text = json.dumps(found, indent=2) if document else lines(*found)
    posts, understood = read_posts(write(tmp_path, text, "dump.csv"))
    assert understood.layout == layout
    assert [(name, text) for name, text, _ in rows(posts)] == wanted
    originals = posts.extended(pl.DataFrame({"p": [1.0] * len(posts)}))["json"]
    assert all(json.loads(line)["p"] == 1.0 and "__includes" not in line for line in originals)


def test_a_4cat_table_reads_the_subject_where_the_body_is_empty(tmp_path: Path) -> None:
    path = write(
        tmp_path, "id,thread_id,timestamp,subject,body\n1,1,2020-01-01,Ferry,\n2,1,2020-01-01,Ferry,It sails\n"
    )
    posts, understood = read_posts(path)
    assert rows(posts) == [("1", "Ferry", ()), ("2", "It sails", ())]
    assert understood.notes == ("1 of 2 posts has no text: the title is read",)


def test_media_cloud_has_titles_only(tmp_path: Path) -> None:
    path = write(
        tmp_path, "id,language,media_name,publish_date,title,url\na1,en,M,2024-01-01,Ferry &amp; port,http://x\n"
    )
    articles, understood = read_articles(path)
    assert list(articles.records()) == [Article("Ferry & port", "a1", "Ferry & port")]
    assert articles.texts.to_list() == ["Ferry & port"]
    assert understood.layout == "media cloud"
    assert understood.notes == (
        "1 of 1 title held HTML tags or entities: stripped to words",
        "1 of 1 article has no body: the title is read",
    )


def test_articles_by_hand(tmp_path: Path) -> None:
    found = [
        {"id": 0, "title": "T", "body": ["One.", "Two."], "claim": "c"},
        {"id": 1, "title": "Only a title", "body": []},
        {"id": 2, "title": "", "body": "<p>Three &lt; four</p><script>no()</script>"},
        {"id": 3, "title": "", "body": " "},
    ]
    articles, understood = read_articles(write(tmp_path, lines(*found)))
    assert list(articles.records()) == [
        Article("c\nOne.\nTwo.", "0", "T"),  # a claim is a summary: the first paragraph
        Article("Only a title", "1", "Only a title"),
        Article("Three < four", "2", ""),
    ]
    assert articles.texts.to_list() == ["T\nc\nOne.\nTwo.", "Only a title", "Three < four"]
    assert understood.sentences == ["1 of 4 rows has no text: left out"]
    assert articles.select(np.array([False, True, False])).ids.to_list() == ["1"]


def test_what_says_nothing_is_left_out_and_said(tmp_path: Path) -> None:
    found = [
        {"id": 1, "text": "kept"},
        {"id": 2, "text": "  "},
        {"id": 3, "text": None},
        {"id": 4, "text": "https://t.co/x www.y.org @me !!"},
        {"id": 1, "text": "kept"},
        {"id": 1, "text": "another text"},
        {"id": 7, "text": "seven"},
        {"id": 8, "text": "eight"},
        {"id": "", "text": "nameless"},
    ]
    posts, understood = read_posts(write(tmp_path, lines(*found)))
    assert rows(posts) == [("1", "kept", ()), ("7", "seven", ()), ("8", "eight", ()), ("9", "nameless", ())]
    assert understood.dropped == {"empty": 2, "only_links": 1, "repeated": 1, "double_ids": 1}
    assert len(posts) + sum(understood.dropped.values()) == understood.rows == 9
    assert understood.sentences == [
        "2 of 9 rows have no text: left out",
        "1 of 9 rows holds nothing but links and mentions: left out",
        "1 of 9 rows repeats an earlier row, id and text: left out",
        "1 of 9 rows has the id of an earlier row and another text: left out",
    ]
    assert understood.notes == ("1 of 9 rows has no id: the row number is used",)
    assert posts.rows.tolist() == [0, 6, 7, 8]


def test_twenty_languages_stay_as_they_are(tmp_path: Path) -> None:
    posts, understood = read_posts(write(tmp_path, lines(*({"text": text} for text in LANGUAGES))))
    assert posts.texts.to_list() == LANGUAGES
    assert len(set(LANGUAGES)) == 20 and not understood.sentences


def test_an_article_of_two_hundred_thousand_words_is_read_whole(tmp_path: Path) -> None:
    body = "word " * 199_999 + "end"
    articles, _ = read_articles(write(tmp_path, lines({"id": "long", "body": body})))
    assert articles.bodies.to_list() == [body]


def test_only_links_by_hand() -> None:
    texts = pl.Series(["http://a.b", "www.a.b @me …", "see http://a.b", "@me", "…", "https://a.b 渡"])
    assert only_links(texts).to_list() == [True, True, False, False, False, False]


def test_records_and_columns() -> None:
    records = [Post("a", "1", ("x", "y")), Post("b", "", ("z",)), Post("c", "3")]
    posts = Posts.of(records)
    assert list(posts.records()) == [records[0], Post("b", "2", ("z",)), records[2]]
    assert list(posts.select(np.array([1, 0])).records()) == [Post("b", "2", ("z",)), records[0]]
    articles = Articles.of([Article("b", "y"), Article("b", "x", "t")])
    pairs, unknown = posts.pairs(articles)
    # Post 0 is about x, number 1, and y, number 0; post 1 about z, which is not there.
    assert (pairs.tolist(), unknown) == ([[1, 0], [0, 0]], 1)
    assert articles.texts.to_list() == ["b", "t\nb"]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (
            "a,b\n1,2\n",
            {},
            "no column is recognised as the text; the columns are 'a', 'b'; name them with --columns text=…,id=…",
        ),
        ("a,b\n1,2\n", {"text": "c"}, "column 'c' (text) is missing; the columns are 'a', 'b'"),
        (
            '{"text": "a"}\n{"text": \n',
            {},
            ", line 2: not JSON (Expecting value: line 2 column 1 (char 10)); expected one object per line",
        ),
        ("text\n", {}, "has one line, which can only be a header; give a header and one row per text"),
        ("[]", {}, "holds no post"),
        ('[{"text": "a"}', {}, "is not JSON (Expecting ',' delimiter: line 1 column 15 (char 14)); give JSON Lines"),
        ('{"text": ""}\n', {}, "no post is left after cleaning: 1 of 1 row has no text: left out"),
        (
            "id,text\n1,a\n1,b\n1,c\n1,d\n",
            {},
            ", line 3: id '1' is also the id of an earlier text, and most ids repeat; name the column of ids with "
            "--columns id=…",
        ),
    ],
)
def test_refused_files(tmp_path: Path, text: str, columns: dict[str, str], message: str) -> None:
    path = write(tmp_path, text, "posts.any")
    with pytest.raises(DataError) as error:
        read_posts(path, columns=columns)
    assert str(error.value).startswith(f"{path}{'' if message.startswith(',') else ': '}{message}")
    assert "\n" not in str(error.value)


def test_refused_settings_and_records(tmp_path: Path) -> None:
    path = write(tmp_path, "text,id\na,1\n")
    with pytest.raises(SettingError) as error:
        read_posts(path, columns={"label": "id"})
    assert str(error.value) == "columns: role 'label' is not known; the roles are text, id, title, about, part"
    with pytest.raises(SettingError) as error:
        read_posts(path, columns={"text": "id", "id": "id"})
    assert str(error.value) == "columns: id, id names one column twice; give each role its own"
    with pytest.raises(DataError) as refused:
        Posts.of([Post("a", "1"), Post("b", "1")])
    assert str(refused.value) == "post '1': the id appears twice; give each post its own"
    with pytest.raises(DataError) as refused:
        Articles.of([Article(" ", "x")])
    assert str(refused.value) == "article 'x': has neither body nor title; give it one"


@real
@pytest.mark.parametrize(
    ("name", "num_posts", "num_articles", "num_pairs"),
    [("politifact", 2026, 467, 2037), ("clickbait22", 2159, 2149, 2159)],
)
def test_real_links(name: str, num_posts: int, num_articles: int, num_pairs: int) -> None:
    posts, understood = read_posts(DATA / name / "posts.jsonl.gz")
    articles, _ = read_articles(DATA / name / "articles.jsonl.gz")
    pairs, unknown = posts.pairs(articles)
    assert (len(posts), len(articles), len(pairs), unknown) == (num_posts, num_articles, num_pairs, 0)
    assert not understood.sentences
    assert posts.parts is not None and set(posts.parts) == {"train", "valid", "test"}
