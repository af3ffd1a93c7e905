"""Posts beside a post: a literal loop over words, none that tells of itself, and samples that tell of others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ensue.tasks.link.ensembles.neighbours import PostNeighbours
from ensue.text.lexical import Lexical
from ensue.text.terms import word_terms

ARTICLES = ["ferry fares fall", "harbour police close road", "night trains"]
POSTS = ["ferry fares today", "cheaper ferry today", "harbour detour today", "detour again", "", "nothing shared"]


def counted() -> Lexical:
    lexical = Lexical("words")
    lexical.add(pl.Series(ARTICLES))
    return lexical


def shares() -> np.ndarray:
    found = np.full((6, 3), 0.02)
    found[[0, 2], [0, 1]] = 0.9
    return found


def literal(weight: float) -> np.ndarray:
    """By dictionaries of words; an empty post has no neighbour."""
    every = [set(text.split()) for text in ARTICLES + POSTS]
    words = [{word for word in own if word not in ("again", "nothing")} for own in every]
    held = {word: sum(word in own for own in words) for word in set().union(*words)}
    rarity = {word: (np.log((1 + len(words)) / (1 + num)) + 1) ** 2 for word, num in held.items()}
    vectors = []
    for own in words[3:]:
        length = sum(rarity[word] ** 2 for word in own) ** 0.5
        vectors.append({word: rarity[word] / length for word in own})
    before, after = shares(), shares()
    for row, vector in enumerate(vectors):
        told, near = np.zeros(3), 0.0
        for place, other in enumerate(vectors):
            close = sum(value * other.get(word, 0.0) for word, value in vector.items()) if place != row else 0.0
            told, near = told + close * before[place], near + close
        after[row] = (before[row] + weight * told / (near + 1)) / (1 + weight * near / (near + 1))
    return after


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_mixed_is_the_literal_loop(weight: float) -> None:
    words = word_terms(pl.Series(POSTS))
    own = PostNeighbours(words, shares(), counted())
    found = np.exp(own.mixed(np.log(shares()), words, np.arange(6), weight))
    np.testing.assert_allclose(found, literal(weight), rtol=1e-5)
    # "detour again" says nothing by itself; the post that shares its rare word does.
    assert found[3].argmax() == 1 and found[3, 1] > 2 * shares()[3, 1]
    np.testing.assert_allclose(found[4:], shares()[4:])


def test_a_post_that_is_none_of_those_that_tell_hears_all_of_them() -> None:
    words, first = word_terms(pl.Series(POSTS)), word_terms(pl.Series(POSTS[:1]))
    own = PostNeighbours(words, shares(), counted())
    alone, copy = (own.mixed(np.log(shares()[:1]), first, np.array([row]), 1.0) for row in (0, -1))
    assert copy[0, 0] > alone[0, 0]
    unknown = own.mixed(np.log(shares()[:1]), word_terms(pl.Series(["quite unheard"])), np.array([-1]), 1.0)
    np.testing.assert_allclose(np.exp(unknown), shares()[:1])


def test_posts_in_blocks_hear_the_same() -> None:
    words = word_terms(pl.Series(POSTS))
    own = PostNeighbours(words, shares(), counted())
    whole = own.mixed(np.log(shares()), words, np.arange(6), 1.0)
    parts = [
        own.mixed(np.log(shares()[row : row + 1]), word_terms(pl.Series(POSTS[row : row + 1])), np.array([row]), 1.0)
        for row in range(6)
    ]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-12)
