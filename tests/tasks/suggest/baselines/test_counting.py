"""Counting and looking up: by hand, beside literal loops, to arrays and back, and the figures on real sessions."""

from __future__ import annotations

import math
import os
import random
import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.data.queries import prefixes, read_queries
from ensue.data.queries.rules import PAPER_RULES, QueryRules
from ensue.metrics import bleu, hit, ngram_counts, ngram_precision, reciprocal_rank, text_ranks
from ensue.store.pack import pack, unpack
from ensue.tasks.suggest.baselines.counting import MostFrequentNext, RepeatLast, Suggestions
from ensue.tasks.suggest.baselines.retrieval import CLOSE, NONE, Retrieval

DATA = Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[3] / "../shared/data")) / "queries"
real = pytest.mark.skipif(not DATA.is_dir(), reason=f"no real queries at {DATA}; set ENSUE_DATA")

LOG = [["a", "b"], ["a", "c"], ["x", "a", "c"], ["d", "a", "b", "d"], ["d", "c"]]


def histories(*sessions: list[str] | tuple[str, ...]) -> Histories:
    return Histories.of(History(tuple(values)) for values in sessions)


def lists(found: Suggestions) -> list[list[str]]:
    return [[text for text, _ in found.of(index)] for index in range(len(found))]


def some_sessions(seed: int, count: int, words: str = "abcdefg") -> list[list[str]]:
    random.seed(seed)
    return [
        [" ".join(random.choices(words, k=random.randint(1, 3))) for _ in range(random.randint(1, 6))]
        for _ in range(count)
    ]


def test_repeat_last_by_hand() -> None:
    found = RepeatLast().suggest(histories(["a", "b", "a", "c"], [], ["z"]), 3)
    assert lists(found) == [["c", "a", "b"], [], ["z"]]
    assert found.of(0) == [("c", 1.0), ("a", 1 / 2), ("b", 1 / 3)]  # the later of the two a counts
    assert found.first.to_list() == ["c", "", "z"]
    assert lists(RepeatLast().suggest(histories(["a", "b"]), 1)) == [["b"]]


def test_most_frequent_next_by_hand() -> None:
    model = MostFrequentNext.fit(histories(*LOG))
    # a was followed by b and c twice each, b first; a was typed four times, c and d three times, c first; b twice.
    asked = histories(["a"], ["q", "a"], ["b", "a"], ["d"], ["never"], ["c"], [])
    found = model.suggest(asked, 3)
    assert lists(found) == [
        ["b", "c", "d"],
        ["b", "c", "d"],
        ["c", "d", "x"],  # b was typed already
        ["a", "c", "b"],  # a and c followed d once each, a first
        ["a", "c", "d"],
        ["a", "d", "b"],
        ["a", "c", "d"],
    ]
    # Thirteen queries in all; shares are of one more, so that none reaches the 1 of a follower.
    assert found.of(0) == [("b", 2.0), ("c", 2.0), ("d", 3 / 14)]
    repeating = model.suggest(asked, 3, typed=True)
    assert lists(repeating) == [
        ["b", "c", "a"],
        ["b", "c", "a"],
        ["b", "c", "a"],
        ["a", "c", "d"],
        ["never", "a", "c"],  # nothing followed it: it stands for itself
        ["c", "a", "d"],
        ["a", "c", "d"],
    ]
    assert repeating.of(4)[0] == ("never", 1.0)


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_most_frequent_next_equals_a_literal_loop(seed: int, typed: bool) -> None:
    log, asked = some_sessions(seed, 60, "abc"), [*some_sessions(seed + 9, 30, "abcd"), []]
    model = MostFrequentNext.fit(histories(*log))
    assert lists(model.suggest(histories(*asked), 5, typed=typed)) == [literal_next(log, s, 5, typed) for s in asked]


def literal_next(log: list[list[str]], session: list[str], k: int, typed: bool) -> list[str]:
    totals = Counter(query for other in log for query in other)
    after = Counter(b for other in log for a, b in pairwise(other) if session and a == session[-1])
    # ``most_common`` keeps the order of arrival among ties.
    found = [query for query, _ in after.most_common()]
    if not found and typed and session:
        found = [session[-1]]
    found += [query for query, _ in totals.most_common()]
    return [query for query in dict.fromkeys(found) if typed or query not in session][:k]


