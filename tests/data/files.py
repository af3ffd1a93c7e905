"""Files that tests of several readers write, and what the reader of sequences says of them."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd

from ensue import DataError, History
from ensue.data.histories import Histories
from ensue.data.sequences import read

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zst": zstd.compress,
    "bzip2": bz2.compress,
}
LOG = "session,item,time\n1,a,5\n1,b,6\n"


def write(folder: Path, text: str | bytes, name: str = "clicks.csv") -> Path:
    """A file in a folder."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def records(histories: Histories) -> list[History]:
    """All of them."""
    return list(histories.records())


def refusal(path: Path) -> str:
    """What the reader of sequences says against a file, its path left out."""
    with pytest.raises(DataError) as caught:
        read(path)
    return str(caught.value).removeprefix(str(path))
