"""``--min-users`` of task ``next``, as people type it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Ensue


def _clicks(path: Path, planted: int = 1) -> Path:
    """Four hundred people walk in a circle; another steps across it several times, over a page of their own."""
    rows = ["user,item,time"]
    for person in range(400):
        start = person % 8
        rows += [f"u{person},p{(start + step) % 8},{1_700_000_000 + 60 * person + step}" for step in range(4)]
    for visit in range(planted):
        times = range(1_700_030_000 + 86_400 * visit, 1_700_030_004 + 86_400 * visit)
        rows += [f"x,{item},{time}" for item, time in zip(("p0", "p4", "diary-of-x", "p2"), times, strict=True)]
    path.write_text("\n".join(rows) + "\n")
    return path


def _scores(ensue: Ensue, folder: Path, *items: str) -> dict[str, float]:
    ran = ensue("predict", folder, "-", "-k", "50", "--json", stdin=json.dumps({"values": [*items]}))
    assert ran.code == 0, ran.err
    return {choice["value"]: choice["score"] for choice in json.loads(ran.out)["choices"]}


def test_one_person_among_401_is_not_reproduced(ensue: Ensue, tmp_path: Path) -> None:
    log, folder = _clicks(tmp_path / "clicks.csv", planted=5), tmp_path / "m"
    for name in ("markov", "vsknn"):
        ran = ensue("fit", "next", log, "-o", folder, "--model", name, "--min-users", "3", "--replace")
        assert ran.code == 0, ran.err
        line = "min_users 3: left out 1 item (5 events) and "
        assert line in ran.err
        scores = _scores(ensue, folder, "p0")
        assert "diary-of-x" not in scores and max(scores, key=lambda item: scores[item]) in ("p1", "p7")
        assert scores["p4"] < 1.1 * min(scores.values())
        assert not any(b"diary-of-x" in file.read_bytes() for file in folder.iterdir())
        public = tmp_path / "public"
        assert ensue("fit", "next", log, "-o", public, "--model", name, "--replace").code == 0
        found = _scores(ensue, public, "p0")
        assert "diary-of-x" in found and found["p4"] > 1.5 * scores["p4"]


def test_check_counts_what_fewer_share_only_if_asked(ensue: Ensue, tmp_path: Path) -> None:
    log = _clicks(tmp_path / "clicks.csv")
    assert "min_users" not in ensue("check", log).out + ensue("check", log, "--json").out
    assert "that fewer than 3 of 401 users share (users are sessions; " in ensue("check", log, "--min-users", "3").out
    found = json.loads(ensue("check", log, "--min-users", "3", "--json").out)["min_users"]
    assert (found["values"], found["events"], found["steps"]) == (1, 1, 3)
    ran = ensue("check", log, "--min-users", "0")
    assert (ran.code, ran.lines[-1]) == (2, "ensue: min_users is 0; it must be at least 1")


def test_sessions_of_named_users_are_not_counted_as_people_unasked(ensue: Ensue, tmp_path: Path) -> None:
    log, folder = tmp_path / "clicks.csv", tmp_path / "m"
    rows = [f"u{n},s{n},{item},{9 + n}" for n in range(9) for item in ("p0", "p1")]
    rows += [f"x,x{n},{item},{90 + n}" for n in range(3) for item in ("p0", "diary")]
    log.write_text("user_id,session_id,item_id,timestamp\n" + "\n".join(rows) + "\n")
    fit = ("fit", "next", log, "-o", folder, "--model", "markov")
    for ran in (
        ensue(*fit, "--min-users", "3"),
        ensue(*fit, "--set", "min_users=3"),
        ensue("check", log, "--min-users", "3"),
    ):
        assert ran.code == 2 and ran.lines[-1] == (
            f"ensue: {log}: --min-users would count each session (session_id) as a person, though user_id names users; "
            "give --columns session=user_id,item=…,time=… to count users, or session=session_id,… to count sessions"
        )
    assert ensue(*fit, "--min-users", "3", "--columns", "session=user_id,item=item_id,time=timestamp").code == 0
    assert "diary" not in _scores(ensue, folder, "p0")
    stated = ("--columns", "session=session_id,item=item_id,time=timestamp", "--replace")
    assert ensue(*fit, "--min-users", "3", *stated).code == 0 and "diary" in _scores(ensue, folder, "p0")
    assert ensue(*fit, "--replace").code == 0


def test_a_folder_remembers_its_threshold(ensue: Ensue, tmp_path: Path) -> None:
    log, folder = _clicks(tmp_path / "clicks.csv"), tmp_path / "m"
    assert ensue("fit", "next", log, "-o", folder, "--model", "markov", "--min-users", "3").code == 0
    ran = ensue("stream", folder, tmp_path / "events.jsonl", "--no-follow")
    assert ran.code == 2 and "was fitted with --min-users 3, and a stream trains on each session" in ran.err
    new = tmp_path / "new.csv"
    new.write_text("user,item,time\n" + "".join(f"n{n},{item},{9 + n}\n" for n in range(2) for item in ("p0", "new")))
    ran = ensue("update", folder, new, "--no-test")
    assert ran.code == 2 and "new data: no two consecutive events are shared by 3 users" in ran.err
    new.write_text("user,item,time\n" + "".join(f"n{n},{item},{9 + n}\n" for n in range(3) for item in ("p0", "new")))
    assert ensue("update", folder, new, "--no-test").code == 0
    assert "new" in _scores(ensue, folder, "p0")
