"""Answers by an index: candidates of each history, their exact scores, and an estimate of the rest of the catalogue.

Candidates are what the index finds, what a model adds something to, what came lately in a stream, and items that came
after the index was made. Where a filter leaves fewer of them than are asked for, the index is searched among permitted
items alone; where it permits few items, those are all scored, and the index then serves the total alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.learning.state import evaluating
from ensue.metrics import Floats
from ensue.nn.item_head import Product
from ensue.nn.topk import topk
from ensue.tasks.next.attributions import Filters, HistoryScores
from ensue.tasks.next.dataset import Windows, latest_windows, seen_ids
from ensue.tasks.next.item_filter import ItemFilter, rows_by_filter
from ensue.tasks.next.item_index import ItemIndex, make_index
from ensue.tasks.next.model import Multiplies
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import Exclusion
from ensue.topk import Scores
from ensue.vocabulary import FIRST, PADDING

PROBED_FOR_TOTALS = 8
"""For the total alone half the candidates, from a fraction of the lists (1 / this number), suffice. At a million items
the error of the logarithm is then .033, and .029 with all (``benchmarks/serving_at_size.py``)."""
MAX_WIDENED = 1024
"""Maximum number of candidates to search for where a filter rules out most of them."""
QUERIES = 256
"""Histories for which an index is measured."""


@dataclass(frozen=True, kw_only=True)
class ProductScores:
    """Scores that are products of the histories' queries and the vectors of items.

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

    @cached_property
    def filled(self) -> Tensor:
        """(histories,) True for histories with events."""
        return self.rows >= 0

    @torch.no_grad()
    def score(self, ids: Tensor, vectors: Tensor | None = None) -> Tensor:
        """Return scores (histories, k); they are -inf for padding, for unknown, and for what was seen.

        Args:
            ids: (histories, k), or (k,) rising ones for all histories.
            vectors: (k, dim) of these, where they are at hand.
        """
        product_ids = ids if ids.dim() == 1 else ids[self.filled]
        scores = self._with_popularity(self._mixed(self._products(product_ids, vectors), product_ids), ids)
        scores = scores.masked_fill(ids < FIRST, -torch.inf)
        if ids.dim() > 1:
            # Compare each candidate with each seen id of its history: (histories, k, seen).
            return scores.masked_fill((ids[..., None] == self.seen[:, None]).any(2), -torch.inf)
        return hide_(scores, ids, self.seen)

    @torch.no_grad()
    def score_shared(self, ids: Tensor, vectors: Tensor) -> Tensor:
        """Return scores (histories, k) of (k,) ids with these vectors, without what is added to single scores."""
        scores = self.product.queries @ vectors.T
        if self.product.bias is not None:
            scores = scores + self.product.bias[ids]
        return self._with_popularity(self._mixed(scores, ids), ids)

    def select(self, rows: Tensor) -> ProductScores:
        """Return the scores of some histories."""
        targets = self.rows[rows]
        filled = targets >= 0
        selected = targets[filled]
        # Renumber the selected targets from 0; -1 marks histories without events.
        numbers = torch.full_like(targets, -1)
        numbers[filled] = torch.arange(len(selected))
        product = self.product
        cells = self.product.cells
        if cells is not None:
            # Cells are numbered target x ids + id: those of a target lie side by side, and get its new number.
            bounds = torch.searchsorted(cells[0], torch.stack([selected, selected + 1]) * self.num_ids).T.tolist()
            moved = [cells[0][low:high] % self.num_ids + at * self.num_ids for at, (low, high) in enumerate(bounds)]
            added = [cells[1][low:high] for low, high in bounds]
            cells = torch.cat([cells[0][:0], *moved]), torch.cat([cells[1][:0], *added])
        product = product._replace(queries=product.queries[selected], cells=cells)
        base = None if self.base is None else self.base[selected]
        return replace(self, product=product, rows=numbers, seen=self.seen[rows], base=base)

    def _products(self, ids: Tensor, vectors: Tensor | None) -> Tensor:
        product = self.product
        vectors = product.rows(ids) if vectors is None else vectors
        scores = product.queries @ vectors.T if ids.dim() == 1 else (vectors @ product.queries[:, :, None])[..., 0]
        if product.bias is not None:
            scores = scores + product.bias[ids]
        if product.cells is not None and len(product.cells[0]):
            cells, added = product.cells
            # The position of (target, id) among cells is target x ids + id; cells are in rising order.
            positions = torch.arange(len(scores))[:, None] * self.num_ids + ids
            index = torch.searchsorted(cells, positions).clamp(max=len(cells) - 1)
            scores = scores + torch.where(cells[index] == positions, added[index], 0.0)
        return scores

    def _mixed(self, scores: Tensor, ids: Tensor) -> Tensor:
        """Mix scores with the shares of recent events of a stream."""
        if self.base is None or self.product.recent is None:
            return scores
        recent, weight = self.product.recent
        # Scores become log probabilities of the product, then of the mixture with recent items.
        return torch.logaddexp(scores - self.base[:, None] + weight, recent[ids])

    def _with_popularity(self, scores: Tensor, ids: Tensor) -> Tensor:
        """Return (histories, k) scores from those of the histories that hold anything."""
        if len(scores) == len(self.rows):
            return scores
        popularity = (self.counts[ids] / self.counts.sum().clamp(min=1)).log()
        # Histories without events have the same popularity scores.
        all_scores = popularity.expand(len(self.rows), -1).clone()
        all_scores[self.filled] = scores
        return all_scores


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """Candidates of some histories.

    Attributes:
        index: where they were looked for.
        product_scores: what their scores are computed from.
        ids: (histories, candidates), padding where there are fewer.
        scores: (histories, candidates).
        totals: (histories,) the logarithm of the sum of exp(scores) over the catalogue.
    """

    index: ItemIndex
    product_scores: ProductScores
    ids: Tensor
    scores: Tensor
    totals: Tensor

    def best(self, k: int, filters: Sequence[ItemFilter | None]) -> tuple[Tensor, Tensor]:
        """Return the ids and the scores of the ``k`` best permitted items of each history, falling; -inf beyond."""
        k = min(k, self.product_scores.num_ids)
        best_ids = torch.zeros(len(filters), k, dtype=torch.int64)
        best = torch.full((len(filters), k), -torch.inf)
        # Histories with the same filter are handled together.
        for rows, item_filter in rows_by_filter(filters):
            ids = self.ids[rows]
            scores = self.scores[rows]
            if item_filter is not None:
                ids, scores = self._permitted(torch.from_numpy(rows), item_filter, k)
            values, columns = topk(scores, k)
            width = values.shape[1]
            best[rows, :width] = values
            best_ids[rows, :width] = ids.gather(1, columns)
        return best_ids, best

    def _permitted(self, rows: Tensor, item_filter: ItemFilter, k: int) -> tuple[Tensor, Tensor]:
        """Return ids and scores of candidates, (rows, any number), those that a filter rules out at -inf."""
        few_ids = item_filter.few_ids
        if few_ids is not None:
            selected = self.product_scores.select(rows)
            scored_ids = torch.from_numpy(few_ids)
            scores = selected.score(scored_ids, self.index.vectors_of(selected.product, few_ids))
            return scored_ids.expand(len(rows), -1), scores
        is_permitted = torch.from_numpy(item_filter.mask)
        ids = self.ids[rows]
        scores = self.scores[rows].masked_fill(~is_permitted[ids], -torch.inf)
        if not bool(((scores > -torch.inf).sum(1) < k).any()):
            return ids, scores
        selected = self.product_scores.select(rows)
        # Too few permitted candidates: search again within the filter.
        num = min(max(2 * k, self.index.facts.candidates), selected.num_ids)
        ids = _joined([ids, _search(self.index, selected, num, item_filter)])
        return ids, selected.score(ids).masked_fill(~is_permitted[ids], -torch.inf)


