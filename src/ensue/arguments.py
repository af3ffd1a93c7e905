"""Checks of what callers in Python pass, so that a wrong type is one line that says what is wanted."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from numbers import Real
from pathlib import Path
from typing import TypeVar, cast

from ensue.errors import DataError, SettingError
from ensue.lines import one_line, quoted
from ensue.records import Record, normal_ids

R = TypeVar("R", bound=Record)
MAX_NAME = 255
"""Characters of the name of a file or a folder, at most."""


def require_records(records: object, kind: type[R]) -> Sequence[R]:
    """Return the records of a collection as a sequence.

    Args:
        records: what a caller gave as a list of records.
        kind: the class that each must have.

    Raises:
        DataError: it is no collection, or a member is of another type.
    """
    advice = f"give a list of {kind.__name__} records, such as [{kind.CALL}]"
    # A single record is iterable where it is a tuple, and would be read as a list of its fields.
    if isinstance(records, kind):
        raise DataError(f"records is one {kind.__name__}; {advice}")
    if isinstance(records, str | bytes) or not isinstance(records, Iterable):
        raise DataError(f"records is of type {type(records).__name__}; {advice}")
    rows = records if isinstance(records, list | tuple) else list(records)
    for position, record in enumerate(rows):
        if not isinstance(record, kind):
            raise DataError(f"records[{position}] is of type {type(record).__name__}; {advice}")
    return cast("Sequence[R]", rows)


def optional_bool(value: object, name: str) -> bool | None:
    """Return a truth value, or ``None`` for a default.

    Raises:
        SettingError: it is neither, such as a text, every one of which but the empty one would count as true.
    """
    return None if value is None else _bool(value, name, "True, False or None (the default of the model)")


def require_bool(value: object, name: str) -> bool:
    """Return a truth value.

    Raises:
        SettingError: the value is of another type.
    """
    return _bool(value, name, "True or False")


def bool_or_auto(value: object, name: str) -> bool | None:
    """Return a truth value, or ``None`` for ``auto``.

    Raises:
        SettingError: the value is neither.
    """
    return None if isinstance(value, str) and value == "auto" else _bool(value, name, 'True, False or "auto"')


def _bool(value: object, name: str, choices: str) -> bool:
    if not isinstance(value, bool):
        raise SettingError(f"{name} is {one_line(repr(value), 60)}; give {choices}")
    return value


def require_text(value: object, name: str) -> str:
    """Return a text.

    Raises:
        SettingError: the value is of another type.
    """
    if not isinstance(value, str):
        raise SettingError(f"{name} is of type {type(value).__name__}; give a text")
    return value


def require_fraction(value: object, name: str) -> float:
    """Return a number between 0 and 1, both excluded.

    Raises:
        SettingError: the value is of another type, or not between them.
    """
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise SettingError(f"{name} is {one_line(repr(value), 60)}; it must be a number between 0 and 1")
    return float(value)


def require_data(data: object, kind: type) -> None:
    """Refuse data of another type than a task learns and scores.

    Args:
        data: what a caller gave.
        kind: the class that it must have.

    Raises:
        DataError: it is of another type.
    """
    if not isinstance(data, kind):
        raise DataError(f"data is of type {type(data).__name__}; give {kind.__name__}")


def require_path(path: object, name: str = "path") -> Path:
    """Return the path of a file or a folder.

    Raises:
        SettingError: it is of another type, such as a data frame.
    """
    if isinstance(path, str | os.PathLike):
        checked = Path(path)
        if "\0" in str(checked) or any(len(name_part) > MAX_NAME for name_part in checked.parts):
            raise SettingError(f"{name} {quoted(str(checked), 60)} cannot be the name of a file or a folder")
        return checked
    raise SettingError(f"{name} is of type {type(path).__name__}; give the name of a file or a folder")


def optional_path(path: object, name: str) -> Path | None:
    """Return the path of a file, or ``None`` for ``None``.

    Raises:
        SettingError: it is of another type.
    """
    return None if path is None else require_path(path, name)


def id_list(ids: object, name: str) -> Collection[str]:
    """Return the texts of ids that a caller lists; a collection of texts is returned as it is.

    Raises:
        DataError: a single text, no collection, or a member that is no id.
    """
    if isinstance(ids, list | tuple | set | frozenset) and set(map(type, ids)) <= {str}:
        return cast("Collection[str]", ids)
    return normal_ids(ids, name)
