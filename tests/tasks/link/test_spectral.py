"""Vectors of words whose sums have the products of counting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from ensue.tasks.link import pretrain
from ensue.tasks.link.pieces import PIECES, pieces_of
from ensue.tasks.link.pretrain import term_vectors, word_vectors
from ensue.text.tokens import Tokens

TEXTS = [[2, 3, 2, 4], [4, 5, 6], [6, 6, 2, 7], [8, 3]]
WEIGHTS = np.array([1, 1, 2.0, 1.5, 1, 3, 1.2, 2, 1, 1], np.float32)


def tokens(texts: list[list[int]]) -> Tokens:
    ends = np.cumsum([0, *map(len, texts)])
    return Tokens(np.concatenate(texts).astype(np.int32), ends, np.arange(len(ends)))


def summed(text: list[int], vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """A text as a bag has it, at length 1."""
    total = np.zeros(vectors.shape[1])
    for word in set(text):
        total += (1 + np.log(text.count(word))) * WEIGHTS[word] * vectors[word]
    return total / np.linalg.norm(total)


def test_products_of_articles_are_those_of_counting() -> None:
    vectors = term_vectors(tokens(TEXTS), WEIGHTS, 4, seed=0)
    counted = [summed(text, np.eye(len(WEIGHTS), dtype=np.float32)) for text in TEXTS]
    for one, own in zip(counted, TEXTS, strict=True):
        for other, theirs in zip(counted, TEXTS, strict=True):
            assert summed(own, vectors) @ summed(theirs, vectors) == pytest.approx(one @ other, abs=1e-5)
    post = [4, 7, 3]  # of another length, but ranked alike
    ranks = [summed(post, np.eye(len(WEIGHTS), dtype=np.float32)) @ one for one in counted]
    found = [summed(post, vectors) @ summed(text, vectors) for text in TEXTS]
    assert np.corrcoef(ranks, found)[0, 1] > 0.99999
    assert np.square(vectors[2:9]).mean() == pytest.approx(1, rel=1e-5)


def test_what_is_left_over_is_faint_and_words_of_no_article_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = term_vectors(tokens(TEXTS), WEIGHTS, 200, seed=0)
    assert vectors[2:9, 4:].std() == pytest.approx(pretrain.FAINT, rel=0.1)
    assert vectors[0].std() == pytest.approx(pretrain.FAINT, rel=0.2) and (vectors[0] != vectors[9]).all()
    assert (term_vectors(tokens(TEXTS), WEIGHTS, 200, seed=0) == vectors).all()
    monkeypatch.setattr(pretrain, "READ", 2)
    few = term_vectors(tokens(TEXTS), WEIGHTS, 200, seed=0)
    assert few.shape == vectors.shape and np.isfinite(few).all()


def test_copies_and_texts_without_words() -> None:
    assert np.isfinite(term_vectors(tokens([[2, 3], [2, 3], []]), WEIGHTS, 8, seed=0)).all()


BODIES = pl.Series(["the ferries sank in the harbour", "a ferry is late", "taxes rise for farmers", ""])


def test_forms_of_a_word_are_close_and_so_are_their_pieces() -> None:
    words = ["", "", "ferry", "ferries", "harbour", "taxes", "farmers"]
    vectors = word_vectors(BODIES, words, 3, seed=0)
    assert vectors.shape == (7 + PIECES, 3) and not vectors[:2].any()
    assert np.square(vectors[:7]).mean() == pytest.approx(1, rel=1e-5)

    def cosine(one: int, other: int) -> float:
        return float(vectors[one] @ vectors[other] / np.linalg.norm(vectors[one]) / np.linalg.norm(vectors[other]))

    assert cosine(2, 3) > 0.4 > 0.1 > cosine(2, 5)
    pieces, offsets = pieces_of(words)
    held = 7 - 1 - pieces[offsets[6] : offsets[7]]  # of farmers, which shares none of them: each has an even share
    np.testing.assert_allclose(vectors[held], np.tile(vectors[6] / len(held), (len(held), 1)), rtol=1e-5)
    assert (word_vectors(BODIES, words, 3, seed=0) == vectors).all()


def test_more_numbers_than_articles_and_texts_without_characters() -> None:
    vectors = word_vectors(BODIES, ["", "", "ferry"], 40, seed=0)
    assert vectors[:, 3:].std() == pytest.approx(pretrain.FAINT, rel=0.1) and np.isfinite(vectors).all()
    for texts in (pl.Series(["", ""]), pl.Series([" "])):
        assert np.isfinite(word_vectors(texts, ["", "", "ferry"], 4, seed=0)).all()
