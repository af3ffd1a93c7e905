"""What the data sets of the studies share: a part of one, and a fingerprint of all that is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Histories, Index


class Named(Protocol):
    """A data set of a study."""

    @property
    def name(self) -> str:
        """Its name in the tables."""
        ...


class Records(Protocol):
    """Records of which some can be taken."""

    def __len__(self) -> int:
        """How many."""
        ...

    def select(self, rows: Index, /) -> Self:
        """Those of some rows."""
        ...


S = TypeVar("S", bound=Named)
R = TypeVar("R", bound=Records)
Column = Iterable[str] | npt.NDArray[Any]


def planned(found: Sequence[S], names: Collection[str]) -> tuple[list[S], list[str]]:
    """The data sets that a plan names, or all where none of them is there; and the names of those left out."""
    sets = [data for data in found if data.name in names] or list(found)
    kept = {data.name for data in sets}
    return sets, [data.name for data in found if data.name not in kept]


def evenly(records: R, most: int | None) -> R:
    """At most so many records, spread evenly over the file: many files are sorted."""
    if most is None or len(records) <= most:
        return records
    return records.select(np.linspace(0, len(records) - 1, most).astype(np.int64))


def fingerprint(columns: Iterable[Column]) -> str:
    """Of texts, a line each, and of numbers."""
    seen = hashlib.blake2b(digest_size=8)
    for column in columns:
        seen.update(np.ascontiguousarray(column).data if isinstance(column, np.ndarray) else "\n".join(column).encode())
    return seen.hexdigest()


def columns_of(histories: Histories, *, times: bool = False) -> Iterator[Column]:
    """Values and what stands where; with the times of events or without."""
    yield histories.vocabulary.values
    yield histories.ids
    yield histories.offsets
    if times:
        yield histories.times
