"""The contract of the public surface, written as data whose diff a reviewer reads.

    python scripts/contract.py [--write]

``tests/contract`` holds the Python names and signatures, the commands with their options and exit codes, the JSON
Schemas of answers, the OpenAPI document, the files of a model folder, and sessions of real use with what they print.
Without ``--write`` the files that differ from this checkout are named, and the exit code is 1 if there are any.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pydantic import TypeAdapter  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402
from typer.main import get_command  # noqa: E402

import ensue  # noqa: E402
from ensue import cli  # noqa: E402
from ensue.answers import Forecast  # noqa: E402
from ensue.api import AnyEstimator  # noqa: E402
from ensue.cli import make_app as make_cli  # noqa: E402
from ensue.predictions import Predictions  # noqa: E402
from ensue.serve.app import Service, make_app  # noqa: E402
from ensue.serve.files import Files  # noqa: E402
from ensue.serve.models import ServedModels  # noqa: E402
from ensue.serve.monitoring import Metrics, ServiceLog  # noqa: E402
from ensue.serve.settings import ServeSettings  # noqa: E402
from scripts.site.blocks import run_page  # noqa: E402

CONTRACT = ROOT / "tests" / "contract"
WIDTH = "100"
"""Columns of the terminal in which sessions are run."""
UNSTABLE = [
    (re.compile(r"(?<=ensue )\d+\.\d+\.\d+\S*"), "…"),
    (re.compile(r"(?<= in )\d+ s\b"), "… s"),
    (re.compile(r"(?<=\.\d{5})\d{3,}"), ""),
]
"""Versions, durations, and digits on which processors disagree: each pattern and what replaces it."""
ANSWERS = (ensue.Answer, ensue.TextAnswer, ensue.LinkAnswer, Forecast)
EXPLANATIONS = (ensue.Explanation, ensue.TextExplanation, ensue.QueryExplanation, ensue.LinkExplanation)
FITTED: dict[str, Callable[[], AnyEstimator]] = {
    "next": lambda: ensue.NextEvent("markov").fit([["a", "b"], ["b", "c"]] * 5),
    "classify": lambda: ensue.TextClassifier("tfidf").fit(["a good film", "a bad film"] * 10, ["yes", "no"] * 10),
    "suggest": lambda: ensue.QuerySuggester("most-frequent-next").fit([["ferry", "ferry times"]] * 6),
    "link": lambda: ensue.PostLinker("tfidf").fit(
        [("the ferry again", ["f"]), ("a late bus", ["b"])], {"f": "The ferry sails.", "b": "The bus stop moved."}
    ),
}
"""By task: a small fitted model."""
MISTAKES = (
    "",
    "--help",
    "models next",
    "fit",
    "fit nxt log.csv -o model",
    "fit next missing.csv -o model",
    "fit next log.csv -o model --model markoff",
    "fit next log.csv -o model --set dimm=5",
    "fit next log.csv -o model --modle markov",
    "predict missing log.csv",
    "check log.csv --columns value=item",
)
"""Commands whose exit codes and last lines are part of the contract."""


def python_names() -> dict[str, object]:
    """Return the signature of each public name, and of the methods and properties of classes."""
    return {name: _described(getattr(ensue, name)) for name in ensue.__all__ if name != "__version__"}


def _described(value: Any) -> object:
    if not inspect.isclass(value):
        return str(inspect.signature(value))
    members: dict[str, object] = {"": "exception" if issubclass(value, Exception) else str(inspect.signature(value))}
    for name in sorted(dir(value)):
        member = inspect.getattr_static(value, name)
        function = getattr(member, "__func__", member)
        if name.startswith("_") or issubclass(value, Exception):
            continue
        if inspect.isfunction(function):
            members[name] = str(inspect.signature(function))
        elif isinstance(member, property):
            members[name] = str(inspect.signature(member.fget).return_annotation) if member.fget else ""
    return members


def commands() -> dict[str, object]:
    """Return the arguments and options of each command, with their defaults."""
    group: Any = get_command(make_cli())
    return {
        name: {_names(param): _default(param) for param in command.params if not getattr(param, "hidden", False)}
        for name, command in sorted(group.commands.items())
    }


def _names(param: Any) -> str:
    return ", ".join(param.opts) if param.param_type_name == "option" else f"{param.name} ({param.param_type_name})"


def _default(param: Any) -> str:
    if param.param_type_name == "option" and param.is_flag:
        return "flag"
    return "required" if param.required else f"default {param.default}"


def exit_codes() -> dict[str, object]:
    """Return the exit code and the last line of stderr of commands that fail, and of some that do not."""
    results: dict[str, object] = {}
    with _folder():
        Path("log.csv").write_text("session,item,time\ns1,a,1\ns1,b,2\ns2,a,3\ns2,b,4\n", encoding="utf-8")
        for line in MISTAKES:
            code, errors = _run(shlex.split(line))
            results[f"ensue {line}".strip()] = [code, *errors.splitlines()[-1:]]
    return results


def _run(words: list[str]) -> tuple[int, str]:
    """Run a command in this process, and return its exit code and its stderr."""
    output = io.StringIO()
    errors = io.StringIO()
    former = sys.argv
    code = 0
    sys.argv = ["ensue", *words]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            cli.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = former
    return code, errors.getvalue()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Work in an empty folder, in a terminal of a fixed width."""
    former = Path.cwd()
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        os.environ["COLUMNS"] = WIDTH
        try:
            yield Path(name)
        finally:
            os.chdir(former)
            os.environ.clear()
            os.environ.update(environment)


