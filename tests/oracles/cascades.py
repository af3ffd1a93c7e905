"""The recurrent rivals of HiDAN as literal loops in float64, and the promises that every one of them keeps.

The oracles read one cascade, one user, one pair at a time. ``weights`` is a model's ``state_dict``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ensue.data.histories import Histories
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.settings import CYANRNNSettings, RecurrentSettings, RMTPPSettings
from ensue.vocabulary import FIRST, Vocabulary
from tests.oracles import promises, softmax
from tests.oracles.promises import Loss
from tests.tasks.next.batches import HOUR, NUM_IDS, everywhere, pad, ragged, sine_ramp

Weights = Mapping[str, Tensor]
Scorer = Callable[[Any, Weights, Sequence[int], Sequence[float]], Tensor]


# --- the equations ----------------------------------------------------------------------------------------------------


def outputs(weights: Weights, vector: Tensor) -> Tensor:
    """(ids,) scores of the output layer; padding and unknown at -inf."""
    scores = [row @ vector + bias for row, bias in zip(weights["output.weight"], weights["output.bias"], strict=True)]
    return torch.stack([torch.tensor(-torch.inf).double()] * FIRST + scores[FIRST:])


def gap(times: Sequence[float], step: int) -> float:
    """Seconds since the event before; 0 for the first."""
    return times[step] - times[step - 1] if step else 0.0


def rnn_states(weights: Weights, inputs: Sequence[Tensor], cell: str = "cell") -> list[Tensor]:
    """h = tanh(W x + b + U h); b is the last column of the input's matrix."""
    inward, bias = weights[f"{cell}.weight_ih_l0"][:, :-1], weights[f"{cell}.weight_ih_l0"][:, -1]
    state, states = torch.zeros_like(bias), []
    for item in inputs:
        state = torch.tanh(inward @ item + bias + weights[f"{cell}.weight_hh_l0"] @ state)
        states.append(state)
    return states


def lstm_states(weights: Weights, inputs: Sequence[Tensor]) -> list[Tensor]:
    gates = [
        (inward[:, :-1], inward[:, -1], recurrent)
        for inward, recurrent in zip(
            weights["cell.weight_ih_l0"].chunk(4), weights["cell.weight_hh_l0"].chunk(4), strict=True
        )
    ]
    state = memory = torch.zeros_like(gates[0][1])
    states = []
    for item in inputs:
        taken, kept, new, shown = (inward @ item + bias + recurrent @ state for inward, bias, recurrent in gates)
        memory = torch.sigmoid(kept) * memory + torch.sigmoid(taken) * torch.tanh(new)
        state = torch.sigmoid(shown) * torch.tanh(memory)
        states.append(state)
    return states


def gru_states(weights: Weights, inputs: Sequence[Tensor], cell: str) -> list[Tensor]:
    """The released CYAN-RNN's: n = tanh(W x + b + r * (U h)), h = z * h + (1 - z) * n."""
    parts = zip(weights[f"{cell}.weight_ih_l0"].chunk(3), weights[f"{cell}.weight_hh_l0"].chunk(3), strict=True)
    gates = [(inward[:, :-1], inward[:, -1], recurrent) for inward, recurrent in parts]
    state, states = torch.zeros_like(gates[0][1]), []
    for item in inputs:
        reset, update = (torch.sigmoid(inward @ item + bias + back @ state) for inward, bias, back in gates[:2])
        inward, bias, back = gates[2]
        state = update * state + (1 - update) * torch.tanh(inward @ item + bias + reset * (back @ state))
        states.append(state)
    return states


def attention(states: Sequence[Tensor], step: int) -> list[Tensor]:
    """The weights of the states before ``step``, none for the first."""
    return softmax([states[step] @ states[earlier] for earlier in range(step)]) if step else []


def recurrent_scores(
    settings: RecurrentSettings, weights: Weights, ids: Sequence[int], times: Sequence[float]
) -> Tensor:
    """(ids,) after the whole prefix."""
    users = [weights["users.weight"][id] for id in ids]
    states = (lstm_states if settings.cell == "lstm" else rnn_states)(weights, users)
    if not settings.attention:
        return outputs(weights, states[-1])
    context = torch.zeros_like(states[-1])
    for share, state in zip(attention(states, len(ids) - 1), states[:-1], strict=True):
        context = context + share * state
    joined = weights["joined.weight"] @ torch.cat([context, states[-1]]) + weights["joined.bias"]
    return outputs(weights, torch.tanh(joined))


