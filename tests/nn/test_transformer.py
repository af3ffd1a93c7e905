"""The blocks equal torch's own with the same weights; caches, shared memories and padding change nothing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from ensue.nn.attention import band
from ensue.nn.transformer import Attention, DecoderLayer, EncoderLayer, PackedRows, sinusoids

DIM, HEADS, WIDE = 12, 3, 20


def shaken(layer: nn.Module, seed: int = 0) -> None:
    """Weights that are all large enough to matter, in float64."""
    torch.manual_seed(seed)
    for parameter in layer.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    layer.eval()


def encoder() -> EncoderLayer:
    shaken(layer := EncoderLayer(DIM, HEADS, WIDE, 0.1))
    return layer


def decoder() -> DecoderLayer:
    shaken(layer := DecoderLayer(DIM, HEADS, WIDE, 0.1))
    return layer


def vectors(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, DIM, generator=generator, dtype=torch.float64)


def masks(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def attention_weights(attention: Attention, name: str) -> dict[str, Tensor]:
    """Under the names that torch gives them."""
    return {
        f"{name}.in_proj_weight": attention.inward.weight,
        f"{name}.in_proj_bias": attention.inward.bias,
        f"{name}.out_proj.weight": attention.outward.weight,
        f"{name}.out_proj.bias": attention.outward.bias,
    }


def other_weights(layer: EncoderLayer | DecoderLayer, *norms: nn.LayerNorm) -> dict[str, Tensor]:
    parts: dict[str, nn.Module] = {"linear1": layer.feed.wide, "linear2": layer.feed.narrow}
    parts |= {f"norm{number}": norm for number, norm in enumerate(norms, 1)}
    return {f"{name}.{field}": value for name, part in parts.items() for field, value in part.state_dict().items()}


def test_the_encoder_layer_equals_torchs() -> None:
    layer, mask = encoder(), masks(5, 2, 4)
    theirs = nn.TransformerEncoderLayer(DIM, HEADS, WIDE, dropout=0.0, batch_first=True).double().train()
    theirs.load_state_dict(
        attention_weights(layer.attention, "self_attn") | other_weights(layer, layer.attended, layer.fed)
    )
    items = vectors(3, 5)
    expected = theirs(items, src_key_padding_mask=~mask)
    found = layer(items[mask], PackedRows.of(mask), mask[:, None])
    torch.testing.assert_close(found, expected[mask], rtol=0, atol=1e-12)
    causal = band(5, reach=None, own=True)
    expected = theirs(items, src_mask=~causal)
    found = layer(items.flatten(0, 1), PackedRows(3, 5), causal[None])
    torch.testing.assert_close(found.view(3, 5, DIM), expected, rtol=0, atol=1e-12)


def test_the_decoder_layer_equals_torchs() -> None:
    layer, mask = decoder(), masks(6, 1, 3)
    theirs = nn.TransformerDecoderLayer(DIM, HEADS, WIDE, dropout=0.0, batch_first=True).double().train()
    weights = attention_weights(layer.own, "self_attn") | attention_weights(layer.other, "multihead_attn")
    theirs.load_state_dict(weights | other_weights(layer, layer.written, layer.read, layer.fed))
    items, source = vectors(3, 4), vectors(3, 6, seed=2)
    causal = band(4, reach=None, own=True)
    expected = theirs(items, source, tgt_mask=~causal, memory_key_padding_mask=~mask)
    memory = layer.other.keys_values(source[mask], PackedRows.of(mask))
    written = masks(4, 2, 3)
    found, _ = layer(items[written], PackedRows.of(written), memory, mask)
    torch.testing.assert_close(found, expected[written], rtol=0, atol=1e-12)


def remembered(layer: DecoderLayer, mask: Tensor) -> Tensor:
    return layer.other.keys_values(vectors(*mask.shape, seed=2)[mask], PackedRows.of(mask)).detach()


def run(layer: DecoderLayer, items: Tensor, *rest: Tensor | None, weigh: bool = False) -> tuple[Tensor, ...]:
    """Rows without padding."""
    found, weights = layer(items.flatten(0, 1), PackedRows(*items.shape[:2]), *rest, weigh=weigh)
    return found.view(items.shape), weights


def test_rows_that_share_a_memory_equal_rows_with_their_own() -> None:
    layer, mask, items = decoder(), masks(6, 3), vectors(8, 5)
    memory = remembered(layer, mask)
    shared, weights = run(layer, items, memory, mask, weigh=True)
    alone, same = run(layer, items, memory.repeat_interleave(4, 0), mask.repeat_interleave(4, 0), weigh=True)
    torch.testing.assert_close(shared, alone, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights, same, rtol=0, atol=1e-12)


def test_weights_are_shares_and_asking_for_them_changes_nothing() -> None:
    layer, mask, items = decoder(), masks(6, 1, 3), vectors(3, 5)
    memory = remembered(layer, mask)
    plain, none = run(layer, items, memory, mask)
    found, weights = run(layer, items, memory, mask, weigh=True)
    assert none is None
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 5, dtype=torch.float64))
    assert (weights.masked_select(~mask[:, None]) == 0).all()
    first, inner = encoder(), masks(5, 2, 4)
    packed, rows = items[inner], PackedRows.of(inner)
    expected = first(packed, rows, inner[:, None])
    torch.testing.assert_close(first.weigh(packed, rows, inner[:, None])[0], expected, rtol=0, atol=1e-12)


def test_a_row_that_may_attend_to_nothing_is_finite_and_gets_zeros() -> None:
    layer, mask, rows = decoder(), torch.tensor([[True, False], [False, False]]), PackedRows(2, 3)
    memory, items = remembered(layer, mask).requires_grad_(), vectors(2, 3)
    asking = layer.other.queries(items.flatten(0, 1), rows, 2)
    mixed = layer.other.mix(asking, memory, mask[:, None, None], rows)
    torch.testing.assert_close(mixed[3:], layer.other.outward.bias.expand(3, DIM))
    found, weights = run(layer, items, memory, mask, weigh=True)
    plain, *_ = run(layer, items, memory, mask)
    torch.testing.assert_close(plain, found, rtol=0, atol=1e-12)
    assert (weights[1] == 0).all()
    plain.sum().backward()  # type: ignore[no-untyped-call]
    assert memory.grad is not None and (memory.grad[1] == 0).all() and memory.grad.isfinite().all()


def test_padding_is_where_the_mask_says() -> None:
    mask = masks(2, 0, 3)
    items = vectors(5)
    padded = PackedRows.of(mask).pad(items)
    assert torch.equal(padded[mask], items) and (padded[~mask] == 0).all()
    assert torch.equal(PackedRows.of(mask).pack(padded), items)
    assert torch.equal(PackedRows(1, 5).pack(PackedRows(1, 5).pad(items)), items)


def test_gradients() -> None:
    shaken(layer := DecoderLayer(4, 2, 3, 0.0))
    mask, written = masks(3, 2), masks(1, 2)
    generator = torch.Generator().manual_seed(3)
    items, source = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (3, 5))

    def made(items: Tensor, source: Tensor) -> Tensor:
        memory = layer.other.keys_values(source, PackedRows.of(mask))
        found: Tensor = layer(items, PackedRows.of(written), memory, mask)[0]
        return found

    assert torch.autograd.gradcheck(made, [items.requires_grad_(), source.requires_grad_()])


def test_position_codes_by_hand() -> None:
    """Width 4: the pairs turn at 1 and at 1 / 10000^(2 / 4) = 1 / 100 a position."""
    codes = sinusoids(40, 4, torch.float64, torch.device("cpu"))
    for place in (0, 1, 39):
        expected = [math.sin(place), math.cos(place), math.sin(place / 100), math.cos(place / 100)]
        assert codes[place].tolist() == pytest.approx(expected, abs=1e-12)
    assert codes.shape == (40, 4)
    with torch.inference_mode():
        kept = sinusoids(300, 6, torch.float64, torch.device("cpu"))
    assert not kept.is_inference()
