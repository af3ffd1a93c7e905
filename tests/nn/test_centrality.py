"""Word graphs and their centrality: two methods, SciPy, finite differences, and graphs whose mixing is known."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from ensue import SettingError
from ensue.nn import pooling
from ensue.nn.centrality import (
    Method,
    centrality,
    connections,
    damped,
)
from ensue.nn.pooling import additive_scores
from tests.oracles import text as text_oracles

METHODS: list[Method] = ["solve", "power"]
RAGGED = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def whole(*shape: int) -> Tensor:
    return torch.ones(*shape, dtype=torch.bool)


def graph(words: int, spread: float = 1.0, seed: int = 0) -> Tensor:
    """(1, words, words)"""
    return connections(spread * random(1, words, words, seed=seed), whole(1, words))


def planted(mixing: float, words: int = 6) -> Tensor:
    """(1 - e) p 1' + e C with a cyclic shift C: beside the 1, all eigenvalues have absolute value e."""
    share = (torch.arange(words) + 1.0).double()
    return ((1 - mixing) * (share / share.sum())[:, None] + mixing * torch.eye(words).double().roll(1, 0))[None]


def gradient(matrix: Tensor, mask: Tensor, direction: Tensor, method: Method, steps: int = 20) -> Tensor:
    matrix = matrix.detach().requires_grad_()
    found = centrality(matrix, mask, method=method, steps=steps)
    return torch.autograd.grad((found * direction).sum(), matrix)[0]


# --- connections ------------------------------------------------------------------------------------------------------


def test_connections_equal_a_softmax_a_column() -> None:
    scores = 3 * random(4, 5, 5)
    found = connections(scores, RAGGED)
    for matrix, own, mask in zip(found, scores, RAGGED, strict=True):
        if mask.any():
            pairs = text_oracles.connections(own[mask][:, mask])
            torch.testing.assert_close(matrix[mask][:, mask], pairs, rtol=0, atol=1e-15)
            torch.testing.assert_close(matrix.sum(0), torch.ones(5).double())
        assert (matrix[~mask] == 0).all()
    # The second text has words 0, 1 and 3: a column of padding is 1/3 at each.
    torch.testing.assert_close(found[1, :, 2], torch.tensor([1 / 3, 1 / 3, 0, 1 / 3, 0]).double())
    assert not found[3].any()


@pytest.mark.parametrize("junk", [1e30, -1e30])
def test_scores_of_padding_do_not_matter(junk: float) -> None:
    scores, pairs = random(4, 5, 5), RAGGED[:, :, None] & RAGGED[:, None]
    assert torch.equal(connections(scores.masked_fill(~pairs, junk), RAGGED), connections(scores, RAGGED))


# --- the eigenvector --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_two_words_by_hand(method: Method, dtype: torch.dtype, close: float) -> None:
    # p0 = .9 p0 + .5 p1 and p0 + p1 = 1: .1 p0 = .5 p1, so p = (5, 1) / 6.
    matrix = torch.tensor([[[0.9, 0.5], [0.1, 0.5]]], dtype=dtype)
    found = centrality(matrix, whole(1, 2), method=method)
    assert found.dtype == dtype
    torch.testing.assert_close(found, torch.tensor([[5 / 6, 1 / 6]], dtype=dtype), rtol=0, atol=close)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_equals_scipy(method: Method, spread: float) -> None:
    matrix = connections(spread * random(4, 5, 5, seed=1), RAGGED)
    found = centrality(matrix, RAGGED, method=method)
    for share, own, mask in zip(found[:3], matrix, RAGGED, strict=False):
        torch.testing.assert_close(share[mask], text_oracles.dominant(own[mask][:, mask]), rtol=0, atol=1e-12)
    assert (found[~RAGGED] == 0).all()


