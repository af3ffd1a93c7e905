"""Click sessions: the public layouts by hand, logs of users cut by pauses, and what is refused."""

import itertools
import json
import random
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensue import DataError, History, SettingError
from ensue.data.sequences import read
from tests.data.files import records, write
from tests.data.sequences.test_dataset import histories_of

MINUTE = 60
START = 1_400_000_000
DIGINETICA = "session_id;user_id;item_id;timeframe;eventdate\n"
EVENTS = "timestamp,visitorid,event,itemid,transactionid\n"
AUTOMATIC = "; --session-gap 0 keeps users whole"
LOG = f"user,item,time\nu,a,{START}\nv,x,{START}\nu,b,{START + 30 * MINUTE}\nu,c,{START + 61 * MINUTE}\n"


def test_diginetica_by_hand(tmp_path: Path) -> None:
    text = DIGINETICA + "1;NA;b;2500;2016-05-09\n2;NA;x;0;2016-05-10\n1;NA;c;2500;2016-05-09\n1;NA;a;7;2016-05-09\n"
    histories, understood = read(write(tmp_path, text))
    day = 1462752000.0  # 2016-05-09 is 16,930 days after 1970: 16,930 x 86,400
    # 7 ms, then the two of 2,500 ms in the file's order; session 2 begins a day later.
    assert records(histories) == [
        History(("a", "b", "c"), (day + 0.007, day + 2.5, day + 2.5), "1"),
        History(("x",), (day + 86400,), "2"),
    ]
    assert (understood.layout, understood.absolute) == ("diginetica", True)
    columns = {"session": "session_id", "item": "item_id", "time": "eventdate", "clock": "timeframe"}
    assert understood.columns == columns
    assert understood.notes == (
        "time is the day 'eventdate' plus 'timeframe', milliseconds within the session",
        "1 of 2 sessions had decreasing times: sorted by time",
    )


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_diginetica_in_another_file(tmp_path: Path, form: str) -> None:
    frame = pl.DataFrame(
        {"sessionId": [1, 1], "itemId": [5, 6], "timeframe": [1500, 500], "eventdate": ["2016-05-09"] * 2}
    )
    path = tmp_path / "views"
    if form == "parquet":
        frame.with_columns(pl.col("eventdate").str.to_date()).write_parquet(path)
    else:
        frame.write_ndjson(path)
    assert records(read(path)[0]) == [History(("6", "5"), (1462752000.5, 1462752001.5), "1")]


def test_diginetica_time_stated_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path, DIGINETICA + "1;NA;b;2500;2016-05-09\n1;NA;c;3000;2016-05-09\n")
    histories, understood = read(path, columns={"time": "timeframe"}, time_unit="ms")
    assert (histories.times.tolist(), understood.layout) == ([2.5, 3.0], "csv")


def test_yoochoose_by_hand(tmp_path: Path) -> None:
    text = "1,2014-04-07T10:00:00.500Z,214,0\n\n2,2014-04-07T10:00:00Z,007,S\n1,2014-04-07T10:01:00.500Z,7,12\n"
    histories, understood = read(write(tmp_path, text))
    ten = 1396864800.0  # 16,167 days after 1970 and 10 hours: 16,167 x 86,400 + 36,000
    assert records(histories) == [History(("214", "7"), (ten + 0.5, ten + 60.5), "1"), History(("007",), (ten,), "2")]
    assert (understood.layout, understood.columns) == (
        "yoochoose",
        {"session": "session", "item": "item", "time": "time"},
    )
    assert understood.notes == (
        "no header: the columns are read as session, time, item, category",
        "1 empty row skipped",
    )


def test_retailrocket_events_by_hand(tmp_path: Path) -> None:
    # In milliseconds, in no order. u: 0 and 30 minutes hold together, 60 minutes and 1 ms more is a new session.
    begin = 1433221332117
    rows = [(begin + 3600001, "u", "view", "c", ""), (begin, "u", "view", "a", ""), (begin, "v", "view", "x", "")]
    rows += [(begin + 1800000, "u", "transaction", "b", "4000")]
    text = EVENTS + "".join(",".join(map(str, row)) + "\n" for row in rows)
    histories, understood = read(write(tmp_path, text))
    seconds = [begin / 1000, (begin + 1800000) / 1000, (begin + 3600001) / 1000]
    assert records(histories) == [
        History(("a", "b"), (seconds[0], seconds[1]), "u#1"),
        History(("c",), (seconds[2],), "u#2"),
        History(("x",), (seconds[0],), "v#1"),
    ]
    assert (understood.layout, understood.unit) == ("retailrocket", "ms")
    assert understood.notes == (
        "rows of all event types are read: views, carts and transactions",
        "1 of 2 sessions had decreasing times: sorted by time",
        "3 sessions cut from 2 users at pauses over 30 minutes" + AUTOMATIC,
    )


