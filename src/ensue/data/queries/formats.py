"""The layouts of query logs, recognised by their shape and read without a Python object per row.

================  ================================================================================
csv, tsv          a header that names a query, and a user and a time or a session; so do jsonl, parquet
aol               ``AnonID, Query, QueryTime, ItemRank, ClickURL`` between tabs; clicks repeat the query
ubi               OpenSearch's ``ubi_queries`` as JSON Lines, bare or under ``_source``
session lists     a header that ends in ``queries``; then parts, names, and any number of queries between tabs
query lists       any number of queries between tabs, a session a line, no header
histories         ``{"values": […], "times": […]}`` a line, or Parquet with lists of ``values``
conversations     a table with a conversation, a turn and a text a row; or an object a conversation, with a list of its
                  turns
================  ================================================================================

A conversation is a session of queries: ``{"conversation": …, "turns": ["…", …]}`` · ``{"messages": [{"role": "user",
"content": "…"}, …]}`` · ``{"number": 1, "turn": [{"number": 1, "raw_utterance": "…"}, …]}`` (TREC CAsT) ·
``{"conversations": [{"from": "human", "value": "…"}, …]}``. Where turns say who speaks and a user is among the
speakers, the user's turns are the queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from ensue.data.clock import TIME_NAMES, is_number, plain_time_name
from ensue.data.duplicates import doubled_rows
from ensue.data.file_bytes import DROP
from ensue.data.files import Content
from ensue.data.ids import IdColumns
from ensue.data.layouts import Layout, has, recognise
from ensue.data.posts.formats import export_of
from ensue.data.posts.platforms import ACCOUNT, holds_searches, read_activities
from ensue.data.schema import FoundColumns, Roles, name_table, plain_name, require_roles
from ensue.data.sequences.columns import CLOCK, PARTS, day_and_clock
from ensue.data.sequences.formats import read_histories
from ensue.data.sequences.sessions import HISTORY, read_nested, with_clock
from ensue.data.table import Table, names_of, read_object, read_table, sample_objects, sample_rows
from ensue.errors import DataError
from ensue.lines import listed, part_of, quoted

_SHORT, _LONG = 6, 500
"""Characters: a phrase has the first at least, and the reader of queries takes no more than the second."""
_NAMES = name_table("""
    query: query userquery querytext querystring searchquery searchterm searchterms searchphrase searchtext searchstring
        searchkeyword sitesearchkeyword keywords keyword q search question suchbegriff suchanfrage busqueda
    user: anonid user userid clientid visitorid customerid uid account username anonymousid deviceid cookie cookieid
        distinctid usertoken userpseudoid nutzer utilisateur usuario
    session: session sessionid sid visit visitid
    time: time
    part: split part fold
    turn: turn turnid turnno turnnumber turnindex questionno utteranceid
    speaker: speaker role
""")
_CONVERSATIONS = name_table("""
    id: conversation conversationid conversationno conversationnumber dialogue dialogueid dialog dialogid dialogno
        quacdialogid chat chatid
    turns: turns turn messages conversations conversation dialogue dialog utterances queries
    text: text utterance rawutterance message content value query question
    speaker: speaker role from sender
    user: user userid anonid clientid
    part: split part fold
