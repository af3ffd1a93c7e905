"""A bidirectional LSTM without packing: torch's packed one is the oracle."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ensue.nn.recurrent import BiLSTM

LENGTHS = (7, 7, 4, 1)
DIM, HIDDEN = 3, 5


@pytest.fixture(params=[torch.float32, torch.float64])
def module(request: pytest.FixtureRequest) -> BiLSTM:
    torch.manual_seed(0)
    return BiLSTM(DIM, HIDDEN).to(request.param)


def packed(module: BiLSTM, items: Tensor) -> Tensor:
    """What torch makes of the same weights and packed rows; zeros at padding."""
    oracle = nn.LSTM(DIM, HIDDEN, batch_first=True, bidirectional=True).to(items.dtype)
    for name, value in module.forth.named_parameters():
        getattr(oracle, name).data = value.data
    for name, value in module.back.named_parameters():
        getattr(oracle, f"{name}_reverse").data = value.data
    return pad_packed_sequence(oracle(pack_padded_sequence(items, list(LENGTHS), batch_first=True))[0], True)[0]


def made_up(module: BiLSTM) -> tuple[Tensor, Tensor]:
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return torch.randn(*mask.shape, DIM, dtype=next(module.parameters()).dtype), mask


def test_it_reads_every_row_from_both_ends_like_packed_rows(module: BiLSTM) -> None:
    items, mask = made_up(module)
    found = module(items, mask) * mask[..., None]
    torch.testing.assert_close(found, packed(module, items))


def test_its_gradients_are_those_of_packed_rows(module: BiLSTM) -> None:
    items, mask = made_up(module)
    pull = torch.randn(*mask.shape, 2 * HIDDEN, dtype=items.dtype) * mask[..., None]
    found, expected = items.clone().requires_grad_(), items.clone().requires_grad_()
    (given,) = torch.autograd.grad((module(found, mask) * pull).sum(), found)
    (wanted,) = torch.autograd.grad((packed(module, expected) * pull).sum(), expected)
    torch.testing.assert_close(given, wanted)


def test_reading_distinct_items_gives_the_same_states(module: BiLSTM) -> None:
    _, mask = made_up(module)
    vectors = torch.randn(4, DIM, dtype=next(module.parameters()).dtype)
    index = torch.randint(4, mask.shape)
    expected = module(vectors[index], mask).detach()
    torch.testing.assert_close(module.read(vectors, index, mask)[mask], expected[mask])


def test_what_is_read_follows_the_weights(module: BiLSTM) -> None:
    _, mask = made_up(module)
    vectors, index = torch.randn(4, DIM, dtype=next(module.parameters()).dtype), torch.randint(4, mask.shape)
    weights = dict(module.named_parameters())

    def written_in_training() -> None:
        module.train()
        weights["forth.weight_ih_l0"].data.zero_()
        module.eval()

    module.eval()
    changes: list[Callable[[], object]] = [
        lambda: weights["back.weight_hh_l0"].mul_(2),
        lambda: setattr(weights["forth.bias_ih_l0"], "data", torch.ones_like(weights["forth.bias_ih_l0"])),
        lambda: module.load_state_dict({name: -value for name, value in module.state_dict().items()}),
        written_in_training,
    ]
    with torch.no_grad():
        for change in changes:
            before = module.read(vectors, index, mask)[mask]
            torch.testing.assert_close(module.read(vectors, index, mask)[mask], before, rtol=0, atol=0)
            change()
            found = module.read(vectors, index, mask)[mask]
            torch.testing.assert_close(found, module(vectors[index], mask)[mask])
            assert not torch.allclose(found, before)


def test_padding_is_invisible(module: BiLSTM) -> None:
    items, mask = made_up(module)
    changed = items.masked_fill(~mask[..., None], 1e3)
    assert torch.equal(module(items, mask)[mask], module(changed, mask)[mask])
    vectors = torch.randn(6, DIM, dtype=items.dtype)
    index = torch.randint(5, mask.shape)
    other = index.masked_fill(~mask, 5)
    assert torch.equal(module.read(vectors, index, mask)[mask], module.read(vectors, other, mask)[mask])
