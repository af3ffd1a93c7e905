"""CYAN-RNN against literal loops: encoder, coverage, alignment, decoder; and the promises of a cascade model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ensue import SettingError
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.models.cyan import CYANRNN
from ensue.tasks.next.settings import CYANRNNSettings
from tests.oracles import cascades as oracles
from tests.oracles import promises
from tests.oracles.sessions import loss_curve, ramped
from tests.tasks.next.batches import HOUR, NUM_IDS, everywhere, pad, ragged

CELLS = pytest.mark.parametrize("cell", ["rnn", "gru"])


def small(num_ids: int = NUM_IDS, **changes: Any) -> CYANRNN:
    settings = {"dim": 6, "table_dim": 4, "coverage": 3, "dropout": 0.0, **changes}
    return CYANRNN(CYANRNNSettings(**settings), num_ids)


@CELLS
def test_equals_the_literal_equations(cell: str) -> None:
    oracles.equals_the_equations(ramped(small(cell=cell), size=0.5), oracles.cyan_scores)


def test_the_weights_are_the_alignments() -> None:
    model, cascades = ramped(small(), size=0.5), ragged(6)
    dependency, influence = model(everywhere(pad(cascades))).weights
    for row, (ids, times) in enumerate(cascades):
        before = torch.zeros(influence.shape[2]).double()  # nothing was looked at before the first user
        for step, (alignment, _) in enumerate(oracles.cyan_steps(model.settings, model.state_dict(), ids, times)):
            expected = torch.zeros(influence.shape[2]).double()
            expected[: step + 1] = torch.stack(alignment)
            torch.testing.assert_close(influence[row, step], expected, rtol=0, atol=1e-12)
            torch.testing.assert_close(dependency[row, step], before, rtol=0, atol=1e-12)
            before = expected


def test_coverage_remembers_what_was_looked_at() -> None:
    # Without the two ways by which the past enters it, coverage forgets, and the alignment of a later step changes.
    model, batch = ramped(small()), everywhere(pad(ragged(6, [6])))
    known = model(batch).weights[1]
    for name in ("cover_last", "cover_weight"):
        kept = getattr(model, name).weight.detach().clone()
        with torch.no_grad():
            getattr(model, name).weight.zero_()
        found = model(batch).weights[1]
        # At the first step the past is zero; with one user to look at, the alignment is 1 whatever its score.
        assert torch.equal(found[0, 0], known[0, 0]) and not torch.allclose(found[0, 2:], known[0, 2:], atol=1e-4)
        with torch.no_grad():
            getattr(model, name).weight.copy_(kept)


def test_clock_by_hand() -> None:
    # Gaps of 0, 5 h = 0.5 tens of hours, and 200 h, cut at 120 h = 12 tens; log 1.5 = 0.4054651, log 13 = 2.5649494.
    times = torch.tensor([[0.0, 5 * HOUR, 205 * HOUR]]).double()
    expected = torch.tensor([[[0.0, 0.0], [0.5, 0.4054651], [12.0, 2.5649494]]], dtype=torch.float64)
    torch.testing.assert_close(small().clock(times), expected, rtol=0, atol=1e-7)


def test_padding_is_invisible() -> None:
    oracles.hides_padding(ramped(small()))


def test_the_future_changes_nothing_earlier() -> None:
    promises.knows_no_future(ramped(small()))


def test_a_long_history_is_read_whole() -> None:
    oracles.reads_a_long_history_whole(ramped(small(dim=3, table_dim=2), size=0.5))


@CELLS
def test_gradients(cell: str) -> None:
    oracles.has_exact_gradients(ramped(small(6, dim=2, table_dim=1, coverage=1, cell=cell), size=0.5).train())


def test_growing_changes_no_old_score() -> None:
    oracles.grows(ramped(small()))


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    oracles.drops_out_in_training_alone(ramped(small(dropout=0.5)))


def test_half_precision() -> None:
    oracles.survives_half_precision(small())


def test_number_of_parameters_is_the_papers() -> None:
    # The inputs are 32 + 2 wide: a user and the clock.
    # encoder    34 * 64 + 64 * 64 + 64                       =  6,336
    # alignment  2 * 64 * 64 + 64, and 64 for the sum         =  8,320
    # coverage   10 * 64 + 10 * 10 + 10 + 2 * 10 * 64 + 10    =  2,040
    # decoder    34 * 64 + 2 * 64 * 64 + 64                   = 10,432
    #                                                           27,128: Table 3 of HiDAN's paper says 27.1k
    network, settings = MODELS["cyan-rnn"].make, MODELS["cyan-rnn"].settings
    assert oracles.num_parameters(network(settings, 100)) == 27_128
    # The released program's encoder, a GRU, has three gates: 27,128 + 2 * 6,336.
    assert oracles.num_parameters(CYANRNN(CYANRNNSettings(cell="gru"), 100)) == 39_800


def test_a_step_keeps_its_coverage_and_not_its_dim() -> None:
    # What the graph holds for the way back, in numbers. The tanh of all pairs alone would be 48 * 49 / 2 * 48 = 56,448.
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        small(dim=48)(everywhere(pad(ragged(1, [48]))))
    assert 48 * 49 // 2 * 3 < sum(kept.values()) < 56_448


PINNED = {
    "rnn": [2.858175, 2.462645, 2.143755, 1.930287, 1.816143],
    "gru": [2.771104, 2.426572, 2.14046, 1.932352, 1.804147],
}


@CELLS
def test_loss_curve(cell: str) -> None:
    assert loss_curve(small(cell=cell)) == pytest.approx(PINNED[cell], abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coverage": 0}, "coverage is 0; it must be at least 1"),
        ({"cell": "lstm"}, "cell 'lstm' is not known; choose from rnn, gru"),
        ({"max_hours": 0.0}, "max_hours is 0.0; it must be above 0"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        CYANRNNSettings(**changes)
    assert str(error.value) == message
