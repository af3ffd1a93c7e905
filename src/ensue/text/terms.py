r"""Texts into terms, a number each: words, pairs of them, or runs of 3 to 5 characters. Nothing is learned or kept.

Words are what ``\w\w+`` finds in lower case, as in scikit-learn; scripts that put no space between words (Han, kana,
Thai, Lao, Khmer, Burmese) give a term a character. Runs of characters stay inside what stands between spaces, with one
space at either end, as scikit-learn's ``char_wb``. Numbers have 44 bits: of a million terms, 0.03 pairs share one.

Weights of terms: TF-IDF smoothed as in scikit-learn, BM25 (Robertson & Zaragoza 2009) with Lucene's idf.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue import kernels
from ensue.data.histories import Index, Mask, offsets_of, scrambled
from ensue.data.scripts import CHARACTER, COMMON, UNSPACED
from ensue.forks import require_polars
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_ids, require_table

Numbers = npt.NDArray[np.integer] | npt.NDArray[np.float64]
SATURATION, LENGTH = 1.2, 0.75
"""BM25's k1 and b."""


def smooth_idf(frequencies: Index, num_documents: int) -> Floats:
    """(terms,) ln((1 + N) / (1 + n)) + 1 of terms that n of N documents hold."""
    return np.log((1 + num_documents) / (1 + frequencies)) + 1


def bm25_idf(frequencies: Index, num_documents: int) -> Floats:
    """(terms,) ln(1 + (N - n + 1/2) / (n + 1/2)) of terms that n of N documents hold."""
    return np.log1p((num_documents - frequencies + 0.5) / (frequencies + 0.5))


def bm25_saturation(counts: Numbers, lengths: Numbers, mean_length: float) -> Floats:
    """(entries,) tf (k1 + 1) / (tf + k1 (1 - b + b l / mean l)) of terms that stand tf times in a document of l terms.

    Args:
        counts: (entries,) tf.
        lengths: (entries,) l of the documents they stand in.
        mean_length: of all documents.
    """
    shares = lengths / max(mean_length, 1.0)
    return counts * (SATURATION + 1) / (counts + SATURATION * (1 - LENGTH + LENGTH * shares))


Keys = npt.NDArray[np.uint64]


class Terms(NamedTuple):
    """The terms of some texts, as of ``word_terms``."""

    owners: Annotated[Index, np.int32]
    """(cells,) whose, not decreasing."""
    keys: Keys
    """(cells,) which term."""
    counts: Annotated[Index, np.int32]
    """(cells,) how often."""

    def require(self, name: str, num: int) -> None:
        """Check that the columns belong together.

        Args:
            name: what messages call them.
            num: texts.

        Raises:
            ValueError: they do not.
        """
        require_table(f"{name}.owners", self.owners, np.int64, [len(self.keys)])
        require_table(f"{name}.counts", self.counts, np.int64, [len(self.keys)])
        require_ids(f"{name}.owners", self.owners, num)
        require_ids(f"{name}.counts", self.counts, MAX_COUNT, 1)
        if (self.owners[1:] < self.owners[:-1]).any():
            raise ValueError(f"{name}.owners falls somewhere")


