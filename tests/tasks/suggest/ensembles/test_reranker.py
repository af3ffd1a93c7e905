"""The conditional logit equals a literal one; features of the candidates."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

from ensue import History
from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.tasks.suggest.baselines.counting import RepeatLast
from ensue.tasks.suggest.candidates import ALL_FEATURES, FEATURES, MIXED, CandidateRows, features, shares
from ensue.tasks.suggest.catalogue import COUNTING
from ensue.tasks.suggest.ensembles import reranker
from ensue.tasks.suggest.ensembles.consensus import choose_cost
from ensue.tasks.suggest.ensembles.reranker import _better, fit_order, learn_order
from ensue.tasks.suggest.infer import shortlisted
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.tasks.suggest.settings import SuggestSettings


def candidates_of(*rows: dict[str, Any], sessions: int = 1) -> CandidateRows:
    """The same candidates for some sessions; what a row does not say is that of one that was written."""
    default = {
        "text": "", "total": 0.0, "length": 1, "written": True, "unknown": 0, "rank": -1, "followed": 0, "count": 0,
        "expected": (0.0,) * 5, "similar": (0.0,) * 5,
    }  # fmt: skip
    columns = {name: [row.get(name, value) for row in rows] for name, value in default.items()}
    names = {"text": "texts", "total": "totals", "length": "lengths", "rank": "ranks", "count": "counts"}
    arrays = {names.get(name, name): np.array(column) for name, column in columns.items()}
    arrays["texts"] = np.array(columns["text"], np.object_)
    one = CandidateRows(owners=np.zeros(len(rows), np.int64), **arrays)
    return CandidateRows.join([one] * sessions, [np.array([number]) for number in range(sessions)])


def test_features_by_hand() -> None:
    written = {"text": "a b", "total": math.log(0.02), "length": 3, "followed": 3, "count": 9, "expected": (0.01,) * 5}
    other = {"text": "c", "total": math.log(0.4), "length": 2, "written": False, "unknown": 1, "rank": 1, "count": 2}
    mixture = dict(zip(MIXED, (0.5, 0.1, 0.1, 0.1, 0.1, 0.1), strict=True))
    unseen = {**written, "count": 0}
    table = features(candidates_of(written, {**other, "expected": (0.5, 0, 0, 0, 0.25)}, unseen), 1.0, mixture, 10)
    rows = [dict(zip(ALL_FEATURES, row, strict=True)) for row in table.tolist()]
    assert [rows[0][name] for name in FEATURES] == pytest.approx(
        [math.log(0.02), math.log(0.02) / 3, 1, 0, 0, math.log(4), math.log(10), 0, 3]
    )
    assert [rows[1][name] for name in FEATURES] == pytest.approx(
        [math.log(0.4), math.log(0.4) / 2, 0, 1, 1 / 2, 0, math.log(3), 1, 2]
    )
    # What the log does not hold only the network expects; an unknown word is one of ten.
    assert rows[0]["mixture"] == pytest.approx(math.log(0.5 * 0.02 + 0.5 * 0.01))
    assert rows[2]["mixture"] == pytest.approx(math.log(0.5 * 0.02))
    assert rows[1]["mixture"] == pytest.approx(math.log(0.5 * 0.4 / 10 + 0.1 * 0.5 + 0.1 * 0.25))
    assert rows[1]["log_last-query"] == pytest.approx(math.log(0.5)) and rows[1]["root_popular"] == 0.5
    assert rows[1]["log_turn"] == pytest.approx(math.log(1e-20)) and rows[0]["root_turn"] == pytest.approx(0.1)


def test_shares_by_hand() -> None:
    # exp(0) : exp(ln 3) = 1 : 3 in the first session; the second has one candidate.
    assert shares(np.array([0.0, math.log(3), -5.0]), np.array([0, 0, 1])) == pytest.approx([0.25, 0.75, 1.0])
    assert shares(np.array([]), np.array([], np.int64)).tolist() == []


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
    sizes = np.array([len(pool) for pool in pools])
    owners, rows = np.repeat(np.arange(len(pools)), sizes), np.cumsum(sizes) - sizes + answers
    found = fit_order(every, owners, rows, strength, prior)
    assert found == pytest.approx(expected, abs=1e-3) and found[2] == 0
    assert fit_order(every, owners, rows, strength, prior, found) == pytest.approx(found, abs=1e-6)
    assert fit_order(every, owners, rows, None, prior).tolist() == [0, 0, 0, 1]
    half = owners < 20  # targets without an answer are left out
    without = np.where(np.arange(40) < 20, rows, -1)
    alone = fit_order(every[half], owners[half], rows[:20], strength, prior)
    assert fit_order(every, owners, without, strength, prior) == pytest.approx(alone, abs=1e-6)


def test_a_counting_model_that_ranks_better_is_kept() -> None:
    ours = {"mixed": 0.25, **dict.fromkeys(COUNTING, 0.0)}
    assert _better({**ours, "popular": 0.3, "co-occurrence": 0.26}) == "popular"
    assert _better({**ours, "popular": 0.25}) is None and _better(ours) is None
    assert _better({**ours, "mixed": 0.0}) == "most-frequent-next"  # nothing ranks anything


def test_the_network_scores_the_best_of_those_looked_up() -> None:
    order = SuggestPredictor("reranker").metadata
    order.mix, order.mixture = {"mixture": 1.0}, {**dict.fromkeys(MIXED, 0.0), "network": 0.5, "popular": 0.5}
    rows = [{"text": "w", "total": -9.0, "expected": (0.9,) * 5}] + [
        {"text": text, "written": False, "count": 1, "total": -total, "expected": (0, 0, 0, 0, share)}
        for text, total, share in (("a", 1.0, 0.1), ("b", 9.0, 0.3), ("c", 5.0, 0.2))
    ]
    pools = candidates_of(*rows, sessions=2)
    # What is written is no candidate for it; of the others b and c are likelier by counts, whatever the network says.
    for size, scored in ((0, ""), (1, "b"), (2, "bc"), (9, "abc")):
        mask = shortlisted(pools, order, 0.6, 10, size)
        assert pools.texts[mask].tolist() == ["w", *scored] * 2
    # The true query a is first of all, c is second: with ten of three nothing is lost, so ten are enough.
    state: Any = SimpleNamespace(shared=SuggestSettings(), metadata=order)
    cut = reranker._cut_pools(state, pools, np.array([1, 7]))
    assert order.shortlist == 10 and len(cut) == len(pools)
    many = [{**rows[2], "text": f"b{number}"} for number in range(30)]
    pools = candidates_of(*rows, *many, sessions=20)
    answers = 1 + 34 * np.arange(20)  # a, behind 32 others by counts alone
    cut = reranker._cut_pools(state, pools, answers)
    assert order.shortlist == 40 and len(cut) == len(pools)


def ordered(monkeypatch: pytest.MonkeyPatch, **settings: object) -> Any:
    """A predictor whose pools are always the same three, after its order was learned on thirty sessions."""
    nothing = (0.001,) * 5
    pool = (
        {"text": "buy a red boat today", "total": -4.5, "length": 6, "expected": nothing},
        {"text": "buy a red boat", "total": -3.0, "length": 5, "expected": nothing},
        {"text": "where is the kite", "total": -2.9, "length": 5, "written": False, "rank": 0, "expected": nothing},
    )
    monkeypatch.setattr(reranker, "consider", lambda state, part, k, prefixes: candidates_of(*pool, sessions=len(part)))
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
    texts = ["buy a red boat today", "buy a red boat", "where is the kite"] * 30
    owners = np.repeat(np.arange(30), 3)
    weights = shares(np.tile([-4.5, -3.0, -2.9], 30), owners)
    cost, figures = choose_cost(texts, weights, owners, pl.Series(["buy a red boat"] * 30))
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
