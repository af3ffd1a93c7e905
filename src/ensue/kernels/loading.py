"""Finding the compiled library, and the types of what it takes."""

from __future__ import annotations

import ctypes
import os
import zlib
from ctypes import POINTER, c_double, c_float, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Protocol

from ensue.errors import SettingError

FILE = Path(__file__).with_name("libkernels.so.1")
INTERFACE = 13
"""Goes up with every change of what the functions take: a library of another is left alone."""
VARIABLE = "ENSUE_KERNELS"
LEVELS = ("plain", "avx2", "avx512")
"""Instruction sets, each with all before it; ``plain`` is what every processor of the platform has."""


class EntmaxCall(ctypes.Structure):
    """``EntmaxCall`` of ``native/kernels.h``."""

    _fields_ = (
        ("dims", c_int64),
        ("keys", c_int64),
        ("sizes", c_int64 * 8),
        ("in_steps", c_int64 * 9),
        ("other_steps", c_int64 * 9),
        ("alpha_steps", c_int64 * 8),
        ("out_steps", c_int64 * 9),
        ("given", c_void_p),
        ("other", c_void_p),
        ("alpha", c_void_p),
        ("out", c_void_p),
        ("to_alpha", c_void_p),
        ("fixed", c_double),
    )


class NeighboursCall(ctypes.Structure):
    """``NeighboursCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("batch", "time", "targets", "window", "sample", "neighbours", "num_ids")),
        *((name, c_int64) for name in ("num_sessions", "num_entries", "room")),
        *((name, c_void_p) for name in ("ids", "rows", "steps", "decay", "postings", "stops", "starts", "items")),
        ("holders", c_void_p),
        ("sessions", c_float),
        ("idf", c_float),
        *((name, c_void_p) for name in ("cells", "shares", "weights")),
    )


class Norm(ctypes.Structure):
    """``Norm`` of ``native/kernels.h``."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_double))


class StepLayer(ctypes.Structure):
    """``StepLayer`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_void_p) for name in ("inward", "inward_bias", "outward", "outward_bias")),
        *((name, c_void_p) for name in ("wide", "wide_bias", "narrow", "narrow_bias", "output_bias")),
        *((name, Norm) for name in ("written", "read", "fed")),
        *((name, c_void_p) for name in ("scores", "base", "outputs", "keys", "values")),
    )


class StepCall(ctypes.Structure):
    """``StepCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("sources", "rows", "dim", "heads", "wide", "length", "before", "capacity")),
        ("layers", c_int64),
        ("layer", POINTER(StepLayer)),
        *((name, c_void_p) for name in ("seen", "items", "weights")),
    )


class EncodeCall(ctypes.Structure):
    """``EncodeCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("items", "rows", "dim", "heads", "wide", "length", "layers")),
        *((name, c_int64) for name in ("row_step", "query_step")),
        ("layer", POINTER(StepLayer)),
        *((name, c_void_p) for name in ("places", "mask", "states")),
    )


class LstmCall(ctypes.Structure):
    """``LstmCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "length", "hidden", "distinct")),
        *((name, c_void_p) for name in ("projected", "index", "lengths", "recurrent", "pairs", "out")),
    )


class PairCall(ctypes.Structure):
    """``PairCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "length", "dim", "step")),
        *((name, c_void_p) for name in ("lengths", "receiving", "giving", "vector", "out")),
        ("largest", c_float),
    )


class GraphCall(ctypes.Structure):
    """``GraphCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "length")),
        *((name, c_void_p) for name in ("lengths", "scores", "weights", "graph")),
    )


class SessionCall(ctypes.Structure):
    """``SessionCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "time", "dim", "heads", "reach", "num_ids")),
        *((name, c_void_p) for name in ("ids", "lengths", "items")),
        *((name, Norm) for name in ("before", "after")),
        *((name, c_void_p) for name in ("inward", "joined", "wide", "wide_bias", "narrow", "narrow_bias")),
        *((name, c_void_p) for name in ("asking", "asking_bias", "by_distance", "sessions", "weights")),
    )


class ShortCall(ctypes.Structure):
    """``ShortCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "ids", "dim", "first", "exact")),
        *((name, c_void_p) for name in ("queries", "table", "steps", "bias", "items", "factors", "out")),
    )


class WindowCall(ctypes.Structure):
    """``WindowCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "length", "dim", "heads", "reach")),
        *((name, c_int64) for name in ("own_rows", "near_rows", "first_rows")),
        *((name, c_int64) for name in ("own_step", "near_step", "first_step", "relay_step")),
        *((name, c_void_p) for name in ("mask", "asked", "asked_near", "words")),
        *((name, c_void_p) for name in ("own", "near", "first", "relay", "weights")),
    )


class BandCall(ctypes.Structure):
    """``BandCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "time", "dim", "reach", "own", "span", "ages")),
        ("width", c_double),
        *((name, c_void_p) for name in ("lengths", "queries", "keys", "scores", "times", "values", "weights", "out")),
        *((name, c_void_p) for name in ("to_queries", "to_keys", "to_scores", "to_values")),
    )


