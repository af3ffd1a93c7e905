"""The command ``tune``: one line per trial, and how to fit the best settings."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Ensue
from tests.test_tuning import FEW_STEPS, SESSIONS


def test_the_command_prints_how_to_fit(ensue: Ensue, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [f"s{number},{item}" for number, session in enumerate(SESSIONS) for item in session]
    log.write_text("session,item\n" + "\n".join(rows) + "\n", encoding="utf-8")
    fixed = [word for name, value in FEW_STEPS.items() for word in ("--set", f"{name}={value}")]
    command = ["tune", "next", log, "--model", "sansr", *fixed, "--search", "learning_rate=0.04,0.05"]
    ran = ensue(*command, "--trials", "2")
    assert ran.code == 0 and "trial 0: complete" in ran.err
    start = f"fit it: ensue fit next {log} -o FOLDER --model sansr --set dim=16 --set epochs=2 --set batch_size=8 "
    assert ran.lines[-1].startswith(start + "--set min_steps=0 --set learning_rate=0.0")
    tuning = json.loads(ensue(*command, "--trials", "1", "--json").out)
    assert (tuning["settings"], tuning["gain"], len(tuning["trials"])) == ({}, None, 1)
