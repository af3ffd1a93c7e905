"""Lists of items that a client sends once and requests name: files next to the model folder, ``NAME.lists/LIST.json``.

Every process of the service reads the files, so a list that one of them stores is known to all; an update of the model
leaves them as they are.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from pydantic import Field

from ensue.errors import DataError
from ensue.serve.bodies import NAME, Body, Ids
from ensue.store.access import sibling_access
from ensue.store.folder import write_file
from ensue.tasks.next.item_filter import StoredList

MAX_LISTS = 100
"""Lists of a model, at most."""
EXAMPLES = {"sold out": {"items": ["d91", "e05"]}}


class ItemList(Body):
    """The items of a list."""

    items: Ids = Field(description="a list of ids")


class ListStore:
    """The lists of a model; one that was replaced is read again.

    Args:
        folder: the model folder.
    """

    def __init__(self, folder: Path) -> None:
        self._model = folder.resolve()
        self._folder = self._model.with_name(f"{self._model.name}.lists")
        self._lists: dict[str, tuple[object, StoredList]] = {}

    def names(self) -> list[str]:
        """Return the names of the stored lists."""
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def require(self, name: str) -> StoredList:
        """Return a stored list: the same object until it is replaced.

        Raises:
            DataError: there is none of this name.
        """
        path = self._path(name)
        try:
            status = path.stat()
            identity = status.st_ino, status.st_mtime_ns, status.st_size
            if name not in self._lists or self._lists[name][0] != identity:
                self._lists[name] = identity, StoredList(json.loads(path.read_bytes()))
        except OSError:
            stored = ", ".join(self.names()) or "none"
            raise DataError(f"no list is named {name!r}; PUT it first (stored: {stored})") from None
        return self._lists[name][1]

    def put(self, name: str, items: Collection[str]) -> None:
        """Store a list, or replace it.

        Raises:
            DataError: the name cannot be one, or too many lists are stored.
            ModelFolderError: nothing can be written next to the model.
        """
        path = self._path(name)
        if len(names := self.names()) >= MAX_LISTS and name not in names:
            raise DataError(f"{MAX_LISTS} lists are stored; delete one first, or replace it")
        write_file(path, json.dumps([*items]).encode(), access=sibling_access(self._model))

    def delete(self, name: str) -> None:
        """Delete a list, if there is one of this name."""
        self._path(name).unlink(missing_ok=True)
        self._lists.pop(name, None)

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise DataError(f"{name[:64]!r} cannot be the name of a list; use letters, digits, dots, - and _")
        return self._folder / f"{name}.json"
