"""Tensors in files of model folders: safetensors, each checked against its checksum, every number finite.

A large tensor is not copied: it is a private mapping of its file, of which all processes that read the folder share the
pages, and what one of them writes to it is its own. A folder is replaced whole, so the file behind stays as it was.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ensue.errors import ModelFolderError
from ensue.lines import one_line
from ensue.store.checksums import chunks, opened, require_sum, sum_of
from ensue.store.folder import read_unchanged

MAPPED = 2**24
"""Bytes from which a tensor stays a mapping; below, it is copied to where the processor reads it best."""

DTYPES = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Names of the types, in the order in which a file holds its tensors."""
MAX_SIZE = 2**40
"""Rows or columns of a tensor, at most: an empty tensor may claim any number of them."""
BLOCK = 2**22
"""Numbers that are written at once."""


class _Tensors(Protocol):
    """An open safetensors file."""

    def keys(self) -> list[str]:
        """Names of its tensors."""

    def get_tensor(self, name: str) -> Tensor:
        """Map a tensor."""


def read_tensors(folder: Path, name: str) -> dict[str, Tensor]:
    """The tensors of one safetensors file of a model folder; those of at least ``MAPPED`` bytes are mapped.

    Raises:
        ModelFolderError: the file is missing or damaged, or holds what is no finite number.
    """

    def read() -> dict[str, Tensor]:
        with opened(folder, name) as file:
            require_sum(folder, name, sum_of(folder, name), chunks(file))
            tensors = _opened(folder / name)
        return {key: _held(tensor) for key, tensor in _checked(folder, name, tensors).items()}

    return read_unchanged(folder, read)


def _opened(path: Path) -> _Tensors:
    try:
        file: _Tensors = safe_open(path, "pt")
        return file
    except (OSError, SafetensorError) as error:
        raise ModelFolderError(
            f"{path}: damaged ({one_line(str(error))}); fit the model again or copy it again"
        ) from error


def _held(tensor: Tensor) -> Tensor:
    return tensor if tensor.nbytes >= MAPPED else tensor.clone()


def open_tensors(folder: Path, name: str) -> tuple[set[str], Callable[[], dict[str, Tensor]]]:
    """The names of the tensors of a file, and how to read them; the file that stands now, even if another follows.

    Raises:
        ModelFolderError: the file is missing or damaged; what can be seen by reading it all is raised when it is read.
    """
    with opened(folder, name) as file:
        expected, descriptor = sum_of(folder, name), os.dup(file.fileno())
    try:
        tensors = _opened(folder / name)
    except ModelFolderError:
        os.close(descriptor)
        raise
    names = set(tensors.keys())

    def read() -> dict[str, Tensor]:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(0)
            require_sum(folder, name, expected, chunks(file))
        return _checked(folder, name, tensors)

    weakref.finalize(read, os.close, descriptor)
    return names, read


class TensorFile:
    """A safetensors file that is made as it is written, tensor by tensor: no second copy of a model is ever held.

    Its bytes are those of ``safetensors.torch.save``.

    Args:
        tensors: by name; they must stay as they are until the file is written.
        metadata: a few texts beside them.
    """

    def __init__(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
        order = [*DTYPES]
        self.tensors = {
            name: tensors[name] for name in sorted(tensors, key=lambda name: (order.index(tensors[name].dtype), name))
        }
        self.metadata = dict(metadata or {})

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """The header, then each tensor in blocks."""
        header: dict[str, object] = {"__metadata__": self.metadata}
        end = 0
        for name, tensor in self.tensors.items():
            begin, end = end, end + tensor.numel() * tensor.element_size()
            header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        yield len(text).to_bytes(8, "little") + text
        for tensor in filter(Tensor.numel, self.tensors.values()):
            for block in torch.split(tensor.detach().contiguous().flatten(), BLOCK):
                # A copy, for what numpy has seen can no longer grow in place.
                yield block.to("cpu", copy=True).view(torch.uint8).numpy().data


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a :class:`TensorFile`."""
    return b"".join(TensorFile(tensors, metadata))


def _checked(folder: Path, name: str, file: _Tensors) -> dict[str, Tensor]:
    """Return the tensors of an open file, mapped.

    Raises:
        ModelFolderError: a tensor has a type or a size that is never saved, or a number that is not finite.
    """
    tensors = {}
    for key in file.keys():  # noqa: SIM118
        try:
            tensors[key] = file.get_tensor(key)
        except (SafetensorError, RuntimeError) as error:
            raise ModelFolderError(
                f"{folder}/{name}: damaged ({one_line(str(error))}); fit the model again or copy it again"
            ) from error
        require_saved(folder / name, key, tensors[key])
    return tensors


def require_saved(path: Path, key: str, tensor: Tensor) -> None:
    """Check that a tensor of a file is one that is ever saved.

    Raises:
        ModelFolderError: it has a type or a size that is never saved, or a number that is not finite.
    """
    if tensor.dtype not in DTYPES or max(tensor.shape, default=0) > MAX_SIZE:
        raise ModelFolderError(
            f"{path}: {one_line(key, 80)} is {tensor.dtype} of shape {tuple(tensor.shape)}, which ensue never "
            "saves; the folder is damaged"
        )
    if tensor.is_floating_point() and tensor.numel():
        least, most = tensor.aminmax()  # both are NaN where one number is
        if not (least.isfinite() and most.isfinite()):
            raise ModelFolderError(f"{path}: {one_line(key, 80)} holds NaN or infinity; fit the model again")
