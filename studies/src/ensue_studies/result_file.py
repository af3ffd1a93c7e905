"""Files of results: JSON that people can compare line by line, a row a line, with the digits that pages show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ensue.store.folder import write_file

_NESTED = 2  # mappings so deep have a line for each of their values; rows stand below them
_LEAST = 4
_MOST = 17


def write_result(path: Path, found: Mapping[str, object]) -> None:
    """Write a result as JSON."""
    write_file(path, (_text(_rounded(found), 0) + "\n").encode())


def _rounded(value: object) -> object:
    """Floats to the fewest digits with which they, and half the width of an interval, still read the same."""
    if isinstance(value, Mapping):
        return {name: _rounded(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        if len(value) == 2 and all(isinstance(end, float) for end in value):
            return _fewest(*value)
        return [_rounded(own) for own in value]
    return _fewest(value)[0] if isinstance(value, float) and not value.is_integer() else value


def _fewest(*values: float) -> list[float]:
    for digits in range(_LEAST + 1 - len(values), _MOST):  # of ends of intervals pages show the difference alone
        short = [float(f"{value:.{digits}g}") for value in values]
        if _shown(short) == _shown(values):
            return short
    return list(values)


def _shown(values: list[float] | tuple[float, ...]) -> list[str]:
    """How pages write them: plain and x 100; of two the half-width too."""
    numbers = [*values, *(100 * value for value in values)]
    if len(values) == 2:
        numbers.append(50 * (values[1] - values[0]))
    return [f"{number:.{places}f}" for number in numbers for places in range(3)] + [f"{own:.3f}" for own in values]


def _text(value: object, depth: int) -> str:
    pad, end = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, Mapping) and value and depth < _NESTED:
        lines = (f"{pad}{json.dumps(name)}: {_text(own, depth + 1)}" for name, own in value.items())
        return "{" + ",".join(lines) + end + "}"
    if isinstance(value, list) and any(isinstance(own, Mapping) for own in value):
        return "[\n" + ",\n".join(map(_line, value)) + end + "]"
    return _line(value)


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
