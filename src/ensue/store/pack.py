"""Fitted values as a JSON tree and arrays, and back: the types of the fields are the format.

A dataclass or a NamedTuple becomes an object with a key for each field. An array, a tensor or a column of texts becomes
one or two arrays that are named by their path, such as ``retrieval.following.totals``; the tree holds their type and
shape. Everything else is JSON, which pydantic checks against the annotation. A field at its default value is left out.

:func:`unpack` is strict, because a folder may come from a stranger: unknown and missing keys, other types, other dtypes
and numbers that are not finite are refused by one line that begins with the path. Checks of values that belong together
are in ``__post_init__`` of their class.

Arrays are NumPy's. Torch is needed only where a field is annotated as a tensor, and then its class has imported it.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    BinaryIO,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ensue.errors import ModelFolderError
from ensue.lines import decode_json, one_line
from ensue.store.checksums import opened, require_sum, sum_of
from ensue.store.folder import read_json, read_unchanged
from ensue.vocabulary import FIRST, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

Array: TypeAlias = npt.NDArray[np.generic]
MAPPED = 2**24
"""Bytes from which an array stays a mapping; below, it is copied to where the processor reads it best."""

DTYPES = {
    "int64": "I64",
    "float64": "F64",
    "float32": "F32",
    "int32": "I32",
    "float16": "F16",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
"""Names of the types in a file by NumPy's names, in the order in which a file holds its arrays."""
_FROM_FILE = {stored: np.dtype(name) for name, stored in DTYPES.items()}
MAX_SIZE = 2**40
"""Rows or columns of an array, at most: an empty one may claim any number of them."""
MAX_HEADER_BYTES = 2**26
"""Bytes of the header of a file, at most."""
BLOCK = 2**22
"""Numbers that are written at once."""


def read_arrays(folder: Path, name: str) -> dict[str, Array]:
    """Return the arrays of one safetensors file of a model folder; those of at least ``MAPPED`` bytes are mapped.

    Raises:
        ModelFolderError: the file is missing or damaged, or holds a number that is not finite.
    """
    return read_unchanged(folder, lambda: open_arrays(folder, name)[1]())


def read_tensors(folder: Path, name: str) -> dict[str, Tensor]:
    """Return the arrays of :func:`read_arrays` as tensors.

    Raises:
        ModelFolderError: as :func:`read_arrays`.
    """
    return {key: to_tensor(array) for key, array in read_arrays(folder, name).items()}


def open_arrays(folder: Path, name: str) -> tuple[set[str], Callable[[], dict[str, Array]]]:
    """Return the names of the arrays of a file, and a function that reads them, even after the file was replaced.

    Raises:
        ModelFolderError: the file is missing or damaged; damage that needs all of it to be read is raised by the
            function.
    """
    with opened(folder, name) as file:
        # Checksum and contents are taken while the file is open: another one may have its name a moment later.
        expected = sum_of(folder, name)
        buffer = _map(file, folder / name)
    views = arrays_in(buffer, folder / name)

    def read() -> dict[str, Array]:
        # The whole mapping as one part: nothing is copied to be hashed.
        require_sum(folder, name, expected, [memoryview(buffer)])
        for key, view in views.items():
            require_finite(folder / name, key, view)
        # A copy of a small array lets go of the mapping, and with it of the file, once no large array needs it.
        return {key: view if view.nbytes >= MAPPED else view.copy() for key, view in views.items()}

    return set(views), read


def _map(file: BinaryIO, path: Path) -> mmap.mmap:
    """Map a file into memory; writing to the mapping changes neither the file nor other mappings."""
    try:
        # Copy on write: pages that nobody writes are shared by all processes that load the file.
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:  # ValueError: the file is empty
        raise _damaged(path, str(error)) from error


