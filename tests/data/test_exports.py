"""Exports of collectors and platforms: read once as records, from which every task takes what it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ensue import DataError
from ensue.data.kinds import kind_of
from ensue.data.posts.dataset import read_articles, read_posts
from ensue.data.queries import read_queries
from ensue.data.sequences import read
from ensue.data.texts import read_texts

LINK = "https://news.example/bridge"
FORWARDED = ["The bridge ", {"type": "link", "text": LINK}, " again"]
TELEGRAM = {
    "name": "Harrowmere",
    "type": "private_group",
    "messages": [
        {"id": 1, "type": "service", "date": "2026-03-01T08:00:00", "actor": "Ann", "text": ""},
        *(
            {"id": 2 + at, "type": "message", "date": f"2026-03-01T09:0{at}:00", "from": name, "text": FORWARDED}
            for at, name in enumerate(("Ann", "Bob"))
        ),
        {"id": 4, "type": "message", "date": "2026-03-01T09:05:00", "from": "Cid", "text": "no ferry today"},
    ],
}
NOTE = {"id": "https://m.example/1", "type": "Note", "content": "<p>no <b>ferry</b> today</p>"}
OUTBOX = {
    "type": "OrderedCollection",
    "orderedItems": [
        {"id": "a/1", "type": "Create", "actor": "ann", "published": "2026-03-01T09:00:00Z", "object": NOTE},
        {"id": "a/2", "type": "Announce", "actor": "ann", "published": "2026-03-01T09:01:00Z", "object": "b/7"},
    ],
}
REDDIT = [
    {"id": f"t{at}", "author": name, "subreddit": "h", "created_utc": 1772355600 + at, "title": "Closed", "url": LINK}
    | {"selftext": "[removed]", "is_self": False}
    for at, name in enumerate(("ann", "bob"))
]
RETWEETS = [
    {"id": str(at), "text": "RT @ann: no ferry", "author": {"username": name}, "conversation_id": str(at)}
    | {"created_at": f"2026-03-01T09:0{at}:00Z", "public_metrics": {}, "referenced_tweets": shared}
    for at, (name, shared) in enumerate(
        (("ann", []), ("bob", [{"type": "retweeted", "id": "0"}]), ("cid", [{"type": "retweeted", "id": "0"}]))
    )
]
YOUTUBE = {
    "kind": "youtube#commentThreadListResponse",
    "items": [
        {
            "kind": "youtube#commentThread",
            "snippet": {"videoId": "v1", "topLevelComment": {"id": "c1", "snippet": {"videoId": "v1"} | comment}},
            "replies": {"comments": [{"id": "c2", "snippet": {"videoId": "v1", "parentId": "c1"} | answer}]},
        }
        for comment, answer in [
            (
                {"textOriginal": "no ferry", "authorDisplayName": "@ann", "publishedAt": "2026-03-01T09:00:00Z"},
                {"textOriginal": "a bus", "authorDisplayName": "@bob", "publishedAt": "2026-03-01T09:01:00Z"},
            )
        ]
    ],
}
BLUESKY = [
    {
        "uri": f"at://{name}/1",
        "author": {"handle": name},
        "record": {"text": "no ferry", "createdAt": f"2026-03-0{day}"},
    }
    for day, name in ((1, "ann"), (2, "bob"))
]
SHARED = [post | {"record": post["record"] | {"embed": {"external": {"uri": LINK}}}} for post in BLUESKY]  # type: ignore[operator]
TAKEOUT = "Comment ID,Channel ID,Comment Create Timestamp,Post ID,Video ID,Comment Text\n" + (
    'c1,UC1,2026-03-01T09:00:00Z,,v1,"{""text"":""no ""},{""text"":""ferry""}"\n'
)
ARCHIVE = 'window.YTD.tweets.part0 = [ {\n "tweet" : ' + (
    '{"id_str": "7", "full_text": "no ferry", "created_at": "Sun Mar 01 09:00:00 +0000 2026", "entities": {}} } ]'
)
CSV_4CAT = "id,thread_id,timestamp,body,author,urls\n" + "".join(
    f'{at},{at},2026-03-01 09:0{at}:00,no ferry,{name},"{LINK},https://other.example"\n'
    for at, name in enumerate(("ann", "bob"))
)
CSV_REDDIT = f"id,author,created_utc,title,selftext,subreddit,url\nt1,ann,1772355600,Closed,,h,{LINK}\n" + (
    f"t2,bob,1772355601,Shut,the bridge,h,{LINK}\n"
)


def lines(posts: Sequence[object]) -> str:
    return "".join(json.dumps(post) + "\n" for post in posts)


# the file, its layout, the texts, and who passes on what next
EXPORTS: dict[str, tuple[str, str, tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "Telegram": (
        json.dumps(TELEGRAM, indent=1),
        "telegram",
        (f"The bridge {LINK} again", f"The bridge {LINK} again", "no ferry today"),
        {LINK: ("Ann", "Bob")},
    ),
    "Telegram, all chats": (
        json.dumps({"chats": {"list": [TELEGRAM]}}),
        "telegram",
        (f"The bridge {LINK} again", f"The bridge {LINK} again", "no ferry today"),
        {LINK: ("Ann", "Bob")},
    ),
    "Reddit": (lines(REDDIT), "reddit", ("Closed", "Closed"), {LINK: ("ann", "bob")}),
    "retweets whose conversation is their own": (
        lines(RETWEETS),
        "twarc v2",
        ("RT @ann: no ferry",) * 3,
        {"0": ("ann", "bob", "cid")},
    ),
    "YouTube": (json.dumps(YOUTUBE, indent=2), "youtube", ("no ferry", "a bus"), {"v1": ("@ann", "@bob")}),
    "Bluesky": (lines(SHARED), "bluesky", ("no ferry", "no ferry"), {LINK: ("ann", "bob")}),
    "4CAT": (CSV_4CAT, "4cat", ("no ferry", "no ferry"), {LINK: ("ann", "bob")}),
    "Reddit, a table": (CSV_REDDIT, "reddit csv", ("Closed", "the bridge"), {LINK: ("ann", "bob")}),
}


def write(folder: Path, text: str) -> Path:
    path = folder / "export"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", EXPORTS)
def test_every_task_takes_what_it_needs(tmp_path: Path, name: str) -> None:
    text, layout, texts, cascades = EXPORTS[name]
    path = write(tmp_path, text)
    assert kind_of(path) == "posts"
    posts, report = read_posts(path, every=True)
    assert (report.layout, tuple(posts.texts)) == (layout, texts)
    histories, understood = read(path)
    assert understood.layout == layout and histories.timed
    assert {record.id: record.values for record in histories.records()} == cascades
    with pytest.raises(DataError, match=rf"is an export of posts \({layout}\), which holds no searches; give a log of"):
        read_queries(path)


@pytest.mark.parametrize("name", EXPORTS)
def test_texts_of_an_export_have_no_labels(tmp_path: Path, name: str) -> None:
    text, _, texts, _ = EXPORTS[name]
    data, _ = read_texts(write(tmp_path, text), unlabelled=True)
    assert data.labels is None and len(data) == len(texts)


def test_labels_that_were_added_to_an_export_are_read(tmp_path: Path) -> None:
    posts = [post | {"label": label} for post, label in zip(BLUESKY, ("calm", "angry"), strict=True)]
    data, _ = read_texts(write(tmp_path, lines(posts)))
    assert data.labels is not None and [*data.labels] == ["calm", "angry"]


def test_markup_of_an_outbox_is_stripped_for_every_task(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(OUTBOX, indent=1))
    posts, report = read_posts(path)
    assert ([*posts.texts], [*posts.ids], report.layout) == (["no ferry today"], ["https://m.example/1"], "mastodon")
    texts, understood = read_texts(path, unlabelled=True)
    assert [*texts.texts[0]] == ["no ferry today", ""]
    assert "1 of 2 texts held HTML tags or entities: stripped to words" in understood.notes


def test_messages_are_articles_too(tmp_path: Path) -> None:
    articles, _ = read_articles(write(tmp_path, json.dumps(TELEGRAM)))
    assert [*articles.bodies] == [f"The bridge {LINK} again", f"The bridge {LINK} again", "no ferry today"]


def test_an_export_that_shows_no_cascade_is_refused(tmp_path: Path) -> None:
    expected = re.escape(
        "is an export of posts (bluesky) in which no two authors pass on one post, share a link or write in one "
        "conversation, so it does not show who passes on what next; give an export with reposts or links"
    )
    with pytest.raises(DataError, match=expected):
        read(write(tmp_path, lines(BLUESKY)))


def test_two_kinds_of_cascades_are_asked_for(tmp_path: Path) -> None:
    posts = [post | {"entities": {"urls": [{"expanded_url": LINK}]}} for post in RETWEETS]
    path = write(tmp_path, lines(posts))
    choices = "session=repost_of,item=author,time=time or session=shared_link,item=author,time=time"
    with pytest.raises(DataError, match=f"in more than one way; choose with --columns {choices}"):
        read(path)
    histories, understood = read(path, columns={"session": "shared_link"})
    assert {record.id: record.values for record in histories.records()} == {LINK: ("ann", "bob", "cid")}
    assert understood.columns == {"session": "shared_link", "item": "author", "time": "time"}


@pytest.mark.parametrize(
    ("text", "layout", "name"), [(TAKEOUT, "youtube takeout", "c1"), (ARCHIVE, "twarc v1", "7")], ids=["Takeout", "X"]
)
def test_what_one_account_wrote(tmp_path: Path, text: str, layout: str, name: str) -> None:
    path = write(tmp_path, text)
    assert kind_of(path) == "posts"
    posts, report = read_posts(path)
    assert (report.layout, [*posts.texts], [*posts.ids]) == (layout, ["no ferry"], [name])
    assert [*read_texts(path, unlabelled=True)[0].texts[0]] == ["no ferry"]
    with pytest.raises(DataError, match="no two authors pass on one post"):
        read(path)


def activities(*urls: str | None) -> str:
    rows = [
        {"header": "YouTube", "title": "t", "time": f"2026-03-01T09:0{9 - at}:00.5Z", "products": ["YouTube"]}
        | ({} if url is None else {"titleUrl": url})
        for at, url in enumerate(urls)
    ]
    return json.dumps(rows, indent=1)


def test_what_one_account_watched_is_a_sequence(tmp_path: Path) -> None:
    path = write(tmp_path, activities("https://v.example/b", None, "https://v.example/a"))
    assert kind_of(path) == "sequences"
    histories, report = read(path)
    assert (report.layout, histories.record(0).values) == ("takeout", ("https://v.example/a", "https://v.example/b"))


def test_what_one_account_searched_is_a_log_of_queries(tmp_path: Path) -> None:
    address = "https://www.youtube.com/results?search_query="
    path = write(tmp_path, activities(f"{address}ferry+times%21", f"{address}bridge", None))
    assert kind_of(path) == "queries"
    queries, report = read_queries(path)
    assert report.layout == "takeout"
    assert [record.values for record in queries.records()] == [("bridge", "ferry times!")]
