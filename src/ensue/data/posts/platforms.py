"""Posts as platforms and collectors write them in JSON, told by their shape; one object at a time, none is kept.

===========  ==========================================================================================================
zeeschuimer  ``{"item_id": …, "source_platform": …, "data": {…}}`` a line, and 4CAT's flattened form of it
twarc v1     ``full_text`` or ``text`` with ``id_str``; of a retweet the whole text of what it repeats
twarc v2     ``{"data": […], "includes": {…}}`` a page, or tweets one by one; long notes whole
bluesky      ``{"uri": …, "record": {"text": …}}``, in feeds (``post``), in searches (``posts``), from the jetstream
jsonl        anything flat whose names are known or stated; a stated name may be a path, ``data.caption.text``
===========  ==========================================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ensue.data.files import Content
from ensue.data.table import read_object
from ensue.errors import DataError
from ensue.lines import quoted

Found = dict[str, Any]


# Where platforms keep what was written, the whole text before a cut one.
_ZEESCHUIMER = (
    *("note_tweet.note_tweet_results.result.text", "legacy.full_text", "tweet.legacy.full_text"),
    *("caption.text", "node.caption.text", "post.caption.text", "edge_media_to_caption.edges.0.node.text", "caption"),
    *("commentary.text.text", "commentary.text", "desc", "note.desc", "content", "body", "text", "selftext"),
    *("message.text", "comet_sections.content.story.message.text", "description", "note.title", "title"),
)
_RETWEETS = ("legacy.retweeted_status_result.result", "tweet.legacy.retweeted_status_result.result")
_PAGES = ("posts", "stories", "feed", "thread", "data", "statuses", "items", "results")


def dig(found: object, path: str) -> Any:
    """What stands at ``a.b.0.c``, or ``None``."""
    for step in path.split("."):
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def is_json(content: Content) -> bool:
    """Whether a file holds objects, one a line or many in one document."""
    return not content.parquet and content.head(1)[0].lstrip()[:1] in ("{", "[")


def objects(content: Content) -> Iterator[tuple[int, Found]]:
    """Every post as an object with the number of its line; a page of many is taken apart.

    A file is JSON Lines, or one JSON document over any number of lines.

    Raises:
        DataError: a line that is no JSON object.
    """
    if _is_document(content):
        try:
            found = json.loads(content.data[:].decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            why = quoted(error)
            raise DataError(f"{content.path}: is not JSON ({why}); give JSON Lines, or one whole document") from error
        yield from ((1, post) for post in _unpaged(found))
        return
    for number, line in content.filled():
        yield from ((number, post) for post in _unpaged(read_object(line, f"{content.path}:{number}")))


def layout_of(found: Found) -> str:
    """The name of the layout that an object has."""
    if isinstance(found.get("record"), dict) or isinstance(dig(found, "commit.record"), dict):
        return "bluesky"
    if isinstance(found.get("data"), dict) and {"source_platform", "item_id", "nav_index"} & found.keys():
        return "zeeschuimer"
    if "__import_meta" in found:
        return "zeeschuimer"
    if "id_str" in found and ({"full_text", "text"} & found.keys()) and "user" in found:
        return "twarc v1"
    if {"id", "text"} <= found.keys() and {"author_id", "public_metrics", "edit_history_tweet_ids"} & found.keys():
        return "twarc v2"
    return "jsonl"


def read_zeeschuimer(found: Found) -> tuple[str, str]:
    """(text, id) of an object of Zeeschuimer or 4CAT."""
    data = found["data"] if isinstance(found.get("data"), dict) else found
    shared = next((inner for path in _RETWEETS if isinstance(inner := dig(data, path), dict)), None)
    text = _first(data, _ZEESCHUIMER)
    if shared is not None:
        text = _repeated(text, _first(shared, _ZEESCHUIMER))
    return text, _name(_either(found.get("item_id"), data.get("rest_id"), data.get("id_str"), data.get("id")))


def read_twarc_v1(found: Found) -> tuple[str, str]:
    """(text, id) of a tweet of the first API."""
    paths = ("extended_tweet.full_text", "full_text", "text")
    text = _first(found, paths)
    shared = found.get("retweeted_status")
    if isinstance(shared, dict):
        text = _repeated(text, _first(shared, paths))
    return text, _name(found.get("id_str"))


def read_twarc_v2(found: Found) -> tuple[str, str]:
    """(text, id) of a tweet of the second API, flattened or with what its page includes."""
    text = _first(found, ("note_tweet.text", "text"))
    for reference in found.get("referenced_tweets") or []:
        if isinstance(reference, dict) and reference.get("type") == "retweeted":
            shared = dig(found, "__includes") or {}
            whole = reference if "text" in reference else shared.get(reference.get("id"), {})
            text = _repeated(text, _first(whole, ("note_tweet.text", "text")))
    return text, _name(found.get("id"))


def read_bluesky(found: Found) -> tuple[str, str]:
    """(text, id) of a post view, or of an event of the jetstream."""
    if isinstance(found.get("record"), dict):
        return _first(found, ("record.text", "record.value.text")), _name(found.get("uri"))
    key = f"at://{found.get('did', '')}/{dig(found, 'commit.collection')}/{dig(found, 'commit.rkey')}"
    return _first(found, ("commit.record.text",)), key


READERS: Mapping[str, Callable[[Found], tuple[str, str]]] = {
    "zeeschuimer": read_zeeschuimer,
    "twarc v1": read_twarc_v1,
    "twarc v2": read_twarc_v2,
    "bluesky": read_bluesky,
}


def _is_document(content: Content) -> bool:
    """Whether the first line alone is no JSON object: a list, or an object over many lines."""
    first = content.head(1)[0].strip()
    if first.startswith("["):
        return True
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return first in ("{", "{}") or not first.endswith("}")
    return False


def _unpaged(found: object) -> Iterator[Found]:
    """The posts of a page, a feed or a list; an object that is none of these is a post."""
    if isinstance(found, list):
        for inner in found:
            yield from _unpaged(inner)
        return
    if not isinstance(found, dict):
        return
    page = next((found[name] for name in _PAGES if isinstance(found.get(name), list) and "text" not in found), None)
    if page is None:
        inner = found.get("post")
        yield inner if isinstance(inner, dict) and "record" in inner else found
        return
    included = dig(found, "includes.tweets")
    shared = (
        {tweet.get("id"): tweet for tweet in included if isinstance(tweet, dict)} if isinstance(included, list) else {}
    )
    authors = dig(found, "includes.users")
    users = {user.get("id"): user for user in authors if isinstance(user, dict)} if isinstance(authors, list) else {}
    for inner in page:
        for post in _unpaged(inner):
            own = {"__includes": shared} if shared else {}
            if (author := users.get(post.get("author_id"))) is not None:
                own["__users"] = {"author": author}
            yield post | own if own else post


def _first(found: object, paths: tuple[str, ...]) -> str:
    texts = (dig(found, path) for path in paths)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _repeated(cut: str, whole: str) -> str:
    """``RT @name: `` and all that was repeated, in place of its first words."""
    head, colon, _ = cut.partition(": ")
    return f"{head}: {whole}" if whole and colon and head.startswith("RT @") else whole or cut


def _either(*values: object) -> object:
    return next((value for value in values if value not in (None, "")), None)


def _name(value: object) -> str:
    return str(value) if isinstance(value, str | int) else ""
