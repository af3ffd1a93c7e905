"""Networks in ONNX: a file of a model folder that onnxruntime runs, without torch.

``ensue export`` writes such folders (:mod:`ensue.export`). A graph is data: onnxruntime knows its operators, and none
reads a file or runs code of the folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ensue import kernels
from ensue.errors import MissingLibraryError, ModelFolderError
from ensue.lazy import lazy
from ensue.lines import one_line
from ensue.nn.validation import Array
from ensue.store.folder import read_file

if TYPE_CHECKING:
    import onnxruntime
else:
    onnxruntime = lazy("onnxruntime")

GRAPH, ENSEMBLE = "network.onnx", "ensemble.safetensors"
"""The files of an exported folder that hold the network, and the weights of an ensemble around it."""
INSTALL = 'pip install "ensue[onnx]"'
"""The command that installs onnxruntime with ensue."""
_ERRORS_ONLY = 3
"""Least severity of onnxruntime's own messages."""


class Graph:
    """A network in ONNX.

    Args:
        data: contents of the file.
        name: of the file, in messages.

    Raises:
        MissingLibraryError: onnxruntime is not installed.
        ModelFolderError: the file is no graph.
    """

    def __init__(self, data: bytes, name: str) -> None:
        if find_spec("onnxruntime") is None:
            raise MissingLibraryError(f"{name}: needs onnxruntime, which is not installed; {INSTALL}")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ERRORS_ONLY
        options.intra_op_num_threads = kernels.num_threads()
        try:
            self.session: onnxruntime.InferenceSession = onnxruntime.InferenceSession(
                data, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # a class of its own for each status
            raise ModelFolderError(f"{name}: no ONNX graph that onnxruntime reads ({_reason(error)})") from error
        self.name = name
        self.inputs = tuple(node.name for node in self.session.get_inputs())
        """Names of the inputs; the graph of a network that reads no times has none for them."""
        self.outputs = tuple(node.name for node in self.session.get_outputs())

    @classmethod
    def read(cls, folder: Path, name: str = GRAPH) -> Graph:
        """Return a graph of a model folder.

        Raises:
            ModelFolderError: the file is missing or damaged, or no graph.
            MissingLibraryError: onnxruntime is not installed.
        """
        return cls(read_file(folder, name), f"{folder}/{name}")

    def __call__(self, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None) -> list[Array]:
        """Return the outputs, all unless some are named.

        Args:
            inputs: arrays by name; those that the graph does not read are left out.
            outputs: names.

        Raises:
            ModelFolderError: the graph does not take the inputs.
        """
        try:
            results: list[Array] = self.session.run(outputs, {name: inputs[name] for name in self.inputs})
        except Exception as error:
            raise ModelFolderError(f"{self.name}: {_reason(error)}; export the model again") from error
        return [np.asarray(result) for result in results]


def _reason(error: Exception) -> str:
    return one_line(" ".join(str(error).split()) or type(error).__name__, 200)
