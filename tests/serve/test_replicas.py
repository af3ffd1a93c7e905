"""What operators are told: the commands of the page run, the proxy's file works before two replicas, nobody is root."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
import yaml

from ensue.cli.serve import serve
from ensue.store import versions
from tests.processes import Started
from tests.serve.test_server import start
from tests.serve.test_workers import ASK, LEARN, Served, served, until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operate" / "workers.md").read_text(encoding="utf-8")
PROXY = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))


def commands(beginning: str) -> list[list[str]]:
    """Those of the page, as words."""
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
    return [shlex.split(line) for line in blocks.splitlines() if line.startswith(beginning)]


def test_every_service_is_locked_up_and_its_options_exist(compose: Any) -> None:
    services = compose["services"]
    assert set(services) == {"proxy", "ensue-a", "ensue-b"}
    for name, service in services.items():
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert ("ports" in service) == (name == "proxy")
        if name != "proxy":
            assert service["environment"]["ENSUE_TOKEN"].startswith("${ENSUE_TOKEN:?")
            options = [
                word[2:].replace("-", "_").replace("set", "set_") for word in service["command"] if word[:2] == "--"
            ]
            assert service["command"][0] == "serve" and set(options) <= set(serve.__annotations__)
            assert f"server {name}:8000" in PROXY
    assert [name for name in services if "--read-only" in services[name]["command"]] == ["ensue-b"]
    assert all(port.startswith("127.0.0.1:") for port in services["proxy"]["ports"])
    assert ("./deploy/nginx.conf:/etc/ensue/nginx.conf:ro") in services["proxy"]["volumes"]


def test_what_the_page_says_of_one_machine_is_so(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSUE_UPDATE_TOKEN", "it writes")
    (run,) = commands("ensue serve")
    (curl,) = commands("curl")
    folder.rename(tmp_path / "next")
    with served(*[word.replace("models/next", f"next={tmp_path / 'next'}") for word in run[2:]]) as service:
        assert len(service.workers) == 2
        path = curl[curl.index("POST") + 1].partition("8000")[2]
        status, report = service.post(path, json.loads(curl[-1]), "it writes")
        assert (status, report["version"]) == (200, 2)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx here")
def test_two_replicas_answer_behind_the_proxy_while_one_is_restarted(
    folder: Path, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    first, told = start(f"next={folder}", "--workers", 2, "--set", "poll=0.05")
    second, other = start(f"next={folder}", "--read-only", "--set", "poll=0.05")
    port, ports = free_port(), [line["address"].rsplit(":", 1)[1] for line in (told, other)]
    text = PROXY.replace("listen 8080", f"listen 127.0.0.1:{port}").replace("/tmp/", f"{tmp_path}/")
    for name, own in zip(("ensue-a", "ensue-b"), ports, strict=True):
        text = text.replace(f"{name}:8000", f"127.0.0.1:{own}")
    (tmp_path / "nginx.conf").write_text(text)
    proxy = subprocess.Popen(["nginx", "-c", tmp_path / "nginx.conf", "-g", "daemon off;"], stderr=subprocess.DEVNULL)
    service = Served(first, f"http://127.0.0.1:{port}", [])
    replicas: list[Started] = [first, second]
    try:
        until(lambda: _answers(service))
        assert service.post("/v1/models/next/update", LEARN)[0] == 200  # the other one refuses
        assert versions.current(folder) == 2
        with pytest.raises(HTTPError, match="404"):
            service.get("/metrics")
        second.send_signal(signal.SIGTERM)
        statuses = [service.post("/v1/models/next/predict", ASK)[0] for _ in range(40)]
        assert second.wait(30) == 0
        assert statuses == [200] * 40
        time.sleep(0.1)
        assert [service.post("/v1/models/next/predict", ASK)[0] for _ in range(10)] == [200] * 10
    finally:
        proxy.terminate()
        proxy.wait(30)
        for replica in replicas:
            replica.kill()


def _answers(service: Served) -> bool:
    try:
        return "ready" in service.get("/readyz")
    except (URLError, ConnectionError):
        return False