def test_scores_never_rise() -> None:
    found = MostFrequentNext.fit(histories(*some_sessions(1, 50))).suggest(histories(*some_sessions(2, 50)), 20)
    for index in range(len(found)):
        scores = [score for _, score in found.of(index)]
        assert scores == sorted(scores, reverse=True) and scores[-1] > 0


def test_what_is_below_the_floor_leaves_no_trace() -> None:
    log = histories(["a", "secret", "b"], ["a", "b"], ["secret", "c"])
    allowed = np.array([value != "secret" for value in log.vocabulary.values])
    model = MostFrequentNext.fit(log, allowed)
    # b did not follow a in the first session: something else did.
    assert model.queries.to_list() == ["a", "b", "c"] and model.counts.tolist() == [1]
    _, kept = pack(Retrieval.fit(log, allowed))
    assert kept["following.queries.bytes"].tobytes() == b"abc"
    assert lists(model.suggest(histories(["secret"]), 3)) == [["a", "b", "c"]]


def test_packed_and_back() -> None:
    log, asked = histories(*some_sessions(3, 40), ["مرحبا", "🏳️\u200d🌈 x"]), histories(*some_sessions(4, 20))
    first = Retrieval.fit(log, topics=True)
    tree, arrays = pack(first)
    again = unpack(Retrieval, tree, arrays)
    assert again.following.queries.to_list() == first.following.queries.to_list() and pack(again)[0] == tree
    assert all(np.array_equal(array, pack(again)[1][name]) for name, array in arrays.items())
    assert again.candidates(asked, 9).tolist() == first.candidates(asked, 9).tolist()
    assert lists(again.following.suggest(asked)) == lists(first.following.suggest(asked))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("totals", [1], "totals is int64 of shape (1,), not int64 of shape (3)"),
        ("totals", [1, 0, 1], "totals holds 0, outside [1, "),
        ("totals", [1, 2**47, 1 << 62], "totals holds 4611686018427387904, outside [1, "),
        ("rows", [0, 9, 9, 9], "rows does not lead from 0 to 1"),
        ("followers", [7], "followers holds 7, outside [0, 3)"),
        ("counts", [0], "counts holds 0, outside [1, "),
    ],
)
def test_arrays_that_do_not_belong_together(name: str, value: list[int], message: str) -> None:
    model = MostFrequentNext.fit(histories(["a", "b"], ["c"]))
    changes: dict[str, Any] = {name: np.array(value, getattr(model, name).dtype)}
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(model, **changes)
    with pytest.raises(ValueError, match="queries: a text appears twice"):
        replace(model, queries=pl.Series(["a", "b", "a"]))


def test_an_empty_log() -> None:
    model = MostFrequentNext.fit(histories())
    assert lists(model.suggest(histories(["a"], []), 3, typed=True)) == [["a"], []]
    assert lists(model.suggest(histories(["a"], []), 3)) == [[], []]
    assert Retrieval.fit(histories()).candidates(histories(["a"]), 2).tolist() == [[NONE, NONE]]


def test_words_alone_where_no_query_stands_beside_another() -> None:
    # Of the log only C is left: 1 for "rent flat", which shares both words, and less for "rent car".
    retrieval = Retrieval.fit(histories(["rent flat", "rent flat"], ["rent car"]))
    row = retrieval.candidates(histories(["rent flat now"]), 3)[0]
    assert [retrieval.following.queries[place] for place in row.tolist() if place != NONE] == ["rent flat", "rent car"]


def test_bm25_by_hand() -> None:
    retrieval = Retrieval.fit(histories(["red shoes", "red red hats"], ["blue hats"]))
    # Words: 2, 3 and 2, so 7 / 3 on average. Red is in 2 of 3 queries: idf = ln(1 + 1.5 / 2.5) = ln 1.6.
    # In "red red hats" it counts 2 x 2.2 / (2 + 1.2 x (0.25 + 0.75 x 9 / 7)).
    idf = math.log(1.6)
    short = idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 6 / 7))
    long = idf * 4.4 / (2 + 1.2 * (0.25 + 0.75 * 9 / 7))
    found = retrieval.scores(pl.Series(["red red", "of", ""]))
    assert found[0].tolist() == pytest.approx([short, long, 0], rel=1e-6)
    assert not found[1:].any()


