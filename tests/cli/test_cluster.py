"""``fit --cluster ray``: refusals before anything starts, and two workers that train what ``torchrun``'s ranks do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ensue import SettingError
from ensue.cli import cluster, make_app

SMALL = ("--model", "sansr", "--set", "dim=8", "--set", "epochs=2")
LIMIT = 900
"""Seconds for a cluster to start, train and end; a quiet machine needs about 60."""
TRAINING = ("ray::RayTrainWorker", "_setup_torch_process_group", "-c", "torchrun")
"""Processes whose port is torch's own, which listens everywhere while a group forms, as under ``torchrun``."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Walks around a circle."""
    path = tmp_path / "log.csv"
    rows = [f"s{at},v{(5 * at + step) % 12},{1e9 + 1000 * at + step}" for at in range(200) for step in range(5)]
    path.write_text("\n".join(["session,item,time", *rows]))
    return path


def refused(log: Path, address: str) -> str:
    told = CliRunner().invoke(make_app(), ["fit", "next", str(log), "-o", str(log.parent / "m"), "--cluster", address])
    assert isinstance(told.exception, SettingError) and not (log.parent / "m").exists()
    return str(told.exception)


@pytest.mark.parametrize(
    "address",
    [
        "spark://h:1",
        "ray://h",
        "ray://:1",
        "ray?workers=0",
        "ray?workers=two",
        "ray?cores=2",
        "ray://h:1/x",
        "ray://h:x",
    ],
)
def test_an_address_that_is_none_is_refused(log: Path, address: str) -> None:
    assert "write ray, or ray://HOST:PORT" in refused(log, address)


def test_addresses_name_a_head_and_the_workers() -> None:
    assert cluster._parsed("ray") == ("", 2) and cluster._parsed("ray?workers=3") == ("", 3)
    assert cluster._parsed("ray://10.0.0.1:6379?workers=8") == ("10.0.0.1:6379", 8)
    typed = ["next", "log", "--cluster", "ray", "--seed", "3", "--cluster=ray", "--json"]
    assert cluster._rank_arguments(typed) == ["next", "log", "--seed", "3"]


def test_without_the_extra_it_is_said(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    assert refused(log, "ray") == "--cluster ray needs the extra: pip install 'ensue[cluster]'"


def test_a_cluster_is_spoken_to_with_a_token_alone(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: True)
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HOME", str(tmp_path))
    address = f"ray://127.0.0.1:{free_port()}"
    assert "set RAY_AUTH_TOKEN" in refused(log, address)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    told = refused(log, address)
    assert "no answer" in told and "secret" not in told
    assert (os.environ["RAY_AUTH_MODE"], os.environ["RAY_USAGE_STATS_ENABLED"]) == ("token", "0")


@pytest.mark.cluster
@pytest.mark.skipif(find_spec("ray") is None, reason="the extra cluster is not there")
def test_two_workers_learn_what_two_ranks_do_behind_closed_ports(log: Path, tmp_path: Path) -> None:
    # Ray warns of settings of its own.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ENSUE_RUN": str(tmp_path), "PYTHONWARNINGS": ""}
    one = [
        sys.executable,
        "-m",
        "ensue",
        "fit",
        "next",
        str(log),
        *SMALL,
        "-o",
        str(tmp_path / "ray"),
        "--cluster",
        "ray",
    ]
    ends, open_to_all, seen = time.monotonic() + LIMIT, set[str](), set[str]()
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(one, env=environment, stdout=said, stderr=said)
        try:
            while process.poll() is None:
                assert time.monotonic() < ends
                for name, address in _listening(f"ENSUE_RUN={tmp_path}"):
                    seen.add(name)
                    if not address.endswith("0100007F") and not any(part in name for part in TRAINING):
                        open_to_all.add(f"{name} {address}")
                time.sleep(0.2)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, (tmp_path / "said").read_text()
    assert not open_to_all and any("raylet" in name for name in seen) and any("gcs_server" in name for name in seen)
    _require_like_ranks(tmp_path / "ray", log, environment)
    assert {path.name for path in tmp_path.iterdir()} == {"log.csv", "said", "ray", "ranks"}


@pytest.mark.cluster
@pytest.mark.skipif(find_spec("ray") is None, reason="the extra cluster is not there")
def test_a_cluster_with_a_head_of_its_own_learns_the_same_and_refuses_another_token(
    log: Path, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "", "RAY_USAGE_STATS_ENABLED": "0"}
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    ray, port = [sys.executable, "-m", "ray.scripts.scripts"], free_port()
    head = [*ray, "start", "--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=2"]
    fit = [sys.executable, "-m", "ensue", "fit", "next", str(log), *SMALL]
    on = ["--cluster", f"ray://127.0.0.1:{port}?workers=2"]
    subprocess.run([*head, "--include-dashboard=false"], env=environment, check=True, timeout=LIMIT)
    try:
        other = {**environment, "RAY_AUTH_TOKEN": "b" * 64}
        refused = subprocess.run(
            [*fit, "-o", str(tmp_path / "other"), *on], env=other, capture_output=True, text=True, timeout=LIMIT
        )
        assert refused.returncode == 2 and refused.stderr.rstrip().endswith("look at the address and the token")
        assert not (tmp_path / "other").exists() and "b" * 64 not in refused.stderr
        subprocess.run([*fit, "-o", str(tmp_path / "ray"), *on], env=environment, check=True, timeout=LIMIT)
    finally:
        subprocess.run([*ray, "stop"], env=environment, check=True, timeout=LIMIT)
    _require_like_ranks(tmp_path / "ray", log, environment)


def _require_like_ranks(folder: Path, log: Path, environment: dict[str, str]) -> None:
    """Refuse a folder that is not, byte for byte, what two ranks of torchrun learn."""
    two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "ensue"]
    ranks = folder.with_name("ranks")
    subprocess.run(
        [*two, "fit", "next", str(log), *SMALL, "-o", str(ranks)], env=environment, check=True, timeout=LIMIT
    )
    for path in ranks.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes(), path.name


def _listening(marked: str) -> set[tuple[str, str]]:
    """What listens (its command and the address in hexadecimal digits) of all processes begun under an environment."""
    sockets: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A":
                sockets[f"socket:[{parts[9]}]"] = parts[1].split(":")[0]
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if marked.encode() not in (place / "environ").read_bytes().split(b"\0"):
                continue
            name = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()[:80]
            held = {str(end.readlink()) for end in (place / "fd").iterdir()}
        except OSError:  # it has ended
            continue
        found |= {(name, sockets[end]) for end in held & sockets.keys()}
    return found