def arrays_in(buffer: bytearray | mmap.mmap, path: Path) -> dict[str, Array]:
    """Return the arrays of the contents of a safetensors file, as views of them.

    Args:
        buffer: the contents: eight bytes with the length of the header, the header in JSON, then the arrays.
        path: of the file, in messages.

    Raises:
        ModelFolderError: the header does not fit the contents, or an array has a type or a size that is never saved.
    """
    length = int.from_bytes(buffer[:8], "little")
    begin = 8 + length
    try:
        if length > MAX_HEADER_BYTES:
            raise ValueError("the header is too long")
        header = cast("dict[str, Any]", decode_json(bytes(buffer[8:begin])))
        # Texts of the writer are no array.
        header.pop("__metadata__", None)
        views = {key: _view(buffer, begin, path, key, entry) for key, entry in header.items()}
        # Bytes that no array claims would be lost at the next save, or are hidden there on purpose.
        if begin + sum(view.nbytes for view in views.values()) != len(buffer):
            raise ValueError("the header describes another number of bytes")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    return views


def _view(buffer: bytearray | mmap.mmap, begin: int, path: Path, key: str, entry: Mapping[str, Any]) -> Array:
    """Return one array, from its entry in the header; numbers in the entry may be anything."""
    shape = tuple(entry["shape"])
    dtype = _FROM_FILE.get(entry["dtype"])
    if dtype is None or max(shape, default=0) > MAX_SIZE:
        raise ModelFolderError(
            f"{path}: {one_line(key, 80)} is {one_line(str(entry['dtype']), 20)} of shape {one_line(str(shape), 80)}, "
            "which ensue never saves; the folder is damaged"
        )
    # Offsets count from the end of the header.
    start, end = entry["data_offsets"]
    view: Array = np.ndarray(shape, dtype, buffer, begin + start)  # refuses what lies outside the buffer
    if start < 0 or view.nbytes != end - start or (begin + start) % dtype.itemsize:
        raise ValueError(f"{key} is not where the header says")
    return view


def require_finite(path: Path, key: str, array: Array) -> None:
    """Check that the numbers of an array are finite.

    Raises:
        ModelFolderError: one is not.
    """
    # Minimum and maximum are NaN where one number is, and need no array of booleans.
    if array.dtype.kind == "f" and array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        raise ModelFolderError(f"{path}: {one_line(key, 80)} holds NaN or infinity; fit the model again")


def _damaged(path: Path, reason: str) -> ModelFolderError:
    return ModelFolderError(f"{path}: damaged ({one_line(reason, 200)}); fit the model again or copy it again")


def to_tensor(array: Array) -> Tensor:
    """Return an array as a tensor; small ones as copies, which can grow in place, large ones share the memory."""
    import torch

    return torch.from_numpy(array) if array.nbytes >= MAPPED else torch.tensor(array)


def _tensor_class() -> type[Tensor] | tuple[()]:
    """Return the class of tensors; no class where torch was not imported, so that nothing is one."""
    torch = sys.modules.get("torch")
    return () if torch is None else cast("type[Tensor]", torch.Tensor)


class TensorFile:
    """A safetensors file that is made as it is written, array by array: no second copy of a model is ever held.

    Its bytes are those of ``safetensors.torch.save``.

    Args:
        tables: arrays and tensors by name; they must stay as they are until the file is written.
        metadata: texts in the header.
    """

    def __init__(self, tables: Mapping[str, Array | Tensor], metadata: Mapping[str, str] | None = None) -> None:
        order = [*DTYPES]
        self.tables = {
            name: tables[name]
            for name in sorted(tables, key=lambda name: (order.index(_dtype_name(tables[name])), name))
        }
        self.metadata = dict(metadata or {})

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """Yield the header, then each array in blocks."""
        # Offsets are known before anything is written, since sizes follow from shapes and types.
        header: dict[str, object] = {"__metadata__": self.metadata}
        end = 0
        for name, table in self.tables.items():
            begin = end
            end += table.nbytes
            header[name] = {
                "dtype": DTYPES[_dtype_name(table)],
                "shape": list(table.shape),
                "data_offsets": [begin, end],
            }
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)  # so that the arrays are aligned
        yield len(text).to_bytes(8, "little") + text
        for table in self.tables.values():
            flat = table.reshape(-1)
            for start in range(0, len(flat), BLOCK):
                block = flat[start : start + BLOCK]
                if not isinstance(block, np.ndarray):
                    # A copy, because a tensor whose memory NumPy has seen can no longer grow in place.
                    block = block.detach().to("cpu", copy=True).numpy()
                yield block.view(np.uint8).data


