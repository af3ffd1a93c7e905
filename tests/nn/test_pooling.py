"""Poolings: each against its equation, and what all of them promise about shares, padding and empty texts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ensue import SettingError
from ensue.nn.pooling import POOLINGS, Centrality, DynamicRouting, Max, Mean, Pooled, Pooling, SelfAttention
from ensue.tasks.classify.settings import GRAPH_POOLINGS
from tests.oracles import softmax
from tests.oracles import text as text_oracles

DIM = 4
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)

every = pytest.mark.parametrize("name", POOLINGS)


def make(name: str, **keywords: Any) -> Pooling:
    """In float64, every parameter moved from its start, so that none is 0 or 1."""
    torch.manual_seed(0)
    pooling = POOLINGS[name](DIM, **keywords).double()
    with torch.no_grad():
        for parameter in pooling.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return pooling


def vectors(seed: int = 1) -> Tensor:
    return torch.randn(4, 5, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pool(pooling: Pooling, words: Tensor, mask: Tensor) -> Pooled:
    found = pooling(words, mask)
    assert isinstance(found, Pooled)
    return found


def plain(name: str, **keywords: Any) -> tuple[Pooling, Pooled, list[Tensor]]:
    """With fresh LayerNorms: the pooling, what it gives, and the normalised words of the second text."""
    pooling = make(name, **keywords)
    for norm in (module for module in pooling.modules() if isinstance(module, nn.LayerNorm)):
        norm.reset_parameters()
    found = pool(pooling, vectors(), MASK)
    return pooling, found, [text_oracles.layer_norm(word) for word in vectors()[1][MASK[1]]]


def check(found: Pooled, vector: Tensor, weights: Tensor) -> None:
    """The second text's vector (before the LayerNorm) and the weights of its words."""
    torch.testing.assert_close(found.vector[1], text_oracles.layer_norm(vector), rtol=0, atol=1e-12)
    torch.testing.assert_close(found.weights[1][MASK[1]], weights, rtol=0, atol=1e-12)


# --- each against its equation ----------------------------------------------------------------------------------------


def test_max_by_hand() -> None:
    # A LayerNorm turns (0, 2) into (-1, 1), (2, 0) into (1, -1), to 1e-5 / 2. Feature 0 is largest at word 1, feature 1
    # at word 0, first of two; the third word is padding, however large. LayerNorm of (1, 1) is (0, 0).
    words = torch.tensor([[[0.0, 2.0], [2.0, 0.0], [-9.0, 90.0], [0.0, 2.0]]])
    found = pool(Max(2), words, torch.tensor([[True, True, False, True]]))
    assert found.weights.tolist() == [[0.5, 0.5, 0, 0]]
    torch.testing.assert_close(found.vector, torch.zeros(1, 2), rtol=0, atol=1e-6)


def test_max_is_the_largest_of_the_words() -> None:
    _, found, words = plain("max")
    largest = [max(range(3), key=lambda word: words[word][feature]) for feature in range(DIM)]
    counts = torch.tensor([largest.count(word) / DIM for word in range(3)], dtype=torch.float64)
    check(found, torch.stack([words[word][feature] for feature, word in enumerate(largest)]), counts)


def test_mean_of_the_words() -> None:
    _, found, words = plain("mean")
    check(found, (words[0] + words[1] + words[2]) / 3, torch.full((3,), 1 / 3, dtype=torch.float64))


@torch.no_grad()
def test_self_attention_equals_the_loop() -> None:
    pooling, found, words = plain("self-attention", score_dim=3)
    assert isinstance(pooling, SelfAttention)
    hidden = [torch.tanh(pooling.hidden.weight @ word + pooling.hidden.bias) for word in words]
    weights = softmax([pooling.query @ vector for vector in hidden])
    check(
        found,
        torch.stack([share * word for share, word in zip(weights, words, strict=True)]).sum(0),
        torch.stack(weights),
    )


@torch.no_grad()
@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("name", ["routing", "reverse-routing"])
def test_routing_equals_the_loop(name: str, iterations: int) -> None:
    pooling, found, words = plain(name, capsules=3, iterations=iterations)
    assert isinstance(pooling, DynamicRouting) and pooling.width == 3 * DIM
    offers = torch.stack([torch.tanh(pooling.offer.weight @ word + pooling.offer.bias) for word in words])
    vector, routing = text_oracles.dynamic_routing(offers.view(-1, 3, DIM), iterations, reverse=pooling.reverse)
    check(found, vector, torch.stack([column / column.sum() for column in routing.T]).mean(0))