def test_gru4rec_by_hand(tmp_path: Path) -> None:
    histories, understood = read(write(tmp_path, f"SessionId\tItemId\tTime\n9\ta\t{START}.5\n9\tb\t{START + 9999}\n"))
    assert records(histories) == [History(("a", "b"), (START + 0.5, START + 9999.0), "9")]
    assert (understood.layout, understood.notes) == ("tsv", ())


def test_recbole_sessions_and_users_by_hand(tmp_path: Path) -> None:
    path = write(
        tmp_path, f"session_id:token\titem_id:token\ttimestamp:float\n1\tb\t{START + 9}\n1\ta\t{START}\n", "x.inter"
    )
    histories, understood = read(path)
    assert records(histories) == [History(("a", "b"), (float(START), START + 9.0), "1")]
    assert (understood.layout, understood.notes) == (
        "recbole",
        ("1 of 1 session had decreasing times: sorted by time",),
    )
    path = write(tmp_path, f"user_id:token\titem_id:token\ttimestamp:float\n1\ta\t{START}\n1\tb\t{START + 9999}\n")
    histories, understood = read(path)
    assert records(histories) == [History(("a", "b"), (float(START), START + 9999.0), "1")]
    assert understood.notes == ("each user is one session, as in RecBole; cut it into sessions with --session-gap 30",)
    assert [record.id for record in read(path, gap=30)[0].records()] == ["1#1", "1#2"]


def test_recbole_lists_by_hand(tmp_path: Path) -> None:
    head = "session_id:token\titem_id_list:token_seq\titem_id:token\n"
    histories, understood = read(write(tmp_path, head + "s\ta b\tc\n\nt\t\tx\nu\tc  a\tc\n"))
    assert records(histories) == [
        History(("a", "b", "c"), (), "s"),
        History(("x",), (), "t"),
        History(("c", "a", "c"), (), "u"),
    ]
    assert (understood.layout, understood.time) == ("recbole lists", "none: no usable time column")
    assert understood.columns == {"item": "item_id_list:token_seq + item_id:token", "session": "session_id:token"}
    assert understood.notes == ("1 empty row skipped",)


def test_recbole_lists_with_times_and_without_target(tmp_path: Path) -> None:
    head = "item_id_list:token_seq\titem_id:token\ttimestamp_list:float_seq\ttimestamp:float\n"
    histories, understood = read(write(tmp_path, head + f"a b\tc\t{START} {START + 1}\t{START + 5}\n"))
    assert records(histories) == [History(("a", "b", "c"), (float(START), START + 1.0, START + 5.0))]
    assert understood.columns["time"] == "timestamp_list:float_seq + timestamp:float"
    histories, understood = read(write(tmp_path, "user_id:token\titem_id_list:token_seq\nu\ta b\nv\t\n"))
    assert records(histories) == [History(("a", "b"), (), "u")]
    assert understood.notes == ("1 empty history skipped",)


def test_recbole_prefixes_of_one_session_are_read_once(tmp_path: Path) -> None:
    rows = ["s\ta\tb", "s\ta b\tc", "t\ta\tb", "s\ta b c\td", "t\tx b\tc", "t\tx b\tc"]
    path = write(tmp_path, "session_id:token\titem_id_list:token_seq\titem_id:token\n" + "\n".join(rows) + "\n")
    histories, understood = read(path)
    # s: ab and abc begin abcd. t: ab begins nothing; xbc stands twice and is kept once.
    assert [(r.id, "".join(r.values)) for r in records(histories)] == [("t", "ab"), ("s", "abcd"), ("t", "xbc")]
    assert understood.notes == ("3 of 6 rows left out: they are prefixes of a longer row of the same session",)


def test_plain_sessions_by_hand(tmp_path: Path) -> None:
    histories, understood = read(write(tmp_path, "\ufeff12 007  7\r\n\r\n5\r\n12 12 \r\n"))
    assert records(histories) == [History(("12", "007", "7")), History(("5",)), History(("12", "12"))]
    assert (understood.layout, understood.columns, understood.unit) == ("sessions", {"item": "1-"}, None)
    assert understood.notes == ("1 empty line skipped",)


