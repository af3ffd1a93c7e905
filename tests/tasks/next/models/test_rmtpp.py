"""RMTPP: its density by hand and by integration, the rest against literal loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from ensue.errors import SettingError
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.models.rmtpp import RMTPP, log_density, total_hazard
from ensue.tasks.next.point_process import SMALL, delay
from ensue.tasks.next.settings import RMTPPSettings
from ensue.vocabulary import FIRST
from tests.oracles import cascades as oracles
from tests.oracles import promises
from tests.oracles.sessions import loss_curve, ramped, weighs_what_came_before
from tests.tasks.next.batches import HOUR, NUM_IDS, everywhere, pad, ragged

RATES = pytest.mark.parametrize("log_rate", [-3.0, 0.0, math.log(2)])
TRENDS = pytest.mark.parametrize("trend", [-2.0, -0.3, 0.0, 0.04, 0.5])


def number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def hours_to(log_rate: float, trend: float, share: float) -> float:
    return float(delay(np.array(log_rate), np.array(trend), share))


def medians(model: RMTPP, batch: Batch, share: float = 0.5) -> Tensor:
    """Hours to the next event, (targets,)."""
    log_rate, trend = model.rates(batch).detach().double().numpy().T
    return torch.from_numpy(delay(log_rate, trend, share))


def small(num_ids: int = NUM_IDS, **changes: Any) -> RMTPP:
    settings = {"dim": 6, "table_dim": 4, "intervals": 4, "max_hours": 40.0, "dropout": 0.0, **changes}
    return RMTPP(RMTPPSettings(**settings), num_ids)


@pytest.mark.parametrize(
    ("trend", "hours", "expected"),
    [
        # e^a = 2, w = 1/2, d = 1: H = 2 (e^0.5 - 1) / 0.5 = 4 * 0.6487213 = 2.5948851
        # log f = 0.6931472 + 0.5 - 2.5948851 = -1.4017379
        (0.5, 1.0, -1.4017379),
        # w = 0, d = 1: log f = 0.6931472 - 2 * 1 = -1.3068528
        (0.0, 1.0, -1.3068528),
        # w = -2, d = 1: H = 2 (1 - e^-2) / 2 = 0.8646647; log f = 0.6931472 - 2 - 0.8646647 = -2.1715175
        (-2.0, 1.0, -2.1715175),
        # d = 0: log f = a
        (0.5, 0.0, 0.6931472),
    ],
)
def test_density_by_hand(trend: float, hours: float, expected: float) -> None:
    found = log_density(number(math.log(2)), number(trend), number(hours))
    assert found.item() == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("trend", "expected"),
    [
        # e^a = 2. w = 1/2: 4 (e^(d/2) - 1) = log 2 gives d = 2 log(1 + 0.1732868) = 0.3196181
        (0.5, 0.3196181),
        # w = 0: 2 d = log 2
        (0.0, 0.3465736),
        # w = -2: H(oo) = 1, something follows with chance 1 - e^-1 = 0.6321206, by the median with 0.3160603:
        # 1 - e^(-2d) = -log(1 - 0.3160603) = 0.3798855 gives d = -log(0.6201145) / 2 = 0.2389256
        (-2.0, 0.2389256),
    ],
)
def test_median_by_hand(trend: float, expected: float) -> None:
    assert hours_to(math.log(2), trend, 0.5) == pytest.approx(expected, abs=1e-6)


@RATES
@TRENDS
def test_density_sums_to_one_and_quantiles_cut_it(log_rate: float, trend: float) -> None:
    def density(hours: float) -> float:
        return log_density(number(log_rate), number(trend), number(hours)).exp().item()

    # Where the rate fades, with chance exp(-e^a / |w|) nothing ever follows.
    ever = 1 - math.exp(math.exp(log_rate) / trend) if trend < 0 else 1.0
    last = hours_to(log_rate, trend, 1 - 1e-12)
    assert quad(density, 0, last, epsabs=1e-10)[0] == pytest.approx(ever, abs=1e-7)
    for share in (0.1, 0.5, 0.9):
        cut = hours_to(log_rate, trend, share)
        assert quad(density, 0, cut, epsabs=1e-10)[0] == pytest.approx(share * ever, abs=1e-7)


@pytest.mark.parametrize("grown", [-1e-30, 1e-12, 0.9 * SMALL, -0.9 * SMALL, 1.1 * SMALL, -1.1 * SMALL])
def test_series_near_zero(grown: float) -> None:
    hours = 3.0
    found = total_hazard(number(0.5), number(grown / hours), number(hours)).item()
    assert found == pytest.approx(math.exp(0.5) * hours * math.expm1(grown) / grown, rel=1e-12)
    flat = math.log(2) / math.exp(0.5)
    if grown > 0:  # the median of a rate that never fades to nothing
        trend = grown / flat
        found = hours_to(0.5, trend, 0.5)
        assert found == pytest.approx(math.log1p(grown) / trend, rel=1e-11)


def test_delays_from_the_rates_of_the_targets() -> None:
    model = small()
    with torch.no_grad():
        model.output_rate.weight.zero_()
        model.output_rate.bias.fill_(math.log(2))
        model.output_trend.fill_(0.5)
    batch = everywhere(pad(ragged(1)))
    found = medians(model, batch)
    assert len(found) == batch.target_mask.sum()
    torch.testing.assert_close(found, torch.full_like(found, 0.3196181), rtol=1e-6, atol=0)
    assert (medians(model, batch, 0.9) > found).all()


@pytest.mark.parametrize("weight", [0.0, 1.0, 0.25])
def test_loss_equals_the_literal_equations(weight: float) -> None:
    # ragged holds gaps of 0 (a second), a minute, hours, and of 50 hours, which are past max_hours = 40.
    model, cascades = ramped(small(time_weight=weight), size=0.3), ragged(8)
    batch = pad(cascades)
    marker = torch.nn.functional.cross_entropy(model(batch).scores, batch.targets).item()
    time = oracles.rmtpp_time_loss(model.settings, model.state_dict(), cascades)
    assert model.loss(batch).item() == pytest.approx(marker + weight * time, abs=1e-9)


def test_a_gap_that_is_not_in_the_batch_is_not_learned() -> None:
    model, (cascade,) = ramped(small(), size=0.3), ragged(8, [5])
    whole = pad([cascade])
    cut = whole._replace(
        **{  # as training data comes: without the last event
            name: getattr(whole, name)[:, :-1] for name in ("ids", "mask", "times", "target_mask")
        }
    )
    assert cut.target_mask.sum() == whole.target_mask.sum() == cut.num_targets
    last = model.time_loss(model.states(whole), whole) - model.time_loss(model.states(cut), cut)
    fewer = whole._replace(target_mask=whole.target_mask & (torch.arange(5) == 3), targets=whole.targets[3:])
    torch.testing.assert_close(4 * last, model.time_loss(model.states(fewer), fewer))
    alone = pad([([2], [0.0])])
    assert model.time_loss(model.states(alone), alone) == 0


def test_learns_whose_news_travels_fast() -> None:
    torch.manual_seed(0)
    users = torch.randint(0, 2, (64, 9))
    means = torch.where(users == 0, 0.2, 10.0)[:, :-1]
    gaps = torch.distributions.Exponential(1 / means).sample().double() * HOUR
    times = torch.cat([torch.zeros(64, 1).double(), gaps.cumsum(1)], dim=1)
    mask = torch.ones_like(users, dtype=torch.bool)
    asked = mask.clone()
    asked[:, -1] = False
    batch = Batch(users + FIRST, mask, times, asked, users[:, 1:].flatten() + FIRST)
    model = small(FIRST + 2, max_hours=120.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(150):
        optimizer.zero_grad()
        torch.autograd.backward(model.loss(batch))
        optimizer.step()
    # Target steps are all but the last of each row.
    news, found = users[:, :-1].flatten(), medians(model, batch)
    # The median of an exponential density is log 2 = 0.693 of its mean: 0.14 and 6.9 hours.
    assert 0.10 < found[news == 0].median() < 0.20
    assert 4.5 < found[news == 1].median() < 9.5


def test_equals_the_literal_equations() -> None:
    oracles.equals_the_equations(ramped(small()), oracles.rmtpp_scores)


def test_padding_is_invisible() -> None:
    oracles.hides_padding(ramped(small(), size=0.3))


def test_the_future_changes_nothing_earlier() -> None:
    promises.knows_no_future(ramped(small()))


def test_a_long_history_is_read_whole() -> None:
    oracles.reads_a_long_history_whole(ramped(small(), size=0.5))


def test_the_weight_lies_on_the_latest_user() -> None:
    weighs_what_came_before(ramped(small()))


@pytest.mark.parametrize(
    ("seconds", "interval"), [(0.0, 0), (1.0, 1), (10 * HOUR, 1), (10 * HOUR + 1, 2), (40 * HOUR, 4), (41 * HOUR, 4)]
)
def test_intervals_by_hand(seconds: float, interval: int) -> None:
    times = torch.tensor([[0.0, 5.0, 5.0 + seconds]]).double()
    assert small().ages(times).tolist() == [[0, 1, interval]]


@pytest.mark.parametrize("trend", [-0.1, 0.0, 0.02])
def test_gradients(trend: float) -> None:
    model = ramped(small(6, dim=3, table_dim=2, max_hours=60.0), size=0.5).train()
    with torch.no_grad():
        model.output_trend.fill_(trend)
    oracles.has_exact_gradients(model)


def test_growing_changes_no_old_score() -> None:
    model = ramped(small())
    oracles.grows(model)
    assert model.grow(NUM_IDS + 1).output_trend.item() == pytest.approx(model.output_trend.item())


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    oracles.drops_out_in_training_alone(ramped(small(dropout=0.5)))


def test_half_precision() -> None:
    oracles.survives_half_precision(small())


def test_number_of_parameters_is_the_papers() -> None:
    # The RNN's 32 * 64 + 64 * 64 + 64 = 6,208, and the gap, one of 40 intervals or none: 41 * 64 = 2,624.
    #                                    8,832: Table 3 of HiDAN's paper says 8.8k
    network, settings = MODELS["rmtpp"].make, MODELS["rmtpp"].settings
    model = network(settings, 100)
    assert oracles.num_parameters(model) == 8_832
    time = sum(p.numel() for name, p in model.named_parameters() if name.startswith("output_"))
    assert time == 64 + 1 + 1  # v, b and w, which the table does not count


PINNED = [14.979209, 9.45182, 7.083572, 5.88298, 5.186502]


def test_loss_curve() -> None:
    assert loss_curve(small()) == pytest.approx(PINNED, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"intervals": 0}, "intervals is 0; it must be at least 1"),
        ({"max_hours": 0.0}, "max_hours is 0.0; it must be above a second"),
        ({"time_weight": -1.0}, "time_weight is -1.0; it must be 0 or more"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        RMTPPSettings(**changes)
    assert str(error.value) == message
