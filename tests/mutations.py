"""Random mutations of saved model folders, and a worker process that loads and uses each mutated folder.

A mutated folder has valid checksums, as a stranger's folder would. It must be refused with an ``EnsueError`` or give
ordinary answers. The worker is a process of its own with an address-space limit, so that a signal, an exhausted memory
and a hang are seen and belong to one seed.

To look at one seed: ``python -m tests.mutations ROOT MODULE FAMILY SEED`` with a root that :func:`save_families` filled
and the module whose ``FAMILIES`` they are, such as ``tests.tasks.next.mutated``.
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ensue import EnsueError
from ensue.predictor import load
from ensue.store import checksums
from tests.folders import resum

SPARE_MEMORY = 2**31
"""Bytes of address space that a worker may take on top of what it has once everything is imported."""
SECONDS = 120.0
"""Time for one mutation, after which it counts as a hang."""
DTYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.float32, torch.float64,
          torch.float16, torch.bfloat16)  # fmt: skip
JSON_VALUES: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2, 10**9, 2**31, -(2**31), 2**62, 2**64, 10**30, 0.5, -0.5, 1e300, 1e-300,
    float("inf"), float("nan"), "", "x", "1", "nan", "x" * 10**6, "\ud800", "\0", [], {}, [1], ["x"], [[]], {"x": 1},
    [None], "blend", "popularity", "next", "classify", "link", "suggest", "hidan",
)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """One kind of model folder.

    Attributes:
        save: trains a small model and writes its folder.
        exercise: uses a loaded predictor in every documented way; raises ``AssertionError`` at an answer that is none.
        load: makes what is used of the mutated folder.
    """

    save: Callable[[Path], None]
    exercise: Callable[[Any, Path], None]
    load: Callable[[Path], Any] = load


class Outcome(NamedTuple):
    """What became of one mutated folder.

    Attributes:
        kind: ``refused`` while it was loaded, ``answered``, ``refused later``, ``exception``, ``died`` or ``hung``.
        mutation: what was changed.
        detail: the message, the traceback or the exit status.
    """

    family: str
    seed: int
    kind: str
    mutation: str
    detail: str

    @property
    def allowed(self) -> bool:
        """Return whether the program kept its promise."""
        return self.kind in ("refused", "answered", "refused later")


def save_families(families: Mapping[str, Family], root: Path) -> None:
    """Train one small model of each family under ``root``."""
    for name, family in families.items():
        family.save(root / name)


def mutate(folder: Path, seed: int) -> str:
    """Change one or two things in a model folder at random, make its checksums valid, and say what was changed."""
    chance = random.Random(seed)
    said = [_mutate_once(folder, chance) for _ in range(chance.choice((1, 1, 1, 2)))]
    resum(folder)
    return "; ".join(said)


def _mutate_once(folder: Path, chance: random.Random) -> str:
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in checksums.FREE)
    tables = [path for path in files if path.suffix == ".safetensors"]
    texts = [path for path in files if path.suffix == ".json"]
    kind = chance.choices(("tensor", "json", "settings", "bytes", "file"), (50, 15, 20, 8, 7))[0]
    if kind == "tensor" and tables:
        return _mutate_tensors(chance.choice(tables), chance)
    if kind == "json" and texts:
        return _mutate_json(chance.choice(texts), chance)
    if kind == "settings" and (folder / "settings.json").is_file():
        return _mutate_json(folder / "settings.json", chance)
    return _mutate_file(chance.choice(files), chance) if kind == "file" else _mutate_bytes(chance.choice(files), chance)


def _mutate_tensors(path: Path, chance: random.Random) -> str:
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError):  # an earlier mutation of the same folder broke the file
        return _mutate_bytes(path, chance)
    if not tensors:
        return _mutate_bytes(path, chance)
    name = chance.choice(sorted(tensors))
    verb, tensors[name] = _mutate_tensor(tensors[name], chance)
    if verb in ("removed", "renamed"):
        tensor = tensors.pop(name)
        if verb == "renamed":
            tensors[f"{name}x"] = tensor
    elif verb == "swapped":
        other = chance.choice(sorted(tensors))
        tensors[name], tensors[other] = tensors[other], tensors[name]
        verb = f"swapped with {other}"
    elif verb == "copied":
        tensors[f"extra.{name}"] = tensors[name].clone()
    save_file({key: tensor.clone().contiguous() for key, tensor in tensors.items()}, path)
    return f"{path.name}: {name} {verb}"


def _mutate_tensor(tensor: Tensor, chance: random.Random) -> tuple[str, Tensor]:
    """Return what was done and the tensor that comes of it."""
    verbs = ["dtype", "doubled", "halved", "emptied", "longer", "shorter", "dimension", "flattened", "transposed",
             "removed", "renamed", "swapped", "copied", "permuted"]  # fmt: skip
    verb = chance.choice([*verbs, *["element"] * 14, *["all"] * 6])
    if verb in ("element", "all") and tensor.numel():
        value = _value(tensor, chance)
        changed = tensor.clone()
        if verb == "all" and not tensor.is_floating_point() and tensor.dtype != torch.bool and chance.random() < 0.5:
            return f"shifted by {value}", changed + value
        rows = changed.view(-1) if changed.is_contiguous() else changed.flatten()
        rows[slice(None) if verb == "all" else chance.choice((0, -1, chance.randrange(len(rows))))] = value
        return f"{verb} set to {value}", rows.view(tensor.shape)
    if verb == "dtype":
        dtype = chance.choice(DTYPES)
        return f"made {dtype}", tensor.to(dtype)
    first = tensor if tensor.dim() else tensor[None]
    changes: dict[str, Callable[[], Tensor]] = {
        "doubled": lambda: torch.cat([first, first]),
        "halved": lambda: first[: len(first) // 2],
        "emptied": lambda: first[:0],
        "longer": lambda: torch.cat([first, first[-1:]]),
        "shorter": lambda: first[:-1],
        "dimension": lambda: tensor[None],
        "flattened": tensor.flatten,
        "transposed": lambda: first.transpose(0, -1),
        "permuted": lambda: first[torch.randperm(len(first), generator=torch.Generator().manual_seed(1))],
    }
    return verb, changes[verb]() if verb in changes else tensor


def _value(tensor: Tensor, chance: random.Random) -> Any:
    """A hostile value of the tensor's type."""
    if tensor.dtype == torch.bool:
        return chance.random() < 0.5
    if tensor.is_floating_point():
        largest = torch.finfo(tensor.dtype).max
        choices = (1e38, -1e38, largest, -largest, 0.0, -1.0, 1e-40, 0.5, 1e9, float("nan"), float("inf"))
        return max(-largest, min(largest, value)) if (value := chance.choice(choices)) == value else value
    info = torch.iinfo(tensor.dtype)
    near = [tensor.numel(), len(tensor) if tensor.dim() else 1, int(tensor.max()) + 1 if tensor.numel() else 1]
    value = chance.choice([-1, 0, 1, *near, -(2**31), 2**31, 2**31 - 1, 2**62, -(2**62), info.max, info.min])
    return max(info.min, min(info.max, value))


