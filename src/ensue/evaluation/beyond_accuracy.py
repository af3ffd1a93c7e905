"""Metrics of recommended lists beyond accuracy, by the formulas of RecTools; the Gini index is that of RecBole.

==================  ================================================================================================
``coverage@k``      fraction of the catalogue that is in any list
``gini@k``          inequality of how often items are in lists: 0 where all are equally often, 1 where one is alone
``novelty@k``       mean of -log2(fraction of the training sessions with the item), in bits; an item without events
                    counts as one of one session
``serendipity@k``   mean over the items of a list of how far the rank of a relevant one is above its rank by
                    popularity, both as fractions of the catalogue; 0 for others
``diversity@k``     mean of 1 - similarity over the pairs of a list (:mod:`ensue.tasks.next.item_similarity`)
``popularity@k``    mean number of training events of an item
==================  ================================================================================================

Novelty takes the training events of an item for its sessions, at most all of them: sessions repeat few items.

Ranks of targets in lists that are re-ranked by the rules of a request.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ensue import metrics
from ensue.data.histories import Histories, Ids, Index, Mask
from ensue.metrics import Floats
from ensue.tasks.next.item_filter import Rules
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.reranking import MIN_POOL, POOL
from ensue.topk import Scores, topk
from ensue.vocabulary import FIRST


class RerankedItems:
    """The lists of ``k`` items that rules choose at each target, which are filled in while targets are ranked.

    Args:
        predictor: the model.
        rules: with a limit per value, or a method of diversity.
        data: in the ids of its vocabulary; the session of a target is what precedes it in its sequence.
        k: number of items.

    Raises:
        DataError: the model has no such column.
    """

    def __init__(self, predictor: NextPredictor, rules: Rules, data: Histories, k: int) -> None:
        (item_filter,) = predictor.filters_of([rules])
        assert item_filter is not None
        assert item_filter.reranker is not None
        self._reranker = item_filter.reranker
        self._has_limits = bool(rules.max_per)
        self._data = data
        self._starts = data.offsets[:-1][data.sequence_index()]
        self.lists = np.zeros((len(data.ids), k), np.int64)
        """(events, k) best first; 0 beyond the last one."""
        self._places = np.zeros(len(data.ids), np.int64)
        """(events,) place of the target in its list from 1; 0 where it is not on it."""
        self._num_behind = np.zeros(len(data.ids), np.int64)
        """(events,) items of the list that have a lower score than the target."""
        self._never = np.zeros(len(data.ids), np.bool_)
        """(events,) whether a limit leaves the target out of the list, however long it is."""

    def fill(self, events: Index, scores: Scores) -> None:
        """Choose the lists of some events by their (events, ids) scores."""
        k = self.lists.shape[1]
        # As many candidates as predict takes.
        pool_scores, pool = topk(scores, max(POOL * k, MIN_POOL))
        for event, candidates, values in zip(events.tolist(), pool, pool_scores, strict=True):
            num_permitted = int(np.count_nonzero(values > -np.inf))
            session = self._data.ids[self._starts[event] : event]
            positions = self._reranker.positions(candidates, values, session, k)
            self.lists[event, : len(positions)] = candidates[positions]
            is_target = candidates[:num_permitted] == self._data.ids[event]
            (position,) = np.flatnonzero(is_target)[:1].tolist() or [num_permitted]
            self._places[event] = 1 + positions.index(position) if position in positions else 0
            self._num_behind[event] = sum(other > position for other in positions)
            is_candidate = position < num_permitted
            self._never[event] = self._has_limits and is_candidate and len(positions) < k and position not in positions

    def ranks(self, ranks: Floats) -> Floats:
        """Return (events,) the rank of each target in its list, or behind it, by its rank among all items."""
        behind = np.where(self._never, metrics.MISS, ranks + self._num_behind)
        return np.where(self._places > 0, self._places, behind)


MAX_DIVERSITY = 2_000
"""Lists whose pairs are compared, at most: evenly spaced ones."""


def list_metrics(lists: Index, targets: Index, predictor: NextPredictor) -> dict[str, float]:
    """Return the metrics of lists.

    Args:
        lists: (lists, k) ids, best first; 0 beyond the last one.
        targets: (lists,) ids of the relevant items.
        predictor: whose catalogue and training data the lists are of.
    """
    k = lists.shape[1]
    counts = np.asarray(predictor.counting["popularity"].totals, dtype=np.float64)
    num_items = len(counts) - FIRST
    is_item = lists >= FIRST
    num_listed = np.bincount(lists[is_item], minlength=len(counts))[FIRST:]
    num_sessions = max(predictor.metadata.sequences, 1)
    # Clipped at one session, as RecTools does for items without events.
    novelty = -np.log2((counts.clip(1, num_sessions) / num_sessions)[lists])
    # Equal counts share a rank by popularity; items without events have none, and no chance by popularity.
    distinct = np.unique(-counts[counts > 0])
    chance = np.where(counts > 0, (num_items - np.searchsorted(distinct, -counts)) / num_items, 0.0)
    # Ranks in a list count from 1, so the first item has the fraction 1.
    gain = ((num_items - np.arange(k)) / num_items - chance[lists]).clip(min=0)
    # The i-th smallest of n numbers of lists has the weight 2 i - n - 1.
    weights = 2 * np.arange(1, num_items + 1) - num_items - 1
    return {
        f"coverage@{k}": float((num_listed > 0).mean()),
        f"gini@{k}": float(weights @ np.sort(num_listed) / (num_items * num_listed.sum())),
        f"novelty@{k}": _mean_of_lists(novelty, is_item),
        f"serendipity@{k}": _mean_of_lists(gain * (lists == targets[:, None]), is_item),
        f"diversity@{k}": _diversity(lists, predictor),
        f"popularity@{k}": _mean_of_lists(counts[lists], is_item),
    }


def _mean_of_lists(values: Floats, is_item: Mask) -> float:
    """Return the mean over lists of the (lists, k) values of their items."""
    return float(((values * is_item).sum(1) / is_item.sum(1).clip(min=1)).mean())


def _diversity(lists: Index, predictor: NextPredictor) -> float:
    """Return the mean over lists of the mean distance of two items; 0 for a list of one."""
    rows = np.unique(np.linspace(0, len(lists) - 1, min(len(lists), MAX_DIVERSITY)).astype(np.int64))
    first, second = np.array([*combinations(range(lists.shape[1]), 2)], np.int64).reshape(-1, 2).T
    pairs = lists[rows][:, first], lists[rows][:, second]
    is_pair = (pairs[0] >= FIRST) & (pairs[1] >= FIRST)
    similarity = predictor.item_similarity().of_pairs(pairs[0].ravel(), pairs[1].ravel()).reshape(is_pair.shape)
    return _mean_of_lists(1 - similarity, is_pair)


def is_popular(ids: Ids, predictor: NextPredictor) -> Mask:
    """Return whether each id is one of the most popular items, which have half of all training events together."""
    counts = np.asarray(predictor.counting["popularity"].totals, dtype=np.float64)
    order = np.argsort(-counts, kind="stable")
    # An item is popular where those before it do not have half of the events yet.
    counts_above = np.cumsum(counts[order]) - counts[order]
    popular = np.zeros(len(counts), np.bool_)
    popular[order] = (counts_above < counts.sum() / 2) & (counts[order] > 0)
    return popular[ids]
