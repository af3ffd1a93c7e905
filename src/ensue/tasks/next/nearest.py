"""Answers by an index: candidates of each history, their exact scores, and an estimate of the rest of the catalogue.

Candidates are what the index finds, what a model adds something to, what came lately in a stream, and values that came
after the index was made. Of a request with lists the candidates are looked through from the best on, each by its value,
until enough are permitted. Where that takes too long, the index is searched among what is permitted alone; what a short
list allows is all scored, and the index then serves the total alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ensue.nn.topk import topk
from ensue.records import History
from ensue.tasks.next.attributions import Scored
from ensue.tasks.next.item_index import ItemIndex
from ensue.tasks.next.own_unknown import OwnUnknown
from ensue.tasks.next.permitted import FEW, Permitted, by_list
from ensue.tasks.next.sides import Sides, hide_
from ensue.vocabulary import FIRST, PADDING, Vocabulary

CELLS = 2**22
"""Scores of a list that many histories have, which are held at once (16 MB in float32)."""
BRIEF = 8
"""For the total alone half the candidates of one in so many lists will do. At a million values the logarithm is off by
.033 then, and by .029 with all (``benchmarks/serving_at_size.py``)."""


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
        if not any(lists):
            high, place = scores.topk(min(k, scores.shape[1]), dim=1)
            return high, ids.gather(1, place)
        if any(one and one.few is not None for one in lists):
            ids, scores = self._with_few(k, lists)
        high, columns = self._first(k, *_falling(ids, scores, 2 * k), lists, range(len(ids)), records, own)
        lacking = (high[:, -1] == -torch.inf).tolist()
        rows = [row for row, one in enumerate(lists) if one and lacking[row] and (one.few is None or own is not None)]
        if rows:
            found = _falling(ids[rows], scores[rows], scores.shape[1])
            high[rows], columns[rows] = self._first(k, *found, lists, rows, records, own)
            self._search_more(k, high, columns, ids, scores, lists, records, own)
        return high, columns

    def _search_more(
        self,
        k: int,
        high: Tensor,
        columns: Tensor,
        ids: Tensor,
        scores: Tensor,
        lists: Sequence[Permitted | None],
        records: Sequence[History],
        own: OwnUnknown | None,
    ) -> None:
        """Fill up rows of which all candidates were looked through: the index is searched among what is permitted."""
        lacking = (high[:, -1] == -torch.inf).tolist()
        short = [one if one and one.few is None and lacking[row] else None for row, one in enumerate(lists)]
        for rows, one in by_list(short):
            if one:
                more, theirs = self._searched(self.sides.of(rows), one, k)
                known = torch.stack([torch.isin(some, held) for some, held in zip(more, ids[rows], strict=True)])
                theirs = torch.cat([theirs.masked_fill(known, -torch.inf), scores[rows]], 1)
                found = _falling(torch.cat([more, ids[rows]], 1), theirs, theirs.shape[1])
                high[rows], columns[rows] = self._first(k, *found, lists, rows.tolist(), records, own)

    def _first(
        self,
        k: int,
        high: Tensor,
        columns: Tensor,
        lists: Sequence[Permitted | None],
        rows: Sequence[int],
        records: Sequence[History],
        own: OwnUnknown | None,
    ) -> tuple[Tensor, Tensor]:
        """(rows, k) the first falling scores that each row's list permits, and their columns; then -inf and padding."""
        places = list[list[int]]()
        for row, numbers in zip(rows, columns.tolist(), strict=True):
            one = lists[row]
            if one is None or (one.few is not None and own is None):  # of a short list there is nothing else
                places.append([*range(min(k, len(numbers)))])
            else:
                places.append(one.among(self._values(numbers, row, records, own, one.vocabulary), k))
        if min(map(len, places)) < k:
            last = high.shape[1]
            high, columns = functional.pad(high, (0, 1), value=-torch.inf), functional.pad(columns, (0, 1))
            places = [found + [last] * (k - len(found)) for found in places]
        place = torch.tensor(places)
        return high.gather(1, place), columns.gather(1, place)

    def _values(
        self, columns: Sequence[int], row: int, records: Sequence[History], own: OwnUnknown | None, known: Vocabulary
    ) -> Iterator[str]:
        """What some columns of a row stand for; of padding, which scores -inf, it does not matter."""
        if own is None:
            return map(known.values.__getitem__, map((-FIRST).__add__, columns))
        held, beyond = records[row].values, range(self.sides.num_ids, self.sides.num_ids + own.places.shape[1])
        theirs = {one: held[place] for one, place in zip(beyond, own.places[row].tolist(), strict=True) if place >= 0}
        return (known.value(one) if FIRST <= one < beyond.start else theirs.get(one, "") for one in columns)

    def _with_few(self, k: int, lists: Sequence[Permitted | None]) -> tuple[Tensor, Tensor]:
        """Candidates and scores, where the ``k`` best of what a short list permits take the place of what was found.

        Different lists of a few values, one a row, are scored in one go, and all stay.
        """
        few = [(rows, one.few) for rows, one in by_list(lists) if one and one.few is not None]
        alone = [len(few) > 1 and len(rows) == 1 and len(ids) <= FEW for rows, ids in few]
        shared = [pair for pair, single in zip(few, alone, strict=True) if not single]
        lone = {int(rows): ids for (rows, ids), single in zip(few, alone, strict=True) if single}
        longest = max(map(len, lone.values()), default=0)
        extra = torch.zeros(len(lists), max([longest, *(min(k, len(ids)) for _, ids in shared)]), dtype=torch.int64)
        scored = torch.full(extra.shape, -torch.inf)
        blocks = ((part, ids) for rows, ids in shared for part in _parts(rows, CELLS // max(len(ids), 1)))
        for rows, ids in blocks:
            sides = self.sides if len(rows) == len(lists) else self.sides.of(rows)
            high, place = topk(sides.score(ids, self.index.listed(sides.product, ids)), min(k, len(ids)))
            extra[rows, : high.shape[1]], scored[rows, : high.shape[1]] = ids[place], high
        for row, ids in lone.items():
            extra[row, : len(ids)] = ids
        for part in _parts(torch.tensor([*lone], dtype=torch.int64), 8 * FEW // max(longest, 1)):
            scored[part] = (self.sides if len(part) == len(lists) else self.sides.of(part)).score(extra[part])
        every = torch.cat([rows for rows, _ in few])
        width = self.ids.shape[1] - (0 if self.own is None else self.own.odds.shape[1])
        scores = self.scores.clone()
        scores[every, :width] = -torch.inf
        return torch.cat([extra, self.ids], 1), torch.cat([scored, scores], 1)

    def _searched(self, sides: Sides, one: Permitted, k: int) -> tuple[Tensor, Tensor]:
        """(histories, num) ids of large scores among those that a list permits, and these scores."""
        num = min(max(2 * k, self.index.facts.candidates), sides.num_ids)
        if np.bitwise_count(one.bits).sum() <= FEW:
            return one.every.expand(len(sides.rows), -1), sides.score(one.every)
        found = _candidates(self.index, sides, num, one)
        return found, sides.score(found)


def nearest(
    index: ItemIndex,
    sides: Sides,
    k: int,
    weights: tuple[Tensor, ...],
    lengths: Sequence[int],
    brief: Tensor | None = None,
) -> NearestBatch:
    """The candidates of some histories, scored.

    Args:
        index: of the model that made ``sides``.
        sides: of the histories.
        k: choices that are asked for.
        weights: as in :class:`ensue.tasks.next.attributions.Scored`.
        lengths: as there.
        brief: (histories,) of which the best are not wanted, or not of all values: of which the total is; ``None`` of
            none.
    """
    num = min(max(2 * k, index.facts.candidates), sides.num_ids)
    ids = _joined([_candidates(index, sides, num, brief=brief), *_others(index, sides, num)])
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


def _parts(rows: Tensor, size: int) -> Iterator[Tensor]:
    """So many of some rows at a time, and one at least: bounds memory."""
    size = max(1, size)
    return (rows[low : low + size] for low in range(0, len(rows), size))


def _falling(ids: Tensor, scores: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """So many of the highest scores of each row, falling, and their ids."""
    high, place = scores.topk(min(num, scores.shape[1]), dim=1)
    return high, ids.gather(1, place)


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
    tail = sides.tail(index.sample, index.sampled(sides.product))
    scored = _joined([ids, sides.seen]) if sides.seen.shape[1] else ids  # what was seen is no part of the rest either
    hide_(tail, index.sample, scored)
    others = sides.num_ids - FIRST - (scored >= FIRST).sum(1)
    return tail, others / (tail > -torch.inf).sum(1).clamp(min=1)


def _candidates(
    index: ItemIndex, sides: Sides, num: int, one: Permitted | None = None, brief: Tensor | None = None
) -> Tensor:
    """(histories, num) ids that the index finds; of histories without events the most popular.

    Args:
        index: of the model.
        sides: of the histories.
        num: how many.
        one: a list that holds for all of them.
        brief: (histories,) of which only the total is wanted; ``None`` of none.
    """
    filled = sides.rows >= 0
    if one is None and brief is None and sides.whole:
        return index.search(sides.product, num)
    found = torch.zeros(len(filled), num, dtype=torch.int64)
    short = torch.zeros_like(filled) if brief is None else brief & filled
    queries, bits = sides.product.queries, None if one is None else one.bits
    for rows, size, probed in (
        (filled & ~short, num, None),
        (short, max(1, num // 2), max(1, index.facts.probed // BRIEF)),
    ):
        if bool(rows.any()):
            asked = sides.product._replace(queries=queries if bool(rows.all()) else queries[sides.rows[rows]])
            found[rows, :size] = index.search(asked, size, probed=probed, bits=bits)
    if not bool(filled.all()):
        counts = sides.counts
        if one is not None:
            every = one.every
            counts = torch.zeros_like(counts).index_copy(0, every, counts[every])
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


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Side by side, each id once a row."""
    if len(parts) == 1:
        return parts[0]
    ids = torch.cat(list(parts), dim=1).sort(dim=1).values
    ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = PADDING
    return ids
