"""Latent semantic analysis beside scikit-learn's, and what no document holds."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from ensue.text import latent
from ensue.text.latent import Latent
from ensue.text.lexical import Lexical
from ensue.text.terms import word_terms

WORDS = [f"{letter}{number}x" for letter in "abcdef" for number in range(8)]


def texts(num: int, seed: int) -> list[str]:
    """Each of one of six topics, by some of its words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS[8 * (place % 6) :][:8], k=6)) for place in range(num)]


def cosines(documents: list[str], asked: list[str]) -> np.ndarray:
    own = Latent.of(word_terms(pl.Series(documents)), len(documents))
    first, second = (own.vectors(word_terms(pl.Series(some)), len(some)) for some in (asked, documents))
    return first @ second.T


def test_cosines_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent, "SIZE", 6)
    documents, asked = texts(90, 0), texts(12, 1)
    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w\w+")
    counted = vectorizer.fit_transform(documents)
    svd = TruncatedSVD(6, algorithm="arpack").fit(counted)
    one, other = (svd.transform(vectorizer.transform(some)) for some in (asked, documents))
    lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(other, axis=1)
    np.testing.assert_allclose(cosines(documents, asked), one @ other.T / lengths, atol=0.02)


def test_all_numbers_are_plain_counting() -> None:
    """48 words need no more than 48 numbers."""
    documents, asked = texts(90, 0), texts(12, 1)
    lexical = Lexical("words")
    lexical.add(pl.Series(documents))
    np.testing.assert_allclose(cosines(documents, asked), lexical.scores(pl.Series(asked)), atol=1e-5)


def test_texts_that_share_a_topic_are_close_whatever_their_words() -> None:
    documents = ["ferry harbour"] * 6 + ["harbour boats"] * 6 + ["trains rails"] * 6 + ["rails tracks"] * 6
    own = Latent.of(word_terms(pl.Series(documents)), len(documents))
    asked = word_terms(pl.Series(["ferry", "boats", "tracks", "unknown", ""]))
    close = own.vectors(asked, 5) @ own.vectors(asked, 5).T
    assert abs(close[0, 2]) < 1e-6 and not close[3:].any()
    assert np.diag(close)[:3] == pytest.approx(1)


@pytest.mark.parametrize("documents", [[], ["", ""], ["ferry"], ["ferry night"] * 90])
def test_few_documents_and_copies(documents: list[str]) -> None:
    own = Latent.of(word_terms(pl.Series(documents, dtype=pl.String)), len(documents))
    vectors = own.vectors(word_terms(pl.Series(["ferry", "boat"])), 2)
    assert np.isfinite(vectors).all() and not vectors[1].any()
    assert np.linalg.norm(vectors[0]) == pytest.approx(float(any(documents)))


def test_of_many_documents_some_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent, "READ", 30)
    documents = texts(90, 0)
    own = Latent.of(word_terms(pl.Series(documents)), 90)
    read = [documents[place] for place in np.linspace(0, 89, 30).astype(int)]
    part = Latent.of(word_terms(pl.Series(read)), 30)
    assert own.terms.tolist() == part.terms.tolist()
    np.testing.assert_array_equal(own.table, part.table)


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="does not rise"):
        Latent(np.zeros(2, np.uint64), np.zeros((1, 3), np.float32))


def test_terms_are_added_up_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = texts(90, 0)
    own, terms = Latent.of(word_terms(pl.Series(documents)), 90), word_terms(pl.Series(documents))
    whole = own.vectors(terms, 90)
    monkeypatch.setattr(latent, "_MAX_CELLS", 7)
    np.testing.assert_allclose(own.vectors(terms, 90), whole, rtol=1e-9, atol=1e-12)
