"""A file of any size in pieces that fit in memory: slices of Parquet, and of text whole records under its header."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ensue.data.file_bytes import FileBytes
from ensue.data.files import Content, require_no_zeros

ROWS = 2**21
"""Rows of Parquet in a piece."""
BYTES = 2**26
"""Bytes of text in a piece, about."""


@dataclass(frozen=True)
class Cursor:
    """Where in a log reading goes on."""

    source: int = 0
    """The number of the file."""
    at: int = 0
    """The row of Parquet, or the byte of unpacked text."""
    lines: int = 0
    """How many lines of the text stand before."""


def pieces(content: Content, layout: str | None, cursor: Cursor) -> Iterator[tuple[Content, Cursor]]:
    """The pieces of a file from a place on, each with the place where the next begins.

    Args:
        content: the file.
        layout: of its events; what keeps no header has none put above its pieces.
        cursor: 0 of the file's bytes or rows, or what came with an earlier piece.
    """
    if layout == "parquet":
        rows = content.num_rows()
        for low in range(cursor.at, rows, ROWS):
            yield replace(content, part=(low, min(ROWS, rows - low))), replace(cursor, at=low + ROWS)
        return
    header = _header(content) if layout is None and not content.header else b""
    if not cursor.at and (len(content.data) <= BYTES or header.count(b'"') % 2):  # a header over several lines
        data = content.data.whole() if isinstance(content.data, FileBytes) else content.data
        require_no_zeros(content.path, data, content.first_line)
        yield replace(content, data=data), replace(cursor, at=len(content.data))
        return
    quotes = layout != "jsonl events"
    low, lines = cursor.at, cursor.lines
    while low < len(content.data):
        chunk = _whole_records(content, low, quotes)
        if not chunk:  # of a file that grows, half a line is left
            break
        line = content.first_line + lines
        require_no_zeros(content.path, chunk, line)
        first = low == 0  # the header stands there itself
        data = chunk if first else header + chunk
        low, lines = low + len(chunk), lines + chunk.count(b"\n")
        if chunk.strip():
            begins = line - (0 if first else header.count(b"\n"))
            yield replace(content, data=data, first_line=begins), replace(cursor, at=low, lines=lines)


def _whole_records(content: Content, low: int, quotes: bool) -> bytes:
    """About as many bytes as a piece has from a record's begin on, which end with a record.

    A line ends a record where the quotes before it come in pairs: ``1,"a`` and ``b",5`` are one record.
    """
    step = BYTES
    while True:
        chunk = content.data[low : low + step]
        if low + len(chunk) >= len(content.data):
            growing = isinstance(content.data, FileBytes) and content.data.has_grown()
            return chunk[: chunk.rfind(b"\n") + 1] if growing else chunk
        end = chunk.rfind(b"\n") + 1
        odd = quotes and chunk.count(b'"', 0, end) % 2
        while odd and end:
            before = chunk.rfind(b"\n", 0, end - 1) + 1
            odd = (odd + chunk.count(b'"', before, end)) % 2
            end = before
        if end:
            return chunk[:end]
        step *= 2


def _header(content: Content) -> bytes:
    """The first line that holds anything, with its end."""
    at = 0
    while True:
        end = content.data.find(b"\n", at) + 1
        line = content.data[at:end]
        if line.strip():
            return line
        at = end
