"""SASRec, eSASRec, BERT4Rec and HSTU against their equations, and the promises of a session model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ensue.tasks.next.models.bert4rec import BERT4Rec
from ensue.tasks.next.models.esasrec import ESASRec
from ensue.tasks.next.models.hstu import HSTU
from ensue.tasks.next.models.sasrec import SASRec, cut
from ensue.tasks.next.settings import BERT4RecSettings, SASRecSettings
from tests.oracles import promises
from tests.oracles import sessions as oracles
from tests.oracles.sessions import Weights
from tests.tasks.next.batches import HOUR, NUM_IDS, everywhere, pad, ragged

NETWORKS: dict[str, tuple[Any, Any]] = {
    "sasrec": (SASRec, SASRecSettings(loss="bce")),
    "esasrec": (ESASRec, SASRecSettings(loss="sampled")),
    "hstu": (HSTU, SASRecSettings(loss="sampled")),
    "bert4rec": (BERT4Rec, BERT4RecSettings()),
}
EVERY = pytest.mark.parametrize("name", NETWORKS)


def small(name: str, num_ids: int = NUM_IDS, **changes: Any) -> Any:
    network, settings = NETWORKS[name]
    sizes = {"dim": 6, "heads": 2, "max_length": 5, "dropout": 0.0, **changes}
    if name != "bert4rec":
        sizes = {"negatives": 12, "loss": settings.loss, **sizes}
    return network(type(settings)(**sizes), num_ids)


# --- the equations, one prefix, one step, one head at a time ----------------------------------------------------------


def norm(weights: Weights, name: str, vector: Tensor) -> Tensor:
    centred = vector - vector.mean()
    scaled = centred / (centred.square().mean() + 1e-5).sqrt()
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(weights: Weights, name: str, vector: Tensor) -> Tensor:
    product = weights[f"{name}.weight"] @ vector
    return product + weights[f"{name}.bias"] if f"{name}.bias" in weights else product


def attended(weights: Weights, name: str, heads: int, step: int, sources: Sequence[Tensor]) -> Tensor:
    """Attention from one step over some sources, heads side by side through the output layer."""
    queries, keys, values = zip(
        *(linear(weights, f"{name}.inward", source).chunk(3) for source in sources), strict=True
    )
    size = len(queries[0]) // heads
    parts = []
    for head in range(heads):
        columns = slice(head * size, (head + 1) * size)
        scores = torch.stack([queries[step][columns] @ key[columns] for key in keys]) / math.sqrt(size)
        parts.append(sum(share * value[columns] for share, value in zip(scores.softmax(0), values, strict=True)))
    return linear(weights, f"{name}.outward", torch.cat(parts))


def embedded(weights: Weights, settings: Any, ids: Sequence[int]) -> list[Tensor]:
    table, positions = weights["items.weight"], weights["positions.weight"]
    return [table[id] * math.sqrt(settings.dim) + positions[place] for place, id in enumerate(ids)]


def sasrec_scores(settings: SASRecSettings, weights: Weights, ids: Sequence[int]) -> Tensor:
    vectors = embedded(weights, settings, ids[-settings.max_length :])
    for number in range(settings.num_layers):
        name = f"blocks.{number}"
        normed = [norm(weights, f"{name}.norm1", vector) for vector in vectors]
        mixed = [
            vector + attended(weights, f"{name}.attention", settings.heads, step, normed[: step + 1])
            for step, vector in enumerate(vectors)
        ]
        vectors = []
        for vector in mixed:
            hidden = linear(weights, f"{name}.feed_forward.wide", norm(weights, f"{name}.norm2", vector)).clamp(min=0)
            vectors.append(vector + linear(weights, f"{name}.feed_forward.narrow", hidden))
    return oracles.products(norm(weights, "norm", vectors[-1]), weights["items.weight"])


def esasrec_scores(settings: SASRecSettings, weights: Weights, ids: Sequence[int]) -> Tensor:
    vectors = embedded(weights, settings, ids[-settings.max_length :])
    for number in range(settings.num_layers):
        name = f"blocks.{number}"
        normed = [norm(weights, f"{name}.norm1", vector) for vector in vectors]
        mixed = []
        for step, vector in enumerate(vectors):
            added = attended(weights, f"{name}.attention", settings.heads, step, normed[: step + 1])
            mixed.append(vector + torch.sigmoid(linear(weights, f"{name}.gate1", vector)) * added)
        vectors = []
        for vector in mixed:
            inner, fed = norm(weights, f"{name}.norm2", vector), f"{name}.feed_forward"
            gate = linear(weights, f"{fed}.gate", inner)
            added = linear(weights, f"{fed}.output", gate * gate.sigmoid() * linear(weights, f"{fed}.linear", inner))
            vectors.append(vector + torch.sigmoid(linear(weights, f"{name}.gate2", vector)) * added)
    return oracles.products(norm(weights, "norm", vectors[-1]), weights["items.weight"])


def bert4rec_scores(settings: BERT4RecSettings, weights: Weights, ids: Sequence[int]) -> Tensor:
    table, positions = weights["items.weight"], weights["positions.weight"]
    vectors = [table[id] for id in ids[-(settings.max_length - 1) :]] + [weights["mask"]]
    vectors = [vector + positions[place] for place, vector in enumerate(vectors)]
    for number in range(settings.num_layers):
        name = f"blocks.{number}"
        mixed = [
            norm(
                weights,
                f"{name}.attended",
                vector + attended(weights, f"{name}.attention", settings.heads, step, vectors),
            )
            for step, vector in enumerate(vectors)
        ]
        vectors = []
        for vector in mixed:
            hidden = linear(weights, f"{name}.feed.wide", vector).clamp(min=0)
            vectors.append(norm(weights, f"{name}.fed", vector + linear(weights, f"{name}.feed.narrow", hidden)))
    state = norm(weights, "norm", functional.gelu(linear(weights, "projection", vectors[-1])))
    scores = oracles.products(state, table)
    return scores + weights["bias"]


def hstu_scores(settings: SASRecSettings, weights: Weights, ids: Sequence[int], times: Sequence[float]) -> Tensor:
    kept, clock = ids[-settings.max_length :], times[-settings.max_length :]
    vectors = embedded(weights, settings, kept)
    size = settings.dim // settings.heads
    for number in range(settings.num_layers):
        name = f"blocks.{number}"
        parts = [linear(weights, f"{name}.projection", norm(weights, f"{name}.norm1", vector)) for vector in vectors]
        gates, values, queries, keys = zip(*((part * part.sigmoid()).chunk(4) for part in parts), strict=True)
        following = []
        for step, vector in enumerate(vectors):
            mixed = torch.zeros_like(vector)
            for head in range(settings.heads):
                columns = slice(head * size, (head + 1) * size)
                for source in range(step + 1):
                    bucket = int(math.log2(clock[step] - clock[source] + 1))
                    score = queries[step][columns] @ keys[source][columns]
                    score = score + weights[f"{name}.by_distance"][step - source] + weights[f"{name}.by_time"][bucket]
                    mixed[columns] += score * score.sigmoid() * values[source][columns] / (step + 1)
            added = linear(weights, f"{name}.output", norm(weights, f"{name}.norm2", mixed) * gates[step])
            following.append(vector + added)
        vectors = following
    query, *rows = (row / row.norm() for row in (norm(weights, "norm", vectors[-1]), *weights["items.weight"]))
    return oracles.products(query / 0.05, torch.stack(rows))


@pytest.mark.parametrize(
    ("name", "scores"), [("sasrec", sasrec_scores), ("esasrec", esasrec_scores), ("bert4rec", bert4rec_scores)]
)
def test_equals_the_literal_equations(name: str, scores: Any) -> None:
    oracles.equals_the_equations(oracles.ramped(small(name)), scores)


def test_hstu_equals_its_literal_equations() -> None:
    model = oracles.ramped(small("hstu"), size=0.4)
    sessions = ragged(3)
    prefixes = [(ids[:end], times[:end]) for ids, times in sessions for end in range(1, len(ids) + 1)]
    expected = torch.stack([hstu_scores(model.settings, model.state_dict(), *prefix) for prefix in prefixes])
    torch.testing.assert_close(model(everywhere(pad(sessions))).scores, expected, rtol=0, atol=1e-9)


# --- the promises -----------------------------------------------------------------------------------------------------


@EVERY
def test_padding_is_invisible(name: str) -> None:
    promises.hides_padding(oracles.ramped(small(name)))


@EVERY
def test_the_future_changes_nothing_earlier(name: str) -> None:
    promises.knows_no_future(oracles.ramped(small(name)))


@pytest.mark.parametrize("name", ["sasrec", "esasrec", "bert4rec"])
def test_windows_of_a_long_history_answer_as_the_whole(name: str) -> None:
    oracles.reads_pieces_as_the_whole(oracles.ramped(small(name)), num_pieces=4)


@EVERY
def test_the_weights_are_distributions_over_earlier_events(name: str) -> None:
    oracles.weighs_what_came_before(oracles.ramped(small(name)))


@pytest.mark.parametrize("loss", ["bce", "sampled", "ce"])
@pytest.mark.parametrize("name", ["sasrec", "esasrec", "hstu"])
def test_gradients(name: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = oracles.ramped(small(name, 6, dim=4, max_length=3, loss=loss), size=0.5).train()
    oracles.fix_draws(model, monkeypatch)
    monkeypatch.setattr("ensue.tasks.next.models.sasrec.draw_unseen", lambda ids, *_: torch.full((len(ids), 1), 3))
    oracles.has_exact_gradients(model)


def test_binary_cross_entropy_of_the_target_and_an_unseen_item(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = oracles.ramped(small("sasrec", max_length=20)).train(), pad(ragged(8))
    drawn = (torch.arange(len(batch.targets)) % (NUM_IDS - 2) + 2)[:, None]
    monkeypatch.setattr("ensue.tasks.next.models.sasrec.draw_unseen", lambda *_: drawn)
    loss = model.loss(batch)
    scores = model.eval()(batch).scores
    pairs = torch.cat([scores.gather(1, batch.targets[:, None]), scores.gather(1, drawn)], dim=1)
    expected = functional.binary_cross_entropy_with_logits(pairs, torch.tensor([[1.0, 0.0]]).double().expand_as(pairs))
    torch.testing.assert_close(loss, 2 * expected, rtol=0, atol=1e-12)


def test_half_of_a_bert_row_is_masked_and_its_loss_is_over_masked_events_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the events 2 3 4 5, draws below the fraction mask the first and the third; the row's last-event draw is 1."""
    model = oracles.ramped(small("bert4rec", max_length=8, mask_fraction=0.5)).train()
    draws = iter([torch.tensor([[0.2, 0.7, 0.4, 0.9, 0.1]]), torch.ones(1)])
    monkeypatch.setattr(torch, "rand", lambda *_, **__: next(draws))
    batch = pad([([2, 3, 4, 5], [0.0] * 4)])
    loss = model.loss(batch)
    masked = torch.tensor([[True, False, True, False]])
    states, _ = model.read(torch.tensor([[2, 3, 4, 5]]), torch.ones(1, 4).bool(), masked)
    scores = states[masked] @ model.items.weight.T + model.bias
    expected = functional.cross_entropy(scores[:, 2:], torch.tensor([2, 4]) - 2)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-9)


