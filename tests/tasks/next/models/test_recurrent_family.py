"""RNN, LSTM, Att-RNN and Att-LSTM against literal loops, and the promises of a cascade model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ensue import SettingError
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.models.recurrent import Recurrent
from ensue.tasks.next.settings import RecurrentSettings
from tests.oracles import cascades as oracles
from tests.oracles import promises
from tests.oracles.sessions import largest_tensor, loss_curve, ramped, weighs_what_came_before
from tests.tasks.next.batches import NUM_IDS, everywhere, pad, ragged

VARIANTS: dict[str, dict[str, Any]] = {
    "rnn": {},
    "lstm": {"cell": "lstm"},
    "att-rnn": {"attention": True},
    "att-lstm": {"cell": "lstm", "attention": True},
}
EACH = pytest.mark.parametrize("name", VARIANTS)
PLAIN = pytest.mark.parametrize("name", ["rnn", "lstm"])
ATTENTIVE = pytest.mark.parametrize("name", ["att-rnn", "att-lstm"])


def small(name: str, num_ids: int = NUM_IDS, **changes: Any) -> Recurrent:
    settings = {"dim": 6, "table_dim": 4, "dropout": 0.0, **VARIANTS[name], **changes}
    return Recurrent(RecurrentSettings(**settings), num_ids)


@EACH
def test_equals_the_literal_equations(name: str) -> None:
    oracles.equals_the_equations(ramped(small(name)), oracles.recurrent_scores)


@EACH
def test_padding_is_invisible(name: str) -> None:
    oracles.hides_padding(ramped(small(name)))


@EACH
def test_the_future_changes_nothing_earlier(name: str) -> None:
    promises.knows_no_future(ramped(small(name)))


@EACH
def test_a_long_history_is_read_whole(name: str) -> None:
    oracles.reads_a_long_history_whole(ramped(small(name), size=0.5))


@EACH
def test_gradients(name: str) -> None:
    oracles.has_exact_gradients(ramped(small(name, 6, dim=3, table_dim=2), size=0.5).train())


@EACH
def test_growing_changes_no_old_score(name: str) -> None:
    oracles.grows(ramped(small(name)))


@EACH
def test_dropout_is_off_in_evaluation_and_on_in_training(name: str) -> None:
    oracles.drops_out_in_training_alone(ramped(small(name, dropout=0.5)))


@pytest.mark.parametrize("name", ["rnn", "att-rnn"])  # not every CPU has an LSTM in bfloat16
def test_half_precision(name: str) -> None:
    oracles.survives_half_precision(small(name))


@PLAIN
def test_the_weight_lies_on_the_latest_user(name: str) -> None:
    model, batch = ramped(small(name)), everywhere(pad(ragged(6)))
    weighs_what_came_before(model)
    (weights,) = model(batch).weights
    assert (weights.diagonal(dim1=1, dim2=2) == batch.mask).all()


@ATTENTIVE
def test_the_weights_are_the_attention_over_earlier_states(name: str) -> None:
    model, cascades = ramped(small(name), size=0.5), ragged(6)
    dependency, influence = model(everywhere(pad(cascades))).weights
    assert dependency is influence
    states = {"att-rnn": oracles.rnn_states, "att-lstm": oracles.lstm_states}[name]
    known = model.state_dict()
    for row, (ids, _) in enumerate(cascades):
        found = states(known, [known["users.weight"][id] for id in ids])
        for step in range(len(ids)):
            expected = torch.zeros(dependency.shape[2]).double()
            for earlier, share in enumerate(oracles.attention(found, step)):
                expected[earlier] = share
            torch.testing.assert_close(dependency[row, step], expected, rtol=0, atol=1e-12)


def test_number_of_parameters_is_the_papers() -> None:
    # A cell reads 32 numbers and 64 of its own state, and has one bias: 32 * 64 + 64 * 64 + 64 = 2,048 + 4,096 + 64.
    # RNN       one cell                   =  6,208: Table 3 of HiDAN's paper says 6.2k
    # LSTM      four gates like it         = 24,832: 24.8k
    # Att-RNN   6,208 + 128 * 64 + 64      = 14,464: 14.5k; the attention's scores have no parameters
    # Att-LSTM  24,832 + 8,256             = 33,088: 33.1k
    expected = {"rnn": 6_208, "lstm": 24_832, "att-rnn": 14_464, "att-lstm": 33_088}
    for name, size in expected.items():
        network, settings = MODELS[name].make, MODELS[name].settings
        model = network(settings, 100)
        assert oracles.num_parameters(model) == size, name
        assert sum(p.numel() for p in model.parameters()) == size + 100 * 32 + 100 * 65, name


@PLAIN
def test_biases_start_at_zero_and_the_forget_gate_at_one(name: str) -> None:
    biases = small(name, dim=2).cell.get_parameter("weight_ih_l0")[:, -1]
    assert biases.tolist() == {"rnn": [0, 0], "lstm": [0, 0, 1, 1, 0, 0, 0, 0]}[name]


def test_no_tensor_of_time_by_time_by_dim() -> None:
    # The largest are contexts and states side by side, 64 * 128; (time, time, dim) would be 262,144.
    assert largest_tensor(lambda dim: small("att-rnn", dim=dim), 64) <= 64 * 128


PINNED = {
    "rnn": [2.116022, 2.056555, 2.010393, 1.962961, 1.910784],
    "lstm": [2.099988, 2.065779, 2.03016, 1.991629, 1.949318],
    "att-rnn": [2.376913, 2.289566, 2.235133, 2.182978, 2.118607],
    "att-lstm": [2.382144, 2.309342, 2.254841, 2.210611, 2.168494],
}


@EACH
def test_loss_curve(name: str) -> None:
    assert loss_curve(small(name)) == pytest.approx(PINNED[name], abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "dim is 0; it must be at least 1"),
        ({"table_dim": -1}, "table_dim is -1; it must be at least 1"),
        ({"cell": "gru"}, "cell 'gru' is not known; choose from rnn, lstm"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        RecurrentSettings(**changes)
    assert str(error.value) == message
