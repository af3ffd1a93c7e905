"""Cascade blend: the sum of its parts, with numbers that held-out cascades chose."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from ensue.data.histories import Histories
from ensue.next_event.cascade_blend import DAYS, FLOOR, WEIGHTS, CascadeBlend, CascadeBlendSettings
from ensue.next_event.echoes import DAY
from ensue.next_event.hidan import HiDAN, HiDANSettings
from ensue.next_event.predictor import NextPredictor
from ensue.next_event.task import Pieces
from ensue.records import History
from ensue.vocabulary import FIRST, Vocabulary

VALUES = "abcdef"
SMALL = {"dim": 8, "table_dim": 8, "epochs": 8, "learning_rate": 0.02}
PAST = [History(tuple(text), tuple(60.0 * t for t in range(len(text)))) for text in ("abc", "abd", "cab", "fed")]


def blend(weight: float) -> tuple[CascadeBlend, Vocabulary]:
    torch.manual_seed(1)
    vocabulary = Vocabulary(VALUES)
    made = CascadeBlend(CascadeBlendSettings(dim=8, table_dim=8), len(vocabulary)).eval()
    made.remember(Histories.of(PAST, vocabulary))
    made.weight.fill_(weight)
    made.scale.fill_(0.5)
    return made, vocabulary


def test_adds_the_logarithm_of_what_past_cascades_say() -> None:
    model, vocabulary = blend(0.7)
    asked = Histories.of([History(tuple("abed"), (0.0, 5.0, 9.0, 20.0))], vocabulary)
    batch = Pieces(asked, model.reach).batch(np.arange(1))
    with torch.no_grad():
        found, own = model(batch), model.network(batch)
    candidates, said, heard = model.memory.hear(batch)
    shares = said / said.sum(1, keepdim=True)
    expected = own.scores.clone()
    expected[:, candidates] += 0.7 * (1 + shares / FLOOR).log()
    expected *= 0.5
    torch.testing.assert_close(found.scores, expected)
    assert bool(found.scores[:, :FIRST].isneginf().all())
    assert torch.equal(found.weights[0], own.weights[0])
    torch.testing.assert_close(found.weights[1], (own.weights[1] + 0.7 * heard) / 1.7)


def test_without_weight_it_is_the_network() -> None:
    model, vocabulary = blend(0.0)
    batch = Pieces(Histories.of(PAST, vocabulary), model.reach).batch(np.arange(len(PAST)))
    with torch.no_grad():
        assert torch.equal(model(batch).scores, 0.5 * model.network(batch).scores)


def test_cosines_times_a_factor() -> None:
    torch.manual_seed(0)
    vocabulary = Vocabulary(VALUES)
    network = HiDAN(HiDANSettings(dim=8, table_dim=8, cosine=True), len(vocabulary)).eval()
    batch = Pieces(Histories.of(PAST, vocabulary), network.reach).batch(np.arange(len(PAST)))
    with torch.no_grad():
        scores = network(batch).scores[:, FIRST:]
        near = functional.cosine_similarity(network.cascades(batch)[0][:, None], network.output.weight[None], dim=2)
        torch.testing.assert_close(scores, (10 * near + network.output.bias)[:, FIRST:])
        loss = functional.cross_entropy(scores, batch.targets - FIRST)
        torch.testing.assert_close(network.loss(batch), loss)


def weeks(num: int, seed: int) -> Histories:
    """Whom ``a`` is followed by changes from one season to the next, and nothing else tells which it is."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(num):
        season = int(random.integers(0, 5))
        start = 1e9 + 100 * DAY * season + random.uniform(0, 2 * DAY)
        found.append(History(("a", f"b{season}"), (start, start + 60.0)))
    return Histories.of(found)


def test_what_is_close_in_time_counts_more_where_that_helps() -> None:
    predictor = NextPredictor("cascade-blend", settings={**SMALL, "refit": False})
    for _ in predictor.fit(weeks(300, 0)):
        pass
    network = predictor.network
    assert float(network.memory.days) in DAYS[1:] and float(network.weight) in WEIGHTS[1:]
    new = weeks(100, 1).encode(predictor.vocabulary)
    assert (predictor.ranks(new)[0] == 1).mean() > 0.7
    network.memory.days.fill_(0.0)
    assert (predictor.ranks(new)[0] == 1).mean() < 0.5


def test_shares_are_about_as_often_right_as_they_say() -> None:
    predictor = NextPredictor("cascade-blend", settings={**SMALL, "refit": False})
    for _ in predictor.fit(weeks(300, 0)):
        pass
    asked = [History(record.values[:1], record.times[:1]) for record in weeks(200, 2).records()]
    came = [record.values[1] for record in weeks(200, 2).records()]
    answers = predictor.predict(asked, 1)
    sure = np.mean([answer.choices[0].score for answer in answers])
    right = np.mean([answer.choices[0].value == value for answer, value in zip(answers, came, strict=True)])
    assert abs(sure - right) < 0.25  # 30 cascades were held out


def test_numbers_come_along_when_all_is_learned_again() -> None:
    predictor = NextPredictor("cascade-blend", settings=SMALL)
    data = weeks(300, 0)
    for _ in predictor.fit(data):
        pass
    assert float(predictor.network.weight) > 0 and float(predictor.network.memory.days) > 0
    assert len(predictor.network.memory.ids) == len(data.ids)


def test_update_is_remembered() -> None:
    predictor = NextPredictor("cascade-blend", settings={**SMALL, "refit": False})
    for _ in predictor.fit(weeks(300, 0)):
        pass
    start = 1e9 + 1000 * DAY
    new = Histories.of([History(("a", "newcomer"), (start, start + 60.0))] * 3)
    predictor.update(new)
    (answer,) = predictor.predict([History(("a",), (start,))], 1)
    assert answer.choices[0].value == "newcomer"
    assert answer.choices[0].score == pytest.approx(max(choice.score for choice in answer.choices))
