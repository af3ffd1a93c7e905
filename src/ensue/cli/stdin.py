"""Records on stdin: lines with their numbers, mended as those of files are."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

from ensue.cli import display
from ensue.data.encodings import json_lines_of, mend_halves, mended
from ensue.errors import DataError


def lines() -> Iterator[tuple[int, str]]:
    """Every line with its number; of JSON, halves of characters are replaced, and their number is said at the end.

    Raises:
        DataError: what is not UTF-8.
    """
    halves = 0
    try:
        for number, line in enumerate(_records(), 1):
            if not line.lstrip().startswith("{") or "\\u" not in line:
                yield number, line
                continue
            whole, count = mend_halves(line.encode())
            halves += count
            yield number, whole[:].decode()
    except UnicodeDecodeError as error:
        raise DataError(f"-: not UTF-8 ({error.reason} at byte {error.start}); send UTF-8") from error
    for note in mended(halves):
        display.log(f"-: {note}")


def _records() -> Iterator[str]:
    """The lines of stdin; of a JSON array its records."""
    for line in sys.stdin:
        if line.lstrip().startswith("["):
            rest = sys.stdin.read()
            listed = json_lines_of("stdin", f"{line}{rest}".encode())
            yield from io.StringIO(f"{line}{rest}" if listed is None else listed[0].decode())
            return
        yield line
        if line.strip():
            break
    yield from sys.stdin
