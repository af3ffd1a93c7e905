"""Push and pull against a stand-in of the hub on the loopback address: its few routes, and nothing of the network."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

import ensue as package
from ensue.errors import EnsueError, ModelFolderError, SettingError
from ensue.hub import pull, push
from tests.cli.conftest import Ensue, run

pytest.importorskip("huggingface_hub", reason="the extra hub is not there")

TOKEN = "hf_secretsecretsecretsecretsecret"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """The routes of a hub that ``push`` and ``pull`` use."""

    repositories: ClassVar[dict[str, dict[str, bytes]]] = {}
    private: ClassVar[dict[str, bool]] = {}
    tokens: ClassVar[set[str | None]] = set()
    sizes: ClassVar[dict[str, int]] = {}
    """Sizes that the hub claims, by name of a file."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def reply(self, status: int, body: object, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.tokens.add(self.headers.get("authorization"))
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self.reply(401, {"error": "Invalid username or password."})
        path = self.path.partition("?")[0]
        if path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted['organization']}/{wanted['name']}"
            known = name in self.repositories
            if not known:
                self.repositories[name] = {}
                self.private[name] = wanted.get("visibility") == "private"
            return self.reply(409 if known else 200, {"url": f"{self.address}/{name}", "error": "exists"})
        if path == "/api/validate-yaml":
            return self.reply(200, {"errors": [], "warnings": []})
        _, _, _, owner, name, verb, _ = path.split("/")
        if verb == "preupload":
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self.reply(200, {"files": files})
        assert verb == "commit"
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                assert line["value"]["encoding"] == "base64"
                self.repositories[f"{owner}/{name}"][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        url = f"{self.address}/{owner}/{name}/commit/{COMMIT}"
        return self.reply(200, {"commitUrl": url, "commitOid": COMMIT, "success": True})

    def do_GET(self) -> None:
        self.tokens.add(self.headers.get("authorization"))
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            name = "/".join(parts[2:4])
            if name not in self.repositories:
                return self.reply(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
            files = [
                {"rfilename": file, "size": self.sizes.get(file, len(content))}
                for file, content in self.repositories[name].items()
            ]
            return self.reply(200, {"id": name, "sha": COMMIT, "private": self.private[name], "siblings": files})
        if len(parts) == 5 and parts[2] == "resolve":
            content = self.repositories["/".join(parts[:2])].get(parts[4])
            if content is not None and parts[3] == COMMIT:
                headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X_Repo_Commit": COMMIT}
                return self.reply(200, content, **headers)
        return self.reply(404, {"error": "not found"})

    do_HEAD = do_GET  # noqa: N815

    @property
    def address(self) -> str:
        return f"http://{self.headers['host']}"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hub]]:
    for kept in (Hub.repositories, Hub.private, Hub.tokens, Hub.sizes):
        kept.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    yield Hub
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hub") / "m"
    model = package.NextEvent("markov").fit([["a", "b", "c"]] * 20)
    model.save(path)
    with pytest.MonkeyPatch.context() as patch:
        log = path.parent / "test.csv"
        log.write_text("session,item\ns,a\ns,b\nt,b\nt,c\n")
        assert run(patch, "evaluate", path, log).code == 0
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_model_comes_back_as_it_was_pushed(hub: type[Hub], folder: Path, tmp_path: Path) -> None:
    pushed = push(folder, "team/next-items", license="apache-2.0")
    assert pushed.is_private and pushed.address.endswith(f"/team/next-items/commit/{COMMIT}")
    files = hub.repositories["team/next-items"]
    assert {name: content for name, content in files.items() if name != "README.md"} == contents(folder)
    _, front, card = files["README.md"].decode().split("---\n", 2)
    metadata = yaml.safe_load(front)
    assert metadata["library_name"] == "ensue" and metadata["license"] == "apache-2.0"
    assert {"ensue", "ensue-next", "markov"} <= set(metadata["tags"])
    (result,) = metadata["model-index"][0]["results"]
    metrics = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert metrics["HR@10"] == 100.0 and "MRR" in metrics
    assert card.lstrip() == (folder / "CARD.md").read_text()
    assert pull("team/next-items", tmp_path / "copy") == COMMIT
    assert contents(tmp_path / "copy") == contents(folder)
    assert package.NextEvent.load(tmp_path / "copy").predict([["a"]], k=1).values == [["b"]]
    with pytest.raises(ModelFolderError, match="holds a model"):
        pull("team/next-items", tmp_path / "copy")


