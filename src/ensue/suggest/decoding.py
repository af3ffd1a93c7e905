"""Beam search: the likeliest next queries, for all rows and beams at once.

At each step every open beam may end, and goes on with its best tokens; the best ``beam`` continuations of a row stay
open. What ended is kept by its score, the log-probability divided by its number of tokens (the end counts) to the power
``exponent`` (Wu et al. 2016 without their constant). A row is done when no open beam can beat what it keeps: its sum so
far, which only falls, over the greatest length, is too small already.

A beam of 1 is greedy decoding: it takes the likeliest token, and stops at the first end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from ensue.errors import SettingError
from ensue.nn.highest import highest
from ensue.suggest.batch import BEGIN, END, PADDING, UNKNOWN, Batch
from ensue.suggest.prefix import Typed
from ensue.suggest.sizes import require_sizes

Memory = TypeVar("Memory", contravariant=True)


class Speller(Protocol[Memory]):
    """What every network of the task can do."""

    def start(self, memory: Memory) -> Any:
        """The state before the first word, with ``select(index)``."""
        ...

    def step(self, memory: Memory, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        """Read (rows,) tokens: (rows, ids) log-probabilities of the next, and the state after it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Search:
    """How suggestions are looked for."""

    beam: int = 5
    """Open beams a row; 1 is greedy."""
    keep: int = 5
    """Suggestions a row."""
    longest: int = 10
    """Tokens a suggestion has at most."""
    exponent: float = 0.6
    """A suggestion's log-probability is divided by its length to this power: 0 favours short ones."""
    repeats: bool = False
    """Whether a query that was typed in this session already may be suggested."""

    def __post_init__(self) -> None:
        require_sizes(self, "beam", "keep", "longest")
        if self.exponent < 0:
            raise SettingError(f"exponent is {self.exponent}; it must be 0 or more")


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
    """The open beams of all rows."""

    tokens: Tensor  # (rows, open, steps) written so far
    sums: Tensor  # (rows, open); -inf where closed
    repeating: Tensor  # (rows, open, turns) True while a beam is the beginning of a query typed before
    written: Tensor  # (rows, open) bytes of the prefix that are written


@torch.inference_mode()
def beam_search(
    model: Speller[Memory],
    memory: Memory,
    batch: Batch,
    search: Search,
    *,
    banned: Tensor | None = None,
    typed: Typed | None = None,
) -> Found:
    """The likeliest next queries of each row.

    Args:
        model: a network of the task, in evaluation mode.
        memory: what it made of ``batch``.
        batch: the sessions, whose queries are not suggested again.
        search: widths and lengths.
        banned: (ids,) True for tokens that must not be written; padding, unknown and begin never are.
        typed: what each suggestion must begin with.

    Returns:
        As many suggestions as there are; a row that has none has scores of -inf.
    """
    device, rows = batch.words.device, len(batch.words)
    typed = None if typed is None else Typed(*(table.to(device) for table in typed))
    state = model.start(memory)
    beams = _begin(batch, search)
    last = torch.full((rows, 1), BEGIN, device=device)
    for step in range(search.longest + 1):
        log_shares, state = model.step(memory, state, last.flatten())
        if step == 0:
            kept, wall = _nothing(rows, search, log_shares), _wall(banned, log_shares)
        totals = log_shares.add_(wall).view(rows, last.shape[1], -1).add_(beams.sums[..., None])
        if typed is not None:
            here = typed.allowed[torch.arange(rows, device=device)[:, None], beams.written]
            totals.masked_fill_(~here, -torch.inf)
        ends = _ends(totals, beams, batch.lengths, step)
        totals[..., END] = -torch.inf
        sums, places = highest(totals.view(rows, -1), search.beam)
        if search.beam == 1 and step < search.longest:
            ends = ends.masked_fill(ends < sums, -torch.inf)
            sums = sums.masked_fill(ends > -torch.inf, -torch.inf)
        kept = _keep(kept, beams.tokens, ends, step, search)
        bound = sums[:, 0] / (search.longest + 1) ** search.exponent
        if step == search.longest or bool((bound <= kept.scores[:, -1]).all()):
            break
        parents = places // totals.shape[2]
        beams = _go_on(beams, sums, parents, places % totals.shape[2], batch, search, typed)
        last = beams.tokens[..., -1]
        state = state.select((torch.arange(rows, device=device)[:, None] * totals.shape[1] + parents).flatten())
    return kept


