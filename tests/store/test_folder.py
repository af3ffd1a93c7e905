"""A model folder: the old one or the new one, never half; and whatever is no model folder is refused in one line."""

from __future__ import annotations

import json
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from ensue import History, ModelFolderError, predictor
from ensue.demo.cascades import CascadeWorld, make_cascades
from ensue.learning.state import module_of
from ensue.store import folder as folder_module
from ensue.store.folder import require_writable, write_file, write_folder
from ensue.store.pack import tensor_bytes
from ensue.tasks.next.predictor import NextPredictor
from tests.folders import put_vocabulary, resum

FILES = {
    "settings.json",
    "fitted.json",
    "model.safetensors",
    "baselines.safetensors",
    "optimizer.safetensors",
    "CARD.md",
    "B2SUMS",
}
TENSORS = sorted(name for name in FILES if name.endswith(".safetensors"))
HALF = "{0}: {1} is missing or unreadable (No such file or directory); the model folder is incomplete"
TAKEN = "{}: exists and is not a model folder; use another folder"


@pytest.fixture(scope="module")
def world() -> CascadeWorld:
    return make_cascades(num_users=16, num_cascades=60, seed=1)


@pytest.fixture(scope="module")
def trained(world: CascadeWorld) -> NextPredictor:
    return fitted(world, seed=0)


def fitted(world: CascadeWorld, seed: int, model: str = "hidan") -> NextPredictor:
    small: dict[str, Any] = {"dim": 8, "table_dim": 4, "epochs": 1} if model == "hidan" else {}
    predictor = NextPredictor(model, settings=small, seed=seed, device="cpu")
    for _ in predictor.fit(world.train, world.valid):
        pass
    return predictor


@pytest.fixture
def folder(trained: NextPredictor, tmp_path: Path) -> Path:
    trained.save(tmp_path / "m")
    return tmp_path / "m"


def load(folder: Path) -> Any:
    """The model of a folder whose checksums are right, whatever else was done to it."""
    return predictor.load(resum(folder), device="cpu")


