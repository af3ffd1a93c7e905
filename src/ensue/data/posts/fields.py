"""Metadata of posts, flat and under one set of names, whatever the platform.

========  ============================================================================================================
id, text  as read
author    the account's name on its platform; its number or DID where the name was not collected
time      when it was posted: ISO 8601, UTC
language  as the platform says, such as ``en``
replies   how many answered, ``shares`` passed it on, ``likes`` liked, ``views`` saw it when it was collected
url       its address
========  ============================================================================================================

A story of Media Cloud has the outlet as its author, its title as its text where it has no other, and what else there is
under its own names. A flat object that no collector is known by keeps its own fields under their own names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import polars as pl

from ensue.data.posts.platforms import READERS, Found, dig, layout_of
from ensue.data.schema import split_words
from ensue.data.table import JSON, extended

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
    kept = originals()
    if as_table and kept.columns == [JSON]:
        return extended(flat(json.loads(line) for line in kept[JSON]), added)
    return extended(kept, added)


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
