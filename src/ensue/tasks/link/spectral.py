"""Vectors of words under which the products of articles are those of counting: where a bag and an encoder start.

With A the weighted counts of articles at length 1, A = U S V' (latent semantic analysis; Deerwester et al. 1990): the
rows of V, as wide as there are articles, give every article its products with all others and with any post; the first
columns give most of it. Random vectors, which know no article, give the same but for chance, which falls with the root
of their width only: 512 of them rank the posts outside PolitiFact's test at an MRR of .247, V at .398, TF-IDF at .393.

What an encoder reads starts from the same of runs of characters in place of words: a word's vector is the sum over its
runs, so that forms of a word are close, and the mean over a text's words is nearly what its runs say of it. Without
anything learned 100 numbers rank the posts outside PolitiFact's test at .422, 300 at .457.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index
from ensue.tasks.link.pieces import PIECES, pieces_of
from ensue.text.sparse import SparseRows, sparse_rows, unit_rows
from ensue.text.terms import character_terms
from ensue.text.tokens import Tokens
from ensue.text.weights import smooth_idf

READ = 2048
"""Articles at most whose products are kept; of more, so many are drawn."""
FAINT = 0.3
"""Relative scale of the random initial values of the remaining dimensions, which separate new articles."""
_LEAST = 1e-6


def term_vectors(tokens: Tokens, weights: npt.NDArray[np.float32], size: int, seed: int) -> npt.NDArray[np.float32]:
    """(terms, size) vectors, of a mean square of 1 over all terms that stand in the articles.

    Args:
        tokens: the articles, with ids from 0 up to the number of terms.
        weights: (terms,).
        size: numbers of a vector.
        seed: of what is drawn.
    """
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(len(tokens))[:READ])
    part = tokens.select(chosen)
    owners = np.repeat(np.arange(len(part)), part.lengths)
    cells, counts = np.unique(owners * len(weights) + part.ids, return_counts=True)
    owners, terms = np.divmod(cells, len(weights))
    rows = unit_rows(owners, terms, counts, weights, len(part))
    axes, there = _axes(rows, size), np.unique(terms)
    vectors = FAINT * random.standard_normal((len(weights), size), np.float32)
    # The columns of V have length 1, so that their mean square over the terms is one over how many these are.
    vectors[np.ix_(there, np.arange(axes.shape[1]))] = rows.T[there] @ (axes * np.sqrt(len(there)))
    return vectors


def word_vectors(texts: pl.Series, words: Sequence[str], size: int, seed: int) -> npt.NDArray[np.float32]:
    """(words + pieces, size) vectors of words by their runs of characters, of a mean square of 1 over the words.

    Rare runs count more, so that a mean over words is one by how rare they are. A piece has the mean of what the words
    that hold it give to each of their pieces.

    Args:
        texts: the articles; of more than ``READ``, so many are drawn.
        words: whatever texts hold.
        size: numbers of a vector.
        seed: of what is drawn.
    """
    random = np.random.default_rng(seed)
    read = texts.gather(np.sort(random.permutation(len(texts))[:READ]))
    owners, runs, counts = character_terms(read)
    keys, terms = np.unique(runs, return_inverse=True)
    idf = smooth_idf(np.bincount(terms, minlength=len(keys)), len(read))
    rows = unit_rows(owners, terms, counts, idf, len(read))
    axes = _axes(rows, size)
    held, runs, _ = character_terms(pl.Series(words, dtype=pl.String))
    places = np.searchsorted(keys, runs).clip(max=max(len(keys) - 1, 0))
    known = np.flatnonzero(keys[places] == runs) if len(keys) else np.empty(0, np.int64)
    held, places = held[known], places[known]
    by_word = sparse_rows(held, places, idf[places], (len(words), len(keys))) @ (rows.T @ axes)
    by_word /= max(np.sqrt((by_word**2).mean()), _LEAST) if by_word.size else 1
    vectors = FAINT * random.standard_normal((len(words) + PIECES, size), np.float32)
    vectors[:, : axes.shape[1]] = np.concatenate([by_word, _by_piece(words, by_word)])
    return vectors


def _by_piece(words: Sequence[str], vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(pieces, size) the mean of the words that hold each, a word shared evenly among its pieces."""
    pieces, offsets = pieces_of(words)
    numbers, sizes = -1 - pieces.astype(np.int64), np.diff(offsets)
    order = np.argsort(numbers, kind="stable")
    holders: Index = np.repeat(np.arange(len(words)), sizes)[order]
    shares = 1 / np.bincount(numbers, minlength=PIECES).clip(min=1)[numbers[order]] / sizes[holders]
    return sparse_rows(numbers[order], holders, shares, (PIECES, len(words))) @ vectors


def _axes(rows: SparseRows, size: int) -> npt.NDArray[np.float64]:
    """(rows, at most size) U / S of rows = U S V', the largest first, so that V is rows' times it."""
    powers, axes = np.linalg.eigh((rows @ rows.T).toarray())
    kept = np.flatnonzero(powers > _LEAST * powers[-1])[::-1][:size]
    found: npt.NDArray[np.float64] = axes[:, kept] / np.sqrt(powers[kept])
    return found
