"""Word vectors: every published layout by hand, and every refusal word for word."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensue import DataError
from ensue.text.vectors import Vectors, read_vectors
from tests.data.files import write

GLOVE = "the 0.5 -1 2e-1\n, 1 2 3\n. . . 4 5 6\nfilm 7 8 9\nthe 9 9 9\n"


def read(folder: Path, content: str | bytes, *words: str) -> Vectors:
    return read_vectors(write(folder, content, "vectors"), words)


def test_glove_by_hand(tmp_path: Path) -> None:
    vectors = read(tmp_path, GLOVE, "film", "none", "the", ". . .", "film")
    # A word may hold spaces, the first of two lines counts, a word may be asked for twice.
    expected = [[7, 8, 9], [0, 0, 0], [0.5, -1, 0.2], [4, 5, 6], [7, 8, 9]]
    np.testing.assert_array_equal(vectors.matrix, np.array(expected, np.float32))
    assert vectors.matrix.dtype == np.float32
    assert vectors.known.tolist() == [True, False, True, True, True]
    assert vectors.dim == 3


@pytest.mark.parametrize("header", ["", "5 3\n"], ids=["plain", "header"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"], ids=["lf", "fasttext", "crlf"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["plain", "gz", "xz"])
def test_layouts_agree(tmp_path: Path, header: str, end: str, pack: type[bytes]) -> None:
    vectors = read(tmp_path, pack((header + GLOVE).replace("\n", end).encode()), "film", "5", ",")
    assert vectors.matrix.tolist() == [[7, 8, 9], [0, 0, 0], [1, 2, 3]]
    assert vectors.known.tolist() == [True, False, True]


def test_header_of_one_number_a_word(tmp_path: Path) -> None:
    vectors = read(tmp_path, "2 1\na 0.5\nb -0.5\n", "b", "2")
    assert (vectors.matrix.tolist(), vectors.known.tolist()) == ([[-0.5], [0.0]], [True, False])


@pytest.mark.parametrize(
    "words",
    [
        np.array("film\nün n\n7".encode()),
        np.array("film\nün n\n7"),
        np.array(["film", "ün n", "7"]),
        np.array([word.encode() for word in ("film", "ün n", "7")]),
    ],
    ids=["bytes", "text", "texts", "many bytes"],
)
def test_npz_by_hand(tmp_path: Path, words: np.ndarray) -> None:
    np.savez(tmp_path / "v.npz", vectors=np.array([[1, 2], [3, 4], [5, 6]], np.float16), words=words)
    vectors = read_vectors(tmp_path / "v.npz", ["7", "none", "ün n"])
    assert vectors.matrix.tolist() == [[5, 6], [0, 0], [3, 4]]
    assert vectors.matrix.dtype == np.float32
    assert vectors.known.tolist() == [True, False, True]


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=4),
        st.tuples(*[st.floats(width=32, allow_nan=False, allow_infinity=False)] * 4),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_survive(tmp_path: Path, table: dict[str, tuple[float, ...]], data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(sorted(table)), min_size=1))
    lines = "".join(f"{word} {' '.join(map(repr, numbers))}\n" for word, numbers in table.items())
    vectors = read(tmp_path, f"{len(table)} 4\n{lines}", *words)
    assert vectors.known.all()
    assert vectors.matrix.tolist() == [list(table[word]) for word in words]


LINES: dict[str, tuple[str | bytes, str]] = {
    "short": ("a 1 2 3\n\nb 1 2\n", ", line 3: 2 numbers, but the first line has 3; is it cut short?"),
    "short, header": (
        "2 3\na 1 2 3\nb 1 2\n",
        ", line 3: 2 numbers, but the first line has 3; is it cut short?",
    ),
    "words": ("a 1 2\nb 1 x\n", ", line 2: 'b' number of later users a non-number; fetch the file again"),
    "nan": ("a 1 2\nb 1 nan\n", ", line 2: 'b' has a number that is not finite; delete the line"),
    "too large": ("a 1 2\nb 1 1e39\n", ", line 2: 'b' has a number that is not finite; delete the line"),
    "one column": ("just\nwords\n", ", line 1: 'just' is not a vector; expected a word and its numbers"),
    "empty": ("", ": is empty"),
    "count": ("3 2\na 1 2\nb 1 2\n", ": ends after 2 of 3 vectors; fetch the file again"),
    "none": ("A 1 2\n", ": holds none of the 2 words, such as 'a'; do language and case agree?"),
    "gzip": (gzip.compress(b"a 1 2\n" * 999)[:40], ": cannot be read (Compressed file ended before the end-of-stream "),
    "xz": (lzma.compress(b"a 1 2\n" * 999)[:60], ": cannot be read (Compressed file ended before the end-of-stream "),
    "npz": (b"PK\x03\x04 cut short", ": the npz is damaged or holds Python objects; write plain arrays"),
}


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_vectors(path, ["a", "b"])
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(str(path))


@pytest.mark.parametrize(("content", "expected"), LINES.values(), ids=LINES.keys())
def test_message(tmp_path: Path, content: str | bytes, expected: str) -> None:
    message = refusal(write(tmp_path, content, "vectors"))
    assert message == expected or (expected.endswith(" ") and message.startswith(expected))


def test_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none") == ": no such file; check the name"


TWO = np.ones((2, 3), np.float32)
SHAPE = ": expected vectors (words, dim) of numbers and words as texts; write it again"


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"vectors": TWO}, ": has no array 'words'; give vectors and words, or unpack a zip of texts"),
        ({"words": np.array(["a"])}, ": has no array 'vectors'; give vectors and words, or unpack a zip of texts"),
        ({"vectors": TWO, "words": np.array("a\nb\nc")}, ": 3 words but 2 vectors; write it again"),
        ({"vectors": TWO, "words": np.array([1, 2])}, SHAPE),
        ({"vectors": TWO[0], "words": np.array(["a", "b", "c"])}, SHAPE),
        ({"vectors": np.array([["x"]]), "words": np.array(["a"])}, SHAPE),
        ({"vectors": TWO[:, :0], "words": np.array(["a", "b"])}, SHAPE),
        (
            {"vectors": TWO * np.nan, "words": np.array(["a", "b"])},
            ": some vectors hold numbers that are not finite; write it again",
        ),
        (
            {"vectors": TWO, "words": np.array(["a", None], dtype=object)},
            ": the npz is damaged or holds Python objects; write plain arrays",
        ),
    ],
)
def test_npz_messages(tmp_path: Path, arrays: dict[str, np.ndarray], expected: str) -> None:
    np.savez(tmp_path / "v.npz", **arrays)  # type: ignore[arg-type]
    assert refusal(tmp_path / "v.npz") == expected


def test_damaged_npz(tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / "v.npz", vectors=np.random.default_rng(0).random((99, 9)), words=np.array("a\n" * 98)
    )
    raw = bytearray((tmp_path / "v.npz").read_bytes())
    raw[200:260] = bytes(60)
    (tmp_path / "v.npz").write_bytes(raw)
    assert refusal(tmp_path / "v.npz") == ": the npz is damaged or holds Python objects; write plain arrays"