def _mutate_json(path: Path, chance: random.Random) -> str:
    try:
        root = [json.loads(path.read_text())]
    except (ValueError, RecursionError):
        return _mutate_bytes(path, chance)
    nodes = [*_nodes(root)]
    if chance.random() < 0.6:  # mostly small containers: settings, not the thousands of values of a vocabulary
        nodes = [pair for pair in nodes if len(pair[0]) < 40] or nodes
    holder, key = chance.choice(nodes)
    old = repr(holder[key])[:40]
    verb = chance.choice((*["replaced"] * 6, "deep", "huge", "removed", "renamed", "added", "doubled", "negated"))
    value = chance.choice(JSON_VALUES)
    if verb in ("removed", "renamed"):
        moved = holder.pop(key)
        if verb == "renamed" and isinstance(holder, dict):
            holder[f"{key}x"] = moved
    elif verb == "added":
        if isinstance(holder, dict):
            holder["added"] = value
        else:
            holder.insert(key, value)
    elif verb == "doubled" and isinstance(holder[key], (str, list)):
        holder[key] = holder[key] * 2
    elif verb == "negated" and isinstance(holder[key], (int, float)):
        holder[key] = -holder[key]
    else:
        holder[key] = {"deep": "<deep>", "huge": "<huge>"}.get(verb, value)
    text = json.dumps(root[0]) if root else ""
    text = text.replace('"<deep>"', "[" * 10**5 + "]" * 10**5).replace('"<huge>"', "1" + "0" * 5000)
    path.write_text(text)
    return f"{path.name}: {key!r} ({old}) {verb} {repr(value)[:40]}"


