"""A folder from a stranger, its checksums right: refused in one line at once, or it answers; nothing waits."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from ensue import History, ModelFolderError, Text
from ensue.data.histories import Histories
from ensue.data.texts import Texts
from ensue.lines import decode_json
from ensue.predictor import load, make
from ensue.store import checksums
from ensue.store.card import read_scores
from ensue.store.folder import clone_folder, read_settings
from ensue.store.pack import read_tensors
from tests.folders import resum


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model that only counts, for it is quick to make."""
    made = make("next", "markov")
    for _ in made.fit(Histories.of([History(("a", "b")), History(("a", "b"))])):
        pass
    made.save(tmp_path / "m", "# a card\n")
    return tmp_path / "m"


def refusal(call: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(ModelFolderError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 600
    return message


# --- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": 9223372036854775808}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": "\\ud800"}',
        '{"\\uDFFF": 1}',
        "[" * 33 + "]" * 33,
        '{"a":' * 5000 + "1" + "}" * 5000,
        "\ufeff{}",
    ],
)
def test_json_that_some_reader_takes_otherwise_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_json(text.encode())


def test_json_of_ours_is_read() -> None:
    value = {"a": [1, 2.5, None, True, "é", "😀"], "b": {"c": -(2**63)}}
    assert (
        decode_json(json.dumps(value).encode()) == value == decode_json(json.dumps(value, ensure_ascii=False).encode())
    )
    assert decode_json(b"[" * 32 + b"]" * 32)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ensue", 3),
        ("ensue", None),
        ("format", True),
        ("format", 0),
        ("format", 1.0),
        ("model", ["markov"]),
        ("model", "markov\nx"),
        ("settings", []),
        ("schedule", []),
        ("schedule", "x"),
        ("seed", True),
        ("seed", 1.5),
        ("seed", -1),
        ("seed", None),
        ("facts", []),
        ("facts", "x\n\u001b[31m"),
    ],
)
def test_every_value_of_the_settings_has_its_type(folder: Path, key: str, value: object) -> None:
    path = folder / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert refusal(load, resum(folder)).startswith(f"{folder}")


# --- files that are none ---------------------------------------------------------------------------------------------


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


NONE = [fifo, listening, Path.mkdir, loop, device]


@pytest.mark.parametrize("put", NONE)
@pytest.mark.parametrize("name", ["settings.json", "fitted.json", "baselines.safetensors", "B2SUMS"])
def test_what_is_no_file_is_refused_at_once(folder: Path, name: str, put: Callable[[Path], None]) -> None:
    (folder / name).unlink()
    put(folder / name)
    assert name in refusal(load, folder)


@pytest.mark.parametrize("put", NONE)
def test_a_card_that_is_no_file_is_as_none(folder: Path, put: Callable[[Path], None]) -> None:
    (folder / "CARD.md").unlink()
    put(folder / "CARD.md")
    assert read_scores(folder) is None
    assert load(folder).predict([History(("a",))], 1)[0].choices[0].value == "b"
    clone_folder(folder, folder.with_name("copy"))
    assert load(folder.with_name("copy")).predict([History(("a",))], 1)[0].choices[0].value == "b"


def test_files_larger_than_can_be_are_not_read(folder: Path) -> None:
    """Sparse files, which take no room on the disk of whoever sends them."""
    for name, size in (("B2SUMS", 2**40), ("settings.json", 2**40), ("fitted.json", 2**40)):
        whole = (folder / name).read_bytes()
        os.truncate(folder / name, size)
        assert f"{folder}/{name}: " in refusal(load, folder)
        (folder / name).write_bytes(whole)
    assert load(folder).model_name == "markov"


@pytest.mark.parametrize("name", ["../other", "/etc/passwd", "a b", "a\nb", "a\x1b[31m", ".hidden", "", "é"])
def test_names_that_are_none_of_ours_are_refused(folder: Path, name: str) -> None:
    path = folder / "B2SUMS"
    path.write_text(path.read_text() + f"{'0' * 64}  {name}\n")
    assert refusal(read_settings, folder).startswith(f"{path}: damaged (a line is not a checksum and a name")


def test_a_name_twice_is_refused(folder: Path) -> None:
    path = folder / "B2SUMS"
    path.write_text(path.read_text() + path.read_text())
    assert refusal(load, folder).startswith(f"{path}: damaged (")


