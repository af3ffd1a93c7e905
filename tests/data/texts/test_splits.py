"""Splits and leaks of texts: shares by hand, what always holds, and plain loops."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensue import DataError, SettingError, Text
from ensue.data.texts import Texts, hold_out_texts, leaks


def given_texts(*pairs: tuple[str, str], groups: list[str] | None = None) -> Texts:
    texts = Texts.of(Text((text,), label) for text, label in pairs)
    return Texts(texts.texts, texts.labels, None, None if groups is None else pl.Series(groups))


def of_labels(labels: str, groups: str | None = None) -> Texts:
    """One row a letter: its label, and the group below it."""
    return given_texts(
        *((f"text {i}", label) for i, label in enumerate(labels)), groups=list(groups) if groups else None
    )


def held_labels(labels: str, share: float, seed: int = 0, groups: str | None = None) -> Counter[object]:
    return Counter(record.label for record in hold_out_texts(of_labels(labels, groups), share, seed)[1].records())


def test_hold_out_keeps_proportions() -> None:
    # 10 % of 40 and 20: exactly 4 and 2. 30 % of 7, 2, 1: 2.1, 0.6, 0.3; three rows in all, so the largest
    # remainder, 0.6, gets the third.
    assert held_labels("a" * 40 + "b" * 20, 0.1) == {"a": 4, "b": 2}
    assert held_labels("a" * 7 + "b" * 2 + "c", 0.3) == {"a": 2, "b": 1}
    train, held, rule = hold_out_texts(of_labels("a" * 40 + "b" * 20), 0.1)
    assert rule == "6 of 60 at random (seed 0), stratified by label"
    order = [int(record.texts[0].split()[1]) for record in (*train.records(), *held.records())]
    assert sorted(order) == list(range(60)) and order[:54] == sorted(order[:54]) and order[54:] == sorted(order[54:])


def test_hold_out_is_drawn_by_the_seed() -> None:
    texts = of_labels("ab" * 50)
    draws = [hold_out_texts(texts, 0.2, seed)[1].texts[0].to_list() for seed in (3, 3, 4)]
    assert draws[0] == draws[1] != draws[2]
    counts = Counter(text for seed in range(300) for text in hold_out_texts(texts, 0.2, seed)[1].texts[0])
    # Each row is held in a fifth of 300 draws: 60, with standard deviation sqrt(300 * .2 * .8) = 6.9.
    assert len(counts) == 100 and all(abs(count - 60) < 5 * 6.9 for count in counts.values())


@given(st.text("abc", min_size=2, max_size=30), st.floats(0.01, 0.99), st.integers(0, 9), st.booleans(), st.data())
def test_hold_out_properties(labels: str, share: float, seed: int, grouped: bool, data: st.DataObject) -> None:
    size = len(labels)
    groups = data.draw(st.text("uvwxyz", min_size=size, max_size=size)) if grouped else None
    if groups and len(set(groups)) < 2:
        return
    train, held, _ = hold_out_texts(of_labels(labels, groups), share, seed)
    assert len(train) and len(held) and len(train) + len(held) == size
    if groups:
        assert train.groups is not None and held.groups is not None
        assert not set(train.groups) & set(held.groups)
        safe = [
            g for g in set(groups) if all(Counter(labels)[x] > c for x, c in Counter(pairs(labels, groups, g)).items())
        ]
    avoidable = safe if groups else max(Counter(labels).values()) > 1
    if avoidable:
        assert train.labels is not None and set(train.labels) == set(labels)


def pairs(labels: str, groups: str, group: str) -> list[str]:
    return [label for label, owner in zip(labels, groups, strict=True) if owner == group]


def test_hold_out_of_whole_groups() -> None:
    # 25 % of 8 a's: two of them. Group u has five, v two, w one: only v alone fits, or w first and nothing more.
    for seed in range(9):
        assert held_labels("aaaaaaaa", 0.25, seed, "uuuuuvvw") in ({"a": 2}, {"a": 1})
    # No group fits into one row of each label: the smallest is held.
    assert held_labels("aabbaabbab", 0.1, 0, "uuuuvvvvvv") == {"a": 2, "b": 2}
    with pytest.raises(DataError, match="all rows belong to one group, which cannot be split"):
        hold_out_texts(of_labels("aab", "uuu"))


def test_hold_out_keeps_premises_together() -> None:
    texts = Texts.of(Text((f"premise {i // 3}", f"hypothesis {i}"), "abc"[i % 3]) for i in range(60))
    train, held, rule = hold_out_texts(texts, 0.2)
    # 20 % of 20 labels each is 4: four premises of three hypotheses.
    assert rule == "12 of 60 at random (seed 0), pairs of a text together, stratified by label"
    assert len(set(held.texts[0])) == 4 and not set(held.texts[0]) & set(train.texts[0])
    assert Counter(record.label for record in held.records()) == {"a": 4, "b": 4, "c": 4}


def test_hold_out_without_labels_and_refusals() -> None:
    texts = Texts((pl.Series(["a", "b", "c", "d"]),))
    _, held, rule = hold_out_texts(texts, 0.5)
    assert (len(held), rule) == (2, "2 of 4 at random (seed 0)")
    with pytest.raises(SettingError, match="share is 1; it must be a number between 0 and 1"):
        hold_out_texts(texts, 1)
    with pytest.raises(DataError, match="1 text cannot be split in two; give at least 2"):
        hold_out_texts(texts.select(slice(1)))


def test_leaks_by_hand() -> None:
    train = given_texts(("Good  film", "1"), ("good film ", "0"), ("bad", "0"), ("BAD", "0"), ("x", "1"))
    other = given_texts(("good film", "1"), ("bad", "0"), ("X", "0"), ("new", "1"), ("new", "0"))
    assert asdict(leaks(train, other)) == {
        "rows": 5,
        "other_rows": 5,
        "repeated": 2,  # the second good film, the second bad
        "repeated_disagree": 2,  # both good films
        "other_repeated": 1,  # the second new
        "other_repeated_disagree": 2,
        "shared": 3,  # good film, bad, x
        "shared_disagree": 2,  # good film is trained on as 0 too, x as 1
        "shared_groups": 0,
        "examples": ("good film", "bad", "x"),
    }


def test_leaks_of_groups_and_pairs() -> None:
    train = Texts((pl.Series(["a", "b"]),), groups=pl.Series(["u", "v"]))
    other = Texts((pl.Series(["c", "d", "e"]),), groups=pl.Series(["v", "v", "w"]))
    assert (leaks(train, other).shared_groups, leaks(train, other).shared) == (2, 0)
    pairs = [
        Texts.of([Text(("p", "h")), Text(("p", "i"))]),
        Texts.of([Text(("p", "H")), Text(("ph", "")), Text(("p", "j"))]),
    ]
    found = leaks(*pairs)
    assert (found.shared, found.shared_groups, found.shared_disagree, found.examples) == (1, 2, 0, ("p\th",))
    with pytest.raises(DataError, match="one part holds single texts and the other pairs"):
        leaks(train, pairs[0])


LABELLED = st.lists(
    st.tuples(st.sampled_from(["a", "A", " a", "b b", "b  B", "c", ""]), st.sampled_from("01")), min_size=1
)


@given(LABELLED, LABELLED)
def test_leaks_against_a_plain_loop(train: list[tuple[str, str]], other: list[tuple[str, str]]) -> None:
    here = [(" ".join(text.lower().split()), label) for text, label in train]
    there = [(" ".join(text.lower().split()), label) for text, label in other]
    found = leaks(given_texts(*train), given_texts(*other))
    assert found.repeated == sum(text in [t for t, _ in here[:i]] for i, (text, _) in enumerate(here))
    assert found.other_repeated == sum(text in [t for t, _ in there[:i]] for i, (text, _) in enumerate(there))
    assert found.repeated_disagree == sum(any(t == text and x != y for t, x in here) for text, y in here)
    assert found.shared == sum(any(t == text for t, _ in here) for text, _ in there)
    assert found.shared_disagree == sum(any(t == text and x != y for t, x in here) for text, y in there)
