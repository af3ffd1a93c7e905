"""Features of items as columns of texts, with the type of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from ensue.errors import DataError
from ensue.lines import listed

CATEGORY, TEXT, NUMBER, TIME, IGNORE = "category", "text", "number", "time", "ignore"
KINDS = (CATEGORY, TEXT, NUMBER, TIME, IGNORE)


@dataclass(frozen=True, eq=False)
class Items:
    """Features of items.

    Attributes:
        ids: one id per item, each once.
        columns: one column of texts per feature, by its name; empty cells are null.
        kinds: the type of each feature, one of ``KINDS``.
        title: name of the column that names an item for people, or nothing.
        id_column: name of the column of ids.
    """

    ids: pl.Series
    columns: pl.DataFrame
    kinds: Mapping[str, str]
    title: str = ""
    id_column: str = ""

    def __len__(self) -> int:
        """Number of items."""
        return len(self.ids)

    def titles(self) -> dict[str, str]:
        """Return the title of each item that has one, by id."""
        if not self.title:
            return {}
        pairs = zip(self.ids.to_list(), self.columns[self.title].to_list(), strict=True)
        return {item: title for item, title in pairs if title}

    def filter(self, mask: pl.Series) -> Items:
        """Return the items that a mask keeps."""
        return replace(self, ids=self.ids.filter(mask), columns=self.columns.filter(mask))

    def merge(self, newer: Items) -> Items:
        """Return these items and newer ones; where both know an item, the newer row counts.

        Raises:
            DataError: the newer table lacks a column.
        """
        if missing := [name for name in self.kinds if name not in newer.columns.columns]:
            raise DataError(f"items: the table lacks {listed(missing)}, which the model was trained with")
        is_older = ~self.ids.is_in(newer.ids.implode())
        ids = pl.concat([self.ids.filter(is_older), newer.ids])
        columns = pl.concat([self.columns.filter(is_older), newer.columns.select(self.columns.columns)])
        return replace(self, ids=ids, columns=columns)
