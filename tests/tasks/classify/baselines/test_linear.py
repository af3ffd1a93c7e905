"""The linear models against scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion

from ensue import SettingError
from ensue.store.pack import pack, unpack
from ensue.tasks.classify.baselines.grams import ACROSS, ALONE, CROSSED, KIND, SHARED, SIDE, shared_grams
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.baselines.tfidf import SpelledWords, Tfidf, overlaps
from ensue.tasks.classify.dataset import Sides
from ensue.tasks.classify.settings import LinearSettings
from ensue.text import linear
from ensue.text.linear import log_softmax
from ensue.text.sparse import sparse_rows
from ensue.text.tokens import Tokenizer

WORDS = [f"w{place}" for place in range(15)]


def texts(num: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(0, 9))) for _ in range(num)]


def encoded(tokenizer: Tokenizer, *columns: list[str]) -> Sides:
    return tuple(tokenizer.encode(pl.Series(column, dtype=pl.String), keep_words=True) for column in columns)


def tfidf(num_labels: int, strength: float, tokenizer: Tokenizer) -> Tfidf:
    model = Tfidf(num_labels, strength)
    model.vocabulary = tokenizer.vocabulary
    return model


def test_words_and_characters_are_those_of_scikit_learn() -> None:
    # Each block alone of length 1, counts as 1 + ln, characters inside words; a word that training lacks has them too.
    train, test = texts(80, 0), [*texts(30, 1), "w1 w99 w2", "w991", "w1 w1 w1 w2"]
    targets = np.array([(len(text.split()) + ("w3 w1" in text)) % 3 for text in train])
    tokenizer = Tokenizer.fit([pl.Series(train)])
    model = tfidf(3, 2.0, tokenizer)
    model.count(encoded(tokenizer, train), targets)
    blocks = FeatureUnion([
        ("words", TfidfVectorizer(ngram_range=(1, 2), tokenizer=str.split, token_pattern=None, sublinear_tf=True)),
        ("characters", TfidfVectorizer(ngram_range=(3, 5), analyzer="char_wb", sublinear_tf=True)),
    ])  # fmt: skip
    peer = LogisticRegression(C=2.0, tol=1e-8, max_iter=2000).fit(blocks.fit_transform(train), targets)
    found = np.exp(log_softmax(model.scores(encoded(tokenizer, test))))
    np.testing.assert_allclose(found, peer.predict_proba(blocks.transform(test)), atol=5e-4)


def test_what_pairs_share_and_do_not_share_is_counted() -> None:
    first, second = ["a man sleeps", "a cat", ""], ["a man runs fast", "dog", "a"]
    tokenizer = Tokenizer.fit([pl.Series(first), pl.Series(second)])
    name = tokenizer.vocabulary.value
    found = shared_grams(encoded(tokenizer, first, second))
    listed = []
    for key, text, start, end in zip(*(column.tolist() for column in found), strict=True):
        kind, low, high = key >> KIND & 7, key & (2**31 - 1), key >> 31 & (2**28 - 1)
        words = f"{name(high)} {name(low)}" if kind == ACROSS else f"{key >> SIDE} {name(low)}"
        listed.append((text, {SHARED: "shared", ALONE: "alone", ACROSS: "across"}[kind], words, start, end))
    # Places: a man sleeps a cat | a man runs fast dog a -> 0 1 2, 3 4, 5 6 7 8, 9, 10
    assert sorted(listed) == sorted([
        (0, "shared", "0 a", 0, 5), (0, "shared", "0 man", 1, 6), (0, "alone", "0 sleeps", 2, 2),
        (0, "alone", "1 runs", 7, 7), (0, "alone", "1 fast", 8, 8),
        (0, "across", "sleeps runs", 2, 7), (0, "across", "sleeps fast", 2, 8),
        (1, "alone", "0 a", 3, 3), (1, "alone", "0 cat", 4, 4), (1, "alone", "1 dog", 9, 9),
        (1, "across", "a dog", 3, 9), (1, "across", "cat dog", 4, 9), (2, "alone", "1 a", 10, 10),
    ])  # fmt: skip


def test_no_more_words_of_a_pair_are_crossed_than_so_many() -> None:
    first, second = " ".join(f"a{i}" for i in range(40)), " ".join(f"b{i}" for i in range(33))
    tokenizer = Tokenizer.fit([pl.Series([first]), pl.Series([second])])
    found = shared_grams(encoded(tokenizer, [first], [second]))
    across = found.keys >> KIND & 7 == ACROSS
    assert across.sum() == CROSSED**2 and (found.keys >> KIND & 7 == ALONE).sum() == 73
    assert found.first[across].max() == CROSSED - 1 and found.last[across].max() == 40 + CROSSED - 1


def test_the_overlap_of_a_pair_by_hand() -> None:
    first, second = ["a b c d", "", "x"], ["a b e", "a", "x"]
    tokenizer = Tokenizer.fit([pl.Series(first), pl.Series(second)])
    sides = encoded(tokenizer, first, second)
    idf = np.ones(len(tokenizer.vocabulary))
    idf[tokenizer.vocabulary.id("a")] = 3.0
    heights = overlaps(sides, SpelledWords.of(sides, tokenizer.vocabulary), idf).reshape(3, 15, 6)
    numbers = heights @ np.linspace(0, 1, 6)
    # words: 2 of 4, 2 of 3, 2 of 5; weighed: 4 of 6, 4 of 5, 4 of 7; neighbours (a b): 1 of 3, 1 of 2, 1 of 4;
    # runs " a " and " b " of four, of three, of five
    shares = [2 / 4, 2 / 3, 2 / 5, 4 / 6, 4 / 5, 4 / 7, 1 / 3, 1 / 2, 1 / 4, 2 / 4, 2 / 3, 2 / 5]
    lengths = [np.log(5) / 6, np.log(4) / 6, np.log(5 / 4) / 4 + 0.5]
    assert numbers[0] == pytest.approx([*shares, *lengths])
    assert numbers[1] == pytest.approx([0] * 13 + [np.log(2) / 6, 0.5 - np.log(2) / 4])
    assert numbers[2, :6] == pytest.approx(1) and heights.sum(2) == pytest.approx(1) and (heights > 0).sum(2).max() == 2


def test_grams_that_few_texts_hold_go_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensue.tasks.classify.baselines.tfidf.MAX_GRAMS", 3)
    column = ["a b", "a b", "a", "c", "d"]  # held: a 3, b 2, "a b" 2, c 1, d 1; runs " a ", " b ", " c ", " d "
    tokenizer = Tokenizer.fit([pl.Series(column)])
    model = tfidf(2, 1.0, tokenizer)
    model.count(encoded(tokenizer, column), np.array([0, 0, 0, 1, 1]))
    assert sorted(model.held.tolist()) == [2, 2, 2, 3, 3]
    assert model.scores(encoded(tokenizer, ["a", "c"])).shape == (2, 2)


def test_each_side_of_a_pair_has_ngrams_of_its_own() -> None:
    first, second = ["a b", "b", "a b", "b"], ["b", "a b", "b", "a b"]
    tokenizer = Tokenizer.fit([pl.Series(first), pl.Series(second)])
    model = tfidf(2, 1.0, tokenizer)
    model.count(encoded(tokenizer, first, second), np.array([0, 1, 0, 1]))
    kinds = (model.keys >> KIND) % 8
    assert np.sum(kinds == 0) == 6  # a, b and "a b" on either side
    shares = np.exp(log_softmax(model.scores(encoded(tokenizer, ["a", ""], ["", "a"]))))
    assert shares[0, 0] > 0.5 and shares[1, 1] > 0.5


@pytest.mark.parametrize("paired", [False, True])
def test_attributions_add_up_to_the_score(paired: bool) -> None:
    train = [[f"{text} w0" for text in texts(60, seed)] for seed in range(1 + paired)]
    asked = [[f"{text} w7 new" for text in texts(20, seed)] for seed in range(5, 6 + paired)]
    targets = np.array([("w3" in text) + ("w5" in text) for text in train[-1]])
    tokenizer = Tokenizer.fit([pl.Series(column) for column in train])
    model = tfidf(3, 1.0, tokenizer)
    model.count(encoded(tokenizer, *train), targets)
    sides, labels = encoded(tokenizer, *asked), np.arange(20) % 3
    scores = model.scores(sides)
    moved = model.attributions(sides, labels)
    bias = model.linear.bias - model.linear.bias.mean()
    owner = np.concatenate([np.repeat(np.arange(20), side.lengths) for side in sides])
    for text, label in enumerate(labels.tolist()):
        whole = float(scores[text, label] - scores[text].mean() - bias[label])
        assert moved[owner == text].sum() == pytest.approx(whole, abs=1e-6)


def test_another_strength_learns_the_same_rows() -> None:
    train = texts(60, 0)
    tokenizer, targets = (
        Tokenizer.fit([pl.Series(train)]),
        np.array([("w3" in text) for text in train]).astype(np.int64),
    )
    weak, strong = tfidf(2, 1.0, tokenizer), tfidf(2, 10.0, tokenizer)
    lesson, _ = (model.learn(encoded(tokenizer, train), targets) for model in (weak, strong))
    before = weak.linear.weight
    assert np.allclose(weak.refitted(lesson, 10.0).linear.weight, strong.linear.weight, atol=5e-3)
    assert weak.strength == 1.0 and np.array_equal(weak.linear.weight, before)


def test_a_saved_row_scores_the_same() -> None:
    train = texts(60, 0)
    tokenizer = Tokenizer.fit([pl.Series(train)])
    model = tfidf(2, 1.0, tokenizer)
    model.count(encoded(tokenizer, train), np.array([("w3" in text) for text in train]).astype(np.int64))
    again = unpack(Tfidf, *pack(model))
    again.vocabulary = tokenizer.vocabulary
    sides = encoded(tokenizer, texts(9, 1))
    assert np.array_equal(model.scores(sides), again.scores(sides))
    with pytest.raises(ValueError, match=r"held is int64 of shape"):
        replace(model, held=model.held[1:])
    with pytest.raises(ValueError, match=r"linear\.weight is float64"):
        replace(model, num_labels=3)


def test_learning_more_counts_texts_and_starts_from_the_weights() -> None:
    train, more = texts(60, 0), ["fresh w1", "fresh", "w1"]
    targets = np.array([("w3" in text) for text in train]).astype(np.int64)
    tokenizer = Tokenizer.fit([pl.Series([*train, *more])])
    model = tfidf(2, 1.0, tokenizer)
    model.count(encoded(tokenizer, train), targets)
    before = dict(zip(model.keys.tolist(), model.linear.weight[:, 0].tolist(), strict=True))
    model.count(encoded(tokenizer, more), np.array([1, 1, 0]))
    after = dict(zip(model.keys.tolist(), model.linear.weight[:, 0].tolist(), strict=True))
    held = dict(zip(model.keys.tolist(), model.held.tolist(), strict=True))
    fresh, w1, w3 = (tokenizer.vocabulary.id(word) for word in ("fresh", "w1", "w3"))
    assert model.num_texts == 63 and held[fresh] == 2
    assert held[w1] == sum("w1" in text.split() for text in [*train, *more])
    assert after[fresh] > 0 and after[w3] == before[w3]  # what the new texts lack stays as it is


@pytest.mark.parametrize("paired", [False, True])
def test_mean_vectors_are_those_of_a_loop(paired: bool) -> None:
    columns = [texts(40, seed) for seed in range(1 + paired)]
    targets = np.array([len(text) % 2 for text in columns[0]])
    tokenizer = Tokenizer.fit([pl.Series(column) for column in columns])
    matrix = np.random.default_rng(3).normal(size=(len(tokenizer.vocabulary), 4)).astype(np.float32)
    matrix[[0, 1, 5]] = 0.0  # no vector
    model = MeanVectors(2, 1.0, matrix, 1 + paired)
    model.count(encoded(tokenizer, *columns), targets)
    sides = []
    for column in columns:
        rows = []
        for text in column:
            ids = [tokenizer.vocabulary.id(word) for word in text.split()]
            known = [matrix[id].astype(np.float64) for id in ids if id != 5]
            rows.append(np.mean(known, axis=0) if known else np.zeros(4))
        sides.append(np.stack(rows))
    table = sides[0] if not paired else np.hstack([*sides, np.abs(sides[0] - sides[1]), sides[0] * sides[1]])
    peer = LogisticRegression(tol=1e-8, max_iter=2000).fit(table, targets)
    found = np.exp(log_softmax(model.scores(encoded(tokenizer, *columns))))
    np.testing.assert_allclose(found, peer.predict_proba(table), atol=5e-4)


def test_new_texts_of_one_label_do_not_drive_the_bias_off() -> None:
    # Rows without features: of one column b, the loss of 4 texts of label 1 is 4 log(1 + exp(-b)) + (100 / 4) b² / 2.
    # Its slope is 0 where 4 / (1 + exp(b)) = 25 b: b = 0.0769 gives 4 / 2.0799 = 1.9231 and 25 b = 1.9225.
    rows, targets = np.zeros((4, 1)), np.ones(4, np.int64)
    found, _ = linear.fit(rows, targets, 2, strength=1.0, start=linear.zeros(1, 2), num_seen=100)
    assert found.bias.tolist() == pytest.approx([0.0769], abs=2e-4)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("strength", 0.0, "strength is 0.0; it must be above 0"),
    ("min_count", 0, "min_count is 0; it must be at least 1"),
    ("extra_words", -1, "extra_words is -1; it must be 0 or more"),
])  # fmt: skip
def test_settings_are_checked(name: str, value: float, message: str) -> None:
    with pytest.raises(SettingError) as error:
        LinearSettings(**{name: value})  # type: ignore[arg-type]
    assert str(error.value) == message


@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_many_labels_have_the_same_solution_in_float32(strength: float, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, num_texts, num_features, num_labels = np.random.default_rng(0), 90, 900, 30
    owners, columns = np.repeat(np.arange(num_texts), 6), chance.integers(num_features, size=6 * num_texts)
    values = chance.normal(size=len(owners))
    owners[:6] = 1  # text 0 holds nothing
    columns[12:18], values[12:18] = columns[18:24], values[18:24]  # two equal texts of different labels
    rows = sparse_rows(owners, columns, values, (num_texts, num_features))
    targets, start = np.arange(num_texts) % num_labels, linear.zeros(num_features, num_labels)
    found = []
    for least in (num_labels, num_labels + 1):
        monkeypatch.setattr(linear, "FLOAT32_LABELS", least)
        model, solution = linear.fit(rows, targets, num_labels, strength=strength, start=start)
        assert solution.dtype == (np.float32 if least == num_labels else np.float64)
        found.append(np.exp(log_softmax(model.scores(rows.toarray()))))
    assert np.allclose(found[0], found[1], atol=2e-3)
