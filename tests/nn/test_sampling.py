"""The drawing of negatives and the pairwise losses: by hand, and where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ensue.nn import sampling
from ensue.nn.item_head import ItemTable
from ensue.nn.sampling import (
    Sampler,
    draw_unseen,
    drawn_together,
    pairwise_loss,
    pairwise_softmax_loss,
    sampled_cross_entropy,
)
from ensue.vocabulary import FIRST, PADDING, UNKNOWN

Loss = Callable[[Tensor, Callable[[Tensor | slice], Tensor], Tensor, Tensor], Tensor]
LOSSES = pytest.mark.parametrize("loss", [pairwise_loss, pairwise_softmax_loss])


@pytest.mark.parametrize(("power", "weights"), [(0.0, [1, 1, 1]), (0.5, [1, 2, 3]), (1.0, [1, 4, 9])])
def test_ids_are_drawn_by_their_count_to_a_power(power: float, weights: list[int]) -> None:
    sampler = Sampler(5, power)
    sampler.count(torch.tensor([50.0, 50.0, 0.0, 4.0, 9.0]))  # what never came counts as once
    assert sampler.shares().tolist() == pytest.approx([0, 0, *(weight / sum(weights) for weight in weights)])
    torch.manual_seed(0)
    counts = sampler.draw(60_000).bincount(minlength=5)
    # A share p of 60,000 draws has a standard deviation of at most 0.5 / sqrt(60,000) = 0.002: within five of them.
    assert (counts / 60_000).tolist() == pytest.approx(sampler.shares().tolist(), abs=0.01)


@LOSSES
@pytest.mark.parametrize("shared", [False, True])
def test_pairwise_losses_are_the_mean_over_true_pairs(loss: Loss, shared: bool) -> None:
    torch.manual_seed(1)
    items, hidden = ItemTable(6, 3, sparse=False).double(), torch.randn(4, 3).double()
    targets = torch.tensor([2, 3, 5, 2])
    negatives = torch.tensor([[3, 2, 0], [5, 5, 4], [2, 3, 4], [0, 0, 0]])
    if shared:
        if loss is pairwise_softmax_loss:
            return
        negatives = negatives[1]
    terms = []
    for row, (vector, target) in enumerate(zip(hidden, targets.tolist(), strict=True)):
        scores = items.weight @ vector
        if loss is pairwise_softmax_loss:
            scores = torch.cat([torch.zeros(FIRST), scores[FIRST:].exp() / scores[FIRST:].exp().sum()])
        drawn = (negatives if shared else negatives[row]).tolist()
        terms += [-torch.sigmoid(scores[target] - scores[id]).log() for id in drawn if id not in (target, PADDING)]
    assert len(terms) == (10 if shared else 7)
    torch.testing.assert_close(loss(hidden, items.rows, targets, negatives), torch.stack(terms).mean())


@LOSSES
def test_targets_without_pairs_cost_nothing(loss: Loss) -> None:
    items, hidden = ItemTable(FIRST + 1, 3, sparse=False), torch.randn(4, 3, requires_grad=True)
    found = loss(hidden, items.rows, torch.full((4,), FIRST), torch.full((4, 2), PADDING))
    assert found.item() == 0
    found.backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None and items.weight.grad is not None
    assert (hidden.grad == 0).all() and (items.weight.grad == 0).all()


def test_negatives_of_a_session_are_uniform_over_what_it_lacks() -> None:
    sessions = torch.tensor([[3, 5, 3, 0], [0, 0, 0, 0], [7, 2, UNKNOWN, 4], [2, 3, 4, 5]], dtype=torch.int32)
    torch.manual_seed(0)
    drawn = draw_unseen(sessions, 8, 30_000)
    assert drawn.shape == (4, 30_000)
    for row, unseen in zip(drawn, ([2, 4, 6, 7], [2, 3, 4, 5, 6, 7], [3, 5, 6], [6, 7]), strict=True):
        shares = row.bincount(minlength=8) / 30_000
        expected = [float(id in unseen) / len(unseen) for id in range(8)]
        # The standard deviation of a share is at most 0.5 / sqrt(30,000) = 0.003: within four of them.
        assert shares.tolist() == pytest.approx(expected, abs=0.012)
        assert {*row.tolist()} == {*unseen}


def test_a_session_of_the_whole_catalogue_has_no_negatives() -> None:
    assert draw_unseen(torch.tensor([[3, 2, 2], [2, 0, 0]]), 4, 5).tolist() == [[PADDING] * 5, [3] * 5]


def test_a_catalogue_of_no_more_than_would_be_drawn_is_gone_through_whole() -> None:
    torch.manual_seed(3)
    items, hidden, targets = nn.Embedding(9, 4, sparse=True), torch.randn(5, 4), torch.tensor([2, 8, 3, 3, 5])
    full = nn.functional.cross_entropy((hidden @ items.weight.T)[:, FIRST:], targets - FIRST)
    before = torch.get_rng_state()
    found = sampled_cross_entropy(hidden, items, targets, Sampler(9), 7)
    torch.testing.assert_close(found, full)
    assert torch.equal(torch.get_rng_state(), before)  # nothing was drawn
    assert not torch.allclose(sampled_cross_entropy(hidden, items, targets, Sampler(9), 6), full)
    found.backward()  # type: ignore[no-untyped-call]
    assert items.weight.grad is not None and items.weight.grad.coalesce().indices()[0].tolist() == [*range(FIRST, 9)]


@pytest.mark.parametrize("block", [1, 60, 2**20])  # a row at a time, three, all
def test_the_sampled_loss_and_its_gradients_are_those_of_its_formula(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "BLOCK", block)
    monkeypatch.setattr(sampling, "WORTH", 0)
    torch.manual_seed(5)
    items, hidden, targets = nn.Embedding(30, 4), torch.randn(7, 4, requires_grad=True), torch.randint(FIRST, 30, (7,))
    sampler = Sampler(30)
    sampler.count(torch.arange(30.0))
    torch.manual_seed(6)
    loss = sampled_cross_entropy(hidden, items, targets, sampler, 20)
    torch.manual_seed(6)
    negatives = sampler.draw(20)
    terms = []
    for row, target in enumerate(targets.tolist()):
        own = hidden[row] @ items.weight[target]
        others = [
            (hidden[row] @ items.weight[id]).exp() / (20 * sampler.shares()[id])
            for id in negatives.tolist()
            if id != target
        ]
        terms.append((own.exp() + sum(others)).log() - own)
    assert bool((targets[:, None] == negatives).any())
    expected = torch.stack(terms).mean()
    torch.testing.assert_close(loss, expected)
    wanted = torch.autograd.grad(3 * expected, [hidden, items.weight])
    torch.testing.assert_close(torch.autograd.grad(3 * loss, [hidden, items.weight]), wanted)


def test_ids_are_drawn_in_proportion_to_their_counts() -> None:
    sampler = Sampler(8, 1.0)
    sampler.count(torch.tensor([50.0, 50.0, 0.0, 4.0, 9.0, 1.0, 30.0, 2.0]))
    torch.manual_seed(0)
    counts = sampler.draw(60_000).bincount(minlength=8)
    assert counts[:FIRST].tolist() == [0, 0]
    assert (counts / 60_000).tolist() == pytest.approx(sampler.shares().tolist(), abs=0.01)
    with drawn_together(sampler, 7):
        first = sampler.draw(20)
    with drawn_together(sampler, 7):
        assert torch.equal(first, sampler.draw(20))


def test_shares_follow_the_counts() -> None:
    """They are kept between draws, and made anew when counts change, in place or as another tensor."""
    sampler = Sampler(6)
    first = sampler.shares()
    assert sampler.shares() is first
    sampler.count(torch.tensor([0.0, 0, 1, 1, 1, 99]))
    assert sampler.shares()[5] > 2 * sampler.shares()[4]
    sampler.load_state_dict({"totals": torch.ones(6)})
    assert torch.equal(sampler.shares(), first)
    sampler.totals = torch.tensor([1.0, 1, 1, 1, 1, 1, 1])
    assert sampler.shares().shape == (7,) and int(sampler.draw(200).max()) == 6


def test_ranks_draw_together_what_a_batch_shares() -> None:
    model = nn.ModuleList([Sampler(50), Sampler(50)])
    found = []
    for rank in range(2):
        torch.manual_seed(rank)
        with drawn_together(model, 7):
            found.append([model[0].draw(20), model[1].draw(20), model[0].draw(4, 5)])  # type: ignore[operator]
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])
    assert not torch.equal(found[0][2], found[1][2])  # of each target its own
    torch.manual_seed(0)
    alone = model[0].draw(20)  # type: ignore[operator]
    torch.manual_seed(1)
    assert not torch.equal(model[0].draw(20), alone)  # type: ignore[operator]
