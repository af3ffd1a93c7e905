"""The index of vectors: searches against a literal one, changes against a new index, crashes, and refusals."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from ensue import ModelFolderError, SettingError
from ensue.store import folder as store_folder
from ensue.tasks.link import vector_index
from ensue.tasks.link.vector_index import VectorIndex, text_hashes
from tests.folders import resum

Floats = npt.NDArray[np.float32]


def names(*numbers: int) -> pl.Series:
    return pl.Series([f"p{number}" for number in numbers], dtype=pl.String)


def hashes(count: int, first: int = 0) -> npt.NDArray[np.uint64]:
    return np.arange(first, first + count, dtype=np.uint64)


def vectors(count: int, seed: int = 0) -> Floats:
    """Vectors around eight directions."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(8, 5))
    return (centres[random.integers(8, size=count)] + 0.3 * random.normal(size=(count, 5))).astype(np.float32)


def build(folder: Path, count: int = 20) -> VectorIndex:
    index = VectorIndex.create(folder, 5, "ast-1")
    index.add(names(*range(count)), hashes(count), vectors(count))
    index.save()
    return index


def cosines(rows: Floats, queries: Floats) -> Floats:
    units, unit_queries = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (rows, queries))
    product: Floats = unit_queries @ units.T
    return product


def matches(index: VectorIndex, queries: Floats, k: int, **options: int) -> list[list[str]]:
    frame = index.search(queries, k, **options)[1]
    return [frame.filter(pl.col("query") == number)["id"].to_list() for number in range(len(queries))]


@pytest.mark.parametrize("max_scores", [30, 1 << 26])
def test_a_search_compares_every_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_scores: int) -> None:
    monkeypatch.setattr(vector_index, "MAX_SCORES", max_scores)
    index, queries = build(tmp_path / "i"), vectors(4, 1)
    wanted = cosines(vectors(20), queries)
    scores, frame = index.search(queries, 6)
    np.testing.assert_allclose(scores, np.sort(wanted, axis=1)[:, ::-1][:, :6], atol=1e-3)
    assert frame["id"].to_list() == [f"p{row}" for row in np.argsort(-wanted, axis=1)[:, :6].ravel()]
    assert frame["score"].to_list() == scores.ravel().tolist()
    scores, frame = index.search(queries, 22)
    assert np.isinf(scores[:, 20:]).all() and len(frame) == 4 * 20


@pytest.mark.parametrize("lists", [0, 8])
def test_changes_equal_a_new_index(tmp_path: Path, lists: int) -> None:
    index, queries = build(tmp_path / "i", 400), vectors(3, 1)
    options = {"nprobe": lists} if lists else {}
    if lists:
        index.cluster(lists)
        index.save()
        index = VectorIndex.open(tmp_path / "i")
        assert matches(index, queries, 9, nprobe=lists) == matches(index, queries, 9)  # mapped before the changes
    index.add(names(400, 401, 3), hashes(3, 1000), vectors(3, 2))  # the third replaces p3
    assert index.remove(names(0, 7, 999)) == 2
    index.add(names(402), hashes(1, 2000), vectors(1, 3))
    order = [number for number in range(400) if number not in (0, 3, 7)]
    fresh = VectorIndex.create(tmp_path / "new", 5)
    rows = np.concatenate([vectors(400)[order], vectors(3, 2), vectors(1, 3)])
    fresh.add(names(*order, 400, 401, 3, 402), hashes(401), rows)
    wanted = matches(fresh, queries, 9)
    assert matches(index, queries, 9, **options) == wanted
    index.save()
    again = VectorIndex.open(tmp_path / "i", "ast-1")
    assert len(again) == 401 and matches(again, queries, 9, **options) == wanted
    again.remove(names(*range(500)))
    assert len(again) == 0 and again.search(queries, 2, **options)[0].tolist() == [[-np.inf] * 2] * 3


def test_few_lists_hold_most_of_the_closest(tmp_path: Path) -> None:
    index, queries = build(tmp_path / "i", 1600), vectors(20, 2)
    index.cluster()  # 40 lists of 40 vectors
    exact, frame = (index.search(queries, 5, nprobe=nprobe)[1] for nprobe in (None, 10))
    assert len(frame.join(exact, on=["query", "id"])) >= 0.95 * len(exact)
    units = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    products = (units[frame["query"].to_numpy()] * index.vectors_of(frame["id"])).sum(1)
    np.testing.assert_allclose(frame["score"], products, atol=1e-3)
    assert np.isinf(index.search(queries, 300, nprobe=1)[0][:, -1]).all()  # one list holds fewer


