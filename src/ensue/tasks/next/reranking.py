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
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, islice

import numpy as np

from ensue import kernels
from ensue.data.histories import Ids, Index, offsets_of
from ensue.errors import DataError
from ensue.lines import one_line
from ensue.metrics import Floats
from ensue.tasks.next.item_columns import ItemColumns
from ensue.tasks.next.item_similarity import ItemSimilarity
from ensue.topk import Scores

POOL = 10
MIN_POOL = 100
"""Candidates per choice, and in all, at least."""
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

    def positions(self, ids: Index, scores: Scores, session: Ids, k: int) -> list[int]:
        """Return the positions of the chosen candidates, at most ``k``, best first.

        Args:
            ids: (candidates,) ids, best first.
            scores: (candidates,) scores, -inf beyond those that are permitted.
            session: (events,) ids of the session.
            k: number of items.
        """
        # Scores fall, so the permitted candidates come first.
        ids = ids[: np.count_nonzero(scores > -np.inf)]
        if not self.weight:  # the order of the candidates is that of their scores
            counts = defaultdict[tuple[int, str], int](int)
            in_order = (position for position, id in enumerate(ids.tolist()) if self._takes(id, counts))
            return [*islice(in_order, k)]
        scores = scores[: len(ids)].astype(np.float64)
        high, low = (scores[0], scores[-1]) if len(scores) else (0.0, 0.0)
        # Scale scores to [0, 1], so that the weight means the same for every session.
        relevance = (scores - low) * ((1 - self.weight) / max(high - low, 1e-12))
        if self.similarity is not None and kernels.is_loaded():
            return self.similarity.diversify(ids, relevance, self.weight, k, self._kinds(ids))
        return self._selected(ids, relevance, session, k)

    def _kinds(self, ids: Index) -> dict[str, Index]:
        """Return the limited values of some candidates, by fields of the kernel ``diversify``."""
        if not self.caps:
            return {}
        marks = [self._marks(id) for id in ids.tolist()]
        numbers = {mark: number for number, mark in enumerate(dict.fromkeys(chain.from_iterable(marks)))}
        fields = {
            "mark_stops": offsets_of([len(each) for each in marks]),
            "marks": [numbers[mark] for mark in chain.from_iterable(marks)],
            # A limit of more than there are candidates is none.
            "limits": [min(self.caps[column][1], len(ids)) for column, _ in numbers],
        }
        return {name: np.array(values, np.int64) for name, values in fields.items()}

    def _selected(self, ids: Index, relevance: Floats, session: Ids, k: int) -> list[int]:
        """Return the positions of at most ``k`` chosen candidates.

        Args:
            ids: (candidates,) ids, best first.
            relevance: (candidates,) times 1 - w.
            session: (events,) ids of the session.
            k: number of items.
        """
        counts = defaultdict[tuple[int, str], int](int)
        similarity = self.similarity.of_all(ids, ids) if self.similarity is not None else None
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
            closed.append(best)
            values[best] = -np.inf
            if self.caps and not self._takes(int(ids[best]), counts):
                continue
            selected.append(best)
            if len(selected) == k:
                break
            if similarity is not None:
                # The smallest value is the one by the highest similarity to any selected item.
                values = np.minimum(values, relevance - self.weight * similarity[best])
            if len(p):
                total = total + fractions[best]
        return selected

    def _marks(self, id: int) -> list[tuple[int, str]]:
        """Return the limited columns, by number, with each value that an item has there."""
        return [(column, value) for column, (cells, _) in enumerate(self.caps) for value in cells.get(id, ())]

    def _takes(self, id: int, counts: defaultdict[tuple[int, str], int]) -> bool:
        """Return whether an item stays within the limits of its values, and count these if it does."""
        marks = self._marks(id)
        if any(counts[mark] >= self.caps[mark[0]][1] for mark in marks):
            return False
        for mark in marks:
            counts[mark] += 1
        return True

    def _fractions(self, ids: Index, session: Ids) -> tuple[Floats, Floats]:
        """Return (values,) fractions among the items of the session, and (candidates, values) those of each item."""
        in_session = chain.from_iterable(self.values.get(id, ()) for id in session.tolist())
        number = {value: column for column, value in enumerate(dict.fromkeys(in_session))}
        if not number:
            return np.zeros(0), np.zeros((len(ids), 0))
        all_ids = np.concatenate([session, ids])
        fractions = np.zeros((len(all_ids), len(number)))
        for row, id in enumerate(all_ids.tolist()):
            values = self.values.get(id, [])
            # An item with several values counts once in all; values that the session lacks are ignored.
            for value in number.keys() & values:
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
            selected = reranker.positions(ids[row], scores[row], sessions[row], k)
            best_scores[row] = -np.inf
            best_ids[row, : len(selected)] = ids[row, selected]
            best_scores[row, : len(selected)] = scores[row, selected]
    return best_ids, best_scores