def nearest(index: ItemIndex, product_scores: ProductScores, k: int, *, totals_only: bool = False) -> Nearest:
    """Return the candidates of some histories, scored.

    Args:
        index: of the model that made ``product_scores``.
        product_scores: of the histories.
        k: choices that are asked for.
        totals_only: whether no best items are asked for.
    """
    # At least twice as many candidates as choices, because the index is approximate.
    num = min(max(2 * k, index.facts.candidates), product_scores.num_ids)
    searched = _search(index, product_scores, num, totals_only=totals_only)
    ids = _joined([searched, *_unindexed(index, product_scores, num)])
    scores = product_scores.score(ids)
    totals = _log_totals(index, product_scores, ids, scores)
    if product_scores.product.recent is not None:
        # To mix scores with what came lately takes the total of the product alone, which is the first one.
        product_scores = replace(product_scores, base=totals[product_scores.filled])
        scores = product_scores.score(ids)
        totals = _log_totals(index, product_scores, ids, scores)
    return Nearest(index=index, product_scores=product_scores, ids=ids, scores=scores, totals=totals)


def _log_totals(index: ItemIndex, product_scores: ProductScores, ids: Tensor, scores: Tensor) -> Tensor:
    """Return (histories,) logarithms of the sum of exp(scores): of candidates, and of the rest by a sample of it."""
    sampled, ids_per_sample = sampled_rest(index, product_scores, ids)
    # Candidates are summed exactly; each sampled id stands for ids_per_sample others.
    return torch.logaddexp(scores.logsumexp(1), sampled.logsumexp(1) + ids_per_sample.log())


