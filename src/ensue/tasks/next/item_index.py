"""An approximate index of the item side of a model that scores by a product: a few hundred candidates, then exact.

A catalogue of a million vectors of 64 numbers is 256 MB, and an exact answer reads them all. The index keeps each in 16
bytes: four bits a pair of numbers (product quantisation by Jégou, Douze & Schmid, PAMI 2011, in the layout that André,
Kermarrec & Le Scouarnec, PAMI 2021, scan in registers), in lists by the nearest of some centroids, and looks through
the lists that are closest to a query. What it finds are candidates alone: their scores are computed from the model's
own vectors. How many lists that takes is found out when it is made: as few as hold ``MIN_RECALL`` of the exact list.

Probabilities are of the whole catalogue: to the candidates comes an estimate of the rest, by a fixed sample of all ids
(Rastogi & Van Durme, "Sublinear partition estimation", 2015). How far that is off is measured as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ensue import kernels
from ensue.data.histories import Index
from ensue.lazy import torch
from ensue.nn.topk import import_faiss, log_totals, topk
from ensue.nn.validation import require_ids, require_table
from ensue.settings import LARGEST
from ensue.store.pack import Array, arrays_in, tensor_bytes
from ensue.text.encoder import Vectors
from ensue.vocabulary import FIRST, PADDING

if TYPE_CHECKING:
    from torch import Tensor

    from ensue.nn.item_head import Product

LARGE = 100_000
"""Values from which answers come from an index. There an exact answer costs little more than one by an index (SANSR of
width 64, one at a time: 1.9 and 1.2 ms of CPU time, ``benchmarks/serving_at_size.py``), beyond it the product over all
of them takes over. Below, every answer is exact, as it is without faiss."""
CANDIDATES = 300
"""Candidates whose scores are computed; more where more choices are asked for."""
LISTED = 20
"""Length of the list whose recall is measured."""
MIN_RECALL = 0.99
"""Minimum recall of the exact list; if searching all lists does not reach it, there are more candidates."""
SAMPLE = 4096
"""Ids by which the sum over the rest of the catalogue is estimated."""
FILE = "items.safetensors"
ROWS_PER_LIST = 64
ROUNDS = 8
"""Training rows per centroid, and iterations of k-means."""
BLOCK = 2**16
"""Rows at once."""

WORDS = 16
BITS = 4
PAIR = 2
"""Words of the quantiser for each pair of numbers, and the bits that name one."""

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class IndexFacts:
    """Sizes of an index, and how exact it was for some histories when it was made.

    Attributes:
        items: number of items in it; later ones are always candidates.
        lists: number of lists.
        probed: number of lists that a query searches.
        candidates: number of candidates whose scores are computed.
        sample: number of ids by which the rest of the catalogue is estimated.
        recall: fraction of the exact first ``LISTED`` items that is among the candidates.
        total: mean absolute error of the estimated logarithm of the sum over the catalogue, in nats.
        queries: the number of those histories.
    """

    items: int
    lists: int
    probed: int
    candidates: int
    sample: int
    recall: float
    total: float
    queries: int


class ItemIndex:
    """The index of one model.

    Args:
        index: as faiss has it: row ``id - FIRST`` of every id.
        facts: what was measured.
    """

    def __init__(self, index: Any, facts: IndexFacts) -> None:
        self._index = index
        self.facts = facts
        self.sample = torch.from_numpy(
            np.unique(np.linspace(FIRST, FIRST + facts.items - 1, facts.sample).astype(np.int64))
        )
        """(sample,) ids, rising: evenly spread over ids, which are in order of arrival."""
        self._sample_vectors: Tensor | None = None
        self._listed: tuple[Index, Tensor] | None = None

    def sample_vectors(self, product: Product) -> Tensor:
        """Return the vectors of the sample, (sample, dim), cached until :meth:`clear_cache`."""
        if self._sample_vectors is None:
            with torch.no_grad():
                self._sample_vectors = product.rows(self.sample)
        return self._sample_vectors

    def vectors_of(self, product: Product, ids: Index) -> Tensor:
        """Return the vectors of a filter's ids, (ids, dim); those of the latest filter are cached as well."""
        if self._listed is None or self._listed[0] is not ids:
            with torch.no_grad():
                self._listed = ids, product.rows(torch.from_numpy(ids))
        return self._listed[1]

    def clear_cache(self) -> None:
        """Drop cached vectors, because the network was trained."""
        self._sample_vectors = self._listed = None

    def search(self, product: Product, k: int, *, probed: int | None = None, bits: Bits | None = None) -> Tensor:
        """Return the ids of large products, (targets, k), padded where there are fewer.

        Args:
            product: its queries.
            k: number of ids.
            probed: number of lists to search. [default: as many as were measured to be needed]
            bits: permitted items, one bit each, searched in all lists. [default: all items]
        """
        faiss = import_faiss()
        parameters: dict[str, Any] = {"nprobe": probed or self.facts.probed}
        if bits is not None:
            parameters = {"nprobe": self.facts.lists, "sel": faiss.IDSelectorBitmap(len(bits), faiss.swig_ptr(bits))}
        faiss.omp_set_num_threads(kernels.num_threads())  # of this thread
        _, rows = self._index.search(_queries(product), k, params=faiss.SearchParametersIVF(**parameters))
        return torch.from_numpy(np.where(rows >= 0, rows + FIRST, PADDING))

    def arrays(self) -> dict[str, Array]:
        """Return what the index is made of, for a file; faiss's own format is not read, for faiss trusts it.

        Returns:
            ``centroids`` (lists, width) of the lists, ``words`` (pairs, 16, 2) of the quantiser, and for each item its
            ``list`` (items,) and its ``codes`` (items, bytes), two words to a byte.
        """
        faiss = import_faiss()
        index = self._index
        words = faiss.vector_to_array(self._index.pq.centroids)
        inverted_lists = faiss.downcast_InvertedLists(index.invlists)
        packer = inverted_lists.packer
        size = index.pq.code_size
        lists = np.empty(index.ntotal, np.int32)
        codes = np.empty((index.ntotal, size), np.uint8)
        for number in range(index.nlist):
            if not (length := inverted_lists.list_size(number)):
                continue
            rows = faiss.rev_swig_ptr(inverted_lists.get_ids(number), length)
            # Codes are interleaved in blocks of 32 items, the last one padded.
            blocks = -(-length // packer.nvec)
            packed = faiss.rev_swig_ptr(inverted_lists.get_codes(number), blocks * packer.block_size).reshape(
                blocks, -1
            )
            plain = np.empty((blocks, packer.nvec, size), np.uint8)
            for source, target in zip(packed, plain, strict=True):
                packer.unpack_all(faiss.swig_ptr(source), faiss.swig_ptr(target))
            lists[rows] = number
            # The padding of the last block is cut off.
            codes[rows] = plain.reshape(-1, size)[:length]
        centroids = faiss.downcast_index(index.quantizer).reconstruct_n(0, index.nlist)
        return {"centroids": centroids, "words": words.reshape(index.pq.M, -1, PAIR), "list": lists, "codes": codes}

    def to_bytes(self) -> bytes:
        """Return the index for another process: its facts as one line of JSON, then the bytes of a file of tensors."""
        return json.dumps(asdict(self.facts)).encode() + b"\n" + tensor_bytes(self.arrays())

    @classmethod
    def from_bytes(cls, data: bytes) -> ItemIndex:
        """Return the index of :meth:`to_bytes`."""
        facts_line, _, tables = data.partition(b"\n")
        facts = IndexFacts(**json.loads(facts_line))
        return cls.restored(arrays_in(bytearray(tables), Path(FILE)), facts, facts.items)

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], facts: IndexFacts, num_items: int) -> ItemIndex:
        """Make the index of :meth:`arrays`: its lists are filled with the codes of their items.

        Args:
            arrays: of a file, whoever wrote it.
            facts: as ``settings.json`` has them.
            num_items: size of the catalogue, which may have grown since.

        Raises:
            SettingError: the extra is missing.
            ValueError: the arrays or the facts do not fit together.
        """
        limits = {"items": num_items, "lists": facts.items, "probed": facts.lists, "candidates": LARGEST}
        for name, limit in {**limits, "sample": facts.items}.items():
            if not 1 <= (size := getattr(facts, name)) <= limit:
                raise ValueError(f"{name} of the index is {size}; it must be from 1 to {limit}")
        pairs = len(arrays["words"])
        require_table("words", arrays["words"], np.float32, (pairs, WORDS, PAIR))
        require_table("centroids", arrays["centroids"], np.float32, (facts.lists, PAIR * pairs))
        require_table("codes", arrays["codes"], np.uint8, (facts.items, -(-pairs // 2)))
        require_table("list", arrays["list"], np.int32, (facts.items,))
        require_ids("list", arrays["list"], facts.lists)
        faiss = import_faiss()
        centroids, words, lists, codes = (arrays[key] for key in ("centroids", "words", "list", "codes"))
        coarse = faiss.IndexFlatIP(PAIR * pairs)
        coarse.add(np.ascontiguousarray(centroids))
        plain = faiss.IndexIVFPQ(coarse, PAIR * pairs, facts.lists, pairs, BITS, faiss.METRIC_INNER_PRODUCT)
        faiss.copy_array_to_vector(np.ascontiguousarray(words).ravel(), plain.pq.centroids)
        plain.by_residual = plain.is_trained = True
        rows = np.argsort(lists, kind="stable")
        sorted_codes = codes[rows]
        # Items are sorted by list; bounds cut them into lists.
        bounds = np.searchsorted(lists[rows], np.arange(facts.lists + 1)).tolist()
        for number, (low, high) in enumerate(pairwise(bounds)):
            if low < high:
                entries = faiss.swig_ptr(rows[low:high]), faiss.swig_ptr(sorted_codes[low:high])
                plain.invlists.add_entries(number, high - low, *entries)
        plain.ntotal = facts.items
        index = faiss.IndexIVFPQFastScan(plain)  # copies and packs the codes
        index.referenced_objects = [coarse]  # it does not own it
        return cls(index, facts)


def make_index(product: Product, num_ids: int, total: Callable[[ItemIndex], Tensor]) -> ItemIndex:
    """Index a model's item side, and measure how well that does for some histories.

    Args:
        product: of these histories.
        num_ids: size of the catalogue, padding and unknown included.
        total: (histories,) what an index makes of the logarithm of the sum over all ids.

    Raises:
        SettingError: the extra is missing.
    """
    faiss = import_faiss()
    faiss.omp_set_num_threads(kernels.num_threads())
    items = num_ids - FIRST
    queries = _queries(product)
    # The usual choice of about sqrt(n) lists, if there are enough rows to train their centroids.
    lists = max(1, min(round(items**0.5), items // ROWS_PER_LIST))
    width = queries.shape[1]
    index = faiss.index_factory(width, f"IVF{lists},PQ{width // PAIR}x{BITS}fs", faiss.METRIC_INNER_PRODUCT)
    index.by_residual = True  # codes of what a centroid leaves: half as many lists and candidates then do
    index.cp.niter = ROUNDS
    index.cp.seed = 0
    index.cp.max_points_per_centroid = ROWS_PER_LIST
    # Evenly spaced ids cover old and new items alike.
    sampled_ids = torch.arange(FIRST, num_ids, max(1, items // (ROWS_PER_LIST * lists)))
    index.train(_rows(product, sampled_ids))
    best = np.full((len(queries), LISTED), -np.inf, np.float32)
    sums = np.full(len(queries), -np.inf)
    names = np.zeros((len(queries), LISTED), np.int64)
    for first, rows in _blocks(product, num_ids):
        index.add(rows)
        scores = torch.from_numpy(queries) @ torch.from_numpy(rows).T
        sums = np.logaddexp(sums, log_totals(scores).double().numpy())
        high, columns = topk(scores, LISTED)
        # Merge the best of all earlier blocks with those of this one.
        joint = np.concatenate([best, high.numpy()], axis=1)
        order = np.argsort(-joint, axis=1, kind="stable")[:, :LISTED]
        best = np.take_along_axis(joint, order, 1)
        names = np.take_along_axis(np.concatenate([names, columns.numpy() + first], axis=1), order, 1)
    probed, candidates, recall = _tuned(index, queries, names, lists)
    facts = IndexFacts(
        items=items,
        lists=lists,
        probed=probed,
        candidates=candidates,
        sample=min(SAMPLE, items),
        recall=round(recall, 4),
        total=0.0,
        queries=len(queries),
    )
    error = float((total(ItemIndex(index, facts)).double() - torch.from_numpy(sums)).abs().mean())
    return ItemIndex(index, replace(facts, total=round(error, 4)))


def _tuned(index: Any, queries: Vectors, names: Index, lists: int) -> tuple[int, int, float]:
    """Return the number of lists to search and of candidates to score, and their recall."""
    faiss = import_faiss()
    recall = 0.0
    candidates = CANDIDATES
    for candidates in (CANDIDATES, 2 * CANDIDATES, 4 * CANDIDATES):
        probed = min(8, lists)
        while True:
            _, rows = index.search(queries, candidates, params=faiss.SearchParametersIVF(nprobe=probed))
            # Fraction of the exact list that is among the candidates; rows of faiss count from 0, as names do.
            recall = float((names[:, :, None] == rows[:, None]).any(2).mean())
            if recall >= MIN_RECALL or probed == lists:
                break
            probed = min(2 * probed, lists)
        if recall >= MIN_RECALL:
            break
    return probed, candidates, recall


def _blocks(product: Product, num_ids: int) -> Iterator[tuple[int, Vectors]]:
    """Yield the vectors of all items in blocks, each with the index of its first item."""
    for low in range(FIRST, num_ids, BLOCK):
        yield low - FIRST, _rows(product, slice(low, min(low + BLOCK, num_ids)))


def _rows(product: Product, ids: Tensor | slice) -> Vectors:
    rows = product.rows(ids)
    columns = [rows] if product.bias is None else [rows, product.bias[ids, None]]
    return _padded(torch.cat(columns, dim=1))


def _queries(product: Product) -> Vectors:
    queries = product.queries
    columns = [queries] if product.bias is None else [queries, queries.new_ones(len(queries), 1)]
    return _padded(torch.cat(columns, dim=1))


def _padded(vectors: Tensor) -> Vectors:
    """Return vectors padded with zeros to an even width, because numbers are quantised in pairs."""
    return np.ascontiguousarray(torch.nn.functional.pad(vectors, (0, vectors.shape[1] % 2)).detach().numpy())