def refusal(call: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(ModelFolderError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@contextmanager
def full_disk(bytes_left: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the kernel itself refuses the write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- written whole ---------------------------------------------------------------------------------------------------


def test_the_folder_holds_its_files_and_nothing_else_lies_beside_it(folder: Path) -> None:
    assert set(names(folder)) == FILES
    assert names(folder.parent) == ["m"]
    assert folder.stat().st_mode & 0o777 == 0o755


def test_nothing_in_it_is_pickled_or_packed(folder: Path) -> None:
    for name, data in contents(folder).items():
        assert not data.startswith((b"\x80", b"PK", b"\x1f\x8b", b"(", b"]")), name
        assert b"torch._utils" not in data
        if name.endswith(".safetensors"):  # 8 bytes of length, then a JSON header
            size = int.from_bytes(data[:8], "little")
            json.loads(data[8 : 8 + size])


def test_the_loaded_model_answers_as_the_saved_one(trained: NextPredictor, folder: Path, world: CascadeWorld) -> None:
    records = list(world.test.records())
    assert NextPredictor.load(folder).predict(records) == trained.predict(records)
    assert NextPredictor.load(folder).summary() == trained.summary()


def test_saving_what_was_loaded_gives_the_same_bytes(folder: Path) -> None:
    NextPredictor.load(folder).save(folder.with_name("again"))
    assert contents(folder.with_name("again")) == contents(folder)


def test_a_model_takes_the_place_of_an_older_one_whole(folder: Path, world: CascadeWorld) -> None:
    counted = fitted(world, seed=0, model="markov")
    counted.save(folder)
    assert set(names(folder)) == FILES - {"optimizer.safetensors", "model.safetensors"}
    assert NextPredictor.load(folder).model_name == "markov"
    assert names(folder.parent) == ["m"]


def test_missing_parents_are_made_and_an_empty_folder_is_taken(trained: NextPredictor, tmp_path: Path) -> None:
    trained.save(tmp_path / "a" / "b" / "m")
    (tmp_path / "empty").mkdir()
    trained.save(tmp_path / "empty")
    assert set(names(tmp_path / "empty")) == set(names(tmp_path / "a" / "b" / "m")) == FILES


def test_a_link_to_a_folder_stays_a_link(trained: NextPredictor, folder: Path) -> None:
    link = folder.with_name("current")
    link.symlink_to("m")
    (folder / "CARD.md").write_text("old")
    trained.save(link, "new")
    assert link.is_symlink()
    assert (folder / "CARD.md").read_text() == "new"
    assert names(folder.parent) == ["current", "m"]


def test_the_working_folder_itself_can_be_written(
    trained: NextPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    require_writable(Path())
    trained.save(".")
    assert set(names(tmp_path / "here")) == FILES


def test_where_two_folders_cannot_be_swapped_two_renames_do(
    trained: NextPredictor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ensue.store.swap.ctypes.CDLL", lambda *_, **__: object())
    trained.save(folder, "new")
    assert (folder / "CARD.md").read_text() == "new"
    assert names(folder.parent) == ["m"]


def test_a_reader_never_sees_half_a_folder_or_two_halves(world: CascadeWorld, tmp_path: Path) -> None:
    models = {seed: fitted(world, seed) for seed in (0, 1)}
    expected = {seed: dict(module_of(model.network).state_dict()) for seed, model in models.items()}
    folder, over, problems, seen = tmp_path / "m", threading.Event(), list[str](), set[int]()
    models[0].save(folder)

    def read() -> None:
        while not over.is_set():
            try:
                found = NextPredictor.load(folder)
            except Exception as error:  # noqa: BLE001
                problems.append(repr(error))
                continue
            seen.add(found.seed)
            if not same(dict(module_of(found.network).state_dict()), expected[found.seed]):
                problems.append(f"the settings of seed {found.seed} with the weights of the other")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(50):
        models[number % 2].save(folder)
    over.set()
    for reader in readers:
        reader.join()
    assert problems == []
    assert seen == {0, 1}


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> bool:
    return all(torch.equal(found[name], tensor) for name, tensor in expected.items())


# --- the old one survives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_left", [0, 100, 3000])
def test_on_a_full_disk_the_old_folder_stands(trained: NextPredictor, folder: Path, bytes_left: int) -> None:
    before = contents(folder)
    with full_disk(bytes_left):
        message = refusal(trained.save, folder, "new")
    assert message == f"{folder}: cannot be saved (File too large); the existing file is unchanged"
    assert contents(folder) == before
    assert names(folder.parent) == ["m"]


def test_on_a_full_disk_no_new_folder_appears(trained: NextPredictor, tmp_path: Path) -> None:
    with full_disk(100):
        refusal(trained.save, tmp_path / "m")
    assert names(tmp_path) == []


def test_on_a_full_disk_the_old_file_stands(tmp_path: Path) -> None:
    path = tmp_path / "c"
    write_file(path, b"old")
    with full_disk(100):
        message = refusal(write_file, path, b"new" * 100)
    assert message == f"{path}: cannot be written (File too large); the existing file is unchanged"
    assert contents(tmp_path) == {"c": b"old"}


@pytest.mark.parametrize("swap", [True, False])
def test_when_the_last_step_fails_the_old_folder_stands(
    trained: NextPredictor, folder: Path, monkeypatch: pytest.MonkeyPatch, swap: bool
) -> None:
    before = contents(folder)
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if Path(target) == folder and self.suffix == ".tmp":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    if swap:
        monkeypatch.setattr("ensue.store.folder.put_in_place", refuse)
    else:
        monkeypatch.setattr("ensue.store.swap.ctypes.CDLL", lambda *_, **__: object())
        monkeypatch.setattr(Path, "rename", refuse)
    message = refusal(trained.save, folder)
    monkeypatch.undo()
    assert message == f"{folder}: cannot be saved (Input/output error); the existing file is unchanged"
    assert contents(folder) == before
    assert names(folder.parent) == ["m"]


def test_a_parent_that_may_not_be_written(
    trained: NextPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = tmp_path / "locked"
    parent.mkdir()
    if os.geteuid():
        parent.chmod(0o555)
    else:  # root may write anywhere

        def forbid(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(folder_module, "create_folder", forbid)
    expected = f"{parent}/m: cannot be written here (Permission denied); use another folder"
    assert refusal(trained.save, parent / "m") == expected
    assert refusal(require_writable, parent / "m") == expected
    parent.chmod(0o755)
    assert names(parent) == []


def test_a_file_in_place_of_the_parent(trained: NextPredictor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    message = refusal(require_writable, tmp_path / "file" / "m")
    assert message == f"{tmp_path}/file/m: cannot be written here (File exists); use another folder"
    message = refusal(write_file, tmp_path / "file" / "c", b"")
    assert message.endswith("the existing file is unchanged")
    assert contents(tmp_path) == {"file": b"in the way"}


# --- what is no model is not overwritten -----------------------------------------------------------------------------


def foreign_folder(place: Path) -> None:
    place.mkdir()
    (place / "thesis.tex").write_text("years of work")


def foreign_settings(place: Path) -> None:
    """Such as an editor's folder."""
    foreign_folder(place)
    (place / "settings.json").write_text('{"editor.fontSize": 12}')


def broken_settings(place: Path) -> None:
    foreign_folder(place)
    (place / "settings.json").write_text("// comments are not JSON")


def foreign_file(place: Path) -> None:
    place.write_text("years of work")


@pytest.mark.parametrize("make", [foreign_folder, foreign_settings, broken_settings, foreign_file])
def test_what_is_no_model_folder_is_not_overwritten(
    trained: NextPredictor, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    place = tmp_path / "m"
    make(place)
    before = contents(place) if place.is_dir() else place.read_bytes()
    assert refusal(require_writable, place) == TAKEN.format(place)
    assert refusal(trained.save, place) == TAKEN.format(place)
    assert refusal(write_folder, place, {"a": b""}) == TAKEN.format(place)
    assert (contents(place) if place.is_dir() else place.read_bytes()) == before
    assert names(tmp_path) == ["m"]


def test_require_writable_leaves_no_trace(folder: Path) -> None:
    before = contents(folder)
    require_writable(folder)
    require_writable(folder.with_name("new"))
    assert names(folder.parent) == ["m"]
    assert contents(folder) == before


# --- what cannot be read ---------------------------------------------------------------------------------------------


def test_no_such_folder(tmp_path: Path) -> None:
    expected = "{0}: no such model folder; make one with `ensue fit TASK DATA -o {0}`"
    assert refusal(load, tmp_path / "none") == expected.format(tmp_path / "none")
    (tmp_path / "file").write_text("")
    said = "is a file, not a model folder; give the folder that `ensue fit` wrote first"
    assert refusal(load, tmp_path / "file") == f"{tmp_path / 'file'}: {said}"


@pytest.mark.parametrize("name", sorted(FILES - {"CARD.md", "B2SUMS"}))
def test_each_file_missing_in_turn(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert refusal(load, folder) == HALF.format(folder, name)


def test_the_card_is_for_people_and_not_needed(folder: Path, trained: NextPredictor) -> None:
    (folder / "CARD.md").unlink()
    assert NextPredictor.load(folder).summary() == trained.summary()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "/settings.json: not JSON ("),
        ("{", "/settings.json: not JSON ("),
        (b"\xff\xfe", "/settings.json: not JSON ("),
        ("[" * 100_000, "/settings.json: not JSON ("),
        ("[]", "/settings.json: not written by ensue; give a folder made by `ensue fit`"),
        ('"text"', "/settings.json: not written by ensue; give a folder made by `ensue fit`"),
        ('{"task": "next"}', "/settings.json: not written by ensue; give a folder made by `ensue fit`"),
    ],
)
def test_settings_that_are_not_ours(folder: Path, text: str | bytes, expected: str) -> None:
    (folder / "settings.json").write_bytes(text.encode() if isinstance(text, str) else text)
    message = refusal(load, folder)
    assert message.startswith(f"{folder}{expected}")
    if expected.endswith("("):
        assert message.endswith("); the folder is damaged")
    else:
        assert message == f"{folder}{expected}"


def change(folder: Path, **changes: Any) -> None:
    path = folder / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_newer_format_is_refused(folder: Path) -> None:
    change(folder, ensue="7.0", format=99)
    expected = f"{folder}: written by ensue 7.0 in format 99, this version reads format 2; fit the model again"
    assert refusal(load, folder) == expected
    change(folder, format="99")
    assert refusal(load, folder) == expected


@pytest.mark.parametrize("task", ["nonsense", "../next", ["next"], None, {"a": 1}])
def test_an_unknown_task_is_refused(folder: Path, task: Any) -> None:
    change(folder, task=task)
    assert refusal(load, folder) == f"{folder}: task {task!r} is not known to this version; update ensue"


MALICIOUS = ["os.system", "__import__('os').abort()", "../../etc/passwd", "ensue.cli:main", "best\nx", ["hidan"], {}, 1]


@pytest.mark.parametrize("model", MALICIOUS)
def test_a_model_name_is_looked_up_and_never_run(folder: Path, model: Any) -> None:
    change(folder, model=model)
    message = refusal(load, folder)
    said = f"model {model!r} is not known for task next; for a class of your own, give its file again"
    assert message.startswith(f"{folder}: {said}" if isinstance(model, str | int) else f"{folder}: damaged (")


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"dim": 16}},
        {"settings": {"dim": "wide"}},
        {"settings": {"__class__": "x"}},
        {"settings": None},
        {"settings": "text"},
        {"schedule": 3},
        {"schedule": {"epochs": 0}},
        {"seed": "x"},
        {"seed": -1},
        {"facts": None},
        {"facts": {}},
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(folder: Path, changes: dict[str, Any]) -> None:
    change(folder, **changes)
    message = refusal(load, folder)
    assert message.startswith(f"{folder}: damaged (")
    assert message.endswith("); fit the model again or copy it again")


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("size", [0, 7, 60, -1])
def test_truncated_tensors(folder: Path, name: str, size: int) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:size])
    message = refusal(load, folder)
    assert message.startswith(f"{folder}/{name}: damaged (")
    assert message.endswith("); fit the model again or copy it again")


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_of_something_else(folder: Path, name: str) -> None:
    (folder / name).write_bytes(tensor_bytes({"users.weight": torch.zeros(3)}))
    assert refusal(load, folder).startswith(f"{folder}: damaged (")


@pytest.mark.parametrize("model", ["hidan", "popularity", "markov", "rules", "cooccurrence", "vsknn"])
@pytest.mark.parametrize("fault", ["shorter", "longer", "double", "empty"])
def test_a_vocabulary_of_the_wrong_length(
    trained: NextPredictor, world: CascadeWorld, tmp_path: Path, model: str, fault: str
) -> None:
    folder = tmp_path / "m"
    (trained if model == "hidan" else fitted(world, 0, model)).save(folder)
    values = [*NextPredictor.load(folder).vocabulary.values]
    values = {"shorter": values[:-1], "longer": [*values, "x"], "double": [values[0], *values[:-1]], "empty": []}[fault]
    put_vocabulary(folder, values)
    message = refusal(load, folder)
    assert message.startswith(f"{folder}: damaged (")


@pytest.mark.parametrize("text", ["", "{}", "3", '{"a": 1}', "[1, 2]", "[[]]", "null", "[" * 100_000])
def test_a_tree_that_is_none(folder: Path, text: str) -> None:
    (folder / "fitted.json").write_text(text)
    resum(folder)
    assert refusal(load, folder).startswith(f"{folder}: damaged (")


def test_a_damaged_folder_can_be_replaced_by_fitting_again(trained: NextPredictor, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    trained.save(folder)
    assert NextPredictor.load(folder).predict([History(("u001",))], 1) == trained.predict([History(("u001",))], 1)


def test_a_file_that_is_made_as_it_is_written_has_the_bytes_of_one_made_at_once() -> None:
    kinds = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16)
    made = {f"b.{kind}".removeprefix("torch."): torch.arange(6).view(2, 3).to(kind) for kind in kinds}
    more = {
        "é": torch.zeros(0, 4),
        "a": torch.tensor(3),
        "c": torch.tensor([True]),
        "u": torch.ones(5, dtype=torch.uint8),
    }
    tensors = {**made, **more, "i8": torch.ones(5, dtype=torch.int8), "turned": torch.arange(6.0).view(2, 3).T}
    plain = {name: tensor.contiguous() for name, tensor in tensors.items()}
    for metadata in ({}, {"one": "two"}):
        assert tensor_bytes(tensors, metadata) == save(plain, metadata)
