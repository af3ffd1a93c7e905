"""The session baselines' equations as literal loops in float64, and the promises that every one of them keeps.

The oracles read one prefix, one click, one item at a time. ``weights`` is a model's ``state_dict``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ensue.data.histories import Histories
from ensue.schedule import Schedule
from ensue.tasks.next.dataset import Windows, hide_seen
from ensue.tasks.next.settings import (
    BPRMFSettings,
    FPMCSettings,
    GRU4RecSettings,
    NARMSettings,
    SRGNNSettings,
    STAMPSettings,
    VSKNNSettings,
)
from ensue.training.loop import train
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST, Vocabulary
from tests.oracles.promises import Loss
from tests.tasks.next.batches import NUM_IDS, Largest, everywhere, pad, ragged, sine_ramp
from tests.tasks.next.contract import crowds, walks

Weights = Mapping[str, Tensor]
Scorer = Callable[[Any, Weights, Sequence[int]], Tensor]


# --- the equations ----------------------------------------------------------------------------------------------------


def products(vector: Tensor, table: Tensor) -> Tensor:
    """(ids,) the product with each row; padding and unknown at -inf."""
    return torch.stack([row @ vector if id >= FIRST else torch.tensor(-torch.inf) for id, row in enumerate(table)])


def mean(vectors: Sequence[Tensor]) -> Tensor:
    total = torch.zeros_like(vectors[0])
    for vector in vectors:
        total = total + vector
    return total / len(vectors)


def bprmf_scores(settings: BPRMFSettings, weights: Weights, ids: Sequence[int]) -> Tensor:
    table = weights["items.weight"]
    return products(mean([table[id] for id in ids[-settings.max_length :]]), table)


def fpmc_scores(settings: FPMCSettings, weights: Weights, ids: Sequence[int]) -> Tensor:
    to_user, to_item = weights["items.weight"].chunk(2, dim=1)
    user = mean([to_user[id] for id in ids[-settings.max_length :]])
    return products(user, to_user) + products(weights["latest.weight"][ids[-1]], to_item)


def vsknn_scores(
    settings: VSKNNSettings, train: Sequence[Sequence[int]], ids: Sequence[int], num_ids: int
) -> list[float]:
    """(ids,) what VS-kNN says after one prefix, before the logarithm; past sessions in order, the latest last."""

    def decay(away: int) -> float:
        return {"linear": max(0.0, 1 - away / 10), "reciprocal": 1 / (away + 1), "quadratic": 1 / (away + 1) ** 2}[
            settings.decay
        ]

    place: dict[int, int] = {}  # of an item that comes twice, the latest place counts
    for away, id in enumerate(reversed(ids[-settings.window :])):
        place.setdefault(id, away)
    sampled = [set(past) for past in train if set(past) & set(place)][-settings.sample :]
    similar = [(sum(decay(place[id]) for id in past if id in place), past) for past in reversed(sampled)]
    nearest = sorted(similar, key=lambda pair: -pair[0])[: settings.neighbours]
    said = [0.0] * num_ids
    for similarity, past in nearest:
        shared = min(place[id] for id in past if id in place)
        for id in past:
            holders = sum(id in other for other in train)
            rarity = 1 + settings.idf * math.log(sum(len(other) > 0 for other in train) / holders)
            said[id] += similarity * decay(shared) * rarity
    events = [id for past in train for id in past]
    total = sum(said) or 1.0
    return [score / total + settings.popularity * events.count(id) / len(events) for id, score in enumerate(said)]


def gru_states(weights: Weights, ids: Sequence[int]) -> list[Tensor]:
    """The state after each click."""
    gates = {name: weights[f"gru.{name}_l0"].chunk(3) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    state, states = torch.zeros_like(gates["bias_hh"][0]), []
    for id in ids:
        item = weights["items.weight"][id]
        seen = [gates["weight_ih"][gate] @ item + gates["bias_ih"][gate] for gate in range(3)]
        kept = [gates["weight_hh"][gate] @ state + gates["bias_hh"][gate] for gate in range(3)]
        reset, update = torch.sigmoid(seen[0] + kept[0]), torch.sigmoid(seen[1] + kept[1])
        state = (1 - update) * torch.tanh(seen[2] + reset * kept[2]) + update * state
        states.append(state)
    return states


def gru4rec_scores(settings: GRU4RecSettings, weights: Weights, ids: Sequence[int]) -> Tensor:
    return products(gru_states(weights, ids)[-1], weights["items.weight"]) + weights["bias"]


def bpr_max_loss(target: float, others: Sequence[float], regularisation: float) -> float:
    """Equation of BPR-max for one target, on scores that went through ELU; ``others`` without the target."""
    target, *others = (score if score > 0 else np.exp(score) - 1 for score in (target, *others))
    shares = [np.exp(score) / sum(np.exp(other) for other in others) for score in others]
    pairs = sum(share / (1 + np.exp(score - target)) for share, score in zip(shares, others, strict=True))
    squares = sum(share * score**2 for share, score in zip(shares, others, strict=True))
    return float(-np.log(pairs) + regularisation * squares)


def narm_scores(settings: NARMSettings, weights: Weights, ids: Sequence[int]) -> Tensor:
    states = gru_states(weights, ids)
    local = torch.zeros_like(states[0])
    for state in states[-settings.max_length :]:
        alpha = weights["vector"] @ torch.sigmoid(weights["query.weight"] @ states[-1] + weights["key.weight"] @ state)
        local = local + alpha * state
    both = torch.cat([states[-1], local])
    return products(weights["bilinear.weight"] @ both, weights["items.weight"])


def srgnn_scores(settings: SRGNNSettings, weights: Weights, ids: Sequence[int]) -> Tensor:
    """One node, one edge and one step at a time."""
    table = weights["items.weight"]
    clicks = list(ids[-settings.max_length :])
    items = sorted(set(clicks))
    edges = list(pairwise(clicks))
    vectors = {item: table[item] for item in items}
    to_outgoing, to_incoming = weights["messages.weight"].chunk(2)
    for _ in range(settings.steps):
        following = {}
        for item in items:
            out = [vectors[end] for start, end in edges if start == item]
            into = [vectors[start] for start, end in edges if end == item]
            received = torch.cat([
                to_outgoing @ mean(out) if out else torch.zeros_like(table[0]),
                to_incoming @ mean(into) if into else torch.zeros_like(table[0]),
            ]) + weights["messages_bias"]  # fmt: skip
            both = torch.cat([received, vectors[item]])
            update, reset = torch.sigmoid(weights["gates.weight"] @ both).chunk(2)
            candidate = weights["candidate.weight"] @ torch.cat([received, reset * vectors[item]])
            following[item] = (1 - update) * vectors[item] + update * torch.tanh(candidate)
        vectors = following
    latest, summed = vectors[clicks[-1]], torch.zeros_like(table[0])
    for click in clicks:
        inside = weights["latest.weight"] @ latest + weights["latest.bias"] + weights["event.weight"] @ vectors[click]
        summed = summed + (weights["vector"] @ torch.sigmoid(inside)) * vectors[click]
    return products(weights["combine.weight"] @ torch.cat([latest, summed]), table)


def stamp_scores(settings: STAMPSettings, weights: Weights, ids: Sequence[int]) -> Tensor:
    table = weights["items.weight"]
    items = [table[id] for id in ids[-settings.max_length :]]
    external, latest, summed = mean(items), items[-1], torch.zeros_like(items[0])
    for item in items:
        inside = weights["event.weight"] @ item + weights["latest.weight"] @ latest + weights["mean.weight"] @ external
        summed = summed + (weights["vector"] @ torch.sigmoid(inside + weights["event.bias"])) * item
    cells = [
        torch.tanh(weights[f"{name}_cell.weight"] @ vector + weights[f"{name}_cell.bias"])
        for name, vector in (("session", summed), ("latest", latest))
    ]
    trilinear = [(cells[0] * cells[1] * row).sum() for row in table]
    trilinear[:FIRST] = [torch.tensor(-torch.inf).double()] * FIRST
    return torch.stack(trilinear)


# --- the promises -----------------------------------------------------------------------------------------------------


def ramped(model: Any, *, size: float = 1.0) -> Any:
    """In float64 and evaluation mode, with weights that no random number generator can change."""
    sine_ramp(model.double().eval(), size)
    return model


def fix_draws(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler walks the catalogue in place of drawing from it."""
    num_ids = len(model.items.sampler.totals)

    def draw(*shape: int) -> Tensor:
        return (5 * torch.arange(int(np.prod(shape))) % (num_ids - FIRST) + FIRST).view(shape)

    monkeypatch.setattr(model.items.sampler, "draw", draw)


