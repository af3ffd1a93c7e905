"""Text as others write it, brought to UTF-8 with line feeds: UTF-16, named encodings, lone halves of characters."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from ensue.data.file_bytes import FileBytes, contains
from ensue.errors import DataError, SettingError
from ensue.lines import plural

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
MARKS = (codecs.BOM_UTF8, *_UTF16)
_UTF8 = ("utf-8", "ascii")
_STEP = 2**20
# A half of a pair as JSON escapes it, of which the other half is missing: what cut emoji leave.
_HEX = rb"[0-9a-fA-F]{2}"
_HIGH, _LOW = rb"\\u[dD][89abAB]" + _HEX, rb"\\u[dD][c-fC-F]" + _HEX
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
    stated = _known(encoding)
    name = _UTF16.get(data[:2], "utf-8" if data[:3] == codecs.BOM_UTF8 else stated)
    notes: tuple[str, ...] = ()
    if name not in _UTF8:
        try:
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
    if data.find(b"\n") < 0 and data.find(b"\r") >= 0:
        data = data[:].replace(b"\r", b"\n")
    return data, notes


def _is_utf8(data: bytes | FileBytes) -> bool:
    """Whether bytes are UTF-8 text; UTF-16 of plain letters is UTF-8 too, but for the zero bytes in it."""
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
