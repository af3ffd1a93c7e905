"""A score an id, and its loss."""

from __future__ import annotations

import math

import pytest
import torch

from ensue.nn.item_head import ItemHead, ItemLayer, item_loss, item_scores
from ensue.nn.sampling import Sampler

HIDDEN = torch.tensor([[1.0, 2.0]])
WEIGHT = torch.tensor([[9.0, 9.0], [9.0, 9.0], [1.0, 0.0], [0.0, 1.0]])
BIAS = torch.tensor([0.0, 0.0, 0.5, 0.0])


def test_padding_and_unknown_are_no_choices() -> None:
    assert item_scores(HIDDEN, WEIGHT).tolist() == [[-math.inf, -math.inf, 1.0, 2.0]]
    assert item_scores(HIDDEN, WEIGHT, BIAS).tolist() == [[-math.inf, -math.inf, 1.5, 2.0]]


def test_the_loss_is_that_of_the_scores() -> None:
    # -log(exp(2) / (exp(1.5) + exp(2))) = log(1 + exp(-0.5))
    loss = item_loss(HIDDEN, WEIGHT, torch.tensor([3]), BIAS)
    torch.testing.assert_close(loss, torch.tensor(math.log1p(math.exp(-0.5))))


def head(negatives: int | None) -> ItemHead:
    made = ItemHead(4, 2, negatives=negatives)
    made.weight.data.copy_(WEIGHT)
    return made


def test_a_table_has_the_same_loss_and_one_over_drawn_ids() -> None:
    targets = torch.tensor([3])
    whole = head(None).loss(HIDDEN, targets)
    torch.testing.assert_close(whole, torch.tensor(math.log1p(math.exp(-1.0))))
    # One draw of two ids: id 2 counts exp(1) / (1 x 1/2), and the target itself is left out.
    drawing = head(1)
    for seed in range(4):
        torch.manual_seed(seed)
        drawn = int((Sampler(4).draw(1) == 2).sum())
        torch.manual_seed(seed)
        sampled = drawing.loss(HIDDEN, targets)
        torch.testing.assert_close(sampled, torch.tensor(math.log1p(drawn * 2 * math.exp(-1.0))))
    exact = head(8).loss(HIDDEN, targets)  # more draws than ids: all of them, once
    torch.testing.assert_close(exact, whole)


def layers(dim: int, num_ids: int, negatives: int, cosine: bool = False) -> tuple[ItemLayer, ItemLayer]:
    """One that goes over all ids, and one with the same rows that draws."""
    torch.manual_seed(5)
    whole, drawing = (ItemLayer(dim, num_ids, number, cosine=cosine) for number in (None, negatives))
    drawing.load_state_dict({**whole.state_dict(), "sampler.totals": torch.ones(num_ids)})
    return whole, drawing


@pytest.mark.parametrize("cosine", [False, True])
def test_a_layer_that_draws_no_fewer_ids_than_there_are_learns_what_all_teach(cosine: bool) -> None:
    whole, drawing = layers(4, 9, 7, cosine)
    hidden, targets = torch.randn(6, 4), torch.tensor([2, 8, 3, 3, 5, 2])
    losses = [layer.loss(hidden, targets) for layer in (whole, drawing)]
    torch.testing.assert_close(losses[0], losses[1])
    for loss in losses:
        torch.autograd.backward(loss)
    for name in ("weight", "bias"):
        grad = drawing.get_parameter(name).grad
        assert grad is not None and grad.is_sparse
        torch.testing.assert_close(grad.to_dense(), whole.get_parameter(name).grad)


def test_a_layer_that_draws_touches_the_rows_of_targets_and_negatives_alone() -> None:
    _, drawing = layers(4, 50, 3)
    hidden, targets = torch.randn(2, 4), torch.tensor([7, 9])
    torch.manual_seed(1)
    drawn = drawing.sampler.draw(3).tolist()
    torch.manual_seed(1)
    torch.autograd.backward(drawing.loss(hidden, targets))
    for parameter in (drawing.weight, drawing.bias):
        assert parameter.grad is not None
        assert set(parameter.grad.coalesce().indices()[0].tolist()) == {7, 9, *drawn}
    drawing.sparse = False
    drawing.zero_grad()
    torch.autograd.backward(drawing.loss(hidden, targets))
    assert drawing.weight.grad is not None and not drawing.weight.grad.is_sparse


def test_outside_training_a_layer_that_draws_goes_over_all() -> None:
    whole, drawing = layers(4, 50, 3)
    hidden, targets = torch.randn(2, 4), torch.tensor([7, 9])
    assert torch.equal(whole.loss(hidden, targets), drawing.eval().loss(hidden, targets))
