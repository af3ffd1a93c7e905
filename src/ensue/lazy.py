"""Modules that are imported when they are first used: torch, and all that needs it, only where a network takes part.

``from ensue.lazy import torch`` is torch, imported at the first look-up of an attribute. Other modules are declared
twice, for the type checker and for the program::

    if TYPE_CHECKING:
        from ensue.training import loop
    else:
        loop = lazy("ensue.training.loop")
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from ensue.errors import MissingLibraryError, SettingError

TORCH = "torch"


class _LazyModule(ModuleType):
    """Stand-in for a module, which imports it at the first look-up of an attribute."""

    def __getattr__(self, name: str) -> object:
        attribute: object = getattr(sys.modules.get(self.__name__) or import_named(self.__name__), name)
        return attribute


def lazy(name: str) -> ModuleType:
    """Return a module that is imported when one of its attributes is first looked up.

    Looking up an attribute raises a ``MissingLibraryError`` where the module needs torch and torch is not installed.
    """
    return _LazyModule(name)


if TYPE_CHECKING:
    import torch as torch
else:
    torch = lazy(TORCH)


def import_named(name: str) -> ModuleType:
    """Import a module.

    Raises:
        MissingLibraryError: it needs torch, which is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != TORCH:
            raise
        require_torch(name)
        raise


def has_torch() -> bool:
    """Return whether torch can be imported."""
    return is_imported(TORCH) or find_spec(TORCH) is not None


def require_torch(name: str) -> None:
    """Refuse what needs torch where it is not installed.

    Args:
        name: what needs it, the subject of the message.

    Raises:
        MissingLibraryError: torch is not installed.
    """
    if not has_torch():
        raise MissingLibraryError(f"{name}: needs PyTorch, which is not installed; {INSTALL}")


def require_extra(module: str, noun: str, extra: str) -> None:
    """Refuse what needs a library of an extra that is not installed.

    Args:
        module: of the library.
        noun: what needs it, the subject of the message.
        extra: its name.

    Raises:
        SettingError: the library is not installed.
    """
    if find_spec(module) is None:
        raise SettingError(f"{noun} needs the extra: pip install 'ensue[{extra}]'")


INSTALL = 'pip install "ensue[torch]"'
"""The command that installs torch with ensue."""
WITHOUT_TORCH = f"PyTorch is not installed, so best chooses among the baselines and trains no network; {INSTALL}"
"""Warning of a training of ``best`` without torch."""


def is_imported(name: str) -> bool:
    """Return whether a module has been imported by anyone in this process."""
    return sys.modules.get(name) is not None