def tensor_bytes(tables: Mapping[str, Array | Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a :class:`TensorFile`."""
    return b"".join(TensorFile(tables, metadata))


def _dtype_name(table: Array | Tensor) -> str:
    """Return NumPy's name of a dtype, which is also torch's."""
    return str(table.dtype).removeprefix("torch.")


T = TypeVar("T")
Hint: TypeAlias = Any
"""An annotation."""
Tree: TypeAlias = Any
"""Decoded JSON."""
Arrays: TypeAlias = dict[str, Array]
TREE, TABLES = "fitted.json", "baselines.safetensors"
"""The files of a model folder that hold a packed value."""
NETWORK, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
"""The files of a model folder that hold the weights of the network, and the moments of its optimizer."""
_MISSING: object = dataclasses.MISSING


def files_of(value: object, names: tuple[str, str] = (TREE, TABLES)) -> dict[str, bytes | TensorFile]:
    """Return the two files of a model folder that hold a value, by their names."""
    tree, arrays = pack(value)
    return {names[0]: json.dumps(tree, ensure_ascii=False).encode(), names[1]: TensorFile(arrays)}


def read_packed(kind: type[T], folder: Path, names: tuple[str, str] = (TREE, TABLES)) -> T:
    """Return the value of a type that :func:`files_of` wrote into a model folder, under these names.

    Raises:
        ModelFolderError: a file is missing or damaged.
        ValueError: the files hold something else.
    """
    return unpack(kind, read_json(folder, names[0]), read_arrays(folder, names[1]))


def pack(value: object) -> tuple[Tree, Arrays]:
    """Return a JSON tree and arrays by path.

    Args:
        value: a dataclass or a NamedTuple; see the module.
    """
    arrays: Arrays = {}
    return _pack(value, "", arrays), arrays


def unpack(kind: type[T], tree: object, arrays: Mapping[str, Array | Tensor], path: str = "") -> T:
    """Return the value of a type that :func:`pack` took apart.

    Args:
        kind: the type.
        tree: decoded JSON.
        arrays: by path; large ones are shared, not copied.
        path: of the value itself, in messages.

    Raises:
        ValueError: the tree or the arrays do not belong to the type; the message begins with the path.
    """
    unread = {name: _array(table) for name, table in arrays.items()}
    value = _unpack(kind, tree, unread, path)
    # An array that no field has asked for belongs to something else.
    if unread:
        raise ValueError(f"{one_line(min(unread), 80)}: is not known")
    return cast(T, value)


def _pack(value: object, path: str, arrays: Arrays, stored: np.dtype[Any] | None = None) -> Tree:
    if isinstance(value, (np.ndarray, _tensor_class())):
        array = _array(value)
        arrays[path] = array = array if stored is None else array.astype(stored, copy=False)
        return _described(array)
    if isinstance(value, pl.Series | Vocabulary):
        # A column of texts is their joined bytes and their lengths: two arrays in place of one JSON string per text.
        texts = value.to_list() if isinstance(value, pl.Series) else value.values
        arrays[f"{path}.bytes"] = np.frombuffer("".join(texts).encode(), np.uint8)
        arrays[f"{path}.lengths"] = np.fromiter(map(len, texts), np.int32, len(texts))
        return f"text[{len(texts)}]"
    kind: Hint = type(value)
    if (kinds := _fields(kind)) is not None:
        tree = {}
        for name, hint in kinds.items():
            field = getattr(value, name)
            num_tables = len(arrays)
            packed = _pack(field, _join(path, name), arrays, _dtypes(hint)[1])
            # A field with arrays is written in any case: its default cannot be compared with one expression.
            if len(arrays) > num_tables or field != _default(kind, name):
                tree[name] = packed
        return tree
    if isinstance(value, Mapping):
        return {key: _pack(item, _join(path, key), arrays) for key, item in value.items()}
    # JSON has no sets, and the same set must give the same bytes.
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [_pack(item, _join(path, str(index)), arrays) for index, item in enumerate(value)]
    return value


def _unpack(kind: Hint, tree: Tree, arrays: Arrays, path: str) -> object:
    if _origin(kind) in (Union, UnionType):
        if tree is None and NoneType in get_args(kind):
            return None
        options = [option for option in get_args(kind) if option is not NoneType]
        # With several types left, pydantic decides which one fits.
        if len(options) == 1:
            kind = options[0]
    plain = get_args(kind)[0] if _origin(kind) is Annotated else kind
    arguments = get_args(plain)
    if _is_table(plain):
        return _unpack_table(kind, plain, tree, arrays, path)
    if plain in (pl.Series, Vocabulary):
        return _unpack_texts(plain, tree, arrays, path)
    if (kinds := _fields(plain)) is not None:
        return _unpack_fields(plain, kinds, tree, arrays, path)
    if arguments and _is_structured(arguments[-1]):
        tree = _require(dict, tree, path)
        return {key: _unpack(arguments[-1], subtree, arrays, _join(path, key)) for key, subtree in tree.items()}
    if arguments and _is_structured(arguments[0]):
        tree = _require(list, tree, path)
        return tuple(_unpack(arguments[0], item, arrays, _join(path, str(index))) for index, item in enumerate(tree))
    return _checked_json(kind, tree, path)


def _unpack_fields(kind: type, kinds: Mapping[str, Hint], tree: Tree, arrays: Arrays, path: str) -> object:
    tree = _require(dict, tree, path or kind.__name__)
    if unknown := sorted(tree.keys() - kinds.keys()):
        raise ValueError(f"{one_line(_join(path, unknown[0]), 80)}: is not known")
    values = {}
    for name, hint in kinds.items():
        if name in tree:
            values[name] = _unpack(hint, tree[name], arrays, _join(path, name))
        elif _default(kind, name) is _MISSING:
            raise ValueError(f"{_join(path, name)}: is missing")
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}" if path else str(error)) from error


def _unpack_table(kind: Hint, plain: Hint, tree: object, arrays: Arrays, path: str) -> object:
    if path not in arrays:
        raise ValueError(f"{path}: its array is missing")
    array = arrays.pop(path)
    memory, stored = _dtypes(kind)
    if stored not in (None, array.dtype):
        raise ValueError(f"{path}: is {_described(array)}, not {stored}")
    if tree != _described(array):
        raise ValueError(f"{path}: its array is {_described(array)}, and not {one_line(str(tree), 40)}")
    if memory == np.uint64:
        return array.view(np.uint64)
    array = array if memory is None else array.astype(memory, copy=False)
    return array if _origin(plain) is np.ndarray else to_tensor(array)


def _unpack_texts(plain: type, tree: object, arrays: Arrays, path: str) -> pl.Series | Vocabulary:
    names = [f"{path}.bytes", f"{path}.lengths"]
    if missing := [name for name in names if name not in arrays]:
        raise ValueError(f"{missing[0]}: its array is missing")
    data, lengths = (arrays.pop(name) for name in names)
    for name, array, dtype in zip(names, (data, lengths), ("uint8", "int32"), strict=True):
        if array.dtype != dtype or array.ndim != 1:
            raise ValueError(f"{name} is {_described(array)}, not {dtype}[any]")
    if len(lengths) and lengths.min() < 0:
        raise ValueError(f"{names[1]} holds {lengths.min()}, which is not a length")
    try:
        joined = data.tobytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{names[0]}: is not UTF-8") from error
    # Text i is joined[ends[i - 1] : ends[i]].
    ends = np.cumsum(lengths, dtype=np.int64)
    if tree != f"text[{len(ends)}]" or (ends[-1] if len(ends) else 0) != len(joined):
        raise ValueError(f"{path}: {len(joined)} characters do not make {one_line(str(tree), 40)}")
    texts = [joined[start:end] for start, end in pairwise([0, *ends.tolist()])]
    if plain is pl.Series:
        return pl.Series(path.rpartition(".")[2], texts, dtype=pl.String)
    vocabulary = Vocabulary(texts)
    # A vocabulary drops repeated texts, and all ids after one would be shifted.
    if len(vocabulary) - FIRST < len(texts):
        raise ValueError(f"{path}: holds a text twice")
    return vocabulary


def _require(kind: type[T], tree: object, path: str) -> T:
    if not isinstance(tree, kind):
        raise ValueError(f"{path}: is {one_line(repr(tree), 40)}, not a {kind.__name__}")
    return tree


def _checked_json(kind: Hint, tree: object, path: str) -> object:
    try:
        # Strict JSON, not strict Python: JSON has no tuples, and a list is one there.
        return _adapter(kind).validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join([path, *map(str, first["loc"])])
        raise ValueError(f"{one_line(location, 80)}: {first['msg']}") from error


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
    # A factory makes a new default each time, so that none is shared.
    field = kind.__dataclass_fields__[name]
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_structured(kind: Hint) -> bool:
    """Return whether a type is made of fields or tables, so that more than JSON has to be read."""
    plain = get_args(kind)[0] if _origin(kind) is Annotated else kind
    return _is_table(plain) or plain in (pl.Series, Vocabulary) or _fields(plain) is not None


def _is_table(kind: Hint) -> bool:
    return _origin(kind) is np.ndarray or kind is _tensor_class()


def _dtypes(kind: Hint) -> tuple[np.dtype[Any] | None, np.dtype[Any] | None]:
    """Return the dtypes of a table in memory and in a folder, ``None`` where the annotation leaves them open.

    ``Ids`` and ``Annotated[Tensor, torch.int32]`` have one for both;
    ``Annotated[Tensor, torch.float64, torch.float32]`` is rounded for the folder, and so is
    ``Annotated[npt.NDArray[np.float64], np.float32]``.
    """
    if _origin(kind) is Annotated:
        plain, *extras = get_args(kind)
        dtypes = [dtype for dtype in (_dtypes(plain)[0], *map(_dtype_of, extras)) if dtype is not None]
        return (dtypes[0], dtypes[-1]) if dtypes else (None, None)
    if _origin(kind) is np.ndarray:
        dtype = np.dtype(get_args(get_args(kind)[1])[0])
        # torch's reader of safetensors lacks unsigned numbers of 64 bits: the same bits are stored as signed ones
        return dtype, np.dtype(np.int64) if dtype == np.uint64 else dtype
    return None, None


def _dtype_of(extra: object) -> np.dtype[Any] | None:
    """Return the dtype that an annotation names, torch's or NumPy's; ``None`` where it is something else."""
    if isinstance(extra, type) and issubclass(extra, np.generic):
        return np.dtype(extra)
    module, _, name = str(extra).partition(".")
    return np.dtype(name) if module == "torch" else None


def _array(value: Array | Tensor) -> Array:
    """Return a table as a contiguous array; unsigned numbers of 64 bits as signed ones of the same bits."""
    array: Array = value if isinstance(value, np.ndarray) else value.detach().cpu().numpy()
    return np.ascontiguousarray(array.view(np.int64) if array.dtype == np.uint64 else array).reshape(array.shape)


def _described(array: Array) -> str:
    return f"{array.dtype}{[*array.shape]}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
