"""No compiled function leaves its arrays, whatever indices, lengths, offsets, sizes, types and shapes it is given.

``scripts/sanitize`` runs these tests with AddressSanitizer, where an access outside of an array ends the run.
``ENSUE_FUZZ_ROUNDS=N`` makes N rounds of random mutations of each kind instead of a few.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from ensue import kernels
from ensue.nn import fused_cascades, incremental, recurrent, sampling, topk
from ensue.nn.dropout import DropoutMask
from ensue.nn.fused_window import FusedWindows, window_products, window_sums
from ensue.nn.item_head import ShortItems, suit_short_items
from ensue.nn.normalisers import entmax
from ensue.nn.pooling import additive_scores, word_graph
from ensue.nn.transformer import EncoderLayer, PackedRows
from ensue.tasks.next.baselines.counting import log_mixture
from ensue.tasks.next.baselines.session_knn import VSKNN
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.models.core import CORE
from ensue.tasks.next.settings import CORESettings, VSKNNSettings
from ensue.tasks.suggest.models.words import log_probabilities
from ensue.text.postings import Postings
from ensue.text.sparse import SparseRows
from ensue.training import optimizer
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = needs_kernels
ROUNDS = int(os.environ.get("ENSUE_FUZZ_ROUNDS", "400"))
HOSTILE = [-1, -(2**31), 2**31 - 1, 2**31, -(2**62), 2**62, -(2**63), 2**63 - 1, 1000]
IMPOSSIBLE = [-1, -(2**31), -(2**63), 2**50, 2**62, 2**63 - 1]
"""Sizes of no table."""
Array = npt.NDArray[Any]


DTYPES = (torch.int8, torch.int32, torch.int64, torch.float16, torch.float64, torch.bool)


class Entry(NamedTuple):
    """Valid arguments of one compiled function.

    Attributes:
        sizes: sizes of arrays, none of which may be impossible.
        scalars: other numbers.
        arrays: what the function reads and writes.
        indices: which arrays hold indices, all of which are followed.
    """

    sizes: dict[str, int]
    scalars: Mapping[str, float]
    arrays: dict[str, Array]
    indices: Sequence[str] = ()

    def run(self, name: str) -> int:
        """Call the function, without the checks of :func:`ensue.kernels.call`."""
        structure = kernels._declarations().structures[name]()
        fields = structure.declared
        for field, value in {"threads": 2, **self.sizes, **self.scalars}.items():
            setattr(structure, field, value)
        if "layer" in fields:
            structure.layer = kernels.array([self._filled("StepLayer", "written", "read", "fed")])
        for field in self.arrays.keys() & fields - self.sizes.keys():
            setattr(structure, field, self.arrays[field].ctypes.data)
        if name in ("sessions", "latest_clicks"):
            structure.before = structure.after = self._norm()
        return kernels.run(name, structure)

    def _filled(self, name: str, *norms: str) -> kernels.Structure:
        """A structure inside of another one, with the arrays that it has."""
        structure = kernels._declarations().structures[name]()
        for field in self.arrays.keys() & structure.declared:
            setattr(structure, field, self.arrays[field].ctypes.data)
        for field in norms:
            setattr(structure, field, self._norm())
        return structure

    def _norm(self) -> kernels.Structure:
        start = self.arrays["norm"].ctypes.data
        return kernels._declarations().structures["Norm"](weight=start, bias=start, eps=1e-5)


def floats(*shape: int) -> Array:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def ints(values: Sequence[object], dtype: npt.DTypeLike = np.int64) -> Array:
    return np.array(values, dtype)


def weights(dim: int, wide: int) -> dict[str, Array]:
    """Arrays of a layer."""
    return {
        "inward": floats(dim, 3 * dim), "inward_bias": floats(3 * dim), "outward": floats(dim, dim),
        "outward_bias": floats(dim), "wide": floats(dim, wide), "wide_bias": floats(wide), "narrow": floats(wide, dim),
        "narrow_bias": floats(dim), "output_bias": floats(dim), "norm": floats(dim),
    }  # fmt: skip


def entmax_entry() -> Entry:
    return Entry({"keys": 70}, {"fixed": 1.5, "dims": 0}, {"input": floats(70), "out": floats(70)})


def neighbours_entry() -> Entry:
    """Four items; sessions 0 1, 1 2 and 2 3."""
    sizes = {
        "batch": 2, "time": 3, "targets": 2, "num_ids": 4, "num_sessions": 3, "num_entries": 6, "room": 20,
        "window": 2, "sample": 5, "neighbours": 5,
    }  # fmt: skip
    arrays = {
        "ids": ints([[1, 2, 3], [2, 1, 0]]), "rows": ints([0, 1]), "steps": ints([2, 1]), "decay": floats(2) + 2,
        "postings": ints([0, 0, 1, 1, 2, 2]), "stops": ints([0, 1, 3, 5, 6]), "starts": ints([0, 2, 4, 6]),
        "items": ints([0, 1, 1, 2, 2, 3], np.int32), "holders": floats(4) + 2, "cells": np.zeros(20, np.int64),
        "shares": floats(20), "weights": floats(2, 3, 3),
    }  # fmt: skip
    followed = ("rows", "steps", "postings", "stops", "starts", "items")
    return Entry(sizes, {"sessions": 3.0, "idf": 1.0}, arrays, followed)


def search_entry() -> Entry:
    sizes = {
        "sources": 2, "beam": 2, "keep": 2, "longest": 2, "turns": 1, "width": 2, "ids": 5, "dim": 4, "heads": 2,
        "wide": 3, "length": 3, "bytes": 2, "layers": 1,
    }  # fmt: skip
    arrays = weights(4, 3) | {
        "scores": floats(2, 4, 6), "base": floats(2, 6), "outputs": floats(2, 6, 4), "table": floats(5, 4),
        "codes": floats(3, 4), "weight": floats(4, 5), "bias": floats(5), "wall": floats(5), "gate": floats(5),
        "memory": ints([[1, 2, 0], [4, 4, 3]]), "typed": ints([[[4, 4]], [[3, 0]]]), "lengths": ints([[2], [1]]),
        "divisors": np.float32(1) + floats(4) ** 2, "allowed": np.ones((2, 2, 5), np.uint8),
        "sizes": ints([0, 0, 0, 0, 1]), "ends": ints([1, 0]), "tokens": np.zeros((2, 2, 2), np.int64),
        "sums": np.zeros((2, 2)),
    }  # fmt: skip
    return Entry(sizes, {"repeats": 0, "exhaustive": 0, "scale": 2.0}, arrays, ["memory", "ends"])


def likelihoods_entry() -> Entry:
    sizes, scalars, arrays, _ = search_entry()
    sizes = {name: size for name, size in sizes.items() if name not in ("beam", "bytes")} | {"keep": 1}
    texts = {"lengths": ints([[2], [1]]), "typed": ints([[[4, 4]], [[3, 0]]]), "scores": np.zeros((2, 1))}
    return Entry(sizes, {"scale": scalars["scale"]}, arrays | texts, ["memory", "typed", "lengths"])


def encode_entry() -> Entry:
    sizes = {"items": 3, "rows": 2, "dim": 4, "heads": 2, "wide": 3, "length": 2}
    arrays = weights(4, 3) | {"places": ints([0, 1, 2]), "mask": np.ones((2, 2, 2), np.uint8), "states": floats(3, 4)}
    scalars = {"layers": 1, "row_step": 4, "query_step": 2}
    return Entry(sizes, scalars, arrays, ["places"])


def sessions_entry() -> Entry:
    sizes = {"rows": 2, "time": 3, "dim": 4, "heads": 2, "reach": 2, "num_ids": 5}
    arrays = {
        "ids": ints([[1, 2, 3], [4, 0, 0]]), "lengths": ints([3, 1]), "items": floats(5, 4), "norm": floats(4),
        "inward": floats(4, 12), "joined": floats(4, 4), "wide": floats(4, 8), "wide_bias": floats(8),
        "narrow": floats(8, 4), "narrow_bias": floats(4), "asking": floats(4, 8), "asking_bias": floats(8),
        "by_distance": floats(3, 2), "sessions": floats(2, 3, 4), "weights": floats(2, 3, 3),
    }  # fmt: skip
    return Entry(sizes, {}, arrays, ["ids", "lengths"])


def latest_entry() -> Entry:
    sizes = {"targets": 2, "batch": 2, "time": 3, "dim": 4, "heads": 2, "reach": 2, "num_ids": 5}
    arrays = {
        "ids": ints([[1, 2, 3], [4, 0, 0]]), "rows": ints([0, 1]), "steps": ints([2, 0]), "items": floats(5, 4),
        "positions": floats(2, 4), "norm": floats(4), "inward": floats(4, 12), "joined": floats(4, 4),
        "wide": floats(4, 4), "wide_bias": floats(4), "narrow": floats(4, 4), "narrow_bias": floats(4),
        "sessions": floats(2, 4), "weights": floats(2, 3),
    }  # fmt: skip
    return Entry(sizes, {"residual": 1}, arrays, ["ids", "rows", "steps"])


def lstm_entry() -> Entry:
    sizes = {"rows": 2, "length": 3, "hidden": 5, "distinct": 4}
    arrays = {
        "projected": floats(4, 2, 20), "index": ints([[0, 3, 1], [2, 0, 0]]), "lengths": ints([3, 2]),
        "recurrent": floats(2, 5, 20), "out": floats(2, 3, 10),
    }  # fmt: skip
    return Entry(sizes, {}, arrays, ["index", "lengths"])


def window_entry() -> Entry:
    sizes = {
        "rows": 2, "length": 3, "dim": 4, "heads": 2, "reach": 1, "own_rows": 5, "near_rows": 6, "first_rows": 7,
    }  # fmt: skip
    index = ints([[0, 4, 1], [2, 3, 0]])
    arrays = {
        "mask": np.ones((2, 3), np.uint8), "asked": index.copy(), "asked_near": index.copy(), "words": index.copy(),
        "own": floats(5, 4), "near": floats(6, 4), "first": floats(7, 4), "relay": floats(2, 4),
        "weights": floats(5, 2, 3, 2),
    }  # fmt: skip
    scalars = {f"{name}_step": 4 for name in ("own", "near", "first", "relay")} | {"kind": 2}
    return Entry(sizes, scalars, arrays, ["asked", "asked_near", "words"])


def band_entry() -> Entry:
    sizes = {"rows": 2, "time": 3, "dim": 4, "reach": 2, "own": 1, "span": 2, "ages": 3}
    arrays = {
        "lengths": ints([3, 1]), "scores": floats(2, 3, 3), "times": np.arange(6.0), "values": floats(6, 4),
        "weights": floats(6, 2), "out": floats(6, 4), "to_scores": floats(2, 3, 3), "to_values": floats(6, 4),
    }  # fmt: skip
    return Entry(sizes, {"width": 1.0, "backward": 1}, arrays, ["lengths"])


def postings_entry() -> Entry:
    sizes = {"cells": 3, "documents": 3, "num_texts": 2, "num_terms": 2, "num_entries": 4}
    arrays = {
        "texts": ints([0, 0, 1]), "terms": ints([0, 1, 1]), "text_weights": np.ones(3), "offsets": ints([0, 1, 4]),
        "holders": ints([1, 0, 1, 2], np.int32), "weights": floats(4), "sums": np.zeros((2, 3)),
    }  # fmt: skip
    return Entry(sizes, {}, arrays, ["texts", "terms", "offsets", "holders"])


def terms_entry(**units: Array) -> Entry:
    sizes = {"num_texts": 2, "size": 4, "room": 12}
    terms = {"owners": np.zeros(12, np.int64), "keys": np.zeros(12, np.uint64), "counts": np.zeros(12, np.int64)}
    return Entry(sizes, {}, {"stops": ints([0, 3, 4]), **terms, **units}, ["stops"])


def runs_entry() -> Entry:
    return terms_entry(characters=np.array([32, 97, 32, 98], np.uint32))


def word_pairs_entry() -> Entry:
    return terms_entry(words=np.array([5, 6, 7, 8], np.uint64), is_stop=np.zeros(4, np.uint8))


def sparse_dense_entry() -> Entry:
    sizes = {"rows": 2, "width": 3, "cells": 3, "vectors": 2}
    arrays = {
        "stops": ints([0, 2, 3]), "columns": ints([2, 0, 1], np.int32), "values": floats(3), "dense": floats(3, 2),
        "out": floats(2, 2),
    }  # fmt: skip
    return Entry(sizes, {"transposed": 0, "wide": 0}, arrays, ["stops", "columns"])


def sparse_product_entry() -> Entry:
    sizes = {"rows": 2, "inner": 3, "width": 4, "cells": 3, "other_cells": 4, "room": 4}
    arrays = {
        "stops": ints([0, 2, 3]), "columns": ints([2, 0, 1], np.int32), "values": np.ones(3),
        "other_stops": ints([0, 1, 2, 4]), "other_columns": ints([3, 2, 3, 0], np.int32), "other_values": np.ones(4),
        "out_stops": ints([0, 0, 0]), "out_columns": ints([0] * 4, np.int32), "out_values": np.ones(4),
    }  # fmt: skip
    return Entry(sizes, {"wide": 1}, arrays, ["stops", "columns", "other_stops", "other_columns"])


def diversify_entry() -> Entry:
    sizes = {"rows": 3, "width": 4, "cells": 5, "count": 3, "k": 2, "kinds": 2, "num_marks": 3}
    arrays = {
        "stops": ints([0, 2, 3, 5]), "columns": ints([0, 3, 1, 1, 2], np.int32), "values": np.ones(5),
        "ids": ints([2, 0, 1]), "relevance": np.array([0.9, 0.9, 0.1]), "mark_stops": ints([0, 1, 1, 3]),
        "marks": ints([0, 0, 1]), "limits": ints([1, 2]), "chosen": ints([0, 0]),
    }  # fmt: skip
    return Entry(sizes, {"weight": 0.5}, arrays, ["stops", "columns", "ids", "mark_stops", "marks"])


def short_entry() -> Entry:
    arrays = {
        "queries": floats(2, 3), "table": np.ones((2, 2, 128), np.int16), "steps": floats(70), "bias": floats(70),
        "items": floats(70, 3), "factors": floats(70), "out": floats(2, 70),
    }  # fmt: skip
    return Entry({"rows": 2, "ids": 70, "dim": 3, "exact": 5}, {"first": 2}, arrays)


def best_entry() -> Entry:
    short = short_entry()
    arrays: dict[str, Array] = {name: array for name, array in short.arrays.items() if name != "out"}
    arrays |= {"hidden": ints([[2, 7, 69], [0, 0, 64]]), "places": ints([[0] * 4] * 2)}
    arrays |= {"best": floats(2, 4), "totals": floats(2)}
    arrays |= {"permitted": np.full((3, 2), 0x5555_5555_5555_5555, np.uint64), "filter_of": ints([2, 3])}
    return Entry({**short.sizes, "k": 4, "many": 3, "filters": 3}, short.scalars, arrays, ["filter_of"])


def adam_entry() -> Entry:
    arrays = {
        "ids": ints([0, 4]),
        "grads": floats(2, 3),
        "weights": floats(5, 3),
        "means": floats(5, 3),
        "squares": floats(5, 3),
    }
    return Entry({"rows": 2, "dim": 3, "num_ids": 5}, {"rate": 0.1, "root": 1.0}, arrays, ["ids"])


def graph_entry() -> Entry:
    arrays = {"lengths": ints([3, 1]), "scores": floats(2, 3, 3), "weights": floats(2, 3), "graph": floats(2, 3, 3)}
    return Entry({"rows": 2, "length": 3}, {}, arrays, ["lengths"])


def pairs_entry() -> Entry:
    arrays = {
        "lengths": ints([3, 1]), "receiving": floats(2, 3, 5), "giving": floats(2, 3, 5), "vector": floats(5),
        "out": floats(2, 3, 3),
    }  # fmt: skip
    return Entry(
        {"rows": 2, "length": 3, "dim": 5, "step": 5},
        {"largest": 9.0},
        arrays,
        ["lengths"],
    )


def mixture_entry() -> Entry:
    arrays = {"totals": floats(5), "cells": ints([0, 9, 3]), "added": floats(3), "out": floats(2, 5)}
    return Entry({"rows": 2, "width": 5, "count": 3}, {"factor": 0.5}, arrays, ["cells"])


def errors_entry() -> Entry:
    arrays = {"scores": floats(2, 5), "bias": floats(5), "wanted": ints([0, 4]), "sums": floats(2), "losses": floats(2)}
    return Entry({"rows": 2, "width": 5}, {"threads": 2}, arrays, ["wanted"])


def topk_entry() -> Entry:
    arrays = {"numbers": floats(2, 5), "best": floats(2, 3), "places": np.zeros((2, 3), np.int64)}
    return Entry({"rows": 2, "width": 5, "k": 3}, {"step": 5, "threads": 2}, arrays)


def totals_entry() -> Entry:
    arrays = {"numbers": floats(2, 5), "totals": floats(2)}
    return Entry({"rows": 2, "width": 5}, {"step": 5, "threads": 2}, arrays)


def shares_entry() -> Entry:
    arrays = {"x": floats(2, 3), "w": floats(3, 5), "bias": floats(5), "out": floats(2, 5)}
    return Entry({"rows": 2, "dim": 3, "ids": 5}, {}, arrays)


def dropped_entry() -> Entry:
    arrays = {"units": floats(20), "levels": np.zeros(20, np.int16), "out": floats(20)}
    return Entry({"count": 20}, {"elu": 1, "least": 0, "scale": 2.0, "threads": 2}, arrays)


def elu_errors_entry() -> Entry:
    arrays = {"grad": floats(20), "units": floats(20), "levels": np.zeros(20, np.int16), "out": floats(20)}
    return Entry({"count": 20}, {"least": 0, "scale": 2.0}, arrays)


ENTRIES: dict[str, Callable[[], Entry]] = {
    "entmax": entmax_entry, "neighbours": neighbours_entry,
    "log_shares": shares_entry, "log_mixture": mixture_entry, "log_totals": totals_entry,
    "topk": topk_entry, "softmax_errors": errors_entry, "dropped": dropped_entry,
    "dropped_elu_errors": elu_errors_entry, "band": band_entry, "adam_rows": adam_entry,
    "postings": postings_entry, "runs": runs_entry, "pairs": word_pairs_entry,
    "encode": encode_entry, "search": search_entry,
    "likelihoods": likelihoods_entry,
    "sessions": sessions_entry, "latest_clicks": latest_entry, "short_scores": short_entry, "short_best": best_entry,
    "window": window_entry, "diversify": diversify_entry,
    "word_graphs": graph_entry, "lstm": lstm_entry,
    "pair_scores": pairs_entry, "sparse_dense": sparse_dense_entry, "sparse_product": sparse_product_entry,
}  # fmt: skip


def test_all_compiled_functions_are_tried() -> None:
    assert set(ENTRIES) == set(kernels._declarations().functions)


@pytest.mark.parametrize("name", ENTRIES)
def test_valid_arguments_are_taken_and_others_refused(name: str) -> None:
    assert ENTRIES[name]().run(name) >= 0
    for array in ENTRIES[name]().indices:
        for value in HOSTILE:
            entry = ENTRIES[name]()
            if np.can_cast(np.min_scalar_type(value), entry.arrays[array].dtype):
                entry.arrays[array].fill(value)
                with pytest.raises(IndexError, match=f"{name} was given an index or a size"):
                    entry.run(name)
    for size in ENTRIES[name]().sizes:
        for value in IMPOSSIBLE:
            entry = ENTRIES[name]()
            entry.sizes[size] = value
            with pytest.raises(IndexError, match=f"{name} was given an index or a size"):
                entry.run(name)


def test_offsets_that_fall_are_refused() -> None:
    for name, array, values in (
        ("postings", "offsets", [0, 4, 1]),
        ("neighbours", "stops", [0, 5, 3, 1, 6]),
        ("neighbours", "starts", [0, 4, 2, 6]),
        ("encode", "places", [1, 1, 2]),
        ("runs", "stops", [0, 3, 2]),
        ("pairs", "stops", [0, 3, 2]),
        ("sparse_dense", "stops", [0, 3, 2]),
        ("sparse_product", "other_stops", [0, 1, 0, 4]),
        ("diversify", "mark_stops", [0, 2, 1, 3]),
    ):
        entry = ENTRIES[name]()
        entry.arrays[array][:] = values
        with pytest.raises(IndexError):
            entry.run(name)


def test_a_selection_ends_where_relevance_is_no_number() -> None:
    for place in range(3):
        entry = diversify_entry()
        entry.arrays["relevance"][place:] = np.nan
        assert entry.run("diversify") > 0


def spoil(array: Array, random: np.random.Generator) -> None:
    """Write a hostile number somewhere."""
    flat = array.reshape(-1).view(np.int64 if array.dtype.names else array.dtype)
    at = random.integers(len(flat))
    if flat.dtype.kind == "f":
        flat[at] = random.choice([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, 1e-40])
    else:
        values = [*HOSTILE, int(flat[random.integers(len(flat))]), 0, 1, 2, 3]
        flat[at] = np.array(values[random.integers(len(values))]).astype(np.int64).astype(flat.dtype)


def test_random_mutations_of_arrays_end_in_results_or_errors() -> None:
    random, names = np.random.default_rng(0), list(ENTRIES)
    for level in HERE:
        with using(level):
            for number in range(ROUNDS):
                name = names[number % len(names)]
                entry = ENTRIES[name]()
                for _ in range(random.integers(1, 4)):
                    spoil(entry.arrays[str(random.choice(list(entry.arrays)))], random)
                with suppress(IndexError):
                    entry.run(name)


class Wrapped(NamedTuple):
    """A Python function around a compiled one, and valid tensors for it."""

    run: Callable[..., object]
    tensors: dict[str, Tensor]


def tensor(*shape: int) -> Tensor:
    return torch.linspace(-1, 1, math.prod(shape)).view(shape)


def knn(ids: Tensor, mask: Tensor, targets: Tensor, **tables: Tensor) -> object:
    model = VSKNN(VSKNNSettings(window=2, sample=5, neighbours=5, idf=1.0), 4)
    model._decay, model.num_sessions, model.holders = tables["decay"].numpy(), 1, tables["holders"].numpy()
    model.starts, model.items = tables["starts"].numpy(), tables["items"].numpy()
    model._postings = tables["postings"].numpy(), tables["stops"].numpy()
    return model.score(Batch(ids, mask, torch.zeros(2, 3).double(), targets, torch.empty(0).long()).arrays())


def adam(rows: Tensor, values: Tensor, table: Tensor, means: Tensor, squares: Tensor) -> object:
    group = {"betas": (0.9, 0.99), "lr": 0.1, "eps": 1e-8, "weight_decay": 0.0}
    state = {"step": torch.zeros(()), "exp_avg": means, "exp_avg_sq": squares}
    optimizer._adam_rows(group, table, state, rows, values)
    return table


def weighed(scores: Tensor, alpha: Tensor, mask: Tensor) -> object:
    return entmax(scores, alpha, mask)


def banded(lengths: Tensor, times: Tensor, values: Tensor, scores: Tensor, grad: Tensor) -> object:
    band, ages = fused_cascades.Band(lengths, 2, True), fused_cascades.Ages(times, 1.0)
    _, weights = fused_cascades.attention(band, ages, values, scores)
    return fused_cascades.gradients(band, ages, weights, grad, values, scores)


def windowed(words: Tensor, nodes: Tensor, mask: Tensor, **tables: Tensor) -> object:
    windows = FusedWindows(words, nodes, mask, 2, 1)
    rows = tables["nears"], tables["firsts"], tables["relays"]
    products = window_products(windows, tables["queries"].requires_grad_(), *rows)
    sums = window_sums(windows, products, *rows)
    return torch.autograd.grad(sums.sum(), tables["queries"])


def encoded(items: Tensor, places: Tensor, mask: Tensor) -> object:
    encoder = incremental.PackedEncoder([EncoderLayer(4, 2, 3, 0.0)])
    return encoder.encode(items, PackedRows(2, 2, places), mask) if encoder.suits(items) else None


def core(ids: Tensor, mask: Tensor, items: Tensor, by_distance: Tensor) -> object:
    network = CORE(CORESettings(dim=4, heads=2, max_length=3), len(items)).eval()
    network.items.weight, network.by_distance = nn.Parameter(items), nn.Parameter(by_distance)
    batch = Batch(ids, mask, torch.zeros(2, 3).double(), mask, torch.empty(0).long())
    prepared = network._packed()
    with torch.no_grad():
        return network._compiled_sessions(batch, prepared) if prepared is not None else None


def posted(**arrays: Tensor) -> object:
    given = {name: array.numpy() for name, array in arrays.items()}
    postings = Postings(given["offsets"], given["documents"], given["weights"], 3)
    return postings.scores(given["texts"], given["terms"], given["text_weights"], 2)


def multiplied(**arrays: Tensor) -> object:
    given = {name: array.numpy() for name, array in arrays.items()}
    matrix = SparseRows(given["stops"], given["columns"], given["values"], 3)
    return matrix @ given["dense"], matrix.T @ given["other"], matrix @ matrix.transposed()


def shaped(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    return {name: tensor(*shape) for name, shape in shapes.items()}


def wrapped() -> dict[str, Wrapped]:
    ids, mask = torch.tensor([[1, 2, 3], [2, 1, 0]]), torch.tensor([[True, True, True], [True, True, False]])
    index, levels = torch.tensor([[0, 3, 1], [2, 0, 0]]), torch.zeros(3, 4, dtype=torch.int16)
    arrays, names = neighbours_entry().arrays, ("decay", "postings", "stops", "starts", "items", "holders")
    tables = {name: torch.from_numpy(arrays[name]) for name in names}
    posts = {name: torch.from_numpy(array) for name, array in postings_entry().arrays.items() if name != "sums"}
    posts["documents"] = posts.pop("holders")
    cells_of_rows = {"stops": torch.tensor([0, 2, 3]), "columns": torch.tensor([2, 0, 1])}
    sparse = cells_of_rows | shaped(values=(3,), dense=(3, 2), other=(2, 5))
    wanted, cells, rows, ends = (torch.tensor(row) for row in ([0, 4, 2], [0, 9, 3], [0, 4], [3, 1]))
    places, table = torch.arange(3), torch.ones(2, 2, 128).short()
    all_seen, scores, units = torch.ones(2, 2, 2).bool(), shaped(scores=(3, 5)), shaped(grad=(3, 4), units=(3, 4))
    seen = shaped(queries=(4, 6), nears=(4, 6), firsts=(4, 6), relays=(2, 6))
    short = shaped(queries=(2, 3), steps=(70,), bias=(70,), items=(70, 3), factors=(70,))

    def mixture(totals: Tensor, cells: Tensor, added: Tensor) -> object:
        return log_mixture(totals.numpy(), 0.5, 2, cells.numpy(), added.numpy())

    def pair_scores(receiving: Tensor, giving: Tensor, vector: Tensor, mask: Tensor) -> object:
        return additive_scores(receiving, giving, vector, mask)

    def graph(scores: Tensor, mask: Tensor) -> object:
        return word_graph(scores, mask, "solve")

    def dropout(grad: Tensor, units: Tensor, levels: Tensor) -> object:
        return DropoutMask(levels, 9).elu_errors(grad, DropoutMask(levels, 9).apply(units, elu=True))

    def short_scores(queries: Tensor, **table: Tensor) -> object:
        short = ShortItems(**table)
        return short.scores(queries, 2) if suit_short_items(queries, 70) else None

    return {
        "knn": Wrapped(knn, {"ids": ids, "mask": mask, "targets": mask, **tables}),
        "totals": Wrapped(topk.log_totals, scores),
        "errors": Wrapped(sampling.softmax_errors, scores | shaped(bias=(5,)) | {"wanted": wanted}),
        "mixture": Wrapped(mixture, shaped(totals=(5,), added=(3,)) | {"cells": cells}),
        "highest": Wrapped(lambda scores: topk.topk(scores, 3), scores),
        "lstm": Wrapped(
            recurrent.lstm_states,
            shaped(projected=(4, 2, 20), recurrent=(2, 5, 20)) | {"index": index, "mask": mask},
        ),
        "pairs": Wrapped(pair_scores, shaped(receiving=(2, 3, 4), giving=(2, 3, 4), vector=(4,)) | {"mask": mask}),
        "graph": Wrapped(graph, shaped(scores=(2, 3, 3)) | {"mask": mask}),
        "dropout": Wrapped(dropout, units | {"levels": levels}),
        "adam": Wrapped(adam, shaped(values=(2, 3), table=(5, 3), means=(5, 3), squares=(5, 3)) | {"rows": rows}),
        "entmax": Wrapped(weighed, shaped(scores=(2, 70), alpha=(2, 1)) | {"mask": torch.ones(2, 70).bool()}),
        "band": Wrapped(banded, shaped(times=(2, 3), values=(6, 4), scores=(6, 3), grad=(6, 4)) | {"lengths": ends}),
        "window": Wrapped(windowed, {"words": index, "nodes": index, "mask": mask, **seen}),
        "log shares": Wrapped(log_probabilities, shaped(states=(2, 4), weight=(5, 6))),
        "encoder": Wrapped(encoded, {"items": tensor(3, 4), "places": places, "mask": all_seen}),
        "core": Wrapped(core, {"ids": ids, "mask": mask} | shaped(items=(4, 4), by_distance=(3, 2))),
        "short": Wrapped(short_scores, {"table": table, **short}),
        "postings": Wrapped(posted, posts),
        "sparse": Wrapped(multiplied, sparse),
    }


def changed(own: Tensor, random: np.random.Generator) -> Tensor:
    """Return a tensor of another type, shape or layout, or with a hostile number."""
    kind = random.integers(8)
    if kind == 0:
        return own.to(
            [torch.int8, torch.int32, torch.int64, torch.float16, torch.float64, torch.bool][random.integers(6)]
        )
    if kind == 1:
        return own.narrow(axis := int(random.integers(own.dim())), 0, own.shape[axis] - 1)
    if kind == 2:
        return torch.cat([own, own], dim=int(random.integers(own.dim())))
    if kind == 3:
        return own[:0]
    if kind == 4:
        return own.mT if own.dim() > 1 else own[None]
    if kind == 5:
        return own.repeat_interleave(2, dim=own.dim() - 1)[..., ::2]
    made = own.clone()
    if made.dtype != torch.bool and made.numel():
        spoil(made.numpy(), random)
    return made


def test_random_changes_of_tensors_end_in_results_or_errors() -> None:
    random, cases = np.random.default_rng(1), list(wrapped().values())
    with using(HERE[-1]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(ROUNDS):
            run, valid = cases[number % len(cases)]
            tensors = {name: own.clone() for name, own in valid.items()}
            for name in random.choice(list(tensors), min(len(tensors), int(random.integers(1, 3))), replace=False):
                tensors[name] = changed(tensors[name], random)
            with suppress(
                ValueError, IndexError, RuntimeError, TypeError, ZeroDivisionError
            ):  # the last of torch's code
                run(**tensors)


@pytest.mark.parametrize("name", wrapped())
def test_valid_tensors_are_taken(name: str) -> None:
    run, tensors = wrapped()[name]
    with using(HERE[-1]):
        run(**tensors)
