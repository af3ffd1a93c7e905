"""What a command imports: nothing heavy before there is work, and to predict no more of torch than torch itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
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
RUN = """
import atexit, sys
place = sys.argv.pop(1)
def note():
    with open(place, "w") as file:
        file.write(" ".join(sys.modules))
atexit.register(note)
from ensue.cli import main
main()
"""


def imported(place: Path, *words: str | Path, stdin: str = "") -> set[str]:
    """What a command has imported when it ends well."""
    command = [sys.executable, "-W", "error", "-c", RUN, place / "modules", *words]
    ran = subprocess.run(command, cwd=place, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return set((place / "modules").read_text().split())


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
import contextlib, json, os, sys
from ensue.cli import main
for number, words in enumerate(json.load(sys.stdin)):
    if not (child := os.fork()):
        code = 0
        sys.argv = ["ensue", *words]
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                main()
        except SystemExit as end:
            code = end.code
        with open(f"{number}.modules", "w") as file:
            json.dump([code, [*sys.modules]], file)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def before_work(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[int, list[str]]]:
    """Exit code and modules of each command, all forked from one process that has imported the command line."""
    place = tmp_path_factory.mktemp("light")
    (place / "log.csv").write_text("session,item\n1,a\n1,b\n")
    (place / "m").mkdir()
    settings = {"ensue": "0", "format": 1, "task": "next", "model": "markov", "settings": {}}
    (place / "m" / "settings.json").write_text(json.dumps(settings))
    given = json.dumps([words.split() for words, _ in WORDS])
    command = [sys.executable, "-W", "error", "-c", FORKED]
    subprocess.run(command, cwd=place, input=given, capture_output=True, text=True, timeout=120, check=True)
    return {words: json.loads((place / f"{at}.modules").read_text()) for at, (words, _) in enumerate(WORDS)}


@pytest.mark.parametrize(("words", "code"), WORDS)
def test_before_there_is_work_nothing_heavy_is_imported(
    words: str, code: int, before_work: Mapping[str, tuple[int, list[str]]]
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
    made = LinkPredictor("best", settings={**NETWORK, "learned": "cnn", "epochs": 1}, device="cpu")
    list(made.fit(corpus(), corpus(num=2, first=20)))
    return made


CASES: Mapping[str, tuple[Callable[[], AnyPredictor], str]] = {
    "next": (next_event, '{"values": ["a1", "a2"]}'),
    "classify": (classify, '{"texts": ["good w1"]}'),
    "suggest": (suggest, '{"values": ["find boat"]}'),
    "link": (link, '{"text": "the harbour ferry"}'),
}


@pytest.fixture(scope="module")
def of_torch() -> set[str]:
    """What ``import torch`` imports of itself."""
    code = "import sys, torch; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name for name in ran.stdout.split() if name.partition(".")[0] in ("torch", "sympy")}


@pytest.mark.parametrize("task", CASES)
def test_to_predict_imports_no_more_of_torch_than_torch_and_no_other_task(
    task: str, of_torch: set[str], tmp_path: Path
) -> None:
    learn, asked = CASES[task]
    learn().save(tmp_path / "m")
    found = imported(tmp_path, "predict", "m", "-", "-k", "2", stdin=asked)
    assert "torch.nn" in of_torch and "torch._dynamo" not in of_torch
    assert {name for name in found if name.partition(".")[0] in ("torch", "sympy")} <= of_torch
    assert not found & {"scipy", "plotly", "fastapi", "sklearn", "openpyxl", "ensue.evaluation", "ensue_studies"}
    others = {one.predictor.partition(":")[0] for name, one in TASKS.items() if name != task}
    assert not found & others and TASKS[task].predictor.partition(":")[0] in found
