"""Posts that say the same: retweets, copies with another link or mention, small edits; and headlines pasted into posts.

A text's words are compared without case, links, mentions, marks and a ``RT @name:`` before it. Texts of equal words are
copies. So are texts whose sets of three-word runs overlap by at least ``MIN_SIMILARITY`` (Jaccard), found by MinHash in
bands (Broder 1997; Leskovec, Rajaraman & Ullman 2020, ch. 3): every pair that is joined was compared exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index, offsets_of, ranges, scrambled
from ensue.data.markup import LINKS, MENTIONS
from ensue.data.scripts import UNSPACED

MIN_SIMILARITY = 0.7
"""Overlap from which texts are copies: one word changed in twenty-one leaves 16 runs of 22."""
MIN_TITLE_SHARE = 0.8
"""Share of a headline's runs that a post must hold to be called a copy of it."""
_RUN = 3
_BANDS = 12
_ROWS = 3  # a pair at MIN_SIMILARITY is compared with probability 1 - (1 - 0.7^3)^12 = 0.994
_WORDS = rf"[{UNSPACED}]|[\p{{L}}\p{{M}}\p{{N}}--{UNSPACED}]+"
_REPOST = r"^\s*(?i:rt|mt|via)\s+@\S+:?\s*"
_LEAST_WORDS = 4
_BLOCK = 1 << 16


def near_copies(texts: pl.Series) -> Index:
    """(texts,) number of the first text that each one says again, its own where it says something new.

    Texts without a word are copies of texts that are equal, spaces aside.
    """
    key = plain_words(texts)
    silent = key == ""
    key = key.zip_with(~silent, "\0" + texts.fill_null("").str.replace_all(r"\s+", ""))
    frame = pl.DataFrame({"key": key}).with_row_index("row")
    first = frame.select(pl.col("row").min().over("key")).to_series().to_numpy().astype(np.int64)
    # Of texts a b a c where c is near b: first is 0 1 0 3, the distinct ones are 0 1 3, of which the third is near
    # the second (0 1 1), so that the table says 0 1 - 1 and the groups are 0 1 0 1.
    distinct = np.unique(first)
    nearest = _near(key.gather(distinct))
    table = np.empty(len(texts), np.int64)
    table[distinct] = distinct[nearest]
    return table[first]


def headline_copies(posts: pl.Series, titles: pl.Series) -> Index:
    """Return (posts,) the index of the title that a post holds ``MIN_TITLE_SHARE`` of, -1 for none.

    Titles under four words are left out.
    """
    texts = plain_words(pl.concat([posts.rename("text"), titles.rename("text")]))
    owners, runs, lengths = _runs(texts, _words_of(texts))
    owners, runs = _distinct(owners, runs)
    frame = pl.DataFrame({"text": owners, "run": runs})
    long = pl.DataFrame({"text": np.flatnonzero(lengths >= _LEAST_WORDS)})
    headlines = frame.filter(pl.col("text") >= len(posts)).join(long, on="text")
    sizes = headlines.group_by("text").len()
    matches = frame.filter(pl.col("text") < len(posts)).join(headlines, on="run", suffix="_title")
    shared = matches.group_by("text", "text_title").len().join(sizes, left_on="text_title", right_on="text")
    shared = shared.with_columns(share=pl.col("len") / pl.col("len_right")).filter(pl.col("share") >= MIN_TITLE_SHARE)
    # The title of which most is held; of equal ones the first.
    best = shared.sort(["share", "text_title"], descending=[True, False]).unique(
        "text", keep="first", maintain_order=True
    )
    copied = np.full(len(posts), -1, np.int64)
    copied[best["text"].to_numpy()] = best["text_title"].to_numpy() - len(posts)
    return copied


def plain_words(texts: pl.Series) -> pl.Series:
    """(texts,) the words that copies share, with a space between them."""
    bare = texts.fill_null("").str.replace(_REPOST, "").str.replace_all(LINKS, " ").str.replace_all(MENTIONS, " ")
    return bare.str.to_lowercase().str.extract_all(_WORDS).list.join(" ")


def components(first: Index, second: Index, size: int) -> Index:
    """(size,) the smallest number that each is joined to by pairs, over any number of steps.

    The pairs 3 1, 1 0 and 5 4 of six join 0 1 3 and 4 5: 0 0 2 0 4 4.
    """
    labels = np.arange(size)
    while True:
        low = np.minimum(labels[first], labels[second])
        previous = labels.copy()
        np.minimum.at(labels, labels[first], low)
        np.minimum.at(labels, labels[second], low)
        labels = labels[labels]
        if (labels == previous).all():
            return labels


