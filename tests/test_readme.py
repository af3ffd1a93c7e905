"""The README is run: its Python prints what it says, its commands exist, its tables agree with the results."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from ensue.cli.verbs import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_prints_what_stands_below_it() -> None:
    code, _, output = re.findall(r"```python\n(.*?)```(\s*)```\n(.*?)```", README, re.DOTALL)[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    numbers = re.compile(r"\d+\.\d+")
    assert numbers.sub("#", printed.getvalue()) == numbers.sub("#", output)
    pairs = zip(numbers.findall(printed.getvalue()), numbers.findall(output), strict=True)
    assert all(abs(float(mine) - float(said)) < 0.05 for mine, said in pairs)


def test_every_verb_and_option_exists() -> None:
    commands = re.findall(r"^(?:echo .* \| )?ensue (.*?)(?:  +#.*)?$", README, re.MULTILINE)
    assert len(commands) >= 7
    for command in commands:
        verb, *words = command.split()
        told = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "300", "TERM": "dumb"}).output
        for option in (word for word in words if word.startswith("-") and word != "-"):
            assert option in told, f"{verb} {option}"


def test_tables_agree_with_the_results() -> None:
    done = subprocess.run([sys.executable, "scripts/readme.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_tree_names_what_is_there() -> None:
    tree = README.split("## Where things are")[1]
    for name in re.findall(r"(\w+)\.py", tree):
        assert list((ROOT / "src" / "ensue").rglob(f"{name}.py")), name
