"""The linear models against scikit-learn."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from ensue.errors import SettingError
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.baselines.settings import CountingSettings
from ensue.tasks.classify.baselines.tfidf import Tfidf
from ensue.tasks.classify.dataset import Sides
from ensue.text import linear
from ensue.text.tokens import Tokenizer

WORDS = [f"w{place}" for place in range(15)]


def texts(num: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(0, 9))) for _ in range(num)]


def encoded(tokenizer: Tokenizer, *columns: list[str]) -> Sides:
    return tuple(tokenizer.encode(pl.Series(column, dtype=pl.String)) for column in columns)


@pytest.mark.parametrize("num_labels", [2, 3])
def test_tfidf_is_that_of_scikit_learn(num_labels: int) -> None:
    train, test = texts(80, 0), [*texts(30, 1), "w1 never w2", "never"]
    targets = np.array([(len(text.split()) + ("w3 w1" in text)) % num_labels for text in train])
    tokenizer = Tokenizer.fit([pl.Series(train)])
    model = Tfidf(num_labels, 2.0)
    model.count(encoded(tokenizer, train), targets)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), tokenizer=str.split, token_pattern=None)
    peer = LogisticRegression(C=2.0, tol=1e-8, max_iter=2000).fit(vectorizer.fit_transform(train), targets)
    found = model.scores(encoded(tokenizer, test)).softmax(1).numpy()
    # An unknown word keeps its neighbours apart here, as it does there.
    np.testing.assert_allclose(found, peer.predict_proba(vectorizer.transform(test)), atol=5e-4)


def test_each_side_of_a_pair_has_ngrams_of_its_own() -> None:
    first, second = ["a b", "b", "a b", "b"], ["b", "a b", "b", "a b"]
    tokenizer = Tokenizer.fit([pl.Series(first), pl.Series(second)])
    model = Tfidf(2)
    model.count(encoded(tokenizer, first, second), np.array([0, 1, 0, 1]))
    assert len(model.keys) == 6  # a, b and "a b" on either side
    shares = model.scores(encoded(tokenizer, ["a", ""], ["", "a"])).softmax(1)
    assert shares[0, 0] > 0.5 and shares[1, 1] > 0.5


def test_attributions_add_up_to_the_score() -> None:
    train = texts(60, 0)
    targets = np.array([("w3" in text) + ("w5" in text) for text in train])
    tokenizer, model = Tokenizer.fit([pl.Series(train)]), Tfidf(3)
    model.count(encoded(tokenizer, train), targets)
    sides, labels = encoded(tokenizer, texts(20, 1)), np.arange(20) % 3
    scores = model.scores(sides)
    moved = model.attributions(sides, labels)
    bias = model.linear.bias - model.linear.bias.mean()
    bounds = sides[0].sentences[sides[0].texts]
    for text, label in enumerate(labels.tolist()):
        whole = float(scores[text, label] - scores[text].mean() - bias[label])
        assert moved[bounds[text] : bounds[text + 1]].sum() == pytest.approx(whole, abs=1e-6)


def test_learning_more_counts_texts_and_starts_from_the_weights() -> None:
    train, more = texts(60, 0), ["fresh w1", "fresh", "w1"]
    targets = np.array([("w3" in text) for text in train]).astype(np.int64)
    tokenizer, model = Tokenizer.fit([pl.Series([*train, *more])]), Tfidf(2)
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
    matrix = torch.from_numpy(np.random.default_rng(3).normal(size=(len(tokenizer.vocabulary), 4)).astype(np.float32))
    matrix[[0, 1, 5]] = 0.0  # no vector
    model = MeanVectors(2, 1.0, matrix, 1 + paired)
    model.count(encoded(tokenizer, *columns), targets)
    sides = []
    for column in columns:
        rows = []
        for text in column:
            ids = [tokenizer.vocabulary.id(word) for word in text.split()]
            known = [matrix[id].double().numpy() for id in ids if id != 5]
            rows.append(np.mean(known, axis=0) if known else np.zeros(4))
        sides.append(np.stack(rows))
    table = sides[0] if not paired else np.hstack([*sides, np.abs(sides[0] - sides[1]), sides[0] * sides[1]])
    peer = LogisticRegression(tol=1e-8, max_iter=2000).fit(table, targets)
    found = model.scores(encoded(tokenizer, *columns)).softmax(1).numpy()
    np.testing.assert_allclose(found, peer.predict_proba(table), atol=5e-4)


def test_new_texts_of_one_label_do_not_drive_the_bias_off() -> None:
    # Rows without features: of one column b, the loss of 4 texts of label 1 is 4 log(1 + exp(-b)) + (100 / 4) b² / 2.
    # Its slope is 0 where 4 / (1 + exp(b)) = 25 b: b = 0.0769 gives 4 / 2.0799 = 1.9231 and 25 b = 1.9225.
    rows, targets = torch.zeros(4, 1).double(), torch.ones(4, dtype=torch.int64)
    found = linear.fit(rows, targets, 2, strength=1.0, start=linear.zeros(1, 2), seen=100)
    assert found.bias.tolist() == pytest.approx([0.0769], abs=2e-4)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("strength", 0.0, "strength is 0.0; it must be above 0"),
    ("min_count", 0, "min_count is 0; it must be at least 1"),
    ("extra_words", -1, "extra_words is -1; it must be 0 or more"),
])  # fmt: skip
def test_settings_are_checked(name: str, value: float, message: str) -> None:
    with pytest.raises(SettingError) as error:
        CountingSettings(**{name: value})  # type: ignore[arg-type]
    assert str(error.value) == message