def _nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """All (container, key) pairs of a JSON value, but those of the values inside a long list of texts."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield value, key
        yield from _nodes(child)


def _mutate_bytes(path: Path, chance: random.Random) -> str:
    data = bytearray(path.read_bytes())
    verb = chance.choice(("flipped", "flipped", "cut", "emptied", "grown", "zeroed", "header"))
    if verb == "flipped" and data:
        for _ in range(chance.choice((1, 1, 8))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif verb == "cut":
        del data[chance.randrange(len(data) + 1) :]
    elif verb == "emptied":
        data.clear()
    elif verb == "grown":
        data += chance.randbytes(100)
    elif verb == "zeroed" and data:
        begin = chance.randrange(len(data))
        data[begin : begin + 64] = bytes(len(data[begin : begin + 64]))
    elif data:  # a byte of the header of a safetensors file, or of what stands first
        data[chance.randrange(min(len(data), 400))] = chance.randrange(256)
    path.write_bytes(data)
    return f"{path.name}: bytes {verb}"


def _mutate_file(path: Path, chance: random.Random) -> str:
    verb = chance.choice(("removed", "emptied", "a folder", "of another file"))
    if verb == "of another file":
        other = chance.choice(sorted(one for one in path.parent.iterdir() if one.is_file()))
        path.write_bytes(other.read_bytes())
        return f"{path.name}: holds {other.name}"
    path.unlink()
    if verb == "emptied":
        path.touch()
    elif verb == "a folder":
        path.mkdir()
    return f"{path.name}: {verb}"


def run(root: Path, jobs: Iterable[tuple[str, int]], kernels: str, module: str) -> Iterator[Outcome]:
    """Mutate, load and use a folder for each job, in a worker that is started again where it dies.

    Args:
        root: folders of the families, by name.
        jobs: family and seed of each.
        kernels: ``ENSUE_KERNELS`` of the worker; empty for those of the processor.
        module: whose ``FAMILIES`` they are.
    """
    worker: subprocess.Popen[str] | None = None
    for family, seed in jobs:
        if worker is None:
            environment = {**os.environ, "ENSUE_KERNELS": kernels, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
            worker = subprocess.Popen(
                [sys.executable, "-m", "tests.mutations", str(root), module],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            )  # fmt: skip
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(f"{family} {seed}\n")
        worker.stdin.flush()
        ready, _, _ = select.select([worker.stdout], [], [], SECONDS)
        line = worker.stdout.readline() if ready else ""
        if line:
            yield Outcome(family, seed, *json.loads(line))
            continue
        if not ready:
            worker.kill()
        with _mutated(root / family, seed) as (_, mutation):
            yield Outcome(family, seed, "died" if ready else "hung", mutation, f"exit status {worker.wait()}")
        _close(worker)
        worker = None
    if worker is not None:
        _close(worker)


def _close(worker: subprocess.Popen[str]) -> None:
    for stream in (worker.stdin, worker.stdout):
        if stream is not None:
            stream.close()
    worker.wait()


@contextmanager
def _mutated(base: Path, seed: int) -> Iterator[tuple[Path, str]]:
    """A mutated copy of a folder, in an empty folder of its own, and what was changed."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        shutil.copytree(base, folder)
        yield folder, mutate(folder, seed)


def outcome(family: Family, base: Path, seed: int) -> tuple[str, str, str]:
    """Mutate a copy of a folder, use it, and return kind, mutation and detail."""
    with _mutated(base, seed) as (folder, mutation):
        kind = "refused"
        try:
            predictor = family.load(folder)
            kind = "refused later"
            family.exercise(predictor, folder.parent)
        except EnsueError as error:
            multiline = "\n" in str(error)
            return "exception" if multiline else kind, mutation, f"{type(error).__name__}: {error}"
        except Exception:  # noqa: BLE001  # the test is that there is none
            return "exception", mutation, traceback.format_exc()
        return "answered", mutation, ""


def main(root: Path, families: Mapping[str, Family]) -> None:
    """Answer each job on standard input by a line of JSON: its outcome."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + SPARE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        name, seed = line.split()
        sys.stdout.write(json.dumps(outcome(families[name], root / name, int(seed))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    from importlib import import_module

    all_families: Mapping[str, Family] = import_module(sys.argv[2]).FAMILIES
    if len(sys.argv) > 3:
        seen = outcome(all_families[sys.argv[3]], Path(sys.argv[1]) / sys.argv[3], int(sys.argv[4]))
        sys.stdout.write("\n".join((*seen, "")))
    else:
        main(Path(sys.argv[1]), all_families)
