"""Conversations as sessions of queries: a row a turn, or an object a conversation with a list of its turns.

``{"conversation": …, "turns": ["…", …]}`` · ``{"messages": [{"role": "user", "content": "…"}, …]}`` ·
``{"number": 1, "turn": [{"number": 1, "raw_utterance": "…"}, …]}`` (TREC CAsT) · ``{"conversations": [{"from": "human",
"value": "…"}, …]}``. Where turns say who speaks and a user is among the speakers, the user's turns are the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from ensue.data.files import Content
from ensue.data.roles import plain_name, split_words
from ensue.data.table import Table, read_object, sample_objects
from ensue.errors import DataError
from ensue.lines import part_of, quoted

CONVERSATIONS = split_words(
    "conversation conversationid conversationno conversationnumber dialogue dialogueid dialog dialogid dialogno",
    "quacdialogid chat chatid",
)
TURNS = ("turn", "turnid", "turnno", "turnnumber", "turnindex", "questionno", "utteranceid")
TEXTS = ("text", "utterance", "rawutterance", "message", "content", "value", "query", "question")
SPEAKERS = ("speaker", "role")
_FROM = (*SPEAKERS, "from", "sender")
_LISTS = ("turns", "turn", "messages", "conversations", "conversation", "dialogue", "dialog", "utterances", "queries")
_SHORT, _LONG = 6, 500
"""Characters: a phrase has the first at least, and the reader of queries takes no more than the second."""
_USERS = ("user", "human", "customer", "seeker", "usr")
_NAMES = ("user", "userid", "anonid", "clientid")
_PARTS = ("split", "part", "fold")


def list_of_turns(content: Content) -> str | None:
    """The field of JSON Lines that lists the turns of a conversation, or ``None``."""
    if not content.json:
        return None
    first = sample_objects(content)[0]
    return next((name for name in first if plain_name(name) in _LISTS and _is_turns(first[name])), None)


def are_queries(content: Content) -> bool:
    """Return whether the ``values`` of JSON Lines are typed phrases: half of them have a blank inside, none is long.

    Ids hold no blanks; queries have 2.2 words in the mean (Jansen, Spink & Saracevic 2000).
    """
    lists = [sample.get("values") for sample in sample_objects(content)]
    values = [value for own in lists if isinstance(own, list) for value in own]
    if not values or not all(isinstance(value, str) for value in values):
        return False
    lengths = sorted(len(value) for value in values)
    blanks = sum(" " in value.strip() for value in values)
    return blanks >= len(values) / 2 and lengths[len(lengths) // 2] >= _SHORT and lengths[-1] <= _LONG


def read_turns(content: Content, listed: str) -> tuple[pl.DataFrame, Callable[[int], str], tuple[str, ...]]:
    """The turns of objects, a row each.

    Args:
        content: JSON Lines.
        listed: the field with the turns.

    Returns:
        Columns ``text``, ``conversation``, ``user`` and ``part``; the place of a row; and notes.

    Raises:
        DataError: an object without turns, or a turn without a text.
    """
    rows, numbers = list[tuple[str, str | None, str, str | None, str | None]](), list[int]()
    for place, (number, line) in enumerate(content.filled()):
        where = f"{content.path}, line {number}"
        found = read_object(line, where)
        turns = found.get(listed)
        if not isinstance(turns, list):
            raise DataError(f"{where}: field {quoted(listed)} is not a list of turns")
        user, part = _named(found, _NAMES), _named(found, _PARTS)
        for text, speaker in _turns(turns, where):
            rows.append((text, speaker, str(place), user, part))
            numbers.append(number)
    names = ("text", "speaker", "conversation", "user", "part")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    kept, notes = _asked(frame["speaker"])
    places = kept.arg_true()
    taken = f"conversations are the objects, their turns in {quoted(listed)}"
    return frame.filter(kept), lambda row: f"{content.path}, line {numbers[places[row]]}", (taken, *notes)


def of_users(table: Table) -> Table:
    """The rows that users typed, where a column says who speaks."""
    if "speaker" not in table.columns:
        return table
    kept, notes = _asked(table.frame["speaker"])
    return replace(table.select(kept), notes=(*table.notes, *notes))


def in_turn(content: Content, table: Table) -> tuple[Table, tuple[str, ...]]:
    """The rows in order of their turns, where there is no time, and notes.

    Raises:
        DataError: a turn that is no number.
    """
    if "turn" not in table.columns or "time" in table.columns:
        return table, table.notes
    turns = table.frame["turn"].str.strip_chars().cast(pl.Float64, strict=False)
    for row in turns.is_null().arg_true()[:1]:
        raise DataError(f"{table.where(row)}: turn {quoted(table.frame['turn'][row])} is not a number")
    order = np.argsort(turns.to_numpy(), kind="stable")
    where = table.where
    ordered = replace(table, frame=table.frame[order], where=lambda row: where(int(order[row])))
    return ordered, (*table.notes, f"queries are in order of {quoted(table.columns['turn'])}")


def _turns(turns: list[object], where: str) -> Iterator[tuple[str, str | None]]:
    for turn in turns:
        text, speaker = (turn, None) if isinstance(turn, str) else (_text(turn), _named(turn, _FROM))
        if text is None:
            raise DataError(f'{where}: a turn has no text; give a text, or an object with one, such as {{"text": …}}')
        yield text, speaker


def _asked(speakers: pl.Series) -> tuple[pl.Series, tuple[str, ...]]:
    """(rows,) whether a user speaks; everybody where no user is among them."""
    users = speakers.str.strip_chars().str.to_lowercase().is_in(list(_USERS)).fill_null(False)
    if not users.any() or users.all():
        return pl.repeat(True, len(speakers), eager=True), ()
    left = part_of(len(users) - int(users.sum()), len(users), "turn", "is", "are")
    return users, (f"{left} by speakers other than the user: left out",)


def _is_turns(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return isinstance(value[0], str) or _text(value[0]) is not None


def _text(turn: object) -> str | None:
    return _named(turn, TEXTS) if isinstance(turn, Mapping) else None


def _named(found: object, names: tuple[str, ...]) -> str | None:
    """The first field of an object that bears one of some names, as a text."""
    if not isinstance(found, Mapping):
        return None
    plain = {plain_name(str(name)): value for name, value in found.items()}
    values = (plain[name] for name in names if name in plain)
    return next((str(value) for value in values if isinstance(value, str | int) and not isinstance(value, bool)), None)
