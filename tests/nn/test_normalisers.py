"""Alpha-entmax against its package, a literal bisection, closed forms, differences, and what it must never do."""

from __future__ import annotations

import math

import entmax as package
import pytest
import torch
from torch import Tensor

from ensue import SettingError
from ensue.nn.attention import masked_softmax
from ensue.nn.normalisers import MAX_ALPHA, MIN_ALPHA, Alphas, entmax, sparsemax
from tests.kernels.paths import on_both_paths
from tests.oracles import link as link_oracles

pytestmark = on_both_paths

ALPHAS = [1.01, 1.1, 1.25, 1.5, 1.75, 1.9, 1.99, 2.0]
SIZES = [1, 2, 5, 16, 17, 30, 1000]
RAGGED = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def learned(alpha: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.full((1,), alpha, dtype=dtype)


def few_first(scores: Tensor) -> Tensor:
    """The same scores with the keys as the slowest axis in memory."""
    return scores.movedim(-1, 0).contiguous().movedim(0, -1)


# --- the weights ------------------------------------------------------------------------------------------------------


def test_by_hand() -> None:
    # Alpha 2: two keys count, tau = (1 + .5 - 1) / 2 = .25. Alpha 1.5: (.5 - t)^2 + (.25 - t)^2 = 1 has the root
    # t = .375 - sqrt(.484375); the third key, at -.5, lies below it.
    scores = torch.tensor([1.0, 0.5, -1.0], dtype=torch.float64)
    root = 0.375 - math.sqrt(0.484375)
    for alpha, expected in ((2.0, [0.75, 0.25, 0]), (1.5, [(0.5 - root) ** 2, (0.25 - root) ** 2, 0])):
        for given in (alpha, learned(alpha)):
            assert entmax(scores, given).tolist() == pytest.approx(expected, abs=1e-15)
    # Equal scores share evenly, at every alpha.
    assert entmax(torch.zeros(4).double(), 1.3).tolist() == pytest.approx([0.25] * 4, abs=1e-15)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
def test_equals_the_package(size: int, spread: float) -> None:
    scores = spread * random(20, size, seed=size)
    for alpha in ALPHAS:
        expected = package.entmax_bisect(scores, alpha, n_iter=70)
        for given in (alpha, learned(alpha)):
            for laid in (scores, few_first(scores)):
                torch.testing.assert_close(entmax(laid, given), expected, rtol=0, atol=1e-12)
            found = entmax(scores.float(), learned(alpha, torch.float32) if isinstance(given, Tensor) else given)
            exact = entmax(scores.float().double(), given)  # rounding a score of 30 alone moves weights by 1e-6
            torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6)
    torch.testing.assert_close(sparsemax(scores), package.sparsemax(scores), rtol=0, atol=1e-14)
    torch.testing.assert_close(entmax(scores, 1.5), package.entmax15(scores), rtol=0, atol=1e-13)


def test_equals_a_literal_bisection_under_masks() -> None:
    for seed in range(20):
        scores = 3 * random(4, 5, seed=seed)
        alpha = 1.02 + 0.98 * seed / 20
        found = entmax(scores, learned(alpha), RAGGED)
        for row, own, seen in zip(found, scores, RAGGED, strict=True):
            assert not row[~seen].any()
            if seen.any():
                assert row[seen].tolist() == pytest.approx(link_oracles.entmax(own[seen].tolist(), alpha), abs=1e-13)


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
@pytest.mark.parametrize("size", [5, 40])
def test_a_mask_is_the_same_as_leaving_keys_out(alpha: float, size: int) -> None:
    scores, seen = random(6, size), torch.arange(size) % 3 > 0
    for hidden in (scores, scores.masked_fill(~seen, 1e30)):
        found = entmax(hidden, alpha, seen)
        torch.testing.assert_close(found[:, seen], entmax(scores[:, seen], alpha), rtol=0, atol=1e-14)
        assert not found[:, ~seen].any()