@torch.no_grad()
@pytest.mark.parametrize("name", ["centrality", "centrality-bilinear", "tokenrank"])
@pytest.mark.parametrize("method", ["solve", "power"])
def test_centrality_equals_the_loop(name: str, method: str) -> None:
    pooling, found, words = plain(name, score_dim=3, method=method)
    assert isinstance(pooling, Centrality)
    score = pooling.score
    receiving, giving = (
        [weight @ word + bias for word in words]
        for weight, bias in zip(score.sides.weight.chunk(2), score.sides.bias.chunk(2), strict=True)
    )
    if name == "centrality":
        scores = text_oracles.additive_scores(torch.stack(receiving), torch.stack(giving), score.vector)  # type: ignore[arg-type]
    else:
        scores = torch.stack([torch.stack([one @ other / 3**0.5 for other in giving]) for one in receiving])
    graph = text_oracles.connections(scores)
    if name == "tokenrank":
        graph = 0.99 * graph + 0.01 / 3
    weights = text_oracles.dominant(graph)
    check(found, torch.stack([share * word for share, word in zip(weights, words, strict=True)]).sum(0), weights)
    assert found.graph is not None
    torch.testing.assert_close(found.graph[1][MASK[1]][:, MASK[1]], graph, rtol=0, atol=1e-12)


def test_names() -> None:
    assert list(POOLINGS) == [
        *("max", "mean", "self-attention", "routing", "reverse-routing", "centrality", "centrality-bilinear"),
        "tokenrank",
    ]
    assert all(isinstance(make(name), kind) for name, kind in (("max", Max), ("mean", Mean)))


def test_unknown_words() -> None:
    with pytest.raises(SettingError, match=r"^score is 'dot'; it must be additive or bilinear$"):
        Centrality(DIM, score="dot")  # type: ignore[arg-type]


# --- what all of them promise -----------------------------------------------------------------------------------------


@every
def test_shares_and_shapes(name: str) -> None:
    pooling = make(name)
    found = pool(pooling, vectors(), MASK)
    assert found.vector.shape == (4, pooling.width) and found.weights.shape == (4, 5)
    assert (found.weights >= 0).all() and (found.weights[~MASK] == 0).all()
    torch.testing.assert_close(found.weights.sum(-1), torch.tensor([1, 1, 1, 0]).double(), rtol=0, atol=1e-14)
    assert (found.graph is None) == (name not in GRAPH_POOLINGS)


@every
def test_padding_and_batch_mates_are_invisible(name: str) -> None:
    pooling, words = make(name), vectors().requires_grad_()
    found = pool(pooling, words, MASK)
    (grad,) = torch.autograd.grad(found.vector.square().sum(), words)
    for text, mask in enumerate(MASK[:3]):
        own = vectors()[text][mask][None].requires_grad_()
        alone = pool(pooling, own, torch.ones(1, len(own[0]), dtype=torch.bool))
        torch.testing.assert_close(found.vector[text], alone.vector[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(found.weights[text][mask], alone.weights[0], rtol=0, atol=1e-12)
        (errors,) = torch.autograd.grad(alone.vector.square().sum(), own)
        torch.testing.assert_close(grad[text][mask], errors[0], rtol=0, atol=1e-10)
    assert (grad[~MASK] == 0).all()


@every
@pytest.mark.parametrize("junk", [0.0, 1e6])
def test_what_stands_at_padding_does_not_matter(name: str, junk: float) -> None:
    pooling = make(name)
    other = vectors().masked_fill(~MASK[..., None], junk) + junk * vectors(2) * ~MASK[..., None]
    for found, expected in zip(pool(pooling, other, MASK)[:2], pool(pooling, vectors(), MASK)[:2], strict=True):
        assert torch.equal(found, expected)


@every
def test_a_text_without_a_word_is_zero_and_teaches_nothing(name: str) -> None:
    pooling, words, empty = make(name), vectors().requires_grad_(), torch.zeros(4, 5, dtype=torch.bool)
    found = pool(pooling, words, empty)
    assert not found.vector.any() and not found.weights.any() and (found.graph is None or not found.graph.any())
    (found.vector + found.weights.sum(-1, keepdim=True)).sum().backward()  # type: ignore[no-untyped-call]
    assert words.grad is not None and not words.grad.any()
    for parameter in pooling.parameters():
        assert parameter.grad is None or not parameter.grad.any()


@every
def test_gradcheck(name: str) -> None:
    pooling = make(name)

    def outcome(words: Tensor) -> tuple[Tensor, Tensor]:
        found = pool(pooling, words, MASK)
        return found.vector, found.weights

    assert torch.autograd.gradcheck(outcome, vectors().requires_grad_(), atol=1e-7)
