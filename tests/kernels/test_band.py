"""Compiled attention over the few events before against masks over all pairs: HiDAN's loss and all of its gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ensue.nn.attention import band, masked_softmax
from ensue.nn.fused_cascades import Ages, Band, attention, gradients, suits_kernel
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.models.hidan import HiDAN
from ensue.tasks.next.settings import HiDANSettings
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = [needs_kernels, pytest.mark.parametrize("level", HERE)]
IDS = 23


def cascades(lengths: tuple[int, ...], seed: int = 0) -> Batch:
    """Cascades of these lengths with repeated times and long waits; what follows every event is a target."""
    random = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(2, IDS, mask.shape, generator=random) * mask
    waits = torch.randint(0, 5, mask.shape, generator=random) * 10_800.0  # whole intervals, and none at all
    waits[:, ::3] += 50_000 * torch.rand(waits[:, ::3].shape, generator=random)
    times = (waits.double().cumsum(1) * mask).double()
    return Batch(ids, mask, times, mask, torch.randint(2, IDS, (int(mask.sum()),), generator=random))


def network(**settings: float | bool) -> HiDAN:
    torch.manual_seed(1)
    made = HiDAN(replace(HiDANSettings(), **settings), IDS)  # type: ignore[arg-type]
    for part in made.parameters():
        part.data += 0.2 * torch.randn(part.shape)
    return made


def learned(made: HiDAN, batch: Batch) -> list[Tensor]:
    """The loss with dropout, and its gradients; the same units are dropped every time."""
    made.zero_grad()
    torch.manual_seed(2)
    loss = made.loss(batch)
    torch.autograd.backward(loss)
    grads = [part.grad for part in made.parameters() if part.grad is not None]
    assert len(grads) == len(list(made.parameters()))
    return [loss.detach(), *grads]


@pytest.mark.parametrize("lengths", [(1,), (2, 1), (41, 17, 1), (90, 90)])
@pytest.mark.parametrize(
    "settings", [{}, {"window": 0}, {"window": 1}, {"window": 3, "dim": 7}, {"cosine": True, "dim": 33}], ids=str
)
def test_loss_and_gradients_are_those_of_all_pairs(
    level: str, lengths: tuple[int, ...], settings: dict[str, float | bool]
) -> None:
    made, batch = network(**settings), cascades(lengths)
    with using(level):
        found = learned(made, batch)
    with using("off"):
        wanted = learned(made, batch)
    for own, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=2e-6 + 1e-5 * float(other.abs().max()))


@pytest.mark.parametrize("without", ["user_attention", "cascade_attention", "time_decay"])
def test_variants_go_by_torch(level: str, without: str) -> None:
    made, batch = network(**{without: False}), cascades((9, 4))
    with using(level):
        found = learned(made, batch)[0]
    with using("off"):
        torch.testing.assert_close(found, learned(made, batch)[0])


@pytest.mark.parametrize(("reach", "own"), [(0, False), (1, True), (4, False), (30, True), (99, False), (99, True)])
@pytest.mark.parametrize("dim", [1, 16, 37, 64])
def test_sums_and_gradients_are_those_of_masks(level: str, reach: int, own: bool, dim: int) -> None:
    lengths, random = torch.tensor([40, 13, 1, 0]), torch.Generator().manual_seed(dim)
    mask = torch.arange(40) < lengths[:, None]
    queries, keys, values, given = (torch.randn(4, 40, dim, generator=random) / dim**0.25 for _ in range(4))
    scores = torch.randn(4, 40, 9, generator=random)
    ages = Ages(torch.rand(4, 40, generator=random).double().cumsum(1), 0.7)
    seen = band(40, reach=reach, own=own) & mask[:, None, :] & mask[:, :, None]
    apart = ((ages.times[:, :, None] - ages.times[:, None, :]).clamp(min=0) / ages.width).ceil().clamp(max=8).long()
    who, inputs = Band(lengths, reach, own), ((values, queries, keys), (values, scores))
    for clock, parts in zip((None, ages), inputs, strict=True):
        flat = [part.flatten(0, 1) for part in parts]
        with using(level):
            assert suits_kernel(values)
            sums, weights = attention(who, clock, *flat)
            ours = [sums, *gradients(who, clock, weights, given.flatten(0, 1), *flat)]
        asked = [part.clone().requires_grad_() for part in parts]
        products = asked[1].transpose(1, 2).gather(1, apart) if clock else asked[1] @ asked[2].transpose(1, 2)
        theirs = masked_softmax(products, seen) @ asked[0]
        for one, other in zip(ours, (theirs, *torch.autograd.grad(theirs, asked, given)), strict=True):
            torch.testing.assert_close(one.view(other.shape), other, rtol=1e-4, atol=1e-5)


def test_neither_threads_nor_other_histories_nor_padding_change_a_bit(level: str) -> None:
    lengths, random = torch.tensor([300] * 40 + [7]), torch.Generator().manual_seed(0)
    queries, keys, values, given = (torch.randn(41, 300, 20, generator=random) for _ in range(4))

    def made(rows: slice, time: int) -> list[Tensor]:
        parts = [part[rows, :time].clone() for part in (queries, keys, values)]
        for part in parts:
            part[-1, 7:] = torch.nan
        who, flat = Band(lengths[rows], 50, own=True), [part.flatten(0, 1) for part in parts]
        sums, weights = attention(who, None, *flat)
        grads = gradients(who, None, weights, given[rows, :time].flatten(0, 1), *flat)
        return [part.view(-1, time, 20) for part in (sums, *grads)]

    with using(level):
        before, alone, threads = made(slice(None), 300), made(slice(40, 41), 9), torch.get_num_threads()
        torch.set_num_threads(5)
        try:
            after = made(slice(None), 300)
        finally:
            torch.set_num_threads(threads)
    for one, other, single in zip(before, after, alone, strict=True):
        assert torch.equal(one, other) and torch.equal(one[40, :7], single[0, :7])
        assert not one[40, 7:].any()


def test_nothing_at_all(level: str) -> None:
    with using(level):
        for rows in (0, 2):
            part = torch.zeros(0, 4)
            assert attention(Band(torch.zeros(rows).long(), 3, own=True), None, part, part, part)[0].shape == (0, 4)
        assert not suits_kernel(torch.zeros(1).double())
