"""Ids as a person meets them at the command line: one form for all files, and a word where two files do not match."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import Ensue

ROWS = [(session, 110 + (session + step) % 7, 1_700_000_000 + 100 * session + step) for session in range(40)
        for step in range(4)]  # fmt: skip
Log = Callable[[str], Path]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Writes the rows with items of some pattern, such as ``{}.0``."""

    def write(pattern: str) -> Path:
        path = tmp_path / "log.csv"
        path.write_text("session,item,time\n" + "".join(f"{a},{pattern.format(b)},{c}\n" for a, b, c in ROWS))
        return path

    return write


def test_a_model_of_floats_knows_whole_numbers(ensue: Ensue, log: Log, tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS, schema=["session", "item", "time"], orient="row")
    frame.cast({"item": pl.Float64}).write_parquet(tmp_path / "train.parquet")
    fitted = ensue("fit", "next", tmp_path / "train.parquet", "-o", tmp_path / "m", "--model", "markov")
    assert "column 'item' holds whole numbers written as floats" in fitted.err
    evaluated = ensue("evaluate", tmp_path / "m", log("{}"))
    assert (evaluated.code, "knows the item" in evaluated.err) == (0, False)
    answered = ensue("predict", tmp_path / "m", "-", "-k", "1", stdin='{"values": [110, 111.0]}\n')
    assert "in vocabulary: 2 of 2 events" in answered.out
    assert ".0 " not in answered.out


@pytest.mark.parametrize(
    ("pattern", "known", "unknown"), [("item-{}", "110", "item-110"), ("0{}", "110", "0110"), ("{}.5", "110", "110.5")]
)
def test_a_known_and_an_unknown_id_are_shown_where_hardly_any_is_known(
    ensue: Ensue, log: Log, tmp_path: Path, pattern: str, known: str, unknown: str
) -> None:
    assert ensue("fit", "next", log("{}"), "-o", tmp_path / "m", "--model", "markov").code == 0
    other = log(pattern)
    shown = f"it knows items such as '{known}', and this file has items such as '{unknown}'"
    for command in (("evaluate", tmp_path / "m", other), ("predict", tmp_path / "m", other, "-k", "1", "--json")):
        ran = ensue(*command)
        assert (ran.code, ran.err.count(shown)) == (0, 1)
    asked = ensue("predict", tmp_path / "m", "-", stdin=f'{{"values": ["{unknown}", "x"]}}\n' * 2)
    assert (asked.code, asked.err.count(shown)) == (0, 1)
    assert shown in ensue("update", tmp_path / "m", other, "--no-test").err
    train = tmp_path / "train.csv"
    log("{}").rename(train)
    checked = ensue("check", train, "--compare-to", log(pattern))
    assert shown in checked.out
    assert shown in ensue("compare", "next", train, "--test", log(pattern), "--models", "markov").err


def test_check_counts_missing_and_rounded_ids_and_fit_refuses_those_that_were_rounded(
    ensue: Ensue, log: Log, tmp_path: Path
) -> None:
    path = log("{}")
    path.write_text(path.read_text() + "40,nan,1700009000\n40,NULL,1700009001\nnan,5,1700009002\n")
    checked = ensue("check", path)
    assert checked.code == 0
    assert "2 of 163 events have no item (nan or NULL in column 'item', first in" in checked.out
    assert "1 of 163 events has no session (nan in column 'session', first in" in checked.out
    path.write_text(path.read_text() + "41,1.23457E+18,1700009003\n41,1.23457E+18,1700009004\n")
    assert "ids such as 1.23457E+18 were cut by a spreadsheet" in ensue("check", path).out
    refused = ensue("fit", "next", path, "-o", tmp_path / "m", "--model", "markov")
    assert refused.code == 2
    assert "log.csv, line 165: ids such as 1.23457E+18 were cut by a spreadsheet" in refused.err
    assert refused.err.endswith("export again with ids as text, or leave such rows out with --missing drop\n")
    fitted = ensue("fit", "next", path, "-o", tmp_path / "m", "--model", "markov", "--missing", "drop")
    assert fitted.code == 0
    assert "2 of 165 events have such an id in column 'item', and are left out" in fitted.err


def test_a_model_remembers_what_becomes_of_missing_ids(ensue: Ensue, log: Log, tmp_path: Path) -> None:
    path = log("{}")
    path.write_text(path.read_text().replace(",113,", ",None,"))
    assert ensue("fit", "next", path, "-o", tmp_path / "m", "--model", "markov", "--missing", "keep").code == 0
    evaluated = ensue("evaluate", tmp_path / "m", path)
    assert (evaluated.code, "no item" in evaluated.err) == (0, False)


def test_a_policy_that_there_is_not_is_one_line(ensue: Ensue, log: Log) -> None:
    ran = ensue("check", log("{}"), "--missing", "omit")
    assert (ran.code, ran.lines) == (2, ["ensue: missing: 'omit' is not known; choose from drop, keep"])
