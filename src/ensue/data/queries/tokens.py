"""Queries into tokens and back: whole words with a count floor, or byte-level pairs that know no unknown word.

Ids: padding 0, unknown 1, begin 2, end 3, then the tokens, the most frequent words first (pairs in order of merging).
The names of the first four hold a space, which no token has, so that no query can spell them.

Byte-level BPE is that of Radford et al. (2019): every byte is a token, so every text has ids and comes back exactly. A
word has the same tokens at the start of a query as later on: a space stands before the first one too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from ensue.data.histories import Ids, Index, distinct_texts, ranges
from ensue.errors import SettingError
from ensue.forks import require_polars
from ensue.vocabulary import PADDING, UNKNOWN

Kind = Literal["words", "bpe"]
BEGIN, END = 2, 3
SPECIAL = ("< padding >", "< unknown >", "< begin >", "< end >")
SMALLEST = len(SPECIAL) + 256
"""Tokens that byte-level pairs need at least: one a byte."""
_UNKNOWN_TEXT = "⁇"
"""Text that an unknown word decodes to."""
_CHUNK = 1 << 16
_MAX_WORDS = 1 << 20
"""Words that pairs are learned from; of a larger log each counts in proportion, the rarest once."""


@dataclass(frozen=True, eq=False)
class QueryTokenizer:
    """Tokens and their ids; made by :meth:`fit`.

    Attributes:
        kind: whether tokens are whole words or pieces.
        tokens: in order of their ids, ``SPECIAL`` first.
        merges: of pieces, the pairs that are merged, in order.
    """

    kind: Kind
    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Check that the tokens can be looked up and made.

        Raises:
            ValueError: a token occurs twice, or a byte or a merged pair has none.
        """
        distinct = set(self.tokens)
        if self.tokens[: len(SPECIAL)] != SPECIAL or len(distinct) < len(self.tokens):
            raise ValueError("a token is missing or occurs twice")
        if self.kind == "words":
            return
        # A merge needs ids for both of its pieces and for what it makes of them.
        if any(not {first, second, first + second} <= distinct for first, second in self.merges):
            raise ValueError("a merge makes a token that has no id")
        alphabet = {*pre_tokenizers.ByteLevel.alphabet()}
        if not alphabet <= distinct or not alphabet.issuperset(chain.from_iterable(distinct - {*SPECIAL})):
            raise ValueError("a byte has no token, or a token holds a non-byte")

    @classmethod
    def fit(
        cls,
        texts: pl.Series,
        counts: npt.NDArray[np.integer] | None = None,
        *,
        kind: Kind = "words",
        min_count: int = 1,
        size: int = 8192,
    ) -> QueryTokenizer:
        """Learn the tokens of some queries; the same queries give the same tokens, whatever their order.

        Args:
            texts: (texts,) normalised queries.
            counts: (texts,) how often each was typed; once unless stated.
            kind: ``words``, what stands between spaces; ``bpe``, byte-level pairs.
            min_count: of ``words``, how often one must occur to have an id (the paper: 8).
            size: of ``bpe``, how many ids there are at most, those of bytes and the first four included.

        Raises:
            SettingError: an unknown kind, a count below 1, or a size too small for the bytes.
        """
        if kind not in get_args(Kind):
            raise SettingError(f"kind: {kind!r} is not known; choose {' or '.join(get_args(Kind))}")
        if min_count < 1:
            raise SettingError(f"min_count: {min_count} is below 1; use 1 to keep every word")
        if kind == "bpe" and size < SMALLEST:
            raise SettingError(f"size: {size} is too small; every byte needs a token, so give at least {SMALLEST}")
        words = _count(texts, counts)
        if kind == "words":
            return cls(kind, (*SPECIAL, *words.filter(pl.col("count") >= min_count)["word"]))
        tokens, merges = _pairs(words, size)
        return cls(kind, tokens, merges)

    def __len__(self) -> int:
        """Number of ids: the rows of an embedding table."""
        return len(self.tokens)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Ids by token."""
        return {token: id for id, token in enumerate(self.tokens)}

    @cached_property
    def backend(self) -> tokenizers.Tokenizer:
        """A pipeline of the ``tokenizers`` library for pieces."""
        backend = tokenizers.Tokenizer(models.BPE(self.ids, [*self.merges]))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        backend.decoder = decoders.ByteLevel()
        return backend

    def encode(self, texts: pl.Series) -> tuple[Ids, Index]:
        """Ids of many queries, neither begun nor ended.

        Args:
            texts: (texts,) normalised queries; give each distinct one once.

        Returns:
            (tokens,) flat ids, and (texts + 1,) offsets.
        """
        require_polars()
        words = texts.cast(pl.String).str.split(" ")
        # No token reaches over a space, so each distinct word is taken apart once; an empty text has no word at all.
        num_words = np.where(texts.to_numpy() == "", 0, words.list.len().to_numpy()).astype(np.int64)
        distinct, word_index = distinct_texts(words.filter(texts != "").explode(empty_as_null=False))
        chunks = (distinct[low : low + _CHUNK].to_list() for low in range(0, len(distinct), _CHUNK))
        pieces = [ids for chunk in chunks for ids in self.spell(chunk)]
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        # The ids of all distinct words in one array; word w has those from its start on, lengths[w] of them.
        flat = np.fromiter(chain.from_iterable(pieces), np.int32, int(lengths.sum()))
        ends = np.concatenate([[0], np.cumsum(lengths[word_index])]).astype(np.int64)
        ids = flat[ranges((np.cumsum(lengths) - lengths)[word_index], lengths[word_index])]
        return ids, ends[np.concatenate([[0], np.cumsum(num_words)])]

    def spell(self, words: Iterable[str]) -> list[list[int]]:
        """Ids of a few words, none of which holds a space."""
        if self.kind == "words":
            return [[self.ids.get(word, UNKNOWN)] if word else [] for word in words]
        spaced = [f" {word}" for word in words]
        return [encoding.ids for encoding in self.backend.encode_batch_fast(spaced, add_special_tokens=False)]

    def decode(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> str:
        """The query that some ids spell; padding, begin and end are passed over."""
        token_ids = [int(id) for id in ids if id not in (PADDING, BEGIN, END)]
        if self.kind == "words":
            return " ".join(_UNKNOWN_TEXT if id == UNKNOWN else self.tokens[id] for id in token_ids)
        text: str = self.backend.decode([id for id in token_ids if id != UNKNOWN], skip_special_tokens=False)
        return text.removeprefix(" ")

    def without(self, ids: Collection[int]) -> QueryTokenizer:
        """Return a tokenizer of whole words in which some ids hold no word any more; no query can spell their names."""
        tokens = list(self.tokens)
        for id in ids:
            tokens[id] = f"< forgotten {id} >"
        return QueryTokenizer(self.kind, tuple(tokens))


def _count(texts: pl.Series, counts: npt.NDArray[np.integer] | None) -> pl.DataFrame:
    """Distinct words with the spaces before them cut off, and how often each occurs, the most frequent first."""
    times = np.ones(len(texts), np.int64) if counts is None else counts
    frame = pl.DataFrame({"word": texts.cast(pl.String).str.split(" "), "count": times})
    flat = frame.explode("word", empty_as_null=False).filter(pl.col("word") != "")
    return flat.group_by("word").agg(pl.col("count").sum()).sort("count", "word", descending=[True, False])


def _pairs(words: pl.DataFrame, size: int) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return byte-level tokens in order of their ids, and the pairs that are merged."""
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.train_from_iterator(_repeated(words), trainer)
    model = json.loads(backend.to_str())["model"]
    # The trainer numbers pieces in order of merging, behind the bytes.
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return (*SPECIAL, *pieces), tuple((first, second) for first, second in model["merges"])


def _repeated(words: pl.DataFrame) -> Iterator[list[str]]:
    """Each word as often as it occurs, in lists, for the library counts for itself."""
    # The library takes no counts: a word is repeated, in proportion where there are too many.
    shrunk = max(1.0, words["count"].sum() / _MAX_WORDS)
    for word, count in words.iter_rows():
        times = max(1, int(count / shrunk))
        for low in range(0, times, _CHUNK):
            yield [word] * min(_CHUNK, times - low)
