"""Compiled reading of texts against torch: a bidirectional LSTM, scores between words, and word graphs; odd sizes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ensue.nn.centrality import centrality, connections
from ensue.nn.pooling import AdditiveScores, Centrality, word_graph
from ensue.nn.recurrent import BiLSTM
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = [needs_kernels, pytest.mark.parametrize("level", HERE)]
SIZES = [(1, 1, 1), (3, 2, 7), (5, 13, 16), (30, 25, 17), (9, 12, 64), (2, 40, 100)]
"""Longest text, texts, units."""


def texts(longest: int, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors of nine distinct items, which stand where, and the mask; no order of length."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=random)
    mask = torch.arange(longest) < lengths[:, None]
    return (
        torch.randn(9, 6, generator=random),
        torch.randint(9, mask.shape, generator=random).masked_fill(~mask, 8),
        mask,
    )


@torch.no_grad()
@pytest.mark.parametrize(("longest", "count", "hidden"), SIZES)
def test_states_are_those_of_the_network(level: str, longest: int, count: int, hidden: int) -> None:
    torch.manual_seed(hidden)
    lstm = BiLSTM(6, hidden)
    for part in lstm.parameters():
        part.mul_(4)  # gates that open and close
    vectors, index, mask = texts(longest, count, hidden)
    with using("off"):
        expected = lstm.read(vectors, index, mask)
    with using(level):
        found = lstm.read(vectors, index, mask)
        alone = lstm.read(vectors, index[:1, : mask[0].sum()], mask[:1, : mask[0].sum()])
    torch.testing.assert_close(found[mask], expected[mask], rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(found[mask], lstm(vectors[index], mask)[mask], rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(found[0, : mask[0].sum()], alone[0], rtol=0, atol=0)  # whoever stands beside it
    assert not found[~mask].any()


@torch.no_grad()
def test_new_weights_are_read_at_once(level: str) -> None:
    vectors, index, mask = texts(5, 4, 0)
    lstm, other = BiLSTM(6, 8), BiLSTM(6, 8)
    with using(level):
        before, wanted = lstm.read(vectors, index, mask), other.read(vectors, index, mask)
        lstm.load_state_dict(other.state_dict())
        after = lstm.read(vectors, index, mask)
    torch.testing.assert_close(after, wanted, rtol=0, atol=0)
    assert not torch.equal(before, after)


@torch.no_grad()
def test_what_is_no_number_is_said(level: str) -> None:
    vectors, index, mask = texts(4, 3, 1)
    vectors[:] = torch.nan
    with using(level):
        assert BiLSTM(6, 20).read(vectors, index, mask)[mask].isnan().all()


@torch.no_grad()
@pytest.mark.parametrize("dim", [1, 16, 30, 50, 65])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_scores_between_words_are_those_of_torch(level: str, dim: int, scale: float) -> None:
    torch.manual_seed(dim)
    scores = AdditiveScores(6, dim)
    vectors, index, mask = texts(11, 7, dim)
    words, pairs = scale * vectors[index], mask[:, :, None] & mask[:, None]
    with using("off"):
        expected = scores(words, mask)
    with using(level):
        found = scores(words, mask)
    exact = scores.double()(words.double(), mask)
    error = (found - exact)[pairs].abs().max()
    assert error <= max(2 * (expected - exact)[pairs].abs().max(), 2e-6)
    assert found.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize(("longest", "count"), [(1, 1), (3, 5), (16, 4), (17, 40), (65, 3)])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 300.0])
def test_word_graphs_are_those_of_torch(level: str, longest: int, count: int, scale: float) -> None:
    _, _, mask = texts(longest, count, longest)
    mask[-1] = False
    scores = scale * torch.randn(count, longest, longest, generator=torch.Generator().manual_seed(count))
    with using("off"):
        expected = connections(scores, mask)
        torch_weights = centrality(expected, mask)
    with using(level):
        graph, weights = word_graph(scores, mask, "solve")
        first = int(mask[0].sum())
        alone = word_graph(scores[:1, :first, :first], mask[:1, :first], "solve")[1]
    torch.testing.assert_close(graph, expected, rtol=1e-5, atol=1e-7)
    least = 8 * torch.finfo(torch.float32).eps / mask.sum(1).clamp(min=1)
    exact = centrality(expected.double() + least[:, None, None], mask)
    apart = [float((own - exact).abs().max()) for own in (weights, torch_weights)]
    assert apart[0] <= max(2 * apart[1], 1e-6)
    torch.testing.assert_close(weights.sum(1), mask.any(1).float())
    assert not weights[~mask].any() and (weights >= 0).all()
    torch.testing.assert_close(weights[:1, :first], alone, rtol=0, atol=0)


@torch.no_grad()
def test_pooling_is_the_same_on_both_paths(level: str) -> None:
    torch.manual_seed(0)
    pool = Centrality(6)
    vectors, index, mask = texts(12, 9, 0)
    holes = mask.clone()
    holes[:, 0] = False  # words that do not stand in front
    for seen in (mask, holes):
        with using("off"):
            expected = pool(vectors[index], seen)
        with using(level):
            found = pool(vectors[index], seen)
        torch.testing.assert_close(found.vector, expected.vector, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.weights, expected.weights, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_graphs_of_what_is_no_number_say_so(level: str) -> None:
    scores, mask = torch.zeros(2, 5, 5), torch.ones(2, 5, dtype=torch.bool)
    scores[0, 2, 3] = torch.nan
    with using(level):
        found = word_graph(scores, mask, "solve")
    assert found[1][0].isnan().all() and found[1][1].isfinite().all()
