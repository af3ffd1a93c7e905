"""Which values a request lets be answers: all but some, or some alone. Probabilities stay those of all values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from ensue.nn.topk import topk
from ensue.records import History
from ensue.tasks.next.own_unknown import OwnUnknown
from ensue.vocabulary import FIRST, Vocabulary


class Permitted(NamedTuple):
    """The lists of one request.

    Attributes:
        excluded: values that are no answer.
        allowed: the only ones that are, if given.
        out: (ids,) of the first that the model knows.
        inside: (ids,) of the second that it knows, without the first.
    """

    excluded: frozenset[str]
    allowed: frozenset[str] | None
    out: Tensor
    inside: Tensor | None

    @classmethod
    def of(cls, exclude: Collection[str], allow: Collection[str] | None, vocabulary: Vocabulary) -> Self | None:
        """The lists in ids; ``None`` where everything is permitted."""
        if not exclude and allow is None:
            return None
        excluded, allowed = frozenset(exclude), None if allow is None else frozenset(allow)
        inside = None if allowed is None else _known(allowed - excluded, vocabulary)
        return cls(excluded, allowed, _known(excluded, vocabulary), inside)

    def __contains__(self, value: object) -> bool:
        """Whether a value may be an answer."""
        return value not in self.excluded and (self.allowed is None or value in self.allowed)

    def best(self, scores: Tensor, k: int, records: Sequence[History], own: OwnUnknown | None) -> tuple[Tensor, Tensor]:
        """The ``k`` highest permitted scores of each row and their columns; what is ruled out comes last, at -inf.

        Args:
            scores: (records, ids and values of the records' own).
            k: how many.
            records: the questions.
            own: the values of their own behind the ids, if there are any.
        """
        shown = scores
        if own is not None and (hidden := self.hidden(records, own)).any():
            ids = scores.shape[1] - hidden.shape[1]
            shown = torch.cat([scores[:, :ids], scores[:, ids:].masked_fill(hidden, -torch.inf)], dim=1)
        if self.inside is None:
            return topk(shown.index_fill(1, self.out, -torch.inf), k)
        width = 0 if own is None else own.places.shape[1]
        columns = torch.cat([self.inside, torch.arange(shown.shape[1] - width, shown.shape[1])])
        best, places = topk(shown[:, columns], k)
        return best, columns[places]

    def hidden(self, records: Sequence[History], own: OwnUnknown) -> Tensor:
        """(records, columns) which values that only a record knows are not permitted."""
        hidden = torch.zeros(own.places.shape, dtype=torch.bool)
        for row, column in (own.places >= 0).nonzero().tolist():
            hidden[row, column] = records[row].values[own.places[row, column]] not in self
        return hidden


def best_of_all(
    scores: Tensor, k: int, lists: Sequence[Permitted | None], records: Sequence[History], own: OwnUnknown | None
) -> tuple[Tensor, Tensor]:
    """As :meth:`Permitted.best`, each record by the list of its own; rows with fewer are filled up at -inf.

    Args:
        scores: (records, ids and values of the records' own).
        k: how many.
        lists: of each record, ``None`` where everything is permitted.
        records: the questions.
        own: the values of their own behind the ids, if there are any.
    """
    if all(one is lists[0] for one in lists):  # a request has one for all its records
        return lists[0].best(scores, k, records, own) if lists and lists[0] else topk(scores, k)
    best, columns = scores.new_full((len(scores), k), -torch.inf), torch.zeros(len(scores), k, dtype=torch.int64)
    for rows, one in by_list(lists):
        some, theirs = [records[row] for row in rows.tolist()], None if own is None else own.of_rows(rows.numpy())
        found = one.best(scores[rows], k, some, theirs) if one else topk(scores[rows], k)
        width = found[0].shape[1]
        best[rows, :width], columns[rows, :width] = found
    return best, columns


def by_list(lists: Sequence[Permitted | None]) -> Iterator[tuple[Tensor, Permitted | None]]:
    """The rows of each of the lists, and that."""
    rows: dict[int, list[int]] = {}
    for row, one in enumerate(lists):
        rows.setdefault(id(one), []).append(row)
    for some in rows.values():
        yield torch.tensor(some), lists[some[0]]


def _known(values: Collection[str], vocabulary: Vocabulary) -> Tensor:
    ids = torch.from_numpy(vocabulary.ids(sorted(values)).astype("int64"))
    return ids[ids >= FIRST]
