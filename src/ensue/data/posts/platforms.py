"""Posts as platforms and collectors write them in JSON, told by their shape; one object at a time, none is kept.

===========  ==========================================================================================================
zeeschuimer  ``{"item_id": …, "source_platform": …, "data": {…}}`` a line, and 4CAT's flattened form of it
twarc v1     ``full_text`` or ``text`` with ``id_str``; of a retweet the whole text of what it repeats
twarc v2     ``{"data": […], "includes": {…}}`` a page, or tweets one by one; long notes whole
bluesky      ``{"uri": …, "record": {"text": …}}``, in feeds (``post``), in searches (``posts``), from the jetstream
telegram     ``result.json`` of Telegram Desktop, of one chat or of all; texts in pieces are joined
mastodon     statuses of the API, and the activities of an account's ``outbox.json``
reddit       submissions and comments of the API and of Pushshift, deleted and removed ones without their text
youtube      comment threads and comments of the Data API, comments of yt-dlp; replies are posts of their own
jsonl        anything flat whose names are known or stated; a stated name may be a path, ``data.caption.text``
===========  ==========================================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ensue.data.files import Content
from ensue.data.schema import split_words
from ensue.data.table import read_object
from ensue.errors import DataError
from ensue.lines import quoted

Found = dict[str, Any]


# Where platforms keep what was written, the whole text before a cut one.
_ZEESCHUIMER = split_words(
    "note_tweet.note_tweet_results.result.text legacy.full_text tweet.legacy.full_text caption.text node.caption.text",
    "post.caption.text edge_media_to_caption.edges.0.node.text caption commentary.text.text commentary.text desc",
    "note.desc content body text selftext message.text comet_sections.content.story.message.text description",
    "note.title title",
)
_ACTIVITIES = ("Create", "Announce", "Update")
_RETWEETS = ("legacy.retweeted_status_result.result", "tweet.legacy.retweeted_status_result.result")
_PAGES = ("posts", "stories", "feed", "thread", "data", "statuses", "items", "results", "orderedItems")
_REMOVED = ("[deleted]", "[removed]")


def dig(value: object, path: str) -> Any:
    """Return the value at ``a.b.0.c``, or ``None``."""
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def is_json(content: Content) -> bool:
    """Return whether a file holds objects, one a line or many in one document."""
    return not content.parquet and content.head(1)[0].lstrip()[:1] in ("{", "[")


def objects(content: Content) -> Iterator[tuple[int, Found]]:
    """Every post as an object with the number of its line; a page of many is taken apart.

    A file is JSON Lines, or one JSON document over any number of lines.

    Raises:
        DataError: a line that is no JSON object.
    """
    if _is_document(content):
        try:
            document = json.loads(content.data[:].decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            problem = quoted(error)
            raise DataError(f"{content.path}: is not JSON ({problem}); give JSON Lines, or one document") from error
        yield from ((1, post) for post in _unpaged(document))
        return
    for number, line in content.filled():
        yield from ((number, post) for post in _unpaged(read_object(line, f"{content.path}, line {number}")))


def layout_of(post: Found) -> str:
    """The name of the layout that an object has."""
    if isinstance(post.get("record"), dict) or isinstance(dig(post, "commit.record"), dict):
        return "bluesky"
    if isinstance(post.get("data"), dict) and {"source_platform", "item_id", "nav_index"} & post.keys():
        return "zeeschuimer"
    if "__import_meta" in post:
        return "zeeschuimer"
    if "id_str" in post and ({"full_text", "text"} & post.keys()) and {"user", "entities"} & post.keys():
        return "twarc v1"
    if {"text", "author_is_uploader"} <= post.keys():
        return "youtube"
    if {"id", "text"} <= post.keys() and {"author_id", "public_metrics", "edit_history_tweet_ids"} & post.keys():
        return "twarc v2"
    if post.get("type") == "message" and {"date", "text", "id"} <= post.keys():
        return "telegram"
    if isinstance(post.get("account"), dict) and {"content", "created_at"} <= post.keys():
        return "mastodon"
    if post.get("type") in _ACTIVITIES and {"actor", "object"} <= post.keys():
        return "mastodon"
    if {"author", "subreddit"} <= post.keys() and {"body", "selftext"} & post.keys():
        return "reddit"
    if str(post.get("kind", "")).startswith("youtube#") or dig(post, "snippet.textOriginal") is not None:
        return "youtube"
    return "jsonl"


def read_zeeschuimer(post: Found) -> tuple[str, str]:
    """(text, id) of an object of Zeeschuimer or 4CAT."""
    data = post["data"] if isinstance(post.get("data"), dict) else post
    shared = next((inner for path in _RETWEETS if isinstance(inner := dig(data, path), dict)), None)
    text = _first(data, _ZEESCHUIMER)
    if shared is not None:
        text = _repeated(text, _first(shared, _ZEESCHUIMER))
    return text, _name(_either(post.get("item_id"), data.get("rest_id"), data.get("id_str"), data.get("id")))


def read_twarc_v1(post: Found) -> tuple[str, str]:
    """(text, id) of a tweet of the first API."""
    paths = ("extended_tweet.full_text", "full_text", "text")
    text = _first(post, paths)
    shared = post.get("retweeted_status")
    if isinstance(shared, dict):
        text = _repeated(text, _first(shared, paths))
    return text, _name(post.get("id_str"))


def read_twarc_v2(post: Found) -> tuple[str, str]:
    """(text, id) of a tweet of the second API, flattened or with what its page includes."""
    text = _first(post, ("note_tweet.text", "text"))
    for reference in post.get("referenced_tweets") or []:
        if isinstance(reference, dict) and reference.get("type") == "retweeted":
            shared = dig(post, "__includes") or {}
            original = reference if "text" in reference else shared.get(reference.get("id"), {})
            text = _repeated(text, _first(original, ("note_tweet.text", "text")))
    return text, _name(post.get("id"))


def read_bluesky(post: Found) -> tuple[str, str]:
    """(text, id) of a post view, or of an event of the jetstream."""
    if isinstance(post.get("record"), dict):
        return _first(post, ("record.text", "record.value.text")), _name(post.get("uri"))
    key = f"at://{post.get('did', '')}/{dig(post, 'commit.collection')}/{dig(post, 'commit.rkey')}"
    return _first(post, ("commit.record.text",)), key


def read_telegram(post: Found) -> tuple[str, str]:
    """Return (text, id) of a message, whose text may be a list of pieces."""
    pieces = post["text"] if isinstance(post.get("text"), list) else [post.get("text")]
    texts = (piece.get("text") if isinstance(piece, dict) else piece for piece in pieces)
    return "".join(text for text in texts if isinstance(text, str)), _name(post.get("id"))


def read_mastodon(post: Found) -> tuple[str, str]:
    """Return (text, id) of a status or an activity; of a status that is passed on, the text of that one."""
    name = _either(dig(post, "object.id"), post.get("uri"), post.get("id"))
    return _first(post, ("reblog.content", "content", "object.content")), _name(name)


def read_reddit(post: Found) -> tuple[str, str]:
    """Return (text, id) of a submission, title first, or of a comment."""
    texts = (post.get(name) for name in ("title", "selftext", "body"))
    text = "\n".join(text for text in texts if isinstance(text, str) and text.strip() and text not in _REMOVED)
    return text, _name(_either(post.get("name"), post.get("id")))


def read_youtube(post: Found) -> tuple[str, str]:
    """Return (text, id) of a comment, or of the comment that opens a thread."""
    top = dig(post, "snippet.topLevelComment") or post
    return _first(top, ("snippet.textOriginal", "snippet.textDisplay", "text")), _name(top.get("id"))


READERS: Mapping[str, Callable[[Found], tuple[str, str]]] = {
    "zeeschuimer": read_zeeschuimer,
    "twarc v1": read_twarc_v1,
    "twarc v2": read_twarc_v2,
    "bluesky": read_bluesky,
    "telegram": read_telegram,
    "mastodon": read_mastodon,
    "reddit": read_reddit,
    "youtube": read_youtube,
}


def _is_document(content: Content) -> bool:
    """Return whether the first line alone is no JSON object: a list, or an object over many lines."""
    first = content.head(1)[0].strip()
    if first.startswith("["):
        return True
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return first in ("{", "{}") or not first.endswith("}")
    return False


def _unpaged(value: object) -> Iterator[Found]:
    """The posts of a page, a feed or a list; an object that is none of these is a post."""
    if isinstance(value, list):
        for inner in value:
            yield from _unpaged(inner)
        return
    if not isinstance(value, dict):
        return
    page = _page(value)
    if page is None:
        inner = next((value[name] for name in ("post", "tweet") if isinstance(value.get(name), dict)), value)
        yield inner if {"record", "full_text"} & inner.keys() else value
        replies = dig(value, "replies.comments")
        yield from _unpaged(replies if isinstance(replies, list) else [])
        return
    included = dig(value, "includes.tweets")
    shared = (
        {tweet.get("id"): tweet for tweet in included if isinstance(tweet, dict)} if isinstance(included, list) else {}
    )
    authors = dig(value, "includes.users")
    users = {user.get("id"): user for user in authors if isinstance(user, dict)} if isinstance(authors, list) else {}
    for inner in page:
        for post in _unpaged(inner):
            context = {"__includes": shared} if shared else {}
            if (author := users.get(post.get("author_id"))) is not None:
                context["__users"] = {"author": author}
            yield post | context if context else post


def _page(value: Found) -> Sequence[object] | None:
    """Return the list of posts that an object holds; ``None`` of a post."""
    messages = [chat for chat in (value, *_dicts(dig(value, "chats.list"))) if _dicts(chat.get("messages"))]
    listed = [message for chat in messages for message in chat["messages"]]
    if any({"id", "type", "date"} <= message.keys() for message in _dicts(listed)):
        return [message for message in _dicts(listed) if message.get("type") == "message"]
    if "extractor" in value and _dicts(value.get("comments")):
        return _dicts(value["comments"])
    return next((value[name] for name in _PAGES if isinstance(value.get(name), list) and "text" not in value), None)


def _dicts(value: object) -> list[Found]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _first(post: object, paths: tuple[str, ...]) -> str:
    texts = (dig(post, path) for path in paths)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _repeated(cut: str, whole: str) -> str:
    """``RT @name: `` and all that was repeated, in place of its first words."""
    head, colon, _ = cut.partition(": ")
    return f"{head}: {whole}" if whole and colon and head.startswith("RT @") else whole or cut


def _either(*values: object) -> object:
    return next((value for value in values if value not in (None, "")), None)


def _name(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else ""
