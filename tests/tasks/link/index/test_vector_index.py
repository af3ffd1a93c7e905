"""The index: searches beside a literal one, changes beside building anew, crashes, and every refusal word for word."""

from __future__ import annotations

import json
import os
import shutil
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from ensue.errors import ModelFolderError, SettingError
from ensue.store.folder import write_file
from ensue.tasks.link.index import files as index_files
from ensue.tasks.link.index import vector_index as module
from ensue.tasks.link.index.files import names_of
from ensue.tasks.link.index.search import exact_search
from ensue.tasks.link.index.vector_index import VectorIndex, text_hashes
from tests.folders import resum

Floats = npt.NDArray[np.float32]


def names(*numbers: int) -> pl.Series:
    return pl.Series([f"p{number}" for number in numbers], dtype=pl.String)


def prints(count: int, first: int = 0) -> npt.NDArray[np.uint64]:
    return np.arange(first, first + count, dtype=np.uint64)


def vectors(count: int, seed: int = 0, dim: int = 5) -> Floats:
    return np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)


def build(folder: Path, count: int = 20, bits: str = "float32") -> VectorIndex:
    made = VectorIndex.create(folder, 5, kind="ast-1", bits=bits)
    made.add(names(*range(count)), prints(count), vectors(count))
    return made


def literal(rows: Floats, ids: list[str], queries: Floats, k: int) -> list[list[str]]:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return [[ids[place] for place in np.argsort(-(unit @ query), kind="stable")[:k]] for query in queries]


def found(index: VectorIndex, queries: Floats, k: int) -> list[list[str]]:
    frame = index.search(queries, k)[1]
    return [frame.filter(pl.col("query") == number)["id"].to_list() for number in range(len(queries))]


@pytest.mark.parametrize("block", [3, 1000])
def test_search_is_the_literal_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    index, queries = build(tmp_path / "i"), vectors(4, 1)
    assert found(index, queries, 6) == literal(vectors(20), names(*range(20)).to_list(), queries, 6)
    scores, frame = index.search(queries, 6)
    unit = vectors(20) / np.linalg.norm(vectors(20), axis=1, keepdims=True)
    cosines = np.sort((queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ unit.T, axis=1)[:, ::-1][:, :6]
    np.testing.assert_allclose(scores, cosines, atol=1e-6)
    assert frame["score"].to_list() == scores.ravel().tolist()
    half = build(tmp_path / "h", bits="float16").search(queries, 6)[0]
    np.testing.assert_allclose(half, cosines, atol=2e-3)


@pytest.mark.parametrize("block", [2, 7])
def test_ties_go_to_the_earlier_row_and_short_indexes_are_padded(block: int) -> None:
    rows = np.array([[1.0, 0], [0, 1], [1, 0], [1, 0], [0, 1], [1, 0]], np.float32)
    standing = np.array([True, True, False, True, True, True])
    parts = [(low, rows[low : low + block], standing[low : low + block]) for low in range(0, 6, block)]
    scores, places = exact_search(np.array([[1.0, 0.0]]), parts, 7)
    assert places.tolist() == [[0, 3, 5, 1, 4, -1, -1]]
    assert scores.tolist() == [[1, 1, 1, 0, 0, -np.inf, -np.inf]]
    assert exact_search(np.array([[1.0, 0.0]]), parts, 2)[1].tolist() == [[0, 3]]


def test_changes_equal_building_anew(tmp_path: Path) -> None:
    index, queries = build(tmp_path / "i"), vectors(3, 1)
    index.add(names(20, 21, 3), prints(3, 100), vectors(3, 2))  # the third replaces p3
    assert index.remove(names(0, 7, 99)) == 2
    order = [number for number in range(20) if number not in (0, 3, 7)]
    rows = np.concatenate([vectors(20)[order], vectors(3, 2)])
    wanted = literal(rows, names(*order, 20, 21, 3).to_list(), queries, 9)
    assert found(index, queries, 9) == wanted
    assert found(VectorIndex.open(tmp_path / "i", "ast-1"), queries, 9) == wanted
    files = sum(path.stat().st_size for path in (tmp_path / "i").iterdir())
    index.compact()
    assert len(index) == len(index.standing) == 20
    assert found(index, queries, 9) == found(VectorIndex.open(tmp_path / "i"), queries, 9) == wanted
    assert sum(path.stat().st_size for path in (tmp_path / "i").iterdir()) < files
    index.remove(names(*range(30)))
    index.compact()
    assert len(index) == 0 and index.search(queries, 2)[0].tolist() == [[-np.inf] * 2] * 3


def test_only_new_texts_are_encoded(tmp_path: Path) -> None:
    texts = pl.Series(["a", "b", "c"])
    index = VectorIndex.create(tmp_path / "i", 5)
    assert index.fresh(names(0, 1, 2), text_hashes(texts)).tolist() == [True] * 3
    index.add(names(0, 1, 2), text_hashes(texts), vectors(3))
    asked = text_hashes(pl.Series(["a", "changed", "c", "a"]))
    assert index.fresh(names(0, 1, 2, 3), asked).tolist() == [False, True, False, True]
    index.remove(names(2))
    assert index.fresh(names(0, 1, 2, 3), asked).tolist() == [False, True, True, True]
    assert text_hashes(pl.Series(["a", "b"])).tolist() != text_hashes(pl.Series(["b", "a"])).tolist()


@pytest.mark.parametrize("verb", ["add", "remove", "compact"])
def test_a_crash_leaves_the_index_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    index, queries = build(tmp_path / "i"), vectors(2, 1)
    index.remove(names(4))
    before = found(index, queries, 20)

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module, "write_manifest", crash)
        changes = {
            "add": lambda: index.add(names(50), prints(1), vectors(1)),
            "remove": lambda: index.remove(names(5)),
            "compact": index.compact,
        }
        changes[verb]()
    again = VectorIndex.open(tmp_path / "i")
    assert found(again, queries, 20) == before
    again.add(names(60), prints(1), vectors(1, 3))  # goes on, and sweeps away what the crash left
    known = {"index.json", "B2SUMS", again.manifest["gone"]}
    known |= {name for shard in again.manifest["shards"] for name in names_of(shard["number"])}
    assert {path.name for path in (tmp_path / "i").iterdir()} == known
    assert len(VectorIndex.open(tmp_path / "i")) == 20


