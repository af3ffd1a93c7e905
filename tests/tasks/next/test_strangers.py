"""Folders of task ``next`` with valid checksums and tensors that lie: refused before anything is computed."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ensue import History, ModelFolderError, SettingError
from ensue.data.histories import Histories
from ensue.predictor import load, make
from ensue.store.pack import TABLES, TREE
from ensue.tasks.next import item_index
from ensue.tasks.next import state as next_state
from ensue.tasks.next.predictor import NextPredictor
from tests.cli.conftest import run
from tests.folders import put_vocabulary, resum
from tests.kernels.paths import on_both_paths
from tests.tasks.next.contract import network_of

SESSIONS = [History(tuple(f"v{(start + step) % 20}" for step in range(2 + start % 4))) for start in range(40)]
Tensors = dict[str, Tensor]


def saved(folder: Path, model: str, **settings: object) -> Path:
    predictor = make("next", model, settings=settings, device="cpu")
    for _ in predictor.fit(Histories.of(SESSIONS)):
        pass
    predictor.save(folder)
    return folder


@pytest.fixture
def vsknn(tmp_path: Path) -> Path:
    return saved(tmp_path / "m", "vsknn")


@pytest.fixture
def core(tmp_path: Path) -> Path:
    return saved(tmp_path / "m", "core", dim=4, epochs=1, refit=False)


def edit(folder: Path, name: str, change: Callable[[Tensors], object]) -> None:
    """Change the tensors of a file in place and make the checksums those of what is there."""
    tensors = load_file(folder / name)
    change(tensors)
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / name)
    resum(folder)


def edit_fitted(folder: Path, prefix: str, change: Callable[[Tensors], object]) -> None:
    """Change the packed tensors of one part, and what the tree says of their types and shapes."""
    tables, tree = load_file(folder / TABLES), json.loads((folder / TREE).read_text())
    part = {key.removeprefix(prefix): tables.pop(key) for key in list(tables) if key.startswith(prefix)}
    change(part)
    for key, tensor in part.items():
        *path, last = f"{prefix}{key}".split(".")
        node = reduce(lambda node, name: node[name], path, tree)
        if isinstance(node, dict):  # texts are two tensors
            node[last] = f"{str(tensor.dtype).removeprefix('torch.')}{[*tensor.shape]}"
    save_file(tables | {f"{prefix}{key}": tensor.contiguous() for key, tensor in part.items()}, folder / TABLES)
    (folder / TREE).write_text(json.dumps(tree))
    resum(folder)


def edit_settings(folder: Path, change: Callable[[dict[str, dict[str, object]]], object]) -> None:
    settings = json.loads((folder / "settings.json").read_text())
    change(settings)
    (folder / "settings.json").write_text(json.dumps(settings))
    resum(folder)


def put(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.update({name: change(tensors[name])})


def last(own: Tensor) -> Tensor:
    return torch.tensor(len(own) - 1)


def last_items(value: int) -> Callable[[Tensors], object]:
    """Replace the last item of every session."""
    return lambda tensors: tensors["items"].index_fill_(0, tensors["starts"][1:] - 1, value)


LIES: dict[str, tuple[Callable[[Tensors], object], str]] = {
    "an item far outside": (last_items(2**31 - 1), r"items holds 2147483647, outside \[2, 22\)"),
    "an item just outside": (last_items(22), r"items holds 22, outside \[2, 22\)"),
    "a negative item": (last_items(-5), r"items holds -5, outside \[2, 22\)"),
    "padding as an item": (last_items(0), r"items holds 0, outside \[2, 22\)"),
    "starts that do not begin at 0": (put("starts", lambda own: own + 7), "starts does not lead from 0 to"),
    "starts that end elsewhere": (put("starts", lambda own: own.index_fill(0, last(own), 2**60)), "starts does not"),
    "starts that fall": (put("starts", lambda own: torch.cat([own[:1], own[1:-1].flip(0), own[-1:]])), "starts falls"),
    "starts twice as long": (put("starts", lambda own: torch.cat([own, own])), "starts does not lead|starts falls"),
    "items twice in a session": (put("items", lambda own: torch.full_like(own, 4)), "does not rise"),
    "holders of another type": (put("holders", lambda own: own.to(torch.int8)), r"holders: is int8\[22\], not float32"),
    "items of another type": (put("items", lambda own: own.long()), r"items: is int64\[\d+\], not int32"),
    "fewer holders": (put("holders", lambda own: own[:-1]), r"holders is float32 of shape \(21,\)"),
    "negative counts": (put("totals", lambda own: -own), "totals holds -.*not a count"),
    "a tensor that is missing": (lambda tensors: tensors.pop("holders"), "vsknn.holders: its array is missing"),
    "a tensor that is not known": (lambda tensors: tensors.update(more=torch.zeros(1)), "vsknn.more: is not known"),
}  # fmt: skip


@on_both_paths
@pytest.mark.parametrize("name", LIES)
def test_tables_of_sessions_that_lie_are_refused(vsknn: Path, name: str) -> None:
    change, reason = LIES[name]
    edit_fitted(vsknn, "vsknn.", change)
    with pytest.raises(ModelFolderError, match=rf"damaged \(.*{reason}"):
        load(vsknn)


def test_command_line_refuses_a_lying_table_in_one_line(vsknn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit_fitted(vsknn, "vsknn.", last_items(10**9))
    ran = run(monkeypatch, "predict", vsknn, "-", stdin='{"values": ["v1", "v2"]}\n')
    said = "damaged (vsknn: items holds 1000000000, outside [2, 22)); fit the model again or copy it again"
    assert ran == (2, "", f"ensue: {vsknn}: {said}\n")


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("markov.columns", lambda own: own.index_fill(0, torch.tensor(0), 2**31 - 1), "markov: columns holds 2"),
        ("rules.rows", lambda own: own[:-1], "rules: rows is int64 of shape"),
        ("cooccurrence.counts", lambda own: own[:-1], "cooccurrence: counts is float32"),
        ("interpolated.recent.lately", lambda own: torch.cat([own, own]), "recent: lately is float64"),
        ("interpolated.numbers", torch.zeros_like, "interpolated: numbers is 0, outside"),
        ("own_items.repeats.again", lambda own: own + 10**6, "more repeats than steps"),
        ("length_delay.ended", lambda own: own + 10**6, "more ends than histories"),
        ("popularity.totals", lambda own: own + 1, "popularity: totals counts padding"),
        ("training_hashes", lambda own: own.float(), "training_hashes: is float32"),
    ],
)  # fmt: skip
def test_baselines_that_lie_are_refused(
    vsknn: Path, name: str, change: Callable[[Tensor], Tensor], reason: str
) -> None:
    edit_fitted(vsknn, "", put(name, change))
    with pytest.raises(ModelFolderError, match=rf"damaged \(.*{reason}"):
        load(vsknn)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Leave one GiB of address space beside what is taken."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("setting", ["dim", "max_length"])
@pytest.mark.usefixtures("little_memory")
def test_sizes_in_settings_are_compared_before_anything_is_allocated(core: Path, setting: str) -> None:
    edit_settings(core, lambda settings: settings["settings"].update({setting: 10**9}))
    with pytest.raises(ModelFolderError, match=r"damaged \(a tensor of .* does not fit the tables of the folder\)"):
        load(core)


@pytest.mark.usefixtures("little_memory")
def test_a_window_of_a_folder_allocates_nothing(vsknn: Path) -> None:
    tree = json.loads((vsknn / TREE).read_text())
    tree["vsknn"]["settings"] = {"window": 10**9, "sample": 10**9, "neighbours": 10**9}
    (vsknn / TREE).write_text(json.dumps(tree))
    resum(vsknn)
    (answer,) = load(vsknn).predict([History(("v3", "v4"))], 1)
    assert answer.choices[0].value == "v5"


@pytest.mark.parametrize(
    ("fact", "value"), [("sequences", -1), ("events", "7"), ("repeats", 3), ("timed", None), ("to_dict", 1)]
)
def test_facts_of_another_type_are_refused(core: Path, fact: str, value: object) -> None:
    edit_settings(core, lambda settings: settings["facts"].update({fact: value}))
    with pytest.raises(ModelFolderError, match=rf"damaged \(facts\.{fact}: "):
        load(core)


@pytest.mark.parametrize(
    ("values", "reason"),
    [(["v0"] * 20, "holds a text twice"), ([f"v{number}" for number in range(21)], "counts 22 ids, but there are 23")],
)
def test_a_vocabulary_that_does_not_fit_is_refused(vsknn: Path, values: list[str], reason: str) -> None:
    put_vocabulary(vsknn, values)
    with pytest.raises(ModelFolderError, match=reason):
        load(vsknn)


def test_weights_whose_products_overflow_are_refused_at_the_answer(core: Path) -> None:
    edit(core, "model.safetensors", put("prior", lambda own: torch.full_like(own, 3e38)))
    predictor = load(core)
    with pytest.raises(SettingError, match="scores are not finite numbers"):
        predictor.predict([History(("v1",))], 2)


@pytest.mark.parametrize("field", ["exp_avg", "exp_avg_sq", "step"])
def test_moments_that_do_not_fit_are_refused_at_the_update(core: Path, field: str) -> None:
    edit(core, "optimizer.safetensors", put(f"wide.bias.{field}", lambda own: torch.cat([own[None], own[None]])))
    predictor = load(core)
    assert predictor.predict([History(("v1",))], 2)[0].choices
    with pytest.raises(ModelFolderError, match=rf"damaged \(wide.bias.{field} is"):
        predictor.update(Histories.of(SESSIONS[:4]))


@pytest.fixture
def indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("faiss", reason="the extra ann is not there")
    monkeypatch.setattr(next_state, "LARGE", 5)
    monkeypatch.setattr(item_index, "ROWS_PER_LIST", 3)
    return saved(tmp_path / "m", "bpr-mf", dim=5, epochs=1, refit=False)


def test_an_index_comes_back_from_its_tensors(indexed: Path) -> None:
    predictor, tensors = NextPredictor.load(indexed), load_file(indexed / item_index.FILE)
    assert predictor.index is not None and predictor.index.facts.lists == 4
    again = predictor.index.arrays()
    assert tensors.keys() == again.keys() and all(np.array_equal(tensors[name], again[name]) for name in tensors)
    counts = torch.bincount(tensors["list"], minlength=4)
    assert int(counts.sum()) == 20 and tensors["codes"].shape == (20, 2)
    # The nearest centroid of each item is the list that it stands in.
    vectors = torch.nn.functional.pad(network_of(predictor).items.weight[2:], (0, 1))
    assert np.array_equal((vectors.detach() @ tensors["centroids"].T).argmax(1), tensors["list"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("list", lambda own: own + 1), r"list holds 4, outside \[0, 4\)"),
        (put("list", lambda own: own - 1), r"list holds -1, outside \[0, 4\)"),
        (put("list", lambda own: own[:-1]), "list is int32 of shape"),
        (put("codes", lambda own: own[:, :1]), "codes is uint8 of shape"),
        (put("words", lambda own: own[:1]), "centroids is float32 of shape"),
        (put("centroids", lambda own: own[:1]), "centroids is float32 of shape"),
    ],
)
def test_an_index_that_lies_is_refused(indexed: Path, change: Callable[[Tensors], object], reason: str) -> None:
    edit(indexed, item_index.FILE, change)
    with pytest.raises(ModelFolderError, match=rf"damaged \(.*{reason}"):
        load(indexed)


@pytest.mark.parametrize(("size", "value"), [("items", 21), ("lists", 0), ("probed", 5), ("sample", 99)])
def test_sizes_of_an_index_that_lie_are_refused(indexed: Path, size: str, value: object) -> None:
    def change(settings: dict[str, dict[str, object]]) -> None:
        index = settings["facts"]["index"]
        assert isinstance(index, dict)
        index[size] = value

    edit_settings(indexed, change)
    with pytest.raises(ModelFolderError, match=rf"{size} of the index is {value}; it must be from 1 to"):
        load(indexed)
