"""Baselines that rank items without training events, reported next to a model with an item table.

=======================  ===========================================================================================
nearest by features      the mean score that the model gives to the ``NEIGHBOURS`` trained items with the most similar
                         features
popularity               how often each new item came in the test data so far, whatever the session
=======================  ===========================================================================================

Both add one number to the scores of all new items: the one at which trained targets have the HR@k that they have with
the model. So the baselines differ from the model in which new items they show, not in how many trained items make room
for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.lazy import torch
from ensue.metrics import Floats
from ensue.tasks.next.dataset import Windows, hide_seen
from ensue.tasks.next.infer import CELLS, MIN_SCORED
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.training_data import Exclusion
from ensue.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from torch import Tensor

NEAREST = "nearest features"
POPULARITY = "popularity"
NEIGHBOURS = 10
"""Trained items whose scores are averaged, weighted by similarity."""
_LOWEST = -1e9
"""In place of -inf in a product, where 0 times infinity is no number."""
_MAX_OFFSET = 1e3
"""Largest addition to the scores of new items."""
_ROWS = 256
"""New items that are compared with the trained ones at once."""


class NewItemBaselines:
    """Ranks of targets by baselines that score new items.

    Args:
        predictor: a network with an item table.
        data: test data, encoded in its vocabulary.
        exclusion: which events of a session are ruled out.
    """

    def __init__(self, predictor: NextPredictor, data: Histories, exclusion: Exclusion) -> None:
        assert predictor.known_items is not None
        self.predictor = predictor
        self.data = data
        self.exclusion = exclusion
        item_ids = torch.from_numpy(predictor.vocabulary.ids(predictor.known_items.items.ids.to_list())).long()
        is_new = torch.from_numpy(predictor.counting["popularity"].totals)[item_ids] == 0
        self.new_ids = item_ids[is_new]
        self.trained_ids = item_ids[~is_new]
        self.neighbours = self._neighbours()
        self.column = torch.full((len(predictor.vocabulary),), -1)
        """(ids,) the column of each new item in its scores, -1 for other ids."""
        # Inverse of new_ids: from an id to its column.
        self.column[self.new_ids] = torch.arange(len(self.new_ids))
        self.names = (NEAREST, POPULARITY) if data.timed else (NEAREST,)

    def ranks(self, model_ranks: Floats, k: int) -> dict[str, Floats]:
        """Return the rank of each event by each baseline, (events,); ``metrics.MISS`` where it has none.

        Args:
            model_ranks: (events,) ranks by the model.
            k: cutoff of the hit rate of trained targets, which each baseline has in common with the model.
        """
        is_trained = self.column.numpy()[self.data.ids] < 0
        # Every baseline gets the hit rate of the model on trained items, so they differ only on new ones.
        num_hits = int((is_trained & (model_ranks <= k)).sum())
        limits: dict[str, list[Tensor]] = {name: [] for name in self.names}
        # First pass: the offset at which each trained target would leave the top k.
        for _, targets, old_scores, new_scores in self._scores():
            for name in self.names:
                limits[name].append(self._limits(targets, old_scores, new_scores[name], k))
        offsets = {name: _offset(torch.cat(chunks), num_hits) for name, chunks in limits.items()}
        ranks = {name: np.full(len(self.data.ids), metrics.MISS) for name in self.names}
        # Second pass: ranks with the offset. Scores are computed again, as storing them takes (events, ids) numbers.
        for events, targets, old_scores, new_scores in self._scores():
            for name in self.names:
                scores = old_scores.index_copy(1, self.new_ids, new_scores[name] + offsets[name])
                is_shown = scores.gather(1, targets[:, None])[:, 0] > -torch.inf
                of_targets = metrics.ranks(scores.numpy(), targets.numpy())
                ranks[name][events] = np.where(is_shown.numpy(), of_targets, metrics.MISS)
        return ranks

    def _scores(self) -> Iterator[tuple[Index, Tensor, Tensor, dict[str, Tensor]]]:
        """Yield events, their ids, (targets, ids) scores without new items, and (targets, new items) by baseline."""
        in_vocabulary = self.data.ids != UNKNOWN
        known_events = self.data.keep(in_vocabulary)
        events = np.flatnonzero(in_vocabulary)
        windows = Windows(known_events, self.predictor.network.reach)
        column = self.column.numpy()[self.data.ids]
        counts = _RunningCounts(self.data, column, len(self.new_ids)) if self.data.timed else None
        for group in windows.groups(max(1, CELLS // max(len(self.predictor.vocabulary), MIN_SCORED))):
            positions = windows.positions(group)
            scored, target_ids = self.predictor.scores(windows, group)
            scores = torch.from_numpy(scored.scores)
            targets = torch.from_numpy(target_ids)
            # Score of a new item = weighted mean of the scores of its nearest trained items.
            new_scores = {NEAREST: scores[:, self.trained_ids].clamp(min=_LOWEST) @ self.neighbours.T}
            if counts is not None:
                new_scores[POPULARITY] = counts.before(self.data.times[events[positions + 1]]).add(0.1).log()
            old_scores = torch.from_numpy(hide_seen(scored.scores, known_events, positions, self.exclusion))
            # Items of the session that the rule excludes are excluded for the baselines too.
            is_hidden = old_scores[:, self.new_ids] == -torch.inf
            new_scores = {name: added.masked_fill(is_hidden, -torch.inf) for name, added in new_scores.items()}
            yield events[positions + 1], targets, old_scores.index_fill(1, self.new_ids, -torch.inf), new_scores

    def _limits(self, targets: Tensor, old_scores: Tensor, new_scores: Tensor, k: int) -> Tensor:
        """Return the largest offset at which each trained target in the top k stays there, (such targets,)."""
        is_trained = self.column[targets] < 0
        targets = targets[is_trained]
        old_scores = old_scores[is_trained]
        new_scores = new_scores[is_trained]
        ranks = torch.from_numpy(metrics.ranks(old_scores.numpy(), targets.numpy()))
        in_top = (ranks <= k) & (old_scores.gather(1, targets[:, None])[:, 0] > -torch.inf)
        highest = new_scores[in_top].topk(min(k, new_scores.shape[1]), dim=1).values
        # A target at rank r leaves the top k when k - r + 1 new items are ahead; columns count from 0.
        column = k - ranks[in_top].long()
        displacing = highest.gather(1, column.clamp(max=highest.shape[1] - 1)[:, None])[:, 0]
        target_scores = old_scores[in_top].gather(1, targets[in_top][:, None])[:, 0]
        return torch.where(column < highest.shape[1], target_scores - displacing, torch.inf)

    def _neighbours(self) -> Tensor:
        """Return the weight of each trained item in the score of each new one, (new items, trained items)."""
        similarity = self.predictor.item_similarity()
        trained_ids = self.trained_ids.numpy()
        matrix = torch.zeros(len(self.new_ids), len(trained_ids))
        for low in range(0, len(self.new_ids), _ROWS):
            chunk = slice(low, low + _ROWS)
            similarities = torch.from_numpy(similarity.of_all(self.new_ids[chunk].numpy(), trained_ids)).float()
            highest, index = similarities.topk(min(NEIGHBOURS, len(trained_ids)), dim=1)
            fractions = highest.clamp(min=1e-6)
            # Scatter the normalised similarities of the nearest items to their columns.
            matrix[chunk] = matrix[chunk].scatter(1, index, fractions / fractions.sum(1, keepdim=True))
        return matrix


class _RunningCounts:
    """The number of events of each new item before a time.

    Args:
        data: test data with times.
        column: (events,) the column of the event's item, -1 where it is not new.
        num_columns: number of new items.
    """

    def __init__(self, data: Histories, column: Index, num_columns: int) -> None:
        self.num_columns = num_columns
        self.times = np.unique(data.times)
        # One key per event, in order of the item and then of the time, so that two searches count a range.
        self.keys = np.sort(self._keys(column, data.times)[column >= 0])

    def _keys(self, column: Index, times: Floats) -> Index:
        return column * (len(self.times) + 1) + np.searchsorted(self.times, times)

    def before(self, times: Floats) -> Tensor:
        """Return (times, new items) counts of events before each time."""
        columns = np.arange(self.num_columns)
        # Position of the first key of each item.
        first = np.searchsorted(self.keys, columns * (len(self.times) + 1))
        return torch.from_numpy(np.searchsorted(self.keys, self._keys(columns, times[:, None])) - first).float()


def _offset(limits: Tensor, num_hits: int) -> float:
    """Return the largest offset at which so many trained targets stay in the top k.

    Args:
        limits: (trained targets in the top k,) the largest offset at which each stays.
        num_hits: of the trained targets.
    """
    if num_hits > len(limits) or not len(limits):
        return -_MAX_OFFSET
    # Exactly the targets with a limit above the offset stay, so the num_hits-th highest limit decides.
    falling = limits.sort(descending=True).values
    # Ties count against the target, so the offset stays below the limit.
    return float((falling[max(num_hits - 1, 0)] - 1e-4).clamp(-_MAX_OFFSET, _MAX_OFFSET))
