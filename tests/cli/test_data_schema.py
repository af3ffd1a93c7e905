"""A model folder remembers how its training data was read, and reads later files the same way without options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.conftest import Ensue, Ran
from tests.folders import resum

ROWS = [
    (f"t{number}", f"the {word} ferry, day {number}", label, "unsure")
    for number, (word, label) in enumerate(
        [("lovely", "pro"), ("fine", "pro"), ("awful", "contra"), ("sad", "contra")] * 5
    )
]
HEADER = ("Tweet id", "Tweet text", "Coder 1", "Coder 2")


def sheet(path: Path, header: tuple[str, ...] = HEADER, order: tuple[int, ...] = (0, 1, 2, 3)) -> Path:
    """Write the coding sheet with its columns in some order."""
    rows = [header, *ROWS]
    path.write_text("".join(",".join(f'"{row[place]}"' for place in order) + "\n" for row in rows), encoding="utf-8")
    return path


def reading_of(folder: Path) -> dict[str, Any]:
    """What a folder stores of how its training data was read."""
    reading: dict[str, Any] = json.loads((folder / "settings.json").read_text())["facts"]["reading"]
    return reading


def answers(ran: Ran) -> list[list[tuple[str, float]]]:
    """Return the choices of every answer."""
    assert ran.code == 0, ran.err
    lines = map(json.loads, ran.out.splitlines())
    return [[(choice["value"], choice["score"]) for choice in line["choices"]] for line in lines]


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a coding sheet and a model of it."""
    from tests.cli.conftest import run

    place = tmp_path_factory.mktemp("coded")
    with pytest.MonkeyPatch.context() as patch:
        columns = "text=Tweet text,label=Coder 1"
        data = sheet(place / "coding sheet.csv")
        ran = run(patch, "fit", "classify", data, "--columns", columns, "--model", "tfidf", "-o", place / "m")
        assert ran.code == 0, ran.err
    return place


def test_predict_reads_a_sheet_as_it_was_trained(ensue: Ensue, coded: Path) -> None:
    data = coded / "coding sheet.csv"
    stated = answers(ensue("predict", coded / "m", data, "--json", "--columns", "text=Tweet text"))
    remembered = answers(ensue("predict", coded / "m", data, "--json"))
    assert len(remembered) == len(ROWS)
    assert remembered == stated


def test_columns_may_come_in_another_order_and_without_labels(ensue: Ensue, coded: Path, tmp_path: Path) -> None:
    expected = answers(ensue("predict", coded / "m", coded / "coding sheet.csv", "--json"))
    turned = sheet(tmp_path / "turned.csv", order=(3, 1, 0))
    assert answers(ensue("predict", coded / "m", turned, "--json")) == expected
    frame = pl.DataFrame({name: [row[place] for row in ROWS] for place, name in enumerate(HEADER)})
    frame.write_parquet(tmp_path / "sheet.parquet")
    assert answers(ensue("predict", coded / "m", tmp_path / "sheet.parquet", "--json")) == expected


def test_evaluate_explain_and_update_remember_too(ensue: Ensue, coded: Path, tmp_path: Path) -> None:
    data = coded / "coding sheet.csv"
    ran = ensue("evaluate", coded / "m", data, "--json")
    assert ran.code == 0, ran.err
    assert "csv (text=Tweet text, label=Coder 1)" in ran.err
    explained = ensue("explain", coded / "m", data, "--json")
    assert len(explained.out.splitlines()) == len(ROWS), explained.err
    assert ensue("update", coded / "m", data, "--no-test").code == 0
    assert reading_of(coded / "m")["columns"] == {"text": "Tweet text", "label": "Coder 1"}


def test_stated_columns_win(ensue: Ensue, coded: Path) -> None:
    ran = ensue("evaluate", coded / "m", coded / "coding sheet.csv", "--columns", "label=Coder 2", "--json")
    assert ran.code == 2  # none of the second coder's labels is one of the first
    assert "csv (text=Tweet text, label=Coder 2)" in ran.err


def test_other_names_that_speak_for_themselves_are_read_and_named(ensue: Ensue, coded: Path, tmp_path: Path) -> None:
    other = sheet(tmp_path / "other.csv", ("id", "text", "label", "note"))
    expected = answers(ensue("predict", coded / "m", coded / "coding sheet.csv", "--json"))
    ran = ensue("predict", coded / "m", other, "--json")
    assert answers(ran) == expected
    assert "note: text is 'text'; in the training data it was 'Tweet text'" in ran.err


