"""Parquet that announces what it does not hold takes no memory: one line, whatever figure lies."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

from ensue import DataError
from ensue.data.binary import Node, _nodes, _Reader, require_small
from ensue.data.files import open_file
from ensue.data.posts.dataset import read_posts

ROWS, PACKED, PAGES = (3,), (4, 1, 3, 7), (4, 1, 3, 9)
GROUP_ROWS, VALUES, DICTIONARY = (4, 3), (4, 1, 3, 5), (4, 1, 3, 11)
Place = tuple[int, ...]


class Number(int):
    """A whole number, and between which bytes it stands."""

    span = (0, 0)


class Spans(_Reader):
    """Remembers between which bytes each whole number stands."""

    def _value(self, kind: int, depth: int) -> Node:
        begin = self.at
        value = super()._value(kind, depth)
        if isinstance(value, int):
            value = Number(value)
            value.span = (begin, self.at)
        return value


def numbers(data: bytes, place: Place) -> list[Number]:
    return [number for number in _nodes(Spans(data).struct(), place) if isinstance(number, Number)]


def varint(number: int) -> bytes:
    """Zigzag, seven bits a byte, the last byte below 128."""
    number, found = number << 1, b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def changed(data: bytes, place: Place, value: int) -> bytes:
    """A struct with other numbers in one place."""
    for number in reversed(numbers(data, place)):
        low, high = number.span
        data = data[:low] + varint(value) + data[high:]
    return data


def footer_of(data: bytes) -> bytes:
    return data[-8 - struct.unpack("<i", data[-8:-4])[0] : -8]


def doctored(data: bytes, place: Place, value: int) -> bytes:
    """A file whose footer says something else."""
    old = footer_of(data)
    new = changed(old, place, value)
    return data[: -8 - len(old)] + new + struct.pack("<i", len(new)) + b"PAR1"


def written(compression: Literal["snappy", "zstd", "uncompressed"] = "snappy") -> bytes:
    buffer = io.BytesIO()
    frame = pl.DataFrame({"text": [f"some words {number}" for number in range(1000)]})
    frame.write_parquet(buffer, compression=compression, statistics=False)
    return buffer.getvalue()


def page_doctored(data: bytes, place: Place, value: int) -> bytes:
    """A file whose first page says something else of itself; the footer knows where it ends then."""
    end = len(data) - 8 - len(footer_of(data))
    head = changed(data[4:end], place, value)
    more = len(head) - (end - 4)
    (packed,) = numbers(footer_of(data), PACKED)
    return doctored(data[:4] + head + data[end:], PACKED, packed + more)


def refusal(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(DataError) as error:
        read_posts(path)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(str(path))


@pytest.mark.parametrize("value", [10**12, 2**31 - 1, 10**9])
@pytest.mark.parametrize("place", [ROWS, GROUP_ROWS, VALUES, PACKED, PAGES, DICTIONARY])
def test_a_footer_that_lies_is_refused(tmp_path: Path, place: Place, value: int) -> None:
    path = tmp_path / "p.parquet"
    data = written("zstd")
    path.write_bytes(data)
    assert len(read_posts(path)[0]) == 1000
    if place == DICTIONARY:  # there is none here: another place of its first page
        data, place = doctored(data, PAGES, 5), PAGES
    assert refusal(path, doctored(data, place, value)).startswith(": is damaged (")


@pytest.mark.parametrize("compression", ["snappy", "zstd", "uncompressed"])
def test_a_page_that_announces_two_gigabytes_is_refused_before_room_is_made(
    tmp_path: Path, compression: Literal["snappy", "zstd", "uncompressed"]
) -> None:
    found = page_doctored(written(compression), (2,), 2**31 - 1)
    assert refusal(tmp_path / "p", found).startswith(": unpacks to more than 0.0")


def test_a_page_that_announces_more_values_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "p", page_doctored(written(), (5, 1), 2**31 - 1)) == (
        ": is damaged (a column announces other values than its pages); write it again"
    )


def test_the_command_ends_in_one_line_and_with_2(tmp_path: Path) -> None:
    (tmp_path / "p.parquet").write_bytes(doctored(written(), ROWS, 10**12))
    command = [sys.executable, "-m", "ensue", "check", "p.parquet"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert run.returncode == 2 and run.stdout == ""
    wanted = "p.parquet: is damaged (it announces 1,000,000,000,000 rows and holds 1,000); write it again"
    assert " ".join(run.stderr.split()) == f"ensue: {wanted}"


@pytest.mark.parametrize("layout", ["lists", "groups", "dictionary", "nulls", "empty"])
def test_honest_files_of_every_layout_are_read(tmp_path: Path, layout: str) -> None:
    frames = {
        "lists": pl.DataFrame({"text": ["a b"] * 50, "tags": [["x"] * (number % 3) for number in range(50)]}),
        "groups": pl.DataFrame({"text": [f"a {number}" for number in range(5000)]}),
        "dictionary": pl.DataFrame({"text": [f"a {number % 7}" for number in range(5000)]}),
        "nulls": pl.DataFrame({"text": ["a", None, "b"] * 100, "deep": [{"x": {"y": 1}}] * 300}),
        "empty": pl.DataFrame({"text": pl.Series([], dtype=pl.String)}),
    }
    frames[layout].write_parquet(tmp_path / "p", row_group_size=1000)
    data = (tmp_path / "p").read_bytes()
    require_small(tmp_path / "p", data, 2**30, "")
    assert open_file(tmp_path / "p").table().equals(frames[layout])