def test_one_alpha_a_head_and_any_shape() -> None:
    scores, alphas = random(2, 3, 4, 7), torch.tensor([1.1, 1.5, 1.9]).double()
    found = entmax(scores, alphas[:, None, None])
    for head, alpha in enumerate(alphas.tolist()):
        torch.testing.assert_close(found[:, head], entmax(scores[:, head], alpha), rtol=0, atol=1e-13)
    assert entmax(random(0, 3), 1.3).shape == (0, 3) and entmax(random(0, 30), learned(1.3)).shape == (0, 30)
    torch.testing.assert_close(entmax(scores[0, 0, 0], 1.3), entmax(scores[0, 0], 1.3)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_sum_to_one_whatever_the_scores(dtype: torch.dtype) -> None:
    for seed in range(30):
        size, spread = 1 + 7 * seed % 50, 10.0 ** (seed % 7 - 3)
        alpha = (1.0001 + 0.9999 * torch.rand(8, 1, generator=torch.Generator().manual_seed(seed))).to(dtype)
        scores = (spread * random(8, size, seed=seed)).to(dtype)
        weights = entmax(scores, alpha)
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(1), torch.ones(8, dtype=dtype), rtol=0, atol=4 * torch.finfo(dtype).eps)
        # A shift changes nothing; a larger score never has the smaller weight; sparser with alpha.
        torch.testing.assert_close(
            entmax(scores + 8, alpha), weights, rtol=0, atol=2e-5 * (dtype == torch.float32) + 1e-9
        )
        assert (weights.gather(1, scores.argsort(1)).diff() >= 0).all()
        assert ((weights > 0).sum(1) >= (entmax(scores, 2.0) > 0).sum(1)).all()


def test_near_alpha_1_it_is_softmax() -> None:
    scores = random(5, 30).float()
    assert torch.equal(entmax(scores, 1.0), scores.softmax(1))
    seen = random(5, 30, seed=1) > 0
    assert torch.equal(entmax(scores, 1.0, seen), masked_softmax(scores, seen))
    for alpha in (1.0, 1 + 1e-6):
        found = entmax(scores, torch.tensor(alpha))
        torch.testing.assert_close(found, scores.softmax(1), rtol=0, atol=2e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("size", [5, 40])
def test_a_row_that_may_attend_to_nothing_is_zero_with_zero_gradient(alpha: float, size: int) -> None:
    seen = torch.zeros(3, size, dtype=torch.bool)
    seen[1, 0] = True
    for given in (alpha, learned(alpha).requires_grad_()):
        scores = random(3, size).requires_grad_()
        weights = entmax(scores, given, seen)
        assert weights.sum(1).tolist() == [0, 1, 0]
        (weights * random(3, size, seed=1)).sum().backward()  # type: ignore[no-untyped-call]
        assert scores.grad is not None and scores.grad.abs().max() < 1e-15
        if isinstance(given, Tensor):
            assert given.grad is not None and given.grad.abs().max() < 1e-12


def test_huge_scores_and_ties_are_finite() -> None:
    for scale in (1e4, 1e30):
        scores = (scale * torch.tensor([[1.0, -1.0, 1.0, 0.5]])).requires_grad_()
        alpha = torch.tensor([1.3]).requires_grad_()
        weights = entmax(scores, alpha)
        assert weights.tolist() == [[0.5, 0, 0.5, 0]]
        weights[0, 0].backward()  # type: ignore[no-untyped-call]
        assert torch.isfinite(scores.grad).all() and torch.isfinite(alpha.grad).all()  # type: ignore[arg-type]


def test_short_floats_are_taken_in_float32() -> None:
    scores = random(3, 20).bfloat16()
    found = entmax(scores, torch.tensor(1.4))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, entmax(scores.float(), torch.tensor(1.4)))


@pytest.mark.parametrize("alpha", [0.9, 2.1])
def test_an_alpha_out_of_reach(alpha: float) -> None:
    with pytest.raises(SettingError) as error:
        entmax(random(2, 3), alpha)
    assert str(error.value) == f"alpha is {alpha}; it must be between 1 (softmax) and 2 (sparsemax)"


