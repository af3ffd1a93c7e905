"""Which column plays which role: stated, or found by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ensue.data.clock import TIME_NAMES, plain_time_name
from ensue.data.schema import NO_SCHEMA, DataSchema, renamed, require_columns, require_roles, split_words, trained_on
from ensue.errors import DataError, SettingError
from ensue.lines import listed, one_line, quoted

ROLES = ("session", "item", "time")
KIND = "kind"
"""The role of the column that says of which kind an event is; looked for where kinds are chosen."""
WEIGHT = "weight"
"""The role of the column of weights of events; only where it is stated."""
PROPENSITY = "propensity"
"""The role of the column of probabilities with which items were shown; only where it is stated."""
NUMBERS = (WEIGHT, PROPENSITY)
"""Roles of columns of numbers."""
WITHIN = "within"
"""The role of Diginetica's ``timeframe``, milliseconds within a session whose ``time`` is only a day. Never stated."""
_SESSIONS = ("session", "sessionid", "sequence", "sequenceid")
_STORIES = ("cascade", "cascadeid", "story", "storyid", "conversationid", "threadid")
_PAGES = ("url", "pageurl")
_USERS = ("user", "userid", "visitorid", "author", "authorid", "username", "account", "customerid", "reviewerid")
_ITEMS = ("item", "itemid", "articleid", "article", "productid", "product", "page", "pageid", "value", "valueid")
_PRODUCTS = split_words(
    "movieid bookid businessid venueid locationid placeid poiid asin parentasin trackid songid artistid videoid",
    "newsid courseid gameid appid recipeid aid sku titleurl",
)
"""Names of items in published logs; a table with two of them does not say which of them is the item."""
WHOLE_USERS = (
    *("recbole", "ratings", "movielens", "movielens 100k", "amazon", "amazon 2018"),
    *("check-ins", "foursquare", "foursquare global"),
)
"""Layouts whose sequences are users: their events are days apart, and no published protocol cuts them by pauses."""
_RATINGS = ("rating", "ratings", "stars", "overall")
_LOG_ITEMS: Mapping[frozenset[str], str] = {frozenset(("sessionid", "actiontype", "reference")): "reference"}
"""Columns of published logs (Trivago) whose values are items in some rows only, and the column that holds them."""
_ACTIONS = ("action", "actiontype", "actionname", "activity", "activitytype", "interaction", "interactiontype")
_KINDS = (
    *split_words("event kind eventcategory eventtype eventname type behavior behaviour behaviortype behaviourtype"),
    *_ACTIONS,
)
_RETAILROCKET = {"timestamp", "visitorid", "event", "itemid", "transactionid"}
_TYPED = re.compile(r"[^:]+:(token|token_seq|float|float_seq)")


