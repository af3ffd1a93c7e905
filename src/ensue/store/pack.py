"""Fitted values as a JSON tree and tensors, and back: the types of the fields are the format.

A dataclass or a NamedTuple becomes an object with a key for each field. An array, a tensor or a column of texts becomes
one or two tensors that are named by their path, such as ``retrieval.following.totals``; the tree holds their type and
shape. Everything else is JSON, which pydantic checks against the annotation. A field at its default value is left out.

:func:`unpack` is strict, because a folder may come from a stranger: unknown and missing keys, other types, other dtypes
and numbers that are not finite are refused by one line that begins with the path. Checks of values that belong together
are in ``__post_init__`` of their class.
"""

from __future__ import annotations

import dataclasses
import json
import os
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl
import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ensue.errors import ModelFolderError
from ensue.lines import one_line
from ensue.nn.validation import Table, require_ids, require_table
from ensue.store.checksums import chunks, opened, require_sum, sum_of
from ensue.store.folder import read_json, read_unchanged
from ensue.vocabulary import FIRST, Vocabulary

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


T = TypeVar("T")
Hint: TypeAlias = Any
"""An annotation."""
Tree: TypeAlias = Any
"""Decoded JSON."""
Tensors = dict[str, Tensor]
TREE, TABLES = "fitted.json", "baselines.safetensors"
"""The files of a model folder that hold a packed value."""
_MISSING: object = dataclasses.MISSING


def files_of(value: object) -> dict[str, bytes | TensorFile]:
    """Return the two files of a model folder that hold a value."""
    tree, tensors = pack(value)
    return {TREE: json.dumps(tree, ensure_ascii=False).encode(), TABLES: TensorFile(tensors)}


def read_packed(kind: type[T], folder: Path) -> T:
    """Return the value of a type that :func:`files_of` wrote into a model folder.

    Raises:
        ModelFolderError: a file is missing or damaged.
        ValueError: the files hold something else.
    """
    return unpack(kind, read_json(folder, TREE), read_tensors(folder, TABLES))


def pack(value: object) -> tuple[Tree, Tensors]:
    """Return a JSON tree and tensors by path.

    Args:
        value: a dataclass or a NamedTuple; see the module.
    """
    tensors: Tensors = {}
    return _pack(value, "", tensors), tensors


def unpack(kind: type[T], tree: object, tensors: Mapping[str, Tensor], path: str = "") -> T:
    """Return the value of a type that :func:`pack` took apart.

    Args:
        kind: the type.
        tree: decoded JSON.
        tensors: by path; large ones are shared, not copied.
        path: of the value itself, in messages.

    Raises:
        ValueError: the tree or the tensors do not belong to the type; the message begins with the path.
    """
    unread = dict(tensors)
    value = _unpack(kind, tree, unread, path)
    if unread:
        raise ValueError(f"{one_line(min(unread), 80)}: is not known")
    return cast(T, value)


def _pack(value: object, path: str, tensors: Tensors, stored: torch.dtype | None = None) -> Tree:
    if isinstance(value, Tensor | np.ndarray):
        tensors[path] = table = _table(value).to(stored)
        return _described(table)
    if isinstance(value, pl.Series | Vocabulary):
        texts = value.to_list() if isinstance(value, pl.Series) else value.values
        tensors[f"{path}.bytes"] = _table(np.frombuffer("".join(texts).encode(), np.uint8))
        tensors[f"{path}.lengths"] = _table(np.fromiter(map(len, texts), np.int32, len(texts)))
        return f"text[{len(texts)}]"
    kind: Hint = type(value)
    if (kinds := _fields(kind)) is not None:
        tree = {}
        for name, hint in kinds.items():
            field, num_tables = getattr(value, name), len(tensors)
            packed = _pack(field, _join(path, name), tensors, _dtypes(hint)[1])
            if len(tensors) > num_tables or field != _default(kind, name):
                tree[name] = packed
        return tree
    if isinstance(value, Mapping):
        return {key: _pack(part, _join(path, key), tensors) for key, part in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [_pack(part, _join(path, str(index)), tensors) for index, part in enumerate(value)]
    return value


def _unpack(kind: Hint, tree: Tree, tensors: Tensors, path: str) -> object:
    if _origin(kind) in (Union, UnionType):
        if tree is None and NoneType in get_args(kind):
            return None
        options = [option for option in get_args(kind) if option is not NoneType]
        if len(options) == 1:
            kind = options[0]
    plain = get_args(kind)[0] if _origin(kind) is Annotated else kind
    origin, arguments = _origin(plain), get_args(plain)
    if plain is Tensor or origin is np.ndarray:
        return _unpack_table(kind, plain, tree, tensors, path)
    if plain in (pl.Series, Vocabulary):
        return _unpack_texts(plain, tree, tensors, path)
    if (kinds := _fields(plain)) is not None:
        return _unpack_fields(plain, kinds, tree, tensors, path)
    if arguments and _is_structured(arguments[-1]):
        tree = _require(dict, tree, path)
        return {key: _unpack(arguments[-1], part, tensors, _join(path, key)) for key, part in tree.items()}
    if arguments and _is_structured(arguments[0]):
        tree = _require(list, tree, path)
        return tuple(_unpack(arguments[0], part, tensors, _join(path, str(at))) for at, part in enumerate(tree))
    return _checked_json(kind, tree, path)


def _unpack_fields(kind: type, kinds: Mapping[str, Hint], tree: Tree, tensors: Tensors, path: str) -> object:
    tree = _require(dict, tree, path or kind.__name__)
    if unknown := sorted(tree.keys() - kinds.keys()):
        raise ValueError(f"{one_line(_join(path, unknown[0]), 80)}: is not known")
    values = {}
    for name, own in kinds.items():
        if name in tree:
            values[name] = _unpack(own, tree[name], tensors, _join(path, name))
        elif _default(kind, name) is _MISSING:
            raise ValueError(f"{_join(path, name)}: is missing")
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}" if path else str(error)) from error


