"""What collectors note of a post is kept under one set of names, in tables as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ensue.data.posts.dataset import read_posts
from ensue.data.posts.platforms import FIELDS, moment

V1 = {
    "id_str": "101",
    "full_text": "a ferry leaves the harbour",
    "created_at": "Wed Oct 10 20:19:24 +0000 2018",
    "lang": "en",
    "user": {"screen_name": "ann", "id_str": "7"},
    "retweet_count": 3,
    "favorite_count": 5,
    "reply_count": 1,
}
V2 = {
    "id": "102",
    "text": "a ferry leaves the harbour",
    "author_id": "7",
    "created_at": "2018-10-10T20:19:24.000Z",
    "lang": "en",
    "public_metrics": {"retweet_count": 3, "reply_count": 1, "like_count": 5, "impression_count": 90},
    "edit_history_tweet_ids": ["102"],
}
BLUESKY = {
    "uri": "at://did:plc:abc/app.bsky.feed.post/3k",
    "author": {"did": "did:plc:abc", "handle": "ann.bsky.social"},
    "record": {"text": "a ferry leaves the harbour", "createdAt": "2018-10-10T20:19:24.000Z", "langs": ["en"]},
    "replyCount": 1,
    "repostCount": 3,
    "likeCount": 5,
}
X = {
    "rest_id": "103",
    "core": {"user_results": {"result": {"legacy": {"screen_name": "ann"}}}},
    "legacy": {
        "full_text": "a ferry leaves the harbour",
        "created_at": "Wed Oct 10 20:19:24 +0000 2018",
        "lang": "en",
        "reply_count": 1,
        "retweet_count": 3,
        "favorite_count": 5,
    },
    "views": {"count": "90"},
}
TIKTOK = {
    "id": "104",
    "desc": "a ferry leaves the harbour",
    "author": {"uniqueId": "ann"},
    "createTime": 1539202764,
    "textLanguage": "en",
    "stats": {"commentCount": 1, "shareCount": 3, "diggCount": 5, "playCount": 90},
}
INSTAGRAM = {
    "id": "105",
    "code": "Bo",
    "caption": {"text": "a ferry leaves the harbour"},
    "user": {"username": "ann"},
    "taken_at": 1539202764,
    "comment_count": 1,
    "like_count": 5,
}


def shell(platform: str, data: dict[str, Any]) -> dict[str, Any]:
    """As Zeeschuimer writes it."""
    return {"nav_index": "1", "item_id": data.get("id", "103"), "source_platform": platform, "data": data}


ANN = {"text": "a ferry leaves the harbour", "author": "ann", "time": "2018-10-10T20:19:24Z", "language": "en"}
COUNTS = {"replies": 1, "shares": 3, "likes": 5, "views": None}
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (V1, ANN | COUNTS | {"id": "101", "url": "https://twitter.com/ann/status/101"}),
    (V2, ANN | COUNTS | {"id": "102", "author": "7", "views": 90, "url": "https://twitter.com/i/web/status/102"}),
    (
        {"data": [V2], "includes": {"users": [{"id": "7", "username": "ann"}]}},
        ANN | COUNTS | {"id": "102", "views": 90, "url": "https://twitter.com/ann/status/102"},
    ),
    (
        BLUESKY,
        ANN
        | COUNTS
        | {
            "id": BLUESKY["uri"],
            "author": "ann.bsky.social",
            "url": "https://bsky.app/profile/ann.bsky.social/post/3k",
        },
    ),
    (shell("twitter.com", X), ANN | COUNTS | {"id": "103", "views": 90, "url": "https://twitter.com/ann/status/103"}),
    (
        {**X, "__import_meta": {"source_platform": "twitter.com"}},
        ANN | COUNTS | {"id": "103", "views": 90, "url": "https://twitter.com/ann/status/103"},
    ),
    (
        shell("tiktok.com", TIKTOK),
        ANN | COUNTS | {"id": "104", "views": 90, "url": "https://www.tiktok.com/@ann/video/104"},
    ),
    (
        shell("instagram.com", INSTAGRAM),
        ANN | COUNTS | {"id": "105", "language": None, "shares": None, "url": "https://www.instagram.com/p/Bo/"},
    ),
]


def write(path: Path, found: object) -> Path:
    """A line of JSON."""
    path.write_text(json.dumps(found) + "\n")
    return path


@pytest.mark.parametrize(("found", "expected"), CASES)
def test_collectors_by_hand(tmp_path: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    posts, _ = read_posts(write(tmp_path / "posts.ndjson", found))
    table = posts.beside(pl.DataFrame({"score": [0.5]}), flat=True)
    assert table.columns == [*FIELDS, "score"]
    assert table.drop("score").row(0, named=True) == expected
    assert json.loads(posts.beside(pl.DataFrame({"score": [0.5]}), flat=False)["json"][0])["score"] == 0.5


def test_stories_of_media_cloud_have_the_names_of_all_collectors(tmp_path: Path) -> None:
    story = {
        "stories_id": 5,
        "title": "A ferry leaves",
        "text": "a ferry leaves the harbour",
        "language": "en",
        "media_name": "Daily",
        "publish_date": "2018-10-10",
        "url": "https://example.org",
        "tags": ["a", {"b": 1}],
    }
    new = {key: value for key, value in story.items() if key not in ("stories_id", "text", "tags")} | {"id": "x9"}
    posts, _ = read_posts(write(tmp_path / "stories.json", {"stories": [story, new]}))
    table = posts.beside(pl.DataFrame({"score": [0.5, 0.25]}), flat=True)
    assert table.columns == [*FIELDS, "title", "tags", "score"]
    shared = {"author": "Daily", "time": "2018-10-10T00:00:00Z", "language": "en", "url": "https://example.org"}
    empty = dict.fromkeys(("replies", "shares", "likes", "views"))
    assert table.rows(named=True) == [
        {"id": "5", "text": "a ferry leaves the harbour", **shared, **empty, "title": "A ferry leaves"}
        | {"tags": '["a", {"b": 1}]', "score": 0.5},
        {"id": "x9", "text": "A ferry leaves", **shared, **empty, "title": None, "tags": None, "score": 0.25},
    ]


def test_other_flat_objects_keep_their_own_fields(tmp_path: Path) -> None:
    nested = {"data": {"caption": {"text": "a ferry"}}, "likes": 3, "open": True, "odd": None}
    posts, _ = read_posts(write(tmp_path / "other.jsonl", nested), columns={"text": "data.caption.text"})
    (row,) = posts.beside(pl.DataFrame({"score": [0.5]}), flat=True).rows(named=True)
    assert (row["id"], row["text"], row["likes"], row["open"], row["odd"]) == ("1", "a ferry", 3, True, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (1539202764, "2018-10-10T20:19:24Z"),
        ("1539202764000", "2018-10-10T20:19:24Z"),
        (1539202764.5, "2018-10-10T20:19:24Z"),
        (1539202764000000, "2018-10-10T20:19:24Z"),
        ("2018-10-10T22:19:24+02:00", "2018-10-10T20:19:24Z"),
        ("2018-10-10 20:19:24", "2018-10-10T20:19:24Z"),
        ("Wed Oct 10 20:19:24 +0000 2018", "2018-10-10T20:19:24Z"),
        ("yesterday", "yesterday"),
        ("Wed Oct 99 20:19:24 +0000 2018", "Wed Oct 99 20:19:24 +0000 2018"),
        (None, None),
        (True, None),
        ("", None),
        (float("inf"), None),
    ],
)
def test_times_of_platforms_are_utc(given: object, expected: str | None) -> None:
    assert moment(given) == expected
