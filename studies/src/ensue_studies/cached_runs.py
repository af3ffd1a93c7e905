"""Finished parts of a long study, kept in one file as they finish: the same command goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ensue.errors import DataError
from ensue.store.folder import write_file
from ensue.version import __version__
from ensue_studies.rows import Row, Values

CachedRun = Row


class CachedRuns:
    """What was measured, by what it was measured on. A cell says which ensue made it.

    Args:
        path: the file; ``None`` keeps nothing.

    Raises:
        DataError: the file is not one of finished cells.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.found: dict[str, CachedRun] = {}
        if path is None or not path.exists():
            return
        try:
            self.found = json.loads(path.read_text(encoding="utf-8"))["cells"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not a file of finished cells; delete it to start anew") from error
        if not isinstance(self.found, dict):
            raise DataError(f"{path}: not a file of finished cells; delete it to start anew")

    def get(self, key: Values, make: Callable[[], CachedRun]) -> CachedRun:
        """The cell of a key (plain values: all that decides it); made, and kept at once, where it is missing."""
        name = json.dumps(key, sort_keys=True)
        if name not in self.found:
            self.found[name] = json.loads(json.dumps({"ensue": __version__, **make()}))  # as it is read again
            if self.path is not None:
                write_file(self.path, (json.dumps({"cells": self.found}, indent=1) + "\n").encode())
        return self.found[name]

    def __contains__(self, key: Values) -> bool:
        """Whether the cell of a key is finished."""
        return json.dumps(key, sort_keys=True) in self.found
