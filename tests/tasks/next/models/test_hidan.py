"""HiDAN against the literal equations, its promises (padding, future, windows, growth), and pinned numbers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ensue import History, SettingError
from ensue.data.histories import Histories
from ensue.tasks.next.dataset import STEPS, Windows
from ensue.tasks.next.models.hidan import HiDAN
from ensue.tasks.next.settings import HiDANSettings
from ensue.vocabulary import FIRST, Vocabulary
from tests.oracles import hidan as oracles
from tests.oracles import promises
from tests.oracles.promises import Loss
from tests.tasks.next.batches import HOUR, NUM_IDS, Largest, everywhere, pad, ragged, sine_ramp

SMALL = HiDANSettings(dim=6, table_dim=4, dropout=0.0)
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "nua": {"user_attention": False},
    "nca": {"cascade_attention": False},
    "nt": {"time_decay": False},
}


def ramped(settings: HiDANSettings = SMALL, num_ids: int = NUM_IDS, *, size: float = 1.0) -> HiDAN:
    model = HiDAN(settings, num_ids).double().eval()
    sine_ramp(model, size)
    return model


def variant(name: str, window: int) -> HiDANSettings:
    return replace(SMALL, window=window, **VARIANTS[name])


@pytest.mark.parametrize("window", [0, 1, 3, 30])
@pytest.mark.parametrize("name", VARIANTS)
def test_equals_the_literal_equations(name: str, window: int) -> None:
    settings = variant(name, window)
    model, cascades = ramped(settings), ragged(window)
    found = model(everywhere(pad(cascades))).scores
    state = model.state_dict()
    expected = [
        oracles.hidan_scores(settings, state, ids[:end], times[:end])
        for ids, times in cascades
        for end in range(1, len(ids) + 1)
    ]
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-10)


def test_equals_the_literal_equations_past_a_window_of_30() -> None:
    model, (cascade,) = ramped(), ragged(5, [70])
    found = model(everywhere(pad([cascade]))).scores
    for end in (30, 31, 59, 60, 70):
        expected = oracles.hidan_scores(SMALL, model.state_dict(), cascade[0][:end], cascade[1][:end])
        torch.testing.assert_close(found[end - 1], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", VARIANTS)
def test_loss_equals_the_literal_equation(name: str) -> None:
    settings = variant(name, 3)
    model, cascades = ramped(settings), ragged(8)
    expected = oracles.hidan_loss(settings, model.state_dict(), cascades)
    assert model.loss(pad(cascades)).item() == pytest.approx(expected, abs=1e-12)


def test_number_of_parameters_is_the_papers() -> None:
    # Eq. 1   32 * 64 + 64               =  2,112
    # Eq. 2   2 * (64 * 64 + 64)         =  8,320
    # Eq. 5   2 * 64 * 64 + 64           =  8,256
    # Eq. 7   (1 + 40) * 64 + 64         =  2,688
    # Eq. 8   64 * 64 + 64 + 64          =  4,224
    #                                      25,600: Table 3 says 25.6k, user table and output layer not counted
    model = HiDAN(HiDANSettings(), 100)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    assert sum(size for name, size in sizes.items() if not name.startswith(("users.", "output."))) == 25_600
    assert sizes["users.weight"] == 100 * 32 and sizes["output.weight"] + sizes["output.bias"] == 100 * 65


@pytest.mark.parametrize(("name", "missing"), [("nua", 16_576), ("nca", 6_912), ("nt", 2_688)])
def test_variants_have_no_idle_parameters(name: str, missing: int) -> None:
    # NUA lacks Eqs. 2 and 5 (8,320 + 8,256), NCA Eqs. 7 and 8 (2,688 + 4,224), NT Eq. 7.
    full, less = (HiDAN(HiDANSettings(**changes), 5) for changes in ({}, VARIANTS[name]))
    sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in (full, less)]
    assert sizes[0] - sizes[1] == missing
    torch.autograd.backward(less.loss(pad([([2, 3, 4], [0.0, 60.0, 5 * HOUR])])))
    assert all(parameter.grad is not None for parameter in less.parameters())


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("name", VARIANTS)
def test_padding_is_invisible(name: str, window: int) -> None:
    promises.hides_padding(ramped(variant(name, window)))


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_future_changes_nothing_earlier(name: str, window: int) -> None:
    promises.knows_no_future(ramped(variant(name, window)))


def test_the_weights_are_distributions_over_what_came_before() -> None:
    _, influence = model_weights = ramped()(everywhere(pad(ragged(6)))).weights
    mask = pad(ragged(6)).mask
    for weights, first in zip(model_weights, (0.0, 1.0), strict=True):
        sums = weights.sum(-1)[mask]
        starts = torch.zeros_like(mask)
        starts[:, 0] = True
        torch.testing.assert_close(sums[~starts[mask]], torch.ones_like(sums[~starts[mask]]))
        assert (sums[starts[mask]] == first).all()
    assert (influence.triu(1) == 0).all() and (model_weights[0].triu(0) == 0).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_gradients(name: str) -> None:
    model = ramped(replace(variant(name, 3), dim=3, table_dim=2, intervals=4), 6).train()
    batch = pad([([2, 3, 5, 4, 2], [0.0, 60, 60, 4 * HOUR, 90 * HOUR]), ([5, 2], [0.0, HOUR])])
    names, parameters = zip(*Loss(model).named_parameters(), strict=True)

    def loss(*values: Tensor) -> Any:
        return torch.func.functional_call(Loss(model), dict(zip(names, values, strict=True)), (batch,))

    assert torch.autograd.gradcheck(loss, parameters)


@pytest.mark.parametrize(
    ("seconds", "interval"),
    [
        (0.0, 0),  # the newest user alone
        (1.0, 1),
        (3 * HOUR, 1),  # intervals are closed above
        (3 * HOUR + 1, 2),
        (117 * HOUR, 39),
        (120 * HOUR, 40),
        (120 * HOUR + 1, 40),  # beyond T_max: the last one
        (9999 * HOUR, 40),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ages_by_hand(seconds: float, interval: int, dtype: torch.dtype) -> None:
    ages = HiDAN(HiDANSettings(), 5).ages(torch.tensor([[0.0, seconds]], dtype=dtype))
    assert ages.tolist() == [[[0, 0], [interval, 0]]]
    assert oracles.hidan_age(HiDANSettings(), 0.0, seconds) == interval


@pytest.mark.parametrize("name", VARIANTS)
def test_pieces_give_the_scores_of_the_whole(name: str) -> None:
    (cascade,) = ragged(7, [400])
    ids, times = np.array(cascade[0], np.int32), np.array(cascade[1])
    data = Histories(ids, np.array([0, 400]), Vocabulary(map(str, range(NUM_IDS - FIRST))), times)
    model = ramped(variant(name, 30))
    assert model.reach == 58  # two windows: 29 events back for the influence, 29 more for their contexts
    whole = Windows(data, None)
    cut = Windows(data, model.reach)
    assert (len(whole), len(cut)) == (1, -(-399 // STEPS))

    def scores(windows: Windows) -> Tensor:
        found: Tensor = model(windows.batch(np.arange(len(windows))).to("cpu")).scores
        return found

    torch.testing.assert_close(scores(cut), scores(whole), rtol=0, atol=1e-12)
    last = Windows(data, model.reach, last_only=True)
    assert last.stops - last.starts == 59
    expected = model(everywhere(pad([cascade]))).scores[-1:]
    torch.testing.assert_close(scores(last), expected, rtol=0, atol=1e-12)


def test_a_shorter_reach_would_change_answers() -> None:
    (cascade,) = ragged(7, [20])
    model = ramped(variant("full", 4))
    assert model.reach == 6
    whole = model(everywhere(pad([cascade]))).scores[-1]
    for reach, same in ((6, True), (5, False)):
        tail = cascade[0][-1 - reach :], cascade[1][-1 - reach :]
        assert torch.allclose(model(everywhere(pad([tail]))).scores[-1], whole, rtol=0, atol=1e-12) == same


PINNED = {
    "full": (2.076736, 2.039956, 2.002069, 1.962108, 1.921191),
    "nua": (2.101633, 2.057989, 2.017531, 1.977323, 1.936894),
    "nca": (2.157551, 2.117642, 2.077948, 2.036318, 1.992766),
    "nt": (2.266495, 2.216038, 2.162904, 2.106668, 2.047843),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_loss_curve(name: str) -> None:
    model = HiDAN(variant(name, 30), NUM_IDS)
    sine_ramp(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    batch = pad(ragged(9))
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model.loss(batch)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx(PINNED[name], abs=1e-4)


def test_growing_changes_no_old_score() -> None:
    model = ramped().float()
    grown = model.grow(NUM_IDS + 4).eval()
    batch = everywhere(pad(ragged(2)))
    old, new = model(batch).scores, grown(batch).scores
    torch.testing.assert_close(new[:, :NUM_IDS], old, rtol=0, atol=1e-6)
    assert new.shape[1] == NUM_IDS + 4 and torch.isfinite(new[:, FIRST:]).all()
    assert torch.equal(grown.output.bias[NUM_IDS:], model.output.bias[FIRST:].min().expand(4))


def test_padding_and_unknown_are_no_answers() -> None:
    scores = ramped()(pad(ragged(2))).scores
    assert (scores[:, :FIRST] == -torch.inf).all()


def test_no_tensor_of_time_by_time_by_dim() -> None:
    time = dim = 64
    batch = everywhere(pad(ragged(1, [time])))
    with Largest() as largest:  # type: ignore[no-untyped-call]
        model = HiDAN(HiDANSettings(dim=dim), NUM_IDS)
        model(batch).scores[:, FIRST:].sum().backward()
    # The largest are (time, time) = (dim, dim) = 4,096; (time, time, dim) would be 262,144.
    assert largest.numel == time * time


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "dim is 0; it must be at least 1"),
        ({"intervals": -1}, "intervals is -1; it must be at least 1"),
        ({"window": -1}, "window is -1; it must be 0 or more"),
        ({"max_hours": 0.0}, "max_hours is 0.0; it must be above 0"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1"),
        ({"dropout": -0.1}, "dropout is -0.1; it must be at least 0 and below 1"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        HiDANSettings(**changes)
    assert str(error.value) == message


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    model = ramped(replace(SMALL, dropout=0.5))
    batch = pad(ragged(2))
    assert torch.equal(model(batch).scores, model(batch).scores)
    torch.manual_seed(0)
    first, second = (model.train()(batch).scores for _ in range(2))
    assert not torch.equal(first, second)


def test_variants_differ() -> None:
    batch = pad(ragged(2))
    scores = [ramped(variant(name, 3))(batch).scores[:, FIRST:] for name in VARIANTS]
    for one, other in itertools.combinations(scores, 2):
        assert not torch.allclose(one, other)


def test_credits_and_bias_are_the_score() -> None:
    torch.manual_seed(0)
    vocabulary = Vocabulary("abcdefgh")
    for window in (30, 3):
        network = HiDAN(HiDANSettings(dim=8, window=window), len(vocabulary)).eval()
        data = Histories.of([History(tuple("adcbfe"), (0.0, 9.0, 9.0, 1e4, 1e5, 2e5))], vocabulary)
        batch = Windows(data, network.reach).batch(np.arange(1)).to("cpu")
        with torch.no_grad():
            credit, scores = network.credit(batch), network(batch).scores
        came = batch.ids[0, 1:]
        expected = scores[torch.arange(len(came)), came] - network.output.bias[came]
        torch.testing.assert_close(credit[0, 1:].sum(1), expected)
        assert not credit[0, 0].any() and not credit[0].triu().any()
        assert window > 5 or not credit[0, 4, 0]
