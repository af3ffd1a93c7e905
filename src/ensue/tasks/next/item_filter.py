"""Rules of a request: which items may be answers, by lists of ids and by columns of the item table.

A rule takes items out of the answers alone; probabilities stay those of all items.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from numbers import Real
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ensue.arguments import id_list
from ensue.data.histories import Ids, Index, Items, Mask
from ensue.errors import DataError
from ensue.lines import one_line
from ensue.tasks.next.item_columns import ItemColumns
from ensue.tasks.next.item_similarity import ItemSimilarity
from ensue.tasks.next.reranking import Reranker
from ensue.topk import Permitted, Scores, topk
from ensue.vocabulary import FIRST, Vocabulary

MAX_SCORED = 8192
MIN_SHARE = 20
MAX_SHARED = 2**17
"""An index scores all permitted items where these are at most ``MAX_SCORED``: to search takes longer. Of a large
catalogue it scores more, one in ``MIN_SHARE`` items, since the best of all is hardly ever among those; at most
``MAX_SHARED``."""
MAX_CACHED = 32
MAX_CACHED_BYTES = 2**28
MIN_CACHED_ITEMS = 256
"""Filters and lists that are cached, and the bytes of either, at most; ids of a list that is cached, at least."""
MAX_FILTERS = 20
"""Filters of a request, at most."""
MAX_NOW = 1e11
"""Seconds since 1970 at most, in the year 5138: milliseconds are more."""
MINUTE = 60.0
"""Filters by age change from one minute to the next, not within it."""


_Made = TypeVar("_Made")
_NEGATIVE_INFINITY = np.float32(-np.inf).view(np.uint32)


class StoredList(frozenset[str]):
    """A list of ids that requests use by its name."""


class Rules(NamedTuple):
    """Rules of a request for the items of its answers.

    Attributes:
        exclude: lists of items that are no answers.
        allow: lists outside of which no item is an answer; of several, an item must be on each.
        filters: conditions that all must be true, in the language of :mod:`ensue.tasks.next.item_columns`.
        now: the time of the request, in seconds since 1970. [default: the clock]
        max_per: columns, each with the number of items that an answer may have of one of its values.
        diversify: method and weight of a re-ranking for diversity, see :mod:`ensue.tasks.next.reranking`.
    """

    exclude: tuple[Collection[str], ...] = ()
    allow: tuple[Collection[str], ...] = ()
    filters: tuple[str, ...] = ()
    now: float | None = None
    max_per: tuple[tuple[str, int], ...] = ()
    diversify: str = ""

    @classmethod
    def of(
        cls,
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
        filters: Sequence[str] = (),
        now: float | None = None,
        max_per: Mapping[str, int] | None = None,
        diversify: str = "",
    ) -> Rules:
        """Return the rules of a request with at most one list of each kind.

        Raises:
            DataError: a list is none of ids, there are too many filters, or ``now`` is in another unit.
        """
        conditions = tuple(id_list(filters, "filters"))
        if len(conditions) > MAX_FILTERS:
            raise DataError(f"{len(conditions)} filters exceed the limit of {MAX_FILTERS}; join them by and")
        if now is not None and not (isinstance(now, Real) and abs(now) < MAX_NOW):
            raise DataError(f"now is {one_line(repr(now), 40)}; give seconds since 1970, not milliseconds or a text")
        if not isinstance(max_per or {}, Mapping):
            raise DataError(f"max_per is of type {type(max_per).__name__}; give a dictionary such as {{'brand': 2}}")
        excluded_ids = id_list(exclude, "exclude")
        excluded = (excluded_ids,) if excluded_ids else ()
        allowed = () if allow is None else (id_list(allow, "allow"),)
        return cls(excluded, allowed, conditions, now, tuple((max_per or {}).items()), diversify)


ALL_ITEMS = Rules()


@dataclass(frozen=True, eq=False)
class ItemFilter:
    """The items that a request permits.

    Attributes:
        mask: (ids,) True where an id may be an answer.
        rules: of the request.
        reranker: chooses among the best permitted items.
    """

    mask: Mask = field(repr=False)
    rules: Rules = field(repr=False)
    reranker: Reranker | None = None

    def __contains__(self, item: object) -> bool:
        """Return whether an item that the vocabulary lacks may be an answer; of its columns nothing is known."""
        exclude, allow = self._sets
        is_listed = all(item in ids for ids in allow) and not any(item in ids for ids in exclude)
        return is_listed and not self.rules.filters

    @cached_property
    def _sets(self) -> list[list[Collection[str]]]:
        """The lists of excluded ids and of allowed ones, as sets."""
        lists = self.rules.exclude, self.rules.allow
        return [[ids if isinstance(ids, frozenset) else frozenset(ids) for ids in each] for each in lists]

    @cached_property
    def num_permitted(self) -> int:
        """Number of items of the vocabulary that may be answers."""
        return int(np.count_nonzero(self.mask))

    @property
    def is_restrictive(self) -> bool:
        """True if an item is not permitted; padding and unknown, which are no answers anyway, never are."""
        return self.num_permitted < len(self.mask) - FIRST

    @cached_property
    def penalty(self) -> Scores:
        """(ids,) 0 for permitted ids and -inf for others: to add it takes a fortieth of the time of a mask."""
        # The sign and the exponent of -inf in float32, where an id is not permitted.
        return np.multiply(~self.mask, _NEGATIVE_INFINITY, dtype=np.uint32).view(np.float32)

    @cached_property
    def words(self) -> npt.NDArray[np.uint64]:
        """(words,) the mask with one bit per id; see :class:`ensue.topk.Permitted`."""
        packed = np.packbits(self.mask, bitorder="little")
        words = np.zeros(-(-len(self.mask) // 64), np.uint64)
        words.view(np.uint8)[: len(packed)] = packed
        return words

    @cached_property
    def few_ids(self) -> Index | None:
        """(ids,) all permitted ones, rising, where an index does better to score them all; else ``None``."""
        if self.num_permitted > max(MAX_SCORED, min(len(self.mask) // MIN_SHARE, MAX_SHARED)):
            return None
        return np.flatnonzero(self.mask)


Conditions = tuple[tuple[str, float], ...]
"""Filters, each with the time of the request where it compares with that."""


class Key(NamedTuple):
    """All that a filter depends on.

    Attributes:
        exclude: keys of the lists.
        allow: keys of the lists.
        conditions: its filters.
        columns: of the item table, where the rules name any.
        num_ids: size of the vocabulary.
        max_per: as in :class:`Rules`.
        diversify: as in :class:`Rules`.
        similarity: of items, where the rules compare any.
    """

    exclude: tuple[Hashable, ...]
    allow: tuple[Hashable, ...]
    conditions: Conditions
    columns: ItemColumns | None
    num_ids: int
    max_per: tuple[tuple[str, int], ...]
    diversify: str
    similarity: ItemSimilarity | None


class FilterCache:
    """Makes filters, and caches the latest: a shop's own lists and conditions come with every request."""

    def __init__(self) -> None:
        self._cached: dict[Hashable, Mask | ItemFilter] = {}
        self._lists: dict[Hashable, Ids] = {}
        self._columns: ItemColumns | None = None

    def of_each(
        self,
        requests: Sequence[Rules],
        vocabulary: Vocabulary,
        items: Items | None = None,
        similarity: Callable[[], ItemSimilarity] | None = None,
    ) -> list[ItemFilter | None]:
        """Return the filter of each request, the same one for equal rules; ``None`` where everything is permitted.

        Args:
            requests: rules.
            vocabulary: of the model.
            items: its item table.
            similarity: returns the similarity of items.

        Raises:
            DataError: a filter cannot be read, or the model has no such column.
        """
        # Records of one request share the object of its rules.
        distinct = {id(rules): rules for rules in requests if rules._replace(now=None) != ALL_ITEMS}
        lists = {id(members): members for rules in distinct.values() for members in chain(rules.exclude, rules.allow)}
        keys = {same: _key(members) for same, members in lists.items()}
        ids = self._ids({keys[same]: members for same, members in lists.items()}, vocabulary)
        filters: dict[Hashable, ItemFilter] = {}
        of_request: dict[int, Hashable] = {}
        for same, rules in distinct.items():
            exclude, allow = (tuple(keys[id(members)] for members in each) for each in (rules.exclude, rules.allow))
            # Rounded to the minute, so that filters by age can be cached.
            now = (time.time() if rules.now is None else rules.now) // MINUTE * MINUTE
            has_columns = rules.filters or rules.max_per or rules.diversify.startswith("calibrated")
            columns = self.columns(vocabulary, items) if has_columns else None
            conditions = tuple((text, now if "within" in text else 0.0) for text in rules.filters)
            # Re-rankers hold the similarity, which is another object once something was learned.
            of_items = similarity() if similarity is not None and rules.diversify.startswith("mmr") else None
            key = Key(exclude, allow, conditions, columns, len(vocabulary), rules.max_per, rules.diversify, of_items)
            of_request[same] = key
            if key not in filters:
                filters[key] = self._filter(key, rules, ids)
        return [filters[of_request[id(rules)]] if id(rules) in distinct else None for rules in requests]

    def columns(self, vocabulary: Vocabulary, items: Items | None) -> ItemColumns:
        """Return the columns of the item table.

        Raises:
            DataError: the model has none.
        """
        if items is None:
            raise DataError("the model has no item table, so it has no columns; fit it with --items TABLE")
        if self._columns is None or self._columns.items is not items or self._columns.num_ids != len(vocabulary):
            self._columns = ItemColumns(items, vocabulary)
        return self._columns

    def _filter(self, key: Key, rules: Rules, ids: Mapping[Hashable, Ids]) -> ItemFilter:
        """Return the filter of rules: a cached one, unless the rules have short lists."""
        cached = self._cached.get(key)
        if isinstance(cached, ItemFilter):
            return cached
        mask = self._of_long_lists(key, ids)
        short_exclude, short_allow = ([each for each in keys if isinstance(each, int)] for keys in key[:2])
        if short_exclude or short_allow:
            mask = mask.copy()
            _restrict(mask, ids, short_exclude, short_allow)
        reranker = None
        if key.max_per or key.diversify:
            reranker = Reranker(key.max_per, key.diversify, key.columns, key.similarity)
        item_filter = ItemFilter(mask, rules, reranker)
        if not (short_exclude or short_allow):
            _keep(self._cached, key, item_filter, key.num_ids)
        return item_filter

    def _of_long_lists(self, key: Key, ids: Mapping[Hashable, Ids]) -> Mask:
        """Return (ids,) whether the conditions and the long lists permit an id; not to be changed, as it is cached."""
        exclude, allow = (tuple(each for each in keys if not isinstance(each, int)) for keys in key[:2])
        conditions, columns, num_ids = key[2:5]
        part = exclude, allow, conditions, columns, num_ids
        cached = self._cached.get(part)
        if isinstance(cached, np.ndarray):
            return cached
        mask = np.ones(num_ids, np.bool_)
        # Padding and unknown are never answers.
        mask[:FIRST] = False
        _restrict(mask, ids, exclude, allow)
        for condition in conditions:
            true = self._cached.get((condition, columns))
            if not isinstance(true, np.ndarray):
                assert columns is not None
                true = columns.truth(*condition).true
                _keep(self._cached, (condition, columns), true, num_ids)
            mask &= true
        if part[:2] != key[:2]:  # else the filter itself is cached
            _keep(self._cached, part, mask, num_ids)
        return mask

    def _ids(self, lists: Mapping[Hashable, Collection[str]], vocabulary: Vocabulary) -> dict[Hashable, Ids]:
        """Return the ids of each list. All are looked up together: a look-up has a price of its own."""
        num_ids = len(vocabulary)
        found = {key: ids for key in lists if (ids := self._lists.get((key, num_ids))) is not None}
        missing = {key: members for key, members in lists.items() if key not in found}
        for (key, members), ids in zip(missing.items(), vocabulary.known_each([*missing.values()]), strict=True):
            found[key] = ids
            if len(members) >= MIN_CACHED_ITEMS:
                _keep(self._lists, (key, num_ids), ids, num_ids)
        return found


