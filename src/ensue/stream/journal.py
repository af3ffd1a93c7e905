"""Commits of a large model: what changed since the one before is appended to a file beside the folder.

To write a folder takes as long as it is large. A commit of the journal holds the rows that were moved and their
moments, all small tensors, open sessions, the position and what was seen; so it is as large as what was learned. From
time to time, and when a stream ends, the folder is written whole and the journal begins anew.

The file ``.NAME.journal`` begins with the checksum of the folder that it goes on from. Each commit is its length, its
bytes and their checksum, and is on the disk before the source hears of it. Whatever was cut off by a kill is no commit;
a journal of another folder, as after ``ensue update``, is none at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from ensue.errors import ModelFolderError
from ensue.nn.validation import require_ids, require_number, require_table
from ensue.store import checksums
from ensue.store.access import ensure_file, sibling_access
from ensue.store.checksums import opened
from ensue.store.folder import damage
from ensue.store.tensors import require_saved, tensor_bytes
from ensue.tasks.next.state import NextState
from ensue.tasks.state import module_of
from ensue.training.optimizer import FIELDS, RowAdam, by_row, optimizer_tensors
from ensue.vocabulary import FIRST

SUM = 32
"""Bytes of a checksum."""


class Entry(NamedTuple):
    """One commit: what was said, and the tensors."""

    state: dict[str, Any]
    tensors: dict[str, Tensor]


class Journal:
    """The file; see the module.

    Args:
        folder: the model folder, under its lock.
    """

    def __init__(self, folder: Path) -> None:
        place = folder.resolve()
        self.folder, self.path, self.size = folder, place.with_name(f".{place.name}.journal"), 0

    def read(self) -> list[Entry]:
        """The commits since the folder was written; what was cut off is cut away.

        Raises:
            ModelFolderError: the file cannot be read.
        """
        if not self.path.exists():
            return []
        found, whole = [], 0
        with opened(self.path.parent, self.path.name) as file:
            if file.read(SUM) == self._base():
                whole = SUM
                while entry := self._next(file):
                    found.append(entry)
                    whole = file.tell()
        if not found:
            self.restart()
            return []
        os.truncate(self.path, whole)
        self.size = whole
        return found

    def append(self, entry: Entry) -> None:
        """Add a commit; it is on the disk when this returns.

        Raises:
            ModelFolderError: the disk is full, or the place cannot be written; the commit before stands.
        """
        data = tensor_bytes(entry.tensors, {"state": json.dumps(entry.state)})
        head = b"" if self.size else self._base()
        try:
            ensure_file(self.path, sibling_access(self.folder))
            with self.path.open("r+b") as file:
                file.seek(self.size)
                file.write(head + len(data).to_bytes(8, "little"))
                file.write(data)
                file.write(_sum(data))
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
                self.size = file.tell()
        except OSError as error:
            raise ModelFolderError(
                f"{self.path}: cannot be written ({error.strerror}); the last commit is kept"
            ) from error

    def restart(self) -> None:
        """Begin anew: the folder holds all there was."""
        self.path.unlink(missing_ok=True)
        self.size = 0

    def _base(self) -> bytes:
        """What tells the folder that stands from any other."""
        return _sum((self.folder / checksums.FILE).read_bytes())

    def _next(self, file: BinaryIO) -> Entry | None:
        """The next commit; ``None`` at the end, and where it is not whole."""
        size = int.from_bytes(file.read(8), "little")
        data = file.read(size) if size <= os.fstat(file.fileno()).st_size else b""
        if not data or file.read(SUM) != _sum(data):
            return None
        with damage(self.path):
            try:
                header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
                entry = Entry(json.loads(header["__metadata__"]["state"]), load(data))
            except SafetensorError as error:
                raise ValueError(str(error)) from error
            for key, tensor in entry.tensors.items():
                require_saved(self.path, key, tensor)
            return entry


def _sum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=SUM).digest()


class Changes:
    """Which rows of a network were moved since the last commit, as its optimiser tells.

    Args:
        state: of a trained model whose tables are learned by rows.
    """

    def __init__(self, state: NextState) -> None:
        self.state = state
        assert isinstance(state.optimizer, RowAdam)
        self._touched = state.optimizer.touched = {}
        self._known = len(state.vocabulary)

    @property
    def bytes(self) -> int:
        """What a commit takes at most; rows that were moved twice count twice."""
        sizes = (table[:1].nbytes * sum(map(len, parts)) for table, parts in self._touched.items())
        return 3 * sum(sizes)

    def take(self) -> tuple[list[str], dict[str, Tensor]]:
        """New values since the last commit, and tensors to apply by :func:`apply_changes`; a new list begins."""
        module = module_of(self.state.network)
        assert self.state.optimizer is not None
        moments, tables = optimizer_tensors(module, self.state.optimizer), by_row(module)
        fresh = torch.arange(self._known, len(self.state.vocabulary))
        tensors: dict[str, Tensor] = {}
        for name, parameter in module.named_parameters():
            own = {"": parameter.detach()}
            if f"{name}.step" in moments:
                tensors[f"whole.{name}.step"] = moments[f"{name}.step"]
                own |= {f".{field}": moments[f"{name}.{field}"] for field in FIELDS[1:]}
            if parameter not in tables:
                tensors |= {f"whole.{name}{field}": tensor for field, tensor in own.items()}
                continue
            rows = torch.unique(torch.cat([*self._touched.get(parameter, []), fresh.to(parameter.device)]))
            tensors[f"ids.{name}"] = rows
            tensors |= {f"rows.{name}{field}": tensor.index_select(0, rows) for field, tensor in own.items()}
        values = list(self.state.vocabulary.values[self._known - FIRST :])
        self._touched.clear()
        self._known = len(self.state.vocabulary)
        return values, {name: tensor.detach().cpu() for name, tensor in tensors.items()}


@torch.no_grad()
def apply_changes(state: NextState, tensors: Mapping[str, Tensor]) -> None:
    """Put rows, moments and small tensors of a commit in their places; new values have been added before.

    Raises:
        ValueError: it is of another model.
    """
    module, optimizer = module_of(state.network), state.optimizer
    assert optimizer is not None
    parameters = dict(module.named_parameters())
    for name, parameter in parameters.items():
        moments = optimizer.state[parameter]
        if f"whole.{name}.step" in tensors:
            moments["step"] = tensors[f"whole.{name}.step"].clone()
            require_table(f"{name}.step", moments["step"], torch.float32, ())
            require_number(f"{name}.step", moments["step"], math.inf)
        for field in ("", *(f".{field}" for field in FIELDS[1:])):
            whole, rows = tensors.get(f"whole.{name}{field}"), tensors.get(f"rows.{name}{field}")
            if whole is None and rows is None:
                continue
            place = parameter.data if not field else moments.setdefault(field[1:], torch.zeros_like(parameter))
            if whole is not None:
                require_table(f"whole.{name}{field}", whole, place.dtype, place.shape)
                place.copy_(whole)
            elif rows is not None:
                ids = tensors[f"ids.{name}"]
                require_table(f"ids.{name}", ids, torch.int64, [None])
                require_ids(f"ids.{name}", ids, len(place))
                require_table(f"rows.{name}{field}", rows, place.dtype, (len(ids), *place.shape[1:]))
                place.index_copy_(0, ids.to(place.device), rows.to(place.device))
        if not moments:
            del optimizer.state[parameter]
            continue
        if moments.keys() != set(FIELDS):
            raise ValueError(f"{name} lacks moments of the optimiser")
        require_number(f"{name}.exp_avg_sq", moments["exp_avg_sq"], math.inf)


def large_by_rows(module: nn.Module, least: int) -> bool:
    """Whether a network's weights and moments are at least so large, and nearly all of it is tables learned by rows."""
    tables = by_row(module)
    sizes = [(parameter.nbytes, parameter in tables) for parameter in module.parameters()]
    total, dense = sum(size for size, _ in sizes), sum(size for size, sparse in sizes if not sparse)
    return bool(tables) and 3 * total >= least and 8 * dense <= total + 8 * 2**20
