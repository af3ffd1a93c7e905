"""What a command imports: nothing heavy before there is work, and to predict no more of torch than torch itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from ensue.data.histories import Histories
from ensue.data.texts import Texts
from ensue.predictor import AnyPredictor
from ensue.tasks import TASKS
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.suggest.predictor import SuggestPredictor
from tests.tasks.classify.contract import planted as texts
from tests.tasks.link.checks import planted as corpus
from tests.tasks.link.contract import NETWORK
from tests.tasks.next.contract import walks
from tests.tasks.suggest.contract import ATTENDING, FLOOR, queries
from tests.tasks.suggest.contract import planted as sessions

HEAVY = {"torch", "polars", "numpy", "scipy", "plotly", "sklearn", "tokenizers", "fastapi", "openpyxl"}
WORDS = [
    ("--help", 0),
    ("--version", 0),
    ("fit --help", 0),
    ("fit next --help", 0),
    ("settings mtn", 0),
    ("settings sansr --json", 0),
    ("models", 0),
    ("models next --json", 0),
    ("models sing", 2),
    ("sing", 2),
    ("fit sing log.csv -o m", 2),
    ("fit next log.csv -o m --model gpt", 2),
    ("fit next log.csv -o m --sideways", 2),
    ("fit next log.csv -o m --set sideways=1", 2),
    ("fit next log.csv -o m --set sideways", 2),
    ("fit link log.csv -o m --set sideways=1", 2),
    ("fit suggest log.csv -o m --model mtn --set sideways=1", 2),
    ("fit classify log.csv -o m --set vectors=missing", 2),
    ("fit classify log.csv -o m --set encoder=./missing", 2),
    ("fit link log.csv -o m --model sbert --set encoder=./missing", 2),
    ("fit next log.csv -o m --phrases", 2),
    ("fit next missing.csv -o m", 2),
    ("fit next log.csv -o m --validation missing.csv", 2),
    ("check missing.csv", 2),
    ("check log.csv --compare-to missing.csv", 2),
    ("compare next log.csv --test missing.csv", 2),
    ("compare next log.csv --test log.csv --models hidan,gpt", 2),
    ("compare next log.csv --test log.csv --models hidan,markov --set dim=8", 2),
    ("evaluate missing log.csv", 2),
    ("predict missing", 2),
    ("predict m missing.csv", 2),
    ("explain missing -", 2),
    ("update missing log.csv", 2),
    ("stream missing log.jsonl", 2),
    ("serve missing", 2),
    ("link missing.csv log.csv", 2),
    ("link log.csv log.csv --folder missing", 2),
    ("reproduce gpt --data .", 2),
    ("reproduce hidan --data missing", 2),
]
FORKED = """
import contextlib, importlib, io, json, os, sys, warnings
warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)  # of a fork, from Python 3.12 on
first, commands = json.load(sys.stdin)
importlib.import_module(first)
print(*sys.modules, flush=True)
for place, words, typed in commands:
    if not (child := os.fork()):
        code = 0
        os.chdir(place)
        sys.argv, sys.stdin = ["ensue", *words], io.TextIOWrapper(io.BytesIO(typed.encode()))
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                from ensue.cli import main
                main()
        except SystemExit as end:
            code = end.code or 0
        sys.stderr.write(json.dumps([code, [*sys.modules]]) + chr(10))
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""
Ended = tuple[int, list[str]]
"""Exit code and modules of a command."""


def forked(first: str, commands: Iterable[tuple[Path, Sequence[str], str]]) -> tuple[set[str], list[Ended]]:
    """The modules of a process that has imported ``first``, and how commands end that are forked from it.

    Args:
        first: a module.
        commands: of each its folder, its words, and what is typed.
    """
    given = json.dumps([first, [(str(place), words, typed) for place, words, typed in commands]])
    command = [sys.executable, "-W", "error", "-c", FORKED]
    ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=True)
    return {*ran.stdout.split()}, [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("[")]


@pytest.fixture(scope="module")
def before_work(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Ended]:
    """How each command ends, all forked from one process that has imported the command line."""
    place = tmp_path_factory.mktemp("light")
    (place / "log.csv").write_text("session,item\n1,a\n1,b\n")
    (place / "m").mkdir()
    settings = {"ensue": "0", "format": 1, "task": "next", "model": "markov", "settings": {}}
    (place / "m" / "settings.json").write_text(json.dumps(settings))
    _, ends = forked("ensue.cli", [(place, words.split(), "") for words, _ in WORDS])
    return dict(zip((words for words, _ in WORDS), ends, strict=True))


@pytest.mark.parametrize(("words", "code"), WORDS)
def test_before_there_is_work_nothing_heavy_is_imported(
    words: str, code: int, before_work: Mapping[str, Ended]
) -> None:
    ended, modules = before_work[words]
    found = {name.partition(".")[0] for name in modules}
    assert ended == code
    assert "ensue" in found and not found & HEAVY


def next_event() -> AnyPredictor:
    settings = {"dim": 8, "table_dim": 4, "epochs": 1}
    made = NextPredictor("hidan", settings=settings, device="cpu")
    list(made.fit(Histories.of(walks(20, 0))))
    return made


def classify() -> AnyPredictor:
    settings = {"hidden": 8, "dim": 8, "head": 8, "score_dim": 6, "epochs": 1}
    made = ClassifyPredictor("centrality", settings=settings, device="cpu")
    list(made.fit(Texts.of(texts(30, 0))))
    return made


def suggest() -> AnyPredictor:
    made = SuggestPredictor("mtn", settings={**FLOOR, **ATTENDING, "depth": "1+1+1", "epochs": 1}, device="cpu")
    list(made.fit(queries(sessions(40, 0)), queries(sessions(12, 9))))
    return made


def link() -> AnyPredictor:
    made = LinkPredictor("best", settings={**NETWORK, "network": "cnn", "epochs": 1}, device="cpu")
    list(made.fit(corpus(), corpus(num=2, first=20)))
    return made


CASES: Mapping[str, tuple[Callable[[], AnyPredictor], str]] = {
    "next": (next_event, '{"values": ["a1", "a2"]}'),
    "classify": (classify, '{"texts": ["good w1"]}'),
    "suggest": (suggest, '{"values": ["find boat"]}'),
    "link": (link, '{"text": "the harbour ferry"}'),
}


def test_to_predict_imports_no_more_of_torch_than_torch_and_no_other_task(tmp_path: Path) -> None:
    for task, (learn, _) in CASES.items():
        learn().save(tmp_path / task)
    words = ("predict", "-", "-k", "2")
    commands = [(tmp_path, (words[0], task, *words[1:]), typed) for task, (_, typed) in CASES.items()]
    of_torch, ends = forked("torch", commands)
    assert "torch.nn" in of_torch and "torch._dynamo" not in of_torch
    for task, (code, modules) in zip(CASES, ends, strict=True):
        assert code == 0, task
        assert {name for name in modules if name.partition(".")[0] in ("torch", "sympy")} <= of_torch, task
        light = {"scipy", "plotly", "fastapi", "sklearn", "openpyxl", "ensue.evaluation", "ensue_studies"}
        others = {one.predictor.partition(":")[0] for name, one in TASKS.items() if name != task}
        assert not {*modules} & (light | others), task
        assert TASKS[task].predictor.partition(":")[0] in modules, task
