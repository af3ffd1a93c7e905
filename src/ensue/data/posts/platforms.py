"""Posts as platforms and collectors write them: a row for each layout, of objects in JSON and of tables.

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
from urllib.parse import unquote_plus

import polars as pl

from ensue.data.encodings import parsed_json
from ensue.data.files import Content
from ensue.data.layouts import Layout, Object, dig, has, recognise
from ensue.data.schema import name_table, plain_name
from ensue.data.table import JSON, extended, read_object, read_objects, sample_objects
from ensue.errors import DataError
from ensue.lines import quoted

Reader = Callable[[Object], tuple[str, str]]
"""Returns (text, id) of an object."""
_REMOVED = ("[deleted]", "[removed]")
_PAGES = ("posts", "stories", "feed", "thread", "data", "statuses", "items", "results", "orderedItems")


def is_json(content: Content) -> bool:
    """Return whether a file holds objects, one a line or many in one document."""
    return not content.parquet and content.head(1)[0].lstrip()[:1] in ("{", "[")


def objects(content: Content) -> Iterator[tuple[int, Object]]:
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


def at_paths(text: str, id: str, shared: str = "") -> Reader:
    """Return a reader of objects whose text and id are at the first of some paths.

    Args:
        text: paths to the text, the whole one before a cut one; pieces of a text are joined.
        id: paths to the id.
        shared: paths to the post that is passed on, whose whole text replaces what the text repeats of it.
    """
    text_paths = text.split()

    def read(post: Object) -> tuple[str, str]:
        written = _text_at(post, text_paths)
        original = next((inner for path in shared.split() if isinstance(inner := dig(post, path), dict)), None)
        if original is not None:
            written = _repeated(written, _text_at(original, text_paths))
        return written, _name(_value_at(post, id.split()))

    return read


def _read_twarc_v2(post: Object) -> tuple[str, str]:
    """Read a tweet of the second API; what it passes on is in its page, or in its flattened references."""
    text, name = _read_note(post)
    for reference in post.get("referenced_tweets") or []:
        if isinstance(reference, dict) and reference.get("type") == "retweeted":
            included = dig(post, "__includes") or {}
            original = reference if "text" in reference else included.get(reference.get("id"), {})
            text = _repeated(text, _read_note(original)[0])
    return text, name


def _read_bluesky(post: Object) -> tuple[str, str]:
    """Read a post view, or an event of the jetstream, whose address is made of its parts."""
    text, name = _read_record(post)
    return text, f"at://{post.get('did', '')}/{post.get('collection')}/{post.get('rkey')}" if "commit" in post else name


def _read_reddit(post: Object) -> tuple[str, str]:
    """Read a submission, title first, or a comment, without what was removed."""
    texts = (post.get(name) for name in ("title", "selftext", "body"))
    text = "\n".join(text for text in texts if isinstance(text, str) and text.strip() and text not in _REMOVED)
    return text, _name(_value_at(post, ("name", "id")))


_read_note = at_paths("note_tweet.text text", "id")
_read_record = at_paths("record.text record.value.text", "uri")
_ZEESCHUIMER = """note_tweet.note_tweet_results.result.text legacy.full_text caption.text
    edge_media_to_caption.edges.0.node.text caption commentary.text.text commentary.text desc note.desc content body
    text selftext message.text comet_sections.content.story.message.text description note.title title"""
_TOP = "snippet.topLevelComment"
_YOUTUBE = f"{_TOP}.snippet.textOriginal {_TOP}.snippet.textDisplay snippet.textOriginal snippet.textDisplay text"
# fmt: off
PLATFORMS: tuple[Layout[Object, Reader], ...] = (
    Layout("bluesky", has("record.", "commit.record."), _read_bluesky),
    Layout("zeeschuimer", has("data. source_platform|item_id|nav_index", "__import_meta"),
           at_paths(_ZEESCHUIMER, "item_id rest_id id_str id", "legacy.retweeted_status_result.result")),
    Layout("twarc v1", has("id_str full_text|text user|entities"),
           at_paths("extended_tweet.full_text full_text text", "id_str", "retweeted_status")),
    Layout("youtube", has("text author_is_uploader", "kind=youtube#", "snippet.textOriginal"),
           at_paths(_YOUTUBE, f"{_TOP}.id id")),
    Layout("twarc v2", has("id text author_id|public_metrics|edit_history_tweet_ids"), _read_twarc_v2),
    Layout("telegram", has("type=message date text id"), at_paths("text", "id")),
    Layout("mastodon", has("account. content created_at", "type=Create|type=Announce|type=Update actor object"),
           at_paths("reblog.content content object.content", "object.id uri id")),
    Layout("reddit", has("author subreddit body|selftext"), _read_reddit),
)
"""Layouts of objects; an object of none of them is read by the names of its fields."""
_STORY: Layout[Object, Reader] = Layout(
    "media cloud", has("stories_id title url", "title url publish_date media_name"),
    at_paths("text title", "stories_id id"))
COLLECTORS: tuple[Layout[Object, bool], ...] = (
    Layout("4cat", has("id threadid body timestamp"), False),
    Layout("twarc csv", has("id conversationid authorid createdat text", "tweeturl userscreenname text"), False),
    Layout("bluesky csv", has("uri cid|userhandle text"), False),
    Layout("reddit csv", has("author subreddit title|body"), False),
    Layout("youtube takeout", has("commentid videoid commenttext"), False),
    Layout("zeeschuimer csv", has("itemid sourceplatform navindex"), False),
    Layout("mind news", has("id category subcategory title abstract"), True),
    Layout("media cloud", has("storiesid title url", "title url publishdate"), True),
)
# fmt: on
"""Layouts of tables, and whether they hold articles; columns that no table but a collector's has together.

