"""A packed value comes back equal, and what a stranger wrote is refused in one line that names the place."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
import torch
from pydantic import Field
from safetensors.torch import load
from torch import Tensor

from ensue.store.pack import TensorFile, pack, unpack
from ensue.vocabulary import Vocabulary


class Colour(StrEnum):
    RED = "red"


class Linear(NamedTuple):
    weight: Annotated[Tensor, torch.float64, torch.float32]
    num_texts: Annotated[int, Field(ge=0)] = 0


@dataclass(eq=False)
class Counts:
    totals: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]

    def __post_init__(self) -> None:
        if len(self.totals) != len(self.keys):
            raise ValueError(f"{len(self.totals)} totals where {len(self.keys)} items are in the vocabulary")


@dataclass(eq=False)
class Fitted:
    items: Vocabulary
    titles: pl.Series
    counts: dict[str, Counts]
    sides: tuple[Linear, ...]
    words: frozenset[str]
    kind: Literal["a", "b"]
    colour: Colour = Colour.RED
    rate: float = 0.5
    extra: Counts | None = None
    notes: list[str] = field(default_factory=list)


def fitted() -> Fitted:
    counts = Counts(np.arange(2), np.array([1, 2**64 - 1], np.uint64))
    sides = (Linear(torch.tensor([0.5, 0.25]).double(), 7), Linear(torch.zeros(1, 2).double()))
    return Fitted(Vocabulary(["é", "🏳️", "b"]), pl.Series(["x", "", "x"]), {"one": counts}, sides, frozenset("zyx"), "a")


def test_empty_tables_are_written() -> None:
    value = Counts(np.empty(0, np.int64), np.empty(0, np.uint64))
    assert load(b"".join(TensorFile(pack(value)[1])))["totals"].shape == (0,)


def test_a_value_comes_back_and_defaults_are_left_out() -> None:
    value = fitted()
    tree, tensors = pack(value)
    assert tree == {
        "items": "text[3]",
        "titles": "text[3]",
        "counts": {"one": {"totals": "int64[2]", "keys": "int64[2]"}},
        "sides": [{"weight": "float32[2]", "num_texts": 7}, {"weight": "float32[1, 2]"}],
        "words": ["x", "y", "z"],
        "kind": "a",
    }
    again = unpack(Fitted, tree, tensors)
    assert again.items == value.items and again.titles.to_list() == ["x", "", "x"]
    assert again.counts["one"].keys.tolist() == [1, 2**64 - 1] and again.counts["one"].keys.dtype == np.uint64
    assert again.sides[0].weight.equal(value.sides[0].weight) and again.sides[0].num_texts == 7
    assert (again.words, again.kind, again.colour, again.rate, again.extra) == (value.words, "a", "red", 0.5, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kinds": 1}, "kinds: is not known"),
        ({"kind": ...}, "kind: is missing"),
        ({"kind": "c"}, "kind: Input should be 'a' or 'b'"),
        ({"rate": "1"}, "rate: Input should be a valid number"),
        ({"rate": float("nan")}, "rate: Input should be a finite number"),
        ({"words": ["a", 1]}, "words.1: Input should be a valid string"),
        ({"counts": 3}, "counts: is 3, not a dict"),
        ({"counts": {"one": [1]}}, "counts.one: is [1], not a dict"),
        ({"sides": [{"weight": "float32[2]", "num_texts": -1}]}, "sides.0.num_texts: Input should be greater than"),
        ({"items": "text[4]"}, "items: 4 characters do not make text[4]"),
        ({"sides": []}, "sides.0.weight: is not known"),
        ({"extra": {"totals": "int64[0]", "keys": "int64[0]"}}, "extra.totals: its array is missing"),
        ({"colour": "blue"}, "colour: Input should be 'red'"),
    ],
)
def test_a_tree_of_something_else(change: dict[str, Any], message: str) -> None:
    tree, tensors = pack(fitted())
    tree = {name: value for name, value in {**tree, **change}.items() if value is not ...}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        unpack(Fitted, tree, tensors)


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("counts.one.totals", torch.arange(3), "counts.one.totals: its array is int64[3], and not int64[2]"),
        ("counts.one.totals", torch.zeros(2), "counts.one.totals: is float32[2], not int64"),
        ("sides.0.weight", torch.zeros(2).double(), "sides.0.weight: is float64[2], not float32"),
        ("items.lengths", torch.tensor([1, 9, 1], dtype=torch.int32), "items: "),
        ("items.lengths", torch.tensor([-1, 4, 1], dtype=torch.int32), "items.lengths holds -1, which is not a length"),
        ("items.bytes", torch.full((9,), 255, dtype=torch.uint8), "items.bytes: is not UTF-8"),
        ("items.bytes", torch.zeros(9), "items.bytes is float32[9], not uint8[any]"),
        ("sides.7.weight", torch.zeros(2), "sides.7.weight: is not known"),
        ("titles.bytes", None, "titles.bytes: its array is missing"),
    ],
)
def test_tables_of_something_else(name: str, table: Tensor | None, message: str) -> None:
    tree, tensors = pack(fitted())
    changed = {key: value for key, value in {**tensors, name: table}.items() if value is not None}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        unpack(Fitted, tree, changed)


def test_values_that_do_not_belong_together_name_their_place() -> None:
    tree, tensors = pack(fitted())
    tree["counts"]["one"]["totals"] = "int64[3]"
    with pytest.raises(ValueError, match=r"^counts\.one: 3 totals where 2 items are in the vocabulary$"):
        unpack(Fitted, tree, {**tensors, "counts.one.totals": torch.arange(3)})
    value = fitted()
    value.items.add(["c"])
    tree, tensors = pack(value)
    tensors["items.bytes"] = np.frombuffer(b"aabb", np.uint8)
    tensors["items.lengths"] = np.ones(4, np.int32)
    with pytest.raises(ValueError, match=r"^items: holds a text twice$"):
        unpack(Fitted, tree, tensors)


PROGRAM = """
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ensue.store.folder import described, write_folder
from ensue.store.pack import files_of, read_packed


@dataclass(eq=False)
class Counts:
    totals: npt.NDArray[np.int64]
    rates: Annotated[npt.NDArray[np.float64], np.float32]


folder = Path(sys.argv[1])
summary = {"task": "next", "model": "m", "settings": {}, "schedule": None, "seed": 0, "facts": {}}
write_folder(folder, {**described(summary, ""), **files_of(Counts(np.arange(3), np.array([0.1, 0.5])))})
counts = read_packed(Counts, folder)
print(counts.totals.tolist(), counts.rates.dtype, counts.rates.tolist() == np.array([0.1, 0.5], "f4").tolist())
print("torch" in sys.modules)
"""


def test_arrays_are_saved_and_loaded_without_torch(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "m"], capture_output=True, text=True, check=True)
    assert done.stdout == "[0, 1, 2] float64 True\nFalse\n"
