"""Which words a classifier knows, and the vectors they start from."""

from __future__ import annotations

import gzip
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ensue.data.file_bytes import require_regular
from ensue.errors import SettingError
from ensue.text.tokens import Tokenizer
from ensue.text.vectors import read_vectors
from ensue.vocabulary import FIRST


def learn_words(
    columns: Sequence[pl.Series], *, lower: bool, min_count: int, vectors: str | None, extra_words: int
) -> Tokenizer:
    """A tokenizer of the words of the training data, and then of the first words of a file of vectors.

    Raises:
        DataError: the file cannot be read.
    """
    tokenizer = Tokenizer.fit(columns, lower=lower, min_count=min_count)
    if vectors is not None and extra_words:
        words = islice(_file_words(Path(vectors)), extra_words)
        tokenizer.vocabulary.add(word for word in words if word and (not lower or word == word.lower()))
    return tokenizer


def start_vectors(path: str, words: Sequence[str], dim: int | None) -> tuple[Tensor, Tensor]:
    """The vectors of a file for the words it knows: (known,) ids and (known, dim) vectors.

    Raises:
        DataError: the file cannot be read, or knows none of the words.
        SettingError: the file's vectors are of another width than ``dim``.
    """
    vectors = read_vectors(path, words)
    if dim is not None and dim != vectors.dim:
        raise SettingError(f"dim is {dim}, but the vectors of {path} have {vectors.dim} numbers; remove dim")
    places = np.flatnonzero(vectors.known)
    return torch.from_numpy(places + FIRST), torch.from_numpy(vectors.matrix[places])


def _file_words(path: Path) -> Iterator[str]:
    """The words of a file in their order; none where it is damaged: ``read_vectors`` says what is wrong with it."""
    require_regular(path)
    try:
        with path.open("rb") as stream:
            magic = stream.read(6)
        if magic[:4] == b"PK\x03\x04":
            with np.load(path, allow_pickle=False) as arrays:
                listed = np.asarray(arrays["words"])
            text = listed.item() if listed.ndim == 0 else None
            words = listed.ravel().tolist() if text is None else text.split(b"\n" if isinstance(text, bytes) else "\n")
            yield from (word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in words)
            return
        opened = gzip.open if magic[:2] == b"\x1f\x8b" else lzma.open if magic == b"\xfd7zXZ\x00" else Path.open
        with closing(cast(BinaryIO, opened(path, "rb"))) as lines:
            for line in lines:
                word, _, numbers = line.rstrip().partition(b" ")
                if numbers.count(b" "):  # a first line of two counts is none
                    yield word.decode(errors="replace")
    except (OSError, EOFError, ValueError, KeyError, lzma.LZMAError, zlib.error, zipfile.BadZipFile):
        return