def _restrict(mask: Mask, ids: Mapping[Hashable, Ids], exclude: Iterable[Hashable], allow: Iterable[Hashable]) -> None:
    """Apply lists to a mask, in place."""
    for key in exclude:
        mask[ids[key]] = False
    for key in allow:
        allowed = np.zeros_like(mask)
        allowed[ids[key]] = True
        mask &= allowed


def _keep(cache: dict[Hashable, _Made], key: Hashable, made: _Made, num_ids: int) -> None:
    """Cache what was made as the latest. Each line is one step of the interpreter, so threads need no lock."""
    cache[key] = made
    for oldest in [*cache][: -min(MAX_CACHED, max(1, MAX_CACHED_BYTES // (5 * num_ids)))]:
        cache.pop(oldest, None)


def _key(ids: Collection[str]) -> Hashable:
    """Return what equal lists have in common, for the cache; short lists are not cached, so the object is the key."""
    if len(ids) < MIN_CACHED_ITEMS:
        return id(ids)
    if isinstance(ids, StoredList):
        # Its hash is computed once, and to compare it with a list that was read again takes milliseconds.
        return len(ids), hash(ids)
    # One joined text is hashed faster than many. Where an id holds the separator, the text could be that of other ids.
    joined = "\0".join(ids)
    return len(ids), hash(joined if joined.count("\0") == len(ids) - 1 else tuple(ids))


def rows_by_filter(filters: Sequence[ItemFilter | None]) -> Iterator[tuple[Index, ItemFilter | None]]:
    """Yield the rows that have the same filter, and that filter."""
    rows: dict[int, list[int]] = {}
    for row, item_filter in enumerate(filters):
        rows.setdefault(id(item_filter), []).append(row)
    for same in rows.values():
        yield np.array(same), filters[same[0]]


def permitted_items(hidden: Index, filters: Sequence[ItemFilter | None]) -> Permitted:
    """Return the candidates of some histories.

    Args:
        hidden: (histories, any number) ids that are no candidates, rising in each row.
        filters: of each history.
    """
    restrictive = {id(each): each for each in filters if each is not None and each.is_restrictive}
    if not restrictive:
        return Permitted(hidden)
    numbers = {same: number for number, same in enumerate(restrictive)}
    filter_index = np.array([numbers.get(id(each), len(numbers)) for each in filters])
    return Permitted(hidden, np.array([each.words for each in restrictive.values()]), filter_index)


def top_items(scores: Scores, k: int, filters: Sequence[ItemFilter | None]) -> tuple[Index, Scores]:
    """Return the ids and the scores of the ``k`` highest permitted scores of each row, falling; -inf beyond.

    Args:
        scores: (rows, ids) of the whole catalogue.
        k: choices.
        filters: of each row.
    """
    k = min(k, scores.shape[1])
    ids = np.zeros((len(scores), k), np.int64)
    best = np.empty((len(scores), k), np.float32)
    for rows, item_filter in rows_by_filter(filters):
        row_scores = scores if len(rows) == len(scores) else scores[rows]
        if item_filter is not None and item_filter.is_restrictive:
            row_scores = row_scores + item_filter.penalty
        best[rows], ids[rows] = topk(row_scores, k)
    return ids, best
