"""Reports of the readers: detected format, rows left out, and notes.

Reports go into JSON field by field in the order ``path layout columns … notes byte_order_mark warnings``. A dataclass
takes the fields of its bases from the last to the first: in ``class PostsReport(ReadReport, Counted)`` those of
:class:`Source` come first, then those of :class:`Counted`, and the remarks of :class:`ReadReport` end the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

FindingRow = tuple[str, str, str]
"""Name, value and note of one finding."""
MAX_COUNTS = 20
"""Counts that a finding lists."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The file and its layout."""

    path: str
    layout: str
    columns: dict[str, str]
    """Role -> column; empty for layouts without columns."""


@dataclass(frozen=True, kw_only=True)
class Clocked(Source):
    """A file whose rows may have times."""

    time: str
    """One sentence, always meant to be printed."""
    unit: str | None
    absolute: bool
    """True if the times are since 1970."""
    day_first: bool | None = None
    """True if dates begin with the day, where the year comes last; ``None`` elsewhere."""


@dataclass(frozen=True, kw_only=True)
class ReadReport(Source):
    """Report of reading a file, with the fields that all kinds of records share."""

    notes: tuple[str, ...]
    byte_order_mark: bool = False
    """True if tables written beside the file should begin with a byte-order mark."""
    warnings: tuple[str, ...] = ()
    """Warnings about the data, one sentence each; ``check`` prints them with its own."""

    @property
    def details(self) -> str:
        """Details after layout and columns; may be empty."""
        return ""

    @property
    def sentences(self) -> list[str]:
        """Rows left out, one line per reason."""
        return []


@dataclass(frozen=True, kw_only=True)
class SequencesReport(ReadReport, Clocked):
    """Report of reading a log of events."""

    events: str = ""
    """The event types that were read, where they were chosen."""

    @property
    def details(self) -> str:
        """Format of its times."""
        return f"time: {self.time}"


class CheckFindings(Protocol):
    """Findings of ``check``: a dataclass, whose fields go into JSON by ``dataclasses.asdict``."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def rows(self) -> tuple[Any, ...]:
        """The first records."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on problems."""
        ...

    def table(self) -> list[FindingRow]:
        """Return the findings for people, one row each."""
        ...


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts by name, the first ``MAX_COUNTS`` of them: ``good 200, bad 180``."""
    listed = [f"{name or '-'} {count:,}" for name, count in [*counts.items()][:MAX_COUNTS]]
    others_text = [f"and {len(counts) - MAX_COUNTS:,} more"] if len(counts) > MAX_COUNTS else []
    return ", ".join([*listed, *others_text])
