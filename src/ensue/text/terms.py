r"""Texts into terms, a number each: words, or runs of 3 to 5 characters. Nothing is learned, so nothing is kept.

Words are what ``\w\w+`` finds in lower case, as in scikit-learn; scripts that put no space between words (Han, kana,
Thai, Lao, Khmer, Burmese) give a term a character. Runs of characters stay inside what stands between spaces, with one
space at either end, as scikit-learn's ``char_wb``. Numbers have 44 bits: of a million terms, 0.03 pairs share one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index, scrambled

Keys = npt.NDArray[np.uint64]
SHORTEST, LONGEST = 3, 5
"""Characters of a run."""
_ALONE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORDS = rf"[{_ALONE}]\p{{M}}*|[\w--{_ALONE}]{{2,}}"
_BLOCK = 1 << 20
"""Characters whose runs are counted at once: no more texts than the upper bits of a cell can number."""
_BITS = 44
_FEW, _FEW_TEXTS = 1 << 16, 1 << 6
"""Bytes of words up to which no table of them is made, and texts up to which none is a column."""
_SPACE = " \t\n\r\f\v"
_PLAIN = re.compile("[\t-\r -\x7e‘’“”…–—•\U0001f300-\U0001f64f\U0001f680-\U0001f6ff]*")
"""Of these no other is a letter, a digit or a space, here as there."""
_PLAIN_WORDS, _PLAIN_SPACES = re.compile(r"\w{2,}", re.ASCII), re.compile(f"[{_SPACE}]+")
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


def word_terms(
    texts: pl.Series, stop: Collection[str] = STOP_WORDS, *, cut: int | None = None
) -> tuple[Index, Keys, Index]:
    """The words of a column of texts.

    Args:
        texts: (texts,).
        stop: words in lower case that are no terms.
        cut: characters of a word that count; all of them unless given.

    Returns:
        (cells,) whose, not decreasing; which term; how often.
    """
    if (plain := _plain(texts)) is not None:
        return _few_terms([_PLAIN_WORDS.findall(text) for text in plain], stop, cut)
    lower = pl.col("text").cast(pl.String).fill_null("").str.to_lowercase()
    lists = texts.rename("text").to_frame().select(lower.str.extract_all(_WORDS)).to_series()
    if lists.estimated_size() <= _FEW:
        return _few_terms(lists.to_list(), stop, cut)
    owners = np.repeat(np.arange(len(texts)), lists.list.len().to_numpy())
    words = lists.explode(empty_as_null=False).rename("word")
    cells = pl.DataFrame({"owner": owners, "word": words}).filter(~pl.col("word").is_in(list(stop)))
    if cut is not None:
        cells = cells.with_columns(pl.col("word").str.head(cut))
    distinct = cells["word"].unique()
    table = pl.DataFrame({"word": distinct, "key": pl.Series(list(map(_key, distinct)), dtype=pl.UInt64)})
    cells = cells.group_by("owner", "word").len().join(table, on="word").sort("owner", "key")
    owners, keys, counts = (cells[name].to_numpy() for name in ("owner", "key", "len"))
    return owners.astype(np.int64), keys, counts.astype(np.int64)


def _few_terms(texts: list[list[str]], stop: Collection[str], cut: int | None) -> tuple[Index, Keys, Index]:
    """The same of few words, for which a table costs more than its rows."""
    cells = []
    for owner, words in enumerate(texts):
        counts = Counter(word[:cut] for word in words if word not in stop)
        cells += sorted((owner, _key(word), num) for word, num in counts.items())
    owners, keys, nums = zip(*cells, strict=True) if cells else ((), (), ())
    return np.array(owners, np.int64), np.array(keys, np.uint64), np.array(nums, np.int64)


def _key(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little") >> 64 - _BITS


def character_terms(texts: pl.Series) -> tuple[Index, Keys, Index]:
    """The runs of 3 to 5 characters of a column of texts; see :func:`word_terms`."""
    if (plain := _plain(texts)) is not None:
        return _counted_runs([f" {_PLAIN_SPACES.sub('  ', text.strip(_SPACE))} " for text in plain])
    spaced = pl.col("text").cast(pl.String).fill_null("").str.to_lowercase().str.strip_chars()
    marked = pl.concat_str(pl.lit(" "), spaced.str.replace_all(r"\s+", "  "), pl.lit(" "))
    return _counted_runs(texts.rename("text").to_frame().select(marked).to_series())


def _plain(texts: pl.Series) -> list[str] | None:
    """A few texts of ASCII and common marks in lower case, for which patterns made once do; ``None`` for others."""
    if len(texts) > _FEW_TEXTS or texts.dtype != pl.String or texts.estimated_size() > _FEW:
        return None
    found = [text or "" for text in texts.to_list()]
    return [text.lower() for text in found] if all(map(_PLAIN.fullmatch, found)) else None


def _counted_runs(column: pl.Series | list[str]) -> tuple[Index, Keys, Index]:
    empty = (np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int64))
    owners, keys, counts = (np.concatenate(parts) for parts in zip(empty, *_runs(column), strict=True))
    return owners, keys, counts


def _runs(column: pl.Series | list[str]) -> Iterator[tuple[Index, Keys, Index]]:
    """The counted runs of a few texts at a time, so that memory stays bounded."""
    lengths = np.fromiter(map(len, column), np.int64, len(column))
    ends = np.cumsum(lengths)
    low = 0
    while low < len(column):
        high = max(low + 1, int(np.searchsorted(ends, ends[low] - lengths[low] + _BLOCK, side="right")))
        characters = np.frombuffer("".join(column[low:high]).encode("utf-32-le"), np.uint32).astype(np.uint64)
        owners = np.repeat(np.arange(high - low, dtype=np.uint64) << np.uint64(_BITS), lengths[low:high])
        # Two spaces side by side end one word and begin the next, in the same text or in another.
        spaces = characters == ord(" ")
        words = np.concatenate([[0], np.cumsum(spaces[1:] & spaces[:-1])])
        cells, hashed = [], characters
        for length in range(2, LONGEST + 1):
            hashed = scrambled(hashed[:-1]) + characters[length - 1 :]
            inside = words[: len(hashed)] == words[length - 1 :]
            if length >= SHORTEST:
                cells.append(owners[: len(hashed)][inside] | scrambled(hashed[inside]) >> np.uint64(64 - _BITS))
        distinct, counts = np.unique(np.concatenate(cells), return_counts=True)
        yield (distinct >> np.uint64(_BITS)).astype(np.int64) + low, distinct & np.uint64(2**_BITS - 1), counts
        low = high
