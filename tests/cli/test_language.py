"""Help and typical outputs use the terms of the field: none of the words that they replaced is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ensue import cli
from tests.cli.conftest import Ensue

REPLACED = re.compile(
    r"\b(anew|duels?|heeded|leanings?|leaned|rivals?|surely|foretell|foretold|nought|figures? x 100|found out|"
    r"counting (row|beside)|understood|untaught|taught|teach(es)?|told|remark|lately|as asked|unless stated|so many|"
    r"what there is|by more than chance|chance!|would spoil|stands? (value|again|beside)|put aside|verbs?|"
    r"below random|spaces aside|memorising scores|whole sequences|no known event|"
    r"can be looked up|personal by looks|ids known|the last one the best)\b",
    re.IGNORECASE,
)
COMMANDS = [command.callback.__name__ for command in cli.make_app().registered_commands if command.callback]
CLICKS = "session,item,time\n" + "".join(
    f"s{n // 4},i{(n // 4 * 3 + n % 4 * (1 + n // 8 % 2)) % 9},{1_700_000_000 + 60 * n}\n" for n in range(20)
)
TEXTS = "text,label\n" + "".join(f"a good film {n},yes\na bad film {n},no\n" for n in range(10))
SEARCHES = "user,query,time\n" + "".join(
    f"u{user},{query} {user % 2},{1_700_000_000 + 9000 * user + 60 * turn}\n"
    for user in range(12)
    for turn, query in enumerate(("ferry", "night ferry"))
)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(command: str) -> None:
    shown = CliRunner().invoke(cli.make_app(), [*filter(None, [command]), "--help"], env={"COLUMNS": "80"}).output
    assert shown.startswith("Usage: ")
    assert REPLACED.findall(shown) == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in {"clicks": CLICKS, "texts": TEXTS, "searches": SEARCHES}.items():
        (tmp_path / f"{name}.csv").write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["clicks", "texts", "searches"])
def test_check_of_a_clean_file_fits_one_screen(ensue: Ensue, place: Path, name: str) -> None:
    ran = ensue("check", f"{name}.csv", *(["--min-users", "1"] if name == "searches" else []))
    assert ran.code == 0
    assert len(ran.out.splitlines()) + len(ran.lines) <= 24
    assert REPLACED.findall(ran.out + ran.err) == []


def test_check_says_that_there_are_no_problems(ensue: Ensue, place: Path) -> None:
    assert ensue("check", "texts.csv").out.endswith("no problems found\n")


TASKS = {
    "next": ("clicks", "markov", '{"values": ["i1", "i2"]}'),
    "classify": ("texts", "tfidf", "a good film"),
    "suggest": ("searches", "most-frequent-next", '{"values": ["ferry 1"]}'),
}


@pytest.mark.parametrize("task", TASKS)
def test_outputs_of_training_evaluation_and_answers(ensue: Ensue, place: Path, task: str) -> None:
    name, model, query = TASKS[task]
    shown = []
    for arguments in (
        ("fit", task, f"{name}.csv", "-o", "m", "--model", model),
        ("evaluate", "m", f"{name}.csv"),
        ("predict", "m", "-k", "2"),
        ("models", task),
    ):
        ran = ensue(*arguments, stdin=query)
        assert ran.code == 0, ran.err
        shown.append(ran.out + ran.err)
    assert [REPLACED.findall(text) for text in shown] == [[]] * 4
