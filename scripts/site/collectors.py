"""Small exports in the shapes of eight collectors: the posts of the made-up town, as its people would collect them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ensue.demo.town import Town

NUM_POSTS, NUM_SHARES = 60, 4


class Collected(NamedTuple):
    """A post, or one that passes it on."""

    id: str
    author: str
    seconds: int
    text: str
    link: str
    repost_of: str = ""

    @property
    def time(self) -> str:
        """ISO 8601, UTC."""
        return datetime.fromtimestamp(self.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_exports(folder: Path, story: Town) -> None:
    """Write one file per collector."""
    posts = list(collected(story))
    originals = [post for post in posts if not post.repost_of]
    files = {
        "4cat.csv": _4cat(originals),
        "zeeschuimer.ndjson": _lines(map(_zeeschuimer, posts)),
        "bluesky.jsonl": _lines(map(_bluesky, originals)),
        "mastodon.jsonl": _lines(map(_mastodon, posts)),
        "telegram.json": json.dumps(_telegram(originals), indent=1, ensure_ascii=False),
        "reddit.jsonl": _lines(map(_reddit, originals)),
        "twarc.jsonl": _lines(map(_twarc, posts)),
        "youtube.json": json.dumps({"kind": "youtube#commentThreadListResponse", "items": [*map(_youtube, originals)]}),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def collected(story: Town) -> Iterator[Collected]:
    """Yield posts about articles, each followed by those who pass it on."""
    cascades = {record.id: record for chunk in story.parts for record in chunk.records()}
    for post in [entry for entry in story.posts if entry.post.about][:NUM_POSTS]:
        link = f"https://harrowmere.example/{post.post.about[0]}"
        yield Collected(post.post.id, post.author, int(post.time), post.post.text, link)
        cascade = cascades[post.post.id]
        for user, time in list(zip(cascade.values, cascade.times, strict=True))[1 : 1 + NUM_SHARES]:
            yield Collected(f"{post.post.id}-{user}", str(user), int(time), post.post.text, link, post.post.id)


def _lines(objects: Iterable[object]) -> str:
    return "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in objects)


def _4cat(posts: Iterable[Collected]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("id", "thread_id", "timestamp", "body", "author", "urls"))
    writer.writerows((post.id, post.id, post.time, post.text, post.author, post.link) for post in posts)
    return file.getvalue()


def _zeeschuimer(post: Collected) -> object:
    legacy: dict[str, object] = {"full_text": post.text, "created_at": post.time}
    if post.repost_of:
        legacy["retweeted_status_result"] = {"result": {"rest_id": post.repost_of, "legacy": {"full_text": post.text}}}
    user = {"user_results": {"result": {"legacy": {"screen_name": post.author}}}}
    data = {"rest_id": post.id, "core": user, "legacy": legacy}
    return {"nav_index": "1:0", "item_id": post.id, "source_platform": "twitter.com", "data": data}


def _bluesky(post: Collected) -> object:
    external = {"$type": "app.bsky.embed.external", "external": {"uri": post.link}}
    record = {"text": post.text, "createdAt": post.time, "langs": ["en"], "embed": external}
    uri = f"at://did:plc:{post.author}/app.bsky.feed.post/{post.id}"
    return {"uri": uri, "author": {"handle": f"{post.author}.example"}, "record": record}


def _mastodon(post: Collected) -> object:
    status: dict[str, object] = {
        "id": post.id,
        "uri": f"https://town.example/{post.id}",
        "created_at": post.time,
        "account": {"acct": post.author},
        "content": "" if post.repost_of else f"<p>{post.text}</p>",
    }
    if post.repost_of:
        uri = f"https://town.example/{post.repost_of}"
        status["reblog"] = {"id": post.repost_of, "uri": uri, "content": f"<p>{post.text}</p>"}
    return status


def _telegram(posts: Iterable[Collected]) -> object:
    messages = [
        {
            "id": number,
            "type": "message",
            "date": post.time.removesuffix("Z"),
            "date_unixtime": str(post.seconds),
            "from": post.author,
            "text": [f"{post.text} ", {"type": "link", "text": post.link}],
        }
        for number, post in enumerate(posts, 1)
    ]
    return {"name": "Harrowmere", "type": "public_supergroup", "messages": messages}


def _reddit(post: Collected) -> object:
    fields = {
        "name": f"t3_{post.id}",
        "author": post.author,
        "subreddit": "harrowmere",
        "created_utc": post.seconds,
    }
    return fields | {"title": post.text, "selftext": "", "url_overridden_by_dest": post.link}


def _twarc(post: Collected) -> object:
    text = f"RT @{post.author}: {post.text}" if post.repost_of else post.text
    reference = [{"type": "retweeted", "id": post.repost_of, "text": post.text}] if post.repost_of else []
    fields = {"id": post.id, "text": text, "author_id": post.author, "author": {"username": post.author}}
    return fields | {"created_at": post.time, "public_metrics": {}, "referenced_tweets": reference}


def _youtube(post: Collected) -> object:
    video = post.link.rpartition("/")[2]
    snippet = {"videoId": video, "textOriginal": post.text, "authorDisplayName": f"@{post.author}"}
    comment = {"id": post.id, "snippet": snippet | {"publishedAt": post.time}}
    return {"kind": "youtube#commentThread", "snippet": {"videoId": video, "topLevelComment": comment}}
