"""Tensors of texts: passages of bounded length, batches of similar length, no Python object per word."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from ensue.data.histories import Ids, Index, ranges
from ensue.data.texts import Texts
from ensue.data.texts.labels import match_spellings
from ensue.errors import DataError
from ensue.tasks.classify.batch import Batch, Block
from ensue.text.tokens import Tokens
from ensue.training.batches import epoch_batches, evaluation_batches

CHUNK = 256
"""Items that are pooled together at most: a longer text (or sentence, or document) is cut into equal stretches."""
WORDS = 2**14
"""Words of a block at most, and of a group of texts: what an LSTM writes for them stays below 200 MB at 300 units."""
PAIRS = 2**22
"""Pairs of words of a block at most (16 MB a word graph)."""
Keep = npt.NDArray[np.bool_]
Sides = tuple[Tokens, ...]
"""The texts; of pairs, the first ones and the second ones."""


class Remembered(NamedTuple):
    """Held-out texts that stay in a folder as ids of words, so that updates can be tested on them."""

    sides: Sides
    targets: Index
    """(texts,) codes of their labels."""


def drawn(sides: Sides, targets: Index, num: int, seed: int) -> Remembered | None:
    """Return at most ``num`` of the texts that have a known label and a word, at random; ``None`` for none."""
    usable = np.flatnonzero((targets >= 0) & (np.sum([tokens.lengths for tokens in sides], axis=0) > 0))
    rows = np.sort(np.random.default_rng(seed).permutation(usable)[:num])
    if not len(rows):
        return None
    return Remembered(tuple(replace(tokens.select(rows), words=None) for tokens in sides), targets[rows])


class Chunks:
    """Ranges of items, each cut into as few equal parts of at most so many as it takes; an empty one has no part.

    With ``most`` 4, offsets [0 10 10 13] are cut at 0 3 6 and 10: starts [0 3 6 10], lengths [3 3 4 3], owners
    [0 0 0 2].

    Attributes:
        starts: (parts,) where each begins.
        lengths: (parts,) number of items.
        owners: (parts,) the range each is part of.
    """

    def __init__(self, offsets: Index, most: int = CHUNK) -> None:
        sizes = np.diff(offsets)
        parts = -(-sizes // most)
        self.owners = np.repeat(np.arange(len(sizes)), parts)
        part, whole, of = ranges(np.zeros_like(parts), parts), sizes[self.owners], parts[self.owners]
        self.starts = offsets[:-1][self.owners] + part * whole // np.maximum(of, 1)
        self.lengths = offsets[:-1][self.owners] + (part + 1) * whole // np.maximum(of, 1) - self.starts


class Passages:
    """Encoded texts, or pairs, as training data: passages of words, and documents of passages.

    Args:
        sides: the texts; for pairs, the first ones and the second ones.
        targets: (records,) codes of the labels, or ``None``.
        documents: whether a text is a document whose sentences are pooled first. Otherwise the parts of a text that
            was cut are averaged, each by its number of words.
    """

    chunk = CHUNK
    """Words of a passage at most."""
    below: torch.Tensor | None = None
    """(records, labels) scores that a network adds to, in float32."""

    def __init__(self, sides: Sides, targets: Index | None = None, *, documents: bool = False) -> None:
        self.num_records, self.documents = len(sides[0]), documents
        self.targets = np.empty(0, np.int64) if targets is None else targets
        self.ids: Ids = np.concatenate([side.ids for side in sides])
        offsets, texts = _joined([side.sentences for side in sides]), _joined([side.texts for side in sides])
        # Two texts of 2 and 1 sentences, texts [0 2 3], of which the first sentence is cut in two: passages 0 1 2 | 3,
        # owners [0 0 0 1], first [0 3 4].
        cut = Chunks(offsets, self.chunk)
        self.starts, self.sizes = cut.starts, cut.lengths
        owners = np.repeat(np.arange(len(texts) - 1), np.diff(texts))[cut.owners]
        self.first: Index = np.searchsorted(owners, np.arange(len(texts)))
        """(texts + 1,) text ``t`` has the passages ``first[t]`` to ``first[t + 1]``; none if it has no words."""
        words = np.diff(offsets[texts])
        self.lengths: Index = words.reshape(len(sides), -1).sum(0)
        """(records,) number of words."""

    def __len__(self) -> int:
        """Number of texts, or of pairs."""
        return self.num_records

    def arrays(self) -> tuple[npt.NDArray[np.integer], ...]:
        """Everything that training depends on."""
        return self.ids, self.starts, self.sizes, self.first, self.targets

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        """A shuffled epoch: batches of ``size`` records of like length, in random order; the same for the same seed."""
        return epoch_batches([self.lengths], size, seed)

    def groups(self, targets: int = WORDS) -> Iterator[Index]:
        """All records once, shortest first, in groups of about so many words."""
        order = np.argsort(self.lengths, kind="stable")
        return evaluation_batches(order, np.maximum(self.lengths, 1), targets)

    def texts(self, index: Index) -> Index:
        """The numbers of the texts of some records: first texts, then second ones."""
        sides = (len(self.first) - 1) // max(self.num_records, 1)
        return np.concatenate([index + side * self.num_records for side in range(max(sides, 1))])

    def passages(self, index: Index) -> Index:
        """The numbers of the passages of some records, in the order in which a batch of them counts them."""
        texts = self.texts(index)
        return ranges(self.first[texts], self.first[texts + 1] - self.first[texts])

    def blocks(self, chosen: Index) -> tuple[Block, ...]:
        """The words of some passages."""
        return _blocks(self.starts[chosen], self.sizes[chosen], self.ids)

    def batch(self, index: Index) -> Batch:
        """The records ``index`` as padded tensors on the CPU."""
        texts = self.texts(index)
        counts = self.first[texts + 1] - self.first[texts]
        chosen = ranges(self.first[texts], counts)
        if self.documents:
            cut = Chunks(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]))
            sentences = _blocks(cut.starts, cut.lengths, np.arange(len(chosen)))
            owners, sizes = cut.owners, cut.lengths
        else:
            sentences, owners, sizes = (), np.repeat(np.arange(len(texts)), counts), self.sizes[chosen]
        shares = sizes / np.bincount(owners, sizes, len(texts))[owners]
        return Batch(
            self.blocks(chosen),
            sentences,
            torch.from_numpy(owners),
            torch.from_numpy(shares.astype(np.float32)),
            len(texts),
            torch.from_numpy(self.targets[index] if len(self.targets) else self.targets),
            below=None if self.below is None else self.below[torch.from_numpy(index)],
        )


def codes(texts: Texts, labels: Sequence[str]) -> Index:
    """Return (texts,) the code of each text's label, whatever its spelling; -1 for one that is not among ``labels``.

    Raises:
        DataError: the texts have no labels.
    """
    if texts.labels is None:
        raise DataError("the texts have no labels; name the column, such as label=COLUMN")
    spelled, _ = match_spellings(texts.labels, labels)
    columns = {label: code for code, label in enumerate(labels)}
    matched = spelled.replace_strict(list(columns), list(columns.values()), default=-1, return_dtype=pl.Int64)
    return np.array(matched.to_numpy(), np.int64)


def prints(texts: Texts) -> npt.NDArray[np.int64]:
    """(texts,) fingerprints of the texts, ignoring case and spaces."""
    columns = [column.str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars() for column in texts.texts]
    key = columns[0] if len(columns) == 1 else columns[0] + "\t" + columns[1]
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in key.to_list())
    return np.frombuffer(digests, np.int64)


def keep_words(tokens: Tokens, kept: Keep) -> Tokens:
    """Return the texts without the words that are ``False``; sentences and texts may become empty."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])
    words = None if tokens.words is None else tokens.words.filter(kept)
    return Tokens(tokens.ids[kept], ends[tokens.sentences], tokens.texts, words=words)


