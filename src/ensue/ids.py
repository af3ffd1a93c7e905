"""Normal form of an id: the text that stands for it in every vocabulary, whatever type a file or a caller used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from typing import cast

from ensue.errors import DataError
from ensue.lines import quoted

MAX_EXACT = 2**53
"""Floats from here on no longer hold every integer, so that different ids may have become the same number."""


def normal_id(value: object) -> str:
    """Return the text of an id, as a CSV file would hold it: ``110`` for ``"110"``, ``110``, ``110.0`` and NumPy's.

    Args:
        value: a text, an integer, or a float or decimal that is a whole number. A text is returned as it is.

    Raises:
        DataError: ``value`` is missing (``None`` or NaN), a fraction, a float that was rounded, or of another type.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, Decimal):
        return _whole_number(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        return _whole_number(float(value))
    if value is None:
        raise DataError("None is not an id; leave out events whose id is missing")
    raise DataError(
        f"{quoted(value, 60)} is not an id but of type {type(value).__name__}; ids are texts or whole numbers"
    )


def normal_ids(values: object, name: str) -> tuple[str, ...]:
    """Return the texts of some ids, each as :func:`normal_id` gives it, in their order.

    Args:
        values: a tuple, a list, an array, a column or any other iterable of ids.
        name: what an error calls them, such as ``exclude``.

    Raises:
        DataError: ``values`` is a single text or no collection, or one of them is no id; its position is named.
    """
    texts = as_tuple(values, name, "ids")
    if set(map(type, texts)) <= {str}:  # nearly always, and checked in a moment
        return cast("tuple[str, ...]", texts)
    normal = []
    for position, value in enumerate(texts):
        try:
            normal.append(normal_id(value))
        except DataError as error:
            raise DataError(f"{name}[{position}]: {error}") from None
    return tuple(normal)


def as_tuple(values: object, name: str, noun: str) -> tuple[object, ...]:
    """Return the members of a collection; a text, bytes or a mapping is none, though Python iterates over it.

    Args:
        values: what a caller gave as a collection.
        name: what an error calls it.
        noun: what it holds, in the plural.

    Raises:
        DataError: it is no collection.
    """
    if isinstance(values, str):
        raise DataError(
            f"{name} is the text {quoted(values, 60)}; give a list of {noun}, such as [{quoted(values, 60)}]"
        )
    if isinstance(values, bytes | Mapping) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) < 1:
        raise DataError(f"{name} is of type {type(values).__name__}; give a list of {noun}")
    return values if isinstance(values, tuple) else tuple(values)


def _whole_number(value: float | Decimal) -> str:
    if math.isnan(value):
        raise DataError("NaN is not an id; leave out events whose id is missing")
    if math.isinf(value) or value != int(value):
        raise DataError(f"{value} is not an id; ids are texts or whole numbers")
    if isinstance(value, float) and abs(value) >= MAX_EXACT:
        raise DataError(f"{value} is a float beyond 2^53, where ids are rounded; give ids as texts or integers")
    return str(int(value))