SHORTEST, LONGEST = 3, 5
"""Characters of a run."""
MAX_DISTANCE = 3
"""Words that the words of a pair stand apart at most."""
_UNITS = {"runs": ("characters",), "pairs": ("words", "is_stop")}
"""By compiled kernel, what the terms of a text begin with."""
MAX_TERMS = 3
"""Runs that begin with a character, and pairs that begin with a word, at most."""
_WORDS = rf"{CHARACTER}|[\w--{UNSPACED}]{{2,}}"
_BLOCK = 1 << 20
"""Characters whose runs, or pairs, that are counted at once: no more texts than the upper bits of a cell can number."""
_BITS = 44
_TEXT_SHIFT, _KEY_SHIFT, _KEY_MASK = np.uint64(_BITS), np.uint64(64 - _BITS), np.uint64(2**_BITS - 1)
_SMALL_BYTES, _SMALL_TEXTS = 1 << 16, 1 << 10
"""Bytes of words up to which no table of them is made, and texts up to which none is a column."""
_SPACE = " \t\n\r\f\v"
_IN_WORDS = r"\u200d\ufe0f"
"""Joiner and variation selector of emoji, which polars counts as characters of words, and Python does not."""
_PLAIN = re.compile(rf"[{COMMON}{_IN_WORDS}]*")
_PLAIN_WORDS = re.compile(rf"[\w{_IN_WORDS}]{{2,}}")
_PLAIN_SPACES = re.compile(f"[{_SPACE}]+")
_CLOSED_CLASSES = """a about above across after again against all almost alone along already also although always am
among an and another any anyone anything anywhere are around as at back be became because become been before behind
being below beside between beyond both but by can cannot could did do does done down due during each either else
enough etc even ever every everyone everything everywhere except few first for former from further get give go had has
have he hence her here hers herself him himself his how however i if in indeed instead into is it its itself just last
least less made many may me meanwhile might mine more moreover most mostly much must my myself namely neither never
nevertheless next no nobody none nor not nothing now nowhere of off often on once one only onto or other others
otherwise our ours ourselves out over own per perhaps please put quite rather really same see seem seemed seems
several she should since so some somehow someone something sometimes somewhere still such take than that the their
theirs them themselves then there therefore these they this those though through throughout thus to together too
toward towards under until up upon us very via was we well were what whatever when whenever where whereas wherever
whether which while who whoever whole whom whose why will with within without would yet you your yours yourself
yourselves"""
STOP_WORDS = frozenset(_CLOSED_CLASSES.split())
"""English words of the closed classes, which say nothing about what a text is about."""


def word_terms(texts: pl.Series, stop: Collection[str] = STOP_WORDS, *, cut: int | None = None) -> Terms:
    """The words of a column of texts.

    Args:
        texts: (texts,).
        stop: words in lower case that are no terms.
        cut: characters of a word that count; all of them unless given.

    Returns:
        (cells,) whose, not decreasing; which term; how often.
    """
    if (plain := _plain(texts)) is not None:  # arrays of few words take longer
        cells = []
        for owner, text in enumerate(plain):
            keys = Counter(_key(word[:cut]) for word in _PLAIN_WORDS.findall(text) if word not in stop)
            cells += sorted((owner, key, count) for key, count in keys.items())
        owners, all_keys, counts = np.array(cells, np.int64).reshape(-1, 3).T.copy()
        return Terms(owners, all_keys.astype(np.uint64), counts)
    parts = []
    for low, offsets, words, is_stop in _in_order(texts, stop, cut):
        text_bits = np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64) << _TEXT_SHIFT, np.diff(offsets))
        parts.append(_counted([(text_bits | words)[~is_stop]], low))
    return concatenated_terms(parts)


def pair_terms(texts: pl.Series, stop: Collection[str] = STOP_WORDS, *, cut: int | None = None) -> Terms:
    """The pairs of different words at most ``MAX_DISTANCE`` words apart, in either order; two stop words are none.

    They are the windows of the sequential dependence model (Metzler & Croft 2005), ordered and unordered ones in one.

    Args:
        texts: (texts,).
        stop: words in lower case.
        cut: characters of a word that count; all of them unless given.

    Returns:
        As of :func:`word_terms`.
    """
    return concatenated_terms([_block_pairs(*block) for block in _in_order(texts, stop, cut)])


def _compiled_terms(name: str, low: int, offsets: Index, *units: npt.NDArray[np.generic]) -> Terms:
    """Return the counted terms of texts by a compiled kernel; see :func:`_block_pairs` and :func:`_block_runs`."""
    room = MAX_TERMS * int(offsets[-1])
    owners, keys, counts = np.empty(room, np.int64), np.empty(room, np.uint64), np.empty(room, np.int64)
    arrays = {"stops": offsets, "owners": owners, "keys": keys, "counts": counts}
    arrays |= dict(zip(_UNITS[name], map(np.ascontiguousarray, units), strict=True))
    num = kernels.call_unchecked(
        name, num_texts=len(offsets) - 1, size=int(offsets[-1]), room=room,
        **{array_name: kernels.address(array) for array_name, array in arrays.items()},
    )  # fmt: skip
    return Terms(owners[:num] + low, keys[:num].copy(), counts[:num].copy())


