"""Products of bfloat16 numbers: compiled and in torch, of odd sizes; layers and LSTMs that read in them."""

from __future__ import annotations

import copy

import pytest
import torch

from ensue.nn.linear import Linear, folded, rounded_product, unfolded
from ensue.nn.recurrent import BiLSTM
from tests.kernels.paths import HERE, needs_kernels, using
from tests.kernels.test_texts import SIZES, texts

LEVELS = pytest.mark.parametrize("level", ["off", *HERE])
SHAPES = [(1, 1, 1), (7, 3, 5), (13, 128, 200), (6, 65, 64), (24, 300, 1201), (5, 2, 17)]
"""Rows, columns that are summed over, and columns that come out."""


@LEVELS
@pytest.mark.parametrize(("rows", "num_in", "num_out"), SHAPES)
def test_products_are_those_of_rounded_numbers(level: str, rows: int, num_in: int, num_out: int) -> None:
    random = torch.Generator().manual_seed(rows)
    given, matrix, bias = (
        torch.randn(shape, generator=random) for shape in ((rows, num_in), (num_in, num_out), num_out)
    )
    expected = given.bfloat16().double() @ matrix.bfloat16().double() + bias
    with using(level):
        found = rounded_product(given, folded(matrix), bias)
        alone = rounded_product(given[-1:], folded(matrix), bias)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5 * num_in**0.5)
    torch.testing.assert_close(
        found[-1:], alone, rtol=0 if level != "off" else 1e-5, atol=0 if level != "off" else 1e-5
    )


def test_what_is_folded_is_the_rounded_matrix() -> None:
    for num_in, num_out in ((1, 1), (4, 16), (5, 17)):
        matrix = torch.randn(num_in, num_out)
        assert torch.equal(unfolded(folded(matrix)), matrix.bfloat16().float())
        assert folded(matrix).pairs.shape == ((num_in + 1) // 2, (num_out + 15) // 16 * 16)


@LEVELS
def test_rounding_is_to_the_nearest_and_an_even_one_of_two(level: str) -> None:
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 3.3e38, 1e-30, -0.0])[:, None]
    with using(level):
        found = rounded_product(ties, folded(torch.ones(1, 1)), torch.zeros(1))
    assert torch.equal(found, ties.bfloat16().float())


@LEVELS
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_what_is_no_number_stays_none(level: str, wrong: float) -> None:
    given = torch.ones(3, 4)
    given[1, 2] = wrong
    with using(level):
        found = rounded_product(given, folded(torch.ones(4, 5)), torch.zeros(5))
    assert torch.equal(found.isfinite().all(1), torch.tensor([True, False, True]))


@LEVELS
def test_rows_of_nothing_and_rows_with_gaps(level: str) -> None:
    matrix, bias = folded(torch.eye(4)), torch.arange(4.0)
    with using(level):
        assert rounded_product(torch.zeros(0, 4), matrix, bias).shape == (0, 4)
        wide = torch.arange(24.0).view(2, 3, 4).transpose(0, 1)
        assert torch.equal(rounded_product(wide, matrix, bias), wide + bias)


@LEVELS
def test_a_layer_rounds_where_no_gradient_is_asked(level: str) -> None:
    torch.manual_seed(0)
    layer = Linear(40, 7)
    plain, given = copy.deepcopy(layer), torch.randn(3, 5, 40)
    layer.rounded = True
    with using(level):
        assert torch.equal(layer(given), plain(given))
        with torch.no_grad():
            found, expected = layer(given), plain(given)
            assert 0 < float((found - expected).abs().max()) < 0.02
            layer.weight.mul_(2)
            torch.testing.assert_close(layer(given) - layer.bias, 2 * (found - layer.bias), rtol=1e-4, atol=1e-5)
            other = copy.deepcopy(layer)
            other.weight.zero_()
            assert torch.equal(other(given), other.bias.expand(3, 5, 7))


@needs_kernels
@torch.no_grad()
@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize(("longest", "count", "hidden"), SIZES)
def test_states_of_rounded_numbers_are_those_of_the_network(level: str, longest: int, count: int, hidden: int) -> None:
    torch.manual_seed(hidden)
    lstm = BiLSTM(6, hidden)
    vectors, index, mask = texts(longest, count, hidden)
    exact = lstm.read(vectors, index, mask)
    lstm.rounded = True
    with using("off"):
        expected = lstm.read(vectors, index, mask)
    with using(level):
        found = lstm.read(vectors, index, mask)
        alone = lstm.read(vectors, index[:1, : mask[0].sum()], mask[:1, : mask[0].sum()])
    # A last bit of a sum may round a state up or down, which is 1 in 256 of it.
    torch.testing.assert_close(found[mask], expected[mask], rtol=0.01, atol=0.002)
    torch.testing.assert_close(found[mask], exact[mask], rtol=0.05, atol=0.02)
    torch.testing.assert_close(found[0, : mask[0].sum()], alone[0], rtol=0, atol=0)
    assert not torch.equal(found[mask], exact[mask]) and not found[~mask].any()