def _near(texts: pl.Series) -> Index:
    """(texts,) of texts that are all different, the first near copy; some texts are cut into runs at a time."""
    words = _words_of(texts)
    run_lists, signatures, lengths, long = [], [], [], []
    for low in range(0, len(texts), _BLOCK):
        owners, runs, sizes = _runs(texts[low : low + _BLOCK], words)
        owners, runs = _distinct(owners, runs)
        # Short texts have a run or two, and would be copies of too many others.
        counts = np.bincount(owners, minlength=len(sizes))
        long_rows = np.flatnonzero(sizes >= _LEAST_WORDS)
        offsets = offsets_of(counts)
        signatures.append(_signatures(runs, offsets[long_rows], offsets[long_rows + 1]))
        run_lists.append(runs)
        lengths.append(counts)
        long.append(long_rows + low)
    long_texts = np.concatenate(long) if long else np.empty(0, np.int64)
    if not len(long_texts):
        return np.arange(len(texts))
    pairs = []
    for band in range(_BANDS):
        signature = np.concatenate([bands[band] for bands in signatures])
        # Signatures 7 9 7 start at 0 1 and have the codes 0 1 0: the third text is compared with the first.
        _, starts, codes = np.unique(signature, return_index=True, return_inverse=True)
        mates = np.flatnonzero(starts[codes] != np.arange(len(long_texts)))
        pairs.append(np.stack([long_texts[starts[codes[mates]]], long_texts[mates]], axis=1))
    candidates = np.unique(np.concatenate(pairs), axis=0)
    offsets = offsets_of(np.concatenate(lengths))
    joined = candidates[_overlap(np.concatenate(run_lists), offsets, candidates) >= MIN_SIMILARITY]
    return components(joined[:, 0], joined[:, 1], len(texts))


def _signatures(runs: npt.NDArray[np.uint64], starts: Index, ends: Index) -> npt.NDArray[np.uint64]:
    """(bands, texts) of the texts whose runs lie from ``starts`` to ``ends``; none is without a run."""
    edges = np.stack([starts, ends], axis=1).ravel()  # reduceat takes the runs between two texts too: every other one
    runs = np.append(runs, np.uint64(0))  # so that the last text has an end
    minima = np.zeros((_BANDS, len(starts)), np.uint64)
    for band in range(_BANDS if len(starts) else 0):
        for row in range(_ROWS):
            mixed = scrambled(runs ^ scrambled(np.array([band * _ROWS + row], np.uint64)))
            minima[band] = scrambled(minima[band] ^ np.minimum.reduceat(mixed, edges)[::2])
    return minima


def _overlap(runs: npt.NDArray[np.uint64], offsets: Index, pairs: Index) -> npt.NDArray[np.float64]:
    """(pairs,) Jaccard overlap of the sets of runs of two texts, a block of pairs at a time."""
    lengths = np.diff(offsets)
    shares = np.empty(len(pairs))
    for low in range(0, len(pairs), _BLOCK):
        block = pairs[low : low + _BLOCK]
        sides = [runs[ranges(offsets[side], lengths[side])] for side in block.T]
        owners = np.concatenate([np.repeat(np.arange(len(block)), lengths[side]) for side in block.T])
        all_runs = pl.DataFrame({"pair": owners, "run": np.concatenate(sides)})
        union = all_runs.unique().group_by("pair").len().sort("pair")["len"].to_numpy()
        total = lengths[block].sum(1)
        shares[low : low + _BLOCK] = (total - union) / union
    return shares


def _words_of(texts: pl.Series) -> pl.Series:
    """All words in their order, by which each has a number in any block of the texts."""
    blocks = range(0, len(texts), _BLOCK)
    distinct = [texts[low : low + _BLOCK].str.split(" ").explode(empty_as_null=False).unique() for low in blocks]
    words = pl.concat(distinct) if distinct else pl.Series(dtype=pl.String)
    return words.filter(words != "").unique().sort()


def _runs(texts: pl.Series, words: pl.Series) -> tuple[Index, npt.NDArray[np.uint64], Index]:
    """Return the owner and the hash of each run of three words (of fewer, all), and (texts,) numbers of words.

    "a b c d" and "e f" have the runs abc, bcd and ef, whose are 0 0 1, and 4 and 2 words.

    Args:
        texts: whose words are to be numbered.
        words: of :func:`_words_of`.
    """
    lists = texts.str.split(" ").list.eval(pl.element().filter(pl.element() != ""))
    lengths = lists.list.len().to_numpy().astype(np.int64)
    owners = np.repeat(np.arange(len(texts)), lengths)
    flat = lists.explode(empty_as_null=False).rename("word")
    table = pl.DataFrame({"word": words, "code": np.arange(1, len(words) + 1, dtype=np.uint64)})
    codes = flat.to_frame().join(table, on="word", how="left", maintain_order="left")["code"].to_numpy()
    codes = scrambled(codes)
    # A run's hash mixes in the next word, and the one after it, as long as they are of the same text.
    runs = codes
    last = len(codes)
    for step in range(1, _RUN):
        following = np.concatenate([codes[step:], np.zeros(min(step, last), np.uint64)])
        inside = np.arange(last) + step < np.cumsum(lengths)[owners] if last else np.zeros(0, bool)
        runs = scrambled(runs ^ np.where(inside, following, np.uint64(0)) + np.uint64(step))
    positions = np.arange(last) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    in_window = positions < np.maximum(lengths - _RUN + 1, 1)[owners]
    return owners[in_window], runs[in_window], lengths


def _distinct(owners: Index, runs: npt.NDArray[np.uint64]) -> tuple[Index, npt.NDArray[np.uint64]]:
    """Each run of a text once, in order of the texts."""
    frame = pl.DataFrame({"owner": owners, "run": runs}).unique().sort("owner", "run")
    return frame["owner"].to_numpy().astype(np.int64), frame["run"].to_numpy()