def rmtpp_states(settings: RMTPPSettings, weights: Weights, ids: Sequence[int], times: Sequence[float]) -> list[Tensor]:
    """Each user beside its gap as one of ``intervals`` + 1 kinds: none, up to the first bound, up to the second …"""
    bounds = [number * settings.max_hours * HOUR / settings.intervals for number in range(settings.intervals)]
    inputs = []
    for step, id in enumerate(ids):
        kind = torch.zeros(settings.intervals + 1).double()
        kind[sum(gap(times, step) > bound for bound in bounds)] = 1.0
        inputs.append(torch.cat([weights["users.weight"][id], kind]))
    return rnn_states(weights, inputs)


def rmtpp_scores(settings: RMTPPSettings, weights: Weights, ids: Sequence[int], times: Sequence[float]) -> Tensor:
    return outputs(weights, rmtpp_states(settings, weights, ids, times)[-1])


def hazard(log_rate: float, trend: float, hours: float) -> float:
    """The integral of exp(log_rate + trend x) for x from 0 to ``hours``."""
    if trend == 0:
        return math.exp(log_rate) * hours
    return (math.exp(log_rate + trend * hours) - math.exp(log_rate)) / trend


def rmtpp_time_loss(
    settings: RMTPPSettings, weights: Weights, cascades: Sequence[tuple[Sequence[int], Sequence[float]]]
) -> float:
    """-log of each gap's density, or of the silence up to ``max_hours``; a mean over all targets."""
    total, trend = [], float(weights["output_trend"])
    for ids, times in cascades:
        states = rmtpp_states(settings, weights, ids, times)
        for step in range(len(ids) - 1):
            log_rate = float(weights["output_rate.weight"][0] @ states[step] + weights["output_rate.bias"][0])
            hours = max(gap(times, step + 1), 1.0) / HOUR
            if hours > settings.max_hours:
                total.append(hazard(log_rate, trend, settings.max_hours))
            else:
                total.append(hazard(log_rate, trend, hours) - log_rate - trend * hours)
    return sum(total) / len(total)


def cyan_steps(
    settings: CYANRNNSettings, weights: Weights, ids: Sequence[int], times: Sequence[float]
) -> list[tuple[list[Tensor], Tensor]]:
    """For each step the alignment and what the output layer reads."""

    def times_(name: str, vector: Tensor) -> Tensor:
        return weights[f"{name}.weight"] @ vector + weights.get(f"{name}.bias", torch.zeros(1).double())

    inputs = []
    for step, id in enumerate(ids):
        tens = min(gap(times, step) / HOUR, settings.max_hours) / 10
        clock = torch.tensor([tens, math.log(1 + tens)], dtype=torch.float64)
        inputs.append(torch.cat([weights["users.weight"][id], clock]))
    encode = gru_states if settings.cell == "gru" else rnn_states
    states = encode(weights, inputs, "encoder")
    decoded, steps = torch.zeros_like(states[0]), []
    covered: list[Tensor] = []
    alignment: list[Tensor] = []
    for step, own in enumerate(inputs):
        covered.append(torch.zeros(settings.coverage).double())
        alignment.append(torch.tensor(0.0).double())
        scores = []
        for seen in range(step + 1):
            past = times_("cover_last", covered[seen]) + times_("cover_weight", alignment[seen][None])
            now = times_("cover_key", states[seen]) + times_("cover_state", decoded)
            covered[seen] = torch.sigmoid(past + now)
            inside = times_("align_state", decoded) + times_("align_key", states[seen])
            scores.append(times_("align", torch.tanh(inside + times_("align_covered", covered[seen])))[0])
        alignment = softmax(scores)
        summed = torch.zeros_like(decoded)
        for share, state in zip(alignment, states, strict=False):
            summed = summed + share * state
        decoded = torch.sigmoid(
            times_("decode_input", own) + times_("decode_state", decoded) + times_("decode_context", summed)
        )
        steps.append((list(alignment), torch.cat([own, decoded, summed])))
    return steps