def test_a_public_repository_is_pushed_to_only_on_purpose(hub: type[Hub], folder: Path) -> None:
    hub.repositories["team/open"] = {}
    hub.private["team/open"] = False
    with pytest.raises(SettingError, match="team/open: is public"):
        push(folder, "team/open")
    assert hub.repositories["team/open"] == {}
    assert not push(folder, "team/open", public=True).is_private and hub.repositories["team/open"]


def test_damaged_and_foreign_repositories_write_nothing(hub: type[Hub], folder: Path, tmp_path: Path) -> None:
    push(folder, "team/next")
    files = hub.repositories["team/next"]
    whole = dict(files)
    target = tmp_path / "copy"

    def refused(message: str) -> None:
        with pytest.raises(ModelFolderError, match=message):
            pull("team/next", target)
        assert not [*tmp_path.iterdir()]
        files.clear()
        files.update(whole)
        hub.sizes.clear()

    files["baselines.safetensors"] = files["baselines.safetensors"][:-1] + b"x"
    refused("baselines.safetensors is damaged")
    del files["baselines.safetensors"]
    refused("baselines.safetensors is missing")
    files["B2SUMS"] += b"0" * 64 + b"  ../evil\n"
    refused("a line is not a checksum")
    files["B2SUMS"] = b"".join(b"0" * 64 + b"  f%d\n" % number for number in range(100))
    files.update({f"f{number}": b"x" for number in range(100)})
    refused("more than 64")
    del files["settings.json"]
    refused("holds no model of ensue")
    hub.sizes["baselines.safetensors"] = 2**60
    refused("more than")
    hub.sizes["B2SUMS"] = 2**30
    refused("more than")
    # What the sums do not list is not read.
    files["evil.py"] = b"raise SystemExit"
    pull("team/next", target)
    assert contents(target) == contents(folder)


def test_errors_of_the_hub_have_one_line_without_the_token(
    hub: type[Hub], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ensue: Ensue
) -> None:
    for arguments in (("pull", "team/none", "-o", tmp_path / "copy"), ("push", tmp_path, "team/next")):
        ran = ensue(*arguments)
        assert ran.code == 2 and ran.err.count("\n") == 1 and TOKEN not in ran.err, ran.err
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    ran = ensue("push", folder, "team/next")
    assert ran.code == 2 and ran.err.count("\n") == 1 and "hf_wrong" not in ran.err and "HF_TOKEN" in ran.err, ran.err
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(EnsueError, match="cannot be reached"):
        pull("team/next", tmp_path / "copy")
    for name in ("next", "a/b/c", "../x", "team/ne xt"):
        with pytest.raises(SettingError, match="OWNER/NAME"):
            pull(name, tmp_path / "copy")
    with pytest.raises(SettingError, match="license"):
        push(folder, "team/next", license="Apache 2!")
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    (damaged / "baselines.safetensors").write_bytes(b"x")
    with pytest.raises(ModelFolderError, match="damaged"):
        push(damaged, "team/next")


def test_the_commands_say_what_is_shared(hub: type[Hub], folder: Path, tmp_path: Path, ensue: Ensue) -> None:
    ran = ensue("push", folder, "team/next", "--license", "cc-by-4.0")
    assert ran.code == 0 and "private" in ran.err and "sums over all sessions" in ran.err, ran.err
    assert TOKEN not in ran.err + ran.out and hub.tokens == {f"Bearer {TOKEN}"}
    ran = ensue("pull", "team/next", "-o", tmp_path / "copy")
    assert ran.code == 0 and COMMIT[:12] in ran.err, ran.err
    assert ensue("predict", tmp_path / "copy", "-", stdin='{"values": ["a"]}').code == 0


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SettingError, match=r"ensue\[hub\]"):
        pull("team/next", tmp_path / "copy")