def test_only_new_texts_are_encoded(tmp_path: Path) -> None:
    index = VectorIndex.create(tmp_path / "i", 5)
    stored = text_hashes(pl.Series(["a", "b", "c"]))
    assert index.is_new(names(0, 1, 2), stored).tolist() == [True] * 3
    index.add(names(0, 1, 2), stored, vectors(3))
    changed = text_hashes(pl.Series(["a", "changed", "c", "a"]))
    assert index.is_new(names(0, 1, 2, 3), changed).tolist() == [False, True, False, True]
    index.remove(names(2))
    assert index.is_new(names(0, 1, 2, 3), changed).tolist() == [False, True, True, True]


def test_a_crash_leaves_the_index_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, queries = build(tmp_path / "i"), vectors(2, 1)
    before = matches(index, queries, 20)
    index.remove(names(4))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(store_folder, "put_in_place", crash)
        index.save()
    assert matches(VectorIndex.open(tmp_path / "i"), queries, 20) == before
    index.save()
    assert len(VectorIndex.open(tmp_path / "i")) == 19
    assert [path.name for path in tmp_path.iterdir()] == ["i"]


@pytest.mark.parametrize("name", ["fitted.json", "baselines.safetensors", "settings.json", "lists.faiss"])
def test_a_flipped_bit_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    index = build(tmp_path / "i", 100)
    index.cluster()
    index.save()
    path = tmp_path / "i" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFolderError) as error:
        VectorIndex.open(tmp_path / "i").search(vectors(1), 2, nprobe=1)
    assert str(error.value).startswith(f"{path}: damaged or edited (its checksum is not the one in B2SUMS); ")


def test_folders_that_hold_no_index(tmp_path: Path) -> None:
    advice = "; give the folder of an index, or delete it to build it again"
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    index = build(tmp_path / "i", 100)
    index.cluster(2)
    index.save()
    for name, reason in (("none", "no such model folder"), ("foreign", "settings.json is missing or unreadable")):
        with pytest.raises(ModelFolderError) as error:
            VectorIndex.open(tmp_path / name)
        assert str(error.value).startswith(f"{tmp_path / name}: {reason}") and str(error.value).endswith(advice)
    with pytest.raises(ModelFolderError) as error:
        VectorIndex.open(tmp_path / "i", "ast-2")
    assert str(error.value) == (
        f"{tmp_path}/i: holds vectors of another encoder ('ast-1', not 'ast-2'); delete the folder to encode the "
        "texts again"
    )
    with pytest.raises(ModelFolderError, match="foreign: exists and is not a model folder"):
        VectorIndex.create(tmp_path / "foreign", 5).save()
    path = tmp_path / "i" / "lists.faiss"
    path.write_bytes(path.read_bytes()[:100])
    resum(tmp_path / "i")
    with pytest.raises(ModelFolderError, match=r"i: damaged \("):
        VectorIndex.open(tmp_path / "i").search(vectors(1), 2, nprobe=1)
    tree = tmp_path / "i" / "fitted.json"
    tree.write_text(tree.read_text().replace("text[100]", "text[99]"))
    resum(tmp_path / "i")
    with pytest.raises(ModelFolderError, match=rf"i: damaged \(ids.*\){advice}"):
        VectorIndex.open(tmp_path / "i")


def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = build(tmp_path / "i")
    with pytest.raises(SettingError) as refused:
        index.add(names(1, 1), hashes(2), vectors(2))
    assert str(refused.value) == "vectors: (2, 5) for 2 ids; give 5 numbers per id, each id once"
    with pytest.raises(SettingError, match="dim is 0; it must be at least 1"):
        VectorIndex.create(tmp_path / "j", 0)
    with pytest.raises(SettingError, match="nprobe is 3; make lists with cluster first, and give at least 1"):
        index.search(vectors(1), 2, nprobe=3)
    with pytest.raises(SettingError, match="lists need at least one text, and there must be at least one list"):
        index.cluster(0)
    with pytest.raises(SettingError, match="id 'p99' is not in the index; add its vector first"):
        index.vectors_of(names(4, 99))
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(SettingError, match=r"approximate search needs the extra: pip install 'ensue\[ann\]'"):
        index.cluster()


def test_vectors_are_read_back_by_id(tmp_path: Path) -> None:
    index = build(tmp_path / "i")
    index.add(names(3, 30), hashes(2, 100), vectors(2, 7))  # replaces 3, adds 30
    rows = np.stack([vectors(2, 7)[1], vectors(20)[4], vectors(2, 7)[0]])
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(index.vectors_of(names(30, 4, 3)), expected, atol=1e-3)