def test_candidates_by_hand() -> None:
    retrieval = Retrieval.fit(histories(["a b", "c"], ["a b", "d"], ["a b", "d"], ["a x", "e"], ["f"]))
    queries = retrieval.following.queries.to_list()

    def texts(*session: str, k: int = 6, typed: bool = False) -> list[str]:
        row = retrieval.candidates(histories(session), k, typed=typed)[0]
        return [queries[place] for place in row if place != NONE]

    # First what followed. Then: a is in 2 of 6 queries, idf ln(1 + 4.5 / 2.5) = 1.03, and b in 1, ln(1 + 5.5 / 1.5) =
    # 1.54; "a x" has 1.03 / 2.57 = 0.40 of the best, "a b" itself, so 0.16 when squared. Beside "a b" stand c, once,
    # and d, twice: d has 2 / 3^(1/2) / 2^(1/4) = 0.97; beside "a x" stands e: 0.16 x 1 = 0.16 of 0.97. "a x" itself has
    # 0.3 x 0.16 for its words.
    assert texts("a b") == ["d", "c", "e", "a x"]
    assert texts("a b", k=2) == ["d", "c"]
    assert texts("a b", typed=True)[2] == "a b"
    # Never typed: what is closest, and what followed the closest; "f" shares nothing with it.
    assert set(texts("b b new")) == {"a b", "d", "c"}
    # The word of the query before the last still counts.
    assert "f" in texts("f g", "a b") and "f" not in texts("a b")
    assert texts() == [] and texts("unknown") == []


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_candidates_equal_a_literal_loop(seed: int, typed: bool) -> None:
    log, asked = some_sessions(seed, 80, "abcdefgh"), [*some_sessions(seed + 5, 25, "abcdefghij"), []]
    retrieval = Retrieval.fit(histories(*log))
    found = retrieval.candidates(histories(*asked), 12, typed=typed)
    queries = retrieval.following.queries.to_list()
    assert queries == list(dict.fromkeys(query for session in log for query in session))
    for row, session in zip(found.tolist(), asked, strict=True):
        assert [queries[place] for place in row if place != NONE] == literal_candidates(log, session, 12, typed)
    assert found.shape == (26, 12) and found.dtype == np.int32
    alone = [retrieval.candidates(histories(session), 12, typed=typed)[0].tolist() for session in asked]
    assert alone == found.tolist()


def literal_candidates(log: list[list[str]], session: list[str], k: int, typed: bool) -> list[str]:
    """The module's words, one query and one word at a time."""
    if not session:
        return []
    queries = list(dict.fromkeys(query for other in log for query in other))
    after = {query: Counter[str]() for query in queries}
    for other in log:
        for before, then in pairwise(other):
            after[before][then] += 1
    first = [query for query, _ in after.get(session[-1], Counter()).most_common()]
    times = Counter(query for other in log for query in other)
    beside = literal_beside(log)
    words, near = defaultdict[str, float](float), defaultdict[str, float](float)
    for age, last in enumerate(reversed(session[-3:])):
        close = literal_bm25(queries, last)
        ranked = sorted(close, key=lambda query: (-close[query], queries.index(query)))[:CLOSE]
        for query in ranked:
            worth = 0.8**age * (close[query] / close[ranked[0]]) ** 2
            words[query] += worth
            for close_by, weight in beside[query].items():
                share = weight / math.sqrt(sum(beside[query].values())) / times[close_by] ** 0.25
                near[close_by] += worth * share
    if words:
        best, most = max(words.values()), max(near.values(), default=1.0)
        total = {q: round(0.3 * words[q] / best + near[q] / most, 6) for q in {*words, *near}}
        first += sorted(total, key=lambda query: (-total[query], queries.index(query)))
    return [query for query in dict.fromkeys(first) if typed or query not in session][:k]