def test_cut_shares_rows_in_training_and_gives_late_targets_their_own_in_answers() -> None:
    batch = pad([(list(range(2, 10)), [0.0] * 8), ([2, 3], [0.0] * 2)])
    shared, owners, starts = cut(batch, 3, shared=True)
    assert shared.ids.tolist() == [[2, 3, 4], [4, 5, 6], [7, 8, 9], [2, 3, 0]]
    assert (owners.tolist(), starts.tolist()) == ([0, 0, 1, 1, 1, 2, 2, 3], [0, 0, 2, 2, 2, 5, 5, 0])
    single, owners, starts = cut(batch, 3, shared=False)
    assert single.ids.tolist() == [[2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7], [6, 7, 8], [2, 3, 0]]
    assert owners.tolist() == [0, 0, 0, 1, 2, 3, 4, 5] and single.target_mask.sum(1).tolist() == [3, 1, 1, 1, 1, 1]
    assert torch.equal(single.targets, batch.targets)


@EVERY
def test_half_precision(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(name)
    oracles.fix_draws(model, monkeypatch)
    monkeypatch.setattr("ensue.tasks.next.models.sasrec.draw_unseen", lambda ids, *_: torch.full((len(ids), 1), 3))
    oracles.survives_half_precision(model.eval())


@EVERY
def test_grows(name: str) -> None:
    oracles.grows(small(name).eval())


def test_a_history_without_times_is_read() -> None:
    model = oracles.ramped(small("hstu"))
    batch = everywhere(pad([([2, 3, 4], [0.0, HOUR, 2 * HOUR])]))
    assert torch.isfinite(model(batch._replace(times=torch.zeros_like(batch.times))).scores[:, 2:]).all()
