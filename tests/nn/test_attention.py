"""The masked softmax, additive scores and the band, against torch and by hand."""

from functools import partial

import pytest
import torch
from torch import Tensor

from ensue.nn.attention import absolute_shares, additive_scores, band, masked_mean, masked_softmax


def bits(*rows: str) -> Tensor:
    return torch.tensor([[mark == "1" for mark in row] for row in rows])


def some(seed: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    scores = 5 * torch.randn(4, 6, 9, dtype=torch.float64)
    return scores, torch.rand(4, 6, 9) < 0.5


def test_equals_torch_on_the_visible_part() -> None:
    scores, mask = some(0)
    found = masked_softmax(scores, mask)
    for row, seen, weights in zip(scores.view(-1, 9), mask.view(-1, 9), found.view(-1, 9), strict=True):
        torch.testing.assert_close(weights[seen], row[seen].softmax(0), rtol=0, atol=1e-15)
        assert (weights[~seen] == 0).all()


def test_by_hand() -> None:
    # exp(0), exp(ln 2), exp(ln 5) are 1, 2, 5; without the middle one the shares are 1/6 and 5/6.
    scores = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()
    torch.testing.assert_close(
        masked_softmax(scores, torch.tensor([True, False, True])), torch.tensor([1 / 6, 0, 5 / 6], dtype=torch.float64)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_fully_masked_row_is_zero_with_zero_gradient(dtype: torch.dtype) -> None:
    scores = torch.tensor([[3.0, -1.0], [2.0, 7.0]], dtype=dtype, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False, False], [True, True]]))
    assert weights[0].tolist() == [0, 0]
    weights.square().sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None and torch.isfinite(scores.grad).all()
    assert scores.grad[0].tolist() == [0, 0]
    assert (scores.grad[1] != 0).all()


@pytest.mark.parametrize("junk", [1e30, -1e30, 0.0])
def test_what_is_under_the_mask_does_not_matter(junk: float) -> None:
    scores, mask = some(1)
    assert torch.equal(masked_softmax(scores.masked_fill(~mask, junk), mask), masked_softmax(scores, mask))


def test_large_scores_do_not_overflow() -> None:
    scores = torch.tensor([1e30, 1e30, 0.0])
    assert masked_softmax(scores, torch.tensor([True, True, True])).tolist() == [0.5, 0.5, 0.0]
    lowest = torch.tensor([-3e38, -3e38])
    assert masked_softmax(lowest, torch.tensor([True, False])).tolist() == [1.0, 0.0]


def test_gradcheck() -> None:
    scores, mask = some(2)
    mask[0, 0] = False
    assert torch.autograd.gradcheck(lambda x: masked_softmax(x, mask), scores[:1].requires_grad_(), fast_mode=False)


def test_masked_mean_by_hand() -> None:
    found = masked_mean(bits("110", "000", "111"), torch.float64)
    assert found.tolist() == [[0.5, 0.5, 0], [0, 0, 0], [1 / 3, 1 / 3, 1 / 3]]


@pytest.mark.parametrize(
    ("reach", "own", "rows"),
    [
        (None, True, ("1000", "1100", "1110", "1111")),
        (None, False, ("0000", "1000", "1100", "1110")),
        (2, True, ("1000", "1100", "0110", "0011")),
        (2, False, ("0000", "1000", "1100", "0110")),
        (1, True, ("1000", "0100", "0010", "0001")),
        (1, False, ("0000", "1000", "0100", "0010")),
        (0, False, ("0000", "0000", "0000", "0000")),
        (9, True, ("1000", "1100", "1110", "1111")),
        (9, False, ("0000", "1000", "1100", "1110")),
    ],
)
def test_band_by_hand(reach: int | None, own: bool, rows: tuple[str, ...]) -> None:
    assert torch.equal(band(4, reach=reach, own=own), bits(*rows))


def test_band_of_no_time() -> None:
    assert band(0, reach=None, own=True).shape == (0, 0)


def triple(time: int = 6) -> list[Tensor]:
    torch.manual_seed(3)
    return [torch.randn(2, time, 3).double(), torch.randn(2, time, 3).double(), torch.randn(3).double()]


@pytest.mark.parametrize("length", [1, 2, 6, 9])
def test_additive_scores_equal_the_whole_tensor(length: int) -> None:
    queries, keys, vector = triple()
    found = additive_scores(queries, keys, vector, length)
    for step in range(6):
        for event in range(6):
            expected = torch.sigmoid(queries[:, step] + keys[:, event]) @ vector
            if not step - length < event <= step:
                expected = torch.zeros(2).double()
            torch.testing.assert_close(found[:, step, event], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 9])
def test_gradients_of_additive_scores(length: int) -> None:
    inputs = [tensor.requires_grad_() for tensor in triple(4)]
    assert torch.autograd.gradcheck(partial(additive_scores, length=length), inputs)


def test_absolute_shares_by_hand() -> None:
    scores = torch.tensor([[[2.0, 9.0, 0.0], [-1.0, 3.0, 0.0], [0.0, 0.0, 0.0]]])
    shares = absolute_shares(scores, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(shares[0, 1], torch.tensor([0.25, 0.75, 0.0]))
    assert (shares[0, 2] == 0).all()


def test_nothing_is_kept_for_the_way_back_but_the_inputs() -> None:
    queries, keys, vector = inputs = [tensor.requires_grad_() for tensor in triple(4)]
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        additive_scores(queries, keys, vector, 4)
    assert [tensor.data_ptr() for tensor in kept] == [tensor.data_ptr() for tensor in inputs]
