"""Compiled attention over windows against torch: vectors and all gradients, odd sizes, holes, threads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ensue.nn.fused_window import FusedWindows, fits, window_products, window_sums
from ensue.tasks.link.batches import DistinctWords
from ensue.tasks.link.models.star import AST
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = [needs_kernels, pytest.mark.parametrize("level", HERE)]


def encoder(dim: int, heads: int, **settings: bool | int) -> AST:
    torch.manual_seed(dim)
    made = AST(dim, heads=heads, **settings)  # type: ignore[arg-type]
    for part in made.parameters():  # of a residual one some start at 0
        part.data += 0.3 * torch.randn(part.shape)
    return made


def texts(dim: int, lengths: tuple[int, ...], distinct: int = 11) -> DistinctWords:
    random = torch.Generator().manual_seed(len(lengths))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    places = torch.randint(distinct, mask.shape, generator=random).masked_fill(~mask, distinct - 1)
    return DistinctWords(torch.randn(distinct, dim, generator=random), places, mask)


def learned(made: AST, words: DistinctWords) -> list[Tensor]:
    """What it makes of the texts, and the gradients of a loss."""
    made.zero_grad()
    vectors = words.vectors.clone().requires_grad_()
    out = made(words._replace(vectors=vectors))
    (out * torch.linspace(-1, 2, out.numel()).view(out.shape)).sum().backward()
    grads = [part.grad for part in made.parameters() if part.grad is not None]
    assert vectors.grad is not None and grads
    return [out.detach(), vectors.grad, *grads]


@pytest.mark.parametrize(("dim", "heads"), [(4, 4), (24, 6), (50, 1), (99, 3)])
@pytest.mark.parametrize("lengths", [(1,), (5, 3, 1), (20, 20, 7)])
@pytest.mark.parametrize(
    "settings",
    [{}, {"residual": True}, {"cycles": 2, "neighbours": 3}, {"sparse": False, "cycles": 2}, {"relay": False}],
    ids=str,
)
def test_vectors_and_gradients_are_those_of_torch(
    level: str, dim: int, heads: int, lengths: tuple[int, ...], settings: dict[str, bool | int]
) -> None:
    made, words = encoder(dim, heads, **settings), texts(dim, lengths)
    with using("off"):
        by_torch = learned(made, words)
    with using(level):
        assert fits(words.vectors)
        found = learned(made, words)
    exact = learned(made.double(), words._replace(vectors=words.vectors.double()))
    largest = max(float(wanted.abs().max()) for wanted in exact)  # some are 0 but for rounding
    for own, other, wanted in zip(found, by_torch, exact, strict=True):
        rounded = float((other - wanted).abs().max())
        torch.testing.assert_close(own.double(), wanted, rtol=0, atol=3 * rounded + 1e-5 * largest)


def test_neither_threads_nor_other_texts_change_a_bit(level: str) -> None:
    made, words = encoder(60, 6, neighbours=2), texts(60, (400, 300, 2), 90)
    each = torch.randn(len(words.vectors), 180, generator=torch.Generator().manual_seed(0))
    windows = FusedWindows(words.places, words.places, words.mask, 6, 2)
    alone = FusedWindows(words.places[2:, :2], words.places[2:, :2], words.mask[2:, :2], 6, 2)
    with using(level):
        before, threads = learned(made, words), torch.get_num_threads()
        queries, nears, firsts = each.chunk(3, 1)
        products, apart = (window_products(one, queries, nears, firsts, None) for one in (windows, alone))
        sums, summed = (
            window_sums(one, own, nears, firsts, None) for one, own in ((windows, products), (alone, apart))
        )
        torch.set_num_threads(5)
        try:
            after = learned(made, words)
        finally:
            torch.set_num_threads(threads)
    assert torch.equal(products[2:, :2], apart) and torch.equal(sums[2:, :2], summed)
    assert not products[~words.mask].any() and not sums[~words.mask].any()
    assert torch.equal(after[0], before[0])
    for own, wanted in zip(after[1:], before[1:], strict=True):  # torch's own products are cut by threads
        torch.testing.assert_close(own, wanted, rtol=1e-4, atol=1e-5)


def test_what_stands_at_padding_and_in_holes_is_never_read(level: str) -> None:
    mask = torch.tensor([[True, True, False, True, False], [False] * 5])
    words = torch.tensor([[0, 1, 2, 1, 2], [2] * 5])
    rows = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    spoiled = rows.index_fill(0, torch.tensor([2]), torch.nan)
    windows = FusedWindows(words, words, mask, 2, 1)
    found = []
    with using(level):
        for own in (rows, spoiled):
            own = own.clone().requires_grad_()
            products = window_products(windows, own, own, own, None)
            sums = window_sums(windows, products, own, own, None)
            torch.autograd.backward(sums.sum())
            assert own.grad is not None
            found.append((products.detach(), sums.detach(), own.grad))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
    # Place 3 of the first text stands alone between a hole and padding: it sees itself and its word, which are one row.
    own = rows[1].view(2, 2)
    torch.testing.assert_close(found[0][0][0, 3], (own * own).sum(1)[:, None] * torch.tensor([[0.0, 1, 0, 1]] * 2))


def test_no_text_and_no_place(level: str) -> None:
    for shape in ((0, 3), (2, 0)):
        places = torch.zeros(shape, dtype=torch.int64)
        windows, rows = FusedWindows(places, places, places.bool(), 1, 1), torch.zeros(1, 4)
        with using(level):
            products = window_products(windows, rows, rows, rows, None)
            assert products.shape == (*shape, 1, 4)
            assert window_sums(windows, products, rows, rows, None).shape == (*shape, 4)


def test_other_numbers_are_left_to_torch(level: str) -> None:
    with using(level):
        assert not fits(torch.zeros(1).double()) and not fits(torch.zeros(1).bfloat16())
        assert fits(torch.zeros(1))
