"""Near-copies: by hand, beside a literal loop over all pairs, and across splits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest

from ensue import DataError, Post, SettingError
from ensue.data.near_copies import MIN_SIMILARITY, components, headline_copies, near_copies, plain_words
from ensue.data.posts.dataset import LinkLeaks, Posts, given_part, hold_out_posts, link_leaks


def test_near_copies_by_hand() -> None:
    texts = [
        "RT @a: Ferry adds night crossings from Monday on https://t.co/x",
        "ferry adds night crossings, from monday on!",
        "something else entirely",
        "Something  ELSE entirely @you",
        "😀 😀",
        "😀😀",
        None,
        "",
        # 12 words are 10 runs; with a word at the end they are 11 and the overlap is 10 / 11.
        "a b c d e f g h i j k l",
        "a b c d e f g h i j k l m",
        # A word changed in the middle breaks 3 of 10 runs: 7 / 13 is too little.
        "a b c d e f z h i j k l",
    ]
    assert near_copies(pl.Series(texts)).tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10]


def test_short_texts_are_copies_only_of_equal_words() -> None:
    assert near_copies(pl.Series(["a b c", "a b", "a b c!", "a b d"])).tolist() == [0, 1, 0, 3]
    assert near_copies(pl.Series([], dtype=pl.String)).tolist() == []


def test_short_texts_behind_a_long_one_do_not_hide_its_copy() -> None:
    long = " ".join(f"w{place}" for place in range(40))
    short = [[f"{side} {place}" for place in range(400)] for side in "ab"]
    groups = near_copies(pl.Series([long, *short[0], f"{long} end", *short[1]]))
    assert groups[len(short[0]) + 1] == 0
    assert len(set(groups.tolist())) == 801


def literal(texts: list[str]) -> list[int]:
    """Groups by comparing every pair."""

    def runs(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[place : place + 3]) for place in range(len(words) - 2)}

    labels = list(range(len(texts)))
    for first, second in combinations(range(len(texts)), 2):
        one, two = runs(texts[first]), runs(texts[second])
        if len(one & two) / len(one | two) >= MIN_SIMILARITY:
            low, high = sorted((labels[first], labels[second]))
            labels = [low if label == high else label for label in labels]
    return labels


def test_groups_equal_the_literal_loop() -> None:
    random = np.random.default_rng(0)
    texts = [" ".join(f"w{word}" for word in random.integers(0, 500, 20)) for _ in range(40)]
    for source in range(40):  # edits of one to three words, some of them too many
        words = texts[source].split()
        for place in random.integers(0, 20, 1 + source % 3):
            words[place] = f"w{random.integers(0, 500)}"
        texts.append(" ".join(words))
    wanted = literal(texts)
    found = near_copies(pl.Series(texts)).tolist()
    assert 0 < sum(label != row for row, label in enumerate(wanted)) < 40
    assert found == wanted


def test_words_that_copies_share() -> None:
    texts = pl.Series(["rt @a via @b: It's 渡轮, http://x.y #Tag a@b.c", None])
    assert plain_words(texts).to_list() == ["via it s 渡 轮 tag a b c", ""]


def test_components_by_hand() -> None:
    # 0-3, 3-1 and 4-5 are joined; 2 stays alone.
    assert components(np.array([0, 3, 5]), np.array([3, 1, 4]), 6).tolist() == [0, 0, 2, 0, 4, 4]
    chain = np.arange(99)
    assert not components(chain, chain + 1, 100).any()


def test_headlines_in_posts() -> None:
    posts = pl.Series(
        [
            "BREAKING Ferry adds night crossings from Monday (via @paper)",
            "the ferry adds crossings at night",
            "short one",
            "ferry adds night crossings from tuesday",
        ]
    )
    titles = pl.Series(["Short one", "Ferry adds night crossings from Monday"])
    # The title has 4 runs; the last post holds 3 of them, under 0.8. "Short one" has under four words.
    assert headline_copies(posts, titles).tolist() == [1, -1, -1, -1]


def story(number: int, *about: str, text: str = "", part: str = "") -> Post:
    return Post(text or f"post number {number} says its own words w{number} v{number} u{number}", str(number), about)


def test_a_split_tears_neither_articles_nor_copies() -> None:
    records = [story(number, f"a{number // 2}") for number in range(40)]
    records += [story(40, "a0", "a1"), story(41, "b", text=records[4].text + " https://t.co/1"), story(42)]
    posts = Posts.of(records)
    train, held, rule = hold_out_posts(posts, 0.25, seed=1)
    assert rule == "9 of 43 posts at random (seed 1), split by article; near copies stay together"
    assert link_leaks(train, held) == LinkLeaks(
        posts=34, other_posts=9, shared_articles=0, on_shared=0, copies=0, examples=()
    )
    sides = {name: side for side, part in enumerate((train, held)) for name in part.ids}
    # a0 and a1 share post 40; posts 4 and 41 are copies, so that a2 and b go together; 42 is about nothing.
    assert sides["0"] == sides["2"] == sides["40"] and sides["4"] == sides["5"] == sides["41"] and sides["42"] == 0
    assert hold_out_posts(posts, 0.25, seed=1)[1].ids.to_list() == held.ids.to_list()


def test_leaks_by_hand() -> None:
    train = Posts.of([story(0, "a", "b"), story(1, "c")])
    other = Posts.of([story(2, "b"), story(3, "d", text=story(1).text.upper()), story(4, "b", "a"), story(5)])
    found = link_leaks(train, other)
    assert (found.shared_articles, found.on_shared, found.copies) == (2, 2, 1)
    assert found.examples == (story(1).text.upper()[:60],)


def test_refused_splits() -> None:
    posts = Posts.of([story(0, "a"), story(1, "a")])
    with pytest.raises(SettingError, match="share is 1; it must be a number between 0 and 1"):
        hold_out_posts(posts, 1)
    with pytest.raises(DataError) as error:
        hold_out_posts(posts)
    assert str(error.value) == ("all posts are connected by articles and near copies; give posts about two stories")
    with pytest.raises(DataError) as error:
        hold_out_posts(Posts.of([story(0), story(1)]))
    assert str(error.value) == "no post is about an article; name their column with --columns about=…"
    with pytest.raises(DataError, match=r"^there is no part 'valid'; the file has none$"):
        given_part(posts, "valid")
