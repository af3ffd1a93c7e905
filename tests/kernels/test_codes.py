"""Numbers for values by compiled hashes against those by categories."""

from __future__ import annotations

import ctypes

import numpy as np
import polars as pl
import pytest

from ensue.data.sequences import codes
from ensue.data.sequences.codes import Codes
from ensue.kernels import library
from ensue.kernels.loading import CodesCall
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = needs_kernels


def pieces(seed: int, most: int) -> list[pl.Series]:
    """Texts, categories and whole numbers, some of which are the same as texts; also pieces of nothing."""
    random, found = np.random.default_rng(seed), []
    for _ in range(12):
        numbers = (most ** random.random(random.integers(0, 3000))).astype(np.int64)
        kind = random.integers(4)
        column = pl.Series(numbers)
        texts = pl.select(pl.concat_str(pl.lit("item ä" * (kind % 2)), column)).to_series()
        found.append([texts, texts, texts.cast(pl.Categorical), column][kind])
    return found


@pytest.mark.parametrize(("seed", "most", "rows"), [(0, 10, 1 << 16), (1, 10_000, 1 << 16), (2, 10_000, 7), (3, 1, 64)])
def test_says_what_the_reference_says(seed: int, most: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "_ROWS", rows)
    given, every = pieces(seed, most), []
    for level in ("off", HERE[-1]):
        with using(level):
            own = Codes()
            assert isinstance(own._texts, codes._Categories if level == "off" else codes._Hashes)
            every.append(([own.of(piece).tolist() for piece in given], own.every().to_list(), own.count))
    assert every[0] == every[1]


def test_values_whose_hashes_begin_alike_are_told_apart() -> None:
    """Of a table that is full but for one slot, past its end; and in a larger one."""
    first = np.array([6, 6, 7, 6, 6, 14], np.uint64)
    second = np.array([1, 2, 1, 1 << 40 | 1, 3, 1], np.uint64)
    table, number, fresh = np.zeros(8, codes._SLOT), np.empty(6, np.int32), np.empty(6, np.int64)
    places = [own.ctypes.data for own in (first, second, table, number, fresh)]
    functions = library()
    assert functions is not None
    assert functions.ensue_codes(ctypes.byref(CodesCall(6, 8, 1, *places))) == 5
    # The fourth agrees with the first in all that is kept: 64 and 32 bits.
    assert number.tolist() == [1, 2, 3, 1, 4, 5] and fresh[:5].tolist() == [0, 1, 2, 4, 5]
    wider, again = np.zeros(32, codes._SLOT), np.empty(6, np.int32)
    places = [own.ctypes.data for own in (first, second, wider, again, fresh)]
    call = CodesCall(6, 32, 0, *places)
    functions.ensue_move_codes(table.ctypes.data, 8, ctypes.byref(call))
    assert functions.ensue_codes(ctypes.byref(call)) == 0 and again.tolist() == number.tolist()
