"""Number of layers of a ``suggest`` network, read from a text."""

from __future__ import annotations

from ensue.errors import SettingError
from ensue.settings import DEEPEST


def read_depth(depth: str, parts: str, least: int, most: int | None = None) -> tuple[int, ...]:
    """Layers a part from a text such as ``3+2+3``; the last part, the decoder, has at least one.

    Raises:
        SettingError: it is not of that form, or has too few or too many parts.
    """
    numbers = tuple(int(part) for part in depth.split("+") if part.strip().isdecimal())
    right = len(numbers) == len(depth.split("+")) and least <= len(numbers) <= (most or len(numbers))
    if not right or not numbers[-1]:
        raise SettingError(f"depth is {depth!r}; give the layers of {parts}, the last at least 1")
    if sum(numbers) > DEEPEST:
        raise SettingError(f"depth is {depth}; it must be at most {DEEPEST} in all")
    return numbers
