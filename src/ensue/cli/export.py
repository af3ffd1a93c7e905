"""The command ``export``: a model folder whose network runs in onnxruntime, without torch."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import display
from ensue.cli.options import Folder, Json, OwnModel
from ensue.store.folder import require_writable


def export(
    folder: Folder,
    onnx: Annotated[Path, typer.Option("--onnx", help="folder to write, with the network as ONNX", show_default=False)],
    model: OwnModel = "",
    *,
    int8: Annotated[bool, typer.Option("--int8", help="store the network's matrices in 8 bits")] = False,
    json: Json = False,
) -> None:
    """Write a copy of a model folder that answers without torch.

    The copy has the network as an ONNX graph, for onnxruntime. It answers and explains, but cannot be updated.
    """
    require_writable(onnx)
    from ensue.export import export_onnx  # torch

    report = export_onnx(folder, onnx, precision="int8" if int8 else "float32")
    if json:
        display.print_json(asdict(report))
        return
    sizes = ", ".join(f"{name} {size / 1e6:,.2f} MB" for name, size in report.sizes.items())
    display.log(
        f"saved {onnx}: {report.model} of task {report.task}, {report.precision}; {sizes}, in place of "
        f"{report.network_bytes / 1e6:,.2f} MB of weights; scores differ by up to {report.difference:.1e}"
    )
