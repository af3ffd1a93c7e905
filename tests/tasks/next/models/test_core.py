"""CORE against its equations written out, and what its parts promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ensue import History, SettingError
from ensue.data.histories import Histories
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.models.core import CORE, HALVES
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.settings import CORESettings
from ensue.vocabulary import FIRST
from tests.tasks.next.contract import network_of

RECORDS = [History(("a", "b", "c", "a", "d")), History(("c", "b")), History(("d", "a", "e", "b", "b", "c", "a"))]


def network(**options: object) -> CORE:
    torch.manual_seed(3)
    settings = CORESettings(dim=8, heads=2, **options)  # type: ignore[arg-type]
    made = CORE(settings, 5 + FIRST)
    with torch.no_grad():
        made.by_distance.normal_()
        made.prior.fill_(0.3)
        made.lately[FIRST:] = torch.arange(10.0).view(5, 2)
        made.items.sampler.count(torch.tensor([0.0, 0, 7, 5, 3, 2, 1]))
    return made.double().eval()


def literal(model: CORE, ids: list[int]) -> tuple[torch.Tensor, list[float]]:
    """Scores after the last of a session's ids, and the weights of its events, one event and head at a time.

    The scores are logarithms of a mixture: half of the forecast goes to the items by how often they came lately.
    """
    settings, num = model.settings, len(ids)
    dim, heads = settings.dim, settings.heads
    width = dim // heads
    items = [model.items.weight[i] for i in ids]
    contexts = []
    unit = [item / item.norm() * math.sqrt(dim) for item in items]
    for step in range(num):
        seen = [event for event in range(step + 1) if step - event < settings.max_length]
        parts = []
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            query = model.query(model.before(unit[step]))[part]
            scores = []
            for event in seen:
                key = model.key(model.before(unit[event]))[part]
                scores.append(query @ key / math.sqrt(width) + model.by_distance[head, step - event])
            shares = torch.stack(scores).softmax(0)
            values = [model.value(model.before(unit[event]))[part] for event in seen]
            parts.append(sum(share * value for share, value in zip(shares, values, strict=True)))
        attended = unit[step] + model.joined(torch.cat(parts))
        fed = model.narrow(torch.nn.functional.gelu(model.wide(model.after(attended))))
        contexts.append(attended + fed)
    seen = [event for event in range(num) if num - 1 - event < settings.max_length]
    asked = model.asking(contexts[-1])
    scores = [
        asked @ model.answering(contexts[event]) / math.sqrt(dim) + model.by_distance[-1, num - 1 - event]
        for event in seen
    ]
    weights = torch.stack(scores).softmax(0)
    session = sum((weight * items[event] for weight, event in zip(weights, seen, strict=True)), torch.zeros(dim))
    found = [
        (
            session @ item / (session.norm() * item.norm())
            + model.prior[0] * model.items.sampler.totals[at].log()
            + model.prior[1] * (1 + model.lately[at, 0]).log()
            + model.prior[2] * (1 + model.lately[at, 1]).log()
        )
        / settings.temperature
        for at, item in enumerate(model.items.weight[FIRST:], FIRST)
    ]
    shown = [0.0] * num
    for weight, event in zip(weights.tolist(), seen, strict=True):
        shown[event] = weight
    network, recent = torch.stack(found).softmax(0), model.lately[FIRST:, 0]
    return (0.5 * network + 0.5 * recent / recent.sum()).log(), shown


@pytest.mark.parametrize("length", [2, 50])
def test_equals_the_equations(length: int) -> None:
    model, histories = network(max_length=length), Histories.of(RECORDS)
    windows = Windows(histories, model.reach)
    batch = windows.batch(torch.arange(len(windows)).numpy()).to("cpu")
    with torch.no_grad():
        output = model(batch)
        rows, steps = batch.target_mask.nonzero(as_tuple=True)
        for number, (row, step) in enumerate(zip(rows.tolist(), steps.tolist(), strict=True)):
            scores, weights = literal(model, batch.ids[row, : step + 1].tolist())
            torch.testing.assert_close(output.scores[number, FIRST:], scores)
            torch.testing.assert_close(output.weights[0][row, step, : step + 1], torch.tensor(weights).double())
    assert bool(output.scores[:, :FIRST].isneginf().all())


def test_the_loss_is_the_cross_entropy_of_the_scores() -> None:
    model = network()
    model.lately.zero_()  # the loss is of the network alone
    batch = Windows(Histories.of(RECORDS), model.reach).batch(torch.arange(3).numpy()).to("cpu")
    expected = torch.nn.functional.cross_entropy(model(batch).scores, batch.targets)
    torch.testing.assert_close(model.loss(batch), expected)


def test_sampled_loss_nears_the_full_one_with_many_negatives() -> None:
    model = network(negatives=20_000, dropout=0.0)
    batch = Windows(Histories.of(RECORDS), model.reach).batch(torch.arange(3).numpy()).to("cpu")
    full = model.loss(batch)
    torch.manual_seed(0)
    # 20,000 draws from five ids: each share is known to about 1 %.
    torch.testing.assert_close(model.train().loss(batch), full, rtol=0.02, atol=0.02)


def test_gradients_are_those_of_the_loss() -> None:
    model = network()
    batch = Windows(Histories.of(RECORDS), model.reach).batch(torch.arange(3).numpy()).to("cpu")
    table = model.items.weight.detach().clone()

    def loss(weight: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = (
            torch.func.functional_call(model, {"items.weight": weight}, (batch,)).scores[:, FIRST:].square().sum()
        )
        return found

    assert torch.autograd.gradcheck(loss, (table.requires_grad_(),))


def test_the_count_of_an_item_moves_its_score_by_the_prior() -> None:
    model = network()
    model.lately.zero_()
    batch = Windows(Histories.of(RECORDS), model.reach).batch(torch.arange(3).numpy()).to("cpu")
    before = model(batch).scores.detach()
    model.items.sampler.totals[FIRST] *= 10
    moved = model(batch).scores.detach() - before
    torch.testing.assert_close(moved[:, FIRST], torch.full((len(moved),), 0.3 * math.log(10) / 0.07).double())
    assert float(moved[:, FIRST + 1 :].abs().max()) == 0


def test_what_was_observed_fades_by_halves() -> None:
    model = network()
    model.lately.zero_()
    model.observe(torch.full((1,), FIRST), torch.zeros(1).double())
    model.observe(torch.full((HALVES[0],), FIRST + 1), torch.zeros(HALVES[0]).double())
    assert model.lately[FIRST, 0] == pytest.approx(0.5)
    assert model.lately[FIRST, 1] == pytest.approx(0.5 ** (HALVES[0] / HALVES[1]))
    assert model.lately[FIRST + 1].tolist() == [HALVES[0]] * 2


def test_a_stream_teaches_what_lately_is_worth() -> None:
    """Sessions are random but for the hour's one article: only what came lately tells which it is."""
    random, made = (
        np.random.default_rng(0),
        NextPredictor("core", settings={"dim": 8, "negatives": 64, "epochs": 6}, device="cpu"),
    )
    values = [f"v{number}" for number in range(200)]

    def hour(number: int) -> Histories:
        others = random.integers(0, 200, 50)
        records = [History((values[other], values[number])) for other in others.tolist()]
        return Histories.of(records, made.vocabulary) if made.model is not None else Histories.of(records)

    for _ in made.fit(Histories.of([History((value, value)) for value in values] * 5), hour(0)):
        pass
    found = []
    for number in range(1, 31):
        for _ in range(8):
            data = hour(number)
            ranks, *_ = made.ranks(data)
            found.append(float((1 / ranks).mean()))
            made.learn(data)
            made.observe(data.ids, np.zeros(len(data.ids)))
    hours = np.array(found).reshape(-1, 8)
    assert hours[-10:, 0].mean() < 0.1  # at first a new hour is a guess
    assert hours[-10:, 1:].mean() > 0.25
    assert float(network_of(made).prior.detach()[1]) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, "dim is 0"),
        ({"dim": 9}, "not a multiple"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be above 0"),
        ({"loss": "bpr"}, "choose from sampled, ce"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        CORESettings(**options)  # type: ignore[arg-type]


def test_what_was_observed_fades_through_a_silence() -> None:
    model = network()
    model.lately.zero_()
    ids = torch.full((1000,), FIRST)
    model.observe(ids, torch.linspace(0, 1000, 1000).double())
    assert model.lately[FIRST].tolist() == [1000.0, 1000.0]
    model.observe(ids[:1], torch.tensor([1000.5]).double())
    once = [1000 * 0.5 ** (1 / half) + 1 for half in HALVES]
    torch.testing.assert_close(model.lately[FIRST], torch.tensor(once).double())
    # At 1,001 events in 1,000.5 seconds, 2,001 seconds are worth 2,002 events.
    model.observe(ids[:1], torch.tensor([3001.5]).double())
    worth = 2001 * 1001 / 1000.5
    expected = [found * 0.5 ** (worth / half) + 1 for found, half in zip(once, HALVES, strict=True)]
    torch.testing.assert_close(model.lately[FIRST], torch.tensor(expected).double())
    kept = model.lately.clone()
    model.observe(ids[:0], torch.zeros(0).double())
    model.observe(ids[:1] + 1, torch.tensor([5.0]).double())  # a late one fades the others by one event
    torch.testing.assert_close(
        model.lately[FIRST], kept[FIRST] * torch.tensor([0.5 ** (1 / half) for half in HALVES]).double()
    )


def test_a_new_item_starts_near_what_came_lately() -> None:
    model = network()
    before = model.items.weight.detach().clone()
    model.place(FIRST + 3)
    model.lately.zero_()
    model.place(FIRST + 3)
    kept = model.items.weight.detach().clone()
    model.observe(torch.tensor([FIRST, FIRST, FIRST + 1]), torch.zeros(3).double())
    model.place(FIRST + 3)
    after = model.items.weight.detach()
    assert torch.equal(kept[: FIRST + 3], before[: FIRST + 3]) and torch.equal(after[: FIRST + 3], kept[: FIRST + 3])

    def unit(vector: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(vector, dim=0)

    mean = unit(2 * unit(kept[FIRST]) + unit(kept[FIRST + 1]))
    for id in range(FIRST + 3, len(kept)):
        torch.testing.assert_close(unit(after[id]), unit(mean + unit(kept[id])))
        torch.testing.assert_close(after[id].norm(), kept[id].norm())
