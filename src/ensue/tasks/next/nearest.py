"""Answers by an index: candidates of each history, their exact scores, and an estimate of the rest of the catalogue.

Candidates are what the index finds, what a model adds something to, what came lately in a stream, and values that came
after the index was made. A request's lists hold at every step: a candidate that is not permitted is none, and where
that leaves few, the index is searched again among what is permitted alone, or all of that is scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from ensue.records import History
from ensue.tasks.next.attributions import Scored
from ensue.tasks.next.batch import Product
from ensue.tasks.next.item_index import ItemIndex
from ensue.tasks.next.own_unknown import OwnUnknown
from ensue.tasks.next.permitted import Permitted
from ensue.vocabulary import FIRST, PADDING

FEW = 4096
"""So many permitted values are all scored: to search takes longer."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What scores are computed from.

    Attributes:
        product: of the histories that hold anything.
        rows: (histories,) each one's row in it; -1 for a history without events, which gets plain popularity.
        counts: (ids,) how often each occurs, which is popularity.
        seen: (histories, events) ids that are no answer, filled up with padding.
        base: (targets,) the estimated log total of the product alone, where something is mixed with it.
    """

    product: Product
    rows: Tensor
    counts: Tensor
    seen: Tensor
    base: Tensor | None = None

    @property
    def num_ids(self) -> int:
        """Size of the catalogue, padding and unknown included."""
        return len(self.counts)

    def popular(self, ids: Tensor) -> Tensor:
        """The logarithm of each one's share."""
        return (self.counts[ids] / self.counts.sum().clamp(min=1)).log()

    @torch.no_grad()
    def score(self, ids: Tensor) -> Tensor:
        """(histories, k) scores of (histories, k) ids; -inf for padding, for unknown, and for what was seen."""
        filled = self.rows >= 0
        if bool(filled.all()):
            scores = self._products(ids)
        else:
            scores = self.popular(ids)
            scores[filled] = self._products(ids[filled])
        hidden = ids < FIRST
        if self.seen.shape[1]:
            hidden = hidden | (ids[:, :, None] == self.seen[:, None]).any(2)
        return scores.masked_fill(hidden, -torch.inf)

    def of(self, rows: Tensor) -> Sides:
        """Those of some histories."""
        targets = self.rows[rows]
        filled = targets >= 0
        kept, numbers = targets[filled], torch.full_like(targets, -1)
        numbers[filled] = torch.arange(len(kept))
        product, cells = self.product, self.product.cells
        if cells is not None:
            bounds = torch.searchsorted(cells[0], torch.stack([kept, kept + 1]) * self.num_ids).T.tolist()
            moved = [cells[0][low:high] % self.num_ids + at * self.num_ids for at, (low, high) in enumerate(bounds)]
            added = [cells[1][low:high] for low, high in bounds]
            cells = torch.cat([cells[0][:0], *moved]), torch.cat([cells[1][:0], *added])
        product = product._replace(queries=product.queries[kept], cells=cells)
        base = None if self.base is None else self.base[kept]
        return replace(self, product=product, rows=numbers, seen=self.seen[rows], base=base)

    @torch.no_grad()
    def tail(self, sample: Tensor, rows: Tensor) -> Tensor:
        """(histories, sample) scores of the same ids for each, with these vectors, without what is added to few."""
        product = self.product
        scores = product.queries @ rows.T
        if product.bias is not None:
            scores = scores + product.bias[sample]
        scores = self._mixed(scores, sample)
        if len(scores) == len(self.rows):
            return scores
        found = self.popular(sample).repeat(len(self.rows), 1)
        found[self.rows >= 0] = scores
        return found

    def _products(self, ids: Tensor) -> Tensor:
        product = self.product
        scores = (product.rows(ids) @ product.queries[:, :, None])[..., 0]
        if product.bias is not None:
            scores = scores + product.bias[ids]
        if product.cells is not None and len(product.cells[0]):
            cells, added = product.cells
            wanted = torch.arange(len(ids))[:, None] * self.num_ids + ids
            place = torch.searchsorted(cells, wanted).clamp(max=len(cells) - 1)
            scores = scores + torch.where(cells[place] == wanted, added[place], 0.0)
        return self._mixed(scores, ids)

    def _mixed(self, scores: Tensor, ids: Tensor) -> Tensor:
        if self.base is None or self.product.lately is None:
            return scores
        shares, kept = self.product.lately
        return torch.logaddexp(scores - self.base[:, None] + kept, shares[ids])


