"""Re-ranking of the best items of a session: at most n per value of a column, and more diversity.

With a weight w, and the relevance of an item from 0 to 1 (its score, scaled to the candidates), each method chooses
one item after another, the one of the highest

===========================  ===================================================================================
``mmr=w``                    (1 - w) relevance - w (highest similarity to an item that was chosen before): maximal
                             marginal relevance (Carbonell & Goldstein, SIGIR 1998)
``calibrated:COLUMN=w``      (1 - w) relevance - w KL(p || q): p are the fractions of the column's values among the
                             items of the session, q those among the chosen items, smoothed by p (Steck, RecSys 2018)
===========================  ===================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from ensue.data.histories import Ids, Index
from ensue.errors import DataError
from ensue.lines import one_line
from ensue.metrics import Floats
from ensue.tasks.next.batch import Scores
from ensue.tasks.next.item_columns import ItemColumns
from ensue.tasks.next.item_similarity import ItemSimilarity

POOL = 10
MIN_POOL = 100
"""Candidates per choice, and in all, at least."""
MMR_POOL = 4
"""Candidates per choice that ``mmr`` compares first; all others only if one of these could be chosen."""
SMOOTHING = 0.01
"""Weight of p in q, so that KL is finite where no chosen item has a value."""
_DIVERSIFY = re.compile(r"(?:(mmr)|calibrated:(.+))=(0(?:\.\d+)?|1(?:\.0+)?|\.\d+)")


class Reranker:
    """Selection of the items of an answer among candidates.

    Args:
        max_per: columns, each with the number of items that an answer may have of one of its values.
        diversify: a method as in the module, or nothing.
        columns: of the item table, where the others name any.
        similarity: of items, for ``mmr``.

    Raises:
        DataError: the method is not known, there is no such column, or no whole number from 1.
    """

    def __init__(
        self,
        max_per: Sequence[tuple[str, int]],
        diversify: str,
        columns: ItemColumns | None,
        similarity: ItemSimilarity | None,
    ) -> None:
        self.caps: list[tuple[Mapping[int, Sequence[str]], int]] = []
        for name, limit in max_per:
            if limit < 1:
                raise DataError(f"max_per {one_line(name)}={limit}: give a whole number from 1")
            assert columns is not None
            self.caps.append((columns.values_by_id(columns.require(name, "max_per")), limit))
        match = _DIVERSIFY.fullmatch(diversify)
        if diversify and match is None:
            raise DataError(
                f"diversify {one_line(diversify, 60)}: write mmr=0.3 or calibrated:COLUMN=0.3, a weight from 0 to 1"
            )
        self.weight = float(match[3]) if match else 0.0
        self.similarity = similarity
        self.values: Mapping[int, Sequence[str]] = {}
        if match and match[2]:
            assert columns is not None
            self.values = columns.values_by_id(columns.require(match[2], "diversify"))

    def positions(self, ids: Index, scores: Floats, session: Ids, k: int) -> list[int]:
        """Return the positions of the chosen candidates, at most ``k``, best first.

        Args:
            ids: (candidates,) ids, best first.
            scores: (candidates,) finite scores.
            session: (events,) ids of the session.
            k: number of items.
        """
        if not self.weight:  # the order of the candidates is that of their scores
            counts: list[dict[str, int]] = [{} for _ in self.caps]
            in_order = (position for position, id in enumerate(ids.tolist()) if self._takes(id, counts))
            return [*islice(in_order, k)]
        low, high = (scores.min(), scores.max()) if len(scores) else (0.0, 0.0)
        # Scale scores to [0, 1], so that the weight means the same for every session.
        relevance = (1 - self.weight) * (scores - low) / max(high - low, 1e-12)
        first = MMR_POOL * k
        if self.similarity is not None and first < len(ids):
            selected = self._selected(ids[:first], relevance[:first], session, k, float(relevance[first]))
            if len(selected) == k:
                return selected
        return self._selected(ids, relevance, session, k)

    def _selected(self, ids: Index, relevance: Floats, session: Ids, k: int, min_value: float = -np.inf) -> list[int]:
        """Return the positions of at most ``k`` chosen candidates; fewer where the next one's value is too low.

        Args:
            ids: (candidates,) ids, best first.
            relevance: (candidates,) times 1 - w.
            session: (events,) ids of the session.
            k: number of items.
            min_value: of a candidate that is chosen. Values never exceed the relevance, so with the relevance of the
                best other item, no other item would be chosen instead.
        """
        counts: list[dict[str, int]] = [{} for _ in self.caps]
        similarity = self.similarity.among(ids) if self.similarity is not None else None
        p, fractions = self._fractions(ids, session)
        selected: list[int] = []
        values = relevance.copy()
        total = np.zeros(len(p))
        closed: list[int] = []
        while len(closed) < len(ids):
            if len(p):
                # (candidates, values) of the column, were each candidate added to the chosen items
                q = (1 - SMOOTHING) * (total + fractions) / (len(selected) + 1) + SMOOTHING * p
                values = relevance - self.weight * (p * np.log(p / q)).sum(1)
                values[closed] = -np.inf
            best = int(values.argmax())
            if values[best] < min_value:
                break
            closed.append(best)
            values[best] = -np.inf
            if self.caps and not self._takes(int(ids[best]), counts):
                continue
            selected.append(best)
            if len(selected) == k:
                break
            if similarity is not None:
                # The smallest value is the one by the highest similarity to any selected item.
                penalty = similarity(best)
                np.multiply(penalty, self.weight, out=penalty)
                np.minimum(values, np.subtract(relevance, penalty, out=penalty), out=values)
            if len(p):
                total = total + fractions[best]
        return selected

    def _takes(self, id: int, counts: Sequence[dict[str, int]]) -> bool:
        """Return whether an item stays within the limits of its values, and count these if it does."""
        for count, (cells, cap) in zip(counts, self.caps, strict=True):
            for value in cells.get(id, ()):
                if count.get(value, 0) >= cap:
                    return False
        for count, (cells, _) in zip(counts, self.caps, strict=True):
            for value in cells.get(id, ()):
                count[value] = count.get(value, 0) + 1
        return True

    def _fractions(self, ids: Index, session: Ids) -> tuple[Floats, Floats]:
        """Return (values,) fractions among the items of the session, and (candidates, values) those of each item."""
        number: dict[str, int] = {}
        for id in session.tolist() if self.values else ():
            for value in self.values.get(id, []):
                number.setdefault(value, len(number))
        if not number:
            return np.zeros(0), np.zeros((len(ids), 0))
        all_ids = np.concatenate([session, ids])
        fractions = np.zeros((len(all_ids), len(number)))
        for row, id in enumerate(all_ids.tolist()):
            values = self.values.get(id, [])
            for value in values:
                if value in number:
                    # An item with several values counts once in all; values that the session lacks are ignored.
                    fractions[row, number[value]] = 1 / len(values)
        of_session = fractions[: len(session)].sum(0)
        return of_session / of_session.sum(), fractions[len(session) :]


def rerank(
    ids: Index, scores: Scores, rerankers: Sequence[Reranker | None], sessions: Sequence[Ids], k: int
) -> tuple[Index, Scores]:
    """Return the ids and scores of the chosen candidates of each session, (sessions, k); -inf beyond.

    Args:
        ids: (sessions, candidates) best first.
        scores: (sessions, candidates), -inf beyond those that are permitted.
        rerankers: of each session.
        sessions: the ids of the events of each.
        k: number of items.
    """
    best_ids = ids[:, :k].copy()
    best_scores = scores[:, :k].copy()
    for row, reranker in enumerate(rerankers):
        if reranker is not None:
            # Scores fall, so the permitted candidates come first.
            num_permitted = int(np.count_nonzero(scores[row] > -np.inf))
            candidates = ids[row, :num_permitted]
            selected = reranker.positions(candidates, scores[row, :num_permitted].astype(np.float64), sessions[row], k)
            best_scores[row] = -np.inf
            best_ids[row, : len(selected)] = candidates[selected]
            best_scores[row, : len(selected)] = scores[row, selected]
    return best_ids, best_scores
