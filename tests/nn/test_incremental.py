"""One token at a time: the same numbers as whole rows, branches that share a past, and weights that have changed."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from ensue.nn.autograd import DerivedCache
from ensue.nn.incremental import IncrementalDecoder
from ensue.nn.transformer import DecoderLayer, PackedRows

DIM, HEADS, WIDE, LAYERS = 8, 2, 6, 2


def decoder(seed: int = 0) -> nn.ModuleList:
    """Layers whose every parameter is random, biases and norms too."""
    generator = torch.Generator().manual_seed(seed)
    layers = nn.ModuleList(DecoderLayer(DIM, HEADS, WIDE, 0.0) for _ in range(LAYERS)).double()
    for parameter in layers.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return layers


def vectors(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def memory_of(layers: nn.ModuleList, mask: Tensor) -> Tensor:
    """(sources, layers, 2, heads, length, dim / heads)."""
    source, rows = vectors(*mask.shape, seed=2)[mask], PackedRows.of(mask)
    return torch.stack([layer.other.keys_values(source, rows) for layer in layers], 1).detach()  # type: ignore[operator, union-attr]


def all_at_once(layers: nn.ModuleList, items: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, length, dim) and the last layer's weights, mean over heads."""
    found, weights = items.flatten(0, 1), None
    for number, layer in enumerate(layers):
        found, weights = layer(found, PackedRows(*items.shape[:2]), memory[:, number], mask, weigh=True)
    assert weights is not None
    return found.view(items.shape), weights


MASK = torch.tensor([[True, True, False, True], [False, True, False, False], [True, True, True, True]])


def none_yet(sources: int) -> tuple[Tensor, ...]:
    return tuple(torch.empty(2, sources * HEADS, 0, DIM // HEADS, dtype=torch.float64) for _ in range(LAYERS))


@torch.no_grad()
def one_by_one(layers: nn.ModuleList, items: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same for one row a source, a token at a time."""
    steps = IncrementalDecoder([*layers])
    folded, past, parts, shares = steps.fold(memory, mask), none_yet(len(items)), [], []
    for place in range(items.shape[1]):
        seen = torch.zeros(len(items), 1, place + 1, dtype=torch.float64)
        made, past, weights = steps.step(items[:, place : place + 1].contiguous(), folded, past, seen, weigh=True)
        assert weights is not None
        parts.append(made)
        shares.append(weights.mean(2))
    return torch.cat(parts, 1), torch.cat(shares, 1)


def test_a_token_at_a_time_equals_all_at_once() -> None:
    layers, items = decoder(), vectors(3, 5)
    memory = memory_of(layers, MASK)
    whole, weights = all_at_once(layers, items, memory, MASK)
    found, shares = one_by_one(layers, items, memory, MASK)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(shares, weights, rtol=0, atol=1e-12)
    assert (shares.masked_select(~MASK[:, None]) == 0).all()


def test_a_memory_of_padding_alone_gives_zeros() -> None:
    layers, items = decoder(), vectors(3, 3)
    mask = MASK & torch.tensor([[True], [False], [True]])
    memory = memory_of(layers, mask)
    found, _ = one_by_one(layers, items, memory, mask)
    torch.testing.assert_close(found, all_at_once(layers, items, memory, mask)[0], rtol=0, atol=1e-12)


def test_rows_of_a_source_are_branches_that_see_their_own_path() -> None:
    """One beginning and two ends, as a tree in one row, equal the two rows written out."""
    layers, mask = decoder(), MASK[:1]
    memory, (first, left, right) = memory_of(layers, mask), vectors(3)
    steps = IncrementalDecoder([*layers])
    seen = torch.tensor([[[0.0, -torch.inf, -torch.inf], [0.0, 0.0, -torch.inf], [0.0, -torch.inf, 0.0]]]).double()
    tree = torch.stack([first, left, right])[None]
    with torch.no_grad():
        found, *_ = steps.step(tree, steps.fold(memory, mask), none_yet(1), seen, weigh=False)
    for place, end in ((1, left), (2, right)):
        alone, _ = all_at_once(layers, torch.stack([first, end])[None], memory, mask)
        torch.testing.assert_close(found[0, [0, place]], alone[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("change", ["in place", "another"])
def test_what_is_kept_follows_the_weights(change: str) -> None:
    layer, made = nn.Linear(2, 2), []
    kept = DerivedCache(lambda: made.append(1) or layer.weight.detach().clone())  # type: ignore[func-returns-value]
    kept.get(layer.parameters())
    assert torch.equal(kept.get(layer.parameters()), layer.weight) and len(made) == 1
    if change == "in place":
        with torch.no_grad():
            layer.weight.add_(1.0)
    else:
        layer.weight = nn.Parameter(torch.ones(2, 3))
    assert torch.equal(kept.get(layer.parameters()), layer.weight) and len(made) == 2


class Doubled(nn.Module):
    """Twice the weight of a layer, kept."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.kept = DerivedCache(self.make)

    def make(self) -> Tensor:
        return 2 * self.layer.weight

    def get(self) -> Tensor:
        return self.kept.get(self.layer.parameters())


def test_training_is_seen_and_a_copy_makes_its_own() -> None:
    model = Doubled()
    assert set(model.state_dict()) == {"layer.weight", "layer.bias"}
    before = model.get()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    model.train()
    model.layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    model.eval()
    assert not torch.equal(model.get(), before) and torch.equal(model.get(), 2 * model.layer.weight)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.layer.weight.zero_()
    assert (twin.get() == 0).all() and torch.equal(model.get(), 2 * model.layer.weight)
