"""Approximate search for the largest inner products, by faiss: the extra ``ann``, imported when it is needed."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from types import ModuleType

from ensue.errors import SettingError


def import_faiss() -> ModuleType:
    """The library.

    Raises:
        SettingError: the extra is missing.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of how its types are made
            import faiss
    except ImportError as error:
        raise SettingError("approximate search needs the extra: pip install 'ensue[ann]'") from error
    return faiss


def has_faiss() -> bool:
    """Return whether faiss is installed."""
    return find_spec("faiss") is not None