@pytest.mark.parametrize("name", ["index.json", "vectors-1.npy", "vectors-2.npy", "rows-2.parquet", "gone-3.npy"])
def test_a_flipped_bit_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    index = build(tmp_path / "i")
    index.add(names(30), prints(1), vectors(1))
    index.remove(names(5))
    path = tmp_path / "i" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFolderError) as error:
        VectorIndex.open(tmp_path / "i")
    assert str(error.value) == (
        f"{path}: missing or damaged (its checksum is not the one in B2SUMS); delete the folder to build the index "
        "again"
    )


def test_checksums_are_those_that_b2sum_reads_and_cannot_be_left_out(tmp_path: Path) -> None:
    index = build(tmp_path / "i")
    index.remove(names(5))
    index.compact()
    lines = [line.split("  ") for line in (tmp_path / "i" / "B2SUMS").read_text().splitlines()]
    assert [name for _, name in lines] == ["index.json", "rows-3.parquet", "vectors-3.npy"]
    for known, name in lines:
        assert known == blake2b((tmp_path / "i" / name).read_bytes(), digest_size=32).hexdigest()
    (tmp_path / "i" / "B2SUMS").unlink()
    with pytest.raises(ModelFolderError, match=r"/i: B2SUMS is missing; copy the folder again"):
        VectorIndex.open(tmp_path / "i")


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_crash_between_the_steps_of_a_change_leaves_what_can_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    index, steps = build(tmp_path / "i"), []

    def crash(path: Path, data: bytes) -> None:
        steps.append(path.name)
        if len(steps) == step:
            raise KeyboardInterrupt
        write_file(path, data)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(index_files, "write_file", crash)
        index.remove(names(5))
    assert steps == ["B2SUMS", "index.json", "B2SUMS"][:step]
    assert len(VectorIndex.open(tmp_path / "i")) == (19 if step == 3 else 20)


