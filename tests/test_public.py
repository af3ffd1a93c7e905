"""The public names: a short list that changes on purpose only, quick to import, every one of them explained."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

import pytest

import ensue

NAMES = [
    "Answer",
    "Article",
    "Attribution",
    "Choice",
    "DataError",
    "Deletion",
    "EnsueError",
    "Explanation",
    "History",
    "Link",
    "LinkAnswer",
    "LinkExplanation",
    "ModelFolderError",
    "NextEvent",
    "Passage",
    "Post",
    "PostLinker",
    "Predictions",
    "QueryExplanation",
    "QuerySuggester",
    "SettingError",
    "SimilarSession",
    "Text",
    "TextAnswer",
    "TextClassifier",
    "TextExplanation",
    "Tuning",
    "__version__",
    "add_model",
    "compare",
    "evaluate",
    "load",
    "make",
    "read",
    "split",
    "tune",
]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(ensue.__path__, "ensue.") if module.name != "ensue.__main__"
)


def test_the_list() -> None:
    assert ensue.__all__ == NAMES
    assert sorted(NAMES) == NAMES


def test_each_name_is_there_and_explained() -> None:
    scope: dict[str, Any] = {}
    exec(f"from ensue import {', '.join(NAMES)}", scope)
    assert [name for name in NAMES if scope[name] is not getattr(ensue, name)] == []
    assert [name for name in NAMES if name != "__version__" and not inspect.getdoc(scope[name])] == []


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match=r"^module 'ensue' has no attribute 'nonsense'$"):
        _ = ensue.nonsense  # type: ignore[attr-defined]


def test_all_names_are_listed_before_any_is_imported() -> None:
    code = "import sys, ensue; print(*dir(ensue)); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) >= set(NAMES)
    assert not {"torch", "polars", "numpy"} & set(ran.stderr.split())


def test_signatures_name_types_and_no_any() -> None:
    functions = [name for name in NAMES if inspect.isfunction(getattr(ensue, name))]
    assert functions == ["add_model", "compare", "evaluate", "load", "make", "read", "split", "tune"]
    vague = []
    for name in functions:
        signature = inspect.signature(getattr(ensue, name))
        types = {key: str(parameter.annotation) for key, parameter in signature.parameters.items()}
        types["return"] = str(signature.return_annotation)
        vague += [f"{name}: {key}" for key, of in types.items() if of in ("Any", "typing.Any", str(inspect._empty))]
    assert vague == []


def test_errors_have_one_base() -> None:
    for error in (ensue.DataError, ensue.SettingError, ensue.ModelFolderError):
        assert issubclass(error, ensue.EnsueError)
    assert ensue.EnsueError.__base__ is Exception


def test_importing_and_reading_need_no_torch() -> None:
    code = (
        "import sys, ensue; from ensue import *; ensue.History(('a',)).to_json()\n"
        "print([name for name in ('torch', 'plotly', 'typer', 'rich') if name in sys.modules])"
    )
    lazy = code.replace("from ensue import *; ", "")
    ran = subprocess.run([sys.executable, "-W", "error", "-c", lazy], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_importing_ensue_alone_is_all_it_takes() -> None:
    """No module leans on another having been imported before it."""
    code = "import importlib\n" + "".join(f"importlib.import_module({name!r})\n" for name in reversed(MODULES))
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions and classes that a module defines, and the methods and properties of its classes."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        yield name, value
        for inner, method in vars(value).items() if inspect.isclass(value) else ():
            function = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
            if not inner.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{inner}", function


def test_everything_public_is_explained() -> None:
    missing = []
    for name in MODULES:
        module = importlib.import_module(name)
        if not module.__doc__:
            missing.append(name)
        for key, value in public(module):
            # A dataclass without a docstring is given its signature for one.
            if not value.__doc__ or value.__doc__.startswith(f"{key}("):
                missing.append(f"{name}.{key}")
    assert missing == []


def test_settings_explain_every_field() -> None:
    """A line of text under each field of a settings class: it becomes the help of ``--set``."""
    settings = [
        value
        for name in MODULES
        for key, value in public(importlib.import_module(name))
        if inspect.isclass(value) and is_dataclass(value) and key.endswith(("Settings", "Schedule"))
    ]
    assert len(settings) >= 30
    for value in settings:
        classes = [base for base in value.__mro__ if is_dataclass(base)]
        source = [line for base in classes for line in inspect.getsource(base).splitlines()]
        for field in fields(value):
            line = next(index for index, line in enumerate(source) if line.startswith(f"    {field.name}: "))
            assert source[line + 1].startswith('    """'), f"{value.__name__}.{field.name}"
