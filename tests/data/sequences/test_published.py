"""Logs in the layouts they are published in, from a few made rows to the sequences that they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from ensue import DataError, SettingError
from ensue.data.kinds import kind_of
from ensue.data.schema import DataSchema
from ensue.data.sequences import read
from ensue.data.sequences.prepare import prepare
from ensue.data.table import ReadOptions

USERS = {"A1YJEY40YUW4SE": ("B004756YJA", "7806397051"), "A60XNB876KYML": ("B004ZT0SSG", "B004756YJA")}
REVIEWS = [
    (user, item, f"{5 - place}.0", 1369699200 - 86400 * place)
    for user in USERS
    for place, item in enumerate(USERS[user])
]
RATINGS = [(user, item, 3 + item % 3, 978300760 + 86400 * item) for user in (1, 2) for item in (1193, 661)]
HISTORIES = ["5 7 9 2", "2 9", "7 1 5", "5 9 1"]


def lines(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


def joined(rows: Sequence[Sequence[object]], separator: str) -> str:
    return lines([separator.join(map(str, row)) for row in rows])


def check_in(user: int, minute: int, place: str, separator: str = "\t") -> str:
    return separator.join((str(user), f"2010-10-19T23:{minute:02}:27Z", "30.2359", "-97.795", place))


PUBLISHED: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "movielens": (joined(RATINGS, "::"), {"1": ("661", "1193"), "2": ("661", "1193")}),
    "movielens 100k": (joined(RATINGS, "\t"), {"1": ("661", "1193"), "2": ("661", "1193")}),
    "ratings": (
        "userId,movieId,rating,timestamp\n" + joined(RATINGS, ","),
        {"1": ("661", "1193"), "2": ("661", "1193")},
    ),
    "amazon": (joined([*REVIEWS], ","), {user: items[::-1] for user, items in USERS.items()}),
    "amazon 2018": (
        joined([(item, user, *rest) for user, item, *rest in REVIEWS], ","),
        {user: items[::-1] for user, items in USERS.items()},
    ),
    "taobao": (
        "1,2268318,2520377,pv,1511544070\n1,2333346,2520771,buy,1511561733\n",
        {"1#1": ("2268318",), "1#2": ("2333346",)},
    ),
    "check-ins": (
        lines(
            [check_in(0, 59 - minute, place) for minute, place in enumerate(("22847", "420315", "dd7cd3d264c2d063"))]
        ),
        {"0": ("dd7cd3d264c2d063", "420315", "22847")},
    ),
    "yoochoose buys": (
        "420374,2014-04-06T18:44:58.314Z,214537888,12462,1\n420374,2014-04-06T18:44:59Z,214537850,10471,1\n",
        {"420374": ("214537888", "214537850")},
    ),
    "jsonl sessions": (
        '{"session": 7, "events": [{"aid": 11, "ts": 1659304800025, "type": "c"}, {"aid": 12, "ts": 1659304801025}]}',
        {"7": ("11", "12")},
    ),
    "user histories": (
        lines([f"{user} {items}" for user, items in enumerate(HISTORIES, 1)]),
        {str(user): tuple(items.split()) for user, items in enumerate(HISTORIES, 1)},
    ),
    "user items": (
        lines([f"{user} {item}" for user in (4, 2) for item in range(9)]),
        {user: tuple(map(str, range(9))) for user in ("4", "2")},
    ),
    "mind behaviors": (
        "1\tU8\t11/11/2019 9:05:58 PM\tN5 N6\tN1-0 N2-1 N3-1\n2\tU9\t11/11/2019 6:00:00 AM\t\tN1-0 N4-1\n"
        "3\tU8\t11/13/2019 9:05:58 AM\tN5 N6\tN7-1\n4\tU8\t11/11/2019 9:05:58 AM\tN5 N6\tN9-1 N8-0\n",
        {"U8": ("N5", "N6", "N9", "N2", "N3", "N7"), "U9": ("N4",)},
    ),
}


def test_dates_of_mind_begin_with_the_month_whatever_the_days(tmp_path: Path) -> None:
    rows = "1\tU8\t11/12/2019 9:05:58 AM\tN5\tN2-1\n2\tU8\t11/9/2019 9:05:58 AM\tN5\tN3-1 N4-0\n"
    assert next(read(write(tmp_path, rows))[0].records()).values == ("N5", "N3", "N2")


def write(folder: Path, text: str) -> Path:
    path = folder / "log.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("layout", PUBLISHED)
def test_published_logs_are_read_without_an_option(tmp_path: Path, layout: str) -> None:
    text, expected = PUBLISHED[layout]
    path = write(tmp_path, text)
    assert kind_of(path) == "sequences"
    histories, report = read(path)
    assert report.layout == layout
    assert {record.id: record.values for record in histories.records()} == expected


def test_a_prepared_log_is_read_as_the_file_is(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra large is not there")
    text, expected = PUBLISHED["movielens"]
    prepare([write(tmp_path, text)], tmp_path / "log", ReadOptions())
    histories, report = read(tmp_path / "log")
    assert report.layout == "movielens"
    assert {record.id: record.values for record in histories.records()} == expected


VENUES = ("49bbd6c0f964a520f4531fe3", "4a43c0aef964a520c6a61fe3")


def test_venues_of_foursquare_are_read_from_their_encoding(tmp_path: Path) -> None:
    rows = [
        f"4\t{venue}\t4bf58dd8d48988d127951735\tCaf\xe9\t40.7\t-74.0\t-240\tTue Apr 03 18:0{9 - place}:06 +0000 2012"
        for place, venue in enumerate(VENUES)
    ]
    path = tmp_path / "nyc.txt"
    path.write_bytes(lines(rows).encode("cp1252"))
    histories, report = read(path)
    assert report.layout == "foursquare" and "read as cp1252" in report.notes
    assert {record.id: record.values for record in histories.records()} == {"4": VENUES[::-1]}


def test_ratings_of_a_user_are_one_sequence_unless_cut(tmp_path: Path) -> None:
    path = write(tmp_path, PUBLISHED["movielens"][0])
    note = "each user is one session, as is usual for ratings and check-ins; cut it into sessions with --session-gap 30"
    assert note in read(path)[1].notes
    assert len(read(path, gap=30)[0]) == 4


def test_reviews_of_a_user_are_one_sequence_in_every_file_format(tmp_path: Path) -> None:
    """Reviews of Amazon as JSON Lines, and the same columns as CSV and Parquet."""
    names = ("reviewerID", "asin", "overall", "unixReviewTime")
    frame = pl.DataFrame([(user, item, float(stars), time) for user, item, stars, time in REVIEWS], names, orient="row")
    frame.write_csv(tmp_path / "reviews.csv")
    frame.write_ndjson(tmp_path / "reviews.json")
    frame.write_parquet(tmp_path / "reviews.parquet")
    for path in sorted(tmp_path.iterdir()):
        histories, report = read(path)
        assert report.layout == "ratings", path
        assert {record.id: record.values for record in histories.records()} == {
            user: items[::-1] for user, items in USERS.items()
        }


SONGS = lines(
    [f"user_00000{user}\t2009-05-04T23:0{song}:57Z\ta{song}\tBand\tt{song}\tSong" for user in (1, 2) for song in (1, 2)]
)
ASKED: dict[str, tuple[str, str, dict[str, str]]] = {
    "last.fm 1k": (
        SONGS,
        "the columns 'artist_id', 'track_id' may all be the item; choose with --columns item=artist_id or item=track",
        {"item": "track_id"},
    ),
    "trivago": (
        "session_id,timestamp,action_type,reference\ns,1541037460,clickout item,9\ns,1541037461,search for poi,Rome\n",
        "no column is recognised as the item; the columns are 'session_id', 'timestamp', 'action_type', 'reference'; "
        "name them with --columns session=session_id,item=reference,time=timestamp",
        {"item": "reference"},
    ),
    "ratings, no header": (
        "1,31,2.5,1260759144\n1,1029,3.0,1260759179\n",
        "looks like data; number the columns, such as --columns session=1,item=2,time=3, or add a line of",
        {"session": "1", "item": "2", "time": "4"},
    ),
    "ratings with ::, no time": (
        "1::31::2.5\n1::1029::3.0\n",
        "looks like data; number the columns, such as --columns session=1,item=2,time=3",
        {"session": "1", "item": "2"},
    ),
    "columns of one width": (
        lines([f"{7 * line % 23} {line % 5} {line % 3}" for line in range(30)]),
        "every line has 3 ids, which may be a session or columns of a table; give --columns session=1,item=2- if a "
        "line begins with its user, --columns item=1- if all its ids are items, or add a header",
        {"session": "1", "item": "2"},
    ),
    "first ids of their own": (
        lines([f"x{37 * line % 101} " + " ".join(f"i{line}{k}" for k in range(line % 3 + 1)) for line in range(40)]),
        "every line begins with a different id, which may be a user or an item; give --columns session=1,item=2-",
        {"session": "1", "item": "2-"},
    ),
    "who opens or shares a page": (
        "user,url,ts\nann,https://a.example,1\nann,https://b.example,2\n",
        "'user' may open 'url', or pass it on; name what is meant with --columns: session=user,item=url for the page "
        "that a user opens next, session=url,item=user for the user who shares a page next",
        {"session": "user", "item": "url"},
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_may_be_meant_otherwise_is_asked_for(tmp_path: Path, name: str) -> None:
    text, message, columns = ASKED[name]
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=re.escape(message)):
        read(path)
    histories, _ = read(path, columns=columns)
    assert len(histories.ids) > 1


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"session": "1", "item": "2-"}, [("1", ("2", "3")), ("4", ("5", "6", "7", "8"))]),
        ({"item": "1-"}, [("", ("1", "2", "3")), ("", ("4", "5", "6")), ("", ("4", "7", "8"))]),
        ({"session": "1", "item": "3"}, [("1", ("3",)), ("4", ("6", "8"))]),
    ],
)
def test_columns_are_numbered(
    tmp_path: Path, columns: Mapping[str, str], expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    histories, _ = read(write(tmp_path, "1 2 3\n4 5 6\n4 7 8\n"), columns=columns)
    assert [(record.id, record.values) for record in histories.records()] == expected


def test_sessions_that_share_first_ids_stay_sessions(tmp_path: Path) -> None:
    rows = [" ".join(str((3 * line + 5 * k) % 11) for k in range(2 + line % 3)) for line in range(40)]
    histories, report = read(write(tmp_path, lines(rows)))
    assert (report.layout, len(histories)) == ("sessions", 40)


def test_numbers_name_no_columns_of_lists_but_these(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="the layout sessions has no named columns; remove --columns"):
        read(write(tmp_path, "1 2 3\n4 5\n"), columns={"item": "2-"})


def test_a_later_file_is_read_as_the_training_data_was(tmp_path: Path) -> None:
    few = write(tmp_path, "2 5 7\n3 6\n4 5 6\n")
    assert read(few)[1].layout == "sessions"
    schema = DataSchema(columns={"session": "1", "item": "2-"})
    histories, report = read(few, schema=schema)
    assert (report.layout, [record.values for record in histories.records()]) == (
        "user histories",
        [("5", "7"), ("6",), ("5", "6")],
    )
    many = write(tmp_path, ASKED["first ids of their own"][0])
    assert read(many, schema=DataSchema(columns={"item": "1-"}))[1].layout == "sessions"


def test_an_error_shows_control_characters_of_a_column_as_escapes(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("author\x1b,url,ts\nann,https://a.example,1\nann,https://b.example,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"session=author\\x1b,item=url") as caught:
        read(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", [",\n", ",,\n,,\n", "\x1c\n,\n"])
def test_a_table_of_empty_cells_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError):
        read(path)
