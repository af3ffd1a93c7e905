"""Vectors of texts kept in a folder and searched exactly: appended to, deleted from and compacted, never half.

The folder holds ``index.json``, which alone says what counts, and shards that are written once and never changed:
``vectors-N.npy`` (rows, dim) of unit rows in 16 or 32 bits, mapped and not read; ``rows-N.parquet`` with the ids and
the hashes of the texts; ``gone-N.npy``, the rows deleted so far. Every change writes its files, flushes them and
then replaces ``index.json`` in one step: a crash leaves the index before or after, and files that nobody names, which
the next change sweeps away.

A search takes a block of rows at a time, so its memory does not grow with the index. Beyond a million rows
:meth:`VectorIndex.add_lists` (extra ``ann``) keeps them in lists beside the shards, as ``cells-N.faiss``, and a search
may probe a few; rows that came since are searched exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from ensue.data.histories import Index
from ensue.errors import ModelFolderError, SettingError
from ensue.nn.validation import require_ids
from ensue.store.access import access_of, ensure_file
from ensue.tasks.link.index.files import (
    BITS,
    FORMAT,
    MANIFEST,
    Manifest,
    Shard,
    flush,
    half,
    names_of,
    read_array,
    read_manifest,
    read_rows,
    require_file,
    save_rows,
    sums_for,
    write_manifest,
)
from ensue.tasks.link.index.files import save as save_array
from ensue.tasks.link.index.search import InvertedFile, Vectors, exact_search, load, make_ivf, probe, save

_BLOCK = 1 << 16


def text_hashes(texts: pl.Series) -> npt.NDArray[np.uint64]:
    """(texts,) a 64-bit number each, equal for equal texts: whether a text changed since it was encoded."""
    digests = (blake2b((text or "").encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), np.uint64)


class VectorIndex:
    """An index that stands in a folder; made by :meth:`create` or :meth:`open`.

    Args:
        folder: where it stands.
        manifest: what ``index.json`` says.
        sums: checksums of files by name.

    Example:
        >>> from ensue.tasks.link.index.vector_index import VectorIndex, text_hashes
        >>> import numpy as np, polars as pl
        >>> texts = pl.Series(["the ferry sails", "no bus again"])
        >>> index = VectorIndex.create("posts.index", dim=2)
        >>> index.add(pl.Series(["p1", "p2"]), text_hashes(texts), np.eye(2, dtype=np.float32))
        >>> scores, found = index.search(np.array([[0.9, 0.1]], np.float32), k=1)
        >>> found["id"].to_list()
        ['p1']
    """

    def __init__(self, folder: Path, manifest: Manifest, sums: dict[str, str]) -> None:
        self.folder, self.manifest, self._sums = folder, manifest, sums
        self._ivf: InvertedFile | None = None  # read when they are first probed
        self.standing: npt.NDArray[np.bool_]
        self._load(checked=False)

    @classmethod
    def create(cls, folder: str | Path, dim: int, *, kind: str = "", bits: str = "float16") -> VectorIndex:
        """An empty index.

        Args:
            folder: where it shall stand; missing or empty.
            dim: numbers in a vector.
            kind: what encodes the texts, such as a model's hash; :meth:`open` compares it.
            bits: ``float16`` or ``float32``.

        Raises:
            ModelFolderError: something else stands there.
            SettingError: an unknown width of numbers, or no dimension.
        """
        if bits not in BITS or dim < 1:
            raise SettingError(f"bits: {bits!r} with {dim} dimensions; give float16 or float32, and at least 1")
        folder = Path(folder)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ModelFolderError(f"{folder}: is not empty; choose another folder for the index, or delete it")
        manifest: Manifest = {
            "format": FORMAT,
            "dim": dim,
            "bits": bits,
            "kind": kind,
            "next_number": 1,
            "shards": [],
            "gone": None,
            "cells": None,
        }
        write_manifest(folder, manifest, {}, {})
        return cls(folder, manifest, {})

    @classmethod
    def open(cls, folder: str | Path, kind: str | None = None) -> VectorIndex:
        """An index that stands.

        Args:
            folder: where.
            kind: what would encode new texts; ``None`` to ask nothing.

        Raises:
            ModelFolderError: no index, half of one, a newer one, or one of another encoder.
        """
        folder = Path(folder)
        manifest, sums = read_manifest(folder)
        if kind is not None and manifest["kind"] != kind:
            raise ModelFolderError(
                f"{folder}: holds vectors of another encoder ({manifest['kind']!r}, not {kind!r}); delete the "
                "folder to encode the texts again"
            )
        return cls(folder, manifest, sums)

    def __len__(self) -> int:
        """Number of rows that stand."""
        return int(self.standing.sum())

    def fresh(self, ids: pl.Series, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """(texts,) whether a text is not in the index, or under its id another one: what must be encoded."""
        stored = self.rows.filter(pl.Series(self.standing)).unique("id", keep="last")
        both = pl.DataFrame({"id": ids, "hash": hashes}).join(stored, on="id", how="left", maintain_order="left")
        fresh: npt.NDArray[np.bool_] = ~(both["hash"] == both["print"]).fill_null(False).to_numpy()
        return fresh

    def add(self, ids: pl.Series, hashes: npt.NDArray[np.uint64], vectors: Vectors) -> None:
        """Append texts; one whose id stands replaces it.

        Args:
            ids: (texts,) all different.
            hashes: (texts,) of their texts.
            vectors: (texts, dim); they are scaled to length 1.

        Raises:
            ModelFolderError: the disk is full or the place cannot be written; the index is unchanged.
            SettingError: another number of texts or of dimensions.
        """
        if vectors.shape != (len(ids), self.manifest["dim"]) or len(hashes) != len(ids) or ids.n_unique() != len(ids):
            raise SettingError(
                f"vectors: {vectors.shape} for {len(ids)} ids; give {self.manifest['dim']} numbers per id, each id once"
            )
        if not len(ids):
            return
        replaced = self._places(ids)
        lengths = np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
        rows = (vectors / np.maximum(lengths, 1e-12)).astype(BITS[self.manifest["bits"]])
        number = self.manifest["next_number"]
        save_array(self.folder / f"vectors-{number}.npy", rows)
        save_rows(self.folder / f"rows-{number}.parquet", pl.DataFrame({"id": ids, "print": hashes}))
        shards: list[Shard] = [*self.manifest["shards"], {"number": number, "rows": len(ids)}]
        self._delete(
            {**self.manifest, "shards": shards, "next_number": number + 1}, replaced, len(self.standing) + len(ids)
        )

    def remove(self, ids: pl.Series) -> int:
        """Delete texts by their ids, and return how many stood; :meth:`compact` frees their place.

        Raises:
            ModelFolderError: the place cannot be written; the index is unchanged.
        """
        places = self._places(ids)
        if len(places):
            self._delete({**self.manifest, "next_number": self.manifest["next_number"] + 1}, places, len(self.standing))
        return len(places)

    def compact(self) -> None:
        """Write what stands as one shard and forget the rest; rows are numbered anew, in the same order.

        Raises:
            ModelFolderError: the disk is full or the place cannot be written; the index is unchanged.
        """
        number, kept = self.manifest["next_number"], self.rows.filter(pl.Series(self.standing))
        path = self.folder / f"vectors-{number}.npy"
        if len(kept):
            ensure_file(path, access_of(self.folder / MANIFEST))
            whole = np.lib.format.open_memmap(
                path, "w+", BITS[self.manifest["bits"]], (len(kept), self.manifest["dim"])
            )
            low = 0
            for _, vectors, standing in self.blocks():
                high = low + int(standing.sum())
                whole[low:high] = vectors[standing]
                low = high
            whole.flush()
            save_rows(self.folder / f"rows-{number}.parquet", kept)
        shards: list[Shard] = [{"number": number, "rows": len(kept)}] if len(kept) else []
        self._commit({**self.manifest, "shards": shards, "gone": None, "cells": None, "next_number": number + 1})

    def add_lists(self, nlist: int | None = None) -> None:
        """Keep the rows in inverted lists too, of which a search may probe a few; what comes later is searched exactly.

        Args:
            nlist: how many lists, about the square root of the number of rows by default.

        Raises:
            ModelFolderError: the disk is full or the place cannot be written; the index is unchanged.
            SettingError: the extra is missing, there is no row, or less than one list.
        """
        if not len(self.rows) or (nlist is not None and nlist < 1):
            raise SettingError("cells need at least one row, and there must be at least one of them")
        lists = make_ivf(list(self.blocks()), len(self.rows), self.manifest["dim"], nlist)
        number = self.manifest["next_number"]
        path = self.folder / f"cells-{number}.faiss"
        try:
            ensure_file(path, access_of(self.folder / MANIFEST))
            save(lists, path)
            flush(path)
        except OSError as error:
            with suppress(OSError):
                path.unlink()
            raise ModelFolderError(f"{path}: cannot be written ({error}); the index is unchanged") from error
        self._commit({**self.manifest, "cells": {"name": path.name, "rows": len(self.rows)}, "next_number": number + 1})

    def search(
        self, queries: Vectors, k: int = 10, *, nprobe: int | None = None
    ) -> tuple[npt.NDArray[np.float32], pl.DataFrame]:
        """The ``k`` texts of highest cosine with each query.

        Args:
            queries: (queries, dim); they are scaled to length 1.
            k: how many.
            nprobe: look only into so many lists of :meth:`add_lists` a query; all rows by default.

        Returns:
            (queries, k) cosines, -inf where fewer were found; and a frame of ``query``, ``id`` and ``score``, best
            first, without those.

        Raises:
            ModelFolderError: the lists are damaged.
            SettingError: there are no lists to probe, or the extra is missing.
        """
        lengths = np.linalg.norm(queries, axis=1, keepdims=True)
        units = queries / np.maximum(lengths, 1e-12)
        if nprobe is None:
            scores, rows = exact_search(units, self.blocks(), k)
        else:
            scores, rows = self._probe(units, k, nprobe)
        flat, owners = rows.ravel(), np.repeat(np.arange(len(queries)), k)
        kept = flat >= 0
        ids = self.rows["id"].gather(flat[kept])
        return scores, pl.DataFrame({"query": owners[kept], "id": ids, "score": scores.ravel()[kept]})

    def vectors_of(self, ids: pl.Series) -> npt.NDArray[np.float32]:
        """(ids,) vectors of texts that stand.

        Raises:
            SettingError: one does not.
        """
        stored = self.rows.with_row_index("row").filter(pl.Series(self.standing)).select("id", "row")
        places = pl.DataFrame({"id": ids}).join(stored, on="id", how="left", maintain_order="left")["row"]
        if places.null_count():
            raise SettingError(f"id {ids.filter(places.is_null())[0]!r} is not in the index; add its vector first")
        rows, chosen = places.to_numpy().astype(np.int64), np.empty((len(ids), self.manifest["dim"]), np.float32)
        first = 0
        for vectors in self.vectors:
            own = (rows >= first) & (rows < first + len(vectors))
            chosen[own] = vectors[rows[own] - first]
            first += len(vectors)
        return chosen

    def _probe(self, queries: Vectors, k: int, nprobe: int) -> tuple[npt.NDArray[np.float32], Index]:
        """As :func:`exact_search`: rows of some lists, and all that came since the lists were made."""
        ivf = self.manifest["cells"]
        if ivf is None or nprobe < 1:
            raise SettingError(f"nprobe is {nprobe}; make lists with add_lists first, and give at least 1")
        if self._ivf is None:
            require_file(self.folder, ivf["name"], self._sums)
            try:
                self._ivf = load(self.folder / ivf["name"], ivf["rows"], self.manifest["dim"])
            except OSError as error:
                raise half(self.folder, ivf["name"], str(error)) from error
        late = (block for block in self.blocks() if block[0] >= ivf["rows"])
        probed, since = probe(self._ivf, queries, k, self.standing, nprobe), exact_search(queries, late, k)
        scores, rows = (np.concatenate([probed[side], since[side]], axis=1) for side in (0, 1))
        order = np.lexsort((rows, -scores), axis=1)[:, :k]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)

    def blocks(self) -> Iterator[tuple[int, Vectors, npt.NDArray[np.bool_]]]:
        """All rows, a block at a time, those that were deleted included."""
        first = 0
        for vectors in self.vectors:
            for low in range(0, len(vectors), _BLOCK):
                block = vectors[low : low + _BLOCK]
                yield first + low, block, self.standing[first + low : first + low + len(block)]
            first += len(vectors)

    def _places(self, ids: pl.Series) -> Index:
        return (self.rows["id"].is_in(ids.implode()) & pl.Series(self.standing)).arg_true().to_numpy().astype(np.int64)

    def _delete(self, manifest: Manifest, gone: Index, num_rows: int) -> None:
        """Commit a manifest with more rows deleted."""
        if len(gone):
            every = np.union1d(np.flatnonzero(~self.standing), gone)
            manifest["gone"] = name = f"gone-{self.manifest['next_number']}.npy"
            save_array(self.folder / name, every)
        assert num_rows == sum(shard["rows"] for shard in manifest["shards"])
        self._commit(manifest)

    def _commit(self, manifest: Manifest) -> None:
        named = {name for shard in manifest["shards"] for name in names_of(shard["number"])}
        if manifest["gone"]:
            named.add(manifest["gone"])
        if ivf := manifest["cells"]:
            named.add(ivf["name"])
        sums = sums_for(self.folder, sorted(named), self._sums)
        write_manifest(self.folder, manifest, sums, self._sums)
        self.manifest, self._sums = manifest, sums
        self._load(checked=True)
        for path in self.folder.iterdir():
            if path.name not in named and path.name.startswith(("vectors-", "rows-", "gone-", "cells-")):
                with suppress(OSError):
                    path.unlink()

    def _load(self, *, checked: bool) -> None:
        """Map and read what counts; what this process has written itself is not compared with its checksums."""
        shards, dim = self.manifest["shards"], self.manifest["dim"]
        self._ivf = None
        self.vectors: list[Vectors] = []
        frames = [pl.DataFrame(schema={"id": pl.String, "print": pl.UInt64})]
        for shard in shards:
            name, rows = names_of(shard["number"])
            for one in () if checked else (name, rows):
                require_file(self.folder, one, self._sums)
            vectors = read_array(self.folder, name, BITS[self.manifest["bits"]], (shard["rows"], dim))
            frame = read_rows(self.folder, rows)
            if len(frame) != shard["rows"]:
                raise half(self.folder, rows, f"{len(frame):,} rows where {shard['rows']:,} were written")
            self.vectors.append(vectors)
            frames.append(frame)
        self.rows = pl.concat(frames)
        self.standing = np.ones(len(self.rows), bool)
        if gone := self.manifest["gone"]:
            if not checked:
                require_file(self.folder, gone, self._sums)
            rows_gone = read_array(self.folder, gone, np.int64, (None,))
            try:
                require_ids("a deleted row", torch.from_numpy(rows_gone), len(self.standing))
            except ValueError as error:
                raise half(self.folder, gone, str(error)) from error
            self.standing[rows_gone] = False
