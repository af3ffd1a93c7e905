"""Which column plays which role: stated, or found by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ensue.errors import DataError, SettingError

ROLES = ("sequence", "value", "time")
_SESSIONS = ("session", "sessionid", "sequence", "sequenceid")
_STORIES = ("cascade", "cascadeid", "story", "storyid", "conversationid", "threadid")
_PAGES = ("url", "pageurl")
_USERS = ("user", "userid", "visitorid", "author", "authorid", "username", "account", "customerid")
_ITEMS = ("item", "itemid", "articleid", "article", "productid", "product", "page", "pageid", "value", "valueid")
_TIMES = ("time", "timestamp", "ts", "datetime", "createdat", "date", "eventdate", "timeframe")


def find_columns(path: Path, names: Sequence[str], stated: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The column of each role, and a note wherever two columns would have fitted.

    A session holds items. A story (a cascade, a page's address) holds the users who passed it on. A user without
    either holds items.

    Raises:
        DataError: a column that is missing, or no column for the sequence or the value.
        SettingError: a role that does not exist, or one column in two roles.
    """
    for role, name in stated.items():
        if role not in ROLES:
            raise SettingError(f"columns: role {role!r} is not known; the roles are {', '.join(ROLES)}")
        if name not in names:
            raise DataError(f"{path}: column {name!r} ({role}) is missing; the columns are {_list(names)}")
    if len(set(stated.values())) < len(stated):
        raise SettingError(f"columns: {_list(list(stated.values()))} names one column twice; give each role its own")
    found = dict(stated)

    def fill(role: str, known: tuple[str, ...]) -> None:
        fitting = [name for name in _named(names, known) if name not in found.values()]
        if role not in found and fitting:
            found[role] = fitting[0]

    fill("sequence", _SESSIONS + _STORIES + (_USERS + _PAGES if _named(names, _ITEMS) else _PAGES + _USERS))
    story = found.get("sequence") in _named(names, _STORIES + _PAGES)
    fill("value", _USERS + _ITEMS if story else _ITEMS + _PAGES + _USERS)
    fill("time", _TIMES)
    for role in ROLES[:2]:
        if role not in found:
            raise DataError(
                f"{path}: no column is known as the {role}; the columns are {_list(names)}; name them with --columns "
                "sequence=…,value=…,time=…"
            )
    others = [name for name in _named(names, _TIMES) if name not in found.values()]
    doubt = tuple(f"time is {found['time']!r}; {name!r} would fit too, choose with --columns" for name in others)
    return {role: found[role] for role in ROLES if role in found}, () if "time" in stated else doubt


def _named(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The names that are known, in the order of the known ones."""
    plain = {name: _plain(name) for name in names}
    return [name for word in known for name in names if plain[name] == word]


def _plain(name: str) -> str:
    """``Session_ID``, ``SessionId`` and RecBole's ``session_id:token`` alike; a unit at the end of a time is cut."""
    word = name.strip().split(":")[0].lower()
    word = re.sub(r"_(s|secs?|seconds?|ms|millis|milliseconds?|h|hours?)$", "", word)
    return re.sub(r"[^a-z0-9]", "", word)


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