@kernels.compiled(partial(_compiled_terms, "pairs"), when=lambda *block: True)
def _block_pairs(low: int, offsets: Index, words: Keys, is_stop: Mask) -> Terms:
    """Return the pairs of the words of a block of :func:`_in_order`."""
    owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    cells = []
    # Shifting the column of words by the distance puts the two words of each pair side by side.
    for distance in range(1, MAX_DISTANCE + 1):
        first_words = words[:-distance]
        second_words = words[distance:]
        is_pair = (
            (owners[:-distance] == owners[distance:])
            & (first_words != second_words)
            & ~(is_stop[:-distance] & is_stop[distance:])
        )
        first_words = first_words[is_pair]
        second_words = second_words[is_pair]
        # The smaller key comes first, so that a pair has one hash in either order.
        pairs = scrambled(scrambled(np.minimum(first_words, second_words)) + np.maximum(first_words, second_words))
        cells.append(owners[:-distance][is_pair].astype(np.uint64) << _TEXT_SHIFT | pairs >> _KEY_SHIFT)
    return _counted(cells, low)


def _in_order(texts: pl.Series, stop: Collection[str], cut: int | None) -> Iterator[tuple[int, Index, Keys, Mask]]:
    """Yield the words of texts in their order, a few texts at a time.

    Yields:
        The number of the first text; (texts + 1,) where the words of each text begin and end; (words,) the key of each,
        and whether it is a stop word.
    """
    if (plain := _plain(texts)) is not None:
        lists = [_PLAIN_WORDS.findall(text) for text in plain]
        flat = [word for text_words in lists for word in text_words]
        lengths = np.array(list(map(len, lists)), np.int64)
        keys = np.array([_key(word[:cut]) for word in flat], np.uint64)
        is_stop = np.array([word in stop for word in flat], bool)
    else:
        column = _words(texts)
        words = column.explode(empty_as_null=False).rename("word").to_frame()
        # A word is hashed once, however often it occurs.
        distinct = words["word"].unique()
        rows = {"word": distinct, "key": [_key(word[:cut]) for word in distinct], "is_stop": distinct.is_in(list(stop))}
        table = pl.DataFrame(rows, schema_overrides={"key": pl.UInt64})
        joined = words.join(table, on="word", how="left", maintain_order="left")
        lengths = column.list.len().to_numpy().astype(np.int64)
        keys, is_stop = joined["key"].to_numpy(), joined["is_stop"].to_numpy()
    offsets = offsets_of(lengths)
    for low, high in _spans(lengths * MAX_DISTANCE):
        first, last = offsets[low], offsets[high]
        yield low, offsets[low : high + 1] - first, keys[first:last], is_stop[first:last]


def _words(texts: pl.Series) -> pl.Series:
    """(texts,) the words of each."""
    require_polars()
    lower = pl.col("text").cast(pl.String).fill_null("").str.to_lowercase()
    return texts.rename("text").to_frame().select(lower.str.extract_all(_WORDS)).to_series()


def word_keys(word: str, stop: frozenset[str] = STOP_WORDS) -> tuple[int, ...]:
    """Return the keys of the terms in one word of a tokenizer, such as two for ``well-known``.

    Args:
        word: a text without spaces.
        stop: words in lower case that are no terms.
    """
    plain = _PLAIN.fullmatch(word)
    words = _PLAIN_WORDS.findall(word.lower()) if plain else _words(pl.Series([word])).to_list()[0]
    return tuple(_key(word) for word in words if word not in stop)