def _joined(offsets: list[Index]) -> Index:
    """The offsets of several columns as if they stood one after the other."""
    joined, end = [np.zeros(1, np.int64)], 0
    for part in offsets:
        joined.append(part[1:] + end)
        end += int(part[-1])
    return np.concatenate(joined)


def _blocks(starts: Index, lengths: Index, values: npt.NDArray[np.integer]) -> tuple[Block, ...]:
    """Ranges of ``values`` as padded blocks, in each of which no row is half as long as the longest, or shorter."""
    # Lengths [3 9 4 8]: blocks of the rows [1 3] (9 and 8 items) and [2 0] (4 and 3).
    order = np.argsort(-lengths, kind="stable")
    falling, blocks, low = lengths[order], [], 0
    while low < len(order):
        longest = int(falling[low])
        most = max(1, min(PAIRS // longest**2, WORDS // longest))
        high = min(int(np.searchsorted(-falling, -(longest // 2), side="left")), low + most)
        rows = order[low:high]
        where = starts[rows][:, None] + np.arange(longest)
        stops = (starts + lengths)[rows][:, None]
        index = values[np.minimum(where, stops - 1)].astype(np.int64)
        parts = (index * (where < stops), where < stops, lengths[rows], rows)
        blocks.append(Block(*map(torch.from_numpy, parts)))
        low = high
    return tuple(blocks)