@pytest.mark.parametrize("name", ["renamed.csv", "renamed.txt"])
def test_renamed_columns_are_refused(ensue: Ensue, coded: Path, tmp_path: Path, name: str) -> None:
    renamed = sheet(tmp_path / name, ("Nr", "What was written", "A", "B"))
    ran = ensue("predict", coded / "m", renamed)
    assert (ran.code, ran.out) == (2, "")
    assert ran.lines[-1] == (
        f"ensue: {renamed}: no column is recognised as the text; the columns are 'Nr', 'What was written', 'A', 'B'; "
        "name them with --columns text=…,label=… (the training data had text=Tweet text, label=Coder 1)"
    )


def test_lines_of_text_are_still_one_text_each(ensue: Ensue, coded: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("A lovely ferry, really.\nsad, sad day\nWell, no.\n")
    ran = ensue("predict", coded / "m", lines, "--json")
    assert len(answers(ran)) == 3
    assert f"{lines}: one text a line" in ran.err


def test_a_damaged_schema_is_refused(ensue: Ensue, coded: Path, tmp_path: Path) -> None:
    settings = json.loads((coded / "m" / "settings.json").read_text())
    settings["facts"]["reading"] = {"columns": {"text": 3}}
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "settings.json").write_text(json.dumps(settings))
    resum(tmp_path / "m")
    records = coded / "coding sheet.csv"
    ran = ensue("forget", tmp_path / "m", "--user", "ann", "--records", records)
    assert ran.code == 2 and "the folder is damaged" in ran.err


CLICKS = "".join(
    f"b{session};Straße {(session + step) % 7};{1_700_000_000_000 + session * 9_000_000 + step * 30_000}\n"
    for session in range(12)
    for step in range(4)
)


def test_a_log_keeps_columns_encoding_unit_and_pauses(ensue: Ensue, tmp_path: Path) -> None:
    data = tmp_path / "log.csv"
    data.write_bytes(f"Besucher;Größe;Wann\n{CLICKS}".encode("cp1252"))
    options = ("--columns", "session=Besucher,item=Größe,time=Wann", "--encoding", "cp1252", "--time-unit", "ms")
    assert (
        ensue("fit", "next", data, "-o", tmp_path / "m", "--model", "markov", "--session-gap", "1", *options).code == 0
    )
    folder = tmp_path / "m"
    remembered = ensue("evaluate", folder, data, "--json")
    assert remembered.code == 0, remembered.err
    assert "csv (session=Besucher, item=Größe, time=Wann)" in remembered.err
    assert "note: read as cp1252" in remembered.err
    assert "12 sessions cut from 12 sequences at pauses over 1 minutes" in remembered.err
    utf8 = tmp_path / "utf8.csv"
    utf8.write_text(f"Besucher;Größe;Wann\n{CLICKS}", encoding="utf-8")
    ran = ensue("predict", folder, utf8, "--json")
    assert ran.code == 0, ran.err
    assert "read as cp1252" not in ran.err
    assert "Straße" in ran.out


def test_queries_and_posts_keep_their_columns(ensue: Ensue, tmp_path: Path) -> None:
    searches = tmp_path / "searches.csv"
    rows = [
        f"u{user},ferry word{(user + step) % 3},{1_700_000_000 + 60 * step}" for user in range(8) for step in range(3)
    ]
    searches.write_text("\n".join(["who,what,when_s", *rows]) + "\n")
    columns = ("--columns", "user=who,query=what,time=when_s", "--rules", "min_queries=3")
    folder = tmp_path / "m"
    fitted = ensue("fit", "suggest", searches, "-o", folder, "--model", "popular", "--min-users", "1", *columns)
    assert fitted.code == 0, fitted.err
    assert ensue("evaluate", folder, searches, "--json").code == 0
    assert reading_of(folder)["rules"] == "min_queries=3"

    posts, stories = tmp_path / "posts.csv", tmp_path / "stories.csv"
    story_ids = [f"a{number}" for number in range(4)]
    written = [f"p{number},ferry topic{number % 4} harbour {number},a{number % 4}" for number in range(24)]
    posts.write_text("\n".join(["pid,What they wrote,story", *written]) + "\n")
    stories.write_text(
        "\n".join(["aid,Story", *(f"{name},A report on topic{name[1]} and the harbour" for name in story_ids)])
    )
    roles = ("--columns", "text=What they wrote,id=pid,about=story,body=Story,article_id=aid")
    fitted = ensue("fit", "link", posts, "--articles", stories, "-o", tmp_path / "l", "--model", "bm25", *roles)
    assert fitted.code == 0, fitted.err
    ran = ensue("evaluate", tmp_path / "l", posts, "--articles", stories, "--json")
    assert ran.code == 0, ran.err
    assert len(answers(ensue("predict", tmp_path / "l", posts, "--json"))) == 24