A thread and an author alone would be a cascade's.
"""


def platform_of(post: Object) -> Layout[Object, Reader] | None:
    """Return the layout of an object; ``None`` of an object that no collector writes."""
    return recognise(PLATFORMS, post)


def collector_of(names: Sequence[str]) -> Layout[Object, bool] | None:
    """Return the layout of a table with these columns; ``None`` of a table that no collector writes."""
    return recognise(COLLECTORS, dict.fromkeys(map(plain_name, names)))


def read_platform(layout: Layout[Object, Reader], post: Object) -> tuple[str, str]:
    """Return (text, id) of an object, by a layout that may be that of others in its file."""
    return layout.read(_inner(post, layout))


_WRAPPERS = ("data", "tweet", "commit", "node", "post")
"""Fields of Zeeschuimer's and Bluesky's objects that hold a post, or all that matters of it."""


def _inner(post: Object, layout: Layout[Object, Reader] | None) -> Object:
    """Return an object together with the fields that its wrappers hold, so that a path needs no wrapper's name."""
    if layout is None or layout.name not in ("zeeschuimer", "bluesky"):
        return post
    for name in _WRAPPERS:
        if isinstance(post.get(name), dict):
            post = post | post[name]
    return post


def _is_document(content: Content) -> bool:
    """Return whether the first line alone is no JSON object: a list, or an object over many lines."""
    first = content.head(1)[0].strip()
    # A list is one document; an object over many lines does not end in its first line.
    if first.startswith("["):
        return True
    return parsed_json(first) is None and (first == "{" or not first.endswith("}"))


def _unpaged(value: object) -> Iterator[Object]:
    """The posts of a page, a feed or a list; an object that is none of these is a post."""
    if isinstance(value, list):
        for inner in value:
            yield from _unpaged(inner)
        return
    if not isinstance(value, dict):
        return
    page = _page(value)
    if page is None:
        # Feeds wrap each post, and archives of X each tweet.
        inner = next((value[name] for name in ("post", "tweet") if isinstance(value.get(name), dict)), value)
        yield inner if {"record", "full_text"} & inner.keys() else value
        replies = dig(value, "replies.comments")
        yield from _unpaged(replies if isinstance(replies, list) else [])
        return
    # Pages of the second API of X list the authors and the repeated tweets apart: each post takes them along.
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


def _page(value: Object) -> Sequence[object] | None:
    """Return the list of posts that an object holds; ``None`` of a post."""
    messages = [chat for chat in (value, *_dicts(dig(value, "chats.list"))) if _dicts(chat.get("messages"))]
    # An export of Telegram holds one chat, or a list of chats; service messages have no text.
    listed = [message for chat in messages for message in chat["messages"]]
    if any({"id", "type", "date"} <= message.keys() for message in _dicts(listed)):
        return [message for message in _dicts(listed) if message.get("type") == "message"]
    if "extractor" in value and _dicts(value.get("comments")):
        return _dicts(value["comments"])
    return next((value[name] for name in _PAGES if isinstance(value.get(name), list) and "text" not in value), None)


def _dicts(value: object) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text_at(post: object, paths: Iterable[str]) -> str:
    """Return the text at the first path that has one; a list of pieces, as Telegram keeps it, is joined."""
    texts = (_joined(dig(post, path)) for path in paths)
    return next((text for text in texts if text.strip()), "")


def _joined(value: object) -> str:
    pieces = value if isinstance(value, list) else [value]
    # Pieces of a list are texts, or objects with one, such as links; an object alone is no text.
    texts = (piece.get("text") if isinstance(piece, dict) and pieces is value else piece for piece in pieces)
    return "".join(text for text in texts if isinstance(text, str))


def _value_at(post: object, paths: Iterable[str]) -> str | int | float | None:
    """Return the text or number at the first path that has one."""
    values = (dig(post, path) for path in paths)
    return next((value for value in values if isinstance(value, str | int | float) and value != ""), None)


