"""``fit --cluster ray``: the same program on the workers of a Ray cluster as ``torchrun`` starts on its ranks.

Ray Train's ``TorchTrainer`` places the workers, forms their group and ends them together. Each starts ``ensue fit`` in
a process of its own under the rank that it was given: what is learned, which checkpoints are written and how a signal
ends it is what ``torchrun`` does, to the byte. All machines see data and model folder under the same path.

Whoever reaches a port of Ray may run code there. So a cluster is spoken to with a token alone, and one that is started
here has a token of its own and listens on the loopback address. Nothing is reported to anybody.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, urlsplit

from ensue.cli import display
from ensue.errors import SettingError
from ensue.predictor import load
from ensue.store.folder import require_writable
from ensue.training.distributed import rank_and_size, share

STORE = 2**27
"""Bytes of the object store of a cluster that is started here; data come from files, so next to nothing lies there."""
WAIT = 10.0
"""Seconds in which a cluster's port must answer."""
BEGIN = """
import ctypes, signal
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: it ends with the worker, after a checkpoint
from ensue import cli
cli.main()
"""
"""The program of a rank."""


def run(address: str, output: Path, *, as_json: bool) -> None:
    """Run the command of this process on a cluster.

    Args:
        address: ``ray``, or ``ray://HOST:PORT`` of a cluster's head; ``?workers=N`` behind it for other than two.
        output: the model folder.
        as_json: whether what was learned is printed as JSON.

    Raises:
        ModelFolderError: the folder cannot be written.
        SettingError: Ray is missing, the address is none or refused, or a rank ended with an error.
    """
    host, workers = _parsed(address)
    if find_spec("ray") is None:
        raise SettingError(f"--cluster {address} needs the extra: pip install 'ensue[cluster]'")
    require_writable(output)
    model_folder = output.resolve()
    run_folder = model_folder.with_name(f".{model_folder.name}.ray")
    # Ray writes its state there; it is removed after the run.
    run_folder.mkdir(mode=0o700, exist_ok=True)
    arguments = ["fit", *_rank_arguments(sys.argv[2:])]
    with _joined(address, host, workers) as ray:
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer

        trainer = TorchTrainer(
            run_rank,
            train_loop_config={"arguments": arguments, "folder": str(Path.cwd())},
            scaling_config=ScalingConfig(
                num_workers=workers,
                use_gpu=ray.cluster_resources().get("GPU", 0) >= workers,
                resources_per_worker={"CPU": 1},
            ),
            run_config=RunConfig(storage_path=str(run_folder.parent), name=run_folder.name),
        )
        try:
            trainer.fit()
        except (RuntimeError, ray.exceptions.RayError) as error:
            raise SettingError(f"--cluster {address}: a rank ended early; see its messages above") from error
        finally:
            shutil.rmtree(run_folder, ignore_errors=True)
    display.log(f"trained by {workers} workers of {host or 'a cluster on this machine'}")
    if as_json:
        display.print_json({"folder": str(output), **load(output).summary()})


def run_rank(settings: Mapping[str, object]) -> None:
    """Be one worker of the cluster, inside the group that Ray Train has formed: run the rank in a process of its own.

    Args:
        settings: ``arguments`` of the command line, and the ``folder`` that it was typed in.

    Raises:
        RuntimeError: it ended with an error; the others are ended too.
    """
    rank, _ = rank_and_size()
    with socket.socket() as free:
        free.bind(("", 0))
        port = share({"port": free.getsockname()[1]})["port"]  # the first rank's: the group of the workers has its own
    arguments, folder = settings["arguments"], settings["folder"]
    assert isinstance(arguments, list) and isinstance(folder, str)
    environment = {**os.environ, "MASTER_PORT": str(port)}
    code = subprocess.run(
        [sys.executable, "-c", BEGIN, *arguments], env=environment, cwd=folder, check=False
    ).returncode
    if code:
        raise RuntimeError(f"rank {rank} ended with code {code}")


@contextmanager
def _joined(address: str, host: str, workers: int) -> Iterator[ModuleType]:
    """Yield Ray, connected to a cluster, or to one that is started here and ends with this."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
    if host:
        _require_token(address)
        _require_open(address, host)
    else:
        # By the second Ray takes the loopback address of this machine for its own, and listens there alone.
        os.environ |= {"RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        os.environ |= {"RAY_worker_niceness": "0"}  # the training is what this machine is here for
    import ray

    local = {"num_cpus": workers, "object_store_memory": STORE, "include_dashboard": False}
    try:
        ray.init(logging_level="error", **({"address": host} if host else local))
    except (RuntimeError, OSError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SettingError(f"--cluster {address}: refused ({reason}); look at the address and the token") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _parsed(address: str) -> tuple[str, int]:
    """Return ``HOST:PORT``, empty for this machine, and the number of workers."""
    wrong = f"--cluster {address}: write ray, or ray://HOST:PORT, with ?workers=N behind it for other than two workers"
    url = urlsplit(address if "://" in address else address.replace("ray", "ray://", 1))
    options = parse_qs(url.query, keep_blank_values=True)
    number = options.pop("workers", ["2"])[-1]
    try:
        port = url.port
    except ValueError:
        port = None
    if url.scheme != "ray" or options or url.path or not number.isdecimal() or int(number) < 1:
        raise SettingError(wrong)
    if url.netloc and (not url.hostname or port is None):
        raise SettingError(wrong)
    return url.netloc, int(number)


def _require_token(address: str) -> None:
    """Refuse a cluster for which there is no token."""
    token = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    if not token and not (Path.home() / ".ray" / "auth_token").exists():
        raise SettingError(
            f"--cluster {address}: a cluster needs a token: set RAY_AUTH_TOKEN to the one that it was started with"
        )


def _require_open(address: str, host: str) -> None:
    """Refuse, within seconds, an address where nothing listens."""
    name, _, port = host.rpartition(":")
    try:
        socket.create_connection((name.strip("[]"), int(port)), WAIT).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingError(f"--cluster {address}: no answer ({reason}); is the cluster's head up?") from error


def _rank_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments for a rank: without the cluster, and without JSON, which this process prints."""
    remaining, skip = [], False
    for argument in arguments:
        if not skip and argument not in ("--cluster", "--json") and not argument.startswith("--cluster="):
            remaining.append(argument)
        # The address may be the next argument.
        skip = argument == "--cluster"
    return remaining
