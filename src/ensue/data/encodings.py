"""The text of a file before it is parsed: its encoding, lone halves of characters, JSON arrays, lines above a header.

Text is brought to UTF-8 with line feeds, and a JSON array of objects to JSON Lines. Reports and exporting programs
write titles, comments and empty lines above the header of a CSV file: they are counted here.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ensue.data.file_bytes import FileBytes, contains
from ensue.errors import DataError, SettingError
from ensue.lines import plural, quoted

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
MARKS = (codecs.BOM_UTF8, *_UTF16)
_UNMARKED = re.compile(rb"(?P<le>(?:[\t -~]\0){8})|(?P<be>(?:\0[\t -~]){8})")
"""Plain letters in UTF-16 without a byte-order mark: each has a zero byte."""
_UTF8 = ("utf-8", "ascii")
_STEP = 2**20
# A half of a pair as JSON escapes it, of which the other half is missing: what cut emoji leave.
_HEX = rb"[0-9a-fA-F]{2}"
_HIGH = rb"\\u[dD][89abAB]" + _HEX
_LOW = rb"\\u[dD][c-fC-F]" + _HEX
# May stand alone: the exact look that follows knows backslashes that stand for themselves. The pattern begins with what
# it looks for, which makes the search fast.
_LONE = re.compile(
    rb"\\u[dD](?:[89abAB]" + _HEX + rb"(?!" + _LOW + rb")|[c-fC-F]" + _HEX + rb"(?<!(?<!\\)" + _HIGH + _LOW + rb"))"
)
_ESCAPES = re.compile(rb"\\\\|" + _HIGH + _LOW + rb"|(\\u[dD][89a-fA-F]" + _HEX + rb")")


def decode(
    path: Path, data: bytes | FileBytes, encoding: str, usual: str = ""
) -> tuple[bytes | FileBytes, tuple[str, ...]]:
    """A text as UTF-8; what is UTF-8 already stays as it is, and is looked at where it is read.

    Args:
        path: the file, for messages.
        data: its bytes, unpacked.
        encoding: as stated, or empty; a byte-order mark wins over it.
        usual: the encoding of the model's training data, for a text that is not UTF-8 and has no mark.

    Returns:
        The text, its lines ended by a line feed at least, and notes.

    Raises:
        DataError: bytes that the encoding does not have.
        SettingError: an encoding that Python does not know.
    """
    if usual and not encoding and not _is_utf8(data):
        encoding = usual
    codec = _known(encoding)
    name = _UTF16.get(data[:2], "utf-8" if data[:3] == codecs.BOM_UTF8 else codec)
    if not encoding and (match := _UNMARKED.match(data[:_HEAD])) is not None:
        name = f"utf-16-{match.lastgroup}"
    notes: tuple[str, ...] = ()
    if name not in _UTF8:
        try:
            # A mark of UTF-16 is no part of the text.
            text = data[2 * (data[:2] in _UTF16) :].decode(name)
        except UnicodeError as error:
            if not name.startswith("utf-16"):
                at = getattr(error, "start", 0)
                line = data[:at].count(b"\n") + 1
                raise DataError(
                    f"{path}, line {line}: not {name} ({getattr(error, 'reason', error)}); use another encoding"
                ) from error
            text = data[2:].decode(name, "replace")
            notes = ("some characters were broken or cut in two and were replaced by \ufffd",)
        data = text.encode("utf-8", "replace")
        notes = (f"read as {name}", *notes)
    # Lines of old Macs end with a carriage return alone.
    if data.find(b"\n") < 0 and data.find(b"\r") >= 0:
        data = data[:].replace(b"\r", b"\n")
    return data, notes


def _is_utf8(data: bytes | FileBytes) -> bool:
    """Return whether bytes are UTF-8 text; UTF-16 of plain letters is UTF-8 too, but for the zero bytes in it."""
    if data.find(b"\0") >= 0:
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for low in range(0, len(data), _STEP):
            decoder.decode(data[low : low + _STEP], final=low + _STEP >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def mend_halves(data: bytes | FileBytes) -> tuple[bytes | FileBytes, int]:
    """JSON with U+FFFD for every half of a character that lacks its other half, and how many there were."""
    if not contains(data, _LONE):
        return data, 0
    count = 0

    def mend(half: re.Match[bytes]) -> bytes:
        nonlocal count
        if half[1] is None:
            return half[0]
        count += 1
        return b"\\ufffd"

    return _ESCAPES.sub(mend, data[:]), count


def mended(count: int) -> tuple[str, ...]:
    """A note on halves of characters, if there were any."""
    halves = plural(count, "half of a character", "halves of characters")
    return (f"{halves}, as cut emoji leave, replaced by \ufffd",) if count else ()


def _known(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding or "utf-8")
        "".encode(encoding or "utf-8")  # refuses what turns bytes into bytes, such as base64
    except (LookupError, ValueError) as error:
        raise SettingError(f"encoding {encoding!r} is not known; cp1252, latin-1 and utf-16 are") from error
    return codec.name


_DOCUMENT = re.compile(
    r'\s*(?:\[\s*(?:\{|\[\s*[^\s\[{])|\{\s*"(?:(?:columns|index|data)"\s*:\s*\[|schema"\s*:\s*\{|\d+"\s*:\s*\{'
    r'|[^"]*"\s*:\s*\{\s*"\d+"\s*:))'
)
"""The beginning of an array of objects or of lists, or of an object as pandas writes a frame in."""
_HEAD = 2**10


def is_document(head: bytes) -> bool:
    """Return whether a text begins as an array or a frame of pandas does, which may be one line of any length."""
    return _DOCUMENT.match(head[:_HEAD].decode("utf-8", "replace")) is not None


def parsed_json(text: str | bytes) -> object:
    """Return the value of JSON; ``None`` of a text that is none."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return None


