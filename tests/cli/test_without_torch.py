"""Without PyTorch, the baselines of every task work from the command line; networks are refused in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.demo.models import BASELINES
from ensue.lazy import INSTALL, WITHOUT_TORCH
from ensue.tasks.classify.train import WITHOUT_TORCH as TFIDF_INSTEAD
from ensue.tasks.next.catalogue import COUNTING
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.suggest.catalogue import COUNTING as SUGGEST

ROOT = Path(__file__).parents[2]
PROGRAM = """
import contextlib, io, json, sys
sys.modules["torch"] = sys.modules["scipy"] = None  # as if not installed: an import raises ModuleNotFoundError
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


@pytest.fixture
def tables(folder: Path) -> Path:
    """Queries that follow each other, texts with a label, and posts about stories."""
    steps = ("shoes", "hats", "boots")
    typed = [
        (user, 1000 + 10 * step, f"{('red', 'blue')[user % 2]} {steps[step]}")
        for user in range(40)
        for step in range(3)
    ]
    rows = "".join(f"u{user},{time + 10_000 * user},{query}\n" for user, time, query in typed)
    (folder / "searches.csv").write_text(f"user,time,query\n{rows}")
    rows = "".join(f"{('good', 'bad')[row % 2]} film w{row % 7},{row % 2}\n" for row in range(60))
    (folder / "texts.csv").write_text(f"text,label\n{rows}")
    stories = [{"id": f"a{story}", "text": f"the story of place{story} and name{story}."} for story in range(12)]
    posts = [
        {"id": f"p{row}", "text": f"look at name{row % 12} w{row % 5}", "about": [f"a{row % 12}"]} for row in range(60)
    ]
    for name, records in (("stories", stories), ("posts", posts)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return folder


def test_every_task_works_with_its_best_baseline(tables: Path) -> None:
    results = run(
        tables,
        "fit suggest searches.csv -o suggest",
        "fit classify texts.csv -o classify",
        "fit link posts.jsonl --articles stories.jsonl -o link",
        "update suggest searches.csv",
        "update classify texts.csv",
        "evaluate suggest searches.csv --json",
        "evaluate classify texts.csv --json",
        "predict suggest searches.csv --json",
        "predict classify texts.csv --json",
        "predict link posts.jsonl --json",
    )
    assert [(code, errors) for code, _, errors in results if code] == []
    for (_, output, errors), warning in zip(results, (WITHOUT_TORCH, TFIDF_INSTEAD, ""), strict=False):
        assert (f"warning: {warning}" in output + errors) == bool(warning)
    assert [json.loads((tables / name / "settings.json").read_text())["model"] for name in ("suggest", "classify")] == [
        "reranker", "tfidf",
    ]  # fmt: skip
    for (_, output, _), metric in zip(results[5:7], ("mrr@10", "accuracy"), strict=True):
        assert json.loads(output)["rows"][0][metric] > 0.8
    values = [json.loads(output.splitlines()[0])["choices"][0]["value"] for _, output, _ in results[7:]]
    assert values == ["blue boots", "0", "a0"]


def test_baselines_of_suggest_need_no_torch(tables: Path) -> None:
    commands = [
        command
        for model in SUGGEST
        for command in (
            f"fit suggest searches.csv -o {model} --model {model}",
            f"predict {model} searches.csv --json",
            f"update {model} searches.csv",
        )
    ]
    assert [code for code, *_ in run(tables, *commands)] == [0] * len(commands)


def test_a_baseline_is_trained_on_a_stream(folder: Path) -> None:
    events = [{"session": f"v{row // 3}", "item": f"i{row % 9}", "time": 9_000_000 + 5 * row} for row in range(90)]
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    fitted, streamed = run(folder, "fit next log.csv -o vsknn --model vsknn", "stream vsknn events.jsonl --no-follow")
    assert (fitted[0], streamed[0]) == (0, 0)
    assert "all hours, model: HR@20" in streamed[1]


def test_the_demonstration_shows_baselines(folder: Path) -> None:
    program = """
import sys
sys.modules["torch"] = None
import pytest
from ensue.cli import main
from tests.demo.small_demo import shrink
sys.argv = ["ensue", "demo", "--no-serve", "--json", "--output", "demo", "--html", "page.html"]
with pytest.MonkeyPatch.context() as patch:
    shrink(patch)
    sys.exit(main())
"""
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    shown = json.loads(process.stdout)
    assert {row["name"]: row["model"] for row in shown["rows"]}.items() >= BASELINES.items()
    assert shown["recovery"] == {}
    assert process.stderr.startswith(f"PyTorch is not installed, so the panels show baselines; {INSTALL}\n")
    assert json.loads((folder / "demo" / "story.json").read_text())["notes"] == []


def test_an_estimator_warns(folder: Path) -> None:
    program = """
import sys
sys.modules["torch"] = None
import ensue
print(ensue.NextEvent().fit("log.csv").predict([["i1"]], k=1).values)
"""
    process = subprocess.run(
        [sys.executable, "-W", "default", "-c", program], capture_output=True, text=True, cwd=folder, check=True
    )
    assert process.stdout == "[['i2']]\n"
    assert f"UserWarning: {WITHOUT_TORCH}\n" in process.stderr


def test_networks_are_refused_in_one_line(tables: Path) -> None:
    network = NextPredictor("bpr-mf", settings={"dim": 4, "epochs": 1, "refit": False})
    assert list(network.fit(Histories.of([History(("a", "b"))] * 30)))
    network.save(tables / "network")
    commands = (
        "fit next log.csv -o core --model core",
        "predict network question.csv",
        "serve network --port 0",
        "fit suggest log.csv -o x --model mtn",
    )
    for name, (code, output, errors) in zip(("core", "bpr-mf", "bpr-mf", "mtn"), run(tables, *commands), strict=True):
        assert (code, output) == (2, "")
        assert errors == f"ensue: model {name}: needs PyTorch, which is not installed; {INSTALL}\n"
    ((code, _, errors),) = run(tables, "fit suggest searches.csv -o x --set epochs=2")
    assert (code, errors.splitlines()[-1]) == (2, f"ensue: model mtn: needs PyTorch, which is not installed; {INSTALL}")


def test_the_service_and_updates_of_a_baseline_need_no_torch(folder: Path) -> None:
    fitted, updated = run(folder, "fit next log.csv -o vsknn --model vsknn", "update vsknn log.csv")
    assert (fitted[0], updated[0]) == (0, 0)
    assert "version 2" in updated[1] + updated[2]
    imports = """
import ensue.serve.server
from ensue.tasks import TASKS, named
for task in TASKS.values():
    print(named(task.service), named(task.evaluator), task.module("forget"))
"""
    program = PROGRAM.partition("from ensue.cli")[0] + imports
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
