"""Exports: a model folder with its network as an ONNX graph, which answers without torch.

An exported folder is a model folder. Everything but the network is stored as before: vocabulary, baselines, weights and
memories of ensembles. It cannot be updated; the folder that it was exported from can.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, TypeAlias

from ensue.errors import MissingLibraryError, SettingError
from ensue.lazy import lazy, require_torch
from ensue.learning.state import AnyState, ExportFacts, Exports, is_network
from ensue.predictor import load
from ensue.store.folder import described, read_settings, write_folder
from ensue.store.graph import ENSEMBLE, INSTALL, Graph
from ensue.store.pack import NETWORK, OPTIMIZER, TensorFile
from ensue.tasks import TASKS
from ensue.text.encoder import Encoder

if TYPE_CHECKING:
    import onnx
    from onnxruntime import quantization

    from ensue.learning import onnx_trace
else:
    onnx = lazy("onnx")
    quantization = lazy("onnxruntime.quantization")
    onnx_trace = lazy("ensue.learning.onnx_trace")

VOCABULARY = "vocabulary.json"
"""The file that lists what each id of the graph stands for."""
Precision: TypeAlias = Literal["float32", "int8"]
MAX_DIFFERENCE = 1e-5
"""Largest difference of a score of a float32 graph from that of the network, relative to scores above 1."""


@dataclass(frozen=True)
class ExportReport:
    """Result of an export.

    Attributes:
        folder: the exported folder.
        task: of the model.
        model: its name.
        precision: of the weights.
        difference: largest difference of a score of the graph from that of the network, on random inputs.
        sizes: bytes of each graph, by the name of its file.
        network_bytes: bytes of the weights in the folder that was exported.
    """

    folder: str
    task: str
    model: str
    precision: Precision
    difference: float
    sizes: Mapping[str, int]
    network_bytes: int


def export_onnx(folder: str | Path, output: str | Path, *, precision: Precision = "float32") -> ExportReport:
    """Write a copy of a model folder whose network is an ONNX graph.

    Args:
        folder: a model folder with a trained network.
        output: where; an older export there is replaced.
        precision: ``int8`` stores the matrices of the network in 8 bits.

    Raises:
        SettingError: the model has no network, is an export already, or its graph gives other scores; or the output
            holds a trained model.
        MissingLibraryError: torch, onnx or onnxruntime is not installed.
        ModelFolderError: the folder is damaged, or the output cannot be written.
    """
    source, target = Path(folder), Path(output)
    require_torch("export")
    for library in ("onnx", "onnxruntime"):
        if find_spec(library) is None:
            raise MissingLibraryError(f"export: needs {library}, which is not installed; {INSTALL}")
    if source.resolve() == target.resolve():
        raise SettingError(f"{target}: is the folder that is exported; give another one")
    if (target / "settings.json").exists() and not read_settings(target)["facts"].get("exported"):
        raise SettingError(f"{target}: holds a trained model, which an export would replace; give another folder")
    predictor = load(source, device="cpu")
    exports = _exports(predictor, source)
    folded = precision == "int8"
    graphs = {name: onnx_trace.trace(network, folded=folded) for name, network in exports.graphs.items()}
    if precision == "int8":
        graphs = {name: quantised(data) for name, data in graphs.items()}
    differences = [
        onnx_trace.difference(network, Graph(graphs[name], name)) for name, network in exports.graphs.items()
    ]
    difference = max(differences)
    # Eight bits cost precision by intention; for float32 anything but rounding is an operator that differs.
    if precision == "float32" and not difference <= MAX_DIFFERENCE:
        raise SettingError(
            f"{source}: the graph of {predictor.model_name} gives other scores than the network (by up to "
            f"{difference:.1e}); nothing was written"
        )
    _write(predictor, exports, graphs, target, ExportFacts(precision=precision, reach=exports.reach), source)
    return ExportReport(
        folder=str(target),
        task=predictor.task,
        model=predictor.model_name,
        precision=precision,
        difference=difference,
        sizes={name: len(data) for name, data in graphs.items()},
        network_bytes=(source / NETWORK).stat().st_size,
    )


def _exports(predictor: AnyState, source: Path) -> Exports:
    """Return the graphs of a predictor, untraced.

    Raises:
        SettingError: the model has no network that is trained here, or is an export already.
    """
    if predictor.metadata.exported is not None:
        raise SettingError(f"{source}: is an export already; export the folder that it was made from")
    if isinstance(predictor.model, Encoder):
        raise SettingError(
            f"{source}: the sentence encoder {predictor.model.name} is not of this folder, and not exported"
        )
    if not is_network(predictor.model):
        raise SettingError(
            f"{source}: {predictor.model_name} has no network to export; `ensue serve` answers from the folder without "
            "torch"
        )
    exports: Exports = TASKS[predictor.task].module("onnx_export").exports(predictor)
    return exports


def _write(
    predictor: AnyState, exports: Exports, graphs: Mapping[str, bytes], target: Path, facts: ExportFacts, source: Path
) -> None:
    """Write the files of the folder, with graphs in place of the network."""
    contents = dict(predictor.contents())
    for name in (NETWORK, OPTIMIZER, *exports.dropped):
        contents.pop(name, None)
    predictor.metadata.exported = facts
    contents |= described(predictor.summary(), predictor.card())
    if exports.arrays:
        contents[ENSEMBLE] = TensorFile(exports.arrays)
    contents[VOCABULARY] = json.dumps(list(exports.vocabulary), ensure_ascii=False).encode()
    write_folder(target, {**contents, **graphs}, like=source)


def quantised(data: bytes) -> bytes:
    """Return a graph whose constant matrices are stored in 8 bits, and multiplied so where onnxruntime can."""
    # onnxruntime's function takes and writes files.
    with TemporaryDirectory() as folder:
        source, target = Path(folder) / "float32.onnx", Path(folder) / "int8.onnx"
        source.write_bytes(data)
        # It logs which tensors stay as they are; the loss is measured, here and by `ensue evaluate`.
        logging.disable(logging.WARNING)
        try:
            quantization.quantize_dynamic(
                source, target, weight_type=quantization.QuantType.QInt8, per_channel=True,
                nodes_to_exclude=_other_products(data),
            )  # fmt: skip
        finally:
            logging.disable(logging.NOTSET)
        return target.read_bytes()


def _other_products(data: bytes) -> list[str]:
    """Return the names of products by a constant that is no matrix, which onnxruntime cannot compute in 8 bits."""
    graph = onnx.load_from_string(data).graph
    tensors = {tensor.name for tensor in graph.initializer if len(tensor.dims) != 2}
    return [node.name for node in graph.node if node.op_type == "MatMul" and not tensors.isdisjoint(node.input)]
