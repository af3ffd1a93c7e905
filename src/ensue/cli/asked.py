"""What is asked of a model at the command line: records one at a time, and the file they were read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Asked:
    """Records, a row (or a sequence) each."""

    records: Iterator[Any]
    total: int | None = None
    """How many there are, where that is known before."""
    beside: Callable[[pl.DataFrame, bool], pl.DataFrame] | None = None
    """The rows as they stand in their file with columns beside them, of JSON flat if told; ``None`` where records are
    sequences, or came from stdin."""
    byte_order_mark: bool = False
    """Whether tables written of them should begin with a byte-order mark."""