def cyan_scores(settings: CYANRNNSettings, weights: Weights, ids: Sequence[int], times: Sequence[float]) -> Tensor:
    return outputs(weights, cyan_steps(settings, weights, ids, times)[-1][1])


# --- the promises -----------------------------------------------------------------------------------------------------


def equals_the_equations(model: Any, scores: Scorer) -> None:
    cascades = [*ragged(3), *ragged(4, [12])]
    found = model(everywhere(pad(cascades))).scores
    state = model.state_dict()
    expected = [
        scores(model.settings, state, ids[:end], times[:end])
        for ids, times in cascades
        for end in range(1, len(ids) + 1)
    ]
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-9)


def hides_padding(model: Any) -> None:
    """From the scores, and from the loss."""
    promises.hides_padding(model)
    batch = pad(ragged(3), extra=4)
    junk = promises.with_junk(batch)
    torch.testing.assert_close(model.loss(junk), model.loss(pad(ragged(3))), rtol=0, atol=1e-12)


def has_exact_gradients(model: Any) -> None:
    """Of the loss, by finite differences; the model has 6 ids."""
    batch = pad([([2, 3, 5, 4, 2], [0.0, 60, 60, 4 * HOUR, 90 * HOUR]), ([5, 2], [0.0, HOUR])])
    names, parameters = zip(*Loss(model).named_parameters(), strict=True)

    def loss(*values: Tensor) -> Any:
        return torch.func.functional_call(Loss(model), dict(zip(names, values, strict=True)), (batch,))

    assert torch.autograd.gradcheck(loss, parameters)
    torch.autograd.backward(model.loss(batch))
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in parameters), "no idle parameters"


def reads_a_long_history_whole(model: Any) -> None:
    """300 users in one piece, and asked at the end alone."""
    ((ids, times),) = ragged(7, [300])
    known = Vocabulary(map(str, range(NUM_IDS - FIRST)))
    data = Histories(np.array(ids, np.int32), np.array([0, 300]), known, np.array(times))
    windows, last = Windows(data, model.reach), Windows(data, model.reach, last_only=True)
    assert len(windows) == 1
    with torch.no_grad():
        every = model(everywhere(pad([(ids, times)]))).scores
        found = [model(asked.batch(np.arange(1)).to("cpu")).scores for asked in (windows, last)]
    torch.testing.assert_close(torch.cat(found), every, rtol=0, atol=1e-10)


def survives_half_precision(model: Any) -> None:
    """Autocast, as the loop uses it on a GPU: the same loss and gradients, up to bfloat16."""
    sine_ramp(model)
    batch, losses, grads = pad(ragged(9)), [], []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            losses.append(functional.cross_entropy(model(batch).scores, batch.targets))
        torch.autograd.backward(losses[-1])
        grads.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    torch.testing.assert_close(losses[1], losses[0], rtol=0.02, atol=0.0)
    assert (grads[1] - grads[0]).norm() < 0.1 * grads[0].norm()


def grows(model: Any) -> None:
    """Old users keep their scores, new ones start with the lowest bias seen so far."""
    grown = model.grow(NUM_IDS + 4).double().eval()
    batch = everywhere(pad(ragged(2)))
    old, new = model(batch).scores, grown(batch).scores
    torch.testing.assert_close(new[:, :NUM_IDS], old, rtol=0, atol=1e-6)  # grow makes float32 weights
    assert new.shape[1] == NUM_IDS + 4 and torch.isfinite(new[:, FIRST:]).all()
    bias = grown.output.bias
    assert torch.equal(bias[NUM_IDS:], bias[FIRST:NUM_IDS].min().expand(4))


def num_parameters(model: Any) -> int:
    """As Table 3 of HiDAN's paper counts them: user table and output layer left out."""
    return sum(p.numel() for name, p in model.named_parameters() if not name.startswith(("users", "output")))


def drops_out_in_training_alone(model: Any) -> None:
    batch = pad(ragged(2))
    assert torch.equal(model(batch).scores, model(batch).scores)
    torch.manual_seed(0)
    first, second = (model.train()(batch).scores for _ in range(2))
    assert not torch.equal(first, second)