def schemas() -> dict[str, object]:
    """Return the JSON Schema of each answer and explanation."""
    kinds = (*ANSWERS, *EXPLANATIONS)
    return {kind.__name__: TypeAdapter(kind).json_schema(mode="serialization") for kind in kinds}


def answers() -> dict[str, object]:
    """Return the JSON of one answer of each task."""
    queries: dict[str, Any] = {"next": [["a"]], "suggest": [["ferry"]], "link": ["the ferry sails"]}
    results: dict[str, object] = {}
    for task, fit in FITTED.items():
        model: Any = fit()
        if task == "classify":
            results[task] = json.loads(model.explain(["so good"], k=1)[0].answer.to_json())
        else:
            predictions: Predictions[Any] = model.predict(queries[task], k=1, explain=True)
            results[task] = json.loads(predictions[0].to_json())
    return results


def openapi() -> dict[str, object]:
    """Return the OpenAPI document of a service with a model of each task."""
    log = ServiceLog(io.StringIO())
    metrics = Metrics()
    settings = ServeSettings()
    with _folder() as folder:
        for task, fit in FITTED.items():
            fit().save(folder / task)
        models = ServedModels.of_folders({task: folder / task for task in FITTED}, settings, metrics, log)
        service = Service(models=models, settings=settings, metrics=metrics, log=log, files=Files())
        with TestClient(make_app(service)) as client:
            document: dict[str, object] = client.get("/openapi.json").json()
    return {**document, "info": {**dict(document["info"]), "version": "…"}}  # type: ignore[call-overload]


def folders() -> dict[str, object]:
    """Return the files of a model folder of each task, and the fields of its settings."""
    results: dict[str, object] = {}
    with _folder() as folder:
        for task, fit in FITTED.items():
            model: Any = fit()
            model.save(folder / task)
            settings = json.loads((folder / task / "settings.json").read_text(encoding="utf-8"))
            results[task] = {
                "files": sorted(path.name for path in (folder / task).iterdir()),
                "settings.json": sorted(settings),
            }
    return results


def session(text: str) -> str:
    """Return a session, a page of console blocks, with what its commands print."""
    with _folder():
        text = run_page(text)
    for pattern, stable in UNSTABLE:
        text = pattern.sub(stable, text)
    return text


DOCUMENTS = {
    "python.json": python_names,
    "commands.json": commands,
    "exit_codes.json": exit_codes,
    "schemas.json": schemas,
    "answers.json": answers,
    "openapi.json": openapi,
    "folders.json": folders,
}
"""File of the contract -> function that returns its content."""


def document(name: str) -> str:
    """Return what a file of the contract must hold."""
    if name.endswith(".md"):
        return session((CONTRACT / "sessions" / name).read_text(encoding="utf-8"))
    return (
        json.dumps(_rounded(DOCUMENTS[name]()), indent=1, ensure_ascii=False, sort_keys=name != "answers.json") + "\n"
    )


def _rounded(value: object) -> object:
    """Round numbers to the digits on which all processors agree."""
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def files() -> list[Path]:
    """Return the files of the contract."""
    return [CONTRACT / name for name in DOCUMENTS] + sorted((CONTRACT / "sessions").glob("*.md"))


def main() -> int:
    """Compare or write the files of the contract."""
    differing = []
    for path in files():
        text = document(path.name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            differing.append(path)
            if "--write" in sys.argv[1:]:
                path.write_text(text, encoding="utf-8")
    for path in differing:
        print(f"{'wrote' if '--write' in sys.argv[1:] else 'differs:'} {path.relative_to(ROOT)}")
    return 1 if differing and "--write" not in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