def _begin(batch: Batch, search: Search) -> _Beams:
    """One open beam a row, that has written nothing."""
    repeating = (batch.lengths > 0)[:, None] & (not search.repeats)
    none = batch.words.new_zeros(len(batch.words), 1)
    return _Beams(none[..., None][..., :0], none.float(), repeating, none)


def _nothing(rows: int, search: Search, like: Tensor) -> Found:
    empty = torch.full((rows, search.keep), -torch.inf, dtype=like.dtype, device=like.device)
    tokens = torch.full((rows, search.keep, search.longest), PADDING, device=like.device)
    return Found(tokens, empty, empty)


def _wall(banned: Tensor | None, like: Tensor) -> Tensor:
    """(ids,) -inf for what must never be written, 0 elsewhere."""
    wall = like.new_zeros(like.shape[1])
    if banned is not None:
        wall[banned.to(wall.device)] = -torch.inf
    wall[[PADDING, UNKNOWN, BEGIN]] = -torch.inf
    wall[END] = 0.0
    return wall


def _ends(totals: Tensor, beams: _Beams, lengths: Tensor, step: int) -> Tensor:
    """(rows, open) sums of the beams that end here: not without a token, nor as a query typed before."""
    if step == 0:
        return torch.full_like(totals[..., END], -torch.inf)
    again = (beams.repeating & (lengths == step)[:, None]).any(2)
    return totals[..., END].masked_fill(again, -torch.inf)


def _keep(kept: Found, tokens: Tensor, ends: Tensor, step: int, search: Search) -> Found:
    """The best of what was kept and what ended now."""
    if step == 0:
        return kept
    scores = torch.cat([kept.scores, ends / (step + 1) ** search.exponent], dim=1)
    scores, places = scores.topk(search.keep, dim=1)
    room = tokens.new_full((*tokens.shape[:2], search.longest - step), PADDING)
    every = torch.cat([kept.tokens, torch.cat([tokens, room], dim=2)], dim=1)
    sums = torch.cat([kept.sums, ends], dim=1).gather(1, places)
    return Found(every.gather(1, places[..., None].expand(-1, -1, search.longest)), scores, sums)


def _go_on(
    beams: _Beams, sums: Tensor, parents: Tensor, token: Tensor, batch: Batch, search: Search, typed: Typed | None
) -> _Beams:
    """The best continuations of each row: (rows, open) sums, which beam each comes from, and its token."""
    step = beams.tokens.shape[2]
    tokens = beams.tokens.gather(1, parents[..., None].expand(-1, -1, step))
    repeating = beams.repeating
    if not search.repeats:
        repeating = repeating.gather(1, parents[..., None].expand(-1, -1, repeating.shape[2]))
        inside = step < batch.words.shape[2]
        repeating = repeating & (batch.words[:, None, :, step] == token[..., None]) if inside else repeating & False
    written = beams.written
    if typed is not None:
        written = torch.minimum(written.gather(1, parents) + typed.sizes[token], typed.ends[:, None])
    return _Beams(torch.cat([tokens, token[..., None]], dim=2), sums, repeating, written)


def merged(texts: Iterable[str], scores: Iterable[float], typed: Iterable[str] = ()) -> list[tuple[str, float]]:
    """Suggestions of one row, each text once with its best score, best first, without those typed already.

    Pieces of words can spell the same text in more than one way.
    """
    best: dict[str, float] = {}
    left_out = set(typed)
    for text, score in zip(texts, scores, strict=True):
        if text not in left_out and score > best.get(text, -torch.inf):
            best[text] = score
    return sorted(best.items(), key=lambda pair: -pair[1])
