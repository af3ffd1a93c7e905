"""Shares that counting expects: by hand, beside a literal loop, whole, whatever stands in the same batch."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import polars as pl
import pytest

from ensue.store.pack import pack, unpack
from ensue.tasks.suggest.baselines import shares as module
from ensue.tasks.suggest.baselines.after import LATEST, TURNS, After
from ensue.tasks.suggest.baselines.counting import added
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.baselines.shares import CONDITIONS, Shares
from tests.tasks.suggest.baselines.test_counting import histories, lists, literal_beside, some_sessions


def counted(*log: list[str]) -> Shares:
    return Shares(Retrieval.fit(histories(*log)))


def test_what_came_after_words_by_hand() -> None:
    log = histories(["red boat", "red car", "blue boat"], ["red boat", "blue boat"])
    after = Retrieval.fit(log).after  # queries: red boat, red car, blue boat
    assert list(after.words.values) == ["boat", "car", "red"]
    table = np.zeros((3, 3))
    table[after.by_word.owners(), after.by_word.others] = after.by_word.weights
    # After boat: red car once; blue boat once at once, and once with a query between, which is 0.8. After car: blue
    # boat. After red: red car; blue boat after "red car", 0.8 after the first "red boat", and after the second.
    assert table == pytest.approx(np.array([[0, 1, 1.8], [0, 0, 1], [0, 1, 2.8]]))
    turns = np.zeros((TURNS, 3))
    turns[after.by_turn.owners(), after.by_turn.others] = after.by_turn.weights
    assert turns[:3].tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]


def test_words_and_queries_below_the_floor_are_not_counted() -> None:
    log = histories(["find jane", "a secret", "buy boat"], ["find boat", "buy boat"])
    allowed = np.array(["jane" not in value and "secret" not in value for value in log.vocabulary.values])
    after = Retrieval.fit(log, allowed, frozenset({"find", "buy", "boat"})).after
    # "find jane" is not kept, and yet what came after find: "buy boat" 0.8, and 1 after "find boat".
    assert list(after.words.values) == ["boat", "find"]
    assert after.by_word.weights.tolist() == pytest.approx([1.0, 1.8])
    assert b"jane" not in b"".join(column.tobytes() for column in pack(after)[1].values())


def test_shares_by_hand() -> None:
    found = counted(["a", "b"], ["a", "c"], ["a", "b"], ["d"]).suggest("after-words", histories(["a"]), 3)
    # After a: b twice, c once, of two kinds: 2 / 5 and 1 / 5, and 2 / 5 goes to all seven queries by how often each
    # was typed, of eight: b 2, c 1, d 1.
    assert lists(found) == [["b", "c", "d"]]
    assert found.scores.tolist() == pytest.approx([2 / 5 + 2 / 5 * 2 / 8, 1 / 5 + 2 / 5 / 8, 2 / 5 / 8])
    popular = counted(["a", "b"], ["a", "c"]).suggest("popular", histories(["a"], []), 2)
    assert lists(popular) == [["b", "c"], ["a", "b"]]
    assert lists(counted(["a", "b"]).suggest("popular", histories(["b"]), 2, typed=True)) == [["a", "b"]]


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("seed", range(2))
def test_shares_equal_a_literal_loop(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GROUP", 7)
    log, asked = some_sessions(seed, 60, "abcd"), [*some_sessions(seed + 9, 20, "abcde"), [], ["q q"]]
    found = counted(*log).suggest(name, histories(*asked), 5)
    for row, session in enumerate(asked):
        expected = literal(log, session, name)
        assert [text for text, _ in found.of(row)] == [text for text, _ in expected[:5]]
        assert [share for _, share in found.of(row)] == pytest.approx([share for _, share in expected[:5]])
        alone = counted(*log).suggest(name, histories(session), 5)
        assert alone.of(0) == found.of(row)  # whoever is asked beside it


def literal(log: list[list[str]], session: list[str], name: str) -> list[tuple[str, float]]:
    """The module's words, one thing given at a time."""
    totals = Counter(query for other in log for query in other)
    after: dict[object, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for other in log:
        for place, query in enumerate(other):
            for before in range(place):
                apart = place - before
                if name == "last-query" and apart == 1:
                    after[other[before]][query] += 1
                for word in set(other[before].split()) if name == "after-words" and apart <= LATEST else ():
                    after[word][query] += 0.8 ** (apart - 1)
            if name == "turn" and place:
                after[min(place, TURNS)][query] += 1
    if name == "co-occurrence":
        after.update(literal_beside(log))
    given: list[tuple[object, float]] = []
    for age, query in enumerate(reversed(session)):
        if name == "after-words" and age < LATEST:
            for word in dict.fromkeys(query.split()):
                rare = math.log1p(totals.total() / max(sum(after[word].values()), 1))
                given.append((word, 0.8**age * rare))
        elif (name == "last-query" and age == 0) or (name == "co-occurrence" and age < 8):
            given.append((query, 0.8**age))
    if name == "turn" and session:
        given = [(min(len(session), TURNS), 1.0)]
    whole = sum(weight for _, weight in given)
    own: dict[str, float] = defaultdict(float)
    for thing, weight in given:
        for query, count in after[thing].items():
            own[query] += weight / whole * count / (sum(after[thing].values()) + len(after[thing]))
    rest = 1 - sum(own.values())
    share = {q: round(own[q] + rest * totals[q] / (totals.total() + 1), 12) for q in totals if q not in session}
    order = [query for query, _ in totals.most_common()]
    return sorted(share.items(), key=lambda pair: (-pair[1], order.index(pair[0])))


def test_a_thing_speaks_for_its_most_frequent_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUERIES", 1)
    rows = counted(["a", "b"], ["a", "c"], ["a", "c"]).tables["last-query"].shares
    assert rows.toarray()[0] == pytest.approx([0, 0, 2 / 5])


def test_two_logs_together_are_one() -> None:
    old, new = some_sessions(0, 20), some_sessions(1, 20, "efghijk")
    one, other, both = (Retrieval.fit(histories(*part)) for part in (old, new, old + new))
    merged, whole = (pack(own.after)[1] for own in (one.with_(other, added(one.following, other.following)), both))
    assert merged.keys() == whole.keys()
    for name in whole:
        assert merged[name].tolist() == pytest.approx(whole[name].tolist(), abs=1e-5)


@pytest.mark.parametrize("name", ["word", "turn"])
def test_arrays_that_do_not_fit(name: str) -> None:
    tree, arrays = pack(Retrieval.fit(histories(["a b", "c"])))
    arrays[f"after.by_{name}.others"].fill(9)
    with pytest.raises(ValueError, match=rf"^after\.by_{name}\.others holds 9, outside"):
        unpack(Retrieval, tree, arrays)


def test_an_empty_log() -> None:
    assert lists(counted().suggest("after-words", histories(["a"], []), 3)) == [[], []]
    assert lists(counted(["a", "b"]).suggest("co-occurrence", histories(), 3)) == []
    assert not len(After.fit(histories(), np.empty(0, np.int64)).by_word.others)
    assert pl.Series(counted().following.queries).len() == 0
