"""Without PyTorch, baselines of task next are fitted, scored and asked; networks are refused in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.lazy import INSTALL, WITHOUT_TORCH
from ensue.tasks.next.catalogue import COUNTING
from ensue.tasks.next.predictor import NextPredictor

PROGRAM = """
import contextlib, io, json, sys
sys.modules["torch"] = None  # as if it were not installed: an import raises ModuleNotFoundError
from ensue.cli import main
results = []
for words in json.load(sys.stdin):
    sys.argv = ["ensue", *words]
    streams = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
    results.append((code or 0, streams[0].getvalue(), streams[1].getvalue()))
print(json.dumps(results))
"""


def run(folder: Path, *commands: str) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of commands that run in one process without torch."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([command.split() for command in commands]),
        capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    results: list[tuple[int, str, str]] = json.loads(process.stdout)
    return results


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log in which each item is followed by the next one."""
    events = [(user, 1000 + 10 * step, (user + step) % 9) for user in range(30) for step in range(5)]
    rows = "".join(f"u{user},{time + 10_000 * user},i{item}\n" for user, time, item in events)
    (tmp_path / "log.csv").write_text(f"session,time,item\n{rows}")
    (tmp_path / "question.csv").write_text("session,time,item\nq,1,i1\nq,2,i2\n")
    return tmp_path


def test_baselines_need_no_torch(folder: Path) -> None:
    models = ("markov", "own-items", "interpolated", "vsknn")
    fits = [f"fit next log.csv -o {model} --model {model}" for model in models]
    questions = [f"predict {model} question.csv --json" for model in models]
    results = run(folder, *fits, *questions, "evaluate vsknn log.csv --json")
    assert [code for code, *_ in results] == [0] * len(results)
    for _, output, _ in results[len(fits) : -1]:
        choice = json.loads(output.splitlines()[0])["choices"][0]
        assert choice["value"] == "i3"
        assert choice["attributions"]
    rows = {row["model"]: row["mrr"] for row in json.loads(results[-1][1])["rows"]}
    assert list(rows) == ["vsknn", *(name for name in COUNTING if name != "vsknn")]
    assert rows["markov"] == 1.0


def test_best_chooses_among_the_baselines(folder: Path) -> None:
    ((code, output, errors),) = run(folder, "fit next log.csv -o best")
    assert code == 0
    assert f"warning: {WITHOUT_TORCH}" in output + errors
    assert json.loads((folder / "best" / "settings.json").read_text())["model"] == "markov"


def test_networks_are_refused_in_one_line(folder: Path) -> None:
    network = NextPredictor("bpr-mf", settings={"dim": 4, "epochs": 1, "refit": False})
    assert list(network.fit(Histories.of([History(("a", "b"))] * 30)))
    network.save(folder / "network")
    commands = ("fit next log.csv -o core --model core", "predict network question.csv", "fit suggest log.csv -o x")
    names = ("model core", "model bpr-mf", "ensue.tasks.suggest.predictor")
    for name, (code, output, errors) in zip(names, run(folder, *commands), strict=True):
        assert (code, output) == (2, "")
        assert errors == f"ensue: {name}: needs PyTorch, which is not installed; {INSTALL}\n"


def test_the_service_and_updates_of_a_baseline_need_no_torch(folder: Path) -> None:
    fitted, updated = run(folder, "fit next log.csv -o vsknn --model vsknn", "update vsknn log.csv")
    assert (fitted[0], updated[0]) == (0, 0)
    assert "version 2" in updated[1] + updated[2]
    program = PROGRAM.partition("from ensue.cli")[0] + "import ensue.serve.server, ensue.serve.tasks.next_event\n"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
