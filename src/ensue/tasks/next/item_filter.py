"""Item filters: which items a request lets be answers, by its lists ``exclude`` and ``allow``.

A filter rules items out of the answers alone; probabilities stay those of all items.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ensue.nn.topk import topk
from ensue.vocabulary import FIRST, Vocabulary

MAX_SCORED, MIN_SHARE, MAX_SHARED = 8192, 20, 2**17
"""An index scores all permitted items where these are at most ``MAX_SCORED``: to search takes longer. Of a large
catalogue it scores more, one in ``MIN_SHARE`` items, since the best of all is hardly ever among those; at most
``MAX_SHARED``."""
MAX_CACHED, MAX_CACHED_ITEMS, MIN_CACHED_ITEMS = 32, 2**19, 256
"""Filters that are cached, the items on their lists together at most, and on each at least."""
Lists = tuple[Collection[str], Collection[str] | None]
"""Items that a request excludes, and those that it allows: all of them where that is ``None``."""


@dataclass(frozen=True, eq=False)
class ItemFilter:
    """The lists of a request, as ids.

    Attributes:
        exclude: items that are no answers.
        allow: the only items that are, if given.
        excluded_ids: (ids,) of ``exclude`` as far as the vocabulary has them, rising.
        allowed_ids: (ids,) of ``allow`` without ``exclude``, rising; ``None`` where all items are allowed.
        num_ids: size of the vocabulary.
    """

    exclude: Collection[str] = field(repr=False)
    allow: Collection[str] | None = field(repr=False)
    excluded_ids: Tensor
    allowed_ids: Tensor | None
    num_ids: int

    @classmethod
    def of_each(cls, requests: Sequence[Lists], vocabulary: Vocabulary) -> list[ItemFilter | None]:
        """Return the filter of each request; ``None`` where everything is permitted."""
        # A caller may change a list later. All lists are looked up together: a look-up has a price of its own.
        copies = [(tuple(exclude), None if allow is None else tuple(allow)) for exclude, allow in requests]
        ids = map(torch.from_numpy, vocabulary.known_each([items or () for pair in copies for items in pair]))
        filters: list[ItemFilter | None] = []
        for (exclude, allow), excluded_ids, allowed_ids in zip(copies, ids, ids, strict=True):
            if allow is not None and len(excluded_ids):
                allowed_ids = allowed_ids[~torch.isin(allowed_ids, excluded_ids)]
            made = cls(exclude, allow, excluded_ids, None if allow is None else allowed_ids, len(vocabulary))
            filters.append(made if exclude or allow is not None else None)
        return filters

    def __contains__(self, item: object) -> bool:
        """Return whether an item may be an answer, in the vocabulary or not."""
        return item not in self._excluded and (self.allow is None or item in self._allowed)

    def __len__(self) -> int:
        """Return the number of items on the lists."""
        return len(self.exclude) + len(self.allow or ())

    def __bool__(self) -> bool:
        """Return that there are lists, empty ones too."""
        return True

    @cached_property
    def _excluded(self) -> frozenset[str]:
        return frozenset(self.exclude)

    @cached_property
    def _allowed(self) -> frozenset[str]:
        return frozenset(self.allow or ())

    @property
    def num_permitted(self) -> int:
        """Number of items of the vocabulary that may be answers."""
        return self.num_ids - FIRST - len(self.excluded_ids) if self.allowed_ids is None else len(self.allowed_ids)

    @cached_property
    def mask(self) -> Tensor:
        """(ids,) True where an id may be an answer."""
        mask = torch.full((self.num_ids,), self.allowed_ids is None)
        if self.allowed_ids is not None:
            mask[self.allowed_ids] = True
        mask[:FIRST] = False
        mask[self.excluded_ids] = False
        return mask

    @cached_property
    def few_ids(self) -> Tensor | None:
        """(ids,) all permitted ones, rising, where an index does better to score them all; else ``None``."""
        if self.num_permitted > max(MAX_SCORED, min(self.num_ids // MIN_SHARE, MAX_SHARED)):
            return None
        return self.mask.nonzero()[:, 0] if self.allowed_ids is None else self.allowed_ids


class FilterCache:
    """The latest filters with long lists: a shop's own comes with every request."""

    def __init__(self) -> None:
        self._filters: dict[tuple[int, ...], ItemFilter] = {}

    def of_each(self, requests: Sequence[Lists], vocabulary: Vocabulary) -> list[ItemFilter | None]:
        """Compute :meth:`ItemFilter.of_each` where no filter of the same lists is cached."""
        if not any(exclude or allow is not None for exclude, allow in requests):
            return [None] * len(requests)
        # Records of one request share the objects of its lists.
        distinct = {(id(exclude), id(allow)): (exclude, allow) for exclude, allow in requests}
        keys = {same: _key(*lists, len(vocabulary)) or same for same, lists in distinct.items()}
        filters: dict[tuple[int, ...], ItemFilter | None] = {
            key: self._filters[key] for key in keys.values() if key in self._filters
        }
        missing = {keys[same]: lists for same, lists in distinct.items() if keys[same] not in filters}
        filters |= zip(missing, ItemFilter.of_each([*missing.values()], vocabulary), strict=True)
        for key, item_filter in filters.items():
            if item_filter is not None and len(item_filter) >= MIN_CACHED_ITEMS:
                self._keep(key, item_filter)
        return [filters[keys[id(exclude), id(allow)]] for exclude, allow in requests]

    def _keep(self, key: tuple[int, ...], item_filter: ItemFilter) -> None:
        """Cache a filter as the latest one. Each line is one step of the interpreter, so threads need no lock."""
        self._filters.pop(key, None)
        self._filters[key] = item_filter
        cached = [*self._filters.items()]
        num_items = sum(len(older) for _, older in cached)
        for oldest, older in cached[:-1]:
            if len(self._filters) <= MAX_CACHED and num_items <= MAX_CACHED_ITEMS:
                break
            self._filters.pop(oldest, None)
            num_items -= len(older)


