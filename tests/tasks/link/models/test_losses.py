"""Mining and losses against literal loops over unit vectors; related posts are never negatives."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ensue.tasks.link.models.losses import contrastive_loss, mine, triplet_loss
from tests.oracles import link as link_oracles


def made_up(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Unit vectors of 5 articles and 9 posts, and relations: none, all, one, several; posts of several articles."""
    random = torch.Generator().manual_seed(seed)
    articles, posts = (torch.randn(size, 4, generator=random, dtype=torch.float64) for size in (5, 9))
    related = torch.rand(5, 9, generator=random) < 0.3
    related[0], related[1] = False, True
    return functional.normalize(articles, dim=1), functional.normalize(posts, dim=1), related


def test_mining_by_hand() -> None:
    # Article 0: posts 0 and 1 are its own. The hardest negative, .5, and .1 keep the positive of .55, not that of .9;
    # the hardest positive, .55, less .1 keeps the negative of .5, not that of .2. Article 1 has no post: nothing.
    cosines = torch.tensor([[0.9, 0.55, 0.5, 0.2], [0.4, 0.3, 0.2, 0.1]])
    related = torch.tensor([[True, True, False, False], [False] * 4])
    positives, negatives = mine(cosines, related, 0.1)
    assert positives.tolist() == [[False, True, False, False], [False] * 4]
    assert negatives.tolist() == [[False, False, True, False], [False] * 4]
    # 2 - 2 x .55 less 2 - 2 x .5, and .15: 0.05.
    assert triplet_loss(cosines, related).item() == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 3.0])
def test_mining_and_triplets_equal_the_loop(epsilon: float) -> None:
    for seed in range(10):
        articles, posts, related = made_up(seed)
        cosines = articles @ posts.T
        positives, negatives = mine(cosines, related, epsilon)
        found = [
            (article, post, other)
            for article, post in positives.nonzero().tolist()
            for other in negatives[article].nonzero()[:, 0].tolist()
        ]
        assert found == link_oracles.triplets(cosines, related, epsilon)
        expected = link_oracles.triplet_loss(articles, posts, related, 0.15, epsilon)
        assert triplet_loss(cosines, related, epsilon=epsilon).item() == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_contrastive_loss_equals_the_loop(temperature: float) -> None:
    for seed in range(10):
        articles, posts, related = made_up(seed)
        cosines = articles @ posts.T
        expected = link_oracles.contrastive_loss(cosines, related, temperature)
        assert contrastive_loss(cosines, related, temperature=temperature).item() == pytest.approx(expected, rel=1e-12)


def test_contrastive_loss_by_hand() -> None:
    # One pair and one negative each way, all cosines equal: log 2 both ways.
    cosines, related = torch.zeros(2, 2), torch.tensor([[True, False], [False, False]])
    assert contrastive_loss(cosines, related).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("loss", [triplet_loss, contrastive_loss])
def test_gradcheck(loss: object) -> None:
    articles, posts, related = made_up(3)
    cosines = (articles @ posts.T).requires_grad_()
    assert torch.autograd.gradcheck(lambda own: loss(own, related), cosines)  # type: ignore[operator]


@pytest.mark.parametrize("loss", [triplet_loss, contrastive_loss])
@pytest.mark.parametrize("related", ["none", "all", "clear"])
def test_where_there_is_nothing_to_learn_loss_and_gradient_are_zero(loss: object, related: str) -> None:
    given = torch.eye(3, dtype=torch.bool) if related == "clear" else torch.full((3, 3), related == "all")
    # "clear": related posts lie at 1, all others at -1.
    cosines = (2.0 * given - 1).requires_grad_()
    found = loss(cosines, given)  # type: ignore[operator]
    found.backward()
    assert found.item() == pytest.approx(0, abs=1e-12)
    assert cosines.grad is not None and cosines.grad.abs().max() < 1e-12


@pytest.mark.parametrize("loss", [triplet_loss, contrastive_loss])
def test_a_related_post_is_never_pushed_away(loss: object) -> None:
    # Posts 0 and 1 are both about article 0, and post 1 about article 1 too: no gradient may lower any of the three.
    related = torch.tensor([[True, True, False], [False, True, False]])
    cosines = torch.tensor([[0.1, 0.9, 0.8], [0.7, 0.2, 0.6]], requires_grad=True)
    loss(cosines, related).backward()  # type: ignore[operator]
    assert cosines.grad is not None
    assert (cosines.grad[related] <= 0).all() and (cosines.grad[~related] >= 0).all() and cosines.grad.any()
