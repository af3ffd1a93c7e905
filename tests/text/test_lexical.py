"""TF-IDF and BM25 beside scikit-learn and a literal loop, appending beside building anew, and the floors."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from ensue import SettingError
from ensue.data.posts.dataset import given_part, read_articles, read_posts
from ensue.store.pack import pack, unpack
from ensue.tasks.link.link_metrics import Pool, by_row
from ensue.text.lexical import KINDS, Kind, Lexical, LexicalGroup
from ensue.text.terms import LENGTH, SATURATION, STOP_WORDS, character_terms, word_terms

DATA = Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[4] / "../shared/data")) / "links"
ARTICLES = [
    "The ferry adds night crossings, and the ferry fares fall.",
    "Night trains return: fares rise as trains fill",
    "A new map of the harbour shows the detour; Harbour police close the road",
    "x",
    "",
]
POSTS = [
    "ferry fares!! FERRY night",
    "harbour detour map",
    "nothing known",
    "",
    "trains trains fares",
    "Ferries at nite",
]


def build(kind: Kind, texts: list[str]) -> Lexical:
    lexical = Lexical(kind)
    lexical.add(pl.Series(texts))
    return lexical


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_cosines_are_those_of_scikit_learn(kind: Kind) -> None:
    options = {"stop_words": list(STOP_WORDS)} if kind == "words" else {"analyzer": "char_wb", "ngram_range": (3, 5)}
    vectorizer = TfidfVectorizer(sublinear_tf=True, **options)
    documents = vectorizer.fit_transform(ARTICLES)
    wanted = (vectorizer.transform(POSTS) @ documents.T).toarray()
    found = build(kind, ARTICLES).scores(pl.Series(POSTS))
    assert wanted.any(1).tolist() == [True, True, kind == "characters", False, True, kind == "characters"]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_bm25_is_the_literal_loop() -> None:
    stop = STOP_WORDS
    found = build("bm25", ARTICLES).scores(pl.Series(POSTS))

    def words(text: str) -> list[str]:
        plain = "".join(c if c.isalnum() else " " for c in text.lower())
        return [word for word in plain.split() if len(word) > 1 and word not in stop]

    split = [words(text) for text in ARTICLES]
    mean = sum(map(len, split)) / len(split)
    for row, post in enumerate(POSTS):
        for column, article in enumerate(split):
            total = 0.0
            for word in set(words(post)):
                held = sum(word in other for other in split)
                idf = math.log(1 + (len(split) - held + 0.5) / (held + 0.5))
                count = article.count(word)
                long = 1 - LENGTH + LENGTH * len(article) / mean
                total += idf * count * (SATURATION + 1) / (count + SATURATION * long)
            assert found[row, column] == pytest.approx(total, abs=1e-6)


def test_terms_by_hand() -> None:
    owners, keys, counts = word_terms(pl.Series(["Ferry ferry, the x 渡轮 渡", "", "渡"]))
    # ferry twice; the is a stop word and x too short; 渡 twice and 轮 once, as no space stands between them.
    assert owners.tolist() == [0, 0, 0, 2]
    assert sorted(counts[:3].tolist()) == [1, 2, 2]
    assert keys[3] in keys[:3] and counts[3] == 1
    owners, keys, counts = character_terms(pl.Series(["  ab  AB ", "abc"]))
    # " ab " twice: " ab", "ab ", " ab " each; " abc ": 3 + 2 + 1 runs, of which only " ab" is shared.
    assert np.bincount(owners).tolist() == [3, 6]
    assert counts.tolist() == [2] * 3 + [1] * 6
    assert len(set(keys[:3].tolist()) & set(keys[3:].tolist())) == 1


def test_forms_of_a_word_are_one_stem() -> None:
    """BM25 of the same texts with every word cut by hand; a stop word is none, however it begins."""
    texts = ["The ministers therefore opened bridges", "A ministerial opening", "rain"]
    stems = ["minis opene bridg", "minis openi", "rain"]
    posts = pl.Series(["Minister opens a bridge", "bridg", "there"])
    cut = pl.Series(["minis opens bridg", "bridg", ""])
    found = build("stems", texts).scores(posts)
    assert found.tolist() == build("bm25", stems).scores(cut).tolist()
    assert (found > 0).tolist() == [[True, True, False], [True, False, False], [False] * 3]
    assert not build("bm25", texts).scores(posts)[0].any()


@pytest.mark.parametrize("kind", KINDS)
def test_appending_equals_building_anew(kind: Kind) -> None:
    whole, grown = build(kind, ARTICLES), build(kind, ARTICLES[:2])
    asked = pl.Series(POSTS)
    grown.add(pl.Series(ARTICLES[2:]))
    np.testing.assert_array_equal(grown.scores(asked), whole.scores(asked))
    copy = unpack(Lexical, *pack(whole))
    np.testing.assert_array_equal(copy.scores(asked), whole.scores(asked))


@pytest.mark.parametrize("kind", KINDS)
def test_a_post_scores_the_same_alone_and_in_any_block(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    lexical = build(kind, ARTICLES)
    whole = lexical.scores(pl.Series(POSTS))
    alone = np.concatenate([lexical.scores(pl.Series([post])) for post in POSTS])
    monkeypatch.setattr("ensue.text.postings._PRODUCTS", 7)
    np.testing.assert_array_equal(lexical.scores(pl.Series(POSTS)), whole)
    np.testing.assert_array_equal(alone, whole)


def test_observed_texts_make_their_words_common() -> None:
    lexical = build("words", ["ferry port", "ferry road"])
    before = lexical.scores(pl.Series(["port"]))[0, 0]
    lexical.take(lexical.frequencies(pl.Series(["port port", "port road", "port"])))
    # N = 5; port stands in 4 of them, ferry in 2: ln(6/5) + 1 = 1.182 and ln(6/3) + 1 = 1.693.
    wanted = 1.18232 / math.hypot(1.18232, 1.69315)
    assert lexical.scores(pl.Series(["port"]))[0, 0] == pytest.approx(wanted, abs=1e-5)
    assert wanted < before


def test_no_articles_and_no_posts() -> None:
    assert Lexical().scores(pl.Series(["a post"])).shape == (1, 0)
    assert build("bm25", ARTICLES).scores(pl.Series([], dtype=pl.String)).shape == (0, 5)


@pytest.mark.parametrize("kind", ["words", "characters", "bm25"])
def test_an_index_with_the_columns_of_longer_texts_scores_as_one_of_its_own(kind: Kind) -> None:
    texts = pl.Series(POSTS)
    alone = build(kind, [" ".join(text.split()[:3]) for text in ARTICLES])
    lexical = alone.weighted_by(kind, build(kind, ARTICLES))
    assert lexical.source is not None
    group = LexicalGroup(whole=lexical.source, part=lexical)
    terms = {lexical.counted: lexical.terms_of(texts)}
    (scores,) = group.scores(["part"], terms, len(texts))
    np.testing.assert_array_equal(scores.astype(np.float32), alone.scores(texts))


def test_a_group_scores_as_each_index_alone_and_its_postings_are_in_memory_once() -> None:
    texts = pl.Series(POSTS)
    group = LexicalGroup({kind: build(kind, ARTICLES) for kind in KINDS})
    alone = [lexical.scores(texts) for lexical in group.values()]
    terms = {lexical.counted: lexical.terms_of(texts) for lexical in group.values()}
    np.testing.assert_array_equal(group.scores([*group], terms, len(texts)).astype(np.float32), np.stack(alone))
    np.testing.assert_array_equal(
        group.scores(["pairs", "words"], terms, len(texts)), group.scores([*group], terms, len(texts))[[4, 0]]
    )
    np.testing.assert_array_equal([lexical.scores(texts) for lexical in group.values()], alone)
    first, last = (group[kind]._indexed().postings for kind in ("words", "pairs"))
    assert first.weights is last.weights


def test_known_words_are_those_of_documents_of_observed_texts_and_of_more_terms() -> None:
    lexical = build("words", ["ferry port"])
    lexical.take(lexical.frequencies(pl.Series(["harbour"])))
    more_terms = np.unique(word_terms(pl.Series(["trains"])).keys)
    known = lexical.known_words(more_terms)
    words = ["ferry", "Harbour", "trains", "the", "!", "x", "ferry-port", "ferry-night", "night"]
    assert [known[word] for word in words] == [True] * 7 + [False] * 2


def test_refused() -> None:
    with pytest.raises(SettingError) as error:
        Lexical("bm26")  # type: ignore[arg-type]
    assert str(error.value) == "kind: 'bm26' is not known; the kinds are words, characters, bm25, stems, pairs"
    lexical = build("words", ARTICLES)
    with pytest.raises(ValueError, match="counts is int32"):
        replace(lexical, counts=lexical.counts[1:])


# Measured with scikit-learn and its own English stop words; with ours, figures move by up to two posts in 300.
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real links at {DATA}; set ENSUE_DATA")
def test_the_floor_on_politifact() -> None:
    posts = given_part(read_posts(DATA / "politifact/posts.jsonl.gz")[0], "test")
    articles, _ = read_articles(DATA / "politifact/articles.jsonl.gz")
    lexical = Lexical()
    lexical.add(articles.texts)
    scores = lexical.scores(posts.texts)
    pairs, _ = posts.pairs(articles)
    related = np.zeros(scores.shape, bool)
    related[pairs[:, 1], pairs[:, 0]] = True
    reciprocal = by_row(scores, related)[:, 0]
    assert reciprocal.mean() == pytest.approx(0.429, abs=0.005)
    assert (reciprocal >= 0.1).mean() == pytest.approx(0.587, abs=0.01)
    asked = related.any(0)  # the pool: test posts with test articles
    pool, true = scores[:, asked], related[:, asked]
    whole = Pool(pool, true)
    assert whole.metrics()["pooled_ap"] == pytest.approx(0.5, abs=0.005)
    assert whole.metrics()["auc"] == pytest.approx(0.821, abs=0.005)
    curve = whole.precision_curve()
    assert curve[50] == pytest.approx(0.98, abs=0.001)
    assert curve[100] == pytest.approx(0.87, abs=0.0101)