def _unpack_table(kind: Hint, plain: Hint, tree: object, tensors: Tensors, path: str) -> object:
    if path not in tensors:
        raise ValueError(f"{path}: is missing in {TABLES}")
    table = tensors.pop(path)
    memory, stored = _dtypes(kind)
    if stored not in (None, table.dtype):
        raise ValueError(f"{path}: is {_described(table)}, not {str(stored).removeprefix('torch.')}")
    if tree != _described(table):
        raise ValueError(f"{path}: is {_described(table)} in {TABLES}, but {one_line(str(tree), 40)} in {TREE}")
    table = table.to(memory)
    if plain is Tensor:
        return table
    return table.numpy().view(np.uint64) if _unsigned(plain) else table.numpy()


def _unpack_texts(plain: type, tree: object, tensors: Tensors, path: str) -> pl.Series | Vocabulary:
    names = [f"{path}.bytes", f"{path}.lengths"]
    if missing := [name for name in names if name not in tensors]:
        raise ValueError(f"{missing[0]}: is missing in {TABLES}")
    data, lengths = (tensors.pop(name) for name in names)
    require_table(names[0], data, torch.uint8, [None])
    require_table(names[1], lengths, torch.int32, [None])
    require_ids(names[1], lengths, len(data) + 1)
    try:
        joined = data.numpy().tobytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{names[0]}: is not UTF-8") from error
    ends = np.cumsum(lengths.numpy(), dtype=np.int64)
    if tree != f"text[{len(ends)}]" or (ends[-1] if len(ends) else 0) != len(joined):
        raise ValueError(f"{path}: {len(joined)} characters do not make {one_line(str(tree), 40)}")
    texts = [joined[start:end] for start, end in pairwise([0, *ends.tolist()])]
    if plain is pl.Series:
        return pl.Series(path.rpartition(".")[2], texts, dtype=pl.String)
    vocabulary = Vocabulary(texts)
    if len(vocabulary) - FIRST < len(texts):
        raise ValueError(f"{path}: holds a text twice")
    return vocabulary


def _require(kind: type[T], tree: object, path: str) -> T:
    if not isinstance(tree, kind):
        raise ValueError(f"{path}: is {one_line(repr(tree), 40)}, not a {kind.__name__}")
    return tree


def _checked_json(kind: Hint, tree: object, path: str) -> object:
    try:
        return _adapter(kind).validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join([path, *map(str, first["loc"])])
        raise ValueError(f"{one_line(place, 80)}: {first['msg']}") from error


@cache
def _adapter(kind: Hint) -> TypeAdapter[object]:
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))


@cache
def _fields(kind: Hashable) -> dict[str, Hint] | None:
    """Return the fields of a dataclass or a NamedTuple with their annotations; ``None`` of any other type."""
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
    if isinstance(kind, type) and issubclass(kind, tuple) and kind is not tuple:
        return get_type_hints(kind, include_extras=True)
    return None


def _origin(kind: Hint) -> object:
    return get_origin(kind)


def _default(kind: Hint, name: str) -> object:
    """Return the default of a field, ``MISSING`` where it has none."""
    if not dataclasses.is_dataclass(kind):
        return kind._field_defaults.get(name, _MISSING)
    field = kind.__dataclass_fields__[name]
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_structured(kind: Hint) -> bool:
    """Return whether a type is made of fields or tables, so that more than JSON has to be read."""
    plain = get_args(kind)[0] if _origin(kind) is Annotated else kind
    return plain in (Tensor, pl.Series, Vocabulary) or _origin(plain) is np.ndarray or _fields(plain) is not None


def _dtypes(kind: Hint) -> tuple[torch.dtype | None, torch.dtype | None]:
    """Return the dtypes of a table in memory and in a folder, ``None`` where the annotation leaves them open.

    ``npt.NDArray[np.int32]`` and ``Annotated[Tensor, torch.int32]`` have one for both;
    ``Annotated[Tensor, torch.float64, torch.float32]`` is rounded for the folder, and so is an array with a dtype.
    """
    if _origin(kind) is Annotated:
        plain, *extras = get_args(kind)
        dtypes = [dtype for dtype in (_dtypes(plain)[0], *extras) if isinstance(dtype, torch.dtype)]
        return (dtypes[0], dtypes[-1]) if dtypes else (None, None)
    if _origin(kind) is np.ndarray:
        dtype = _table(np.empty(0, get_args(get_args(kind)[1])[0])).dtype
        return dtype, dtype
    return None, None


def _unsigned(kind: Hint) -> bool:
    return _origin(kind) is np.ndarray and get_args(get_args(kind)[1])[0] is np.uint64


def _table(value: Table) -> Tensor:
    """Return an array as a tensor; unsigned numbers of 64 bits, which safetensors lacks, by the same bits."""
    if isinstance(value, Tensor):
        return value.detach()
    array = np.ascontiguousarray(value.view(np.int64) if value.dtype == np.uint64 else value)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _described(table: Tensor) -> str:
    return f"{str(table.dtype).removeprefix('torch.')}{[*table.shape]}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
