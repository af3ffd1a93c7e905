"""Values and their ids: padding is 0, unknown is 1, the values follow in order of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

PADDING = 0
UNKNOWN = 1
FIRST = 2


class Vocabulary:
    """A growing two-way table of values and ids.

    Ids are stable for ever: a value that arrives later gets the next free id, so tables of weights grow at the end.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: list[str] = []
        self._ids: dict[str, int] = {}
        self.add(values)

    def __len__(self) -> int:
        """Number of ids in use, padding and unknown included: the rows of an embedding table."""
        return len(self._values) + FIRST

    def __contains__(self, value: str) -> bool:
        return value in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    @property
    def values(self) -> Sequence[str]:
        """The values in order of their ids, from id 2 on."""
        return self._values

    def add(self, values: Iterable[str]) -> int:
        """Append the values that are new, in order of arrival; returns how many were."""
        before = len(self._values)
        for value in values:
            if value not in self._ids:
                self._ids[value] = len(self._values) + FIRST
                self._values.append(value)
        return len(self._values) - before

    def id(self, value: str) -> int:
        """The value's id, or ``UNKNOWN``."""
        return self._ids.get(value, UNKNOWN)

    def ids(self, values: Iterable[str]) -> npt.NDArray[np.int32]:
        """Ids of many values, ``UNKNOWN`` where a value never arrived."""
        return np.fromiter((self._ids.get(v, UNKNOWN) for v in values), np.int32)

    def value(self, id: int) -> str:
        """The value with this id (2 or more)."""
        return self._values[id - FIRST]