""")
_USERS = ("user", "human", "customer", "seeker", "usr")
"""Names of the speaker whose turns are queries."""
_WORDS = _NAMES | {"session": (*_NAMES["session"], *_CONVERSATIONS["id"]), "time": TIME_NAMES}
_WORDS |= dict.fromkeys((CLOCK, *PARTS), ())
ROLES = tuple(_WORDS)
_EXAMPLE = "query=…,user=…,time=…"
_INNER = {word for role in ("query", "user", "session", "time") for word in _WORDS[role]}


def _plain(name: str) -> str:
    """``properties.query`` as ``query``, and ``user.id`` as ``userid``; no role is found for other inner fields."""
    word, inner = plain_time_name(name), plain_time_name(name.rpartition(".")[2])
    return inner if inner in _INNER and word not in _INNER else word


_COLUMNS = Roles(known=_WORDS, needed=("query",), doubted=ROLES[:5], example=_EXAMPLE, plain=_plain)
_is_aol = has("anonid query querytime itemrank clickurl")
_is_ubi = has("userquery clientid queryid")
# A table with one of these is about what was clicked, or labels texts.
_is_alien = has("item|itemid|product|productid|article|articleid|label|class|sentiment|category")
_LISTED = re.compile(r"(queries|questions)\b", re.IGNORECASE)


def list_of_turns(content: Content) -> str | None:
    """The field of JSON Lines that lists the turns of a conversation, or ``None``."""
    if not content.json:
        return None
    first = sample_objects(content)[0]
    return next(
        (name for name in first if plain_name(name) in _CONVERSATIONS["turns"] and _is_turns(first[name])), None
    )


def are_queries(content: Content) -> bool:
    """Return whether the ``values`` of JSON Lines are typed phrases: half of them have a blank inside, none is long.

    Ids hold no blanks; queries have 2.2 words in the mean (Jansen, Spink & Saracevic 2000).
    """
    lists = [sample.get("values") for sample in sample_objects(content)]
    # All values of the first lines, from whatever line.
    values = [value for values_listed in lists if isinstance(values_listed, list) for value in values_listed]
    if not values or not all(isinstance(value, str) for value in values):
        return False
    lengths = sorted(len(value) for value in values)
    blanks = sum(" " in value.strip() for value in values)
    return blanks >= len(values) / 2 and lengths[len(lengths) // 2] >= _SHORT and lengths[-1] <= _LONG


def _conversations(content: Content) -> Table:
    """Read objects that list their turns; a conversation is a session.

    Raises:
        DataError: an object without turns, or a turn without a text.
    """
    field = list_of_turns(content) or ""
    rows = list[tuple[str | None, ...]]()
    numbers = list[int]()
    for index, (number, line) in enumerate(content.filled()):
        place = f"{content.path}, line {number}"
        conversation = read_object(line, place)
        turns = conversation.get(field)
        if not isinstance(turns, list):
            raise DataError(f"{place}: field {quoted(field)} is not a list of turns")
        marks = [_named(conversation, _CONVERSATIONS[role]) for role in ("user", "part")]
        for turn in turns:
            text = turn if isinstance(turn, str) else _named(turn, _CONVERSATIONS["text"])
            if text is None:
                raise DataError(
                    f'{place}: a turn has no text; give a text, or an object with one, such as {{"text": …}}'
                )
            rows.append((text, _named(turn, _CONVERSATIONS["speaker"]), str(index), *marks))
            numbers.append(number)
    names = ("query", "speaker", "session", "user", "part")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    # Users and parts that no object names are no columns.
    optional = [name for name in ("user", "part") if frame[name].null_count() < len(frame)]
    note = f"conversations are the objects, their turns in {quoted(field)}"
    table = Table("conversations", frame, lambda row: f"{content.path}, line {numbers[row]}", {"speaker": ""}, (note,))
    table = of_users(table)
    frame = table.frame.select(*optional, "query", "session", name="session")
    return replace(table, frame=frame, columns={})


def of_users(table: Table) -> Table:
    """Return the rows that users typed, where a column says who speaks and a user is among the speakers."""
    if "speaker" not in table.columns:
        return table
    is_user = table.frame["speaker"].str.strip_chars().str.to_lowercase().is_in(list(_USERS)).fill_null(False)
    if not is_user.any() or is_user.all():
        return table
    left_out = part_of(len(is_user) - int(is_user.sum()), len(is_user), "turn", "is", "are")
    note = f"{left_out} by speakers other than the user: left out"
    return replace(table.select(is_user), notes=(*table.notes, note))


def in_turn(table: Table) -> Table:
    """Return the rows in order of their turns, where there is no time.

    Raises:
        DataError: a turn that is no number.
    """
    if "turn" not in table.columns or "time" in table.columns:
        return table
    turns = table.frame["turn"].str.strip_chars().cast(pl.Float64, strict=False)
    for row in turns.is_null().arg_true()[:1]:
        raise DataError(f"{table.where(row)}: turn {quoted(table.frame['turn'][row])} is not a number")
    # A stable sort by turn leaves the turns of each conversation in order, wherever their rows are.
    note = f"queries are in order of {quoted(table.columns['turn'])}"
    order = turns.to_frame().select(pl.arg_sort_by("turn", maintain_order=True)).to_series()
    return replace(table, notes=(*table.notes, note)).take(order)


def _is_turns(value: object) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, str) or _named(first, _CONVERSATIONS["text"]) is not None


def _named(fields: object, names: tuple[str, ...]) -> str | None:
    """Return the first text or number of an object under one of some names, as a text."""
    # Names are compared without case and punctuation; the first one wins.
    plain = {plain_name(name): value for name, value in fields.items()} if isinstance(fields, dict) else {}
    values = (plain.get(name) for name in names)
    return next((str(value) for value in values if isinstance(value, str | int) and not isinstance(value, bool)), None)


def read_log(content: Content, stated: Mapping[str, str], missing: str = "") -> Table:
    """Read the rows of a log, whatever its layout.

    The table has the columns ``query`` and maybe ``user``, ``session``, ``time`` and ``part``. Where a file holds whole
    sessions, ``session`` numbers them, ``name`` is the id of a session, and ``novel`` marks sessions that share nothing
    with the other parts.

    Args:
        content: the file.
        stated: role -> column.
        missing: what becomes of ids that are missing, see :class:`~ensue.data.file_bytes.Opening`.

    Raises:
        DataError: no column for the query, nothing that tells sessions, or a line that does not fit its layout.
        SettingError: an unknown role, or roles where the layout has none.
    """
    require_roles(stated, ROLES)
    if not stated and (export := export_of(content)) is not None:
        raise DataError(
            f"{content.path}: is an export of posts ({export}), which holds no searches; give a log of queries with a "
            "query, a user and a time in each row, or name the task: link, classify, next"
        )
    layout = recognise(LAYOUTS, content)
    # Only a table has columns to state: what else a file looks like is then read as one.
    if layout is not None and not (stated and layout.has_columns):
        layout.require_columns(content, stated)
        return layout.read(content)
    return _table(content, stated, missing)


def is_query_log(line: str, names: Sequence[str]) -> bool:
    """Return whether a first line, or the names of its columns, speak of queries and of nothing else that is known.

    Args:
        line: the first line; empty for Parquet.
        names: the columns it would name.
    """
    # A header whose last column is any number of queries.
    if "\t" in line and not line.lstrip().startswith("{") and _LISTED.match(line.split("\t")[-1].strip()):
        return True
    plain = dict.fromkeys(map(plain_time_name, names))
    if _is_aol(plain) or names == ["_source"]:
        return True
    if all(plain.keys() & {*words} for words in (_CONVERSATIONS["id"], _NAMES["turn"])) and (
        plain.keys() & {*_CONVERSATIONS["text"], *_NAMES["query"]}
    ):
        return True
    roles = {role for role, words in _WORDS.items() if plain.keys() & {*words}}
    return "query" in roles and bool(roles & {"user", "session"}) and not _is_alien(plain)


def _table(content: Content, stated: Mapping[str, str], missing: str) -> Table:
    names = _names(content)
    if not (content.parquet or content.json or content.header) and len(content.head(2)) < 2:
        raise DataError(f"{content.path}: has one line, which can only be a header, and no query")
    nested = names == ["_source"] and content.json
    if nested:
        content = _unnested(content)
        if not content.head(1):
            raise DataError(f"{content.path}: no line has an object under _source; give ubi_queries as JSON Lines")
        names = _names(content)
    table = with_clock(read_table(content, partial(_find, content, stated=stated))).filled(content.path, "text")
    doubled = doubled_rows(table.frame)
    # Ids are cleaned before turns are sorted, so that a place in a message is one in the file.
    ids = IdColumns({"user": "user", "session": "session"}, rows="row", missing=missing, drops=missing == DROP)
    table = in_turn(of_users(ids.normalise(table)))
    plain = dict.fromkeys(map(plain_time_name, names))
    layout = "aol" if _is_aol(plain) else "ubi" if nested or _is_ubi(plain) else table.layout
    return replace(table, layout=layout, notes=(*table.notes, *ids.notes), warnings=(*ids.warnings, *doubled))


def _takeout(content: Content) -> Table:
    rows = read_activities(content).drop_nulls("query")
    lines = rows["line"]
    frame = rows.select("query", "time", user=pl.lit(ACCOUNT))
    return Table("takeout", frame, lambda row: f"{content.path}, line {lines[row]}", {}, ())


def _is_headed(content: Content) -> bool:
    """Return whether a header ends in ``queries``: any number of them are in each line."""
    is_text = not (content.parquet or content.json or content.header)
    return is_text and _LISTED.match(content.head(1)[0].split("\t")[-1].strip()) is not None


def _are_lists(content: Content) -> bool:
    """Return whether a text is sessions of queries between tabs, without a header."""
    if content.parquet or content.json or content.header:
        return False
    head = content.head()
    is_log = "\t" not in head[0] and is_query_log(head[0], content.names())  # a query of such a table may hold a tab
    return any("\t" in line for line in head) and not is_log and not _is_table(head)


def _lists(content: Content) -> Table:
    fields = content.head(1)[0].split("\t")
    headed = _is_headed(content)
    lines, numbers, _ = content.filled_lines()
    numbers = numbers[int(headed) :]
    rows = lines[int(headed) :].str.strip_chars_end("\r").str.split("\t")
    width = len(fields) - 1 if headed else 0
    for row in (rows.list.len() <= width).arg_true()[:1]:
        raise DataError(
            f"{content.path}, line {numbers[row]}: {rows.list.len()[row]} fields and no query; the header has "
            f"{width} before the queries"
        )
    if not len(rows):
        raise DataError(f"{content.path}: has a header but no query")
    # Fields before the queries are marks of the session.
    lengths = rows.list.len().to_numpy().astype(np.int64) - width
    columns = {plain_time_name(name): rows.list.get(position) for position, name in enumerate(fields[:width])}
    marks = {"part": columns["split"]} if "split" in columns else {}
    if "overlap" in columns:
        marks["novel"] = columns["overlap"] == "novel"
    owners = np.repeat(np.arange(len(lengths)), lengths)
    frame = pl.DataFrame({"query": rows.list.slice(width).explode(), "session": owners, "name": owners + 1})
    # A part, or whether a session is novel, is noted once a session and belongs to each of its queries.
    frame = frame.with_columns(**{name: column.gather(owners) for name, column in marks.items()})
    layout = "session lists" if headed else "query lists"
    lines_of_queries = np.repeat(numbers, lengths)
    return Table(layout, frame, lambda row: f"{content.path}, line {lines_of_queries[row]}", {}, ())


def _histories(content: Content) -> Table:
    if content.parquet:
        columns = {role: name for role, name in HISTORY.items() if name in content.schema()}
        table = read_nested(content, columns)
    else:
        table = read_histories(content)
    frame = table.frame.select("session", pl.col("item").cast(pl.String).alias("query"), pl.col("^time$"))
    # Answers and rankings name a session by its id, or by its number in the file.
    names = (frame["session"] + 1).cast(pl.String)
    if table.names is not None and len(table.names):
        names = table.names.gather(frame["session"]).replace("", None).fill_null(names)
    frame = frame.with_columns(name=names)
    note = "values are read as queries; if they are items, name the task: --task next, ensue fit next"
    layout = "parquet histories" if content.parquet else "jsonl histories"
    return Table(layout, frame, table.where, {}, (*table.notes, note))


def _is_table(head: Sequence[str]) -> bool:
    """Return whether the first line names columns: it has a known name, or numbers and dates stand below it."""
    fields = [line.split("\t") for line in head[:2]]
    if any(plain_time_name(name) in spellings for name in fields[0] for spellings in _WORDS.values()):
        return True
    # Numbers and dates below the first line: it names columns, though none is known.
    cells = fields[1] if len(fields) > 1 else []
    return len(cells) == len(fields[0]) and any(is_number(text) or re.match(r"\d{4}-\d\d-\d\d", text) for text in cells)


def _names(content: Content) -> list[str]:
    """The names of the columns; of JSON all that the first lines have."""
    if not content.json:
        return content.names()
    samples = sample_objects(content)
    nested = any(isinstance(sample.get("_source"), dict) for sample in samples)
    return ["_source"] if nested else names_of(samples)


def _unnested(content: Content) -> Content:
    """The objects under ``_source``, a line each; other lines, such as those of bulk requests, become empty ones."""
    # A bulk request alternates actions, which have no _source, and documents.
    inner = content.column_of_lines().str.json_path_match("$._source").fill_null("")
    return replace(content, data=inner.str.join("\n").item().encode())


def _find(content: Content, names: Sequence[str], stated: Mapping[str, str]) -> FoundColumns:
    """Return the columns that :meth:`Roles.find` detects.

    Raises:
        DataError: a column that is missing, none for the query, or nothing that tells one session from the next.
    """
    paired = {} if "query" in stated else _texts_of_turns(names)
    if not {"time", CLOCK} & {*stated, *content.trained.columns}:
        paired |= day_and_clock(content.path, sample_rows(content))
    columns, notes = _COLUMNS.find(content.path, names, stated, trained=content.trained, **paired)
    if "session" not in columns and not {"user", "time"} <= columns.keys():
        lacking = " and no ".join(role for role in ("user", "time") if role not in columns)
        raise DataError(
            f"{content.path}: there is no {lacking}, and no session column either, so sessions cannot be separated; "
            f"the columns are {listed(names)}; name them with --columns {_EXAMPLE}, or session=…"
        )
    return columns, notes


def _texts_of_turns(names: Sequence[str]) -> dict[str, str]:
    """Return the text next to a conversation and a turn, where nothing is called a query."""
    plain = {plain_time_name(name): name for name in reversed(names)}
    has_turns = plain.keys() & {*_CONVERSATIONS["id"]} and plain.keys() & {*_NAMES["turn"]}
    if not has_turns or plain.keys() & {*_NAMES["query"]}:
        return {}
    return next(({"query": plain[word]} for word in _CONVERSATIONS["text"] if word in plain), {})


LAYOUTS: tuple[Layout[Content, Callable[[Content], Table]], ...] = (
    Layout("session lists", _is_headed, _lists, has_columns=False),
    Layout("query lists", _are_lists, _lists),
    Layout("takeout", holds_searches, _takeout),
    Layout("histories", lambda content: "values" in _names(content), _histories),
    Layout("conversations", lambda content: list_of_turns(content) is not None, _conversations),
)
"""Layouts that are no table with a query in each row."""