def find_columns(
    path: Path, names: Sequence[str], stated: Mapping[str, str], trained: DataSchema = NO_SCHEMA, events: str = ""
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Find the column of each role, and write a note wherever two columns would have fitted.

    A session holds items, never users. A story or a cascade holds the users who passed it on. A user without either
    holds items. A user and a page's address may be either: users open pages, and pages are shared by users.

    Args:
        path: the file, for messages.
        names: its columns.
        stated: role -> column.
        trained: how the training data was read; its columns come before those found by name.
        events: the event types that are read, as stated; every table needs a column of them then.

    Raises:
        DataError: a column that is missing, no column for the sequence or the value, or several that may be meant.
        SettingError: a role that does not exist, or one column in two roles.
    """
    if KIND in stated and not (events or trained.events):
        raise SettingError(f"columns: {KIND}={stated[KIND]} needs --events, the event types that are read")
    require_roles(stated, (*ROLES, KIND, *NUMBERS))
    require_columns(path, names, stated)
    if WITHIN not in trained.columns:  # a day and its milliseconds are found by their names alone
        stated = {**trained.present(names, stated), **stated}
    columns = dict(stated)

    def fill(role: str, candidates: tuple[str, ...]) -> None:
        fitting = [name for name in _named(names, candidates) if name not in columns.values()]
        if role not in columns and fitting:
            columns[role] = fitting[0]

    # Each column is looked for among those that are left: a user is the session of items, and the item of a story.
    items = _ITEMS + _PRODUCTS
    fill("session", _SESSIONS + _STORIES + (_USERS + _PAGES if _named(names, items) else _PAGES + _USERS))
    if not stated:
        _require_one_meaning(path, names, columns)
    story = columns.get("session") in _named(names, _STORIES + _PAGES)
    # Whoever visits pages in a session is no item of it; in a sequence of another kind a user may be one.
    visit = _plain(columns.get("session", "")) in _SESSIONS[:2]
    fill("item", _USERS + items if story else items + _PAGES + (() if visit else _USERS))
    fill("time", TIME_NAMES)
    # Of a song, its artist and its album, any may be the item.
    products = [name for name in names if _plain(name) in _PRODUCTS]
    if "item" not in stated and columns.get("item") in products and len(products) > 1:
        choices = " or ".join(f"item={name}" for name in products)
        raise DataError(f"{path}: the columns {listed(products)} may all be the item; choose with --columns {choices}")
    for role in ROLES[:2]:
        if role not in columns:
            example = ",".join(f"{name}={_asked(name, names, columns)}" for name in ROLES)
            raise DataError(
                f"{path}: no column is recognised as the {role}; the columns are {listed(names)}; name them with "
                f"--columns {example}{trained_on(trained)}"
            )
    if events or trained.events:
        fill(KIND, _KINDS)
    else:
        columns.pop(KIND, None)  # the training data was chosen from by a program of another kind
    if events and KIND not in columns:
        raise DataError(
            f"{path}: --events {events}: no column is recognised as the event type; the columns are "
            f"{listed(names)}; name it with --columns {KIND}=…"
        )
    if "time" not in stated and (within := _within(names, columns)):
        day, offset = within
        roles = {"session": columns["session"], "item": columns["item"], "time": day, WITHIN: offset}
        roles |= {role: columns[role] for role in (KIND, *NUMBERS) if role in columns}
        return roles, (f"time is the day {quoted(day)} plus {quoted(offset)}, milliseconds within the session",)
    notes = renamed(columns, trained)
    if WEIGHT in trained.columns and WEIGHT not in columns:
        notes.append(f"column {quoted(trained.columns[WEIGHT])} of the training data is missing: events have weight 1")
    for name in _named(names, TIME_NAMES) if "time" not in stated else ():
        if name not in columns.values():
            notes.append(f"time is {quoted(columns['time'])}; {quoted(name)} would fit too; choose with --columns")
    return {role: columns[role] for role in (*ROLES, KIND, *NUMBERS) if role in columns}, tuple(notes)


def is_user_log(columns: Mapping[str, str]) -> bool:
    """Return whether a sequence is all that a user clicked: the columns are a user and an item."""
    return _plain(columns.get("session", "")) in _USERS and _plain(columns.get("item", "")) in _ITEMS + _PRODUCTS


def is_person(columns: Mapping[str, str]) -> bool:
    """Return whether a sequence is what one person does: a session or a user, no cascade."""
    return _plain(columns.get("session", "")) in _SESSIONS + _USERS


def user_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that may say who made each event."""
    return _named(names, _USERS)


def kind_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that may say of each event of which kind it is, such as a view or a purchase."""
    return _named(names, _KINDS)


def is_ratings(names: Sequence[str]) -> bool:
    """Return whether a table holds ratings of items by users, whose unit is a user and no session."""
    return bool(_named(names, _RATINGS)) and not _named(names, _SESSIONS)


def _asked(role: str, names: Sequence[str], columns: Mapping[str, str]) -> str:
    """The column of a role for a message: the one that is known, or that a published log has; else a gap to fill."""
    plain = {_plain(name): name for name in names}
    # A published log whose columns are all there says which of them holds its items.
    published = next((plain[word] for log, word in _LOG_ITEMS.items() if log <= plain.keys()), "…")
    column = columns.get(role, published if role == "item" else "…")
    # Without an item, a user may be what a sequence is made of.
    return "…" if role == "session" and _plain(column) in _USERS else one_line(column, 60)


def _require_one_meaning(path: Path, names: Sequence[str], columns: Mapping[str, str]) -> None:
    """Refuse a user beside a page's address where neither a session, a story nor an item says what is meant.

    Raises:
        DataError: with both readings.
    """
    pages = _named(names, _PAGES)
    users = _named(names, _USERS)
    if columns.get("session") in pages and users:
        page = pages[0]
        user = users[0]
        raise DataError(
            f"{path}: {quoted(user)} may open {quoted(page)}, or pass it on; name what is meant with --columns: "
            f"session={user},item={page} for the page that a user opens next, session={page},item={user} for the "
            "user who shares a page next"
        )


def is_retailrocket(names: Sequence[str]) -> bool:
    """Return whether these are the columns of RetailRocket's ``events.csv``."""
    return set(map(_plain, names)) == _RETAILROCKET


def is_typed(names: Sequence[str], where: str) -> bool:
    """Return whether this is RecBole's header, where every name carries a type: ``item_id:token``.

    Raises:
        DataError: some names carry a type and another none.
    """
    typed = [bool(_TYPED.fullmatch(name)) for name in names]
    if any(typed) and not all(typed):
        name = names[typed.index(False)]
        raise DataError(
            f"{where}: column {quoted(name)} has no RecBole type; write {quoted(name.split(':')[0] + ':token')}, or "
            ":token_seq, :float or :float_seq"
        )
    return all(typed)


def _within(names: Sequence[str], columns: Mapping[str, str]) -> tuple[str, str] | None:
    """Diginetica's day and its milliseconds within the session."""
    days = _named(names, ("eventdate",))
    offsets = _named(names, ("timeframe",))
    used = {columns["session"], columns["item"]}
    session = _plain(columns["session"]) in _SESSIONS and not {*days, *offsets} & used
    return (days[0], offsets[0]) if days and offsets and session else None


def _named(names: Sequence[str], candidates: Sequence[str]) -> list[str]:
    """The names that are known, in the order of the known ones."""
    plain = {name: _plain(name) for name in names}
    return [name for word in candidates for name in names if plain[name] == word]


@lru_cache(4096)
def _plain(name: str) -> str:
    """``Session_ID``, ``SessionId`` and RecBole's ``session_id:token`` alike; a unit at the end of a time is cut."""
    return plain_time_name(name)