def test_plain_lines_of_one_width_are_doubted(tmp_path: Path) -> None:
    _, understood = read(write(tmp_path, "1 5\n1 6\n2 5\n"))
    note = "every line has 2 ids and is read as a session; if they are columns, add a header"
    assert (understood.layout, understood.notes) == ("sessions", (note,))


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("u1,5 v2,6\nw3,7 x4,8\n", "forest"),
        ("u1,u2:5,6\n", "hidan"),
        ("session item2\n1 5\n", None),
        ("session item time\n1 5 3\n", None),
        ("session,item 1\n1,5\n", None),
        ("it was 2014 then\n", None),
        ("7\n8\n", None),
    ],
)
def test_plain_sessions_are_not_confused(tmp_path: Path, text: str, layout: str | None) -> None:
    path = write(tmp_path, text)
    if layout:
        assert read(path)[1].layout == layout
    else:
        with pytest.raises(DataError):
            read(path)


IDS = st.from_regex(r"[a-z_-]{0,2}[0-9][a-z0-9_-]{0,2}", fullmatch=True)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.lists(st.lists(IDS, min_size=1, max_size=6), min_size=1, max_size=9))
def test_round_trip_of_plain_sessions(tmp_path: Path, made: list[list[str]]) -> None:
    made = [*made, ["1", "2", "3"]]
    histories, understood = read(write(tmp_path, "".join(" ".join(row) + "\n" for row in made)))
    assert [list(record.values) for record in histories.records()] == made
    assert understood.layout == "sessions"