def literal_bm25(queries: list[str], text: str) -> dict[str, float]:
    average = sum(len(query.split()) for query in queries) / len(queries)
    close: dict[str, float] = {}
    for query in queries:
        own = query.split()
        for word in set(text.split()) & set(own):
            held = sum(word in other.split() for other in queries)
            idf = math.log(1 + (len(queries) - held + 0.5) / (held + 0.5))
            damped = own.count(word) * 2.2 / (own.count(word) + 1.2 * (0.25 + 0.75 * len(own) / average))
            close[query] = close.get(query, 0.0) + float(np.float32(idf * damped))
    return close


def literal_beside(log: list[list[str]]) -> dict[str, dict[str, float]]:
    """How often and how near, both ways: 0.8 to the number of queries between, of at most 8 places apart."""
    found: dict[str, dict[str, float]] = {query: {} for session in log for query in session}
    for session in log:
        for one, query in enumerate(session):
            for other, beside in enumerate(session):
                if query != beside and abs(one - other) <= 8:
                    found[query][beside] = found[query].get(beside, 0.0) + 0.8 ** (abs(one - other) - 1)
    return found


def figures(name: str, rules: QueryRules, *, novel: bool) -> dict[str, tuple[list[float], float, float, float]]:
    """Precisions and BLEU x 100, MRR@10 and recall@10, by model; and how many pairs."""
    queries, _ = read_queries(DATA / name, rules=rules)
    train, test = queries.part("train").histories, queries.part("test", novel=novel).histories
    asked, targets = prefixes(test)
    true = pl.Series(test.vocabulary.values).gather(targets - 2)
    model = MostFrequentNext.fit(train)
    rows = {
        "repeat": RepeatLast().suggest(asked),
        "typed": model.suggest(asked, typed=True),
        "new": model.suggest(asked),
    }
    found = {}
    for key, suggested in rows.items():
        total = ngram_counts(suggested.first, true).sum(0)
        rank = text_ranks(suggested.texts, suggested.offsets, true)
        precision = (100 * ngram_precision(total)).round(1).tolist()
        ranked = float(reciprocal_rank(rank, 10).mean()), float(hit(rank, 10).mean())
        found[key] = (precision, round(100 * float(bleu(total)), 2), *ranked)
    assert len(true) == {True: 1881, False: 1480}[novel] or rules == PAPER_RULES
    return found


@real
def test_the_floors_of_msmarco() -> None:
    # Novel test sessions of two queries or more: no cap on queries or words, successive duplicates dropped.
    found = figures("msmarco/sessions.tsv.gz", QueryRules(normalisation="paper"), novel=True)
    assert found["repeat"][:2] == ([41.7, 19.4, 4.9, 1.4], 8.33)
    assert found["typed"][:2] == ([38.3, 17.3, 4.3, 1.4], 7.82)
    assert found["new"][2:] == pytest.approx((0.00219, 0.0069), abs=5e-5)
    # Of 3 to 5 queries of at most 10 words, as in the paper, 946 pairs of 338 sessions are left.
    found = figures("msmarco/sessions.tsv.gz", PAPER_RULES, novel=True)
    assert found["repeat"][:2] == ([41.9, 19.4, 4.8, 1.2], 7.96)


@real
def test_the_floor_of_sqa() -> None:
    found = figures("sqa/sequences.tsv.gz", QueryRules(normalisation="paper"), novel=False)
    assert found["repeat"][:2] == ([28.6, 10.5, 5.4, 3.1], 8.18)


@real
def test_candidates_hold_what_most_frequent_next_misses() -> None:
    queries, _ = read_queries(DATA / "msmarco/sessions.tsv.gz", rules=QueryRules(normalisation="paper"))
    asked, targets = prefixes(queries.part("valid", novel=True).select(slice(200)).histories)
    retrieval = Retrieval.fit(queries.part("train").histories)
    true = retrieval.following.vocabulary.ids(queries.histories.vocabulary.value(int(id)) for id in targets) - 2
    found = (retrieval.candidates(asked, 100) == true[:, None]) & (true[:, None] >= 0)
    assert (found.any(1).sum(), len(targets)) == (143, 451)
    counted = retrieval.following.suggest(asked, 100)
    ranks = text_ranks(counted.texts, counted.offsets, pl.Series([*map(queries.histories.vocabulary.value, targets)]))
    assert hit(ranks, 100).sum() == 31  # frequent queries, for what truly followed is in no novel session