def test_rows_that_are_no_such_parquet_and_pipes_are_refused(tmp_path: Path) -> None:
    build(tmp_path / "i")
    rows = tmp_path / "i" / "rows-1.parquet"
    for frame in (pl.DataFrame({"id": ["a"] * 20}), pl.DataFrame({"id": [None] * 20, "print": [1] * 20})):
        frame.write_parquet(rows)
        resum(tmp_path / "i")
        with pytest.raises(ModelFolderError, match=r"rows-1.parquet: missing or damaged \(is damaged"):
            VectorIndex.open(tmp_path / "i")
    rows.unlink()
    os.mkfifo(rows)
    with pytest.raises(ModelFolderError, match=r"rows-1.parquet: missing or damaged \(is not a file\)"):
        VectorIndex.open(tmp_path / "i")


def test_half_an_index_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    build(folder)

    def message(change: Any) -> str:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        change(copy)
        resum(copy)
        with pytest.raises(ModelFolderError) as error:
            VectorIndex.open(copy)
        assert "\n" not in str(error.value)
        return str(error.value).replace(str(copy), "F")

    end = "; delete the folder to build the index again"
    assert message(lambda copy: (copy / "index.json").unlink()) == ("F: the index is incomplete; delete the folder")
    assert message(lambda copy: (copy / "index.json").write_text("{")).startswith("F/index.json: unreadable (")
    assert message(lambda copy: (copy / "index.json").write_text("{}")) == (
        "F/index.json: not written by ensue; name the folder of an index"
    )
    cut = message(lambda copy: (copy / "vectors-1.npy").write_bytes((copy / "vectors-1.npy").read_bytes()[:200]))
    assert cut.startswith("F/vectors-1.npy: missing or damaged (") and cut.endswith(end)
    gone = message(lambda copy: (copy / "rows-1.parquet").unlink())
    assert gone == "F/rows-1.parquet: missing or damaged (is not there)" + end

    def shorten(copy: Path) -> None:
        np.save(copy / "vectors-1.npy", vectors(3))

    assert message(shorten) == "F/vectors-1.npy: missing or damaged (3 rows where 20 were written)" + end

    def age(copy: Path) -> None:
        manifest = json.loads((copy / "index.json").read_text())
        (copy / "index.json").write_text(json.dumps(manifest | {"format": 9}))

    assert message(age) == "F: has index format 9, this version reads 1; update ensue"


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError) as error:
        VectorIndex.open(tmp_path / "no")
    assert str(error.value) == f"{tmp_path}/no: not an index; give the folder of an index"
    index = build(tmp_path / "i")
    with pytest.raises(ModelFolderError) as error:
        VectorIndex.open(tmp_path / "i", "ast-2")
    assert str(error.value) == (
        f"{tmp_path}/i: holds vectors of another encoder ('ast-1', not 'ast-2'); delete the folder to encode the "
        "texts again"
    )
    with pytest.raises(ModelFolderError) as error:
        VectorIndex.create(tmp_path / "i", 5)
    assert str(error.value) == f"{tmp_path}/i: is not empty; choose another folder for the index, or delete it"
    with pytest.raises(SettingError) as refused:
        index.add(names(1, 1), prints(2), vectors(2))
    assert str(refused.value) == "vectors: (2, 5) for 2 ids; give 5 numbers per id, each id once"
    with pytest.raises(SettingError) as refused:
        VectorIndex.create(tmp_path / "j", 5, bits="int8")
    assert str(refused.value) == "bits: 'int8' with 5 dimensions; give float16 or float32, and at least 1"


def test_vectors_are_read_back_by_id(tmp_path: Path) -> None:
    index = build(tmp_path / "i")
    index.add(names(3, 30), prints(2, 100), vectors(2, 7))  # replaces 3, adds 30
    unit = {4: vectors(20)[4], 3: vectors(2, 7)[0], 30: vectors(2, 7)[1]}
    expected = np.stack([unit[number] / np.linalg.norm(unit[number]) for number in (30, 4, 3)])
    np.testing.assert_allclose(index.vectors_of(names(30, 4, 3)), expected, atol=1e-6)
    with pytest.raises(SettingError) as error:
        index.vectors_of(names(4, 99))
    assert str(error.value) == "id 'p99' is not in the index; add its vector first"


