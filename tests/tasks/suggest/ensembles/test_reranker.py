"""The conditional logit equals a literal one; features of the candidates."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.records import History
from ensue.tasks.suggest.baselines.counting import RepeatLast
from ensue.tasks.suggest.candidates import EVERY, FEATURES, MIXED, Candidate, features, shares
from ensue.tasks.suggest.catalogue import COUNTING
from ensue.tasks.suggest.ensembles import reranker
from ensue.tasks.suggest.ensembles.consensus import choose_cost
from ensue.tasks.suggest.ensembles.reranker import _better, fit_order, learn_order
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.tasks.suggest.settings import SuggestSettings


def test_features_by_hand() -> None:
    written = Candidate("a b", -6.0, 3, written=True, followed=3, count=9)
    found = Candidate("c", -2.0, 2, written=False, unknown=1, place=1)
    rows = [dict(zip(FEATURES, row, strict=True)) for row in features([written, found], 1.0).tolist()]
    assert rows[0] == pytest.approx(
        {
            "log_probability": -6, "a_token": -2, "written": 1, "found": 0, "found_first": 0,
            "followed": math.log(4), "frequency": math.log(10), "unknown": 0, "length": 3,
        }
    )  # fmt: skip
    assert rows[1] == pytest.approx(
        {
            "log_probability": -2, "a_token": -1, "written": 0, "found": 1, "found_first": 1 / 2,
            "followed": 0, "frequency": 0, "unknown": 1, "length": 2,
        }
    )  # fmt: skip


def test_shares_by_hand() -> None:
    # exp(0) : exp(ln 3) = 1 : 3
    assert shares(np.array([0.0, math.log(3)])) == pytest.approx([0.25, 0.75])
    assert shares(np.array([])).tolist() == []


def test_counting_adds_features_by_hand() -> None:
    written = Candidate("a b", math.log(0.02), 3, written=True, expected=(0.01,) * 5)
    found = Candidate("c", math.log(0.4), 2, written=False, unknown=1, place=1, count=2, expected=(0.5, 0, 0, 0, 0.25))
    mixture = dict(zip(MIXED, (0.5, 0.1, 0.1, 0.1, 0.1, 0.1), strict=True))
    table = features([written, found], 1.0, mixture, 10)
    rows = [dict(zip(EVERY, row, strict=True)) for row in table.tolist()]
    # What the log does not keep only the network expects; an unknown word is one of ten.
    assert rows[0]["mixture"] == pytest.approx(math.log(0.5 * 0.02))
    assert rows[1]["mixture"] == pytest.approx(math.log(0.5 * 0.4 / 10 + 0.1 * 0.5 + 0.1 * 0.25))
    assert rows[1]["log_last-query"] == pytest.approx(math.log(0.5)) and rows[1]["root_popular"] == 0.5
    assert rows[1]["log_turn"] == pytest.approx(math.log(1e-20)) and rows[0]["root_turn"] == pytest.approx(0.1)
    assert table[:, : len(FEATURES)].tolist() == features([written, found], 1.0).tolist()


@pytest.mark.parametrize("strength", [1.0, 30.0])
def test_the_weights_equal_those_of_a_literal_logit(strength: float) -> None:
    random = np.random.default_rng(0)
    pools = [random.normal(size=(random.integers(2, 6), 4)) * [1, 5, 0, 0.1] for _ in range(40)]
    for pool in pools:
        pool[:, 2] = 7.0  # says nothing
    answers = [int((pool @ [1.0, 0.2, 0, -3]).argmax()) if number % 4 else 0 for number, pool in enumerate(pools)]
    every = np.concatenate(pools)
    mean, scale = every.mean(0), np.where(every.std(0) > 0, every.std(0), 1.0)
    center = np.array([0, 0, 0, 1]) * scale

    def loss(weights: np.ndarray) -> float:
        total = 0.0
        for pool, answer in zip(pools, answers, strict=True):
            scores = [float(weights @ ((row - mean) / scale)) for row in pool]
            total += math.log(sum(map(math.exp, scores))) - scores[answer]
        return total + strength / 2 * float((weights - center) @ (weights - center))

    expected = minimize(loss, center, tol=1e-10).x / scale
    prior = np.array([0.0, 0, 0, 1])
    found = fit_order(pools, np.array(answers), strength, prior)
    assert found == pytest.approx(expected, abs=1e-3) and found[2] == 0
    assert fit_order(pools, np.array(answers), strength, prior, found) == pytest.approx(found, abs=1e-6)
    assert fit_order(pools, np.array(answers), None, prior).tolist() == [0, 0, 0, 1]


def test_a_counting_model_that_ranks_better_is_kept() -> None:
    ours = {"mixed": 0.25, **dict.fromkeys(COUNTING, 0.0)}
    assert _better({**ours, "popular": 0.3, "co-occurrence": 0.26}) == "popular"
    assert _better({**ours, "popular": 0.25}) is None and _better(ours) is None
    assert _better({**ours, "mixed": 0.0}) == "most-frequent-next"  # nothing ranks anything


def ordered(monkeypatch: pytest.MonkeyPatch, **settings: object) -> Any:
    """A predictor whose pools are always the same three, after its order was learned on thirty sessions."""
    nothing = (0.001,) * 5
    pool = [
        Candidate("buy a red boat today", -4.5, 6, written=True, expected=nothing),
        Candidate("buy a red boat", -3.0, 5, written=True, expected=nothing),
        Candidate("where is the kite", -2.9, 5, written=False, place=0, expected=nothing),
    ]
    monkeypatch.setattr(reranker, "pools", lambda state, part, k, begun: [pool] * len(part))
    monkeypatch.setattr(reranker, "count", lambda state, name, part, k: RepeatLast().suggest(part, k))
    held = Queries(Histories.of(History(("red boat", "buy a red boat")) for _ in range(30)))
    shared = SuggestSettings(**settings)  # type: ignore[arg-type]
    predictor = SimpleNamespace(shared=shared, metadata=SuggestPredictor("reranker").metadata)
    predictor.metadata.tokens = 100
    assert learn_order(predictor, held) is None  # type: ignore[arg-type]
    return predictor


def test_the_cost_of_a_word_is_learned_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = ordered(monkeypatch, first="consensus", exponent=0.0).metadata.to_dict()
    # By the network alone: exp(-4.5), exp(-3) and exp(-2.9), so the kite is likeliest and never right; the other two
    # share ten n-grams, and of them the shorter leads once a word costs more than its share of them.
    weighed = shares(np.array([-4.5, -3.0, -2.9]))
    pool = (["buy a red boat today", "buy a red boat", "where is the kite"], weighed)
    cost, figures = choose_cost([pool] * 30, pl.Series(["buy a red boat"] * 30))
    assert figures == {"likeliest": 0.0, "consensus": 1.0} and cost is not None and cost > 0
    assert (facts["word_cost"], facts["validation_bleu"]) == (cost, figures) and "mix" not in facts
    mixed = ordered(monkeypatch, retrieved=5).metadata.to_dict()
    assert "mix" in mixed and "word_cost" not in mixed
    assert not {"mix", "word_cost"} & ordered(monkeypatch).metadata.to_dict().keys()


def test_both_are_learned_where_both_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = ordered(monkeypatch, retrieved=5, first="consensus").metadata.to_dict()
    figures = facts["validation_mrr"]
    assert facts["found_in_pool"] == 1.0 and (figures["network"], figures["mixed"]) == (0.5, 1.0)
    assert figures["popular"] == 0 and facts["mixture"]["network"] == max(facts["mixture"].values())
    assert "word_cost" not in facts  # the mixed order has the true one in front already
