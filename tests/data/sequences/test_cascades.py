"""Cascades in the layouts in which they are published, each worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensue import DataError, History
from ensue.data.kinds import kind_of
from ensue.data.sequences import read
from tests.data.files import records, write

NOTE = "the root before the first pair of each line is the first event, at the time of that pair"
PAIRS = [History(("ann", "bob", "cem"), (3.0, 5.0, 9.0)), History(("dan", "ann"), (2.0, 4.0))]
ROOTED = [History(("root", "ann", "bob"), (3.0, 3.0, 5.0)), History(("dan", "eve"), (2.0, 2.0))]
LAYOUTS = {
    "pairs, spaces between them": ("forest", "ann,3 bob,5 cem,9\ndan,2 ann,4\n", PAIRS, ()),
    "pairs, commas between them": ("ms-hgat", "ann 3,bob 5,cem 9\ndan 2,ann 4\n", PAIRS, ()),
    "commas at the end": ("ms-hgat", "ann 3,bob 5,cem 9,\ndan 2, ann 4,\n", PAIRS, ()),
    "a root, then pairs": ("forest", "root ann,3 bob,5\ndan eve,2\n", ROOTED, (NOTE,)),
    "a root in the first event": ("forest", "root,ann,3 bob,5\ndan,eve,2\n", ROOTED, (NOTE,)),
    "a root in the first event, commas between": ("ms-hgat", "root ann 3,bob 5\ndan eve 2\n", ROOTED, (NOTE,)),
    "a root that is the first user too": (
        *("ms-hgat", "ann ann 3,bob 5,cem 9\ndan dan 2,ann 4\n", PAIRS),
        (NOTE,),
    ),
    "a root in one line": (
        *("forest", "ann,3 bob,5\nroot ann,3 bob,5\nann,3 bob,5\n"),
        [History(("ann", "bob"), (3.0, 5.0)), ROOTED[0], History(("ann", "bob"), (3.0, 5.0))],
        ("the root before the first pair of 1 line of 3 is the first event, at the time of that pair",),
    ),
    "words alone": (
        *("topo-lstm", "7 4 10 9 11 2 30 8 31 5 32\n4 7 12 2 15 1 18 3 20\n"),
        [
            History(("7", "4", "9", "2", "8", "5"), (10.0, 10.0, 11.0, 30.0, 31.0, 32.0)),
            History(("4", "7", "2", "1", "3"), (12.0, 12.0, 15.0, 18.0, 20.0)),
        ],
        (NOTE,),
    ),
    "words alone, the root is the first user": (
        *("topo-lstm", "7 7 10 9 11 2 30 8 31 5 32\n4 4 12 2 15 1 18 3 20\n"),
        [
            History(("7", "9", "2", "8", "5"), (10.0, 11.0, 30.0, 31.0, 32.0)),
            History(("4", "2", "1", "3"), (12.0, 15.0, 18.0, 20.0)),
        ],
        (NOTE,),
    ),
    "paths": (
        # eve came 5 seconds after publication, by way of bob, who came after 2; the file has her first.
        *("deephawkes", "c1\tann\t1464710400\t3\tann:0 ann/bob/eve:5 ann/bob:2\nc2\tbob\t1464710500\t1\tbob:0\n"),
        [
            History(("ann", "bob", "eve"), (1464710400.0, 1464710402.0, 1464710405.0), "c1"),
            History(("bob",), (1464710500.0,), "c2"),
        ],
        (
            "times are the publication time plus the seconds of each path",
            "the last user of each path is the event",
            "1 of 2 sessions had decreasing times: sorted by time",
        ),
    ),
    "paths without a time since 1970": (
        *("deephawkes", "c1\tann\t1893-07\t2\tann:0 ann/bob:2\n", [History(("ann", "bob"), (0.0, 2.0), "c1")]),
        (
            "times are seconds after publication, whose own time is not a Unix time",
            "the last user of each path is the event",
        ),
    ),
}


@pytest.mark.parametrize(("layout", "text", "expected", "notes"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_by_hand(tmp_path: Path, layout: str, text: str, expected: list[History], notes: tuple[str, ...]) -> None:
    path = write(tmp_path, text)
    histories, understood = read(path)
    assert (understood.layout, understood.notes) == (layout, notes)
    assert records(histories) == expected
    assert kind_of(path) == "sequences"


SESSIONS = {
    "ids, an odd number in each line": "a1 b2 c3\nd4 e5 f6\na1 a1 a1\n",
    "sorted ids": "1 2 3 4 5 6 7\n2 3 4 5 6 7 8\n1 3 5 6 7 8 9\n",
    "too few to tell": "7 4 10 9 11\n4 7 12\n",
}


@pytest.mark.parametrize("text", SESSIONS.values(), ids=SESSIONS.keys())
def test_sessions_of_numbers_are_no_cascades(tmp_path: Path, text: str) -> None:
    histories, understood = read(write(tmp_path, text))
    assert understood.layout == "sessions" and not histories.timed
    assert [" ".join(record.values) for record in records(histories)] == text.splitlines()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1,b 2\nc 3,d 4\ne\n", ", line 3: 'e' does not fit; expected user time"),
        (
            "r a,1 b,2\nr a,1 b,2\nr a,1 s,b,2\n",
            ", line 3: 's,b,2' does not fit; expected user,time, after one root at most",
        ),
        ("a 1,b x\nc 3,d 4\ne 5,f 6\n", ": no column is recognised as the session"),
        ("a 1,b 2\nc 3,d x\ne 5,f 6\n", ", line 2: time 'x' is not a time"),
        ("1\ta\t5\t2\ta:0 a/b:x\n1\ta\t5\t1\ta:0\n2\tb\t6\t1\tb:0\n", ", line 1: a header was expected"),
        (
            "1\ta\t5\t1\ta:0\n1\ta\t5\t2\ta:0 b\n2\tb\t6\t1\tb:0\n",
            ", line 2: 'b' does not fit; expected user/user:seconds",
        ),
        ("1\ta\t5\t1\ta:0\n1\ta\t5\n2\tb\t6\t1\tb:0\n", ", line 2: '1\\ta\\t5' does not fit; expected id TAB root TAB"),
    ],
)
def test_a_line_of_another_shape_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}{message}")
