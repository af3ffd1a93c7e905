"""``ensue forget``, as people type it: a planted person, before and after."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.cli.conftest import Ensue

BEGIN = 1_700_000_000
MINE = [("p0", 30_100), ("diary-of-x", 30_103), ("p4", 30_207), ("p0", 230_100), ("p5", 230_111)]
"""Two visits of one person, with the seconds at which each page was seen."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty people who walk in a circle, and one who does not."""
    rows = ["user,item,time"]
    for person in range(60):
        rows += [f"u{person},p{(person + step) % 8},{BEGIN + 600 * person + step}" for step in range(4)]
    rows += [f"x,{item},{BEGIN + time}" for item, time in MINE]
    path = tmp_path_factory.mktemp("logs") / "clicks.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def _fitted(ensue: Ensue, log: Path, folder: Path, *more: str) -> Path:
    small = ("--set=dim=8", "--set=epochs=1") if "gru4rec" in more else ()
    ran = ensue("fit", "next", log, "-o", folder, "--model", *more, *small)
    assert ran.code == 0, ran.err
    return folder


def _traces(folder: Path) -> set[str]:
    """Which of the person's page and of the times of the visits stand in a folder, byte for byte."""
    data = b"".join(file.read_bytes() for file in folder.iterdir())
    marks = {str(time): struct.pack("<d", BEGIN + time) for _, time in MINE} | {"diary": b"diary-of-x"}
    return {name for name, mark in marks.items() if mark in data}


def _scores(ensue: Ensue, folder: Path, item: str) -> dict[str, float]:
    ran = ensue("predict", folder, "-", "-k", "50", "--json", stdin=json.dumps({"values": [item]}))
    assert ran.code == 0, ran.err
    return {choice["value"]: choice["score"] for choice in json.loads(ran.out)["choices"]}


def test_counts_answer_as_if_the_person_had_never_been(ensue: Ensue, log: Path, tmp_path: Path) -> None:
    folder = _fitted(ensue, log, tmp_path / "m", "markov")
    assert _traces(folder) == {"diary"} and "diary-of-x" in _scores(ensue, folder, "p0")
    ran = ensue("forget", folder, "--user", "x", "--records", log)
    assert ran.code == 0, ran.err
    assert "histories subtracted from counts" in ran.out and "not removed: sums that hold no value" in ran.out
    assert not _traces(folder)
    without = tmp_path / "without.csv"
    without.write_text("".join(line for line in log.read_text().splitlines(True) if not line.startswith("x,")))
    other = _fitted(ensue, without, tmp_path / "other", "markov")
    for item in ("p0", "p4", "p5"):
        assert _scores(ensue, folder, item) == pytest.approx(_scores(ensue, other, item), rel=1e-4)
    again = ensue("forget", folder, "--user", "x", "--records", log)
    assert (again.code, again.lines[-1]) == (2, f"ensue: {folder}: holds nothing of 1 user 'x'")


def test_kept_versions_forget_too(ensue: Ensue, log: Path, tmp_path: Path) -> None:
    folder = _fitted(ensue, log, tmp_path / "m", "gru4rec")
    new = tmp_path / "new.csv"
    new.write_text(
        "user,item,time\n" + "".join(f"n{n},p{n % 8},{BEGIN + 400_000 + n + s}\n" for n in range(9) for s in (0, 1))
    )
    assert ensue("update", folder, new, "--no-test").code == 0
    old = folder.with_name(f"{folder.name}.versions") / "1"
    everything = {"diary", *(str(time) for _, time in MINE)}
    assert _traces(folder) == _traces(old) == everything
    ran = ensue("forget", folder, "--user", "x", "--records", log, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["users"] == ["x"] and {one["folder"] for one in found["removed"]} == {str(folder), str(old)}
    counts = {(one["folder"], one["what"]): one["count"] for one in found["removed"]}
    for place in (str(folder), str(old)):
        assert counts[place, "remembered histories"] == counts[place, "fingerprints of histories"] == 2
        assert counts[place, "values"] == 1
    assert any(line.startswith("weights of the network") for line in found["remains"])
    assert not _traces(folder) and not _traces(old)
    assert "diary-of-x" not in _scores(ensue, folder, "p0")
    assert ensue("update", folder, "--rollback").code == 0 and not _traces(folder)
    assert "diary-of-x" not in _scores(ensue, folder, "p0")


def test_several_people_and_a_value_that_is_one(ensue: Ensue, log: Path, tmp_path: Path) -> None:
    folder, names = _fitted(ensue, log, tmp_path / "m", "vsknn"), tmp_path / "names.txt"
    names.write_text("x\nu1\n\n")
    ran = ensue("forget", folder, "--users", names, "--user", "p3", "--records", log, "--json")
    assert ran.code == 0, ran.err
    counts = {one["what"]: one["count"] for one in json.loads(ran.out)["removed"]}
    assert counts["histories subtracted from counts"] == 3
    assert not any(b'"p3"' in file.read_bytes() for file in folder.iterdir())
    assert {"p1", "p2", "p5"} <= _scores(ensue, folder, "p0").keys() and "p3" not in _scores(ensue, folder, "p2")


def test_what_cannot_be_forgotten_is_said_and_the_folder_stays(ensue: Ensue, log: Path, tmp_path: Path) -> None:
    folder = _fitted(ensue, log, tmp_path / "m", "markov")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for arguments, message in (
        ((), "no user is named; give --user ID, or --users FILE with one on each line"),
        (
            ("--user", "x"),
            f"{folder}: holds nothing of 1 user 'x'; model folders hold no user names: give --records with the "
            "training log",
        ),
        (("--user", "nobody", "--records", log), f"{folder}: holds nothing of 1 user 'nobody'"),
    ):
        ran = ensue("forget", folder, *arguments)
        assert (ran.code, ran.lines[-1]) == (2, f"ensue: {message}")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
