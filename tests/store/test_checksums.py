"""Whatever a disk or a copy did to a model folder is refused in one line that names the file, or does no harm."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load as tensors_of

from ensue import History, ModelFolderError
from ensue.data.histories import Histories
from ensue.data.texts import Texts
from ensue.predictor import load, make
from ensue.store import versions
from ensue.store.checksums import FILE, digest, lines_of
from ensue.store.pack import tensor_bytes
from tests.tasks.classify.contract import planted as labelled
from tests.tasks.link.checks import planted as linked
from tests.tasks.suggest.contract import FLOOR, queries
from tests.tasks.suggest.contract import planted as typed

TINY = {"dim": 4, "epochs": 1}
MODELS: dict[str, tuple[str, dict[str, object], Callable[[], Any]]] = {
    "next": (
        "sansr",
        {**TINY, "negatives": 4},
        lambda: Histories.of([History(tuple("abcd")), History(tuple("bcda"))] * 20),
    ),
    "classify": ("mean", {**TINY, "hidden": 4, "head": 4}, lambda: Texts.of(labelled(60, 0))),
    "suggest": ("h-lstm", {**FLOOR, **TINY, "embedding": 4}, lambda: queries(typed(60, 0))),
    "link": ("cnn", {**TINY, "filters": 4}, linked),
}
FLIPS = 6
"""Bits flipped in each file, one at a time; of the first and the last byte at least one each."""


@pytest.fixture(scope="module", params=MODELS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model of each task, in a folder with checksums."""
    name, settings, data = MODELS[request.param]
    made = make(request.param, name, settings=settings, device="cpu")
    for _ in made.fit(data()):
        pass
    folder = tmp_path_factory.mktemp(request.param) / "m"
    made.save(folder, "# a card\n")
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "m")


def used(folder: Path) -> None:
    """Load a model with all that going on with it takes."""
    made: Any = load(folder, device="cpu")
    assert made.optimizer is not None


def refusal(folder: Path) -> str:
    with pytest.raises(ModelFolderError) as caught:
        used(folder)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    return message


def test_b2sum_of_the_coreutils_agrees(folder: Path) -> None:
    names = {line.split()[1] for line in (folder / FILE).read_text().splitlines()}
    assert names == {path.name for path in folder.iterdir()} - {FILE, "CARD.md"}
    subprocess.run(["b2sum", "--check", "--strict", "--quiet", FILE], cwd=folder, check=True)


def test_a_flipped_bit_is_refused_with_the_name_of_the_file(folder: Path) -> None:
    draw = random.Random(0)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for place in (0, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(FLIPS - 2))):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << draw.randrange(8)
            path.write_bytes(flipped)
            if path.name == "CARD.md":
                used(folder)
            else:
                assert (FILE if path.name == FILE else path.name) in refusal(folder), (path.name, place)
        path.write_bytes(whole)
    used(folder)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "link to a device"])
def test_what_is_no_file_is_refused_at_once(folder: Path, tmp_path: Path, kind: str) -> None:
    """A pipe that nobody writes to would be waited for without end."""
    if kind == "device" and os.geteuid():
        pytest.skip("only root makes devices")
    for path in sorted(folder.iterdir()):
        if path.name == "CARD.md":
            continue
        path.rename(tmp_path / "aside")
        put: dict[str, Callable[[Path], None]] = {
            "fifo": lambda at: os.mkfifo(at),
            "folder": lambda at: at.mkdir(),
            "device": lambda at: os.mknod(at, 0o20644, os.makedev(1, 7)),
            "link to a device": lambda at: at.symlink_to("/dev/zero"),
        }
        put[kind](path)
        assert f"{path}: is not a file" in refusal(folder)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        (tmp_path / "aside").rename(path)
    used(folder)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_number_are_refused(folder: Path, bad: float) -> None:
    """Though their checksum is right: somebody trained them so, or meant it."""
    path = folder / "model.safetensors"
    tensors = tensors_of(path.read_bytes())
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel())
    tensors[name].view(-1)[-1] = bad
    path.write_bytes(tensor_bytes(tensors))
    (folder / FILE).write_bytes(lines_of({found.name: digest([found.read_bytes()]) for found in folder.iterdir()}))
    assert refusal(folder) == f"{path}: {name} holds NaN or infinity; fit the model again"


def test_checksums_that_were_lost_are_missed(folder: Path) -> None:
    (folder / FILE).unlink()
    assert refusal(folder) == f"{folder}: {FILE} is missing; copy the folder again"


def test_a_file_without_a_checksum_is_refused(folder: Path) -> None:
    lines = (folder / FILE).read_text().splitlines(keepends=True)
    (folder / FILE).write_text("".join(line for line in lines if "model.safetensors" not in line))
    assert refusal(folder) == f"{folder}/model.safetensors: has no checksum in {FILE}; copy the folder again"


def test_a_damaged_version_is_not_put_back(folder: Path) -> None:
    versions.keep(folder)
    load(folder, device="cpu").save(folder)  # links of the kept version are broken by a new folder
    kept = folder.with_name("m.versions") / "1" / "model.safetensors"
    kept.write_bytes(kept.read_bytes()[:-1] + bytes([kept.read_bytes()[-1] ^ 1]))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ModelFolderError, match=r"1/model\.safetensors: damaged or edited"):
        versions.roll_back(folder, 1)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