def test_equals_algorithm_1_from_any_positive_start() -> None:
    matrix = graph(7, 2.0)
    expected = text_oracles.power_method(matrix[0], random(7).abs(), 1e-14)
    torch.testing.assert_close(centrality(matrix, whole(1, 7))[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("words", [10, 50, 200])
def test_float32_is_near_float64(words: int) -> None:
    matrix = graph(words, 3.0)
    for method in METHODS:
        found = centrality(matrix.float(), whole(1, words), method=method)
        torch.testing.assert_close(found.double(), centrality(matrix, whole(1, words)), rtol=1e-4, atol=1e-6)


def test_scores_that_are_sums_collapse_to_self_attention() -> None:
    # exp(a_i + b_j) / sum_i exp(a_i + b_j) = exp(a_i) / sum_i exp(a_i), whatever b_j: all columns are softmax(a).
    own, other = random(2, 9, seed=2), 5 * random(2, 9, seed=3)
    matrix = connections(own[:, :, None] + other[:, None], whole(2, 9))
    for method in METHODS:
        torch.testing.assert_close(centrality(matrix, whole(2, 9), method=method), own.softmax(-1), rtol=0, atol=1e-14)


def test_an_unknown_method() -> None:
    with pytest.raises(SettingError, match=r"^centrality method is 'eig'; it must be solve or power$"):
        centrality(graph(3), whole(1, 3), method="eig")  # type: ignore[arg-type]


# --- its gradient -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_gradient_equals_differences_of_scipys_eigenvector(method: Method) -> None:
    # Along any change of A, also one that leaves the column sums.
    matrix, direction = graph(4, 2.0), random(4, seed=5)
    found = gradient(matrix, whole(1, 4), direction, method, steps=400)[0]
    for i in range(4):
        for j in range(4):
            step = torch.zeros(4, 4).double()
            step[i, j] = 1e-5
            ahead, back = text_oracles.dominant(matrix[0] + step), text_oracles.dominant(matrix[0] - step)
            assert found[i, j].item() == pytest.approx(float((ahead - back) @ direction) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("words", [1, 2, 10, 50, 200])
def test_gradients_of_both_methods_agree(words: int) -> None:
    matrix, direction = graph(words, 2.0, seed=words), random(words, seed=6)
    expected = gradient(matrix, whole(1, words), direction, "solve")
    found = gradient(matrix, whole(1, words), direction, "power", 400)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-8 * float(expected.abs().max()) + 1e-15)


@pytest.mark.parametrize("method", METHODS)
def test_gradcheck_of_ragged_texts(method: Method) -> None:
    def whole_layer(scores: Tensor) -> Tensor:
        return centrality(connections(scores, RAGGED), RAGGED, method=method, steps=60)

    assert torch.autograd.gradcheck(whole_layer, random(4, 5, 5, seed=7).requires_grad_(), atol=1e-8)


def test_gradcheck_of_a_long_text() -> None:
    def whole_layer(scores: Tensor) -> Tensor:
        return centrality(connections(scores, whole(1, 200)), whole(1, 200))

    scores = (2 * random(1, 200, 200, seed=8)).requires_grad_()
    assert torch.autograd.gradcheck(whole_layer, scores, fast_mode=True, atol=1e-9)


@pytest.mark.parametrize("mixing", [0.5, 0.8])
def test_the_error_of_taped_steps_falls_as_the_second_eigenvalue(mixing: float) -> None:
    # What K steps leave out is sum over k >= K of (A')^k g: but for a part along 1, which changes of A that keep the
    # column sums cannot see, that is e^K times a rotation of the same vector.
    matrix, direction = planted(mixing), random(6, seed=9)
    exact = gradient(matrix, whole(1, 6), direction, "solve")

    def error(steps: int) -> float:
        apart = gradient(matrix, whole(1, 6), direction, "power", steps) - exact
        return float((apart - apart.mean(1, keepdim=True)).norm())

    for steps in (2, 5, 9):
        assert error(steps + 6) / error(steps) == pytest.approx(mixing**6, rel=1e-6)


def test_the_papers_20_steps_are_wrong_where_mixing_is_slow() -> None:
    # .92^20 = .19 is left out of a sum whose largest part is 1 / (1 - .92).
    matrix, direction = planted(0.92), random(6, seed=9)
    exact = gradient(matrix, whole(1, 6), direction, "solve")
    apart = gradient(matrix, whole(1, 6), direction, "power") - exact
    assert apart.norm() > 0.05 * exact.norm()
    # The taped steps have the gradient of Theorem 2's series of 20 terms: sum over k < 20 of (A')^k (g - (g . p) 1).
    share = centrality(matrix, whole(1, 6))[0]
    term = direction - direction @ share
    series = torch.zeros(6, dtype=torch.float64)
    for _ in range(20):
        series += term
        term = matrix[0].mT @ term
    taped = gradient(matrix, whole(1, 6), direction, "power")[0]
    torch.testing.assert_close(taped, series[:, None] * share, rtol=0, atol=1e-10)


def test_no_wrong_second_derivative() -> None:
    matrix = graph(3).requires_grad_()
    first = torch.autograd.grad(centrality(matrix, whole(1, 3)).square().sum(), matrix, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first[0].sum().backward()  # type: ignore[no-untyped-call]


# --- with damping: TokenRank ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("damping", [0.0, 0.5, 0.85, 0.99])
def test_tokenrank_equals_its_power_iteration(method: Method, damping: float) -> None:
    matrix = connections(3 * random(4, 5, 5, seed=12), RAGGED)
    found = centrality(damped(matrix, RAGGED, damping), RAGGED, method=method)
    for share, own, mask in zip(found[:3], matrix, RAGGED, strict=False):
        attention = own[mask][:, mask].mT  # right-stochastic: one row per query
        torch.testing.assert_close(share[mask], text_oracles.token_rank(attention, damping), rtol=0, atol=1e-12)
    assert (found[~RAGGED] == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_gradcheck_of_tokenrank(method: Method) -> None:
    def whole_layer(scores: Tensor) -> Tensor:
        graphs = damped(connections(scores, RAGGED), RAGGED, 0.85)
        return centrality(graphs, RAGGED, method=method, steps=60)

    assert torch.autograd.gradcheck(whole_layer, random(4, 5, 5, seed=13).requires_grad_(), atol=1e-8)


def test_gradient_of_tokenrank_is_that_of_its_closed_form() -> None:
    # p = (1 - d) (I - d A)^-1 1/n, differentiated by autograd through the inverse.
    matrix, direction = graph(7, 2.0, seed=14).requires_grad_(), random(7, seed=15)
    closed = 0.15 * torch.linalg.inv(torch.eye(7).double() - 0.85 * matrix[0]).mean(1)
    (expected,) = torch.autograd.grad(closed @ direction, matrix)
    found = centrality(damped(matrix, whole(1, 7), 0.85), whole(1, 7))[0]
    torch.testing.assert_close(found, closed, rtol=0, atol=1e-14)
    (errors,) = torch.autograd.grad(found @ direction, matrix)
    # A change of A that leaves its column sums cannot see what is the same in a whole column.
    moved = expected - errors
    torch.testing.assert_close(moved - moved.mean(1, keepdim=True), torch.zeros_like(moved), rtol=0, atol=1e-13)


# --- padding, empty texts, graphs in pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_padding_and_batch_mates_are_invisible(method: Method) -> None:
    matrix, direction = connections(2 * random(4, 5, 5), RAGGED), random(4, 5, seed=1)
    found, back = centrality(matrix, RAGGED, method=method), gradient(matrix, RAGGED, direction, method)
    for text, mask in enumerate(RAGGED[:3]):
        alone, real = matrix[text][mask][:, mask][None], whole(1, int(mask.sum()))
        own = centrality(alone, real, method=method)[0]
        torch.testing.assert_close(found[text][mask], own, rtol=0, atol=1e-15)
        errors = gradient(alone, real, direction[text][mask], method)[0]
        torch.testing.assert_close(back[text][mask][:, mask], errors, rtol=0, atol=1e-13)
    assert (found[~RAGGED] == 0).all()
    assert (back[~RAGGED] == 0).all() and (back.mT[~RAGGED] == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_text_without_a_word_is_zero_with_zero_gradient(method: Method) -> None:
    matrix, mask = random(2, 4, 4).abs(), torch.zeros(2, 4, dtype=torch.bool)
    assert not centrality(matrix, mask, method=method).any()
    assert not gradient(matrix, mask, random(2, 4), method).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_graph_in_pieces_is_finite(dtype: torch.dtype) -> None:
    # exp(-2000) is 0: words 0 and 1 hand everything to each other, words 2 to 5 to themselves.
    scores = torch.full((1, 6, 6), -2000.0, dtype=dtype)
    scores[0].fill_diagonal_(0.0)
    scores[0, :2, :2] = 0.0
    scores.requires_grad_()
    found = centrality(connections(scores, whole(1, 6)), whole(1, 6))
    # Every sharing among the five pieces stands still; a trace of connection between all words leaves the even one.
    torch.testing.assert_close(found, torch.full((1, 6), 1 / 6, dtype=dtype), rtol=0, atol=0.02)
    (found * random(6).to(dtype)).sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None and torch.isfinite(scores.grad).all()


def test_a_slow_batch_mate_makes_no_step_more() -> None:
    # After one of e = .5 and one of e = .99, each stopped at a coarse tolerance of its own.
    slow, fast, rough = planted(0.99), planted(0.5), partial(centrality, method="power", tolerance=1e-3, steps=1)
    both = rough(torch.cat([slow, fast]), whole(2, 6))
    for found, matrix in zip(both, (slow, fast), strict=True):
        torch.testing.assert_close(found, rough(matrix, whole(1, 6))[0], rtol=0, atol=1e-15)


# --- additive scores --------------------------------------------------------------------------------------------------


def words(scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    return scale * random(4, 5, 3, seed=1), scale * random(4, 5, 3, seed=2), random(3, seed=3)


PAIRS = RAGGED[:, :, None] & RAGGED[:, None]


@pytest.mark.parametrize("block", [1, 20, 80, 2**18])
def test_additive_scores_equal_the_loop(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(pooling, "BLOCK", block)
    receiving, giving, vector = words()
    found = additive_scores(receiving, giving, vector, RAGGED)
    for text, pairs in enumerate(PAIRS):
        expected = text_oracles.additive_scores(receiving[text], giving[text], vector)
        torch.testing.assert_close(found[text][pairs], expected[pairs], rtol=0, atol=1e-14)
    assert torch.isfinite(found).all()


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0])
@pytest.mark.parametrize("block", [1, 80])
def test_gradients_of_additive_scores(monkeypatch: pytest.MonkeyPatch, block: int, scale: float) -> None:
    monkeypatch.setattr(pooling, "BLOCK", block)
    inputs = [tensor.requires_grad_() for tensor in words(scale)]
    loss = random(4, 5, 5, seed=4) * PAIRS
    expected = torch.autograd.grad(
        (loss * ((inputs[0][:, :, None] + inputs[1][:, None]).tanh() @ inputs[2])).sum(), inputs
    )
    found = torch.autograd.grad((loss * additive_scores(*inputs, RAGGED)).sum(), inputs)  # type: ignore[call-arg]
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-13)


def test_gradcheck_of_additive_scores() -> None:
    def real(receiving: Tensor, giving: Tensor, vector: Tensor) -> Tensor:
        return additive_scores(receiving, giving, vector, RAGGED) * PAIRS

    assert torch.autograd.gradcheck(real, [tensor.requires_grad_() for tensor in words()])


@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0, 1e3, 1e30])
def test_additive_scores_are_as_exact_as_tanh_in_float32(scale: float) -> None:
    receiving, giving = (scale * random(2, 40, 50, seed=seed).float() for seed in (1, 2))
    giving[0] = -receiving[0]  # saturated with opposite signs
    vector = random(50, seed=3).float()
    exact = (receiving.double()[:, :, None] + giving.double()[:, None]).tanh() @ vector.double()
    plain = (receiving[:, :, None] + giving[:, None]).tanh() @ vector
    found = additive_scores(receiving, giving, vector, whole(2, 40))
    error, limit = (found - exact).abs().max(), (plain - exact).abs().max()
    # |w|_1 times a rounding is the least to expect of a sum.
    assert error < 2 * limit + vector.abs().sum() * torch.finfo(torch.float32).eps


def test_additive_scores_keep_nothing_of_the_pairs() -> None:
    kept: list[int] = []
    inputs = [tensor.requires_grad_() for tensor in words()]
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()), lambda none: none):
        partial(additive_scores, mask=RAGGED)(*inputs)
    assert kept == [4 * 5 * 3, 4 * 5 * 3, 3]  # the inputs alone: the texts stand longest first
