"""Conversations as people hold them: rows of turns, and lists of turns in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError
from ensue.data.kinds import kind_of
from ensue.data.queries import read_queries
from tests.data.files import write

ROWS = [("1", "2", "which are new"), ("2", "1", "roads"), ("1", "1", "films"), ("2", "2", "closed roads")]
EXPECTED = [["films", "which are new"], ["roads", "closed roads"]]


def sessions(path: Path) -> list[list[str]]:
    queries, _ = read_queries(path)
    return sorted([*record.values] for record in queries.histories.records())


@pytest.mark.parametrize(
    "names",
    ["conversation,turn,text", "conversation_id,turn_id,utterance", "Conversation_no,Turn_no,Question"],
)
def test_rows_of_turns(tmp_path: Path, names: str) -> None:
    path = write(tmp_path, "\n".join([names, *map(",".join, ROWS)]) + "\n")
    assert sessions(path) == EXPECTED and kind_of(path) == "queries"
    _, understood = read_queries(path)
    assert understood.notes == (f"queries are in order of {names.split(',')[1]!r}",)
    listed = write(tmp_path, json.dumps([dict(zip(names.split(","), row, strict=True)) for row in ROWS]), "c.json")
    assert sessions(listed) == EXPECTED and kind_of(listed) == "queries"


OBJECTS: dict[str, list[dict[str, Any]]] = {
    "texts": [{"conversation": n, "turns": own} for n, own in enumerate(EXPECTED)],
    "cast": [
        {"number": 31, "title": "t", "turn": [{"number": n, "raw_utterance": text} for n, text in enumerate(own)]}
        for own in EXPECTED
    ],
    "messages": [
        {
            "messages": [
                row
                for text in own
                for row in ({"role": "user", "content": text}, {"role": "assistant", "content": "no"})
            ]
        }
        for own in EXPECTED
    ],
    "from": [
        {
            "conversations": [
                row for text in own for row in ({"from": "human", "value": text}, {"from": "gpt", "value": "no"})
            ]
        }
        for own in EXPECTED
    ],
}


@pytest.mark.parametrize("rows", OBJECTS.values(), ids=OBJECTS.keys())
def test_objects_with_a_list_of_turns(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    lines = write(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows), "c.jsonl")
    assert sessions(lines) == EXPECTED and kind_of(lines) == "queries"
    assert sessions(write(tmp_path, json.dumps(rows, indent=1), "c.json")) == EXPECTED
    _, understood = read_queries(lines)
    assert understood.layout == "conversations"
    others = (
        ("4 of 8 turns are by speakers other than the user: left out",)
        if {"messages", "conversations"} & {*rows[0]}
        else ()
    )
    assert understood.notes[1:] == others


def test_who_speaks_in_rows(tmp_path: Path) -> None:
    rows = "conversation,turn,speaker,text\n1,1,User,films\n1,2,System,which?\n1,3,User,new films\n"
    path = write(tmp_path, rows)
    assert sessions(path) == [["films", "new films"]]
    assert "1 of 3 turns is by speakers other than the user: left out" in read_queries(path)[1].notes
    assert sessions(write(tmp_path, rows.replace("User", "ann").replace("System", "bob"))) == [
        ["films", "which?", "new films"]
    ]


def test_users_and_parts_beside_the_turns(tmp_path: Path) -> None:
    rows = [{"user_id": f"u{n}", "split": ("train", "test")[n], "turns": own} for n, own in enumerate(EXPECTED)]
    queries, _ = read_queries(write(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows)))
    assert [*queries.parts] == ["train", "test"]
    assert queries.users.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"turns": ["a"]}\n{"turns": "b"}\n', ", line 2: field 'turns' is not a list of turns"),
        ('{"turns": ["a"]}\n{"turns": [{"number": 1}]}\n', ", line 2: a turn has no text; give a text, or an object"),
        ("conversation,turn,text\n1,1,a\n1,two,b\n", ", line 3: turn 'two' is not a number"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_queries(path)
    assert str(caught.value).startswith(f"{path}{message}")


IDS = {
    "ids": ["a1", "b2"],
    "few phrases": ["a1", "b2", "c 3"],
    "short": ["a b", "c d"],
    "numbers": [1, 2],
    "long": ["a " * 300],
}


@pytest.mark.parametrize("values", IDS.values(), ids=IDS.keys())
def test_values_that_are_no_phrases_stay_ids(tmp_path: Path, values: list[object]) -> None:
    assert kind_of(write(tmp_path, f"{json.dumps({'values': values})}\n")) == "sequences"


def test_phrases_are_said_to_be_queries(tmp_path: Path) -> None:
    path = write(tmp_path, '{"values": ["a fine film", "films"]}\n')
    assert kind_of(path) == "queries" and sessions(path) == [["a fine film", "films"]]
    note = "values are read as queries; if they are items, name the task: --task next, ensue fit next"
    assert read_queries(path)[1].notes == (note,)
