"""``ensue update`` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ensue.predictor import load
from ensue.store.swap import only_writer
from tests.cli.conftest import Ensue, Logs
from tests.cli.test_bad_input import FILES

LENIENT = ("--max-drop", "0.99")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_update_shows_old_beside_new(ensue: Ensue, own: Path, logs: Logs) -> None:
    ran = ensue("update", own, logs.test, *LENIENT)
    assert ran.code == 0, ran.err
    assert "accepted: version 2 is active, trained on the newest part too (the last 1 of 6" in ran.out
    assert load(own, device="cpu").metadata.version == 2


def test_the_json_has_its_shape(ensue: Ensue, own: Path, logs: Logs) -> None:
    ran = ensue("update", own, logs.test, "--json", *LENIENT)
    found = json.loads(ran.out)
    assert list(found) == ["folder", "accepted", "version", "slices", "held", "max_drop", "loss", "verdict", "warning"]
    assert (found["accepted"], found["version"]) == (True, 2)
    for part in found["slices"]:
        assert list(part) == [
            "name",
            "targets",
            "old",
            "new",
            "counting",
            "best_baseline",
            *("figure", "error", "change"),
        ]
        assert list(part["old"]) == list(part["new"]) == ["mrr", "hit@20"]


def circles(path: Path, num: int, step: int) -> Path:
    """Walks around a circle of ten values, all by the same step."""
    walks = ([f"a{(start + step * t) % 10}" for t in range(5)] for start in range(num))
    path.write_text("".join(json.dumps({"values": walk}) + "\n" for walk in walks))
    return path


def test_a_refusal_is_exit_code_one_and_one_line(ensue: Ensue, tmp_path: Path) -> None:
    """One way around the circle is learned; a long log of another way would make the model forget it."""
    folder = tmp_path / "m"
    options = [f"--set={option}" for option in ("dim=16", "epochs=12", "batch_size=8", "learning_rate=0.02", "loss=ce")]
    ran = ensue("fit", "next", circles(tmp_path / "old.jsonl", 100, 1), "-o", folder, "--model=sansr", *options)
    assert ran.code == 0, ran.err
    before, new = contents(folder), circles(tmp_path / "new.jsonl", 400, 3)
    ran = ensue("update", folder, new, "--max-drop", "0.01")
    assert ran.code == 1, ran.err
    assert ran.lines[-1].startswith(f"{folder}: refused: MRR on the remembered slice changed by -")
    assert ran.lines[-1].endswith("more than --max-drop 0.01 allows; version 1 stays active")
    assert contents(folder) == before
    told = ensue("update", folder, new, "--max-drop", "0.01", "--json")
    assert told.code == 1 and json.loads(told.out)["accepted"] is False


def test_back_and_forth(ensue: Ensue, own: Path, logs: Logs) -> None:
    before = contents(own)
    ensue("update", own, logs.test, *LENIENT)
    after = contents(own)
    ran = ensue("update", own, "--rollback")
    assert (ran.code, ran.err) == (0, f"{own}: restored version 1; version 2 is still available\n") and contents(
        own
    ) == before
    ran = ensue("update", own, "--rollback", "2", "--json")
    assert json.loads(ran.out) == {"folder": str(own), "version": 2, "kept": [1, 2]} and contents(own) == after


@pytest.mark.parametrize("name", FILES)
def test_a_bad_log_is_one_line_and_changes_nothing(ensue: Ensue, own: Path, tmp_path: Path, name: str) -> None:
    content, message = FILES[name]
    path = tmp_path / "new.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    before = contents(own)
    ran = ensue("update", own, path)
    assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1), ran.err
    assert ran.err.startswith(f"ensue: {path}{message}")
    assert contents(own) == before and [entry.name for entry in own.parent.iterdir()] == ["m"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give new data, as in `ensue update FOLDER new.csv`, or --rollback"),
        (
            ("--rollback",),
            "{own}: no version older than 1 is stored; `ensue update` stores the version that it replaces",
        ),
        (("--rollback", "7"), "{own}: version 7 is not stored; `ensue update` stores the version that it replaces"),
        (("--rollback", "x"), "--rollback x: give the number of a version, or none for the latest"),
        (("none.csv",), "none.csv: no such file"),
    ],
)
def test_mistakes_are_one_line(ensue: Ensue, own: Path, arguments: tuple[str, ...], message: str) -> None:
    before = contents(own)
    ran = ensue("update", own, *arguments)
    assert ran.code == 2 and len(ran.lines) == 1
    assert ran.err.startswith("ensue: " + message.format(own=own)), ran.err
    assert contents(own) == before


def test_a_folder_that_is_no_model_is_found_first(ensue: Ensue, tmp_path: Path) -> None:
    ran = ensue("update", tmp_path / "none", tmp_path / "none.csv")
    assert ran.code == 2 and ran.err.startswith(f"ensue: {tmp_path / 'none'}: no such model folder")


def test_fit_leaves_a_folder_to_the_one_that_learns_into_it(ensue: Ensue, own: Path, logs: Logs) -> None:
    before = contents(own)
    with only_writer(own):
        ran = ensue("fit", "next", logs.train, "-o", own, "--replace", "--model", "popularity")
    assert (ran.code, contents(own)) == (2, before)
    assert ran.err.endswith(f"ensue: {own}: another process updates it; stop that one, or wait until it has finished\n")