def json_lines_of(path: object, text: bytes | FileBytes) -> tuple[bytes, str] | None:
    """The objects of an array, or the rows of a frame of pandas, a line each, and a note; ``None`` of anything else.

    Args:
        path: the file, for messages.
        text: UTF-8.

    Raises:
        DataError: it begins as an array does and is no JSON, or is an array of lists.
    """
    if not is_document(text[:_HEAD]):
        return None
    is_array = text[:_HEAD].lstrip()[:1] == b"["
    end = text.find(b"\n")
    # JSON Lines, of which the first may look like a frame.
    if not is_array and end >= 0 and text[end : end + _HEAD].strip() and parsed_json(text[:end]) is not None:
        return None
    try:
        document = json.loads(text[:].decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        if not is_array:
            return None
        raise DataError(f"{path}: is not JSON ({quoted(error)}); give JSON Lines, or one document") from error
    rows = document if is_array else _rows_of_frame(document)
    if is_array and all(isinstance(row, list) for row in rows):
        raise DataError(
            f"{path}: is a JSON array of lists, which names no columns; of pandas give orient='records', lines=True, "
            'and of sessions {"values": […]} on each line'
        )
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    kind = f"array of {plural(len(rows), 'record')}" if is_array else f"frame of {plural(len(rows), 'row')}"
    return lines.encode("utf-8"), f"a JSON {kind}: line numbers in messages are record numbers"


def _rows_of_frame(document: dict[str, object]) -> list[dict[str, object]]:
    """Return the rows of a frame that pandas wrote, whatever the orientation; none of another object."""
    names, rows = document.get("columns"), document.get("data")
    if document.keys() == {"schema", "data"} and isinstance(rows, list):
        tables = [row for row in rows if isinstance(row, dict)]
        return [
            {name: row[name] for name in row if name != "index" or not isinstance(row[name], int)} for row in tables
        ]
    if isinstance(names, list) and isinstance(rows, list):
        # Labels of rows that are not just their numbers are a column.
        labels = document.get("index")
        if isinstance(labels, list) and labels and not all(isinstance(label, int) for label in labels):
            names, rows = ["index", *names], [[label, *row] for label, row in zip(labels, rows, strict=False)]
        return [dict(zip(map(str, names), row, strict=False)) for row in rows if isinstance(row, list)]
    tables = [field for field in document.values() if isinstance(field, dict)]
    if len(tables) < len(document) or any(table.keys() != tables[0].keys() for table in tables):
        return []
    # Rows have numbers: of orient="index" the object has them, of orient="columns" each of its fields.
    return (
        tables
        if all(map(str.isdigit, document))
        else [dict(zip(document, row, strict=True)) for row in zip(*(table.values() for table in tables), strict=True)]
    )


_SEPARATORS = (",", ";", "\t", "|")
_MAX_LINES = 50
"""Lines above a header, at most."""
_ROWS = 50
"""Rows below a header that must fit it."""
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?")


def num_preamble_lines(head: Sequence[str]) -> int:
    """Return how many lines stand above the header; 0 unless what follows them is surely a table.

    As in a sheet, a line above the header fills one cell at most, whatever the separator; a comment begins with ``#``.
    The header is the first other line: its names differ, and all rows below it have as many fields.

    Args:
        head: the first lines; the last one must be whole.
    """
    start = next((row for row, line in enumerate(head[: _MAX_LINES + 1]) if not _is_above(line, head)), 0)
    titles = sum(bool(line.strip()) and not line.startswith("#") for line in head[:start])
    # A list of texts may end in two that have a comma each: titles are fewer than the rows of their table.
    following = sum(bool(line.strip()) for line in head[start + 1 :])
    likely = start > 0 and titles <= following
    return start if likely and any(is_table(csv.reader(head[start:], delimiter=mark)) for mark in _SEPARATORS) else 0


def _is_above(line: str, head: Sequence[str]) -> bool:
    """Return whether a line fills one cell at most, or is a comment; a header may begin with ``#`` too."""
    if line.lstrip("\ufeff").startswith("#"):
        return not any(_is_commented_header(line, head, separator) for separator in _SEPARATORS)
    return all(sum(bool(cell.strip()) for cell in _cells(line, separator)) < 2 for separator in _SEPARATORS)


def _is_commented_header(line: str, head: Sequence[str], separator: str) -> bool:
    """Return whether a line that begins with ``#`` has names for all fields of the first line that does not."""
    cells = _cells(line, separator)
    following = next((row for row in head if row.strip() and not row.lstrip("\ufeff").startswith("#")), "")
    return is_header(cells) and len(cells) == len(_cells(following, separator))


def is_table(rows: Iterable[Sequence[str]]) -> bool:
    """Return whether rows are a header and rows of the same width, as far as they are looked at."""
    filled = [row for row in islice(rows, _ROWS) if any(row)]
    return len(filled) > 1 and is_header(filled[0]) and all(len(row) == len(filled[0]) for row in filled)


def _cells(line: str, separator: str) -> list[str]:
    return next(csv.reader([line.lstrip("\ufeff")], delimiter=separator), [])


def is_header(cells: Sequence[str]) -> bool:
    """Return whether cells look like names of columns: two or more, all different, no numbers, no ends of sentences.

    Words after a comma begin with a space, which names do not.
    """
    return (
        len(cells) > 1
        and len(set(cells)) == len(cells)
        and all(
            cell == cell.strip() and cell and cell[-1] not in ".!?" and not _NUMBER.fullmatch(cell) for cell in cells
        )
    )
