"""Compiled kernels: loops that are slow in Python, or as many small operations of a tensor library.

All of them are optional. A wheel that was built with a C++ compiler holds one library with a plain C interface,
declared in ``kernels.h``. Without it, or with ``ENSUE_KERNELS=off``, code in torch and NumPy computes the same;
:func:`compiled` puts the two side by side, and tests compare them. This package does not import torch.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ensue.errors import SettingError

if TYPE_CHECKING:
    from torch import Tensor

FILE = Path(__file__).with_name("libkernels.so.1")
HEADER = Path(__file__).with_name("kernels.h")
VARIABLE = "ENSUE_KERNELS"
LEVELS = ("plain", "avx2", "avx512")
"""Instruction sets, each with all before it; every processor of the platform has ``plain``."""
_NO_MEMORY = -1
_OUT_OF_RANGE = -2
_CHECKED = 0x2144DF1C
"""CRC-32 of any bytes that are followed by their own CRC-32, lowest byte first."""
_NOTHING = ctypes.c_char * 0
_MAX_CHECKED = 256
"""Combinations of shapes that are remembered of one structure."""
_NUMBERS: dict[str, type[ctypes._CDataType]] = {
    "int": ctypes.c_int,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_DTYPES = {
    "float": "float32", "double": "float64", "uint8_t": "bool", "int16_t": "int16", "int32_t": "int32",
    "int64_t": "int64", "uint64_t": "uint64",
}  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")


class _Field(NamedTuple):
    """A field of a structure or a parameter of a function, as ``kernels.h`` declares it."""

    kind: type
    """Its type for ctypes."""
    names: tuple[str | None, ...] = ()
    """For an array: for each dimension the size that it decides, if any."""
    shape: Callable[[Mapping[str, int]], tuple[int, ...]] | None = None
    """For an array: its shape, from sizes by name."""
    dtype: str | None = None
    """For an array: the type of its elements; ``None`` for structures."""


class Structure(ctypes.Structure):
    """Fields of a structure of ``kernels.h``, followed by the other parameters of a function that takes it."""

    declared: ClassVar[dict[str, _Field]] = {}
    shaped: ClassVar[frozenset[str]] = frozenset()
    """Fields that are arrays of a declared shape."""
    addresses: ClassVar[frozenset[str]] = frozenset()
    """Fields that are the address of an array of any shape."""
    dimensions: dict[str, int]
    """Sizes of arrays, by the names that ``kernels.h`` gives them."""
    checked: dict[tuple[object, ...], Self]
    """Copies with further sizes set, by what those were read from: whole numbers, and shapes and types of arrays.

    A call with the shapes of an earlier one then only sets addresses: to check shapes takes longer than many a kernel.
    """

    def filled(self, values: Mapping[str, Value]) -> Self:
        """Return a copy with some fields set: arrays by their addresses, and sizes by the arrays that decide them.

        Raises:
            ValueError: an array has another type or shape, or is not contiguous in CPU memory.
        """
        fields: dict[str, object] = {}
        shapes: list[object] = [*values]
        for name, value in values.items():
            if isinstance(value, int) and name not in self.addresses:
                # Whole numbers are part of the key: sizes follow from them.
                shapes.append(value)
            elif value is not None and name in self.shaped:
                array = cast("Array", value)
                shapes += (array.shape, array.dtype)
                fields[name] = _address(name, array)
            else:
                shapes.append(None)
                fields[name] = value
        key = tuple(shapes)
        # Shapes that passed before are not checked again.
        checked = self.checked.get(key)
        if checked is None:
            if len(self.checked) == _MAX_CHECKED:
                # Empty the cache rather than let varying shapes fill the memory.
                self.checked.clear()
            checked = self.checked[key] = self._with_sizes(values)
        filled = type(self).from_buffer_copy(checked)
        filled.dimensions = checked.dimensions
        for name, field in fields.items():
            setattr(filled, name, field)
        return filled

    def _with_sizes(self, values: Mapping[str, Value]) -> Self:
        """Return a copy with sizes and those that arrays decide, once all arrays fit them.

        Raises:
            ValueError: an array has another type or shape.
        """
        copy = type(self).from_buffer_copy(self)
        declared = self.declared
        numbers = [name for name, value in values.items() if isinstance(value, int) and name not in self.addresses]
        sizes = self.dimensions | {name: cast(int, values[name]) for name in numbers}
        arrays = {
            name: cast("Array", values[name]) for name in values if name in self.shaped and values[name] is not None
        }
        for name, array in arrays.items():
            names = declared[name].names
            if len(names) != len(array.shape):
                raise ValueError(f"{name} has {len(array.shape)} dimensions, not {len(names)}")
            # The first array that has a size decides it; the shapes of all others are compared with it.
            for size, size_name in zip(array.shape, names, strict=True):
                if size_name is not None:
                    sizes.setdefault(size_name, size)
        for name in sizes.keys() & declared.keys():
            setattr(copy, name, sizes[name])
        for name, array in arrays.items():
            field = declared[name]
            dtype = _dtype_name(array.dtype)
            assert field.shape is not None
            if array.shape != field.shape(sizes) or (field.dtype is not None and dtype != field.dtype):
                actual = f"{dtype} of shape {tuple(array.shape)}"
                raise ValueError(f"{name} is {actual}, not {field.dtype} of shape {field.shape(sizes)}")
        copy.dimensions = sizes
        return copy


def _address(name: str, array: Array) -> int:
    """Return where an array begins in memory.

    Raises:
        ValueError: it is not contiguous in CPU memory.
    """
    if isinstance(array, np.ndarray):
        contiguous = array.flags.c_contiguous
        start = address(array)
    else:
        contiguous = array.is_contiguous() and array.is_cpu
        start = array.data_ptr()
    if not contiguous:
        raise ValueError(f"{name} is not contiguous in CPU memory")
    return start


def address(array: npt.NDArray[np.generic]) -> int:
    """Return where an array begins in memory."""
    flags = array.flags
    if flags.writeable and flags.c_contiguous:  # a fifth of the time of the general way
        return ctypes.addressof(_NOTHING.from_buffer(array.data))
    return array.ctypes.data


@functools.cache
def _dtype_name(dtype: object) -> str:
    """Return the name of a type of elements, the same for NumPy's and torch's."""
    return str(dtype).removeprefix("torch.")


Array: TypeAlias = "Tensor | npt.NDArray[np.generic]"
Value: TypeAlias = "Array | float | Sequence[float] | Structure | ctypes.Array[Structure] | None"
"""A number, an array, or structures side by side."""


class _Declarations(NamedTuple):
    """Declarations of ``kernels.h``."""

    interface: int
    structures: dict[str, type[Structure]]
    """By the names of structures, and of functions: with all of their parameters."""
    functions: dict[str, tuple[str, ...]]
    """Names of the parameters of each function; ``call`` is the structure itself."""


class _Library:
    """The library of this process, once it was looked for."""

    searched = False
    level = "off"
    num_threads = 0
    """Number that was set; 0 for as many as there are processors."""
    functions: ClassVar[dict[str, tuple[ctypes._NamedFuncPointer, tuple[str, ...]]]] = {}
    """By name, with the names of their parameters."""


def compiled(native: Callable[P, R], *, when: Callable[P, bool]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Replace a function by its compiled twin where the library is loaded and the arguments suit it.

    Args:
        native: takes and returns what the decorated function does. It may return ``NotImplemented`` where only the
            kernel can tell that its arguments do not suit.
        when: tells from the arguments whether the kernel takes them.
    """

    def decorate(reference: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(reference)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if is_loaded() and when(*args, **kwargs):
                result = native(*args, **kwargs)
                # Only the kernel could see that the values do not suit it, so the Python version takes over.
                if result is not NotImplemented:
                    return result
            return reference(*args, **kwargs)

        return run

    return decorate


def prepare(name: str, prepared: Structure | None = None, /, **values: Value) -> Structure:
    """Return a structure, or the parameters of a function, with some fields set; it keeps their arrays alive.

    Args:
        name: of the structure or, without ``ensue_``, of the function.
        prepared: the same with other fields set, which are copied.
        values: fields by name. Sizes that arrays decide are left out.

    Raises:
        ValueError: an array has another type or shape, or is not contiguous in CPU memory.
    """
    structure = (_empty(name) if prepared is None else prepared).filled(values)
    # A copy shares no cache with its origin, whose preset fields differ.
    structure.checked = {}
    structure.arrays = (prepared, values)
    return structure


@functools.cache
def _empty(name: str) -> Structure:
    """Return a structure, or the parameters of a function, without a value."""
    empty = _declarations().structures[name]()
    empty.dimensions = {}
    empty.checked = {}
    return empty


def array(structures: Sequence[Structure]) -> ctypes.Array[Structure]:
    """Return structures side by side in memory."""
    return (type(structures[0]) * len(structures))(*structures)


def call(name: str, prepared: Structure | None = None, /, **values: Value) -> int:
    """Call a compiled function.

    Args:
        name: of the function, without ``ensue_``.
        prepared: parameters that were set before; they are copied.
        values: parameters of the function and fields of its structure, by name. Sizes that arrays decide are left out,
            and so are arrays that may be null.

    Returns:
        0 or a number of results.

    Raises:
        IndexError: an index lies outside the table that it is for, or sizes contradict each other.
        MemoryError: there is no memory for its intermediate results.
        ValueError: an array has another type or shape, or is not contiguous in CPU memory.
    """
    return run(name, (_empty(name) if prepared is None else prepared).filled(values))


def call_unchecked(name: str, **values: float) -> int:
    """Call a compiled function with all of its fields and parameters, arrays by their addresses; see :func:`call`.

    Shapes are for the caller to check: where they change with every call, their check takes longer than a small kernel.
    """
    return run(name, _declarations().structures[name](**values))


def run(name: str, structure: Structure) -> int:
    """Call a compiled function with parameters that are all set; see :func:`call`."""
    function, parameters = _Library.functions[name]
    # A structure ``call`` is passed by reference, and all other parameters by value.
    if parameters[0] == "call":
        arguments = [getattr(structure, parameter) for parameter in parameters[1:]]
        result = function(ctypes.byref(structure), *arguments)
    else:
        result = function(*[getattr(structure, parameter) for parameter in parameters])
    if result == _NO_MEMORY:
        raise MemoryError(f"no memory for {name}")
    if result == _OUT_OF_RANGE:
        raise IndexError(f"{name} was given an index or a size outside of its tables")
    return int(result)


def num_threads() -> int:
    """Return the number of threads of a compiled function: as many as torch has where it is imported."""
    torch = sys.modules.get("torch")
    if torch is None:
        return _Library.num_threads or _available_threads()
    return cast(int, torch.get_num_threads())


def set_num_threads(num_threads: int) -> None:
    """Let compiled functions compute with this number of threads in a process that does not import torch."""
    _Library.num_threads = num_threads


@functools.cache
def _available_threads() -> int:
    """Return ``OMP_NUM_THREADS``, or the number of processors that this process may use."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return int(setting) if setting.isdecimal() and int(setting) else processors


def is_loaded() -> bool:
    """Return whether compiled functions can be called.

    Raises:
        SettingError: ``ENSUE_KERNELS`` is something else than ``off`` or one of ``LEVELS``.
    """
    if not _Library.searched:
        load(os.environ.get(VARIABLE) or LEVELS[-1])
    return _Library.level != "off"


def level() -> str:
    """Return the instruction set in use, one of ``LEVELS``; ``off`` where nothing compiled is."""
    return _Library.level if is_loaded() else "off"


def load(most: str) -> str:
    """Use at most this instruction set from now on, or nothing compiled (``off``).

    Returns:
        What is used.

    Raises:
        SettingError: there is no such one.
    """
    if most not in ("off", *LEVELS):
        raise SettingError(f"{VARIABLE} is {most!r}; choose from off, {', '.join(LEVELS)}, or leave it out")
    library = None if most == "off" else _open()
    _Library.level = "off" if library is None else LEVELS[library.ensue_level(LEVELS.index(most))]
    _Library.searched = True
    return _Library.level


def _open() -> ctypes.CDLL | None:
    """Open the library; ``None`` where there is none, or one of other sources."""
    declarations = _declarations()
    try:
        # To open a file that was cut kills the process: it must end with the checksum of all before it.
        if not FILE.is_file() or zlib.crc32(FILE.read_bytes()) != _CHECKED:
            return None
        library = ctypes.CDLL(str(FILE))
        if library.ensue_interface() != declarations.interface:
            return None
        functions = {name: getattr(library, f"ensue_{name}") for name in declarations.functions}
    except (OSError, AttributeError):  # none, or for another machine
        return None
    for name, function in functions.items():
        fields = declarations.structures[name].declared | {"call": _Field(ctypes.c_void_p)}
        function.restype = ctypes.c_int64
        function.argtypes = [fields[parameter].kind for parameter in declarations.functions[name]]
    _Library.functions = {name: (function, declarations.functions[name]) for name, function in functions.items()}
    return library


@functools.cache
def _declarations() -> _Declarations:
    """Read ``kernels.h``."""
    # Signatures are read from the header that the library was compiled with, and stated nowhere else.
    text = re.sub("//.*", "", HEADER.read_text("ascii"))
    structures = dict[str, type[Structure]]()
    functions = dict[str, tuple[str, ...]]()
    for name, body in re.findall(r"struct (\w+) \{(.*?)\n\};", text, re.DOTALL):
        structures[name] = _structure(name, body.split(";")[:-1], Structure, structures)
    for name, parameters in re.findall(r"EXPORT int64_t ensue_(\w+)\((.*?)\);", text, re.DOTALL):
        own_parameters = []
        base = Structure
        # Split at commas outside of parentheses, as ARRAY(rows, dim) holds commas itself.
        for parameter in re.split(r",\s*(?![^(]*\))", parameters):
            # The structure called ``call`` holds the function's further parameters as fields.
            matched = re.fullmatch(r"const (\w+)\* call", parameter)
            if matched is None:
                own_parameters.append(parameter)
            else:
                base = structures[matched[1]]
            functions[name] = (*functions.get(name, ()), re.sub(r" ARRAY.*", "", parameter).split()[-1])
        structures[name] = _structure(name, own_parameters, base, structures)
    interface = re.findall(r"INTERFACE = (\d+)", text)[0]
    return _Declarations(int(interface), structures, functions)


def _structure(
    name: str, declarations: Sequence[str], base: type[Structure], others: Mapping[str, type[Structure]]
) -> type[Structure]:
    """Return a structure with the fields of ``base`` before its own; fields may be of the other structures."""
    fields = dict(field for declaration in declarations for field in _fields(declaration, others))
    declared = base.declared | fields
    shaped = {field_name for field_name, field in declared.items() if field.shape is not None}
    addresses = {field_name for field_name, field in declared.items() if field.kind is ctypes.c_void_p} - shaped
    members = {
        "_fields_": [(field_name, field.kind) for field_name, field in fields.items()],
        "declared": declared,
        "shaped": frozenset(shaped),
        "addresses": frozenset(addresses),
    }
    return type(name, (base,), members)


def _fields(declaration: str, others: Mapping[str, type[Structure]]) -> Iterator[tuple[str, _Field]]:
    """Read a declaration: ``const float* x ARRAY(rows, 2 * dim)``, ``int64_t rows, dim``, ``int64_t steps[9]``."""
    pattern = r"\s*(?:const )?(\w+)\s*(\*?)\s*(.*?)\s*(?:ARRAY\((.*)\))?\s*"
    matched = re.fullmatch(pattern, declaration, re.DOTALL)
    assert matched is not None
    element, pointer, names, sizes = matched.groups()
    decided = tuple[str | None, ...]()
    shape = None
    if sizes is not None:
        dimensions = [size.strip() for size in re.split(r",(?![^(]*\))", sizes)]
        decided = tuple(size if size.isidentifier() else None for size in dimensions)
        # Make Python of a size such as ``2 * rows``: names become keys of ``sizes``, and / divides whole numbers.
        by_name = re.sub(
            r"\b(?!if\b|else\b|or\b|and\b)[a-z_]\w*", r"sizes['\g<0>']", f"({', '.join(dimensions)},)"
        ).replace("/", "//")
        # The text comes from our own header, and no builtin can be reached from it.
        shape = eval(f"lambda sizes: {by_name}", {"__builtins__": {}})
    for name in names.replace("*", "").split(","):
        field, _, count = name.strip().partition("[")
        kind: type[ctypes._CDataType] = ctypes.c_void_p
        kind = others[element] if element in others else _NUMBERS.get(element, kind)
        if pointer:
            kind = ctypes.POINTER(others[element]) if element in others and shape is None else ctypes.c_void_p
        yield field, _Field(kind * int(count[:-1]) if count else kind, decided, shape, _DTYPES.get(element))
