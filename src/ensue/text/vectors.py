"""Files of word vectors (GloVe, fastText and word2vec text, or npz), and tokenizers with their words."""

from __future__ import annotations

import gzip
import io
import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.file_bytes import allowed, require_regular
from ensue.data.files import LONGEST_LINE
from ensue.data.histories import Index, Mask
from ensue.errors import DataError, SettingError
from ensue.lines import quoted
from ensue.text.tokens import Tokenizer
from ensue.vocabulary import FIRST

_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError)
# NumPy reads the head of an array as Python literals; damage may break it at any point.
_DAMAGED_NPZ = (*_DAMAGED, ValueError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, MemoryError, RuntimeError)
Positions = dict[bytes, list[int]]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of some words, in the order the words were given.

    Attributes:
        matrix: (words, dim) zeros where a word was not found.
        known: (words,) whether it was found.
    """

    matrix: npt.NDArray[np.float32]
    known: Mask

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return int(self.matrix.shape[1])


def fit_tokenizer(
    columns: Sequence[pl.Series], *, lower: bool, min_count: int, vectors: str | None, extra_words: int
) -> Tokenizer:
    """Return a tokenizer of the words of the training data, and then of the first words of a file of vectors.

    Args:
        columns: columns of texts.
        lower: whether case is dropped.
        min_count: minimum number of occurrences of a word of the training data.
        vectors: path of the file; ``None`` for no file.
        extra_words: number of words that are taken from the file.

    Raises:
        DataError: the file cannot be read.
    """
    tokenizer = Tokenizer.fit(columns, lower=lower, min_count=min_count)
    if vectors is not None and extra_words:
        words = islice(_words_of(Path(vectors)), extra_words)
        tokenizer.vocabulary.add(word for word in words if word and (not lower or word == word.lower()))
    return tokenizer


def initial_vectors(path: str, words: Sequence[str], dim: int | None) -> tuple[Index, npt.NDArray[np.float32]]:
    """Return (known,) ids of the words of a vocabulary that a file has, and their (known, dim) vectors.

    Raises:
        DataError: the file cannot be read, or has none of the words.
        SettingError: the file's vectors have another width than ``dim``.
    """
    vectors = read_vectors(path, words)
    if dim is not None and dim != vectors.dim:
        raise SettingError(f"dim is {dim}, but the vectors of {path} have {vectors.dim} numbers; remove dim")
    positions = np.flatnonzero(vectors.known)
    return positions + FIRST, vectors.matrix[positions]


def _words_of(path: Path) -> Iterator[str]:
    """Yield the words of a file in their order; none where it is damaged, which ``read_vectors`` reports."""
    require_regular(path)
    try:
        with path.open("rb") as stream:
            magic = stream.read(6)
        if magic[:4] == b"PK\x03\x04":
            with np.load(path, allow_pickle=False) as arrays:
                yield from (word.decode(errors="replace") for word in _listed_words(np.asarray(arrays["words"])))
            return
        with closing(_unpacked(path, magic)) as lines:
            for line in lines:
                word, _, numbers = line.rstrip().partition(b" ")
                if numbers.count(b" "):  # the first line may hold two counts
                    yield word.decode(errors="replace")
    except (*_DAMAGED, ValueError, KeyError, zipfile.BadZipFile):
        return


def _listed_words(listed: npt.NDArray[np.generic]) -> list[bytes]:
    """Return the words of an npz: an array of texts, or all of them in one text with a line each."""
    if listed.ndim == 0:
        text = listed.item()
        return (text if isinstance(text, bytes) else str(text).encode()).split(b"\n")
    return [word if isinstance(word, bytes) else str(word).encode() for word in listed.ravel().tolist()]


def read_vectors(path: str | Path, words: Sequence[str]) -> Vectors:
    """The vectors of some words.

    Args:
        path: lines of ``word number number …``, plain, .gz or .xz, with or without a first line ``count dim`` (a word
            may hold spaces: the numbers are counted from the right); or an npz with ``vectors`` (words, dim) and
            ``words``, an array of texts or all of them in one text with a line each.
        words: as they stand in the file: most have no capitals. Where a file holds a word twice, the first counts.

    Raises:
        DataError: naming the file, the line and what is wrong; or no word at all is found.
    """
    path = Path(path)
    require_regular(path)
    positions: Positions = {}
    for position, word in enumerate(words):
        positions.setdefault(word.encode(), []).append(position)
    try:
        with path.open("rb") as stream:
            magic = stream.read(6)
        if magic[:4] == b"PK\x03\x04":
            vectors = _read_npz(path, positions, len(words))
        else:
            with _unpacked(path, magic) as stream:
                vectors = _read_lines(path, stream, positions, len(words))
    except _DAMAGED as error:
        raise DataError(f"{path}: cannot be read ({error}); fetch or pack the file again") from error
    if not vectors.known.any():
        example = f", such as {quoted(words[0])}" if words else ""
        raise DataError(f"{path}: holds none of the {len(words)} words{example}; do language and case agree?")
    return vectors


def _unpacked(path: Path, magic: bytes) -> io.BufferedIOBase:
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if magic == b"\xfd7zXZ\x00" else path.open("rb")


def _read_lines(path: Path, stream: io.BufferedIOBase, positions: Positions, num_words: int) -> Vectors:
    lines = _lines(path, stream)
    number, first = next(lines, (1, b""))
    if not first:
        raise DataError(f"{path}: is empty")
    num_stated, dim = _header(first)
    if num_stated is None:
        dim = first.count(b" ")
    if dim < 1:
        raise DataError(f"{path}, line {number}: {_shown(first)} is not a vector; expected a word and its numbers")
    matrix = np.zeros((num_words, dim), np.float32)
    is_known = np.zeros(num_words, bool)
    count = 0
    # Without a header, the first line is a vector too.
    for line_number, line in lines if num_stated is not None else chain([(number, first)], lines):
        count += 1
        width = line.count(b" ")
        if width < dim:
            raise DataError(
                f"{path}, line {line_number}: {width} numbers, but the first line has {dim}; is it cut short?"
            )
        # A word may hold spaces: its numbers are counted from the right.
        word = line[: line.index(b" ")] if width == dim else line.rsplit(b" ", dim)[0]
        rows = positions.get(word)
        if rows is not None and not is_known[rows[0]]:
            matrix[rows] = _numbers(line, dim, f"{path}, line {line_number}")
            is_known[rows] = True
    if num_stated is not None and count < num_stated:
        raise DataError(f"{path}: ends after {count:,} of {num_stated:,} vectors; fetch the file again")
    return Vectors(matrix, is_known)


def _lines(path: Path, stream: io.BufferedIOBase) -> Iterator[tuple[int, bytes]]:
    """The lines that hold anything, without the spaces that fastText leaves at their ends."""
    for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), 1):
        if len(line) == LONGEST_LINE:
            raise DataError(f"{path}, line {number}: a line is longer than 8 MiB; put one word on each line")
        if stripped := line.replace(b"\t", b" ").rstrip(b" \r\n"):
            yield number, stripped


def _header(line: bytes) -> tuple[int | None, int]:
    """``count dim`` of word2vec and fastText; no count where the line is a vector."""
    fields = line.split(b" ")
    return (int(fields[0]), int(fields[1])) if len(fields) == 2 and all(map(bytes.isdigit, fields)) else (None, 0)


def _numbers(line: bytes, dim: int, where: str) -> npt.NDArray[np.float32]:
    fields = line.rsplit(b" ", dim)[1:]
    try:
        with np.errstate(over="ignore"):
            numbers = np.array(fields).astype(np.float64).astype(np.float32)
    except ValueError as error:
        raise DataError(f"{where}: {_shown(line)} number of later users a non-number; fetch the file again") from error
    if not np.isfinite(numbers).all():
        raise DataError(f"{where}: {_shown(line)} has a number that is not finite; delete the line")
    return numbers


def _shown(line: bytes) -> str:
    return repr(line[:40].split(b" ")[0].decode(errors="replace"))


def _read_npz(path: Path, positions: Positions, num_words: int) -> Vectors:
    try:
        limit, _ = allowed(path.stat().st_size, None)
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > limit:
                raise DataError(
                    f"{path}: unpacks to more than {limit / 1e9:.3g} GB; write plain arrays that it can hold"
                )
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            missing = next((name for name in ("vectors", "words") if name not in arrays), None)
            if missing is not None:
                raise DataError(f"{path}: has no array {missing!r}; give vectors and words, or unpack a zip of texts")
            table = np.asarray(arrays["vectors"])
            listed = np.asarray(arrays["words"])
    except _DAMAGED_NPZ as error:
        raise DataError(f"{path}: the npz is damaged or holds Python objects; write plain arrays") from error
    if listed.dtype.kind not in "SU" or table.ndim != 2 or table.dtype.kind not in "fiu" or not table.shape[1]:
        raise DataError(f"{path}: expected vectors (words, dim) of numbers and words as texts; write it again")
    words = _listed_words(listed)
    if len(words) != len(table):
        raise DataError(f"{path}: {len(words)} words but {len(table)} vectors; write it again")
    matrix = np.zeros((num_words, table.shape[1]), np.float32)
    is_known = np.zeros(num_words, bool)
    # Where a file holds a word twice, the first one counts.
    for row, word in enumerate(words):
        rows = positions.get(word)
        if rows is not None and not is_known[rows[0]]:
            matrix[rows] = table[row]
            is_known[rows] = True
    # Rows of other words may hold anything.
    if not np.isfinite(matrix).all():
        raise DataError(f"{path}: some vectors hold numbers that are not finite; write it again")
    return Vectors(matrix, is_known)
