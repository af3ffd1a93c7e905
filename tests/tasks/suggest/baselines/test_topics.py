"""Vectors of words beside a literal matrix and its eigenvectors."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.suggest.baselines import topics
from ensue.tasks.suggest.baselines.topics import moved, word_vectors
from ensue.vocabulary import Vocabulary

SESSIONS = [
    ("red boat", "fast boat"), ("boat sail", "red sail"), ("cake oven", "hot oven"), ("cake", "hot cake"),
    ("oven", "cake tin"), ("sail", "fast"), ("alone",),
]  # fmt: skip


def literal(words: list[str]) -> np.ndarray:
    """The matrix of the module's docstring, a session after the other."""
    held = [{word for query in session for word in query.split()} for session in SESSIONS]
    found = np.zeros((len(words), len(words)))
    for one, other in combinations(range(len(words)), 2):
        both = sum(words[one] in own and words[other] in own for own in held)
        alone = [sum(words[place] in own for own in held) for place in (one, other)]
        if both:
            shared = math.log(len(held) * both / (alone[0] * alone[1])) * both / (both + 1)
            found[one, other] = found[other, one] = max(0.0, shared)
    return found


def test_vectors_equal_a_literal_decomposition() -> None:
    words = ["alone", "boat", "cake", "fast", "hot", "oven", "red", "sail", "tin"]
    found = word_vectors(Histories.of(map(History, SESSIONS)), Vocabulary(words))
    left, strengths, _ = np.linalg.svd(literal(words))
    expected = left * np.sqrt(strengths)
    lengths = np.linalg.norm(expected, axis=1)
    expected = expected / np.maximum(lengths, 1e-9)[:, None]
    assert not found[0].any()  # it stands with nothing
    # A decomposition is known up to a rotation: what is near what is not.
    assert (found @ found.T)[1:, 1:] == pytest.approx((expected @ expected.T)[1:, 1:], abs=1e-3)
    boats, cakes = [words.index(word) for word in ("boat", "red", "sail")], [words.index(w) for w in ("cake", "hot")]
    assert found[boats] @ found[cakes].T == pytest.approx(np.zeros((3, 2)), abs=1e-3)  # they never stand together
    again = word_vectors(Histories.of(map(History, SESSIONS)), Vocabulary(words))
    assert found.tobytes() == again.tobytes()


def test_only_the_latest_sessions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_SESSIONS", 3)
    words = Vocabulary(["boat", "cake", "oven", "red", "tin"])
    found = word_vectors(Histories.of(map(History, SESSIONS)), words)
    assert found.any(1).tolist() == [False, True, True, False, True]


def test_vectors_move_with_their_words() -> None:
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    found = moved(vectors, Vocabulary(["b", "d"]), Vocabulary(["a", "b", "c", "d"]))
    assert found.tolist() == [[0, 0], [1, 0], [0, 0], [0, 1]]
    assert not len(moved(np.empty((0, 0), np.float32), Vocabulary(["b"]), Vocabulary(["a", "b"])))


def test_where_no_word_stands_with_another_all_are_alike() -> None:
    assert not word_vectors(Histories.of([History(("a",)), History(("b",))]), Vocabulary(["a", "b"])).any()
    assert word_vectors(Histories.of([History(("a",))]), Vocabulary()).shape == (0, 0)
