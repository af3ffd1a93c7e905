"""Windows of sessions by hand, every pair a target once, and texts that have no token."""

from __future__ import annotations

import numpy as np
import polars as pl

from ensue import History
from ensue.data.histories import Histories
from ensue.data.queries.tokens import QueryTokenizer
from ensue.tasks.suggest.batch import UNKNOWN
from ensue.tasks.suggest.dataset import Sessions, latest, rows_of, spell_out


def sessions(*lengths: int) -> Histories:
    return Histories.of(History(tuple(f"q{number}" for number in range(length))) for length in lengths)


def made(histories: Histories, turns: int, width: int = 9) -> Sessions:
    """Query number n has n + 1 tokens."""
    sizes = np.arange(1, len(histories.vocabulary.values) + 1)
    tokens = np.repeat(np.arange(4, 4 + len(sizes)), sizes).astype(np.int32)
    spelled = spell_out(QueryTokenizer.fit(pl.Series(["a"])), pl.Series([], dtype=pl.String))._replace(
        tokens=tokens, offsets=np.concatenate([[0], np.cumsum(sizes)])
    )
    return Sessions(histories, spelled, turns, width)


def test_windows_share_one_query() -> None:
    # Seven queries in windows of three: 0-2, 2-4, 4-6; of two: one window; of one: none, nothing follows.
    found = made(sessions(7, 2, 1), turns=3)
    assert list(zip(found.starts.tolist(), found.lengths.tolist(), strict=True)) == [(0, 3), (2, 3), (4, 3), (7, 2)]
    assert found.widths.tolist() == [3, 5, 7, 2] and found.cut_sessions == 1 and found.cut_queries == 0


def test_every_pair_is_learned_once() -> None:
    histories = sessions(10_000, 3, 17)
    found, pairs = made(histories, turns=16, width=4), list[int]()
    for index in found.groups(2000):
        batch = found.batch(index)
        assert batch.words.shape[1] <= 16 and batch.words.shape[2] <= 4
        for start, length in zip(found.starts[index].tolist(), found.lengths[index].tolist(), strict=True):
            pairs += range(start, start + length - 1)
        assert int(batch.followed.sum()) == int((found.lengths[index] - 1).sum())
    assert sorted(pairs) == [*range(9_999), 10_000, 10_001, *range(10_003, 10_019)]
    assert found.cut_queries == 9_996 + 13  # those of five tokens or more


def test_a_plan_holds_all_and_is_the_same_for_the_same_seed() -> None:
    found = made(sessions(*[2, 5, 3] * 20), turns=4)
    plan = found.plan(8, (3, 1))
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(found)))
    assert [part.tolist() for part in plan] == [part.tolist() for part in found.plan(8, (3, 1))]
    assert [part.tolist() for part in plan] != [part.tolist() for part in found.plan(8, (3, 2))]


def test_rows_side_by_side() -> None:
    rows = rows_of(np.array([5, 6, 7, 8]), np.array([0, 1]), np.array([1, 3]))
    assert rows.tolist() == [[5, -1, -1], [6, 7, 8]]


def test_a_text_without_a_token_is_one_unknown_token() -> None:
    tokenizer = QueryTokenizer.fit(pl.Series(["red boat"]))
    tokens, offsets = spell_out(tokenizer, pl.Series(["boat", "", "red red", ""]))
    red, boat = tokenizer.tokens.index("red"), tokenizer.tokens.index("boat")
    assert tokens.tolist() == [boat, UNKNOWN, red, red, UNKNOWN] and offsets.tolist() == [0, 1, 2, 4, 5]


def test_the_latest_queries_of_each_session() -> None:
    histories = Histories.of([History(("a", "b", "c")), History(()), History(("c b",))])
    assert [record.values for record in latest(histories, 2).records()] == [("b", "c"), (), ("c b",)]