def _repeated(cut: str, whole: str) -> str:
    """``RT @name: `` and all that was repeated, in place of its first words."""
    # A retweet repeats 140 characters behind "RT @name: ".
    head, colon, _ = cut.partition(": ")
    return f"{head}: {whole}" if whole and colon and head.startswith("RT @") else whole or cut


def _name(value: object) -> str:
    return "" if value is None else str(value)


_PATHS = name_table("""
    author: user.screen_name author.username __users.author.username author.handle author.uniqueId
        core.user_results.result.core.screen_name core.user_results.result.legacy.screen_name user.username
        owner.username account.acct account.username author.unique_id creator.username note.user.nickname user.nickname
        actor.name.text actors.0.name comet_sections.content.story.actors.0.name author.name
        snippet.topLevelComment.snippet.authorDisplayName snippet.authorDisplayName actor author from from_id author_id
        did author.did media_name
    time: created_at legacy.created_at record.createdAt record.value.createdAt indexedAt taken_at taken_at_timestamp
        createTime create_time creation_time creationTs created_utc createdAt
        comet_sections.timestamp.story.creation_time note.time publish_date datetime published
        snippet.topLevelComment.snippet.publishedAt snippet.publishedAt date_unixtime date timestamp
    language: lang legacy.lang record.langs.0 textLanguage language record.value.langs.0
    replies: reply_count public_metrics.reply_count replyCount replies_count stats.commentCount statsV2.commentCount
        statistics.comment_count comment_count edge_media_to_comment.count legacy.reply_count
        text_post_app_info.direct_reply_count commentsCount num_comments note.interactInfo.commentCount
        socialDetail.totalSocialActivityCounts.numComments
    shares: retweet_count public_metrics.retweet_count repostCount reblogs_count stats.shareCount statsV2.shareCount
        statistics.share_count legacy.retweet_count text_post_app_info.repost_count share_count
        note.interactInfo.shareCount socialDetail.totalSocialActivityCounts.numShares
    likes: favorite_count public_metrics.like_count likeCount favourites_count stats.diggCount statsV2.diggCount
        statistics.digg_count legacy.favorite_count like_count edge_liked_by.count edge_media_preview_like.count
        upVoteCount score note.interactInfo.likedCount socialDetail.totalSocialActivityCounts.numLikes
    views: public_metrics.impression_count views.count stats.playCount statsV2.playCount play_count view_count
        statistics.play_count
    url: url permalink_url permalink link
""")
FIELDS = ("id", "text", *_PATHS)
"""The columns of posts of a known collector."""
_RELATIONS = name_table("""
    repost_of: retweeted_status.id_str legacy.retweeted_status_result.result.rest_id record.subject.uri reblog.uri
        reblog.id crosspost_parent
    parent: in_reply_to_status_id_str legacy.in_reply_to_status_id_str record.reply.parent.uri parent_id in_reply_to_id
        object.inReplyTo reply_to_message_id snippet.parentId parent
    thread: conversation_id conversation_id_str legacy.conversation_id_str record.reply.root.uri link_id snippet.videoId
        thread_id
    shared_link: entities.urls.0.expanded_url legacy.entities.urls.0.expanded_url record.embed.external.uri card.url
        reblog.card.url url_overridden_by_dest
""")
"""Relations of a post: the post that it passes on, that it answers, its conversation, the page it links to."""
RELATIONS = tuple(_RELATIONS)
_LINK = re.compile(r"https?://(?!t\.co/)[^\s<>\"']+")
"""An address in a text; those of t.co are made anew for every post."""
_RENAMED = {"stories_id", "id", "text", "language", "media_name", "publish_date", "url"}
"""Fields of a story of Media Cloud that are under another name in ``FIELDS``."""
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


def flat(posts: Iterable[Object]) -> pl.DataFrame:
    """Objects as a table: of known collectors ``FIELDS``, of other objects their own fields.

    Args:
        posts: as :func:`ensue.data.posts.platforms.objects` gives them.
    """
    rows = [collected(post) or _plain(post) for post in posts]
    names = list(dict.fromkeys(name for row in rows for name in row))
    # Fields of collectors come first, in one order for all platforms.
    if set(FIELDS) <= set(names) or set(names) <= set(FIELDS):
        names = [*(name for name in FIELDS if name in names), *(name for name in names if name not in FIELDS)]
    return pl.DataFrame([_column(name, [row.get(name) for row in rows]) for name in names])


def beside(originals: Callable[[], pl.DataFrame], added: pl.DataFrame, as_table: bool) -> pl.DataFrame:
    """Return :func:`~ensue.data.table.extended`; of JSON, if ``as_table``, a table of the objects' fields."""
    table = originals()
    if as_table and table.columns == [JSON]:
        return extended(flat(json.loads(line) for line in table[JSON]), added)
    return extended(table, added)