def clouds(count: int, seed: int = 0, dim: int = 5) -> Floats:
    """Rows around eight directions."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(8, dim))
    return (centres[random.integers(8, size=count)] + 0.1 * random.normal(size=(count, dim))).astype(np.float32)


def many(folder: Path) -> VectorIndex:
    """Two shards, some rows deleted."""
    made = VectorIndex.create(folder, 5)
    made.add(names(*range(500)), prints(500), clouds(500))
    made.add(names(*range(500, 800)), prints(300), clouds(300, 1))
    made.remove(names(*range(0, 500, 7)))
    return made


def test_all_cells_probed_is_the_exact_search(tmp_path: Path) -> None:
    index, queries = many(tmp_path / "i"), clouds(6, 2)
    index.add_lists(8)
    for _ in range(2):
        exact, frame = index.search(queries, 30)
        scores, near = index.search(queries, 30, nprobe=8)
        np.testing.assert_allclose(scores, exact, atol=1e-6)
        assert near["id"].to_list() == frame["id"].to_list()
        index.add(names(*range(3, 900, 5)), prints(180, 1000), clouds(180, 3))  # after the cells: new and replaced
        index.remove(names(4, 600, 601))
        index = VectorIndex.open(tmp_path / "i")


def test_few_probes_find_most_and_score_them_exactly(tmp_path: Path) -> None:
    index, queries = many(tmp_path / "i"), clouds(20, 2)
    index.add_lists()  # 800 rows make 20 cells of 40
    scores, frame = index.search(queries, 5, nprobe=4)
    exact = index.search(queries, 5)[1].select("query", "id")
    assert len(frame.join(exact, on=["query", "id"])) >= 0.95 * len(exact)
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    own = index.vectors_of(frame["id"])
    np.testing.assert_allclose(frame["score"], (unit[frame["query"].to_numpy()] * own).sum(1), atol=1e-6)
    assert (np.diff(scores, axis=1) <= 0).all()
    narrow = index.search(queries, 200, nprobe=1)[0]
    assert np.isinf(narrow[:, -1]).all()  # a cell holds fewer


def test_compacting_lets_go_of_the_cells(tmp_path: Path) -> None:
    index = many(tmp_path / "i")
    index.add_lists(4)
    index.add_lists(8)
    lists = index.manifest["cells"]
    assert lists is not None
    assert [path.name for path in sorted((tmp_path / "i").glob("cells-*"))] == [lists["name"]]
    index.compact()
    assert not list((tmp_path / "i").glob("cells-*"))
    with pytest.raises(SettingError, match="nprobe is 3; make lists with add_lists first, and give at least 1"):
        index.search(clouds(1), 2, nprobe=3)


def test_cells_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = many(tmp_path / "i")
    for made, num in ((index, 0), (VectorIndex.create(tmp_path / "none", 5), None)):
        with pytest.raises(SettingError, match="cells need at least one row, and there must be at least one"):
            made.add_lists(num)
    index.add_lists()
    with pytest.raises(SettingError, match="nprobe is 0; "):
        index.search(clouds(1), 2, nprobe=0)
    lists = index.manifest["cells"]
    assert lists is not None
    path = tmp_path / "i" / lists["name"]
    before, whole = path.read_bytes(), index.manifest
    path.write_bytes(before[:100])
    with pytest.raises(ModelFolderError, match=rf"{path.name}: missing or damaged \(.+\); delete the folder"):
        VectorIndex.open(tmp_path / "i").search(clouds(1), 2, nprobe=3)
    with monkeypatch.context() as full, pytest.raises(ModelFolderError, match=r"\(full\); the index is unchanged"):
        full.setattr(module, "save", _full)
        index.add_lists()
    assert index.manifest == whole and VectorIndex.open(tmp_path / "i").manifest == whole
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(SettingError, match=r"approximate search needs the extra: pip install 'ensue\[ann\]'"):
        index.add_lists()


def _full(found: Any, path: Path) -> None:
    path.write_bytes(b"half")
    raise OSError("full")
