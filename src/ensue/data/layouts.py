"""Layouts of files as rows of a table, and the one recogniser of them.

A row has a name, a shape and a reader. The shape is :func:`has` of the names of a header or the fields of an object, or
a pattern of the first line. The reader is made from roles, role -> where its value is found: a path in an object, a
field of a line, or a column of :class:`~ensue.data.schema.Roles`. Only an irregular shape or reader is a function of
its own.

The first row that fits decides: rows of a table are in the order of how sure their shapes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ensue.data.files import Content
from ensue.errors import SettingError

Object = dict[str, Any]
"""An object of JSON, or the names of a header."""
Sample = TypeVar("Sample")
Reader = TypeVar("Reader")


@dataclass(frozen=True)
class Layout(Generic[Sample, Reader]):
    """One row: the name of a layout, its shape and its reader."""

    name: str
    fits: Callable[[Sample], bool]
    """Return whether a sample has the shape: the content of a file, its first lines, or one object or header of it."""
    read: Reader
    has_columns: bool = True
    """False where no field has a name that ``--columns`` could choose."""

    def require_columns(self, content: Content, stated: Mapping[str, str]) -> None:
        """Refuse stated columns where the layout has none.

        Raises:
            SettingError: naming the option.
        """
        if stated and not self.has_columns:
            raise SettingError(f"{content.path}: the layout {self.name} has no named columns; remove --columns")


def recognise(layouts: Iterable[Layout[Sample, Reader]], sample: Sample) -> Layout[Sample, Reader] | None:
    """Return the first layout whose shape a sample has, or ``None``."""
    return next((layout for layout in layouts if layout.fits(sample)), None)


def has(*shapes: str) -> Callable[[Object], bool]:
    """Return a shape of headers and objects: all words of one of some shapes hold.

    Args:
        shapes: words such as ``id``, a name that is there; ``id|uri``, one of two; ``user.name``, a path to a value;
            ``data.``, a name that holds an object; ``kind=post``, a name whose text begins with ``post``.
    """
    parsed = [[word.split("|") for word in shape.split()] for shape in shapes]
    return lambda fields: any(all(any(_holds(fields, name) for name in names) for names in shape) for shape in parsed)


def _holds(fields: Object, name: str) -> bool:
    path, _, prefix = name.partition("=")
    if prefix:
        return str(fields.get(path, "")).startswith(prefix)
    if name.endswith("."):
        return isinstance(dig(fields, name[:-1]), dict)
    return dig(fields, name) is not None if "." in name else name in fields


def dig(value: object, path: str) -> Any:
    """Return the value at ``a.b.0.c``, or ``None``."""
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
