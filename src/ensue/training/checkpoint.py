"""A training run's state on the disk, tensor by tensor: no second copy of a model is ever held to write or read one.

A file is in the format of safetensors (https://github.com/huggingface/safetensors): eight bytes with the length of a
header, the header in JSON, then the tensors. In a group of ranks the first one alone writes and reads; what it reads it
sends to the others, one tensor after the other, so that no rank needs another's disk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from ensue.errors import ModelFolderError, SettingError
from ensue.lazy import lazy, torch
from ensue.store.access import private_access
from ensue.store.folder import write_chunks
from ensue.store.pack import DTYPES, TensorFile
from ensue.training.distributed import broadcast, rank_and_size, share

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Adam

    from ensue.training import optimizer as optimizers
else:
    optimizers = lazy("ensue.training.optimizer")

_MODEL = "model."
_OPTIMIZER = "optimizer."


class Checkpoint(NamedTuple):
    """The file from which a killed training run continues.

    Attributes:
        path: the file; ``None`` if none is written.
        resume: whether to continue from it, where it exists.
    """

    path: Path | None = None
    resume: bool = False

    def sibling(self, suffix: str) -> Checkpoint:
        """Return the checkpoint of another run of the same training, in a file next to this one."""
        return self if self.path is None else self._replace(path=self.path.with_name(f"{self.path.name}{suffix}"))


NO_CHECKPOINT = Checkpoint()


def run_key(settings: object, arrays: Iterable[npt.NDArray[np.generic]]) -> str:
    """Return a hash of a training run, so that a checkpoint of other settings or data is refused.

    Args:
        settings: everything but the data that decides the weights, as JSON has it.
        arrays: the data.
    """
    key = hashlib.blake2b(json.dumps(settings).encode(), digest_size=16)
    for array in arrays:
        key.update(np.ascontiguousarray(array).data)
    return key.hexdigest()


class _Opened(TypedDict, total=False):
    """Header of a checkpoint that the first rank has read, or the reason why it cannot be used."""

    metadata: dict[str, str]
    tensors: dict[str, tuple[str, list[int]]]
    setting: str
    damaged: str


def state_tensors(model: nn.Module, optimizer: Adam) -> dict[str, Tensor]:
    """Return the weights and the optimiser's moments themselves, not copies."""
    # Prefixes keep the names of weights and moments apart in one file.
    weights = {f"{_MODEL}{name}": tensor for name, tensor in model.state_dict().items()}
    moments = optimizers.optimizer_tensors(model, optimizer)
    return weights | {f"{_OPTIMIZER}{name}": tensor for name, tensor in moments.items()}


def save_state(path: Path, model: nn.Module, optimizer: Adam, metadata: Mapping[str, str]) -> None:
    """Replace a file by the state of a run, at once.

    Raises:
        ModelFolderError: the disk is full or the folder cannot be written; the old file is intact.
    """
    # A checkpoint holds what the model folder will hold, whose mode is not known yet: for its owner alone until then.
    write_chunks(path, TensorFile(state_tensors(model, optimizer), metadata), access=private_access())


def load_state(
    path: Path, model: nn.Module, optimizer: Adam, check: Callable[[dict[str, str]], None]
) -> dict[str, str]:
    """Put back what :func:`save_state` wrote where the first rank runs; every rank ends with the same.

    Args:
        path: the file, of the first rank's disk.
        model: takes the weights.
        optimizer: takes the moments.
        check: raises an error where the metadata is of another run.

    Returns:
        The metadata.

    Raises:
        ModelFolderError: the file is damaged, on every rank.
        SettingError: it is of another run, on every rank.
    """
    header: _Opened = {}
    if rank_and_size()[0] == 0:
        try:
            with safe_open(path, "pt") as file:
                header = {"metadata": file.metadata() or {}}
                check(header["metadata"])
                header["tensors"] = _described(file, model)
        except SettingError as error:
            header = {"setting": str(error)}
        except (SafetensorError, OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            header = {"damaged": f"{path}: the checkpoint is damaged ({reason}); start without --resume"}
    # Every rank learns of an error of the first, or the others would wait for its tensors for ever.
    header = share(header)
    if "setting" in header:
        raise SettingError(header["setting"])
    if "damaged" in header:
        raise ModelFolderError(header["damaged"])
    arriving = _Arriving(path, header["tensors"], next(model.parameters()).device)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(arriving[_MODEL + name])
    optimizer.state.clear()  # or old and new moments would be in memory together
    optimizers.restore_optimizer(model, optimizer, arriving.under(_OPTIMIZER))
    return header["metadata"]


def _described(file: Any, model: nn.Module) -> dict[str, tuple[str, list[int]]]:
    """Return the type and shape of every tensor of a file, which must be those of the model."""
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    tensors = {name: (stored.get_dtype(), list(stored.get_shape())) for name, stored in slices.items()}
    expected = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    if {name.removeprefix(_MODEL): of[1] for name, of in tensors.items() if name.startswith(_MODEL)} != expected:
        raise ValueError("the tensors belong to another model")
    shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    # Adam's step is a single number; its means have the shape of their parameter.
    moments = {
        f"{_OPTIMIZER}{name}.{field}": ([] if field == "step" else shape)
        for name, shape in shapes.items()
        for field in optimizers.FIELDS
    }
    if any(moments.get(name) != of[1] for name, of in tensors.items() if not name.startswith(_MODEL)):
        raise ValueError("the tensors belong to another optimiser")
    return tensors


@dataclass(eq=False)
class _Arriving(Mapping[str, "Tensor"]):
    """Tensors that the first rank reads and the others are sent, each when it is asked for; all ask in one order."""

    path: Path
    described: Mapping[str, tuple[str, list[int]]]
    device: torch.device
    prefix: str = ""

    def under(self, prefix: str) -> _Arriving:
        """Return the tensors whose names begin with a prefix, by the rest of their names."""
        return _Arriving(self.path, self.described, self.device, prefix)

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return (name.removeprefix(self.prefix) for name in self.described if name.startswith(self.prefix))

    def __len__(self) -> int:
        """Return the number of tensors."""
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a tensor; nothing is read."""
        return f"{self.prefix}{name}" in self.described

    def __getitem__(self, name: str) -> Tensor:
        """Return a tensor on the device of the model."""
        dtype, shape = self.described[self.prefix + name]
        if rank_and_size()[0] == 0:
            # Opened for each tensor, so that earlier ones are not held in memory.
            with safe_open(self.path, "pt") as file:
                tensor: Tensor = file.get_tensor(self.prefix + name).to(self.device)
        else:
            # Look up torch's name of a type that is stored by its name in the safetensors format.
            (name,) = (name for name, stored in DTYPES.items() if stored == dtype)
            tensor = torch.empty(shape, dtype=getattr(torch, name), device=self.device)
        return broadcast(tensor)
