"""Ranks of targets in lists that are re-ranked by the rules of a request."""

from __future__ import annotations

import numpy as np

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.metrics import Floats
from ensue.tasks.next.item_filter import Rules
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.reranking import MIN_POOL, POOL
from ensue.topk import Scores, topk


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
            ids = candidates[:num_permitted]
            session = self._data.ids[self._starts[event] : event]
            chosen = self._reranker.positions(ids, values[:num_permitted].astype(np.float64), session, k)
            self.lists[event, : len(chosen)] = ids[chosen]
            (position,) = np.flatnonzero(ids == self._data.ids[event])[:1].tolist() or [num_permitted]
            self._places[event] = 1 + chosen.index(position) if position in chosen else 0
            self._num_behind[event] = sum(other > position for other in chosen)
            is_candidate = position < num_permitted
            self._never[event] = self._has_limits and is_candidate and len(chosen) < k and position not in chosen

    def ranks(self, ranks: Floats) -> Floats:
        """Return (events,) the rank of each target in its list, or behind it, by its rank among all items."""
        behind = np.where(self._never, metrics.MISS, ranks + self._num_behind)
        return np.where(self._places > 0, self._places, behind)
