"""Compiled encoder layers against torch: packed rows with padding, masks of every shape, odd sizes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ensue.nn.incremental import MAX_ITEMS, PackedEncoder
from ensue.nn.transformer import EncoderLayer, PackedRows
from ensue.tasks.suggest.batch import FIRST_TOKEN, pad
from ensue.tasks.suggest.models.mtn import MTN
from ensue.tasks.suggest.settings import MTNSettings
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = [needs_kernels, pytest.mark.parametrize("level", HERE)]


def layers(dim: int, heads: int, wide: int) -> list[EncoderLayer]:
    torch.manual_seed(dim)
    made = [EncoderLayer(dim, heads, wide, 0.0).eval() for _ in range(2)]
    for part in (part for layer in made for part in layer.parameters()):
        part.data += 0.1 * torch.randn(part.shape)
    return made


@torch.no_grad()
@pytest.mark.parametrize(("dim", "heads", "wide"), [(1, 1, 1), (8, 2, 16), (20, 4, 7), (64, 8, 130)])
@pytest.mark.parametrize(("count", "length"), [(1, 1), (3, 4), (2, 9)])
def test_layers_are_those_of_torch(level: str, dim: int, heads: int, wide: int, count: int, length: int) -> None:
    made, draw = layers(dim, heads, wide), torch.Generator().manual_seed(length)
    there = torch.arange(length) < torch.randint(1, length + 1, (count, 1), generator=draw)
    own = torch.eye(length, dtype=torch.bool)
    some = (torch.rand(count, length, length, generator=draw) < 0.5) | own
    whole = PackedRows(count, length)
    cases: list[tuple[PackedRows, Tensor]] = [
        (PackedRows.of(there), there[:, None]),
        (PackedRows.of(there), some & there[:, None]),
    ]
    cases += [(whole, some), (whole, some[:1]), (whole, some.mT), (whole, torch.ones(1, 1, length, dtype=torch.bool))]
    for rows, mask in cases:
        seen = mask | own if len(mask) == count and rows is not whole and mask.shape[1] > 1 else mask
        items = torch.randn(count * length if rows.places is None else len(rows.places), dim, generator=draw)
        expected, before = items, items.clone()
        for layer in made:
            expected = layer(expected, rows, seen)
        with using(level):
            states = PackedEncoder(made).encode(items, rows, seen)
        assert torch.equal(items, before)
        torch.testing.assert_close(states, expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_what_does_not_fit_is_left_to_torch(level: str) -> None:
    made = PackedEncoder(layers(8, 2, 16))
    with using(level):
        for items in (torch.zeros(MAX_ITEMS + 1, 8), torch.zeros(0, 8), torch.zeros(3, 8).double()):
            assert not made.suits(items)
        assert not PackedEncoder(layer.double() for layer in layers(8, 2, 16)).suits(torch.zeros(3, 8))


@torch.no_grad()
def test_a_network_reads_the_same_memory_and_new_weights_at_once(level: str) -> None:
    torch.manual_seed(1)
    network = MTN(MTNSettings(dim=32, embedding=24, wide=40, heads=4, depth="2+1+1+1"), 60).eval()
    draw = torch.Generator().manual_seed(2)
    for turns in (1, 4):
        batch = pad([torch.randint(FIRST_TOKEN, 60, (turns, 5), generator=draw).tolist() for _ in range(2)])
        for _ in range(2):
            with using("off"):
                expected = network.encode(batch).keys
            with using(level):
                torch.testing.assert_close(network.encode(batch).keys, expected, rtol=1e-4, atol=1e-5)
            next(network.query_layers.parameters()).mul_(1.5)
