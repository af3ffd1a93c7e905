"""The command line as a person runs it, in this process: arguments in; exit code, stdout and stderr out."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ensue import cli
from ensue.data.histories import Histories
from ensue.demo.cascades import make_cascades


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of stderr."""
        return self.err.splitlines()

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """The rows of the tables on stdout."""
        lines = self.out.splitlines()
        return [tuple(map(str.strip, line.strip("│").split("│"))) for line in lines if line.startswith("│")]


class Logs(NamedTuple):
    """Small files of one made-up world."""

    train: Path
    valid: Path
    test: Path


Ensue = Callable[..., Ran]
SMALL = ("--model=hidan", "--set=dim=8", "--set=table_dim=4", "--set=epochs=2", "--set=batch_size=16", "--device=cpu")


def run(patch: pytest.MonkeyPatch, *arguments: object, stdin: str | bytes = "") -> Ran:
    """Run ``ensue`` with these arguments."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with patch.context() as inside:
        inside.setattr(sys, "argv", ["ensue", *map(str, arguments)])
        inside.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
        inside.setattr(sys, "stdout", out)
        inside.setattr(sys, "stderr", err)
        inside.setenv("COLUMNS", "200")
        code: Any = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
    texts = []
    for stream in (out, err):
        buffer = stream.detach()
        assert isinstance(buffer, io.BytesIO)
        texts.append(buffer.getvalue().decode())
    return Ran(code or 0, *texts)


@pytest.fixture
def ensue(monkeypatch: pytest.MonkeyPatch) -> Ensue:
    """``ensue("check", path)`` runs that command."""
    return lambda *arguments, stdin="": run(monkeypatch, *arguments, stdin=stdin)


def write(path: Path, histories: Histories) -> Path:
    """JSON Lines of histories."""
    path.write_text("".join(f"{record.to_json()}\n" for record in histories.records()), encoding="utf-8")
    return path


def listed(task: str) -> list[dict[str, Any]]:
    """The models of a task, as ``ensue models`` lists them."""
    with pytest.MonkeyPatch.context() as patch:
        models: list[dict[str, Any]] = json.loads(run(patch, "models", task, "--json").out)
    return models


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """48 cascades to learn from, 6 to stop early by, 6 to be scored on."""
    world, place = make_cascades(num_users=16, num_cascades=60, seed=1), tmp_path_factory.mktemp("logs")
    return Logs(*(write(place / f"{name}.jsonl", getattr(world, name)) for name in Logs._fields))


@pytest.fixture(scope="session")
def model(logs: Logs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HiDAN folder, written by the command line; tests read it and leave it alone."""
    folder = tmp_path_factory.mktemp("models") / "m"
    with pytest.MonkeyPatch.context() as patch:
        ran = run(patch, "fit", "next", logs.train, "-o", folder, *SMALL)
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture
def own(model: Path, tmp_path: Path) -> Path:
    """A model folder of this test's own, alone in its parent."""
    (tmp_path / "models").mkdir()
    return shutil.copytree(model, tmp_path / "models" / "m")
