"""Which values a request lets be answers: all but some, or some alone. Probabilities stay those of all values."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress, count, filterfalse, islice
from operator import not_
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.nn.topk import topk
from ensue.records import History
from ensue.tasks.next.own_unknown import OwnUnknown
from ensue.vocabulary import FIRST, Vocabulary

FEW, NARROW, MOST = 8192, 20, 2**17
"""So many allowed values are all scored: to search takes longer. And more, of a large catalogue: one in so many values,
for what is best of all is hardly ever on such a list; the last at most."""
KEPT, KEPT_VALUES, WORTH = 64, 2**20, 256
"""Lists that are kept, how many values they have together at most, and each at least."""
REMEMBERED = 1024
"""Lists of which is known that they came once: most never come again."""
Key = tuple[int, ...]
"""What a list is known by."""
Given = tuple[Collection[str], Collection[str] | None]
"""Values that a request excludes, and those that it allows: all of them where that is ``None``."""


@dataclass(frozen=True, eq=False)
class Permitted:
    """The lists of one request.

    Attributes:
        excluded: values that are no answer.
        allowed: the only ones that are, if given.
        vocabulary: of the model.
        looked_up: what :attr:`inside` is, where it is known already.
    """

    excluded: frozenset[str]
    allowed: Collection[str] | None
    vocabulary: Vocabulary = field(repr=False)
    looked_up: Tensor | None = field(default=None, repr=False)

    @classmethod
    def of_each(cls, given: Iterable[Given], vocabulary: Vocabulary) -> list[Permitted | None]:
        """Of some requests; ``None`` where everything is permitted. Short allow lists are looked up together."""
        lists = [
            (frozenset(exclude), allow if allow is None or isinstance(allow, frozenset) else tuple(allow))
            for exclude, allow in given
        ]
        short = [allow is not None and len(allow) <= FEW for _, allow in lists]
        ids = map(torch.from_numpy, vocabulary.known_each([_left(*one) for one in compress(lists, short)]))
        return [
            cls(*one, vocabulary, next(ids) if few else None) if one[0] or one[1] is not None else None
            for one, few in zip(lists, short, strict=True)
        ]

    def __contains__(self, value: object) -> bool:
        """Whether a value may be an answer."""
        return value not in self.excluded and (self.allowed is None or value in self._allowed)

    def __len__(self) -> int:
        """Values on the lists."""
        return len(self.excluded) + len(self.allowed or ())

    def __bool__(self) -> bool:
        """Whether there are lists, empty ones too."""
        return True

    def among(self, values: Iterable[str], k: int) -> list[int]:
        """The places of the first ``k`` that may be answers."""
        if self.allowed is None:  # without a step of Python a value
            permitted = map(not_, map(self.excluded.__contains__, values))
        else:
            permitted = map(self.__contains__, values)
        return [*islice(compress(count(), permitted), k)]

    @cached_property
    def _allowed(self) -> frozenset[str]:
        return frozenset(self.allowed or ())

    @cached_property
    def out(self) -> Tensor:
        """(ids,) of what is excluded, as far as the model knows it; rising."""
        return torch.from_numpy(self.vocabulary.known_each([self.excluded])[0])

    @cached_property
    def inside(self) -> Tensor | None:
        """(ids,) what is allowed, not excluded and known to the model, rising; ``None`` where all is allowed."""
        if self.allowed is None or self.looked_up is not None:
            return self.looked_up
        return torch.from_numpy(self.vocabulary.known_each([_left(self.excluded, self.allowed)])[0])

    @property
    def few(self) -> Tensor | None:
        """(ids,) all that is permitted, where that is little enough to be scored."""
        most = max(FEW, min(len(self.vocabulary) // NARROW, MOST))
        return self.inside if self.allowed is not None and len(self.allowed) <= most else None

    @property
    def share(self) -> float:
        """About which part of all values is permitted; of hardly any, more."""
        num = len(self.vocabulary)
        return max((num - len(self.excluded) if self.allowed is None else len(self.allowed)) / num, 1 / NARROW)

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


def _left(exclude: frozenset[str], allow: Collection[str] | None) -> Collection[str]:
    """What is allowed and not excluded."""
    return [*filterfalse(exclude.__contains__, allow or ())] if exclude else allow or ()


class KeptLists:
    """The longer lists that requests had more than once lately, so that lists that come again are looked up once."""

    def __init__(self) -> None:
        self._lists: dict[Key, Permitted] = {}
        self._once: dict[Key, None] = {}
        self._values = 0
        self._change = threading.Lock()
        _LISTS.add(self)

    def forget(self) -> None:
        """Forget all of them, in a forked process: another thread may have been changing them."""
        self._lists, self._once, self._values = {}, {}, 0
        self._change = threading.Lock()

    def of_each(self, given: Sequence[Given], vocabulary: Vocabulary) -> list[Permitted | None]:
        """As :meth:`Permitted.of_each`. Sizes and hashes of 64 bits, which no client can foresee, stand for lists."""
        same: list[Key] = [(id(exclude), id(allow)) for exclude, allow in given]  # a request's are one object
        asked = dict(zip(same, given, strict=True))
        keys = {one: _key(*lists, len(vocabulary)) or one for one, lists in asked.items()}
        with self._change:
            found: dict[Key, Permitted | None] = {key: self._lists[key] for key in keys.values() if key in self._lists}
        new = {key: asked[one] for one, key in keys.items() if key not in found}
        found |= zip(new, Permitted.of_each(new.values(), vocabulary), strict=True)
        with self._change:
            for key, one in found.items():
                if one is not None and len(one) >= WORTH:
                    self._came(key, one)
        return [found[keys[one]] for one in same]

    def _came(self, key: Key, one: Permitted) -> None:
        """Keep it as the latest, if it is not the first time."""
        earlier = self._lists.pop(key, None)
        if earlier is None and key not in self._once:
            self._once[key] = None
            if len(self._once) > REMEMBERED:
                del self._once[next(iter(self._once))]
            return
        self._once.pop(key, None)
        self._values += len(one) - len(earlier or ())
        self._lists[key] = one
        while len(self._lists) > 1 and (len(self._lists) > KEPT or self._values > KEPT_VALUES):
            self._values -= len(self._lists.pop(next(iter(self._lists))))


_LISTS = WeakSet[KeptLists]()


def _forget_all() -> None:
    for lists in _LISTS:
        lists.forget()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_all)


def _key(exclude: Collection[str], allow: Collection[str] | None, num_ids: int) -> Key | None:
    """What long lists are known by among so many ids; ``None`` of short ones."""
    if len(exclude) + len(allow or ()) < WORTH:
        return None
    return (*_contents(exclude), *((-1, 0) if allow is None else _contents(allow)), num_ids)


def _contents(values: Collection[str]) -> tuple[int, int]:
    """How many values there are, and a hash of them as they stand; one text is hashed faster than a set is made."""
    if isinstance(values, frozenset):  # which keeps its own
        return len(values), hash(values)
    joined = "\0".join(values)
    text = joined.encode("utf-8", "surrogatepass")
    ends = len(text) - np.count_nonzero(np.frombuffer(text, np.uint8))
    apart = ends == len(values) - 1  # else one of them has it, and the text could be that of others
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