@pytest.mark.parametrize("form", ["events", "lists"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=histories_of(IDS))
def test_round_trip_of_recbole(tmp_path: Path, form: str, made: list[History]) -> None:
    if form == "events":
        rows = [f"{r.id}\t{v}\t{t}" for r in made for v, t in zip(r.values, r.times, strict=True)]
        head = "session_id:token\titem_id:token\ttimestamp:float"
    else:
        made = [History(r.values, (), r.id) for r in made]
        rows = [f"{r.id}\t{' '.join(r.values[:-1])}\t{r.values[-1]}" for r in made]
        head = "session_id:token\titem_id_list:token_seq\titem_id:token"
    histories, understood = read(write(tmp_path, "\n".join([head, *rows]) + "\n", "round.inter"))
    assert records(histories) == made
    assert understood.notes == ()


def test_a_session_of_a_hundred_thousand(tmp_path: Path) -> None:
    histories, _ = read(write(tmp_path, "7 8\n" + " ".join(map(str, range(100_000))) + "\n"))
    assert histories.lengths.tolist() == [2, 100_000]


def test_a_million_plain_clicks(tmp_path: Path) -> None:
    chance = random.Random(0)
    line = " ".join(str(chance.randrange(40_000)) for _ in range(1000))
    lines = [line[place % 100 :] for place in range(1000)]
    histories, _ = read(write(tmp_path, "".join(f"{text}\n" for text in lines)))
    assert histories.lengths.tolist() == [len(text.split()) for text in lines]
    assert records(histories)[-1].values == tuple(lines[-1].split())


def test_users_are_cut_at_thirty_minutes(tmp_path: Path) -> None:
    histories, understood = read(write(tmp_path, LOG))
    # u pauses 30 minutes (not over) and then 31: two sessions, standing where u stood.
    expected = [("u#1", ("a", "b")), ("u#2", ("c",)), ("v#1", ("x",))]
    assert [(record.id, record.values) for record in histories.records()] == expected
    assert histories.offsets.tolist() == [0, 2, 3, 4]
    assert understood.notes == ("3 sessions cut from 2 users at pauses over 30 minutes" + AUTOMATIC,)


@pytest.mark.parametrize(
    ("gap", "names", "notes"),
    [
        (0, ["u", "v"], ()),
        (29.5, ["u#1", "u#2", "u#3", "v#1"], ("4 sessions cut from 2 users at pauses over 29.5 minutes",)),
        (31, ["u#1", "v#1"], ("2 sessions cut from 2 users at pauses over 31 minutes",)),
    ],
)
def test_gap_stated(tmp_path: Path, gap: float, names: list[str], notes: tuple[str, ...]) -> None:
    histories, understood = read(write(tmp_path, LOG), gap=gap)
    assert ([record.id for record in histories.records()], understood.notes) == (names, notes)


@pytest.mark.parametrize(
    "text",
    [
        LOG.replace("user", "session"),
        LOG.replace("item", "url").replace("user", "session"),
        LOG.replace(str(START)[:4], "1"),  # not since 1970
        "user,item,time,session\n" + "".join(f"{line},{line[0]}s\n" for line in LOG.splitlines()[1:]),
    ],
    ids=["sessions", "no item", "relative", "both"],
)
def test_nothing_else_is_cut_unasked(tmp_path: Path, text: str) -> None:
    assert read(write(tmp_path, text))[1].notes == ()


def test_a_stated_sequence_is_cut_only_when_asked(tmp_path: Path) -> None:
    columns = {"session": "user"}
    assert read(write(tmp_path, LOG), columns=columns)[1].notes == ()
    notes = read(write(tmp_path, LOG), columns=columns, gap=30)[1].notes
    assert notes == ("3 sessions cut from 2 sequences at pauses over 30 minutes",)


def test_nameless_sequences_are_cut_too(tmp_path: Path) -> None:
    histories, _ = read(write(tmp_path, "u,v,w:0,0.4,1.0\nx:0\n"), gap=30)  # hours: 24 minutes, 36 minutes
    assert records(histories) == [
        History(("u", "v"), (0.0, 1440.0)),
        History(("w",), (3600.0,)),
        History(("x",), (0.0,)),
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("milliseconds", [False, True])
def test_cutting_equals_a_plain_loop(tmp_path: Path, seed: int, milliseconds: bool) -> None:
    chance = random.Random(seed)
    scale = 1000 if milliseconds else 1
    rows = []
    for place in range(300):
        pause = chance.choice([0, 1, 600 * scale - 1, 600 * scale, 600 * scale + 1, 5000 * scale])
        rows.append((f"u{chance.randrange(7)}", str(place), pause))
    clocks: dict[str, int] = {}
    found: dict[str, list[tuple[str, int]]] = {}
    for user, item, pause in rows:
        clocks[user] = clocks.get(user, START * scale + 117) + pause
        found.setdefault(user, []).append((item, clocks[user]))
    expected = []
    for user, clicks in found.items():
        sessions = [[clicks[0]]]
        for before, click in itertools.pairwise(clicks):
            if click[1] - before[1] > 600 * scale:  # ten minutes, in whole numbers
                sessions.append([])
            sessions[-1].append(click)
        for number, session in enumerate(sessions, 1):
            times = tuple(t / scale for _, t in session)
            expected.append(History(tuple(item for item, _ in session), times, f"{user}#{number}"))
    events = sorted(((t, user, item) for user, clicks in found.items() for item, t in clicks), key=lambda e: e[0])
    order = list(found)
    lines = [f"{user},{item},{t}\n" for t, user, item in events]
    histories, _ = read(write(tmp_path, "user,item,time\n" + "".join(lines)), gap=10)
    assert sorted(records(histories), key=lambda r: order.index(r.id.split("#")[0])) == expected


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "yoochoose, short": (
        "1,2014-04-07T10:00:00Z,2,0\n1,2014-04-07T10:00:01Z,2\n",
        ", line 2: 3 fields, but the layout has 4; is a quote left open?",
    ),
    "yoochoose, long": (
        "1,2014-04-07T10:00:00Z,2,0\n\n1,2014-04-07T10:00:01Z,2,0,1\n",
        ", line 3: 5 fields, but the layout has 4; is a quote left open?",
    ),
    "yoochoose, time": (
        "1,2014-04-07T10:00:00Z,2,0\n\n1,soon,2,0\n",
        ", line 3: time 'soon' is not a time; use seconds since 1970, ISO 8601, or --time-unit",
    ),
    "plain, separator": ("1 2\n3 4\n\n5,6 7\n", ", line 4: '5,6 7' does not fit; expected ids separated by spaces"),
    "plain, encoding": (
        b"1 2\n3 4\xff\n",
        ", line 2: not UTF-8 text; save the file as UTF-8, or name its encoding, as in --encoding cp1252",
    ),
    "diginetica, day": (
        DIGINETICA + "1;NA;b;5;2016-05-09\n\n1;NA;c;6;9.5.2016\n",
        ", line 4: eventdate '9.5.2016' is not a date such as 2016-05-09",
    ),
    "diginetica, offset": (
        DIGINETICA + "1;NA;b;5;2016-05-09\n1;NA;c;x;2016-05-09\n",
        ", line 3: timeframe 'x' is not a number of milliseconds",
    ),
    "diginetica, no offset": (
        DIGINETICA + "1;NA;b;;2016-05-09\n",
        ", line 2: time is empty; give every event a time, or leave such rows out with --missing drop",
    ),
    "diginetica, no item": (
        DIGINETICA.replace("item_id", "thing") + "1;NA;b;5;2016-05-09\n",
        ": no column is recognised as the item; the columns are 'session_id', 'user_id', 'thing', 'timeframe', "
        "'eventdate'; name them with --columns session=session_id,item=…,time=eventdate",
    ),
    "retailrocket, units": (
        EVENTS + "1433221332117,u,view,a,\n1433221332,u,view,b,\n",
        ", line 2: time 1433221332117 looks like milliseconds since 1970, but others, such as 1433221332, look like "
        "seconds; give all times in one unit",
    ),
    "recbole, one type missing": (
        "session_id:token\titem_id\ttimestamp:float\n1\t2\t3\n",
        ", line 1: column 'item_id' has no RecBole type; write 'item_id:token', or :token_seq, :float or :float_seq",
    ),
    "recbole, strange type": (
        "session_id:int\titem_id:token\n1\t2\n",
        ", line 1: column 'session_id:int' has no RecBole type; write 'session_id:token', or :token_seq, :float or "
        ":float_seq",
    ),
    "recbole lists, no target": (
        "session_id:token\titem_id_list:token_seq\titem_id:token\n1\t2\t3\n1\t2 3\t\n",
        ", line 3: column 'item_id:token' is empty; every row needs a session",
    ),
    "recbole lists, short": (
        "session_id:token\titem_id_list:token_seq\titem_id:token\n1\t2\t3\n1\t2 3\n",
        ", line 3: 2 fields, but the header has 3; is a quote left open?",
    ),
    "recbole lists, times": (
        "item_id_list:token_seq\titem_id:token\ttime_list:float_seq\ttime:float\n2 3\t4\t1 2\t3\n2 3\t4\t1\t3\n",
        ", line 3: 3 values but 2 times; give one time per value, in every line or in none",
    ),
}


@pytest.mark.parametrize(("content", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(tmp_path: Path, content: str | bytes, expected: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value) == f"{path}{expected}"


def test_inter_without_types_is_read_by_names_and_said(tmp_path: Path) -> None:
    _, understood = read(write(tmp_path, "session_id\titem_id\n1\t2\n", "x.inter"))
    assert understood.layout == "tsv"
    assert understood.notes == (
        "the header has no RecBole types such as item_id:token; columns are found by their names",
    )


def test_settings(tmp_path: Path) -> None:
    path = write(tmp_path, "1 2\n3 4 5\n")
    with pytest.raises(SettingError, match=re.escape("gap: -1 is not a pause; give minutes, such as 30, or 0 to keep")):
        read(path, gap=-1)
    with pytest.raises(SettingError, match="gap: nan is not a pause"):
        read(path, gap=float("nan"))
    with pytest.raises(SettingError, match="has no times, so --session-gap cannot cut sessions; remove --session-gap"):
        read(path, gap=30)
    assert len(read(path, gap=0)[0]) == 2
    with pytest.raises(SettingError, match="the layout sessions has no named columns; remove --columns"):
        read(path, columns={"item": "a"})
    with pytest.raises(DataError, match="column 'a' \\(item\\) is missing; the columns are 'session', 'time', 'item'"):
        read(write(tmp_path, "1,2014-04-07T10:00:00Z,2,0\n"), columns={"item": "a"})


def test_histories_without_id_keep_their_number_where_empty_ones_go(tmp_path: Path) -> None:
    lines = '{"values": ["a"]}\n{"values": []}\n{"values": ["b"]}\n{"values": ["c"], "id": "x"}\n'
    for text, ids in ((lines, ["1", "3", "x"]), (lines.replace(', "id": "x"', ""), ["1", "3", "4"])):
        histories, understood = read(write(tmp_path, text, "log.jsonl"))
        assert [record.id for record in records(histories)] == ids
        assert "1 empty history skipped" in understood.notes


LISTS = {
    "lists": ({"session": ["a", "b"], "items": [["x", "y"], ["z"]], "timestamps": [[5, 7], [9]]}, (5.0, 7.0)),
    "one name": ({"session_id": ["a", "b"], "item_id": [["x", "y"], ["z"]]}, ()),
    "products": ({"id": ["a", "b"], "product_ids": [["x", "y"], ["z"]], "time_list": [[5, 7], [9]]}, (5.0, 7.0)),
    "objects": (
        {
            "session": ["a", "b"],
            "events": [[{"aid": "x", "ts": 5}, {"aid": "y", "ts": 7}], [{"aid": "z", "ts": 9}]],
        },
        (5.0, 7.0),
    ),
    "days": (
        {
            "session": ["a", "b"],
            "events": [
                [{"item": "x", "date": "1970-01-02", "hour": 1}, {"item": "y", "date": "1970-01-02", "hour": 2}],
                [{"item": "z", "date": "1970-01-02", "hour": 3}],
            ],
        },
        (90_000.0, 93_600.0),
    ),
}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow"])
@pytest.mark.parametrize(("columns", "times"), LISTS.values(), ids=LISTS.keys())
def test_a_row_may_hold_a_whole_session(
    tmp_path: Path, suffix: str, columns: dict[str, list[object]], times: tuple[float, ...]
) -> None:
    path = tmp_path / f"log.{suffix}"
    frame = pl.DataFrame(columns)
    if suffix == "jsonl":
        frame.write_ndjson(path)
    elif suffix == "parquet":
        frame.write_parquet(path)
    else:
        frame.write_ipc(path)
    histories, _ = read(path)
    assert records(histories)[0] == History(("x", "y"), times, "a")
    assert [record.id for record in records(histories)] == ["a", "b"]


def test_listed_events_have_kinds(tmp_path: Path) -> None:
    events = [{"aid": item, "ts": 5 + item, "type": kind} for item, kind in enumerate(("clicks", "carts", "clicks"))]
    path = write(tmp_path, json.dumps({"session": 1, "events": events}) + "\n")
    histories, understood = read(path, events=["clicks"])
    assert records(histories) == [History(("0", "2"), (5.0, 7.0), "1")]
    assert "event types that are not read: 'carts' 1" in understood.notes


def test_lists_of_two_lengths_are_refused_by_line(tmp_path: Path) -> None:
    path = write(
        tmp_path, '{"session": "a", "items": ["x", "y"], "times": [1, 2]}\n{"items": ["x"], "times": [1, 2]}\n'
    )
    with pytest.raises(DataError, match=r"line 2: 1 value but 2 times; give one time per value"):
        read(path)


def test_lists_beside_an_item_are_features(tmp_path: Path) -> None:
    lines = [{"session": "a", "item": item, "tags": ["x", "y"], "time": at} for at, item in enumerate("pq")]
    histories, _ = read(write(tmp_path, "\n".join(map(json.dumps, lines)) + "\n"))
    assert records(histories) == [History(("p", "q"), (0.0, 1.0), "a")]


def test_a_cell_may_hold_a_list_of_items(tmp_path: Path) -> None:
    text = 'user,item,time\na,"[\'x\', \'y\']",5\nb,[],6\na,"[""z""]",7\n'
    histories, understood = read(write(tmp_path, text), gap=0)
    assert records(histories) == [History(("x", "y", "z"), (5.0, 5.0, 7.0), "a")]
    assert "cells of 'item' are lists; each member is an event" in understood.notes


def test_an_empty_cell_beside_lists_stays_an_event_without_an_item(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 3: column 'item' is empty; every event needs the item"):
        read(write(tmp_path, "user,item,time\na,\"['x', 'y']\",5\na,,6\n"))


def test_a_cell_may_hold_a_list_of_times(tmp_path: Path) -> None:
    text = 'user,item,time\na,"[1, 2]","[5, 6]"\nb,"[2, 3]","[8, 9.5]"\n'
    assert records(read(write(tmp_path, text))[0]) == [
        History(("1", "2"), (5.0, 6.0), "a"),
        History(("2", "3"), (8.0, 9.5), "b"),
    ]
    with pytest.raises(DataError, match=r"line 3: 1 item and 2 times; give one time per item"):
        read(write(tmp_path, text.replace("[2, 3]", "[2]")))


def test_names_in_brackets_are_items(tmp_path: Path) -> None:
    histories, _ = read(write(tmp_path, "session,item\na,[rec]\na,[sic]\n"))
    assert records(histories)[0].values == ("[rec]", "[sic]")
