"""`ensue prepare` as a person runs it, and the verbs that take what it wrote."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ensue import History, read
from tests.cli.conftest import SMALL, Ensue, Logs

pytest.importorskip("duckdb", reason="the extra large is not there")


def records_of(path: Path) -> list[History]:
    """The sessions of a log."""
    return [record for record in read(path, task="next").records() if isinstance(record, History)]


def events(histories: list[History]) -> str:
    """A table with an event a row."""
    rows = (
        f"{record.id or number},{value},{time}\n"
        for number, record in enumerate(histories)
        for value, time in zip(record.values, record.times, strict=True)
    )
    return "cascade,user,time\n" + "".join(rows)


def test_every_verb_takes_a_prepared_log(ensue: Ensue, logs: Logs, tmp_path: Path) -> None:
    places = {}
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text(events(records_of(getattr(logs, name))))
        places[name] = tmp_path / name
        ran = ensue("prepare", tmp_path / f"{name}.csv", "-o", places[name])
        assert ran.code == 0, ran.err
    histories = records_of(places["test"])
    values = [value for record in histories for value in record.values]
    assert ran.lines[0].startswith(f"read: {len(values):,} of {len(values):,} rows, ")
    assert ran.lines[-2].startswith(f"{tmp_path / 'test.csv'}: csv (session=cascade, item=user, time=time); time: ")
    assert ran.lines[-1] == (
        f"saved {places['test']}: {len(histories)} sessions, {len(values)} events, {len(set(values))} items"
    )
    checked = [ensue("check", path, "--json") for path in (tmp_path / "train.csv", places["train"])]
    found, expected = (json.loads(ran.out) for ran in checked)
    assert {**found["understood"], "path": ""} == {**expected["understood"], "path": ""}
    assert {**found, "understood": 0} == {**expected, "understood": 0}
    folder = tmp_path / "m"
    ran = ensue("fit", "next", places["train"], "-o", folder, "--validation", places["test"], *SMALL)
    assert ran.code == 0, ran.err
    for words in (
        ("evaluate", folder, places["test"], "--json"),
        ("predict", folder, places["test"], "--json"),
        ("compare", "next", places["train"], "--test", places["test"], "--models", "markov", "--json"),
        ("update", folder, places["test"], "--no-test"),
    ):
        ran = ensue(*words)
        assert ran.code == 0, (words, ran.err)


def test_json_says_where_and_how_much(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("session,item,time\n1,a,5\n2,b,6\n1,b,7\n")
    ran = ensue("prepare", path, "-o", tmp_path / "p", "--session-gap", "0", "--json")
    found = json.loads(ran.out)
    understood = found.pop("understood")
    assert found == {"folder": str(tmp_path / "p"), "sequences": 2, "events": 3, "values": 2}
    assert understood["columns"] == {"session": "session", "item": "item", "time": "time"}


def test_shares_and_what_is_said_of_them(ensue: Ensue, tmp_path: Path) -> None:
    one, other, output = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "p"
    one.write_text("session,item\n1,a\n1,b\n")
    other.write_text("session,item\n2,a\n1,c\n")
    ran = ensue("prepare", one, other, "-o", output, "--share", "1/2", "--json")
    assert json.loads(ran.out) == {"folder": str(tmp_path / "p.shares" / "1-of-2"), "events": 2}
    ran = ensue("prepare", one, other, "-o", output, "--merge")
    assert (ran.code, ran.lines) == (
        2,
        [f"ensue: {tmp_path}/p.shares: '2/2' of all shares are missing; prepare --share 2/2"],
    )
    ran = ensue("prepare", one, other, "-o", output, "--share", "2/2")
    said = "2 events; after all shares are prepared, run the same command with --merge"
    assert ran.lines[-1] == f"saved {tmp_path}/p.shares/2-of-2: {said}"
    assert ensue("prepare", one, other, "-o", output, "--merge").code == 0
    assert [record.values for record in records_of(output)] == [("a", "b", "c"), ("a",)]
    for words, said in (
        (("--share", "3/2"), "--share: '3/2' is not a share; write 2/8 for the second of eight"),
        (("--share", "1/2", "--merge"), "--merge merges all shares; remove --share"),
    ):
        ran = ensue("prepare", one, other, "-o", tmp_path / "q", *words)
        assert (ran.code, ran.lines) == (2, [f"ensue: {said}"])


def test_several_files_and_one_twice(ensue: Ensue, tmp_path: Path) -> None:
    one, other = (tmp_path / f"{name}.csv" for name in "ab")
    one.write_text("session,item\n1,a\n1,b\n")
    other.write_text("session,item\n2,a\n1,c\n")
    assert ensue("prepare", one, other, "-o", tmp_path / "p").code == 0
    assert [record.values for record in records_of(tmp_path / "p")] == [("a", "b", "c"), ("a",)]
    understood = json.loads(ensue("check", tmp_path / "p", "--json").out)["understood"]
    assert understood["notes"] == ["2 files read as one log, ordered by name"]
    ran = ensue("prepare", one, tmp_path, "-o", tmp_path / "q")
    assert (ran.code, ran.err) == (2, f"ensue: {one}: is listed twice; list each file once\n")


def test_bad_input_is_one_line(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("session,item,time\n1,a,5\n2,,6\n")
    (tmp_path / "empty").mkdir()
    for words, expected in (
        (
            [path],
            f"{path}, line 3: column 'item' is empty; every event needs the item: leave such rows out with "
            "--missing drop",
        ),
        ([tmp_path / "none.csv"], f"{tmp_path / 'none.csv'}: no such file; check the name"),
        ([tmp_path / "*.parquet"], f"{tmp_path / '*.parquet'}: no file matches; check the pattern"),
        ([tmp_path / "empty"], f"{tmp_path / 'empty'}: holds no file; name a folder with files in it"),
        (
            [path, "--session-gap", "-1"],
            "gap: -1.0 is not a pause; give minutes, such as 30, or 0 to keep sessions whole",
        ),
    ):
        ran = ensue("prepare", *words, "-o", tmp_path / "p")
        assert (ran.code, len(ran.lines)) == (2, 1), ran.err
        assert ran.lines[0].startswith(f"ensue: {expected}")
        assert sorted(left.name for left in tmp_path.iterdir()) == ["empty", "log.csv"]


def test_without_duckdb_the_extra_is_named(ensue: Ensue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensue.data.sequences.prepare.find_spec", lambda name: None)
    (tmp_path / "log.csv").write_text("session,item\n1,a\n1,b\n")
    ran = ensue("prepare", tmp_path / "log.csv", "-o", tmp_path / "p")
    assert (ran.code, ran.lines) == (
        2,
        ["ensue: `ensue prepare`, and logs that are too large for memory, need: pip install 'ensue[large]'"],
    )


def test_one_at_a_time(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("session,item\n1,a\n1,b\n")
    (tmp_path / ".p.preparing").mkdir()
    descriptor = os.open(tmp_path / ".p.preparing", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        ran = ensue("prepare", path, "-o", tmp_path / "p")
    finally:
        os.close(descriptor)
    assert ran.code == 2
    assert ran.err == (
        f"ensue: {tmp_path / 'p'}: another process prepares it; wait until it has finished, or stop it\n"
    )


def test_a_signal_stops_it_and_the_same_command_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("session,item,time\n" + "".join(f"{at % 99991},{at % 997},{at}\n" for at in range(1_500_000)))
    words = [sys.executable, "-c", "from ensue.cli import main; main()", "prepare", str(path)]
    words += ["-o", str(tmp_path / "p")]
    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / ".p.preparing" / "whole").exists() and running.poll() is None:
        time.sleep(0.01)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (128 + signal.SIGTERM, "stopped; run the same command again to continue\n")
    assert not (tmp_path / "p").exists()
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert records_of(tmp_path / "p") == records_of(path)
    assert sorted(left.name for left in tmp_path.iterdir()) == ["log.csv", "p"]
