"""Which values a request lets be answers: all but some, or some alone. Probabilities stay those of all values."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.nn.topk import topk
from ensue.records import History
from ensue.tasks.next.own_unknown import OwnUnknown
from ensue.vocabulary import FIRST, Vocabulary

FEW = 8192
"""So many permitted values are all scored: to search takes longer."""
NARROW = 20
"""An allow list of fewer than one in so many values: what is best of all is hardly ever on it."""
KEPT, KEPT_VALUES, WORTH = 64, 2**20, 256
"""Lists that are kept, how many values they have together at most, and each at least."""


@dataclass(frozen=True, eq=False)
class Permitted:
    """The lists of one request.

    Attributes:
        excluded: values that are no answer.
        allowed: the only ones that are, if given.
        vocabulary: of the model.
    """

    excluded: frozenset[str]
    allowed: frozenset[str] | None
    vocabulary: Vocabulary = field(repr=False)

    @classmethod
    def of(cls, exclude: Collection[str], allow: Collection[str] | None, vocabulary: Vocabulary) -> Permitted | None:
        """The lists in ids; ``None`` where everything is permitted."""
        if not exclude and allow is None:
            return None
        return cls(frozenset(exclude), None if allow is None else frozenset(allow), vocabulary)

    def __contains__(self, value: object) -> bool:
        """Whether a value may be an answer."""
        return value not in self.excluded and (self.allowed is None or value in self.allowed)

    def __len__(self) -> int:
        """Values on the lists."""
        return len(self.excluded) + len(self.allowed or ())

    def __bool__(self) -> bool:
        """Whether there are lists, empty ones too."""
        return True

    @cached_property
    def out(self) -> Tensor:
        """(ids,) of what is excluded, as far as the model knows it; rising."""
        return torch.from_numpy(self.vocabulary.known(self.excluded))

    @cached_property
    def inside(self) -> Tensor | None:
        """(ids,) of what is allowed and not excluded, rising; ``None`` where all is allowed."""
        if self.allowed is None:
            return None
        return torch.from_numpy(self.vocabulary.known(self.allowed - self.excluded))

    @property
    def few(self) -> Tensor | None:
        """(ids,) all that is permitted, where that is a short list."""
        return self.inside if self.allowed is not None and len(self.allowed) <= FEW else None

    @property
    def narrow(self) -> bool:
        """Whether so little is allowed that the best of the whole catalogue are no use."""
        return self.allowed is not None and NARROW * len(self.allowed) <= max(len(self.vocabulary), NARROW * FEW)

    @cached_property
    def bits(self) -> npt.NDArray[np.uint8]:
        """Which values are permitted, by their ids from ``FIRST`` on: eight a byte, the first lowest."""
        permitted = np.ones(len(self.vocabulary), np.bool_)
        if self.inside is None:
            permitted[self.out] = False
        else:
            permitted[:] = False
            permitted[self.inside] = True
        return np.packbits(permitted[FIRST:], bitorder="little")

    @property
    def every(self) -> Tensor:
        """(ids,) all that is permitted, rising."""
        values = np.unpackbits(self.bits, count=len(self.vocabulary) - FIRST, bitorder="little")
        return torch.from_numpy(values.nonzero()[0] + FIRST)

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


class KeptLists:
    """The longer lists that requests had lately, so that lists that come again are looked up once."""

    def __init__(self) -> None:
        self._lists: dict[tuple[int, ...], Permitted] = {}
        self._values = 0
        self._change = threading.Lock()

    def of(self, exclude: Collection[str], allow: Collection[str] | None, vocabulary: Vocabulary) -> Permitted | None:
        """As :meth:`Permitted.of`. Sizes and hashes of 64 bits, which no client can foresee, stand for the contents."""
        if len(exclude) + len(allow or ()) < WORTH:
            return Permitted.of(exclude, allow, vocabulary)
        key = (*_contents(exclude), *((-1, 0) if allow is None else _contents(allow)), len(vocabulary))
        with self._change:
            found = self._lists.pop(key, None)
            if found is None:
                found = Permitted.of(exclude, allow, vocabulary)
                assert found is not None
                self._values += len(found)
            self._lists[key] = found  # the latest is the last
            while len(self._lists) > 1 and (len(self._lists) > KEPT or self._values > KEPT_VALUES):
                self._values -= len(self._lists.pop(next(iter(self._lists))))
        return found


def _contents(values: Collection[str]) -> tuple[int, int]:
    """How many values there are, and a hash of them as they stand; one text is hashed faster than a set is made."""
    joined = "\0".join(values)
    apart = joined.count("\0") == len(values) - 1  # else one of them has it, and the text could be that of others
    return len(values), hash(joined if apart else tuple(values))


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
