"""What lets answers be read off the data: each worked out by hand, and planted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ensue import History
from ensue.data import leaks
from ensue.data.histories import Histories
from ensue.data.leaks import Telling, before_the_last, begun_beside, near_sequences, near_texts, telling_words


def histories(*values: str, times: list[list[float]] | None = None) -> Histories:
    rows = times or [[]] * len(values)
    return Histories.of(History(tuple(own), tuple(row)) for own, row in zip(values, rows, strict=True))


def test_prefixes_that_stand_as_rows() -> None:
    rows = [own[:end] for own in ("abcd", "efg", "hi", "jklm", "no") for end in range(1, len(own) + 1)]
    # 15 rows, of which the 5 whole sequences begin no other.
    assert begun_beside(histories(*rows)) == 10
    assert begun_beside(histories(*reversed(rows))) == 10
    assert begun_beside(histories(*rows[:4], *rows)) == 13
    assert begun_beside(histories("ab", "abc", *(f"{chr(200 + n)}z" for n in range(40)))) == 0, "one by chance"
    assert begun_beside(histories("abc")) == 0


def test_what_begins_before_the_last_that_is_learned() -> None:
    late = 1.5e9
    train = histories("ab", "cd", times=[[late, late + 9], [late + 5, late + 6]])
    test = histories("ab", "cd", "ef", times=[[late + 4, late + 30], [late + 5, late + 7], [late + 7, late + 8]])
    assert before_the_last(train, test) == 1
    assert before_the_last(histories("ab"), test) == 0
    from_zero = histories("ab", times=[[0.0, 2.0]])
    assert before_the_last(from_zero, from_zero) == 0, "clocks that start anew with every history order nothing"


def test_sequences_that_nearly_repeat_one() -> None:
    letters = "abcdefghijklmnopqrst"
    train = histories(letters, "zyxw", "ab")
    # One letter of twenty changed leaves 15 runs of 21; what training lacks is no copy of anything; two letters
    # are too few to be called one.
    test = histories(letters[:10] + "Z" + letters[11:], letters[::-1], "ab", "ABCDEFGH", "ABCDEFGI", letters)
    assert near_sequences(train, test) == 2


def test_near_copies_are_not_looked_for_among_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = pl.Series(["five words in a text"]), pl.Series(["five words in this text"])
    histories_of = histories("abcde"), histories("abcdf")
    assert near_texts(*texts) is not None and near_sequences(*histories_of) is not None
    monkeypatch.setattr(leaks, "MOST_WORDS", 9)  # both texts, and both histories, hold ten
    assert near_texts(*texts) is None and near_sequences(*histories_of) is None


def test_words_that_are_the_label_by_hand() -> None:
    texts = pl.Series([f"tag_{'ab'[n % 2]} some words {n}" for n in range(100)])
    labels = pl.Series(["ab"[n % 2] for n in range(100)])
    assert telling_words((texts,), labels) == [Telling("tag_a", "a", 1.0, 0.0), Telling("tag_b", "b", 1.0, 0.0)]
    second = (pl.Series(["a text"] * 100), texts)
    assert [one.word for one in telling_words(second, labels)] == ["tag_a", "tag_b"]
    # The tag of a in three texts of b too: phi = 0.942 by scikit-learn's matthews_corrcoef, which is below 0.95.
    spoilt = texts.scatter([1, 3, 5], "tag_a tag_b")
    assert [one.label for one in telling_words((spoilt,), labels)] == ["b"]


@pytest.mark.parametrize("words", ["some words", ""])
def test_words_that_tell_nothing(words: str) -> None:
    labels = pl.Series(["ab"[n % 2] for n in range(100)])
    assert telling_words((pl.Series([words] * 100),), labels) == []
    few = (pl.Series([f"tag_{n % 2}" for n in range(40)]),)
    assert telling_words(few, pl.Series(["ab"[n % 2] for n in range(40)])) == [], "too few to say so"


def test_phi_is_the_correlation() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 400)
    held = np.where(generator.random(400) < 0.01, 1 - labels, labels)
    found = telling_words((pl.Series([("x" if own else "y") for own in held]),), pl.Series(map(str, labels)))
    expected = np.corrcoef(held, labels)[0, 1]
    assert expected > 0.95 and [(one.word, one.label) for one in found] in (
        [("x", "1"), ("y", "0")],
        [("y", "0"), ("x", "1")],
    )
    assert found[0].inside == pytest.approx((held & labels).sum() / labels.sum(), abs=0.03)