def equals_the_equations(model: Any, scores: Scorer) -> None:
    sessions = [*ragged(3), *ragged(4, [30])]
    found = model(everywhere(pad(sessions))).scores
    state = model.state_dict()
    prefixes = [ids[:end] for ids, _ in sessions for end in range(1, len(ids) + 1)]
    expected = torch.stack([scores(model.settings, state, prefix) for prefix in prefixes])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def weighs_what_came_before(model: Any) -> None:
    batch = everywhere(pad(ragged(6)))
    (weights,) = model(batch).weights
    assert weights.shape == (5, 9, 9) and not weights.requires_grad
    sums = weights.sum(-1)[batch.mask]
    torch.testing.assert_close(sums, torch.ones_like(sums))
    assert (weights >= 0).all() and (weights.triu(1) == 0).all()


def reads_pieces_as_the_whole(model: Any, num_pieces: int) -> None:
    """400 clicks at once, cut by the model's reach, and asked at the end alone."""
    ((ids, _),) = ragged(7, [400])
    known = Vocabulary(map(str, range(NUM_IDS - FIRST)))
    data = Histories(np.array(ids, np.int32), np.array([0, 400]), known, np.arange(400.0))
    whole, cut = Windows(data, None), Windows(data, model.reach)
    assert (len(whole), len(cut)) == (1, num_pieces)
    found, expected = (model(windows.batch(np.arange(len(windows))).to("cpu")).scores for windows in (cut, whole))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    last = model(Windows(data, model.reach, last_only=True).batch(np.arange(1)).to("cpu")).scores
    every = model(everywhere(pad([(ids, [0.0] * 400)]))).scores
    torch.testing.assert_close(last, every[-1:], rtol=0, atol=1e-10)


