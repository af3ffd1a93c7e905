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

Fields of the posts have one set of names, whatever the platform:

========  ============================================================================================================
id, text  as read
author    the account's name on its platform; its number or DID where the name was not collected
time      when it was posted: ISO 8601, UTC
language  as the platform says, such as ``en``
replies   how many answered, ``shares`` passed it on, ``likes`` liked, ``views`` saw it when it was collected
url       its address
========  ============================================================================================================

A story of Media Cloud has the outlet as its author, its title as its text where it has no other, and what else there is
under its own names. A flat object of no known collector keeps its fields and their names.

Activities of one account in Google's Takeout, ``watch-history.json`` and ``search-history.json``, are lists of
``{"header": …, "title": …, "titleUrl": …, "time": …, "products": […]}``. A search is the address of a page of results,
whatever the language of its title.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus

import polars as pl

from ensue.data.files import Content
from ensue.data.schema import split_words
from ensue.data.table import JSON, extended, read_object, read_objects, sample_objects
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


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_X, _TWEETER = ("", "tweet."), "core.user_results.result"
_PATHS: Mapping[str, tuple[str, ...]] = {
    "author": (
        *split_words("user.screen_name author.username __users.author.username author.handle author.uniqueId"),
        *(f"{part}{_TWEETER}.{name}.screen_name" for part in _X for name in ("core", "legacy")),
        *split_words(
            "user.username owner.username node.owner.username post.user.username account.acct account.username",
            "author.unique_id creator.username note.user.nickname user.nickname actor.name.text actors.0.name",
            "comet_sections.content.story.actors.0.name author.name snippet.topLevelComment.snippet.authorDisplayName",
            "snippet.authorDisplayName actor author from from_id author_id did author.did media_name",
        ),
    ),
    "time": split_words(
        "created_at legacy.created_at tweet.legacy.created_at record.createdAt record.value.createdAt",
        "commit.record.createdAt indexedAt taken_at post.taken_at node.taken_at_timestamp taken_at_timestamp",
        "createTime create_time creation_time creationTs created_utc createdAt",
        "comet_sections.timestamp.story.creation_time note.time publish_date datetime published",
        "snippet.topLevelComment.snippet.publishedAt snippet.publishedAt date_unixtime date timestamp",
    ),
    "language": split_words(
        "lang legacy.lang tweet.legacy.lang record.langs.0 commit.record.langs.0 textLanguage language",
        "record.value.langs.0",
    ),
    "replies": split_words(
        "reply_count public_metrics.reply_count replyCount replies_count stats.commentCount statsV2.commentCount",
        "statistics.comment_count comment_count edge_media_to_comment.count legacy.reply_count",
        "tweet.legacy.reply_count post.text_post_app_info.direct_reply_count text_post_app_info.direct_reply_count",
        "commentsCount num_comments note.interactInfo.commentCount socialDetail.totalSocialActivityCounts.numComments",
    ),
    "shares": split_words(
        "retweet_count public_metrics.retweet_count repostCount reblogs_count stats.shareCount statsV2.shareCount",
        "statistics.share_count legacy.retweet_count tweet.legacy.retweet_count post.text_post_app_info.repost_count",
        "text_post_app_info.repost_count share_count note.interactInfo.shareCount",
        "socialDetail.totalSocialActivityCounts.numShares",
    ),
    "likes": split_words(
        "favorite_count public_metrics.like_count likeCount favourites_count stats.diggCount statsV2.diggCount",
        "statistics.digg_count legacy.favorite_count tweet.legacy.favorite_count like_count post.like_count",
        "edge_liked_by.count edge_media_preview_like.count upVoteCount score note.interactInfo.likedCount",
        "socialDetail.totalSocialActivityCounts.numLikes",
    ),
    "views": split_words(
        "public_metrics.impression_count views.count tweet.views.count stats.playCount statsV2.playCount play_count",
        "view_count statistics.play_count",
    ),
    "url": ("url", "permalink_url", "permalink", "link"),
}
FIELDS = ("id", "text", *_PATHS)
"""The columns of posts of a known collector."""
_RELATIONS: Mapping[str, tuple[str, ...]] = {
    "repost_of": split_words(
        "retweeted_status.id_str legacy.retweeted_status_result.result.rest_id commit.record.subject.uri",
        "tweet.legacy.retweeted_status_result.result.rest_id record.subject.uri reblog.uri reblog.id crosspost_parent",
    ),
    "parent": split_words(
        "in_reply_to_status_id_str legacy.in_reply_to_status_id_str record.reply.parent.uri parent_id",
        "commit.record.reply.parent.uri in_reply_to_id object.inReplyTo reply_to_message_id snippet.parentId parent",
    ),
    "thread": split_words(
        "conversation_id conversation_id_str legacy.conversation_id_str tweet.legacy.conversation_id_str",
        "record.reply.root.uri commit.record.reply.root.uri link_id snippet.videoId thread_id",
    ),
    "shared_link": split_words(
        "entities.urls.0.expanded_url legacy.entities.urls.0.expanded_url record.embed.external.uri",
        "tweet.legacy.entities.urls.0.expanded_url commit.record.embed.external.uri card.url reblog.card.url",
        "url_overridden_by_dest",
    ),
}
"""Relations of a post: the post that it passes on, that it answers, its conversation, the page it links to."""
RELATIONS = tuple(_RELATIONS)
_LINK = re.compile(r"https?://(?!t\.co/)[^\s<>\"']+")
"""An address in a text; those of t.co are made anew for every post."""
_STORIES = ({"stories_id", "title", "url"}, {"title", "url", "publish_date", "media_name"})
_RENAMED = {"stories_id", "id", "text", "language", "media_name", "publish_date", "url"}
"""Fields of Media Cloud, one set or the other, that tell its stories; and those that stand under another name then."""
_COUNTS = ("replies", "shares", "likes", "views")
_ADDRESSES: Mapping[str, str] = {
    "twitter": "https://twitter.com/{author}/status/{id}",
    "x": "https://twitter.com/{author}/status/{id}",
    "instagram": "https://www.instagram.com/p/{code}/",
    "threads": "https://www.threads.net/@{author}/post/{code}",
    "tiktok": "https://www.tiktok.com/@{author}/video/{id}",
    "bluesky": "https://bsky.app/profile/{author}/post/{code}",
}
_SECONDS = {10: 1, 13: 1e3, 16: 1e6}
"""Number of digits of a time since 1970 -> its units per second."""