def collected(post: Object) -> Object | None:
    """Return ``FIELDS`` of an object as a collector writes it; ``None`` of any other."""
    layout = platform_of(post) or recognise([_STORY], post)
    if layout is None:
        return None
    inner = _inner(post, layout)
    text, name = layout.read(inner)
    fields: Object = {"id": name, "text": text}
    fields |= {field: _value_at(inner, paths) for field, paths in _PATHS.items()}
    fields["time"] = moment(fields["time"])
    fields |= {field: _count(fields[field]) for field in _COUNTS}
    fields["author"] = None if fields["author"] is None else str(fields["author"])
    if not str(fields["url"] or "").startswith("http"):
        fields["url"] = _address(inner, layout.name, fields)
    if layout is not _STORY:
        return fields
    # A story keeps what else Media Cloud knows of it, but no second copy of its text.
    other_fields = _plain({key: value for key, value in post.items() if key not in _RENAMED})
    return fields | {key: value for key, value in other_fields.items() if key not in FIELDS and value != text}


def related(post: Object) -> Object:
    """Return ``RELATIONS`` of an object as a collector writes it; ``None`` for those that it lacks."""
    layout = platform_of(post)
    inner = _inner(post, layout)
    relations: Object = {name: _value_at(inner, paths) for name, paths in _RELATIONS.items()}
    for reference in post.get("referenced_tweets") or []:
        kind = reference.get("type") if isinstance(reference, dict) else None
        role = {"retweeted": "repost_of", "replied_to": "parent"}.get(str(kind))
        if role is not None:
            relations[role] = str(reference.get("id"))
    # Mastodon names the status that is passed on by its address.
    if post.get("type") == "Announce" and isinstance(post.get("object"), str):
        relations["repost_of"] = post["object"]
    if layout is None:
        return relations
    if layout.name == "reddit" and not post.get("is_self") and str(post.get("url", "")).startswith("http"):
        relations["shared_link"] = relations["shared_link"] or post["url"]
    if relations["shared_link"] is None:
        match = _LINK.search(layout.read(inner)[0])
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
        # Seconds, milliseconds or microseconds since 1970, by the number of digits.
        if text.isdigit() and len(text) in _SECONDS:
            when = datetime.fromtimestamp(int(text) / _SECONDS[len(text)], UTC)
        elif text[:1].isalpha():
            when = datetime.strptime(text, "%a %b %d %H:%M:%S %z %Y")  # Wed Oct 10 20:19:24 +0000 2018
        else:
            when = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return text or None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")


def _address(post: Object, layout: str, fields: Object) -> str | None:
    """Return the address that a platform gives a post; ``None`` where a part of it was not collected."""
    platform = dig(post, "source_platform") or dig(post, "__import_meta.source_platform") or layout
    name = str(platform).lower().removesuffix(".com").removeprefix("www.").split()[0]
    pattern = _ADDRESSES.get({"twarc": "twitter"}.get(name, name))
    code = _name(_value_at(post, ("code", "shortcode")))
    if layout == "bluesky":
        code = str(fields["id"]).rsplit("/", 1)[-1]
    if pattern is None or not fields["id"] or ("{code}" in pattern and not code):
        return None
    author = fields["author"] or ""
    # An address of X without the name of its author works with i/web in its place.
    if "twitter" in pattern and (not author or author.isdigit()):
        author = "i/web"
    return pattern.format(author=author, id=fields["id"], code=code) if author or "{author}" not in pattern else None


def _count(value: object) -> int | None:
    """A number of people; some platforms write it as a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() else None


def _plain(post: Object) -> Object:
    """The fields of any object; what holds more than a text or a number stays JSON."""
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        for name, value in post.items()
        if not name.startswith(("__includes", "__users"))
    }


def _column(name: str, values: Sequence[object]) -> pl.Series:
    """Return a column of whole numbers, numbers or texts, as all the values are."""
    # Whole numbers beyond 64 bits, such as ids of TikTok with a sign, stay texts.
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
    # More than half of the activities open a page of results.
    urls = pl.Series([str(sample.get("titleUrl", "")) for sample in samples], dtype=pl.String)
    return bool(len(urls)) and int(urls.str.contains(_SEARCH).sum()) > len(urls) / 2


def read_activities(content: Content) -> pl.DataFrame:
    """Return the activities that have an address, with their ``line``, ``url``, ``time`` and ``query``, maybe null."""
    frame = read_objects(content, {"titleUrl": pl.String(), "time": pl.String()}, read_object)
    query = pl.col("titleUrl").str.extract(_SEARCH).map_elements(unquote_plus, return_dtype=pl.String)
    rows = frame.with_row_index("line", offset=1).with_columns(query=query).rename({"titleUrl": "url"})
    return rows.drop_nulls("url")
