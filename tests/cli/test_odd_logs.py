"""Logs that are not what they seem: concatenated twice, of several kinds of events, written by programs."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Ensue

TWICE = "the log looks concatenated twice"
ADVICE = "keep one copy, for a CSV or JSON Lines file by `awk '!seen[$0]++' FILE > NEW`"


def clicks(num: int, seconds: int = 37) -> list[str]:
    draw = random.Random(1)
    return [f"s{at // 4},i{draw.randrange(60)},{1_700_000_000 + at * seconds}" for at in range(num)]


def write(path: Path, rows: Sequence[str], header: str = "session,item,time") -> Path:
    path.write_text("".join(f"{row}\n" for row in (header, *rows)))
    return path


def warnings(ensue: Ensue, path: Path) -> list[str]:
    ran = ensue("check", path, "--json")
    assert ran.code == 0, ran.err
    return list(json.loads(ran.out)["warnings"])


def test_a_log_that_was_concatenated_is_told(ensue: Ensue, tmp_path: Path) -> None:
    rows = clicks(400)
    assert not any("concatenated" in line for line in warnings(ensue, write(tmp_path / "one.csv", rows)))
    twice = write(tmp_path / "twice.csv", rows + rows)
    same = f"repeat an earlier one of the same session, item and time, such as '{rows[0].split(',')[1]}' in 's0'"
    sentence = f"400 of 800 (50.0 %) events {same}: {TWICE}; {ADVICE}"
    assert sentence in warnings(ensue, twice)
    thrice = write(tmp_path / "thrice.csv", rows * 3)
    assert f"800 of 1,200 (66.7 %) events {same}: the log looks concatenated 3 times; {ADVICE}" in warnings(
        ensue, thrice
    )
    overlapping = write(tmp_path / "overlapping.csv", rows + rows[:100])
    assert f"100 of 500 (20.0 %) events {same}; {ADVICE}" in warnings(ensue, overlapping)
    ran = ensue("fit", "next", twice, "-o", tmp_path / "m", "--model", "popularity")
    assert (ran.code, f"warning: {twice}: {sentence}" in ran.lines) == (0, True)
    ran = ensue("evaluate", tmp_path / "m", twice)
    assert (ran.code, f"warning: {twice}: {sentence}" in ran.lines) == (0, True)


@pytest.mark.parametrize("kind", ["table", "lists"])
def test_a_log_without_times_that_was_concatenated_is_told(ensue: Ensue, tmp_path: Path, kind: str) -> None:
    rows = [row.rpartition(",")[0] for row in clicks(400)]
    if kind == "lists":
        items = [row.partition(",")[2] for row in rows]
        rows = [json.dumps({"values": items[at : at + 4]}) for at in range(0, 400, 4)]
    for copies, told in ((1, False), (2, True)):
        path = tmp_path / f"{copies}.{'csv' if kind == 'table' else 'jsonl'}"
        path.write_text("".join(f"{row}\n" for row in [*(["session,item"] if kind == "table" else []), *rows * copies]))
        sentence = (
            f"400 of 800 (50.0 %) events are repeated in the same order: {TWICE}; keep the first half of the file"
        )
        assert (sentence in warnings(ensue, path)) is told


def test_kinds_of_events_in_one_column_are_told(ensue: Ensue, tmp_path: Path) -> None:
    rows = [f"{row},{('view', 'view', 'cart')[at % 3]},shop" for at, row in enumerate(clicks(300))]
    found = warnings(ensue, write(tmp_path / "log.csv", rows, "session,item,time,event_type,category"))
    types = "column 'event_type' holds 2 event types, 'view' 200, 'cart' 100: all are treated the same"
    assert [line for line in found if "event types" in line] == [
        f"{types}; choose the types to predict, such as --events view"
    ]


def test_programs_among_the_people_are_told(ensue: Ensue, tmp_path: Path) -> None:
    program = [row.replace(row.partition(",")[0], "bot") for row in clicks(250, seconds=2)]
    found = warnings(ensue, write(tmp_path / "log.csv", clicks(400) + program))
    sentence = "sessions has 200 events and more within 10 minutes, 'bot' 250 in all: probably bots"
    assert f"1 of 101 (1.0 %) {sentence}; remove them" in found
    burst = [f"burst,i{at % 60},{1_700_500_000 + at}" for at in range(300)]  # 300 events in 5 minutes
    found = warnings(ensue, write(tmp_path / "burst.csv", clicks(400) + burst))
    assert any("'burst' 300 in all: probably bots" in line for line in found)
    draw, time, crawler, reader = random.Random(2), 1_700_600_000, list[str](), list[str]()
    for at in range(400):
        crawler.append(f"crawler,i{at % 60},{1_700_600_000 + 30 * at + (at > 200) * 3_000 + at % 2}")
        reader.append(f"reader,i{draw.randrange(60)},{time}")
        time += draw.randrange(3, 90)
    found = warnings(ensue, write(tmp_path / "crawler.csv", clicks(400) + crawler + reader))
    assert [line for line in found if "bots" in line] == [
        "1 of 102 (1.0 %) sessions has 100 events and more at steady intervals, 'crawler' every 31 s: probably "
        "bots; remove them"
    ]
    header = "cascade,user,time"  # of which many people take part
    assert not any(
        "programs" in line for line in warnings(ensue, write(tmp_path / "c.csv", clicks(400) + program, header))
    )


@pytest.mark.parametrize(
    ("task", "name", "header", "rows"),
    [
        ("classify", "coded.csv", "text,label", [f"text number {at},{('yes', 'no')[at % 2]}" for at in range(40)]),
        ("suggest", "log.csv", "user,query,time", [f"u{at // 4},query {at % 9},{1.7e9 + at:.0f}" for at in range(40)]),
        ("link", "posts.csv", "id,text", [f"p{at},the harbour ferry number {at}" for at in range(40)]),
    ],
)
def test_a_file_of_texts_that_was_concatenated_is_told(
    ensue: Ensue, tmp_path: Path, task: str, name: str, header: str, rows: list[str]
) -> None:
    articles = tmp_path / "articles.csv"
    articles.write_text("id,title,text\n" + "".join(f"a{at},title {at},a ferry of the town {at}\n" for at in range(9)))
    options = ("--articles", articles) if task == "link" else ()
    sentence = "40 of 80 (50.0 %) rows are repeated in the same order: the file looks concatenated twice"
    for copies, told in ((1, False), (2, True)):
        path = write(tmp_path / name, rows * copies, header)
        ran = ensue("check", path, *options)
        assert ran.code == 0, ran.err
        assert (f"warning: {sentence}; keep its first half" in ran.out + ran.err) is told
