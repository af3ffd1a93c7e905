"""Which column plays which role: stated, or found by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path

import polars as pl

from ensue.data.clock import SINCE_1970, TIME_NAMES, plain_time_name
from ensue.data.dates import HOURS, are_day_and_clock
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
CLOCK = "clock"
"""The role of the time of day where ``time`` is a day; of Diginetica's ``timeframe``, milliseconds in a session."""
PARTS = ("minute", "second")
"""Roles of columns of minutes and seconds, where the time of day is an hour."""
TURN = "turn"
"""The role of a number such as ``position``, which may order the events of a session where they have no times."""
_TURNS = split_words(
    "turn position positioninsession step stepnumber order eventorder clickorder addtocartorder index eventindex seq",
    "sequencenumber seqno eventnumber hitnumber clicknumber",
)
_DAYS = (*TIME_NAMES, "day", "eventday", "visitday", "sessiondate", "serverdate", "logdate", "transactiondate")
_CLOCKS = split_words(
    *TIME_NAMES,
    "timeofday clock clocktime hour hourofday eventhour visithour hourminute hhmm hhmmss uhrzeit stunde heure",
)
"""Names of columns that may hold the day, and those that may hold the time of day."""
_MIN_NUMBERS = 10
"""Number of values from which on numbers such as 32815 are times of day."""
ADVICE = "give texts or numbers, one row per event, or a list of items and one of times in a row per session"
"""What to do with columns of lists or objects."""
_LISTS = ("events", "actions", "interactions", "clicks", "views", "session")
"""Names of columns of lists of items, besides those of items."""
_VISITS = ("session", "sessionid", "usersession", "visitid", "idvisit", "domainsessionid")
_SESSIONS = (*_VISITS, "sequence", "sequenceid")
_STORIES = ("cascade", "cascadeid", "story", "storyid", "conversationid", "threadid")
_PAGES = ("url", "pageurl", "currenturl", "pagelocation", "pagepath", "urlpath")
USERS = split_words(
    "user userid visitorid author authorid username account customerid reviewerid userpseudoid fullvisitorid",
    "distinctid anonymousid domainuserid clientid deviceid memberid buyerid nutzer benutzer kunde kundennummer",
    "utilisateur usuario cliente",
)
_ORDERS = ("orderid", "basketid", "cartid", "invoiceno", "invoiceid", "receiptid")
_ITEMS = split_words(
    "item itemid articleid article productid product page pageid value valueid artikel artikelnummer produkt produit",
    "producto articulo",
)
_PRODUCTS = split_words(
    "movieid bookid businessid venueid locationid placeid poiid asin parentasin trackid songid artistid videoid",
    "newsid courseid gameid appid recipeid aid sku titleurl stockcode lineitemsku productsku skuid goodsid",
    "contentid documentid docid clickarticleid trackuri spotifytrackuri offerid listingid isbn",
)
"""Names of items in published logs; a table with two of them does not say which of them is the item."""
_COMPOUNDS = frozenset((*_SESSIONS, *USERS, *_ITEMS, *_PRODUCTS))
"""Names that a field has together with its object, such as ``user.id``."""
WHOLE_USERS = (
    *("recbole", "ratings", "movielens", "movielens 100k", "amazon", "amazon 2018"),
    *("check-ins", "foursquare", "foursquare global"),
)
"""Layouts whose sequences are users: their events are days apart, and no published protocol cuts them by pauses."""
_RATINGS = ("rating", "ratings", "stars", "overall")
_LOG_ITEMS: Mapping[frozenset[str], str] = {frozenset(("sessionid", "actiontype", "reference")): "reference"}
"""Columns of published logs (Trivago) whose values are items in some rows only, and the column that holds them."""
_ACTIONS = ("action", "actiontype", "actionname", "activity", "activitytype", "interaction", "interactiontype")
KINDS = (
    *split_words("event kind eventcategory eventtype eventname type behavior behaviour behaviortype behaviourtype"),
    *_ACTIONS,
)
_RETAILROCKET = {"timestamp", "visitorid", "event", "itemid", "transactionid"}
_TYPED = re.compile(r"[^:]+:(token|token_seq|float|float_seq)")


