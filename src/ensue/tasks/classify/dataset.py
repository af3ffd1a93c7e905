"""Texts as columns of ids, codes of labels and hashes; nothing here needs torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Ids, Index, Mask, offsets_of, ranges
from ensue.data.texts import Texts
from ensue.data.texts.labels import match_spellings
from ensue.errors import DataError
from ensue.text.tokens import Tokens

MAX_PASSAGE = 256
"""Maximum number of items that are pooled together: a longer text, sentence or document is cut into equal parts."""
Sides = tuple[Tokens, ...]
"""The texts; of pairs, the first texts and the second texts."""


class RememberedTexts(NamedTuple):
    """Held-out texts that are stored in a folder as ids of words, to test updates on."""

    sides: Sides
    targets: Index
    """(texts,) codes of their labels, or (texts, labels) 1 for the labels of a text."""


def word_counts(sides: Sides) -> Index:
    """Return the number of words of each text, or pair, (texts,)."""
    return np.sum([tokens.lengths for tokens in sides], axis=0)


def usable_texts(sides: Sides, targets: Index) -> Mask:
    """Return a (texts,) mask of texts with a known label and at least one word."""
    return known(targets) & (word_counts(sides) > 0)


def known(targets: Index) -> Mask:
    """Return a (texts,) mask of texts whose label is a label of the model; sets of labels are without those."""
    return targets >= 0 if targets.ndim == 1 else np.ones(len(targets), np.bool_)


def sampled(sides: Sides, targets: Index, num: int, seed: int) -> RememberedTexts | None:
    """Return at most ``num`` usable texts at random; ``None`` for none."""
    usable = np.flatnonzero(usable_texts(sides, targets))
    rows = np.sort(np.random.default_rng(seed).permutation(usable)[:num])
    if not len(rows):
        return None
    return RememberedTexts(tuple(replace(tokens.select(rows), words=None) for tokens in sides), targets[rows])


class Chunks:
    """Ranges of items, each cut into as few equal parts of at most so many as it takes; an empty one has no part.

    With ``most`` 4, offsets [0 10 10 13] are cut at 0 3 6 and 10: starts [0 3 6 10], lengths [3 3 4 3], owners
    [0 0 0 2].

    Attributes:
        starts: (parts,) where each begins.
        lengths: (parts,) number of items.
        owners: (parts,) the range each is part of.
    """

    def __init__(self, offsets: Index, most: int = MAX_PASSAGE) -> None:
        sizes = np.diff(offsets)
        # Rounded up, so that an empty range has no part.
        num_parts = -(-sizes // most)
        self.owners = np.repeat(np.arange(len(sizes)), num_parts)
        rank = ranges(np.zeros_like(num_parts), num_parts)
        lengths = sizes[self.owners]
        num_of_range = num_parts[self.owners]
        self.starts = offsets[:-1][self.owners] + rank * lengths // np.maximum(num_of_range, 1)
        self.lengths = offsets[:-1][self.owners] + (rank + 1) * lengths // np.maximum(num_of_range, 1) - self.starts


class UpperRows(NamedTuple):
    """Rows whose vectors are averaged to those of texts: passages or, of documents, ranges of passages.

    Attributes:
        starts: (rows,) the first passage of each, counted within the batch.
        sizes: (rows,) number of words of a passage, or of passages of a range.
        owners: (rows,) the text of each.
        shares: (rows,) its part of the text.
        num_texts: texts in all: twice the pairs.
    """

    starts: Index
    sizes: Index
    owners: Index
    shares: npt.NDArray[np.float32]
    num_texts: int


class Passages:
    """Encoded texts, or pairs, as passages of words, and documents of passages.

    Args:
        sides: the texts; for pairs, the first ones and the second ones.
        targets: (records,) codes of the labels, or ``None``.
        documents: whether a text is a document whose sentences are pooled first. Otherwise the parts of a text that
            was cut are averaged, each by its number of words.
    """

    max_words = MAX_PASSAGE
    """Words of a passage at most."""

    def __init__(self, sides: Sides, targets: Index | None = None, *, documents: bool = False) -> None:
        self.num_records = len(sides[0])
        self.documents = documents
        self.targets = np.empty(0, np.int64) if targets is None else targets
        self.ids: Ids = np.concatenate([side.ids for side in sides])
        offsets = _joined([side.sentences for side in sides])
        texts = _joined([side.texts for side in sides])
        # Two texts of 2 and 1 sentences, texts [0 2 3], of which the first sentence is cut in two: passages 0 1 2 | 3,
        # owners [0 0 0 1], first [0 3 4].
        cut = Chunks(offsets, self.max_words)
        self.starts, self.sizes = cut.starts, cut.lengths
        # The text of each sentence, then of each passage.
        owners = np.repeat(np.arange(len(texts) - 1), np.diff(texts))[cut.owners]
        self.first: Index = np.searchsorted(owners, np.arange(len(texts)))
        """(texts + 1,) text ``t`` has the passages ``first[t]`` to ``first[t + 1]``; none if it has no words."""
        words = np.diff(offsets[texts])
        self.lengths: Index = words.reshape(len(sides), -1).sum(0)
        """(records,) number of words."""

    def __len__(self) -> int:
        """Number of texts, or of pairs."""
        return self.num_records

    def texts(self, index: Index) -> Index:
        """The numbers of the texts of some records: first texts, then second ones."""
        sides = (len(self.first) - 1) // max(self.num_records, 1)
        return np.concatenate([index + side * self.num_records for side in range(max(sides, 1))])

    def passages(self, index: Index) -> Index:
        """The numbers of the passages of some records, in the order in which a batch of them counts them."""
        texts = self.texts(index)
        return ranges(self.first[texts], self.first[texts + 1] - self.first[texts])

    def upper_rows(self, index: Index) -> UpperRows:
        """Return what is averaged to the vectors of the texts of some records."""
        texts = self.texts(index)
        counts = self.first[texts + 1] - self.first[texts]
        offsets = offsets_of(counts)
        if self.documents:
            cut = Chunks(offsets)
            starts, sizes, owners = cut.starts, cut.lengths, cut.owners
        else:
            starts = np.arange(offsets[-1])
            sizes = self.sizes[self.passages(index)]
            owners = np.repeat(np.arange(len(texts)), counts)
        # The parts of a text that was cut are averaged by their number of items.
        shares = sizes / np.bincount(owners, sizes, len(texts))[owners]
        return UpperRows(starts, sizes, owners, shares.astype(np.float32), len(texts))


def require_sets(texts: Texts, sets: bool, where: str) -> None:
    """Refuse texts with several labels for a model of one label per text, and the reverse.

    Raises:
        DataError: naming the option that says how labels are read.
    """
    if texts.labels is not None and texts.multilabel != sets:
        number, role = ("several labels", "labels") if sets else ("one label", "label")
        raise DataError(
            f"{where}: the model was trained on texts with {number} each; read the column of labels in the same way, "
            f"with --columns {role}=…"
        )


def codes(texts: Texts, labels: Sequence[str]) -> Index:
    """Return (texts,) the code of each text's label, whatever its spelling; -1 for one that is not among ``labels``.

    Of sets of labels, return (texts, labels) 1 for each label of a text and 0 for the others.

    Raises:
        DataError: the texts have no labels.
    """
    if texts.labels is None:
        raise DataError("the texts have no labels; name the column, such as label=COLUMN")
    # Unknown labels become -1, which no prediction equals.
    columns = {label: code for code, label in enumerate(labels)}
    if texts.multilabel:
        sets = texts.match_spellings(labels)[0].labels
        assert sets is not None
        # One row and one column for each label of each text, scattered into the matrix.
        pairs = pl.DataFrame({"label": sets}).with_row_index("row").explode("label", empty_as_null=False)
        pairs = pairs.filter(pl.col("label").is_in(list(columns)))
        targets = np.zeros((len(texts), len(labels)), np.int64)
        targets[pairs["row"].to_numpy(), [columns[label] for label in pairs["label"]]] = 1
        return targets
    spelled, _ = match_spellings(texts.labels, labels)
    matched = spelled.replace_strict(list(columns), list(columns.values()), default=-1, return_dtype=pl.Int64)
    return np.array(matched.to_numpy(), np.int64)


def text_hashes(texts: Texts) -> Index:
    """Return a 64-bit hash of each text, (texts,), ignoring case and spaces."""
    columns = [column.str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars() for column in texts.texts]
    key = columns[0] if len(columns) == 1 else columns[0] + "\t" + columns[1]
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in key.to_list())
    return np.frombuffer(digests, np.int64)


def select_words(tokens: Tokens, mask: Mask) -> Tokens:
    """Return the texts with the words where a mask is ``True``; sentences and texts may become empty."""
    # The new position of a boundary is the number of selected words before it.
    ends = offsets_of(mask)
    words = None if tokens.words is None else tokens.words.filter(mask)
    return Tokens(tokens.ids[mask], ends[tokens.sentences], tokens.texts, words=words)


def _joined(offsets: list[Index]) -> Index:
    """The offsets of several columns as if they stood one after the other."""
    joined, end = [np.zeros(1, np.int64)], 0
    for side in offsets:
        joined.append(side[1:] + end)
        end += int(side[-1])
    return np.concatenate(joined)
