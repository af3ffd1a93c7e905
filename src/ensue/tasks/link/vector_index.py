"""Vectors of texts in a folder: appended to and deleted from by id, and searched.

The folder is replaced as a whole, like a model folder: a crash leaves the index before or after the last
:meth:`VectorIndex.save`. Large tables of vectors are mapped, not read. A search compares a query with every vector,
which is exact and reads 200 MB for a million vectors of 100 numbers. Beyond that, :meth:`VectorIndex.cluster` also
stores the vectors in the inverted lists of faiss (extra ``ann``), and a search may read a few of these lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index
from ensue.errors import ModelFolderError, SettingError
from ensue.lazy import lazy, torch
from ensue.nn.validation import require_table
from ensue.store.checksums import chunks, opened, require_sum, sums_of
from ensue.store.folder import Contents, damage, described, read_settings, read_unchanged, write_folder
from ensue.store.pack import files_of, read_packed
from ensue.text.lexical import require_rising
from ensue.text.terms import Keys

if TYPE_CHECKING:  # vectors are made by networks and encoders, which need torch
    from ensue.nn import topk
else:
    topk = lazy("ensue.nn.topk")

HalfVectors = npt.NDArray[np.float16]
LISTS = "lists.faiss"
CHUNK = 1 << 16
"""Number of vectors from which a chunk is full."""
MAX_SCORES = 1 << 23
"""Number of scores that one step of an exact search computes, at most."""
CONVERTED = 1 << 13
"""Number of vectors that a search converts to 32 bits at once."""
MIN_ROWS_PER_LIST, MAX_ITERATIONS = 39, 10
"""Vectors from which each centroid is trained (faiss warns below), and the number of k-means iterations."""
_SUMMARY: dict[str, object] = {
    "task": "link",
    "model": "vectors",
    "settings": {},
    "schedule": None,
    "seed": 0,
    "facts": {},
}
_CARD = "# Vectors of texts\n\nWritten by `ensue link`; delete this folder to encode the texts again.\n"


def text_hashes(texts: pl.Series) -> Keys:
    """Return a 64-bit hash of each text, (texts,)."""
    digests = (blake2b((text or "").encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), np.uint64)


@dataclass(frozen=True, eq=False)
class StoredRows:
    """The stored texts.

    Attributes:
        encoder: hash of the encoder that computed the vectors.
        ids: (texts,) each once.
        hashes: (texts,) of :func:`text_hashes`, by which a changed text is recognised.
        vectors: (texts, dim) of length 1 in 16 bits, or 0 for a text without a word; in chunks, so that none is copied
            to append. Cosines differ from those of 32 bits by up to 1e-3.
        numbers: (texts,) rising, the number of each text in the inverted lists: a row changes with each deletion.
        num_lists: number of inverted lists in the file ``LISTS``, 0 without the file.
    """

    encoder: str
    ids: pl.Series
    hashes: Keys
    vectors: tuple[HalfVectors, ...]
    numbers: Index
    num_lists: int = 0

    def __post_init__(self) -> None:
        """Check that the columns have the same length.

        Raises:
            ValueError: they do not, or an id occurs twice.
        """
        for chunk in self.vectors:
            require_table("vectors", chunk, np.float16, [None, self.vectors[0].shape[-1]])
        if not self.vectors or sum(map(len, self.vectors)) != len(self.ids):
            raise ValueError(f"vectors: they are not of the {len(self.ids)} ids")
        require_rising("numbers", self.numbers.view(np.uint64))
        if not len(self.hashes) == len(self.numbers) == len(self.ids) or self.ids.n_unique() != len(self.ids):
            raise ValueError(f"ids: {len(self.ids)} ids for {len(self.hashes)} texts; each id must occur once")

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return int(self.vectors[0].shape[1])

    def chunks(self) -> Iterator[tuple[slice, HalfVectors]]:
        """Yield the rows of each chunk, and their vectors."""
        start = 0
        for chunk in self.vectors:
            yield slice(start, start + len(chunk)), chunk
            start += len(chunk)


class VectorIndex:
    """Vectors of texts in a folder, made by :meth:`create` or :meth:`open`; :meth:`save` writes all changes.

    Args:
        folder: where the index is stored.
        rows: the stored texts.
        like: a model folder whose permissions a new folder gets.

    Example:
        >>> from ensue.tasks.link.vector_index import VectorIndex, text_hashes
        >>> import numpy as np, polars as pl
        >>> texts = pl.Series(["the ferry sails", "no bus again"])
        >>> index = VectorIndex.create("posts.index", dim=2)
        >>> index.add(pl.Series(["p1", "p2"]), text_hashes(texts), np.eye(2, dtype=np.float32))
        >>> index.save()
        >>> scores, matches = index.search(np.array([[0.9, 0.1]], np.float32), k=1)
        >>> matches["id"].to_list()
        ['p1']
    """

    def __init__(self, folder: Path, rows: StoredRows, like: Path | None = None) -> None:
        self.folder = folder
        self.rows = rows
        self._like = like
        self._lists: Any = None  # read when they are first needed
        self._is_mapped = False

    @classmethod
    def create(cls, folder: str | Path, dim: int, encoder: str = "", *, like: Path | None = None) -> VectorIndex:
        """Return an empty index, which the first :meth:`save` writes.

        Args:
            folder: where it is stored; anything but an older index there is refused when it is saved.
            dim: length of the vectors.
            encoder: hash of the encoder, compared by :meth:`open`.
            like: a model folder whose permissions the folder gets.

        Raises:
            SettingError: ``dim`` is below 1.
        """
        if dim < 1:
            raise SettingError(f"dim is {dim}; it must be at least 1")
        no_texts = text_hashes(pl.Series([], dtype=pl.String))
        no_vectors = np.zeros((0, dim), np.float16)
        rows = StoredRows(encoder, pl.Series([], dtype=pl.String), no_texts, (no_vectors,), no_texts.view(np.int64))
        return cls(Path(folder), rows, like)

    @classmethod
    def open(cls, folder: str | Path, encoder: str | None = None) -> VectorIndex:
        """Read an index.

        Args:
            folder: where it is stored.
            encoder: hash of the encoder of new texts; ``None`` to accept any.

        Raises:
            ModelFolderError: no index, a damaged one, or one of another encoder.
        """
        folder = Path(folder)

        def read() -> StoredRows:
            read_settings(folder)
            with damage(folder):
                return read_packed(StoredRows, folder)

        try:
            rows = read_unchanged(folder, read)
        except ModelFolderError as error:
            reason = str(error).partition("; ")[0]
            raise ModelFolderError(f"{reason}; give the folder of an index, or delete it to build it again") from error
        if encoder is not None and rows.encoder != encoder:
            raise ModelFolderError(
                f"{folder}: holds vectors of another encoder ({rows.encoder!r}, not {encoder!r}); delete the folder to "
                "encode the texts again"
            )
        return cls(folder, rows)

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.rows.ids)

    def is_new(self, ids: pl.Series, hashes: Keys) -> npt.NDArray[np.bool_]:
        """Return a (texts,) mask of texts that must be encoded: their id is not stored, or with another text."""
        stored = pl.DataFrame({"id": self.rows.ids, "stored": self.rows.hashes})
        joined = pl.DataFrame({"id": ids, "hash": hashes}).join(stored, on="id", how="left", maintain_order="left")
        return ~(joined["hash"] == joined["stored"]).fill_null(False).to_numpy()

    def add(self, ids: pl.Series, hashes: Keys, vectors: npt.NDArray[np.floating]) -> None:
        """Append texts; a stored text with the same id is replaced.

        Args:
            ids: (texts,) each once.
            hashes: (texts,) of :func:`text_hashes`.
            vectors: (texts, dim), which are scaled to length 1.

        Raises:
            SettingError: the columns have different lengths, an id occurs twice, or the vectors have another length.
        """
        dim = self.rows.dim
        if vectors.shape != (len(ids), dim) or len(hashes) != len(ids) or ids.n_unique() != len(ids):
            raise SettingError(f"vectors: {vectors.shape} for {len(ids)} ids; give {dim} numbers per id, each id once")
        # Texts that changed are replaced.
        self.remove(ids)
        lists = self._inverted_lists()
        rows = self.rows
        units = _unit_rows(vectors).astype(np.float16)
        # Numbers are never reused, for faiss refers to vectors by them.
        first = rows.numbers[-1] + 1 if len(self) else 0
        numbers = np.arange(first, first + len(ids))
        self.rows = replace(
            rows,
            ids=pl.concat([rows.ids, ids.cast(pl.String)]),
            hashes=np.concatenate([rows.hashes, hashes]),
            vectors=_appended(rows.vectors, units),
            numbers=np.concatenate([rows.numbers, numbers]),
        )
        if lists is not None:
            lists.add_with_ids(units.astype(np.float32), numbers)

    def remove(self, ids: pl.Series) -> int:
        """Delete texts by id, and return how many of the ids were stored."""
        lists = self._inverted_lists()
        rows = self.rows
        stored = rows.ids.is_in(ids.implode())
        if stored.any():
            is_kept = (~stored).to_numpy()
            self.rows = replace(
                rows,
                ids=rows.ids.filter(~stored),
                hashes=rows.hashes[is_kept],
                vectors=tuple(chunk if is_kept[span].all() else chunk[is_kept[span]] for span, chunk in rows.chunks()),
                numbers=rows.numbers[is_kept],
            )
            if lists is not None:
                lists.remove_ids(rows.numbers[~is_kept])
        return int(stored.sum())

    def cluster(self, num_lists: int | None = None) -> None:
        """Store the vectors in inverted lists too (Jégou, Douze & Schmid, PAMI 2011), of which a search may read a few.

        Later vectors join the list of their nearest centroid. The centroids stay until the next call.

        Args:
            num_lists: number of lists; by default the square root of the number of texts.

        Raises:
            SettingError: the extra is missing, there is no text, or fewer than one list.
        """
        if not len(self) or (num_lists is not None and num_lists < 1):
            raise SettingError("lists need at least one text, and there must be at least one list")
        faiss = topk.import_faiss()
        # faiss warns where a centroid has fewer vectors to be trained on.
        num_lists = max(1, min(num_lists or round(len(self) ** 0.5), len(self) // MIN_ROWS_PER_LIST))
        # k-means needs a sample only, evenly spaced over all vectors.
        step = max(1, len(self) // (MIN_ROWS_PER_LIST * num_lists))
        lists = faiss.index_factory(self.rows.dim, f"IVF{num_lists},SQfp16", faiss.METRIC_INNER_PRODUCT)
        lists.cp.niter = MAX_ITERATIONS
        lists.cp.seed = 0
        lists.train(np.concatenate([chunk[::step] for chunk in self.rows.vectors]).astype(np.float32))
        for span, chunk in self.rows.chunks():
            lists.add_with_ids(chunk.astype(np.float32), self.rows.numbers[span])
        self._lists, self._is_mapped = lists, False
        self.rows = replace(self.rows, num_lists=num_lists)

    def save(self) -> None:
        """Replace the folder at once.

        Raises:
            ModelFolderError: the disk is full, the folder cannot be written, or holds something else.
        """
        files: dict[str, Contents] = {**described(_SUMMARY, _CARD), **files_of(self.rows)}
        if (lists := self._inverted_lists()) is not None:
            files[LISTS] = [topk.import_faiss().serialize_index(lists).data]
        write_folder(self.folder, files, like=self._like)

    def search(
        self, queries: npt.NDArray[np.floating], k: int = 10, *, nprobe: int | None = None
    ) -> tuple[npt.NDArray[np.float32], pl.DataFrame]:
        """Return the ``k`` texts of highest cosine with each query.

        Args:
            queries: (queries, dim), which are scaled to length 1.
            k: number of texts per query.
            nprobe: number of lists of :meth:`cluster` that are read per query; by default every vector is compared.

        Returns:
            (queries, k) cosines, -inf where fewer texts were found; and a frame of ``query``, ``id`` and ``score``,
            best first, without those.

        Raises:
            ModelFolderError: the lists are damaged.
            SettingError: there are no lists to read, or the extra is missing.
        """
        units = _unit_rows(queries)
        scores = np.full((len(units), k), -np.inf, np.float32)
        rows = np.full((len(units), k), -1, np.int64)
        if nprobe is None:
            step = max(1, MAX_SCORES // max(1, *map(len, self.rows.vectors)))
            for low in range(0, len(units), step):
                block = torch.from_numpy(units[low : low + step])
                # The best of each chunk, side by side, hold the best of all.
                best_of_chunks = [
                    (topk.topk(_products(block, chunk), k), span.start) for span, chunk in self.rows.chunks()
                ]
                candidates = torch.cat([chunk_rows + start for (_, chunk_rows), start in best_of_chunks], 1)
                best, columns = topk.topk(torch.cat([values for (values, _), _ in best_of_chunks], 1), k)
                scores[low : low + step, : best.shape[1]] = best
                rows[low : low + step, : best.shape[1]] = candidates.gather(1, columns)
        else:
            lists = self._inverted_lists(mapped=True)
            if lists is None or nprobe < 1:
                raise SettingError(f"nprobe is {nprobe}; make lists with cluster first, and give at least 1")
            parameters = topk.import_faiss().SearchParametersIVF(nprobe=nprobe)
            scores, numbers = lists.search(units, k, params=parameters)
            scores[numbers == -1] = -np.inf
            rows = np.searchsorted(self.rows.numbers, numbers)
        # Places beyond the last match are -inf.
        valid = np.isfinite(scores)
        # Row by row, so matches of a query stay in order.
        query_numbers = np.nonzero(valid)[0]
        ids = self.rows.ids.gather(rows[valid])
        return scores, pl.DataFrame({"query": query_numbers, "id": ids, "score": scores[valid]})

    def vectors_of(self, ids: pl.Series) -> npt.NDArray[np.float32]:
        """Return the vectors of stored texts, (ids, dim).

        Raises:
            SettingError: an id is not stored.
        """
        stored = pl.DataFrame({"id": self.rows.ids}).with_row_index("row")
        rows = pl.DataFrame({"id": ids}).join(stored, on="id", how="left", maintain_order="left")["row"]
        if rows.null_count():
            raise SettingError(f"id {ids.filter(rows.is_null())[0]!r} is not in the index; add its vector first")
        # Gather from each chunk the rows that lie inside it.
        indices = rows.to_numpy()
        vectors = np.empty((len(ids), self.rows.dim), np.float32)
        for span, chunk in self.rows.chunks():
            is_inside = (span.start <= indices) & (indices < span.stop)
            vectors[is_inside] = chunk[indices[is_inside] - span.start]
        return vectors

    def _inverted_lists(self, *, mapped: bool = False) -> Any:
        """Return the lists of faiss, ``None`` without any; mapped lists can be searched, but neither changed nor saved.

        Raises:
            ModelFolderError: the file of the lists is damaged.
            SettingError: the extra is missing.
        """
        if not self.rows.num_lists or (self._lists is not None and (mapped or not self._is_mapped)):
            return self._lists
        faiss = topk.import_faiss()
        path = self.folder / LISTS
        with opened(self.folder, LISTS) as file:
            require_sum(self.folder, LISTS, sums_of(self.folder).get(LISTS, ""), chunks(file))
        with damage(self.folder):
            lists = faiss.read_index(str(path), faiss.IO_FLAG_MMAP if mapped else 0)
            # Lists of other vectors would return wrong ids.
            sizes = lists.d, lists.ntotal, lists.nlist
            if sizes != (self.rows.dim, len(self), self.rows.num_lists):
                raise ValueError(f"{LISTS}: holds the lists of other vectors")
        self._lists, self._is_mapped = lists, mapped
        return lists


def _products(queries: torch.Tensor, chunk: HalfVectors) -> torch.Tensor:
    """Return products of queries and vectors, (queries, vectors)."""
    products = torch.empty(len(queries), len(chunk))
    buffer = torch.empty(min(CONVERTED, len(chunk)), chunk.shape[1])
    # Vectors are converted in blocks that stay in the cache: all of a chunk in 32 bits would be written to memory.
    for low in range(0, len(chunk), CONVERTED):
        block = torch.from_numpy(chunk[low : low + CONVERTED])
        products[:, low : low + len(block)] = queries @ buffer[: len(block)].copy_(block).T
    return products


def _appended(chunks: tuple[HalfVectors, ...], units: HalfVectors) -> tuple[HalfVectors, ...]:
    """Return chunks with more vectors: the last one is extended unless it is full."""
    *full, last = chunks
    return (*chunks, units) if len(last) >= CHUNK else (*full, np.concatenate([last, units]))


def _unit_rows(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(vectors.astype(np.float32, copy=False), axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(lengths, 1e-12), np.float32)
