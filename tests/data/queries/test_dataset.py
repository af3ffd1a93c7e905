"""Query logs: every layout by hand, a plain loop beside the columns, rules counted, users gone, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ensue import DataError, History, SettingError
from ensue.data.histories import Histories
from ensue.data.queries import Queries, QueriesReport, hold_out_queries, prefixes, read_queries
from ensue.data.queries.rows import WORDS, runs_of, words_of
from ensue.data.queries.rules import PAPER_RULES, Normalisation, QueryRules, normalise, normalise_ascii
from tests.data.files import write

DATA = Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[3] / "../shared/data")) / "queries"
START = 1_400_000_000
MINUTE = 60
HEAD = "user,query,time\n"
ANY = QueryRules(min_queries=1)


def sessions(queries: Queries) -> list[tuple[str, ...]]:
    return [record.values for record in queries.histories.records()]


def users(queries: Queries) -> dict[str, int]:
    return dict(zip(queries.histories.vocabulary.values, queries.users.tolist(), strict=True))


def words(queries: Queries) -> dict[str, int]:
    return dict(zip(queries.words.to_list(), queries.word_users.tolist(), strict=True))


def dropped(understood: QueriesReport) -> dict[str, int]:
    return {reason: count for reason, count in understood.dropped.items() if count}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            {"userId": "u", "timestamp": "2023-11-14T22:13:20Z", "properties": {"query": "lamp", "role": "admin"}},
            {"query": "properties.query", "user": "userId", "time": "timestamp"},
        ),
        (
            {"properties": {"distinct_id": "u", "search_term": "lamp", "time": 1_700_000_000}},
            {"query": "properties.search_term", "user": "properties.distinct_id", "time": "properties.time"},
        ),
        (
            {"@timestamp": "Nov 14, 2023 @ 22:13:20.000", "user.id": "u", "query": "lamp", "url": {"query": "a=b"}},
            {"query": "query", "user": "user.id", "time": "@timestamp"},
        ),
    ],
    ids=["segment", "mixpanel", "kibana"],
)
def test_fields_of_inner_objects(tmp_path: Path, line: dict[str, object], found: dict[str, str]) -> None:
    queries, understood = read_queries(write(tmp_path, json.dumps(line) + "\n"), rules=ANY)
    assert sessions(queries) == [("lamp",)] and understood.columns == found
    assert queries.histories.times.tolist() == [1_700_000_000]


def test_a_log_by_hand(tmp_path: Path) -> None:
    rows = [
        ("u", "Red  Shoes", 0),
        ("v", "hats", 0),
        ("u", "red shoes", 1),  # repeats once normalised
        ("u", "Red boots", 30),  # 29 minutes after the row before: the same session
        ("u", "hats", 61),  # 31 minutes: a new session
        ("u", "straw hats", 91),  # exactly 30 minutes do not cut
        ("v", "hats", 9),
        ("v", "", 10),
        ("", "caps", 10),
    ]
    text = HEAD + "".join(f"{user},{query},{START + MINUTE * minute}\n" for user, query, minute in rows)
    queries, understood = read_queries(write(tmp_path, text))
    assert sessions(queries) == [("red shoes", "red boots"), ("hats", "straw hats")]
    assert queries.histories.times.tolist() == [START + MINUTE * minute for minute in (0, 30, 61, 91)]
    # v typed hats too, in a session that is too short to keep; "caps" has no user.
    assert users(queries) == {"red shoes": 1, "red boots": 1, "hats": 2, "straw hats": 1}
    assert words(queries) == {"red": 1, "shoes": 1, "hats": 2, "boots": 1, "straw": 1}
    assert (understood.layout, understood.columns) == ("csv", {"query": "query", "user": "user", "time": "time"})
    assert (understood.rows, understood.unit, understood.absolute) == (9, "s", True)
    # One repeat of u's and one of v's; v's session is then a single query.
    assert dropped(understood) == {
        "no_query": 1,
        "no_user": 1,
        "repeats": 2,
        "short_sessions": 1,
        "in_short_sessions": 1,
    }
    assert understood.sentences == [
        "1 row without a query: clicks, blanks, or a bare dash",
        "1 row without a user, or without a session although other rows have one",
        "2 queries identical to the previous one",
        "1 session of fewer than 2 queries",
        "1 query in them",
    ]
    assert json.loads(json.dumps(dataclasses.asdict(understood)))["rules"]["gap"] == 30


AOL = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"


def test_the_aol_layout(tmp_path: Path) -> None:
    rows = [
        '142\t"merit release\t2006-03-01 07:17:12\t\t',
        '142\t"merit release\t2006-03-01 07:17:12\t1\thttp://a.com',
        "142\t-\t2006-03-01 07:18:00\t\t",
        "142\twww.prescriptionfortime.com\t2006-03-01 07:30:12\t\t",
        "217\tlottery\t2006-03-01 11:58:51\t1\thttp://b.com",
        "217\tlottery\t2006-03-01 11:58:52\t2\thttp://c.com",
        "217\tameriprise.com\t2006-03-01 12:29:00\t\t",
    ]
    queries, understood = read_queries(write(tmp_path, AOL + "\n".join(rows) + "\n", "user-ct-test.txt"))
    assert understood.layout == "aol"
    assert understood.columns == {"query": "Query", "user": "AnonID", "time": "QueryTime"}
    # A quote is part of the query. 12:29:00 is 30 minutes and 8 seconds after the last click.
    assert sessions(queries) == [('"merit release', "www.prescriptionfortime.com")]
    assert dropped(understood) == {
        "no_query": 1,
        "repeats": 2,
        "short_sessions": 2,
        "in_short_sessions": 2,
    }


UBI: list[dict[str, Any]] = [
    {"query_id": "q1", "client_id": "c1", "user_query": "laptop", "timestamp": "2024-10-16T12:00:00.500Z"},
    {"query_id": "q2", "client_id": "c1", "user_query": "gaming laptop", "timestamp": "2024-10-16T12:01:00Z"},
    {"query_id": "q3", "client_id": "c2", "user_query": None, "timestamp": "2024-10-16T12:01:00Z"},
    {"query_id": "q4", "client_id": "c1", "user_query": "", "timestamp": "2024-10-16T12:02:00Z"},
]


@pytest.mark.parametrize("form", ["bare", "hits", "bulk"])
def test_opensearch_ubi(tmp_path: Path, form: str) -> None:
    lines: list[dict[str, Any]] = []
    for row in UBI:
        if form == "bulk":
            lines.append({"index": {"_index": "ubi_queries", "_id": row["query_id"]}})
        more = row | {"query_attributes": {"page": 1}, "application": "shop"}
        lines.append({"_index": "ubi_queries", "_source": more} if form == "hits" else more)
    path = write(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "ubi.ndjson")
    queries, understood = read_queries(path)
    assert sessions(queries) == [("laptop", "gaming laptop")]
    assert understood.layout == "ubi"
    assert understood.columns == {"query": "user_query", "user": "client_id", "time": "timestamp"}
    assert dropped(understood) == {"no_query": 2}
    assert queries.histories.times[0] == datetime(2024, 10, 16, 12, 0, 0, 500000, UTC).timestamp()


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet", "zoned parquet", "millis"])
def test_the_same_log_in_every_form(tmp_path: Path, form: str) -> None:
    frame = pl.DataFrame(
        {
            "searchTerm": ['"new york" hotels', "hotels, cheap", "paris", "lyon"],
            "visitor_id": ["a", "a", "b", "b"],
            "ts": [START, START + 5, START, START + 9],
        }
    )
    path = tmp_path / "log"
    if form in ("csv", "tsv"):
        frame.write_csv(path, separator="," if form == "csv" else "\t")
    elif form == "jsonl":
        frame.write_ndjson(path)
    elif form == "millis":
        frame.with_columns(pl.col("ts") * 1000).write_csv(path)
    else:
        dates = pl.from_epoch("ts")
        zoned = dates.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
        frame.with_columns(zoned if form.startswith("zoned") else dates).write_parquet(path)
    queries, understood = read_queries(path)
    assert sessions(queries) == [('"new york" hotels', "hotels, cheap"), ("paris", "lyon")]
    assert queries.histories.times.tolist() == [START, START + 5, START, START + 9]
    assert understood.columns == {"query": "searchTerm", "user": "visitor_id", "time": "ts"}


def test_stated_columns_and_doubts(tmp_path: Path) -> None:
    path = write(tmp_path, f"who,what,query,time\nu,a,x,{START}\nu,b,y,{START + 1}\n")
    queries, understood = read_queries(path, columns={"user": "who", "query": "what"})
    assert sessions(queries) == [("a", "b")]
    assert understood.columns == {"query": "what", "user": "who", "time": "time"}
    path = write(tmp_path, f"user,query,keyword,time\nu,x,a,{START}\nu,y,b,{START + 1}\n")
    assert read_queries(path)[1].notes == ("query is 'query'; 'keyword' would fit too; choose with --columns",)


def test_a_session_column_is_trusted(tmp_path: Path) -> None:
    rows = [("1", "u", "b", 90), ("1", "v", "x", 0), ("1", "u", "a", 0), ("2", "u", "c", 1), ("1", "v", "x y", 1)]
    text = "session_id,user_id,query,time\n" + "".join(f"{s},{u},{q},{START + 60 * m}\n" for s, u, q, m in rows)
    queries, understood = read_queries(write(tmp_path, text), rules=ANY)
    # Number 1 of u and number 1 of v are two sessions; an hour and a half does not cut one.
    assert sessions(queries) == [("a", "b"), ("x", "x y"), ("c",)]
    assert understood.notes == ("1 of 3 sessions had decreasing times: sorted by time",)
    queries, understood = read_queries(write(tmp_path, "session,query\ns,a\nt,x\n,z\ns,b\nt,y\n"))
    assert sessions(queries) == [("a", "b"), ("x", "y")]
    assert dropped(understood) == {"no_user": 1}
    assert (len(queries.users), len(queries.words), queries.histories.timed) == (0, 0, False)


def test_ready_made_sessions(tmp_path: Path) -> None:
    queries, understood = read_queries(write(tmp_path, "how to knit\tknit a hat\n\nrome\trome hotels\t\tROME HOTELS\n"))
    assert sessions(queries) == [("how to knit", "knit a hat"), ("rome", "rome hotels")]
    assert (understood.layout, dropped(understood)) == ("query lists", {"no_query": 1, "repeats": 1})
    text = "split\toverlap\tsession\tqueries (tab separated, in order)\n"
    text += "train\t-\tm0\tA?\tB?\tC\ntest\tnovel\tm1\tD\ntest\tnovel\tm2\tD\tE\ntest\toverlap\tm3\tA?\tF\n"
    queries, understood = read_queries(write(tmp_path, text))
    assert sessions(queries) == [("a?", "b?", "c"), ("d", "e"), ("a?", "f")]
    assert queries.parts.to_list() == ["train", "test", "test"]
    assert queries.novel.tolist() == [False, True, False]
    assert understood.layout == "session lists"
    assert sessions(queries.part("test", novel=True)) == [("d", "e")]
    for part in (queries.part("test"), queries.select(np.array([2, 0]))):
        assert len(part.parts) == len(part.novel) == len(part)
    with pytest.raises(DataError, match=re.escape("there is no part 'dev'; the file has 'test', 'train'")):
        queries.part("dev")


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_histories_of_queries(tmp_path: Path, form: str) -> None:
    frame = pl.DataFrame({"values": [["A b", "c"], ["d"]], "times": [[0.0, 5.0], [1.0]], "id": ["secret", "name"]})
    path = tmp_path / "sessions"
    _ = frame.write_ndjson(path) if form == "jsonl" else frame.write_parquet(path)
    queries, understood = read_queries(path)
    assert (sessions(queries), queries.histories.times.tolist()) == ([("a b", "c")], [0, 5])
    assert (understood.layout, understood.absolute) == (f"{form} histories", False)


def test_columns_equal_a_plain_loop(tmp_path: Path) -> None:
    random.seed(5)
    rows = [
        (random.choice("uvwxyz"), " ".join(random.choices("abc", k=random.randint(0, 4))), START + 60 * minute)
        for minute in random.choices(range(400), k=300)
    ]
    rules = QueryRules(gap=10, min_queries=2, max_queries=4, max_words=3)
    path = write(tmp_path, HEAD + "".join(f"{user},{query},{at}\n" for user, query, at in rows))
    queries, understood = read_queries(path, rules=rules)
    expected, typed = literal_sessions(rows, rules)
    assert sessions(queries) == expected
    found = users(queries)
    assert found == {query: len({u for u, q in typed if q == query}) for query in found}
    assert words(queries) == {
        word: len({u for u, q in typed if word in q.split()}) for word in {w for _, q in typed for w in q.split()}
    }
    gone = understood.dropped
    assert understood.rows == len(queries.histories.ids) + sum(
        count for reason, count in gone.items() if not reason.endswith("_sessions") or reason.startswith("in_")
    )


def literal_sessions(
    rows: list[tuple[str, str, int]], rules: QueryRules
) -> tuple[list[tuple[str, ...]], set[tuple[str, str]]]:
    """One row at a time: sessions, and the pairs of user and query that were typed."""
    logs: dict[str, list[tuple[int, str]]] = {}
    for user, query, at in rows:
        if query:
            logs.setdefault(user, []).append((at, query))
    found, typed = [], set()
    for user, log in logs.items():
        log.sort(key=lambda row: row[0])
        parts: list[list[str]] = []
        for place, (at, query) in enumerate(log):
            if not place or at - log[place - 1][0] > 60 * rules.gap:
                parts.append([])
            if len(query.split()) > (rules.max_words or 99):
                continue
            typed.add((user, query))
            if not parts[-1] or parts[-1][-1] != query:
                parts[-1].append(query)
        found += [tuple(part) for part in parts if rules.min_queries <= len(part) <= (rules.max_queries or 9999)]
    return found, typed


def test_no_user_survives(tmp_path: Path) -> None:
    names = [f"Jane-Doe-{number}@secret" for number in range(5)]
    text = "client_id,session_id,query,time\n"
    text += "".join(f"{name},sess-{name},q{k},{START + k}\n" for name in names for k in range(3))
    queries, understood = read_queries(write(tmp_path, text))
    assert users(queries) == {"q0": 5, "q1": 5, "q2": 5}

    def walk(found: object) -> list[str]:
        if dataclasses.is_dataclass(found) and not isinstance(found, type):
            return [text for name in vars(found) for text in walk(getattr(found, name))]
        if isinstance(found, dict):
            return [text for pair in found.items() for text in walk(pair)]
        if hasattr(found, "values") and not isinstance(found, pl.Series):
            return walk(list(found.values))
        if isinstance(found, list | tuple | pl.Series | np.ndarray):
            return [text for part in found for text in walk(part)]
        return [str(found)]

    held = walk(queries) + walk(understood)
    assert "q1" in held and "client_id" in held
    assert not any("Jane" in text or "sess-" in text or "secret" in text.lower() for text in held)
    # No number stands for a user either: apart from ids, times and counts there is nothing as long as the rows.
    kept = {field.name for field in dataclasses.fields(queries)}
    assert kept == {"histories", "users", "words", "word_users", "parts", "novel", "people"}
    assert not len(queries.histories.names)


@pytest.mark.parametrize(
    ("given_text", "plain", "paper"),
    [
        ("  What IS\tlove?  ", "what is love?", "what is love"),
        ("don’t stop", "don’t stop", "don't stop"),
        ("ＦＵＬＬ　ｗｉｄｔｈ １２", "full width 12", "full width 12"),
        ("Привет МИР", "привет мир", "привет мир"),
        ("مرحبا بالعالم", "مرحبا بالعالم", "مرحبا بالعالم"),
        ("שלום עולם", "שלום עולם", "שלום עולם"),
        ("नमस्ते दुनिया", "नमस्ते दुनिया", "नमस्ते दुनिया"),
        ("東京 天気", "東京 天気", "東京 天気"),
        ("می\u200cخواهم", "می\u200cخواهم", "می خواهم"),
        ("family 👨\u200d👩\u200d👧 trip", "family 👨\u200d👩\u200d👧 trip", "family trip"),
        ("bell\x07 es\x1bc \x00nul", "bell esc nul", "bell esc nul"),
        ("zero\u200bwidth \ufeffbom", "zerowidth bom", "zerowidth bom"),
        ("\u202eevil\u202c \u2066x\u2069", "evil x", "evil x"),
        ("e\u0301te\u0301", "été", "été"),
        ("c++ & c#", "c++ & c#", "c c"),
        ("\x1f \n", "", ""),
    ],
)
def test_normalisation(given_text: str, plain: str, paper: str) -> None:
    assert normalise(pl.Series([given_text]))[0] == plain
    assert normalise(pl.Series([given_text]), "paper")[0] == paper


@settings(max_examples=120)
@given(st.lists(st.text(st.characters(max_codepoint=127)), min_size=1))
@example(["".join(map(chr, range(128))), " Don't -  STOP\t", "\x1c a \x1f", "c++ & c#"])
def test_a_few_ascii_texts_need_no_columns(texts: list[str]) -> None:
    column = pl.Series(texts, dtype=pl.String)
    ways: tuple[Normalisation, ...] = ("plain", "paper")
    for way in ways:
        assert [normalise_ascii(text, way) for text in texts] == normalise(column, way).to_list()
    plain = normalise(column)
    assert [words_of(text) for text in plain] == plain.str.extract_all(WORDS).to_list()


@settings(max_examples=120)
@given(st.lists(st.text(), min_size=1))
@example(["İ", "ϒ", "ẞ", "ΑΣ", "\u1fbc", "ǅ", "\u0345Α", "e\u200b\u0301"])
def test_normalising_twice_changes_nothing(texts: list[str]) -> None:
    column = pl.Series(texts, dtype=pl.String)
    ways: tuple[Normalisation, ...] = ("plain", "paper")
    for way in ways:
        once = normalise(column, way)
        assert normalise(once, way).to_list() == once.to_list()
        assert not once.str.contains(r"\p{Cc}|^ | $|  ").any()
    apart = normalise(column).str.extract_all(WORDS)
    assert ["".join(found) for found in apart] == [text.replace(" ", "") for text in normalise(column)]


def test_long_queries_go_and_are_counted(tmp_path: Path) -> None:
    huge, line = "x" * 50_000, " ".join("abcdefghijk")
    rows = [("a", 0), (huge, 20), ("b", 40), (line, 41), (" ".join("abcdefghij"), 42)]
    text = HEAD + "".join(f"u,{query},{START + MINUTE * minute}\n" for query, minute in rows)
    queries, understood = read_queries(write(tmp_path, text), rules=QueryRules(max_words=10))
    # Nothing was asked for forty minutes, but the pasted text shows that somebody was there.
    assert sessions(queries) == [("a", "b", "a b c d e f g h i j")]
    assert dropped(understood) == {"words": 1, "characters": 1}
    assert understood.sentences == ["1 query of more than 10 words", "1 query of more than 500 characters"]
    assert QueryRules().max_characters == 500
    assert dropped(read_queries(write(tmp_path, text))[1]) == {"characters": 1}


def test_the_rules_of_the_paper(tmp_path: Path) -> None:
    lines = ["A!\tb\tB\tc", "a\tb", "a\tb\tc\td\te\tf", "a\tb\tc\td\te", "a\tb\t1 2 3 4 5 6 7 8 9 10 11\tc"]
    queries, understood = read_queries(write(tmp_path, "\n".join(lines)), rules=PAPER_RULES)
    assert sessions(queries) == [("a", "b", "c"), ("a", "b", "c", "d", "e"), ("a", "b", "c")]
    assert dropped(understood) == {
        "words": 1,
        "repeats": 1,
        "short_sessions": 1,
        "in_short_sessions": 2,
        "long_sessions": 1,
        "in_long_sessions": 6,
    }
    assert understood.sentences[-2:] == ["1 session of more than 5 queries", "6 queries in those"]


def test_repeats_may_stay_and_gaps_may_not_cut(tmp_path: Path) -> None:
    text = HEAD + f"u,a,{START}\nu,a,{START + 1}\nu,b,{START + 9 * 3600}\n"
    queries, _ = read_queries(write(tmp_path, text), rules=QueryRules(gap=0, repeats=True))
    assert sessions(queries) == [("a", "a", "b")]


def test_times_out_of_order_are_sorted_and_said(tmp_path: Path) -> None:
    text = HEAD + f"u,b,{START + 1}\nv,x,{START}\nu,a,{START}\nu,c,{START + 1}\nv,y,{START}\n"
    queries, understood = read_queries(write(tmp_path, text))
    assert sessions(queries) == [("a", "b", "c"), ("x", "y")]  # ties keep the file's order
    assert understood.notes == ("1 of 2 users had decreasing times: sorted by time",)


def test_ten_thousand_queries_in_a_session(tmp_path: Path) -> None:
    text = HEAD + "".join(f"bot,query {number},{START + number}\n" for number in range(10_000))
    path = write(tmp_path, text)
    queries, _ = read_queries(path)
    assert queries.histories.lengths.tolist() == [10_000]
    assert queries.histories.record(0).values[9_999] == "query 9999"
    assert set(users(queries).values()) == {1}  # a log with one user


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "log.csv: is empty"),
        ("user,query,time\n", "log.csv: has one line, which can only be a header, and no query"),
        (
            f"user,item,time\nu,a,{START}\n",
            "log.csv: no column is recognised as the query; the columns are 'user', 'item', 'time'; name them with "
            "--columns query=…,user=…,time=…",
        ),
        (
            "user\tlabel\ttime\nu\ta\t3\n",
            "log.csv: no column is recognised as the query; the columns are 'user', 'label', 'time'; name them with "
            "--columns query=…,user=…,time=…",
        ),
        (
            f"query,time\na,{START}\n",
            "log.csv: there is no user, and no session column either, so sessions cannot be separated; the columns "
            "are 'query', 'time'; name them with --columns query=…,user=…,time=…, or session=…",
        ),
        (
            "query\tname\na\tb\n",
            "log.csv: there is no user and no time, and no session column either, so sessions cannot be separated; "
            "the columns are 'query', 'name'; name them with --columns query=…,user=…,time=…, or session=…",
        ),
        (
            f"user,query,time\nu,a,{START}\nu,b,{START + 1}\nu,c,{START + 2}000\n",
            f"log.csv, line 4: time {START + 2}000 looks like milliseconds since 1970, but others, such as {START}, "
            "look "
            "like seconds; give all times in one unit",
        ),
        (
            f"user,query,time\nu,-,\nu,b,{START}\nu,c,\n",
            "log.csv, line 4: time is empty; give every event a time, or leave such rows out with --missing drop",
        ),
        (
            "user,query,time\nu,a,noon\n",
            "log.csv, line 2: time 'noon' is not a time; use seconds since 1970, ISO 8601, or --time-unit",
        ),
        (
            f"user,query,time\nu,a,{START}\nv,-,{START}\n",
            "log.csv: no session of 2 or more queries is left after cleaning: 1 row without a query: clicks, "
            "blanks, or a bare dash; 1 session of fewer than 2 queries; 1 query in them",
        ),
        (
            "split\tsession\tqueries\ntrain\ts\ta\tb\ntest\tt\n",
            "log.csv, line 3: 2 fields and no query; the header has 2 before the queries",
        ),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text, "log.csv")
    with pytest.raises(DataError) as caught:
        read_queries(path)
    assert str(caught.value).replace(f"{tmp_path}{os.sep}", "") == message


def test_bad_settings(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + f"u,a,{START}\nu,b,{START}\n")
    for columns, message in [
        ({"item": "query"}, "columns: role 'item' is not known; the roles are query, user, session, time, part"),
        ({"query": "q"}, "column 'q' (query) is missing; the columns are 'user', 'query', 'time'"),
    ]:
        with pytest.raises((SettingError, DataError), match=re.escape(message)):
            read_queries(path, columns=columns)
    with pytest.raises(SettingError, match="time_unit: 'min' is not known; the units are s, ms, us, ns, h, days, iso"):
        read_queries(path, time_unit="min")
    with pytest.raises(SettingError, match="the layout session lists has no named columns; remove --columns"):
        read_queries(write(tmp_path, "split\tqueries\ntrain\ta\tb\n"), columns={"query": "queries"})
    for rules, message in [
        ({"min_queries": -1}, "min_queries is -1; it must be at least 0"),
        ({"max_queries": 0}, "max_queries is 0; it must be at least 1"),
        ({"min_queries": 3, "max_queries": 2}, "max_queries is 2, below min_queries, 3"),
        ({"gap": -1.0}, "gap: -1.0 is not a pause; give minutes, such as 30, or 0 to keep sessions whole"),
        ({"normalisation": "upper"}, "normalisation: 'upper' is not known; choose plain or paper"),
    ]:
        with pytest.raises(SettingError, match=re.escape(message)):
            QueryRules(**rules)  # type: ignore[arg-type]


def test_splits(tmp_path: Path) -> None:
    # The session of user k begins at minute 100 - k: the file's last users searched first.
    text = HEAD + "".join(f"u{k},q{k} {n},{START + MINUTE * (100 - k) + n}\n" for k in range(10) for n in range(2))
    queries, understood = read_queries(write(tmp_path, text))
    train, held, rule = hold_out_queries(queries, 0.2, absolute=understood.absolute)
    assert sessions(held) == [("q0 0", "q0 1"), ("q1 0", "q1 1")]
    assert (len(train), rule) == (8, "the last 2 of 10 by start time")
    _, held, rule = hold_out_queries(queries, 0.2, absolute=False)
    assert (sessions(held), rule) == ([("q8 0", "q8 1"), ("q9 0", "q9 1")], "the last 2 of 10 in file order")
    assert not len(held.histories.names)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real queries at {DATA}; set ENSUE_DATA")
def test_real_files() -> None:
    queries, understood = read_queries(DATA / "msmarco/sessions.tsv.gz", rules=QueryRules(normalisation="paper"))
    # 12,453 lines, of which 164 are one query and its repeats.
    assert (len(queries), understood.dropped["short_sessions"]) == (12_289, 164)
    novel = queries.part("test", novel=True).histories
    assert (len(novel), int((novel.lengths - 1).sum())) == (734, 1881)
    queries, understood = read_queries(DATA / "sqa/sequences.tsv.gz")
    assert (understood.layout, len(queries), len(queries.part("test"))) == ("session lists", 5041, 784)


def test_prefixes() -> None:
    records = [
        History(("a", "b", "a", "c"), (0.0, 1.0, 2.0, 3.0)),
        History(("d",), (0.0,)),
        History(("e", "f"), (5.0, 6.0)),
    ]
    whole = Histories.of(records)
    asked, targets = prefixes(whole)
    assert [record.values for record in asked.records()] == [("a",), ("a", "b"), ("a", "b", "a"), ("e",)]
    assert [whole.vocabulary.value(id) for id in targets.tolist()] == ["b", "a", "c", "f"]
    assert asked.times.tolist() == [0, 0, 1, 0, 1, 2, 5]
    assert [record.values for record in prefixes(whole, 2)[0].records()] == [("a",), ("a", "b"), ("b", "a"), ("e",)]


def test_queries_without_spaces_are_matched_by_character_and_counted_whole() -> None:
    """Frequent characters may spell a rare name, which the k-anonymity filter must still see as one."""
    assert words_of("東京旅行 2024 iphone's!") == ["東", "京", "旅", "行", "2024", "iphone's", "!"]
    assert runs_of("東京旅行 2024 iphone's!") == ["東京旅行", "2024", "iphone's", "!"]
    assert words_of("don't café?") == runs_of("don't café?") == ["don't", "café", "?"]