# --- its gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
def test_gradcheck_in_scores_and_alpha(alpha: float) -> None:
    seen = RAGGED[:3]
    for scores in (random(3, 5, seed=3), few_first(random(3, 5, seed=4))):
        scores = scores.detach().requires_grad_()
        assert torch.autograd.gradcheck(lambda own: entmax(own, alpha, seen), scores)
        # At 2 a difference would step beyond the end.
        own = torch.tensor([[alpha], [1.4], [1.7]]).double().clamp(max=1.999).requires_grad_()
        assert torch.autograd.gradcheck(lambda own, alphas: entmax(own, alphas, seen), (scores, own))
    many = random(2, 2, 20, seed=5).requires_grad_()
    alphas = torch.tensor([alpha, 1.6]).double().clamp(max=1.999).requires_grad_()
    assert torch.autograd.gradcheck(lambda own, given: entmax(own, given[:, None]), (many, alphas))


@pytest.mark.parametrize("size", [5, 30])
def test_gradients_equal_those_of_the_package(size: int) -> None:
    scores, pull = random(4, 3, size), random(4, 3, size, seed=1)
    alphas = torch.tensor([1.1, 1.5, 1.9]).double()[:, None]
    inputs = [part.clone().requires_grad_() for part in (scores, alphas, scores, alphas)]
    (entmax(*inputs[:2]) * pull).sum().backward()  # type: ignore[no-untyped-call]
    (package.entmax_bisect(inputs[2], inputs[3], n_iter=70) * pull).sum().backward()
    for own, theirs in zip(inputs[:2], inputs[2:], strict=True):
        assert own.grad is not None and theirs.grad is not None
        torch.testing.assert_close(own.grad, theirs.grad, rtol=0, atol=1e-9)


@pytest.mark.parametrize("alpha", [1.0, 1 + 1e-5, 1.001, 1.01, 1.05, 1.3])
def test_the_gradient_in_alpha_loses_nothing_near_softmax(alpha: float) -> None:
    scores, pull = random(6, 30), random(6, 30, seed=1)

    def in_alpha(dtype: torch.dtype) -> float:
        own = torch.tensor(alpha, dtype=dtype, requires_grad=True)
        (entmax(scores.to(dtype), own) * pull.to(dtype)).sum().backward()  # type: ignore[no-untyped-call]
        assert own.grad is not None
        return own.grad.item()

    if alpha == 1:
        # -1/2 sum e_i w_i log(w_i)^2, where e is the pull less its mean under w.
        weights = scores.softmax(1)
        errors = pull - (weights * pull).sum(1, keepdim=True)
        expected = -0.5 * (errors * weights * weights.log().square()).sum().item()
    else:
        step = 1e-6
        ahead, behind = (entmax(scores, learned(alpha + way * step)) for way in (1, -1))
        expected = ((ahead - behind) * pull).sum().item() / (2 * step)
    assert in_alpha(torch.float64) == pytest.approx(expected, rel=1e-4)
    assert in_alpha(torch.float32) == pytest.approx(expected, rel=1e-3)


def test_no_wrong_second_derivative() -> None:
    scores = random(2, 4).requires_grad_()
    (first,) = torch.autograd.grad(entmax(scores, 1.3).square().sum(), scores, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()  # type: ignore[no-untyped-call]


# --- learned alphas ---------------------------------------------------------------------------------------------------


def test_alphas_start_half_way_and_stay_within_reach() -> None:
    alphas = Alphas(3)
    assert alphas().tolist() == pytest.approx([1.5] * 3)
    with torch.no_grad():
        alphas.raw.copy_(torch.tensor([-50.0, 0.0, 50.0]))
    assert alphas().tolist() == pytest.approx([MIN_ALPHA, 1.5, MAX_ALPHA])
    assert Alphas(1, start=1.8)().item() == pytest.approx(1.8)


def test_alphas_learn_to_be_sparse_or_dense() -> None:
    # The weight of the second key of two, 0.7 apart: sparsemax gives .15, softmax 1 / (1 + e^.7) = .33.
    for target, above in ((0.15, True), (0.33, False)):
        alphas, scores = Alphas(1), torch.tensor([[0.7, 0.0]])
        optimizer = torch.optim.Adam(alphas.parameters(), lr=0.3)
        for _ in range(60):
            optimizer.zero_grad()
            (entmax(scores, alphas())[0, 1] - target).square().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        assert (alphas().item() > 1.8) if above else (alphas().item() < 1.2)
