"""Vectors of words whose sums have the products of counting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from ensue.tasks.link import spectral
from ensue.tasks.link.spectral import term_vectors
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
    assert vectors[2:9, 4:].std() == pytest.approx(spectral.FAINT, rel=0.1)
    assert vectors[0].std() == pytest.approx(spectral.FAINT, rel=0.2) and (vectors[0] != vectors[9]).all()
    assert (term_vectors(tokens(TEXTS), WEIGHTS, 200, seed=0) == vectors).all()
    monkeypatch.setattr(spectral, "READ", 2)
    few = term_vectors(tokens(TEXTS), WEIGHTS, 200, seed=0)
    assert few.shape == vectors.shape and np.isfinite(few).all()


def test_copies_and_texts_without_words() -> None:
    assert np.isfinite(term_vectors(tokens([[2, 3], [2, 3], []]), WEIGHTS, 8, seed=0)).all()
