"""What a reader says of a file: how it was read, what it left out, and remarks.

Reports go into JSON field by field in the order ``path layout columns … notes byte_order_mark warnings``. A dataclass
takes the fields of its bases from the last to the first: in ``class PostsReport(ReadReport, Counted)`` those of
:class:`Source` come first, then those of :class:`Counted`, and the remarks of :class:`ReadReport` end the list.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """Whether the times are since 1970."""
    day_first: bool | None = None
    """Whether dates begin with the day, where the year comes last; ``None`` elsewhere."""


@dataclass(frozen=True, kw_only=True)
class ReadReport(Source):
    """What was understood of a file, as far as all kinds of records have it; of labelled texts that is all."""

    notes: tuple[str, ...]
    byte_order_mark: bool = False
    """Whether tables written beside the file should begin with a byte-order mark."""
    warnings: tuple[str, ...] = ()
    """Warnings about the data, one sentence each; ``check`` prints them with its own."""

    @property
    def details(self) -> str:
        """What is said beside layout and columns, for people; may be empty."""
        return ""

    @property
    def sentences(self) -> list[str]:
        """What was left out, a line a reason, for people."""
        return []


@dataclass(frozen=True, kw_only=True)
class SequencesReport(ReadReport, Clocked):
    """How a log of events was read."""

    events: str = ""
    """The event types that were read, where they were chosen."""

    @property
    def details(self) -> str:
        """How its times were read."""
        return f"time: {self.time}"