@lru_cache(1 << 16)
def _key(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little") >> 64 - _BITS


def character_terms(texts: pl.Series) -> Terms:
    """The runs of 3 to 5 characters of a column of texts; see :func:`word_terms`."""
    if (plain := _plain(texts)) is not None:
        return _counted_runs([f" {_PLAIN_SPACES.sub('  ', text.strip(_SPACE))} " for text in plain])
    require_polars()
    spaced = pl.col("text").cast(pl.String).fill_null("").str.to_lowercase().str.strip_chars()
    marked = pl.concat_str(pl.lit(" "), spaced.str.replace_all(r"\s+", "  "), pl.lit(" "))
    return _counted_runs(texts.rename("text").to_frame().select(marked).to_series())


def _plain(texts: pl.Series) -> list[str] | None:
    """Return a few texts of common characters in lower case, ``None`` for others."""
    if len(texts) > _SMALL_TEXTS or texts.dtype != pl.String or texts.estimated_size() > _SMALL_BYTES:
        return None
    column = [text or "" for text in texts.to_list()]
    return [text.lower() for text in column] if all(map(_PLAIN.fullmatch, column)) else None


def _counted_runs(column: pl.Series | list[str]) -> Terms:
    lengths = np.fromiter(map(len, column), np.int64, len(column))
    parts = []
    # A few texts at a time, so that memory stays bounded.
    for low, high in _spans(lengths):
        characters = np.frombuffer("".join(column[low:high]).encode("utf-32-le"), np.uint32)
        parts.append(_block_runs(low, offsets_of(lengths[low:high]), characters))
    return concatenated_terms(parts)


@kernels.compiled(partial(_compiled_terms, "runs"), when=lambda *block: True)
def _block_runs(low: int, offsets: Index, characters: npt.NDArray[np.uint32]) -> Terms:
    """Return the runs of the texts from ``low`` on: text low + t has characters from offsets[t] to offsets[t + 1]."""
    owners = np.repeat(np.arange(len(offsets) - 1, dtype=np.uint64) << _TEXT_SHIFT, np.diff(offsets))
    # Two spaces side by side end one word and begin the next, in the same text or in another.
    spaces = characters == ord(" ")
    words = np.zeros(len(characters), np.int64)
    np.cumsum(spaces[1:] & spaces[:-1], out=words[1:])
    hashes = characters.astype(np.uint64)
    run_owners = []
    run_hashes = []
    # One number per character, so that runs of all texts are hashed by shifted arrays.
    for length in range(2, LONGEST + 1):
        # The hash of a run of n characters continues that of its first n - 1.
        hashes = scrambled(hashes[:-1]) + characters[length - 1 :]
        if length >= SHORTEST:
            is_inside = words[: len(hashes)] == words[length - 1 :]
            run_owners.append(owners[: len(hashes)][is_inside])
            run_hashes.append(hashes[is_inside])
    return _counted([np.concatenate(run_owners) | scrambled(np.concatenate(run_hashes)) >> _KEY_SHIFT], low)


def _spans(lengths: Index) -> Iterator[tuple[int, int]]:
    """The first text and the end of a few texts at a time, of ``_BLOCK`` units together unless one is longer."""
    ends, low = np.cumsum(lengths), 0
    while low < len(lengths):
        # As many texts as stay within the block, at least one.
        high = max(low + 1, int(np.searchsorted(ends, ends[low] - lengths[low] + _BLOCK, side="right")))
        high = min(high, low + _BLOCK)
        yield low, high
        low = high


def _counted(cells: list[Keys], low: int) -> Terms:
    """Return terms below the numbers of their texts, the first of which is ``low``, each once with its count."""
    # Equal cells are neighbours after the sort: their number is the distance to the next distinct one.
    ordered = np.concatenate(cells)
    ordered.sort()
    is_bound = np.ones(len(ordered) + 1, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_bound[1:-1])
    (bounds,) = is_bound.nonzero()
    starts = bounds[:-1]
    distinct = ordered.take(starts)
    return Terms((distinct >> _TEXT_SHIFT).astype(np.int64) + low, distinct & _KEY_MASK, bounds[1:] - starts)


def concatenated_terms(parts: Sequence[Terms]) -> Terms:
    """The terms of several columns of texts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    none = Terms(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int64))
    return Terms(*(np.concatenate(columns) for columns in zip(none, *parts, strict=True)))
