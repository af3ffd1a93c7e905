"""The two ways to the same numbers: compiled kernels, and the code in torch and NumPy that they are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ensue import kernels

COMPILED = kernels.level()
"""The instruction set in use; ``off`` where nothing is compiled, or it is switched off."""
HERE = kernels.LEVELS[: kernels.LEVELS.index(COMPILED) + 1] if COMPILED != "off" else ()
"""All that can be used."""
needs_kernels = pytest.mark.skipif(COMPILED == "off", reason="no compiled kernels: python native/compile_kernels.py")


@contextmanager
def using(most: str) -> Iterator[None]:
    """Within, kernels of at most this instruction set, or ``off``."""
    before = kernels.level()
    kernels.load(most)
    try:
        yield
    finally:
        kernels.load(before)


on_both_paths = pytest.mark.usefixtures("both_paths")
