"""Beam search: the likeliest next queries, for all rows and beams at once.

At each step every open beam may end, and goes on with its best tokens; the best ``beam`` continuations of a row stay
open. What ended is kept by its score, the log-probability divided by its number of tokens (the end counts) to the power
``exponent`` (Wu et al. 2016 without their constant). A row is done when no open beam would beat what it keeps if it
ended with the next token, at no cost. Later ends cost more and are divided by more: ``exhaustive`` waits until none can
beat it, whose sum so far, which only falls, is too small already over the greatest length.

A beam of 1 is greedy decoding: it takes the likeliest token, and stops at the first end.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index, Mask
from ensue.metrics import Floats
from ensue.tasks.suggest.batch import BEGIN, END, PADDING, UNKNOWN, PaddedQueries
from ensue.tasks.suggest.prefix import Typed
from ensue.tasks.suggest.settings import Search

MIN_DONE = 0.25
"""Fraction of the rows that must be done before they leave the search: to copy the others costs a third of a step."""


NEVER = (PADDING, UNKNOWN, BEGIN)
"""Tokens that are never written."""


def barriers(num_ids: int, banned: Mask | None) -> npt.NDArray[np.float32]:
    """Return (ids,) -inf for tokens that must never be written, 0 for others: it is added to log-probabilities."""
    added = np.zeros(num_ids, np.float32)
    if banned is not None:
        added[banned] = -np.inf
    added[list(NEVER)] = -np.inf
    added[END] = 0.0
    return added


class Results(NamedTuple):
    """Suggestions, best first.

    Attributes:
        tokens: (rows, keep, longest) ids, without begin and end; 0 at padding.
        scores: (rows, keep) log-probability over length to the power of the exponent; -inf where there is none.
        sums: (rows, keep) log-probability, the end included.
    """

    tokens: Index
    scores: Floats
    sums: Floats


class Extended(NamedTuple):
    """Continuations of the open beams of each row.

    Attributes:
        ends: (rows, open) log-probability of each beam that ends here; a copy.
        sums: (rows, beam) those of the best continuations of a row, falling.
        cells: (rows, beam) which these are: the beam times the size of the vocabulary, plus the token.
    """

    ends: Floats
    sums: Floats
    cells: Index


class Steps(Protocol):
    """A decoder that reads the open beams of all rows token by token."""

    num_ids: int

    def extend(self, last: Index, sums: Floats, beam: int, allowed: tuple[Index, Index] | None) -> Extended:
        """Read the latest token of each open beam, and return the best continuations of each row.

        Args:
            last: (rows, open) tokens.
            sums: (rows, open) log-probability so far.
            beam: number of continuations of a row, less where there are fewer.
            allowed: of a typed prefix, index (rows, 1) and (rows, open) into ``Typed.allowed``.
        """

    def select(self, parents: Index) -> None:
        """Continue with (rows, beam) numbers of the open beams of each row."""

    def keep(self, rows: Index) -> None:
        """Continue with some of the rows."""


class _Beams(NamedTuple):
    """The open beams of all rows, and what ended; on the CPU in NumPy, which is ready with so few numbers sooner."""

    tokens: Index  # (rows, open, longest) written so far; 0 at what is to come
    sums: Floats  # (rows, open); -inf where closed
    repeating: Mask  # (rows, open, turns) True while a beam is the beginning of a query typed before
    written: Index  # (rows, open) bytes of the prefix that are written


def beam_search(steps: Steps, queries: PaddedQueries, search: Search, typed: Typed | None = None) -> Results:
    """Return the likeliest next queries of each row.

    Args:
        steps: a decoder that has read nothing.
        queries: the sessions, whose queries are not suggested again.
        search: widths and lengths.
        typed: what each suggestion must begin with.

    Returns:
        As many suggestions as there are; a row that has none has scores of -inf.
    """
    words, lengths = queries.words, queries.lengths
    results = ended = _nothing(len(words), search)
    rows = np.arange(len(words))  # the rows that are still searched; all other arrays have one line for each
    beams = _begin(lengths, search)
    last = np.full((len(rows), 1), BEGIN)
    done = np.zeros(len(rows), np.bool_)
    for step in range(search.longest + 1):
        allowed = None if typed is None else (rows[:, None], beams.written)
        # The best continuations of a row are chosen among all its beams and tokens at once.
        end_sums, sums, cells = steps.extend(last, beams.sums, search.beam, allowed)
        ends = _ends(end_sums, beams, lengths, step)
        # Greedy search: the end and the best token compete, and the loser is closed.
        if search.beam == 1 and step < search.longest:
            ends = np.where(ends < sums, -np.inf, ends)
            sums = np.where(ends > -np.inf, -np.inf, sums)
        # Rows that are done collect nothing more.
        ended = _keep(ended, beams.tokens, np.where(done[:, None], -np.inf, ends), step, search)
        # The score of the best open beam if it ended as cheaply as possible.
        length = search.longest + 1 if search.exhaustive else step + 2
        done |= sums[:, 0] / length**search.exponent <= ended.scores[:, -1]
        if step == search.longest or done.all():
            break
        parents, last = np.divmod(cells, steps.num_ids)
        steps.select(parents)
        numbers = np.arange(len(rows))[:, None]
        beams = _go_on(beams, sums, numbers, parents, last, step, words)
        if typed is not None:
            beams = beams._replace(written=_written(typed, rows, beams.written, last))
        if done.mean() >= MIN_DONE:
            # Rows that are done leave the search, so that the others need not wait for products of them.
            _store(results, rows, ended)
            going = np.flatnonzero(~done)
            rows, words, lengths, last, done = rows[going], words[going], lengths[going], last[going], done[going]
            beams, ended = _Beams._make(array[going] for array in beams), Results._make(array[going] for array in ended)
            steps.keep(going)
    _store(results, rows, ended)
    return results


def _store(results: Results, rows: Index, ended: Results) -> None:
    """Write the lines of some rows."""
    for result, lines in zip(results, ended, strict=True):
        result[rows] = lines


def _begin(lengths: Index, search: Search) -> _Beams:
    """One open beam a row, that has written nothing."""
    rows = len(lengths)
    repeating = (lengths > 0)[:, None] & (not search.repeats)
    none = np.zeros((rows, 1), np.int64)
    return _Beams(np.zeros((rows, 1, search.longest), np.int64), np.zeros((rows, 1)), repeating, none)


def _nothing(rows: int, search: Search) -> Results:
    scores = np.full((rows, search.keep), -np.inf)
    return Results(np.full((rows, search.keep, search.longest), PADDING), scores, scores.copy())


def _ends(sums: Floats, beams: _Beams, lengths: Index, step: int) -> Floats:
    """(rows, open) sums of the beams that end here: not without a token, nor as a query typed before."""
    if step == 0:
        return np.full(sums.shape, -np.inf)
    # A beam that is the beginning of a typed query repeats it if it ends at the same length.
    repeats_query = (beams.repeating & (lengths == step)[:, None]).any(2)
    return np.where(repeats_query, -np.inf, sums)


def _keep(kept: Results, tokens: Index, ends: Floats, step: int, search: Search) -> Results:
    """The best of what was kept and what ended now."""
    if step == 0:
        return kept
    scores = np.concatenate([kept.scores, ends / (step + 1) ** search.exponent], axis=1)
    # A stable sort keeps the earlier of equal scores, which is the shorter suggestion.
    best = (-scores).argsort(axis=1, kind="stable")[:, : search.keep]
    tokens_of = np.concatenate([kept.tokens, tokens], axis=1)
    sums = np.concatenate([kept.sums, ends], axis=1)
    rows = np.arange(len(best))[:, None]
    return Results(tokens_of[rows, best], scores[rows, best], sums[rows, best])


def _go_on(beams: _Beams, sums: Floats, rows: Index, parents: Index, token: Index, step: int, words: Index) -> _Beams:
    """The best continuations of each row: (rows, open) sums, which beam each comes from, and its token."""
    tokens = beams.tokens[rows, parents]
    # Fancy indexing has copied the parents' tokens, so the new one can be written in place.
    tokens[..., step] = token
    typed_here = words[:, None, :, step] if step < words.shape[2] else np.full((1, 1, 1), PADDING)
    # Still the beginning of a typed query if the new token is the one at this position.
    repeating = beams.repeating[rows, parents] & (typed_here == token[..., None])
    return _Beams(tokens, sums, repeating, beams.written[rows, parents])


def _written(typed: Typed, rows: Index, written: Index, token: Index) -> Index:
    """(rows, open) bytes of the prefix that are written with one token more."""
    ends = typed.ends[rows]
    # The prefix may end inside a token: more bytes than it has are not counted.
    bytes_written: Index = np.minimum(written + typed.sizes[token], ends[:, None])
    return bytes_written