def _key(exclude: Collection[str], allow: Collection[str] | None, num_ids: int) -> tuple[int, ...] | None:
    """Return sizes and 64-bit hashes of long lists, which no client can foresee; ``None`` for short lists."""
    if len(exclude) + len(allow or ()) < MIN_CACHED_ITEMS:
        return None
    return (*_size_and_hash(exclude), *((-1, 0) if allow is None else _size_and_hash(allow)), num_ids)


def _size_and_hash(items: Collection[str]) -> tuple[int, int]:
    """Return the number of items and a hash of them in their order; one text is hashed faster than many."""
    joined = "\0".join(items)
    encoded = joined.encode("utf-8", "surrogatepass")
    separators = len(encoded) - np.count_nonzero(np.frombuffer(encoded, np.uint8))
    # Where an item holds the separator, the text could be that of other items.
    return len(items), hash(joined if separators == len(items) - 1 else tuple(items))


def rows_by_filter(filters: Sequence[ItemFilter | None]) -> Iterator[tuple[Tensor, ItemFilter | None]]:
    """Yield the rows that have the same filter, and that filter."""
    rows: dict[int, list[int]] = {}
    for row, item_filter in enumerate(filters):
        rows.setdefault(id(item_filter), []).append(row)
    for same in rows.values():
        yield torch.tensor(same), filters[same[0]]


def top_items(scores: Tensor, k: int, filters: Sequence[ItemFilter | None]) -> tuple[Tensor, Tensor]:
    """Return the ids and the scores of the ``k`` highest permitted scores of each row, falling; -inf beyond.

    Args:
        scores: (rows, ids) of the whole catalogue.
        k: choices.
        filters: of each row.
    """
    k = min(k, scores.shape[1])
    if not any(filters):
        best, ids = topk(scores, k)
        return ids, best
    ids, best = torch.zeros(len(scores), k, dtype=torch.int64), scores.new_full((len(scores), k), -torch.inf)
    for rows, item_filter in rows_by_filter(filters):
        shown = scores if len(rows) == len(scores) else scores[rows]
        if item_filter is not None and item_filter.allowed_ids is not None:
            values, columns = topk(shown[:, item_filter.allowed_ids], k)
            columns = item_filter.allowed_ids[columns]
        elif item_filter is not None:
            values, columns = topk(shown.index_fill(1, item_filter.excluded_ids, -torch.inf), k)
        else:
            values, columns = topk(shown, k)
        ids[rows, : values.shape[1]], best[rows, : values.shape[1]] = columns, values
    return ids, best