class PostingsCall(ctypes.Structure):
    """``PostingsCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("cells", "documents", "num_texts", "num_terms", "num_entries")),
        *((name, c_void_p) for name in ("texts", "terms", "text_weights", "offsets", "holders", "weights", "sums")),
    )


class AdamCall(ctypes.Structure):
    """``AdamCall`` of ``native/kernels.h``."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "dim", "num_ids")),
        *((name, c_void_p) for name in ("ids", "grads", "weights", "means", "squares")),
        *((name, c_float) for name in ("rate", "root", "rest1", "beta2", "rest2", "eps", "decay")),
    )


class _State:
    """What was found, once a process."""

    asked = False
    found: ctypes.CDLL | None = None
    level = "off"


def library() -> ctypes.CDLL | None:
    """The compiled functions; ``None`` where there are none or they are switched off.

    Raises:
        SettingError: ``ENSUE_KERNELS`` is something else than ``off`` or one of ``LEVELS``.
    """
    if not _State.asked:
        load(os.environ.get(VARIABLE) or LEVELS[-1])
    return _State.found


def level() -> str:
    """The instruction set in use, one of ``LEVELS``; ``off`` where nothing compiled is."""
    library()
    return _State.level


def load(most: str) -> str:
    """Use at most this instruction set from now on, or nothing compiled (``off``).

    Returns:
        What is used.

    Raises:
        SettingError: there is no such one.
    """
    if most not in ("off", *LEVELS):
        raise SettingError(f"{VARIABLE} is {most!r}; choose from off, {', '.join(LEVELS)}, or leave it out")
    found = None if most == "off" else _opened()
    _State.level = "off" if found is None else LEVELS[found.ensue_level(LEVELS.index(most))]
    _State.found, _State.asked = found, True
    return _State.level


def _opened() -> ctypes.CDLL | None:
    try:
        if not _is_whole(FILE):
            return None
        found = ctypes.CDLL(str(FILE))
        if found.ensue_interface() != INTERFACE:  # built from other sources than these
            return None
        functions = {name: getattr(found, name) for name in _ARGUMENTS}
    except (OSError, AttributeError):  # none, or for another machine
        return None
    for name, function in functions.items():
        function.argtypes, function.restype, function.errcheck = _ARGUMENTS[name], c_int64, _checked
    return found


def _is_whole(path: Path) -> bool:
    """Return whether a file ends with the checksum of all before it; to open one that was cut kills the process."""
    return path.is_file() and zlib.crc32(path.read_bytes()) == _CHECKED


_CHECKED = 0x2144DF1C
"""CRC-32 of any bytes that are followed by their own CRC-32, lowest byte first."""


def _checked(result: int, function: _Named, _: object) -> int:
    """Return what a compiled function returned, or raise the error that it reports.

    Raises:
        MemoryError: there is no memory for its intermediate results.
        IndexError: an index lies outside the table that it is for, or sizes contradict each other.
    """
    if result == _NO_MEMORY:
        raise MemoryError(f"no memory for {function.__name__}")
    if result == _OUT_OF_RANGE:
        raise IndexError(f"{function.__name__} was given an index or a size outside of its tables")
    return result


class _Named(Protocol):
    __name__: str


_NO_MEMORY, _OUT_OF_RANGE = -1, -2
"""``NO_MEMORY`` and ``OUT_OF_RANGE`` of ``native/kernels.h``."""
_ARGUMENTS: dict[str, tuple[type, ...]] = {
    "ensue_entmax": (POINTER(EntmaxCall), c_int, c_int, c_int),
    "ensue_neighbours": (POINTER(NeighboursCall),),
    "ensue_decoder_step": (POINTER(StepCall),),
    "ensue_log_shares": (c_void_p, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_void_p),
    "ensue_log_mixture": (c_void_p, c_float, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_void_p),
    "ensue_log_totals": (c_void_p, c_int64, c_int64, c_int64, c_void_p, c_int),
    "ensue_topk": (c_void_p, c_int64, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_int),
    "ensue_softmax_errors": (c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_int),
    "ensue_dropped": (c_void_p, c_void_p, c_int64, c_int, c_int, c_float, c_void_p, c_int),
    "ensue_dropped_elu_errors": (c_void_p, c_void_p, c_void_p, c_int64, c_int, c_float, c_void_p),
    "ensue_band": (POINTER(BandCall), c_int, c_int),
    "ensue_adam_rows": (POINTER(AdamCall), c_int),
    "ensue_postings": (POINTER(PostingsCall),),
    "ensue_encode": (POINTER(EncodeCall),),
    "ensue_sessions": (POINTER(SessionCall),),
    "ensue_short_scores": (POINTER(ShortCall), c_int),
    "ensue_window": (POINTER(WindowCall), c_int, c_int),
    "ensue_word_graphs": (POINTER(GraphCall), c_int),
    "ensue_lstm": (POINTER(LstmCall), c_int),
    "ensue_pair_scores": (POINTER(PairCall), c_int),
}
"""What each compiled function takes. All of them return 0 or a number of results, or an error below 0."""
