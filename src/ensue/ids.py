"""Normal form of an id: the text that stands for it in every vocabulary, whatever type a file or a caller used."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Integral, Real

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


def _whole_number(value: float | Decimal) -> str:
    if math.isnan(value):
        raise DataError("NaN is not an id; leave out events whose id is missing")
    if math.isinf(value) or value != int(value):
        raise DataError(f"{value} is not an id; ids are texts or whole numbers")
    if isinstance(value, float) and abs(value) >= MAX_EXACT:
        raise DataError(f"{value} is a float beyond 2^53, where ids are rounded; give ids as texts or integers")
    return str(int(value))
