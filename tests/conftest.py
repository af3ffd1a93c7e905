"""What tests of several rooms share."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from tests.kernels.paths import COMPILED, using

settings.register_profile("untimed", deadline=None)  # time belongs in benchmarks: a busy machine breaks no test
settings.load_profile("untimed")
os.environ["PYTHONWARNINGS"] = "error"  # what the tests start warns of nothing either


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Finds a port of the loopback address that nobody listens on."""

    def find() -> int:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            return int(found.getsockname()[1])

    return find


@pytest.fixture(params=["compiled", "reference"])
def both_paths(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test runs once with the compiled kernels, where there are any, and once without."""
    if request.param == "compiled" and COMPILED == "off":
        pytest.skip("no compiled kernels: python native/compile_kernels.py")
    with using(COMPILED if request.param == "compiled" else "off"):
        yield