def flat(posts: Iterable[Found]) -> pl.DataFrame:
    """Objects as a table: of known collectors ``FIELDS``, of other objects their own fields.

    Args:
        posts: as :func:`ensue.data.posts.platforms.objects` gives them.
    """
    rows = [collected(post) or _plain(post) for post in posts]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if set(FIELDS) <= set(names) or set(names) <= set(FIELDS):
        names = [*(name for name in FIELDS if name in names), *(name for name in names if name not in FIELDS)]
    return pl.DataFrame([_column(name, [row.get(name) for row in rows]) for name in names])


def beside(originals: Callable[[], pl.DataFrame], added: pl.DataFrame, as_table: bool) -> pl.DataFrame:
    """Return :func:`~ensue.data.table.extended`; of JSON, if ``as_table``, a table of the objects' fields."""
    table = originals()
    if as_table and table.columns == [JSON]:
        return extended(flat(json.loads(line) for line in table[JSON]), added)
    return extended(table, added)


def collected(post: Found) -> Found | None:
    """``FIELDS`` of an object as a collector writes it; ``None`` of any other."""
    layout, other_fields = layout_of(post), Found()
    if layout in READERS:
        text, name = READERS[layout](post)
    elif any(post.keys() >= columns for columns in _STORIES):
        text, name = str(post.get("text") or post["title"] or ""), str(post.get("stories_id", post.get("id", "")))
        other_fields = _plain({key: value for key, value in post.items() if key not in _RENAMED})
        other_fields = {key: value for key, value in other_fields.items() if key not in FIELDS and value != text}
    else:
        return None
    inner = post["data"] if layout == "zeeschuimer" and isinstance(post.get("data"), dict) else post
    fields: Found = {"id": name, "text": text}
    for field, paths in _PATHS.items():
        values = (dig(inner, path) for path in paths)
        fields[field] = next((value for value in values if isinstance(value, str | int | float) and value != ""), None)
    fields["time"] = moment(fields["time"])
    for field in _COUNTS:
        fields[field] = _count(fields[field])
    fields["author"] = None if fields["author"] is None else str(fields["author"])
    if not str(fields["url"] or "").startswith("http"):
        fields["url"] = _address(post, inner, layout, fields)
    return fields | other_fields