def test_only_files_with_a_checksum_and_the_card_are_copied(folder: Path) -> None:
    (folder / "a\nb").write_text("x")
    os.mkfifo(folder / "pipe")
    (folder / "fitted.json").rename(folder.with_name("aside"))
    (folder / "fitted.json").symlink_to("../aside")
    clone_folder(folder, folder.with_name("copy"))
    copied = {path.name for path in folder.with_name("copy").iterdir()}
    assert copied == {*checksums.sums_of(folder), "B2SUMS", "CARD.md"}
    assert not (folder.with_name("copy") / "fitted.json").is_symlink()


# --- tensors ---------------------------------------------------------------------------------------------------------


def header(fields: dict[str, object], data: bytes = b"") -> bytes:
    text = json.dumps(fields).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "U16", "U32", "U64", "C64", "F4", "X"])
def test_types_that_are_never_saved_are_refused(folder: Path, dtype: str) -> None:
    (folder / "x.safetensors").write_bytes(header({"a": entry(dtype, [1], 0, 8)}, bytes(8)))
    for size in (1, 2, 4, 8):
        data = header({"a": entry(dtype, [8 // size], 0, 8)}, bytes(8))
        (folder / "x.safetensors").write_bytes(data)
        assert "x.safetensors" in refusal(read_tensors, resum(folder), "x.safetensors")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(8),
        (2**63).to_bytes(8, "little"),
        header({"a": entry("F32", [2**62, 0], 0, 0)}),
        header({"a": entry("F32", [2**32, 2**32, 0], 0, 0)}),
        header({"a": entry("F32", [2**61], 0, 8)}, bytes(8)),
        header({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, bytes(12)),
        header({"a": entry("F32", [2], 4, 12)}, bytes(12)),
        header({"a": entry("F32", [1], 0, 4)}, bytes(400)),
    ],
)
def test_headers_that_lie_are_refused(folder: Path, data: bytes) -> None:
    (folder / "x.safetensors").write_bytes(data)
    assert "x.safetensors" in refusal(read_tensors, resum(folder), "x.safetensors")


def test_a_file_without_tensors_is_of_no_model(folder: Path) -> None:
    whole = (folder / "baselines.safetensors").read_bytes()
    (folder / "baselines.safetensors").write_bytes(save({}))
    assert refusal(load, resum(folder)).startswith(f"{folder}: damaged (")
    (folder / "baselines.safetensors").write_bytes(whole)
    (folder / "x.safetensors").write_bytes(save({"a": torch.zeros(0, 3)}))
    assert read_tensors(resum(folder), "x.safetensors")["a"].shape == (0, 3)


# --- code ------------------------------------------------------------------------------------------------------------


def test_a_file_of_code_is_run_only_where_it_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder names a file beside it, and one inside it, in every way that the command line would take."""
    monkeypatch.chdir(tmp_path)
    code = "class Evil:\n    SETTINGS = SCHEDULE = None\nopen('ran', 'w')\n"
    (tmp_path / "evil.py").write_text(code)
    (folder / "evil.py").write_text(code)
    path = folder / "settings.json"
    saved = json.loads(path.read_text())
    for model in ("evil.py:Evil", "./evil.py:Evil", f"{tmp_path}/evil.py:Evil", f"{folder}/evil.py:Evil", "Evil"):
        path.write_text(json.dumps({**saved, "model": model}))
        assert refusal(load, resum(folder)).startswith(f"{folder}: model {model!r} is not known for task next")
    assert not (tmp_path / "ran").exists()


def test_a_pooling_of_a_folder_is_no_file_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = make("classify", "mean", settings={"dim": 4, "hidden": 4, "head": 4, "epochs": 1}, device="cpu")
    list(predictor.fit(Texts.of([Text(("good film",), "yes"), Text(("bad film",), "no")] * 10)))
    predictor.save(tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("open('ran', 'w')\n")
    path = tmp_path / "m" / "settings.json"
    saved = json.loads(path.read_text())
    for pooling in ("evil.py:Evil", "./evil.py:Evil", f"{tmp_path}/evil.py:Evil", "Evil"):
        path.write_text(json.dumps({**saved, "settings": {**saved["settings"], "pooling": pooling}}))
        assert refusal(load, resum(tmp_path / "m")).startswith(f"{tmp_path / 'm'}: pooling is {pooling!r}; for a class")
    assert not Path("ran").exists()
