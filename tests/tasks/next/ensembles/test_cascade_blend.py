"""Cascade blend: the sum of its parts, with numbers that held-out cascades chose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ensue import History
from ensue.data.histories import Histories, Index
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.ensembles.cascade_blend import START, CascadeBlend, _candidates, _learned
from ensue.tasks.next.ensembles.cascade_features import (
    BASELINES,
    CASCADE_FEATURES,
    FEATURES,
    FLOOR,
    HIGH,
    MIN_LOG_SHARE,
    cascade_neighbours,
)
from ensue.tasks.next.ensembles.co_participation import DAY, co_participation_scores
from ensue.tasks.next.ensembles.temporal_preference import CLOCKS, temporal_preference
from ensue.tasks.next.models.hidan import HiDAN
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.settings import CascadeBlendSettings, CountingSettings, HiDANSettings
from ensue.vocabulary import FIRST, Vocabulary
from tests.tasks.next.batches import scored
from tests.tasks.next.contract import network_of

VALUES = "abcdef"
SMALL = {"dim": 8, "table_dim": 8, "epochs": 8, "learning_rate": 0.02}
PAST = [History(tuple(text), tuple(60.0 * t for t in range(len(text)))) for text in ("abc", "abd", "cab", "fed")]


def blend(*, mixed: bool = True) -> tuple[CascadeBlend, Vocabulary]:
    torch.manual_seed(1)
    vocabulary = Vocabulary(VALUES)
    made = CascadeBlend(CascadeBlendSettings(dim=8, table_dim=8), len(vocabulary)).eval()
    made.remember(Histories.of(PAST, vocabulary))
    made.mixed.fill_(float(mixed))
    return made, vocabulary


def test_every_part_knows_what_its_module_says() -> None:
    model, vocabulary = blend()
    asked = Histories.of([History(tuple("abed"), (0.0, 5.0, 9.0, 20.0))], vocabulary)
    batch = Windows(asked, model.reach).batch(np.arange(1)).to("cpu")
    with torch.no_grad():
        found, own = model(batch), model.network(batch)
        arrays = batch.arrays()
        known = torch.from_numpy(model.candidate_features.features(arrays, own.scores.numpy()).features)
    expected = dict.fromkeys(FEATURES, torch.zeros_like(own.scores))
    heard, alike = co_participation_scores(model.memory, arrays, 30), cascade_neighbours(model.memory, arrays, 30)
    for name, found_there in (("near", heard.near), ("far", heard.far), ("alike", alike)):
        said = torch.from_numpy(found_there.toarray())
        share = said / said.sum(1, keepdim=True)
        expected |= {name: (1 + share / FLOOR).log(), f"{name} high": (1 + share / HIGH).log()}
    often = torch.tensor([0.0, 0.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0])  # a, b, c, d, e, f after padding and unknown
    length = torch.arange(1.0, len(own.scores) + 1).log1p()[:, None].expand_as(own.scores)
    expected |= {"network": own.scores, "length": length, "frequent": -often.log1p().expand_as(own.scores)}
    for name, (gains, which) in zip(CLOCKS, temporal_preference(model.memory, arrays, 30), strict=True):
        expected[name] = torch.from_numpy(gains[which])
    for name, kind in BASELINES.items():
        counted = kind(CountingSettings(), len(vocabulary))
        counted.count(Histories.of(PAST, vocabulary))
        shares = scored(counted, arrays).scores.exp()
        expected[name] = (shares / shares.sum(1, keepdim=True)).log().clamp(min=MIN_LOG_SHARE)
    for place, name in enumerate(FEATURES):
        torch.testing.assert_close(known[place, :, FIRST:], expected[name][:, FIRST:])
    row, step = batch.target_mask.nonzero(as_tuple=True)
    held = torch.stack(
        [torch.bincount(batch.ids[i, : j + 1], minlength=len(vocabulary)) for i, j in zip(row, step, strict=True)]
    )
    torch.testing.assert_close(found.scores[:, FIRST:], (model.mixture(known) + MIN_LOG_SHARE * held)[:, FIRST:])
    assert bool(found.scores[:, :FIRST].isneginf().all())
    assert torch.equal(found.weights[0], own.weights[0])
    torch.testing.assert_close(found.weights[1], (own.weights[1] + torch.from_numpy(heard.shares)) / 2)


def test_until_the_mixture_is_learned_it_is_the_network() -> None:
    model, vocabulary = blend(mixed=False)
    batch = Windows(Histories.of(PAST, vocabulary), model.reach).batch(np.arange(len(PAST))).to("cpu")
    with torch.no_grad():
        assert torch.equal(model(batch).scores, model.network(batch).scores)


def test_neither_a_cut_nor_company_changes_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    names = [f"u{number}" for number in range(40)]
    vocabulary = Vocabulary(names)

    def cascade(length: int) -> History:
        times = np.sort(1e9 + random.uniform(0, 9 * DAY, length))
        return History(tuple(random.choice(names, length).tolist()), tuple(times.tolist()))

    model = CascadeBlend(CascadeBlendSettings(dim=8, table_dim=8, window=5), len(vocabulary)).eval()
    model.remember(Histories.of([cascade(length) for length in (8, 5, 30)], vocabulary))
    model.mixed.fill_(1.0)
    model.mixture.outer.copy_(torch.linspace(-1, 1, len(model.mixture.outer)))
    asked = Histories.of([cascade(length) for length in (300, 4, 17)], vocabulary)
    rows = []
    for reach, taken in ((model.reach, 2**24), (model.reach, 1), (None, 2**24)):
        monkeypatch.setattr("ensue.tasks.next.ensembles.cascade_features.BYTES", taken)
        windows, scores = Windows(asked, reach), torch.zeros(len(asked.ids), len(vocabulary))
        with torch.no_grad():
            for index in [np.arange(len(windows))] if taken == 1 else [np.array([i]) for i in range(len(windows))]:
                scores[torch.from_numpy(windows.positions(index))] = model(windows.batch(index).to("cpu")).scores
        rows.append(scores)
    torch.testing.assert_close(rows[0], rows[1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(rows[0], rows[2], rtol=1e-4, atol=1e-4)


def test_rivals_stand_for_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensue.tasks.next.ensembles.cascade_blend.CANDIDATES", 300)
    torch.manual_seed(0)
    known, ruled_out = torch.randn(len(FEATURES), 50, 5000), torch.zeros(50, 5000)
    ruled_out[:, :FIRST] = -torch.inf
    ruled_out[:, 100:300] = -torch.inf
    targets = torch.randint(400, 5000, (50,))
    own, added = _candidates(known, ruled_out, targets, torch.Generator().manual_seed(1))
    weights = torch.tensor(START)
    whole = functional.cross_entropy(known.permute(1, 2, 0) @ weights + ruled_out, targets, reduction="none")
    scores = own.permute(1, 2, 0) @ weights + added
    torch.testing.assert_close(scores.logsumexp(1) - scores[:, 0], whole, rtol=0.02, atol=0.02)
    assert torch.equal(own[:, :, 0], known[:, torch.arange(50), targets])


def test_few_candidates_are_all_rivals() -> None:
    known, ruled_out = torch.randn(len(FEATURES), 6, 9), torch.zeros(6, 9)
    ruled_out[:, :FIRST] = -torch.inf
    targets = torch.arange(2, 8)
    own, added = _candidates(known, ruled_out, targets, torch.Generator().manual_seed(1))
    weights = torch.tensor(START)
    scores = own.permute(1, 2, 0) @ weights + added
    whole = functional.cross_entropy(known.permute(1, 2, 0) @ weights + ruled_out, targets, reduction="none")
    torch.testing.assert_close(scores.logsumexp(1) - scores[:, 0], whole)


def drawn(num: int, right: str | None, seed: int = 0, each: int = 1) -> tuple[Tensor, Tensor, Index]:
    """Candidates of targets, first of each row, that a part (or none) is right about; all others are at random."""
    features = torch.randn(len(FEATURES), num, 40, generator=torch.Generator().manual_seed(seed))
    if right in BASELINES:
        features[: len(CASCADE_FEATURES)] *= 9.0
    if right is not None:
        features[FEATURES.index(right), :, 0] += 3.0
    return features, torch.zeros(num, 40), np.arange(num) // each


def test_where_little_is_held_out_and_a_floor_is_best_it_is_that_floor() -> None:
    learned = _learned(*drawn(30, "markov"))
    assert torch.equal(learned.weights, torch.eye(len(FEATURES))[FEATURES.index("markov")])
    asked, *_ = drawn(5, "markov", seed=1)
    assert torch.equal(learned(asked), asked[FEATURES.index("markov")])


def test_targets_of_one_cascade_are_no_evidence_of_their_own() -> None:
    """The same gains, of cascades with a target each and of one cascade with all of them."""
    single, together = (_learned(*drawn(30, "markov", each=each)) for each in (1, 30))
    floor = torch.eye(len(FEATURES))[FEATURES.index("markov")]
    assert torch.equal(single.weights, floor) and not torch.equal(together.weights, floor)


@pytest.mark.parametrize("right", ["network", "alike"])
def test_where_a_part_beside_the_floors_is_right_the_mixture_is_learned(right: str) -> None:
    learned = _learned(*drawn(400, right))
    assert int(learned.weights.argmax()) == FEATURES.index(right) and bool(learned.outer.any())


def test_one_held_out_target_is_enough() -> None:
    assert bool(_learned(*drawn(1, "near")).weights.isfinite().all())


def test_cosines_times_a_factor() -> None:
    torch.manual_seed(0)
    vocabulary = Vocabulary(VALUES)
    network = HiDAN(HiDANSettings(dim=8, table_dim=8, cosine=True), len(vocabulary)).eval()
    batch = Windows(Histories.of(PAST, vocabulary), network.reach).batch(np.arange(len(PAST))).to("cpu")
    with torch.no_grad():
        scores = network(batch).scores[:, FIRST:]
        near = functional.cosine_similarity(network.encode(batch)[0][:, None], network.output.weight[None], dim=2)
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


def test_the_clock_counts_where_that_helps() -> None:
    predictor = NextPredictor("cascade-blend", settings={**SMALL, "refit": False})
    for _ in predictor.fit(weeks(300, 0)):
        pass
    network = network_of(predictor)
    new = weeks(100, 1).encode(predictor.vocabulary)
    assert (predictor.ranks(new)[0] == 1).mean() > 0.7
    times = np.zeros_like(network.memory.times)  # all at once, long ago: nothing is close in time any more
    network.memory = replace(network.memory, times=times)
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
    assert float(network_of(predictor).mixed) == 1 and bool(network_of(predictor).mixture.outer.any())
    assert len(network_of(predictor).memory.ids) == len(data.ids)


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
