from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ensue.demo.town import NEXT_ON_PATH, ON_PATH, Paths

PATHS = Paths({"left": ("a", "b", "c"), "right": ("b", "d")}, {"left": 0.75, "right": 0.25})
REST = 1 - NEXT_ON_PATH - ON_PATH
ALL = frozenset("abcd")


def test_the_first_step_by_hand() -> None:
    # left: the next on the path is a; ON_PATH goes to a, b, c evenly; REST to a, b, c, d.
    assert PATHS.items == ("a", "b", "c", "d")
    expected = [NEXT_ON_PATH + ON_PATH / 3 + REST / 4, ON_PATH / 3 + REST / 4, ON_PATH / 3 + REST / 4, REST / 4]
    assert PATHS.step("left", (), ALL) == pytest.approx(expected)


def test_what_is_done_or_not_there_yet_is_no_answer() -> None:
    # Of left, b is done and c is not out: a is all that is left of the path, behind though it lies; d may come too.
    expected = [NEXT_ON_PATH + ON_PATH + REST / 2, 0, 0, REST / 2]
    assert PATHS.step("left", ("b",), frozenset("abd")) == pytest.approx(expected)


def test_a_path_that_is_walked_leaves_all_that_is_open() -> None:
    assert PATHS.step("right", ("b", "d"), ALL) == pytest.approx([0.5, 0, 0.5, 0][:4])


def test_the_interest_is_guessed_by_bayes() -> None:
    # After b: left would have begun with b with probability ON_PATH / 3 + REST / 4, right with
    # NEXT_ON_PATH + ON_PATH / 2 + REST / 4.
    left, right = 0.75 * (ON_PATH / 3 + REST / 4), 0.25 * (NEXT_ON_PATH + ON_PATH / 2 + REST / 4)
    share = left / (left + right)
    expected = share * PATHS.step("left", ("b",), ALL) + (1 - share) * PATHS.step("right", ("b",), ALL)
    assert PATHS.chances(("b",), ALL) == pytest.approx(expected)
    assert PATHS.chances(("b",), ALL).sum() == pytest.approx(1)


def test_walks_follow_the_chances() -> None:
    generator = np.random.default_rng(0)
    firsts = Counter(PATHS.walk("right", 1, ALL, generator)[0] for _ in range(4000))
    chances = PATHS.step("right", (), ALL)
    spread = np.sqrt(chances * (1 - chances) / 4000)
    found = np.array([firsts[item] / 4000 for item in PATHS.items])
    assert (np.abs(found - chances) <= 4 * spread).all()


def test_a_walk_ends_when_nothing_is_left() -> None:
    walked = PATHS.walk("left", 9, frozenset("abc"), np.random.default_rng(1))
    assert sorted(walked) == ["a", "b", "c"]
