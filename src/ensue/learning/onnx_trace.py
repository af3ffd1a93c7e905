"""Networks as ONNX graphs: traced with standard operators, and compared with the network on inputs of other sizes.

Compiled kernels and hand-written gradients have no operators in ONNX, so a network is traced without kernels, and
modules that need a loop, or sizes of the batch at hand, choose a form of standard operators while
``torch.jit.is_tracing()``. Gradients stay on: caches of derived tensors are for inference alone.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from ensue import kernels
from ensue.data.histories import Index
from ensue.errors import SettingError
from ensue.lines import one_line
from ensue.nn.validation import Array
from ensue.store.graph import Graph
from ensue.vocabulary import PADDING

OPSET = 18
"""Version of the operators of ONNX: onnxruntime knows it from version 1.14 on."""
SIZES = ((3, 7), (1, 1), (5, 12), (2, 40))
"""Numbers of rows and lengths that a graph is compared at; it is traced at the first."""


class Wrapped(nn.Module):
    """A network that is called by a function, in evaluation mode.

    Args:
        network: the network, all of it: the exporter restores the mode of the outermost module.
        call: takes the network and tensors, and returns tensors.
    """

    def __init__(self, network: nn.Module, call: Callable[..., Tensor | tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.network = network
        self.call = call
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return what the function returns."""
        return self.call(self.network, *inputs)


@dataclass(frozen=True)
class Traceable:
    """A network as a function of tensors.

    Attributes:
        module: the network and the function.
        inputs: names of the inputs, and of the axes of each that may have any size.
        outputs: names of the outputs.
        examples: makes inputs from a number of rows and a length.
        max_length: the longest row that the network reads; ``None`` for any.
        num_compared: number of the outputs, the first ones, that answers are computed from.
    """

    module: Wrapped
    inputs: Mapping[str, Mapping[int, str]]
    outputs: Sequence[str]
    examples: Callable[[int, int], tuple[Tensor, ...]]
    max_length: int | None = None
    num_compared: int = 1

    def example(self, rows: int, length: int) -> tuple[Tensor, ...]:
        """Return inputs, no longer than the network reads."""
        return self.examples(rows, length if self.max_length is None else min(length, self.max_length))


def pad_ends(ids: Index, random: np.random.Generator) -> Index:
    """Pad rows from a random length on, all but the first, in place."""
    rows, length = ids.shape
    lengths = random.integers(1, length + 1, rows)
    lengths[0] = length
    ids[np.arange(length) >= lengths[:, None]] = PADDING
    return ids


@contextmanager
def _standard_operators() -> Iterator[None]:
    """Compute without compiled kernels."""
    level = kernels.level()
    kernels.load("off")
    try:
        yield
    finally:
        kernels.load(level)


def trace(network: Traceable, *, folded: bool) -> bytes:
    """Return the graph of a network.

    Args:
        network: the network.
        folded: whether constants are computed, which stores a table twice that is both looked up and multiplied, and
            which matrices need to be stored in 8 bits.

    Raises:
        SettingError: an operator of the network is not one of ONNX.
    """
    file = io.BytesIO()
    # The exporter prints the whole trace before it raises an error.
    printed = redirect_stdout(io.StringIO())
    with _standard_operators(), torch.enable_grad(), warnings.catch_warnings(), printed:
        # Sizes that a trace takes as constants are found by :func:`difference`, not by warnings.
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                network.module, network.example(*SIZES[0]), cast(Path, file), dynamo=False, opset_version=OPSET,
                do_constant_folding=folded,
                input_names=list(network.inputs), output_names=list(network.outputs),
                dynamic_axes={name: dict(axes) for name, axes in network.inputs.items()},
            )  # fmt: skip
        except RuntimeError as error:  # the base class of the exporter's errors
            reason = one_line(str(error).partition("\n")[0], 200)
            raise SettingError(f"the network has no form in ONNX ({reason})") from error
    return file.getvalue()


def difference(network: Traceable, graph: Graph) -> float:
    """Return the largest difference of a finite number in outputs of a network and of its graph.

    Infinite where the one is finite and the other is not.
    """
    largest = 0.0
    for rows, length in SIZES:
        inputs = network.example(rows, length)
        # Kernels may store items in 16 bits, which is right for the highest scores alone.
        with _standard_operators(), torch.no_grad():
            expected = network.module(*inputs)
        outputs = (expected,) if isinstance(expected, Tensor) else expected
        computed = graph(arrays_of(network, inputs), network.outputs[: network.num_compared])
        for tensor, array in zip(outputs[: network.num_compared], computed, strict=True):
            largest = max(largest, array_difference(tensor.numpy(), array))
    return largest


def arrays_of(network: Traceable, inputs: Sequence[Tensor]) -> dict[str, Array]:
    """Return inputs as arrays by name."""
    return {name: tensor.numpy() for name, tensor in zip(network.inputs, inputs, strict=True)}


def array_difference(expected: Array, computed: Array) -> float:
    """Return the largest difference of two arrays, of numbers above 1 relative to them.

    Infinite where their infinities or shapes differ.
    """
    if expected.shape != computed.shape or (np.isfinite(expected) != np.isfinite(computed)).any():
        return float(np.inf)
    finite = np.isfinite(expected)
    gaps = np.abs(expected[finite] - computed[finite]) / np.maximum(np.abs(expected[finite]), 1)
    return float(gaps.max(initial=0.0))