def related(post: Found) -> Found:
    """Return ``RELATIONS`` of an object as a collector writes it; ``None`` for those that it lacks."""
    inner = post["data"] if isinstance(post.get("data"), dict) and layout_of(post) == "zeeschuimer" else post
    relations: Found = {}
    for name, paths in _RELATIONS.items():
        values = (dig(inner, path) for path in paths)
        relations[name] = next((str(value) for value in values if isinstance(value, str | int) and value != ""), None)
    for reference in post.get("referenced_tweets") or []:
        kind = reference.get("type") if isinstance(reference, dict) else None
        role = {"retweeted": "repost_of", "replied_to": "parent"}.get(str(kind))
        if role is not None:
            relations[role] = str(reference.get("id"))
    if post.get("type") == "Announce" and isinstance(post.get("object"), str):
        relations["repost_of"] = post["object"]
    if layout_of(post) == "reddit" and not post.get("is_self") and str(post.get("url", "")).startswith("http"):
        relations["shared_link"] = relations["shared_link"] or post["url"]
    if relations["shared_link"] is None and layout_of(post) in READERS:
        text, _ = READERS[layout_of(post)](post)
        match = _LINK.search(text)
        relations["shared_link"] = match[0].rstrip(".,;:!?)") if match else None
    return relations


def moment(value: object) -> str | None:
    """A time as platforms write it, in ISO 8601, UTC; what is none of those stays as it is."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    text = str(int(value) if isinstance(value, float) else value).strip()
    try:
        if text.isdigit() and len(text) in _SECONDS:
            when = datetime.fromtimestamp(int(text) / _SECONDS[len(text)], UTC)
        elif len(words := text.split()) == 6 and words[1] in _MONTHS:  # Wed Oct 10 20:19:24 +0000 2018
            month = _MONTHS.index(words[1]) + 1
            when = datetime.fromisoformat(f"{words[5]}-{month:02}-{int(words[2]):02}T{words[3]}{words[4]}")
        else:
            when = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return text or None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")


def _address(post: Found, inner: Found, layout: str, fields: Found) -> str | None:
    platform = dig(post, "source_platform") or dig(post, "__import_meta.source_platform") or layout
    name = str(platform).lower().removesuffix(".com").removeprefix("www.").split()[0]
    pattern = _ADDRESSES.get({"twarc": "twitter"}.get(name, name))
    code = next(
        (dig(inner, path) for path in ("code", "post.code", "shortcode", "node.shortcode") if dig(inner, path)), ""
    )
    if layout == "bluesky":
        code = str(fields["id"]).rsplit("/", 1)[-1]
    if pattern is None or not fields["id"] or ("{code}" in pattern and not code):
        return None
    author = fields["author"] or ""
    if "twitter" in pattern and (not author or author.isdigit()):
        author = "i/web"
    return pattern.format(author=author, id=fields["id"], code=code) if author or "{author}" not in pattern else None


def _count(value: object) -> int | None:
    """A number of people; some platforms write it as a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() else None


def _plain(post: Found) -> Found:
    """The fields of any object; what holds more than a text or a number stays JSON."""
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        for name, value in post.items()
        if not name.startswith(("__includes", "__users"))
    }


def _column(name: str, values: Sequence[object]) -> pl.Series:
    """Return a column of whole numbers, numbers or texts, as all the values are."""
    kinds = {type(value) for value in values if value is not None}
    for kinds_of, kind in (({bool}, pl.Boolean), ({int}, pl.Int64), ({int, float}, pl.Float64)):
        if kinds and kinds <= kinds_of and not any(isinstance(v, int) and abs(v) >= 2**63 for v in values):
            return pl.Series(name, values, kind)
    texts = [None if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(name, texts, pl.String)


ACCOUNT = "account"
"""The name of the one account of a file."""
_FIELDS = {"header", "time", "products"}
_SEARCH = r"[?&](?:search_query|q)=([^&]+)"


def is_activity(fields: Mapping[str, object]) -> bool:
    """Return whether an object is an activity of a Takeout."""
    return fields.keys() >= _FIELDS


def holds_searches(content: Content) -> bool:
    """Return whether a file holds activities most of which are searches."""
    if not content.json:
        return False
    samples = [sample for sample in sample_objects(content) if is_activity(sample)]
    urls = pl.Series([str(sample.get("titleUrl", "")) for sample in samples], dtype=pl.String)
    return bool(len(urls)) and int(urls.str.contains(_SEARCH).sum()) > len(urls) / 2


def read_activities(content: Content) -> pl.DataFrame:
    """Return the activities that have an address, with their ``line``, ``url``, ``time`` and ``query``, maybe null."""
    frame = read_objects(content, {"titleUrl": pl.String(), "time": pl.String()}, read_object)
    query = pl.col("titleUrl").str.extract(_SEARCH).map_elements(unquote_plus, return_dtype=pl.String)
    rows = frame.with_row_index("line", offset=1).with_columns(query=query).rename({"titleUrl": "url"})
    return rows.drop_nulls("url")