def sampled_rest(index: ItemIndex, product_scores: ProductScores, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return (histories, sample) scores, -inf for candidates, and (histories,) for how many ids each other one stands.

    Args:
        index: whose sample.
        product_scores: of the histories.
        ids: (histories, candidates).
    """
    sampled = product_scores.score_shared(index.sample, index.sample_vectors(product_scores.product))
    seen = product_scores.seen
    scored = _joined([ids, seen]) if seen.shape[1] else ids  # what was seen is no part of the rest either
    hide_(sampled, index.sample, scored)
    num_others = product_scores.num_ids - FIRST - (scored >= FIRST).sum(1)
    return sampled, num_others / (sampled > -torch.inf).sum(1).clamp(min=1)


def _search(
    index: ItemIndex,
    product_scores: ProductScores,
    num: int,
    item_filter: ItemFilter | None = None,
    *,
    totals_only: bool = False,
) -> Tensor:
    """Return (histories, num) ids that the index finds; the most popular ones for histories without events."""
    size = num
    probed = None
    if totals_only:
        size = max(1, num // 2)
        # An estimate of the total needs fewer lists than the best items do.
        probed = max(1, index.facts.probed // PROBED_FOR_TOTALS)
    # faiss reads one bit per item, the lowest bit first.
    bits = None if item_filter is None else np.packbits(item_filter.mask[FIRST:], bitorder="little")
    nearest_ids = index.search(product_scores.product, size, probed=probed, bits=bits)
    if bool(product_scores.filled.all()):
        return nearest_ids
    counts = product_scores.counts
    if item_filter is not None:
        counts = counts * torch.from_numpy(item_filter.mask)
    high, popular_ids = counts.topk(num)
    ids = torch.where(high > 0, popular_ids, PADDING).repeat(len(product_scores.rows), 1)
    ids[product_scores.filled] = torch.nn.functional.pad(nearest_ids, (0, num - size))
    return ids


def _unindexed(index: ItemIndex, product_scores: ProductScores, num: int) -> Iterator[Tensor]:
    """Yield (histories, …) ids beside what the index finds: later ones, what is added to, what came lately."""
    product = product_scores.product
    num_ids = product_scores.num_ids
    filled = product_scores.filled
    first = index.facts.items + FIRST
    if num_ids > first:
        # Items that were added after the index was made are in none of its lists.
        late = torch.arange(first, num_ids).expand(len(filled), -1)
        if num_ids - first > num and bool(filled.any()):
            scores = product_scores.score_shared(late[0], product.rows(late[0]))
            late = late.gather(1, scores.topk(num, dim=1).indices)
        yield late
    if product.cells is not None and len(product.cells[0]):
        target = product.cells[0] // num_ids
        id = product.cells[0] % num_ids
        # Number the cells of each target from 0: position minus the position of its first cell.
        column = torch.arange(len(target)) - torch.searchsorted(target, target)
        padded = torch.zeros(len(product.queries), int(column.max()) + 1, dtype=torch.int64)
        padded[target, column] = id
        ids = torch.zeros(len(filled), padded.shape[1], dtype=torch.int64)
        ids[filled] = padded
        yield ids
    if product.recent is not None:
        high, recent_ids = product.recent[0].topk(num)
        yield recent_ids[high > -torch.inf].expand(len(filled), -1)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Return ids side by side, each once in a row, with padding in place of the others."""
    if len(parts) == 1:
        return parts[0]
    ids = torch.cat(list(parts), dim=1).sort(dim=1).values
    # Rows are sorted, so duplicates are neighbours.
    ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = PADDING
    return ids


def hide_(scores: Tensor, ids: Tensor, hidden: Tensor) -> Tensor:
    """Set scores (rows, ids) of rising ids to -inf, in place, where they are among each row's hidden ones."""
    if len(ids):
        # Look up every hidden id among the sorted ids of the columns.
        index = torch.searchsorted(ids, hidden).clamp(max=len(ids) - 1)
        row, column = (ids[index] == hidden).nonzero(as_tuple=True)
        scores[row, index[row, column]] = -torch.inf
    return scores


def multiplied(state: NextState, windows: Windows, index: Index) -> Product:
    """Return the product behind the scores of some windows, of a model that scores by a product."""
    network = cast(Multiplies, state.network)  # to ask a protocol at every answer takes a tenth of its time
    evaluating(state.network)
    with torch.no_grad():
        return network.product(windows.batch(index).to("cpu"))


def score_candidates(
    state: NextState, exclusion: Exclusion, k: int, histories: Histories, filters: Filters | None, *, index: ItemIndex
) -> HistoryScores:
    """Score candidates of an index after each history, one of which has an event at least.

    Args:
        state: of the predictor.
        exclusion: which items of a history are at -inf.
        k: choices.
        histories: in its vocabulary.
        filters: of each history; ``None`` where no choices are asked for.
        index: of a large catalogue.
    """
    filled, windows, rows, lengths = latest_windows(histories, state.network.reach)
    seen_after_events = seen_ids(histories, histories.offsets[1:][filled] - 1, exclusion)
    seen = np.zeros((len(histories), seen_after_events.shape[1]), np.int64)
    seen[filled] = seen_after_events
    product = multiplied(state, windows, np.arange(len(filled)))
    product_scores = _product_scores(state, product, np.array(rows), seen)
    totals_only = all(item_filter is not None and item_filter.few_ids is not None for item_filter in filters or ())
    num = widened(k, filters or ()) + seen.shape[1]  # what is hidden may be what is found first
    candidates = nearest(index, product_scores, num, totals_only=totals_only)
    best_ids = candidates.ids[:, :0]
    best_scores = candidates.scores[:, :0]
    if filters is not None:
        best_ids, best_scores = candidates.best(k, filters)
    return HistoryScores(
        totals=candidates.totals.numpy(),
        best_ids=best_ids.numpy(),
        best_scores=best_scores.numpy(),
        score_items=lambda ids: candidates.product_scores.score(torch.from_numpy(ids)).numpy(),
        weights=tuple(weight.numpy() for weight in product.weights),
        rows=rows,
        lengths=lengths,
        num_ids=len(state.vocabulary),
    )


def approximate_ranks(
    state: NextState, index: ItemIndex, windows: Windows, group: Index, exclusion: Exclusion
) -> tuple[Floats, Scores, Scores]:
    """Return ranks of targets by an index, the log totals, and the scores of the targets, (targets,) each.

    Among the candidates a rank is exact; a sample of the others says how many of them are ahead.
    """
    product = multiplied(state, windows, group)
    targets = torch.from_numpy(windows.batch(group).targets)[:, None]
    seen = seen_ids(windows.histories, windows.positions(group), exclusion)
    candidates = nearest(index, _product_scores(state, product, np.arange(len(targets)), seen), 1)
    target_scores = candidates.product_scores.score(targets)
    num_ahead = ((candidates.scores >= target_scores) & (candidates.ids != targets)).sum(1).double()
    sampled, ids_per_sample = sampled_rest(index, candidates.product_scores, candidates.ids)
    # Each sampled id that is ahead stands for ids_per_sample ids.
    num_ahead += ((sampled >= target_scores) & (index.sample != targets)).sum(1) * ids_per_sample
    ranks = torch.where(target_scores[:, 0] > -torch.inf, 1 + num_ahead.floor(), metrics.MISS)
    return ranks.numpy(), candidates.totals.numpy(), target_scores[:, 0].numpy()


def _product_scores(state: NextState, product: Product, rows: Index, seen: Index) -> ProductScores:
    """Return the scores of a product, with the popularity of the items."""
    counts = torch.from_numpy(state.counting["popularity"].totals)
    return ProductScores(product=product, rows=torch.from_numpy(rows), counts=counts, seen=torch.from_numpy(seen))


def widened(k: int, filters: Sequence[ItemFilter | None]) -> int:
    """Return the number of choices to search for, so that about ``k`` of them are permitted."""
    fractions = [
        item_filter.num_permitted / len(item_filter.mask)
        for item_filter in filters
        if item_filter is not None and item_filter.few_ids is None
    ]
    return max(k, min(math.ceil(k / min(fractions)), MAX_WIDENED)) if fractions else k


def index_items(state: NextState) -> None:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.index_items`."""
    state.index = None
    state.metadata.index = None
    if not state.is_indexed:
        return
    histories = _measured_histories(state)
    product = multiplied(state, Windows(histories, state.network.reach, last_only=True), np.arange(len(histories)))
    # Cells and recent events are added exactly at answers, so they are not part of the index.
    product = product._replace(cells=None, recent=None)
    seen = np.zeros((len(histories), 0), np.int64)
    product_scores = _product_scores(state, product, np.arange(len(histories)), seen)
    with torch.no_grad():
        state.index = make_index(product, len(state.vocabulary), lambda index: nearest(index, product_scores, 1).totals)
    state.metadata.index = state.index.facts


def _measured_histories(state: NextState) -> Histories:
    """Return trained histories; where none are stored, of one item each, drawn by how often items occur."""
    histories = state.reservoir.draw(QUERIES, 0)
    if len(histories):
        return histories
    totals = state.counting["popularity"].totals.astype(np.float64)
    # Without stored histories, single items by frequency stand in for queries.
    ids = np.random.default_rng(0).choice(len(totals), QUERIES, p=totals / totals.sum())
    return Histories(ids.astype(np.int32), np.arange(QUERIES + 1), state.vocabulary)
