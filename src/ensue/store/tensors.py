"""Tensors in files of model folders: safetensors, each checked against its checksum, every number finite."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from ensue.errors import ModelFolderError
from ensue.store.checksums import chunks, opened, require_sum, sum_of
from ensue.store.folder import read_file


def read_tensors(folder: Path, name: str) -> dict[str, Tensor]:
    """The tensors of one safetensors file of a model folder.

    Raises:
        ModelFolderError: the file is missing or damaged, or holds what is no finite number.
    """
    try:
        return _finite(folder, name, load(read_file(folder, name)))
    except SafetensorError as error:
        raise ModelFolderError(f"{folder}/{name}: damaged ({error}); fit the model again or copy it anew") from error


def open_tensors(folder: Path, name: str) -> tuple[set[str], Callable[[], dict[str, Tensor]]]:
    """The names of the tensors of a file, and how to read them; the file that stands now, even if another follows.

    Raises:
        ModelFolderError: the file is missing or damaged; what can be seen by reading it all is raised when it is read.
    """
    path = folder / name
    with opened(folder, name) as file:
        expected, descriptor = sum_of(folder, name), os.dup(file.fileno())
    try:
        tensors: Any = safe_open(path, "pt")
    except (OSError, SafetensorError) as error:
        os.close(descriptor)
        raise ModelFolderError(f"{path}: damaged ({error}); fit the model again or copy it anew") from error
    names = set(tensors.keys())

    def read() -> dict[str, Tensor]:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(0)
            require_sum(folder, name, expected, chunks(file))
        return _finite(folder, name, {key: tensors.get_tensor(key) for key in names})

    weakref.finalize(read, os.close, descriptor)
    return names, read


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Tensors (and a few texts beside them) as one safetensors file."""
    return save({name: tensor.contiguous() for name, tensor in tensors.items()}, dict(metadata or {}))


def _finite(folder: Path, name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            least, most = tensor.aminmax()  # NaN is both where there is one
            if not (least.isfinite() and most.isfinite()):
                raise ModelFolderError(f"{folder}/{name}: {key} holds NaN or infinity; fit the model again")
    return tensors
