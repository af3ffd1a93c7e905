"""A stand-in for ``sentence-transformers`` that hashes words, so that every vector can be told beforehand."""

from __future__ import annotations

import os
import re
import sys
import types
import zlib
from functools import cache
from importlib.machinery import ModuleSpec
from typing import Any, ClassVar

import numpy as np
import pytest
from safetensors import SafetensorError

WIDTH = 32
FAULTS: dict[str, Exception] = {
    "nowhere": OSError("nowhere is no model.\nand much more"),
    "damaged": SafetensorError("header too large"),
    "odd": KeyError(),
}


def hashed(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(WIDTH,) the sum of a vector for each word and mark."""
    found: np.ndarray[Any, np.dtype[np.float32]] = np.zeros(WIDTH, np.float32)
    for word in re.findall(r"\w+|[^\w\s]", text):
        found += drawn(word)
    return found


@cache
def drawn(word: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=WIDTH).astype(np.float32)


class StandIn:
    """What is asked of ``sentence_transformers.SentenceTransformer``."""

    made: ClassVar[list[dict[str, Any]]] = []
    asked: ClassVar[list[list[str]]] = []
    shift: ClassVar[float] = 0.0

    def __init__(self, name: str, **options: Any) -> None:
        if name in FAULTS:
            raise FAULTS[name]
        self.made.append({"name": name, **options, "offline": os.environ.get("HF_HUB_OFFLINE")})
        self.training = True

    def eval(self) -> StandIn:
        self.training = False
        return self

    def encode(self, texts: list[str], **options: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        assert options == {"show_progress_bar": False, "convert_to_numpy": True} and not self.training
        self.asked.append(texts)
        return np.stack([hashed(text) + np.float32(self.shift) for text in texts])


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra is installed."""
    module: Any = types.ModuleType("sentence_transformers")
    module.SentenceTransformer, module.__version__ = StandIn, "6.0.1"
    module.__spec__ = ModuleSpec(module.__name__, None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(StandIn, "made", [])
    monkeypatch.setattr(StandIn, "asked", [])


def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra is not installed."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
