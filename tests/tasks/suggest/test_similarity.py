"""How like a session a text is, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.baselines.shares import Shares
from ensue.tasks.suggest.similarity import SIMILAR, Similarity

SESSIONS = [("red boat", "blue boat"), ("red boat", "sail"), ("cake", "red boat")]


LONGER = [*SESSIONS, ("red boat", "cake", "oven"), ("fast boat", "sail", "boat sail"), ("oven", "cake tin", "hot cake")]


def made(*, topics: bool = False) -> Similarity:
    sessions = Histories.of(map(History, LONGER if topics else SESSIONS))
    return Similarity(Shares(Retrieval.fit(sessions, topics=topics)))


def test_words_by_hand() -> None:
    # Six queries were typed. After "red" came two, after "boat" two, after "cake" one; "sail" and "kite" are as if one.
    rare, often = math.log1p(6), math.log1p(3)
    texts = ["blue boat", "cake boat red", "kite"]
    compared = made()
    table = compared.of([("cake kite", "red boat")], texts, np.zeros(3, np.int64))
    rows = [dict(zip(SIMILAR, row, strict=True)) for row in table.tolist()]
    assert rows[0]["last_words"] == pytest.approx(often / (rare + 2 * often))
    assert rows[1]["last_words"] == pytest.approx(2 * often / (rare + 2 * often))
    assert [row["session_words"] for row in rows] == pytest.approx([often, rare + 2 * often, rare])
    assert [row["new_words"] for row in rows] == pytest.approx([rare, 0, 0])
    assert not table[:, 3:].any()  # nothing says what words are about
    # Sessions beside each other change nothing.
    both = compared.of([("sail",), ("cake kite", "red boat")], ["sail", *texts], np.array([0, 1, 1, 1]))
    assert both[1:].tolist() == table.tolist() and both[0, 0] == 1.0


def test_topics_by_hand() -> None:
    compared = made(topics=True)
    weight = dict(zip(compared.words.values, compared.weights.tolist()[:-1], strict=True))
    vector = dict(zip(compared.words.values, compared.vectors[:-1].astype(np.float64), strict=True))

    def unit(value: np.ndarray) -> np.ndarray:
        found: np.ndarray = value / np.linalg.norm(value)
        return found

    last, before = unit(weight["red"] * vector["red"] + weight["boat"] * vector["boat"]), unit(vector["cake"])
    table = compared.of([("cake", "red boat")], ["boat", "cake", "nobody knows it"], np.zeros(3, np.int64))
    expected = [
        [float(unit(vector[word]) @ last), float(unit(vector[word]) @ unit(last + 0.8 * before))]
        for word in ("boat", "cake")
    ]
    assert table[:2, 3:] == pytest.approx(np.array(expected), abs=1e-6)
    assert not table[2, 3:].any()
