"""Data sets of studies: one shape for all, an even subset, and a fingerprint of their contents."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Histories, Index
from ensue.errors import DataError
from ensue_studies.page import Row, Values


class Records(Protocol):
    """Records that can be selected by row."""

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    def select(self, rows: Index, /) -> Self:
        """Return the records of some rows."""
        ...


R = TypeVar("R", bound=Records)
T = TypeVar("T")
Column = Iterable[str] | npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class DataSet(Generic[R]):
    """One data set of a study.

    Attributes:
        name: name in the tables.
        train: training data.
        valid: validation data; ``None``: a part of ``train`` is held out.
        test: test data.
        fingerprint: hash of the full data set.
        about: one sentence about training, validation and test data.
        details: what one study alone needs, such as the true edges of a network.
    """

    name: str
    train: R
    valid: R | None = None
    test: R
    fingerprint: str
    about: str = ""
    details: Any = None

    def subset(self, train_size: int | None, test_size: int | None) -> Self:
        """Return the set with at most so many training records, half as many for validation, and test records."""
        valid = None if self.valid is None else evenly(self.valid, train_size and train_size // 2)
        return replace(self, train=evenly(self.train, train_size), valid=valid, test=evenly(self.test, test_size))

    @property
    def parts(self) -> dict[str, R]:
        """The parts that exist, by name."""
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}

    def key(self, model: str, options: Values, seed: int) -> Row:
        """Return all that decides a training on this set, as the key of a cached run."""
        sizes = {"train_size": len(self.train), "test_size": len(self.test)}
        about = {"data": self.name, "fingerprint": self.fingerprint, **sizes}
        return {**about, "model": model, "options": dict(options), "seed": seed}


def available(
    data: Path, readers: Mapping[str, Callable[[], T | None]], files: Iterable[str]
) -> tuple[list[T], list[str]]:
    """Read the data sets that exist.

    Args:
        data: folder, for the error.
        readers: by name; each returns ``None`` where its files do not exist.
        files: what is looked for, for the error.

    Returns:
        The data sets, and the names of those that are not available.

    Raises:
        DataError: none exists.
    """
    sets = {name: read() for name, read in readers.items()}
    found = [data_set for data_set in sets.values() if data_set is not None]
    if not found:
        raise DataError(f"{data}: none of {', '.join(dict.fromkeys(files))} exists; name the folder that holds them")
    return found, [name for name, data_set in sets.items() if data_set is None]


def planned(sets: Sequence[DataSet[R]], names: Collection[str]) -> tuple[list[DataSet[R]], list[str]]:
    """Return the data sets that a plan names, or all if it names none of them; and the names of the others."""
    chosen = [data for data in sets if data.name in names] or list(sets)
    return chosen, [data.name for data in sets if data not in chosen]


def folder_of(data: Path, kind: str) -> Path:
    """Return the folder of one kind of data: the subfolder ``kind`` if it exists, else ``data``."""
    return data / kind if (data / kind).is_dir() else data


def packed(path: Path) -> Path | None:
    """Return the path of a file, plain or with the suffix .xz or .gz; ``None`` if it does not exist."""
    paths = (path.with_name(f"{path.name}{suffix}") for suffix in (".xz", ".gz", ""))
    return next((path for path in paths if path.is_file()), None)


def evenly(records: R, size: int | None) -> R:
    """Return at most ``size`` records, spread evenly over the file, because many files are sorted."""
    if size is None or len(records) <= size:
        return records
    return records.select(np.linspace(0, len(records) - 1, size).astype(np.int64))


def fingerprint(columns: Iterable[Column]) -> str:
    """Return a hash of columns of texts and of numbers."""
    digest = hashlib.blake2b(digest_size=8)
    for column in columns:
        digest.update(
            np.ascontiguousarray(column).data if isinstance(column, np.ndarray) else "\n".join(column).encode()
        )
    return digest.hexdigest()


def columns_of(*parts: Histories | None, times: bool = False) -> Iterator[Column]:
    """Yield the columns of histories, with or without the times of events."""
    for histories in parts:
        if histories is not None:
            yield histories.vocabulary.values
            yield histories.ids
            yield histories.offsets
            if times:
                yield histories.times