def loss_is_cross_entropy(model: Any) -> None:
    """Compare the loss of eight sessions with the cross-entropy of their targets among all ids."""
    batch = pad(ragged(8))
    expected = nn.functional.cross_entropy(model(batch).scores, batch.targets)
    torch.testing.assert_close(model.loss(batch), expected, rtol=0, atol=1e-12)


def has_exact_gradients(model: Any) -> None:
    """Of the loss, by finite differences; the model has 6 ids and draws that :func:`fix_draws` fixed."""
    batch = pad([([2, 3, 5, 4, 2], [0.0] * 5), ([5, 2], [0.0] * 2)])
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.sparse = False  # gradcheck takes dense gradients only
    names, parameters = zip(*Loss(model).named_parameters(), strict=True)

    def loss(*values: Tensor) -> Any:
        return torch.func.functional_call(Loss(model), dict(zip(names, values, strict=True)), (batch,))

    assert torch.autograd.gradcheck(loss, parameters)
    torch.autograd.backward(model.loss(batch))
    assert all(parameter.grad is not None for parameter in parameters), "no idle parameters"


def survives_half_precision(model: Any) -> None:
    """Autocast, as the loop uses it on a GPU: the same loss and gradients, up to bfloat16."""
    sine_ramp(model)
    batch, losses, grads = pad(ragged(9)), [], []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            losses.append(model.loss(batch))
        torch.autograd.backward(losses[-1])
        grads.append(torch.cat([parameter.grad.to_dense().flatten() for parameter in model.parameters()]))
    torch.testing.assert_close(losses[1], losses[0], rtol=0.02, atol=0.0)
    assert (grads[1] - grads[0]).norm() < 0.1 * grads[0].norm()


def loss_curve(model: Any) -> list[float]:
    """Five steps of Adam from a sine ramp, in float32."""
    sine_ramp(model)
    optimizer = make_optimizer(model, Schedule(learning_rate=0.03, weight_decay=0.0))
    batch, losses = pad(ragged(9)), []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model.loss(batch)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(round(loss.item(), 6))
    return losses


def grows(model: Any) -> None:
    """Old ids keep their scores, new ones have some, and the counts of the negatives are kept."""
    model.items.sampler.count(torch.arange(float(NUM_IDS)))
    grown = model.float().grow(NUM_IDS + 4).eval()
    batch = everywhere(pad(ragged(2)))
    old, new = model(batch).scores, grown(batch).scores
    torch.testing.assert_close(new[:, :NUM_IDS], old, rtol=1e-5, atol=1e-6)
    assert new.shape[1] == NUM_IDS + 4 and torch.isfinite(new[:, FIRST:]).all()
    assert torch.equal(grown.items.sampler.totals[:NUM_IDS], model.items.sampler.totals)


def largest_tensor(make: Callable[[int], Any], time: int) -> int:
    """The size of the largest tensor made by a pass there and back, with ``time`` clicks and width ``time``."""
    batch = everywhere(pad(ragged(1, [time])))
    with Largest() as largest:  # type: ignore[no-untyped-call]
        make(time)(batch).scores[:, FIRST:].sum().backward()
    return int(largest.numel)


def hits(make: Callable[[int], Any], schedule: Schedule, *, crowd: bool = False) -> float:
    """Train on planted walks (or crowds) with the loop itself; the share of new ones whose end is foretold."""
    data = (crowds if crowd else walks)(80, 0)
    known = Histories.of(data)
    torch.manual_seed(5)
    model = make(len(known.vocabulary))
    model.items.sampler.count(torch.from_numpy(np.bincount(known.ids, minlength=len(known.vocabulary))).float())
    windows = Windows(known, model.reach)
    for report in train(model, windows, None, schedule, optimizer=make_optimizer(model, schedule), seed=5):
        assert np.isfinite(report.loss)
    model.eval()
    asked = Histories.of((crowds if crowd else walks)(40, 1), known.vocabulary)
    questions = Windows(asked, model.reach)
    index = np.arange(len(questions))
    batch, positions = questions.batch(index).to("cpu"), questions.positions(index)
    with torch.no_grad():
        best = hide_seen(model(batch).scores, asked, positions).argmax(1)
    last = np.isin(positions, asked.offsets[1:] - 2)
    return float((best == batch.targets).numpy()[last].mean())
