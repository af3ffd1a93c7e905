"""Beam search: the likeliest next queries, for all rows and beams at once.

At each step every open beam may end, and goes on with its best tokens; the best ``beam`` continuations of a row stay
open. What ended is kept by its score, the log-probability divided by its number of tokens (the end counts) to the power
``exponent`` (Wu et al. 2016 without their constant). A row is done when no open beam would beat what it keeps if it
ended with the next token, at no cost. Later ends cost more and are divided by more: ``exhaustive`` waits until none can
beat it, whose sum so far, which only falls, is too small already over the greatest length.

A beam of 1 is greedy decoding: it takes the likeliest token, and stops at the first end.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.nn.topk import topk
from ensue.tasks.suggest.batch import BEGIN, END, PADDING, UNKNOWN, QueryBatch, select
from ensue.tasks.suggest.model import Decoder
from ensue.tasks.suggest.prefix import Typed
from ensue.tasks.suggest.settings import Search

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
MIN_DONE = 0.25
"""Fraction of the rows that must be done before they leave the search: to copy the others costs a third of a step."""


class Found(NamedTuple):
    """Suggestions, best first.

    Attributes:
        tokens: (rows, keep, longest) ids, without begin and end; 0 at padding.
        scores: (rows, keep) log-probability over length to the power of the exponent; -inf where there is none.
        sums: (rows, keep) log-probability, the end included.
    """

    tokens: Tensor
    scores: Tensor
    sums: Tensor


class _Beams(NamedTuple):
    """The open beams of all rows, and what ended; on the CPU in NumPy, which is ready with so few numbers sooner."""

    tokens: Ints  # (rows, open, longest) written so far; 0 at what is to come
    sums: Floats  # (rows, open); -inf where closed
    repeating: Mask  # (rows, open, turns) True while a beam is the beginning of a query typed before
    written: Ints  # (rows, open) bytes of the prefix that are written


class _Ended(NamedTuple):
    """Finished beams, the best first."""

    tokens: Ints  # (rows, keep, longest)
    scores: Floats  # (rows, keep)
    sums: Floats  # (rows, keep)


@torch.inference_mode()
def beam_search(
    writer: Decoder,
    memory: object,
    batch: QueryBatch,
    search: Search,
    *,
    banned: Tensor | None = None,
    typed: Typed | None = None,
) -> Found:
    """The likeliest next queries of each row.

    Args:
        writer: of a network in evaluation mode.
        memory: what the network made of ``batch``.
        batch: the sessions, whose queries are not suggested again.
        search: widths and lengths.
        banned: (ids,) True for tokens that must not be written; padding, unknown and begin never are.
        typed: what each suggestion must begin with.

    Returns:
        As many suggestions as there are; a row that has none has scores of -inf.
    """
    device = batch.words.device
    typed = None if typed is None else Typed(*(table.to(device) for table in typed))
    words, lengths = batch.words.numpy(force=True), batch.lengths.numpy(force=True)
    results = ended = _nothing(len(words), search)
    rows = np.arange(len(words))  # the rows that are still searched; all other arrays have one line for each
    beams = _begin(lengths, search)
    state = writer.start(memory)
    last = np.full((len(rows), 1), BEGIN)
    done = np.zeros(len(rows), np.bool_)
    for step in range(search.longest + 1):
        log_shares, state = writer.step(memory, state, torch.from_numpy(last.ravel()).to(device))
        if step == 0:
            wall = _wall(banned, log_shares)
        sums_so_far = torch.from_numpy(beams.sums).to(log_shares)
        totals = log_shares.add_(wall).view(*last.shape, -1).add_(sums_so_far[..., None])
        if typed is not None:
            allowed = typed.allowed[
                torch.from_numpy(rows[:, None]).to(device), torch.from_numpy(beams.written).to(device)
            ]
            totals.masked_fill_(~allowed, -torch.inf)
        ends = _ends(totals[..., END].numpy(force=True), beams, lengths, step)
        totals[..., END] = -torch.inf
        # The best continuations of a row are chosen among all its beams and tokens at once.
        sums, flat_tokens = (array.numpy(force=True) for array in topk(totals.view(len(rows), -1), search.beam))
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
        # A flat index over (beam, token) is the beam times the vocabulary plus the token.
        parents, last = np.divmod(flat_tokens, totals.shape[2])
        # Beams are flat for the decoder: row x beams + the beam that each new one continues.
        numbers = np.arange(len(rows))[:, None]
        state = state.select(torch.from_numpy((numbers * totals.shape[1] + parents).ravel()).to(device))
        beams = _go_on(beams, sums, numbers, parents, last, step, words)
        if typed is not None:
            beams = beams._replace(written=_written(typed, rows, beams.written, last))
        if done.mean() >= MIN_DONE:
            # Rows that are done leave the search, so that the others need not wait for products of them.
            _store(results, rows, ended)
            going = np.flatnonzero(~done)
            rows, words, lengths, last, done = rows[going], words[going], lengths[going], last[going], done[going]
            beams, ended = _Beams._make(array[going] for array in beams), _Ended._make(array[going] for array in ended)
            index = torch.from_numpy(going).to(device)
            memory = select(cast(Any, memory), index)
            state = state.of_sources(index, last.shape[1])
    _store(results, rows, ended)
    return Found(*map(torch.from_numpy, results))


def _store(results: _Ended, rows: Ints, ended: _Ended) -> None:
    """Write the lines of some rows."""
    for result, lines in zip(results, ended, strict=True):
        result[rows] = lines


def _begin(lengths: Ints, search: Search) -> _Beams:
    """One open beam a row, that has written nothing."""
    rows = len(lengths)
    repeating = (lengths > 0)[:, None] & (not search.repeats)
    none = np.zeros((rows, 1), np.int64)
    return _Beams(np.zeros((rows, 1, search.longest), np.int64), np.zeros((rows, 1)), repeating, none)


def _nothing(rows: int, search: Search) -> _Ended:
    scores = np.full((rows, search.keep), -np.inf)
    return _Ended(np.full((rows, search.keep, search.longest), PADDING), scores, scores.copy())


def _wall(banned: Tensor | None, like: Tensor) -> Tensor:
    """(ids,) -inf for what must never be written, 0 elsewhere."""
    wall = like.new_zeros(like.shape[1])
    if banned is not None:
        # Added to log-probabilities, the wall closes what is banned and leaves all else.
        wall[banned.to(wall.device)] = -torch.inf
    wall[[PADDING, UNKNOWN, BEGIN]] = -torch.inf
    wall[END] = 0.0
    return wall


def _ends(sums: Floats, beams: _Beams, lengths: Ints, step: int) -> Floats:
    """(rows, open) sums of the beams that end here: not without a token, nor as a query typed before."""
    if step == 0:
        return np.full(sums.shape, -np.inf)
    # A beam that is the beginning of a typed query repeats it if it ends at the same length.
    repeats_query = (beams.repeating & (lengths == step)[:, None]).any(2)
    return np.where(repeats_query, -np.inf, sums)


def _keep(kept: _Ended, tokens: Ints, ends: Floats, step: int, search: Search) -> _Ended:
    """The best of what was kept and what ended now."""
    if step == 0:
        return kept
    scores = np.concatenate([kept.scores, ends / (step + 1) ** search.exponent], axis=1)
    # A stable sort keeps the earlier of equal scores, which is the shorter suggestion.
    best = (-scores).argsort(axis=1, kind="stable")[:, : search.keep]
    tokens_of = np.concatenate([kept.tokens, tokens], axis=1)
    sums = np.concatenate([kept.sums, ends], axis=1)
    rows = np.arange(len(best))[:, None]
    return _Ended(tokens_of[rows, best], scores[rows, best], sums[rows, best])


def _go_on(beams: _Beams, sums: Floats, rows: Ints, parents: Ints, token: Ints, step: int, words: Ints) -> _Beams:
    """The best continuations of each row: (rows, open) sums, which beam each comes from, and its token."""
    tokens = beams.tokens[rows, parents]
    # Fancy indexing has copied the parents' tokens, so the new one can be written in place.
    tokens[..., step] = token
    typed_here = words[:, None, :, step] if step < words.shape[2] else np.full((1, 1, 1), PADDING)
    # Still the beginning of a typed query if the new token is the one at this position.
    repeating = beams.repeating[rows, parents] & (typed_here == token[..., None])
    return _Beams(tokens, sums, repeating, beams.written[rows, parents])


def _written(typed: Typed, rows: Ints, written: Ints, token: Ints) -> Ints:
    """(rows, open) bytes of the prefix that are written with one token more."""
    sizes = typed.sizes.numpy(force=True)
    ends = typed.ends.numpy(force=True)[rows]
    # The prefix may end inside a token: more bytes than it has are not counted.
    bytes_written: Ints = np.minimum(written + sizes[token], ends[:, None])
    return bytes_written
