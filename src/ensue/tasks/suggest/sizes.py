"""What the settings of every ``suggest`` network must keep to."""

from __future__ import annotations

from typing import Any

from ensue.errors import SettingError
from ensue.settings import DEEPEST


def require_sizes(settings: Any, *names: str) -> None:
    """The named fields must be at least 1.

    Raises:
        SettingError: one is not.
    """
    for name in names:
        if getattr(settings, name) < 1:
            raise SettingError(f"{name} is {getattr(settings, name)}; it must be at least 1")


def require_shares(settings: Any, *names: str) -> None:
    """The named fields must be in [0, 1).

    Raises:
        SettingError: one is not.
    """
    for name in names:
        if not 0 <= getattr(settings, name) < 1:
            raise SettingError(f"{name} is {getattr(settings, name)}; it must be at least 0 and below 1")


def require_heads(settings: Any) -> None:
    """The width must be a multiple of the heads.

    Raises:
        SettingError: it is not.
    """
    if settings.dim % settings.heads:
        raise SettingError(f"dim {settings.dim} is not a multiple of heads {settings.heads}")


def read_depth(depth: str, parts: str, least: int, most: int | None = None) -> tuple[int, ...]:
    """Layers a part from a text such as ``3+2+3``; the last part, the decoder, has at least one.

    Raises:
        SettingError: it is not of that form, or has too few or too many parts.
    """
    numbers = tuple(int(part) for part in depth.split("+") if part.strip().isdecimal())
    right = len(numbers) == len(depth.split("+")) and least <= len(numbers) <= (most or len(numbers))
    if not right or not numbers[-1]:
        raise SettingError(f"depth is {depth!r}; write the layers of {parts}, the last at least 1")
    if sum(numbers) > DEEPEST:
        raise SettingError(f"depth is {depth}; it must be at most {DEEPEST} in all")
    return numbers