def find_columns(
    path: Path,
    names: Sequence[str],
    stated: Mapping[str, str],
    trained: DataSchema = NO_SCHEMA,
    events: str = "",
    samples: Sequence[Mapping[str, object]] = (),
    needed: Sequence[str] = ROLES[:2],
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
        samples: the first rows, by whose values a day and a time of day in two columns are found.
        needed: roles that need a column; where a row is a whole session, the item alone.

    Raises:
        DataError: a column that is missing, no column for the sequence or the value, or several that may be meant.
        SettingError: a role that does not exist, or one column in two roles.
    """
    if KIND in stated and not (events or trained.events):
        raise SettingError(f"columns: {KIND}={stated[KIND]} needs --events, the event types that are read")
    require_roles(stated, (*ROLES, CLOCK, *PARTS, KIND, *NUMBERS))
    require_columns(path, names, stated)
    usual = trained.present(names, stated)
    # A day and its time of day go together, or both are looked for.
    is_part = CLOCK in trained.columns and not {"time", CLOCK} <= usual.keys()
    stated = {**{role: usual[role] for role in usual if not is_part or role not in ("time", CLOCK)}, **stated}
    columns = dict(stated)
    held = {name: {row[name] for row in samples if name in row and isinstance(row[name], str | None)} for name in names}
    empty = {name for name in names if held[name] and not held[name] - {None, ""}}

    def fill(role: str, candidates: tuple[str, ...]) -> None:
        fitting = [
            name for name in sorted(named(names, candidates), key=empty.__contains__) if name not in columns.values()
        ]
        if role not in columns and fitting:
            columns[role] = fitting[0]

    # Each column is looked for among those that are left: a user is the session of items, and the item of a story.
    items = _ITEMS + _PRODUCTS
    fill("session", _SESSIONS + _STORIES + (USERS + _PAGES if named(names, items) else _PAGES + USERS) + _ORDERS)
    if not stated:
        _require_one_meaning(path, names, columns)
    story = columns.get("session") in named(names, _STORIES + _PAGES)
    # Whoever visits pages in a session is no item of it; in a sequence of another kind a user may be one.
    visit = _plain(columns.get("session", "")) in _VISITS
    fill("item", USERS + items if story else items + _PAGES + (() if visit else USERS))
    fill("time", TIME_NAMES)
    # Of a song, its artist and its album, any may be the item.
    products = [name for name in names if _plain(name) in _PRODUCTS + _PAGES]
    if "item" not in stated and columns.get("item") in products and len(products) > 1:
        choices = " or ".join(f"item={name}" for name in products)
        raise DataError(f"{path}: the columns {listed(products)} may all be the item; choose with --columns {choices}")
    for role in needed:
        if role not in columns:
            example = ",".join(f"{name}={_asked(name, names, columns)}" for name in ROLES)
            nested = [name for name in names if any(isinstance(row.get(name), list | dict) for row in samples)]
            hint = f"; nested columns are {listed(nested)}: {ADVICE}" if nested else ""
            raise DataError(
                f"{path}: no column is recognised as the {role}; the columns are {listed(names)}; name them with "
                f"--columns {example}{trained_on(trained)}{hint}"
            )
    if events or trained.events:
        fill(KIND, KINDS)
    else:
        columns.pop(KIND, None)  # the training data was chosen from by a program of another kind
    if events and KIND not in columns:
        raise DataError(
            f"{path}: --events {events}: no column is recognised as the event type; the columns are "
            f"{listed(names)}; name it with --columns {KIND}=…"
        )
    if "time" not in stated:
        columns |= _within(names, columns) or day_and_clock(path, samples)
    if "time" not in columns:
        fill(TURN, _TURNS)
    notes = renamed(columns, trained)
    if CLOCK in columns:
        unit = ", milliseconds within the session" if is_offset(columns) else ""
        clocks = listed(columns[role] for role in (CLOCK, *PARTS) if role in columns)
        notes.append(f"time is the day {quoted(columns['time'])} plus {clocks}{unit}")
    if WEIGHT in trained.columns and WEIGHT not in columns:
        notes.append(f"column {quoted(trained.columns[WEIGHT])} of the training data is missing: events have weight 1")
    for name in named(names, TIME_NAMES) if "time" not in stated and CLOCK not in columns else ():
        if name not in columns.values():
            notes.append(f"time is {quoted(columns['time'])}; {quoted(name)} would fit too; choose with --columns")
    roles = (*ROLES, CLOCK, *PARTS, TURN, KIND, *NUMBERS)
    return {role: columns[role] for role in roles if role in columns}, tuple(notes)


def day_and_clock(path: Path, samples: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """Return the column of the day as ``time`` and that of the time of day as ``clock``; nothing unless both are there.

    Args:
        path: the file, for messages.
        samples: the first rows.

    Raises:
        DataError: several columns of either kind, or a time of day that may be a number of seconds.
    """
    rows = (
        {name: str(row[name]) for name in named([*row], _DAYS + _CLOCKS) if row[name] is not None} for row in samples
    )
    texts = pl.DataFrame([row for row in rows if row], infer_schema_length=None)
    midnight = pl.Series(["00:00"] * len(texts))
    days = [name for name in named(texts.columns, _DAYS) if are_day_and_clock(texts[name], midnight)]
    named_pairs = product(days, named(texts.columns, _CLOCKS))
    pairs = [(day, clock) for day, clock in named_pairs if day != clock and are_day_and_clock(texts[day], texts[clock])]
    times = named(texts.columns, TIME_NAMES)[:1]
    # Small numbers beside a day may be seconds of that day.
    numbers = {name: texts[name].cast(pl.Float64, strict=False).drop_nulls().to_list() for name in texts.columns}
    small = [name for name in times if name not in days and 0 < max(numbers[name], default=0) < SINCE_1970]
    is_unsure = not pairs and bool(small)
    pairs = pairs or [*product(days, small)]
    if not pairs or not {*times} <= {name for pair in pairs for name in pair}:
        return {}
    day, clock = pairs[0]
    if numbers[clock] and not HOURS.search(clock):
        is_unsure |= len(numbers[clock]) < _MIN_NUMBERS or max(numbers[clock]) < 10_000
    if is_unsure or len(pairs) > 1:
        days, clocks = (list(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
        raise DataError(
            f"{path}: {listed(days)} may be the day and {listed(clocks)} its time of day; choose with --columns "
            f"time={day},{CLOCK}={clock} (22:13:20 or 221320), or time={(*times, day)[0]} for that column alone"
        )
    parts = [name for name in samples[0] if _plain(name) in PARTS and HOURS.search(clock)]
    return {"time": day, CLOCK: clock, **{_plain(name): name for name in parts}}


def entry_name(name: str) -> str:
    """Return the name that a column of lists would have for one entry: ``item`` of ``items`` and ``item_list``."""
    word = _plain(re.sub(r"(?i)_?(?:list|sequence|seq|history)$", "", name))
    known = {*_ITEMS, *_PRODUCTS, *USERS, *_PAGES, *TIME_NAMES, *KINDS}
    entries = [word, word.removesuffix("s"), f"{word.removesuffix('s')}id"]
    return next((entry for entry in entries if entry in known), "item" if word in ("", *_LISTS) else name)


def is_offset(columns: Mapping[str, str]) -> bool:
    """Return whether the time of day is milliseconds within a session, as in Diginetica's files."""
    return _plain(columns.get(CLOCK, "")) == "timeframe"


def is_user_log(columns: Mapping[str, str]) -> bool:
    """Return whether a sequence is all that a user clicked: the columns are a user and an item."""
    return _plain(columns.get("session", "")) in USERS and _plain(columns.get("item", "")) in _ITEMS + _PRODUCTS


def is_person(columns: Mapping[str, str]) -> bool:
    """Return whether a sequence is what one person does: a session or a user, no cascade."""
    return _plain(columns.get("session", "")) in _SESSIONS + USERS


def is_ratings(names: Sequence[str]) -> bool:
    """Return whether a table holds ratings of items by users, whose unit is a user and no session."""
    return bool(named(names, _RATINGS)) and not named(names, _SESSIONS)


def _asked(role: str, names: Sequence[str], columns: Mapping[str, str]) -> str:
    """The column of a role for a message: the one that is known, or that a published log has; else a gap to fill."""
    plain = {_plain(name): name for name in names}
    # A published log whose columns are all there says which of them holds its items.
    published = next((plain[word] for log, word in _LOG_ITEMS.items() if log <= plain.keys()), "…")
    column = columns.get(role, published if role == "item" else "…")
    # Without an item, a user may be what a sequence is made of.
    return "…" if role == "session" and _plain(column) in USERS else one_line(column, 60)


def _require_one_meaning(path: Path, names: Sequence[str], columns: Mapping[str, str]) -> None:
    """Refuse a user beside a page's address where neither a session, a story nor an item says what is meant.

    Raises:
        DataError: with both readings.
    """
    pages = named(names, _PAGES)
    users = named(names, USERS)
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


def _within(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Return Diginetica's day and its milliseconds within the session by role, if they are there."""
    days = named(names, ("eventdate",))
    offsets = named(names, ("timeframe",))
    used = {columns.get("session"), columns["item"]}
    session = _plain(columns.get("session", "")) in _SESSIONS and not {*days, *offsets} & used
    return {"time": days[0], CLOCK: offsets[0]} if days and offsets and session else {}


def named(names: Sequence[str], candidates: Sequence[str]) -> list[str]:
    """Return the names that are known, such as ``USERS`` or ``KINDS``, in the order of the known ones.

    Fields of inner objects, such as ``properties.item``, come after all others.
    """
    plain = {name: _plain(name) for name in names}
    found = [name for word in candidates for name in names if plain[name] == word]
    return sorted(found, key=lambda name: "." in name)


@lru_cache(4096)
def _plain(name: str) -> str:
    """``Session_ID``, ``user.session_id`` and RecBole's ``session_id:token`` alike; the unit of a time is cut."""
    word = plain_time_name(name)
    return word if word in _COMPOUNDS else plain_time_name(name.rpartition(".")[2])