@dataclass(frozen=True, kw_only=True)
class NearestBatch(Scored):
    """Scores of candidates.

    Attributes:
        index: where they are looked for.
        sides: what they are computed from.
        ids: (histories, candidates), padding where there are fewer.
        scores: (histories, candidates and values of the histories' own).
        own: those.
        plain: (histories,) the log totals without them.
    """

    index: ItemIndex
    sides: Sides
    ids: Tensor
    scores: Tensor
    own: OwnUnknown | None = None
    plain: Tensor | None = None

    def score(self, columns: Tensor) -> Tensor:
        """Computed anew, for other histories have other candidates."""
        num_ids = self.sides.num_ids
        if self.own is None or self.plain is None:
            return self.sides.score(columns)
        place = (columns - num_ids).clamp(min=0)
        own = self.plain[:, None] + self.own.odds.gather(1, place)
        return torch.where(columns < num_ids, self.sides.score(columns.masked_fill(columns >= num_ids, PADDING)), own)

    def with_own(self, own: OwnUnknown) -> Self:
        """More candidates."""
        scores = torch.cat([self.scores, self.totals[:, None] + own.odds], dim=1)
        beyond = torch.arange(own.odds.shape[1]).expand(own.odds.shape) + self.sides.num_ids
        totals = self.totals + own.odds.exp().sum(1).log1p()
        ids = torch.cat([self.ids, beyond], dim=1)
        return replace(self, ids=ids, scores=scores, totals=totals, own=own, plain=self.totals)

    def best(
        self, k: int, lists: Sequence[Permitted | None], records: Sequence[History], own: OwnUnknown | None
    ) -> tuple[Tensor, Tensor]:
        """Of the candidates that each list permits."""
        ids, scores = self.ids, self.scores
        if any(lists):
            ids, scores = self._permitted(lists, records, own, k)
        high, place = scores.topk(min(k, scores.shape[1]), dim=1)
        return high, ids.gather(1, place)

    def _permitted(
        self, lists: Sequence[Permitted | None], records: Sequence[History], own: OwnUnknown | None, k: int
    ) -> tuple[Tensor, Tensor]:
        """Candidates and their scores, -inf for those that a list does not permit; of all histories at once."""
        num_ids, width = self.sides.num_ids, self.ids.shape[1] - (0 if own is None else own.odds.shape[1])
        num = min(max(2 * k, self.index.facts.candidates), num_ids)
        ids, scores = self.ids[:, :width], self.scores[:, :width]
        given = [(row, one) for row, one in enumerate(lists) if one is not None]
        scores = scores.masked_fill(_among(ids, [(row, one.out) for row, one in given], num_ids), -torch.inf)
        allowed = [(row, one.inside) for row, one in given if one.inside is not None]
        if allowed:
            rows = torch.tensor([row for row, _ in allowed])
            others = torch.zeros_like(ids, dtype=torch.bool)
            others[rows] = ~_among(ids, allowed, num_ids)[rows]
            scores = scores.masked_fill(others, -torch.inf)
        enough = ((scores > -torch.inf).sum(1) >= max(k, self.index.facts.candidates // 2)).tolist()
        more: dict[int, Tensor] = {}
        for row, one in given:
            if one.inside is not None and len(one.inside) <= FEW:
                more[row] = one.inside
                scores[row] = -torch.inf  # all that is permitted is among the others
            elif not enough[row]:
                found = self._searched(self.sides.of(torch.tensor([row])), one, num, num_ids)[0]
                more[row] = found.masked_fill(torch.isin(found, ids[row]), PADDING)
        if more and (longest := max(map(len, more.values()))):
            extra = torch.zeros(len(ids), longest, dtype=torch.int64)
            for row, some in more.items():
                extra[row, : len(some)] = some
            rows = torch.tensor([*more])
            scored = scores.new_full(extra.shape, -torch.inf)
            scored[rows] = (self.sides if len(rows) == len(ids) else self.sides.of(rows)).score(extra[rows])
            ids, scores = torch.cat([extra, ids], 1), torch.cat([scored, scores], 1)
        if own is None:
            return ids, scores
        theirs = self.scores[:, width:].clone()
        for row, one in given:
            hidden = one.hidden([records[row]], own.of_rows(np.array([row])))[0]
            theirs[row] = theirs[row].masked_fill(hidden, -torch.inf)
        return torch.cat([ids, self.ids[:, width:]], 1), torch.cat([scores, theirs], 1)

    def _searched(self, sides: Sides, one: Permitted, num: int, num_ids: int) -> Tensor:
        """(histories, num) ids of large scores among those that a list permits."""
        permitted = torch.ones(num_ids, dtype=torch.bool)
        if one.inside is not None:
            permitted = torch.zeros(num_ids, dtype=torch.bool)
            permitted[one.inside] = True
        permitted[one.out] = False
        permitted[:FIRST] = False
        if int(permitted.sum()) <= FEW:
            every = permitted.nonzero()[:, 0].expand(len(sides.rows), -1)
            high, place = sides.score(every).topk(min(num, every.shape[1]), dim=1)
            return torch.nn.functional.pad(every.gather(1, place), (0, num - high.shape[1]), value=PADDING)
        return _candidates(self.index, sides, num, permitted)


def nearest(
    index: ItemIndex, sides: Sides, k: int, weights: tuple[Tensor, ...], lengths: Sequence[int]
) -> NearestBatch:
    """The candidates of some histories, scored.

    Args:
        index: of the model that made ``sides``.
        sides: of the histories.
        k: choices that are asked for.
        weights: as in :class:`ensue.tasks.next.attributions.Scored`.
        lengths: as there.
    """
    num = min(max(2 * k, index.facts.candidates), sides.num_ids)
    ids = _joined([_candidates(index, sides, num), *_others(index, sides, num)])
    scores = sides.score(ids)
    totals = log_totals(index, sides, ids, scores)
    if sides.product.lately is not None:
        sides = replace(sides, base=totals[sides.rows >= 0])
        scores = sides.score(ids)
        totals = log_totals(index, sides, ids, scores)
    return NearestBatch(
        totals=totals, weights=weights, rows=sides.rows.tolist(), lengths=lengths, index=index, sides=sides, ids=ids,
        scores=scores,
    )  # fmt: skip


def log_totals(index: ItemIndex, sides: Sides, ids: Tensor, scores: Tensor) -> Tensor:
    """(histories,) logarithms of the sum of exp(scores): of candidates, and as much as a sample says of the rest."""
    tail, rest = rest_of(index, sides, ids)
    return torch.logaddexp(scores.logsumexp(1), tail.logsumexp(1) + rest.log())


def rest_of(index: ItemIndex, sides: Sides, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of the sample, -inf for candidates among it, and (histories,) for how many ids each of the others stands.

    Args:
        index: whose sample.
        sides: of the histories.
        ids: (histories, candidates).
    """
    sample, tail = index.sample, sides.tail(index.sample, index.sampled(sides.product))
    known = torch.cat([ids, sides.seen], dim=1)
    place = torch.searchsorted(sample, known).clamp(max=len(sample) - 1)
    row, column = (sample[place] == known).nonzero(as_tuple=True)
    tail[row, place[row, column]] = -torch.inf
    others = sides.num_ids - FIRST - (ids >= FIRST).sum(1)
    return tail, others / (tail > -torch.inf).sum(1).clamp(min=1)


def _candidates(index: ItemIndex, sides: Sides, num: int, permitted: Tensor | None = None) -> Tensor:
    """(histories, num) ids that the index finds; of histories without events the most popular."""
    found, filled = torch.zeros(len(sides.rows), num, dtype=torch.int64), sides.rows >= 0
    if bool(filled.any()):
        found[filled] = index.search(sides.product, num, permitted)
    if not bool(filled.all()):
        counts = sides.counts if permitted is None else sides.counts.masked_fill(~permitted, 0)
        high, place = counts.topk(num)
        found[~filled] = torch.where(high > 0, place, PADDING)
    return found


def _others(index: ItemIndex, sides: Sides, num: int) -> Iterator[Tensor]:
    """(histories, …) ids beside what the index finds: later ones, what is added to, what came lately."""
    product, num_ids, filled = sides.product, sides.num_ids, sides.rows >= 0
    first = index.facts.items + FIRST
    if num_ids > first:
        late = torch.arange(first, num_ids).expand(len(sides.rows), -1)
        if num_ids - first > num and bool(filled.any()):
            scores = sides.tail(late[0], product.rows(late[0]))
            late = late.gather(1, scores.topk(num, dim=1).indices)
        yield late
    if product.cells is not None and len(product.cells[0]):
        target, id = product.cells[0] // num_ids, product.cells[0] % num_ids
        column = torch.arange(len(target)) - torch.searchsorted(target, target)
        padded = torch.zeros(len(product.queries), int(column.max()) + 1, dtype=torch.int64)
        padded[target, column] = id
        found = torch.zeros(len(sides.rows), padded.shape[1], dtype=torch.int64)
        found[filled] = padded
        yield found
    if product.lately is not None:
        high, place = product.lately[0].topk(num)
        yield place[high > -torch.inf].expand(len(sides.rows), -1)


def _among(ids: Tensor, lists: Sequence[tuple[int, Tensor]], num_ids: int) -> Tensor:
    """(histories, candidates) whether each id is in the list of its row."""
    keys = torch.cat([torch.empty(0, dtype=torch.int64), *(row * num_ids + one for row, one in lists)]).sort().values
    if not len(keys):
        return torch.zeros_like(ids, dtype=torch.bool)
    wanted = torch.arange(len(ids))[:, None] * num_ids + ids
    return keys[torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)] == wanted


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Side by side, each id once a row."""
    if len(parts) == 1:
        return parts[0]
    ids = torch.cat(list(parts), dim=1).sort(dim=1).values
    ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = PADDING
    return ids
